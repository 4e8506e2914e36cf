package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// Backend writes logs, and reads them. It may be shared by all goroutines of a
// process; a log that one goroutine appends to is best opened once and shared,
// since every handle is a writer of its own and fences the one before.
type Backend struct {
	*Reader
	store objstore.Store
	tel   *telemetry // nil: nobody watches
	// merging bounds the memory of merges: one at a time per Backend.
	merging chan struct{}
}

// New makes a Backend on a store. It sends nothing.
func New(store objstore.Store, opt Options) *Backend {
	tel := newTelemetry(opt)
	return &Backend{Reader: NewReader(store, opt), store: tel.watch(store), tel: tel, merging: make(chan struct{}, 1)}
}

// Create opens a handle on a new log. It sends nothing: the log begins to exist
// with the first append, whose commit holds header and events together. That
// append fails with ErrExists where a log of this id is there already, unless
// OrAdopt is set.
func (b *Backend) Create(id string, opt CreateOptions) (*Log, error) {
	if err := manifest.CheckID(id); err != nil {
		return nil, argError("create", id, "%w", err)
	}
	header, created, err := checkHeader(opt.Header)
	if err != nil {
		return nil, argError("create", id, "header: %w", err)
	}
	w := b.writer()
	birth := manifest.Birth{Log: id, Header: header, Types: opt.Types, Activity: created}
	open := seedpath.Fresh(w, birth)
	if opt.OrAdopt {
		open = seedpath.FreshOrAdopt(w, birth, seedpath.AdoptOptions(opt.AdoptOptions))
	}
	// What can be refused without looking at the store is refused now.
	d, err := open(context.Background(), nil, b.now())
	if err == nil {
		err = w.Check()
	}
	if err == nil {
		_, err = d.Finish()
	}
	if err != nil {
		return nil, opError("create", id, err)
	}
	l := b.newLog(id, w, open, manifest.Head{})
	l.mayAdopt = opt.OrAdopt
	return l, nil
}

// rate is how many commits a second one log takes, as the options or the store
// say.
func (b *Backend) rate() objstore.Rate {
	switch r := b.opt.CommitRate; {
	case r < 0:
		return objstore.Rate{}
	case r > 0:
		return objstore.Rate{PerSecond: r}
	}
	return objstore.RateOf(b.store)
}

// look reads what is there where a handle that begins a log has not yet seen it,
// and something depends on that: if it may also adopt the log, an operation that
// says where the log must continue, or asks what is in it; and a lease, whose end
// must not be taken from a local clock, while the store has not said its time.
func (l *Log) look(ctx context.Context, ops []*appendOp) error {
	depends := func(op *appendOp) bool {
		if op.judge != nil || op.expect != nil && *op.expect != 0 {
			return true
		}
		if len(op.events) == 0 {
			return false
		}
		seq, given := op.events[0].HasSeq()
		return given && seq != 0
	}
	timeless := l.w.Lease > 0 && !l.b.clock.Known()
	if l.owned || l.head.Record != nil || !timeless && (!l.mayAdopt || !slices.ContainsFunc(ops, depends)) {
		return nil
	}
	head, err := l.b.load(ctx, l.id)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	l.head = head
	return err
}

// lookAgain reads what is there where a handle that owns nothing yet has told
// somebody that the log continues elsewhere: it may have been opened long ago. It
// reports whether there is something new.
func (l *Log) lookAgain(ctx context.Context, c *batch) bool {
	mismatch := func(op *appendOp) bool { return errors.Is(c.out[op].err, segment.ErrSeqMismatch) }
	if l.owned || l.head.Record == nil || !slices.ContainsFunc(c.ops, mismatch) {
		return false
	}
	head, err := l.b.load(ctx, l.id)
	if err != nil || head.Record.Commit.ID == l.head.Record.Commit.ID {
		return false
	}
	l.head = head
	return true
}

// Adopt opens a handle on a log that is there, to append where it stands: the
// next generation, without closers and without a boundary. It costs one GET and
// owns nothing before its first append has been committed. Errors: ErrNotFound,
// ErrDeleted, ErrHeld, and those of reading a manifest.
func (b *Backend) Adopt(ctx context.Context, id string, opt AdoptOptions) (*Log, error) {
	head, err := b.load(ctx, id)
	if err != nil {
		return nil, opError("adopt", id, err)
	}
	w := b.writer()
	open := seedpath.Adopt(w, seedpath.AdoptOptions(opt))
	_, err = open(ctx, head.Record, b.now())
	if err == nil {
		err = w.Check()
	}
	if err != nil {
		return nil, opError("adopt", id, err)
	}
	return b.newLog(id, w, open, head), nil
}

