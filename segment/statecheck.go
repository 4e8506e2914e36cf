package segment

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// maxRange bounds a compact range: a tree of at most 2^53 leaves has no more
// perfect subtrees.
const maxRange = 53

// NewState returns the state of a log without events. Its tree has the root of
// the empty tree, so the zero State is not the same.
func NewState() State { return State{Tree: Tree{Root: TreeRoot(nil)}} }

// Clone returns a copy that shares nothing with s that Types.Add or a fold may
// change.
func (s State) Clone() State {
	s.Types = s.Types.Clone()
	s.LastTime, s.MaxTime, s.Activity = clonePtr(s.LastTime), clonePtr(s.MaxTime), clonePtr(s.Activity)
	s.Boundary = clonePtr(s.Boundary)
	if s.Turn != nil {
		t := *s.Turn
		t.Step = clonePtr(t.Step)
		t.Calls = slices.Clone(t.Calls)
		for i := range t.Calls {
			t.Calls[i].Seq = clonePtr(t.Calls[i].Seq)
		}
		s.Turn = &t
	}
	s.Tree.Range = slices.Clone(s.Tree.Range)
	return s
}

// Clone returns a copy that shares nothing with t.
func (t Types) Clone() Types {
	return Types{Entries: slices.Clone(t.Entries), Overflow: clonePtr(t.Overflow)}
}

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// Get returns the count of a type. Where exact is false the type has no entry
// of its own but may be among those that the overflow counts together: then
// only the events tell. A type that never appeared has count 0.
func (t Types) Get(typ string) (c TypeCount, exact bool) {
	if i := t.index(typ); i >= 0 {
		return t.Entries[i], true
	}
	return TypeCount{Type: typ}, t.Overflow == nil
}

// Add counts an event of the type at seq, in the overflow if there is neither
// an entry nor room for one. Events are added in the order of their seqs.
func (t *Types) Add(typ string, seq int64) {
	var c *TypeCount
	if i := t.index(typ); i >= 0 {
		c = &t.Entries[i]
	} else if len(t.Entries) < MaxTypes {
		t.Entries = append(t.Entries, TypeCount{Type: typ})
		c = &t.Entries[len(t.Entries)-1]
	} else {
		if t.Overflow == nil {
			t.Overflow = new(TypeCount)
		}
		c = t.Overflow
	}
	if c.Count == 0 {
		c.First = seq
	}
	c.Count++
	c.Last = seq
}

// Reserve gives each of the types an entry, with count 0 if it has none yet, so
// that none of them can end up in the overflow. It is meant for a log without
// events. Names that no event can have are ErrInvalidEvent, too many of them
// ErrTooLarge; t is unchanged then.
func (t *Types) Reserve(types []string) error {
	r := t.Clone()
	for _, typ := range types {
		if err := checkTypeName(typ); err != nil {
			return fmt.Errorf("%w: reserved type %.40q: %w", ErrInvalidEvent, typ, err)
		}
		if r.index(typ) >= 0 {
			continue
		}
		if len(r.Entries) == MaxTypes {
			return fmt.Errorf("%w: more than %d reserved types", ErrTooLarge, MaxTypes)
		}
		r.Entries = append(r.Entries, TypeCount{Type: typ})
	}
	*t = r
	return nil
}

func (t Types) index(typ string) int {
	for i := range t.Entries {
		if t.Entries[i].Type == typ {
			return i
		}
	}
	return -1
}

// checkTypeName says why no event can have a type of this name.
func checkTypeName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case !utf8.ValidString(name):
		return errors.New("the name is not valid UTF-8")
	case encodedLen(name) > MaxTypeName:
		return fmt.Errorf("the name is longer than %d bytes", MaxTypeName)
	}
	return nil
}

// CallIDFits reports whether a call id is short enough to be held by a Turn:
// at most MaxCallID bytes between the quotes of its JSON encoding.
func CallIDFits(id string) bool { return encodedLen(id) <= MaxCallID }

// TreeRoot returns the RFC 6962 root of the tree with the given compact range;
// of the empty tree for an empty range.
func TreeRoot(compact []Hash) Hash {
	if len(compact) == 0 {
		return sha256.Sum256(nil)
	}
	root := compact[len(compact)-1]
	var node [1 + 2*len(Hash{})]byte
	node[0] = 1 // RFC 6962: an inner node
	for _, left := range slices.Backward(compact[:len(compact)-1]) {
		copy(node[1:], left[:])
		copy(node[1+len(left):], root[:])
		root = sha256.Sum256(node[:])
	}
	return root
}

