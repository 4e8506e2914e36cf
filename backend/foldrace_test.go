package backend_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
)

// foldNow folds all that there is.
func foldNow(t testing.TB, st objstore.Store, id string) {
	t.Helper()
	if _, err := backend.New(st, backend.Options{}).Fold(context.Background(), id, backend.FoldOptions{Tail: backend.FoldTailTake}); err != nil {
		t.Errorf("fold: %v", err)
	}
}

// A fold at any call of a writer, tail included, changes nothing for it: it is
// neither fenced nor does it lose an event.
func TestFoldAtEveryCallOfAWriter(t *testing.T) {
	everyCall(t, func(t *testing.T, mem *memstore.Store, _ *claims, _ int) {
		if _, there := mem.Snapshot("manifests/")[manifest.Key(matrixLog)]; there {
			foldNow(t, mem, matrixLog)
		}
	}, func(t *testing.T, what string, _ *claims, err error) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	})
}

// foldable is a store with a log of four small segments and a tail.
func foldable(t testing.TB) map[string][]byte {
	mem := memstore.New(t)
	segmented(t, mem, "log", 4, 100)
	return mem.Snapshot("")
}

// Whatever others do at any call of a fold, the log is what they have made of it,
// and the fold either succeeds or says why not.
func TestOthersAtEveryCallOfAFold(t *testing.T) {
	objects := foldable(t)
	oneMore := func(t *testing.T, mem *memstore.Store, last bool) {
		l, err := backend.New(mem, backend.Options{Foreground: true}).Adopt(t.Context(), "log", backend.AdoptOptions{TakeOver: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(t.Context(), [][]byte{event(9)}, backend.AppendOptions{Last: last}); err != nil {
			t.Fatal(err)
		}
		closeLog(t, l)
	}
	for _, tc := range []struct {
		name   string
		act    func(t *testing.T, mem *memstore.Store)
		events int // that it adds
		want   error
	}{
		{name: "nothing", act: func(t *testing.T, mem *memstore.Store) { maintain(t, mem, "log") }},
		{name: "takes over", act: func(t *testing.T, mem *memstore.Store) { oneMore(t, mem, true) }, events: 1},
		{name: "takes over and stays", act: func(t *testing.T, mem *memstore.Store) { oneMore(t, mem, false) }, events: 1},
		{name: "seals", act: func(t *testing.T, mem *memstore.Store) { fold(t, mem, "log") }},
		{name: "barrier", act: func(t *testing.T, mem *memstore.Store) { barrier(t, mem, "log", 90) }},
		{name: "replaces the inputs and removes them", act: func(t *testing.T, mem *memstore.Store) { rewrite(t, mem, "log") }},
		{name: "folds", act: func(t *testing.T, mem *memstore.Store) { foldNow(t, mem, "log") }},
		{name: "all of it", act: func(t *testing.T, mem *memstore.Store) {
			oneMore(t, mem, true)
			fold(t, mem, "log")
			rewrite(t, mem, "log")
			barrier(t, mem, "log", 90)
		}, events: 1},
		{name: "deletes", act: func(t *testing.T, mem *memstore.Store) {
			if _, err := backend.New(mem, backend.Options{}).Delete(t.Context(), "log", backend.AdoptOptions{TakeOver: true}); err != nil {
				t.Fatal(err)
			}
		}, want: backend.ErrDeleted},
		{name: "removes the manifest", act: func(t *testing.T, mem *memstore.Store) { mem.Drop(manifest.Key("log")) }, want: backend.ErrNotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for n := 1; ; n++ {
				done := false
				synctest.Test(t, func(t *testing.T) {
					mem := restore(t, objects)
					lines := read(t, backend.NewReader(mem, backend.Options{}), "log", 0)
					store := faultstore.New(mem)
					hit := store.Inject(faultstore.Rule{Nth: n, Fault: faultstore.Before(func() { tc.act(t, mem) })})
					rep, err := backend.New(store, backend.Options{}).Fold(t.Context(), "log", backend.FoldOptions{})
					if done = hit.Hits() == 0; done {
						return
					}
					// What others did before the fold had read anything is no error for it.
					if tc.want == nil && err != nil || tc.want != nil && !errors.Is(err, tc.want) {
						t.Errorf("call %d: %+v, %v", n, rep, err)
					}
					if tc.want != nil {
						return
					}
					r := backend.NewReader(mem, backend.Options{})
					got := read(t, r, "log", 0)
					if len(got) != len(lines)+tc.events || !slices.Equal(got[:len(lines)], lines) {
						t.Errorf("call %d: %q", n, got)
					}
					if segs := info(t, r, "log").Segments; len(segs) != 1 {
						t.Errorf("call %d: %d segments left", n, len(segs))
					}
					verifyClean(t, r, "log")
					l := adopt(t, backend.New(mem, backend.Options{}), "log")
					appendOne(t, l, event(10))
					closeLog(t, l)
					verifyClean(t, r, "log")
				})
				if done {
					if n < 8 {
						t.Errorf("only %d calls", n-1)
					}
					return
				}
			}
		})
	}
}

// Whatever goes wrong at whichever call of a fold, no event is lost, a token is
// never asked for, and repeating it gets there.
func TestFoldFaultMatrix(t *testing.T) {
	objects := foldable(t)
	runs := 0
	for _, f := range forms {
		for n := 1; n <= 7; n++ { // GET of the manifest, four of inputs, PUT and PUT
			synctest.Test(t, func(t *testing.T) {
				runs++
				what := fmt.Sprintf("%s at call %d", f.name, n)
				mem := restore(&judge{t, what}, objects)
				lines := read(t, backend.NewReader(mem, backend.Options{}), "log", 0)
				all := faultstore.New(mem)
				struck := all.Inject(faultstore.Rule{Nth: n, Times: f.times, Fault: f.fault})
				if f.then != nil {
					all.Inject(faultstore.Rule{Nth: n + 1, Fault: *f.then})
				}
				b := backend.New(all, backend.Options{CommitTimeout: 20 * time.Second})
				_, err := b.Fold(t.Context(), "log", backend.FoldOptions{})
				if err != nil && (errors.Is(err, backend.ErrOutcomeUnknown) || backend.Token(err) != "") {
					t.Errorf("%s: %v", what, err)
				}
				if struck.Hits() == 0 {
					t.Errorf("%s: no call was struck", what)
				}
				struck.Stop()
				check := func(when string) {
					if got := read(t, backend.NewReader(mem, backend.Options{}), "log", 0); !slices.Equal(got, lines) {
						t.Errorf("%s, %s: %q", what, when, got)
					}
					verifyClean(t, backend.NewReader(mem, backend.Options{}), "log")
				}
				check("at first")
				b = backend.New(mem, backend.Options{})
				if rep, err := b.Fold(t.Context(), "log", backend.FoldOptions{}); err != nil || rep.After.Segments != 1 {
					t.Errorf("%s, repeated: %+v, %v", what, rep, err)
				}
				check("repeated")
				struck.Release(context.Background()) // what was late arrives, in vain
				check("after late requests")
				l := adopt(t, b, "log")
				appendOne(t, l, event(10))
				closeLog(t, l)
			})
		}
	}
	t.Logf("%d runs", runs)
}

// A fold that always comes too late gives up, and says so.
func TestFoldGivesUp(t *testing.T) {
	for name, act := range map[string]func(t *testing.T, mem *memstore.Store){
		"inputs replaced": func(t *testing.T, mem *memstore.Store) { rewrite(t, mem, "log") },
		"other commits":   func(t *testing.T, mem *memstore.Store) { maintain(t, mem, "log") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := restore(t, foldable(t))
				lines := read(t, backend.NewReader(mem, backend.Options{}), "log", 0)
				slow := faultstore.New(mem, faultstore.Rule{Match: faultstore.Puts("manifests/"), Fault: faultstore.Delay(time.Second)})
				store := faultstore.New(slow, faultstore.Rule{Match: faultstore.Puts("manifests/"), Fault: faultstore.Before(func() { act(t, mem) })})
				rep, err := backend.New(store, backend.Options{CommitTimeout: 20 * time.Second}).Fold(t.Context(), "log", backend.FoldOptions{})
				oe, ok := errors.AsType[*backend.OpError](err)
				if !ok || oe.Hint == "" || backend.Token(err) != "" || len(rep.Steps) != 0 {
					t.Errorf("%+v, %v", rep, err)
				}
				t.Logf("%d conflicts: %v", rep.Conflicts, err)
				if got := read(t, backend.NewReader(mem, backend.Options{}), "log", 0); !slices.Equal(got, lines) {
					t.Errorf("%q", got)
				}
				verifyClean(t, backend.NewReader(mem, backend.Options{}), "log")
			})
		})
	}
}

