package backend_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// rebuilt rebuilds a log, first without doing it, and compares.
func rebuilt(t testing.TB, mem *memstore.Store, id string, want backend.RebuildCase) backend.RebuildReport {
	t.Helper()
	before := mem.Snapshot("")
	b := backend.New(mem, backend.Options{})
	plan, err := b.Rebuild(t.Context(), id, backend.RebuildOptions{DryRun: true})
	if err != nil || plan.Done || plan.Found != want {
		t.Fatalf("a dry run: %+v, %v", plan, err)
	}
	if !sameObjects(mem.Snapshot(""), before) {
		t.Error("a dry run writes")
	}
	rep, err := b.Rebuild(t.Context(), id, backend.RebuildOptions{})
	if err != nil || !rep.Done {
		t.Fatalf("%+v, %v", rep, err)
	}
	plan.Done = true
	if diff := cmp.Diff(plan, rep); diff != "" {
		t.Error("planned and done:", diff)
	}
	rec := record(t, mem, id)
	if rep.UID != rec.UID || rep.Epoch != rec.Epoch || rep.Revision != rec.Revision || rep.Next != rec.Next || rep.Root != rec.Content.Tree.Root || len(rep.Lost) == 0 {
		t.Errorf("%+v; there is %+v", rep, rec)
	}
	for key := range mem.Snapshot(manifest.SegmentPrefix(id)) {
		name, err := manifest.ParseName(strings.TrimPrefix(key, manifest.SegmentPrefix(id)))
		if err == nil && name.Epoch >= rec.Epoch && !manifest.Foreign(rec, name) {
			t.Errorf("epoch %d, and there is %s", rec.Epoch, name)
		}
	}
	verifyClean(t, b.Reader, id)
	return rep
}

// goesOn appends to a log, resumes and forks it.
func goesOn(t testing.TB, mem *memstore.Store, id string) {
	t.Helper()
	b := backend.New(mem, backend.Options{})
	n := len(read(t, b.Reader, id, 0))
	l := adopt(t, b, id)
	if r := appendOne(t, l, event(n)); r.First != int64(n) {
		t.Errorf("%+v behind %d events", r, n)
	}
	closeLog(t, l)
	l, _ = resume(t, b, id, backend.ResumeOptions{Claim: true})
	closeLog(t, l)
	verifyClean(t, b.Reader, id)
	forked(t, b, id, id+"-child", backend.ForkOptions{})
	verifyClean(t, b.Reader, id+"-child")
}

// Whatever has become of a manifest, it is made again from the segments: the
// events in them, and the state of the log after the last one.
func TestRebuild(t *testing.T) {
	three, _ := threeSegments(t)
	was := record(t, three, "log")
	all := read(t, backend.NewReader(three, backend.Options{}), "log", 0)
	key := manifest.Key("log")
	body := three.Snapshot("")[key]
	segmented(t, three, "other", 1, 10)
	for _, tc := range []struct {
		name string
		body []byte // nil: removed
		want backend.RebuildCase
	}{
		{"removed", nil, backend.RebuildMissing},
		{"cut off", body[:len(body)/2], backend.RebuildDamaged},
		{"empty", []byte{}, backend.RebuildDamaged},
		{"far too large", bytes.Repeat([]byte("x"), 4<<20), backend.RebuildDamaged},
		{"of another log", three.Snapshot("")[manifest.Key("other")], backend.RebuildForeign},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem := copied(t, three)
			if tc.body == nil {
				mem.Drop(key)
			} else {
				mem.Replace(key, tc.body)
			}
			rep := rebuilt(t, mem, "log", tc.want)
			if rep.Next != 9 || len(rep.Segments) != 3 || rep.Listed != 3 || len(rep.Unused) != 0 || rep.Gap != nil || rep.Unconfirmed != 6 || rep.Why == "" {
				t.Errorf("%+v", rep)
			}
			rec := record(t, mem, "log")
			if rec.UID != was.UID || !bytes.Equal(rec.Header, was.Header) || *rec.Origin != *was.Origin || rec.ActivityRule != was.ActivityRule ||
				!slices.Equal(rec.Segments, was.Segments) || len(rec.Tail)+len(rec.Keys)+len(rec.Retired) != 0 || rec.Lease != nil {
				t.Errorf("%+v", rec)
			}
			if g := rec.Generations; len(g) != 1 || g[0].Kind != manifest.KindRebuild || g[0].First != 9 || g[0].Generation < was.Generation() || !rec.Owner.Released {
				t.Errorf("%+v, %+v", g, rec.Owner)
			}
			if l := rec.Lifecycle; l.Kind != manifest.KindResume || l.Inherited != 5 || l.First != 6 {
				t.Errorf("%+v", l)
			}
			if got := read(t, backend.NewReader(mem, backend.Options{}), "log", 0); !slices.Equal(got, all[:9]) {
				t.Errorf("%q", got)
			}
			// What the last index knows: a turn is open, with a call.
			if turn := rec.Content.Turn; turn == nil || turn.Turn != 2 || len(turn.Calls) != 1 || *rec.Content.Activity != *was.Content.Activity || rec.Content.Boundary.Seq != 5 {
				t.Errorf("%+v", rec.Content)
			}
			goesOn(t, mem, "log")
		})
	}
}

