package backend

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/s3log/s3log/internal/plainlog"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// The promises, and the words for breaking them:
//
//	LIE         told "not committed", yet in the log, now or later
//	LOSTACK     acknowledged, yet not in the log at that place; or events of the log are gone
//	TWICE       an operation is in the log twice
//	KEYTWICE    a keyed append is in the log twice
//	KEYMISS     sent, and told "fenced" on a version that has the key
//	INTERLEAVE  two writers commit in one generation
//	FENCE       a writer that was replaced takes over again
//	FALSEFENCE  told "fenced", yet it owns the log
//	MIXED       a resume's work follows what is not its boundary: a dead and a new writer share a lifecycle
//	CLOSERS     a resume's closers are not those of the turn that was open
//	DOUBLED     a boundary where there must be none
//	WROTE       something was written where there was nothing to write
//	DANGLING    the manifest names a segment that is not there
//	CHILD       a fork is not its parent's beginning and a boundary
//	LIFECYCLE   the manifest says something else of the lifecycle than its events
//	FOLD        the manifest's projections are not those of its events
//	VERDICT     a reader's verdict is not that of a backward scan
//	EPOCHFALL   epoch or revision do not grow as they must
//	UNCLEAR     told "unknown" although every reply was clear
//	INTERNAL    a step fails with an error that it must not have

// checkCommit checks a commit that takes effect on prev (nil: on nothing).
func (w *play) checkCommit(prev *stored, r *request) {
	next := r.next
	rec := next.rec
	var base *manifest.Record
	var before [][]byte
	if prev != nil {
		base, before = prev.rec, prev.lines
	}
	if w.isDenied(r.op) {
		w.fail("LIE", "%s was told that it is not committed, and takes effect", r.op)
	}
	if w.landed[r.op] > 0 {
		w.fail("TWICE", "%s takes effect a second time", r.op)
	}
	w.checkCounters(base, rec)
	if rec.State != manifest.StateOpen {
		return
	}
	for _, ref := range rec.Segments {
		if w.objects[manifest.SegmentKey(rec.Log, ref.Name)] == nil {
			w.fail("DANGLING", "%s names a segment that is not there", r.op)
			return
		}
	}
	if len(next.lines) < len(before) || !slices.EqualFunc(before, next.lines[:len(before)], bytes.Equal) {
		w.fail("LOSTACK", "%s does not keep the events that were there", r.op)
		return
	}
	events, err := plainlog.ParseAll(next.lines)
	if err != nil {
		w.fail("INTERNAL", "%v", err)
		return
	}
	w.checkOwner(base, rec)
	w.checkKeys(next)
	w.checkSeed(base, rec, next.lines, events, len(before))
	w.checkState(rec, next.lines, events)
}

func (w *play) checkCounters(base, rec *manifest.Record) {
	switch {
	case base == nil && rec.Revision != 1:
		w.fail("EPOCHFALL", "the first revision is %d", rec.Revision)
	case base == nil:
	case rec.Revision != base.Revision+1 || rec.Epoch < base.Epoch,
		rec.Generation() > base.Generation() && rec.Epoch == base.Epoch:
		w.fail("EPOCHFALL", "revision %d, epoch %d after %d, %d", rec.Revision, rec.Epoch, base.Revision, base.Epoch)
	case base.State == manifest.StateOpen && rec.UID != base.UID:
		w.fail("INTERLEAVE", "a log is replaced by another")
	}
}

// checkOwner checks who may make this commit (G2).
func (w *play) checkOwner(base, rec *manifest.Record) {
	g := rec.Generation()
	owner := rec.Owner.Writer
	switch {
	case rec.Commit.Writer != owner:
		w.fail("INTERLEAVE", "%s commits in a generation of %s", w.writers[rec.Commit.Writer], w.writers[owner])
	case g == base.Generation() && owner != base.Owner.Writer:
		w.fail("INTERLEAVE", "%s commits in generation %d of %s", w.writers[owner], g, w.writers[base.Owner.Writer])
	case g == base.Generation():
	case g != base.Generation()+1:
		w.fail("INTERLEAVE", "generation %d after %d", g, base.Generation())
	default:
		for _, t := range rec.Generations[:len(rec.Generations)-1] {
			if t.Writer == owner {
				w.fail("FENCE", "%s takes over a second time", w.writers[owner])
			}
		}
		if base != nil && rec.Generations[len(rec.Generations)-1].First != base.Next {
			w.fail("INTERLEAVE", "the takeover of generation %d is said to begin elsewhere than at %d", g, base.Next)
		}
	}
}

