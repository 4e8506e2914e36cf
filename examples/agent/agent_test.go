package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

const lease = time.Minute

// process is an agent that runs.
type process struct {
	prompts chan string
	answers chan string
	ended   chan error
}

func start(ctx context.Context, store objstore.Store, label string, takeOver bool, model func(context.Context, string) (string, error)) *process {
	p := &process{prompts: make(chan string), answers: make(chan string, 10), ended: make(chan error, 1)}
	a := &Agent{Logs: backend.New(store, backend.Options{Label: label, Lease: lease}), Lease: lease, Model: model}
	go func() { p.ended <- a.Run(ctx, "s", takeOver, p.prompts, func(s string) { p.answers <- s }) }()
	return p
}

func yes(context.Context, string) (string, error) { return "yes", nil }

// thinking is a model that takes as long as it may.
func thinking(ctx context.Context, _ string) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

// types are the types of the session's events.
func types(t *testing.T, store objstore.Store) string {
	t.Helper()
	var all []string
	for e, err := range backend.NewReader(store, backend.Options{}).Events(t.Context(), "s", backend.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		ev, err := e.Parse()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, ev.Type)
	}
	return strings.Join(all, " ")
}

const oneTurn = "turn/start user/message step/start assistant/message step/end turn/end"

// An agent that has nothing to do for an hour keeps its session all the same, and
// gives it back when it is done.
func TestLeaseKeepsOthersAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		first := start(t.Context(), mem, "first", false, yes)
		first.prompts <- "hello?"
		if answer := <-first.answers; answer != "yes" {
			t.Error(answer)
		}
		time.Sleep(time.Hour)
		err := <-start(t.Context(), mem, "second", false, yes).ended
		held, ok := errors.AsType[*backend.HeldError](err)
		if !ok || held.Owner.Label != "first" || !held.Lease || time.UnixMilli(held.Until).Before(time.Now()) {
			t.Errorf("%v: %+v", err, held)
		}
		close(first.prompts)
		if err := <-first.ended; err != nil {
			t.Error(err)
		}
		third := start(t.Context(), mem, "third", false, yes)
		third.prompts <- "and now?"
		<-third.answers
		close(third.prompts)
		if err := <-third.ended; err != nil {
			t.Error(err)
		}
		if got, want := types(t, mem), oneTurn+" session/end-seed "+oneTurn; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// An agent that is replaced while its model thinks stops within a part of the
// lease, and nothing of that turn's answer is in the log.
func TestFencedAgentStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		first := start(t.Context(), mem, "first", false, thinking)
		first.prompts <- "hello?"
		synctest.Wait()
		second := start(t.Context(), mem, "second", true, yes)
		synctest.Wait()
		begun := time.Now()
		if err := <-first.ended; !errors.Is(err, backend.ErrFenced) || time.Since(begun) > lease/2 {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		second.prompts <- "hello?"
		<-second.answers
		close(second.prompts)
		if err := <-second.ended; err != nil {
			t.Error(err)
		}
		if got, want := types(t, mem), "turn/start user/message step/start step/end turn/end session/end-seed "+oneTurn; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// An agent that dies holds its session for no longer than its lease.
func TestDeadAgentIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		store := faultstore.New(mem)
		dead := start(t.Context(), store, "dead", false, thinking)
		dead.prompts <- "hello?"
		synctest.Wait()
		store.Inject(faultstore.Rule{Nth: 1, Times: -1, Fault: faultstore.Fail(objstore.ErrUndecided)}) // nothing of it arrives any more
		if err := <-start(t.Context(), mem, "early", false, yes).ended; !errors.Is(err, backend.ErrHeld) {
			t.Error(err)
		}
		time.Sleep(lease + 3*time.Second)
		next := start(t.Context(), mem, "next", false, yes)
		next.prompts <- "hello?"
		<-next.answers
		close(next.prompts)
		if err := <-next.ended; err != nil {
			t.Error(err)
		}
		if err := <-dead.ended; err == nil {
			t.Error("the dead agent has noticed nothing")
		}
		time.Sleep(2 * time.Minute) // what it has left behind gives up, too
	})
}

