package backend

import (
	"bytes"
	"context"
	"fmt"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// remains is what can still be read of the damaged manifest that a rebuild
// replaces.
type remains struct {
	manifest.Remains
	body  []byte
	lines [][]byte // the events of its tail, as far as they are intact
	first int64    // seq of the first of them
	whole bool     // that is all of its tail
}

// remainsOf looks what is left of a manifest. Whatever of the tail is not a run of
// events with checksums and seqs that fit is not taken for any.
func remainsOf(body []byte) *remains {
	m := &remains{Remains: manifest.Salvage(body), body: body}
	raw, all := segment.NewCodec().IntactFrames(m.Tail, maxTailRaw)
	m.whole = all && m.Whole
	for line := range segment.Lines(raw) { // whole lines: they were looked for
		ev, err := segment.ParseEvent(line, segment.Limits{MaxEvent: segment.MaxFrameRaw})
		if err != nil || len(m.lines) > 0 && ev.Seq != m.first+int64(len(m.lines)) {
			m.whole = false
			break
		}
		if len(m.lines) == 0 {
			m.first = ev.Seq
		}
		m.lines = append(m.lines, line)
	}
	return m
}

// next is the seq after the last event.
func (m *remains) next() int64 { return m.first + int64(len(m.lines)) }

// born is the log as the damaged manifest has it, without an event: where there
// are no segments, all else is in it.
func (m *remains) born(id string) (*salvaged, bool) {
	if m == nil || len(m.lines) == 0 || m.first != 0 || m.UID == "" || m.Origin == nil || m.next() < m.Origin.Inherited {
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
// where it is sure that they do. It returns why they do not, if there are any.
func (r *rebuilder) takeTail(ctx context.Context, found *salvaged) (whyNot string, err error) {
	m, end := r.remains, found.content.Tree.Size
	if m == nil || len(m.lines) == 0 || m.next() <= end {
		return "", nil
	}
	span := fmt.Sprintf("the tail of the damaged manifest, seqs %d to %d", m.first, m.next()-1)
	if m.first > end {
		return fmt.Sprintf("%s, as seqs %d to %d are missing before it", span, end, m.first-1), nil
	}
	same, err := r.overlaps(ctx, found)
	if err != nil {
		return "", err
	}
	if !same {
		return span + ", which holds other events than the segments do", nil
	}
	fold, err := manifest.NewFold(found.content, manifest.RuleUserPrompt)
	if err != nil {
		return "", err
	}
	var raw []byte
	for _, line := range m.lines[end-m.first:] {
		ev, err := segment.ParseEvent(line, segment.Limits{MaxEvent: segment.MaxFrameRaw})
		if err != nil {
			return "", err
		}
		fold.Add(ev)
		raw = append(append(raw, line...), '\n')
	}
	state := fold.State()
	// The manifest names the segment before its tail, and knows the tree of all.
	names := m.first == end && end > 0 && m.says(found.segments[len(found.segments)-1].Name.String())
	if !m.says(state.Tree.Root.String()) && !(m.says(found.birth.uid) && (end == 0 || m.first < end || names)) {
		return span + ", as nothing tells that it follows these segments", nil
	}
	if found.tail, err = segment.NewCodec().EncodeFrames(nil, raw, segment.LevelBetter, segment.FrameRaw); err != nil {
		return "", err
	}
	found.content = state
	r.rep.Salvaged = m.next() - end
	return "", nil
}

func (m *remains) says(text string) bool { return bytes.Contains(m.body, []byte(text)) }

// overlaps reports whether the segments hold what the tail holds, where they reach
// into it.
func (r *rebuilder) overlaps(ctx context.Context, found *salvaged) (same bool, err error) {
	m, end := r.remains, found.content.Tree.Size
	same = true
	rec := &manifest.Record{Log: r.id, Next: end, Segments: found.segments}
	_, _, err = r.b.walk(ctx, rec, m.first, end, func(e Event, _ error) bool {
		same = bytes.Equal(e.Line, m.lines[e.Seq-m.first])
		return same
	})
	return same, err
}

// describeTail says what the damaged manifest has lost.
func (r *rebuilder) describeTail(next int64, whyNot string, lost func(string, ...any)) {
	switch {
	case whyNot != "":
		lost("%s: keep a copy of that object", whyNot)
	case r.remains == nil:
		lost("whatever was in the manifest itself: the newest events, after seq %d", next-1)
	case r.remains.whole && r.remains.next() == next, r.remains.says(r.rep.Root.String()):
		// The log ends here.
	case r.rep.Salvaged > 0:
		lost("what is behind seq %d in the damaged manifest, which is replaced: keep a copy of it", next-1)
	default:
		lost("the newest events, after seq %d, as far as the damaged manifest holds them, which is replaced: keep a copy of it", next-1)
	}
}