// checkKeys: appends are told apart by their data, and those under one key have
// the same.
func (w *play) checkKeys(s *stored) {
	seen := map[string]int{}
	for i, line := range s.lines {
		e, err := segment.ParseEvent(line, segment.Limits{})
		if err != nil || e.Type != noteType {
			continue
		}
		if at, old := seen[string(e.Data)]; old {
			w.fail("KEYTWICE", "%s is in the log at %d and at %d", e.Data, at, i)
		}
		seen[string(e.Data)] = i
	}
}

// checkSeed checks what a commit may add to the n events that were there:
// inherited events, closers, boundary, new work, in this order.
func (w *play) checkSeed(base, rec *manifest.Record, lines [][]byte, events []plainlog.Event, n int) {
	kind := ""
	if rec.Generation() > base.Generation() {
		kind = rec.Generations[len(rec.Generations)-1].Kind
	}
	var closers []string
	mark := 0
	switch kind {
	case manifest.KindResume:
		closers = plainlog.Closers(events[:n])
		for i, c := range closers {
			if n+i >= len(lines) || c != string(lines[n+i]) {
				w.fail("CLOSERS", "a resume of %s writes %s", letters(lines[:n]), letters(lines[n:]))
				return
			}
		}
		n += len(closers)
		mark = len(plainlog.Boundary(events[:n-len(closers)], len(closers), 0))
	case manifest.KindFork:
		n = w.checkChild(rec, lines)
		mark = len(plainlog.Boundary(events[:n], 0, 0))
	}
	if mark > 0 {
		if n >= len(events) || events[n].Type != segment.TypeEndSeed {
			w.fail("MIXED", "%s adds %s to %s without a boundary", kind, letters(lines[n:]), letters(lines[:n]))
			return
		}
		n++
		w.reached["boundary"]++
	}
	for _, e := range events[n:] {
		if kind == manifest.KindFresh {
			break // what a config begins with
		}
		if e.Type == segment.TypeEndSeed {
			w.fail("DOUBLED", "%q leads to %s", kind, letters(lines))
		}
	}
	if kind != manifest.KindResume && kind != manifest.KindFork {
		return
	}
	w.reached[fmt.Sprintf("%s, %d closers, %d boundaries", kind, len(closers), mark)]++
	l := rec.Lifecycle
	if l.Kind != kind || l.First != int64(n) || l.Closers != int64(len(closers)) || l.Inherited != int64(n-mark-len(closers)) {
		w.fail("LIFECYCLE", "%+v of %s", *l, letters(lines))
	}
}

// checkChild checks a fork that begins to exist, and returns how much of its
// parent it has.
func (w *play) checkChild(rec *manifest.Record, lines [][]byte) int {
	parent, o := w.head(parentLog), rec.Origin
	n := int(o.Inherited)
	switch {
	case o.Parent == nil || o.Parent.UID != parent.rec.UID || o.Parent.UpTo != o.Inherited:
		w.fail("CHILD", "its origin is %+v", o)
	case n > len(lines) || n > len(parent.lines) || !slices.EqualFunc(lines[:n], parent.lines[:n], bytes.Equal):
		w.fail("CHILD", "%s, which is not the beginning of %s", letters(lines), parent)
		n = 0
	case stateOf(rec.ActivityRule, lines[:n]).Tree.Root != o.Parent.Root:
		w.fail("CHILD", "the root of its parent is another")
	}
	return n
}

func stateOf(rule string, lines [][]byte) segment.State {
	f, err := manifest.NewFold(segment.NewState(), rule)
	if err != nil {
		panic(err)
	}
	for _, line := range lines {
		e, err := segment.ParseEvent(line, segment.Limits{MaxEvent: segment.MaxFrameRaw})
		if err != nil {
			panic(err)
		}
		f.Add(e)
	}
	return f.State()
}

