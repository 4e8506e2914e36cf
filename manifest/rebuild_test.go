package manifest

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/segment"
)

// found is a log of n events, whose boundary, if any, is at a seq.
func found(t *testing.T, n, boundary int64, o Origin) Rebuilt {
	t.Helper()
	f, err := NewFold(segment.NewState(), RuleUserPrompt)
	if err != nil {
		t.Fatal(err)
	}
	for seq := range n {
		typ := "note"
		if seq == boundary {
			typ = segment.TypeEndSeed
		}
		f.Add(segment.Event{Type: typ, Seq: seq, Time: 100 + seq, Line: []byte(typ)})
	}
	return Rebuilt{
		Log: "log", UID: "uid", Origin: &o, Content: f.State(), Above: 6,
		Segments: []SegmentRef{{Name: Name{Epoch: 6}, Count: n, Bytes: 9, Raw: 9}},
	}
}

// A rebuilt manifest is one that can be read, and that nobody of before takes for
// an answer about a commit.
func TestRebuild(t *testing.T) {
	w := NewWriter("label", "test")
	p, err := Rebuild(found(t, 5, -1, Origin{Kind: KindFresh}), w, 77)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Decode(p.Body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.Record, r, cmp.Comparer(func(a, b []byte) bool { return string(a) == string(b) })); diff != "" {
		t.Error(diff)
	}
	if r.Epoch != 7 || r.Generation() != 7 || r.Owner.Writer != w.ID || !r.Owner.Released || r.Next != 5 || r.Revision != 1 {
		t.Errorf("%+v", r)
	}
	for _, in := range []Intent{
		{Kind: IntentAppend, Generation: 1, Start: 5, End: 7},
		{Kind: IntentAppend, Generation: 1, Start: 3, End: 5},
		{Kind: IntentAppend, Generation: 5, Start: 3, End: 5},
		{Kind: IntentTakeover, Generation: 5},
		{Kind: IntentTakeover, Generation: 7},
		{Kind: IntentMaintain, Commit: "c"},
	} {
		in.UID, in.Log, in.Writer, in.Base = "uid", "log", "another", "base"
		if v := Judge(in, r); v.Landed() {
			t.Errorf("%+v: %s", in, v)
		}
	}
	// Its own commit is found, and nothing else in its place.
	if v := Judge(p.Intent, r); v != Committed {
		t.Errorf("%s", v)
	}
	if v := Judge(p.Intent, nil); v != Unmoved {
		t.Errorf("%s", v)
	}
	over := found(t, 5, -1, Origin{Kind: KindFresh})
	over.Over = true
	p, err = Rebuild(over, NewWriter("", ""), 77)
	if err != nil {
		t.Fatal(err)
	}
	if v := Judge(p.Intent, nil); v != Gone {
		t.Errorf("what could not be read is gone: %s", v)
	}
	if v := Judge(p.Intent, r); v != StartOver {
		t.Errorf("somebody else was first: %s", v)
	}
}

// The lifecycle is that behind the newest boundary.
func TestRebuildOfALifecycle(t *testing.T) {
	parent := &Parent{Log: "p", UID: "u", UpTo: 3}
	for _, tc := range []struct {
		name     string
		boundary int64
		origin   Origin
		want     Lifecycle
	}{
		{"fresh", -1, Origin{Kind: KindFresh}, Lifecycle{Kind: KindFresh, At: 77}},
		{"resumed", 3, Origin{Kind: KindFresh}, Lifecycle{Kind: KindResume, Inherited: 3, First: 4, At: 103}},
		{"a fork", 3, Origin{Kind: KindFork, Inherited: 3, Parent: parent}, Lifecycle{Kind: KindFork, Inherited: 3, First: 4, At: 103}},
		{"a fork without a boundary of its own", 2, Origin{Kind: KindFork, Inherited: 3, Parent: parent}, Lifecycle{Kind: KindFork, Inherited: 3, First: 3, At: 102}},
		{"a fork that was resumed", 4, Origin{Kind: KindFork, Inherited: 3, Parent: parent}, Lifecycle{Kind: KindResume, Inherited: 4, First: 5, At: 104}},
		{"a replay", 2, Origin{Kind: KindReplay, Inherited: 2}, Lifecycle{Kind: KindReplay, Inherited: 2, First: 3, At: 102}},
	} {
		p, err := Rebuild(found(t, 5, tc.boundary, tc.origin), NewWriter("", ""), 77)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if diff := cmp.Diff(tc.want, *p.Record.Lifecycle); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

func TestRebuildRefuses(t *testing.T) {
	fine := func() Rebuilt { return found(t, 5, -1, Origin{Kind: KindFresh}) }
	w := NewWriter("", "")
	for name, tc := range map[string]struct {
		change func(r *Rebuilt, w *Writer)
		want   error
	}{
		"a label that is too long":   {func(_ *Rebuilt, w *Writer) { w.Label = strings.Repeat("x", 200) }, segment.ErrTooLarge},
		"the last epoch":             {func(r *Rebuilt, _ *Writer) { r.Above = math.MaxUint32 }, nil},
		"too many segments":          {func(r *Rebuilt, _ *Writer) { r.Segments = make([]SegmentRef, MaxSegments+1) }, segment.ErrTooLarge},
		"more inherited than events": {func(r *Rebuilt, _ *Writer) { r.Origin = &Origin{Kind: KindReplay, Inherited: 9} }, nil},
	} {
		r, who := fine(), w
		tc.change(&r, &who)
		if p, err := Rebuild(r, who, 77); err == nil || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

func TestParseOrigin(t *testing.T) {
	for _, o := range []*Origin{
		{Kind: KindFresh},
		{Kind: KindReplay, Inherited: 4},
		{Kind: KindFork, Inherited: 4, Parent: &Parent{Log: "a\"b", UID: "u", UpTo: 4, Root: segment.Hash{1}}},
	} {
		raw := AppendOrigin(nil, o)
		if got, err := ParseOrigin(raw); err != nil || cmp.Diff(o, got) != "" {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
		var again jsontext.Value = bytes.Clone(raw)
		if err := again.Indent(); err != nil {
			t.Fatal(err)
		}
		if got, err := ParseOrigin(again); err != nil || cmp.Diff(o, got) != "" {
			t.Errorf("%s: %+v, %v", again, got, err)
		}
		for n := range raw {
			if got, err := ParseOrigin(raw[:n]); !errors.Is(err, segment.ErrCorrupt) {
				t.Errorf("%s: %+v, %v", raw[:n], got, err)
			}
		}
	}
	for _, raw := range []string{"", "{}", "null", `{"kind":"fresh","inherited":0,"parent":null}x`, `{"kind":"fresh","inherited":0}`, `{"kind":1,"inherited":0,"parent":null}`, `{"kind":"fresh","inherited":00,"parent":null}`} {
		if got, err := ParseOrigin([]byte(raw)); !errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
}
