package manifest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// stepKey is all that a proposal depends on.
type stepKey struct {
	actor, base, ups0, ups1, token int
	op, made, drafts, tick         uint8
	owned, sent                    bool
}

// stepOut is what a step came to.
type stepOut struct {
	prop     *prop
	receipt  *KeyEntry // of the first append under this key, instead of a prop
	err      error
	ups      [2]*object // what is left of the uploads
	uploaded *object    // on the way
}

// proposes is step where something may happen before and after it, and where
// the upload that it makes may fail.
func (x *explorer) proposes(w *world, p int) {
	n := x.copy(w)
	o := x.step(n, p)
	x.emit(n, p, "proposes", tried(n, p))
	if o == nil || w.faults == 0 || !x.cfg.astray {
		return
	}
	n = x.copy(w)
	n.faults--
	n.astray = with(n.astray, o.id)
	n.procs[p].made++
	x.failed(n, p, Head{}, errUpload)
	x.emit(n, p, "uploads, no reply, late:", o)
	n = x.copy(w)
	n.faults--
	x.step(n, p)
	n.astray = with(n.astray, o.id)
	x.emit(n, p, "uploads, its copy is late, and proposes", tried(n, p))
}

// step proposes p's next commit. It returns what was uploaded on the way.
func (x *explorer) step(n *world, p int) *object {
	a, s := &x.cfg.actors[p], &n.procs[p]
	x.now = x.clock(n)
	if a.role == writer && s.sent && s.left && !x.cfg.broken.retryAbandoned {
		x.failed(n, p, Head{}, errAbandoned)
		return nil
	}
	k := stepKey{
		actor: p, base: s.base.number(), ups0: s.ups[0].number(), ups1: s.ups[1].number(),
		op: s.op, made: s.made, drafts: s.drafts, tick: n.tick, owned: s.owned, sent: s.sent,
	}
	if a.role == decider {
		k.token = n.procs[a.settles].token.number()
	}
	if a.role == maintains || a.role == deletes {
		if s.drafts++; int(s.drafts) > a.limit() {
			x.done(s)
			return nil
		}
	}
	out, ok := x.steps[k]
	if !ok {
		switch a.role {
		case writer:
			out = x.writerStep(p, s)
		case decider:
			out = x.deciderStep(p, s, n.procs[a.settles].token)
		default:
			out = x.otherStep(p, s)
		}
		x.steps[k] = out
	}
	s.ups = out.ups
	if o := out.uploaded; o != nil {
		if x.cfg.broken.childFirst {
			n.astray = with(n.astray, o.id) // it goes out later, if at all
		} else {
			x.put(n, o)
		}
		s.made++
	}
	switch {
	case out.err != nil:
		x.failed(n, p, Head{}, out.err)
	case out.prop == nil:
		s.try = nil
		if out.receipt != nil && !s.left {
			x.toldCommitted(n, p, int(s.op), out.receipt.First, out.receipt.Count, true)
		}
		x.landed(n, p, s.base.asHead(), false)
	default:
		s.try, s.pc = out.prop, pcDraft
		if !a.leaves {
			x.launch(n, p)
		}
	}
	return out.uploaded
}

// on is the version that a writer builds on: the one that it knows, unless a
// broken rule lets it take that for another.
func (x *explorer) on(s *proc) *version {
	if s.base != nil && x.cfg.broken.on != nil {
		return x.cfg.broken.on(s.base, !s.owned)
	}
	return s.base
}

// open begins an actor's first commit, as package seedpath does.
func (x *explorer) open(p int, base *Record, w Writer) (*Draft, error) {
	a := &x.cfg.actors[p]
	if a.open == create || a.open == fork || a.open == createOrAdopt && (base == nil || base.State == StateVoid) {
		kind := KindFresh
		if a.open == fork {
			kind = KindFork
		}
		return Create(base, w, Birth{Log: theLog, Origin: Origin{Kind: kind}}, x.now)
	}
	return TakeOver(base, w, KindAdopt, x.now)
}

