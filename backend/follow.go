package backend

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
)

// maxFollowPause bounds the growing pauses of a Follow whose store fails.
const maxFollowPause = 30 * time.Second

// Follow iterates over the events of a log from seq from on, and goes on with
// those that are appended, until ctx ends; that ends the iteration with ctx's
// error. It asks for news every Options.PollInterval by a conditional GET of the
// manifest: while nothing is new that transfers nothing (304).
//
// Once it has begun, it bears whatever fails in passing, with growing pauses of
// up to half a minute, for as long as ctx lasts, and then tells of it. Other
// errors, and any while it begins, are those of Events and end it; a log that is
// deleted ends it with ErrDeleted.
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
		p := patience{interval: r.opt.PollInterval}
		for {
			p.failed = nil
			next, ok := r.span(ctx, head, from, head.Record.Next, func(e Event, err error) bool {
				if err != nil && passing(err) {
					p.failed = err
					return false
				}
				p.failures = 0
				return yield(e, err)
			})
			from = max(from, next)
			switch {
			case p.failed != nil:
				if err := p.wait(ctx); err != nil {
					fail(err)
					return
				}
				continue // with what is left of this version
			case !ok:
				return
			}
			fresh, err := r.await(ctx, head, &p)
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
func (r *Reader) await(ctx context.Context, head manifest.Head, p *patience) (manifest.Head, error) {
	for {
		if err := p.wait(ctx); err != nil {
			return manifest.Head{}, err
		}
		fresh, err := r.loadIf(ctx, head.Record.Log, head.Version)
		switch {
		case err == nil:
			p.failures, p.failed = 0, nil
			return fresh, readable(fresh.Record)
		case errors.Is(err, objstore.ErrNotModified):
			p.failures, p.failed = 0, nil
		case passing(err):
			p.failed = err
		default:
			return manifest.Head{}, err
		}
	}
}

// patience is how a Follow waits: an interval, and longer while the store fails.
type patience struct {
	interval time.Duration
	failures int   // in a row
	failed   error // the newest request, if it failed in passing
}

// wait waits for the time of the next request. Its error is ctx's, with the
// failure that went before, if the end of ctx is not its cause.
func (p *patience) wait(ctx context.Context) error {
	pause := p.interval
	if p.failed != nil {
		p.failures++
		pause = max(p.interval, min(p.interval<<min(p.failures, 20), maxFollowPause))
		pause = pause/2 + rand.N(pause/2+1)
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
	}
	if cause := context.Cause(ctx); p.failed == nil || errors.Is(p.failed, cause) || errors.Is(p.failed, ctx.Err()) {
		return cause
	} else {
		return fmt.Errorf("%w; the last request had failed: %w", cause, p.failed)
	}
}
