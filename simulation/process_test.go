package simulation

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// process is one program and what it has, or one of several callers in it.
type process struct {
	r      *run
	part   part
	name   string // of the caller
	gentle bool   // the handle that was opened last may not replace the holder of a lease
	rng    *rand.Rand
	lane   int64
	port   *port
	opt    backend.Options
	b      *backend.Backend
	aide   *port // another process, that settles what this one leaves open
	n      int   // tries
}

func newPort(r *run, name string, lane int64) *port {
	far := pick(stream(r.plan.seed, "far", name), 1, 1, 1, 1, 1, 20)
	return &port{r: r, name: name, lane: lane, far: time.Duration(far), sent: map[string]int{}, cut: -1}
}

// maxCast is how many processes there may be.
const maxCast = deadline / lanes / 2

func newProcess(r *run, i int, c part) *process {
	rng := stream(r.plan.seed, "process", c.name)
	lane := int64(i * lanes)
	p := &process{
		r: r, part: c, name: c.name, rng: rng, lane: lane,
		port: newPort(r, c.name, lane), aide: newPort(r, c.name+"'", lane+maxCast*lanes),
	}
	p.opt = backend.Options{
		Label: c.name, Foreground: oneOf(rng, 3), MinBackoff: 2, MaxBackoff: 2, // the way of a request has jitter enough
		CommitTimeout: lasting(pick(rng, 20*time.Second, time.Minute, time.Minute), 1),
		Prefetch:      pick(rng, 1, 4),
		PollInterval:  lasting(pick(rng, time.Second, time.Minute, time.Hour), 2),
	}
	if oneOf(rng, 5) {
		p.opt.Linger = lasting(drawn(rng, 20*r.plan.leg), 3)
	}
	if oneOf(rng, 5) {
		p.opt.Lease = pick(rng, 15*time.Second, 5*time.Minute)
	}
	p.b = backend.New(p.port, p.opt)
	return p
}

// with is one of several callers in the same process, in some round.
func (p *process) with(i, round int) *process {
	c := *p
	c.name = fmt.Sprintf("%s.%d", p.name, i)
	c.rng = stream(p.r.plan.seed, "process", c.name, round)
	c.lane = p.lane + 8*int64(i)
	c.n = 100 * round
	return &c
}

// pause does nothing for up to n legs of a request.
func (p *process) pause(n int) { until(p.lane, drawn(p.rng, time.Duration(n)*p.r.plan.leg)) }

// context is what a caller waits with: mostly as long as it takes. ends reports
// whether it may end before that.
func (p *process) context(n int) (ctx context.Context, cancel context.CancelFunc, ends bool) {
	if !oneOf(p.rng, n) || p.r.calm.Load() {
		ctx, cancel = context.WithCancel(context.Background())
		return ctx, cancel, false
	}
	ctx, cancel = context.WithTimeout(context.Background(), lasting(drawn(p.rng, 40*p.r.plan.leg), 4))
	return ctx, cancel, true
}

const (
	createdAt    = 946_684_800_000
	bracketOpen  = segment.TypeCompactionStart
	bracketClose = segment.TypeCompactionEnd
)

func header(id string) []byte {
	return fmt.Appendf(nil, `{"type":"session","version":0,"id":%q,"createdAt":%d,"delegationDepth":0}`, id, createdAt)
}

// noise does not compress.
var noise = func() string {
	rng := rand.New(rand.NewPCG(1, 1))
	b := make([]byte, 1<<18)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[rng.IntN(64)]
	}
	return string(b)
}()

// event is an event with a tag.
func event(typ, tag, more string, pad int) []byte {
	h := fnv.New32a()
	io.WriteString(h, tag)
	at := int(h.Sum32()) % (len(noise) / 2)
	return fmt.Appendf(nil, `{"type":%q,"data":{"tag":%q%s,"pad":%q}}`, typ, tag, more, noise[at:at+pad])
}

// handle is an open log, and what its users need to know of it.
type handle struct {
	p       *process
	l       *backend.Log
	strikes int          // faults of the process before it was opened
	calls   *int         // of appends
	ends    *atomic.Bool // a context of one of its calls may have ended
}

func (h *handle) mayEnd(ends bool) {
	if ends {
		h.ends.Store(true)
	}
}

// opening are the ways to begin writing.
type opening struct {
	name string
	open func(ctx context.Context, p *process) (*backend.Log, error)
}

var openings = []opening{
	{"create", func(_ context.Context, p *process) (*backend.Log, error) {
		return p.b.Create(p.part.log, backend.CreateOptions{Header: header(p.part.log)})
	}},
	{"create or adopt", createOrAdopt}, {"create or adopt", createOrAdopt},
	{"adopt", adopt},
	{"resume", resume(backend.ResumeOptions{})},
	{"resume later", resume(backend.ResumeOptions{Delay: true})},
	{"resume and claim", resume(backend.ResumeOptions{Claim: true})},
	{"resume and release", resume(backend.ResumeOptions{Release: true})},
}

func createOrAdopt(_ context.Context, p *process) (*backend.Log, error) {
	return p.b.Create(p.part.log, backend.CreateOptions{Header: header(p.part.log), OrAdopt: true, AdoptOptions: p.mayTake()})
}

func adopt(ctx context.Context, p *process) (*backend.Log, error) {
	return p.b.Adopt(ctx, p.part.log, p.mayTake())
}

