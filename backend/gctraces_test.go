package backend_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
)

// The traces that model checking has found in earlier drafts of the rules of
// removal, played with real handles. The names in brackets are theirs.

// traced is a store with a writer that seals in the background.
type traced struct {
	t    *testing.T
	mem  *memstore.Store
	st   *faultstore.Store // as the writer sees it
	l    *backend.Log
	want []string
}

func newTraced(t *testing.T, mem *memstore.Store, wrap func(*faultstore.Store) *faultstore.Store) *traced {
	t.Helper()
	inner := faultstore.New(mem)
	tr := &traced{t: t, mem: mem, st: inner}
	tr.l = create(t, backend.New(wrap(inner), patient(false)), "log")
	return tr
}

func asIs(st *faultstore.Store) *faultstore.Store { return st }

// append appends n events; two of them are enough for a seal.
func (tr *traced) append(n int) {
	tr.t.Helper()
	for range n {
		ev := noise(rand.New(rand.NewPCG(uint64(len(tr.want)), 3)), len(tr.want), 20000)
		r := appendOne(tr.t, tr.l, ev)
		tr.want = append(tr.want, stored(int(r.First), ev))
	}
}

// collect lets the grace pass and collects.
func (tr *traced) collect() (all []backend.GCLog) {
	tr.t.Helper()
	time.Sleep(day + time.Minute)
	return collect(tr.t, tr.mem, backend.GCOptions{})
}

// gone demands that a collection has made a barrier and removed one object.
func (tr *traced) gone(all []backend.GCLog) {
	tr.t.Helper()
	if n, _ := all[0].Removed(); n != 1 || !all[0].Barrier || all[0].Objects[0].Fate != manifest.FateStale {
		tr.t.Errorf("the collection did %+v: the test shows nothing", all)
	}
}

// ends demands that the log holds what it should.
func (tr *traced) ends() {
	tr.t.Helper()
	closeLog(tr.t, tr.l)
	if got := read(tr.t, backend.NewReader(tr.mem, backend.Options{}), "log", 0); !slices.Equal(got, tr.want) {
		tr.t.Errorf("%d events, want %d", len(got), len(tr.want))
	}
	verifyClean(tr.t, backend.NewReader(tr.mem, backend.Options{}), "log")
	tr.collect()
	clean(tr.t, tr.mem)
}

// upload is one that happens in the background.
type upload struct {
	name   string
	nth    int // among those of segments that begin with seq 0
	events int // after which it begins
}

// uploads are that of the first seal, and that of a merge, whose result would fit
// also where the tail was read anew.
var uploads = []upload{{"seal", 1, 2}, {"merge", 2, 9}}

// inject lets a fault strike the upload, or a later try of it.
func (u upload) inject(tr *traced, try int, f faultstore.Fault) *faultstore.Injection {
	return tr.st.Inject(faultstore.Rule{Match: faultstore.Puts("segments/log/0000000000000000-"), Nth: u.nth + try, Fault: f})
}

// begin appends until the upload has begun.
func (u upload) begin(tr *traced, in *faultstore.Injection) {
	tr.t.Helper()
	for range u.events {
		tr.append(1)
		for range 100 { // back-offs
			synctest.Wait()
			time.Sleep(time.Second)
		}
	}
	if in.Hits() != 1 {
		tr.t.Fatalf("the %s has not begun", u.name)
	}
}

// eachUpload runs a test with each upload.
func eachUpload(t *testing.T, test func(t *testing.T, u upload)) {
	for _, u := range uploads {
		t.Run(u.name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, u) }) })
	}
}

// An upload that was finished in the background while a plain append was under way
// is behind a barrier: no later commit names it [X1 N1 N3].
func TestX1UploadBeforeABarrier(t *testing.T) {
	eachUpload(t, func(t *testing.T, u upload) {
		tr := newTraced(t, memstore.New(t), asIs)
		sent := make(chan struct{})
		u.begin(tr, u.inject(tr, 0, faultstore.Before(func() { <-sent })))
		tr.st.Inject(faultstore.Rule{Match: faultstore.Puts("manifests/"), Nth: 1, Fault: faultstore.Before(func() {
			close(sent)
			synctest.Wait()
			tr.gone(tr.collect())
		})})
		tr.append(1)
		tr.append(6)
		tr.ends()
	})
}

