package integration

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/internal/faultproxy"
	"github.com/s3log/s3log/manifest"
)

// The tests named FailureMode… are the ways in which logs on object stores are
// known to go wrong, as far as they are about HTTP; the others are in package
// backend. docs/cases.md lists them all.

// Failure mode 2: a 409 is taken for a race that was lost, a 412 for something to
// be tried again, a 404 on If-Match for nothing that is known. What a reply means
// is decided by its code, for creates and for replacements.
func TestFailureMode2ReplyCodes(t *testing.T) {
	for _, tc := range []struct {
		status  int
		code    string
		foreign bool    // somebody else's write is the reason
		gone    bool    // the object is not there any more
		want    []error // of a create, of an append; nil: it is tried again, and succeeds
		puts    int     // of the manifest
	}{
		{status: 409, code: "ConditionalRequestConflict", puts: 2},
		{status: 409, code: "OperationAborted", puts: 2},
		{status: 412, code: "PreconditionFailed", puts: 2}, // and nothing has changed
		{status: 412, code: "PreconditionFailed", foreign: true, want: []error{backend.ErrExists, backend.ErrFenced}, puts: 1},
		{status: 404, code: "NoSuchKey", gone: true, want: []error{objstore.ErrRefused, backend.ErrNotFound}, puts: 1},
		{status: 500, code: "InternalError", puts: 2},
		{status: 503, code: "SlowDown", puts: 2},
		{status: 403, code: "AccessDenied", want: []error{backend.ErrDenied, backend.ErrDenied}, puts: 1},
		{status: 400, code: "MalformedXML", want: []error{objstore.ErrRejected, objstore.ErrRejected}, puts: 1},
		{status: 501, code: "NotImplemented", want: []error{backend.ErrUnsupportedStore, backend.ErrUnsupportedStore}, puts: 1},
	} {
		for i, operation := range []string{"create", "append"} {
			t.Run(fmt.Sprintf("%d %s, foreign %v, %s", tc.status, tc.code, tc.foreign, operation), func(t *testing.T) {
				r := newRig(t)
				l := mustCreate(t, r.store, "log", quick)
				var want []int
				if operation == "append" {
					mustAppend(t, l, note(0))
					want = append(want, 0)
				}
				r.proxy.Add(faultproxy.Rule{Op: faultproxy.Put, Key: "manifests/", Fault: func(x *faultproxy.Exchange) {
					if tc.foreign {
						rival, err := backend.New(r.direct, quick).Create("log", backend.CreateOptions{OrAdopt: true})
						if err == nil {
							_, err = rival.Append(t.Context(), [][]byte{note(7)}, backend.AppendOptions{Last: true})
						}
						if err != nil {
							t.Error(err)
						}
					}
					if tc.gone {
						if err := r.direct.Delete(t.Context(), manifest.Key("log")); err != nil {
							t.Error(err)
						}
					}
					x.Answer(faultproxy.Error(tc.status, tc.code, ""))
				}})
				r.proxy.Take()
				_, err := l.Append(t.Context(), [][]byte{note(1)}, backend.AppendOptions{})
				puts := r.proxy.Take().Of(faultproxy.Put, "manifests/")
				if len(puts) != tc.puts {
					t.Errorf("%d PUTs, want %d", len(puts), tc.puts)
				}
				for _, p := range puts {
					if p.Sum != puts[0].Sum || p.Condition != puts[0].Condition {
						t.Errorf("another request the second time: %s", p.Condition)
					}
				}
				switch {
				case tc.want == nil && err != nil, tc.want != nil && !errors.Is(err, tc.want[i]):
					t.Errorf("got %v, want %v", err, tc.want)
				case errors.Is(err, backend.ErrOutcomeUnknown):
					t.Errorf("%v, although it is known", err)
				}
				if tc.foreign {
					want = append(want, 7)
				}
				if err == nil {
					want = append(want, 1)
				}
				if tc.gone || len(want) == 0 {
					if _, err := backend.NewReader(r.direct, quick).Info(t.Context(), "log"); !errors.Is(err, backend.ErrNotFound) {
						t.Errorf("the log: %v", err)
					}
					return
				}
				holds(t, r.direct, "log", want...)
			})
		}
	}
}

