package backend

import (
	"context"
	"fmt"
	"iter"

	"github.com/s3log/s3log/seedpath"
)

// Inspected is an event of the balanced view of a log.
type Inspected struct {
	Event
	// Synthetic: the log does not hold this event; it is one of the closers that
	// a resume would add.
	Synthetic bool
}

// Inspect iterates over the balanced view of a log: its events, and after them
// the closers that a resume would write if it began now, so that no turn is left
// open. There are none where none is. Nothing is written, and no boundary is in
// the view: it is not part of what happened. The requests, the memory and the
// errors are those of Events.
func (r *Reader) Inspect(ctx context.Context, id string) iter.Seq2[Inspected, error] {
	return func(yield func(Inspected, error) bool) {
		fail := func(err error) { yield(Inspected{}, opError("inspect", id, err)) }
		head, err := r.open(ctx, id)
		if err != nil {
			fail(err)
			return
		}
		rec := head.Record
		open := rec.Content.Turn
		// What the manifest has no room for is found on the way.
		var turns seedpath.Turns
		more := open != nil && open.More
		_, ok := r.span(ctx, head, 0, rec.Next, func(e Event, err error) bool {
			if err == nil && more {
				ev, perr := e.Parse()
				if perr != nil {
					yield(Inspected{}, perr)
					return false
				}
				turns.Add(ev)
			}
			return yield(Inspected{Event: e}, err)
		})
		if !ok || open == nil || rec.Content.LastTime == nil {
			return
		}
		if more {
			if open = turns.Open(); open == nil {
				fail(fmt.Errorf("%w: the manifest says that turn %d is open, the events do not", ErrCorrupt, rec.Content.Turn.Turn))
				return
			}
		}
		closers, err := seedpath.Closers(open, rec.Next, *rec.Content.LastTime)
		if err != nil {
			fail(err)
			return
		}
		for _, c := range closers {
			if !yield(Inspected{Event: Event{Log: id, Seq: c.Seq, Line: c.Line}, Synthetic: true}, nil) {
				return
			}
		}
	}
}
