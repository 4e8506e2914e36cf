package backend_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
)

// check checks a store, by log or else by key.
func check(t testing.TB, store objstore.Reader, opt backend.FsckOptions) map[string]backend.FsckLog {
	t.Helper()
	all := map[string]backend.FsckLog{}
	for l, err := range backend.NewReader(store, backend.Options{}).Fsck(t.Context(), opt) {
		if err != nil {
			t.Fatal(err)
		}
		name := l.Log
		if name == "" {
			name = l.Key
		}
		if _, twice := all[name]; twice {
			t.Errorf("%s is reported twice", name)
		}
		all[name] = l
	}
	return all
}

// found are the kinds and keys of all findings.
func found(l backend.FsckLog) (all []string) {
	for _, f := range l.Findings {
		all = append(all, f.Kind+" "+f.Key)
	}
	slices.Sort(all)
	return all
}

// Everything that can be wrong with a store is found, and nothing is written.
func TestFsck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		three, keys := threeSegments(t)
		mem := copied(t, three)
		put := func(key string, body []byte) { mem.Replace(key, body) }
		segs := func(id string) (list []string) {
			for _, s := range record(t, mem, id).Segments {
				list = append(list, manifest.SegmentKey(id, s.Name))
			}
			return list
		}
		for _, id := range []string{"fine", "gaps", "short", "older", "behind", "tombstone"} {
			segmented(t, mem, id, 3, 100)
		}
		put(manifest.Key("bad"), []byte("{}\n"))
		put(manifest.SegmentPrefix("bad")+strings.TrimPrefix(keys[0], manifest.SegmentPrefix("log")), three.Snapshot("")[keys[0]])
		put(manifest.Key("other"), mem.Snapshot("")[manifest.Key("fine")])
		put(manifest.Key("new"), reseal(t, mem.Snapshot("")[manifest.Key("fine")], `"version":1`, `"version":2`))
		put(manifest.Key("void"), voidBody(t, "void"))
		missing := segs("gaps")[1]
		mem.Drop(missing)
		short := segs("short")[2]
		put(short, mem.Snapshot("")[short][:50])
		older := manifest.Name{First: 1, Epoch: record(t, mem, "older").Epoch + 2}
		put(manifest.SegmentKey("older", older), []byte("x"))
		behind := manifest.Name{First: 100, Epoch: record(t, mem, "behind").Epoch}
		put(manifest.SegmentKey("behind", behind), []byte("x"))
		orphaned := orphan(t, mem, "fine", 1)
		lost := orphan(t, mem, "gone", 7)
		far := orphan(t, mem, "fine", 1<<30)
		young := orphan(t, mem, "unborn", 1)
		put("manifests/readme.txt", []byte("x"))
		put("segments/readme.txt", []byte("x"))
		put("segments/fine/readme.txt", []byte("x"))
		put("probe/0123456789abcdef", []byte("x"))
		if _, err := backend.New(mem, backend.Options{}).Delete(t.Context(), "tombstone", backend.AdoptOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		before := mem.Snapshot("")
		store := tracestore.New(mem, tracestore.Options{})
		all := check(t, store, backend.FsckOptions{})
		if c := store.Counts(); c.Put+c.Delete+c.Copy != 0 || c.List > 4 || c.Head != 1 {
			t.Errorf("%+v", c)
		}
		if !sameObjects(mem.Snapshot(""), before) {
			t.Error("something was written")
		}
		want := map[string][]string{
			"log":        nil,
			"fine":       {"epoch " + far, "foreign segments/fine/readme.txt"},
			"gaps":       {"missing " + missing},
			"short":      {"damaged " + short},
			"older":      {"rolled-back " + manifest.Key("older")},
			"behind":     {"rolled-back " + manifest.Key("behind")},
			"tombstone":  nil,
			"bad":        {"damaged " + manifest.Key("bad")},
			"other":      {"damaged " + manifest.Key("other")},
			"new":        {"version " + manifest.Key("new")},
			"void":       nil,
			"gone":       {"lost " + manifest.Key("gone")},
			"unborn":     {"headless " + manifest.Key("unborn")},
			"manifests/": {"foreign manifests/readme.txt"},
			"segments/":  {"foreign segments/readme.txt"},
			"probe/":     nil,
		}
		got := map[string][]string{}
		for name, l := range all {
			got[name] = found(l)
			if l.Err != nil {
				t.Errorf("%s: %v", name, l.Err)
			}
			bad := slices.ContainsFunc(l.Findings, func(f backend.Finding) bool { return f.Kind != "foreign" && f.Kind != "headless" })
			if l.OK() == bad {
				t.Errorf("%s: OK %v with %+v", name, l.OK(), l.Findings)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		fate := func(name string, f manifest.Fate) (o backend.FsckObjects) {
			for _, o := range all[name].Unnamed {
				if o.Fate == f {
					return o
				}
			}
			return o
		}
		size := func(keys ...string) (n int64) {
			for _, k := range keys {
				n += int64(len(before[k]))
			}
			return n
		}
		if o := fate("fine", manifest.FateStale); o.Objects != 1 || o.Bytes != size(orphaned) || !o.Goes {
			t.Errorf("fine: %+v", all["fine"].Unnamed)
		}
		if o := fate("tombstone", manifest.FateBuried); o.Objects != 3 || o.Goes {
			t.Errorf("tombstone: %+v", all["tombstone"].Unnamed)
		}
		if o := fate("unborn", manifest.FateYoung); o.Objects != 1 || o.Bytes != size(young) || o.Goes {
			t.Errorf("unborn: %+v", all["unborn"].Unnamed)
		}
		if o := fate("bad", backend.FateKept); o.Objects != 1 || o.Goes {
			t.Errorf("bad: %+v", all["bad"].Unnamed)
		}
		if l := all["gone"]; len(l.Unnamed) != 1 || l.Unnamed[0].Bytes != size(lost) || l.State != "" {
			t.Errorf("gone: %+v", l)
		}
		rec := record(t, mem, "fine")
		if l := all["fine"]; l.State != manifest.StateOpen || l.Revision != rec.Revision || l.Epoch != rec.Epoch || l.Next != rec.Next || l.Segments != 3 || l.Bytes == 0 {
			t.Errorf("fine: %+v", l)
		}

		// A day later the collector would take more, and what it would take is what
		// was foretold.
		time.Sleep(24 * time.Hour)
		goes := map[string]int{}
		for name, l := range check(t, mem, backend.FsckOptions{}) {
			for _, o := range l.Unnamed {
				if o.Goes {
					goes[name] += o.Objects
				}
			}
		}
		gone := map[string]int{}
		for g, err := range backend.New(mem, backend.Options{}).GC(t.Context(), backend.GCOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			n, _ := g.Removed()
			if headless := slices.ContainsFunc(g.Findings, func(f backend.Finding) bool { return f.Kind == "headless" }); headless != (g.Log == "unborn") {
				t.Errorf("%s: %+v", g.Log, g.Findings)
			}
			if g.Log == "" {
				g.Log = g.Prefix
			}
			if n > 0 {
				gone[g.Log] += n
			}
		}
		if !maps.Equal(goes, gone) || len(gone) < 4 {
			t.Errorf("foretold %v, gone %v", goes, gone)
		}
	})
}

