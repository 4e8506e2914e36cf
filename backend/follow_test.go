package backend_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
)

// Follow bears what fails in passing for as long as it is asked to, and ends
// with what does not.
func TestFollowFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		fault  faultstore.Fault
		times  int
		events int
		want   []error
	}{
		"five times unavailable": {faultstore.Unavailable(), 5, 2, []error{context.DeadlineExceeded}},
		"throttled for a while":  {faultstore.Throttled(), 6, 2, []error{context.DeadlineExceeded}},
		"unavailable":            {faultstore.Unavailable(), -1, 1, []error{context.DeadlineExceeded, objstore.ErrUndecided}},
		"denied":                 {faultstore.Denied(), 1, 1, []error{backend.ErrDenied}},
		"gone":                   {faultstore.Fail(objstore.ErrNotExist), 1, 1, []error{backend.ErrNotFound}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New(t)
				l := create(t, backend.New(mem, backend.Options{}), "log")
				appendOne(t, l, event(0))
				trace := tracestore.New(faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Get"), Nth: 3, Times: tc.times, Fault: tc.fault}), tracestore.Options{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				go func() {
					time.Sleep(20 * time.Second)
					appendOne(t, l, event(1))
				}()
				n := 0
				var last error
				for ev, err := range backend.NewReader(trace, backend.Options{PollInterval: time.Second}).Follow(ctx, "log", 0) {
					if last = err; err == nil {
						if ev.Seq != int64(n) {
							t.Errorf("seq %d", ev.Seq)
						}
						n++
					}
				}
				if n != tc.events {
					t.Errorf("%d events", n)
				}
				for _, want := range tc.want {
					if !errors.Is(last, want) {
						t.Errorf("ended with %v, want %v", last, want)
					}
				}
				// It does not hammer a store that fails.
				if gets := trace.Counts().Get; name == "unavailable" && (gets < 120 || gets > 260) {
					t.Errorf("%d GETs in an hour", gets)
				}
				time.Sleep(time.Minute)
				closeLog(t, l)
			})
		})
	}
}

// A segment that cannot be had for a while ends no Follow either: it goes on
// where it was, with every event once.
func TestFollowBearsSegmentsThatFail(t *testing.T) {
	objects, lines := longLog(t)
	for from := range []int{0, 20, 44} {
		for times := 1; times <= 8; times++ {
			synctest.Test(t, func(t *testing.T) {
				mem := restore(t, objects)
				store := faultstore.New(mem, faultstore.Rule{Match: faultstore.Prefix("segments/"), Nth: 2, Times: times, Fault: faultstore.Unavailable()})
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()
				var got []string
				for ev, err := range backend.NewReader(store, backend.Options{Prefetch: 1}).Follow(ctx, "log", int64(from)) {
					if err != nil {
						t.Fatal(err)
					}
					if got = append(got, string(ev.Line)); len(got) == len(lines)-from {
						break
					}
				}
				if !slices.Equal(got, lines[from:]) {
					t.Errorf("from %d, %d times: %d events", from, times, len(got))
				}
			})
		}
	}
}

// Where it cannot begin it says so at once; and who stops following is not kept
// waiting.
func TestFollowBeginsOrSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		l := create(t, backend.New(mem, backend.Options{}), "log")
		appendOne(t, l, event(0))
		closeLog(t, l)
		begin := time.Now()
		down := faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Get"), Fault: faultstore.Unavailable()})
		for _, err := range backend.NewReader(down, backend.Options{}).Follow(t.Context(), "log", 0) {
			if oe, ok := errors.AsType[*backend.OpError](err); !ok || !errors.Is(err, objstore.ErrUndecided) || oe.Hint == "" {
				t.Errorf("got %v", err)
			}
		}
		if d := time.Since(begin); d != 0 {
			t.Errorf("after %v", d)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		time.AfterFunc(90*time.Minute, func() { cancel(why) })
		later := faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Get"), Nth: 2, Times: -1, Fault: faultstore.Unavailable()})
		var last error
		for _, err := range backend.NewReader(later, backend.Options{}).Follow(ctx, "log", 0) {
			last = err
		}
		if !errors.Is(last, why) || !errors.Is(last, objstore.ErrUndecided) || time.Since(begin) != 90*time.Minute {
			t.Errorf("after %v: %v", time.Since(begin), last)
		}
	})
}

// An error of Events that may pass says where to go on, and going on there gives
// the rest.
func TestEventsSayWhereToGoOn(t *testing.T) {
	objects, lines := longLog(t)
	store := faultstore.New(restore(t, objects), faultstore.Rule{Match: faultstore.Prefix("segments/"), Nth: 3, Fault: faultstore.Unavailable()})
	got, err := readAll(t.Context(), backend.NewReader(store, backend.Options{Prefetch: 1}), "log", 0)
	oe, ok := errors.AsType[*backend.OpError](err)
	if !ok || !errors.Is(err, objstore.ErrUndecided) || len(got) == 0 || !strings.Contains(oe.Hint, fmt.Sprintf("before seq %d were read: go on from there", len(got))) {
		t.Fatalf("%d events, %+v", len(got), err)
	}
	rest, err := readAll(t.Context(), backend.NewReader(restore(t, objects), backend.Options{}), "log", int64(len(got)))
	if err != nil || !slices.Equal(append(got, rest...), lines) {
		t.Errorf("%d and %d events, %v", len(got), len(rest), err)
	}
	// Where nothing was read there is nothing to go on from, and what does not pass
	// is not to be tried again.
	for _, fault := range []faultstore.Fault{faultstore.Unavailable(), faultstore.Denied()} {
		store := faultstore.New(restore(t, objects), faultstore.Rule{Match: faultstore.Prefix("segments/"), Fault: fault})
		_, err := readAll(t.Context(), backend.NewReader(store, backend.Options{}), "log", 0)
		if oe, ok := errors.AsType[*backend.OpError](err); !ok || oe.Hint == "" || strings.Contains(oe.Hint, "go on") {
			t.Errorf("%+v", err)
		}
	}
}
