package backend

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// salvage finds the history of a log in its segments, without a manifest. Nodes
// are states of the log, edges are segments that lead from one to the next: a
// segment does if its events, folded onto the one, give what its index says.
type salvage struct {
	b       *Backend
	id      string
	objects []objstore.Info
	listed  []manifest.Listed

	// prefer is the uid of the log that is taken before others that claim the id, if
	// it is there at all; keep a seq at which states are not dropped.
	prefer string
	keep   int64

	candidates []*candidate // by first seq
	best       *lineage     // the one that was chosen
}

// candidate is a listed segment.
type candidate struct {
	name     manifest.Name
	size     int64
	modified int64
	next     int64 // seq behind its last event; 0 where the index cannot be read
	// What its index says about the log that made it.
	birth *birth
	types []string // of a first one: all types that have a place
	why   string   // it cannot be used
}

// birth is what makes a log recognizable.
type birth struct {
	log, uid string
	header   []byte
	origin   *manifest.Origin
	created  *int64
}

// maxRebuilt is the highest epoch of a segment that is taken for a log's: one made
// of later ones would soon have no epochs left for those who take it over.
const maxRebuilt = math.MaxUint32 - 2*manifest.MaxEpochGap

// salvaged is the history that was chosen.
type salvaged struct {
	birth     *birth
	segments  []manifest.SegmentRef
	tail      []byte // frames of what follows them
	content   segment.State
	confirmed int64 // up to here, the last segment is the proof of all before it
	// ends are the names of all segments that lead to the content: the last one, and
	// others that might stand in its place.
	ends []manifest.Name
}

// run chooses the history. Of several logs that claim the id, as of two that were
// created at the same time, that is the one which knows most.
func (s *salvage) run(ctx context.Context) (*salvaged, error) {
	if len(s.objects) == 0 {
		return nil, &OpError{Op: "rebuild", Log: s.id, Key: manifest.SegmentPrefix(s.id), Seq: -1, Err: errNothingLeft,
			Hint: "a log that fits into its manifest has no segments; restore the manifest from a backup or an older version of it"}
	}
	if err := s.indexes(ctx); err != nil {
		return nil, err
	}
	var best *lineage
	for _, b := range s.births() {
		found := &lineage{s: s, birth: b}
		if err := found.run(ctx); err != nil {
			return nil, err
		}
		if found.last == nil || found.final.pos < b.origin.Inherited {
			continue
		}
		if b.uid == s.prefer {
			best = found
			break
		}
		if best == nil || best.last.before(found.last) < 0 {
			best = found
		}
	}
	s.best = best
	if best == nil {
		return nil, &OpError{Op: "rebuild", Log: s.id, Key: manifest.SegmentPrefix(s.id), Seq: -1,
			Err:  fmt.Errorf("%w: %s", errNothingLeft, s.reasons()),
			Hint: "restore the manifest or the segments from a backup or an older version of them"}
	}
	return best.result(best.final), nil
}

// reasons says why there is no history at all.
func (s *salvage) reasons() string {
	for _, c := range s.candidates {
		if c.name.First == 0 && c.why != "" {
			return fmt.Sprintf("segment %s with the first events: %s", c.name, c.why)
		}
	}
	if len(s.candidates) > 0 && s.candidates[0].name.First > 0 {
		return fmt.Sprintf("of the %s that are there, none has the first events", words.Count(len(s.candidates), "segment"))
	}
	return fmt.Sprintf("of the %s that are there, none says that it is this log's, with intact events from the first one on", words.Count(len(s.candidates), "segment"))
}

// indexes reads the index of every segment.
func (s *salvage) indexes(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range s.objects {
		s.candidates = append(s.candidates, &candidate{name: s.listed[i].Name, size: s.objects[i].Size, modified: s.listed[i].Modified})
	}
	slices.SortStableFunc(s.candidates, func(a, b *candidate) int { return cmp.Compare(a.name.First, b.name.First) })
	read := prefetch(ctx, s.candidates, s.b.opt.Prefetch, s.index)
	for i, c := range s.candidates {
		got := take(ctx, read[i])
		switch err := got.err; {
		case err == nil && c.name.Epoch > maxRebuilt:
			c.next, c.why = got.value.next, fmt.Sprintf("its epoch, %d, is one that no log reaches", c.name.Epoch)
		case err == nil:
			c.next, c.birth, c.types = got.value.next, got.value.birth, got.value.types
		case errors.Is(err, ErrCorrupt), errors.Is(err, objstore.ErrNotExist):
			c.why = cause(err)
		default:
			return err
		}
	}
	return nil
}

// cause is an error without the object and the log, which are named beside it.
func cause(err error) string {
	if oe, ok := errors.AsType[*OpError](err); ok {
		err = oe.Err
	}
	return err.Error()
}

