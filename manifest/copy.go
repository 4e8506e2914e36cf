package manifest

import (
	"fmt"
	"math"
	"slices"

	"github.com/transparency-dev/merkle/compact"

	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/segment"
)

// CopyPlan says how a log of one store, the source, comes to the same id of
// another: as the same log, with the same uid and the same segments. What is there
// already, the base, is nothing, a void, or an older copy of it.
//
// A copy is no takeover: who owns the log at the source owns it in the copy, too.
// Wherever nobody but copies has written at the destination, the copy is the
// source's manifest, byte for byte. Where somebody has (a barrier of a collection,
// a void, a fold), the names of segments that may have been there before and may
// have been judged by a collection are not used again, and revision and epoch
// go on from those of the base: that is a manifest of its own.
type CopyPlan struct {
	// Same: the base has all events of the source, and is not older.
	Same bool
	// Segments of the source, in order.
	Segments []CopySegment

	src, base *Record
	next      *Record
	exact     bool // next is the source's manifest as it is
	w         Writer
	at        int64
}

// CopySegment is one segment of a copy.
type CopySegment struct {
	Ref   SegmentRef // as the source names it
	To    Name       // its name at the destination
	Named bool       // the base names it
}

// PlanCopy plans the copy of an open log onto base, nil where nothing is. It writes
// at the time at as w, if it has to write a manifest of its own. Errors: ErrDeleted
// for a tombstone; ErrExists for another log; ErrDiverged where the base has
// been taken over since it was copied, has other events, or is ahead; a void with
// members that this version does not know is ErrUnsupportedVersion. Whether the
// events of a shorter base are the source's first ones is not known before they
// are read: see Growth.
func PlanCopy(src, base *Record, w Writer, at int64) (*CopyPlan, error) {
	switch {
	case src.State == StateDeleted:
		return nil, ErrDeleted
	case src.State != StateOpen:
		return nil, ErrNotFound
	}
	p := &CopyPlan{src: src, base: base, w: w, at: at, exact: true}
	next := *src
	p.next = &next
	if base != nil {
		if err := p.onto(); err != nil {
			return nil, err
		}
	}
	if err := p.name(); err != nil {
		return nil, err
	}
	return p, nil
}

// onto compares the source with what is there.
func (p *CopyPlan) onto() error {
	src, base := p.src, p.base
	switch {
	case base.State == StateDeleted:
		return ErrDeleted
	case base.State == StateVoid && (len(base.Unknown) > 0 || len(base.Critical) > 0):
		return fmt.Errorf("%w: a void with members that have to be kept", segment.ErrUnsupportedVersion)
	case base.State == StateVoid:
		p.exact = src.Revision > base.Revision
		return nil
	case base.UID != src.UID:
		return fmt.Errorf("%w: another one of this id, of uid %s; the source's is %s", ErrExists, base.UID, src.UID)
	}
	if err := p.takeovers(); err != nil {
		return err
	}
	if base.Next == src.Next && base.Content.Tree.Root != src.Content.Tree.Root {
		return fmt.Errorf("%w: its root at %s is %s, the source's %s", ErrDiverged, words.Count(base.Next, "event"), base.Content.Tree.Root, src.Content.Tree.Root)
	}
	p.Same = base.Revision >= src.Revision && base.Next == src.Next && base.Generation() == src.Generation()
	p.exact = p.exact && src.Revision > base.Revision
	return nil
}

// takeovers compares who has owned the log. A copy has no takeover that the
// source does not have: a writer that once owned the copy would take the source's
// positions for answers about its own commits.
func (p *CopyPlan) takeovers() error {
	src, base := p.src, p.base
	for _, t := range base.Generations {
		if s, ok := src.TakeoverOf(t.Generation); ok && s != t {
			return fmt.Errorf("%w: its generation %d is of writer %s (%s, from seq %d on), the source's of %s (%s, from seq %d on)",
				ErrDiverged, t.Generation, t.Writer, t.Kind, t.First, s.Writer, s.Kind, s.First)
		}
	}
	if base.Next > src.Next || base.Generation() > src.Generation() {
		return fmt.Errorf("%w: it is ahead, with %s in generation %d; the source has %d in %d",
			ErrDiverged, words.Count(base.Next, "event"), base.Generation(), src.Next, src.Generation())
	}
	if oldest := src.Generations[0].Generation; base.Generation() == oldest-1 {
		// The source has forgotten the base's generation. Whoever owned that without
		// having added an event must not find the next one either, which would say
		// where its generation ended.
		if len(src.Generations) == 1 {
			return fmt.Errorf("%w: the source knows only generation %d, so that the one here cannot be compared", ErrDiverged, oldest)
		}
		p.next.Generations, p.exact = src.Generations[1:], false
	}
	return nil
}

