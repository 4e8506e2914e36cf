package simulation

import (
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// plan is one schedule, as far as a seed says it beforehand: who takes part, and
// what the network is like. What happens to a request is drawn when it is sent,
// and what a process does next when it gets there, each from a stream of its own
// that depends on the seed and on its name alone. So a process or a fault can be
// left out, and the others still draw what they drew.
type plan struct {
	seed   uint64
	rates  map[fault]int // per mille of the requests that it may strike
	leg    time.Duration // a usual way of a request to the store, or back
	freeze time.Duration // the longest that a process stands still
	late   time.Duration // the longest that a request is on its way

	contentVersions, wholeSeconds bool
	// jumps is how far the store's clock is set forwards or back at a time.
	jumps   time.Duration
	outages int
	grace   time.Duration // of those who collect
	past    []job         // what was appended before all begins, one segment each
	large   bool          // some events are so large that the tail must be sealed
	cast    []part
	without map[string]bool // names of processes and faults
	// sabotaged: the store does not honour conditions.
	sabotaged bool
}

// part is one process in the cast of a schedule.
type part struct {
	name string
	play func(*process)
	log  string
	jobs []job // what it has to append; several processes may have the same
	// endless: it goes on until the others have finished.
	endless bool
}

// stream is the random stream of one thing within a seed.
func stream(seed uint64, name ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintln(h, name...)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// oneOf is true once in n times.
func oneOf(rng *rand.Rand, n int) bool { return rng.IntN(n) == 0 }

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// newPlan draws the schedule of a seed. without are names of processes and of
// faults that are left out of it.
func newPlan(seed uint64, without ...string) *plan {
	rng := stream(seed, "plan")
	p := &plan{
		seed: seed, rates: map[fault]int{}, without: map[string]bool{},
		leg:             pick(rng, time.Millisecond, 10*time.Millisecond, 50*time.Millisecond),
		freeze:          pick(rng, time.Second, time.Minute, 7*time.Hour, 30*time.Hour),
		late:            pick(rng, time.Second, time.Minute, 3*time.Hour),
		contentVersions: oneOf(rng, 2), wholeSeconds: oneOf(rng, 2),
		grace: pick(rng, time.Millisecond, time.Second, 5*time.Minute, 0), large: oneOf(rng, 5),
	}
	for _, name := range without {
		p.without[name] = true
	}
	// Not all kinds of faults in every schedule: what happens often hides what
	// would follow from something rare.
	if !oneOf(rng, 12) {
		share := pick(rng, 2, 3, 6)
		for f := fault(1); f < faults; f++ {
			if oneOf(rng, share) {
				p.rates[f] = f.rate() * pick(rng, 1, 1, 2, 4)
			}
		}
	}
	if oneOf(rng, 6) {
		p.jumps = pick(rng, 3*time.Second, time.Hour, 40*time.Hour)
	}
	if oneOf(rng, 8) {
		p.outages = 1 + rng.IntN(3)
	}
	if !oneOf(rng, 3) {
		p.past = drawPast(rng)
	}
	p.cast = casting(rng, p)
	return p
}

// role is a kind of process, and how often it takes part.
type role struct {
	name    string
	weight  int
	play    func(*process)
	writes  bool // it has jobs
	endless bool
}

// casting draws who takes part: at least one process that writes, and one to
// six others.
func casting(rng *rand.Rand, p *plan) []part {
	count := map[string]int{}
	var cast []part
	add := func(r role, log string, jobs []job) {
		count[r.name]++
		cast = append(cast, part{name: fmt.Sprint(r.name, count[r.name]), play: r.play, log: log, jobs: jobs, endless: r.endless})
	}
	// Not all kinds of processes in every schedule, and some often.
	mix := slices.Clone(roles)
	if !oneOf(rng, 4) {
		for i := range mix {
			mix[i].weight *= pick(rng, 0, 0, 1, 4)
		}
		mix[0].weight++
	}
	n := 1 + rng.IntN(6)
	add(draw(rng, slices.DeleteFunc(slices.Clone(roles), func(r role) bool { return !r.writes })), mainLog, drawJobs(rng, p, "w"))
	for i := range n {
		r := draw(rng, mix)
		switch {
		case r.name == "retrier":
			// A second process that does what another one does.
			keyed := slices.DeleteFunc(slices.Clone(cast[0].jobs), func(j job) bool { return j.key == "" })
			add(r, cast[0].log, keyed)
		case r.writes:
			log := mainLog
			if oneOf(rng, 8) {
				log = childLog
			}
			add(r, log, drawJobs(rng, p, string(rune('a'+i))))
		default:
			add(r, mainLog, nil)
		}
	}
	return cast
}

func draw(rng *rand.Rand, from []role) role {
	sum := 0
	for _, r := range from {
		sum += r.weight
	}
	at := rng.IntN(sum)
	for _, r := range from {
		if at -= r.weight; at < 0 {
			return r
		}
	}
	panic("unreachable")
}

const (
	mainLog  = "log"
	childLog = "child"
)

// names are what a schedule can do without.
func (p *plan) names() (names []string) {
	for _, c := range p.cast {
		if !p.without[c.name] {
			names = append(names, c.name)
		}
	}
	return names
}

// String says what was drawn, for people.
func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %s", p.seed, strings.Join(p.names(), " "))
	fmt.Fprintf(&b, "; a leg %v, late up to %v, frozen up to %v", p.leg, p.late, p.freeze)
	for f := fault(1); f < faults; f++ {
		if n := p.rates[f]; n > 0 {
			fmt.Fprintf(&b, ", %s %d‰", f, n)
		}
	}
	for _, s := range []struct {
		on   bool
		what string
	}{
		{p.contentVersions, "versions are hashes"}, {p.wholeSeconds, "whole seconds"}, {p.jumps > 0, fmt.Sprint("clock jumps by ", p.jumps)},
		{p.outages > 0, fmt.Sprint(p.outages, " outages")}, {p.large, "large events"},
	} {
		if s.on {
			io.WriteString(&b, ", "+s.what)
		}
	}
	return b.String()
}

// job is one append that a process has to make: events with tags, the same at
// every try if there is a key, of a try of its own if there is none.
type job struct {
	kind string // what it appends, and how
	tag  string
	n    int // events
	pad  int // bytes that do not compress, in each
	key  string
	last bool // it releases the log
}

// kinds of jobs, with their weights.
var jobKinds = []role{
	{name: "note", weight: 8},
	{name: "next", weight: 2},    // with ExpectNext
	{name: "stale", weight: 1},   // with an ExpectNext that cannot hold
	{name: "bracket", weight: 2}, // opens a compaction if none is open, in one step with the look
	{name: "turn", weight: 2},    // begins a turn
	{name: "done", weight: 2},    // ends one
	{name: "prompt", weight: 1},  // by a person
	{name: "invalid", weight: 1}, // no event
	{name: "claim", weight: 1},   // Claim, then a note
	{name: "renew", weight: 1},   // Renew, then a note
}

// drawPast draws what a log holds already. Many small segments are what merges
// wait for.
func drawPast(rng *rand.Rand) (jobs []job) {
	for i := range pick(rng, 1, 2, 3, 4, 5, 7) {
		jobs = append(jobs, job{kind: pick(rng, "note", "turn", "done", "bracket"), tag: fmt.Sprint("past", i), n: 1})
	}
	return jobs
}

func drawJobs(rng *rand.Rand, p *plan, prefix string) (jobs []job) {
	keyed := oneOf(rng, 2)
	for i := range 1 + rng.IntN(5) {
		j := job{kind: draw(rng, jobKinds).name, tag: fmt.Sprint(prefix, i), n: 1, pad: pick(rng, 0, 0, 10, 100), last: oneOf(rng, 12)}
		if j.kind == "note" {
			j.n = pick(rng, 1, 1, 2, 3)
		}
		if p.large && oneOf(rng, 2) {
			j.pad = pick(rng, 9_000, 30_000, 50_000, 50_000, 110_000)
		}
		if keyed && oneOf(rng, 2) && (j.kind == "note" || j.kind == "turn") {
			j.key = "key " + j.tag
		}
		jobs = append(jobs, j)
	}
	return jobs
}
