package report

import (
	"fmt"
	"slices"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// blockKind is what a block of the timeline is.
type blockKind string

const (
	blockTurn     blockKind = "turn"
	blockOutside  blockKind = "outside"  // events in no turn
	blockBoundary blockKind = "boundary" // a session/end-seed in no turn
	blockOwner    blockKind = "owner"    // another writer begins: no event
	blockGap      blockKind = "gap"      // events that cannot be read
	blockRest     blockKind = "rest"     // behind the limit of blocks
	blockClosers  blockKind = "closers"  // what a resume would add: no event of the log
)

// block is a part of the timeline.
type block struct {
	Kind        blockKind
	First, Last int64 // seqs; Last is First-1 where there is no event
	Turn        int64
	Start, End  int64 // times, ms
	Events      int64
	Bytes       int64
	Deltas      int64 // streamed output among the events
	Steps       int
	Calls       int
	Errors      int // of tools, and of the turn itself
	Synthetic   int // events that a resume added
	Inherited   bool
	Usage       usage
	Status      string // of a turn: how it ended
	Class       string // what that means: good, warn, bad, or open
	Note        string
	Prompt      string // what a person asked first, else the first message
	asked       bool   // by a person
	Items       []*item
	Left        int              // items that are left out
	types       map[string]int64 // of a block that is no turn
}

// usage is what models were paid for, in tokens.
type usage struct {
	In, Out, CacheRead, CacheWrite, Reasoning int64
}

func (u *usage) add(v usage) {
	u.In += v.In
	u.Out += v.Out
	u.CacheRead += v.CacheRead
	u.CacheWrite += v.CacheWrite
	u.Reasoning += v.Reasoning
}

// Total is all that went in and out. Reasoning is a part of what came out, and
// what the cache held may be apart from what went in.
func (u usage) Total() int64 { return u.In + u.Out + u.CacheRead + u.CacheWrite }

// typeStat is what there is of one event type.
type typeStat struct {
	Type        string
	Count       int64
	Bytes       int64
	First, Last int64
}

// maxTypeStats bounds how many types are counted apart; "" counts all others.
const maxTypeStats = 1000

// outsideEvents is how many events between turns are one block, restEvents how
// many behind the limit of blocks.
const (
	outsideEvents = 1000
	restEvents    = 10_000
)

// timeline takes the events of a log in order.
type timeline struct {
	info   *backend.Info
	limits Limits
	rows   *rows
	blocks []*block
	cur    *block // the one that takes events; nil: the next event begins one
	items  int

	takeovers []manifest.Takeover // that are still to come
	closing   bool                // a resume has begun, and its closers come first
	repaired  bool                // the event before was a synthetic result
	step      *item               // the open step
	turns     seedpath.Turns
	pairs     []*pairing
	bounds    []segment.Boundary
	types     map[string]*typeStat
	bytes     int64
	unread    int64
	damage    error // the first that was met in reading; nil if all is as it was written
	broken    bool  // events were missing, or none: what depends on all of them is not known
	usage     usage
	paid      bool // some event says what it cost
	models    []string
	title     string
}

func newTimeline(info *backend.Info, l Limits) *timeline {
	t := &timeline{info: info, limits: l, rows: newRows(l), takeovers: slices.Clone(info.History), types: make(map[string]*typeStat)}
	t.pairs = newPairings()
	return t
}

// add takes the next event.
func (t *timeline) add(e backend.Event) {
	t.owners(e.Seq)
	ev, err := e.Parse()
	if err != nil {
		t.broken = true
		b := t.block(e.Seq, t.last())
		t.account(b, segment.Event{Line: e.Line, Seq: e.Seq, Time: t.last()})
		t.item(b, &item{Kind: itemEvent, Seq: e.Seq, Title: "not an event", Class: "bad", Text: cut(err.Error(), t.limits.Preview)})
		return
	}
	p := segment.Project(ev)
	t.turns.Add(ev)
	b := t.place(ev, p)
	t.account(b, ev)
	synthetic := t.synthetic(ev, p)
	if synthetic {
		b.Synthetic++
	}
	t.event(b, ev, p, synthetic)
	if p.Kind == segment.KindTurnEnd && b.Kind == blockTurn || b.Kind == blockBoundary {
		t.cur = nil
	}
}

// last is the time of the newest event.
func (t *timeline) last() int64 {
	if len(t.blocks) == 0 {
		return 0
	}
	return t.blocks[len(t.blocks)-1].End
}

// place finds the block of an event, or begins it.
func (t *timeline) place(ev segment.Event, p segment.Projection) *block {
	inTurn := t.cur != nil && t.cur.Kind == blockTurn
	switch {
	case p.Kind == segment.KindTurnStart:
		if inTurn {
			t.cur.Status, t.cur.Class = "not ended", "warn"
		}
		t.step = nil
		b := t.begin(blockTurn, ev.Seq, ev.Time)
		if b.Kind == blockTurn {
			b.Turn, b.Status, b.Class = p.Turn, "open", "open"
		}
		return b
	case p.Kind == segment.KindEndSeed && !inTurn:
		return t.begin(blockBoundary, ev.Seq, ev.Time)
	}
	return t.block(ev.Seq, ev.Time)
}

// block is the block that takes an event which begins none.
func (t *timeline) block(seq, time int64) *block {
	switch b := t.cur; {
	case b == nil, b.Kind == blockOutside && b.Events >= outsideEvents, b.Kind == blockRest && b.Events >= restEvents:
		return t.begin(blockOutside, seq, time)
	}
	return t.cur
}

// begin begins a block. Beyond the limit all of them are blocks of the rest.
func (t *timeline) begin(kind blockKind, seq, time int64) *block {
	if len(t.blocks) >= t.limits.Blocks && kind != blockGap {
		if kind != blockOutside && t.cur != nil && t.cur.Kind == blockRest && t.cur.Events < restEvents {
			return t.cur
		}
		kind = blockRest
	}
	b := &block{Kind: kind, First: seq, Last: seq - 1, Start: time, End: time, Inherited: seq < t.info.Origin.Inherited}
	if kind == blockOutside {
		b.types = make(map[string]int64)
	}
	t.blocks = append(t.blocks, b)
	t.cur = b
	return b
}

// account counts an event.
func (t *timeline) account(b *block, ev segment.Event) {
	t.rows.add(ev.Seq, ev.Time, ev.Type, ev.Line)
	n := int64(len(ev.Line))
	b.Last, b.End = ev.Seq, ev.Time
	b.Events++
	b.Bytes += n
	t.bytes += n
	if ev.Type == segment.TypeAssistantChunk {
		b.Deltas++
	}
	if b.types != nil {
		b.types[ev.Type]++
	}
	typ := ev.Type
	s := t.types[typ]
	if s == nil && len(t.types) >= maxTypeStats {
		typ = ""
		s = t.types[typ]
	}
	if s == nil {
		s = &typeStat{Type: typ, First: ev.Seq}
		t.types[typ] = s
	}
	s.Count++
	s.Bytes += n
	s.Last = ev.Seq
}

// owners shows the takeovers that come before an event.
func (t *timeline) owners(seq int64) {
	for len(t.takeovers) > 0 && t.takeovers[0].First <= seq {
		o := t.takeovers[0]
		t.takeovers = t.takeovers[1:]
		t.closing = o.Kind == manifest.KindResume
		note := fmt.Sprintf("generation %d: %s by writer %s, %s", o.Generation, o.Kind, o.Writer, timeText(o.At))
		if t.cur != nil && t.cur.Kind == blockTurn {
			t.item(t.cur, &item{Kind: itemOwner, Seq: -1, At: t.cur.End - t.cur.Start, Title: note})
			continue
		}
		if len(t.blocks) < t.limits.Blocks {
			t.begin(blockOwner, o.First, t.last()).Note = note
			t.cur = nil
		}
	}
}

// synthetic reports whether a resume added an event to end an interrupted turn.
// Where the manifest still has the takeover, its place tells; else what such
// events say of themselves, which the end of a step does not by itself.
func (t *timeline) synthetic(ev segment.Event, p segment.Projection) bool {
	before := t.repaired
	t.repaired = false
	switch p.Kind {
	case segment.KindToolResult:
		t.repaired = t.closing || isRepair(ev.Data)
		return t.repaired
	case segment.KindStepEnd:
		return t.closing || before
	case segment.KindTurnEnd:
		return t.closing || membersOf(ev.Data).in("reason").text("kind") == "interrupted"
	}
	t.closing = false
	return false
}

// gap notes that the events from first up to but not including next cannot be
// read. Nothing is known of turns then until the next one begins. Without such
// events, those of an object follow that is not the one that the manifest means.
func (t *timeline) gap(first, next int64, why error) {
	if t.damage == nil {
		t.damage = why
	}
	if first == next {
		t.broken = true
		return
	}
	t.owners(first)
	t.unread += next - first
	t.broken, t.closing, t.repaired, t.step = true, false, false, nil
	if t.cur != nil && t.cur.Kind == blockTurn {
		t.cur.Status, t.cur.Class = "end not readable", "bad"
	}
	b := t.begin(blockGap, first, t.last())
	b.Last, b.Note = next-1, why.Error()
	t.turns = seedpath.Turns{}
	t.cur = nil
}

// end is called behind the last event.
func (t *timeline) end() {
	t.owners(t.info.Next)
	t.rows.flush()
	t.closers()
	t.unmatched()
}

// closers shows what a resume would add now.
func (t *timeline) closers() {
	open := t.info.Content.Turn
	if open == nil || t.info.Content.LastTime == nil {
		return
	}
	if open.More {
		if open = t.turns.Open(); open == nil || t.broken {
			return
		}
	}
	list, err := seedpath.Closers(open, t.info.Next, *t.info.Content.LastTime)
	if err != nil {
		return // too many calls to name them; the turn is shown as open all the same
	}
	b := &block{Kind: blockClosers, First: t.info.Next, Last: t.info.Next - 1, Turn: open.Turn, Start: t.last(), End: t.last()}
	for _, c := range list {
		p := segment.Project(c)
		i := &item{Kind: itemCloser, Seq: -1, Title: c.Type}
		switch p.Kind {
		case segment.KindToolResult:
			m := membersOf(c.Data)
			i.Text = cut(m.in("error").text("code")+" for call "+p.CallID, t.limits.Preview)
		case segment.KindStepEnd:
			i.Text.Text = fmt.Sprintf("step %d", p.Step)
		case segment.KindTurnEnd:
			i.Text.Text = fmt.Sprintf("turn %d, interrupted", p.Turn)
		}
		t.item(b, i)
	}
	t.blocks = append(t.blocks, b)
}