// Failure mode 5: the store ignores the condition, or races it, and several
// writers win. On a sound server exactly one of many does; on others nobody is
// told that he has.
func TestFailureMode5SeveralWinners(t *testing.T) {
	const racers = 8
	// race lets many do the same to one log at a time, and counts who succeeds.
	race := func(t *testing.T, open func() objstore.Store, do func(b *backend.Backend, n int) error) (won []int, errs []error) {
		var mu sync.Mutex
		var all sync.WaitGroup
		start := make(chan struct{})
		for n := range racers {
			b := backend.New(open(), quick)
			all.Go(func() {
				<-start
				err := do(b, n)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, n)
				} else {
					errs = append(errs, err)
				}
			})
		}
		close(start)
		all.Wait()
		return won, errs
	}
	create := func(b *backend.Backend, n int) error {
		l, err := b.Create("log", backend.CreateOptions{})
		if err == nil {
			_, err = l.Append(t.Context(), [][]byte{note(n)}, backend.AppendOptions{Last: true})
		}
		return err
	}
	t.Run("a sound server", func(t *testing.T) {
		for range 10 {
			r := newRig(t)
			won, errs := race(t, func() objstore.Store { return r.open(t) }, create)
			if len(won) != 1 || slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, backend.ErrExists) }) {
				t.Fatalf("%d have created it; the others: %v", len(won), errs)
			}
			holds(t, r.direct, "log", won[0])

			// All take it over, from one and the same version. Those that come late start
			// over, so that all succeed, one after the other.
			next, errs := race(t, func() objstore.Store { return r.open(t) }, func(b *backend.Backend, n int) error {
				l, err := b.Adopt(t.Context(), "log", backend.AdoptOptions{TakeOver: true})
				if err == nil {
					_, err = l.Append(t.Context(), [][]byte{note(100 + n)}, backend.AppendOptions{Last: true})
				}
				return err
			})
			if len(next) != racers {
				t.Fatalf("%d of %d appends: %v", len(next), racers, errs)
			}
			info, err := backend.NewReader(r.direct, quick).Info(t.Context(), "log")
			if err != nil || info.Next != racers+1 || info.Generation != racers+1 {
				t.Errorf("%d events, generation %d, %v", info.Next, info.Generation, err)
			}
		}
	})
	for name, put := range map[string]func(*http.Request, string) (bool, int, string){
		"ignores conditions": carelessPut, "inverts them": invertedPut, "inverts creates": halfInvertedPut, "has none": ignorantPut,
	} {
		t.Run(name, func(t *testing.T) {
			s := startStub(t)
			s.behave(put)
			won, errs := race(t, func() objstore.Store { return openS3(t, s.URL, "b", "key", "secret", unproved) }, create)
			if len(won) > 0 || slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, backend.ErrUnsupportedStore) }) {
				t.Errorf("%d have created it; the others: %v", len(won), errs)
			}
			if n := s.written("/manifests/") + s.written("/segments/"); n > 0 {
				t.Errorf("%d objects of a log were written", n)
			}
		})
	}
}

// Failure mode 10: the dialects of S3. A whole life of a log is plain requests
// only: no uploads in parts, no trailers, no chunked signatures, a condition and
// an integrity header on every write; and 403 never means "absent".
func TestFailureMode10Dialects(t *testing.T) {
	r := newRig(t)
	store := r.open(t, unproved)
	want, _ := grown(t, store, "log")
	b := backend.New(store, foreground)
	l, _, err := b.Resume(t.Context(), "log", backend.ResumeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, notes(t, 0, 300)...)
	if err := l.Close(t.Context(), backend.CloseOptions{Seal: true, Release: true}); err != nil {
		t.Fatal(err)
	}
	at := int64(len(want) - 1)
	if _, _, err := b.Fork(t.Context(), "log", "child", backend.ForkOptions{At: &at, Release: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Fold(t.Context(), "child", backend.FoldOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Delete(t.Context(), "log", backend.AdoptOptions{TakeOver: true}); err != nil {
		t.Fatal(err)
	}
	for g, err := range b.GC(t.Context(), backend.GCOptions{Grace: 1}) {
		if err != nil || g.Err != nil {
			t.Errorf("%v, %v", err, g.Err)
		}
	}
	if got, err := read(t, store, "child", 0); err != nil || !slices.Equal(got[:len(want)], want) {
		t.Errorf("%d events, %v", len(got), err)
	}
	puts := 0
	for _, e := range r.proxy.Take() {
		for name, bad := range map[string]bool{
			"is no plain request":              e.Op == faultproxy.Other,
			"has a trailer":                    e.Header.Get("X-Amz-Trailer") != "",
			"is chunked":                       strings.Contains(e.Header.Get("Content-Encoding")+e.Header.Get("Transfer-Encoding"), "chunked"),
			"is signed in chunks":              strings.HasPrefix(e.Header.Get("X-Amz-Content-Sha256"), "STREAMING"),
			"asks for checksums of replies":    e.Header.Get("X-Amz-Checksum-Mode") != "",
			"has no condition":                 (e.Op == faultproxy.Put || e.Op == faultproxy.Copy) && e.Condition == "",
			"has no integrity header":          e.Op == faultproxy.Put && e.Header.Get("Content-Md5")+e.Header.Get("X-Amz-Checksum-Crc32c") == "",
			"has a weak or an empty condition": strings.Contains(e.Condition, "W/") || strings.HasSuffix(e.Condition, ": "),
		} {
			if bad {
				t.Errorf("%s %s %s", e.Op, e.Key, name)
			}
		}
		if e.Op == faultproxy.Put {
			puts++
		}
	}
	if puts < 20 {
		t.Errorf("%d PUTs: the test shows too little", puts)
	}

	r.proxy.Add(faultproxy.Rule{Times: -1, Fault: faultproxy.DenyAbsent()})
	if _, err := b.Info(t.Context(), "absent"); !errors.Is(err, backend.ErrDenied) || errors.Is(err, backend.ErrNotFound) || !strings.Contains(hintOf(err), "cannot tell") {
		t.Errorf("got %v, hint %q", err, hintOf(err))
	}
}