func resume(opt backend.ResumeOptions) func(context.Context, *process) (*backend.Log, error) {
	return func(ctx context.Context, p *process) (*backend.Log, error) {
		opt := opt
		opt.AdoptOptions = p.mayTake()
		l, r, err := p.b.Resume(ctx, p.part.log, opt)
		if err == nil {
			p.r.book.resumed(p, r)
		}
		return l, err
	}
}

func (p *process) mayTake() backend.AdoptOptions {
	opt := backend.AdoptOptions{TakeOver: !oneOf(p.rng, 4) || p.r.calm.Load()}
	p.gentle = !opt.TakeOver
	if oneOf(p.rng, 6) {
		opt.Quiet = lasting(drawn(p.rng, time.Minute), 5)
	}
	return opt
}

// open opens a handle in some way; nil where that fails, or nothing is left open.
func (p *process) open(how opening) *handle {
	strikes := p.port.struck()
	ctx, cancel, ends := p.context(12)
	defer cancel()
	took := time.Now()
	l, err := how.open(ctx, p)
	until(p.lane, 0) // not at the same time as what goes on in the handle
	what := how.name + " " + p.part.log
	p.r.count("opened: "+how.name+": "+p.r.explained(p.port, p.name+": "+what, strikes, ends, err), 1)
	if err != nil {
		p.refuted(what, err)
		p.ask(err)
		return nil
	}
	p.r.say(p.name, "%s: open after %v", what, time.Since(took))
	if l == nil {
		return nil
	}
	p.r.mu.Lock()
	p.r.witness.gentle[l.Writer()] = p.gentle
	p.r.mu.Unlock()
	return p.handle(l, strikes, false)
}

func (p *process) handle(l *backend.Log, strikes int, ends bool) *handle {
	h := &handle{p: p, l: l, strikes: strikes, calls: new(int), ends: new(atomic.Bool)}
	h.mayEnd(ends)
	return h
}

// refuted notes what an error says about a commit, see refutedTo.
func (p *process) refuted(what string, err error) { p.refutedTo(p.port, what, err) }

// refutedTo notes what an error, told to the process of a port, says about a
// commit: that it is not in the log. Of one without events and without a takeover
// it says nothing: it may have been there, and is not what is there now. And what
// a process is told that has ended is no answer: its own end made it.
func (p *process) refutedTo(port *port, what string, err error) {
	ce, ok := errors.AsType[*manifest.CommitError](err)
	if !ok || ce.Intent.Kind == manifest.IntentMaintain || errors.Is(err, backend.ErrOutcomeUnknown) || port.isDead() {
		return
	}
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.r.witness.refute(ce.Intent.Commit, fmt.Sprintf("%s was told by %s: %v", port.name, what, err))
}

// ask settles an unknown outcome, if it likes to and there is one.
func (p *process) ask(err error) (backend.Decision, bool) {
	token := backend.Token(err)
	if token == "" || p.port.isDead() && p.aide.isDead() || oneOf(p.rng, 4) {
		return backend.Decision{}, false
	}
	b, port := p.b, p.port
	if port.isDead() || oneOf(p.rng, 2) {
		b, port = backend.New(p.aide, p.opt), p.aide
	}
	in := intentOf(err)
	for range 3 {
		strikes := port.struck()
		d, derr := b.Decide(context.Background(), token)
		// A commit that only released the log has no position to judge it by.
		placeless := in.Kind == manifest.IntentMaintain
		p.r.count("decide: "+p.r.explained(port, p.name+": decide "+in.Commit, strikes, placeless, derr), 1)
		if port.isDead() {
			break // nobody hears it
		}
		if derr == nil {
			p.r.say(p.name, "decide %s: %v, duplicate %v", in.Commit, d.Committed, d.Duplicate)
			p.r.book.decided(p.name, in, d)
			return d, true
		}
		p.refutedTo(port, "decide", derr)
		p.pause(20)
	}
	return backend.Decision{}, false
}

// past writes what is there already when the others begin, without faults.
func (r *run) past() {
	if len(r.plan.past) == 0 {
		return
	}
	r.calm.Store(true)
	defer r.calm.Store(false)
	p := newProcess(r, maxCast-1, part{name: "past", log: mainLog})
	p.port.far = 1
	for i, j := range r.plan.past {
		how := opening{"create or adopt", createOrAdopt}
		if i > 0 {
			how = opening{"adopt", adopt}
		}
		h := p.open(how)
		if h == nil {
			r.fail("INTERNAL", "past: it cannot be written")
			return
		}
		p.append(h, j)
		p.pause(3)
		if err := h.l.Close(context.Background(), backend.CloseOptions{Seal: i < len(r.plan.past)-1}); err != nil {
			r.fail("INTERNAL", "past: %v", err)
		}
	}
}

// close closes a handle; nil is closed.
func (p *process) close(h *handle) {
	if h == nil {
		return
	}
	p.pause(3) // so that what was begun in the background has sent its first request
	ctx, cancel, ends := p.context(12)
	defer cancel()
	h.mayEnd(ends)
	opt := backend.CloseOptions{Release: oneOf(p.rng, 3), Seal: oneOf(p.rng, 3)}
	err := h.l.Close(ctx, opt)
	p.r.count("closed: "+p.r.explained(p.port, p.name+": close", h.strikes, h.ends.Load(), err), 1)
	if err != nil {
		p.refuted("close", err)
		p.ask(err)
	}
}

// quoted shows tags.
func quoted(tags []string) string { return strings.Join(tags, " ") }
