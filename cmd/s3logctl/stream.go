package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
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
	r, shown, err := g.openInput(ctx, name, false)
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
	s := &streaming{log: log, sum: backend.Receipt{Log: id, First: log.Next(), Next: log.Next()}}
	s.tell, s.done = g.tellCommits(id, f.progress || name == stdinArg && g.stdinTTY)
	err = s.pump(ctx, q)
	s.done()
	// A commit that is under way is decided, and the log released, also after a
	// signal; the second one kills.
	if cerr := log.Close(context.WithoutCancel(ctx), backend.CloseOptions{Release: true}); err == nil {
		err = cerr
	}
	if s.sum.Count > 0 || err == nil {
		printAppended(g, newReceipt(s.sum))
	}
	return err
}

// committed is one commit of a stream in JSON. The receipt of all of them together
// comes last, as that of any append.
type committed struct {
	Commit receipt `json:"commit"`
}

// tellCommits is how the commits of a stream are told while it goes on: in JSON
// each as soon as it is durable; as text each on a line of stderr where every one
// is wanted, or else on a terminal how far it is.
func (g *globals) tellCommits(id string, each bool) (tell func(backend.Receipt), done func()) {
	switch {
	case g.asJSON():
		return func(r backend.Receipt) {
			writeJSON(g.out, committed{newReceipt(r)})
			_ = g.out.Flush() // somebody waits for it; its error shows at the end
		}, func() {}
	case each:
		return func(r backend.Receipt) {
			var text strings.Builder
			newReceipt(r).text(&text, "appended")
			g.notice("%s", strings.TrimSpace(text.String()))
		}, func() {}
	}
	p := g.newProgress("appending to "+quote(id), events, 0)
	return func(r backend.Receipt) { p.add(r.Count) }, p.done
}

// streaming is a stream that is appended to a log.
type streaming struct {
	log  *backend.Log
	sum  backend.Receipt // of all commits
	tell func(backend.Receipt)
	done func()
}

// pump appends from the queue until it ends, and adds up the receipts.
func (s *streaming) pump(ctx context.Context, q *lineQueue) error {
	for {
		lines, end := q.take(ctx)
		if len(lines) > 0 {
			if err := s.append(context.WithoutCancel(ctx), lines, end != nil); err != nil {
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

// append appends one batch. Where a line does not go with those before it, they are
// appended, and it with what follows is a batch of its own: so what is in the log,
// and whether a line is refused, does not depend on how lines met.
func (s *streaming) append(ctx context.Context, lines []eventLine, last bool) error {
	r, err := s.log.Append(ctx, texts(lines), backend.AppendOptions{Last: last})
	if err == nil {
		if s.sum.Count == 0 {
			s.sum.First = r.First
		}
		s.sum.Count += r.Count
		s.sum.Next, s.sum.Revision, s.sum.Generation = r.Next, r.Revision, r.Generation
		s.tell(r)
		return nil
	}
	if ee, ok := errors.AsType[*segment.EventError](err); ok && ee.Index > 0 && ee.Index < len(lines) && s.log.Err() == nil {
		if err := s.append(ctx, lines[:ee.Index], false); err != nil {
			return err
		}
		return s.append(ctx, lines[ee.Index:], last)
	}
	err = atLine(lines, err)
	if s.sum.Count > 0 {
		err = fmt.Errorf("after %s: %w", events(s.sum.Count), err)
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
