package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

func TestWaiting(t *testing.T) {
	long := time.Now().Add(-waitingAfter)
	lost := &objstore.Error{Op: "Put", Key: "k", Class: objstore.ErrUndecided, Err: errors.New("nobody\x1bthere")}
	type answer struct {
		begin time.Time
		err   error
	}
	for name, tc := range map[string]struct {
		answers []answer
		notices int
	}{
		"all is well":        {[]answer{{long, nil}, {long, objstore.ErrPrecondition}, {long, objstore.ErrDenied}}, 0},
		"not long yet":       {[]answer{{time.Now(), lost}, {time.Now(), lost}}, 0},
		"long":               {[]answer{{long, lost}, {time.Now(), lost}, {time.Now(), lost}}, 1},
		"one that took long": {[]answer{{long, lost}}, 1},
		"a conflict":         {[]answer{{long, objstore.ErrConflict}}, 1},
		"twice":              {[]answer{{long, lost}, {long, nil}, {long, lost}}, 2},
		"answered meanwhile": {[]answer{{time.Now(), lost}, {long, nil}, {time.Now(), lost}}, 0},
	} {
		var stderr bytes.Buffer
		g := newGlobals(surroundings{stderr: &stderr})
		for _, a := range tc.answers {
			g.wait.saw(g, a.err, a.begin)
		}
		g.wait.end()
		g.wait.saw(g, lost, long)
		g.wait.saw(g, nil, long)
		g.wait.saw(g, lost, long)
		if got := strings.Count(stderr.String(), "still trying"); got != tc.notices || strings.Count(stderr.String(), "\n") != tc.notices || strings.Contains(stderr.String(), "\x1b") {
			t.Errorf("%s: %d notices, want %d:\n%s", name, got, tc.notices, stderr.String())
		}
	}
}

// What was taken back is nobody's silence.
func TestWaitingForACancelledWrite(t *testing.T) {
	var stderr bytes.Buffer
	store := faultstore.New(memstore.New(t), faultstore.Rule{Fault: faultstore.Unavailable()})
	g := newGlobals(surroundings{stderr: &stderr, open: func(context.Context, location, use) (objstore.Store, error) { return store, nil }})
	w, err := g.openAt(t.Context(), location{}, useWrite)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.wait.since = time.Now().Add(-time.Hour)
	put := func(ctx context.Context) {
		if _, err := w.Put(ctx, "k", []byte("x"), objstore.IfAbsent(), objstore.PutOptions{}); err == nil {
			t.Error("no error")
		}
	}
	if put(ctx); stderr.Len() > 0 {
		t.Errorf("got %s", stderr.String())
	}
	if put(t.Context()); strings.Count(stderr.String(), "still trying") != 1 {
		t.Errorf("got %s", stderr.String())
	}
}

// Who follows a log is told that the store does not answer; whoever reads once
// gets an error, and needs no notice.
func TestWaitingForAStoreThatIsFollowed(t *testing.T) {
	for name, tc := range map[string]struct {
		follows bool
		fault   faultstore.Fault
		notices int
	}{
		"silent":       {true, faultstore.Unavailable(), 1},
		"nothing new":  {true, faultstore.Fail(objstore.ErrNotModified), 0},
		"denied":       {true, faultstore.Denied(), 0},
		"not followed": {false, faultstore.Unavailable(), 0},
	} {
		var stderr bytes.Buffer
		store := faultstore.New(memstore.New(t), faultstore.Rule{Times: -1, Fault: tc.fault})
		g := newGlobals(surroundings{stderr: &stderr, open: func(context.Context, location, use) (objstore.Store, error) { return store, nil }})
		w, err := g.openAt(t.Context(), location{}, useRead)
		if err != nil {
			t.Fatal(err)
		}
		g.wait.follows.Store(tc.follows)
		for range 3 {
			g.wait.since = time.Now().Add(-time.Hour)
			if _, err := w.Get(t.Context(), "k", objstore.GetOptions{}); err == nil {
				t.Error("no error")
			}
		}
		if got := strings.Count(stderr.String(), "the store does not answer, still trying"); got != tc.notices {
			t.Errorf("%s: %d notices, want %d:\n%s", name, got, tc.notices, stderr.String())
		}
	}
}
