package objstoretest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend/objstore"
)

func (s *suite) roundTrip() {
	body := make([]byte, 1<<16)
	for i := range body {
		body[i] = byte(i * 7) // every byte value, zeros and line ends included
	}
	put, err := s.store.Put(s.Context(), s.dir+"k", body, objstore.IfAbsent(), objstore.PutOptions{ContentType: "application/json"})
	if err != nil {
		s.Fatal(err)
	}
	if put.Key != s.dir+"k" || put.Size != int64(len(body)) {
		s.Errorf("put: key %q, size %d", put.Key, put.Size)
	}
	o := s.mustGet("k")
	if !bytes.Equal(o.Body, body) {
		s.Error("the body that comes back is another one")
	}
	if o.Key != s.dir+"k" || o.Size != int64(len(body)) {
		s.Errorf("get: key %q, size %d", o.Key, o.Size)
	}
	if !put.Version.IsZero() && put.Version != o.Version {
		s.Errorf("version %v written, %v read", put.Version, o.Version)
	}
	if again := s.mustGet("k"); again.Version != o.Version {
		s.Errorf("two reads, two versions: %v, %v", o.Version, again.Version)
	}
	if o.Modified.IsZero() {
		s.Error("get: no modification time")
	}
	// The store's clock may be wrong, but then both times are.
	if !o.Date.IsZero() && o.Modified.Sub(o.Date) > time.Second {
		s.Errorf("modified at %v, read at %v", o.Modified, o.Date)
	}
}

func (s *suite) ifAbsent() {
	v := s.mustCreate("k", "first")
	for _, body := range []string{"second", "first"} { // identical bytes make no difference
		_, err := s.put("k", body, objstore.IfAbsent())
		s.want("create where an object is", err, objstore.ErrPrecondition)
		if objstore.Classify(err) != objstore.Precondition {
			s.Errorf("class %v", objstore.Classify(err))
		}
	}
	if o := s.mustGet("k"); string(o.Body) != "first" || o.Version != v {
		s.Errorf("after refused creates: %q, version %v; want first, %v", o.Body, o.Version, v)
	}
}

func (s *suite) ifVersion() {
	v1 := s.mustCreate("k", "one")
	info, err := s.put("k", "two", objstore.IfVersion(v1))
	if err != nil {
		s.Fatalf("with the current version: %v", err)
	}
	two := s.mustGet("k")
	if string(two.Body) != "two" || two.Version == v1 || !info.Version.IsZero() && info.Version != two.Version {
		s.Errorf("%q, version %v after %v; the reply said %v", two.Body, two.Version, v1, info.Version)
	}
	_, err = s.put("k", "three", objstore.IfVersion(v1))
	s.want("with an old version", err, objstore.ErrPrecondition)
	_, err = s.put("k", "two", objstore.IfVersion(v1))
	s.want("with an old version and the bytes that are there", err, objstore.ErrPrecondition)
	other := s.mustCreate("other", "other")
	_, err = s.put("k", "three", objstore.IfVersion(other))
	s.want("with another object's version", err, objstore.ErrPrecondition)
	if o := s.mustGet("k"); string(o.Body) != "two" || o.Version != two.Version {
		s.Errorf("%q, version %v after failed writes", o.Body, o.Version)
	}
}

func (s *suite) ifVersionGone() {
	v := s.mustCreate("other", "x")
	_, err := s.put("k", "y", objstore.IfVersion(v))
	s.want("a version where nothing ever was", err, objstore.ErrGone, objstore.ErrPrecondition)
	v = s.mustCreate("k", "x")
	if err := s.store.Delete(s.Context(), s.dir+"k"); err != nil {
		s.Fatal(err)
	}
	_, err = s.put("k", "y", objstore.IfVersion(v))
	s.want("the version of what was deleted", err, objstore.ErrGone, objstore.ErrPrecondition)
	if keys := s.list("k", ""); len(keys) != 0 {
		s.Errorf("%q are there after failed writes", keys)
	}
}

