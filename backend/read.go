package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"slices"
	"sync"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// Event is one event as it is stored. Line is valid until the iteration that
// yielded it goes on; whoever keeps it makes a copy.
type Event struct {
	Log  string
	Seq  int64
	Line []byte // the JSON text, without LF
}

// Parse takes the envelope apart. A stored line that breaks its rules is
// ErrCorrupt: it was checked before it was stored.
func (e Event) Parse() (segment.Event, error) {
	ev, err := segment.ParseEvent(e.Line, segment.Limits{MaxEvent: segment.MaxFrameRaw})
	if err == nil && ev.Seq != e.Seq {
		err = fmt.Errorf("it carries seq %d", ev.Seq)
	}
	if err != nil {
		return ev, &OpError{Op: "read", Log: e.Log, Key: "", Seq: e.Seq, Err: fmt.Errorf("%w: %w", ErrCorrupt, err)}
	}
	return ev, nil
}

// ReadOptions select what is read. The zero value is the whole log.
type ReadOptions struct {
	From int64  // seq of the first event
	To   *int64 // seq of the last event, inclusive; nil: to the end
	Last int64  // unless 0, only the last so many of these
	// Damaged, unless nil, is told that the events from seq first up to but not
	// including next cannot be read, and why, and reading goes on behind them. Where
	// first and next are the same, an object is not the one that the manifest means:
	// its events from there on are yielded all the same, as far as the checksums of
	// their frames hold. Nothing is told twice. The error that may still come last
	// says nothing about the log.
	Damaged func(first, next int64, err error)
}

// Events iterates over the events of a log, in order, as of the manifest that is
// read first: one GET, and one GET for each segment that holds any of them,
// several at a time; where From is inside a large segment, only the end of its
// index and the frames that are needed. Memory is bounded by Options.Prefetch
// segments, not by the log. Segments and frames are checked against hashes and
// checksums before anything of them is yielded; the Merkle root is not.
//
// An error is yielded last. A segment that a merge replaced meanwhile is found
// again through a newer manifest. Under an unchanged manifest a segment that is
// not there is ErrMissing, one that may not be read ErrDenied: nothing is ever
// skipped, unless ReadOptions.Damaged is told. What failed in passing is objstore.ErrUndecided; its hint says from
// which seq to go on. From beyond the end yields nothing.
func (r *Reader) Events(ctx context.Context, id string, opt ReadOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if opt.From < 0 {
			yield(Event{}, argError("read", id, "from seq %d: seqs begin at 0", opt.From))
			return
		}
		head, err := r.open(ctx, id)
		if err != nil {
			yield(Event{}, opError("read", id, err))
			return
		}
		to := head.Record.Next
		if opt.To != nil && *opt.To < to {
			to = *opt.To + 1
		}
		from := opt.From
		if opt.Last > 0 {
			from = max(from, to-opt.Last)
		}
		if opt.Damaged != nil {
			r.around(ctx, head, from, to, opt.Damaged, yield)
			return
		}
		_, _ = r.span(ctx, head, from, to, yield)
	}
}

// maxRereads is how often a reader follows a log whose segments are replaced
// under its hands before it gives up.
const maxRereads = 5

// span yields the events from seq from up to but not including to. It returns
// where it stopped, and whether to go on: false after an error was yielded or
// the consumer had enough.
func (r *Reader) span(ctx context.Context, head manifest.Head, from, to int64, yield func(Event, error) bool) (next int64, ok bool) {
	id := head.Record.Log
	for reread := 0; ; reread++ {
		next, stop, err := r.walk(ctx, head.Record, from, to, yield)
		if err == nil || stop {
			return next, err == nil && !stop
		}
		if !notThere(err) {
			yield(Event{}, goOn(opError("read", id, err), from, next))
			return next, false
		}
		fresh, lerr := r.open(ctx, id)
		switch {
		case lerr != nil:
			yield(Event{}, goOn(sameObject(err, func(cause error) error { return fmt.Errorf("%w; reading the manifest again: %w", cause, lerr) }), from, next))
			return next, false
		case fresh.Record.Commit.ID == head.Record.Commit.ID, stillNamed(fresh.Record, err):
			yield(Event{}, opError("read", id, finding(err)))
			return next, false
		case reread == maxRereads:
			yield(Event{}, goOn(sameObject(err, func(cause error) error { return fmt.Errorf("%w: %w", errReplaced, cause) }), from, next))
			return next, false
		}
		head, from = fresh, next
	}
}

// errReplaced ends a read that was not fast enough.
var errReplaced = errors.New("segments were replaced faster than they could be read, try again")

// passing reports whether the same read may succeed in a while.
func passing(err error) bool {
	return errors.Is(err, objstore.ErrUndecided) || errors.Is(err, errReplaced)
}

// goOn adds to an error of a read what is to be done where it may pass: go on
// behind what was read of the events from seq from on.
func goOn(err error, from, next int64) error {
	oe, ok := errors.AsType[*OpError](err)
	if !ok || !passing(err) || next <= from {
		return err
	}
	c := *oe
	if c.Hint != "" {
		c.Hint += "; "
	}
	c.Hint += fmt.Sprintf("the events before seq %d were read: go on from there", next)
	return &c
}