// The same where the append has landed, its reply was lost, and the barrier came
// on top: it is judged committed, without a rebase [Y1].
func TestY1UploadBeforeABarrierOnTopOfALostReply(t *testing.T) {
	eachUpload(t, func(t *testing.T, u upload) {
		var outer *faultstore.Store
		tr := newTraced(t, memstore.New(t), func(st *faultstore.Store) *faultstore.Store {
			outer = faultstore.New(st)
			return outer
		})
		sent := make(chan struct{})
		u.begin(tr, u.inject(tr, 0, faultstore.Before(func() { <-sent })))
		lost := outer.Inject(faultstore.Rule{Match: faultstore.Puts("manifests/"), Nth: 1, Fault: faultstore.LostReply()})
		tr.st.Inject(faultstore.Rule{Match: faultstore.Puts("manifests/"), Nth: 1, Fault: faultstore.After(func() {
			close(sent)
			synctest.Wait()
			tr.gone(tr.collect())
		})})
		tr.append(1)
		if lost.Hits() != 1 {
			t.Error("no reply was lost")
		}
		tr.append(6)
		tr.ends()
	})
}

// An upload whose reply was lost is repeated after the barrier: it finds itself
// there, or recreates what the collection has removed. Nobody names it, whenever
// the removal arrives [Y2].
func TestY2UploadRepeatedAfterABarrier(t *testing.T) {
	for _, late := range []bool{true, false} {
		eachUpload(t, func(t *testing.T, u upload) {
			tr := newTraced(t, memstore.NewWith(t, memstore.Options{LateRetries: true}), asIs)
			again := make(chan struct{})
			u.inject(tr, 0, faultstore.LostReply())
			u.begin(tr, u.inject(tr, 1, faultstore.Before(func() { <-again })))
			collecting := faultstore.New(tr.mem)
			removal := collecting.Inject(faultstore.Rule{Match: faultstore.Op("Delete"), Fault: faultstore.Late()})
			if !late {
				removal.Stop()
			}
			tr.st.Inject(faultstore.Rule{Match: faultstore.Puts("manifests/"), Nth: 1, Fault: faultstore.Before(func() {
				time.Sleep(day + time.Minute)
				all, err := gcAll(t, collecting, backend.GCOptions{})
				if err != nil || !all[0].Barrier || len(all[0].Objects) != 1 || late != (removal.Held() == 1) {
					t.Errorf("%+v, %v", all, err)
				}
				close(again)
				synctest.Wait()
			})})
			tr.append(1)
			tr.append(6)
			removal.Release(t.Context())
			tr.ends()
		})
	}
}

// A commit that names an upload lands between a collection's look at the manifest
// and what it does then: the barrier fails, and the upload stays [N4 N15 M8 M9].
func TestN15CommitLandsBeforeTheBarrier(t *testing.T) {
	for name, rule := range map[string]func(func()) faultstore.Rule{
		"before its GET is answered": func(f func()) faultstore.Rule {
			return faultstore.Rule{Match: faultstore.And(faultstore.Op("Get"), faultstore.Prefix("manifests/")), Nth: 1, Fault: faultstore.After(f)}
		},
		"before its PUT": func(f func()) faultstore.Rule {
			return faultstore.Rule{Match: faultstore.Puts("manifests/"), Nth: 1, Fault: faultstore.Before(f)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTraced(t, memstore.New(t), asIs)
				tr.append(2)
				synctest.Wait() // the upload waits to be named
				time.Sleep(day + time.Minute)
				st := faultstore.New(tr.mem, rule(func() { tr.append(1) }))
				all := collect(t, st, backend.GCOptions{})
				if len(all) != 1 || all[0].Barrier || all[0].Named != 1 || len(all[0].Objects) != 0 {
					t.Errorf("%+v", all)
				}
				tr.ends()
			})
		})
	}
}

// The same with a barrier whose reply is lost, or that arrives late: what is there
// decides, by the same list.
func TestBarrierThatIsLostOrLate(t *testing.T) {
	for name, fault := range map[string]faultstore.Fault{"lost": faultstore.LostReply(), "late": faultstore.Late(), "twice": faultstore.Duplicate(), "denied": faultstore.Denied()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTraced(t, memstore.New(t), asIs)
				tr.append(2)
				synctest.Wait()
				time.Sleep(day + time.Minute)
				st := faultstore.New(tr.mem)
				in := st.Inject(faultstore.Rule{Match: faultstore.Puts("manifests/"), Nth: 1, Fault: fault})
				var all []backend.GCLog
				for g, err := range backend.New(st, backend.Options{}).GC(t.Context(), backend.GCOptions{}) {
					if err != nil || (g.Err != nil) != (name == "denied") {
						t.Errorf("%v, %v", err, g.Err)
					}
					all = append(all, g)
				}
				if n, _ := all[0].Removed(); (n == 1) != (name != "denied") {
					t.Errorf("%+v", all)
				}
				tr.append(1)
				for _, err := range in.Release(t.Context()) {
					if err == nil {
						t.Error("a late barrier has landed on a version that was gone")
					}
				}
				tr.append(6)
				tr.ends()
			})
		})
	}
}

