package backend_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// Any sequence can be replayed, balanced or not; only one that ends in a
// boundary and leaves no turn open is not marked again. No closers are written.
func TestReplays(t *testing.T) {
	for i, tc := range []struct {
		events []string
		marked bool // by the replay
		answer seedpath.Answer
	}{
		{nil, true, seedpath.Balanced},
		{[]string{"note"}, true, seedpath.Balanced},
		{[]string{mark}, false, seedpath.Balanced},
		{[]string{"note", mark}, false, seedpath.Balanced},
		{[]string{mark, "note"}, true, seedpath.Balanced},
		{[]string{`turn/start {"turn":1}`, `step/start {"turn":1,"step":1}`}, true, seedpath.Balanced},
		{[]string{`turn/start {"turn":1}`, mark}, true, seedpath.Balanced}, // inside the open turn
		{[]string{`turn/end {"turn":1}`, "compaction/start"}, true, seedpath.Stale},
		{[]string{"compaction/start", mark}, false, seedpath.Stale},
		{[]string{"compaction/start", mark, "compaction/start"}, true, seedpath.Stale},
	} {
		b := backend.New(memstore.New(t), backend.Options{})
		events := brief(tc.events...)
		l, r, err := b.Replay(t.Context(), "log", sequence(events), backend.ReplayOptions{Header: []byte(`{"createdAt":3}`)})
		if err != nil {
			t.Fatal(err)
		}
		want := tc.events[:len(tc.events):len(tc.events)]
		if tc.marked {
			want = append(want, mark)
		}
		if r != (backend.Receipt{Log: "log", Count: int64(len(want)), Next: int64(len(want)), Revision: 1, Generation: 1}) {
			t.Errorf("%d: %+v", i, r)
		}
		got := types(t, b.Reader, "log")
		for i := range want {
			want[i], _, _ = strings.Cut(want[i], " ")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d: -want +got:\n%s", i, diff)
		}
		for j, line := range read(t, b.Reader, "log", 0) {
			if j < len(events) && line != string(events[j]) {
				t.Errorf("%d: %s became %s", i, events[j], line)
			}
		}
		if c, err := b.Check(t.Context(), "log", compaction, backend.CheckOptions{Verify: true}); err != nil || c.Answer != tc.answer || c.Open != nil && c.Open.Generation != 0 {
			t.Errorf("%d: %+v, %v", i, c, err)
		}
		n := info(t, b.Reader, "log")
		if o, life := n.Origin, n.Lifecycle; o.Kind != manifest.KindReplay || o.Inherited != int64(len(events)) || o.Parent != nil ||
			life.Kind != manifest.KindReplay || life.Inherited != o.Inherited || life.First != r.Next || *n.Content.Activity != 3 {
			t.Errorf("%d: %+v, %+v", i, o, life)
		}
		if r := appendOne(t, l, event(0)); r.First != int64(len(want)) || r.Generation != 1 {
			t.Errorf("%d: %+v", i, r)
		}
		closeLog(t, l)
		verifyClean(t, b.Reader, "log")
	}
}

