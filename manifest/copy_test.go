package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/segment"
)

const copyAt = 1790000300000

var copyist = Writer{ID: "copyist", Software: "test"}

// planned proposes a copy of src onto base, and decodes it.
func planned(t *testing.T, src, base *Record) (*CopyPlan, *Proposal) {
	t.Helper()
	before := encode(t, src)
	plan, err := PlanCopy(src, base, copyist, copyAt)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Propose()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Decode(p.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(encode(t, r), p.Body) || !bytes.Equal(encode(t, src), before) {
		t.Error("the proposal is not what is encoded, or the source was changed")
	}
	return plan, p
}

// earlier is a revision before openRecord's: without its newest event and segment.
func earlier() *Record {
	r := openRecord()
	r.Revision, r.Epoch, r.Next, r.Keys = 9, 3, 2012, r.Keys[:1]
	r.Commit.ID = "019b0000-0000-7000-8000-000000000009"
	r.Content.Tree = treeOf(2012)
	r.Content.Types.Entries[1].Count, r.Content.Types.Entries[1].Last = 1, 0
	r.Content.Types.Entries[3] = segment.TypeCount{Type: "session/end-seed", Count: 2, First: 2010, Last: 2011}
	r.Content.Types.Entries[2].Count, r.Content.Types.Entries[2].Last = 2009, 2009
	r.Segments = r.Segments[:1]
	return r
}

// A copy on nothing, or on an older copy, is the source's manifest byte for byte.
func TestCopyIsExact(t *testing.T) {
	for name, base := range map[string]*Record{"nothing": nil, "an older copy": earlier()} {
		t.Run(name, func(t *testing.T) {
			src := openRecord()
			plan, p := planned(t, src, base)
			if !bytes.Equal(p.Body, encode(t, src)) {
				t.Errorf("%s", p.Body)
			}
			if plan.Same || plan.Grows() != (base != nil) {
				t.Errorf("%+v", plan)
			}
			want := Intent{Kind: IntentMaintain, Log: src.Log, UID: src.UID, Commit: src.Commit.ID, Writer: copyist.ID, Generation: 2, Start: 2013, End: 2013, Revision: 12}
			if base != nil {
				want.Base = base.Commit.ID
			}
			if diff := cmp.Diff(want, p.Intent); diff != "" {
				t.Error(diff)
			}
			for i, s := range plan.Segments {
				if s.To != s.Ref.Name || s.Named != (base != nil && i == 0) {
					t.Errorf("segment %d: %+v", i, s)
				}
			}
			if got, err := PlanCopy(src, p.Record, copyist, copyAt); err != nil || !got.Same {
				t.Errorf("again: %+v, %v", got, err)
			}
		})
	}
}

// Where somebody else has written, the copy is a commit of its own: revision and
// epoch go on, and no name is used again that a collection may have judged.
func TestCopyOntoWhatOthersHaveWritten(t *testing.T) {
	barriered := earlier()
	barriered.Revision, barriered.Epoch, barriered.Commit.ID = 20, 8, "a barrier"
	folded := earlier()
	folded.Revision, folded.Commit.ID = 10, "a fold"
	folded.Retired = append(folded.Retired, Retired{Name: folded.Segments[0].Name, At: copyAt - 5})
	folded.Segments = []SegmentRef{{Name: segName(0, 3, 9), Count: 1001, Bytes: 5, Raw: 6, SHA256: segment.Hash{9}}}
	voided := func(epoch uint32, revision int64) *Record {
		v := void()
		v.Log, v.Epoch, v.Revision = openRecord().Log, epoch, revision
		return v
	}
	names := openRecord().Segments
	for _, tc := range []struct {
		name     string
		base     *Record
		revision int64
		epoch    uint32
		renamed  []bool
		retired  []Retired
	}{
		{"a barrier", barriered, 21, 9, []bool{false, true}, barriered.Retired},
		{"a fold", folded, 12, 4, []bool{true, true}, []Retired{folded.Retired[0], folded.Retired[1], {folded.Segments[0].Name, copyAt}}},
		{"a void above all", voided(7, 1), 12, 8, []bool{true, true}, nil},
		{"a void between", voided(2, 1), 12, 3, []bool{true, false}, nil},
		{"a void with many revisions", voided(1, 30), 31, 3, []bool{false, false}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := openRecord()
			plan, p := planned(t, src, tc.base)
			got := p.Record
			want := *src
			want.Revision, want.Epoch, want.Retired = tc.revision, tc.epoch, tc.retired
			want.Commit = CommitInfo{ID: got.Commit.ID, Writer: copyist.ID, At: copyAt, Software: copyist.Software}
			want.Segments = slices.Clone(src.Segments)
			for i := range want.Segments {
				want.Segments[i].Name = plan.Segments[i].To
			}
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Error(diff)
			}
			if got.Commit.ID == src.Commit.ID || p.Intent.Commit != got.Commit.ID || p.Intent.Base != tc.base.Commit.ID {
				t.Errorf("commit %q, %+v", got.Commit.ID, p.Intent)
			}
			for i, s := range plan.Segments {
				fresh := s.To != names[i].Name
				if fresh != tc.renamed[i] || fresh && (s.To.First != names[i].Name.First || s.To.Epoch != tc.epoch || s.To.Nonce == names[i].Name.Nonce) {
					t.Errorf("segment %d is named %s, by the source %s", i, s.To, names[i].Name)
				}
			}
			again, err := PlanCopy(src, got, copyist, copyAt)
			if err != nil || !again.Same {
				t.Errorf("again: %+v, %v", again, err)
			}
			for _, s := range again.Segments {
				if !s.Named {
					t.Errorf("%+v is not found again", s)
				}
			}
		})
	}
	t.Run("what is only older in form is left alone", func(t *testing.T) {
		src, base := openRecord(), openRecord()
		base.Revision, base.Epoch, base.Commit.ID, base.Lease, base.Owner.Released = 13, 9, "a barrier", nil, false
		if plan, err := PlanCopy(src, base, copyist, copyAt); err != nil || !plan.Same {
			t.Errorf("%+v, %v", plan, err)
		}
		src.Revision = 14
		if plan, err := PlanCopy(src, base, copyist, copyAt); err != nil || plan.Same {
			t.Errorf("%+v, %v", plan, err)
		}
	})
	t.Run("no epoch is left", func(t *testing.T) {
		base := voided(1<<32-1, 1)
		if plan, err := PlanCopy(openRecord(), base, copyist, copyAt); err == nil {
			t.Errorf("%+v", plan)
		}
	})
}