// writerStep is the step of a writer's handle, as package backend takes it: the
// next batch on top of base, and what was uploaded besides.
func (x *explorer) writerStep(p int, s *proc) stepOut {
	a, base := &x.cfg.actors[p], x.on(s).record()
	b := a.batches[s.op]
	w := x.writer(p)
	x.commitID = fmt.Sprintf("%s.%d.%d", x.name(p), s.op, revisionAfter(base))
	if x.cfg.broken.newBytes {
		x.commitID += fmt.Sprintf(".%d", s.drafts)
	}
	for ups := s.ups; ; ups = [2]*object{} {
		var d *Draft
		var err error
		if s.owned || base != nil && base.Owner != nil && base.Owner.Writer == w.ID {
			d, err = Continue(base, w, x.now)
		} else {
			d, err = x.open(p, base, w)
		}
		if err != nil {
			return stepOut{err: err, ups: ups}
		}
		if !x.cfg.broken.keyOnce || !s.sent {
			if e, found, err := d.LookupKey(hash16(b.key), hash16("lines")); err != nil {
				return stepOut{err: err, ups: ups}
			} else if found && b.key != "" {
				return stepOut{receipt: &e, ups: ups}
			}
		}
		adds := strings.Repeat(string(letter(p, int(s.op))), b.n)
		first := d.Next()
		if a.open == fork && s.op == 0 {
			// All but the last event, which stands for the boundary, are the parent's.
			past := x.stateOf(adds[:b.n-1])
			d.Inherit(past, &Parent{Log: "parent", UID: "parent", UpTo: past.Tree.Size, Root: past.Tree.Root})
		}
		for d.Next() < first+int64(b.n) {
			d.Append(event(adds[0], d.Next()))
		}
		if b.key != "" {
			d.Keyed(KeyEntry{Key: hash16(b.key), First: first, Count: int64(b.n), Digest: hash16("lines")})
		}
		out, err := x.finish(d, p, s, ups, adds)
		if errors.Is(err, ErrStaleUpload) && ups != [2]*object{} {
			continue // what was uploaded does not fit any more
		}
		out.err = err
		if s.sent && err == nil && ups != [2]*object{} {
			x.reached["kept an upload over another try"]++
		}
		return out
	}
}

// finish names what was uploaded, sets the tail and ends the draft.
func (x *explorer) finish(d *Draft, p int, s *proc, ups [2]*object, adds string) (stepOut, error) {
	a := &x.cfg.actors[p]
	out := stepOut{ups: ups}
	base := x.on(s)
	first := base.record().TailFirst()
	tail := base.tail() + adds
	var names []*object
	for _, o := range ups {
		switch {
		case o == nil:
			continue
		case o.upload.Ref.Name.Nonce[0] != byte(p), x.cfg.broken.kept: // of somebody else or of another commit (no rule of ours)
			u := o.upload
			u.Commit = d.CommitID()
			d.Seal(u)
			tail, first = tail[min(len(tail), int(u.end()-first)):], u.end()
		case len(o.upload.Inputs) > 0:
			d.Merge(o.upload)
		case o.upload.end() < first || o.upload.end() > first+int64(len(tail)):
			return out, ErrStaleUpload
		default:
			d.Seal(o.upload)
			tail = tail[o.upload.end()-first:]
			first = o.upload.end()
		}
		names = append(names, o)
	}
	if (a.sealOwn || a.open == fork && s.op == 0) && tail != "" {
		o := x.object(p, int(s.made), Upload{TailFirst: first, Commit: d.CommitID()}, d.Epoch(), first, tail)
		d.Seal(o.upload)
		names, tail = append(names, o), ""
		out.uploaded, out.ups = o, [2]*object{o}
	}
	d.SetTail([]byte(tail))
	if a.release && int(s.op) == len(a.batches)-1 {
		d.Release()
	}
	prop, err := x.seal(d, p, s.base, int(s.op), adds, names)
	out.prop = prop
	return out, err
}

// seal finishes a draft and makes it a prop.
func (x *explorer) seal(d *Draft, p int, base *version, batch int, adds string, names []*object) (*prop, error) {
	proposal, err := d.Finish()
	if err != nil {
		return nil, err
	}
	return x.sealed(proposal, p, base, batch, adds, names)
}