func (s *salvage) index(ctx context.Context, c *candidate) (*candidate, error) {
	key := manifest.SegmentKey(s.id, c.name)
	fail := func(err error) (*candidate, error) {
		return nil, &OpError{Op: "rebuild", Log: s.id, Key: key, Seq: c.name.First, Err: err, Hint: hint(err)}
	}
	r, err := segment.Open(segment.NewCodec(), &rangedObject{ctx: ctx, store: s.b.store, key: key, size: c.size}, c.size)
	if err != nil {
		return fail(err)
	}
	x := r.Index()
	if x.First != c.name.First {
		return fail(fmt.Errorf("%w: it begins at seq %d", ErrCorrupt, x.First))
	}
	out := &candidate{next: x.Next()}
	if x.UID != "" {
		origin, err := manifest.ParseOrigin(x.Origin)
		if err != nil {
			return fail(err)
		}
		_, created, err := checkHeader(x.Header)
		if err != nil {
			return fail(fmt.Errorf("%w: header: %w", ErrCorrupt, err))
		}
		out.birth = &birth{log: x.Log, uid: x.UID, header: x.Header, origin: origin, created: created}
	}
	if x.First == 0 {
		for _, t := range x.State.Types.Entries {
			out.types = append(out.types, t.Type)
		}
	}
	return out, nil
}

// births are the logs that claim the id.
func (s *salvage) births() (all []*birth) {
	for _, c := range s.candidates {
		if b := c.birth; c.why == "" && b != nil && b.log == s.id && !slices.ContainsFunc(all, func(a *birth) bool { return a.uid == b.uid }) {
			all = append(all, b)
		}
	}
	return all
}

// node is a state of the log.
type node struct {
	pos   int64
	root  segment.Hash
	state segment.State
	via   *edge // the way that takes the fewest segments; nil at seq 0
	depth int
}

// edge is a segment that leads from one state to another.
type edge struct {
	c        *candidate
	from, to *node
	ref      manifest.SegmentRef
	inner    map[int64]segment.Hash // roots inside it, where other segments end
}

// before orders edges by what they prove. Where one begins, a boundary was
// committed, and its tree proves all before it; only the last one has nobody to
// confirm it. Of two that begin at the same place the later epoch has seen what
// became of the other.
func (e *edge) before(other *edge) int {
	return cmp.Or(
		cmp.Compare(e.c.name.First, other.c.name.First),
		cmp.Compare(e.c.name.Epoch, other.c.name.Epoch),
		cmp.Compare(e.c.modified, other.c.modified),
		cmp.Compare(e.c.next, other.c.next),
	)
}

// lineage is the search for the history of one log.
type lineage struct {
	s     *salvage
	birth *birth
	nodes map[int64][]*node
	edges []*edge
	last  *edge // the one that proves most
	final *node
}

func (f *lineage) run(ctx context.Context) error {
	begin := segment.NewState()
	begin.Activity = f.birth.created
	f.nodes = map[int64][]*node{0: {{root: begin.Tree.Root, state: begin}}}
	ends := map[int64]bool{}
	for _, c := range f.s.candidates {
		ends[c.next] = true
	}
	// Segments lead to later seqs only: in the order of their first seqs, all ways
	// to a state are known before any segment is tried on it.
	for i, c := range f.s.candidates {
		if c.why != "" || !f.mayBe(c) {
			continue
		}
		for _, n := range f.nodes[c.name.First] {
			if err := f.try(ctx, n, c, ends); err != nil {
				return err
			}
		}
		if last := i+1 == len(f.s.candidates) || f.s.candidates[i+1].name.First > c.name.First; last {
			f.pass(c.name.First)
		}
	}
	for _, e := range f.edges {
		if f.last == nil || f.last.before(e) < 0 {
			f.last = e
		}
	}
	if f.last == nil {
		return nil
	}
	// One that holds the same history and more, and was not made before it: a merge
	// of segments that are gone.
	end := f.correct()
	f.final = end.to
	for longer := true; longer; {
		longer = false
		for _, e := range f.edges {
			root, ok := e.inner[f.final.pos]
			if ok && root == f.final.root && e.to.pos > f.final.pos && e.c.name.Epoch >= end.c.name.Epoch {
				f.final, longer = e.to, true
			}
		}
	}
	return nil
}

// correct is the last edge, or another one that passes the place where it begins,
// goes on differently, is of no earlier epoch, and was written later: a fold that
// took the tail along has no segment that begins where the tail began, where an
// orphan of the writer before may.
func (f *lineage) correct() *edge {
	end := f.last
	for _, e := range f.edges {
		root, passes := e.inner[f.last.from.pos]
		if !passes || root != f.last.from.root || e.to.pos == f.last.from.pos || e.agrees(f.last) || !e.later(f.last) {
			continue
		}
		if end == f.last || e.later(end) || !end.later(e) && e.c.next > end.c.next {
			end = e
		}
	}
	return end
}

// agrees reports whether two edges that pass one state hold the same events as far
// as both reach.
func (e *edge) agrees(other *edge) bool {
	if e.to.pos > other.to.pos {
		e, other = other, e
	}
	root, ok := other.inner[e.to.pos]
	return ok && root == e.to.root
}