// With the data, what only reading shows is found, too.
func TestFsckReadsData(t *testing.T) {
	mem, keys := threeSegments(t)
	body := mem.Snapshot("")[keys[1]]
	body[20] ^= 1
	mem.Replace(keys[1], body)
	segmented(t, mem, "fine", 2, 100)
	if l := check(t, mem, backend.FsckOptions{})["log"]; !l.OK() || l.Verified != nil {
		t.Errorf("%+v", l)
	}
	all := check(t, mem, backend.FsckOptions{ReadData: true})
	if l := all["log"]; l.OK() || l.Verified == nil || l.Verified.OK() || l.Verified.Findings[0].Key != keys[1] {
		t.Errorf("%+v", l)
	}
	if l := all["fine"]; !l.OK() || l.Verified == nil || l.Verified.Events != 3 {
		t.Errorf("%+v", l)
	}
}

// Some logs are checked, also one with an id that its keys do not tell, and one
// that is not there.
func TestFsckOfSomeLogs(t *testing.T) {
	mem := memstore.New(t)
	long := strings.Repeat("long", 100)
	for _, id := range []string{"a", "b", long} {
		segmented(t, mem, id, 2, 100)
	}
	gone := orphan(t, mem, "gone", 1)
	store := tracestore.New(mem, tracestore.Options{})
	all := check(t, store, backend.FsckOptions{Logs: []string{"a", long, "none", "gone"}})
	if c := store.Counts(); c.List != 4 || c.Get != 4 || c.Head != 0 {
		t.Errorf("%+v", c)
	}
	if l := all["none"]; len(all) != 4 || !errors.Is(l.Err, backend.ErrNotFound) || l.OK() {
		t.Errorf("%+v", all)
	}
	if l := all[long]; !l.OK() || l.Segments != 2 {
		t.Errorf("%+v", l)
	}
	if l := all["gone"]; !l.OK() || len(l.Unnamed) != 1 || l.Unnamed[0].Bytes != int64(len(mem.Snapshot("")[gone])) {
		t.Errorf("%+v", l)
	}
	if all := check(t, mem, backend.FsckOptions{}); all[long].Segments != 2 || all["a"].Segments != 2 {
		t.Errorf("%+v", all)
	}
	for _, err := range backend.NewReader(mem, backend.Options{}).Fsck(t.Context(), backend.FsckOptions{Logs: []string{""}}) {
		if err == nil {
			t.Error("an empty id is checked")
		}
	}
}