// sameObject puts another cause into an error, which goes on to name the object
// and the seq that it is about.
func sameObject(err error, cause func(error) error) error {
	oe, ok := errors.AsType[*OpError](err)
	if !ok {
		return cause(err)
	}
	c := *oe
	c.Err = cause(oe.Err)
	return &c
}

// stillNamed reports whether the segment that an error is about is named by a
// manifest that was read after the error: no commit replaced it then.
func stillNamed(rec *manifest.Record, err error) bool {
	oe, ok := errors.AsType[*OpError](err)
	return ok && slices.ContainsFunc(rec.Segments, func(s manifest.SegmentRef) bool {
		return manifest.SegmentKey(rec.Log, s.Name) == oe.Key
	})
}

// finding says what it means that a segment cannot be had although the manifest
// that names it has not changed, or still names it.
func finding(err error) error {
	oe, ok := errors.AsType[*OpError](err)
	if !ok {
		return err
	}
	if errors.Is(err, objstore.ErrNotExist) {
		return &OpError{Op: oe.Op, Log: oe.Log, Key: oe.Key, Seq: oe.Seq, Err: fmt.Errorf("%w: %w", ErrMissing, oe.Err),
			Hint: "the object was removed by somebody; " + HintPutBack}
	}
	return &OpError{Op: oe.Op, Log: oe.Log, Key: oe.Key, Seq: oe.Seq, Err: oe.Err,
		Hint: "the manifest could be read and this object could not: these credentials may not read it (or not decrypt it), or it is missing and they may not list the bucket"}
}

// walk is one pass of span over one manifest. stop is set when the consumer had
// enough.
func (r *Reader) walk(ctx context.Context, rec *manifest.Record, from, to int64, yield func(Event, error) bool) (next int64, stop bool, err error) {
	next = from
	emit := func(c chunk) bool {
		if c.first > next {
			return false // a gap, which the end of walk reports
		}
		for i := int(next - c.first); i < len(c.ends) && next < to; i++ {
			begin := 0
			if i > 0 {
				begin = c.ends[i-1] + 1
			}
			if !yield(Event{Log: rec.Log, Seq: next, Line: c.raw[begin:c.ends[i]:c.ends[i]]}, nil) {
				stop = true
				return false
			}
			next++
		}
		return next < to
	}
	if from < rec.TailFirst() && from < to {
		if err := r.frames(ctx, rec, from, to, emit); err != nil || stop || next >= to {
			return next, stop, err
		}
	}
	if next >= rec.TailFirst() && next < to {
		t, err := readTail(segment.NewCodec(), rec)
		if err != nil {
			return next, false, &OpError{Op: "read", Log: rec.Log, Key: manifest.Key(rec.Log), Seq: rec.TailFirst(), Err: err, Hint: hint(err)}
		}
		for _, f := range t.frames {
			ends, _ := segment.AppendLineEnds(nil, f.raw) // whole lines: they were counted
			emit(chunk{first: f.first, raw: f.raw, ends: ends})
		}
	}
	if next < to && !stop {
		// Every part was checked against the manifest: this cannot be. But if it
		// ever is, the log must not look shorter than it is.
		return next, false, &OpError{Op: "read", Log: rec.Log, Key: manifest.Key(rec.Log), Seq: next,
			Err: fmt.Errorf("%w: its parts hold no event of seq %d", ErrCorrupt, next)}
	}
	return next, stop, nil
}

// chunk is a decoded frame on its way to the consumer.
type chunk struct {
	first int64
	raw   []byte
	ends  []int // where in raw the LFs are
	err   error
}

const (
	// decodeAhead is how many chunks may be decoded before they are consumed.
	decodeAhead = 2
	// maxDecoders is how many frames are decoded at a time, each by a processor of
	// its own: two are faster than most consumers.
	maxDecoders = 2
)

