package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/s3log/s3log/backend/objstore"
)

// Every goroutine acts at instants of its own, its lane, which are told apart by
// their place within a grain. Nothing happens at the same time as something else,
// so that the order of all requests follows from the seed. A tick is more than
// what the code's own jitter makes of the shortest back-off.
const (
	tick     = 4 * time.Nanosecond
	grain    = 8192 * tick
	lanes    = 256  // per process: callers from 0 on, requests, late requests
	request  = 32   // lane
	lateLane = 192  // lane
	deadline = 4096 // what ends by itself ends in the other half of a grain
)

// until sleeps for d, up to the next instant of a lane, and never not at all.
func until(lane int64, d time.Duration) {
	d = max(d, 1)
	at := time.Duration(time.Now().Add(d).UnixNano()) % grain
	time.Sleep(d + (time.Duration(lane)*tick-at+grain)%grain)
}

// lasting makes a duration that does not end at the same time as another.
func lasting(d time.Duration, n int64) time.Duration {
	return d/grain*grain + time.Duration(deadline+n)*tick
}

// port is the store as one process reaches it.
type port struct {
	r    *run
	name string
	lane int64
	far  time.Duration // how many times as far from the store as others
	lags bool          // what manifests name is asked for much later, when it may be gone

	mu      sync.Mutex
	sent    map[string]int // requests by kind
	strikes int            // faults that struck
	torn    int            // of them, torn reads
	thaws   time.Time      // when the process goes on
	renewed time.Time      // when its credentials are valid again
	dead    bool
	cut     int // where the last cut body ended
}

var (
	_ objstore.Store  = (*port)(nil)
	_ objstore.Copier = (*port)(nil)
)

// call is one request.
type call struct {
	op, key string
	note    func() string
	write   bool
	send    func(f fate) (objstore.Object, error)
}

// do sends a request, through what its fate has in store for it.
func (p *port) do(ctx context.Context, c call) (objstore.Object, error) {
	if err := ctx.Err(); err != nil {
		return objstore.Object{}, told(c, &objstore.Error{Class: objstore.ErrUndecided, Err: err})
	}
	key := p.r.masked(c.key)
	kind := c.op + " " + key
	p.mu.Lock()
	n := p.sent[kind]
	p.sent[kind]++
	p.mu.Unlock()
	f := p.r.plan.drawFate(p.name, c.op, key, isManifest(c.key), n, p.far)
	f.id = fmt.Sprintf("%s/%s/%d", p.name, strings.ReplaceAll(kind, " ", ":"), n)
	if p.r.plan.without[f.id] || p.r.draining() {
		f = f.spared()
	}
	if p.lags && c.op == "Get" && !isManifest(c.key) && oneOf(f.dice, 3) {
		f.out += pick(f.dice, 1000*p.r.plan.leg, 26*time.Hour)
	}
	h := fnv.New32a()
	io.WriteString(h, kind)
	lane := p.lane + request + (int64(h.Sum32())+int64(n))%(lateLane-request)
	slot := time.Duration(n%64) * grain // among those of the same kind that go on together
	until(lane, 0)
	switch f.fault {
	case frozenBefore:
		p.freeze(f.more)
	case dies:
		p.die()
	case expired:
		p.expire(f.more)
	}
	p.strike(f)
	p.thaw(lane, slot)
	if p.isDead() {
		return objstore.Object{}, told(c, dies.reply())
	}
	if err := ctx.Err(); err != nil {
		return objstore.Object{}, told(c, &objstore.Error{Class: objstore.ErrUndecided, Err: err})
	}
	reply := make(chan answer, 1)
	p.r.flying(func() { reply <- p.fly(c, f, lane) })
	var a answer
	select {
	case a = <-reply:
	case <-ctx.Done():
		a.err = &objstore.Error{Class: objstore.ErrUndecided, Err: ctx.Err()}
		until(lane+deadline, 0) // not at the same time as the others whose context ended
		p.r.traceCall(p.name, c, f, "not waited for")
	}
	switch f.fault {
	case frozenAfter:
		p.freeze(f.more)
	case diesAfter:
		p.die()
	}
	p.thaw(lane, slot)
	if p.isDead() {
		return objstore.Object{}, told(c, diesAfter.reply())
	}
	return a.obj, told(c, a.err)
}

// answer is what a caller hears.
type answer struct {
	obj objstore.Object
	err error
}

// fly is the way of a request to the store, and that of its reply.
func (p *port) fly(c call, f fate, lane int64) (a answer) {
	until(lane, f.out)
	if f.fault == slow {
		until(lane, f.more)
	}
	switch {
	case p.r.down.Load(): // the reply gets lost, or the request did
		if f.fault = unavailable; c.write && oneOf(f.dice, 2) {
			f.fault = lostReply
		}
		f.wait += drawn(f.dice, 10*time.Second)
		p.strike(f)
	case p.isExpired():
		f.fault = expired
		p.strike(f)
	}
	effect := func(what string) (objstore.Object, error) {
		obj, err := c.send(f)
		p.r.traceCall(p.name, c, f, what+outcome(err))
		return obj, err
	}
	switch f.fault {
	case lostReply, failedApplied, throttledApplied:
		effect("")
	case hangs:
		if c.write && oneOf(f.dice, 2) {
			effect("")
		}
	case late:
		if c.write {
			p.later(c, f, effect)
		}
	case lateCopy:
		a.obj, a.err = effect("")
		p.later(c, f, effect)
	case doubled:
		effect("")
		a.obj, a.err = effect("again: ")
	case conflict, unsent, throttled, unavailable, denied, expired, rejected:
	case noVersion:
		a.obj, a.err = effect("")
		a.obj.Version = objstore.Version{}
	case tornVersion, tornHead, tornBody:
		if a.obj, a.err = effect(""); a.err == nil {
			a.obj = p.r.service.torn(a.obj, f.fault)
		}
	case cutBody:
		if a.obj, a.err = effect(""); a.err == nil {
			a.obj.Body = p.cutShort(a.obj.Body, f)
		}
	default:
		a.obj, a.err = effect("")
	}
	if err := f.fault.reply(); err != nil {
		a = answer{err: err}
		p.r.traceCall(p.name, c, f, "told "+outcome(err))
	}
	until(lane, f.back+f.wait)
	return a
}