func (s *suite) invalidCondition() {
	s.mustCreate("there", "x")
	for _, key := range []string{"there", "absent"} {
		for _, c := range []objstore.Condition{{}, objstore.IfVersion(objstore.Version{})} {
			_, err := s.put(key, "y", c)
			s.wellFormed("put without a condition", err)
			if class := objstore.Classify(err); class != objstore.NotApplied && class != objstore.Refused {
				s.Errorf("put without a condition: %v, class %v", err, class)
			}
		}
	}
	if o := s.mustGet("there"); string(o.Body) != "x" {
		s.Errorf("overwritten with %q", o.Body)
	}
	if keys := s.list("absent", ""); len(keys) != 0 {
		s.Errorf("created %q", keys)
	}
}

func (s *suite) notExist() {
	_, err := s.get("k", objstore.GetOptions{})
	s.want("get", err, objstore.ErrNotExist)
	_, err = s.get("k", objstore.GetOptions{Offset: 1, Length: 1})
	s.want("ranged get", err, objstore.ErrNotExist)
	_, err = s.store.Head(s.Context(), s.dir+"k")
	s.want("head", err, objstore.ErrNotExist)
	s.mustCreate("folder/k", "x")
	_, err = s.get("folder", objstore.GetOptions{})
	s.want("get of what is only the beginning of a key", err, objstore.ErrNotExist)
	_, err = s.store.Head(s.Context(), s.dir+"folder")
	s.want("head of what is only the beginning of a key", err, objstore.ErrNotExist)
}

func (s *suite) ranges() {
	const body = "0123456789"
	v := s.mustCreate("k", body)
	for _, tc := range []struct {
		offset, length int64
		want           string
	}{
		{0, 1, "0"}, {0, 10, body}, {0, 11, body}, {3, 4, "3456"}, {9, 1, "9"}, {9, 100, "9"}, {5, 5, "56789"}, {4, 1 << 40, "456789"},
	} {
		o, err := s.get("k", objstore.GetOptions{Offset: tc.offset, Length: tc.length})
		if err != nil || string(o.Body) != tc.want {
			s.Errorf("%d+%d: %q, %v; want %q", tc.offset, tc.length, o.Body, err, tc.want)
		}
		if o.Size != int64(len(body)) {
			s.Errorf("%d+%d: size %d, want that of the whole object", tc.offset, tc.length, o.Size)
		}
		if !o.Version.IsZero() && o.Version != v {
			s.Errorf("%d+%d: version %v, want %v", tc.offset, tc.length, o.Version, v)
		}
	}
	for _, offset := range []int64{10, 11, 1 << 40} {
		_, err := s.get("k", objstore.GetOptions{Offset: offset, Length: 1})
		s.want("a range beyond the end", err, objstore.ErrRange)
	}
}

func (s *suite) ifNot() {
	v1 := s.mustCreate("k", "one")
	_, err := s.get("k", objstore.GetOptions{IfNot: v1})
	s.want("unless it has the version that it has", err, objstore.ErrNotModified)
	if _, err = s.put("k", "two", objstore.IfVersion(v1)); err != nil {
		s.Fatal(err)
	}
	o, err := s.get("k", objstore.GetOptions{IfNot: v1})
	if err != nil || string(o.Body) != "two" {
		s.Errorf("unless it has an old version: %q, %v", o.Body, err)
	}
	_, err = s.get("none", objstore.GetOptions{IfNot: v1})
	s.want("unless, of nothing", err, objstore.ErrNotExist)
}

func (s *suite) limit() {
	v := s.mustCreate("k", "0123456789")
	for _, tc := range []struct {
		opt  objstore.GetOptions
		want error
	}{
		{objstore.GetOptions{Limit: 10}, nil},
		{objstore.GetOptions{Limit: 11}, nil},
		{objstore.GetOptions{Limit: 9}, objstore.ErrTooLarge},
		{objstore.GetOptions{Limit: 5, Offset: 5, Length: 5}, nil},
		{objstore.GetOptions{Limit: 5, Offset: 5, Length: 100}, nil},
		{objstore.GetOptions{Limit: 4, Offset: 5, Length: 5}, objstore.ErrTooLarge},
		{objstore.GetOptions{Limit: 1, IfNot: v}, objstore.ErrNotModified},
	} {
		o, err := s.get("k", tc.opt)
		switch {
		case tc.want != nil:
			s.want("get with a limit", err, tc.want)
			if len(o.Body) > 0 {
				s.Errorf("%+v: %d bytes beside the error", tc.opt, len(o.Body))
			}
		case err != nil:
			s.Errorf("%+v: %v", tc.opt, err)
		}
	}
}

