package backend_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
)

// gcAll is a collection in which anything may fail.
func gcAll(t testing.TB, st objstore.Store, opt backend.GCOptions) (all []backend.GCLog, err error) {
	t.Helper()
	for g, gerr := range backend.New(st, backend.Options{CommitTimeout: time.Minute}).GC(t.Context(), opt) {
		if gerr != nil {
			return all, gerr
		}
		all = append(all, g)
	}
	return all, nil
}

// littered makes a store with something of every kind to collect, and one log
// with nothing, and lets the grace pass.
func littered(t testing.TB) *memstore.Store {
	t.Helper()
	mem := memstore.New(t)
	segmented(t, mem, "clean", 2, 20000)
	segmented(t, mem, "merged", 5, 20000)
	foldNow(t, mem, "merged")
	segmented(t, mem, "orphans", 2, 20000)
	orphan(t, mem, "orphans", 1)
	orphan(t, mem, "orphans", 9)
	segmented(t, mem, "deleted", 2, 20000)
	if _, err := backend.New(mem, backend.Options{}).Delete(t.Context(), "deleted", backend.AdoptOptions{}); err != nil {
		t.Fatal(err)
	}
	orphan(t, mem, "none", 1)
	if _, err := mem.Put(t.Context(), "probe/0123456789abcdef", []byte("x"), objstore.IfAbsent(), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(day + time.Minute)
	return mem
}

// Every call of a collection fails in turn, in every form. The collections after
// it clean up, and no log has lost anything.
func TestCollectionFaultMatrix(t *testing.T) {
	for name, fault := range map[string]faultstore.Fault{
		"unavailable": faultstore.Unavailable(), "applied": faultstore.LostReply(), "late": faultstore.Late(), "a late copy": faultstore.LateCopy(),
		"twice": faultstore.Duplicate(), "denied": faultstore.Denied(), "refused": faultstore.Refused(), "throttled": faultstore.Throttled(),
	} {
		t.Run(name, func(t *testing.T) {
			stride := 1
			if raceDetector {
				stride = 7
			}
			for n := 1; ; n += stride {
				hits := 0
				synctest.Test(t, func(t *testing.T) {
					mem := littered(t)
					r := backend.NewReader(mem, backend.Options{})
					want := map[string][]string{}
					for _, id := range []string{"clean", "merged", "orphans"} {
						want[id] = read(t, r, id, 0)
					}
					st := faultstore.New(mem)
					in := st.Inject(faultstore.Rule{Nth: n, Fault: fault})
					all, err := gcAll(t, st, backend.GCOptions{})
					hits = in.Hits()
					for _, g := range all {
						for _, o := range g.Objects {
							if _, gone := mem.Snapshot(o.Key)[o.Key]; o.Removed && gone {
								t.Errorf("call %d: %s is said to be removed", n, o.Key)
							}
							if o.Err != nil && (o.Removed || !errors.Is(o.Err, objstore.ErrUndecided) && !errors.Is(o.Err, objstore.ErrRefused)) {
								t.Errorf("call %d: %+v", n, o)
							}
						}
						if g.Err != nil && g.Log == "" || err != nil && !strings.Contains(err.Error(), "List") {
							t.Errorf("call %d: %+v, %v", n, g, err)
						}
					}
					in.Stop()
					if _, err := gcAll(t, mem, backend.GCOptions{}); err != nil {
						t.Fatal(err)
					}
					in.Release(t.Context())
					sweep(t, mem)
					clean(t, mem)
					if left := keys(mem, "probe/"); len(left) > 0 {
						t.Errorf("%q is left", left)
					}
					for id, lines := range want {
						if got := read(t, r, id, 0); !slices.Equal(got, lines) {
							t.Errorf("call %d: %s has %d events, not %d", n, id, len(got), len(lines))
						}
						verifyClean(t, r, id)
					}
				})
				if hits == 0 || t.Failed() {
					if n < 15 {
						t.Errorf("%d calls", n)
					}
					return
				}
			}
		})
	}
}

// A collection costs one LIST per tree, one GET per log that has segments, one PUT
// where a barrier is needed, and the removals. It needs no right to read segments,
// nor anything but to remove them.
func TestCollectionBudgetAndRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := littered(t)
		trace := tracestore.New(faultstore.New(mem,
			faultstore.Rule{Match: faultstore.And(faultstore.Op("Get", "Head", "Put", "Copy"), faultstore.Prefix("segments/")), Fault: faultstore.Denied()},
			faultstore.Rule{Match: faultstore.And(faultstore.Op("Delete"), faultstore.Prefix("manifests/")), Fault: faultstore.Denied()},
		), tracestore.Options{})
		n := len(keys(mem, "segments/")) - 2 - 2 - 2 // clean, orphans; one each of the folded one and its tail
		all := collect(t, trace, backend.GCOptions{})
		c := trace.Counts()
		removed := 0
		for _, g := range all {
			k, _ := g.Removed()
			removed += k
		}
		if c.List != 2 || c.Get != 5 || c.Put != 2 || c.Head+c.Copy != 0 || int(c.Delete) != removed {
			t.Errorf("%+v, %d removed", c, removed)
		}
		clean(t, mem)
		if len(keys(mem, "probe/")) != 0 || removed < n {
			t.Errorf("%d removed, at least %d were garbage", removed, n)
		}
		before := trace.Counts()
		collect(t, trace, backend.GCOptions{})
		if c := trace.Counts().Sub(before); c.Put+c.Delete+c.Head+c.Copy != 0 || c.List != 2 || c.Get != 3 {
			t.Errorf("again, without garbage: %+v", c)
		}
	})
}