// Validate checks that s can be the state of a log whose next seq is next, as
// far as that shows without its events: all bounds, and everything that one
// part of a state says about another. A failure is ErrCorrupt.
func (s *State) Validate(next int64) error {
	if next < 0 || next > MaxSeq+1 {
		return corruptf("next seq %d", next)
	}
	for _, check := range []func(next int64) error{
		s.validateTimes, s.Types.validate, s.validateBoundary, s.validateTurn, s.Tree.validate,
	} {
		if err := check(next); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) validateTimes(next int64) error {
	for _, v := range []*int64{s.LastTime, s.MaxTime, s.Activity} {
		if v != nil && !isSafe(*v) {
			return corruptf("time %d is not within ±(2^53-1)", *v)
		}
	}
	if (s.LastTime == nil) != (next == 0) || (s.MaxTime == nil) != (next == 0) {
		return corruptf("lastTime and maxTime are null before the first event, and only then; next seq is %d", next)
	}
	if next > 0 && *s.LastTime > *s.MaxTime {
		return corruptf("lastTime %d is greater than maxTime %d", *s.LastTime, *s.MaxTime)
	}
	return nil
}

func (t *Types) validate(next int64) error {
	if len(t.Entries) > MaxTypes {
		return corruptf("types: %d entries, at most %d are allowed", len(t.Entries), MaxTypes)
	}
	left, begins, ends := next, false, false // begins: a type has the first event; ends: the last
	count := func(c TypeCount) error {
		if c.Count == 0 && c.First == 0 && c.Last == 0 {
			return nil
		}
		if c.Count < 1 || c.First < 0 || c.Last >= next || c.Count > c.Last-c.First+1 || c.Count == 1 && c.First != c.Last {
			return corruptf("types: %.40q has %d events from seq %d to %d in a log of %d", c.Type, c.Count, c.First, c.Last, next)
		}
		left -= c.Count
		begins = begins || c.First == 0
		ends = ends || c.Last == next-1
		return nil
	}
	seen := make(map[string]bool, len(t.Entries))
	for _, c := range t.Entries {
		if err := checkTypeName(c.Type); err != nil {
			return corruptf("types: %.40q: %w", c.Type, err)
		}
		if seen[c.Type] {
			return corruptf("types: %.40q twice", c.Type)
		}
		seen[c.Type] = true
		if err := count(c); err != nil {
			return err
		}
	}
	if o := t.Overflow; o != nil {
		if o.Type != "" || o.Count == 0 {
			return corruptf("types: an overflow of %d events named %.40q", o.Count, o.Type)
		}
		if err := count(*o); err != nil {
			return err
		}
	}
	if left != 0 {
		return corruptf("types: counts sum to %d, the log has %d events", next-left, next)
	}
	if next > 0 && (!begins || !ends) {
		return corruptf("types: none of them has the first event, or none the last")
	}
	return nil
}

func (s *State) validateBoundary(next int64) error {
	if b := s.Boundary; b != nil && (b.Seq < 0 || b.Seq >= next || !isSafe(b.Time)) {
		return corruptf("boundary at seq %d, time %d in a log of %d events", b.Seq, b.Time, next)
	}
	return nil
}

func (s *State) validateTurn(next int64) error {
	t := s.Turn
	if t == nil {
		return nil
	}
	if next == 0 || !isSafe(t.Turn) || t.Step != nil && !isSafe(*t.Step) {
		return corruptf("turn %d is open in a log of %d events", t.Turn, next)
	}
	if len(t.Calls) > MaxCalls {
		return corruptf("turn: %d calls, at most %d are allowed", len(t.Calls), MaxCalls)
	}
	for i, c := range t.Calls {
		if !CallIDFits(c.ID) || !utf8.ValidString(c.ID) || !isSafe(c.Step) || c.Seq != nil && (*c.Seq < 0 || *c.Seq >= next) {
			return corruptf("turn: call %d (%.40q) cannot be of a log of %d events", i, c.ID, next)
		}
	}
	return nil
}

func (t *Tree) validate(next int64) error {
	if t.Size != next {
		return corruptf("tree: size %d in a log of %d events", t.Size, next)
	}
	if n := bits.OnesCount64(uint64(t.Size)); len(t.Range) != n {
		return corruptf("tree: %d hashes in the range of a tree of size %d", len(t.Range), t.Size)
	}
	if root := TreeRoot(t.Range); root != t.Root {
		return corruptf("tree: root %v, its range makes %v", t.Root, root)
	}
	return nil
}

func isSafe(v int64) bool { return -MaxSeq <= v && v <= MaxSeq }