// sealed makes a proposal a prop.
func (x *explorer) sealed(proposal *Proposal, p int, base *version, batch int, adds string, names []*object) (_ *prop, err error) {
	if tweak := x.cfg.broken.tweak; tweak != nil {
		r := *proposal.Record
		tweak(base.record(), &r, &proposal.Intent)
		proposal.Record = &r
		if proposal.Body, err = r.Encode(); err != nil {
			return nil, err
		}
	}
	return x.prop(p, base, proposal, batch, adds, names), nil
}

// landed takes a commit that is in the log, or a step that needed none.
func (x *explorer) landed(n *world, p int, head Head, fenced bool) {
	a, s := &x.cfg.actors[p], &n.procs[p]
	if a.role != writer {
		x.otherLanded(n, p, head)
		return
	}
	s.base = x.versionOf(head)
	if s.try != nil {
		s.owned = true
		if !s.left {
			in := s.try.p.Intent
			x.toldCommitted(n, p, int(s.op), in.Start, in.End-in.Start, false)
		}
		for i, o := range s.ups {
			for _, named := range s.try.names {
				if o == named {
					s.ups[i] = nil // a segment is named once
				}
			}
		}
		if fenced {
			x.rest(n, p)
			return
		}
	}
	x.following(n, p)
}

// following goes on with the next batch.
func (x *explorer) following(n *world, p int) {
	a, s := &x.cfg.actors[p], &n.procs[p]
	s.op++
	s.sent, s.left, s.try, s.att, s.act = false, false, nil, nil, 0
	if int(s.op) == len(a.batches) {
		x.done(s)
		return
	}
	x.ready(n, p)
}

// failed takes a commit that did not land or of which it is not known. It ends
// the handle.
func (x *explorer) failed(n *world, p int, head Head, err error) {
	a, s := &x.cfg.actors[p], &n.procs[p]
	switch {
	case errors.Is(err, ErrOutcomeUnknown), errors.Is(err, ErrFenced), errors.Is(err, ErrDeleted), errors.Is(err, ErrExists),
		errors.Is(err, ErrDenied), errors.Is(err, context.DeadlineExceeded), errors.Is(err, errAbandoned), errors.Is(err, errUpload):
	case x.cfg.removal && errors.Is(err, ErrNotFound):
	default:
		x.fail("INTERNAL", "%s: %v", x.name(p), err)
	}
	if a.role != writer {
		x.otherFailed(n, p, head, err)
		return
	}
	b := a.batches[s.op]
	known := s.base
	if head.Record != nil {
		known = x.versionOf(head)
	}
	e, found, _ := known.record().LookupKey(hash16(b.key), hash16("lines"))
	found = found && b.key != "" && !x.cfg.broken.keyNotAfterwards
	switch {
	case s.left:
	case found:
		x.toldCommitted(n, p, int(s.op), e.First, e.Count, true)
	case errors.Is(err, ErrOutcomeUnknown):
		x.reached["unknown"]++
		s.token = s.try
	default:
		x.toldNotCommitted(n, p, int(s.op), err, known)
	}
	if x.cfg.broken.notSticky {
		x.following(n, p)
		return
	}
	x.rest(n, p)
}

// rest tells the batches after the one in hand that they were not sent.
func (x *explorer) rest(n *world, p int) {
	s := &n.procs[p]
	for i := int(s.op) + 1; i < len(x.cfg.actors[p].batches); i++ {
		n.denied |= bit(letter(p, i))
	}
	x.done(s)
}

// leave lets the caller of the batch in hand go, with a token if it was sent.
func (x *explorer) leave(w *world, p int) {
	a, s := &x.cfg.actors[p], &w.procs[p]
	if !a.leaves || s.left || s.pc != pcReady && s.pc != pcDraft && s.pc != pcAttempt {
		return
	}
	n := x.copy(w)
	s = &n.procs[p]
	if !s.sent {
		// Taken back: nobody was told anything else than that it was not sent.
		n.denied |= bit(letter(p, int(s.op)))
		n.back |= bit(letter(p, int(s.op)))
		x.following(n, p)
		x.emit(n, p, "its caller takes the batch back", nil)
		return
	}
	s.left = true
	s.token = s.lastSent
	x.emit(n, p, "its caller leaves with a token for", s.lastSent)
}

// errUpload: the upload of a segment has failed.
var errUpload = errors.New("upload failed")

func revisionAfter(r *Record) int64 {
	if r == nil {
		return 1
	}
	return r.Revision + 1
}

func hash16(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}
