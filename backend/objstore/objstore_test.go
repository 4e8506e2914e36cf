package objstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestCondition(t *testing.T) {
	v := NewVersion("v1")
	for _, tc := range []struct {
		c      Condition
		valid  bool
		absent bool
		match  Version
		text   string
	}{
		{Condition{}, false, false, Version{}, "invalid"},
		{IfVersion(Version{}), false, false, Version{}, "invalid"},
		{IfVersion(NewVersion("")), false, false, Version{}, "invalid"},
		{IfAbsent(), true, true, Version{}, "if-absent"},
		{IfVersion(v), true, false, v, "if-version v1"},
		{Condition{absent: true, match: v}, false, true, v, "invalid"},
	} {
		if tc.c.Valid() != tc.valid || tc.c.Absent() != tc.absent || tc.c.Match() != tc.match || tc.c.String() != tc.text {
			t.Errorf("%#v: valid %v, absent %v, match %v, %q", tc.c, tc.c.Valid(), tc.c.Absent(), tc.c.Match(), tc.c)
		}
	}
	if (Version{}).String() != "none" || v.String() != "v1" || v.Token() != "v1" || v.IsZero() {
		t.Errorf("versions show as %q and %q", Version{}, v)
	}
}

func TestClassify(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want Class
	}{
		{nil, Applied},
		{ErrPrecondition, Precondition}, {ErrGone, Precondition},
		{ErrConflict, TryAgain},
		{ErrRejected, NotApplied}, {ErrTooLarge, NotApplied},
		{ErrRefused, Refused}, {ErrDenied, Refused}, {ErrUnsupported, Refused},
		{ErrUndecided, Undecided}, {ErrThrottled, Undecided},
		{context.Canceled, Undecided}, {errors.New("a bug"), Undecided},
	} {
		err := tc.err
		if err != nil {
			err = fmt.Errorf("wrapped: %w", &Error{Op: "Put", Key: "k", Class: err})
		}
		if got := Classify(err); got != tc.want {
			t.Errorf("Classify(%v) = %v, want %v", tc.err, got, tc.want)
		}
	}
}

func TestError(t *testing.T) {
	cause := errors.New("cause")
	for _, tc := range []struct {
		err  *Error
		want string
	}{
		{&Error{Op: "Get", Key: "k", Class: ErrNotExist}, "Get k: object does not exist"},
		{&Error{Op: "Put", Key: "k", Class: ErrThrottled, Status: 503, Code: "SlowDown"}, "Put k: no decisive reply: throttled (SlowDown, HTTP 503)"},
		{&Error{Op: "Put", Key: "k", Class: ErrDenied, Code: "X"}, "Put k: refused: access denied (X)"},
		{&Error{Op: "Head", Key: "k", Class: ErrUndecided, Status: 500, Err: cause}, "Head k: no decisive reply (HTTP 500): cause"},
	} {
		if got := tc.err.Error(); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
		if !errors.Is(tc.err, tc.err.Class) || errors.Is(tc.err, cause) != (tc.err.Err != nil) {
			t.Errorf("%v does not unwrap to its class and cause", tc.err)
		}
	}
}

// Before the store has said anything the local clock has to do; then the
// store's does, whatever the local one says, and it does not step back because
// of whole seconds or of replies that overtake each other.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		if got := c.Now(); !got.Equal(time.Now()) {
			t.Errorf("without a reply: %v", got)
		}
		c.Observe(time.Time{})
		if got := c.Now(); !got.Equal(time.Now()) {
			t.Errorf("after a reply without a date: %v", got)
		}
		date := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
		want := func(what string, d time.Duration) {
			t.Helper()
			if got := c.Now().Sub(date); got != d {
				t.Errorf("%s: %v after the date, want %v", what, got, d)
			}
		}
		c.Observe(date)
		want("at once", 0)
		time.Sleep(900 * time.Millisecond)
		want("later", 900*time.Millisecond)
		c.Observe(date)
		want("the same second again", 900*time.Millisecond)
		c.Observe(date.Add(-time.Second))
		want("a reply that was overtaken", 900*time.Millisecond)
		c.Observe(date.Add(2 * time.Second))
		want("a newer date", 2*time.Second)
		time.Sleep(time.Hour)
		c.Observe(date.Add(time.Minute))
		want("the store's clock was set back", time.Minute)
	})
}
