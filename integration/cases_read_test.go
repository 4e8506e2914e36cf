package integration

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/internal/faultproxy"
	"github.com/s3log/s3log/localstack"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
)

// wide makes a log whose first segment is so large that it is read by ranges
// where only its end is wanted.
func wide(t *testing.T, r *rig, id string) backend.Info {
	t.Helper()
	l := mustCreate(t, r.direct, id, foreground)
	mustAppend(t, l, notes(t, 0, 2000)...)
	mustAppend(t, l, note(0))
	info, err := backend.NewReader(r.direct, quick).Info(t.Context(), id)
	if err != nil || len(info.Segments) != 1 || info.Segments[0].Bytes < 300<<10 {
		t.Fatalf("%+v, %v", info.Segments, err)
	}
	return info
}

func read(t *testing.T, store objstore.Reader, id string, from int64) ([]string, error) {
	t.Helper()
	return lines(backend.NewReader(store, quick).Events(t.Context(), id, backend.ReadOptions{From: from}))
}

// onlyReads checks that nothing but reads was sent.
func onlyReads(t *testing.T, e faultproxy.Entries) {
	t.Helper()
	for op, n := range e.Counts() {
		if op != faultproxy.Get && op != faultproxy.Head {
			t.Errorf("%d × %s", n, op)
		}
	}
}

// named checks that an error is about one object, from one seq on.
func named(t *testing.T, err error, key string, seq int64) {
	t.Helper()
	oe, ok := errors.AsType[*backend.OpError](err)
	if !ok || !strings.Contains(err.Error(), key) || oe.Seq != seq {
		t.Errorf("%v does not name %s and seq %d", err, key, seq)
	}
}

// ETags that are no MD5 of anything.
func TestA08AnyETag(t *testing.T) {
	r := newRig(t)
	want, _ := grown(t, r.direct, "log")
	for _, tag := range []string{`"0f1e2d3c4b5a69788796a5b4c3d2e1f0-2"`, `"00112233445566778899aabbccddeeff"`} {
		r.proxy.Reset()
		r.proxy.Add(faultproxy.Rule{Times: -1, Fault: faultproxy.ETag(func(string) string { return tag })})
		if got, err := read(t, r.store, "log", 0); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %d events, %v", tag, len(got), err)
		}
	}
}

// the bucket is in another region, and the redirect says only which.
func TestA13WrongRegion(t *testing.T) {
	r := newRig(t)
	mustAppend(t, mustCreate(t, r.direct, "log", quick), note(0))
	r.proxy.Add(faultproxy.Rule{Times: -1, Fault: faultproxy.Redirect("eu-x")})
	_, rerr := backend.NewReader(r.store, quick).Info(t.Context(), "log")
	_, werr := mustCreate(t, r.store, "other", quick).Append(t.Context(), [][]byte{note(0)}, backend.AppendOptions{})
	for what, err := range map[string]error{"read": rerr, "write": werr} {
		if !errors.Is(err, objstore.ErrRefused) || errors.Is(err, backend.ErrNotFound) || errors.Is(err, backend.ErrOutcomeUnknown) || !strings.Contains(hintOf(err), "region=eu-x") {
			t.Errorf("%s: %v, hint %q", what, err, hintOf(err))
		}
	}
}

