package backend_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// grown appends events without a seq, and may seal.
func grown(t testing.TB, b *backend.Backend, id string, seal bool, events ...string) {
	t.Helper()
	l, err := b.Create(id, backend.CreateOptions{OrAdopt: true})
	if err != nil {
		t.Fatal(err)
	}
	lines := make([][]byte, len(events))
	for i, typ := range events {
		lines[i] = fmt.Appendf(nil, `{"type":%q,"time":7,"data":{}}`, typ)
	}
	if _, err := l.Append(t.Context(), lines, backend.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(t.Context(), backend.CloseOptions{Seal: seal}); err != nil {
		t.Fatal(err)
	}
}

func diff(t testing.TB, r *backend.Reader, parent, child string, opt backend.DiffOptions) backend.Diff {
	t.Helper()
	d, err := r.Diff(t.Context(), parent, child, opt)
	if err != nil {
		t.Fatalf("diff of %s and %s: %v", parent, child, err)
	}
	return d
}

// typesIn counts the types of the events from seq cut on, by reading them.
func typesIn(t testing.TB, r *backend.Reader, id string, cut int64) (list []backend.DiffType) {
	t.Helper()
	for e, err := range r.Events(t.Context(), id, backend.ReadOptions{From: cut}) {
		if err != nil {
			t.Fatal(err)
		}
		ev, err := e.Parse()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list, func(d backend.DiffType) bool { return d.Type == ev.Type })
		if i < 0 {
			i, list = len(list), append(list, backend.DiffType{Type: ev.Type})
		}
		list[i].Count++
		list[i].Last = ev.Seq
	}
	slices.SortFunc(list, func(a, b backend.DiffType) int { return strings.Compare(a.Type, b.Type) })
	return list
}

// A fork and its parent are told apart by their manifests alone, in either
// order, and so are two forks of one log.
func TestDiffOfAForkIsTwoGets(t *testing.T) {
	store := tracestore.New(memstore.New(t), tracestore.Options{})
	b := backend.New(store, backend.Options{Foreground: true})
	grown(t, b, "log", true, "a", "b", "c", "a")
	forked(t, b, "log", "child", backend.ForkOptions{At: ptr(int64(2))})
	forked(t, b, "log", "sibling", backend.ForkOptions{At: ptr(int64(1))})
	grown(t, b, "child", false, "a", "d")
	grown(t, b, "log", false, "c", "e")
	for _, tc := range []struct {
		parent, child string
		common        int64
		own           [2][]backend.DiffType
	}{
		{"log", "child", 3, [2][]backend.DiffType{
			{{Type: "a", Count: 1, Last: 3}, {Type: "c", Count: 1, Last: 4}, {Type: "e", Count: 1, Last: 5}},
			{{Type: "a", Count: 1, Last: 4}, {Type: mark, Count: 1, Last: 3}, {Type: "d", Count: 1, Last: 5}},
		}},
		{"child", "log", 3, [2][]backend.DiffType{
			{{Type: "a", Count: 1, Last: 4}, {Type: mark, Count: 1, Last: 3}, {Type: "d", Count: 1, Last: 5}},
			{{Type: "a", Count: 1, Last: 3}, {Type: "c", Count: 1, Last: 4}, {Type: "e", Count: 1, Last: 5}},
		}},
		{"child", "sibling", 2, [2][]backend.DiffType{
			{{Type: "a", Count: 1, Last: 4}, {Type: "c", Count: 1, Last: 2}, {Type: mark, Count: 1, Last: 3}, {Type: "d", Count: 1, Last: 5}},
			{{Type: mark, Count: 1, Last: 2}},
		}},
	} {
		t.Run(tc.parent+" "+tc.child, func(t *testing.T) {
			r := backend.NewReader(store, backend.Options{})
			var d backend.Diff
			spend(t, store, "diff", tracestore.Counts{Get: 2}, func() { d = diff(t, r, tc.parent, tc.child, backend.DiffOptions{}) })
			if d.Common != tc.common || d.By != backend.ByOrigin || d.Origin != tc.common || d.Doubt != "" || d.Rows != nil {
				t.Errorf("%+v", d)
			}
			at := root(t, r, tc.child)
			v := diff(t, r, tc.parent, tc.child, backend.DiffOptions{Verify: true})
			if v.Common != tc.common || v.By != backend.ByEvents || d.Root == nil || *v.Root != *d.Root || v.Doubt != "" {
				t.Errorf("verified: %+v", v)
			}
			for i, side := range []backend.DiffSide{d.Parent, d.Child} {
				if diff := cmp.Diff(tc.own[i], side.Types); diff != "" || side.Own != side.Next-tc.common {
					t.Errorf("side %d has %d own events: %s", i, side.Own, diff)
				}
			}
			if diff := cmp.Diff([2]backend.DiffSide{d.Parent, d.Child}, [2]backend.DiffSide{v.Parent, v.Child}); diff != "" {
				t.Error(diff)
			}
			if d.Child.Root != at.Root || d.Child.Next != at.Size {
				t.Errorf("%+v, %+v", d.Child, at)
			}
		})
	}
}

