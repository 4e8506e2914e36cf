package objstore

import (
	"errors"
	"fmt"
	"time"
)

// What a store's reply means. Drivers map replies to these by error code, not
// by status alone; every error of a driver matches exactly one of the first
// nine, and some match a finer one besides.
var (
	// ErrNotExist: there is no such object (404 on a read). Where the caller may
	// not list the bucket, S3 answers ErrDenied instead.
	ErrNotExist = errors.New("object does not exist")
	// ErrNotModified: the object still has the version given in IfNot (304).
	ErrNotModified = errors.New("object not modified")
	// ErrRange: the range starts at or beyond the end of the object (416).
	ErrRange = errors.New("range starts beyond the end of the object")
	// ErrPrecondition: the condition did not hold when this request was decided
	// (412, or 404 on If-Match, which matches ErrGone too). The request may have
	// been applied by an earlier copy of itself.
	ErrPrecondition = errors.New("precondition failed")
	// ErrConflict: the store decided nothing and asks for the same request again
	// (409 ConditionalRequestConflict, OperationAborted).
	ErrConflict = errors.New("conflicting request in progress, nothing decided")
	// ErrRejected: the request was malformed or too large; this attempt was not
	// applied and never will be (BadDigest, EntityTooLarge, ...).
	ErrRejected = errors.New("request rejected")
	// ErrUndecided: the request may or may not have been, or may yet be, applied
	// (5xx, 429, time-out, reset, cancelled after bytes were sent). For a read it
	// just means that it failed in passing, and that retries did not help.
	ErrUndecided = errors.New("no decisive reply")
	// ErrRefused: the store will not do it for this caller, in this place or in
	// this way: this attempt was not applied (403, expired token, wrong region,
	// condition not supported).
	ErrRefused = errors.New("refused")
	// ErrTooLarge: the object is larger than GetOptions.Limit.
	ErrTooLarge = errors.New("object larger than the limit")

	// ErrGone is an ErrPrecondition: If-Match met no object at all.
	ErrGone = fmt.Errorf("%w: no object there", ErrPrecondition)
	// ErrUnsent is an ErrConflict in what may be concluded, with words of its own:
	// no byte of a write was sent, since nobody could be reached, and the same may
	// be sent again.
	ErrUnsent error = unsent{}
	// ErrThrottled is an ErrUndecided: the store asks for fewer requests.
	ErrThrottled = fmt.Errorf("%w: throttled", ErrUndecided)
	// ErrDenied is an ErrRefused: these credentials may not do this.
	ErrDenied = fmt.Errorf("%w: access denied", ErrRefused)
	// ErrNoCredentials is an ErrRefused: there are none, so that nothing was sent.
	ErrNoCredentials = fmt.Errorf("%w: no credentials found", ErrRefused)
	// ErrReadOnly is an ErrDenied: the store was opened for reading, so nothing
	// was sent.
	ErrReadOnly = fmt.Errorf("%w: opened for reading only", ErrDenied)
	// ErrUnsupported is an ErrRefused: this store cannot do it, or does not
	// honour conditions (also: a version that cannot be used in a condition).
	ErrUnsupported = fmt.Errorf("%w: not supported by this store", ErrRefused)
)

type unsent struct{}

func (unsent) Error() string        { return "not sent" }
func (unsent) Is(target error) bool { return target == ErrConflict }

// Error is the error of a store operation.
type Error struct {
	Op      string // "Get", "Put", "Head", "List", "Delete", "Copy"
	Key     string // object key, or the prefix of a List
	Class   error  // one of the sentinels of this package
	Code    string // the store's own error code, if any
	Status  int    // HTTP status, 0 where there is none
	Request string // the store's request id, if any, for its operator
	// Date is the store's clock when it answered, as in Info; zero where it did not.
	Date time.Time
	Hint string // what the person who reads this can do, if known
	Err  error  // the cause, may be nil
}

// Error says operation, key, meaning, the store's code and the cause.
func (e *Error) Error() string {
	s := e.Op + " " + e.Key + ": " + e.Class.Error()
	if e.Code != "" {
		s += " (" + e.Code
		if e.Status != 0 {
			s += fmt.Sprintf(", HTTP %d", e.Status)
		}
		s += ")"
	} else if e.Status != 0 {
		s += fmt.Sprintf(" (HTTP %d)", e.Status)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the class and the cause, so that errors.Is finds both.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Class}
	}
	return []error{e.Class, e.Err}
}

// DateOf is the store's clock in a failed reply; zero where it did not say.
func DateOf(err error) time.Time {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Date
	}
	return time.Time{}
}

// Class is what one reply to a conditional Put allows to conclude about that
// attempt.
type Class uint8

const (
	Undecided    Class = iota // applied or not, now or later: nothing may be concluded
	Applied                   // decided yes
	NotApplied                // decided no for this attempt: repeating it cannot help
	TryAgain                  // decided no for this attempt: send the same again
	Precondition              // the condition did not hold: read, then decide
	Refused                   // decided no: not for this caller, or not on this store
)

// Classify maps the error of a Put to its class. An error that no driver made
// (a cancelled context, a bug) is Undecided, the only safe answer.
func Classify(err error) Class {
	switch {
	case err == nil:
		return Applied
	case errors.Is(err, ErrPrecondition):
		return Precondition
	case errors.Is(err, ErrConflict):
		return TryAgain
	case errors.Is(err, ErrRefused):
		return Refused
	case errors.Is(err, ErrRejected), errors.Is(err, ErrTooLarge):
		return NotApplied
	}
	return Undecided
}

// String names the class in messages and tests.
func (c Class) String() string {
	return [...]string{"undecided", "applied", "not applied", "try again", "precondition failed", "refused"}[c]
}