// Ids of which one begins with another and a dot have manifests in another order
// than segments; each is still checked once, with both.
func TestFsckOrder(t *testing.T) {
	mem := memstore.New(t)
	ids := []string{"a", "a.b", "a.json", "a.json.json", "a.k", "a.k.z", "a.m", "a-b", "a=", "a0", "aa", "b", "b.", "b..", "a.json.b", "a.b.c", ".a", "ä"}
	for i, id := range ids {
		if i%4 != 3 {
			segmented(t, mem, id, 1, 100)
			continue
		}
		l := create(t, backend.New(mem, backend.Options{}), id) // nothing but a manifest
		appendOne(t, l, event(1))
		closeLog(t, l)
	}
	lost := []string{"a.j", "a.z", "a.json.", "0"}
	for _, id := range lost {
		orphan(t, mem, id, 7)
	}
	var order []string
	for l, err := range backend.NewReader(mem, backend.Options{}).Fsck(t.Context(), backend.FsckOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		i := slices.Index(ids, l.Log)
		if want := slices.Contains(lost, l.Log); l.OK() == want || !want && (l.Segments == 1) != (i%4 != 3) {
			t.Errorf("%q: %+v", l.Log, l)
		}
		order = append(order, manifest.SegmentPrefix(l.Log))
	}
	if len(order) != len(ids)+len(lost) || !slices.IsSorted(order) {
		t.Errorf("%q", order)
	}
}