// Equal logs, and one that begins with all of another, may be told by their
// trees alone.
func TestDiffByTrees(t *testing.T) {
	store := tracestore.New(memstore.New(t), tracestore.Options{})
	b := backend.New(store, backend.Options{})
	eight := brief("a", "b", "c", "d", "e", "f", "g", "h")
	written(t, b, "log", nil, eight)
	written(t, b, "same", nil, eight)
	written(t, b, "more", nil, brief("a", "b", "c", "d", "e", "f", "g", "h", "i", "j"))
	r := backend.NewReader(store, backend.Options{})
	want := root(t, b.Reader, "log").Root
	for _, child := range []string{"same", "more"} {
		spend(t, store, child, tracestore.Counts{Get: 2}, func() {
			d := diff(t, r, "log", child, backend.DiffOptions{})
			if d.Common != 8 || d.By != backend.ByRoots || d.Proved != 8 || d.Origin != -1 || *d.Root != want || d.Parent.Own != 0 {
				t.Errorf("%+v", d)
			}
		})
	}
}

// Whatever two logs are: what a diff says is what a comparison of all of their
// lines says, and where it counts it counts right.
func TestDiffIsAComparisonOfLines(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 3))
		b := backend.New(memstore.New(t), backend.Options{Foreground: true})
		ids := []string{"log"}
		grow := func(id string) {
			events := make([]string, 1+rng.IntN(6))
			for i := range events {
				events[i] = string(rune('a' + rng.IntN(5)))
			}
			grown(t, b, id, rng.IntN(2) == 0, events...)
		}
		grow("log")
		for i := range 4 {
			of := ids[rng.IntN(len(ids))]
			id := fmt.Sprintf("log %d", i)
			next := info(t, b.Reader, of).Next
			switch at := rng.Int64N(next); {
			case rng.IntN(4) > 0:
				forked(t, b, of, id, backend.ForkOptions{At: &at})
			default: // the same events, and nothing that says so
				var lines [][]byte
				for _, line := range read(t, b.Reader, of, 0)[:at+1] {
					lines = append(lines, []byte(line))
				}
				written(t, b, id, nil, lines)
			}
			ids = append(ids, id)
			for range rng.IntN(4) {
				grow(ids[rng.IntN(len(ids))])
			}
		}
		for _, p := range ids {
			for _, c := range ids {
				a, z := read(t, b.Reader, p, 0), read(t, b.Reader, c, 0)
				common := int64(0)
				for int(common) < min(len(a), len(z)) && a[common] == z[common] {
					common++
				}
				for _, opt := range []backend.DiffOptions{{}, {Verify: true}} {
					d := diff(t, b.Reader, p, c, opt)
					// Where a fork and its parent go on with the same line, in the same
					// millisecond, the origin says less than the lines.
					same := common
					if d.By == backend.ByOrigin {
						same = min(same, d.Common)
					}
					if d.Common != same || d.Proved > common || d.Doubt != "" || d.Root == nil && opt.Verify {
						t.Fatalf("seed %d, %s and %s: %+v, common are %d", seed, p, c, d, common)
					}
					for id, side := range map[string]backend.DiffSide{p: d.Parent, c: d.Child} {
						want := typesIn(t, b.Reader, id, same)
						got := slices.Clone(side.Types)
						slices.SortFunc(got, func(a, b backend.DiffType) int { return strings.Compare(a.Type, b.Type) })
						for i := range got {
							if got[i].Count < 0 && !opt.Verify && i < len(want) {
								got[i].Count = want[i].Count
							}
						}
						if diff := cmp.Diff(want, got); diff != "" {
							t.Fatalf("seed %d, %s of %s and %s behind %d: %s", seed, id, p, c, same, diff)
						}
					}
				}
			}
		}
	}
}

// An origin that the manifests contradict is not believed, and it is said why.
func TestDiffDoubtsAnOrigin(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(t *testing.T, b *backend.Backend, mem *memstore.Store)
		says   string
		origin int64
		common int64
	}{
		"another parent": {func(t *testing.T, b *backend.Backend, mem *memstore.Store) {
			dropLog(mem, "log")
			grown(t, b, "log", false, "a", "b", "x", "y", "z")
		}, "another log of this id", -1, 2},
		"shorter": {func(t *testing.T, _ *backend.Backend, mem *memstore.Store) {
			forgeManifest(t, mem, "child", func(r *manifest.Record) { r.Origin.Parent.UpTo, r.Origin.Inherited = 6, 6 })
		}, `log "log" has 5 events, and had 6 when it was forked`, 6, 4},
		"another root": {func(t *testing.T, _ *backend.Backend, mem *memstore.Store) {
			forgeManifest(t, mem, "child", func(r *manifest.Record) { r.Origin.Parent.UpTo = 5; r.Origin.Inherited = 5 })
		}, `log "log" has root`, 5, 4},
		"other events": {func(t *testing.T, _ *backend.Backend, mem *memstore.Store) {
			forgeManifest(t, mem, "log", func(r *manifest.Record) { r.Content.Tree.Range[0][3] ^= 1 })
		}, "the trees differ among the first 4 events, 4 were inherited", 4, 4},
	} {
		t.Run(name, func(t *testing.T) {
			mem := memstore.New(t)
			b := backend.New(mem, backend.Options{Foreground: true})
			grown(t, b, "log", false, "a", "b", "c", "d", "e")
			forked(t, b, "log", "child", backend.ForkOptions{At: ptr(int64(3))})
			grown(t, b, "child", false, "f", "g")
			tc.change(t, b, mem)
			r := backend.NewReader(mem, backend.Options{})
			d := diff(t, r, "log", "child", backend.DiffOptions{})
			if d.Common != tc.common || d.By != backend.ByEvents || d.Origin != tc.origin || !strings.Contains(d.Doubt, tc.says) {
				t.Errorf("%+v", d)
			}
		})
	}
}

