package manifest

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/segment"
)

// namedBy is the base that TestRuleOfNames builds on: two segments, of 10 and 5
// events, and 3 events in the tail, in epoch 4.
func namedBy() *Record {
	ref := func(first, count int64, n byte) SegmentRef {
		return SegmentRef{Name: Name{First: first, Epoch: 2, Nonce: Nonce{7: n}}, Count: count, Bytes: 1, Raw: 1}
	}
	return &Record{
		State: StateOpen, Epoch: 4, Next: 18, Segments: []SegmentRef{ref(0, 10, 1), ref(10, 5, 2)},
		Retired: []Retired{{Name: Name{First: 15, Epoch: 4, Nonce: Nonce{7: 9}}}},
	}
}

func TestRuleOfNames(t *testing.T) {
	base := namedBy()
	upload := func(first, count int64, epoch uint32, tailFirst int64, commit string, inputs ...int) Upload {
		u := Upload{Ref: SegmentRef{Name: Name{First: first, Epoch: epoch, Nonce: Nonce{7: 7}}, Count: count}, TailFirst: tailFirst, Commit: commit}
		for _, i := range inputs {
			u.Inputs = append(u.Inputs, base.Segments[i].Name)
		}
		return u
	}
	renamed := func(u Upload, n Name) Upload {
		u.Ref.Name = n
		return u
	}
	for _, tc := range []struct {
		name  string
		u     Upload
		next  int64 // of the commit, whose id is "c" and which results in epoch 4
		stale bool
	}{
		{"the tail", upload(15, 3, 4, 15, ""), 18, false},
		{"the tail's beginning", upload(15, 2, 4, 15, ""), 18, false},
		{"the tail and this commit's events", upload(15, 5, 4, 15, "c"), 20, false},
		{"of another epoch", upload(15, 3, 3, 15, ""), 18, true},
		{"of an epoch to come", upload(15, 3, 5, 15, ""), 18, true},
		{"from before the tail", upload(14, 4, 4, 14, ""), 18, true},
		{"from within the tail", upload(16, 2, 4, 16, ""), 18, true},
		{"uncommitted events of nobody", upload(15, 5, 4, 15, ""), 20, true},
		{"uncommitted events of another commit", upload(15, 5, 4, 15, "b"), 20, true},
		{"events of another commit where others are now", upload(15, 3, 4, 15, "b"), 20, true},
		{"more than this commit adds", upload(15, 6, 4, 15, "c"), 20, true},
		{"a merge", upload(0, 15, 4, -1, "", 0, 1), 18, false},
		{"a fold with the tail", upload(0, 18, 4, 15, "", 0, 1), 18, false},
		{"a fold with another tail", upload(0, 18, 4, 14, "", 0, 1), 18, true},
		{"a segment that is named", renamed(upload(10, 5, 2, -1, ""), base.Segments[1].Name), 18, true},
		{"a segment that was named", renamed(upload(15, 3, 4, 15, ""), base.Retired[0].Name), 18, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			next := namedBy()
			next.Next, next.Commit.ID = tc.next, "c"
			if tc.u.Inputs != nil {
				next.Segments = []SegmentRef{tc.u.Ref}
			} else {
				next.Segments = append(next.Segments, tc.u.Ref)
			}
			err := checkNames(base, next, []Upload{tc.u})
			if errors.Is(err, ErrStaleUpload) != tc.stale || err != nil && !tc.stale {
				t.Error(err)
			}
		})
	}
	t.Run("uploaded by nobody here", func(t *testing.T) {
		next := namedBy()
		next.Segments = append(next.Segments, upload(15, 3, 4, 15, "").Ref)
		if err := checkNames(base, next, nil); !errors.Is(err, ErrStaleUpload) {
			t.Error(err)
		}
	})
	t.Run("inputs that are not named", func(t *testing.T) {
		u := upload(0, 15, 4, -1, "", 0, 1)
		next := namedBy()
		next.Segments = []SegmentRef{u.Ref}
		for _, gone := range []int{0, 1} {
			base := namedBy()
			base.Segments[gone].Name.Nonce[0]++
			if err := checkNames(base, next, []Upload{u}); !errors.Is(err, ErrStaleUpload) {
				t.Error(err)
			}
		}
	})
	t.Run("two of one commit", func(t *testing.T) {
		seal, own := upload(15, 2, 4, 15, ""), renamed(upload(17, 3, 4, 17, "c"), Name{First: 17, Epoch: 4, Nonce: Nonce{7: 8}})
		next := namedBy()
		next.Next, next.Commit.ID = 20, "c"
		next.Segments = append(next.Segments, seal.Ref, own.Ref)
		if err := checkNames(base, next, []Upload{seal, own}); err != nil {
			t.Error(err)
		}
		own.TailFirst = 15
		if err := checkNames(base, next, []Upload{seal, own}); !errors.Is(err, ErrStaleUpload) {
			t.Error(err)
		}
	})
}

