package backend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
)

// How an import ends that is interrupted at its second commit: what is known of that
// commit is said, nobody waits long for a store that is gone, and a repetition makes
// the log whole.
func TestImportInterrupted(t *testing.T) {
	const events = 12
	lines := func(yield func([]byte, error) bool) {
		for i := range events {
			if !yield([]byte(fmt.Sprintf(`{"type":"note","data":%q}`, strings.Repeat(fmt.Sprint(i), 400))), nil) {
				return
			}
		}
	}
	second := func(f faultstore.Fault) faultstore.Rule {
		return faultstore.Rule{Match: faultstore.Puts("manifests/"), Nth: 2, Fault: f}
	}
	for name, tc := range map[string]struct {
		fault    func(end func()) faultstore.Fault
		lost     bool // the reply
		gone     bool // the store, from then on
		takeOver bool // somebody else, before it
		want     error
		released bool
	}{
		"before it":                    {fault: faultstore.Before, want: context.Canceled, released: true},
		"after it":                     {fault: faultstore.After, want: context.Canceled, released: true},
		"and the reply is lost":        {fault: faultstore.Before, lost: true, want: context.Canceled, released: true},
		"and the store is gone":        {fault: faultstore.After, gone: true, want: context.Canceled},
		"and reply and store are gone": {fault: faultstore.Before, lost: true, gone: true, want: backend.ErrOutcomeUnknown},
		"and somebody else takes over": {fault: faultstore.Before, takeOver: true, want: backend.ErrFenced},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var cut atomic.Bool
				end := func() {
					cancel()
					if tc.takeOver {
						l, err := backend.New(mem, backend.Options{}).Adopt(t.Context(), "log", backend.AdoptOptions{TakeOver: true})
						if err != nil {
							t.Error(err)
							return
						}
						appendOne(t, l, event(1))
						closeLog(t, l)
					}
					cut.Store(tc.gone)
				}
				inner := faultstore.New(mem)
				if tc.lost {
					inner.Inject(second(faultstore.LostReply()))
				}
				gone := faultstore.Rule{Match: func(string, string, []byte) bool { return cut.Load() }, Fault: faultstore.Unavailable()}
				st := faultstore.New(faultstore.New(inner, second(tc.fault(end))), gone)
				b := backend.New(st, backend.Options{MaxBatch: 2 << 10})
				began := time.Now()
				_, err := b.Import(ctx, "log", lines, backend.ImportOptions{})
				// Where the store is gone, the signal may also have come before the reply.
				if !errors.Is(err, tc.want) || errors.Is(err, backend.ErrOutcomeUnknown) && !tc.gone {
					t.Errorf("got %v", err)
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("it took %v", took)
				}
				time.Sleep(5 * time.Minute) // what goes on in the background ends
				cut.Store(false)
				head, err := manifest.Load(t.Context(), mem, "log", manifest.LoadOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if tc.takeOver {
					return
				}
				if got := head.Record.Owner.Released; got != tc.released {
					t.Errorf("released: %v, at %d", got, head.Record.Next)
				}
				r, err := backend.New(mem, backend.Options{}).Import(t.Context(), "log", lines, backend.ImportOptions{})
				if err != nil || r.Next != events {
					t.Errorf("again: %+v, %v", r, err)
				}
				verifyClean(t, backend.NewReader(mem, backend.Options{}), "log")
			})
		})
	}
}

// An error of the sequence stays what it is, also where ctx has ended by then.
func TestImportOfAnErrorAfterTheEnd(t *testing.T) {
	mine := errors.New("line 31 is damaged")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := backend.New(memstore.New(t), backend.Options{}).Import(ctx, "log", func(yield func([]byte, error) bool) {
		if yield(event(1), nil) {
			cancel()
			yield(nil, mine)
		}
	}, backend.ImportOptions{})
	if !errors.Is(err, mine) {
		t.Errorf("got %v", err)
	}
}
