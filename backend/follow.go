package backend

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
)

// maxFollowFailures is how many polls in a row may fail in passing.
const maxFollowFailures = 5

// Follow iterates over the events of a log from seq from on, and goes on with
// those that are appended, until ctx ends; that ends the iteration with ctx's
// error. It asks for news every Options.PollInterval by a conditional GET of the
// manifest: while nothing is new that transfers nothing (304). Errors are those
// of Events; a log that is deleted ends with ErrDeleted.
func (r *Reader) Follow(ctx context.Context, id string, from int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		fail := func(err error) { yield(Event{}, opError("follow", id, err)) }
		if from < 0 {
			fail(fmt.Errorf("from seq %d: seqs begin at 0", from))
			return
		}
		head, err := r.open(ctx, id)
		if err != nil {
			fail(err)
			return
		}
		for {
			next, ok := r.span(ctx, head, from, head.Record.Next, yield)
			if !ok {
				return
			}
			from = max(from, next)
			fresh, err := r.await(ctx, head)
			switch {
			case err != nil:
				fail(err)
				return
			case fresh.Record.UID != head.Record.UID:
				fail(fmt.Errorf("%w: another log was begun under this id", ErrNotFound))
				return
			}
			head = fresh
		}
	}
}

// await returns the next version of a manifest.
func (r *Reader) await(ctx context.Context, head manifest.Head) (manifest.Head, error) {
	failures := 0
	for {
		t := time.NewTimer(r.opt.PollInterval)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return manifest.Head{}, context.Cause(ctx)
		}
		fresh, err := r.loadIf(ctx, head.Record.Log, head.Version)
		switch {
		case err == nil:
			return fresh, readable(fresh.Record)
		case errors.Is(err, objstore.ErrNotModified):
			failures = 0
		case ctx.Err() != nil:
			return manifest.Head{}, context.Cause(ctx)
		case errors.Is(err, objstore.ErrUndecided) && failures < maxFollowFailures:
			failures++
		default:
			return manifest.Head{}, err
		}
	}
}