// A takeover in the middle of a fold costs it one more PUT of what it has made.
func TestFoldKeepsItsResultOverATakeover(t *testing.T) {
	mem := restore(t, foldable(t))
	gets := 0
	store := faultstore.New(mem,
		faultstore.Rule{Match: faultstore.Puts("manifests/"), Nth: 1, Fault: faultstore.Before(func() {
			l, err := backend.New(mem, backend.Options{}).Adopt(t.Context(), "log", backend.AdoptOptions{TakeOver: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Append(t.Context(), [][]byte{event(9)}, backend.AppendOptions{Last: true}); err != nil {
				t.Fatal(err)
			}
			closeLog(t, l)
		})},
		faultstore.Rule{Match: faultstore.And(faultstore.Op("Get"), faultstore.Prefix("segments/")), Fault: faultstore.Before(func() { gets++ })})
	rep, err := backend.New(store, backend.Options{}).Fold(t.Context(), "log", backend.FoldOptions{})
	if err != nil || rep.Conflicts != 0 || len(rep.Steps) != 1 || rep.Dropped != rep.Steps[0].Written || gets != 4 || rep.After.Tail != 1 {
		t.Errorf("%+v, %v; %d GETs of segments", rep, err, gets)
	}
	rec := record(t, mem, "log")
	if name := rec.Segments[0].Name; len(rec.Segments) != 1 || name.Epoch != rec.Epoch || indexOf(t, mem, "log", name).Nonce == name.Nonce.String() {
		t.Errorf("%+v in epoch %d", rec.Segments, rec.Epoch)
	}
	verifyClean(t, backend.NewReader(mem, backend.Options{}), "log")
}

// Where the copy for a new epoch cannot be uploaded, the fold fails; so it does
// where another log has come in the place of the one that it has read.
func TestFoldThatCannotGoOn(t *testing.T) {
	objects := foldable(t)
	for name, tc := range map[string]struct {
		act  func(mem *memstore.Store)
		rule *faultstore.Rule
		want error
	}{
		"the copy is refused": {
			act:  func(mem *memstore.Store) { barrier(t, mem, "log", 9) },
			rule: &faultstore.Rule{Match: faultstore.Puts("segments/"), Nth: 2, Times: -1, Fault: faultstore.Denied()},
			want: backend.ErrDenied,
		},
		"another log": {
			act: func(mem *memstore.Store) {
				forgeManifest(t, mem, "log", func(r *manifest.Record) { r.UID = "another" })
			},
			want: backend.ErrNotFound,
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := restore(t, objects)
			store := faultstore.New(mem, faultstore.Rule{Match: faultstore.Puts("manifests/"), Nth: 1, Fault: faultstore.Before(func() { tc.act(mem) })})
			if tc.rule != nil {
				store.Inject(*tc.rule)
			}
			if rep, err := backend.New(store, backend.Options{}).Fold(t.Context(), "log", backend.FoldOptions{}); !errors.Is(err, tc.want) || len(rep.Steps) != 0 {
				t.Errorf("%+v, %v", rep, err)
			}
			if n := len(record(t, mem, "log").Segments); n != 4 {
				t.Errorf("%d segments", n)
			}
		})
	}
}

// A reader goes on half way through a log that is folded, also when what was
// replaced is removed at once.
func TestFoldUnderAReader(t *testing.T) {
	mem := restore(t, foldable(t))
	r := backend.NewReader(mem, backend.Options{Prefetch: 1})
	lines := read(t, r, "log", 0)
	var got []string
	for ev, err := range r.Events(t.Context(), "log", backend.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, string(ev.Line)); len(got) == 1 {
			foldNow(t, mem, "log")
			for _, s := range record(t, mem, "log").Retired {
				mem.Drop(manifest.SegmentKey("log", s.Name))
			}
		}
	}
	if !slices.Equal(got, lines) {
		t.Errorf("%q", got)
	}
}

