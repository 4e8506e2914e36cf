package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// run commits what is queued until nothing is left. There is at most one at a
// time per handle, so that one conditional PUT is in flight, and none while
// nothing is to be done.
func (l *Log) run(idle chan struct{}) {
	defer close(idle)
	answered := 0
	for {
		l.gather(answered)
		ops := l.take()
		if len(ops) == 0 {
			return
		}
		l.commit(ops)
		answered = len(ops)
	}
}

// gather waits a little for the callers that the last commit has answered, where
// there are others: who comes back just after a commit has begun would wait for
// two.
func (l *Log) gather(answered int) {
	wait := l.pace.gather()
	if answered == 0 || wait == 0 {
		return
	}
	l.mu.Lock()
	callers := len(l.queue) + answered
	if callers > 1 {
		l.awaited = callers
	}
	l.mu.Unlock()
	if callers == 1 {
		return
	}
	l.pause(wait, l.arrived)
	l.mu.Lock()
	l.awaited = 0
	l.mu.Unlock()
	select {
	case <-l.arrived: // too late to matter
	default:
	}
}

// pause waits for a while, or until early or a Close ends it.
func (l *Log) pause(d time.Duration, early <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-early:
	case <-l.hurry:
	}
}

// take waits until the next commit may begin, and takes its batch off the queue:
// as much as one commit may hold, and at least one operation. None left ends run.
func (l *Log) take() []*appendOp {
	l.mu.Lock()
	if len(l.queue) == 0 {
		l.running = false
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	if wait := l.pace.delay(time.Now()); wait > 0 {
		l.pause(wait, nil)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n, size := 0, int64(0)
	for n < len(l.queue) && (n == 0 || size+l.queue[n].size <= int64(l.b.opt.MaxBatch)) {
		size += l.queue[n].size
		n++
	}
	ops := l.queue[:n:n]
	l.queue = l.queue[n:]
	if n == 0 {
		l.running = false
	}
	return ops
}

// commit sends one batch and tells everybody what became of it.
func (l *Log) commit(ops []*appendOp) {
	l.mu.Lock()
	err := l.err
	l.mu.Unlock()
	if err != nil {
		l.finish(ops, func(op *appendOp) { op.err = op.refusal(err) })
		return
	}
	l.pace.begin(time.Now())
	// Whoever waits may stop waiting; what was sent is decided all the same.
	ctx, cancel := context.WithTimeout(context.Background(), l.b.opt.CommitTimeout)
	defer cancel()
	ctx, links := l.b.tel.callers(ctx, ops)
	c := &batch{l: l, ops: ops}
	if err := l.look(ctx, ops); err != nil {
		l.failed(c, err)
		return
	}
	name := "append"
	if !slices.ContainsFunc(ops, (*appendOp).mayWrite) {
		name = "" // nothing that anybody would look for
	}
	res, err := l.b.commit(ctx, name, l.id, l.head, c.step, links...)
	if err == nil && res.Proposal == nil && l.lookAgain(ctx, c) {
		res, err = l.b.commit(ctx, name, l.id, l.head, c.step, links...)
	}
	if l.pace.end(time.Now(), res) {
		l.b.tel.slowed(ctx, l.id, l.pace.slower)
	}
	if err != nil {
		l.failed(c, err)
		return
	}
	l.landed(c, res)
}

// landed takes a commit that is in the log, or that needed no write.
func (l *Log) landed(c *batch, res manifest.Result) {
	l.head = res.Head
	var sticky error
	if res.Proposal != nil {
		l.owned = true
		l.used(c)
		if res.Head.Record.Commit.ID == res.Proposal.Record.Commit.ID {
			l.tail, l.tailOf = c.tail, res.Proposal.Record.Commit.ID
		}
		if res.Fenced {
			sticky = fencedOrNil(res.Head.Record, l.w.ID)
		}
	}
	l.mu.Lock()
	if r := res.Head.Record; r != nil {
		l.next = r.Next
		if res.Proposal == nil {
			l.next += c.opening // still to be written
		}
		l.b.remember(l.id, r)
	}
	if sticky != nil {
		l.err = sticky
	}
	l.mu.Unlock()
	l.finish(c.ops, func(op *appendOp) {
		out := c.out[op]
		op.receipt, op.err = out.receipt, out.err
		if op.err != nil {
			return
		}
		at := res.Head.Record
		if res.Proposal != nil {
			at = res.Proposal.Record
		}
		op.receipt.Log = l.id
		if at != nil {
			op.receipt.place(at)
		}
	})
	if sticky == nil {
		l.startBackground()
	}
}

// failed takes a commit that is not in the log, or of which it is not known. It
// ends the handle: what was to come after it must not land without it.
func (l *Log) failed(c *batch, err error) {
	head := c.base
	ce, judged := isCommitError(err)
	if judged {
		if ce.Head.Record != nil {
			head = ce.Head
		}
		ce.Intent.First, ce.Intent.Count = ce.Intent.Start, ce.Intent.End-ce.Intent.Start
	}
	l.mu.Lock()
	l.err = err
	rest := l.queue
	l.queue = nil
	l.mu.Unlock()
	l.finish(c.ops, func(op *appendOp) {
		out, settled := c.out[op]
		if settled && out.err != nil {
			op.err = out.err // its own fault, found before anything was sent
			return
		}
		// Step 2 of the decision procedure: a key that is in the log settles a
		// keyed append, whatever became of this commit.
		if e, found, kerr := head.Record.LookupKey(op.key, op.digest); found {
			if op.err = kerr; kerr == nil {
				op.receipt = Receipt{Log: l.id, First: e.First, Count: e.Count, Duplicate: true}
				op.receipt.place(head.Record)
			}
			return
		}
		op.err = err
		if judged && op.intent != nil {
			own := *ce
			own.Intent = *op.intent
			op.err = &own
		}
	})
	l.finish(rest, func(op *appendOp) { op.err = op.refusal(err) })
}

// mayWrite reports whether an operation is more than a barrier.
func (op *appendOp) mayWrite() bool {
	return len(op.events) > 0 || op.last || op.seal || op.claim
}

// refusal is what an operation is told that came after the one that ended the
// handle.
func (op *appendOp) refusal(err error) error {
	if len(op.events) == 0 && !op.claim {
		return err // it only asked what became of those before it
	}
	return &unsentError{err}
}

// unsentError is the sticky error of a handle, told to an append that was never
// sent. It is everything that its cause is except ErrOutcomeUnknown, and has no
// token: that outcome is another append's, and this one's is known.
type unsentError struct{ cause error }

func (e *unsentError) Error() string {
	return "not sent, as this handle has failed: " + e.cause.Error()
}

func (e *unsentError) Is(target error) bool {
	return target != ErrOutcomeUnknown && errors.Is(e.cause, target)
}

func (e *unsentError) As(target any) bool {
	if _, token := target.(**manifest.CommitError); token {
		return false
	}
	return errors.As(e.cause, target)
}

func (l *Log) finish(ops []*appendOp, set func(*appendOp)) {
	l.mu.Lock()
	var late []*appendOp // nobody waits for it any more, and somebody has its token
	for _, op := range ops {
		set(op)
		if op == l.last && op.err != nil && l.err == nil {
			l.last = nil // nothing was released
		}
		if op.cancelled && op.intent != nil && !errors.Is(op.err, ErrOutcomeUnknown) {
			late = append(late, op)
		}
		l.held -= l.weight(op)
		close(op.done)
	}
	l.admit()
	l.mu.Unlock()
	for _, op := range late {
		l.b.tel.decided(context.Background(), l.id, op.err == nil, op.intent.First)
	}
}

// batch is one commit in the making. Its step is called anew after every
// rebase, with everything derived anew from what is there then.
type batch struct {
	l    *Log
	ops  []*appendOp
	out  map[*appendOp]outcome
	base manifest.Head
	tail tail // after this commit
	// opening counts the events that opening the handle has to write.
	opening int64
	// What the commit names beside its own events.
	sealed, merged *prepared
}

type outcome struct {
	receipt Receipt
	err     error
}

// errAbandoned ends a handle whose caller has left with a token, when the commit
// of that token did not land. Trying again would put the events into the log
// after somebody was told that they are not in it.
var errAbandoned = errors.New("not committed; its caller did not wait, so it was not tried again")

func (c *batch) step(ctx context.Context, base manifest.Head) (*manifest.Proposal, error) {
	l := c.l
	c.base = base
	if err := l.follow(base.Record); err != nil {
		return nil, err
	}
	l.mu.Lock()
	abandoned := c.abandoned()
	l.mu.Unlock()
	if abandoned {
		return nil, errAbandoned
	}
	for {
		p, err := c.propose(ctx, base.Record)
		if errors.Is(err, manifest.ErrStaleUpload) && (c.sealed != nil || c.merged != nil) {
			l.forget(c) // prepared for a version that is gone: an orphan for gc
			continue
		}
		if err != nil || p == nil {
			return nil, err
		}
		if ok, err := c.send(&p.Intent); ok || err != nil {
			return p, err
		}
		// Somebody took an append back while we were at it.
	}
}

// send marks the operations as sent. It reports false where one that the
// proposal holds was cancelled before that: then the proposal must be made again
// without it.
func (c *batch) send(p *manifest.Intent) (bool, error) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if c.abandoned() {
		return false, errAbandoned
	}
	for _, op := range c.ops {
		if _, held := c.out[op]; held && op.cancelled && op.intent == nil {
			return false, nil
		}
	}
	for _, op := range c.ops {
		if out, held := c.out[op]; held {
			op.intent = out.intent(op, *p)
		}
	}
	return true, nil
}

// intent is the part of a commit that concerns one operation: what its caller's
// token says. nil where the commit does nothing for it, so that nothing about it
// can be unknown.
func (o *outcome) intent(op *appendOp, in manifest.Intent) *manifest.Intent {
	n := o.receipt.Count
	if o.err != nil || n == 0 && !op.last && !op.seal && !op.claim {
		return nil
	}
	in.First, in.Count, in.Keys = o.receipt.First, n, nil
	if op.key != "" && n > 0 {
		in.Keys = []manifest.KeyEntry{{Key: op.key, First: in.First, Count: n, Digest: op.digest}}
	}
	return &in
}

// abandoned reports whether somebody left whose events were sent already, and
// so holds a token for a commit that did not land. l.mu is held.
func (c *batch) abandoned() bool {
	for _, op := range c.ops {
		if op.cancelled && op.intent != nil && !c.out[op].receipt.Duplicate {
			return true
		}
	}
	return false
}

// follow makes the local tail that of base, which is not our own last commit
// where somebody else committed, or a reply was lost.
func (l *Log) follow(base *manifest.Record) (err error) {
	switch {
	case base == nil || base.State != manifest.StateOpen:
		l.tail, l.tailOf = tail{}, ""
		return nil
	case l.tailOf == base.Commit.ID:
		return nil
	}
	if l.tail, err = readTail(l.codec, base); err != nil {
		return &OpError{Op: "append", Log: l.id, Key: manifest.Key(l.id), Seq: base.TailFirst(), Err: err}
	}
	l.tailOf = base.Commit.ID
	return nil
}

// begin is the draft that this commit builds on.
func (l *Log) begin(ctx context.Context, base *manifest.Record, at int64) (*manifest.Draft, error) {
	if l.owned || base != nil && base.Owner != nil && base.Owner.Writer == l.w.ID {
		return manifest.Continue(base, l.w, at)
	}
	return l.open(ctx, base, at)
}

// propose builds the next manifest, or nil if there is nothing to write.
func (c *batch) propose(ctx context.Context, base *manifest.Record) (*manifest.Proposal, error) {
	l := c.l
	at := l.b.now()
	d, err := l.begin(ctx, base, at)
	if err != nil {
		return nil, err
	}
	appended, err := c.fill(d)
	if err != nil {
		return nil, err
	}
	release, seal, claim, renew := c.asked()
	claim = claim && !l.owned || renew
	if appended == 0 && !claim && (!l.owned || base.Owner.Released) {
		release, seal = false, false // nothing is ours to release, or we did it already
	}
	if appended == 0 && !claim && !release && (!seal || l.tail.next() == l.tail.first) {
		return nil, nil
	}
	lines, count := d.Lines() // with those of the opening
	t, err := c.nameSealed(d, l.tail)
	if err != nil {
		return nil, err
	}
	// Only appends pay for upkeep: what a resume costs does not depend on the log.
	upkeep := l.b.opt.Foreground && appended > 0
	if err := c.nameMerged(ctx, d, upkeep && !l.b.opt.PauseMerging); err != nil {
		return nil, err
	}
	limit := sealHard
	if upkeep {
		limit = sealSoft
	}
	// What surely is too much is not compressed twice.
	big := t.raw()+len(lines) > maxTailRaw
	next := t
	if !big {
		if next, err = t.add(l.codec, lines, count); err != nil {
			return nil, err
		}
	}
	if seal && count == 0 && t.next() == t.first {
		seal = false // what was ready holds everything
	}
	if big || seal || next.over(limit) {
		if l.sealer.running() && !big {
			// It takes most of the tail off our hands; but one that hangs must not
			// use up all our time.
			l.sealer.waitOrStop(ctx, l.b.opt.CommitTimeout/2)
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			return c.propose(ctx, base)
		}
		if next, err = l.sealNow(ctx, d, t, lines, count); err != nil {
			return nil, err
		}
	}
	d.SetTail(next.bytes())
	if release {
		d.Release()
	}
	p, err := d.Finish()
	if err != nil {
		return nil, err
	}
	c.tail = next
	return p, nil
}

// fill adds the events of all operations that may go ahead, in order, and notes
// for each what it will be told if the commit lands. It returns their number.
func (c *batch) fill(d *manifest.Draft) (count int64, err error) {
	c.out = make(map[*appendOp]outcome, len(c.ops))
	_, c.opening = d.Lines()
	begin := d.Next() - c.opening
	for _, op := range c.ops {
		if c.gone(op) {
			continue
		}
		e, found, kerr := d.LookupKey(op.key, op.digest)
		first := d.Next()
		switch {
		case op.judge != nil:
			op.judge.judge(d)
			c.out[op] = outcome{receipt: Receipt{First: first}}
			continue
		case op.claim:
			c.out[op] = outcome{receipt: Receipt{First: begin, Count: c.opening}}
			continue
		case kerr != nil:
			c.out[op] = outcome{err: kerr}
			continue
		case found:
			c.out[op] = outcome{receipt: Receipt{First: e.First, Count: e.Count, Duplicate: true}}
			continue
		case op.expect != nil && *op.expect != first:
			c.out[op] = outcome{err: fmt.Errorf("%w: the log continues at %d, %d was expected", segment.ErrSeqMismatch, first, *op.expect)}
			continue
		}
		if err := op.fits(first); err != nil {
			c.out[op] = outcome{err: err}
			continue
		}
		for i := range op.events {
			ev, err := op.events[i].Assign(d.Next())
			if err != nil {
				return 0, err
			}
			d.Append(ev)
		}
		n := int64(len(op.events))
		count += n
		if op.key != "" && n > 0 {
			d.Keyed(manifest.KeyEntry{Key: op.key, First: first, Count: n, Digest: op.digest})
		}
		c.out[op] = outcome{receipt: Receipt{First: first, Count: n}}
	}
	return count, nil
}

// gone reports whether nobody waits for an operation that was never sent.
func (c *batch) gone(op *appendOp) bool {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	return op.cancelled && op.intent == nil
}

// fits checks the seqs that the caller gave: PrepareBatch has seen that they
// are contiguous, so the first one tells.
func (op *appendOp) fits(first int64) error {
	if len(op.events) == 0 {
		return nil
	}
	if _, err := op.events[0].Assign(first); err != nil {
		var ee *segment.EventError
		if errors.As(err, &ee) {
			ee.Index = 0
		}
		return err
	}
	return nil
}

// asked tells what the operations want done beside their events.
func (c *batch) asked() (release, seal, claim, renew bool) {
	for _, op := range c.ops {
		if out, in := c.out[op]; in && out.err == nil {
			release = release || op.last
			seal = seal || op.seal
			claim = claim || op.claim && (!op.spare || c.opening > 0)
			renew = renew || op.renew
		}
	}
	return release, seal, claim, renew
}
