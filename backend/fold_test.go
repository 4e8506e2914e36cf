package backend_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
	"github.com/s3log/s3log/sessiongen"
)

// segmented makes a log of n segments of one event of size bytes each, which
// nobody has merged, and of one event in the tail. Its owner has released it.
func segmented(t testing.TB, mem *memstore.Store, id string, n, size int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, uint64(n)))
	for i := range n + 1 {
		b := backend.New(mem, backend.Options{})
		l, err := b.Create(id, backend.CreateOptions{Header: []byte(`{"createdAt":5}`), OrAdopt: true})
		if err != nil {
			t.Fatal(err)
		}
		ev := noise(rng, i, size)
		if i == n {
			ev = event(i)
		}
		if _, err := l.Append(t.Context(), [][]byte{ev}, backend.AppendOptions{Last: true}); err != nil {
			t.Fatal(err)
		}
		closeLog(t, l)
		if i < n {
			fold(t, mem, id)
		}
	}
	if got := info(t, backend.NewReader(mem, backend.Options{}), id); len(got.Segments) != n || got.Tail != 1 {
		t.Fatalf("%d segments and %d events in the tail", len(got.Segments), got.Tail)
	}
}

// record reads a log's manifest.
func record(t testing.TB, mem *memstore.Store, id string) *manifest.Record {
	t.Helper()
	head, err := manifest.Load(t.Context(), mem, id, manifest.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return head.Record
}

// indexOf reads the index of a segment.
func indexOf(t testing.TB, mem *memstore.Store, id string, name manifest.Name) *segment.Index {
	t.Helper()
	r, err := segment.OpenBytes(segment.NewCodec(), mem.Snapshot("")[manifest.SegmentKey(id, name)])
	if err != nil {
		t.Fatal(err)
	}
	return r.Index()
}

// lasting is what no fold may change.
func lasting(rec *manifest.Record) manifest.Record {
	r := *rec
	r.Revision, r.Commit, r.Segments, r.Retired, r.Tail = 0, manifest.CommitInfo{}, nil, nil, nil
	return r
}

// A fold joins what lies together, leaves every event as it was, and changes
// nothing that is not about segments. A second one finds nothing to do.
func TestFold(t *testing.T) {
	mem := memstore.New(t)
	segmented(t, mem, "log", 6, 20<<10)
	before, lines := record(t, mem, "log"), read(t, backend.NewReader(mem, backend.Options{}), "log", 0)
	store := tracestore.New(mem, tracestore.Options{})
	b := backend.New(store, backend.Options{})

	var plan backend.FoldReport
	var err error
	spend(t, store, "a dry run", tracestore.Counts{Get: 1}, func() {
		plan, err = b.Fold(t.Context(), "log", backend.FoldOptions{DryRun: true, MaxBytes: 64 << 10})
	})
	if err != nil || record(t, mem, "log").Revision != before.Revision {
		t.Fatalf("%+v, %v", plan, err)
	}
	// Four of 15 KB fit into 64 KiB; the tail goes along with the other two.
	var rep backend.FoldReport
	spend(t, store, "a fold", tracestore.Counts{Get: 1 + 6, Put: 4}, func() {
		rep, err = b.Fold(t.Context(), "log", backend.FoldOptions{MaxBytes: 64 << 10})
	})
	if err != nil || len(rep.Steps) != 2 || rep.Conflicts != 0 || rep.Dropped != 0 {
		t.Fatalf("%+v, %v", rep, err)
	}
	for i := range rep.Steps {
		if rep.Steps[i].Written == 0 || plan.Steps[i].Written != 0 {
			t.Errorf("step %d: %+v", i, rep.Steps[i])
		}
		plan.Steps[i].Written = rep.Steps[i].Written
	}
	if diff := cmp.Diff(plan.Steps, rep.Steps); diff != "" {
		t.Error("planned and done:", diff)
	}
	after := record(t, mem, "log")
	if rep.Before.Segments != 6 || rep.Before.Tail != 1 || rep.After.Segments != 2 || rep.After.Tail != 0 || rep.After.Bytes >= rep.Before.Bytes ||
		rep.Revision != after.Revision || after.Revision != before.Revision+2 {
		t.Errorf("%+v at revision %d after %d", rep, after.Revision, before.Revision)
	}
	if plan.Before != rep.Before || plan.After.Segments != 2 || plan.After.Tail != 0 || plan.After.Bytes < rep.After.Bytes {
		t.Errorf("planned %+v, done %+v", plan, rep)
	}
	if diff := cmp.Diff(lasting(before), lasting(after)); diff != "" {
		t.Error(diff)
	}
	var retired []manifest.Name
	for _, r := range after.Retired[len(before.Retired):] {
		retired = append(retired, r.Name)
	}
	if want := slices.Concat(rep.Steps[0].Inputs, rep.Steps[1].Inputs); !slices.Equal(retired, want) {
		t.Errorf("retired %v, want %v", retired, want)
	}
	x := indexOf(t, mem, "log", after.Segments[0].Name)
	if x.UID != before.UID || x.Log != "log" || !bytes.Equal(x.Header, before.Header) || !bytes.Equal(x.Origin, manifest.AppendOrigin(nil, before.Origin)) {
		t.Errorf("the first index says %+v", x)
	}
	if x := indexOf(t, mem, "log", after.Segments[1].Name); x.UID != "" {
		t.Errorf("the second index says %+v", x)
	}
	if got := read(t, b.Reader, "log", 0); !slices.Equal(got, lines) {
		t.Error("the events are others")
	}
	verifyClean(t, b.Reader, "log")

	spend(t, store, "a second fold", tracestore.Counts{Get: 1}, func() {
		rep, err = b.Fold(t.Context(), "log", backend.FoldOptions{MaxBytes: 64 << 10})
	})
	if err != nil || len(rep.Steps) != 0 || rep.Before != rep.After || rep.Revision != after.Revision {
		t.Errorf("%+v, %v", rep, err)
	}
	// What has grown is folded again.
	l := adopt(t, b, "log")
	appendOne(t, l, event(1))
	closeLog(t, l)
	if rep, err := b.Fold(t.Context(), "log", backend.FoldOptions{}); err != nil || len(rep.Steps) != 1 || rep.After.Segments != 1 || rep.After.Tail != 1 {
		t.Errorf("%+v, %v", rep, err)
	}
	verifyClean(t, b.Reader, "log")
}

// Small frames are made large, also of a segment that has nothing beside it.
func TestFoldOfSmallFrames(t *testing.T) {
	mem := memstore.New(t)
	b := backend.New(mem, backend.Options{Foreground: true})
	l := create(t, b, "log")
	if _, err := l.Append(t.Context(), generated(sessiongen.Options{Seed: 2, Events: 5000}).lines, backend.AppendOptions{Boundary: true}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(t.Context(), backend.CloseOptions{Seal: true, Release: true}); err != nil {
		t.Fatal(err)
	}
	before := record(t, mem, "log").Segments
	if frames := indexOf(t, mem, "log", before[0].Name).Frames; len(before) != 1 || len(frames) < 4 {
		t.Fatalf("%d segments, the first one of %d frames", len(before), len(frames))
	}
	if rep, err := b.Fold(t.Context(), "log", backend.FoldOptions{}); err != nil || len(rep.Steps) != 1 || rep.After.Bytes >= rep.Before.Bytes {
		t.Errorf("%+v, %v", rep, err)
	}
	after := record(t, mem, "log").Segments
	if frames := indexOf(t, mem, "log", after[0].Name).Frames; len(after) != 1 || len(frames) > 2 {
		t.Errorf("%d segments, the first one of %d frames", len(after), len(frames))
	}
	if rep, err := b.Fold(t.Context(), "log", backend.FoldOptions{}); err != nil || len(rep.Steps) != 0 {
		t.Errorf("again: %+v, %v", rep, err)
	}
	verifyClean(t, b.Reader, "log")
}

// Where larger frames are no smaller, nothing is written.
func TestFoldThatGainsNothing(t *testing.T) {
	mem := memstore.New(t)
	b := backend.New(mem, backend.Options{Foreground: true})
	l := create(t, b, "log")
	rng := rand.New(rand.NewPCG(1, 1))
	var events [][]byte
	for i := range 600 {
		events = append(events, noise(rng, i, 1000))
	}
	appendAll(t, l, events...)
	if err := l.Close(t.Context(), backend.CloseOptions{Seal: true, Release: true}); err != nil {
		t.Fatal(err)
	}
	before := mem.Snapshot("")
	if frames := indexOf(t, mem, "log", record(t, mem, "log").Segments[0].Name).Frames; len(frames) != 3 {
		t.Fatalf("%d frames", len(frames))
	}
	rep, err := b.Fold(t.Context(), "log", backend.FoldOptions{})
	if err != nil || len(rep.Steps) != 0 || rep.Before != rep.After || !sameObjects(mem.Snapshot(""), before) {
		t.Errorf("%+v, %v", rep, err)
	}
}

// Large segments with large frames are left alone, and keep what is before them
// from what is behind.
func TestFoldLeavesWhatIsLarge(t *testing.T) {
	mem := memstore.New(t)
	segmented(t, mem, "log", 5, 20<<10)
	b := backend.New(mem, backend.Options{})
	if rep, err := b.Fold(t.Context(), "log", backend.FoldOptions{MaxBytes: 64 << 10, Tail: backend.FoldTailKeep}); err != nil || rep.After.Segments != 2 {
		t.Fatalf("%+v, %v", rep, err)
	}
	big := record(t, mem, "log").Segments[0]
	for i := range 2 {
		l := adopt(t, b, "log")
		if _, err := l.Append(t.Context(), [][]byte{event(i)}, backend.AppendOptions{Last: true}); err != nil {
			t.Fatal(err)
		}
		closeLog(t, l)
		fold(t, mem, "log")
	}
	rep, err := b.Fold(t.Context(), "log", backend.FoldOptions{MaxBytes: 64 << 10})
	after := record(t, mem, "log").Segments
	if err != nil || len(rep.Steps) != 1 || len(after) != 2 || after[0].Name != big.Name {
		t.Errorf("%+v, %v; segments %+v", rep, err, after)
	}
	verifyClean(t, b.Reader, "log")
}

// Whether the tail is taken.
func TestFoldOfTheTail(t *testing.T) {
	for _, tc := range []struct {
		name     string
		segments int
		owned    bool // by a handle that goes on
		pad      int  // of a further event in the tail
		tail     backend.FoldTail
		want     int // segments afterwards
		left     int64
	}{
		{name: "alone and small", segments: 0, want: 0, left: 1},
		{name: "alone and large enough", segments: 0, pad: 40 << 10, want: 1},
		{name: "alone, asked for", segments: 0, tail: backend.FoldTailTake, want: 1},
		{name: "behind one segment", segments: 1, want: 1, left: 1},
		{name: "behind one segment, asked for", segments: 1, tail: backend.FoldTailTake, want: 1},
		{name: "behind some", segments: 3, want: 1},
		{name: "behind some, kept", segments: 3, tail: backend.FoldTailKeep, want: 1, left: 1},
		{name: "behind some, owned", segments: 3, owned: true, want: 1, left: 2},
		{name: "behind some, owned and asked for", segments: 3, owned: true, tail: backend.FoldTailTake, want: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem := memstore.New(t)
			segmented(t, mem, "log", tc.segments, 100)
			b := backend.New(mem, backend.Options{})
			if tc.pad > 0 {
				l := adopt(t, backend.New(mem, backend.Options{}), "log")
				if _, err := l.Append(t.Context(), [][]byte{noise(rand.New(rand.NewPCG(1, 1)), 1, tc.pad)}, backend.AppendOptions{Last: true}); err != nil {
					t.Fatal(err)
				}
				closeLog(t, l)
			}
			var l *backend.Log
			if tc.owned {
				l = adopt(t, backend.New(mem, backend.Options{}), "log")
				appendOne(t, l, event(7))
			}
			lines := read(t, b.Reader, "log", 0)
			rep, err := b.Fold(t.Context(), "log", backend.FoldOptions{Tail: tc.tail})
			if err != nil || rep.After.Segments != tc.want || rep.After.Tail != tc.left {
				t.Errorf("%+v, %v", rep, err)
			}
			if got := read(t, b.Reader, "log", 0); !slices.Equal(got, lines) {
				t.Errorf("%q", got)
			}
			if rec := record(t, mem, "log"); len(rep.Steps) > 0 {
				if x := indexOf(t, mem, "log", rec.Segments[0].Name); x.UID != rec.UID {
					t.Errorf("the index says uid %q, the manifest %q", x.UID, rec.UID)
				}
			}
			verifyClean(t, b.Reader, "log")
			if l != nil {
				appendOne(t, l, event(8))
				closeLog(t, l)
				verifyClean(t, b.Reader, "log")
			}
		})
	}
}

// A fold takes the tail once. What an owner goes on to append is left to the next
// one, or the fold would last as long as the owner does, and make a small segment
// of each append.
func TestFoldTakesTheTailOnce(t *testing.T) {
	mem := memstore.New(t)
	l := create(t, backend.New(mem, backend.Options{}), "log")
	appendOne(t, l, event(0))
	n := 1
	store := faultstore.New(mem, faultstore.Rule{Match: faultstore.Puts("segments/"), Fault: faultstore.Before(func() {
		if n > 20 {
			t.Fatal("the fold goes on and on")
		}
		appendOne(t, l, event(n))
		n++
	})})
	rep, err := backend.New(store, backend.Options{}).Fold(t.Context(), "log", backend.FoldOptions{Tail: backend.FoldTailTake})
	if err != nil || len(rep.Steps) != 1 || rep.After.Segments != 1 || rep.After.Tail != 1 {
		t.Errorf("%+v, %v", rep, err)
	}
	closeLog(t, l)
	verifyClean(t, backend.NewReader(mem, backend.Options{}), "log")
}

// A segment that is gone while it is looked at, since it was replaced and
// collected, is a conflict like any other: the fold begins anew.
func TestFoldLooksAtASegmentThatIsReplaced(t *testing.T) {
	mem := memstore.New(t)
	segmented(t, mem, "log", 1, 400<<10)
	b := backend.New(mem, backend.Options{})
	lines := read(t, b.Reader, "log", 0)
	old := manifest.SegmentKey("log", record(t, mem, "log").Segments[0].Name)
	store := faultstore.New(mem, faultstore.Rule{Match: faultstore.And(faultstore.Op("Get"), faultstore.Prefix(old)), Nth: 1, Fault: faultstore.Before(func() {
		rewrite(t, mem, "log")
		mem.Drop(old)
	})})
	rep, err := backend.New(store, backend.Options{}).Fold(t.Context(), "log", backend.FoldOptions{})
	if err != nil || rep.Conflicts != 1 {
		t.Errorf("%+v, %v", rep, err)
	}
	if got := read(t, b.Reader, "log", 0); !slices.Equal(got, lines) {
		t.Errorf("%q", got)
	}
}

// A child whose segments were copied from its parent is folded like any other:
// its index then speaks of the child.
func TestFoldOfAFork(t *testing.T) {
	for _, id := range []string{"log", "quiet"} {
		mem := bigStore(t)
		b := backend.New(mem, backend.Options{})
		forked(t, b, id, "child", backend.ForkOptions{Header: []byte(`{"createdAt":9}`)})
		before, lines := record(t, mem, "child"), read(t, b.Reader, "child", 0)
		rep, err := b.Fold(t.Context(), "child", backend.FoldOptions{MaxBytes: 20 << 10})
		after := record(t, mem, "child")
		if err != nil || len(rep.Steps) != 2 || len(after.Segments) != 2 {
			t.Fatalf("%+v, %v", rep, err)
		}
		if diff := cmp.Diff(lasting(before), lasting(after)); diff != "" {
			t.Error(diff)
		}
		if x := indexOf(t, mem, "child", after.Segments[1].Name); x.UID != after.UID || x.Log != "child" {
			t.Errorf("the index of the segment with the boundary speaks of %q, %q", x.UID, x.Log)
		}
		if got := read(t, b.Reader, "child", 0); !slices.Equal(got, lines) {
			t.Error("the events are others")
		}
		verifyClean(t, b.Reader, "child")
		verifyClean(t, b.Reader, id)
	}
}

// What cannot be folded is said, and nothing is changed.
func TestFoldRefuses(t *testing.T) {
	mem, keys := threeSegments(t)
	l := create(t, backend.New(mem, backend.Options{}), "gone")
	appendOne(t, l, event(0))
	closeLog(t, l)
	commitBy(t, mem, "gone", func(base *manifest.Record, w manifest.Writer) (*manifest.Draft, error) {
		d, err := manifest.TakeOver(base, w, manifest.KindDelete, base.Commit.At)
		if err == nil {
			d.Delete()
		}
		return d, err
	})
	mem.Replace(manifest.Key("void"), voidBody(t, "void"))
	mem.Replace(manifest.Key("bad"), []byte("{}\n"))
	damaged := func(key string, change func(b []byte) []byte) map[string][]byte {
		objects := mem.Snapshot("")
		if b := change(bytes.Clone(objects[key])); b != nil {
			objects[key] = b
		} else {
			delete(objects, key)
		}
		return objects
	}
	flipped := damaged(keys[1], func(b []byte) []byte { b[20] ^= 1; return b })
	forged := restore(t, mem.Snapshot(""))
	forgeManifest(t, forged, "log", func(r *manifest.Record) { r.Tail = bytes.Repeat([]byte("x"), 40) })
	badTail := forged.Snapshot("")
	for _, tc := range []struct {
		name    string
		objects map[string][]byte
		id      string
		opt     backend.FoldOptions
		want    error
		key     string
	}{
		{name: "no log", id: "none", want: backend.ErrNotFound},
		{name: "no id", id: "", want: nil},
		{name: "a tombstone", id: "gone", want: backend.ErrDeleted},
		{name: "a void", id: "void", want: backend.ErrNotFound},
		{name: "a damaged manifest", id: "bad", want: backend.ErrCorrupt, key: manifest.Key("bad")},
		{name: "a damaged input", objects: flipped, id: "log", want: backend.ErrCorrupt, key: keys[1]},
		{name: "a missing input", objects: damaged(keys[2], func([]byte) []byte { return nil }), id: "log", want: backend.ErrMissing, key: keys[2]},
		{name: "a damaged tail", objects: badTail, id: "log", want: backend.ErrCorrupt, key: manifest.Key("log"), opt: backend.FoldOptions{Tail: backend.FoldTailTake}},
		{name: "an unknown choice", id: "log", opt: backend.FoldOptions{Tail: "x"}},
		{name: "too small results", id: "log", opt: backend.FoldOptions{MaxBytes: 1000}},
		{name: "too large results", id: "log", opt: backend.FoldOptions{MaxBytes: 1 << 30}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.objects == nil {
				tc.objects = mem.Snapshot("")
			}
			mem := restore(t, tc.objects)
			rep, err := backend.New(mem, backend.Options{}).Fold(t.Context(), tc.id, tc.opt)
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) || len(rep.Steps) > 0 {
				t.Errorf("%+v, %v", rep, err)
			}
			if oe, ok := errors.AsType[*backend.OpError](err); !ok || tc.key != "" && oe.Key != tc.key {
				t.Errorf("%v (%T)", err, err)
			}
			if !sameObjects(mem.Snapshot(""), tc.objects) {
				t.Error("something was written")
			}
		})
	}
}

// voidBody is a void.
func voidBody(t testing.TB, id string) []byte {
	t.Helper()
	body, err := (&manifest.Record{
		Version: manifest.Version, Log: id, State: manifest.StateVoid, Revision: 1, Epoch: 7,
		Commit: manifest.CommitInfo{ID: "c", Writer: "w", At: 1},
	}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// A label that no manifest may hold is refused before anything is written.
func TestFoldOfAWriterThatCannotSign(t *testing.T) {
	mem := memstore.New(t)
	segmented(t, mem, "log", 2, 100)
	before := mem.Snapshot("")
	b := backend.New(mem, backend.Options{Software: strings.Repeat("x", 200)})
	if rep, err := b.Fold(t.Context(), "log", backend.FoldOptions{}); !errors.Is(err, backend.ErrTooLarge) {
		t.Errorf("%+v, %v", rep, err)
	}
	if !sameObjects(mem.Snapshot(""), before) {
		t.Error("something was written")
	}
}
