package backend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
)

// Whatever goes wrong at whichever call of a resume, repeating it until it
// succeeds leaves the closers and one boundary, and late requests change nothing
// after that. What an unknown outcome was is told by Decide.
func TestResumeFaultMatrix(t *testing.T) {
	mem := memstore.New(t)
	written(t, backend.New(mem, backend.Options{}), "log", nil, lines(interrupted))
	before := mem.Snapshot("")
	runs := 0
	for _, claim := range []bool{false, true} {
		for _, f := range forms {
			for n := 1; n <= 2; n++ { // the GET, the PUT
				synctest.Test(t, func(t *testing.T) {
					runs++
					resumeFaulty(t, fmt.Sprintf("%s at call %d, claim %v", f.name, n, claim), before, f, n, claim)
				})
			}
		}
	}
	t.Logf("%d runs", runs)
}

func resumeFaulty(t *testing.T, what string, before map[string][]byte, f form, n int, claim bool) {
	mem := restore(&judge{t, what}, before)
	all := faultstore.New(mem)
	struck := all.Inject(faultstore.Rule{Nth: n, Times: f.times, Fault: f.fault})
	opt := backend.ResumeOptions{Claim: claim}
	for try := 0; ; try++ {
		b := backend.New(all, backend.Options{CommitTimeout: 20 * time.Second})
		l, r, err := b.Resume(t.Context(), "log", opt)
		if err == nil {
			if r.First+r.Count != r.Next || r.Next != 6 {
				t.Errorf("%s: %+v", what, r)
			}
			if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			break
		}
		if try == 3 {
			t.Errorf("%s: %v", what, err)
			return
		}
		if f.times < 0 {
			struck.Stop()
		}
		if token := backend.Token(err); token != "" {
			struck.Release(context.Background())
			d, derr := b.Decide(t.Context(), token)
			if derr != nil || d.Committed && (d.First != 3 || d.Count != 3) {
				t.Errorf("%s: %+v, %v", what, d, derr)
			}
			if got := len(read(t, backend.NewReader(mem, backend.Options{}), "log", 0)); (got == 6) != d.Committed {
				t.Errorf("%s: committed %v, and there are %d events", what, d.Committed, got)
			}
		}
	}
	struck.Stop()
	if struck.Hits() == 0 {
		t.Errorf("%s: no call was struck", what)
	}
	struck.Release(context.Background())
	r := backend.NewReader(mem, backend.Options{})
	if got := strings.Join(types(t, r, "log")[2:], " "); got != "compaction/start step/end turn/end "+mark {
		t.Errorf("%s: %s", what, got)
	}
	verifyClean(t, r, "log")
}

// Whatever another writer does between any two calls of a resume, or before the
// first append of a delayed one: each log has its events once and in order, and
// a boundary behind everything that a resume inherited.
func TestResumeInterleaved(t *testing.T) {
	type other struct {
		name string
		act  func(t *testing.T, mem *memstore.Store)
	}
	others := []other{
		{"owner appends", func(t *testing.T, mem *memstore.Store) {
			l := adopt(t, backend.New(mem, backend.Options{}), "log")
			appendAll(t, l, []byte(`{"type":"step/end","data":{"turn":1,"step":1}}`))
			closeLog(t, l)
		}},
		{"another resumes", func(t *testing.T, mem *memstore.Store) {
			l, _ := resume(t, backend.New(mem, backend.Options{}), "log", backend.ResumeOptions{})
			closeLog(t, l)
		}},
		{"another resumes and appends", func(t *testing.T, mem *memstore.Store) {
			l, _ := resume(t, backend.New(mem, backend.Options{}), "log", backend.ResumeOptions{Delay: true})
			appendOne(t, l, event(0))
			closeLog(t, l)
		}},
		{"maintenance", func(t *testing.T, mem *memstore.Store) { maintain(t, mem, "log") }},
		{"fold", func(t *testing.T, mem *memstore.Store) { fold(t, mem, "log") }},
		{"deletion", func(t *testing.T, mem *memstore.Store) {
			commitBy(t, mem, "log", func(base *manifest.Record, w manifest.Writer) (*manifest.Draft, error) {
				d, err := manifest.TakeOver(base, w, manifest.KindDelete, base.Commit.At)
				if err == nil {
					d.Delete()
				}
				return d, err
			})
		}},
	}
	for _, o := range others {
		for _, delay := range []bool{false, true} {
			for n := 1; n <= 2; n++ {
				t.Run(fmt.Sprintf("%s/delay=%v/call %d", o.name, delay, n), func(t *testing.T) {
					mem := memstore.New(t)
					written(t, backend.New(mem, backend.Options{}), "log", nil, lines(interrupted))
					all := faultstore.New(mem, faultstore.Rule{Nth: n, Fault: faultstore.Before(func() { o.act(t, mem) })})
					b := backend.New(all, backend.Options{MinBackoff: time.Millisecond})
					l, _, err := b.Resume(t.Context(), "log", backend.ResumeOptions{Delay: delay})
					if err == nil {
						_, err = l.Append(t.Context(), [][]byte{[]byte(`{"type":"note","data":1}`)}, backend.AppendOptions{})
						_ = l.Close(t.Context(), backend.CloseOptions{})
					}
					if o.name == "deletion" {
						if !errors.Is(err, backend.ErrDeleted) {
							t.Errorf("%v", err)
						}
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					list := types(t, b.Reader, "log")
					if n := len(list); list[n-1] != "note" || list[n-2] != mark {
						t.Errorf("%q", list)
					}
					if s := strings.Join(list, " "); strings.Contains(s, mark+" "+mark) || strings.Count(s, "turn/end") != 1 || strings.Count(s, "step/end") != 1 {
						t.Errorf("%q", list)
					}
					verifyClean(t, b.Reader, "log")
				})
			}
		}
	}
}
