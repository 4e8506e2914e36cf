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
	if begin == nil || m.UID == "" || m.Origin == nil || begin.next() < m.Origin.Inherited {
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
// where it is sure that they do. It returns why they do not, if some would.
func (r *rebuilder) takeTail(ctx context.Context, found *salvaged) (whyNot string, err error) {
	m, end := r.remains, found.content.Tree.Size
	u := m.reaching(end)
	if u == nil {
		return "", nil
	}
	same, err := r.overlaps(ctx, found, u)
	if err != nil {
		return "", err
	}
	if !same {
		return "they are other events than the segments hold", nil
	}
	fold, err := manifest.NewFold(found.content, manifest.RuleUserPrompt)
	if err != nil {
		return "", err
	}
	var raw []byte
	for _, line := range u.lines[end-u.first:] {
		ev, err := segment.ParseEvent(line, segment.Limits{MaxEvent: segment.MaxFrameRaw})
		if err != nil {
			return "", err
		}
		fold.Add(ev)
		raw = append(append(raw, line...), '\n')
	}
	state := fold.State()
	// The manifest names the segment before its tail, and knows the tree of all.
	names := u.first == end && end > 0 && m.says(found.segments[len(found.segments)-1].Name.String())
	if !m.says(state.Tree.Root.String()) && !(m.says(found.birth.uid) && (end == 0 || u.first < end || names)) {
		return "nothing tells that they follow these segments", nil
	}
	if found.tail, err = segment.NewCodec().EncodeFrames(nil, raw, segment.LevelBetter, segment.FrameRaw); err != nil {
		return "", err
	}
	found.content = state
	r.rep.Salvaged = u.next() - end
	return "", nil
}

func (m *remains) says(text string) bool { return bytes.Contains(m.body, []byte(text)) }

// overlaps reports whether the segments hold what a run holds, where they reach
// into it.
func (r *rebuilder) overlaps(ctx context.Context, found *salvaged, u *run) (same bool, err error) {
	end := found.content.Tree.Size
	same = true
	rec := &manifest.Record{Log: r.id, Next: end, Segments: found.segments}
	_, _, err = r.b.walk(ctx, rec, u.first, end, func(e Event, _ error) bool {
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
	for _, u := range r.remains.runs {
		if u.next() > next {
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