// later lets a request arrive late, when nobody waits for it any more.
func (p *port) later(c call, f fate, effect func(string) (objstore.Object, error)) {
	p.r.flying(func() {
		until(p.lane+lateLane+int64(f.more/tick)%(lanes-lateLane), f.more)
		effect("late: ")
	})
}

// cutShort is a body that ends early, elsewhere than the one before.
func (p *port) cutShort(body []byte, f fate) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := f.dice.IntN(len(body))
	if n == p.cut {
		n = (n + 1) % len(body)
	}
	p.cut = n
	return body[:n]
}

// told is an error as the driver of a store makes it.
func told(c call, err error) error {
	e, ok := errors.AsType[*objstore.Error](err)
	if !ok {
		return err
	}
	same := *e
	same.Op, same.Key = c.op, c.key
	return &same
}

// strike counts a fault.
func (p *port) strike(f fate) {
	p.r.struck(f)
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.fault != none || p.far > 1 { // it may run out of time
		p.strikes++
	}
	switch f.fault {
	case tornVersion, tornBody, tornHead:
		p.torn++
	}
}

func (p *port) tornReads() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.torn
}

func (p *port) freeze(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := time.Now().Add(d); at.After(p.thaws) {
		p.thaws = at
	}
}

// thaw returns when the process is not frozen.
func (p *port) thaw(lane int64, slot time.Duration) {
	for {
		p.mu.Lock()
		d := time.Until(p.thaws)
		if d > 0 {
			p.strikes++
		}
		p.mu.Unlock()
		if d <= 0 {
			return
		}
		until(lane, d+slot)
	}
}

func (p *port) expire(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renewed = time.Now().Add(d)
}

func (p *port) isExpired() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.renewed)
}

func (p *port) die() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
}

func (p *port) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// struck is how many faults struck the process by now.
func (p *port) struck() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.strikes
}

// Get implements objstore.Reader.
func (p *port) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	note := func() string {
		if opt.IfNot.IsZero() {
			return ""
		}
		return "if-not " + p.r.version(opt.IfNot)
	}
	o, err := p.do(ctx, call{op: "Get", key: key, note: note, send: func(fate) (objstore.Object, error) {
		obj, err := p.r.service.mem.Get(context.Background(), key, opt)
		if !isManifest(key) {
			p.r.count("segment: "+outcome(err), 1)
		}
		return obj, err
	}})
	return o, err
}

// Head implements objstore.Reader.
func (p *port) Head(ctx context.Context, key string) (objstore.Info, error) {
	o, err := p.do(ctx, call{op: "Head", key: key, send: func(fate) (objstore.Object, error) {
		info, err := p.r.service.mem.Head(context.Background(), key)
		return objstore.Object{Info: info}, err
	}})
	return o.Info, err
}

// List implements objstore.Reader.
func (p *port) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		var found []objstore.Info
		_, err := p.do(ctx, call{op: "List", key: prefix, send: func(f fate) (objstore.Object, error) {
			age := 0
			if f.fault == staleList {
				age = 1 + f.dice.IntN(maxLists-1)
			}
			found = p.r.service.list(prefix, after, age)
			if f.fault == brokenList {
				found = found[:f.dice.IntN(len(found)+1)]
			}
			return objstore.Object{}, nil
		}})
		for _, info := range found {
			if !yield(info, nil) {
				return
			}
		}
		if err != nil {
			yield(objstore.Info{}, err)
		}
	}
}

// Put implements objstore.Store.
func (p *port) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	body, opt.Metadata = bytes.Clone(body), maps.Clone(opt.Metadata) // it may arrive later
	note := func() string {
		if cond.Absent() {
			return "if-absent: " + describe(key, body)
		}
		return "if " + p.r.version(cond.Match()) + ": " + describe(key, body)
	}
	o, err := p.do(ctx, call{op: "Put", key: key, note: note, write: true, send: func(fate) (objstore.Object, error) {
		info, err := p.r.service.put(p, key, body, cond, opt)
		return objstore.Object{Info: info}, err
	}})
	return o.Info, err
}

// Copy implements objstore.Copier.
func (p *port) Copy(ctx context.Context, src, dst string) (objstore.Info, error) {
	o, err := p.do(ctx, call{op: "Copy", key: dst, write: true, send: func(fate) (objstore.Object, error) {
		info, err := p.r.service.copy(p, src, dst)
		return objstore.Object{Info: info}, err
	}})
	return o.Info, err
}

// Delete implements objstore.Store.
func (p *port) Delete(ctx context.Context, key string) error {
	_, err := p.do(ctx, call{op: "Delete", key: key, write: true, send: func(fate) (objstore.Object, error) {
		return objstore.Object{}, p.r.service.delete(key)
	}})
	return err
}
