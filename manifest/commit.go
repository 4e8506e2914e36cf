package manifest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/s3log/s3log/backend/objstore"
)

// Step yields the next manifest from the version that it will be conditioned
// on: a pure transition, called again after every rebase with what is there
// then. A nil proposal means that nothing needs to be written (a key found its
// first receipt). An error ends the commit, with nothing of this step written.
// What the manifest newly names must be on the store when Step returns.
type Step func(ctx context.Context, base Head) (*Proposal, error)

// Options tune a commit.
type Options struct {
	// Clock takes the dates of the replies; nil means none is kept.
	Clock *objstore.Clock
	// MinBackoff and MaxBackoff bound the jittered exponential wait between two
	// attempts; 0 means 50 ms and 5 s.
	MinBackoff, MaxBackoff time.Duration
}

// now is the store's time in ms, as far as it is known.
func (o Options) now() int64 {
	if o.Clock == nil {
		return time.Now().UnixMilli()
	}
	return o.Clock.Now().UnixMilli()
}

// Result is a commit that landed, or needed no write.
type Result struct {
	// Head is the newest version known: our own commit, or one that came later.
	Head Head
	// Proposal is what landed; nil if nothing was written.
	Proposal *Proposal
	// Fenced: it landed, and since then another writer took over (Head says who).
	Fenced bool
	// Attempts counts the PUTs sent, Throttled those that the store asked to send
	// less often, Reads the manifests read to find out what became of one.
	Attempts, Throttled, Reads int
}

// CommitError is a commit that did not land, or of which it is not known.
type CommitError struct {
	// Verdict is Unknown where only Settle can tell; otherwise it did not land.
	Verdict Verdict
	// Head is the version that the verdict rests on. It may hold the key of an
	// append that did not land: ask LookupKey before passing the error on.
	Head Head
	// Intent is the commit in question; its Token settles an unknown outcome.
	Intent Intent
	// Err is the reason: ErrFenced, ErrDeleted, ErrNotFound, ErrOutcomeUnknown,
	// ErrUnsupportedStore, ErrDenied, or the store's error.
	Err error
}

func (e *CommitError) Error() string { return e.Err.Error() }
func (e *CommitError) Unwrap() error { return e.Err }

// Commit is the commit loop (docs/consistency.md): it proposes, sends the one
// conditional PUT until something decides, and starts over on what it finds
// where that is allowed. When it returns nil the commit is durable. It gives up
// when ctx ends; whether the commit then landed is for the *CommitError to say.
// All attempts of one commit send the same bytes and the same precondition.
func Commit(ctx context.Context, st objstore.Store, base Head, step Step, opt Options) (Result, error) {
	var res Result
	retags := 0
	for {
		p, err := step(ctx, base)
		if err != nil {
			return res, err
		}
		if p == nil {
			res.Head = base
			return res, nil
		}
		if base.Record != nil && base.Version.IsZero() {
			return res, &CommitError{Verdict: Rebase, Head: base, Intent: p.Intent, Err: fmt.Errorf(
				"%w: it gave no version of the manifest that a condition can name (a proxy that weakens or drops ETags?)", ErrUnsupportedStore)}
		}
		a := newAttempt(p, base)
		a.retags = retags
		out := run(ctx, st, a, opt, &res)
		if out.restart {
			if out.verdict == Unmoved {
				retags++
			} else {
				retags = 0
			}
			base = out.head
			continue
		}
		if out.err != nil {
			return res, &CommitError{Verdict: out.verdict, Head: out.head, Intent: p.Intent, Err: out.err}
		}
		res.Head, res.Proposal, res.Fenced = out.head, p, out.verdict == CommittedFenced
		return res, nil
	}
}

// run performs what the attempt asks for until it is decided.
func run(ctx context.Context, st objstore.Store, a *attempt, opt Options, res *Result) outcome {
	wait := backoff{min: opt.MinBackoff, max: opt.MaxBackoff}
	act := actSend
	for {
		switch act {
		case actWaitSend, actWaitRead:
			if err := wait.sleep(ctx); err != nil {
				return a.giveUp(err)
			}
		}
		switch act {
		case actSend, actWaitSend:
			if ctx.Err() != nil {
				return a.giveUp(context.Cause(ctx))
			}
			res.Attempts++
			info, err := st.Put(ctx, a.key, a.p.Body, a.cond, objstore.PutOptions{Metadata: a.p.Record.metadata(), ContentType: "application/json"})
			if opt.Clock != nil {
				opt.Clock.Observe(cmp.Or(info.Date, objstore.DateOf(err)))
			}
			if errors.Is(err, objstore.ErrThrottled) {
				res.Throttled++
			}
			act = a.replied(info.Version, err)
		case actRead, actWaitRead:
			res.Reads++
			head, err := Load(ctx, st, a.p.Record.Log, LoadOptions{Clock: opt.Clock})
			if errors.Is(err, ErrNotFound) {
				head, err = Head{}, nil
			}
			act = a.read(head, err)
		}
		if act == actDone {
			return a.out
		}
	}
}

// errNoVersion is a reply of success without the version of what was written.
var errNoVersion = fmt.Errorf("%w: success, without a version of what was written (a proxy that answers in the store's place?)", objstore.ErrUndecided)

// action is what an attempt wants done next.
type action uint8

const (
	actSend     action = iota // PUT the same bytes under the same condition
	actWaitSend               // the same after a back-off
	actRead                   // GET the manifest
	actWaitRead               // the same after a back-off
	actDone                   // out says how it ended
)