// checkState compares what a reader of the manifest alone says with the events.
func (w *play) checkState(rec *manifest.Record, lines [][]byte, events []plainlog.Event) {
	if want := stateOf(rec.ActivityRule, lines); rec.Next != int64(len(lines)) || !reflect.DeepEqual(rec.Content, want) {
		w.fail("FOLD", "%+v, from the events %+v", rec.Content, want)
	}
	for _, name := range []string{"compaction", "turn", "step"} {
		p := seedpath.Pairs[name]
		v, ok := seedpath.Judge(rec, p.Open, p.Close)
		answer, marker, bound := plainlog.Verdict(events, p.Open, p.Close)
		got := []int64{-1, -1}
		if v.Open != nil {
			got[0] = v.Open.Seq
		}
		if v.Bound != nil {
			got[1] = v.Bound.Seq
		}
		if !ok || string(v.Answer) != answer || got[0] != marker || got[1] != bound {
			w.fail("VERDICT", "%s of %s: %s, marker %d, boundary %d; a backward scan says %s, %d, %d", name, letters(lines), v.Answer, got[0], got[1], answer, marker, bound)
		}
		if name == "compaction" {
			w.reached["compaction "+answer]++
		}
	}
}

// acknowledged: p was told that its append is in the log. owned says whether its
// handle owned the log before.
func (p *process) acknowledged(l *Log, r Receipt, data string, owned bool) {
	w, log := p.w, l.ID()
	if w.over {
		return
	}
	h := w.head(log)
	what := "acknowledged"
	if r.Duplicate {
		what = "duplicate"
		if w.landed[p.id()] > 0 || !owned && h != nil && takenBy(h.rec, l.Writer()) >= 0 {
			w.fail("WROTE", "%s was told that it is a duplicate, and wrote: %s", p.id(), h)
		}
	}
	w.reached[what]++
	if h == nil || r.First < 0 || r.Count < 1 || r.First+r.Count > int64(len(h.lines)) {
		w.fail("LOSTACK", "%s was told of %d events from %d on, the log is %s", p.id(), r.Count, r.First, h)
		return
	}
	for _, line := range h.lines[r.First : r.First+r.Count] {
		if e, err := segment.ParseEvent(line, segment.Limits{}); err != nil || e.Type != noteType || string(e.Data) != data {
			w.fail("LOSTACK", "%s was told that %s is at %d, the log is %s", p.id(), data, r.First, h)
		}
	}
}

// takenBy finds the takeover of a writer.
func takenBy(r *manifest.Record, writer string) int {
	return slices.IndexFunc(r.Generations, func(t manifest.Takeover) bool { return t.Writer == writer })
}

// marked: p was told what its resume, claim or adoption came to.
func (p *process) marked(log string, l *Log, r Receipt, owns bool) {
	w := p.w
	if w.over {
		return
	}
	h := w.head(log)
	if r.Count == 0 && !owns {
		w.reached["pending"]++
		if w.landed[p.id()] > 0 || p.sent > 0 && p.found != nil && seedpath.Marked(p.found.rec.Content, p.found.rec.Next) {
			w.fail("WROTE", "%s had nothing to write, and did: %s", p.id(), h)
		}
		return
	}
	w.reached["taken over"]++
	i := takenBy(h.rec, l.Writer())
	if i < 0 || h.rec.Generations[i].First > r.First || w.landed[p.id()] > 0 && h.rec.Generations[i].First != r.First {
		w.fail("LOSTACK", "%s was told that it owns the log from %d on, which is %s", p.id(), r.First, h)
		return
	}
	if n := r.First + r.Count; r.Count > 0 && (n > int64(len(h.lines)) || !bytes.HasSuffix(letters(h.lines[r.First:n]), []byte("#"))) {
		w.fail("LOSTACK", "%s was told of a boundary at %d, the log is %s", p.id(), n-1, h)
	}
}

// failed: p was told that its operation failed. writer is that of its handle, if
// it has one.
func (p *process) failed(log string, l *Log, err error) {
	w := p.w
	if w.over {
		return
	}
	switch {
	case errors.Is(err, ErrOutcomeUnknown):
		w.reached["unknown"]++
		if !p.faulted {
			w.fail("UNCLEAR", "%s was told %v", p.id(), err)
		}
		return
	case errors.Is(err, ErrFenced):
		w.reached["fenced"]++
		if h := w.head(log); l != nil && h.rec.Owner.Writer == l.Writer() {
			w.fail("FALSEFENCE", "%s owns the log and was told %v", p.id(), err)
		}
	case errors.Is(err, ErrExists) && log == childLog:
		w.reached["exists"]++
	case errors.Is(err, ErrDenied) && p.faulted, errors.Is(err, ErrNotFound) && log == childLog:
		w.reached["not committed"]++
	default:
		w.fail("INTERNAL", "%s: %v", p.id(), err)
	}
	if w.landed[p.id()] > 0 {
		w.fail("LIE", "%s was told %v, and is in the log", p.id(), err)
	}
	p.deny(p.id())
}
