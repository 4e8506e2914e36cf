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

// OpenTurnError is an ErrOpenTurn that says which turn, and where to cut instead.
type OpenTurnError struct {
	Turn int64
	At   int64 // the seq at which the fork would have ended
	// Instead is the newest seq before it at which no turn is open; -1 if there is
	// none. Where turns were begun before others ended, it may be an older one.
	Instead int64
}

func (e *OpenTurnError) Unwrap() error { return ErrOpenTurn }

func (e *OpenTurnError) Error() string {
	return fmt.Sprintf("%v: turn %d, at seq %d", ErrOpenTurn, e.Turn, e.At)
}

// InsideTurn refuses a fork that inherits what led to a state, where a turn is open.
func InsideTurn(s segment.State) error {
	if s.Turn == nil {
		return nil
	}
	e := &OpenTurnError{Turn: s.Turn.Turn, At: s.Tree.Size - 1, Instead: -1}
	starts, exact := s.Types.Get(segment.TypeTurnStart)
	ends, also := s.Types.Get(segment.TypeTurnEnd)
	switch {
	case exact && also && starts.Count == ends.Count+1:
		e.Instead = starts.Last - 1 // it alone is open
	case also && ends.Count > 0:
		e.Instead = ends.Last
	}
	return e
}

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