// outcome ends an attempt: it landed (err nil), it did not and the step is to be
// taken again on head (restart), or it failed.
type outcome struct {
	head    Head
	verdict Verdict
	restart bool
	err     error
}

// maxRefusals is how often a condition may be refused while the version that it
// names is still there, before the store is taken to be one that cannot do it.
const maxRefusals = 4

// attempt is the decision procedure for one proposal, without I/O: it is told
// each reply and says what to do next. Package tests explore it exhaustively.
type attempt struct {
	p    *Proposal
	base Head
	key  string
	cond objstore.Condition

	sent      bool  // a PUT was sent
	undecided error // the first reply that left it open whether the PUT was, or will be, applied
	last      error // the newest reply that was not decisive
	refusals  int   // preconditions failed on an unmoved version
	retags    int   // attempts in a row before this one that met the same commit under another version
	out       outcome
}

func newAttempt(p *Proposal, base Head) *attempt {
	cond := objstore.IfAbsent()
	if base.Record != nil || !base.Version.IsZero() { // or an object that is no manifest
		cond = objstore.IfVersion(base.Version)
	}
	return &attempt{p: p, base: base, key: Key(p.Record.Log), cond: cond}
}

// replied takes the reply to the PUT.
func (a *attempt) replied(v objstore.Version, err error) action {
	a.sent = true
	switch objstore.Classify(err) {
	case objstore.Applied:
		if v.IsZero() {
			// It is ours, but only a read yields its version. And only a read shows that
			// it was the store who said so.
			if a.undecided == nil {
				a.undecided = errNoVersion
			}
			a.last = errNoVersion
			return actRead
		}
		return a.done(outcome{head: Head{Record: a.p.Record, Version: v}, verdict: Committed})
	case objstore.Precondition:
		a.last = err
		return actRead
	case objstore.TryAgain:
		a.last = err
		return actWaitSend
	case objstore.Undecided:
		if a.last == nil || !cutShort(err) {
			a.last = err
		}
		if a.undecided == nil {
			a.undecided = err
		}
		return actWaitSend
	}
	return a.failed(Rebase, err)
}

// read takes what the GET found; the zero Head stands for absence.
func (a *attempt) read(head Head, err error) action {
	if err != nil {
		a.last = err
		if errors.Is(err, objstore.ErrUndecided) {
			return actWaitRead
		}
		// A precondition failed, perhaps to our own write, and nobody can look.
		return a.unknown(err)
	}
	v := rules.judge(a.p.Intent, head.Record)
	switch v {
	case Committed, CommittedFenced:
		return a.done(outcome{head: head, verdict: v})
	case Unmoved:
		if head.Version != a.base.Version {
			// The same commit under another version: what we were given with it was
			// the version of an older body (a torn read), so our condition can never
			// hold and the PUT never lands.
			if a.retags >= maxRefusals {
				return a.failed(Unmoved, fmt.Errorf("%w: it names another version of the same manifest at every read", ErrUnsupportedStore))
			}
			return a.done(outcome{head: head, verdict: v, restart: true})
		}
		if a.refusals++; a.refusals > maxRefusals {
			return a.failed(Unmoved, fmt.Errorf("%w: it refuses a condition that holds (%s)", ErrUnsupportedStore, a.cond))
		}
		return actWaitSend
	case Rebase, StartOver:
		return a.done(outcome{head: head, restart: true})
	case Fenced:
		return a.failedOn(head, v, FencedError(head.Record, a.p.Intent.Writer))
	case Deleted:
		return a.failedOn(head, v, ErrDeleted)
	case Gone:
		return a.failedOn(head, v, fmt.Errorf("%w: its manifest was removed", ErrNotFound))
	}
	a.out.head = head
	return a.unknown(errors.New("the manifest has moved on too far to tell"))
}

// failed ends an attempt that a reply decided against, unless an earlier copy
// of the same PUT is still open.
func (a *attempt) failed(v Verdict, err error) action {
	if a.undecided != nil {
		return a.unknown(err)
	}
	return a.failedOn(Head{}, v, err)
}

func (a *attempt) failedOn(head Head, v Verdict, err error) action {
	return a.done(outcome{head: head, verdict: v, err: err})
}

func (a *attempt) unknown(err error) action {
	return a.done(outcome{head: a.out.head, verdict: Unknown, err: fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)})
}

func (a *attempt) done(o outcome) action {
	a.out = o
	return actDone
}

// giveUp ends an attempt because its time is over. Only replies that surely
// decided against every PUT sent make that "not committed".
func (a *attempt) giveUp(cause error) outcome {
	if a.last != nil && !errors.Is(a.last, cause) {
		cause = fmt.Errorf("%w (last reply: %w)", cause, a.last)
	}
	if a.undecided != nil || (a.last != nil && objstore.Classify(a.last) != objstore.TryAgain) {
		a.unknown(cause)
	} else {
		a.failedOn(Head{}, Rebase, cause)
	}
	return a.out
}

// backoff is a jittered exponential wait.
type backoff struct {
	min, max time.Duration
	n        int
}

func (b *backoff) sleep(ctx context.Context) error {
	low, high := b.min, b.max
	if low <= 0 {
		low = 50 * time.Millisecond
	}
	if high <= 0 {
		high = 5 * time.Second
	}
	d := min(low<<min(b.n, 16), high)
	b.n++
	t := time.NewTimer(d/2 + rand.N(d/2+1))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
