package backend

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// remains is what can still be read of the damaged manifest that a rebuild
// replaces.
type remains struct {
	manifest.Remains
	body  []byte
	runs  []run // the events of its tail that are intact
	whole bool  // that is all of its tail
	// differ, unless nil, holds other events than the segments that are named.
	differ *run
}

// run is events that follow each other.
type run struct {
	first int64
	lines [][]byte
}

func (u *run) next() int64 { return u.first + int64(len(u.lines)) }

// span are its seqs in words.
func (u *run) span() string {
	if len(u.lines) == 1 {
		return fmt.Sprintf("seq %d", u.first)
	}
	return fmt.Sprintf("seqs %d to %d", u.first, u.next()-1)
}

// remainsOf looks what is left of a manifest. Whatever of the tail is not a run of
// events with checksums and seqs that fit is not taken for any.
func remainsOf(body []byte) *remains {
	m := &remains{Remains: manifest.Salvage(body), body: body}
	raws, all := segment.NewCodec().IntactFrames(m.Tail, maxTailRaw)
	m.whole = all && m.Whole && len(raws) < 2
	for _, raw := range raws {
		var u run
		for line := range segment.Lines(raw) { // whole lines: they were looked for
			ev, err := segment.ParseEvent(line, segment.Limits{MaxEvent: segment.MaxFrameRaw})
			if err != nil || len(u.lines) > 0 && ev.Seq != u.next() || len(u.lines) == 0 && len(m.runs) > 0 && ev.Seq < m.runs[len(m.runs)-1].next() {
				m.whole = false
				break
			}
			if len(u.lines) == 0 {
				u.first = ev.Seq
			}
			u.lines = append(u.lines, line)
		}
		if len(u.lines) > 0 {
			m.runs = append(m.runs, u)
		}
	}
	return m
}

// reaching is the run that goes on at a seq, or holds what is before and behind it.
func (m *remains) reaching(seq int64) *run {
	if m == nil {
		return nil
	}
	i := slices.IndexFunc(m.runs, func(u run) bool { return u.first <= seq && u.next() > seq })
	if i < 0 {
		return nil
	}
	return &m.runs[i]
}

// born is the log as the damaged manifest has it, without an event: where there
// are no segments, all else is in it.
func (m *remains) born(id string) (*salvaged, bool) {
	begin := m.reaching(0)
	if begin == nil || m.Log != id || m.UID == "" || m.Origin == nil || begin.next() < m.Origin.Inherited {
		return nil, false
	}
	header, created, err := checkHeader(m.Header)
	if err != nil {
		return nil, false
	}
	state := segment.NewState()
	state.Activity = created
	return &salvaged{birth: &birth{log: id, uid: m.UID, header: header, origin: m.Origin, created: created}, content: state}, true
}

// takeTail lets the events of the damaged manifest's tail follow the segments,
// where it is sure that they do. It returns the history that results, and why they
// do not follow, if some would.
func (r *rebuilder) takeTail(ctx context.Context, s *salvage, found *salvaged) (chosen *salvaged, whyNot string, err error) {
	m, end := r.remains, found.content.Tree.Size
	if m == nil || len(m.runs) == 0 {
		return found, "", nil
	}
	u := &m.runs[0]
	same, err := r.overlaps(ctx, found, u)
	if err != nil {
		return nil, "", err
	}
	if found.confirmed <= u.first && (!same || u.next() < end) {
		// No segment proves that the log went on behind the one that passes the place
		// where the tail begins: that one was never committed, at least not all of it.
		for _, other := range r.others(s, found, u, same) {
			state, err := follow(other, u)
			if err != nil {
				return nil, "", err
			}
			if m.proves(state) || !same && m.names(other, u) {
				return other, "", r.add(other, u, state)
			}
		}
	}
	if same {
		if u = m.reaching(end); u == nil {
			return found, "", nil
		}
		if u != &m.runs[0] {
			if same, err = r.overlaps(ctx, found, u); err != nil {
				return nil, "", err
			}
		}
	}
	if !same {
		m.differ = u
		return found, "they are other events than the segments hold", nil
	}
	state, err := follow(found, u)
	if err != nil {
		return nil, "", err
	}
	if !m.proves(state) && !m.names(found, u) && !(u.first < end && m.says(found.birth.uid)) {
		return found, "nothing tells that they follow these segments", nil
	}
	return found, "", r.add(found, u, state)
}

