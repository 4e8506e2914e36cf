package manifest

import (
	"errors"
	"strconv"
	"strings"

	"github.com/s3log/s3log/backend/objstore"
)

// What can become of work on a log. Damage, newer formats and faulty events
// are package segment's (ErrCorrupt, ErrUnsupportedVersion, ErrInvalidEvent,
// ErrTooLarge, ErrSeqMismatch).
var (
	// ErrNotFound: there is no log of this id, or it is gone.
	ErrNotFound = errors.New("no such log")
	// ErrExists: a log that was to be created is there already.
	ErrExists = errors.New("log exists already")
	// ErrFenced: another writer has taken the log over; nothing of ours lands
	// any more. The cause names who it was and at which seq.
	ErrFenced = errors.New("fenced")
	// ErrHeld: the owner holds a lease that has not expired.
	ErrHeld = errors.New("log is held")
	// ErrOutcomeUnknown: the commit may or may not have been, or may yet be,
	// applied, and no reading can tell. A token settles it.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrKeyConflict: the idempotency key was used before, for other events.
	ErrKeyConflict = errors.New("key was used for other events")
	// ErrMissing: an object that the manifest names is not there.
	ErrMissing = errors.New("object is missing")
	// ErrRolledBack: the manifest is older than one that was seen before.
	ErrRolledBack = errors.New("manifest was rolled back")
	// ErrDiverged: a copy has a history of its own by now.
	ErrDiverged = errors.New("the copy has diverged")
	// ErrDeleted: the log was deleted; its id stays taken.
	ErrDeleted = errors.New("log was deleted")
	// ErrUnsupportedStore: the store does not do what a log needs, above all
	// honour conditions on writes.
	ErrUnsupportedStore = objstore.ErrUnsupported
	// ErrDenied: these credentials may not do this.
	ErrDenied = objstore.ErrDenied

	// ErrStaleUpload: a segment may not be named by this commit (rule of names);
	// it is left to the collector and what it held is encoded anew.
	ErrStaleUpload = errors.New("upload does not fit this commit")
)

// OpError is the error of an operation on a log.
type OpError struct {
	Op   string // "append", "load", ...
	Log  string // the id; empty where no single log is concerned
	Key  string // object key, if it matters
	Seq  int64  // seq that it is about; -1 if none
	Err  error  // the cause
	Hint string // what the person who reads this can do; not part of Error
}

// Error says operation, log, object, seq and cause in one line; ids and keys
// are quoted, so that nothing in them reaches a terminal unescaped.
func (e *OpError) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Log != "" {
		b.WriteString(" " + strconv.Quote(e.Log))
	}
	if e.Key != "" {
		b.WriteString(" (object " + strconv.Quote(e.Key) + ")")
	}
	if e.Seq >= 0 {
		b.WriteString(" at seq " + strconv.FormatInt(e.Seq, 10))
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *OpError) Unwrap() error { return e.Err }