// Where all events are compared, an origin is compared, too.
func TestDiffVerifiesAnOrigin(t *testing.T) {
	mem := memstore.New(t)
	b := backend.New(mem, backend.Options{Foreground: true})
	grown(t, b, "log", false, "a", "b", "c", "d", "e")
	forked(t, b, "log", "child", backend.ForkOptions{At: ptr(int64(2))})
	grown(t, b, "child", false, "f", "g", "h", "i") // 8 events: the trees have no part in the same place
	for says, change := range map[string]func(r *manifest.Record){
		"the events part at seq 3, 4 were inherited": func(r *manifest.Record) { r.Origin.Parent.UpTo, r.Origin.Inherited = 4, 4 },
		"the first 3 events have root":               func(r *manifest.Record) { r.Origin.Parent.Root = segment.Hash{1} },
	} {
		forged := copied(t, mem)
		forgeManifest(t, forged, "child", change)
		d := diff(t, backend.NewReader(forged, backend.Options{}), "log", "child", backend.DiffOptions{Verify: true})
		if d.Common != 3 || !strings.Contains(d.Doubt, says) {
			t.Errorf("%q: %+v", says, d)
		}
	}
}

// The events are shown side by side as far as is wanted, of logs in two stores.
func TestDiffRows(t *testing.T) {
	parents, children := memstore.New(t), memstore.New(t)
	p, c := backend.New(parents, backend.Options{}), backend.New(children, backend.Options{})
	grown(t, p, "log", false, "a", "b", "c", "d")
	forked(t, c, "log", "child", backend.ForkOptions{At: ptr(int64(0)), Parent: p.Reader})
	d := diff(t, c.Reader, "log", "child", backend.DiffOptions{Parent: p.Reader, Events: 2})
	if len(d.Rows) != 2 || d.Common != 1 {
		t.Fatalf("%+v", d)
	}
	first, second := d.Rows[0], d.Rows[1]
	if first.Seq != 1 || first.Parent.Type != "b" || first.Child.Type != mark || second.Parent.Type != "c" || second.Child != nil || second.Seq != 2 {
		t.Errorf("%+v, %+v", first, second)
	}
	if line := read(t, p.Reader, "log", 1)[0]; !bytes.Equal(first.Parent.Line, []byte(line)) {
		t.Errorf("%s", first.Parent.Line)
	}
	if d := diff(t, c.Reader, "log", "child", backend.DiffOptions{Parent: p.Reader, Events: 9}); len(d.Rows) != 3 {
		t.Errorf("%+v", d.Rows)
	}
}

// An error names the log that could not be had.
func TestDiffErrors(t *testing.T) {
	mem := memstore.New(t)
	b := backend.New(mem, backend.Options{Foreground: true})
	grown(t, b, "log", true, "a", "b")
	grown(t, b, "other", true, "a", "c")
	grown(t, b, "gone", false, "a")
	if _, err := b.Delete(t.Context(), "gone", backend.AdoptOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		parent, child, log string
		err                error
	}{
		{"none", "log", "none", backend.ErrNotFound},
		{"log", "none", "none", backend.ErrNotFound},
		{"log", "gone", "gone", backend.ErrDeleted},
		{"log", "damaged", "damaged", backend.ErrMissing},
		{"damaged", "log", "damaged", backend.ErrMissing},
	} {
		if tc.err == backend.ErrMissing && tc.parent == "log" {
			grown(t, b, "damaged", true, "a", "c")
			mem.Drop(manifest.SegmentKey("damaged", info(t, b.Reader, "damaged").Segments[0].Name))
		}
		_, err := b.Diff(t.Context(), tc.parent, tc.child, backend.DiffOptions{})
		oe, ok := errors.AsType[*backend.OpError](err)
		if !errors.Is(err, tc.err) || !ok || oe.Log != tc.log {
			t.Errorf("%s and %s: %v", tc.parent, tc.child, err)
		}
	}
}
