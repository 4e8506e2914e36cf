package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
)

// waitingAfter is how long a request may be without an answer before that is said.
const waitingAfter = 3 * time.Second

// waiting says on stderr, once, that a store does not take a write. It is
// repeated for a minute, and who has mistyped an endpoint should not have to
// guess what is going on meanwhile.
type waiting struct {
	*tracestore.Store
	g *globals
}

// Put implements objstore.Store.
func (w *waiting) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	begin := time.Now()
	info, err := w.Store.Put(ctx, key, body, cond, opt)
	if ctx.Err() == nil {
		w.g.wait.saw(w.g, err, begin)
	}
	return info, err
}

// Get implements objstore.Reader. Reads are repeated only by who follows a log.
func (w *waiting) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	begin := time.Now()
	obj, err := w.Store.Get(ctx, key, opt)
	if w.g.wait.follows.Load() && ctx.Err() == nil {
		w.g.wait.note(w.g, errors.Is(err, objstore.ErrUndecided), "does not answer", err, begin)
	}
	return obj, err
}

// wait is how long there has been no answer, of all stores of one command.
// Writes end on goroutines of the library, also after the command.
type wait struct {
	follows atomic.Bool // the command repeats its reads, too

	mu    sync.Mutex
	since time.Time // of the first request in a row that got no answer; or zero
	said  bool
	ended bool
}

// saw takes how a write that began at begin ended.
func (w *wait) saw(g *globals, err error, begin time.Time) {
	class := objstore.Classify(err)
	w.note(g, class == objstore.Undecided || class == objstore.TryAgain, "has not taken what is to be written", err, begin)
}

// note takes how a request that began at begin ended: with silence, or not.
func (w *wait) note(g *globals, silence bool, what string, err error, begin time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !silence {
		w.since, w.said = time.Time{}, false
		return
	}
	if w.since.IsZero() {
		w.since = begin
	}
	if w.said || w.ended || time.Since(w.since) < waitingAfter {
		return
	}
	w.said = true
	g.notice("the store %s, still trying: %s", what, errorText(err, ""))
}

// end keeps quiet from now on.
func (w *wait) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}