// later reports whether e is of no earlier epoch than other and was written later.
func (e *edge) later(other *edge) bool {
	return e.c.name.Epoch >= other.c.name.Epoch && e.c.modified > other.c.modified
}

// pass drops what was only needed to try segments that begin at pos. The history
// ends in a state that nothing leads on from.
func (f *lineage) pass(pos int64) {
	for _, e := range f.edges {
		if e.from.pos == pos && pos > 0 && pos != f.s.keep {
			e.from.state = segment.State{}
		}
	}
}

// mayBe reports whether a segment can be one of this log, by what it says about
// the log that made it.
func (f *lineage) mayBe(c *candidate) bool {
	return c.birth == nil || c.birth.uid == f.birth.uid && c.birth.log == f.birth.log || f.copied(c)
}

// copied reports whether a segment was copied from a parent.
func (f *lineage) copied(c *candidate) bool {
	return f.birth.origin.Kind == manifest.KindFork && c.next <= f.birth.origin.Inherited
}

// try reads a segment and finds out whether it leads on from a state.
func (f *lineage) try(ctx context.Context, n *node, c *candidate, ends map[int64]bool) error {
	body, err := f.s.fetch(ctx, c)
	if err != nil {
		if errors.Is(err, ErrCorrupt) || errors.Is(err, objstore.ErrNotExist) {
			c.why = cause(err)
			return nil
		}
		return err
	}
	r, err := segment.OpenBytes(segment.NewCodec(), body)
	if err != nil {
		c.why = err.Error()
		return nil
	}
	from := n.state
	if n.pos == 0 {
		from = from.Clone()
		if err := from.Types.Reserve(c.types); err != nil {
			c.why = err.Error()
			return nil
		}
	}
	fold, err := manifest.NewFold(from, manifest.RuleUserPrompt)
	if err != nil {
		return err
	}
	e := &edge{c: c, from: n, inner: make(map[int64]segment.Hash)}
	for line, err := range r.Lines(c.name.First) {
		var ev segment.Event
		if err == nil {
			ev, err = segment.ParseEvent(line, segment.Limits{MaxEvent: segment.MaxFrameRaw})
		}
		if err == nil && ev.Seq != fold.Size() {
			err = fmt.Errorf("%w: seq %d carries seq %d", ErrCorrupt, fold.Size(), ev.Seq)
		}
		if err != nil {
			c.why = err.Error()
			return nil
		}
		fold.Add(ev)
		if ends[fold.Size()] {
			e.inner[fold.Size()] = fold.State().Tree.Root
		}
	}
	have, index := fold.State(), r.Index().State
	if f.copied(c) {
		index.Activity = have.Activity // the parent's
	}
	if len(differ(manifest.RuleUserPrompt, have, index)) > 0 {
		return nil // not on this state; perhaps on another
	}
	e.ref = manifest.SegmentRef{Name: c.name, Count: r.Index().Count, Bytes: c.size, Raw: r.Index().RawLength(), SHA256: sha256.Sum256(body)}
	f.link(e, have)
	return nil
}

// fetch reads a whole segment.
func (s *salvage) fetch(ctx context.Context, c *candidate) ([]byte, error) {
	key := manifest.SegmentKey(s.id, c.name)
	obj, err := s.b.store.Get(ctx, key, objstore.GetOptions{Limit: c.size})
	if errors.Is(err, objstore.ErrTooLarge) || err == nil && int64(len(obj.Body)) != c.size {
		err = fmt.Errorf("%w: the object has %d bytes, it was listed with %d", ErrCorrupt, obj.Size, c.size)
	}
	if err != nil {
		return nil, &OpError{Op: "rebuild", Log: s.id, Key: key, Seq: c.name.First, Err: err, Hint: hint(err)}
	}
	return obj.Body, nil
}

// link adds an edge to the state that it leads to.
func (f *lineage) link(e *edge, state segment.State) {
	f.edges = append(f.edges, e)
	pos, root := state.Tree.Size, state.Tree.Root
	i := slices.IndexFunc(f.nodes[pos], func(n *node) bool { return n.root == root })
	if i < 0 {
		e.to = &node{pos: pos, root: root, state: state, via: e, depth: e.from.depth + 1}
		f.nodes[pos] = append(f.nodes[pos], e.to)
		return
	}
	e.to = f.nodes[pos][i]
	if depth := e.from.depth + 1; depth < e.to.depth || depth == e.to.depth && e.to.via.before(e) < 0 {
		e.to.via, e.to.depth = e, depth
	}
}

// result is the history that leads to a state.
func (f *lineage) result(end *node) *salvaged {
	out := &salvaged{birth: f.birth, content: end.state, confirmed: f.last.c.name.First}
	for _, e := range f.edges {
		if e.to == end {
			out.ends = append(out.ends, e.c.name)
		}
	}
	for n := end; n.via != nil; n = n.via.from {
		out.segments = append(out.segments, n.via.ref)
	}
	slices.Reverse(out.segments)
	return out
}
