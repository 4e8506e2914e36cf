package manifest

import (
	"fmt"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/s3log/s3log/segment"
)

// RuleUserPrompt is the activity rule that every log has today: the time of the
// newest user/message whose data.source.kind is "user"; before the first one,
// the header's createdAt.
const RuleUserPrompt = "user-message/user"

// Fold advances the state of a log event by event: the projections of the
// manifest (docs/format.md) and the Merkle tree of RFC 6962 over the event lines.
// It is a pure function of the events and the rule; not safe for concurrent use.
type Fold struct {
	state segment.State
	tree  *compact.Range
	rule  string
}

var hasher = rfc6962.DefaultHasher

// NewFold starts from a state, which it does not change. The error says that
// the state's tree contradicts itself.
func NewFold(from segment.State, rule string) (*Fold, error) {
	tree, err := rangeOf(from.Tree)
	if err != nil {
		return nil, err
	}
	return &Fold{state: from.Clone(), tree: tree, rule: rule}, nil
}

// rangeOf is a tree that can grow.
func rangeOf(t segment.Tree) (*compact.Range, error) {
	hashes := make([][]byte, len(t.Range))
	for i := range t.Range {
		hashes[i] = t.Range[i][:]
	}
	factory := compact.RangeFactory{Hash: hasher.HashChildren}
	tree, err := factory.NewRange(0, uint64(t.Size), hashes)
	if err != nil {
		return nil, fmt.Errorf("%w: Merkle tree of %d events: %w", segment.ErrCorrupt, t.Size, err)
	}
	return tree, nil
}

// grown is the inverse of rangeOf.
func grown(tree *compact.Range) segment.Tree {
	t := segment.Tree{Size: int64(tree.End())}
	for _, h := range tree.Hashes() {
		t.Range = append(t.Range, segment.Hash(h))
	}
	t.Root = segment.TreeRoot(t.Range)
	return t
}

// Add takes the next event.
func (f *Fold) Add(e segment.Event) {
	s := &f.state
	s.Types.Add(e.Type, e.Seq)
	t := e.Time
	s.LastTime = &t
	if s.MaxTime == nil || t > *s.MaxTime {
		s.MaxTime = &t
	}
	// The hashes are fixed-size and the range grows by one leaf: no error is possible.
	if err := f.tree.Append(hasher.HashLeaf(e.Line), nil); err != nil {
		panic("manifest: Merkle tree: " + err.Error())
	}
	p := segment.Project(e)
	if p.UserPrompt && f.rule == RuleUserPrompt {
		s.Activity = &t
	}
	if e.Type == segment.TypeEndSeed {
		s.Boundary = &segment.Boundary{Seq: e.Seq, Time: t}
	}
	foldTurn(s, p, e.Seq)
}

// Size is the number of events so far, and so the seq of the next one.
func (f *Fold) Size() int64 { return int64(f.tree.End()) }

// State is the state after the events added so far. It shares nothing with f.
func (f *Fold) State() segment.State {
	s := f.state.Clone()
	s.Tree = grown(f.tree)
	return s
}

// foldTurn follows the open turn as far as its closers need it: the table in
// §5 of the session format's description. Events outside a turn leave no trace,
// since turn/start clears whatever came before it.
func foldTurn(s *segment.State, p segment.Projection, seq int64) {
	if p.Kind == segment.KindTurnStart {
		s.Turn = &segment.Turn{Turn: p.Turn}
		return
	}
	t := s.Turn
	if t == nil {
		return
	}
	switch p.Kind {
	case segment.KindTurnEnd:
		s.Turn = nil
	case segment.KindStepStart:
		step := p.Step
		t.Step = &step
	case segment.KindStepEnd:
		t.Step, t.Calls, t.More = nil, nil, false
	case segment.KindAssistantMessage:
		for _, id := range p.Calls {
			requestCall(t, id, p.Step)
		}
	case segment.KindToolCall:
		if i := findCall(t, p.CallID); i >= 0 {
			at := seq
			t.Calls[i].Seq = &at
		}
	case segment.KindToolResult:
		if i := findCall(t, p.CallID); i >= 0 {
			t.Calls = append(t.Calls[:i], t.Calls[i+1:]...)
		}
	}
}

// requestCall notes a requested call. One that was requested before keeps its
// place and loses the record of having been started.
func requestCall(t *segment.Turn, id string, step int64) {
	if i := findCall(t, id); i >= 0 {
		t.Calls[i] = segment.Call{ID: id, Step: step}
		return
	}
	if len(t.Calls) >= segment.MaxCalls || !segment.CallIDFits(id) {
		t.More = true
		return
	}
	t.Calls = append(t.Calls, segment.Call{ID: id, Step: step})
}

func findCall(t *segment.Turn, id string) int {
	for i := range t.Calls {
		if t.Calls[i].ID == id {
			return i
		}
	}
	return -1
}
