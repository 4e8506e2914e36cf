package manifest

import (
	"context"
	"errors"
	"fmt"

	"github.com/s3log/s3log/backend/objstore"
)

type pc uint8

const (
	pcWait    pc = iota // a decider: for a token
	pcOpen              // is to read the manifest
	pcReady             // is to propose
	pcDraft             // has proposed, has not sent (only where callers may leave)
	pcAttempt           // runs the decision procedure
	pcRead              // a reader: is to read a segment
	pcDone
)

// proc is the state of one process.
type proc struct {
	pc    pc
	op    uint8 // batch in hand
	base  *version
	try   *prop // last proposed
	att   *attempt
	act   action
	owned bool // its first commit landed

	sent     bool  // the batch in hand was sent
	lastSent *prop // with this
	left     bool  // and its caller left
	token    *prop // of an unknown outcome, or one that a caller left with

	ups    [2]*object // uploaded, and named by nobody yet
	made   uint8      // uploads so far
	drafts uint8      // proposals so far, where that matters

	// gc:
	listed, looked bool     // has listed, has read
	list           string   // what it found and has not deleted
	wrote          bool     // its newest manifest is its own barrier (noted for broken rules only)
	first          *version // that it read first (the same)
	run            uint8    // which of its runs

	// A reader:
	at      uint8 // seq of the next event
	since   uint8 // hour in which it read the manifest
	missing int   // id of the segment that was not there
}

func (x *explorer) begin(w *world, p int) {
	a, s := &x.cfg.actors[p], &w.procs[p]
	switch {
	case a.role == decider:
		s.pc = pcWait
	case a.role == writer && a.open != adopt:
		x.ready(w, p)
	default:
		s.pc = pcOpen
	}
}

// writer is who an actor says it is.
func (x *explorer) writer(p int) Writer {
	if id := x.cfg.actors[p].id; id != "" {
		return Writer{ID: id}
	}
	return Writer{ID: x.name(p)}
}

// successors emits every state that may follow w.
func (x *explorer) successors(w *world) {
	x.arrivals(w)
	x.strays(w)
	x.hours(w)
	x.removals(w)
	for p := range x.cfg.actors {
		s := &w.procs[p]
		switch s.pc {
		case pcWait:
			if w.procs[x.cfg.actors[p].settles].token != nil {
				x.opens(w, p, "asks what became of", w.procs[x.cfg.actors[p].settles].token)
			}
		case pcOpen:
			switch x.cfg.actors[p].role {
			case collects:
				x.looks(w, p)
			case reads:
				x.reads(w, p)
			default:
				x.opens(w, p, "reads", w.head)
			}
		case pcReady:
			if x.cfg.actors[p].role == collects {
				x.collect(w, p)
				continue
			}
			x.proposes(w, p)
		case pcRead:
			x.fetches(w, p)
		case pcDraft:
			n := x.copy(w)
			x.launch(n, p)
			x.emit(n, p, "has proposed", tried(n, p))
		case pcAttempt:
			x.attempts(w, p)
		}
		x.background(w, p)
		x.leave(w, p)
	}
}

func tried(w *world, p int) fmt.Stringer {
	if w.procs[p].try == nil {
		return nil
	}
	return w.procs[p].try
}

// opens reads the manifest before anything else.
func (x *explorer) opens(w *world, p int, what string, about fmt.Stringer) {
	n := x.copy(w)
	s := &n.procs[p]
	s.base = w.head
	if r := s.base.record(); x.cfg.actors[p].role != decider && (r == nil || r.State != StateOpen) {
		x.done(s) // nothing to append to, to maintain or to delete
	} else {
		x.ready(n, p)
	}
	x.emit(n, p, what, about)
}