// Merged segments are taken before what they were merged from, and that where
// they are damaged.
func TestRebuildTakesWhatIsIntact(t *testing.T) {
	base := memstore.New(t)
	segmented(t, base, "log", 6, 100)
	lines := read(t, backend.NewReader(base, backend.Options{}), "log", 0)
	if _, err := backend.New(base, backend.Options{}).Fold(t.Context(), "log", backend.FoldOptions{Tail: backend.FoldTailKeep}); err != nil {
		t.Fatal(err)
	}
	was := record(t, base, "log")
	merged := manifest.SegmentKey("log", was.Segments[0].Name)
	old := func(i int) string { return manifest.SegmentKey("log", was.Retired[i].Name) }
	flip := func(mem *memstore.Store, key string, at int) {
		body := bytes.Clone(mem.Snapshot("")[key])
		body[(at+len(body))%len(body)] ^= 1
		mem.Replace(key, body)
	}
	for _, tc := range []struct {
		name     string
		act      func(mem *memstore.Store)
		segments int
		next     int64
		gap      *backend.RebuildGap
	}{
		{"all intact", func(*memstore.Store) {}, 1, 6, nil},
		{"only the merged one", func(mem *memstore.Store) {
			for i := range 6 {
				mem.Drop(old(i))
			}
		}, 1, 6, nil},
		{"the last of the old ones is missing", func(mem *memstore.Store) { mem.Drop(old(5)) }, 1, 6, nil},
		{"one in the middle of the old ones is missing", func(mem *memstore.Store) { mem.Drop(old(2)) }, 1, 6, nil},
		{"events of the merged one are damaged", func(mem *memstore.Store) { flip(mem, merged, 20) }, 6, 6, nil},
		{"the index of the merged one is damaged", func(mem *memstore.Store) { flip(mem, merged, -100) }, 6, 6, nil},
		{"the merged one is missing", func(mem *memstore.Store) { mem.Drop(merged) }, 6, 6, nil},
		{"and one in the middle, too", func(mem *memstore.Store) { mem.Drop(merged); mem.Drop(old(3)) }, 3, 3,
			&backend.RebuildGap{From: 3, To: 4, Next: 6, Segments: 2}},
		{"and one in the middle is damaged", func(mem *memstore.Store) { mem.Drop(merged); flip(mem, old(3), 20) }, 3, 3,
			&backend.RebuildGap{From: 3, To: 4, Next: 6, Segments: 2}},
		{"and the index of one in the middle is damaged", func(mem *memstore.Store) { mem.Drop(merged); flip(mem, old(3), -1) }, 3, 3,
			&backend.RebuildGap{From: 3, To: 4, Next: 6, Segments: 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem := copied(t, base)
			mem.Drop(manifest.Key("log"))
			tc.act(mem)
			rep := rebuilt(t, mem, "log", backend.RebuildMissing)
			if len(rep.Segments) != tc.segments || rep.Next != tc.next || len(rep.Segments)+len(rep.Unused) != rep.Listed {
				t.Errorf("%+v", rep)
			}
			if diff := cmp.Diff(tc.gap, rep.Gap); diff != "" {
				t.Error(diff)
			}
			if tc.gap != nil && !strings.Contains(rep.Lost[0], "seqs 3 to 3 are missing") {
				t.Errorf("%q", rep.Lost)
			}
			if got := read(t, backend.NewReader(mem, backend.Options{}), "log", 0); !slices.Equal(got, lines[:tc.next]) {
				t.Errorf("%q", got)
			}
			for _, u := range rep.Unused {
				if u.Why == "" {
					t.Errorf("%+v", u)
				}
			}
			goesOn(t, mem, "log")
		})
	}
}