// What cannot be judged is kept and named, and does not keep the rest from being
// collected.
func TestCollectionKeepsWhatItCannotJudge(t *testing.T) {
	damage := func(mem *memstore.Store) faultstore.Rule {
		mem.Replace(manifest.Key("log"), []byte(`{"format":"s3log.manifest","version":1}`))
		return faultstore.Rule{}
	}
	newer := func(mem *memstore.Store) faultstore.Rule {
		mem.Replace(manifest.Key("log"), reseal(t, mem.Snapshot(manifest.Key("log"))[manifest.Key("log")], `"version":1`, `"version":2`))
		return faultstore.Rule{}
	}
	other := func(mem *memstore.Store) faultstore.Rule {
		mem.Replace(manifest.Key("log"), mem.Snapshot(manifest.Key("other"))[manifest.Key("other")])
		return faultstore.Rule{}
	}
	fails := func(f faultstore.Fault) func(*memstore.Store) faultstore.Rule {
		return func(*memstore.Store) faultstore.Rule {
			return faultstore.Rule{Match: faultstore.And(faultstore.Op("Get"), faultstore.Key(manifest.Key("log"))), Fault: f}
		}
	}
	for _, tc := range []struct {
		name string
		with func(mem *memstore.Store) faultstore.Rule
		kind string // of the finding
		err  error
	}{
		{"damaged", damage, "damaged", backend.ErrCorrupt},
		{"another log's", other, "damaged", backend.ErrCorrupt},
		{"a newer version", newer, "version", backend.ErrUnsupportedVersion},
		{"denied", fails(faultstore.Denied()), "denied", backend.ErrDenied},
		{"unavailable", fails(faultstore.Unavailable()), "", objstore.ErrUndecided},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New(t)
				segmented(t, mem, "log", 2, 20000)
				segmented(t, mem, "other", 2, 20000)
				kept := []string{orphan(t, mem, "log", 1), orphan(t, mem, "log", 2)}
				gone := orphan(t, mem, "other", 1)
				kept = append(kept, keys(mem, "segments/log/")...)
				rule := tc.with(mem)
				st := faultstore.New(mem)
				if rule.Match != nil {
					st.Inject(rule)
				}
				time.Sleep(day + time.Minute)
				all, err := gcAll(t, st, backend.GCOptions{})
				if err != nil || len(all) != 2 || !errors.Is(all[0].Err, tc.err) || all[1].Err != nil {
					t.Fatalf("%+v, %v", all, err)
				}
				oe, _ := errors.AsType[*backend.OpError](all[0].Err)
				if oe == nil || oe.Log != "log" || oe.Key != manifest.Key("log") {
					t.Errorf("%+v", oe)
				}
				var kinds []string
				for _, f := range all[0].Findings {
					kinds = append(kinds, f.Kind)
				}
				if strings.Join(kinds, " ") != tc.kind {
					t.Errorf("%+v", all[0].Findings)
				}
				for _, o := range all[0].Objects {
					if o.Fate != backend.FateKept || o.Removed {
						t.Errorf("%+v", o)
					}
				}
				left := keys(mem, "segments/")
				for _, key := range kept {
					if !slices.Contains(left, key) {
						t.Errorf("%s is gone", key)
					}
				}
				if slices.Contains(left, gone) {
					t.Error("the other log was not collected")
				}
			})
		})
	}
}

