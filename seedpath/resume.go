package seedpath

import (
	"context"
	"fmt"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// ResumeOptions are what a resume needs beside the log.
type ResumeOptions struct {
	AdoptOptions
	// Turn finds the open turn of a log whose manifest does not hold all of its
	// calls (segment.Turn.More), by reading its events. Without it such a log
	// cannot be resumed.
	Turn func(ctx context.Context, base *manifest.Record) (*segment.Turn, error)
}

// Resume begins the next lifecycle of a log: closers if a turn was interrupted,
// then the boundary, then what its writer appends. A log that ends in a boundary
// and has no open turn is not marked again. Errors: ErrNotFound, ErrDeleted,
// ErrHeld, and those of reading the open turn.
func Resume(w manifest.Writer, opt ResumeOptions) Opening {
	return func(ctx context.Context, base *manifest.Record, at int64) (*manifest.Draft, error) {
		if err := MayTake(base, w, opt.AdoptOptions, at); err != nil {
			return nil, err
		}
		d, err := manifest.TakeOver(base, w, manifest.KindResume, at)
		if err != nil {
			return nil, err
		}
		turn := base.Content.Turn
		if turn != nil && turn.More && opt.Turn != nil {
			if turn, err = opt.Turn(ctx, base); err != nil {
				return nil, fmt.Errorf("reading the open turn: %w", err)
			}
		}
		closers, err := End(d, base, turn)
		if err != nil {
			return nil, err
		}
		if closers > 0 || !Marked(base.Content, base.Next) {
			if err := Mark(d, at); err != nil {
				return nil, err
			}
		}
		d.Begin(manifest.KindResume, base.Next, closers)
		return d, nil
	}
}

// End adds the closers of an open turn, and returns how many they are.
func End(d *manifest.Draft, base *manifest.Record, turn *segment.Turn) (int64, error) {
	if turn == nil || base.Content.LastTime == nil {
		return 0, nil
	}
	events, err := Closers(turn, d.Next(), *base.Content.LastTime)
	if err != nil {
		return 0, err
	}
	for _, e := range events {
		d.Append(e)
	}
	return int64(len(events)), nil
}

// Mark adds the boundary. now is in ms.
func Mark(d *manifest.Draft, now int64) error {
	e, err := Boundary(d.Next(), now, d.MaxTime())
	if err != nil {
		return err
	}
	d.Append(e)
	return nil
}

// Marked reports whether a log ends in a boundary and has no open turn, so that
// it need not be marked again.
func Marked(s segment.State, next int64) bool {
	return s.Turn == nil && s.Boundary != nil && s.Boundary.Seq == next-1
}