// A log that is deleted before the barrier needs none: the collection goes by the
// tombstone, and nothing has failed.
func TestLogIsDeletedBeforeTheBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		segmented(t, mem, "log", 1, 20000)
		waits := orphan(t, mem, "log", record(t, mem, "log").Epoch)
		time.Sleep(day + time.Minute)
		st := faultstore.New(mem, faultstore.Rule{Match: faultstore.Puts("manifests/"), Nth: 1, Fault: faultstore.Before(func() {
			if _, err := backend.New(mem, backend.Options{}).Delete(t.Context(), "log", backend.AdoptOptions{}); err != nil {
				t.Error(err)
			}
		})})
		all, err := gcAll(t, st, backend.GCOptions{})
		if err != nil || len(all) != 1 || all[0].Err != nil || all[0].Barrier || all[0].State != manifest.StateDeleted {
			t.Fatalf("%+v, %v", all, err)
		}
		if f := fates(all); f[waits] != manifest.FateBuried || !slices.Contains(keys(mem, ""), waits) {
			t.Errorf("%v, %q", f, keys(mem, ""))
		}
		time.Sleep(day + time.Minute)
		collect(t, mem, backend.GCOptions{})
		if left := keys(mem, "segments/"); len(left) != 0 {
			t.Errorf("%q are left", left)
		}
	})
}

// forking forks the log and lets strike happen when its nth manifest is sent.
func forking(t *testing.T, mem *memstore.Store, nth int, strike func()) {
	t.Helper()
	st := faultstore.New(mem)
	in := st.Inject(faultstore.Rule{Match: faultstore.Puts("manifests/child"), Nth: nth, Fault: faultstore.Before(strike)})
	if _, r, err := backend.New(st, patient(false)).Fork(t.Context(), "log", "child", backend.ForkOptions{Release: true}); err != nil || r.Duplicate || in.Hits() != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// parentOf makes the log that the forks of these tests are of.
func parentOf(t *testing.T) *memstore.Store {
	t.Helper()
	mem := memstore.New(t)
	segmented(t, mem, "log", 2, 20000)
	return mem
}

// childIsWhole demands that the child is whole and that none of the names is in it.
func childIsWhole(t *testing.T, mem *memstore.Store, not ...string) {
	t.Helper()
	r := backend.NewReader(mem, backend.Options{})
	inherited := read(t, r, "child", 0)
	if len(inherited) != 4 || !strings.Contains(inherited[3], "session/end-seed") {
		t.Errorf("%d events", len(inherited))
	}
	verifyClean(t, r, "child")
	for _, s := range record(t, mem, "child").Segments {
		if slices.Contains(not, manifest.SegmentKey("child", s.Name)) {
			t.Errorf("%s was removed, and is named", s.Name)
		}
	}
	sweep(t, mem)
	verifyClean(t, r, "child")
	clean(t, mem)
}

// A fork whose create is under way meets a void: what it uploaded is gone, and it
// begins anew above the void's epoch [N5a N13 X8].
func TestN13ForkMeetsAVoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := parentOf(t)
		var gone []string
		forking(t, mem, 1, func() {
			gone = keys(mem, "segments/child/")
			time.Sleep(day + time.Minute)
			all := collect(t, mem, backend.GCOptions{})
			if !all[0].Void || len(gone) != 1 || len(keys(mem, "segments/child/")) != 0 {
				t.Errorf("%+v", all)
			}
		})
		if v := record(t, mem, "child"); v.Epoch != 3 {
			t.Errorf("epoch %d", v.Epoch)
		}
		childIsWhole(t, mem, gone...)
	})
}

