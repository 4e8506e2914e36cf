package main

import (
	"errors"
	"fmt"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/sessionfile"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailure     = 1
	exitUsage       = 2 // also: invalid event, too large
	exitLive        = 3 // the verdict of a check
	exitConflict    = 4 // somebody or something else is there already
	exitNotFound    = 5 // also: deleted
	exitDamaged     = 6 // also: missing, rolled back
	exitDenied      = 7
	exitUnsupported = 8
	exitUnknown     = 9
)

// errUsage is a mistake in the command line.
var errUsage = errors.New("usage")

// exits has the exit code for every name of an error; docs/cli.md lists them.
var exits = map[string]int{
	"usage":         exitUsage,
	"invalid-event": exitUsage,
	"too-large":     exitUsage,

	"fenced":       exitConflict,
	"held":         exitConflict,
	"exists":       exitConflict,
	"diverged":     exitConflict,
	"seq-mismatch": exitConflict,
	"key-conflict": exitConflict,
	"open-turn":    exitConflict,

	"deleted":   exitNotFound,
	"not-found": exitNotFound,

	"missing":     exitDamaged,
	"rolled-back": exitDamaged,
	"torn":        exitDamaged,
	"corrupt":     exitDamaged,

	"denied":              exitDenied,
	"unsupported-version": exitUnsupported,
	"unsupported-store":   exitUnsupported,
	"outcome-unknown":     exitUnknown,

	"interrupted": exitFailure,
	"unavailable": exitFailure,
	"closed":      exitFailure,
	"failure":     exitFailure, // an error without a name
}

// ownErrors are those that the library knows nothing of.
var ownErrors = []struct {
	err  error
	code string
}{
	{errUsage, "usage"},
	{errFileExists, "exists"},
	{sessionfile.ErrTorn, "torn"},
}

// classify finds exit code and name of an error.
func classify(err error) (exit int, code string) {
	code = backend.Code(err)
	for _, own := range ownErrors {
		if errors.Is(err, own.err) && code != "outcome-unknown" { // which is the worst to be told
			code = own.code
			break
		}
	}
	if exit, ok := exits[code]; ok {
		return exit, code
	}
	return exitFailure, code
}

// usageError is an errUsage that does not say so.
type usageError struct{ error }

func (e usageError) Unwrap() error      { return e.error }
func (usageError) Is(target error) bool { return target == errUsage }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// hinted is an error with a hint for the person who reads it.
type hinted struct {
	error
	hint string
}

func (e hinted) Unwrap() error { return e.error }

func withHint(err error, hint string) error { return hinted{err, hint} }

// tokened is an error of the settling of a token.
type tokened struct {
	error
	token string
}

func (e tokened) Unwrap() error { return e.error }

// failure is an error in JSON.
type failure struct {
	Error string  `json:"error"`
	Code  string  `json:"code"`
	Log   *string `json:"log"`
	Key   *string `json:"key"`
	Seq   *int64  `json:"seq"`
	Hint  *string `json:"hint"`
	Token string  `json:"token,omitempty"`
}

// describe collects what an error of a verb and its causes say, the outer ones
// first.
func describe(err error, verb string) (failure, int) {
	exit, code := classify(err)
	f := failure{Error: errorText(err, verb), Code: code, Token: backend.Token(err)}
	if t, ok := errors.AsType[tokened](err); ok {
		f.Token = t.token
	}
	set := func(to **string, text string) {
		if *to == nil && text != "" {
			*to = &text
		}
	}
	var walk func(err error)
	walk = func(err error) {
		switch e := err.(type) { //nolint:errorlint // every link of the chain is visited
		case hinted:
			set(&f.Hint, e.hint)
		case *backend.OpError:
			set(&f.Log, e.Log)
			set(&f.Key, e.Key)
			set(&f.Hint, e.Hint)
			if f.Seq == nil && e.Seq >= 0 {
				f.Seq = &e.Seq
			}
		case *objstore.Error:
			set(&f.Key, e.Key)
			set(&f.Hint, e.Hint)
		}
		switch e := err.(type) { //nolint:errorlint // the same
		case interface{ Unwrap() error }:
			if inner := e.Unwrap(); inner != nil {
				walk(inner)
			}
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				walk(inner)
			}
		}
	}
	walk(err)
	return f, exit
}

// complain reports an error on stderr, and keeps the exit code of the first
// one. nil is no error.
func (g *globals) complain(err error) {
	if err == nil {
		return
	}
	_ = g.out.Flush() // in the order in which things happened; its error comes again
	f, exit := describe(err, g.verb)
	if g.exit == exitDone {
		g.exit = exit
	}
	if g.asJSON() {
		writeJSON(g.err, f)
		return
	}
	fmt.Fprintf(g.err, "s3logctl: %s\n", oneLine(f.Error))
	if f.Hint != nil {
		fmt.Fprintf(g.err, "hint: %s\n", oneLine(*f.Hint))
	}
	if f.Token != "" {
		fmt.Fprintf(g.err, "token: %s\n", oneLine(f.Token))
	}
}
