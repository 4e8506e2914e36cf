//go:build !race

// Under the race detector pools drop what they hold at random.

package manifest

import "testing"

// What a commit does with the version before and with its own allocates by what
// it changes, not by what is there.
func TestAllocations(t *testing.T) {
	small, long := openRecord(), benchRecord(40)
	folded := func(r *Record) *Fold {
		f, err := NewFold(r.Content, RuleUserPrompt)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	fold := folded(long)
	event := chunks(t, long.Next, 1)[0]
	intent := Intent{Kind: IntentAppend, UID: long.UID, Writer: long.Owner.Writer, Generation: long.Generation(), Start: long.Next, End: long.Next + 1}
	buf := encode(t, long)
	proposal := func(r *Record) func() {
		w := Writer{ID: r.Owner.Writer, Software: "test"}
		return func() {
			d, err := Continue(r, w, 1785403668212)
			if err != nil {
				t.Fatal(err)
			}
			d.SetTail(r.Tail)
			if _, err := d.Finish(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		name string
		most float64
		f    func()
	}{
		{"encoding a small manifest", 32, func() { buf, _ = small.AppendTo(buf[:0]) }},
		{"encoding a long one", 36, func() { buf, _ = long.AppendTo(buf[:0]) }},
		{"folding an event", 8, func() { event.Seq = fold.Size(); fold.Add(event) }},
		{"beginning and ending a fold of a small manifest", 40, func() { folded(small).State() }},
		{"of a long one", 40, func() { folded(long).State() }},
		{"a proposal on a small manifest", 80, proposal(small)},
		{"on a long one", 84, proposal(long)},
		{"checking names where none is new", 0, func() { _ = checkNames(long, long, nil) }},
		{"judging", 0, func() { Judge(intent, long) }},
	} {
		tt.f()
		if got := testing.AllocsPerRun(100, tt.f); got > tt.most {
			t.Errorf("%s makes %v allocations, at most %v are expected", tt.name, got, tt.most)
		} else {
			t.Logf("%s: %v", tt.name, got)
		}
	}
}

// Reading a manifest allocates by its lists, and not by events or bytes of the
// tail.
func TestAllocationsOfDecode(t *testing.T) {
	decode := func(r *Record) float64 {
		body := encode(t, r)
		return testing.AllocsPerRun(100, func() {
			if _, err := Decode(body); err != nil {
				t.Fatal(err)
			}
		})
	}
	r := openRecord()
	small := decode(r)
	r.Tail = make([]byte, MaxTail/4*3)
	if got := decode(r); got > small+2 {
		t.Errorf("with a full tail %v allocations, without %v", got, small)
	}
	entries := float64(40 + len(benchRecord(40).Content.Types.Entries))
	if got := decode(benchRecord(40)); got > small+4*entries {
		t.Errorf("with %v entries more %v allocations, without %v", entries, got, small)
	}
}