// name gives each segment its name at the destination, and with that the epoch.
func (p *CopyPlan) name() error {
	type content struct {
		first, count int64
		sum          segment.Hash
	}
	there := map[content]Name{}
	retired := map[Name]bool{}
	var epoch uint32 // an object of a lower one may have been judged
	if p.base != nil {
		epoch = p.base.Epoch
		for _, ref := range p.base.Segments {
			there[content{ref.Name.First, ref.Count, ref.SHA256}] = ref.Name
		}
		for _, r := range p.base.Retired {
			retired[r.Name] = true
		}
	}
	// What the source names and the base has dropped was folded here.
	folded := slices.ContainsFunc(p.src.Segments, func(ref SegmentRef) bool { return retired[ref.Name] })
	raise := p.base != nil && p.base.State == StateVoid
	for _, ref := range p.src.Segments {
		s := CopySegment{Ref: ref, To: ref.Name}
		if name, ok := there[content{ref.Name.First, ref.Count, ref.SHA256}]; ok {
			s.To, s.Named = name, true
		} else if folded || ref.Name.Epoch < epoch {
			s.To.Nonce = NewNonce()
			s.To.Epoch = 0 // below
			raise = true
		}
		p.Segments = append(p.Segments, s)
	}
	if raise {
		if epoch == math.MaxUint32 {
			return fmt.Errorf("manifest: no epoch above %d", epoch)
		}
		epoch++
	}
	p.next.Epoch = max(p.src.Epoch, epoch)
	p.exact = p.exact && p.next.Epoch == p.src.Epoch
	p.next.Segments = make([]SegmentRef, len(p.Segments))
	for i := range p.Segments {
		s := &p.Segments[i]
		if s.To.Epoch == 0 {
			s.To.Epoch = p.next.Epoch
		}
		p.next.Segments[i] = s.Ref
		p.next.Segments[i].Name = s.To
		p.exact = p.exact && s.To == s.Ref.Name
	}
	return nil
}

// Propose is the commit of the copy. Its segments must be on the store by then,
// under the names of the plan.
func (p *CopyPlan) Propose() (*Proposal, error) {
	in := Intent{Kind: IntentMaintain, Log: p.src.Log, UID: p.src.UID, Writer: p.w.ID, Generation: p.src.Generation(), Start: p.src.Next, End: p.src.Next}
	if p.base != nil {
		in.Base = p.base.Commit.ID
	}
	if p.exact {
		p.next = p.src
	} else {
		p.own()
	}
	in.Commit, in.Revision = p.next.Commit.ID, p.next.Revision
	body, err := p.next.Encode()
	if err != nil {
		return nil, err
	}
	return &Proposal{Record: p.next, Body: body, Intent: in}, nil
}

// own makes the copy a commit of its own.
func (p *CopyPlan) own() {
	next, base := p.next, p.base
	next.Revision = max(p.src.Revision, base.Revision+1)
	next.Commit = CommitInfo{ID: newCommitID(), Writer: p.w.ID, At: p.at, Software: p.w.Software}
	// Of what is retired, what was here counts, and when it was dropped here.
	named := map[Name]bool{}
	for i := range next.Segments {
		named[next.Segments[i].Name] = true
	}
	next.Retired = nil
	rm := Removal{Now: p.at, Grace: KeepRetired}
	for _, r := range base.Retired {
		if !named[r.Name] && !rm.Past(r.At) {
			next.Retired = append(next.Retired, r)
		}
	}
	for _, ref := range base.Segments {
		if !named[ref.Name] {
			next.Retired = appendCapped(next.Retired, MaxRetired, Retired{Name: ref.Name, At: p.at})
		}
	}
}

// Base is what is at the destination, nil if nothing is.
func (p *CopyPlan) Base() *Record { return p.base }

// Grows reports whether the base has events, and fewer than the source: then a
// Growth from its tree has to lead to that of the source.
func (p *CopyPlan) Grows() bool {
	return p.base != nil && p.base.State == StateOpen && p.base.Next < p.src.Next
}

// Growth leads from the Merkle tree of a log to that of the log with more events.
// If that is the tree of another log, both begin with the same events.
type Growth struct{ tree *compact.Range }

// NewGrowth starts from a tree. The error says that it contradicts itself.
func NewGrowth(from segment.Tree) (*Growth, error) {
	tree, err := rangeOf(from)
	return &Growth{tree}, err
}

// LeafHash is the hash of an event's line, as Growth takes it.
func LeafHash(line []byte) segment.Hash { return segment.Hash(hasher.HashLeaf(line)) }

// Add takes the leaf of the next event.
func (g *Growth) Add(leaf segment.Hash) {
	if err := g.tree.Append(leaf[:], nil); err != nil {
		panic("manifest: Merkle tree: " + err.Error()) // hashes have one size
	}
}

// Leads reports whether what was added leads to a tree.
func (g *Growth) Leads(to segment.Tree) bool {
	tree := grown(g.tree)
	return tree.Size == to.Size && tree.Root == to.Root
}