// Events without seq and time get theirs; a wrong seq is refused.
func TestReplayAssigns(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	l, _, err := b.Replay(t.Context(), "log", sequence([][]byte{[]byte(" {\"type\":\"note\",\n\"data\":1.0}\n"), []byte(`{"type":"note","seq":1,"time":-4,"data":2}`)}), backend.ReplayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	got := read(t, b.Reader, "log", 0)
	if !strings.HasPrefix(got[0], `{"type":"note","seq":0,"time":1`) || !strings.HasSuffix(got[0], `,"data":1.0}`) || got[1] != `{"type":"note","seq":1,"time":-4,"data":2}` {
		t.Errorf("%q", got)
	}
	verifyClean(t, b.Reader, "log")
}

// A sequence with a flaw makes no log, wherever the flaw is.
func TestReplayOfABadSequence(t *testing.T) {
	broken := errors.New("the source broke off")
	good := brief("note", "note", "note", "note")
	for _, tc := range []struct {
		name string
		at   int
		line string
		err  error
		want error
	}{
		{"not JSON", 2, `{"type":`, nil, backend.ErrInvalidEvent},
		{"first", 0, `[]`, nil, backend.ErrInvalidEvent},
		{"a gap", 2, `{"type":"note","seq":3,"time":1,"data":1}`, nil, backend.ErrSeqMismatch},
		{"a seq twice", 3, `{"type":"note","seq":2,"time":1,"data":1}`, nil, backend.ErrSeqMismatch},
		{"too large", 1, `{"type":"note","data":"` + strings.Repeat("x", 2000) + `"}`, nil, backend.ErrTooLarge},
		{"the source", 2, ``, broken, broken},
	} {
		mem := memstore.New(t)
		b := backend.New(mem, backend.Options{Limits: segment.Limits{MaxEvent: 1000}})
		given := 0
		l, r, err := b.Replay(t.Context(), "log", func(yield func([]byte, error) bool) {
			for i, line := range good {
				given++
				var err error
				if i == tc.at {
					line, err = []byte(tc.line), tc.err
				}
				if !yield(line, err) {
					return
				}
			}
		}, backend.ReplayOptions{})
		if l != nil || r != (backend.Receipt{}) || !errors.Is(err, tc.want) || given != tc.at+1 {
			t.Errorf("%s: %+v, %v after %d events", tc.name, r, err, given)
		}
		if tc.err == nil && !strings.Contains(err.Error(), fmt.Sprintf("event %d", tc.at)) {
			t.Errorf("%s: %v", tc.name, err)
		}
		if n := len(mem.Snapshot("")); n != 0 {
			t.Errorf("%s: %d objects", tc.name, n)
		}
	}
}

// An id that is taken is refused before the sequence is touched.
func TestReplayOnWhatIsThere(t *testing.T) {
	mem := memstore.New(t)
	b := backend.New(mem, backend.Options{})
	written(t, b, "log", nil, brief("note"))
	untouched := func(func([]byte, error) bool) { t.Error("the sequence was read") }
	if _, _, err := b.Replay(t.Context(), "log", untouched, backend.ReplayOptions{}); !errors.Is(err, backend.ErrExists) {
		t.Error(err)
	}
	commitBy(t, mem, "log", func(base *manifest.Record, w manifest.Writer) (*manifest.Draft, error) {
		d, err := manifest.TakeOver(base, w, manifest.KindDelete, base.Commit.At)
		if err == nil {
			d.Delete()
		}
		return d, err
	})
	for _, tc := range []struct {
		id   string
		opt  backend.ReplayOptions
		want error
	}{
		{"log", backend.ReplayOptions{}, backend.ErrDeleted},
		{"new", backend.ReplayOptions{Header: []byte("[]")}, backend.ErrInvalidEvent},
		{"new", backend.ReplayOptions{Types: []string{""}}, backend.ErrInvalidEvent},
	} {
		if _, _, err := b.Replay(t.Context(), tc.id, untouched, tc.opt); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.id, err)
		}
	}
	if _, _, err := b.Replay(t.Context(), "", untouched, backend.ReplayOptions{}); err == nil {
		t.Error("a replay without an id")
	}
}

// A long sequence is read once and goes into several segments.
func TestReplayOfALongSequence(t *testing.T) {
	if testing.Short() {
		t.Skip("encodes 24 MB")
	}
	mem := memstore.New(t)
	store := tracestore.New(mem, tracestore.Options{})
	b := backend.New(store, backend.Options{})
	rng := rand.New(rand.NewPCG(5, 6))
	const n = 600
	last := 0
	spend(t, store, "replay", tracestore.Counts{Get: 1, Put: 4}, func() {
		_, r, err := b.Replay(t.Context(), "log", func(yield func([]byte, error) bool) {
			for i := range n {
				if last = i; !yield(noise(rng, i, 40<<10), nil) {
					return
				}
			}
		}, backend.ReplayOptions{Release: true, Types: []string{"late"}})
		if err != nil || r.Next != n+1 || last != n-1 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	i := info(t, b.Reader, "log")
	if len(i.Segments) != 3 || i.Tail != 0 || i.Content.Types.Entries[0].Type != "late" || !i.Owner.Released {
		t.Errorf("%+v", i.Segments)
	}
	verifyClean(t, b.Reader, "log")
	// A flaw at its end makes no log; what was uploaded by then is nobody's.
	_, _, err := b.Replay(t.Context(), "bad", func(yield func([]byte, error) bool) {
		for i := range n {
			if !yield(noise(rng, i, 40<<10), nil) {
				return
			}
		}
		yield([]byte("7"), nil)
	}, backend.ReplayOptions{})
	if !errors.Is(err, backend.ErrInvalidEvent) {
		t.Error(err)
	}
	if _, err := b.Info(t.Context(), "bad"); !errors.Is(err, backend.ErrNotFound) {
		t.Error(err)
	}
}
