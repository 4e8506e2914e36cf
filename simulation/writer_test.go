package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/segment"
)

// roles are the kinds of processes that take part.
var roles = []role{
	{name: "writer", weight: 10, play: (*process).write, writes: true},
	{name: "group", weight: 3, play: (*process).writeTogether, writes: true},
	{name: "oneshot", weight: 3, play: (*process).shoot, writes: true},
	{name: "retrier", weight: 4, play: (*process).write},
	{name: "forker", weight: 3, play: (*process).fork},
	{name: "replayer", weight: 1, play: (*process).replay},
	{name: "reader", weight: 3, play: (*process).read},
	{name: "follower", weight: 2, play: (*process).follow, endless: true},
	{name: "verifier", weight: 1, play: (*process).verify},
	{name: "folder", weight: 3, play: (*process).fold},
	{name: "tender", weight: 2, play: (*process).tend},
	{name: "collector", weight: 4, play: (*process).collect, endless: true},
	{name: "deleter", weight: 1, play: (*process).delete},
}

const tries = 4 // of each job

// write appends its jobs one after the other, through as many handles as it takes.
func (p *process) write() {
	var h *handle
	defer func() { p.close(h) }()
	for _, j := range p.part.jobs {
		for range tries {
			if p.port.isDead() {
				return
			}
			if h == nil {
				if h = p.open(pick(p.rng, openings...)); h == nil {
					p.pause(40)
					continue
				}
			}
			e, done := p.append(h, j)
			if h.l.Err() != nil && !oneOf(p.rng, 4) || e != nil && oneOf(p.rng, 4) {
				p.close(h)
				h = nil
			}
			if done {
				break
			}
			p.pause(20)
		}
		if h != nil && oneOf(p.rng, 8) {
			p.flush(h)
		}
		if oneOf(p.rng, 4) {
			p.close(h)
			h = nil
		}
		p.pause(20)
	}
}

// writeTogether lets several callers share a handle.
func (p *process) writeTogether() {
	for round := range 2 {
		h := p.open(pick(p.rng, openings...))
		if h == nil || p.port.isDead() {
			p.pause(40)
			p.close(h)
			continue
		}
		var wg sync.WaitGroup
		for i := 1; i <= 3; i++ {
			wg.Go(func() {
				c := p.with(i, round)
				c.pause(4)
				for n, j := range p.part.jobs {
					if n%3 != i-1 && j.key == "" {
						continue
					}
					if j.key == "" {
						j.tag = fmt.Sprint(j.tag, "by", i)
					}
					c.append(h, j)
					c.pause(2)
				}
			})
		}
		wg.Wait()
		p.close(h)
	}
}

// shoot appends each job through a handle of its own, as a command does.
func (p *process) shoot() {
	for _, j := range p.part.jobs {
		for range tries {
			if p.port.isDead() {
				return
			}
			h := p.open(opening{"create or adopt", createOrAdopt})
			if j.last = oneOf(p.rng, 2); oneOf(p.rng, 20) {
				j.pad++ // with a key that was used for other events
			}
			_, done := p.append(h, j)
			p.close(h)
			p.pause(20)
			if done {
				break
			}
		}
	}
}

func (p *process) flush(h *handle) {
	err := h.l.Flush(context.Background())
	until(p.lane, 0)
	p.r.explained(p.port, p.name+": flush", h.strikes, h.ends.Load(), err)
}

// append makes one append. done: it need not be tried again. The entry is nil
// where it did not come to that.
func (p *process) append(h *handle, j job) (e *entry, done bool) {
	p.n++
	opt := backend.AppendOptions{Key: j.key, Last: j.last}
	e = &entry{process: p.part.name, caller: p.name, port: p.port, log: p.part.log, writer: h.l.Writer(), key: j.key, strikes: h.strikes}
	typ, more := "note", ""
	switch j.kind {
	case "next":
		next := h.l.Next()
		opt.ExpectNext = &next
	case "stale":
		next := h.l.Next() + 1000
		opt.ExpectNext = &next
	case "bracket":
		v, next, err := h.l.Check(context.Background(), bracketOpen, bracketClose)
		until(p.lane, 0)
		if p.r.explained(p.port, p.name+": check", h.strikes, h.ends.Load(), err); err != nil {
			return nil, false
		}
		if typ = bracketClose; v.Answer != "live" {
			typ, e.bracket, opt.ExpectNext = bracketOpen, true, &next
		}
	case "turn":
		typ, more = segment.TypeTurnStart, fmt.Sprintf(`,"turn":%d`, p.n)
	case "done":
		typ, more = segment.TypeTurnEnd, fmt.Sprintf(`,"turn":%d,"reason":{"kind":"completed"}`, p.n)
	case "prompt":
		typ, more = segment.TypeUserMessage, `,"source":{"kind":"user"}`
	case "claim":
		p.claim(h, "claim", func(ctx context.Context) error { _, err := h.l.Claim(ctx); return err })
	case "renew":
		if p.opt.Lease > 0 {
			p.claim(h, "renew", h.l.Renew)
		}
	}
	e.expect = opt.ExpectNext
	var events [][]byte
	for i := range j.n {
		tag := fmt.Sprintf("%s.%d", j.tag, i)
		if j.key == "" {
			tag = fmt.Sprintf("%s:%d.%d", j.tag, p.n, i)
		}
		e.tags = append(e.tags, tag)
		ev := event(typ, tag, more, j.pad)
		if j.key != "" && j.kind == "turn" { // the same at every try
			ev = event(typ, tag, `,"turn":7`, j.pad)
		}
		if j.kind == "invalid" {
			ev = append([]byte(`{"seq":1.5,`), ev[1:]...)
		}
		events = append(events, ev)
		e.ends = append(e.ends, string(ev[bytes.Index(ev, []byte(`"data":`)):]))
	}
	ctx, cancel, ends := p.context(7)
	defer cancel()
	p.r.book.begin(e, h)
	p.r.say(p.name, "append %s %s", j.kind, quoted(e.tags))
	r, err := h.l.Append(ctx, events, opt)
	until(p.lane, 0) // not at the same time as others in the same commit
	h.mayEnd(ends)
	p.r.book.answer(e, h.ends.Load(), r, err)
	p.refuted("append "+quoted(e.tags), err)
	if err == nil {
		return e, true
	}
	if _, settled := p.settle(e); settled && e.state == acknowledged {
		return e, true
	}
	mine := errors.Is(err, backend.ErrInvalidEvent) || errors.Is(err, backend.ErrSeqMismatch)
	return e, mine || errors.Is(err, backend.ErrDeleted)
}

// settle asks what became of an append, if that is unknown.
func (p *process) settle(e *entry) (d backend.Decision, settled bool) {
	if e.state != unknown {
		return d, false
	}
	if d, settled = p.ask(e.err); settled {
		p.r.book.settled(e, d)
	}
	return d, settled
}

// claim makes a handle own its log.
func (p *process) claim(h *handle, what string, do func(context.Context) error) {
	ctx, cancel, ends := p.context(12)
	defer cancel()
	h.mayEnd(ends)
	err := do(ctx)
	until(p.lane, 0)
	p.r.count(what+": "+p.r.explained(p.port, p.name+": "+what, h.strikes, h.ends.Load(), err), 1)
	if err != nil {
		p.refuted(what, err)
		p.ask(err)
	}
}