// Two folds at a time, and a writer that appends, seals and merges in the
// background.
func TestFoldsBesideALiveWriter(t *testing.T) {
	mem := memstore.New(t)
	l := create(t, backend.New(mem, backend.Options{}), "log")
	c := newClaims()
	rng := rand.New(rand.NewPCG(7, 8))
	done := make(chan error)
	appended := make(chan struct{})
	folds := func(tail backend.FoldTail) {
		<-appended
		b := backend.New(mem, backend.Options{})
		for {
			if _, err := b.Fold(t.Context(), "log", backend.FoldOptions{Tail: tail, MaxBytes: 1 << 20}); err != nil {
				if oe, ok := errors.AsType[*backend.OpError](err); !ok || oe.Hint == "" {
					done <- err
					return
				}
			}
			select {
			case <-t.Context().Done():
				done <- nil
				return
			case done <- nil:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}
	go folds(backend.FoldTailAuto)
	go folds(backend.FoldTailTake)
	n := 400
	if testing.Short() || raceDetector {
		n = 100
	}
	for i := range n {
		tag := fmt.Sprint("e", i)
		r, err := l.Append(t.Context(), [][]byte{tagged(tag, 100+rng.IntN(30<<10))}, backend.AppendOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.acked(r, tag); err != nil {
			t.Error(err)
		}
		if i == 0 {
			close(appended)
		}
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	closeLog(t, l)
	if err := audit(t.Context(), mem, "log", c); err != nil {
		t.Error(err)
	}
	rec := record(t, mem, "log")
	t.Logf("%d appends, %d revisions, %d segments, %d retired, %d uploaded", n, rec.Revision, len(rec.Segments), len(rec.Retired), len(mem.Snapshot("segments/")))
	if rec.Revision <= int64(n) {
		t.Error("no fold landed: the test shows too little")
	}
	verifyClean(t, backend.NewReader(mem, backend.Options{}), "log")
}

// The memory of a fold, and of reading what it has made, does not grow with the
// log.
func TestFoldMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 40 MB")
	}
	store, err := filestore.Open(t.TempDir(), filestore.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	b := backend.New(store, backend.Options{Foreground: true})
	rng := rand.New(rand.NewPCG(3, 4))
	l := create(t, b, "log")
	n := 50 // 38 MB when stored
	if raceDetector {
		n = 16
	}
	for i := range n {
		if _, err := l.Append(t.Context(), [][]byte{noise(rng, i, 1<<20)}, backend.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	closeLog(t, l)
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // what is measured is in use, or nearly
	runtime.GC()
	peak := watchHeap()
	rep, err := b.Fold(t.Context(), "log", backend.FoldOptions{Tail: backend.FoldTailTake})
	if err != nil || rep.After.Segments >= rep.Before.Segments || rep.After.Segments > 4 {
		t.Errorf("%+v, %v", rep, err)
	}
	grown := peak()
	t.Logf("folding %d segments into %d: %d MiB on the heap at most", rep.Before.Segments, rep.After.Segments, grown>>20)
	if grown > 96<<20 {
		t.Errorf("%d bytes on the heap", grown)
	}
	runtime.GC()
	peak = watchHeap()
	events := 0
	for _, err := range backend.NewReader(store, backend.Options{}).Events(t.Context(), "log", backend.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		events++
	}
	grown = peak()
	t.Logf("reading: %d MiB on the heap at most", grown>>20)
	if events != n || grown > 96<<20 {
		t.Errorf("%d events, %d bytes on the heap", events, grown)
	}
}