func (s *suite) head() {
	s.mustCreate("k", "0123456789")
	o := s.mustGet("k")
	info, err := s.store.Head(s.Context(), s.dir+"k")
	if err != nil {
		s.Fatal(err)
	}
	info.Date, o.Date = time.Time{}, time.Time{}
	if diff := cmp.Diff(o.Info, info, cmp.Comparer(sameInfo)); diff != "" {
		s.Errorf("head and get differ (-get +head):\n%s", diff)
	}
}

// sameInfo leaves out Date.
func sameInfo(a, b objstore.Info) bool {
	return a.Key == b.Key && a.Size == b.Size && a.Version == b.Version && a.Modified.Equal(b.Modified) && cmp.Equal(a.Metadata, b.Metadata)
}

func (s *suite) delete() {
	s.mustCreate("k", "x")
	s.mustCreate("k2", "x")
	for range 2 {
		if err := s.store.Delete(s.Context(), s.dir+"k"); err != nil {
			s.Fatalf("delete: %v", err)
		}
		_, err := s.get("k", objstore.GetOptions{})
		s.want("get after delete", err, objstore.ErrNotExist)
	}
	if err := s.store.Delete(s.Context(), s.dir+"never/was/there"); err != nil {
		s.Errorf("delete of nothing: %v", err)
	}
	if diff := cmp.Diff([]string{"k2"}, s.list("", "")); diff != "" {
		s.Errorf("list after delete (-want +got):\n%s", diff)
	}
	s.mustCreate("k", "again")
	if o := s.mustGet("k"); string(o.Body) != "again" {
		s.Errorf("created again: %q", o.Body)
	}
}

// specialKeys are plain ASCII that some client, proxy or file system may take
// for something else.
func (s *suite) specialKeys() {
	keys := []string{
		"manifests/=2Fetc=2Fpasswd.json", "=", "==", "a=b", "a..b", "..a", "a..", "=2E", "=2e", ".hidden/k", "d/.k",
		"-", "--help", "_", "%", "%2F", "a%2Fb", "a%20b", "%25", "+", "a+b", "~", "(a)[b]{c}$HOME", "a;b,c@d!e'f&g",
		strings.Repeat("x", 200), "deep/" + strings.Repeat("d/", 60) + "k",
	}
	for _, key := range keys {
		if _, err := s.put(key, key, objstore.IfAbsent()); err != nil {
			s.Errorf("create %q: %v", key, err)
		}
	}
	for _, key := range keys {
		if o, err := s.get(key, objstore.GetOptions{}); err != nil || string(o.Body) != key {
			s.Errorf("get %q: %q, %v", key, o.Body, err)
		}
		if !slices.Contains(s.list(key, ""), key) {
			s.Errorf("%q is not in the list of what begins with it", key)
		}
	}
	if got := s.list("", ""); len(got) != len(keys) {
		s.Errorf("%d objects of %d listed: %q", len(got), len(keys), got)
	}
	for _, key := range keys {
		if err := s.store.Delete(s.Context(), s.dir+key); err != nil {
			s.Errorf("delete %q: %v", key, err)
		}
	}
	if got := s.list("", ""); len(got) != 0 {
		s.Errorf("%q are left", got)
	}
}

func (s *suite) metadata() {
	meta := map[string]string{"s3log-commit": "0190a1b2-0000-7000-8000-00000000000a", "s3log-next": "12", "s3log-state": "open"}
	if _, err := s.store.Put(s.Context(), s.dir+"k", []byte("x"), objstore.IfAbsent(), objstore.PutOptions{Metadata: meta}); err != nil {
		s.Fatal(err) // also a store that keeps none must take it
	}
	if !s.opt.Metadata {
		return
	}
	o := s.mustGet("k")
	info, err := s.store.Head(s.Context(), s.dir+"k")
	if err != nil {
		s.Fatal(err)
	}
	for what, got := range map[string]map[string]string{"get": o.Metadata, "head": info.Metadata} {
		if diff := cmp.Diff(meta, got); diff != "" {
			s.Errorf("%s: metadata (-want +got):\n%s", what, diff)
		}
	}
	meta = map[string]string{"s3log-next": "13"}
	if _, err := s.store.Put(s.Context(), s.dir+"k", []byte("y"), objstore.IfVersion(o.Version), objstore.PutOptions{Metadata: meta}); err != nil {
		s.Fatal(err)
	}
	if diff := cmp.Diff(meta, s.mustGet("k").Metadata); diff != "" {
		s.Errorf("metadata is not replaced with the body (-want +got):\n%s", diff)
	}
}

