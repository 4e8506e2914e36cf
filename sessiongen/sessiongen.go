// Package sessiongen makes agent sessions of any size that look like real ones:
// the header line and the event lines of a harness, turn by turn, with streamed
// deltas, tool calls, retries, approvals and compactions. Equal options give
// equal bytes, and memory does not grow with the session. Tests and benchmarks
// use it; it is neither a model of what agents do nor a source of valid user
// data, and nothing outside of them should depend on its output.
package sessiongen

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"
)

// Profile is what a session is made of.
type Profile string

const (
	// Stream is a session of a harness that logs what the model streams: four
	// of five events are deltas of about 150 bytes, the mean is about 200.
	Stream Profile = "stream"
	// Agent is a session of a harness that logs whole messages: the median
	// event has about 1 KB, and one of a hundred has 50 KB to 200 KB.
	Agent Profile = "agent"
)

// Open says what a session leaves open at its end, as if its writer had been
// killed. Values can be combined.
type Open uint8

const (
	// OpenTurn ends the session inside a turn and, if there is room, a step.
	OpenTurn Open = 1 << iota
	// OpenCall ends it behind a recorded tool call without a result, so inside
	// a turn, too.
	OpenCall
	// OpenCompaction begins a compaction with the last event: inside the open
	// turn if there is one, else between turns.
	OpenCompaction
)

// Options describe a session. The zero value is one turn of the Stream profile.
type Options struct {
	Seed uint64
	// Events is the exact number of events. If it is 0, Turns decides. Sessions
	// of fewer than 6 events leave open only what they have room for.
	Events int64
	// Turns is the number of turns if Events is 0; 0 means 1.
	Turns int
	// Start is the time of the header, in ms since the Unix epoch; 0 means
	// DefaultStart.
	Start int64
	// MeanDelta is the mean time between two streamed deltas; 0 means 7 ms.
	MeanDelta time.Duration
	Profile   Profile // "" means Stream
	OpenAtEnd Open
	// ID is the session's id in the header; "" means one derived from Seed.
	ID string
}

// DefaultStart is when sessions start unless options say otherwise, in ms since
// the Unix epoch: 2026-01-05 09:00 UTC.
const DefaultStart = 1_767_603_600_000

// Generator makes one session. It is not safe for concurrent use.
type Generator struct {
	opt   Options
	rng   *rand.Rand
	words *prose
	id    string

	unit  []byte // the lines made last, without line ends
	ends  []int  // where each of them ends
	given int    // how many of them Next has given
	done  bool   // nothing comes after them

	seq       int64 // of the next event
	now       int64 // ms
	turn      int64 // the open one, or the one before
	step      int64
	stepsLeft int  // of the open turn; 0 if none is open
	foreign   bool // the open turn is not in English

	surface []int64 // seqs of the messages that a compaction would replace
	limit   int     // how many of them bring one about

	system  []byte // the system prompt, as JSON string content
	content []byte // the blocks of the message being made, as JSON
	prompt  []byte // the user's message of the open turn, as JSON
	// Of the message being made, by call.
	callIDs   [maxCalls][]byte
	callNames [maxCalls]string
	callArgs  [maxCalls][]byte // as JSON string content

	compactionID []byte // of the last one
}

// New returns a generator.
func New(opt Options) *Generator {
	if opt.Start == 0 {
		opt.Start = DefaultStart
	}
	if opt.MeanDelta <= 0 {
		opt.MeanDelta = 7 * time.Millisecond
	}
	if opt.Profile == "" {
		opt.Profile = Stream
	}
	if opt.Turns <= 0 {
		opt.Turns = 1
	}
	rng := rand.New(rand.NewPCG(opt.Seed, 0x5e551096e4))
	g := &Generator{opt: opt, rng: rng, words: newProse(rng), id: opt.ID, now: opt.Start}
	if g.id == "" {
		g.id = string(g.appendUUID(nil))
	}
	g.limit = g.between(120, 400)
	g.system = g.words.text(nil, 1500)
	return g
}

// Header is the session's header line, without a line end.
func (g *Generator) Header() []byte {
	h := []byte(`{"type":"session","version":0,"id":`)
	h = appendString(h, g.id)
	h = append(h, `,"createdAt":`...)
	h = strconv.AppendInt(h, g.opt.Start, 10)
	return append(h, `,"cwd":"/home/dev/workspace","delegationDepth":0}`...)
}

