package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// The errors that a caller meets, wherever they are defined. Every error of this
// package that concerns a log is an *OpError around one of them or around what
// the store said.
var (
	ErrNotFound           = manifest.ErrNotFound           // no such log
	ErrExists             = manifest.ErrExists             // it is there already, or holds other events
	ErrFenced             = manifest.ErrFenced             // another writer took over; says who and at which seq
	ErrHeld               = manifest.ErrHeld               // its owner has not let go
	ErrOutcomeUnknown     = manifest.ErrOutcomeUnknown     // committed or not: ask Decide with Token
	ErrKeyConflict        = manifest.ErrKeyConflict        // the key was used for other events
	ErrCorrupt            = segment.ErrCorrupt             // stored bytes are not what was written
	ErrMissing            = manifest.ErrMissing            // an object that the manifest names is not there
	ErrRolledBack         = manifest.ErrRolledBack         // older than what this reader saw before
	ErrUnsupportedVersion = segment.ErrUnsupportedVersion  // written by a newer s3log
	ErrUnsupportedStore   = manifest.ErrUnsupportedStore   // the store does not honour conditions
	ErrDenied             = manifest.ErrDenied             // these credentials may not
	ErrReadOnly           = objstore.ErrReadOnly           // a store that was opened for reading; an ErrDenied
	ErrSeqMismatch        = segment.ErrSeqMismatch         // the log does not continue at that seq
	ErrInvalidEvent       = segment.ErrInvalidEvent        // breaks the rules of the envelope
	ErrTooLarge           = segment.ErrTooLarge            // beyond a limit
	ErrDeleted            = manifest.ErrDeleted            // deleted; the id stays taken
	ErrClosed             = errors.New("handle is closed") // Close was called
)

// OpError says which operation on which log and object failed, at which seq,
// and what can be done.
type OpError = manifest.OpError

// HeldError is an ErrHeld that says who holds the log, and until when.
type HeldError = seedpath.HeldError

// Token is the text that settles an unknown outcome: pass it to Decide, or to
// `s3logctl decide`, from any process. It is empty for every other error.
func Token(err error) string {
	if !errors.Is(err, ErrOutcomeUnknown) {
		return ""
	}
	if ce, ok := errors.AsType[*manifest.CommitError](err); ok {
		return ce.Intent.Token()
	}
	return ""
}

// opError wraps an error for one log, unless that was done below.
func opError(op, id string, err error) error {
	if err == nil {
		return nil
	}
	if oe, ok := errors.AsType[*OpError](err); ok && oe.Log == id {
		if _, direct := err.(*OpError); direct {
			if oe.Hint == "" {
				hinted := *oe
				hinted.Hint = hint(oe.Err)
				return &hinted
			}
			return err
		}
	}
	key := ""
	if _, ok := isCommitError(err); ok {
		key = manifest.Key(id)
	}
	return &OpError{Op: op, Log: id, Key: key, Seq: -1, Err: err, Hint: hint(err)}
}

// hint says what the person who reads the error can do.
func hint(err error) string {
	if oe, ok := errors.AsType[*OpError](err); ok && oe.Hint != "" {
		return oe.Hint
	}
	if se, ok := errors.AsType[*objstore.Error](err); ok && se.Hint != "" {
		return se.Hint
	}
	for _, h := range hints {
		if errors.Is(err, h.err) {
			return h.text
		}
	}
	return ""
}

// HintPutBack says how a segment that is missing or damaged is put back.
const HintPutBack = "where there is a copy of the log, `s3logctl cp LOG --from COPY --verify` puts back what is missing or damaged; else the bucket may have an older version of the object"

var hints = []struct {
	err  error
	text string
}{
	{ErrOutcomeUnknown, "settle it with the token (`s3logctl decide TOKEN`), or repeat an append that had a key, with the same key"},
	{ErrFenced, "another writer owns the log now; nothing more of this one is accepted. To go on behind the other's events, begin anew; or fork the log"},
	{ErrHeld, "wait until its owner lets go, or take it over on purpose (--take-over)"},
	{ErrExists, "append to the one that is there, or choose another id"},
	{ErrNotFound, "check the id and the store; `s3logctl ls` shows the logs of a store"},
	{ErrDeleted, "`s3logctl info` says who deleted it, and when; its id stays taken, so a new log needs another"},
	{ErrKeyConflict, "use a new key for new events"},
	{ErrSeqMismatch, "look at the log's next seq (`s3logctl info`) and decide again"},
	{ErrUnsupportedVersion, "use a newer s3log"},
	{ErrUnsupportedStore, "this store cannot be written to safely; reading stays possible"},
	{ErrReadOnly, "open the store for writing"},
	{ErrDenied, "check the credentials and the bucket's policies"},
	{ErrCorrupt, "`s3logctl verify LOG` names everything that is damaged; " + HintPutBack},
	{context.Canceled, ""}, // whatever the store was asked: the caller knows why it ended
	{objstore.ErrConflict, "nothing was written: another request for the same object was under way; try again"},
	{objstore.ErrThrottled, "the store asks for fewer requests: try again later"},
	{objstore.ErrUndecided, "the store, or the way to it, failed in passing: try again"},
	{context.DeadlineExceeded, "it took too long: try again, with more time"},
}

// below is what an error says of an object that is named beside it.
func below(err error) error {
	if oe, ok := err.(*OpError); ok { //nolint:errorlint // what is around it says more than which object
		return oe.Err
	}
	return err
}

// codes name errors; docs/cli.md lists them. An error that matches several is the
// first one.
var codes = []struct {
	err  error
	code string
}{
	{ErrOutcomeUnknown, "outcome-unknown"},
	{ErrFenced, "fenced"},
	{ErrHeld, "held"},
	{ErrExists, "exists"},
	{ErrDiverged, "diverged"},
	{ErrSeqMismatch, "seq-mismatch"},
	{ErrKeyConflict, "key-conflict"},
	{ErrOpenTurn, "open-turn"},
	{ErrDeleted, "deleted"},
	{ErrNotFound, "not-found"},
	{ErrUnsupportedVersion, "unsupported-version"},
	{ErrMissing, "missing"},
	{ErrRolledBack, "rolled-back"},
	{ErrCorrupt, "corrupt"},
	{objstore.ErrTooLarge, "corrupt"}, // an object that no writer made
	{ErrInvalidEvent, "invalid-event"},
	{ErrTooLarge, "too-large"},
	{ErrDenied, "denied"},
	{ErrUnsupportedStore, "unsupported-store"},
	{objstore.ErrNotExist, "not-found"},
	{ErrClosed, "closed"},
	{context.Canceled, "interrupted"},
	{objstore.ErrUndecided, "unavailable"},
	{objstore.ErrUnsent, "unavailable"},
	{context.DeadlineExceeded, "unavailable"},
}

// Code names an error in a word, as JSON of s3logctl, logs and metrics do: fenced,
// outcome-unknown, denied and so on. It is failure for an error without a name,
// and empty for nil.
func Code(err error) string {
	if err == nil {
		return ""
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return "failure"
}

// Codes are all names that Code gives, those of errors with a name.
func Codes() (names []string) {
	for _, c := range codes {
		if !slices.Contains(names, c.code) {
			names = append(names, c.code)
		}
	}
	return names
}

func argError(op, id, format string, args ...any) error {
	return &OpError{Op: op, Log: id, Seq: -1, Err: fmt.Errorf(format, args...)}
}