// frames decodes the segments' frames that overlap [from, to) and hands them to
// emit in order, until it returns false. Segments are fetched Prefetch at a time,
// and decoded while the consumer works.
func (r *Reader) frames(ctx context.Context, rec *manifest.Record, from, to int64, emit func(chunk) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var need []manifest.SegmentRef
	for _, s := range rec.Segments {
		if s.Name.First+s.Count > from && s.Name.First < to {
			need = append(need, s)
		}
	}
	fetched := prefetch(ctx, need, fetchWidth(need, r.opt.Prefetch), func(ctx context.Context, ref manifest.SegmentRef) (*segment.Reader, error) {
		return r.fetch(ctx, rec.Log, ref, max(from, ref.Name.First))
	})
	decoders := min(maxDecoders, runtime.GOMAXPROCS(0))
	work := make(chan decoding)
	coming := make(chan (<-chan chunk), decodeAhead) // what is decoded, in order
	// Buffers go round: some are filled, decodeAhead wait, one is being consumed.
	free := make(chan chunk, decodeAhead+decoders+1)
	go func() {
		defer close(coming)
		defer close(work)
		for i := range need {
			got := take(ctx, fetched[i])
			if got.err != nil {
				failed := make(chan chunk, 1)
				failed <- chunk{err: got.err}
				send(ctx, coming, failed)
				return
			}
			d := decoding{segment: got.value, log: rec.Log, ref: need[i]}
			frames := d.segment.Index().Frames
			for d.frame = max(0, d.segment.Find(max(from, need[i].Name.First))); d.frame < len(frames) && frames[d.frame].First < to; d.frame++ {
				d.done = make(chan chunk, 1)
				if !send(ctx, coming, d.done) || !send(ctx, work, d) {
					return
				}
			}
		}
	}()
	for range decoders {
		go func() {
			codec := segment.NewCodec()
			for d := range work {
				d.decode(codec, free)
			}
		}()
	}
	for next := range coming {
		var c chunk
		select {
		case c = <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
		if c.err != nil {
			return c.err
		}
		if !emit(c) {
			return nil
		}
		select {
		case free <- c:
		default:
		}
	}
	return ctx.Err()
}

func send[T any](ctx context.Context, ch chan<- T, v T) bool {
	select {
	case ch <- v:
		return true
	case <-ctx.Done():
		return false
	}
}

// decoding is one frame that is to be decoded.
type decoding struct {
	segment *segment.Reader
	log     string
	ref     manifest.SegmentRef
	frame   int
	done    chan chunk // gets it, and has room for it
}

// decode decodes the frame, into a buffer that is free if there is one.
func (d decoding) decode(codec *segment.Codec, free <-chan chunk) {
	var c chunk
	select {
	case c = <-free:
	default:
	}
	c.first = d.segment.Index().Frames[d.frame].First
	var err error
	if c.raw, c.ends, err = d.segment.With(codec).FrameInto(c.raw, c.ends, d.frame); err != nil {
		c = chunk{err: segmentError("read", d.log, d.ref, err)}
	}
	d.done <- c
}

// wholeBelow is the size up to which a segment is always read whole, so that
// its hash can be checked: it is what a ranged read would fetch for the index.
const wholeBelow = 256 << 10

// fetch gets a segment: whole, or where only its end is wanted, by ranges. Opening
// it takes no codec; whoever decodes brings one (segment.Reader.With).
func (r *Reader) fetch(ctx context.Context, id string, ref manifest.SegmentRef, from int64) (*segment.Reader, error) {
	if from == ref.Name.First || ref.Bytes <= wholeBelow {
		return fetchSegment(ctx, r.store, nil, id, ref)
	}
	return openSegment(nil, id, ref, &rangedObject{ctx: ctx, store: r.store, key: manifest.SegmentKey(id, ref.Name), size: ref.Bytes})
}

// rangedObject reads an object by explicit ranges.
type rangedObject struct {
	ctx   context.Context
	store objstore.Reader
	key   string
	size  int64
}

func (o *rangedObject) ReadAt(p []byte, off int64) (int, error) {
	obj, err := o.store.Get(o.ctx, o.key, objstore.GetOptions{Offset: off, Length: int64(len(p)), Limit: int64(len(p))})
	if errors.Is(err, objstore.ErrRange) {
		return 0, io.EOF
	}
	if err != nil {
		return 0, err
	}
	n := copy(p, obj.Body)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// fetchAhead bounds the bytes of whole segments that are fetched ahead of what is
// being read.
const fetchAhead = 32 << 20

// fetchWidth is how many of the segments are fetched at a time: as many as wanted,
// and fewer where they are large.
func fetchWidth(segs []manifest.SegmentRef, want int) int {
	largest := int64(1)
	for i := range segs {
		largest = max(largest, segs[i].Bytes)
	}
	return max(1, min(want, int(fetchAhead/largest)))
}

type result[T any] struct {
	value T
	err   error
}

// prefetch runs get for each item, at most width at a time, the next one when
// an earlier result was taken. The results come on one channel per item.
func prefetch[In, Out any](ctx context.Context, items []In, width int, get func(context.Context, In) (Out, error)) []chan result[Out] {
	out, _ := fetching(ctx, items, width, get)
	return out
}

// fetching is prefetch for whoever has to know when nothing runs any more: when all
// results were taken, or ctx has ended, and workers are done.
func fetching[In, Out any](ctx context.Context, items []In, width int, get func(context.Context, In) (Out, error)) (out []chan result[Out], workers *sync.WaitGroup) {
	workers = new(sync.WaitGroup)
	out = make([]chan result[Out], len(items))
	for i := range out {
		out[i] = make(chan result[Out])
	}
	var next = make(chan int)
	go func() {
		defer close(next)
		for i := range items {
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	}()
	for range min(width, len(items)) {
		workers.Go(func() {
			for i := range next {
				v, err := get(ctx, items[i])
				select {
				case out[i] <- result[Out]{v, err}:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	return out, workers
}

// take waits for one of the results of prefetch, or for the end of ctx.
func take[T any](ctx context.Context, ch <-chan result[T]) result[T] {
	select {
	case got := <-ch:
		return got
	case <-ctx.Done():
		return result[T]{err: context.Cause(ctx)}
	}
}
