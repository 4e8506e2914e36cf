package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
)

// run is a schedule being played, in a bubble of its own.
type run struct {
	plan    *plan
	service *service
	witness *witness
	book    *book
	mu      sync.Mutex // of witness and book
	ends    context.Context
	start   time.Time

	inFlight atomic.Int64 // requests
	requests atomic.Int64
	down     atomic.Bool // no connection
	calm     atomic.Bool // no more faults

	small  sync.Mutex // of what follows
	broken string
	counts map[string]int
	tracer *tracer // nil: nobody will look
	faults []string
	calls  []operation
}

// result is what a schedule came to.
type result struct {
	plan   *plan
	broken string // the first promise that was, if any
	counts map[string]int
	trace  []string
	faults []string // ids of those that struck
	calls  []operation
}

// play plays a schedule. With traced it keeps what happened, line by line.
func play(t *testing.T, p *plan, traced bool) (res result) {
	defer func() {
		if v := recover(); v != nil {
			panic(fmt.Sprintf("%s: %v", p, v)) // a deadlock is one, too
		}
	}()
	synctest.Test(t, func(*testing.T) {
		r := &run{plan: p, counts: map[string]int{}, start: time.Now()}
		if traced {
			r.tracer = &tracer{mask: tracestore.NewMasker()}
		}
		r.witness, r.book = newWitness(r), newBook(r)
		r.service = newService(r)
		r.playAll()
		res = result{plan: p, broken: r.broken, counts: r.counts, faults: r.faults, calls: r.calls}
		if r.tracer != nil {
			res.trace = r.tracer.lines
		}
	})
	if res.broken == "" {
		res.broken = linearize(res.calls)
	}
	return res
}

// playAll lets everybody play, waits for what is on its way, and looks at what
// became of it.
func (r *run) playAll() {
	ctx, cancel := context.WithCancel(context.Background())
	r.ends = ctx
	r.past()
	var finite, others sync.WaitGroup
	for i, part := range r.plan.cast {
		if r.plan.without[part.name] {
			continue
		}
		p := newProcess(r, i, part)
		wg := &finite
		if part.endless {
			wg = &others
		}
		wg.Go(func() {
			p.pause(20)
			part.play(p)
		})
	}
	others.Go(r.weather)
	finite.Wait()
	cancel()
	others.Wait()
	r.calm.Store(true)
	r.settle()
	r.inspect()
}

// settle waits until nothing happens any more.
func (r *run) settle() {
	for {
		n := r.requests.Load()
		time.Sleep(200 * time.Hour)
		if n == r.requests.Load() && r.inFlight.Load() == 0 {
			return
		}
	}
}

// weather sets the store's clock, and cuts connections for a while.
func (r *run) weather() {
	rng := stream(r.plan.seed, "weather")
	lane := int64(grain/tick - 1)
	sets, outages := 0, r.plan.outages
	if r.plan.jumps > 0 {
		sets = 1 + rng.IntN(6)
	}
	for r.ends.Err() == nil && sets+outages > 0 {
		until(lane, drawn(rng, 200*r.plan.leg))
		switch {
		case sets > 0 && oneOf(rng, 2):
			sets--
			d := drawn(rng, r.plan.jumps) * time.Duration(1-2*rng.IntN(2))
			r.service.jump(d)
			r.count("clock set", 1)
			r.say("store", "clock set by %v", d)
		case outages > 0:
			outages--
			r.say("store", "no connection")
			r.count("outage", 1)
			r.down.Store(true)
			until(lane, drawn(rng, 2*time.Minute))
			r.down.Store(false)
			r.say("store", "connected again")
		}
	}
}

// fail notes a broken promise; the first one counts.
func (r *run) fail(class, format string, args ...any) {
	r.say("!", "%s: %s", class, fmt.Sprintf(format, args...))
	r.small.Lock()
	defer r.small.Unlock()
	if r.broken == "" {
		r.broken = class + ": " + fmt.Sprintf(format, args...)
	}
}

// maxRequests is more than any schedule needs.
const maxRequests = 50_000

// flying does something that is not waited for, but before the end.
func (r *run) flying(do func()) {
	if n := r.requests.Add(1); n == maxRequests {
		r.fail("INTERNAL", "%d requests have been sent, and there is no end", n)
	}
	r.inFlight.Add(1)
	go func() {
		defer r.inFlight.Add(-1)
		do()
	}()
}

// draining reports whether requests are answered at once and right: everybody
// has finished, or does not come to an end.
func (r *run) draining() bool { return r.calm.Load() || r.requests.Load() > maxRequests }

func (r *run) count(what string, n int) {
	r.small.Lock()
	defer r.small.Unlock()
	r.counts[what] += n
}

// struck notes a fault by its id, so that it can be left out.
func (r *run) struck(f fate) {
	r.count("fault: "+f.fault.String(), 1)
	if r.tracer == nil || f.fault == none {
		return
	}
	r.small.Lock()
	defer r.small.Unlock()
	r.faults = append(r.faults, f.id)
}

// tracer keeps what happened, with names in the place of what is random.
type tracer struct {
	mask  *tracestore.Masker
	lines []string
}

// say adds a line to the trace.
func (r *run) say(who, format string, args ...any) {
	if r.tracer == nil {
		return
	}
	r.small.Lock()
	defer r.small.Unlock()
	text := r.tracer.mask.Mask(fmt.Sprintf(format, args...))
	if len(text) > 600 {
		text = text[:600] + "…"
	}
	r.tracer.lines = append(r.tracer.lines, fmt.Sprintf("%14.6f  %-10s %s", time.Since(r.start).Seconds(), who, text))
}

// traceCall adds a request to the trace.
func (r *run) traceCall(who string, c call, f fate, what string) {
	if r.tracer == nil {
		return
	}
	note := ""
	if c.note != nil {
		note = " " + c.note()
	}
	if f.fault != none {
		note += " {" + f.fault.String() + "}"
	}
	r.say(who, "%s %s%s -> %s", strings.ToUpper(c.op), c.key, note, what)
}

// version names a version in traces: that of a manifest by log and revision.
func (r *run) version(v objstore.Version) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name := r.witness.versions[v.Token()]; name != "" {
		return name
	}
	return "?"
}

// describe says what an object holds, in traces.
func describe(key string, body []byte) string {
	if !isManifest(key) {
		return fmt.Sprintf("%d bytes", len(body))
	}
	rec, err := manifest.Decode(body)
	if err != nil {
		return err.Error()
	}
	s := fmt.Sprintf("%s r%d e%d g%d next %d, %d segments", rec.State, rec.Revision, rec.Epoch, rec.Generation(), rec.Next, len(rec.Segments))
	if len(rec.Keys) > 0 {
		s += fmt.Sprintf(", %d keys", len(rec.Keys))
	}
	return s
}

// outcome names a store's reply.
func outcome(err error) string { return tracestore.Outcome(err) }

// total adds up what was counted in several schedules.
type total struct {
	mu     sync.Mutex
	counts map[string]int
	played int
}

func (t *total) add(res result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.played++
	for what, n := range res.counts {
		t.counts[what] += n
	}
}

// String is a table.
func (t *total) String() string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(t.counts)) {
		fmt.Fprintf(&b, "%10d  %s\n", t.counts[what], what)
	}
	return b.String()
}