// others are the histories, other than the one that the segments alone tell, that
// end where the tail begins. Segments that hold other events than a whole log in a
// tail may be those of a create that lost.
func (r *rebuilder) others(s *salvage, found *salvaged, u *run, same bool) (all []*salvaged) {
	m := r.remains
	if born, ok := m.born(r.id); ok && !same && m.UID != found.birth.uid {
		return []*salvaged{born}
	}
	if s.best == nil || u.next() < found.birth.origin.Inherited || u.first == 0 && !m.says(found.birth.uid) {
		return nil
	}
	for _, n := range s.best.nodes[u.first] {
		all = append(all, s.best.result(n))
	}
	return all
}

// follow is the state of a log after the events of a run that it does not have.
func follow(found *salvaged, u *run) (segment.State, error) {
	fold, err := manifest.NewFold(found.content.Clone(), manifest.RuleUserPrompt)
	if err != nil {
		return segment.State{}, err
	}
	for _, line := range u.behind(found) {
		ev, err := segment.ParseEvent(line, segment.Limits{MaxEvent: segment.MaxFrameRaw})
		if err != nil {
			return segment.State{}, err
		}
		fold.Add(ev)
	}
	return fold.State(), nil
}

// behind are the events of a run that a history does not have.
func (u *run) behind(found *salvaged) [][]byte { return u.lines[found.content.Tree.Size-u.first:] }

// add lets the events of a run follow a history, to that state.
func (r *rebuilder) add(found *salvaged, u *run, state segment.State) (err error) {
	var raw []byte
	for _, line := range u.behind(found) {
		raw = append(append(raw, line...), '\n')
	}
	if found.tail, err = segment.NewCodec().EncodeFrames(nil, raw, segment.LevelBetter, segment.FrameRaw); err != nil {
		return err
	}
	r.rep.Salvaged = state.Tree.Size - found.content.Tree.Size
	found.content = state
	return nil
}

// proves reports whether the manifest knows the tree of all that led to a state.
func (m *remains) proves(state segment.State) bool { return m.says(state.Tree.Root.String()) }

// names reports whether the manifest names the segment that the first run of its
// tail follows, of the log that it is of.
func (m *remains) names(found *salvaged, u *run) bool {
	if u.first != found.content.Tree.Size || !m.says(found.birth.uid) {
		return false
	}
	return u.first == 0 || slices.ContainsFunc(found.ends, func(n manifest.Name) bool { return m.says(n.String()) })
}

func (m *remains) says(text string) bool { return bytes.Contains(m.body, []byte(text)) }

// overlaps reports whether the segments hold what a run holds, as far as both
// reach.
func (r *rebuilder) overlaps(ctx context.Context, found *salvaged, u *run) (same bool, err error) {
	end := found.content.Tree.Size
	same = true
	rec := &manifest.Record{Log: r.id, Next: end, Segments: found.segments}
	_, _, err = r.b.walk(ctx, rec, u.first, min(end, u.next()), func(e Event, _ error) bool {
		same = bytes.Equal(e.Line, u.lines[e.Seq-u.first])
		return same
	})
	return same, err
}

// leave notes which intact events of the damaged manifest's tail do not get into
// the log, which ends at next, and puts them into words.
func (r *rebuilder) leave(next int64) (spans []string) {
	if r.remains == nil {
		return nil
	}
	for i := range r.remains.runs {
		if u := &r.remains.runs[i]; u.next() > next || u == r.remains.differ {
			r.rep.LeftOut = append(r.rep.LeftOut, u.lines...)
			spans = append(spans, u.span())
		}
	}
	return spans
}

// describeTail says what the damaged manifest has lost.
func (r *rebuilder) describeTail(next int64, whyNot string, lost func(string, ...any)) {
	spans := strings.Join(r.leave(next), " and ")
	switch {
	case whyNot != "":
		lost("%s, intact in the tail of the damaged manifest, as %s: have them saved, and keep a copy of that object", spans, whyNot)
	case spans != "":
		lost("%s, intact in the tail of the damaged manifest, as events from seq %d on are missing or damaged before them: have them saved, and keep a copy of that object", spans, next)
	case r.remains == nil:
		lost("whatever was in the manifest itself: the newest events, after seq %d", next-1)
	case r.remains.whole && len(r.remains.runs) > 0, r.remains.says(r.rep.Root.String()):
		// The log ends here.
	case r.rep.Salvaged > 0:
		lost("what is behind seq %d in the damaged manifest, which is replaced: keep a copy of it", next-1)
	default:
		lost("the newest events, after seq %d, as far as the damaged manifest holds them, which is replaced: keep a copy of it", next-1)
	}
}
