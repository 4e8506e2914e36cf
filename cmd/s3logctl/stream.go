package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/segment"
)

// runStream appends lines as they arrive. What was read is appended and the log
// released also when ctx ends, which is the usual end of a stream.
func runStream(ctx context.Context, g *globals, id string, files []string, f appendFlags) error {
	name := stdinArg
	if len(files) == 1 {
		name = files[0]
	}
	r, shown, err := g.openInput(name)
	if err != nil {
		return err
	}
	defer r.Close()
	log, err := f.openLog(ctx, g, id, func(o *backend.Options) { o.Lease = f.lease })
	if err != nil {
		return err
	}
	q := newLineQueue()
	go q.fill(newLineReader(r, shown))
	sum := backend.Receipt{Log: id, First: log.Next(), Next: log.Next()}
	err = pump(ctx, log, q, &sum)
	// A commit that is under way is decided, and the log released, also after a
	// signal; the second one kills.
	if cerr := log.Close(context.WithoutCancel(ctx), backend.CloseOptions{Release: true}); err == nil {
		err = cerr
	}
	if sum.Count > 0 || err == nil {
		printAppended(g, newReceipt(sum))
	}
	return err
}

// pump appends from the queue until it ends, and adds up the receipts.
func pump(ctx context.Context, log *backend.Log, q *lineQueue, sum *backend.Receipt) error {
	for {
		lines, end := q.take(ctx)
		if len(lines) > 0 {
			if err := appendLines(context.WithoutCancel(ctx), log, lines, end != nil, sum); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(end, io.EOF), errors.Is(end, context.Canceled):
			return nil
		case end != nil:
			return end
		}
	}
}

// appendLines appends one batch. Where a line is refused, those before it are
// appended, so that what is in the log does not depend on how lines met.
func appendLines(ctx context.Context, log *backend.Log, lines []eventLine, last bool, sum *backend.Receipt) error {
	r, err := log.Append(ctx, texts(lines), backend.AppendOptions{Last: last})
	if err == nil {
		if sum.Count == 0 {
			sum.First = r.First
		}
		sum.Count += r.Count
		sum.Next, sum.Revision, sum.Generation = r.Next, r.Revision, r.Generation
		return nil
	}
	if ee, ok := errors.AsType[*segment.EventError](err); ok && ee.Index > 0 && ee.Index < len(lines) && log.Err() == nil {
		if err := appendLines(ctx, log, lines[:ee.Index], false, sum); err != nil {
			return err
		}
	}
	err = atLine(lines, err)
	if sum.Count > 0 {
		err = fmt.Errorf("after %s: %w", events(sum.Count), err)
	}
	return err
}

// lineQueue holds lines between the reader of the input and the appends.
type lineQueue struct {
	mu     sync.Mutex
	lines  []eventLine
	size   int   // bytes of lines
	end    error // why there will be no more
	filled chan struct{}
	taken  chan struct{}
}

// maxQueued is how many bytes of lines wait for an append.
const maxQueued = 4 << 20

func newLineQueue() *lineQueue {
	return &lineQueue{filled: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
}

func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// fill reads lines into the queue until there are no more, and waits while it
// is full. A blocked read ends with the process.
func (q *lineQueue) fill(in *lineReader) {
	for {
		line, err := in.next()
		q.mu.Lock()
		for q.size >= maxQueued {
			q.mu.Unlock()
			<-q.taken
			q.mu.Lock()
		}
		if err != nil {
			q.end = err
		} else {
			q.lines = append(q.lines, line)
			q.size += len(line.text) + 1
		}
		q.mu.Unlock()
		wake(q.filled)
		if err != nil {
			return
		}
	}
}

// take waits for lines and returns all that are there, and why there are no
// more after them, if that is known.
func (q *lineQueue) take(ctx context.Context) ([]eventLine, error) {
	for {
		q.mu.Lock()
		lines, end := q.lines, q.end
		q.lines, q.size = nil, 0
		q.mu.Unlock()
		wake(q.taken)
		if ctx.Err() != nil && end == nil {
			end = ctx.Err()
		}
		if len(lines) > 0 || end != nil {
			return lines, end
		}
		select {
		case <-q.filled:
		case <-ctx.Done():
		}
	}
}