// A manifest that was put back behind what this process has seen keeps everything.
func TestCollectionRefusesAnOlderManifest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		segmented(t, mem, "log", 2, 20000)
		old := mem.Snapshot(manifest.Key("log"))[manifest.Key("log")]
		b := backend.New(mem, backend.Options{Foreground: true})
		l := adopt(t, b, "log")
		grow(t, l, 0, 4)
		closeLog(t, l)
		mem.Replace(manifest.Key("log"), old)
		before := keys(mem, "")
		time.Sleep(day + time.Minute)
		for g, err := range b.GC(t.Context(), backend.GCOptions{}) {
			if err != nil || !errors.Is(g.Err, backend.ErrRolledBack) || len(g.Findings) != 1 || g.Findings[0].Kind != "rolled-back" {
				t.Errorf("%+v, %v", g, err)
			}
		}
		if got := keys(mem, ""); !slices.Equal(got, before) {
			t.Errorf("%q, were %q", got, before)
		}
	})
}

// Credentials that may not list an absent manifest's key as absent are told that
// it is denied; the list of that one key tells.
func TestCollectionTellsAbsentFromDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		orphan(t, mem, "none", 1)
		orphan(t, mem, "a", 1)
		segmented(t, mem, "a.json", 1, 20000) // its key begins as that of "a" does
		time.Sleep(day + time.Minute)
		st := faultstore.New(mem, faultstore.Rule{Match: func(op, key string, _ []byte) bool {
			_, there := mem.Snapshot(key)[key]
			return op == "Get" && !there
		}, Fault: faultstore.Denied()})
		collect(t, st, backend.GCOptions{})
		clean(t, mem)
		for _, id := range []string{"none", "a"} {
			if r := record(t, mem, id); r.State != manifest.StateVoid {
				t.Errorf("%s: %+v", id, r)
			}
		}
	})
}

// Keys that are no segment's are named and stay, wherever they are, and so do
// objects of an epoch that their log cannot have reached.
func TestCollectionLeavesWhatIsForeign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		segmented(t, mem, "log", 1, 20000)
		rec := record(t, mem, "log")
		name := rec.Segments[0].Name
		strange := []string{
			"segments/README", "segments/log/notes.txt", "segments/log/sub/" + name.String(), "segments/log/" + name.String() + ".bak",
			"segments/log/" + strings.ToUpper(name.String()), "segments/=6Cog/" + name.String(), "segments/a b/" + name.String(), "segments/lo=g/" + name.String(),
			"probe/README", "probe/x/0123456789abcdef",
		}
		for _, key := range strange {
			mem.Replace(key, []byte("x"))
		}
		far := orphan(t, mem, "log", rec.Epoch+manifest.MaxEpochGap+1)
		near := orphan(t, mem, "log", rec.Epoch+manifest.MaxEpochGap)
		time.Sleep(day + time.Minute)
		all := collect(t, mem, backend.GCOptions{Log: "log"})
		left := keys(mem, "segments/log/")
		if f := fates(all); f[far] != manifest.FateForeign || f[near] != manifest.FateStale || slices.Contains(left, near) || !slices.Contains(left, far) {
			t.Errorf("%v, %q is left", f, left)
		}
		if len(all[0].Findings) != 5 || all[0].Findings[4].Kind != "epoch" || all[0].Findings[4].Key != far {
			t.Errorf("%+v", all[0].Findings)
		}
		var named []string
		for _, g := range collect(t, mem, backend.GCOptions{Grace: 1000 * day}) {
			for _, f := range g.Findings {
				if f.Kind == "foreign" {
					named = append(named, f.Key)
				}
			}
		}
		slices.Sort(named)
		slices.Sort(strange)
		if !slices.Equal(named, strange) {
			t.Errorf("named\n%q\nwant\n%q", named, strange)
		}
		for _, key := range strange {
			if _, ok := mem.Snapshot(key)[key]; !ok {
				t.Errorf("%s is gone", key)
			}
		}
	})
}

// A great many strange keys are counted, not listed one by one.
func TestCollectionCountsManyStrangeKeys(t *testing.T) {
	mem := memstore.New(t)
	for i := range 250 {
		mem.Replace(fmt.Sprintf("segments/log/%03d", i), []byte("x"))
	}
	all, err := gcAll(t, mem, backend.GCOptions{})
	if err != nil || len(all) != 1 || len(all[0].Findings) != 101 || !strings.HasPrefix(all[0].Findings[100].Detail, "150 more") {
		t.Errorf("%+v, %v", all, err)
	}
}