// ready lets p propose. Proposing looks at nothing but what p knows, so it need
// not be a step of its own, unless something may happen to p before.
func (x *explorer) ready(n *world, p int) {
	n.procs[p].pc = pcReady
	if x.cfg.actors[p].role == collects {
		x.weighs(n, p)
		return
	}
	if a := &x.cfg.actors[p]; a.seals+a.merges == 0 && !a.leaves && !a.sealOwn && a.role != maintains {
		x.step(n, p)
	}
}

// launch begins to send what was proposed.
func (x *explorer) launch(n *world, p int) {
	s := &n.procs[p]
	if s.left && s.sent && !x.cfg.broken.retryAbandoned && !x.cfg.broken.checkedEarly {
		x.failed(n, p, Head{}, errAbandoned)
		return
	}
	s.att = newAttempt(s.try.p, s.base.asHead())
	s.pc, s.act, s.sent, s.lastSent = pcAttempt, actSend, true, s.try
}

// attempts lets the decision procedure take its next step: the loop of run.
func (x *explorer) attempts(w *world, p int) {
	if x.cfg.actors[p].giveUp {
		n := x.copy(w)
		a := *n.procs[p].att
		x.ended(n, p, a.giveUp(context.DeadlineExceeded), a.sent || a.undecided != nil)
		x.emit(n, p, "gives up", w.procs[p].try)
	}
	switch w.procs[p].act {
	case actSend, actWaitSend:
		x.putManifest(w, p, func(n *world, v objstore.Version, err error) {
			s := &n.procs[p]
			a := *s.att
			if x.cfg.broken.refusalDecides && objstore.Classify(err) == objstore.Refused {
				a.undecided = nil
			}
			act := a.replied(v, err)
			if x.cfg.broken.believes && err == nil && v.IsZero() {
				act = a.done(outcome{head: w.procs[p].try.next.head, verdict: Committed})
			}
			x.next(n, p, &a, act, a.undecided != nil)
		})
	case actRead, actWaitRead:
		n := x.copy(w)
		a := *n.procs[p].att
		act := a.read(w.head.asHead(), nil)
		if act == actDone && a.out.verdict == Unknown && a.out.err != nil {
			x.fail("IMPOSSIBLE", "%s: %s says nothing about %s", x.name(p), w.head, w.procs[p].try)
		}
		x.next(n, p, &a, act, true)
		x.emit(n, p, "reads", w.head)
		if w.faults > 0 {
			n := x.copy(w)
			n.faults--
			a := *n.procs[p].att
			x.next(n, p, &a, a.read(Head{}, objstore.ErrDenied), true)
			x.emit(n, p, "may not read", nil)
		}
	}
}

// next takes what the procedure asks for. doubt says that an outcome that is
// unknown would not be strange.
func (x *explorer) next(n *world, p int, a *attempt, act action, doubt bool) {
	s := &n.procs[p]
	if act == actDone {
		x.ended(n, p, a.out, doubt)
		return
	}
	s.att, s.act = a, act
	if x.cfg.broken.newBytes && act == actWaitSend {
		s.drafts++
		undecided := a.undecided
		x.step(n, p)
		if s.att != nil {
			s.att.undecided = undecided
		}
	}
}

// ended takes the end of an attempt: the loop of Commit.
func (x *explorer) ended(n *world, p int, out outcome, doubt bool) {
	s := &n.procs[p]
	s.att, s.act = nil, 0
	switch {
	case out.restart:
		x.reached["again"]++
		s.base, s.wrote = x.versionOf(out.head), false
		x.ready(n, p)
	case out.err != nil:
		if errors.Is(out.err, ErrOutcomeUnknown) && !doubt {
			x.fail("UNCLEAR", "%s was told %v", x.name(p), out.err)
		}
		x.failed(n, p, out.head, out.err)
	default:
		x.landed(n, p, out.head, out.verdict == CommittedFenced)
	}
}

// done forgets what does not matter any more, so that states become equal.
func (x *explorer) done(s *proc) {
	*s = proc{pc: pcDone, token: s.token}
}

// errAbandoned is package backend's, for a commit that is not tried again.
var errAbandoned = errors.New("abandoned")