// Nothing to rebuild from, or something that is not to be replaced.
func TestRebuildRefuses(t *testing.T) {
	three, keys := threeSegments(t)
	without := func(drop ...string) *memstore.Store {
		mem := copied(t, three)
		for _, key := range append(drop, manifest.Key("log")) {
			mem.Drop(key)
		}
		return mem
	}
	with := func(mem *memstore.Store, key string, body []byte) *memstore.Store {
		mem.Replace(key, body)
		return mem
	}
	deleted := copied(t, three)
	if _, err := backend.New(deleted, backend.Options{}).Delete(t.Context(), "log", backend.AdoptOptions{TakeOver: true}); err != nil {
		t.Fatal(err)
	}
	tail := memstore.New(t)
	written(t, backend.New(tail, backend.Options{}), "log", nil, brief("note"))
	tail.Drop(manifest.Key("log"))
	// Another log's segments, below the wrong prefix.
	alien := memstore.New(t)
	for i, s := range record(t, three, "log").Segments {
		alien.Replace(manifest.SegmentKey("Log", s.Name), three.Snapshot("")[keys[i]])
	}
	cased := copied(t, alien)
	cased.Replace(manifest.Key("Log"), three.Snapshot("")[manifest.Key("log")])
	for _, tc := range []struct {
		name string
		mem  *memstore.Store
		id   string
		want error
		says string
	}{
		{"no log", memstore.New(t), "log", backend.ErrNotFound, "nothing is left"},
		{"a log that had nothing but a tail", tail, "log", backend.ErrNotFound, "nothing is left"},
		{"the first segment is missing", without(keys[0]), "log", backend.ErrNotFound, "none has the first events"},
		{"the first segment is damaged", with(without(), keys[0], []byte("damaged, and of no use to anybody any more")), "log", backend.ErrNotFound, "with the first events"},
		{"segments of another log", alien, "Log", backend.ErrNotFound, "none says that it is this log's"},
		{"the manifest of a log that differs in case", cased, "Log", backend.ErrExists, "only in case"},
		{"a tombstone", deleted, "log", backend.ErrDeleted, ""},
		{"a void", with(without(), manifest.Key("log"), voidBody(t, "log")), "log", backend.ErrNotFound, "void"},
		{"a newer manifest", with(without(), manifest.Key("log"), reseal(t, three.Snapshot("")[manifest.Key("log")], `"version":1`, `"version":2`)), "log", backend.ErrUnsupportedVersion, ""},
		{"a newer segment", with(without(), keys[1], newerIndex(three.Snapshot("")[keys[1]])), "log", backend.ErrUnsupportedVersion, ""},
		{"no id", three, "", nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.mem.Snapshot("")
			for _, dry := range []bool{true, false} {
				rep, err := backend.New(tc.mem, backend.Options{}).Rebuild(t.Context(), tc.id, backend.RebuildOptions{DryRun: dry})
				if err == nil || tc.want != nil && !errors.Is(err, tc.want) || rep.Done || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%+v, %v", rep, err)
				}
				if oe, ok := errors.AsType[*backend.OpError](err); !ok || oe.Hint == "" && tc.want != nil {
					t.Errorf("%v has no hint", err)
				}
			}
			if !sameObjects(tc.mem.Snapshot(""), before) {
				t.Error("something was written")
			}
		})
	}
}

// A log that was deleted does not come back because its tombstone is damaged.
func TestRebuildLeavesADamagedTombstone(t *testing.T) {
	three, _ := threeSegments(t)
	key := manifest.Key("log")
	for name, metadata := range map[string]bool{"with metadata": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			mem := copied(t, three)
			b := backend.New(mem, backend.Options{})
			if _, err := b.Delete(t.Context(), "log", backend.AdoptOptions{}); err != nil {
				t.Fatal(err)
			}
			body := mem.Snapshot("")[key]
			damaged := bytes.Replace(body, []byte(`"next":`), []byte(`"mext":`), 1)
			if metadata {
				damaged = body[:40]
				was, err := mem.Head(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := mem.Put(t.Context(), key, damaged, objstore.IfVersion(was.Version), objstore.PutOptions{Metadata: was.Metadata}); err != nil {
					t.Fatal(err)
				}
			} else {
				mem.Replace(key, damaged)
			}
			for _, dry := range []bool{true, false} {
				rep, err := b.Rebuild(t.Context(), "log", backend.RebuildOptions{DryRun: dry})
				if oe, ok := errors.AsType[*backend.OpError](err); !errors.Is(err, backend.ErrDeleted) || rep.Done || !ok || oe.Hint == "" {
					t.Errorf("%+v, %v", rep, err)
				}
			}
			if got := mem.Snapshot("")[key]; !bytes.Equal(got, damaged) {
				t.Errorf("%q was written", got)
			}
		})
	}
}

