package manifest

import (
	"fmt"
	"time"
)

// looks lets gc list and read, in any order.
func (x *explorer) looks(w *world, p int) {
	s := &w.procs[p]
	if !s.listed {
		for _, list := range x.listings(w) {
			n := x.copy(w)
			n.procs[p].listed, n.procs[p].list = true, list
			x.weighs(n, p)
			x.emit(n, p, fmt.Sprintf("lists segments %v", ids(list)), nil)
		}
	}
	if !s.looked {
		n := x.copy(w)
		s := &n.procs[p]
		s.looked, s.base = true, w.head
		if x.cfg.broken.fates != nil && s.first == nil {
			s.first = w.head
		}
		x.weighs(n, p)
		x.emit(n, p, "reads", w.head)
	}
}

// listings are what gc may be told: what is there, or, where listings may be
// stale and made of pages, anything that has been there.
func (x *explorer) listings(w *world) []string {
	if !x.cfg.stale {
		return []string{w.objects}
	}
	all := ids(w.ever)
	var lists []string
	for set := range 1 << len(all) {
		var list []int
		for i, id := range all {
			if set>>i&1 == 1 {
				list = append(list, id)
			}
		}
		lists = append(lists, idString(list))
	}
	return lists
}

// weighs is gc with a listing and a version; it is done where that leaves it
// nothing to do.
func (x *explorer) weighs(n *world, p int) {
	s := &n.procs[p]
	if !s.listed || !s.looked {
		return
	}
	s.att, s.act, s.try, s.pc = nil, 0, nil, pcReady
	if s.wrote && x.cfg.broken.relist {
		s.list = n.objects
	}
	if f := x.fates(n, s); len(f.gone) == 0 && (len(f.rest) == 0 || int(s.drafts) >= x.cfg.actors[p].limit()) {
		x.ran(n, p)
	}
}

// ran ends one run of gc.
func (x *explorer) ran(n *world, p int) {
	s := &n.procs[p]
	if s.run++; s.run < x.cfg.actors[p].runs {
		*s = proc{pc: pcOpen, run: s.run, made: s.made}
		return
	}
	x.done(s)
}

// fateKey is all that decides about a listing, and fates what is decided.
type fateKey struct {
	base int
	list string
	tick uint8
}

type fates struct {
	all        []Fate
	gone, rest []int // ids of what may go, and of what would behind a barrier
}

// fates is the rule of removal for what gc has listed.
func (x *explorer) fates(w *world, s *proc) fates {
	k := fateKey{s.base.number(), s.list, w.tick}
	if f, ok := x.judged[k]; ok {
		return f
	}
	list := x.listed(s.list)
	f := fates{all: x.removal(w).Fates(s.base.record(), list)}
	if change := x.cfg.broken.fates; change != nil {
		change(x, w, s, list, f.all)
	}
	for i, id := range ids(s.list) {
		switch {
		case f.all[i].MayGo():
			f.gone = append(f.gone, id)
		case f.all[i] == FateUnsettled:
			f.rest = append(f.rest, id)
		}
	}
	if x.cfg.broken.fates == nil {
		x.judged[k] = f
	}
	return f
}

// removal is the rule of removal at this moment. That uploads are spared while
// they are young is a courtesy: here all of them are old at once.
func (x *explorer) removal(w *world) Removal {
	return Removal{Now: x.clock(w) + 1, Grace: time.Duration(x.cfg.grace) * time.Hour}
}

func (x *explorer) listed(set string) (list []Listed) {
	for _, id := range ids(set) {
		list = append(list, Listed{Name: x.byID[id-1].upload.Ref.Name})
	}
	return list
}

// collect is gc with a listing and a version: it deletes what that version lets
// it, one by one, in any order, and makes a barrier for the rest.
func (x *explorer) collect(w *world, p int) {
	f := x.fates(w, &w.procs[p])
	for _, fate := range f.all {
		if fate.MayGo() {
			x.reached["may go: "+string(fate)]++
		}
	}
	for _, id := range f.gone {
		delete := func(what string, applied, late bool) {
			n := x.copy(w)
			s := &n.procs[p]
			s.list = without(s.list, id)
			if applied {
				x.delete(n, id)
			}
			if late {
				n.faults--
				n.deletes = with(n.deletes, id)
			}
			x.weighs(n, p)
			x.emit(n, p, what, x.byID[id-1])
		}
		delete("deletes", true, false)
		if w.faults > 0 && x.cfg.astray {
			delete("deletes, no reply, late:", false, true)
			delete("deletes, a copy is late:", true, true)
		}
	}
	if len(f.rest) > 0 && int(w.procs[p].drafts) < x.cfg.actors[p].limit() {
		n := x.copy(w)
		x.barrier(n, p)
		x.emit(n, p, "proposes", tried(n, p))
	}
}

// delete takes a segment off the store.
func (x *explorer) delete(w *world, id int) {
	w.objects = without(w.objects, id)
	x.checkObjects(w)
}

// barrier lets gc propose an epoch above that of everything it listed, in a void
// where there is no log.
func (x *explorer) barrier(n *world, p int) {
	s := &n.procs[p]
	s.drafts++
	s.made++
	if r := s.base.record(); r == nil || r.State == StateVoid {
		x.reached["void"]++
	} else {
		x.reached["barrier"]++
	}
	k := barrierKey{p, s.made, fateKey{s.base.number(), s.list, n.tick}}
	prop, ok := x.barriers[k]
	if !ok {
		var err error
		if prop, err = x.barrierProp(n, p); err != nil {
			x.failed(n, p, Head{}, err)
			return
		}
		x.barriers[k] = prop
	}
	s.try = prop
	x.launch(n, p)
}

// barrierKey is all that a barrier depends on.
type barrierKey struct {
	actor int
	made  uint8
	fateKey
}

func (x *explorer) barrierProp(n *world, p int) (*prop, error) {
	s := &n.procs[p]
	base := s.base.record()
	x.commitID = fmt.Sprintf("%s.%d.%d", x.name(p), s.made, revisionAfter(base))
	list := x.listed(s.list)
	if x.cfg.broken.low {
		list = nil
	}
	rm := x.removal(n)
	rm.Now-- // commits are made at the full hour
	proposal, err := rm.Barrier(base, theLog, x.writer(p), list)
	if err != nil {
		return nil, err
	}
	return x.sealed(proposal, p, s.base, -1, "", nil)
}
