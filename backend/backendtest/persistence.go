package backendtest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/s3log/s3log/backend"
)

// persistence are the scenarios of a single store of sessions.
var persistence = []scenario{
	{"01 round trip", func(k *kit) {
		k.written(header, wholeTurn()...)
		k.holds(wholeTurn()...)
		if got := string(k.info().Header); got != header {
			k.Errorf("the header became %s", got)
		}
	}},
	{"02 a refused create reserves nothing", func(k *kit) {
		_, err := k.process().Create(k.id, backend.CreateOptions{Header: []byte(`[1.5]`)})
		k.is(err, backend.ErrInvalidEvent)
		k.written(header, wholeTurn()...)
		k.holds(wholeTurn()...)
	}},
	{"03 an interrupted turn is shown closed, and closed by a resume", func(k *kit) {
		events := append(wholeTurn(), number(6, `turn/start {"turn":2}`, `step/start {"turn":2,"step":1}`)...)
		k.written(header, events...)
		before := k.revision()
		closers := k.closers(events)
		if got := k.inspected(); !slices.Equal(got, append(slices.Clone(events), closers...)) || len(got) != 10 {
			k.Errorf("inspected: %s", strings.Join(got, "\n"))
		}
		k.holds(events...)
		if k.revision() != before {
			k.Error("looking at the log changed it")
		}
		l, r := k.resume(backend.ResumeOptions{})
		if r.First != 8 || r.Next != 11 || k.revision() == before {
			k.Errorf("%+v", r)
		}
		want := k.marked(k.id, append(events, closers...)...)
		more := number(11, `turn/start {"turn":3}`, `turn/end {"turn":3}`)
		k.append(l, more...)
		k.close(l)
		k.holds(append(want, more...)...)
	}},
	{"04 a call that was not recorded gets a result", func(k *kit) {
		k.interrupted("TOOL_NOT_STARTED", number(0, turnStart, stepStart, asks)...)
	}},
	{"05 a recorded call without result is of unknown outcome", func(k *kit) {
		result := k.interrupted("TOOL_OUTCOME_UNKNOWN", number(0, turnStart, stepStart, asks, call)...)
		if !strings.Contains(result, "merely reads") || !strings.Contains(result, "ask the user") {
			k.Errorf("the text does not say when to call again: %s", result)
		}
	}},
	{"06 what was never appended to is not listed", func(k *kit) {
		l := k.create(k.process(), header)
		k.close(l)
		if k.listed() {
			k.Error("it is listed")
		}
	}},
	{"07 what is cancelled says why", func(k *kit) {
		k.written(header, wholeTurn()...)
		why := errors.New("the caller has gone")
		ctx, cancel := context.WithCancelCause(k.Context())
		cancel(why)
		r := k.reader()
		failed := map[string]error{}
		for _, err := range r.Events(ctx, k.id, backend.ReadOptions{}) {
			failed["events"] = err
		}
		for _, err := range r.Inspect(ctx, k.id) {
			failed["inspect"] = err
		}
		for _, err := range r.List(ctx, backend.ListOptions{}) {
			failed["list"] = err
		}
		_, failed["info"] = r.Info(ctx, k.id)
		_, failed["verify"] = r.Verify(ctx, k.id, backend.VerifyOptions{})
		_, _, failed["resume"] = k.process().Resume(ctx, k.id, backend.ResumeOptions{})
		for what, err := range failed {
			if !errors.Is(err, context.Canceled) && !errors.Is(err, why) {
				k.Errorf("%s: %v", what, err)
			}
		}
		k.holds(wholeTurn()...)
	}},
	{"08 reading from a seq", func(k *kit) {
		events := number(0, turnStart, stepStart, asks, call)
		k.written(header, events...)
		for from := range int64(6) {
			want := events[min(int(from), len(events)):]
			if got := k.lines(k.id, from); !slices.Equal(got, want) {
				k.Errorf("from %d: %q", from, got) // the open turn as it is
			}
		}
		for _, err := range k.reader().Events(k.Context(), k.id, backend.ReadOptions{From: -1}) {
			if err == nil {
				k.Error("an event before the first")
			}
		}
		for _, err := range k.reader().Events(k.Context(), k.id+" missing", backend.ReadOptions{}) {
			k.is(err, backend.ErrNotFound)
		}
	}},
	{"09 revisions", func(k *kit) {
		k.written(header, wholeTurn()...)
		first, number1 := k.revision(), k.info().Revision
		k.lines(k.id, 0)
		if k.revision() != first || k.info().Revision != number1 {
			k.Error("it changed without a change")
		}
		l := k.adopt()
		k.append(l, number(6, "note")...)
		k.close(l)
		if k.revision() == first || k.info().Revision != number1+1 {
			k.Error("it did not change with an append")
		}
	}},
	{"10 stored seqs are not appended again", func(k *kit) {
		k.written(header, wholeTurn()...)
		l := k.adopt()
		for _, again := range [][]string{wholeTurn(), wholeTurn()[5:], number(7, "note")} {
			_, err := l.Append(k.Context(), raw(again), backend.AppendOptions{})
			k.is(err, backend.ErrSeqMismatch)
		}
		k.append(l, number(6, "note")...) // the handle is as good as before
		k.close(l)
		k.holds(append(wholeTurn(), number(6, "note")...)...)
	}},
	{"11 a gap in a batch is refused", func(k *kit) {
		l := k.create(k.process(), header)
		_, err := l.Append(k.Context(), raw(append(number(0, "note"), number(2, "note")...)), backend.AppendOptions{})
		k.is(err, backend.ErrSeqMismatch)
		k.append(l, wholeTurn()...)
		k.close(l)
		k.holds(wholeTurn()...)
	}},
	{"12 what is not JSON is refused", func(k *kit) {
		l := k.create(k.process(), header)
		for _, bad := range []string{
			`{"type":"note","data":undefined}`, `{"type":"note","data":NaN}`, `{"type":"note","data":-Infinity}`, `{"type":"note","data":1n}`,
			`{"type":"note","data":[1,,2]}`, `{"type":"note"}`, `{"type":"note","data":"` + "\xff" + `"}`,
		} {
			_, err := l.Append(k.Context(), raw([]string{bad}), backend.AppendOptions{})
			k.is(err, backend.ErrInvalidEvent)
		}
		_, err := l.Append(k.Context(), raw([]string{`{"type":"note","data":1,"extra":2}`}), backend.AppendOptions{})
		k.is(err, backend.ErrInvalidEvent)
		if err == nil || !strings.Contains(err.Error(), `"note"`) {
			k.Errorf("it does not name the type: %v", err)
		}
		k.append(l, wholeTurn()...)
		k.close(l)
		k.holds(wholeTurn()...)
	}},
}

// interrupted resumes a log that ends in these events, with one call without a
// result, and returns the line of the one that it gets.
func (k *kit) interrupted(code string, events ...string) string {
	k.Helper()
	k.written(header, events...)
	l, _ := k.resume(backend.ResumeOptions{})
	k.close(l)
	closers := k.closers(events)
	k.holds(k.marked(k.id, append(events, closers...)...)...)
	if !strings.Contains(closers[0], `"code":"`+code+`"`) || !strings.Contains(closers[0], `"source":{"kind":"tool","callId":"c1"}`) || len(closers) != 3 {
		k.Errorf("%q", closers)
	}
	return closers[0]
}

// listed reports whether the scenario's log is in a listing.
func (k *kit) listed() (found bool) {
	k.Helper()
	for e, err := range k.reader().List(k.Context(), backend.ListOptions{By: backend.ByName}) {
		k.must(err)
		found = found || e.Log == k.id
	}
	return found
}