// Next is the next event line, without a line end and valid until the next
// call. It reports false after the last one.
func (g *Generator) Next() (line []byte, ok bool) {
	for g.given == len(g.ends) {
		if g.done {
			return nil, false
		}
		g.unit, g.ends, g.given = g.unit[:0], g.ends[:0], 0
		g.advance()
	}
	start := 0
	if g.given > 0 {
		start = g.ends[g.given-1]
	}
	end := g.ends[g.given]
	g.given++
	return g.unit[start:end:end], true
}

// advance makes the next unit: a step with what belongs to it, or what happens
// between turns.
func (g *Generator) advance() {
	const reserve = 24 // more events than any ending needs
	if g.opt.Events > 0 {
		left := g.opt.Events - g.seq
		if left > reserve {
			if u := g.plan(); u.events() <= left-reserve {
				g.write(&u)
				return
			}
		}
		g.finish(left)
		return
	}
	turns := int64(g.opt.Turns)
	openTurn := g.opt.OpenAtEnd&(OpenTurn|OpenCall) != 0
	switch {
	case g.stepsLeft == 0 && openTurn && g.turn == turns-1:
		g.finish(int64(g.between(30, 90)))
	case g.stepsLeft == 0 && g.turn == turns && g.opt.OpenAtEnd == OpenCompaction:
		g.finish(1)
	case g.stepsLeft == 0 && g.turn == turns:
		g.done = true
	default:
		u := g.plan()
		g.write(&u)
	}
}

// finish makes the last n events, which may be any number.
func (g *Generator) finish(n int64) {
	g.done = true
	open := g.opt.OpenAtEnd
	compaction := open&OpenCompaction != 0 && n > 0
	if compaction {
		n--
	}
	inTurn := open&(OpenTurn|OpenCall) != 0 && (n > 0 || g.stepsLeft > 0)
	switch {
	case open&OpenCall != 0:
		g.finishInCall(n)
	case open&OpenTurn != 0:
		g.finishInTurn(n)
	default:
		g.finishBalanced(n)
	}
	if compaction {
		g.compactionStart(inTurn)
	}
}

// finishBalanced fills up with one more step, made as long as is needed.
func (g *Generator) finishBalanced(n int64) {
	p := g.plainStep()
	p.last = true
	if p.stretch(n) {
		g.writeStep(&p)
		return
	}
	if g.stepsLeft > 0 && n > 0 {
		g.turnEnd("completed")
		n--
	}
	for range n {
		g.todoWrite()
	}
}

// finishInTurn begins a step that is longer than there is room for: by the rest
// of a stream, else by the step's end.
func (g *Generator) finishInTurn(n int64) {
	p := g.plainStep()
	p.bare = n < 16
	if p.streamed {
		p.stretch(n + 64)
	} else if !p.stretch(n + 1) {
		p.calls = 0
	}
	first := g.seq
	g.writeStep(&p)
	g.cut(first, n)
}

// finishInCall ends with a step's tool call.
func (g *Generator) finishInCall(n int64) {
	p := g.plainStep()
	p.unanswered = true
	p.text, p.calls = 0, 1
	p.call[0] = callPlan{deltas: 1}
	if p.stretch(n) {
		g.writeStep(&p)
		return
	}
	p.bare, p.streamed = true, false
	for ; n > p.events(); n-- {
		g.todoWrite()
	}
	first := g.seq
	g.writeStep(&p)
	g.cut(first, n)
}

// cut keeps n of the events written since first was the next seq.
func (g *Generator) cut(first, n int64) {
	if beyond := g.seq - first - n; beyond > 0 {
		g.ends = g.ends[:len(g.ends)-int(beyond)]
		g.seq -= beyond
		g.unit = g.unit[:0]
		if n := len(g.ends); n > 0 {
			g.unit = g.unit[:g.ends[n-1]]
		}
	}
}

// between is a number from low to high, each as likely.
func (g *Generator) between(low, high int) int { return low + g.rng.IntN(high-low+1) }

// chance reports true in percent of a hundred cases.
func (g *Generator) chance(percent float64) bool { return g.rng.Float64()*100 < percent }

// lognormal is a number around median, of which two of three are within a
// factor of e^sigma; it is from 1 to most.
func (g *Generator) lognormal(median, sigma float64, most int) int {
	return max(1, int(min(median*math.Exp(g.rng.NormFloat64()*sigma), float64(most))))
}
