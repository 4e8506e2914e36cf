package backend

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// Log is a writer's handle on one log. Its methods may be called concurrently:
// there is one commit in flight at a time, and whatever arrives meanwhile forms
// the next one, in the order of arrival.
//
// A handle whose commit failed is done for: every further append fails with the
// same error, and nothing after the failed one gets into the log. Open another.
// Only an unknown outcome is not passed on to appends that were never sent: theirs
// is known.
type Log struct {
	b    *Backend
	id   string
	w    manifest.Writer
	open seedpath.Opening
	// mayAdopt: open begins the log or adopts it, and begins with assuming that it
	// is not there.
	mayAdopt bool

	mu      sync.Mutex
	queue   []*appendOp
	held    int64         // bytes of events in the queue and in the commit under way
	waiting []*appendOp   // behind the queue, which has no room for the first of them
	running bool          // run is on its way
	idle    chan struct{} // closed when run has ended; nil while it never ran
	err     error         // sticky
	closed  bool
	last    *appendOp     // releases the log: nothing is accepted behind it, unless it fails
	next    int64         // where the log continues, as of the last commit or read
	hurry   chan struct{} // ends a pause before a commit
	awaited int           // operations that run waits for, while it gathers
	arrived chan struct{} // they are in the queue

	// Below: only the goroutine of run, or nobody.
	head   manifest.Head
	owned  bool // our first commit has landed
	codec  *segment.Codec
	tail   tail
	tailOf string // commit id of the manifest that tail belongs to
	pace   pacer
	sealer job       // moves the tail into a segment
	codecs sync.Pool // its *segment.Codec, as long as seals follow each other: the collector takes that of an idle handle
	merger job       // joins segments

	bgCtx  context.Context // ends background work at Close
	bgStop context.CancelFunc
}

func (b *Backend) newLog(id string, w manifest.Writer, open seedpath.Opening, head manifest.Head) *Log {
	l := &Log{
		b: b, id: id, w: w, open: open, head: head,
		codec:   segment.NewCodec(),
		hurry:   make(chan struct{}, 1),
		arrived: make(chan struct{}, 1),
		pace:    pacer{linger: b.opt.Linger, rate: b.rate()},
	}
	if head.Record != nil {
		l.next = head.Record.Next
	}
	l.bgCtx, l.bgStop = context.WithCancel(context.Background())
	return l
}

// ID is the log's id.
func (l *Log) ID() string { return l.id }

// Writer is the id of this handle, as the log's generations name it.
func (l *Log) Writer() string { return l.w.ID }

// Next is the seq at which the log continues, as far as this handle knows: where
// its next append would go.
func (l *Log) Next() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

// Err is why this handle takes no more appends; nil while it does.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// appendOp is one call of Append on its way through the queue. An op without
// events is a barrier: it is done when everything before it is.
type appendOp struct {
	events []segment.Pending
	size   int64
	key    string // 16 hex digits, or empty
	digest string
	expect *int64
	closes bool // of Close: behind everything, whatever that is
	last   bool // release the log
	seal   bool // seal the tail
	claim  bool // own the log, with nothing to append
	renew  bool // of a claim: commit also where the log is owned already
	spare  bool // of a claim: only if opening the handle has events to write
	judge  *judging
	span   trace.Span // of the caller, where spans are wanted

	// Guarded by Log.mu. The intent of the commit that was sent with it says that
	// it cannot be taken back any more; cancelled that its caller has gone before.
	intent    *manifest.Intent
	cancelled bool

	done    chan struct{} // closed when receipt and err are final
	receipt Receipt
	err     error
}

// MaxAppend bounds the bytes of the events of one append.
const MaxAppend = segment.MaxFrameRaw / 2