// without the right to list, absence is answered 403. It is not taken for
// absence, nor for an empty log.
func TestA14DeniedOrAbsent(t *testing.T) {
	r := newRig(t)
	want, info := grown(t, r.direct, "log")
	r.proxy.Add(faultproxy.Rule{Times: -1, Fault: faultproxy.DenyAbsent()})
	b := backend.New(r.store, quick)

	_, ierr := b.Info(t.Context(), "absent")
	_, rerr := read(t, r.store, "absent", 0)
	_, aerr := b.Adopt(t.Context(), "absent", backend.AdoptOptions{})
	_, merr := b.Import(t.Context(), "absent", func(yield func([]byte, error) bool) { yield(note(0), nil) }, backend.ImportOptions{})
	for what, err := range map[string]error{"info": ierr, "read": rerr, "adopt": aerr, "import": merr} {
		if !errors.Is(err, backend.ErrDenied) || errors.Is(err, backend.ErrNotFound) || !strings.Contains(hintOf(err), "not exist") {
			t.Errorf("%s: %v, hint %q", what, err, hintOf(err))
		}
	}
	onlyReads(t, r.proxy.Take())

	// What is there can be read; a segment that is not there may also be denied.
	if got, err := read(t, r.store, "log", 0); err != nil || !slices.Equal(got, want) {
		t.Errorf("%d events, %v", len(got), err)
	}
	key := manifest.SegmentKey("log", info.Segments[1].Name)
	if err := r.direct.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	got, err := read(t, r.store, "log", 0)
	if !errors.Is(err, backend.ErrDenied) || errors.Is(err, backend.ErrMissing) || !strings.Contains(hintOf(err), "missing") || len(got) != int(info.Segments[1].Name.First) {
		t.Errorf("%d events, %v, hint %q", len(got), err, hintOf(err))
	}
	named(t, err, key, info.Segments[1].Name.First)

	// A create asks the store, not the reply to a read.
	l, err := b.Create("new", backend.CreateOptions{OrAdopt: true})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, note(0))
	holds(t, r.direct, "new", 0)
	if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
		t.Error(err)
	}
}

// a segment may be read but not decrypted. That is neither damage nor
// loss, and nothing is written because of it.
func TestA15KMSDeniedOnASegment(t *testing.T) {
	r := newRig(t)
	want, info := grown(t, r.direct, "log")
	second := info.Segments[1].Name
	for name, message := range map[string]string{
		"told":     "User: u is not authorized to perform: kms:Decrypt on the resource associated with this ciphertext",
		"not told": "Access Denied",
	} {
		r.proxy.Reset()
		r.proxy.Add(faultproxy.Rule{Op: faultproxy.Get, Key: second.String(), Times: -1, Fault: faultproxy.Refuse(403, "AccessDenied", message)})
		got, err := read(t, r.store, "log", 0)
		if !errors.Is(err, backend.ErrDenied) || errors.Is(err, backend.ErrCorrupt) || errors.Is(err, backend.ErrMissing) || !strings.Contains(hintOf(err), "decrypt") {
			t.Errorf("%s: %v, hint %q", name, err, hintOf(err))
		}
		named(t, err, manifest.SegmentKey("log", second), second.First)
		if !slices.Equal(got, want[:second.First]) {
			t.Errorf("%d events before it", len(got))
		}
	}
	onlyReads(t, r.proxy.Take())
}

// ids with characters that somebody on the way might change.
func TestA20SpecialIDs(t *testing.T) {
	r := newRig(t)
	ids := []string{"a b", "a+b", "a%2Bb", "a%b", "é", "e\u0301", "x//y", "/x", "x/", "a&b=c", "日本", "..", ".", "A b", strings.Repeat("長", 300)}
	for i, id := range ids {
		mustAppend(t, mustCreate(t, r.store, id, quick), note(i))
	}
	var listed []string
	for e, err := range backend.NewReader(r.store, quick).List(t.Context(), backend.ListOptions{}) {
		if err != nil || e.Err != nil || e.Next != 1 {
			t.Fatalf("%+v, %v", e, err)
		}
		listed = append(listed, e.Log)
	}
	slices.Sort(listed)
	if want := slices.Sorted(slices.Values(ids)); !slices.Equal(listed, want) {
		t.Errorf("listed %q,\nwant   %q", listed, want)
	}
	for i, id := range ids {
		holds(t, r.store, id, i)
	}
}