// The key of a long id does not tell it. Without a manifest that does, its objects
// stay, until somebody names the log.
func TestCollectionOfALongID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		long := strings.Repeat("long/", 100)
		key := orphan(t, mem, long, 1)
		time.Sleep(day + time.Minute)
		all := collect(t, mem, backend.GCOptions{})
		if len(all) != 1 || all[0].Log != "" || all[0].Objects[0].Fate != backend.FateNameless || len(keys(mem, "")) != 1 {
			t.Fatalf("%+v", all)
		}
		all = collect(t, mem, backend.GCOptions{Log: long})
		if len(all) != 1 || all[0].Log != long || fates(all)[key] != manifest.FateStale || !all[0].Void || len(keys(mem, "segments/")) != 0 {
			t.Fatalf("%+v", all)
		}
		// From now on the void knows it, and any collection can go on.
		orphan(t, mem, long, 3)
		time.Sleep(day + time.Minute)
		if all = collect(t, mem, backend.GCOptions{}); len(all) != 1 || all[0].Log != long || len(keys(mem, "segments/")) != 0 {
			t.Fatalf("%+v", all)
		}
	})
}

// What is left of a log whose manifest somebody removed stays, until somebody
// names the log: it may be all that there is to make another of.
func TestCollectionOfALogWithoutItsManifest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		segmented(t, mem, "log", 3, 20000) // by several writers
		mem.Drop(manifest.Key("log"))
		before := keys(mem, "")
		time.Sleep(day + time.Minute)
		all := collect(t, mem, backend.GCOptions{})
		if len(all) != 1 || len(all[0].Findings) != 1 || all[0].Findings[0].Kind != "lost" || !slices.Equal(keys(mem, ""), before) {
			t.Fatalf("%+v", all)
		}
		collect(t, mem, backend.GCOptions{Log: "log"})
		if left := keys(mem, ""); !slices.Equal(left, []string{manifest.Key("log")}) {
			t.Errorf("%q", left)
		}
	})
}

// The grace is a time of the store's clock: it is nothing to a collection that the
// clock of its own machine is years off.
func TestGraceIsTheStoresClock(t *testing.T) {
	for _, off := range []time.Duration{-3000 * day, 3000 * day} {
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.NewWith(t, memstore.Options{WholeSeconds: true, Now: func() time.Time { return time.Now().Add(off) }})
			segmented(t, mem, "log", 5, 20000)
			foldNow(t, mem, "log")
			young := orphan(t, mem, "log", record(t, mem, "log").Epoch)
			before := keys(mem, "")
			time.Sleep(day - 2*time.Second)
			collect(t, mem, backend.GCOptions{})
			if got := keys(mem, ""); !slices.Equal(got, before) {
				t.Errorf("off by %s: %q was removed", off, slices.DeleteFunc(before, func(k string) bool { return slices.Contains(got, k) }))
			}
			time.Sleep(4 * time.Second)
			collect(t, mem, backend.GCOptions{})
			clean(t, mem)
			if slices.Contains(keys(mem, ""), young) {
				t.Errorf("off by %s: %s is left", off, young)
			}
		})
	}
}

// A barrier on a log that is committed to all the time is given up after some
// tries, and what needs no barrier goes all the same.
func TestBarrierOnABusyLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		segmented(t, mem, "log", 1, 20000)
		dead := orphan(t, mem, "log", 1)
		l := adopt(t, backend.New(mem, backend.Options{}), "log")
		appendOne(t, l, event(0))
		waits := orphan(t, mem, "log", record(t, mem, "log").Epoch)
		time.Sleep(day + time.Minute)
		st := faultstore.New(mem, faultstore.Rule{Match: faultstore.Puts("manifests/"), Fault: faultstore.Before(func() { appendOne(t, l, event(1)) })})
		all, err := gcAll(t, st, backend.GCOptions{})
		if err != nil || len(all) != 1 || all[0].Err == nil || !strings.Contains(all[0].Err.Error(), "barrier") {
			t.Fatalf("%+v, %v", all, err)
		}
		if f := fates(all); f[dead] != manifest.FateStale || f[waits] != manifest.FateUnsettled || slices.Contains(keys(mem, ""), dead) || !slices.Contains(keys(mem, ""), waits) {
			t.Errorf("%v, %q", f, keys(mem, ""))
		}
		closeLog(t, l)
	})
}