// Append adds events, each one JSON object, to the log, all of them or none, and
// returns when they are durable: one conditional PUT, and one PUT more where the
// tail is sealed on the way. An absent time is the local clock's.
//
// If ctx ends before the events were sent, they are not in the log and will not
// be; if it ends later, the error is ErrOutcomeUnknown, with a Token, and the
// commit is still decided in the background. Errors beside those: ErrInvalidEvent,
// ErrTooLarge, ErrSeqMismatch and ErrKeyConflict concern this append alone;
// every other one ends the handle.
func (l *Log) Append(ctx context.Context, events [][]byte, opt AppendOptions) (Receipt, error) {
	ctx, op := l.b.tel.begin(ctx, "append", l.id)
	r, err := l.append(ctx, events, opt)
	op.end(ctx, r, err)
	return r, err
}

func (l *Log) append(ctx context.Context, events [][]byte, opt AppendOptions) (Receipt, error) {
	pending, err := segment.PrepareBatch(events, time.Now().UnixMilli(), l.b.opt.Limits)
	if err != nil {
		return Receipt{}, l.fail("append", err)
	}
	op := &appendOp{events: pending, expect: opt.ExpectNext, last: opt.Last, done: make(chan struct{})}
	for i := range pending {
		if pending[i].Type() == segment.TypeEndSeed && !opt.Boundary {
			return Receipt{}, l.fail("append", &segment.EventError{Index: i, Type: segment.TypeEndSeed, Err: ErrInvalidEvent,
				Reason: "it marks the end of inherited history, which an ordinary append may not say"})
		}
		op.size += int64(pending[i].Size()) + 1
	}
	if op.size > MaxAppend {
		return Receipt{}, l.fail("append", fmt.Errorf("%w: %d bytes of events in one append, at most %d are allowed", ErrTooLarge, op.size, MaxAppend))
	}
	if opt.Key != "" {
		op.key, op.digest = hash16([]byte(opt.Key)), digest(pending)
	}
	return l.submit(ctx, "append", op)
}

// submit puts an operation into the queue and waits for it.
func (l *Log) submit(ctx context.Context, name string, op *appendOp) (Receipt, error) {
	if err := ctx.Err(); err != nil {
		return Receipt{}, l.fail(name, err)
	}
	op.from(ctx, l.b.tel)
	if err := l.enqueue(op); err != nil {
		return Receipt{}, l.fail(name, err)
	}
	select {
	case <-op.done:
	case <-ctx.Done():
		if err := l.abandon(ctx, op); err != nil {
			return Receipt{}, l.fail(name, err)
		}
	}
	return op.receipt, l.fail(name, op.err)
}

func (l *Log) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	e := opError(op, l.id, err)
	ee, isEvent := errors.AsType[*segment.EventError](err)
	aboutEvent := isEvent && !errors.Is(ee, ErrSeqMismatch) // and about nothing that is stored
	if oe, ok := e.(*OpError); ok && oe.Key == "" && !aboutEvent {
		oe.Key = manifest.Key(l.id)
	}
	return e
}

func (l *Log) enqueue(op *appendOp) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed && l.err == nil {
		return ErrClosed
	}
	if err := l.refuses(op); err != nil {
		return err
	}
	l.waiting = append(l.waiting, op)
	l.admit()
	return nil
}

// refuses says why the queue does not take an operation; l.mu is held.
func (l *Log) refuses(op *appendOp) error {
	switch {
	case l.err != nil:
		return op.refusal(l.err)
	case l.last != nil && !op.closes:
		return ErrClosed
	}
	return nil
}

// admit moves those that wait into the queue, in the order of arrival and as far
// as there is room; l.mu is held.
func (l *Log) admit() {
	for len(l.waiting) > 0 {
		op := l.waiting[0]
		err := l.refuses(op)
		if err == nil && l.held+l.weight(op) > int64(l.b.opt.MaxQueue) {
			return
		}
		l.waiting = l.waiting[1:]
		if err != nil {
			op.err = err
			close(op.done)
			continue
		}
		if op.last {
			l.last = op
		}
		l.held += l.weight(op)
		l.queue = append(l.queue, op)
		if l.awaited > 0 && len(l.queue) >= l.awaited {
			wake(l.arrived)
		}
		if !l.running {
			l.running, l.idle = true, make(chan struct{})
			go l.run(l.idle)
		}
	}
}

