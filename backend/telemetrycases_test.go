package backend_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
)

// watchedBackend is a Backend on a store in memory that may have faults.
func watchedBackend(t *testing.T, w *watcher, opt backend.Options, rules ...faultstore.Rule) (*backend.Backend, *memstore.Store) {
	mem := memstore.New(t)
	return backend.New(faultstore.New(mem, rules...), w.options(opt)), mem
}

func appendSecret(t *testing.T, l *backend.Log, typ string) (backend.Receipt, error) {
	return l.Append(t.Context(), [][]byte{secretEvent(typ)}, backend.AppendOptions{Key: secret})
}

// watchedCases run in bubbles, each with a watcher of its own. Together they make
// a Backend tell all that it can.
var watchedCases = []struct {
	name string
	run  func(t *testing.T, w *watcher)
}{
	{"an append", watchAppend},
	{"a refused append", watchRefusal},
	{"a group commit", watchGroup},
	{"a fenced writer", watchFence},
	{"a writer that is fenced behind its commit", watchLateFence},
	{"a lost reply", watchLostReply},
	{"an unknown outcome", watchUnknown},
	{"a caller that has left", watchAbandoned},
	{"a store that throttles", watchThrottled},
	{"seals and merges", watchUpkeep},
	{"seals and merges that fail", watchFailingUpkeep},
	{"a lease", watchLease},
	{"resume, fork and replay", watchSeeds},
	{"fold, delete and collection", watchHousekeeping},
	{"copy and rebuild", watchCopies},
}