// A removal that fails does not end the others, and a collection that is left or
// cancelled ends at once.
func TestCollectionGoesOnAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		var all []string
		for i := range 40 {
			all = append(all, orphan(t, mem, fmt.Sprintf("log-%02d", i/10), 1))
		}
		slices.Sort(all)
		time.Sleep(day + time.Minute)
		st := faultstore.New(mem, faultstore.Rule{Match: faultstore.Key(all[3]), Fault: faultstore.Denied()})
		logs, err := gcAll(t, st, backend.GCOptions{Log: "log-00"})
		if err != nil || !slices.Equal(keys(mem, "segments/log-00"), all[3:4]) {
			t.Errorf("%v, %q", err, keys(mem, "segments/log-00"))
		}
		if o := logs[0].Objects[3]; o.Removed || !errors.Is(o.Err, backend.ErrDenied) {
			t.Errorf("%+v", o)
		}

		for range backend.New(mem, backend.Options{}).GC(t.Context(), backend.GCOptions{}) {
			break // after log-00
		}
		if left := keys(mem, "segments/"); !slices.Equal(left, all[10:]) {
			t.Errorf("%q", left)
		}

		ctx, cancel := context.WithCancel(t.Context())
		st = faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Delete"), Nth: 1, Fault: faultstore.After(cancel)})
		var last error
		n := 0
		for _, err := range backend.New(st, backend.Options{}).GC(ctx, backend.GCOptions{}) {
			last = err
			n++
		}
		if !errors.Is(last, context.Canceled) || n > 2 || len(keys(mem, "segments/")) < 20 {
			t.Errorf("%d yields, %v, %d objects are left", n, last, len(keys(mem, "segments/")))
		}
		sweep(t, mem)
		clean(t, mem)
	})
}

func TestCollectionArguments(t *testing.T) {
	mem := memstore.New(t)
	for name, opt := range map[string]backend.GCOptions{"grace": {Grace: -1}, "id": {Log: "\xff"}, "missing": {Log: "missing"}} {
		all, err := gcAll(t, mem, opt)
		if err == nil || len(all) > 0 || (name == "missing") != errors.Is(err, backend.ErrNotFound) {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
	if all, err := gcAll(t, mem, backend.GCOptions{}); err != nil || len(all) > 0 {
		t.Errorf("an empty store: %+v, %v", all, err)
	}
	b := backend.New(mem, backend.Options{Label: strings.Repeat("x", 200)})
	for _, err := range b.GC(t.Context(), backend.GCOptions{}) {
		if !errors.Is(err, backend.ErrTooLarge) {
			t.Error(err)
		}
	}
}

// Metadata and everything else that a listing of logs shows of them is as it was
// after a collection.
func TestCollectionChangesNoListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := littered(t)
		list := func() map[string]string {
			found := map[string]string{}
			for e, err := range backend.NewReader(mem, backend.Options{}).List(t.Context(), backend.ListOptions{Deleted: true}) {
				if err != nil || e.Err != nil {
					t.Fatal(err, e.Err)
				}
				found[e.Log] = fmt.Sprint(e.State, e.Next, e.Activity == nil)
			}
			return found
		}
		before := list()
		collect(t, mem, backend.GCOptions{})
		if got := list(); !maps.Equal(got, before) {
			t.Errorf("%v, was %v", got, before)
		}
	})
}

// crowd is a store with a great many logs, which are made up as they are listed:
// a segment each, uploaded just now, and no manifest.
type crowd struct {
	objstore.Store
	logs int
	look func(log int)
}

func (s *crowd) List(_ context.Context, prefix, _ string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		if prefix != manifest.SegmentTree {
			return
		}
		for i := range s.logs {
			s.look(i)
			key := manifest.SegmentKey(fmt.Sprintf("log-%07d", i), manifest.Name{Epoch: 1})
			if !yield(objstore.Info{Key: key, Size: 1000, Modified: time.Now(), Date: time.Now()}, nil) {
				return
			}
		}
	}
}

// Memory is that of a few logs, however many the store has.
func TestCollectionMemory(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var early, late uint64
	st := &crowd{Store: memstore.New(t), logs: 40_000, look: func(i int) {
		switch i {
		case 1_000:
			early = heap()
		case 39_999:
			late = heap()
		}
	}}
	n := 0
	for g, err := range backend.New(st, backend.Options{}).GC(t.Context(), backend.GCOptions{}) {
		if err != nil || g.Err != nil || len(g.Objects) != 1 || g.Objects[0].Fate != manifest.FateYoung {
			t.Fatalf("%+v, %v", g, err)
		}
		n++
	}
	if n != st.logs {
		t.Errorf("%d logs", n)
	}
	if late > early+1<<20 {
		t.Errorf("the heap has grown from %d to %d bytes with the number of logs", early, late)
	}
}
