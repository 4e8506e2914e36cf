package manifest

import (
	"errors"
	"fmt"
)

// Deciders, maintainers and deleters.

// deciderStep is the step of Settle.
func (x *explorer) deciderStep(p int, s *proc, token *prop) stepOut {
	base := s.base.record()
	x.commitID = fmt.Sprintf("%s.%d", x.name(p), revisionAfter(base))
	proposal, err := settle(token.p.Intent, base, x.writer(p), x.now)
	if err != nil || proposal == nil {
		return stepOut{err: err}
	}
	prop, err := x.sealed(proposal, p, s.base, -1, "", nil)
	return stepOut{prop: prop, err: err}
}

// otherStep is what a maintainer or a deleter does on top of base.
func (x *explorer) otherStep(p int, s *proc) stepOut {
	a, base := &x.cfg.actors[p], s.base.record()
	x.commitID = fmt.Sprintf("%s.%d", x.name(p), revisionAfter(base))
	if a.role == deletes {
		d, err := TakeOver(base, x.writer(p), KindDelete, x.now)
		if err != nil {
			return stepOut{err: err}
		}
		d.Delete()
		prop, err := x.seal(d, p, s.base, -1, "", nil)
		return stepOut{prop: prop, err: err}
	}
	for ups := s.ups; ; ups = [2]*object{} {
		d, err := Maintain(base, x.writer(p), x.now)
		if err != nil {
			return stepOut{err: err}
		}
		out := stepOut{ups: ups}
		tail := s.base.tail()
		var names []*object
		o := ups[0]
		if o == nil && a.keeps != touch {
			if o = x.fold(p, s, d.Epoch()); o == nil {
				return stepOut{} // nothing to do
			}
			out.uploaded, out.ups[0] = o, o
		}
		if o != nil {
			names = append(names, o)
			if len(o.upload.Inputs) > 0 {
				d.Merge(o.upload)
			} else {
				d.Seal(o.upload)
			}
			if o.upload.TailFirst >= 0 {
				// What was appended since stays in the tail.
				tail = tail[min(len(tail), max(0, int(o.upload.end()-base.TailFirst()))):]
			}
		}
		d.SetTail([]byte(tail))
		out.prop, out.err = x.seal(d, p, s.base, -1, "", names)
		if errors.Is(out.err, ErrStaleUpload) && ups != [2]*object{} {
			continue
		}
		return out
	}
}

// fold is the segment that a fold makes, nil if there is nothing to fold.
func (x *explorer) fold(p int, s *proc, epoch uint32) *object {
	r := s.base.record()
	all := x.cfg.actors[p].keeps == foldAll
	switch {
	case len(r.Segments) == 0 && all && s.base.tail() != "":
		return x.object(p, int(s.made), Upload{TailFirst: 0}, epoch, 0, s.base.tail())
	case len(r.Segments) > 1, len(r.Segments) == 1 && all && s.base.tail() != "":
		return x.merge(p, int(s.made), s.base, epoch, all)
	}
	return nil
}

// otherLanded takes the end of what an actor did that is no writer.
func (x *explorer) otherLanded(n *world, p int, head Head) {
	a, s := &x.cfg.actors[p], &n.procs[p]
	switch a.role {
	case decider:
		x.settled(n, n.procs[a.settles].token, head)
	case collects:
		s.base, s.wrote = x.versionOf(head), x.cfg.broken.fates != nil || x.cfg.broken.relist
		x.weighs(n, p)
		return
	}
	x.done(s)
}

// settled takes an answer as Settle gives it.
func (x *explorer) settled(n *world, token *prop, head Head) {
	in := token.p.Intent
	v := rules.judge(in, head.Record)
	x.reached["settled: "+v.String()]++
	switch {
	case v.Landed():
		x.toldCommitted(n, token.actor, token.batch, in.Start, in.End-in.Start, false)
		return
	case v == Unknown || v == Unmoved || v == Gone && !x.cfg.removal && x.cfg.broken.judge == nil:
		x.fail("IMPOSSIBLE", "%s says %q about %s", x.versionOf(head), v, token)
		return
	}
	for _, k := range in.Keys {
		if e, found, err := head.Record.LookupKey(k.Key, k.Digest); err == nil && found {
			x.toldCommitted(n, token.actor, token.batch, e.First, e.Count, true)
			return
		}
	}
	x.toldNotCommitted(n, token.actor, token.batch, errors.New(v.String()), x.versionOf(head))
}

// otherFailed ends an actor that is no writer; gc reads again.
func (x *explorer) otherFailed(n *world, p int, _ Head, _ error) {
	s := &n.procs[p]
	if x.cfg.actors[p].role == collects {
		s.att, s.act, s.try, s.pc, s.base, s.looked = nil, 0, nil, pcOpen, nil, false
		return
	}
	x.done(s)
}