// An append is a span with its commit in it, and is counted with all bytes.
func watchAppend(t *testing.T, w *watcher) {
	mem := memstore.New(t)
	requests := tracestore.New(mem, tracestore.Options{})
	b := backend.New(requests, w.options(backend.Options{}))
	l, err := b.Create("log", backend.CreateOptions{Header: []byte(`{"type":"session","id":"` + secret + `"}`)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, root := w.traces.Tracer("test").Start(t.Context(), "turn")
	if _, err := l.Append(ctx, [][]byte{secretEvent("a"), secretEvent("b")}, backend.AppendOptions{Key: secret}); err != nil {
		t.Fatal(err)
	}
	root.End()
	call, commit := w.span("s3log.append"), w.span("s3log.commit")
	if call.Parent().SpanID() != root.SpanContext().SpanID() || commit.Parent().SpanID() != call.SpanContext().SpanID() {
		t.Error("the spans of caller, append and commit are not one in another")
	}
	failedAs(t, call, "")
	for s, want := range map[sdktrace.ReadOnlySpan]map[string]string{
		call: {"s3log.log.id": "log", "s3log.seq.first": "0", "s3log.event.count": "2", "s3log.revision": "1", "s3log.generation.number": "1", "s3log.duplicate": "false"},
		commit: {"s3log.log.id": "log", "s3log.operation": "append", "s3log.writer.id": l.Writer(), "s3log.commit.id": record(t, mem, "log").Commit.ID,
			"s3log.generation.kind": "fresh", "s3log.commit.attempts": "1", "s3log.commit.decisions": "0", "s3log.event.count": "2"},
	} {
		for key, value := range want {
			if got := attr(s, key); got != value {
				t.Errorf("%s of %s is %q, want %q", key, s.Name(), got, value)
			}
		}
	}
	r, err := l.Append(t.Context(), [][]byte{secretEvent("a"), secretEvent("b")}, backend.AppendOptions{Key: secret})
	if err != nil || !r.Duplicate {
		t.Errorf("%+v, %v", r, err)
	}
	if err := l.Close(t.Context(), backend.CloseOptions{Release: true}); err != nil {
		t.Fatal(err)
	}
	w.counts(map[string]int64{
		"s3log.operation.duration{s3log.operation=append}": 2,
		"s3log.commit.duration{s3log.operation=append}":    2, // the repetition needed none, the release did
		"s3log.commit.events{s3log.operation=append}":      2,
		"s3log.upload.io{s3log.object=manifest}":           requests.Counts().BytesOut,
	})
	w.quiet()
}

func watchRefusal(t *testing.T, w *watcher) {
	b, _ := watchedBackend(t, w, backend.Options{})
	l := create(t, b, "log")
	if _, err := l.Append(t.Context(), [][]byte{[]byte(`{"type":"x","data":{"` + secret)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrInvalidEvent) {
		t.Error(err)
	}
	failedAs(t, w.span("s3log.append"), "invalid-event")
	appendOne(t, l, event(0))
	if _, err := l.Append(t.Context(), [][]byte{secretEvent("x")}, backend.AppendOptions{ExpectNext: expect(7)}); !errors.Is(err, backend.ErrSeqMismatch) {
		t.Error(err)
	}
	lines := func(yield func([]byte, error) bool) { yield([]byte(`{"type":"`+secret+`","`+secret), nil) }
	if _, _, err := b.Replay(t.Context(), "other", lines, backend.ReplayOptions{}); !errors.Is(err, backend.ErrInvalidEvent) {
		t.Error(err)
	}
	closeLog(t, l)
	w.counts(map[string]int64{
		"s3log.operation.duration{error.type=invalid-event,s3log.operation=append}": 1,
		"s3log.operation.duration{error.type=seq-mismatch,s3log.operation=append}":  1,
		"s3log.operation.duration{s3log.operation=append}":                          1,
		"s3log.commit.events{s3log.operation=append}":                               1,
	})
	w.quiet()
}

// Callers that share a commit find it: one as its parent, the others by links.
func watchGroup(t *testing.T, w *watcher) {
	// Whoever is not part of a trace is not sampled.
	w2 := newWatcher(t, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
	for _, w := range []*watcher{w, w2} {
		store, _ := slow(t, time.Second)
		b := backend.New(store, w.options(backend.Options{}))
		l := create(t, b, "log")
		var wg sync.WaitGroup
		wg.Go(func() { appendOne(t, l, event(0)) })
		synctest.Wait()
		const callers, sampled = 5, 3
		for i := range callers {
			wg.Go(func() {
				ctx := t.Context()
				if w == w2 {
					sc := trace.SpanContextConfig{TraceID: trace.TraceID{byte(i + 1)}, SpanID: trace.SpanID{1}}
					if i == sampled {
						sc.TraceFlags = trace.FlagsSampled
					}
					ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(sc))
				}
				if _, err := l.Append(ctx, [][]byte{secretEvent(fmt.Sprint(i))}, backend.AppendOptions{}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		closeLog(t, l)
		commits := w.named("s3log.commit")
		commit := commits[len(commits)-1]
		found := []trace.SpanID{commit.Parent().SpanID()}
		for _, link := range commit.Links() {
			found = append(found, link.SpanContext.SpanID())
		}
		if w == w2 {
			if len(commits) != 1 || len(found) != callers || commit.Parent().TraceID()[0] != sampled+1 {
				t.Errorf("%d commits, the last in trace %s with %d links", len(commits), commit.Parent().TraceID(), len(commit.Links()))
			}
			continue
		}
		calls := w.named("s3log.append")
		if len(commits) != 2 || len(calls) != callers+1 || len(found) != callers {
			t.Fatalf("%d commits for %d appends, %d of them in the last", len(commits), len(calls), len(found))
		}
		for _, call := range calls {
			if i := slices.Index(found, call.SpanContext().SpanID()); i < 0 && attr(call, "s3log.seq.first") != "0" {
				t.Error("the commit does not know this append:", call.Attributes())
			}
		}
		w.counts(map[string]int64{"s3log.operation.duration{s3log.operation=append}": callers + 1, "s3log.commit.duration{s3log.operation=append}": 2})
		w.quiet()
	}
}

func watchFence(t *testing.T, w *watcher) {
	b, _ := watchedBackend(t, w, backend.Options{Label: "a host"})
	l := create(t, b, "log")
	appendOne(t, l, event(0))
	other := adopt(t, b, "log")
	appendOne(t, other, event(1))
	r := w.one("INFO", "took the log over")
	if r["log"] != "log" || r["kind"] != "adopt" || r["generation"] != 2.0 || r["writer"] != other.Writer() || r["from"] != l.Writer() || r["fromLabel"] != "a host" || r["released"] != false || r["seq"] != 1.0 {
		t.Error(r)
	}
	for range 2 { // it is fenced once, however often it tries
		if _, err := appendSecret(t, l, "x"); !errors.Is(err, backend.ErrFenced) {
			t.Error(err)
		}
	}
	r = w.one("WARN", "fenced: another writer took the log over")
	if r["log"] != "log" || !strings.Contains(fmt.Sprint(r["error"]), other.Writer()) {
		t.Error(r)
	}
	_ = l.Close(t.Context(), backend.CloseOptions{})
	closeLog(t, other)
	calls, commits := w.named("s3log.append"), w.named("s3log.commit")
	failedAs(t, calls[len(calls)-1], "fenced")
	failedAs(t, commits[len(commits)-1], "fenced")
	w.counts(map[string]int64{
		"s3log.fences{}": 1, "s3log.takeovers{s3log.generation.kind=adopt}": 1, "s3log.commit.decisions{s3log.operation=append}": 1,
		"s3log.commit.duration{error.type=fenced,s3log.operation=append}": 1,
	})
}

// A commit that landed, and then another writer took over before it was known.
func watchLateFence(t *testing.T, w *watcher) {
	b, mem := watchedBackend(t, w, backend.Options{})
	other := backend.New(mem, backend.Options{})
	l := create(t, b, "log")
	appendOne(t, l, event(0))
	store := faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Put"), Nth: 1, Fault: faultstore.LostReply()},
		faultstore.Rule{Match: faultstore.Op("Put"), Nth: 2, Fault: faultstore.Before(func() {
			o := adopt(t, other, "log")
			appendOne(t, o, event(9))
			closeLog(t, o)
		})})
	l2, _ := resume(t, backend.New(store, w.options(backend.Options{})), "log", backend.ResumeOptions{})
	if r := appendOneErr(t, l2); !errors.Is(r, backend.ErrFenced) {
		t.Error(r)
	}
	closeLog(t, l)
	_ = l2.Close(t.Context(), backend.CloseOptions{})
	failedAs(t, w.span("s3log.resume"), "")
	w.one("WARN", "fenced: another writer took the log over")
	w.counts(map[string]int64{"s3log.fences{}": 1, "s3log.takeovers{s3log.generation.kind=resume}": 1})
}

func appendOneErr(t *testing.T, l *backend.Log) error {
	_, err := appendSecret(t, l, "x")
	return err
}

func watchLostReply(t *testing.T, w *watcher) {
	b, _ := watchedBackend(t, w, backend.Options{}, faultstore.Rule{Match: faultstore.Op("Put"), Nth: 2, Fault: faultstore.LostReply()})
	l := create(t, b, "log")
	appendOne(t, l, event(0))
	appendOne(t, l, event(1))
	closeLog(t, l)
	r := w.one("INFO", "commit took more than one request")
	if r["log"] != "log" || r["operation"] != "append" || r["attempts"] != 2.0 || r["decisions"] != 1.0 || r["throttled"] != 0.0 || r["result"] != "committed" {
		t.Error(r)
	}
	w.counts(map[string]int64{
		"s3log.commit.retries{s3log.operation=append}": 1, "s3log.commit.decisions{s3log.operation=append}": 1,
		"s3log.commit.events{s3log.operation=append}": 2, "s3log.fences{}": 0,
	})
	w.quiet("commit took more than one request")
}

// The token of an unknown outcome is in the record of it, so that it can be
// settled also where the process has gone.
func watchUnknown(t *testing.T, w *watcher) {
	b, mem := watchedBackend(t, w, backend.Options{}, faultstore.Rule{Match: faultstore.Op("Put"), Nth: 2, Times: -1, Fault: faultstore.Unavailable()})
	l := create(t, b, "log")
	appendOne(t, l, event(0))
	_, err := appendSecret(t, l, "x")
	if !errors.Is(err, backend.ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	_ = l.Close(t.Context(), backend.CloseOptions{})
	r := w.one("ERROR", "outcome of a commit unknown")
	token := fmt.Sprint(r["token"])
	if _, err := manifest.ParseToken(token); err != nil || r["log"] != "log" {
		t.Error(r, err)
	}
	failedAs(t, w.named("s3log.append")[1], "outcome-unknown")
	w.counts(map[string]int64{"s3log.operation.duration{error.type=outcome-unknown,s3log.operation=append}": 1,
		"s3log.commit.duration{error.type=outcome-unknown,s3log.operation=append}": 1})
	d, err := backend.New(mem, w.options(backend.Options{})).Decide(t.Context(), token)
	if err != nil || d.Committed {
		t.Errorf("%+v, %v", d, err)
	}
	if r := w.one("INFO", "unknown outcome decided"); r["log"] != "log" || r["committed"] != false || r["seq"] != 1.0 {
		t.Error(r)
	}
	failedAs(t, w.span("s3log.decide"), "")
	w.counts(map[string]int64{"s3log.takeovers{s3log.generation.kind=decide}": 1})
}

func watchAbandoned(t *testing.T, w *watcher) {
	store, _ := slow(t, time.Second)
	b := backend.New(store, w.options(backend.Options{}))
	l := create(t, b, "log")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := l.Append(ctx, [][]byte{secretEvent("x")}, backend.AppendOptions{}); !errors.Is(err, backend.ErrOutcomeUnknown) {
		t.Error(err)
	}
	w.quiet()
	closeLog(t, l)
	if r := w.one("INFO", "unknown outcome decided"); r["log"] != "log" || r["committed"] != true || r["seq"] != 0.0 {
		t.Error(r)
	}
	failedAs(t, w.span("s3log.append"), "outcome-unknown")
	failedAs(t, w.span("s3log.commit"), "")
}

func watchThrottled(t *testing.T, w *watcher) {
	b, _ := watchedBackend(t, w, backend.Options{}, faultstore.Rule{Match: faultstore.Op("Put"), Nth: 2, Times: 3, Fault: faultstore.Throttled()})
	l := create(t, b, "log")
	for i := range 3 {
		appendOne(t, l, event(i))
	}
	closeLog(t, l)
	if r := w.one("WARN", "store asks for fewer requests"); r["log"] != "log" || r["wait"] != float64(100*time.Millisecond) {
		t.Error(r)
	}
	w.counts(map[string]int64{"s3log.upload.throttled{s3log.object=manifest}": 3, "s3log.commit.retries{s3log.operation=append}": 3})
	w.quiet("store asks for fewer requests", "commit took more than one request")
}

func watchUpkeep(t *testing.T, w *watcher) {
	requests := tracestore.New(memstore.New(t), tracestore.Options{})
	b := backend.New(requests, w.options(backend.Options{Foreground: true}))
	l := create(t, b, "log")
	grow(t, l, 0, 40)
	closeLog(t, l)
	seals, merges := len(w.named("s3log.seal")), len(w.named("s3log.merge"))
	if seals < 4 || merges == 0 {
		t.Errorf("%d seals, %d merges", seals, merges)
	}
	w.counts(map[string]int64{
		"s3log.operation.duration{s3log.operation=seal}": int64(seals), "s3log.operation.duration{s3log.operation=merge}": int64(merges),
		"s3log.commit.duration{s3log.operation=append}": 40, "s3log.commit.events{s3log.operation=append}": 40,
	})
	sum := w.count("s3log.upload.io", "s3log.object=manifest") + w.count("s3log.upload.io", "s3log.object=segment")
	if sent := requests.Counts().BytesOut; sum != sent {
		t.Errorf("%d bytes were counted, %d sent", sum, sent)
	}
	for _, s := range w.named("s3log.seal") {
		if !s.Parent().IsValid() {
			t.Error("a seal in the foreground is not part of what it holds up")
		}
	}
	w.quiet()
}

func watchFailingUpkeep(t *testing.T, w *watcher) {
	// The second object of a log that begins at seq 0 is the first merge.
	b, _ := watchedBackend(t, w, backend.Options{},
		faultstore.Rule{Match: faultstore.Puts("segments/sealed/"), Nth: 1, Fault: faultstore.Denied()},
		faultstore.Rule{Match: faultstore.Puts("segments/merged/0000000000000000-"), Nth: 2, Fault: faultstore.Denied()})
	for id, appends := range map[string]int{"sealed": 3, "merged": 12} {
		l := create(t, b, id)
		for i := range appends {
			grow(t, l, i, 1)
			synctest.Wait() // what is begun in the background ends before the next append
		}
		closeLog(t, l)
	}
	for _, msg := range []string{"sealing failed", "merging failed"} {
		if r := w.one("WARN", msg); !strings.Contains(fmt.Sprint(r["error"]), "denied") {
			t.Error(r)
		}
	}
	failed := 0
	for _, s := range append(w.named("s3log.seal"), w.named("s3log.merge")...) {
		if attr(s, "error.type") == "denied" {
			failed++
		}
	}
	if failed != 2 {
		t.Errorf("%d spans of upkeep failed", failed)
	}
}

func watchLease(t *testing.T, w *watcher) {
	b, _ := watchedBackend(t, w, backend.Options{Lease: time.Minute})
	l := create(t, b, "log")
	if _, err := l.Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Resume(t.Context(), "log", backend.ResumeOptions{}); !errors.Is(err, backend.ErrHeld) {
		t.Error(err)
	}
	closeLog(t, l)
	failedAs(t, w.span("s3log.claim"), "")
	failedAs(t, w.span("s3log.renew"), "")
	failedAs(t, w.span("s3log.resume"), "held")
	w.counts(map[string]int64{"s3log.operation.duration{error.type=held,s3log.operation=resume}": 1, "s3log.commit.duration{s3log.operation=append}": 3})
	w.quiet()
}

func watchSeeds(t *testing.T, w *watcher) {
	b, _ := watchedBackend(t, w, backend.Options{})
	lines := func(yield func([]byte, error) bool) { yield(secretEvent("turn/start"), nil) }
	if _, _, err := b.Replay(t.Context(), "log", lines, backend.ReplayOptions{Release: true}); err != nil {
		t.Fatal(err)
	}
	_, r, err := b.Resume(t.Context(), "log", backend.ResumeOptions{Release: true})
	if err != nil {
		t.Fatal(err)
	}
	forked(t, b, "log", "child", backend.ForkOptions{Release: true})
	forked(t, b, "log", "child", backend.ForkOptions{Release: true})
	if rec := w.one("INFO", "took the log over"); rec["kind"] != "resume" || rec["released"] != true {
		t.Error(rec)
	}
	if s := w.span("s3log.resume"); attr(s, "s3log.event.count") != fmt.Sprint(r.Count) || attr(s, "s3log.generation.number") != "2" {
		t.Error(s.Attributes())
	}
	forks := w.named("s3log.fork")
	if len(forks) != 2 || attr(forks[0], "s3log.duplicate") != "false" || attr(forks[1], "s3log.duplicate") != "true" || attr(forks[0], "s3log.log.id") != "child" {
		t.Error("forks")
	}
	var kinds []string
	for _, c := range w.named("s3log.commit") {
		kinds = append(kinds, attr(c, "s3log.operation")+" "+attr(c, "s3log.generation.kind"))
	}
	if want := []string{"replay replay", "append resume", "fork fork", "fork "}; !slices.Equal(kinds, want) {
		t.Errorf("%q, want %q", kinds, want)
	}
	w.counts(map[string]int64{
		"s3log.commit.duration{s3log.operation=fork}":    2, // the second finds that it need not have been
		"s3log.commit.decisions{s3log.operation=fork}":   1,
		"s3log.operation.duration{s3log.operation=fork}": 2,
		"s3log.commit.events{s3log.operation=replay}":    2, "s3log.commit.events{s3log.operation=append}": r.Count,
		"s3log.commit.events{s3log.operation=fork}": 2 + r.Count,
	})
}

func watchHousekeeping(t *testing.T, w *watcher) {
	mem := memstore.New(t)
	segmented(t, mem, "log", 6, 3)
	b := backend.New(mem, w.options(backend.Options{}))
	plan, err := b.Fold(t.Context(), "log", backend.FoldOptions{DryRun: true})
	if err != nil || len(plan.Steps) == 0 {
		t.Fatal(plan, err)
	}
	w.quiet() // nothing was folded
	rep, err := b.Fold(t.Context(), "log", backend.FoldOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if r := w.one("INFO", "folded"); r["segmentsBefore"] != float64(rep.Before.Segments) || r["segments"] != float64(rep.After.Segments) {
		t.Error(r)
	}
	if _, err := b.Delete(t.Context(), "log", backend.AdoptOptions{TakeOver: true}); err != nil {
		t.Fatal(err)
	}
	orphan(t, mem, "ghost", 1)
	time.Sleep(2 * backend.DefaultGrace)
	size := int64(0)
	for _, body := range mem.Snapshot("segments/") {
		size += int64(len(body))
	}
	gone := int64(0)
	for _, opt := range []backend.GCOptions{{DryRun: true}, {}} {
		for g, err := range b.GC(t.Context(), opt) {
			if err != nil || g.Err != nil {
				t.Fatal(err, g.Err)
			}
			if n, _ := g.Removed(); !opt.DryRun {
				gone += int64(n)
			}
		}
	}
	for range b.GC(t.Context(), backend.GCOptions{Log: "log"}) {
		break // a consumer that leaves is no failure
	}
	for _, s := range w.named("s3log.gc") {
		failedAs(t, s, "")
	}
	if r := w.one("INFO", "collected"); r["removed"] != float64(gone) || gone < 7 || r["bytes"] != float64(size) {
		t.Error(r, gone, size)
	}
	w.counts(map[string]int64{
		"s3log.gc.removed{}": gone, "s3log.gc.freed{}": size, "s3log.operation.duration{s3log.operation=gc}": 3,
		"s3log.commit.duration{s3log.operation=gc}": 1, "s3log.takeovers{s3log.generation.kind=delete}": 1,
	})
}

func watchCopies(t *testing.T, w *watcher) {
	from := memstore.New(t)
	segmented(t, from, "log", 3, 3)
	b, mem := watchedBackend(t, w, backend.Options{})
	for range 2 {
		rep, err := b.Copy(t.Context(), backend.NewReader(from, backend.Options{}), "log", backend.CopyOptions{})
		if err != nil {
			t.Fatal(rep, err)
		}
		// The next one meets another generation: the copy takes nothing over.
		l := adopt(t, backend.New(from, backend.Options{}), "log")
		appendOne(t, l, event(9))
		closeLog(t, l)
	}
	w.quiet()
	mem.Drop(manifest.Key("log"))
	if _, err := backend.New(mem, w.options(backend.Options{})).Rebuild(t.Context(), "log", backend.RebuildOptions{}); err != nil {
		t.Fatal(err)
	}
	w.span("s3log.rebuild")
	w.counts(map[string]int64{
		"s3log.operation.duration{s3log.operation=copy}": 2, "s3log.commit.duration{s3log.operation=copy}": 2,
		"s3log.commit.duration{s3log.operation=rebuild}": 1, "s3log.takeovers{s3log.generation.kind=adopt}": 0,
	})
}