// A fork that began anew on a void meets a second collection, which does not take
// the void for the end of the matter [R8].
func TestR8ForkOnAVoidMeetsACollection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := parentOf(t)
		orphan(t, mem, "child", 1)
		time.Sleep(day + time.Minute)
		collect(t, mem, backend.GCOptions{})
		var gone []string
		forking(t, mem, 2, func() {
			gone = keys(mem, "segments/child/")
			time.Sleep(day + time.Minute)
			all := collect(t, mem, backend.GCOptions{})
			if v := record(t, mem, "child"); !all[0].Void || v.Revision != 2 || v.Epoch != 4 || len(gone) != 2 {
				t.Errorf("%+v, %+v, %q", all, v, gone)
			}
		})
		if v := record(t, mem, "child"); v.Epoch != 5 {
			t.Errorf("epoch %d", v.Epoch)
		}
		childIsWhole(t, mem, gone...)
	})
}

// A fork that died is repeated: it uses other names, so that removals of the first
// one's, which were under way, repeated, or very late, take nothing of it [M10 X11].
func TestM10ForkRepeatedBesideALateRemoval(t *testing.T) {
	for name, fault := range map[string]faultstore.Fault{"late": faultstore.Late(), "a second copy": faultstore.LateCopy()} {
		for _, before := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					mem := parentOf(t)
					dies := faultstore.New(mem, faultstore.Rule{Match: faultstore.Puts("manifests/child"), Fault: faultstore.Refused()})
					if _, _, err := backend.New(dies, backend.Options{}).Fork(t.Context(), "log", "child", backend.ForkOptions{}); err == nil {
						t.Fatal("the fork was to die")
					}
					first := keys(mem, "segments/child/")
					time.Sleep(day + time.Minute)
					st := faultstore.New(mem)
					late := st.Inject(faultstore.Rule{Match: faultstore.Op("Delete"), Fault: fault})
					collectAll := func() {
						for _, err := range backend.New(st, backend.Options{}).GC(t.Context(), backend.GCOptions{}) {
							if err != nil {
								t.Error(err)
							}
						}
					}
					if before {
						collectAll()
						forking(t, mem, 1, func() {})
					} else {
						forking(t, mem, 1, func() {
							time.Sleep(day + time.Minute)
							collectAll()
						})
					}
					if late.Held() < 1 || len(first) != 1 {
						t.Fatalf("%d removals are late, %q", late.Held(), first)
					}
					for _, err := range late.Release(context.Background()) {
						if err != nil {
							t.Error(err)
						}
					}
					childIsWhole(t, mem, first...)
				})
			})
		}
	}
}

// Readers have the whole grace from when a segment was replaced, however old it is
// by then [M11].
func TestM11GraceBeginsWhenASegmentIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		segmented(t, mem, "log", 5, 20000)
		time.Sleep(30 * day)
		foldNow(t, mem, "log")
		collect(t, mem, backend.GCOptions{})
		time.Sleep(day)
		collect(t, mem, backend.GCOptions{})
		for _, r := range record(t, mem, "log").Retired {
			if !slices.Contains(keys(mem, "segments/"), manifest.SegmentKey("log", r.Name)) {
				t.Errorf("%s is gone within the grace", r.Name)
			}
		}
		time.Sleep(time.Second)
		collect(t, mem, backend.GCOptions{})
		clean(t, mem)
	})
}

// A child is whole after its parent was deleted and collected, also where the
// parent's segments were copied.
func TestA28CollectionBesideAFork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := bigStore(t)
		b := backend.New(mem, backend.Options{})
		at := int64(sealed - 10)
		if _, _, err := b.Fork(t.Context(), "log", "child", backend.ForkOptions{At: &at, Release: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Delete(t.Context(), "log", backend.AdoptOptions{}); err != nil {
			t.Fatal(err)
		}
		sweep(t, mem)
		if left := keys(mem, "segments/log/"); len(left) != 0 {
			t.Errorf("%q is left", left)
		}
		sameLines(t, b.Reader, "child", bigLines()["log"][:at+1])
		verifyClean(t, b.Reader, "child")
		clean(t, mem)
	})
}

// A log of which a segment is missing is collected like the others, and nothing
// else of it goes.
func TestA27CollectionOfADamagedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		segmented(t, mem, "damaged", 3, 20000)
		segmented(t, mem, "log", 3, 20000)
		names := record(t, mem, "damaged").Segments
		mem.Drop(manifest.SegmentKey("damaged", names[1].Name))
		orphan(t, mem, "damaged", 1)
		orphan(t, mem, "log", 1)
		sweep(t, mem)
		want := []string{manifest.SegmentKey("damaged", names[0].Name), manifest.SegmentKey("damaged", names[2].Name)}
		if got := keys(mem, "segments/damaged/"); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		verifyClean(t, backend.NewReader(mem, backend.Options{}), "log")
		clean(t, mem)
	})
}