// A manifest that can be read and that nothing speaks against is left alone.
func TestRebuildLeavesAnIntactManifest(t *testing.T) {
	mem, _ := threeSegments(t)
	orphan(t, mem, "log", record(t, mem, "log").Epoch+1) // of a takeover that failed
	before := mem.Snapshot("")
	rep, err := backend.New(mem, backend.Options{}).Rebuild(t.Context(), "log", backend.RebuildOptions{})
	if err != nil || rep.Found != backend.RebuildIntact || rep.Done || !sameObjects(mem.Snapshot(""), before) {
		t.Errorf("%+v, %v", rep, err)
	}
}

// An older manifest that was put back is kept, in an epoch above everything that
// is listed.
func TestRebuildOfAnOlderManifest(t *testing.T) {
	mem, _ := threeSegments(t)
	older := mem.Snapshot("")[manifest.Key("log")]
	lines := read(t, backend.NewReader(mem, backend.Options{}), "log", 0)
	for i := range 3 {
		l := adopt(t, backend.New(mem, backend.Options{}), "log")
		appendOne(t, l, event(i))
		if err := l.Close(t.Context(), backend.CloseOptions{Seal: true}); err != nil {
			t.Fatal(err)
		}
	}
	newest := mem.Snapshot("")[manifest.Key("log")]
	mem.Replace(manifest.Key("log"), older)
	was := record(t, mem, "log")
	if l := check(t, mem, backend.FsckOptions{})["log"]; l.OK() || l.Findings[0].Kind != "rolled-back" {
		t.Errorf("%+v", l)
	}
	rep := rebuilt(t, mem, "log", backend.RebuildOlder)
	if rep.Unconfirmed != -1 || len(rep.Lost) != 2 || rep.Revision != was.Revision+1 {
		t.Errorf("%+v", rep)
	}
	rec := record(t, mem, "log")
	if diff := cmp.Diff(lasting(was), func() manifest.Record { r := lasting(rec); r.Epoch = was.Epoch; return r }()); diff != "" {
		t.Error(diff)
	}
	if got := read(t, backend.NewReader(mem, backend.Options{}), "log", 0); !slices.Equal(got, lines) {
		t.Errorf("%q", got)
	}
	if l := check(t, mem, backend.FsckOptions{})["log"]; !l.OK() {
		t.Errorf("%+v", l)
	}
	goesOn(t, mem, "log")

	// The newer events can be had by rebuilding without the older manifest.
	mem = restore(t, mem.Snapshot(""))
	mem.Replace(manifest.Key("log"), newest)
	want := read(t, backend.NewReader(mem, backend.Options{}), "log", 0)
	mem.Drop(manifest.Key("log"))
	rebuilt(t, mem, "log", backend.RebuildMissing)
	if got := read(t, backend.NewReader(mem, backend.Options{}), "log", 0); !slices.Equal(got, want) {
		t.Errorf("%d events, want %d", len(got), len(want))
	}
}

// In the first generation nothing proves that a manifest is an older one: it is
// said to be possible, and the epoch is raised where somebody says so.
func TestRebuildOfARestoredManifest(t *testing.T) {
	mem := memstore.New(t)
	b := backend.New(mem, backend.Options{Foreground: true})
	l := create(t, b, "log")
	appendOne(t, l, event(0))
	older := mem.Snapshot("")[manifest.Key("log")]
	appendAll(t, l, event(1), event(2))
	fold(t, mem, "log")
	appendAll(t, l, event(3), event(4))
	fold(t, mem, "log")
	closeLog(t, l)
	mem.Replace(manifest.Key("log"), older)
	if l := check(t, mem, backend.FsckOptions{})["log"]; !l.OK() || len(l.Findings) != 1 || l.Findings[0].Kind != "ahead" {
		t.Errorf("%+v", l)
	}
	b = backend.New(mem, backend.Options{})
	if rep, err := b.Rebuild(t.Context(), "log", backend.RebuildOptions{}); err != nil || rep.Found != backend.RebuildIntact {
		t.Errorf("%+v, %v", rep, err)
	}
	rep, err := b.Rebuild(t.Context(), "log", backend.RebuildOptions{Restored: true})
	if err != nil || rep.Found != backend.RebuildOlder || !rep.Done || rep.Epoch != 2 {
		t.Errorf("%+v, %v", rep, err)
	}
	if l := check(t, mem, backend.FsckOptions{})["log"]; len(l.Findings) != 0 {
		t.Errorf("%+v", l)
	}
	goesOn(t, mem, "log")
}

