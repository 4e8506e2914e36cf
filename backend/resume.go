package backend

import (
	"context"
	"fmt"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// ResumeOptions say how a log is resumed.
type ResumeOptions struct {
	AdoptOptions
	// Delay writes nothing yet: closers and boundary ride with the first append,
	// one PUT for all. Until then the handle owns nothing.
	Delay bool
	// Claim writes also where a resume would need no write, so that the handle
	// owns the log when Resume returns.
	Claim bool
	// Release lets the log go in the same commit: no handle is returned, and
	// nobody has to wait for this writer. It does not go with Delay.
	Release bool
}

// Resume begins the next lifecycle of a log and opens a handle on it: if a turn
// was interrupted it is closed by synthetic events (closers), and a boundary
// (session/end-seed) ends what is inherited from now on. It costs one GET and
// one PUT, which the receipt describes. On a log that ends in its boundary and
// has no open turn there is nothing to write: one GET, a receipt of no events,
// and a handle that, like a delayed one, is pending and owns nothing before its
// first append (or Claim) has been committed. Where a commit meets somebody
// else's it looks anew: closers and boundary are made for what is there then. So
// of two that resume a log at the same time one writes the boundary, and the
// other finds it and is pending. Next of a pending handle is where its first
// append would go, behind what it has yet to write.
//
// Errors: ErrNotFound, ErrDeleted, ErrHeld, ErrDenied, those of reading a
// manifest and those of a commit.
func (b *Backend) Resume(ctx context.Context, id string, opt ResumeOptions) (*Log, Receipt, error) {
	if opt.Delay && opt.Release {
		return nil, Receipt{}, argError("resume", id, "a resume that is delayed has nothing to release yet")
	}
	ctx, op := b.tel.begin(ctx, "resume", id)
	l, r, err := b.resume(ctx, id, opt)
	op.end(ctx, r, err)
	if err == nil && opt.Release {
		// What there was to write is in the log, also where somebody has replaced
		// this writer since.
		_ = l.Close(context.WithoutCancel(ctx), CloseOptions{})
		l = nil
	}
	return l, r, err
}

func (b *Backend) resume(ctx context.Context, id string, opt ResumeOptions) (*Log, Receipt, error) {
	head, err := b.load(ctx, id)
	if err != nil {
		return nil, Receipt{}, opError("resume", id, err)
	}
	w := b.writer()
	if err := w.Check(); err != nil {
		return nil, Receipt{}, opError("resume", id, err)
	}
	open := seedpath.Resume(w, seedpath.ResumeOptions{AdoptOptions: seedpath.AdoptOptions(opt.AdoptOptions), Turn: b.openTurn})
	d, err := open(ctx, head.Record, b.now())
	if err != nil {
		return nil, Receipt{}, opError("resume", id, err)
	}
	l := b.newLog(id, w, open, head)
	_, events := d.Lines()
	if opt.Delay || events == 0 && !opt.Claim {
		l.next = d.Next() // where the first append will go
		r := Receipt{Log: id, First: head.Record.Next}
		r.place(head.Record)
		return l, r, nil
	}
	r, err := l.submit(ctx, "resume", &appendOp{claim: true, spare: !opt.Claim, last: opt.Release, done: make(chan struct{})})
	if err != nil {
		_ = l.Close(ctx, CloseOptions{}) // its error is this one
		return nil, Receipt{}, err
	}
	return l, r, nil
}

// Claim makes a pending handle own its log: it commits what opening the handle
// has to write (nothing, an adoption, closers and boundary) without waiting for
// an append. It does nothing on a handle that owns its log.
func (l *Log) Claim(ctx context.Context) (Receipt, error) {
	ctx, op := l.b.tel.begin(ctx, "claim", l.id)
	r, err := l.submit(ctx, "claim", &appendOp{claim: true, done: make(chan struct{})})
	op.end(ctx, r, err)
	return r, err
}

// Renew asks others again not to take the log over for the term of the handle's
// lease (Options.Lease), which every append does by itself: one PUT. On a pending
// handle it is Claim. Errors: ErrFenced where somebody else owns the log by now,
// and those of a commit; each ends the handle, as with Append.
func (l *Log) Renew(ctx context.Context) error {
	if l.w.Lease == 0 {
		return argError("renew", l.id, "this handle has no lease: Options.Lease is not set")
	}
	ctx, op := l.b.tel.begin(ctx, "renew", l.id)
	r, err := l.submit(ctx, "renew", &appendOp{claim: true, renew: true, done: make(chan struct{})})
	op.end(ctx, r, err)
	return err
}

// openTurn reads the open turn of a log out of its events, from where it began:
// the manifest does not hold all of its calls.
func (r *Reader) openTurn(ctx context.Context, rec *manifest.Record) (*segment.Turn, error) {
	from := int64(0)
	if starts, exact := rec.Content.Types.Get(segment.TypeTurnStart); exact {
		from = starts.Last
	}
	turn, err := r.turnFrom(ctx, rec, from)
	if err == nil && turn == nil && from > 0 {
		// The newest event of that type is none that begins a turn.
		turn, err = r.turnFrom(ctx, rec, 0)
	}
	if err == nil && turn == nil {
		err = fmt.Errorf("%w: the manifest says that turn %d is open, the events do not", ErrCorrupt, rec.Content.Turn.Turn)
	}
	return turn, err
}

func (r *Reader) turnFrom(ctx context.Context, rec *manifest.Record, from int64) (*segment.Turn, error) {
	var turn seedpath.Turns
	var failed error
	_, _ = r.span(ctx, manifest.Head{Record: rec}, from, rec.Next, func(e Event, err error) bool {
		if err == nil {
			var ev segment.Event
			if ev, err = e.Parse(); err == nil {
				turn.Add(ev)
			}
		}
		failed = err
		return err == nil
	})
	return turn.Open(), failed
}