func (b *Backend) writer() manifest.Writer {
	w := manifest.NewWriter(b.opt.Label, b.opt.Software)
	w.Lease = b.opt.Lease
	return w
}

func (b *Backend) commitOptions() manifest.Options {
	return manifest.Options{Clock: &b.clock, MinBackoff: b.opt.MinBackoff, MaxBackoff: b.opt.MaxBackoff}
}

// Decision is what became of a commit whose outcome was unknown.
type Decision struct {
	Receipt
	Committed bool
}

// Decide settles an unknown outcome for good: after it returns, the commit that
// the token names is in the log or can never get there. Where only a write can
// settle it, it takes the log over (generation kind "decide", released at once),
// or puts a void in the place of a create; it writes nothing where the log has
// moved on. A keyed append that was committed by a repetition counts as
// committed, with that receipt. It is tried for Options.CommitTimeout; what could
// not be settled then can be asked again with the same token. The error is
// ErrOutcomeUnknown, too, where more than 64 takeovers have passed since and
// nobody can tell any more.
func (b *Backend) Decide(ctx context.Context, token string) (Decision, error) {
	in, err := manifest.ParseToken(token)
	if err != nil {
		return Decision{}, &OpError{Op: "decide", Seq: -1, Err: err, Hint: "pass the token exactly as it was printed"}
	}
	ctx, op := b.tel.begin(ctx, "decide", in.Log)
	d, err := b.decide(ctx, in)
	if err == nil {
		b.tel.decided(ctx, in.Log, d.Committed, d.First)
	}
	op.end(ctx, d.Receipt, err)
	return d, err
}

func (b *Backend) decide(ctx context.Context, in manifest.Intent) (Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, b.opt.CommitTimeout)
	defer cancel()
	w := b.writer()
	set, err := manifest.Settle(ctx, b.store, in, w, b.commitOptions())
	if err != nil {
		if errors.Is(err, ErrOutcomeUnknown) {
			// Of the settling commit. The question remains the one that was asked.
			err = &manifest.CommitError{Verdict: manifest.Unknown, Intent: in, Err: err}
		}
		return Decision{}, opError("decide", in.Log, err)
	}
	d := Decision{Committed: set.Verdict.Landed(), Receipt: Receipt{Log: in.Log, First: in.First}}
	if r := set.Head.Record; r != nil {
		d.place(r)
		if r.Owner != nil && r.Owner.Writer == w.ID {
			b.tel.takeover(ctx, manifest.KindDecide)
		}
	}
	if d.Committed {
		d.Count = in.Count
		return d, nil
	}
	for _, k := range in.Keys {
		if e, found, err := set.Head.Record.LookupKey(k.Key, k.Digest); found && err == nil {
			d.Committed, d.Duplicate, d.First, d.Count = true, true, e.First, e.Count
			return d, nil
		}
	}
	switch set.Verdict {
	case manifest.Unknown:
		return d, &OpError{Op: "decide", Log: in.Log, Seq: in.First, Err: fmt.Errorf("%w: the log has moved on too far to tell", ErrOutcomeUnknown),
			Hint: "look for the events themselves (`s3logctl cat --from SEQ`)"}
	case manifest.Gone:
		return d, &OpError{Op: "decide", Log: in.Log, Key: manifest.Key(in.Log), Seq: -1, Err: fmt.Errorf("%w: its manifest was removed", ErrNotFound),
			Hint: "nothing can be appended to it; look for older versions of the object"}
	}
	return d, nil
}

// fencedOrNil reports who owns the log where that is not w.
func fencedOrNil(r *manifest.Record, w string) error {
	if r == nil || r.Owner == nil || r.Owner.Writer == w {
		return nil
	}
	if r.State == manifest.StateDeleted {
		return ErrDeleted
	}
	return manifest.FencedError(r, w)
}

// isCommitError finds what is known about a commit that failed.
func isCommitError(err error) (*manifest.CommitError, bool) {
	return errors.AsType[*manifest.CommitError](err)
}
