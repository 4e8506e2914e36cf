package backend_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// transferred copies a log, which must succeed.
func transferred(t testing.TB, from, to objstore.Store, id string, opt backend.CopyOptions) backend.CopyReport {
	t.Helper()
	rep, err := copyLog(t, from, to, id, opt)
	if err != nil {
		t.Fatalf("copy: %+v, %v", rep, err)
	}
	return rep
}

func copyLog(t testing.TB, from, to objstore.Store, id string, opt backend.CopyOptions) (backend.CopyReport, error) {
	t.Helper()
	return backend.New(to, backend.Options{Label: "copyist"}).Copy(t.Context(), backend.NewReader(from, backend.Options{}), id, opt)
}

// named are the objects of a log that its manifest names, and the manifest.
func named(t testing.TB, mem *memstore.Store, id string) map[string][]byte {
	t.Helper()
	all := mem.Snapshot("")
	keep := map[string][]byte{manifest.Key(id): all[manifest.Key(id)]}
	for _, s := range record(t, mem, id).Segments {
		key := manifest.SegmentKey(id, s.Name)
		keep[key] = all[key]
	}
	return keep
}

// exact demands that one store has a log as another has it, byte for byte.
func exact(t testing.TB, from, to *memstore.Store, id string) {
	t.Helper()
	if !sameObjects(named(t, from, id), named(t, to, id)) {
		t.Errorf("the copy of %s is not the same byte for byte:\n%s\n%s", id, from.Snapshot("")[manifest.Key(id)], to.Snapshot("")[manifest.Key(id)])
	}
	verifyClean(t, backend.NewReader(to, backend.Options{}), id)
}

// equal demands that one store has a log as another has it, in its events, owners
// and keys.
func equal(t testing.TB, from, to *memstore.Store, id string) {
	t.Helper()
	a, b := record(t, from, id), record(t, to, id)
	if a.UID != b.UID || a.Next != b.Next || a.Content.Tree.Root != b.Content.Tree.Root || *a.Owner != *b.Owner || !slices.Equal(a.Keys, b.Keys) {
		t.Errorf("%s: copied %+v as %+v", id, a, b)
	}
	verifyClean(t, backend.NewReader(to, backend.Options{}), id)
}

