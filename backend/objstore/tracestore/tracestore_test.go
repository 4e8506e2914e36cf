package tracestore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
)

// session does one call of each kind and each interesting outcome.
func session(t *testing.T, s *tracestore.Store) {
	t.Helper()
	ctx := t.Context()
	const man = "manifests/a.json"
	const seg = "segments/a/0000000000000000-00000001-0123456789012345.jsonl.zst"
	const copied = "segments/b/0000000000000000-00000001-0123456789012345.jsonl.zst"
	put := func(key, body string, c objstore.Condition) objstore.Version {
		info, _ := s.Put(ctx, key, []byte(body), c, objstore.PutOptions{})
		return info.Version
	}
	v1 := put(man, "one", objstore.IfAbsent())
	v2 := put(man, "two!", objstore.IfVersion(v1))
	put(man, "three", objstore.IfVersion(v1))
	put("manifests/0190a1b2-0000-7000-8000-00000000000a.json", "x", objstore.IfVersion(v2))
	put(seg, "segment", objstore.IfAbsent())
	put("probe/0123456789abcdef", "p", objstore.IfAbsent())
	s.Get(ctx, man, objstore.GetOptions{})
	s.Get(ctx, man, objstore.GetOptions{IfNot: v2})
	s.Get(ctx, man, objstore.GetOptions{IfNot: v1, Limit: 2})
	s.Get(ctx, seg, objstore.GetOptions{Offset: 3, Length: 100})
	s.Get(ctx, seg, objstore.GetOptions{Offset: 30, Length: 100})
	s.Head(ctx, seg)
	s.Head(ctx, "nothing")
	s.Copy(ctx, seg, copied)
	s.Delete(ctx, copied)
	for range s.List(ctx, "segments/", "") {
	}
	for range s.List(ctx, "", "manifests/0190a1b2-0000-7000-8000-00000000000a.json") {
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	for range s.List(cancelled, "", "") {
	}
}

const golden = `PUT manifests/a.json 3 bytes if-absent -> ok v1
PUT manifests/a.json 4 bytes if-version v1 -> ok v2
PUT manifests/a.json 5 bytes if-version v1 -> precondition failed
PUT manifests/u1.json 1 bytes if-version v2 -> gone
PUT segments/a/0000000000000000-00000001-n1.jsonl.zst 7 bytes if-absent -> ok v3
PUT probe/n2 1 bytes if-absent -> ok v4
GET manifests/a.json -> 4 bytes v2
GET manifests/a.json if-not v2 -> not modified
GET manifests/a.json if-not v1 -> too large
GET segments/a/0000000000000000-00000001-n1.jsonl.zst range 3+100 -> 4 bytes v3
GET segments/a/0000000000000000-00000001-n1.jsonl.zst range 30+100 -> out of range
HEAD segments/a/0000000000000000-00000001-n1.jsonl.zst -> 7 bytes v3
HEAD nothing -> not exist
COPY segments/a/0000000000000000-00000001-n1.jsonl.zst segments/b/0000000000000000-00000001-n1.jsonl.zst -> ok v5
DELETE segments/b/0000000000000000-00000001-n1.jsonl.zst -> ok
LIST segments/ -> 1 objects
LIST  after manifests/u1.json -> 3 objects
LIST  -> 0 objects, then undecided
`

func TestTrace(t *testing.T) {
	for _, content := range []bool{false, true} {
		var out strings.Builder
		inner := memstore.NewWith(t, memstore.Options{ContentVersions: content})
		session(t, tracestore.New(inner, tracestore.Options{Out: &out, Mask: tracestore.NewMasker()}))
		want := golden
		if content { // a copy has the version of what it was copied from
			want = strings.Replace(want, "-> ok v5", "-> ok v3", 1)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("ContentVersions %v: trace (-want +got):\n%s", content, diff)
		}
	}
}

func TestNoSizesNoMask(t *testing.T) {
	var out strings.Builder
	s := tracestore.New(memstore.New(t), tracestore.Options{Out: &out, NoSizes: true})
	info, _ := s.Put(t.Context(), "a", []byte("x"), objstore.IfAbsent(), objstore.PutOptions{})
	s.Put(t.Context(), "a", []byte("y"), objstore.IfVersion(info.Version), objstore.PutOptions{})
	s.Get(t.Context(), "a", objstore.GetOptions{})
	want := "PUT a if-absent -> ok v1\nPUT a if-version v1 -> ok v2\nGET a -> ok v2\n"
	if out.String() != want {
		t.Errorf("trace\n%swant\n%s", out.String(), want)
	}
}

func TestCounts(t *testing.T) {
	s := tracestore.New(memstore.New(t), tracestore.Options{})
	s.Head(t.Context(), "before")
	before := s.Counts()
	session(t, s)
	want := tracestore.Counts{
		Put: 6, Get: 5, Head: 2, List: 3, Delete: 1, Copy: 1,
		BytesOut: 3 + 4 + 5 + 1 + 7 + 1, BytesIn: 4 + 4,
	}
	got := s.Counts().Sub(before)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if got.Requests() != 18 {
		t.Errorf("%d requests in all, want 18", got.Requests())
	}
}

func TestListPages(t *testing.T) {
	for _, tc := range []struct{ objects, read, pages int }{
		{0, 1, 1}, {1, 1, 1}, {999, 2000, 1}, {1000, 2000, 1}, {1001, 2000, 2}, {1001, 1000, 1}, {2500, 2500, 3},
	} {
		mem := memstore.New(t)
		for i := range tc.objects {
			mem.Replace(fmt.Sprintf("k/%04d", i), []byte("x"))
		}
		s := tracestore.New(mem, tracestore.Options{})
		list := s.List(t.Context(), "k/", "")
		if n := s.Counts().List; n != 0 {
			t.Errorf("%d LIST before the first object was asked for", n)
		}
		read := 0
		for range list {
			if read++; read == tc.read {
				break
			}
		}
		if n := s.Counts().List; n != int64(tc.pages) {
			t.Errorf("%d of %d objects read: %d LIST, want %d", tc.read, tc.objects, n, tc.pages)
		}
	}
}

// plain hides the inner store's Copy.
type plain struct{ objstore.Store }

func TestCopyUnsupported(t *testing.T) {
	s := tracestore.New(plain{memstore.New(t)}, tracestore.Options{})
	if _, err := s.Copy(t.Context(), "a", "b"); !errors.Is(err, objstore.ErrUnsupported) {
		t.Errorf("Copy: %v, want ErrUnsupported", err)
	}
	if n := s.Counts().Requests(); n != 0 {
		t.Errorf("%d requests counted for what was not sent", n)
	}
}

func TestOutcome(t *testing.T) {
	for err, want := range map[error]string{
		nil:                      "ok",
		errors.New("other"):      "error",
		objstore.ErrGone:         "gone",
		objstore.ErrPrecondition: "precondition failed",
		objstore.ErrRefused:      "refused",
		objstore.ErrDenied:       "denied",
		fmt.Errorf("wrapped: %w", objstore.ErrThrottled): "throttled",
	} {
		if got := tracestore.Outcome(err); got != want {
			t.Errorf("Outcome(%v) = %q, want %q", err, got, want)
		}
	}
}
