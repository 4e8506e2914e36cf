package backend_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
)

const day = 24 * time.Hour

// collect runs a collection of the whole store, in which nothing may fail.
func collect(t testing.TB, store objstore.Store, opt backend.GCOptions) (all []backend.GCLog) {
	t.Helper()
	for g, err := range backend.New(store, backend.Options{Label: "collector"}).GC(t.Context(), opt) {
		if err != nil || g.Err != nil {
			t.Fatalf("gc: %v, %q: %v", err, g.Log, g.Err)
		}
		for _, o := range g.Objects {
			if o.Err != nil || o.Removed != (o.Fate.MayGo() || o.Fate == backend.FateProbe) {
				t.Errorf("gc of %q: %+v", g.Log, o)
			}
		}
		all = append(all, g)
	}
	return all
}

// fates are the fates of all objects of a collection, by key.
func fates(all []backend.GCLog) map[string]manifest.Fate {
	found := map[string]manifest.Fate{}
	for _, g := range all {
		for _, o := range g.Objects {
			found[o.Key] = o.Fate
		}
	}
	return found
}

// grow appends so much that segments are sealed and merged on the way.
func grow(t testing.TB, l *backend.Log, from, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(from), 5))
	for i := range n {
		appendOne(t, l, noise(rng, from+i, 30000))
	}
}

// orphan uploads a segment that nobody names.
func orphan(t testing.TB, st objstore.Store, id string, epoch uint32) string {
	t.Helper()
	name := manifest.Name{First: 3, Epoch: epoch, Nonce: manifest.NewNonce()}
	if err := manifest.PutSegment(t.Context(), st, id, name, []byte("nobody names it"), manifest.Options{}); err != nil {
		t.Fatal(err)
	}
	return manifest.SegmentKey(id, name)
}

func keys(mem *memstore.Store, prefix string) []string {
	return slices.Sorted(maps.Keys(mem.Snapshot(prefix)))
}

// What merges have replaced is kept for readers, then removed without a write;
// what was never named goes behind a barrier, which changes neither events nor
// owner, and the owner goes on. A collection that finds no garbage writes
// nothing.
func TestCollectsALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		b := backend.New(mem, backend.Options{Foreground: true})
		l := create(t, b, "log")
		grow(t, l, 0, 20)
		lost := orphan(t, mem, "log", 1)
		before := read(t, b.Reader, "log", 0)
		rec := record(t, mem, "log")
		if len(rec.Retired) < 4 || len(rec.Segments) < 1 {
			t.Fatalf("%d segments, %d retired", len(rec.Segments), len(rec.Retired))
		}
		store := tracestore.New(mem, tracestore.Options{})

		// Within the grace everything stays.
		all := collect(t, store, backend.GCOptions{})
		if len(all) != 1 || all[0].Named != len(rec.Segments) || len(all[0].Objects) != len(rec.Retired)+1 || all[0].Barrier {
			t.Fatalf("%+v", all)
		}
		if c := store.Counts(); c.Put+c.Delete != 0 || c.Get != 1 || c.List != 2 {
			t.Errorf("%+v", c)
		}
		time.Sleep(day + time.Second)

		// A dry run says what would be done.
		dry := collect(t, store, backend.GCOptions{DryRun: true})
		if c := store.Counts(); c.Put+c.Delete != 0 {
			t.Errorf("a dry run: %+v", c)
		}
		if n, size := dry[0].Removed(); n != len(rec.Retired)+1 || size == 0 || !dry[0].Barrier {
			t.Errorf("%d, %d bytes, %+v", n, size, dry)
		}

		was := store.Counts()
		all = collect(t, store, backend.GCOptions{})
		if !maps.Equal(fates(all), fates(dry)) || !all[0].Barrier || all[0].Void {
			t.Errorf("%+v, the dry run said %+v", all, dry)
		}
		if c := store.Counts().Sub(was); c.Put != 1 || c.Get != 1 || int(c.Delete) != len(rec.Retired)+1 {
			t.Errorf("%+v", c)
		}
		after := record(t, mem, "log")
		if after.Epoch != 2 || len(after.Retired) != 0 || *after.Owner != *rec.Owner || after.Next != rec.Next || after.Content.Tree.Root != rec.Content.Tree.Root {
			t.Errorf("%+v", after)
		}
		if left := keys(mem, "segments/"); len(left) != len(rec.Segments) || slices.Contains(left, lost) {
			t.Errorf("%q is left", left)
		}
		if got := read(t, b.Reader, "log", 0); !slices.Equal(got, before) {
			t.Errorf("%d events, there were %d", len(got), len(before))
		}
		grow(t, l, 20, 20) // the owner goes on, in the new epoch
		verifyClean(t, b.Reader, "log")

		// The same without an orphan: what was retired needs no barrier.
		time.Sleep(day + time.Second)
		was = store.Counts()
		if all = collect(t, store, backend.GCOptions{}); all[0].Barrier || len(all[0].Objects) == 0 {
			t.Errorf("%+v", all)
		}
		was2 := store.Counts()
		if c := was2.Sub(was); c.Put != 0 || c.Delete == 0 {
			t.Errorf("%+v", c)
		}
		collect(t, store, backend.GCOptions{})
		if c := store.Counts().Sub(was2); c.Put+c.Delete != 0 || c.Get != 1 {
			t.Errorf("without garbage: %+v", c)
		}
		verifyClean(t, b.Reader, "log")
		closeLog(t, l)
	})
}

