package simulation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/manifest"
)

// fork makes the child, perhaps more than once, and perhaps goes on in it.
func (p *process) fork() {
	opt := backend.ForkOptions{Release: oneOf(p.rng, 2), Clip: oneOf(p.rng, 6)}
	if !opt.Clip && oneOf(p.rng, 2) {
		at := int64(p.rng.IntN(4))
		opt.At = &at
	}
	for range 4 {
		if p.port.isDead() {
			return
		}
		ctx, cancel, ends := p.context(12)
		strikes := p.port.struck()
		l, r, err := p.b.Fork(ctx, mainLog, childLog, opt)
		until(p.lane, 0)
		cancel()
		w := p.r.explained(p.port, p.name+": fork", strikes, ends, err)
		if r.Duplicate {
			w = "duplicate"
		}
		p.r.count("fork: "+w, 1)
		if err == nil && !p.port.isDead() {
			p.forked(opt, r)
		}
		if l != nil {
			p.inherit(p.handle(l, strikes, ends))
		}
		if err != nil {
			p.refuted("fork", err)
			p.ask(err)
		} else if oneOf(p.rng, 2) {
			return
		}
		p.pause(60)
	}
}

// forked checks the receipt of a fork.
func (p *process) forked(opt backend.ForkOptions, r backend.Receipt) {
	p.r.say(p.name, "fork: %+v", r)
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	var rec *manifest.Record // it may be deleted by now
	for _, v := range p.r.witness.log(childLog).versions {
		if v.rec.State == manifest.StateOpen {
			rec = v.rec
		}
	}
	switch {
	case rec == nil || rec.Origin.Kind != manifest.KindFork:
		p.r.fail("LOSTACK", "%s was told of a fork that is not there", p.name)
	case opt.At != nil && rec.Origin.Inherited != *opt.At+1:
		p.r.fail("CHILD", "%s asked for a fork at %d and was told of one of %d events", p.name, *opt.At, rec.Origin.Inherited)
	case r.Count < rec.Origin.Inherited || r.Count > rec.Origin.Inherited+1:
		p.r.fail("LOSTACK", "%s was told of a fork of %d events, it has inherited %d", p.name, r.Count, rec.Origin.Inherited)
	}
}

// inherit appends to a log that was just begun.
func (p *process) inherit(h *handle) {
	c := *p
	c.part.log = h.l.ID()
	for i := range p.rng.IntN(3) {
		c.append(h, job{kind: "note", tag: fmt.Sprintf("%s-%d-%d", p.name, c.n, i), n: 1})
		p.pause(20)
	}
	p.n = c.n
	p.close(h)
}

// replay begins the child with given events.
func (p *process) replay() {
	n := p.rng.IntN(3)
	events := func(yield func([]byte, error) bool) {
		for i := range n {
			if !yield(event("note", fmt.Sprint("replayed", i), "", 0), nil) {
				return
			}
		}
	}
	for range 3 {
		if p.port.isDead() {
			return
		}
		ctx, cancel, ends := p.context(12)
		strikes := p.port.struck()
		l, r, err := p.b.Replay(ctx, childLog, iter.Seq2[[]byte, error](events), backend.ReplayOptions{Release: oneOf(p.rng, 2), Header: header(childLog)})
		until(p.lane, 0)
		cancel()
		w := p.r.explained(p.port, p.name+": replay", strikes, ends, err)
		p.r.count("replay: "+w, 1)
		p.r.say(p.name, "replay of %d: %+v, %v", n, r, err)
		if l != nil {
			p.inherit(p.handle(l, strikes, ends))
		}
		if err == nil || errors.Is(err, backend.ErrExists) {
			return
		}
		p.refuted("replay", err)
		p.ask(err)
		p.pause(60)
	}
}

// fold rewrites segments.
func (p *process) fold() {
	for range 1 + p.rng.IntN(4) {
		if p.port.isDead() {
			return
		}
		p.pause(120)
		id := p.oneLog()
		strikes := p.port.struck()
		opt := backend.FoldOptions{Tail: pick(p.rng, backend.FoldTailAuto, backend.FoldTailKeep, backend.FoldTailTake)}
		report, err := p.b.Fold(context.Background(), id, opt)
		p.r.count("fold: "+p.r.explained(p.port, p.name+": fold", strikes, false, err), 1)
		p.r.say(p.name, "fold %s: %+v, %v", id, report, err)
		if err == nil && len(report.Steps) > 0 {
			p.r.count("folded", 1)
		}
	}
}

// oneLog is mostly the log.
func (p *process) oneLog() string {
	if oneOf(p.rng, 5) {
		return childLog
	}
	return mainLog
}

