package faultstore

import (
	"errors"
	"time"

	"github.com/s3log/s3log/backend/objstore"
)

// Fault is what happens to a call instead of, or besides, being passed on. Make
// one with the functions of this file.
type Fault struct {
	kind  kind
	err   error
	delay time.Duration
	after int
	hook  func()
	edit  func(o *objstore.Object)
}

type kind uint8

const (
	kindFail kind = iota + 1
	kindFailApplied
	kindLate
	kindLateCopy
	kindDuplicate
	kindDelay
	kindBefore
	kindAfter
	kindEdit
	kindFailList
)

// Fail makes the call fail with err; nothing reaches the inner store. A err
// that is no *objstore.Error is wrapped into one: of the class that it is, else
// ErrUndecided. nil means ErrUndecided.
func Fail(err error) Fault { return Fault{kind: kindFail, err: err} }

// FailApplied passes the call on, then throws the reply away, whatever it was,
// and fails with err (see Fail).
func FailApplied(err error) Fault { return Fault{kind: kindFailApplied, err: err} }

// LostReply is FailApplied with the commonest of errors: the connection broke
// after the store had done it.
func LostReply() Fault { return FailApplied(undecided(0, "", "connection reset by peer")) }

// Late fails a Put, Copy or Delete with ErrUndecided now and keeps it; it
// reaches the inner store, which then judges its condition, when the test calls
// Injection.Release, maybe after newer writes. A read just fails.
func Late() Fault { return Fault{kind: kindLate} }

// LateCopy passes a Put, Copy or Delete on as usual and keeps a copy of it that
// arrives with Injection.Release: a request duplicated in the network.
func LateCopy() Fault { return Fault{kind: kindLateCopy} }

// Duplicate passes the call on twice; the caller hears the second reply. A Put
// that was applied is so answered with ErrPrecondition.
func Duplicate() Fault { return Fault{kind: kindDuplicate} }

// Delay passes the call on after d, or fails with ErrUndecided when its context
// ends first.
func Delay(d time.Duration) Fault { return Fault{kind: kindDelay, delay: d} }

// Before calls f before the call is passed on: what another process may do in
// between. f may use the store.
func Before(f func()) Fault { return Fault{kind: kindBefore, hook: f} }

// After calls f after the inner store has answered and before the caller hears
// it. f may use the store.
func After(f func()) Fault { return Fault{kind: kindAfter, hook: f} }

// Edit lets f change a good reply of Get, Head, Put or Copy; only that of Get
// has a Body. So a test plays torn and damaged reads, or replies without a
// version.
func Edit(f func(o *objstore.Object)) Fault { return Fault{kind: kindEdit, edit: f} }

// FailList makes a List fail with err (see Fail) after n objects, or after
// all if there are fewer. Other calls just fail.
func FailList(n int, err error) Fault { return Fault{kind: kindFailList, after: n, err: err} }

// Unavailable fails with a server error; nothing was applied, but the caller
// cannot know.
func Unavailable() Fault { return Fail(undecided(500, "InternalError", "")) }

// Throttled fails as a store that is asked too often.
func Throttled() Fault {
	return Fail(&objstore.Error{Class: objstore.ErrThrottled, Status: 503, Code: "SlowDown"})
}

// Conflict fails as a store that decided nothing between two writes at once.
func Conflict() Fault {
	return Fail(&objstore.Error{Class: objstore.ErrConflict, Status: 409, Code: "ConditionalRequestConflict"})
}

// Denied fails for lack of permission.
func Denied() Fault {
	return Fail(&objstore.Error{Class: objstore.ErrDenied, Status: 403, Code: "AccessDenied"})
}

// Refused fails as a store that cannot be used in this way.
func Refused() Fault {
	return Fail(&objstore.Error{Class: objstore.ErrRefused, Status: 301, Code: "PermanentRedirect"})
}

// Unsupported fails as a store without conditional writes.
func Unsupported() Fault {
	return Fail(&objstore.Error{Class: objstore.ErrUnsupported, Status: 501, Code: "NotImplemented"})
}

// Rejected fails as if the body had been damaged on its way.
func Rejected() Fault {
	return Fail(&objstore.Error{Class: objstore.ErrRejected, Status: 400, Code: "BadDigest"})
}

// errLate is what the caller of a late request hears.
var errLate = undecided(0, "", "timed out waiting for the reply")

func undecided(status int, code, cause string) error {
	e := &objstore.Error{Class: objstore.ErrUndecided, Status: status, Code: code}
	if cause != "" {
		e.Err = errors.New(cause)
	}
	return e
}

// classes has the finer ones before those that they belong to.
var classes = []error{
	objstore.ErrGone, objstore.ErrThrottled, objstore.ErrDenied, objstore.ErrUnsupported,
	objstore.ErrNotExist, objstore.ErrNotModified, objstore.ErrRange, objstore.ErrPrecondition, objstore.ErrConflict,
	objstore.ErrRejected, objstore.ErrUndecided, objstore.ErrRefused, objstore.ErrTooLarge,
}

// storeError makes err the *objstore.Error of a call.
func storeError(op, key string, err error) error {
	if e, ok := errors.AsType[*objstore.Error](err); ok {
		c := *e
		c.Op, c.Key = op, key
		return &c
	}
	e := &objstore.Error{Op: op, Key: key, Class: objstore.ErrUndecided, Err: err}
	for _, class := range classes {
		if errors.Is(err, class) {
			e.Class = class
			if err == class {
				e.Err = nil
			}
			break
		}
	}
	return e
}
