package backend_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

// No goroutine outlives what began it: handles that are closed in the middle of
// anything, and iterations that are left.
func TestNoGoroutineIsLeft(t *testing.T) {
	objects, _ := longLog(t)
	slowly := faultstore.Rule{Fault: faultstore.Delay(2 * time.Millisecond)}
	for name, do := range map[string]func(t *testing.T){
		"foreground": func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			b := backend.New(memstore.New(t), backend.Options{Foreground: true})
			l := create(t, b, "log")
			for i := range 6 {
				appendOne(t, l, tagged(fmt.Sprint(i), sealing))
				goleak.VerifyNone(t, before)
			}
			// It is not closed at all: the function was frozen.
		},
		"closed while it seals and merges": func(t *testing.T) {
			for n := 1; n < 12; n++ {
				store := faultstore.New(memstore.New(t), slowly)
				l := create(t, backend.New(store, backend.Options{}), "log")
				for i := range n {
					appendOne(t, l, tagged(fmt.Sprint(i), sealing))
				}
				closeLog(t, l)
			}
		},
		"closed with a context that is over": func(t *testing.T) {
			store := faultstore.New(memstore.New(t), slowly)
			l := create(t, backend.New(store, backend.Options{}), "log")
			appendOne(t, l, tagged("a", sealing))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_ = l.Close(ctx, backend.CloseOptions{Seal: true, Release: true})
		},
		"abandoned appends": func(t *testing.T) {
			store := faultstore.New(memstore.New(t), slowly)
			l := create(t, backend.New(store, backend.Options{}), "log")
			for range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Microsecond)
				_, _ = l.Append(ctx, [][]byte{event(0)}, backend.AppendOptions{})
				cancel()
			}
			closeLog(t, l)
		},
		"a failed handle": func(t *testing.T) {
			store := faultstore.New(memstore.New(t), faultstore.Rule{Match: faultstore.Op("Put"), Nth: 2, Times: -1, Fault: faultstore.Denied()})
			l := create(t, backend.New(store, backend.Options{}), "log")
			appendOne(t, l, tagged("a", sealing))
			_, _ = l.Append(t.Context(), [][]byte{event(0)}, backend.AppendOptions{})
			_ = l.Close(t.Context(), backend.CloseOptions{})
		},
		"left events": func(t *testing.T) {
			r := backend.NewReader(faultstore.New(restore(t, objects), slowly), backend.Options{})
			for n := range 49 {
				for ev, err := range r.Events(t.Context(), "log", backend.ReadOptions{}) {
					if err != nil {
						t.Fatal(err)
					}
					if ev.Seq == int64(n) {
						break
					}
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			for range r.Events(ctx, "log", backend.ReadOptions{}) {
			}
		},
		"left lists": func(t *testing.T) {
			mem := memstore.New(t)
			manyLogsNow(t, mem, 100)
			r := backend.NewReader(faultstore.New(mem, slowly), backend.Options{})
			for _, by := range []backend.Order{backend.ByActivity, backend.ByModified, backend.ByName} {
				for n := range 12 {
					for range r.List(t.Context(), backend.ListOptions{By: by}) {
						if n--; n < 0 {
							break
						}
					}
				}
			}
		},
		"left follow": func(t *testing.T) {
			r := backend.NewReader(faultstore.New(restore(t, objects), slowly), backend.Options{PollInterval: time.Millisecond})
			for ev := range r.Follow(t.Context(), "log", 0) {
				if ev.Seq == 4 {
					break
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			for range r.Follow(ctx, "log", 44) {
			}
		},
		"imports": func(t *testing.T) {
			b := backend.New(faultstore.New(memstore.New(t), slowly), backend.Options{MaxBatch: 10})
			for _, n := range []int{0, 1, 5} {
				session := func(yield func([]byte, error) bool) {
					for i := range n {
						if !yield(event(i), nil) {
							return
						}
					}
					yield([]byte("{"), nil)
				}
				_, _ = b.Import(t.Context(), fmt.Sprint("log", n), session, backend.ImportOptions{})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			do(t)
			goleak.VerifyNone(t, before)
		})
	}
}

// manyLogsNow puts n logs on a store at once.
func manyLogsNow(t *testing.T, mem *memstore.Store, n int) {
	for i := range n {
		l := create(t, backend.New(mem, backend.Options{}), fmt.Sprint("log", i))
		appendOne(t, l, event(0))
		closeLog(t, l)
	}
}