// tend does what other maintenance might, often.
func (p *process) tend() {
	for range 2 + p.rng.IntN(8) {
		if p.port.isDead() {
			return
		}
		p.pause(pick(p.rng, 5, 40))
		strikes := p.port.struck()
		p.r.count("maintained: "+p.r.explained(p.port, p.name+": maintain", strikes, false, p.maintain(p.oneLog())), 1)
	}
}

// maintain commits without changing anything but the revision, and perhaps the
// epoch.
func (p *process) maintain(id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), lasting(time.Minute, 7))
	defer cancel()
	opt := manifest.Options{MinBackoff: 2, MaxBackoff: 2}
	head, err := manifest.Load(ctx, p.port, id, manifest.LoadOptions{})
	if err != nil {
		return err
	}
	barrier := oneOf(p.rng, 2)
	w := manifest.NewWriter(p.name, "maintenance")
	_, err = manifest.Commit(ctx, p.port, head, func(_ context.Context, base manifest.Head) (*manifest.Proposal, error) {
		d, err := manifest.Maintain(base.Record, w, p.r.service.now().UnixMilli())
		if err != nil {
			return nil, err
		}
		if barrier {
			d.Barrier(0)
		}
		return d.Finish()
	}, opt)
	return err
}

// collect collects again and again as long as others are busy, and once more when
// the grace is over.
func (p *process) collect() {
	for range 20 {
		if p.pause(pick(p.rng, 5, 50)); p.r.ends.Err() != nil || p.port.isDead() {
			break
		}
		p.collectOnce()
	}
	until(p.lane, 25*time.Hour)
	p.collectOnce()
}

func (p *process) collectOnce() {
	k := p.look("gc", "")
	opt := backend.GCOptions{Grace: p.r.plan.grace}
	if oneOf(p.rng, 2) {
		opt.Log = p.oneLog()
	}
	for g, err := range p.b.GC(context.Background(), opt) {
		if err == nil {
			err = g.Err
		}
		w := p.r.explained(p.port, p.name+": gc", k.strikes, false, err)
		p.r.count("gc: "+w, 1)
		p.collected(g, k)
	}
}

func (p *process) collected(g backend.GCLog, k looked) {
	n, _ := g.Removed()
	p.r.say(p.name, "gc %s: %d removed of %d, %d named, barrier %v, void %v, %v", g.Log, n, len(g.Objects), g.Named, g.Barrier, g.Void, g.Err)
	if g.Barrier {
		p.r.count("barriers", 1)
	}
	if g.Void {
		p.r.count("voids of gc", 1)
	}
	for _, f := range g.Findings {
		headless := f.Kind == "headless" || f.Kind == "lost" // a fork uploads its segments first; and a listing may be old
		if p.port.isDead() || f.Kind == "denied" || headless && (p.r.absent(g.Log, k.began) || p.port.struck() > k.strikes) {
			continue
		}
		p.r.fail("DAMAGE", "%s: gc found %+v", p.name, f)
	}
	for _, o := range g.Objects {
		p.r.count("object: "+string(o.Fate), 1)
		if o.Fate == manifest.FateUnsettled && g.Barrier && g.Err == nil {
			p.r.fail("BARRIER", "%s: %s may not go yet, and a barrier was made", p.name, o.Key)
		}
	}
}

// absent reports whether there was no manifest of a log at some moment from a time
// on.
func (r *run) absent(id string, from time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.witness.log(id).during(from, func(rec *manifest.Record) bool { return rec == nil })
}

// delete deletes the log, rather late.
func (p *process) delete() {
	p.pause(1000)
	id := pick(p.rng, mainLog, mainLog, childLog)
	for range 3 {
		if p.port.isDead() {
			return
		}
		began, strikes := time.Now(), p.port.struck()
		ctx, cancel, ends := p.context(12)
		r, err := p.b.Delete(ctx, id, p.mayTake())
		cancel()
		p.r.count("delete: "+p.r.explained(p.port, p.name+": delete", strikes, ends, err), 1)
		p.r.say(p.name, "delete %s: %+v, %v", id, r, err)
		if err == nil && !p.port.isDead() {
			p.r.mu.Lock()
			if rec := p.r.witness.log(id).newest(); rec == nil || rec.State != manifest.StateDeleted {
				p.r.fail("LOSTACK", "%s was told that %s is deleted", p.name, id)
			}
			p.r.mu.Unlock()
			p.r.removed(p.name, id, began, true)
			return
		}
		p.refuted("delete", err)
		d, settled := p.ask(err)
		switch {
		case settled && d.Committed:
			p.r.removed(p.name, id, began, true)
		case errors.Is(err, backend.ErrOutcomeUnknown) && !settled, p.port.isDead():
			p.r.removed(p.name, id, began, false)
		}
		p.pause(60)
	}
}