// A deleted log leaves a tombstone, and its segments when the grace for readers
// is over. A fork of it, and any other log, is not touched.
func TestCollectsADeletedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		b := backend.New(mem, backend.Options{Foreground: true})
		l := create(t, b, "log")
		grow(t, l, 0, 12)
		child, _, err := b.Fork(t.Context(), "log", "child", backend.ForkOptions{})
		if err != nil {
			t.Fatal(err)
		}
		inChild := read(t, b.Reader, "child", 0)
		if _, err := b.Delete(t.Context(), "log", backend.AdoptOptions{Quiet: time.Minute}); !errors.Is(err, backend.ErrHeld) {
			t.Fatalf("a log with an active writer: %v", err)
		}
		r, err := b.Delete(t.Context(), "log", backend.AdoptOptions{})
		if err != nil || r.Duplicate || r.Generation != 2 || r.Next != 12 || r.First != 12 || r.Count != 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		again, err := b.Delete(t.Context(), "log", backend.AdoptOptions{Quiet: time.Minute})
		if want := r; err != nil || !again.Duplicate || again.Revision != want.Revision {
			t.Fatalf("%+v, %v", again, err)
		}
		if _, err := l.Append(t.Context(), [][]byte{event(1)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrDeleted) {
			t.Errorf("the owner: %v", err)
		}
		all := collect(t, mem, backend.GCOptions{})
		for key, fate := range fates(all) {
			if strings.HasPrefix(key, "segments/log/") && fate != manifest.FateBuried {
				t.Errorf("%s: %s", key, fate)
			}
		}
		if len(keys(mem, "segments/log/")) == 0 {
			t.Fatal("removed within the grace")
		}
		time.Sleep(day + time.Second)
		collect(t, mem, backend.GCOptions{})
		if left := keys(mem, "segments/log/"); len(left) != 0 {
			t.Errorf("%q is left", left)
		}
		if i := info(t, b.Reader, "log"); i.State != manifest.StateDeleted {
			t.Errorf("%+v", i)
		}
		if got := read(t, b.Reader, "child", 0); !slices.Equal(got, inChild) {
			t.Errorf("%d events in the child, there were %d", len(got), len(inChild))
		}
		appendOne(t, child, event(100))
		verifyClean(t, b.Reader, "child")
		closeLog(t, child)
	})
}

// Objects below an id without a log are removed behind a void, and those below a
// void behind a new revision of it. The id can be used all the same.
func TestCollectsAnIDWithoutALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		b := backend.New(mem, backend.Options{})
		first := orphan(t, mem, "no log/yet", 1)
		collect(t, mem, backend.GCOptions{})
		if len(keys(mem, "")) != 1 {
			t.Fatalf("within the grace: %q", keys(mem, ""))
		}
		time.Sleep(day + time.Second)
		all := collect(t, mem, backend.GCOptions{})
		if len(all) != 1 || !all[0].Void || all[0].State != manifest.StateVoid || fates(all)[first] != manifest.FateStale {
			t.Fatalf("%+v", all)
		}
		if got := keys(mem, ""); len(got) != 1 || record(t, mem, "no log/yet").Epoch != 2 {
			t.Fatalf("%q", got)
		}
		orphan(t, mem, "no log/yet", 2)
		orphan(t, mem, "no log/yet", 3)
		time.Sleep(day + time.Second)
		collect(t, mem, backend.GCOptions{})
		if got, v := keys(mem, ""), record(t, mem, "no log/yet"); len(got) != 1 || v.Epoch != 4 || v.Revision != 2 {
			t.Fatalf("%q, %+v", got, v)
		}
		l := create(t, b, "no log/yet")
		appendOne(t, l, event(0))
		if v := record(t, mem, "no log/yet"); v.Epoch != 5 || v.State != manifest.StateOpen {
			t.Errorf("%+v", v)
		}
		closeLog(t, l)
	})
}