// A copy is the log, byte for byte; a second one sends nothing, a later one what
// is new.
func TestCopy(t *testing.T) {
	from, to := memstore.New(t), memstore.New(t)
	segmented(t, from, "log", 6, 20<<10)
	src, dst := tracestore.New(from, tracestore.Options{}), tracestore.New(to, tracestore.Options{})
	var rep backend.CopyReport
	run := func(what string, opt backend.CopyOptions, read, write tracestore.Counts) {
		t.Helper()
		spend(t, src, what+", source", read, func() {
			spend(t, dst, what+", destination", write, func() { rep = transferred(t, src, dst, "log", opt) })
		})
	}
	check := func(copied, duplicate bool, segments int) {
		t.Helper()
		rec := record(t, from, "log")
		want := backend.CopyReport{Log: "log", Copied: copied, Duplicate: duplicate, Events: rec.Next, Root: rec.Content.Tree.Root, Segments: segments}
		want.Revision, want.Bytes = rep.Revision, rep.Bytes
		if diff := cmp.Diff(want, rep); diff != "" || (rep.Bytes == 0) != (segments == 0 && !copied) {
			t.Errorf("%+v\n%s", rep, diff)
		}
	}
	run("a dry run", backend.CopyOptions{DryRun: true}, tracestore.Counts{Get: 1}, tracestore.Counts{Get: 1, List: 1})
	check(false, false, 6)
	if rep.Revision != 0 || len(to.Snapshot("")) != 0 {
		t.Errorf("%+v, %d objects", rep, len(to.Snapshot("")))
	}
	run("a copy", backend.CopyOptions{}, tracestore.Counts{Get: 1 + 6}, tracestore.Counts{Get: 1 + 1, List: 2, Put: 6 + 1})
	check(true, false, 6)
	exact(t, from, to, "log")

	run("again", backend.CopyOptions{}, tracestore.Counts{Get: 1}, tracestore.Counts{Get: 1})
	check(false, true, 0)
	run("again, dry", backend.CopyOptions{DryRun: true}, tracestore.Counts{Get: 1}, tracestore.Counts{Get: 1})
	check(false, true, 0)

	b := backend.New(from, backend.Options{PauseMerging: true})
	if _, err := appendLast(t, b, "log", event(7)); err != nil {
		t.Fatal(err)
	}
	run("after an append", backend.CopyOptions{}, tracestore.Counts{Get: 1}, tracestore.Counts{Get: 2, Put: 1})
	check(true, false, 0)
	exact(t, from, to, "log")

	if _, err := b.Fold(t.Context(), "log", backend.FoldOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := appendLast(t, b, "log", event(8)); err != nil {
		t.Fatal(err)
	}
	run("after a fold", backend.CopyOptions{}, tracestore.Counts{Get: 1 + 1}, tracestore.Counts{Get: 2, List: 2, Put: 2})
	check(true, false, 1)
	exact(t, from, to, "log")
	if n := len(to.Snapshot(manifest.SegmentTree)); n != 7 {
		t.Errorf("%d segments: what was replaced is for gc", n)
	}
}

// appendLast appends one event as a writer that is then done.
func appendLast(t testing.TB, b *backend.Backend, id string, ev []byte) (backend.Receipt, error) {
	t.Helper()
	l, err := b.Adopt(t.Context(), id, backend.AdoptOptions{})
	if err != nil {
		return backend.Receipt{}, err
	}
	return l.Append(t.Context(), [][]byte{ev}, backend.AppendOptions{Last: true})
}

// A log that goes on for many owners, merges and folds is followed by its copy,
// which stays the same byte for byte; readers of the copy see a log that grows.
func TestCopyFollows(t *testing.T) {
	from, to := memstore.New(t), memstore.New(t)
	rng := rand.New(rand.NewPCG(8, 9))
	b := backend.New(from, backend.Options{Foreground: true})
	reader := backend.NewReader(to, backend.Options{})
	merged := 0
	for round := range 12 {
		l, err := b.Create("log", backend.CreateOptions{OrAdopt: true})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 1 + rng.IntN(30) {
			if _, err := l.Append(t.Context(), [][]byte{noise(rng, i, 9000)}, backend.AppendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		closeLog(t, l)
		if round == 5 { // many owners at once
			for i := range 2 * manifest.MaxGenerations {
				if _, err := appendLast(t, b, "log", event(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		transferred(t, from, to, "log", backend.CopyOptions{})
		exact(t, from, to, "log")
		if got, want := read(t, reader, "log", 0), read(t, b.Reader, "log", 0); !slices.Equal(got, want) {
			t.Errorf("round %d: %d events, want %d", round, len(got), len(want))
		}
		merged = len(record(t, from, "log").Retired)
		collect(t, to, backend.GCOptions{})
	}
	if merged == 0 {
		t.Error("nothing was merged: the test shows too little")
	}
}

// What others have done to a copy does not keep it from being continued, and what
// they have written into it does.
func TestCopyOntoOthers(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(t *testing.T, to *memstore.Store)
		want error // of the next copy
	}{
		{"a barrier", func(t *testing.T, to *memstore.Store) { barrier(t, to, "log", 40) }, nil},
		{"a maintenance", func(t *testing.T, to *memstore.Store) { maintain(t, to, "log") }, nil},
		{"a fold", func(t *testing.T, to *memstore.Store) {
			if _, err := backend.New(to, backend.Options{}).Fold(t.Context(), "log", backend.FoldOptions{Tail: backend.FoldTailTake}); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"a fold and a barrier", func(t *testing.T, to *memstore.Store) {
			if _, err := backend.New(to, backend.Options{}).Fold(t.Context(), "log", backend.FoldOptions{}); err != nil {
				t.Fatal(err)
			}
			barrier(t, to, "log", 0)
		}, nil},
		{"an append", func(t *testing.T, to *memstore.Store) {
			if _, err := appendLast(t, backend.New(to, backend.Options{}), "log", event(5)); err != nil {
				t.Fatal(err)
			}
		}, backend.ErrDiverged},
		{"a claim", func(t *testing.T, to *memstore.Store) {
			l, _ := resume(t, backend.New(to, backend.Options{}), "log", backend.ResumeOptions{})
			if _, err := l.Claim(t.Context()); err != nil {
				t.Fatal(err)
			}
			closeLog(t, l)
		}, backend.ErrDiverged},
		{"a deletion", func(t *testing.T, to *memstore.Store) {
			if _, err := backend.New(to, backend.Options{}).Delete(t.Context(), "log", backend.AdoptOptions{}); err != nil {
				t.Fatal(err)
			}
		}, backend.ErrDeleted},
		{"damage", func(t *testing.T, to *memstore.Store) { to.Replace(manifest.Key("log"), []byte("garbage")) }, backend.ErrCorrupt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			from, to := memstore.New(t), memstore.New(t)
			segmented(t, from, "log", 3, 5000)
			transferred(t, from, to, "log", backend.CopyOptions{})
			reader := backend.NewReader(to, backend.Options{})
			if _, err := reader.Info(t.Context(), "log"); err != nil {
				t.Fatal(err)
			}
			tc.do(t, to)
			before := to.Snapshot("")
			if tc.want == nil {
				if rep := transferred(t, from, to, "log", backend.CopyOptions{}); !rep.Duplicate || !sameObjects(before, to.Snapshot("")) {
					t.Errorf("the source has not changed: %+v", rep)
				}
			}
			src := backend.New(from, backend.Options{})
			for round := range 3 {
				if _, err := appendLast(t, src, "log", event(10+round)); err != nil {
					t.Fatal(err)
				}
				fold(t, from, "log")
				rep, err := copyLog(t, from, to, "log", backend.CopyOptions{})
				if !errors.Is(err, tc.want) {
					t.Fatalf("%+v, %v", rep, err)
				}
				if tc.want != nil {
					oe, ok := errors.AsType[*backend.OpError](err)
					if !ok || oe.Op != "copy" || oe.Log != "log" || oe.Hint == "" || !strings.Contains(err.Error(), "destination: ") {
						t.Errorf("%+v", err)
					}
					if !sameObjects(before, to.Snapshot("")) {
						t.Error("the destination was changed")
					}
					return
				}
				equal(t, from, to, "log")
				if rep := transferred(t, from, to, "log", backend.CopyOptions{}); !rep.Duplicate {
					t.Errorf("again: %+v", rep)
				}
				read(t, reader, "log", 0)
				collect(t, to, backend.GCOptions{Grace: 1})
				verifyClean(t, reader, "log")
			}
		})
	}
}

// A copy whose events are others, although nobody has taken it over, is noticed by
// the Merkle root, however many events the source has more.
func TestCopyOntoOtherEvents(t *testing.T) {
	from, to := memstore.New(t), memstore.New(t)
	b := backend.New(from, backend.Options{Foreground: true})
	l := create(t, b, "log")
	grow(t, l, 0, 3)
	before := from.Snapshot("")
	grow(t, l, 3, 9)
	// The same owner went on in another way, from a manifest that was put back.
	for key, body := range before {
		to.Replace(key, body)
	}
	closeLog(t, l)
	commitBy(t, to, "log", func(base *manifest.Record, _ manifest.Writer) (*manifest.Draft, error) {
		return manifest.Continue(base, manifest.Writer{ID: base.Owner.Writer, Software: "test"}, base.Commit.At)
	})
	if rep := transferred(t, from, to, "log", backend.CopyOptions{}); rep.Events != 12 {
		t.Errorf("%+v", rep)
	}
	for key, body := range before {
		to.Replace(key, body)
	}
	rec := record(t, to, "log")
	rec.Content.Tree.Range = slices.Clone(rec.Content.Tree.Range)
	rec.Content.Tree.Range[0][0]++
	rec.Content.Tree.Root = segment.TreeRoot(rec.Content.Tree.Range)
	body, err := rec.Encode()
	if err != nil {
		t.Fatal(err)
	}
	to.Replace(manifest.Key("log"), body)
	_, err = copyLog(t, from, to, "log", backend.CopyOptions{})
	if !errors.Is(err, backend.ErrDiverged) || !strings.Contains(err.Error(), "its 3 events") {
		t.Error(err)
	}
	if string(to.Snapshot("")[manifest.Key("log")]) != string(body) {
		t.Error("the destination was changed")
	}
}

// A damaged source is refused, with what is damaged, and the destination keeps
// what it had.
func TestCopyOfADamagedSource(t *testing.T) {
	whole := memstore.New(t)
	segmented(t, whole, "log", 3, 5000)
	second := manifest.SegmentKey("log", record(t, whole, "log").Segments[1].Name)
	for _, tc := range []struct {
		name   string
		damage func(from *memstore.Store, objects map[string][]byte)
		want   error
		key    string
	}{
		{"a bit of a segment", func(from *memstore.Store, objects map[string][]byte) {
			body := slices.Clone(objects[second])
			body[100] ^= 4
			from.Replace(second, body)
		}, backend.ErrCorrupt, second},
		{"a short segment", func(from *memstore.Store, objects map[string][]byte) { from.Replace(second, objects[second][:200]) }, backend.ErrCorrupt, second},
		{"a long segment", func(from *memstore.Store, objects map[string][]byte) {
			from.Replace(second, append(slices.Clone(objects[second]), 0))
		}, backend.ErrCorrupt, second},
		{"no segment", func(from *memstore.Store, _ map[string][]byte) { from.Drop(second) }, backend.ErrMissing, second},
		{"the manifest", func(from *memstore.Store, objects map[string][]byte) {
			from.Replace(manifest.Key("log"), objects[manifest.Key("log")][1:])
		}, backend.ErrCorrupt, manifest.Key("log")},
		{"the tail", func(from *memstore.Store, _ map[string][]byte) {
			rec := record(t, from, "log")
			rec.Tail = append(slices.Clone(rec.Tail), rec.Tail...)
			body, err := rec.Encode()
			if err != nil {
				t.Fatal(err)
			}
			from.Replace(manifest.Key("log"), body)
		}, backend.ErrCorrupt, manifest.Key("log")},
		{"no manifest", func(from *memstore.Store, _ map[string][]byte) { from.Drop(manifest.Key("log")) }, backend.ErrNotFound, manifest.Key("log")},
		{"a void", func(from *memstore.Store, _ map[string][]byte) { from.Replace(manifest.Key("log"), voidBody(t, "log")) }, backend.ErrNotFound, ""},
		{"a deleted log", func(from *memstore.Store, _ map[string][]byte) {
			if _, err := backend.New(from, backend.Options{}).Delete(t.Context(), "log", backend.AdoptOptions{}); err != nil {
				t.Fatal(err)
			}
		}, backend.ErrDeleted, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			objects := whole.Snapshot("")
			from, to := restore(t, objects), memstore.New(t)
			tc.damage(from, objects)
			rep, err := copyLog(t, from, to, "log", backend.CopyOptions{})
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), "source: ") || !strings.Contains(err.Error(), tc.key) {
				t.Errorf("%+v, %v", rep, err)
			}
			if len(to.Snapshot(manifest.ManifestPrefix)) > 0 || rep.Copied {
				t.Errorf("something was copied: %+v", rep)
			}
		})
	}
}

// Segments that are replaced, and removed, while they are copied are found again
// through a newer manifest: one consistent revision is copied.
func TestCopyWhileTheSourceIsFolded(t *testing.T) {
	for nth := 1; nth <= 3; nth++ {
		from, to := memstore.New(t), memstore.New(t)
		segmented(t, from, "log", 5, 20<<10)
		faulty := faultstore.New(from)
		struck := faulty.Inject(faultstore.Rule{Match: faultstore.And(faultstore.Op("Get"), faultstore.Prefix(manifest.SegmentTree)), Nth: nth, Fault: faultstore.Before(func() { rewrite(t, from, "log") })})
		rep, err := backend.New(to, backend.Options{Prefetch: 1}).Copy(t.Context(), backend.NewReader(faulty, backend.Options{}), "log", backend.CopyOptions{})
		if err != nil || struck.Hits() != 1 || rep.Segments < 5 {
			t.Errorf("%+v, %v, struck %d times", rep, err, struck.Hits())
		}
		exact(t, from, to, "log")
	}
	t.Run("for ever", func(t *testing.T) {
		from, to := memstore.New(t), memstore.New(t)
		segmented(t, from, "log", 3, 20<<10)
		var mu sync.Mutex // the next segment may be asked for before the failure of one has ended the pass
		faulty := faultstore.New(from, faultstore.Rule{Match: faultstore.And(faultstore.Op("Get"), faultstore.Prefix(manifest.SegmentTree)), Fault: faultstore.Before(func() {
			mu.Lock()
			defer mu.Unlock()
			rewrite(t, from, "log")
		})})
		rep, err := backend.New(to, backend.Options{Prefetch: 1}).Copy(t.Context(), backend.NewReader(faulty, backend.Options{}), "log", backend.CopyOptions{})
		if err == nil || !strings.Contains(err.Error(), "replaced faster") || errors.Is(err, backend.ErrMissing) {
			t.Errorf("%+v, %v", rep, err)
		}
	})
}

// What an interrupted copy has left is not sent again, and not named before it was
// read back.
func TestCopyGoesOn(t *testing.T) {
	from := memstore.New(t)
	segmented(t, from, "log", 6, 20<<10)
	segs := record(t, from, "log").Segments
	key := manifest.SegmentKey("log", segs[1].Name)
	interrupted := func(t *testing.T) *memstore.Store {
		to := memstore.New(t)
		// Refused, a request ends the copy at once.
		faulty := faultstore.New(to, faultstore.Rule{Match: faultstore.Puts(manifest.SegmentTree), Nth: 4, Times: -1, Fault: faultstore.Denied()})
		rep, err := backend.New(faulty, backend.Options{Prefetch: 1}).Copy(t.Context(), backend.NewReader(from, backend.Options{}), "log", backend.CopyOptions{})
		if !errors.Is(err, backend.ErrDenied) || rep.Segments != 3 || len(to.Snapshot("")) != 3 {
			t.Fatalf("%+v, %v", rep, err)
		}
		return to
	}
	t.Run("from where it was", func(t *testing.T) {
		to := interrupted(t)
		if rep := transferred(t, from, to, "log", backend.CopyOptions{DryRun: true}); rep.Segments != 3 {
			t.Errorf("%+v", rep)
		}
		src, dst := tracestore.New(from, tracestore.Options{}), tracestore.New(to, tracestore.Options{})
		spend(t, src, "source", tracestore.Counts{Get: 1 + 3}, func() {
			spend(t, dst, "destination", tracestore.Counts{Get: 1 + 3 + 1, List: 2, Put: 3 + 1}, func() {
				if rep := transferred(t, src, dst, "log", backend.CopyOptions{}); rep.Segments != 3 {
					t.Errorf("%+v", rep)
				}
			})
		})
		exact(t, from, to, "log")
	})
	t.Run("past something else", func(t *testing.T) {
		for name, body := range map[string][]byte{"longer": append(from.Snapshot("")[key], 0), "other": make([]byte, segs[1].Bytes)} {
			to := interrupted(t)
			to.Replace(key, body)
			rep, err := copyLog(t, from, to, "log", backend.CopyOptions{})
			oe, ok := errors.AsType[*backend.OpError](err)
			if !errors.Is(err, backend.ErrCorrupt) || !ok || oe.Key != key || !strings.Contains(oe.Hint, "remove this object") {
				t.Errorf("%s: %+v, %v", name, rep, err)
			}
			to.Drop(key)
			transferred(t, from, to, "log", backend.CopyOptions{})
			exact(t, from, to, "log")
		}
	})
	t.Run("with what was lost", func(t *testing.T) {
		to := memstore.New(t)
		transferred(t, from, to, "log", backend.CopyOptions{})
		to.Drop(key)
		if rep := transferred(t, from, to, "log", backend.CopyOptions{}); !rep.Duplicate || rep.Segments != 0 {
			t.Errorf("%+v", rep)
		}
		rep := transferred(t, from, to, "log", backend.CopyOptions{Verify: true})
		if !rep.Duplicate || !rep.Copied || rep.Segments != 1 || rep.Verified == nil || !rep.Verified.OK() || rep.Verified.Size != rep.Events {
			t.Errorf("%+v", rep)
		}
		exact(t, from, to, "log")
	})
}

// Without the right to list a copy is made all the same.
func TestCopyWithoutListing(t *testing.T) {
	from, to := memstore.New(t), memstore.New(t)
	segmented(t, from, "log", 4, 5000)
	faulty := faultstore.New(to, faultstore.Rule{Match: faultstore.Op("List"), Fault: faultstore.Denied()})
	for key, body := range from.Snapshot(manifest.SegmentTree) {
		to.Replace(key, body) // left by an interrupted one
		break
	}
	dst := tracestore.New(faulty, tracestore.Options{})
	spend(t, dst, "the copy", tracestore.Counts{Get: 1 + 1 + 1, Head: 4, List: 2, Put: 4 + 1}, func() {
		if rep := transferred(t, from, dst, "log", backend.CopyOptions{}); rep.Segments != 4 {
			t.Errorf("%+v", rep)
		}
	})
	exact(t, from, to, "log")
}

// A store that says it has taken a segment and has not is found out.
func TestCopyThatDidNotArrive(t *testing.T) {
	for _, listed := range []bool{true, false} {
		from, to := memstore.New(t), memstore.New(t)
		segmented(t, from, "log", 3, 5000)
		lost := manifest.SegmentKey("log", record(t, from, "log").Segments[2].Name)
		rules := []faultstore.Rule{{Match: faultstore.Puts(manifest.ManifestPrefix), Fault: faultstore.After(func() { to.Drop(lost) })}}
		if !listed {
			rules = append(rules, faultstore.Rule{Match: faultstore.Op("List"), Fault: faultstore.Denied()})
		}
		rep, err := copyLog(t, from, faultstore.New(to, rules...), "log", backend.CopyOptions{})
		oe, ok := errors.AsType[*backend.OpError](err)
		if !errors.Is(err, backend.ErrMissing) || !ok || !strings.Contains(err.Error(), lost) || rep.Copied {
			t.Errorf("%+v, %v, %v", rep, err, oe)
		}
	}
}

// How far it is, is told in order, and ends with everything.
func TestCopyTellsItsProgress(t *testing.T) {
	from, to := memstore.New(t), memstore.New(t)
	segmented(t, from, "log", 9, 5000)
	var told []backend.CopyProgress
	rep := transferred(t, from, to, "log", backend.CopyOptions{Progress: func(p backend.CopyProgress) { told = append(told, p) }})
	body := int64(len(to.Snapshot("")[manifest.Key("log")]))
	for i, p := range told {
		if p.Log != "log" || p.Segments != i+1 || p.Of != 9 || p.Total != rep.Bytes-body || i > 0 && p.Bytes <= told[i-1].Bytes {
			t.Errorf("%d: %+v", i, p)
		}
	}
	if len(told) != 9 || told[8].Bytes != told[8].Total {
		t.Errorf("%+v", told)
	}
}