// Two rebuilds at a time: one wins, and the other says so.
func TestRebuildsAtATime(t *testing.T) {
	three, _ := threeSegments(t)
	body := three.Snapshot("")[manifest.Key("log")]
	for name, prepare := range map[string]func(mem *memstore.Store){
		"missing": func(mem *memstore.Store) { mem.Drop(manifest.Key("log")) },
		"damaged": func(mem *memstore.Store) { mem.Replace(manifest.Key("log"), body[:50]) },
	} {
		t.Run(name, func(t *testing.T) {
			mem := copied(t, three)
			prepare(mem)
			store := faultstore.New(mem, faultstore.Rule{Match: faultstore.Puts("manifests/"), Nth: 1, Fault: faultstore.Before(func() {
				if rep, err := backend.New(mem, backend.Options{}).Rebuild(t.Context(), "log", backend.RebuildOptions{}); err != nil || !rep.Done {
					t.Errorf("the other: %+v, %v", rep, err)
				}
			})})
			rep, err := backend.New(store, backend.Options{}).Rebuild(t.Context(), "log", backend.RebuildOptions{})
			if !errors.Is(err, backend.ErrExists) || rep.Done || backend.Token(err) != "" {
				t.Errorf("%+v, %v", rep, err)
			}
			verifyClean(t, backend.NewReader(mem, backend.Options{}), "log")
		})
	}
}

// Whoever else makes a manifest meanwhile is not overwritten.
func TestRebuildBesideOthers(t *testing.T) {
	three, _ := threeSegments(t)
	body := three.Snapshot("")[manifest.Key("log")]
	others := map[string]func(t *testing.T, mem *memstore.Store){
		"a writer creates the log": func(t *testing.T, mem *memstore.Store) {
			mem.Drop(manifest.Key("log"))
			written(t, backend.New(mem, backend.Options{}), "log", nil, brief("note"))
		},
		"the manifest is restored": func(_ *testing.T, mem *memstore.Store) { mem.Replace(manifest.Key("log"), body) },
		"a void is made":           func(t *testing.T, mem *memstore.Store) { mem.Replace(manifest.Key("log"), voidBody(t, "log")) },
	}
	for name, act := range others {
		for _, damaged := range []bool{false, true} {
			for n := 1; ; n++ {
				mem := copied(t, three)
				mem.Drop(manifest.Key("log"))
				if damaged {
					mem.Replace(manifest.Key("log"), body[:50])
				}
				var after map[string][]byte
				store := faultstore.New(mem)
				hit := store.Inject(faultstore.Rule{Nth: n, Fault: faultstore.Before(func() { act(t, mem); after = mem.Snapshot("") })})
				rep, err := backend.New(store, backend.Options{}).Rebuild(t.Context(), "log", backend.RebuildOptions{})
				if hit.Hits() == 0 {
					if n < 5 {
						t.Errorf("%d calls", n-1)
					}
					break
				}
				if rep.Found == backend.RebuildOlder && rep.Done {
					// Segments of the log of before are there: the new one is raised above them.
					was := mem.Snapshot("")[manifest.Key("log")]
					mem.Replace(manifest.Key("log"), after[manifest.Key("log")])
					begun := record(t, mem, "log")
					mem.Replace(manifest.Key("log"), was)
					rec := record(t, mem, "log")
					if rec.UID != begun.UID || rec.Next != begun.Next || rec.Epoch <= begun.Epoch || rec.Revision != begun.Revision+1 {
						t.Errorf("%s before call %d: %+v", name, n, rec)
					}
					continue
				}
				if rep.Done || err == nil && rep.Found != backend.RebuildIntact || !sameObjects(mem.Snapshot(""), after) {
					t.Errorf("%s before call %d, damaged %v: %+v, %v", name, n, damaged, rep, err)
				}
			}
		}
	}
}

