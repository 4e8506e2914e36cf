package seedpath

import (
	"errors"
	"fmt"

	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// ErrOpenTurn: a fork would end inside a turn that is still open.
var ErrOpenTurn = errors.New("the fork would end inside an open turn")

// Cut finds how many of a parent's events a fork inherits: all, those up to and
// including seq at, or with clip those up to the newest end of a turn.
func Cut(parent *manifest.Record, at *int64, clip bool) (upTo int64, err error) {
	switch {
	case at != nil && clip:
		return 0, errors.New("a fork is cut at a seq or clipped, not both")
	case at != nil && (*at < 0 || *at >= parent.Next):
		return 0, fmt.Errorf("%w: no seq %d in the parent, which has %s", segment.ErrSeqMismatch, *at, words.Count(parent.Next, "event"))
	case at != nil:
		return *at + 1, nil
	case !clip:
		return parent.Next, nil
	}
	ends, exact := parent.Content.Types.Get(segment.TypeTurnEnd)
	switch {
	case !exact:
		return 0, errors.New("this log has so many event types that its manifest does not say where the newest turn ended; give the seq")
	case ends.Count == 0:
		return 0, fmt.Errorf("%w: no turn of the parent has ended", ErrOpenTurn)
	}
	return ends.Last + 1, nil
}

// SameFork reports whether a log that is there already is the very fork that
// was asked for, so that a repeated fork finds its first receipt.
func SameFork(have *manifest.Record, parent manifest.Parent) bool {
	o := have.Origin
	return have.State == manifest.StateOpen && o.Kind == manifest.KindFork && o.Parent != nil &&
		o.Parent.UID == parent.UID && o.Parent.UpTo == parent.UpTo && o.Parent.Root == parent.Root
}