// TestDelete: a tombstone keeps what decides about commits and keys, and what
// later versions have put there.
func TestDelete(t *testing.T) {
	base := openRecord()
	d, err := TakeOver(base, Writer{ID: "deleter"}, KindDelete, 1790000200000)
	if err != nil {
		t.Fatal(err)
	}
	d.Delete()
	p, err := d.Finish()
	if err != nil {
		t.Fatal(err)
	}
	want := tombstone()
	want.Commit = p.Record.Commit
	want.Owner.Writer, want.Generations[2].Writer = "deleter", "deleter"
	got, err := Decode(p.Body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(openRecord(), base); diff != "" {
		t.Errorf("the base has changed (-was +is)\n%s", diff)
	}
	for name, begin := range map[string]func() (*Draft, error){
		"create":   func() (*Draft, error) { return Create(got, Writer{ID: "w"}, Birth{Log: got.Log}, 0) },
		"takeover": func() (*Draft, error) { return TakeOver(got, Writer{ID: "w"}, KindAdopt, 0) },
		"append":   func() (*Draft, error) { return Continue(got, Writer{ID: "deleter"}, 0) },
		"maintain": func() (*Draft, error) { return Maintain(got, Writer{ID: "w"}, 0) },
	} {
		if _, err := begin(); !errors.Is(err, ErrDeleted) {
			t.Errorf("%s on a tombstone: %v", name, err)
		}
	}
}

// TestDeleteAlone: nothing but a takeover without events deletes.
func TestDeleteAlone(t *testing.T) {
	base := openRecord()
	event, err := segment.ParseEvent([]byte(`{"type":"x","seq":2013,"time":1,"data":null}`), segment.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for name, steps := range map[string]func() (*Draft, error){
		"by the owner": func() (*Draft, error) {
			d, err := Continue(base, Writer{ID: base.Owner.Writer}, 1)
			d.Delete()
			return d, err
		},
		"with an event before": func() (*Draft, error) {
			d, err := TakeOver(base, Writer{ID: "w"}, KindDelete, 1)
			d.Append(event)
			d.Delete()
			return d, err
		},
		"with an event after": func() (*Draft, error) {
			d, err := TakeOver(base, Writer{ID: "w"}, KindDelete, 1)
			d.Delete()
			d.Append(event)
			return d, err
		},
	} {
		d, err := steps()
		if err != nil {
			t.Fatal(err)
		}
		if p, err := d.Finish(); err == nil {
			t.Errorf("%s: %s", name, p.Body)
		}
	}
}

// TestBarrier: a barrier raises the epoch and leaves everything else.
func TestBarrier(t *testing.T) {
	for _, tc := range []struct{ highest, want uint32 }{{0, 4}, {2, 4}, {3, 4}, {4, 5}, {70, 71}, {math.MaxUint32, 0}} {
		base := openRecord()
		d, err := Maintain(base, Writer{ID: "gc"}, 5)
		if err != nil {
			t.Fatal(err)
		}
		d.Barrier(tc.highest)
		p, err := d.Finish()
		if tc.want == 0 {
			if err == nil {
				t.Errorf("above %d: epoch %d", tc.highest, p.Record.Epoch)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		want := openRecord()
		want.Revision, want.Epoch, want.Commit = 13, tc.want, p.Record.Commit
		if diff := cmp.Diff(want, p.Record); diff != "" {
			t.Errorf("above %d (-want +got)\n%s", tc.highest, diff)
		}
	}
	d, err := TakeOver(openRecord(), Writer{ID: "w"}, KindAdopt, 5)
	if err != nil {
		t.Fatal(err)
	}
	d.Barrier(1)
	if _, err := d.Finish(); err == nil {
		t.Error("a takeover made a barrier")
	}
	if !slices.Equal(d.next.Generations[:2], openRecord().Generations) {
		t.Error("generations have changed")
	}
}

// TestDeleteAtEveryLimit: a tombstone has less room than a log, so the oldest
// receipts make room, and if need be the oldest takeovers.
func TestDeleteAtEveryLimit(t *testing.T) {
	base := limitRecord()
	base.Revision--         // one more commit fits
	base.Owner.Generation-- // and one more takeover
	for i := range base.Generations {
		base.Generations[i].Generation--
	}
	base.Epoch--
	d, err := TakeOver(base, Writer{ID: "deleter"}, KindDelete, 1790000200000)
	if err != nil {
		t.Fatal(err)
	}
	d.Delete()
	p, err := d.Finish()
	if err != nil {
		t.Fatal(err)
	}
	r := p.Record
	if len(p.Body) > MaxTombstone || len(r.Keys) > 0 || len(r.Generations) < MaxGenerations/2 {
		t.Errorf("%d bytes with %d keys and %d generations", len(p.Body), len(r.Keys), len(r.Generations))
	}
	if own, ok := r.TakeoverOf(r.Generation()); !ok || own.Writer != "deleter" {
		t.Error("the deleter's own takeover is gone")
	}

	base.Unknown = nil // without those of a later version receipts fit
	d, err = TakeOver(base, Writer{ID: "deleter"}, KindDelete, 1790000200000)
	if err != nil {
		t.Fatal(err)
	}
	d.Delete()
	if p, err = d.Finish(); err != nil {
		t.Fatal(err)
	}
	if kept := len(p.Record.Keys); kept == 0 || kept == MaxKeys || p.Record.Keys[kept-1] != base.Keys[MaxKeys-1] {
		t.Errorf("%d receipts are kept, or not the newest", kept)
	}
}
