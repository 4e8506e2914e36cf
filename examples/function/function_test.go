package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
)

// instance is the function in a process of its own.
func instance(store objstore.Store) *Handler {
	return &Handler{Logs: backend.New(store, backend.Options{Foreground: true}), Model: echo}
}

var (
	hello = Invocation{Session: "s", Request: "request-1", Prompt: "hello"}
	again = Invocation{Session: "s", Request: "request-2", Prompt: "again"}
)

func handle(t *testing.T, store objstore.Store, in Invocation) Answer {
	t.Helper()
	a, err := instance(store).Handle(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// events are the events of the session, without their times.
func events(t *testing.T, store objstore.Store) (all []string) {
	t.Helper()
	for e, err := range backend.NewReader(store, backend.Options{}).Events(t.Context(), "s", backend.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		var ev map[string]any
		if err := json.Unmarshal(e.Line, &ev); err != nil {
			t.Fatal(err)
		}
		delete(ev, "time")
		all = append(all, fmt.Sprint(ev))
	}
	return all
}

// undisturbed is the session after both requests when nothing goes wrong.
func undisturbed(t *testing.T) []string {
	t.Helper()
	mem := memstore.New(t)
	if a := handle(t, mem, hello); a.Text != `You said "hello", after 0 messages.` || a.Repeated || a.Seq != 3 {
		t.Errorf("%+v", a)
	}
	if a := handle(t, mem, again); a.Text != `You said "again", after 2 messages.` || a.Repeated || a.Seq != 10 {
		t.Errorf("%+v", a)
	}
	all := events(t, mem)
	if len(all) != 13 || !strings.Contains(all[6], "session/end-seed") {
		t.Fatalf("%q", all)
	}
	return all
}

func TestAnInvocationIsOneCommit(t *testing.T) {
	requests := tracestore.New(memstore.New(t), tracestore.Options{})
	handle(t, requests, hello)
	before := requests.Counts()
	handle(t, requests, again)
	after := requests.Counts()
	if after.Put-before.Put != 1 || after.Get-before.Get != 2 {
		t.Errorf("%+v, then %+v", before, after)
	}
}

// A retried invocation adds nothing, not even a boundary: not a byte changes.
func TestRetriedInvocationAddsNothing(t *testing.T) {
	mem := memstore.New(t)
	first := handle(t, mem, hello)
	handle(t, mem, again)
	before := mem.Snapshot("")
	for range 2 {
		if a := handle(t, mem, hello); a.Text != first.Text || a.Seq != first.Seq || !a.Repeated {
			t.Errorf("%+v, at first %+v", a, first)
		}
	}
	if diff := cmp.Diff(before, mem.Snapshot("")); diff != "" {
		t.Error(diff)
	}
}

// Of two invocations of one request that run at the same time, and whose models
// answer differently, one adds its turn, and both return its answer.
func TestTwoInvocationsOfOneRequest(t *testing.T) {
	for name, model := range map[string]func(context.Context, []string, string) (string, error){
		"the same answer": echo,
		"another answer":  func(context.Context, []string, string) (string, error) { return "something else", nil },
	} {
		t.Run(name, func(t *testing.T) {
			mem := memstore.New(t)
			handle(t, mem, hello)
			var first Answer
			slow := faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Put"), Nth: 1, Fault: faultstore.Before(func() { first = handle(t, mem, again) })})
			h := instance(slow)
			h.Model = model
			second, err := h.Handle(t.Context(), again)
			if err != nil || !second.Repeated || second.Text != first.Text || second.Seq != first.Seq {
				t.Errorf("%+v, %+v, %v", first, second, err)
			}
			if diff := cmp.Diff(undisturbed(t), events(t, mem)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Another request that came first is not overlooked: the model did not know of it.
func TestTwoRequestsAtATime(t *testing.T) {
	for begun, told := range map[bool]string{false: "after 2 messages", true: "after 4 messages"} {
		mem := memstore.New(t)
		if begun {
			handle(t, mem, Invocation{Session: "s", Request: "request-0", Prompt: "first"})
		}
		slow := faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Put"), Nth: 1, Fault: faultstore.Before(func() { handle(t, mem, hello) })})
		if a, err := instance(slow).Handle(t.Context(), again); !errors.Is(err, backend.ErrSeqMismatch) || a != (Answer{}) {
			t.Errorf("begun %v: %v", begun, err)
		}
		if a := handle(t, mem, again); a.Repeated || !strings.Contains(a.Text, told) {
			t.Errorf("begun %v: %+v", begun, a)
		}
	}
}

// Whenever an instance is killed, with its request applied, not applied, or still
// on its way: when the platform tries again, the session is what it would be had
// nothing happened.
func TestKilledInvocationIsTriedAgain(t *testing.T) {
	want := undisturbed(t)
	for _, tc := range []struct {
		name  string
		fault faultstore.Fault
	}{
		{"applied", faultstore.LostReply()},
		{"not applied", faultstore.Unavailable()},
		{"on its way", faultstore.Late()},
	} {
		for nth := 1; nth <= 3; nth++ { // two GETs, one PUT
			t.Run(fmt.Sprintf("%s, request %d", tc.name, nth), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { killed(t, nth, tc.fault, want) })
			})
		}
	}
}

func killed(t *testing.T, nth int, fault faultstore.Fault, want []string) {
	mem := memstore.New(t)
	handle(t, mem, hello)
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	store := faultstore.New(mem)
	late := store.Inject(faultstore.Rule{Nth: nth, Fault: fault})
	// From then on it reaches nobody.
	store.Inject(faultstore.Rule{Nth: nth + 1, Times: -1, Fault: faultstore.Unavailable()})
	go func() {
		synctest.Wait() // it waits for a reply that it has not understood
		kill()
	}()
	if a, err := instance(store).Handle(ctx, again); err == nil {
		t.Errorf("%+v", a)
	}
	if a := handle(t, mem, again); a.Text != `You said "again", after 2 messages.` {
		t.Errorf("%+v", a)
	}
	for _, err := range late.Release(t.Context()) {
		if !errors.Is(err, objstore.ErrPrecondition) {
			t.Errorf("what arrived late: %v", err)
		}
	}
	handle(t, mem, again)
	if diff := cmp.Diff(want, events(t, mem)); diff != "" {
		t.Error(diff)
	}
	time.Sleep(2 * time.Minute) // what the killed instance would have gone on with
}

// A model that fails leaves no trace.
func TestFailedModelWritesNothing(t *testing.T) {
	mem := memstore.New(t)
	handle(t, mem, hello)
	before := mem.Snapshot("")
	h := instance(mem)
	failure := errors.New("overloaded")
	h.Model = func(context.Context, []string, string) (string, error) { return "", failure }
	if _, err := h.Handle(t.Context(), again); !errors.Is(err, failure) {
		t.Error(err)
	}
	if diff := cmp.Diff(before, mem.Snapshot("")); diff != "" {
		t.Error(diff)
	}
	if _, err := h.Handle(t.Context(), Invocation{Session: "s"}); err == nil {
		t.Error("an invocation without a request id was handled")
	}
}

func TestRun(t *testing.T) {
	call, err := json.Marshal(hello)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), t.TempDir(), time.Minute, bytes.NewReader(bytes.Repeat(call, 2)), &out); err != nil {
		t.Fatal(err)
	}
	const want = `{"text":"You said \"hello\", after 0 messages.","seq":3,"repeated":false}
{"text":"You said \"hello\", after 0 messages.","seq":3,"repeated":true}
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