// Whoever ends an agent gets its session at once.
func TestInterruptedAgentLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		ctx, interrupt := context.WithCancel(t.Context())
		first := start(ctx, mem, "first", false, thinking)
		first.prompts <- "hello?"
		synctest.Wait()
		interrupt()
		if err := <-first.ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		second := start(t.Context(), mem, "second", false, yes)
		close(second.prompts)
		if err := <-second.ended; err != nil {
			t.Error(err)
		}
	})
}

func TestFailedModelEndsTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("overloaded")
		p := start(t.Context(), memstore.New(t), "first", false, func(context.Context, string) (string, error) { return "", failure })
		p.prompts <- "hello?"
		if err := <-p.ended; !errors.Is(err, failure) {
			t.Error(err)
		}
	})
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	var out, errs bytes.Buffer
	if code := run(t.Context(), dir, "s", backend.Options{Lease: lease}, false, strings.NewReader("hello\n"), &out, &errs); code != 0 || out.String() != "You said \"hello\".\n" || errs.Len() > 0 {
		t.Errorf("%d: %s%s", code, &out, &errs)
	}
	// A line that is too long is told of, one that is merely long is a prompt, and turns
	// are counted on from those of the run before.
	long := strings.Repeat("x", 100_000)
	out.Reset()
	if code := run(t.Context(), dir, "s", backend.Options{Lease: lease}, false, strings.NewReader(long+"\n"+strings.Repeat(long, 11)), &out, &errs); code != 1 || out.String() != fmt.Sprintf("You said %q.\n", long) ||
		!strings.Contains(errs.String(), "reading the next prompt") {
		t.Errorf("%d, %d bytes, %q", code, out.Len(), errs.String())
	}
	errs.Reset()
	if last := lastTurn(t, dir); last != 2 {
		t.Errorf("the second turn is number %d", last)
	}
	// One that holds it, and runs.
	in, stop := newPipe(t)
	ended := make(chan int)
	go func() { ended <- run(t.Context(), dir, "s", backend.Options{Lease: lease}, false, in, &out, &errs) }()
	for !strings.Contains(holder(t, dir), "held") {
		time.Sleep(time.Millisecond)
	}
	var told bytes.Buffer
	if code := run(t.Context(), dir, "s", backend.Options{Lease: lease}, false, strings.NewReader(""), &told, &told); code != exitConflict || !strings.Contains(told.String(), "holds the session until") {
		t.Errorf("%d: %s", code, &told)
	}
	told.Reset()
	if code := run(t.Context(), dir, "s", backend.Options{Lease: lease}, true, strings.NewReader(""), &told, &told); code != 0 || told.Len() > 0 {
		t.Errorf("%d: %s", code, &told)
	}
	fmt.Fprintln(stop, "are you there?")
	stop.Close()
	if code := <-ended; code != exitConflict || !strings.Contains(errs.String(), "another process has taken the session over") {
		t.Errorf("%d: %s", code, &errs)
	}
}

func newPipe(t *testing.T) (*io.PipeReader, *io.PipeWriter) {
	in, out := io.Pipe()
	t.Cleanup(func() { out.Close() })
	return in, out
}

// holder is the state of the session's lease.
// lastTurn is the number of the newest turn.
func lastTurn(t *testing.T, dir string) (n int) {
	store, err := filestore.Open(dir, filestore.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for e, err := range backend.NewReader(store, backend.Options{}).Events(t.Context(), "s", backend.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		var ev struct {
			Type string
			Data struct{ Turn int }
		}
		if err := json.Unmarshal(e.Line, &ev); err == nil && ev.Type == "turn/start" {
			n = ev.Data.Turn
		}
	}
	return n
}

func holder(t *testing.T, dir string) string {
	t.Helper()
	store, err := filestore.Open(dir, filestore.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	info, err := backend.NewReader(store, backend.Options{}).Info(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	return info.LeaseState
}
