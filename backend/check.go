package backend

import (
	"context"
	"fmt"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// Pair is a bracket: an opening and a closing event type, and what pairs them.
type Pair = seedpath.Pair

// Verdict is balanced, stale or live, with its evidence.
type Verdict = seedpath.Verdict

// The answers of a verdict.
const (
	Balanced = seedpath.Balanced // nothing is open
	Stale    = seedpath.Stale    // what is open was left by a lifecycle that has ended
	Live     = seedpath.Live     // it is open, and that lifecycle has not ended
)

// CheckOptions say how thorough a check is.
type CheckOptions struct {
	// Verify derives the verdict again from the events and compares.
	Verify bool
}

// Check is what a log says about one bracket.
type Check struct {
	Log string
	Verdict
	// Unmatched are the seqs of all opening markers that nothing closed, of a
	// bracket that is paired by an id; else at most the one of the verdict.
	Unmatched []int64
	// WithoutID is how many opening markers that were read lack the id that
	// pairs them: nothing can close them, and the verdict leaves them out.
	WithoutID  int64
	LeaseState string // none, held, expired: whether the owner says that it is alive
	Lease      *manifest.Lease
	Owner      *manifest.Owner
	// Scanned is how many events were read for it: 0 for a positional bracket,
	// which the manifest alone answers.
	Scanned int64
}

// Check judges one bracket of a log. A positional pair is answered from the
// manifest alone: one GET, for a log of any length, unless one of its types is
// beyond the 256th of the log. Those, and pairs with an ID, are answered by
// reading the events between the first and the last of the two types.
func (r *Reader) Check(ctx context.Context, id string, pair Pair, opt CheckOptions) (Check, error) {
	if pair.Open == "" || pair.Close == "" || pair.Open == pair.Close {
		return Check{}, argError("check", id, "a bracket has two different event types, not %q and %q", pair.Open, pair.Close)
	}
	head, err := r.open(ctx, id)
	if err != nil {
		return Check{}, opError("check", id, err)
	}
	rec := head.Record
	c := Check{Log: id, Lease: rec.Lease, LeaseState: seedpath.LeaseState(rec, r.now()), Owner: rec.Owner}
	v, ok := seedpath.Judge(rec, pair.Open, pair.Close)
	if ok && pair.ID == "" {
		c.Verdict = v
		if v.Open != nil {
			c.Unmatched = []int64{v.Open.Seq}
		}
		if !opt.Verify {
			return c, nil
		}
	}
	from, to := scanSpan(rec, pair)
	if opt.Verify {
		from, to = 0, rec.Next
	}
	scan := seedpath.NewScan(pair)
	if err := r.scan(ctx, head, from, to, scan, &c.Scanned); err != nil {
		return Check{}, opError("check", id, err)
	}
	found := scan.Verdict(rec)
	if opt.Verify {
		if b := scan.Bound(); (b == nil) != (rec.Content.Boundary == nil) || b != nil && *b != *rec.Content.Boundary {
			return Check{}, opError("check", id, fmt.Errorf("%w: the events have another newest boundary than the manifest", ErrCorrupt))
		}
		if ok && pair.ID == "" && (found.Answer != v.Answer || (found.Open == nil) != (v.Open == nil) || found.Open != nil && *found.Open != *v.Open) {
			return Check{}, opError("check", id, fmt.Errorf("%w: the events say %s, the manifest %s", ErrCorrupt, found.Answer, v.Answer))
		}
	}
	c.Verdict, c.Unmatched, c.WithoutID = found, scan.Unmatched(), scan.WithoutID()
	return c, nil
}

// Judge is the verdict on a positional bracket by what the manifest said; ok is
// false where it does not tell, see Check.
func (in *Info) Judge(open, close string) (v Verdict, ok bool) {
	return seedpath.Judge(in.record(), open, close)
}

// JudgeScan is the verdict of a scan over the events of the log as info has it.
func (in *Info) JudgeScan(s *seedpath.Scan) Verdict { return s.Verdict(in.record()) }

// record has what a verdict is about.
func (in *Info) record() *manifest.Record {
	return &manifest.Record{Revision: in.Revision, Content: in.Content, Origin: in.Origin, Generations: in.History}
}

// scanSpan is where events of the pair can be: nowhere, if neither has appeared.
func scanSpan(rec *manifest.Record, pair Pair) (from, to int64) {
	from = rec.Next
	for _, typ := range []string{pair.Open, pair.Close} {
		t, exact := rec.Content.Types.Get(typ)
		if !exact {
			t = *rec.Content.Types.Overflow
		}
		if t.Count > 0 {
			from, to = min(from, t.First), max(to, t.Last+1)
		}
	}
	return from, to
}

func (r *Reader) scan(ctx context.Context, head manifest.Head, from, to int64, scan *seedpath.Scan, n *int64) error {
	var failed error
	_, _ = r.span(ctx, head, from, to, func(e Event, err error) bool {
		var ev segment.Event
		if err == nil {
			ev, err = e.Parse()
		}
		if failed = err; err != nil {
			return false
		}
		*n++
		scan.Add(ev)
		return true
	})
	return failed
}

// Check judges a positional bracket as this handle sees its log, without a
// request (unless it was created OrAdopt and has not looked yet): the boundary
// that a pending resume has yet to write counts as present, which nobody else
// can see. It is as old as the handle's last commit
// or read; to act on it safely, append the opening marker with ExpectNext = the
// seq that is returned.
func (l *Log) Check(ctx context.Context, open, close string) (v Verdict, next int64, err error) {
	// Behind everything that is queued, so that nothing else touches the state.
	op := &appendOp{judge: &judging{open: open, close: close}, done: make(chan struct{})}
	if _, err := l.submit(ctx, "check", op); err != nil {
		return Verdict{}, 0, err
	}
	return op.judge.verdict, op.judge.next, op.judge.err
}

// judging is a question to a handle on its way through the queue.
type judging struct {
	open, close string
	verdict     Verdict
	next        int64
	err         error
}

// judge answers from a draft: what is committed, and what opening the handle
// would add.
func (j *judging) judge(d *manifest.Draft) {
	rec := d.Preview()
	v, ok := seedpath.Judge(rec, j.open, j.close)
	if !ok {
		j.err = fmt.Errorf("the log has too many event types for its manifest to tell about %q and %q; name them when a log is created", j.open, j.close)
	}
	j.verdict, j.next = v, rec.Next
}