// A copy that has a history of its own is never replaced.
func TestCopyRefuses(t *testing.T) {
	change := func(r *Record, f func(r *Record)) *Record {
		r.Generations = slices.Clone(r.Generations)
		f(r)
		return r
	}
	voided := void()
	voided.Log, voided.Unknown = openRecord().Log, []byte(`"x":1`)
	for _, tc := range []struct {
		name      string
		src, base *Record
		want      error
	}{
		{"a tombstone", openRecord(), tombstone(), ErrDeleted},
		{"a deleted source", tombstone(), nil, ErrDeleted},
		{"a void source", void(), nil, ErrNotFound},
		{"a void of a later version", openRecord(), voided, segment.ErrUnsupportedVersion},
		{"another log", openRecord(), change(openRecord(), func(r *Record) { r.UID = "another" }), ErrExists},
		{"ahead in events", earlier(), openRecord(), ErrDiverged},
		{"ahead in takeovers", openRecord(), change(openRecord(), func(r *Record) {
			r.Generations = append(r.Generations, Takeover{Generation: 3, Writer: "w3", Kind: KindClaim, First: 2013})
		}), ErrDiverged},
		{"taken over", openRecord(), change(earlier(), func(r *Record) { r.Generations[1].Writer = "w3" }), ErrDiverged},
		{"taken over elsewhere", openRecord(), change(earlier(), func(r *Record) { r.Generations[1].First-- }), ErrDiverged},
		{"other events", openRecord(), change(openRecord(), func(r *Record) { r.Content.Tree.Root[0]++ }), ErrDiverged},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if plan, err := PlanCopy(tc.src, tc.base, copyist, copyAt); !errors.Is(err, tc.want) {
				t.Errorf("%+v, %v", plan, err)
			}
		})
	}
}

// A base of before all takeovers that the source remembers cannot be compared. Then
// nobody who may have owned it finds a record that speaks of his generation.
func TestCopyOntoAForgottenGeneration(t *testing.T) {
	src := openRecord()
	src.Generations = nil
	for g := int64(5); g < 9; g++ {
		src.Generations = append(src.Generations, Takeover{Generation: g, Writer: fmt.Sprint("w", g), Kind: KindAdopt, First: 2000 + g})
	}
	src.Owner.Generation, src.Owner.Writer, src.Epoch = 8, "w8", 8
	for generation, oldest := range map[int64]int64{2: 5, 3: 5, 4: 6} {
		base := earlier()
		base.Generations = []Takeover{{Generation: generation, Writer: "unheard of", Kind: KindClaim, First: 2012}}
		_, p := planned(t, src, base)
		got := p.Record.Generations
		if got[0].Generation != oldest || len(got) != int(9-oldest) || (oldest == 5) != bytes.Equal(p.Body, encode(t, src)) {
			t.Errorf("generation %d: %+v", generation, got)
		}
		// Its append from 2012 to 2013 was under way when the copy came.
		in := Intent{Kind: IntentAppend, Log: src.Log, UID: src.UID, Commit: "c", Writer: "unheard of", Generation: generation, Start: 2004, End: 2005, Base: base.Commit.ID}
		if v := Judge(in, p.Record); v != Unknown {
			t.Errorf("generation %d: an append is %s", generation, v)
		}
	}
	src.Generations = src.Generations[3:]
	base := earlier()
	base.Generations = []Takeover{{Generation: 7, Writer: "unheard of", Kind: KindClaim, First: 2012}}
	if _, err := PlanCopy(src, base, copyist, copyAt); !errors.Is(err, ErrDiverged) {
		t.Error(err)
	}
}

// A growth leads to the tree of all events, from any number of the first ones.
func TestGrowth(t *testing.T) {
	const n = 40
	states := []segment.State{segment.NewState()}
	fold, err := NewFold(states[0], RuleUserPrompt)
	if err != nil {
		t.Fatal(err)
	}
	for seq := range int64(n) {
		fold.Add(note(t, seq))
		states = append(states, fold.State())
	}
	for from := range n {
		g, err := NewGrowth(states[from].Tree)
		if err != nil {
			t.Fatal(err)
		}
		for seq := from; seq < n; seq++ {
			if g.Leads(states[n].Tree) {
				t.Errorf("from %d it leads there with %d", from, seq)
			}
			g.Add(LeafHash(note(t, int64(seq)).Line))
		}
		if !g.Leads(states[n].Tree) {
			t.Errorf("from %d it leads elsewhere", from)
		}
	}
	if _, err := NewGrowth(segment.Tree{Size: 3}); !errors.Is(err, segment.ErrCorrupt) {
		t.Error(err)
	}
}