// bodyNotShared: a caller may use its buffers again after a Put, and change
// what a Get gave it.
func (s *suite) bodyNotShared() {
	body := []byte("body")
	if _, err := s.store.Put(s.Context(), s.dir+"k", body, objstore.IfAbsent(), objstore.PutOptions{}); err != nil {
		s.Fatal(err)
	}
	body[0] = 'X'
	for range 2 {
		o := s.mustGet("k")
		if string(o.Body) != "body" {
			s.Fatalf("got %q", o.Body)
		}
		o.Body[0] = 'Y'
	}
}

func (s *suite) largeObject() {
	body := make([]byte, s.opt.LargeSize)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range body {
		body[i] = byte(random.Uint32())
	}
	if _, err := s.store.Put(s.Context(), s.dir+"k", body, objstore.IfAbsent(), objstore.PutOptions{}); err != nil {
		s.Fatal(err)
	}
	if o := s.mustGet("k"); !bytes.Equal(o.Body, body) {
		s.Error("the large body that comes back is another one")
	}
	const tail = 64 << 10
	offset := max(0, len(body)-tail)
	o, err := s.get("k", objstore.GetOptions{Offset: int64(offset), Length: tail, Limit: tail})
	if err != nil || !bytes.Equal(o.Body, body[offset:]) || o.Size != int64(len(body)) {
		s.Errorf("the last %d bytes: %d bytes, size %d, %v", tail, len(o.Body), o.Size, err)
	}
}

func (s *suite) copy() {
	c, ok := s.store.(objstore.Copier)
	if !ok {
		s.Skip("the store cannot copy")
	}
	s.mustCreate("src", "source")
	info, err := c.Copy(s.Context(), s.dir+"src", s.dir+"d/dst")
	s.wellFormed("copy", err)
	if objstore.Classify(err) == objstore.Refused {
		s.Skipf("the store does not copy: %v", err)
	}
	if err != nil {
		s.Fatal(err)
	}
	o := s.mustGet("d/dst")
	if string(o.Body) != "source" {
		s.Errorf("copied %q", o.Body)
	}
	if info.Key != s.dir+"d/dst" || info.Size != 6 || !info.Version.IsZero() && info.Version != o.Version {
		s.Errorf("reply %+v, read %+v", info, o.Info)
	}
	s.mustCreate("taken", "taken")
	_, err = c.Copy(s.Context(), s.dir+"src", s.dir+"taken")
	s.want("copy where an object is", err, objstore.ErrPrecondition)
	_, err = c.Copy(s.Context(), s.dir+"none", s.dir+"new")
	s.want("copy of nothing", err, objstore.ErrNotExist)
	if err := s.store.Delete(s.Context(), s.dir+"src"); err != nil {
		s.Fatal(err)
	}
	if o := s.mustGet("d/dst"); string(o.Body) != "source" {
		s.Errorf("without its source the copy is %q", o.Body)
	}
	if diff := cmp.Diff([]string{"d/dst", "taken"}, s.list("", "")); diff != "" {
		s.Errorf("objects (-want +got):\n%s", diff)
	}
}

func (s *suite) cancelled() {
	v := s.mustCreate("k", "x")
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	check := func(what string, err error) {
		s.Helper()
		s.want(what+" with a cancelled context", err, context.Canceled, objstore.ErrUndecided)
	}
	_, err := s.store.Get(ctx, s.dir+"k", objstore.GetOptions{})
	check("get", err)
	_, err = s.store.Head(ctx, s.dir+"k")
	check("head", err)
	_, err = s.store.Put(ctx, s.dir+"k", []byte("y"), objstore.IfVersion(v), objstore.PutOptions{})
	check("put", err)
	check("delete", s.store.Delete(ctx, s.dir+"k"))
	for info, e := range s.store.List(ctx, s.dir, "") {
		if err = e; e == nil {
			s.Errorf("list with a cancelled context yields %q", info.Key)
		}
	}
	check("list", err)
	// Nothing had been sent, so nothing may have happened.
	if o := s.mustGet("k"); string(o.Body) != "x" {
		s.Errorf("%q after cancelled calls", o.Body)
	}
}