// What the credentials or the store do not let be seen is said, and is no damage.
func TestFsckThatCannotSee(t *testing.T) {
	objects := foldable(t)
	for _, tc := range []struct {
		name  string
		rule  faultstore.Rule
		drop  bool // a segment, so that it is looked for
		kinds []string
		err   error // of the log
		fails error // of the check
	}{
		{name: "a denied manifest", rule: faultstore.Rule{Match: faultstore.Op("Get"), Fault: faultstore.Denied()}, kinds: []string{"denied"}},
		{name: "an outage", rule: faultstore.Rule{Match: faultstore.Op("Get"), Fault: faultstore.Unavailable()}, err: objstore.ErrUndecided},
		{name: "a list that is denied", rule: faultstore.Rule{Match: faultstore.Op("List"), Fault: faultstore.Denied()}, fails: backend.ErrDenied},
		{name: "a list that breaks off", rule: faultstore.Rule{Match: faultstore.Op("List"), Fault: faultstore.FailList(1, objstore.ErrUndecided)}, fails: objstore.ErrUndecided},
		{name: "a denied segment", drop: true, rule: faultstore.Rule{Match: faultstore.Op("Head"), Fault: faultstore.Denied()}, kinds: []string{"denied"}},
		{name: "a segment behind an outage", drop: true, rule: faultstore.Rule{Match: faultstore.Op("Head"), Fault: faultstore.Unavailable()}, err: objstore.ErrUndecided},
		{name: "the second look", drop: true, rule: faultstore.Rule{Match: faultstore.Op("Get"), Nth: 2, Fault: faultstore.Unavailable()}, err: objstore.ErrUndecided},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem := restore(t, objects)
			if tc.drop {
				mem.Drop(manifest.SegmentKey("log", record(t, mem, "log").Segments[0].Name))
			}
			store := faultstore.New(mem, tc.rule)
			var all []backend.FsckLog
			var failed error
			for l, err := range backend.NewReader(store, backend.Options{}).Fsck(t.Context(), backend.FsckOptions{}) {
				if failed = err; err == nil {
					all = append(all, l)
				}
			}
			if !errors.Is(failed, tc.fails) || (failed == nil) != (tc.fails == nil) {
				t.Fatalf("%v", failed)
			}
			if tc.fails != nil {
				return
			}
			if len(all) != 1 || all[0].OK() || !errors.Is(all[0].Err, tc.err) || (all[0].Err == nil) != (tc.err == nil) {
				t.Fatalf("%+v", all)
			}
			var kinds []string
			for _, f := range all[0].Findings {
				kinds = append(kinds, f.Kind)
			}
			if !slices.Equal(kinds, tc.kinds) {
				t.Errorf("%v", kinds)
			}
		})
	}
}

// A log that is merged, collected or deleted while it is checked is no finding.
func TestFsckBesideOthers(t *testing.T) {
	objects := foldable(t)
	for name, act := range map[string]func(t *testing.T, mem *memstore.Store){
		"replaced and removed": func(t *testing.T, mem *memstore.Store) { rewrite(t, mem, "log") },
		"folded":               func(t *testing.T, mem *memstore.Store) { foldNow(t, mem, "log") },
		"appended": func(t *testing.T, mem *memstore.Store) {
			takeOver(t, mem, "log", "x", newClaims())
			fold(t, mem, "log")
		},
	} {
		for n := 1; n <= 3; n++ {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s at call %d, after %v", name, n, after), func(t *testing.T) {
					mem := restore(t, objects)
					f := faultstore.Before(func() { act(t, mem) })
					if after {
						f = faultstore.After(func() { act(t, mem) })
					}
					store := faultstore.New(mem, faultstore.Rule{Nth: n, Fault: f})
					for _, l := range check(t, store, backend.FsckOptions{}) {
						if !l.OK() {
							t.Errorf("%+v", l)
						}
					}
				})
			}
		}
	}
}

// A consumer that has enough ends the check.
func TestFsckIsLeft(t *testing.T) {
	mem := memstore.New(t)
	for i := range 40 {
		segmented(t, mem, fmt.Sprint(i), 1, 100)
	}
	n := 0
	for range backend.NewReader(mem, backend.Options{}).Fsck(t.Context(), backend.FsckOptions{}) {
		if n++; n == 3 {
			break
		}
	}
}