// Whatever goes wrong at whichever call of a rebuild, it never says that it is
// done where it is not, and repeating it gets there.
func TestRebuildFaultMatrix(t *testing.T) {
	three, _ := threeSegments(t)
	lines := read(t, backend.NewReader(three, backend.Options{}), "log", 0)[:9]
	body := three.Snapshot("")[manifest.Key("log")]
	runs := 0
	for _, damaged := range []bool{false, true} {
		calls := map[bool]int{false: 1 + 1 + 3 + 3 + 1, true: 1 + 2 + 1 + 3 + 3 + 1}[damaged]
		for _, f := range forms {
			for n := 1; n <= calls; n++ {
				synctest.Test(t, func(t *testing.T) {
					runs++
					what := fmt.Sprintf("%s at call %d, damaged %v", f.name, n, damaged)
					mem := restore(&judge{t, what}, three.Snapshot(""))
					mem.Drop(manifest.Key("log"))
					if damaged {
						mem.Replace(manifest.Key("log"), body[:50])
					}
					all := faultstore.New(mem)
					struck := all.Inject(faultstore.Rule{Nth: n, Times: f.times, Fault: f.fault})
					if f.then != nil {
						all.Inject(faultstore.Rule{Nth: n + 1, Fault: *f.then})
					}
					rep, err := backend.New(all, backend.Options{CommitTimeout: 20 * time.Second}).Rebuild(t.Context(), "log", backend.RebuildOptions{})
					if struck.Hits() == 0 {
						t.Errorf("%s: no call was struck", what)
					}
					struck.Stop()
					if backend.Token(err) != "" || rep.Done != (err == nil) {
						t.Errorf("%s: %+v, %v", what, rep, err)
					}
					if rep.Done {
						if got := read(t, backend.NewReader(mem, backend.Options{}), "log", 0); !slices.Equal(got, lines) {
							t.Errorf("%s: %q", what, got)
						}
					}
					again, err := backend.New(mem, backend.Options{}).Rebuild(t.Context(), "log", backend.RebuildOptions{})
					if err != nil || !again.Done && again.Found != backend.RebuildIntact {
						t.Errorf("%s, repeated: %+v, %v", what, again, err)
					}
					struck.Release(context.Background())
					r := backend.NewReader(mem, backend.Options{})
					if got := read(t, r, "log", 0); !slices.Equal(got, lines) {
						t.Errorf("%s, repeated: %q", what, got)
					}
					verifyClean(t, r, "log")
				})
			}
		}
	}
	t.Logf("%d runs", runs)
}

// What a rebuild asks of the store.
func TestRebuildBudget(t *testing.T) {
	mem, _ := threeSegments(t)
	mem.Drop(manifest.Key("log"))
	store := tracestore.New(mem, tracestore.Options{})
	spend(t, store, "a rebuild", tracestore.Counts{List: 1, Get: 1 + 3 + 3, Put: 1}, func() {
		if _, err := backend.New(store, backend.Options{}).Rebuild(t.Context(), "log", backend.RebuildOptions{}); err != nil {
			t.Fatal(err)
		}
	})
}

// The owner of before is told that its appends are not in the log, or that nobody
// knows, and never that they are.
func TestRebuildUnderAWriter(t *testing.T) {
	for _, tail := range []int{0, 2} {
		mem := memstore.New(t)
		l := create(t, backend.New(mem, backend.Options{}), "log")
		appendAll(t, l, event(0), event(1))
		fold(t, mem, "log")
		for i := range tail {
			appendOne(t, l, event(2+i))
		}
		mem.Drop(manifest.Key("log"))
		rebuilt(t, mem, "log", backend.RebuildMissing)
		if _, err := l.Append(t.Context(), [][]byte{event(9)}, backend.AppendOptions{}); err == nil {
			t.Error("the owner of before goes on")
		}
		if got := read(t, backend.NewReader(mem, backend.Options{}), "log", 0); len(got) != 2 {
			t.Errorf("%q", got)
		}
		_ = l.Close(t.Context(), backend.CloseOptions{})
		goesOn(t, mem, "log")
	}
}

// A reader that has seen the log before refuses it: events that it has seen may
// be gone.
func TestRebuildIsARollBack(t *testing.T) {
	mem, _ := threeSegments(t)
	old := backend.NewReader(mem, backend.Options{})
	read(t, old, "log", 0)
	mem.Drop(manifest.Key("log"))
	b := backend.New(mem, backend.Options{})
	if _, err := b.Rebuild(t.Context(), "log", backend.RebuildOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Info(t.Context(), "log"); !errors.Is(err, backend.ErrRolledBack) {
		t.Errorf("%v", err)
	}
	if _, err := b.Info(t.Context(), "log"); err != nil {
		t.Error(err)
	}
}
