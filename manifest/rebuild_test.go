package manifest

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/segment"
)

// rebuiltFrom is what the segments of a log of 10 events tell, of which the
// newest boundary is at the seq (-1: none).
func rebuiltFrom(origin Origin, boundary int64) Rebuilt {
	content := segment.State{Tree: treeOf(10), LastTime: ptr(int64(5)), MaxTime: ptr(int64(6)),
		Types: segment.Types{Entries: []segment.TypeCount{{Type: "note", Count: 10, First: 0, Last: 9}}}}
	if boundary >= 0 {
		content.Boundary = &segment.Boundary{Seq: boundary, Time: 4}
		content.Types.Entries[0].Count--
		content.Types.Entries = append(content.Types.Entries, segment.TypeCount{Type: segment.TypeEndSeed, Count: 1, First: boundary, Last: boundary})
	}
	ref := SegmentRef{Name: Name{First: 0, Epoch: 3, Nonce: Nonce{1}}, Count: 10, Bytes: 100, Raw: 200}
	return Rebuilt{Log: "l", UID: "uid", Header: []byte(`{"a":1}`), Origin: &origin, Segments: []SegmentRef{ref}, Content: content, Above: 6}
}

func TestRebuild(t *testing.T) {
	parent := &Parent{Log: "p", UID: "pu", UpTo: 4}
	for _, tc := range []struct {
		name     string
		origin   Origin
		boundary int64
		want     Lifecycle
	}{
		{"without a boundary", Origin{Kind: KindFresh}, -1, Lifecycle{Kind: KindFresh, At: 7}},
		{"resumed", Origin{Kind: KindFresh}, 8, Lifecycle{Kind: KindResume, Inherited: 8, First: 9, At: 4}},
		{"a fork", Origin{Kind: KindFork, Inherited: 4, Parent: parent}, 4, Lifecycle{Kind: KindFork, Inherited: 4, First: 5, At: 4}},
		{"a fork that was resumed", Origin{Kind: KindFork, Inherited: 4, Parent: parent}, 9, Lifecycle{Kind: KindResume, Inherited: 9, First: 10, At: 4}},
		{"a replay that ended in its boundary", Origin{Kind: KindReplay, Inherited: 4}, 3, Lifecycle{Kind: KindReplay, Inherited: 4, First: 4, At: 4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := rebuiltFrom(tc.origin, tc.boundary)
			p, err := Rebuild(r, Writer{ID: "w", Label: "label"}, 7)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decode(p.Body)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tc.want, got.Lifecycle); diff != "" {
				t.Errorf("lifecycle (-want +got)\n%s", diff)
			}
			// Above every epoch, and so every generation, that there was.
			if got.Epoch != 7 || got.Generation() != 7 || !got.Owner.Released || got.Owner.Writer != "w" || got.Revision != 1 || got.UID != "uid" || got.Next != 10 {
				t.Errorf("%+v", got)
			}
			if p.Intent.Kind != IntentTakeover || p.Intent.Base != "" || Judge(p.Intent, got) != Committed || Judge(p.Intent, nil) != Unmoved {
				t.Errorf("%+v", p.Intent)
			}
			// Whoever had an append under way is told nothing that is not so.
			for g := int64(1); g < 7; g++ {
				in := Intent{Kind: IntentAppend, UID: "uid", Writer: "old", Generation: g, Start: 8, End: 9, Base: "lost"}
				if v := Judge(in, got); v != Unknown && (v != CommittedFenced || g != 6) {
					t.Errorf("an append of generation %d: %s", g, v)
				}
			}
		})
	}
	t.Run("over what cannot be read", func(t *testing.T) {
		r := rebuiltFrom(Origin{Kind: KindFresh}, -1)
		r.Over = true
		p, err := Rebuild(r, Writer{ID: "w"}, 7)
		if err != nil || p.Intent.Base == "" || Judge(p.Intent, nil) != Gone {
			t.Errorf("%v: %+v", err, p)
		}
	})
	t.Run("before 1970", func(t *testing.T) {
		r := rebuiltFrom(Origin{Kind: KindFresh}, 8)
		r.Content.Boundary.Time = -4
		p, err := Rebuild(r, Writer{ID: "w"}, 7)
		if err != nil || p.Record.Lifecycle.At != 7 {
			t.Errorf("%v: %+v", err, p)
		}
	})
	for name, wreck := range map[string]func(r *Rebuilt, w *Writer){
		"no writer":         func(_ *Rebuilt, w *Writer) { w.ID = "" },
		"no epoch is left":  func(r *Rebuilt, _ *Writer) { r.Above = math.MaxUint32 },
		"segments too many": func(r *Rebuilt, _ *Writer) { r.Segments = append(r.Segments, r.Segments[0]) },
	} {
		r, w := rebuiltFrom(Origin{Kind: KindFresh}, -1), Writer{ID: "w"}
		wreck(&r, &w)
		if p, err := Rebuild(r, w, 7); err == nil {
			t.Errorf("%s: %s", name, p.Body)
		}
	}
}

func TestParseOrigin(t *testing.T) {
	for _, o := range []*Origin{{Kind: KindFresh}, {Kind: KindFork, Inherited: 4, Parent: &Parent{Log: "p\n", UID: "u", UpTo: 4, Root: segment.Hash{1}}}} {
		got, err := ParseOrigin(AppendOrigin(nil, o))
		if diff := cmp.Diff(o, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
	}
	for _, raw := range []string{``, `{}`, `{"kind":"fresh"}`, `{"kind":"fresh","inherited":0} `, `{"kind":"fresh","inherited":0},"x":1`, `{"kind":"fresh","inherited":0}}`, `[]`} {
		if o, err := ParseOrigin([]byte(raw)); !errors.Is(err, segment.ErrCorrupt) || !strings.Contains(err.Error(), "origin") {
			t.Errorf("%s: %+v, %v", raw, o, err)
		}
	}
}
