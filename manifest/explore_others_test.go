package manifest

import (
	"errors"
	"fmt"
	"slices"
)

// Deciders, maintainers, deleters and collectors.

// deciderStep is the step of Settle.
func (x *explorer) deciderStep(p int, s *proc, token *prop) stepOut {
	base := s.base.record()
	x.commitID = fmt.Sprintf("%s.%d", x.name(p), revisionAfter(base))
	proposal, err := settle(token.p.Intent, base, x.writer(p), storeTime)
	if err != nil || proposal == nil {
		return stepOut{err: err}
	}
	return stepOut{prop: x.prop(p, s.base, proposal, -1, "", nil)}
}

// otherStep is what a maintainer or a deleter does on top of base.
func (x *explorer) otherStep(p int, s *proc) stepOut {
	a, base := &x.cfg.actors[p], s.base.record()
	x.commitID = fmt.Sprintf("%s.%d", x.name(p), revisionAfter(base))
	if a.role == deletes {
		d, err := TakeOver(base, x.writer(p), KindDelete, storeTime)
		if err != nil {
			return stepOut{err: err}
		}
		d.Delete()
		prop, err := x.seal(d, p, s.base, -1, "", nil)
		return stepOut{prop: prop, err: err}
	}
	for ups := s.ups; ; ups = [2]*object{} {
		d, err := Maintain(base, x.writer(p), storeTime)
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
				d.Merge(o.upload, storeTime)
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
		s.base = x.versionOf(head)
		s.pc = pcReady
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

// otherFailed ends an actor that is no writer; gc looks again.
func (x *explorer) otherFailed(n *world, p int, _ Head, _ error) {
	s := &n.procs[p]
	if x.cfg.actors[p].role == collects {
		s.att, s.act, s.pc, s.base = nil, 0, pcReady, n.head
		return
	}
	x.done(s)
}

// looks lets gc list and read, in any order.
func (x *explorer) looks(w *world, p int) {
	for _, lists := range []bool{true, false} {
		n := x.copy(w)
		s := &n.procs[p]
		switch {
		case lists && !s.listed:
			s.listed, s.list = true, w.objects
		case !lists && !s.looked:
			s.looked, s.base = true, w.head
		default:
			continue
		}
		if s.listed && s.looked {
			s.pc = pcReady
			if s.base.record() == nil || s.base.record().State == StateVoid {
				x.done(s)
			}
		}
		if lists {
			x.emit(n, p, "lists segments", nil)
		} else {
			x.emit(n, p, "reads", w.head)
		}
	}
}

// collect is gc with a listing and a version: it deletes what that version lets
// it, and makes a barrier for the rest.
func (x *explorer) collect(w *world, p int) {
	s := &w.procs[p]
	r := s.base.record()
	var gone, rest []int
	for _, id := range ids(s.list) {
		name := x.byID[id-1].upload.Ref.Name
		retired := slices.ContainsFunc(r.Retired, func(t Retired) bool { return t.Name == name })
		switch {
		case r.names(name):
		case r.State == StateDeleted || name.Epoch < r.Epoch || retired || x.cfg.broken.barrierless:
			gone = append(gone, id)
		default:
			rest = append(rest, id)
		}
	}
	if len(gone) > 0 {
		n := x.copy(w)
		n.drop(gone)
		x.checkObjects(n)
		if n.procs[p].list = idString(rest); len(rest) == 0 {
			x.done(&n.procs[p])
		}
		x.reached["collected"]++
		x.emit(n, p, fmt.Sprintf("deletes segments %v", gone), nil)
	}
	n := x.copy(w)
	if len(rest) == 0 || int(s.drafts) >= x.cfg.actors[p].limit() {
		x.done(&n.procs[p])
		x.emit(n, p, "is done", nil)
		return
	}
	x.barrier(n, p, rest)
	x.emit(n, p, "proposes", tried(n, p))
}

// barrier lets gc propose an epoch above that of everything it listed.
func (x *explorer) barrier(n *world, p int, rest []int) {
	s := &n.procs[p]
	s.drafts++
	base := s.base.record()
	x.commitID = fmt.Sprintf("%s.%d", x.name(p), revisionAfter(base))
	d, err := Maintain(base, x.writer(p), storeTime)
	if err != nil {
		x.failed(n, p, Head{}, err)
		return
	}
	highest := uint32(0)
	for _, id := range rest {
		highest = max(highest, x.byID[id-1].upload.Ref.Name.Epoch)
	}
	d.Barrier(highest)
	prop, err := x.seal(d, p, s.base, -1, "", nil)
	if err != nil {
		x.failed(n, p, Head{}, err)
		return
	}
	s.try = prop
	x.launch(n, p)
}
