package sessiongen

// maxCalls is the greatest number of tool calls of one message.
const maxCalls = 4

// unit is what is made in one go: a step of a turn, or what happens between
// turns. It is planned first, so that its events can be counted before any is
// made.
type unit struct {
	kind unitKind
	step stepPlan
}

type unitKind uint8

const (
	unitStep       unitKind = iota
	unitCompaction          // between turns: start, summary, replacing message, end
	unitCommand             // between turns: run, done
)

func (u *unit) events() int64 {
	switch u.kind {
	case unitCompaction:
		return 4
	case unitCommand:
		return 2
	}
	return u.step.events()
}

// stepPlan is one step: a request to the model, its answer, and the tool calls
// that the answer asks for.
type stepPlan struct {
	first    bool // it opens the turn, with the user's message
	steps    int  // of the turn that it opens
	bare     bool // without the events around the user's message
	streamed bool // the answer's deltas are events
	snapshot bool // context for the model before the request
	title    bool // a title for the session
	header   bool // the request's configuration, because it is new
	context  bool // the request's route
	retry    bool // the first attempt failed

	reasoning int // deltas (if not streamed, whether there is such a block)
	text      int // the same
	calls     int
	call      [maxCalls]callPlan

	unanswered bool // it ends behind the last tool call
	last       bool // the turn's end follows
}

// callPlan is one tool call.
type callPlan struct {
	deltas   int  // of its arguments
	progress int  // events between the call and its result
	approval bool // somebody is asked
	hook     bool // a hook runs
	todo     bool // it changes the list of things to do
}

// events is how many events the step will have.
func (p *stepPlan) events() int64 {
	n := 2 // step/start, assistant/message
	if p.first {
		n += 2 // turn/start, user/message
		if !p.bare {
			n += 2 // the message enters and leaves the inbox
		}
	}
	for _, one := range []bool{p.snapshot, p.title, p.header, p.context} {
		n += count(one, 1)
	}
	n += count(p.retry, 2)
	if p.streamed {
		n += 2 // usage, finish
		n += count(p.reasoning > 0, 2+p.reasoning)
		n += count(p.text > 0, 2+p.text)
	}
	for i, c := range p.call[:p.calls] {
		n += 1 + c.progress // tool/call
		n += count(p.streamed, 2+c.deltas)
		if p.unanswered && i == p.calls-1 {
			return int64(n)
		}
		n += 1 + count(c.approval, 2) + count(c.hook, 2) + count(c.todo, 1)
	}
	n++ // step/end
	return int64(n + count(p.last, 1))
}

func count(present bool, n int) int {
	if present {
		return n
	}
	return 0
}

// stretch makes the step n events long; it reports false if that cannot be.
func (p *stepPlan) stretch(n int64) bool {
	if !p.streamed && p.calls == 0 {
		p.calls = 1
	}
	elastic, least := &p.text, 1
	switch {
	case !p.streamed:
		elastic, least = &p.call[p.calls-1].progress, 0
	case p.text == 0:
		elastic = &p.call[p.calls-1].deltas
	}
	size := *elastic + int(n-p.events())
	if size < least {
		return false
	}
	*elastic = size
	return true
}

// plainStep is a short step of the open turn, or of a new one.
func (g *Generator) plainStep() stepPlan {
	return stepPlan{first: g.stepsLeft == 0, streamed: g.opt.Profile == Stream, text: 1}
}

// plan decides what comes next.
func (g *Generator) plan() unit {
	if g.stepsLeft == 0 {
		if len(g.surface) > g.limit {
			g.limit = g.between(120, 400)
			return unit{kind: unitCompaction}
		}
		if g.turn > 0 && g.chance(1.5) {
			return unit{kind: unitCommand}
		}
	}
	p := stepPlan{first: g.stepsLeft == 0, streamed: g.opt.Profile == Stream}
	if p.first {
		p.steps = min(1+int(g.rng.ExpFloat64()*3.6), 30)
		fresh := g.turn == 0
		p.title = fresh
		p.header = fresh || g.chance(1.5)
		p.context = fresh || g.chance(60)
		p.snapshot = fresh || g.chance(8)
	}
	p.last = max(g.stepsLeft, p.steps) == 1
	p.retry = g.chance(0.7)
	if p.streamed {
		g.planStreamed(&p)
	} else {
		g.planWhole(&p)
	}
	return unit{step: p}
}

const maxDeltas = 2000 // of one block

func (g *Generator) planStreamed(p *stepPlan) {
	if g.chance(80) {
		p.reasoning = g.lognormal(8, 1, maxDeltas)
	}
	if p.last {
		p.text = g.lognormal(15, 0.9, maxDeltas)
		return
	}
	if g.chance(25) {
		p.text = g.lognormal(6, 0.8, maxDeltas)
	}
	p.calls = g.callCount(78, 15, 5)
	for i := range p.call[:p.calls] {
		p.call[i] = callPlan{
			deltas:   3 + g.lognormal(1.6, 0.9, maxDeltas),
			approval: g.chance(3),
			hook:     g.chance(3),
			todo:     g.chance(4),
		}
	}
}

func (g *Generator) planWhole(p *stepPlan) {
	p.reasoning = count(g.chance(40), 1)
	p.text = count(p.last || g.chance(60), 1)
	if p.last {
		return
	}
	p.calls = g.callCount(45, 25, 20)
	for i := range p.call[:p.calls] {
		p.call[i] = callPlan{
			progress: int(g.rng.ExpFloat64() * 2.2),
			approval: g.chance(1),
			hook:     g.chance(1),
			todo:     g.chance(3),
		}
	}
}

// callCount is 1, 2 or 3 in so many percent of the cases, else maxCalls.
func (g *Generator) callCount(one, two, three float64) int {
	switch r := g.rng.Float64() * 100; {
	case r < one:
		return 1
	case r < one+two:
		return 2
	case r < one+two+three:
		return 3
	}
	return maxCalls
}

// write makes the events of a unit.
func (g *Generator) write(u *unit) {
	switch u.kind {
	case unitCompaction:
		g.compaction()
	case unitCommand:
		g.command()
	default:
		g.writeStep(&u.step)
	}
}