// a store that gives the same page again and again.
func TestA21ListThatNeverAdvances(t *testing.T) {
	r := newRig(t)
	page := fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>%s</Name><Prefix>logs/manifests/</Prefix><KeyCount>1</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>true</IsTruncated><NextContinuationToken>T</NextContinuationToken><Contents><Key>logs/manifests/log.json</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"e"</ETag><Size>1</Size></Contents></ListBucketResult>`, r.bucket)
	r.proxy.Add(faultproxy.Rule{Op: faultproxy.List, Times: -1, Fault: func(x *faultproxy.Exchange) {
		x.Answer(&faultproxy.Reply{Status: 200, Header: http.Header{"Content-Type": {"application/xml"}}, Body: []byte(page)})
	}})
	entries, failed := 0, error(nil)
	for _, err := range backend.NewReader(r.store, quick).List(t.Context(), backend.ListOptions{}) {
		if failed = err; err == nil {
			entries++
		}
	}
	if failed == nil || entries != 0 {
		t.Errorf("%d entries, %v", entries, failed)
	}
	if n := r.proxy.Take().Counts()[faultproxy.List]; n > 3 {
		t.Errorf("%d LIST", n)
	}
}

// a body is shorter than announced. It is fetched again; if that does not
// help, it is the connection's fault, not the log's.
func TestA22ShortBodies(t *testing.T) {
	r := newRig(t)
	want, info := grown(t, r.direct, "log")
	keys := map[string]string{"manifest": "manifests/log.json", "segment": info.Segments[0].Name.String()}
	for name, key := range keys {
		t.Run(name, func(t *testing.T) {
			r.proxy.Reset()
			r.proxy.Take()
			r.proxy.Add(faultproxy.Rule{Op: faultproxy.Get, Key: key, Times: 2, Fault: faultproxy.CutReply(50)})
			if got, err := read(t, r.store, "log", 0); err != nil || !slices.Equal(got, want) {
				t.Errorf("cut twice: %d events, %v", len(got), err)
			}
			if n := len(r.proxy.Take().Of(faultproxy.Get, key)); n != 3 {
				t.Errorf("%d GETs", n)
			}
			r.proxy.Add(faultproxy.Rule{Op: faultproxy.Get, Key: key, Times: -1, Fault: faultproxy.CutReply(50)})
			got, err := read(t, r.store, "log", 0)
			if !errors.Is(err, objstore.ErrUndecided) || errors.Is(err, backend.ErrCorrupt) || errors.Is(err, backend.ErrMissing) || len(got) != 0 {
				t.Errorf("cut always: %d events, %v", len(got), err)
			}
			_, err = backend.New(r.store, quick).Adopt(t.Context(), "log", backend.AdoptOptions{})
			if name == "manifest" && !errors.Is(err, objstore.ErrUndecided) {
				t.Errorf("adopt: %v", err)
			}
			onlyReads(t, r.proxy.Take())
		})
	}
}

// an object of 0 bytes, of which no range can be had.
func TestA24EmptySegment(t *testing.T) {
	r := newRig(t)
	info := wide(t, r, "log")
	seg := info.Segments[0]
	key := manifest.SegmentKey("log", seg.Name)
	empty(t, r, key)
	for _, from := range []int64{0, 1999} { // whole, and by ranges
		got, err := read(t, r.store, "log", from)
		if !errors.Is(err, backend.ErrCorrupt) || len(got) != 0 {
			t.Errorf("from %d: %d events, %v", from, len(got), err)
		}
		named(t, err, key, 0)
		if from == 0 && !strings.Contains(err.Error(), fmt.Sprintf("the object has 0 bytes, the manifest says %d", seg.Bytes)) {
			t.Errorf("%v does not tell both sizes", err)
		}
	}
	if n := r.proxy.Take().Counts()[faultproxy.Get]; n > 6 {
		t.Errorf("%d GETs", n)
	}
}

// empty replaces an object by nothing.
func empty(t *testing.T, r *rig, key string) {
	t.Helper()
	key = "logs/" + key
	if _, err := r.Client(t).PutObject(t.Context(), &s3.PutObjectInput{Bucket: &r.bucket, Key: &key, Body: bytes.NewReader(nil)}); err != nil {
		t.Fatal(err)
	}
}

// a segment that the manifest names is not there. The log says which
// events are concerned; other logs are as they were.
func TestA27MissingSegment(t *testing.T) {
	r := newRig(t)
	want, info := grown(t, r.direct, "log")
	mustAppend(t, mustCreate(t, r.direct, "other", quick), note(0))
	second := info.Segments[1]
	key := manifest.SegmentKey("log", second.Name)
	if err := r.direct.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	got, err := read(t, r.store, "log", 0)
	if !errors.Is(err, backend.ErrMissing) || errors.Is(err, backend.ErrNotFound) || errors.Is(err, backend.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	named(t, err, key, second.Name.First)
	if span := fmt.Sprintf("seqs %d to %d", second.Name.First, second.Name.First+second.Count-1); !strings.Contains(err.Error(), span) {
		t.Errorf("%v does not say %s", err, span)
	}
	if !slices.Equal(got, want[:second.Name.First]) {
		t.Errorf("%d events before the hole", len(got))
	}
	onlyReads(t, r.proxy.Take())
	// Behind the hole everything is there.
	behind := second.Name.First + second.Count
	if got, err := read(t, r.store, "log", behind); err != nil || !slices.Equal(got, want[behind:]) {
		t.Errorf("behind it: %d events, %v", len(got), err)
	}
	var logs []string
	for e, err := range backend.NewReader(r.store, quick).List(t.Context(), backend.ListOptions{By: backend.ByName}) {
		if err != nil || e.Err != nil {
			t.Fatalf("%+v, %v", e, err)
		}
		logs = append(logs, e.Log)
	}
	if !slices.Equal(logs, []string{"log", "other"}) {
		t.Errorf("listed %q", logs)
	}
	holds(t, r.store, "other", 0)
}

// a reader that polls, with the right to get objects and no other.
func TestA30ReaderWritesNothing(t *testing.T) {
	r := newRig(t)
	grown(t, r.direct, "log")
	mustAppend(t, mustAdopt(t, r.direct, "log", quick), []byte(`{"type":"compaction/start","data":{}}`))
	want := checkedRead(t, backend.NewReader(r.direct, quick), "log")
	id, ok := r.ReadOnly(t, r.bucket)
	if !ok {
		t.Fatalf("%s has no read-only user: unset %s", r.Endpoint, localstack.EnvEndpoint)
	}
	store := openS3(t, r.proxy.URL, r.bucket, id.AccessKey, id.SecretKey)
	if _, err := mustAdopt(t, store, "log", quick).Append(t.Context(), [][]byte{note(0)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrDenied) {
		t.Fatalf("these keys may write: %v", err)
	}
	r.proxy.Take()

	reader := backend.NewReader(store, backend.Options{PollInterval: time.Millisecond})
	for range 100 {
		if _, err := reader.Info(t.Context(), "log"); err != nil {
			t.Fatal(err)
		}
		c, err := reader.Check(t.Context(), "log", backend.Pair{Open: "compaction/start", Close: "compaction/end"}, backend.CheckOptions{})
		if err != nil || c.Answer != seedpath.Live {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	if got, err := read(t, store, "log", 0); err != nil || !slices.Equal(got, want) {
		t.Errorf("%d events, %v", len(got), err)
	}
	if rep, err := reader.Verify(t.Context(), "log", backend.VerifyOptions{}); err != nil || !rep.OK() {
		t.Errorf("%+v, %v", rep, err)
	}
	onlyReads(t, r.proxy.Take())
	n, polls := 0, 0
	var writer sync.WaitGroup
	defer writer.Wait()
	for _, err := range reader.Follow(t.Context(), "log", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == len(want) {
			// The next poll finds nothing for a while.
			writer.Go(func() {
				for polls < 100 {
					for _, e := range r.proxy.Take() {
						if e.Op != faultproxy.Get {
							t.Errorf("%s %s", e.Op, e.Key)
						}
						if e.Status == 304 {
							polls++
						}
					}
					time.Sleep(5 * time.Millisecond)
				}
				if l, err := backend.New(r.direct, quick).Adopt(t.Context(), "log", backend.AdoptOptions{}); err != nil {
					t.Error(err)
				} else if _, err := l.Append(t.Context(), [][]byte{note(9)}, backend.AppendOptions{}); err != nil {
					t.Error(err)
				} else if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
		if n == len(want)+1 {
			break
		}
	}
	onlyReads(t, r.proxy.Take())
}