// weight is what of MaxQueue an operation takes: all of it, if it is larger.
func (l *Log) weight(op *appendOp) int64 { return min(op.size, int64(l.b.opt.MaxQueue)) }

// abandon takes an operation back whose caller does not wait any longer. Where
// it was sent already the outcome is unknown to the caller, who gets the token;
// the commit goes on. nil means that it was decided after all.
func (l *Log) abandon(ctx context.Context, op *appendOp) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-op.done:
		return nil
	default:
	}
	op.cancelled = true
	cause := context.Cause(ctx)
	if op.intent == nil {
		if i := slices.Index(l.waiting, op); i >= 0 {
			l.waiting = slices.Delete(l.waiting, i, i+1)
			l.admit() // smaller ones may fit
			return fmt.Errorf("not sent, waiting for room in the queue: %w", cause)
		}
		if l.last == op {
			l.last = nil
		}
		// It leaves the queue at once, so that what waits there stays bounded.
		if i := slices.Index(l.queue, op); i >= 0 {
			l.queue = slices.Delete(l.queue, i, i+1)
			l.held -= l.weight(op)
			l.admit()
		}
		return fmt.Errorf("not sent: %w", cause)
	}
	return &manifest.CommitError{
		Verdict: manifest.Unknown, Intent: *op.intent,
		Err: fmt.Errorf("%w: %w", ErrOutcomeUnknown, cause),
	}
}

// Flush returns when every append that was accepted before it has been decided,
// with the error that ended the handle, if any.
func (l *Log) Flush(ctx context.Context) error {
	_, err := l.submit(ctx, "flush", &appendOp{done: make(chan struct{})})
	return err
}

// CloseOptions say what Close leaves behind.
type CloseOptions struct {
	// Release says that this writer is done, so that the next one need not wait
	// or ask: one PUT, if this handle owns the log and has not released it. A
	// handle with a lease does so in any case.
	Release bool
	// Seal moves the tail into a segment: two PUTs.
	Seal bool
}

// Close waits until all appends are decided, ends background work and closes the
// handle. Without options it sends nothing, unless there is a lease to release. If ctx ends first, the handle is
// closed all the same, and what is in flight is decided in the background.
// The error is the one that ended the handle, if any.
func (l *Log) Close(ctx context.Context, opt CloseOptions) error {
	l.mu.Lock()
	err := l.err
	var op *appendOp
	if !l.closed && err == nil {
		// A lease would keep others waiting for nobody.
		op = &appendOp{closes: true, last: opt.Release || l.w.Lease > 0, seal: opt.Seal, done: make(chan struct{})}
		op.from(ctx, l.b.tel)
		l.waiting = append(l.waiting, op)
		l.admit()
	}
	l.closed = true
	idle := l.idle
	l.mu.Unlock()
	l.quicken()
	if op != nil {
		select {
		case <-op.done:
			err = op.err
		case <-ctx.Done():
			if err = l.abandon(ctx, op); err == nil {
				err = op.err
			}
		}
	}
	l.bgStop()
	if idle != nil {
		select {
		case <-idle:
			// What was begun in the background ends soon, but not before the object
			// at hand is encoded.
			l.sealer.wait(ctx)
			l.merger.wait(ctx)
		case <-ctx.Done():
		}
	}
	return l.fail("close", err)
}

// quicken ends a linger.
func (l *Log) quicken() { wake(l.hurry) }

// wake is a signal that waits for its receiver, once.
func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// hash16 is how keys and digests are stored: the first 16 hex digits of SHA-256.
func hash16(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// digest covers the caller's lines as they were given, before seq and time were
// assigned, each with an LF.
func digest(events []segment.Pending) string {
	h := sha256.New()
	for i := range events {
		h.Write(events[i].Line())
		h.Write([]byte{'\n'})
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
