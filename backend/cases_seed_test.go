package backend_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/internal/plainlog"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
)

// Two processes resume one session. Whatever the order, no seq is stored twice;
// the one that was replaced learns it with its first append, and one that asks
// not to disturb a running owner at once.
func TestC01TwoProcessesResume(t *testing.T) {
	build := func(t *testing.T) *memstore.Store {
		mem := memstore.New(t)
		written(t, backend.New(mem, backend.Options{}), "log", nil, brief(`turn/start {"turn":1}`, `turn/end {"turn":1}`))
		return mem
	}
	for _, tc := range []struct {
		name string
		a, b backend.ResumeOptions
		want []string // behind the turn, after a and then b appended
	}{
		{"both at once", backend.ResumeOptions{}, backend.ResumeOptions{}, []string{mark, chunk, mark, chunk}}, // b found a's boundary and owned nothing yet
		{"both claimed", backend.ResumeOptions{Claim: true}, backend.ResumeOptions{Claim: true}, []string{mark, chunk}},
		{"both late", backend.ResumeOptions{Delay: true}, backend.ResumeOptions{Delay: true}, []string{mark, chunk, mark, chunk}},
		{"one late", backend.ResumeOptions{Delay: true}, backend.ResumeOptions{}, []string{mark, chunk}},
		{"the other late", backend.ResumeOptions{}, backend.ResumeOptions{Delay: true}, []string{mark, chunk, mark, chunk}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem := build(t)
			a, _ := resume(t, backend.New(mem, backend.Options{}), "log", tc.a)
			b, _ := resume(t, backend.New(mem, backend.Options{}), "log", tc.b)
			_, errA := a.Append(t.Context(), [][]byte{event(0)}, backend.AppendOptions{})
			_, errB := b.Append(t.Context(), [][]byte{event(1)}, backend.AppendOptions{})
			if errA != nil && !errors.Is(errA, backend.ErrFenced) || errB != nil && !errors.Is(errB, backend.ErrFenced) || errA != nil && errB != nil {
				t.Errorf("%v, %v", errA, errB)
			}
			sameTypes(t, backend.NewReader(mem, backend.Options{}), "log", append([]string{"turn/start", "turn/end"}, tc.want...)...)
			// Of the two the one that was replaced stays out.
			if _, err := a.Append(t.Context(), [][]byte{event(2)}, backend.AppendOptions{}); errB == nil && !errors.Is(err, backend.ErrFenced) {
				t.Errorf("%v", err)
			}
			_ = a.Close(t.Context(), backend.CloseOptions{})
			_ = b.Close(t.Context(), backend.CloseOptions{})
		})
	}
	mem := build(t)
	quiet := backend.ResumeOptions{AdoptOptions: backend.AdoptOptions{Quiet: time.Minute, TakeOver: false}}
	a, _ := resume(t, backend.New(mem, backend.Options{Label: "a"}), "log", backend.ResumeOptions{})
	if _, _, err := backend.New(mem, backend.Options{}).Resume(t.Context(), "log", quiet); !errors.Is(err, backend.ErrHeld) || !strings.Contains(err.Error(), a.Writer()) {
		t.Errorf("%v", err)
	}
	closeLog(t, a)
}

// A session in which two processes wrote the same seq is refused, with both
// numbers; nothing of it becomes a log.
func TestC02CollidingSeqs(t *testing.T) {
	mem := memstore.New(t)
	b := backend.New(mem, backend.Options{})
	events := brief("note", "note", "note", mark)
	events = append(events, events[2], brief("", "", "", "note")[3], brief("", "", "", "", `turn/end {"turn":1}`)[4])
	_, _, err := b.Replay(t.Context(), "log", sequence(events), backend.ReplayOptions{})
	_, err2 := b.Import(t.Context(), "log", sequence(events), backend.ImportOptions{})
	for _, err := range []error{err, err2} {
		if !errors.Is(err, backend.ErrSeqMismatch) || !strings.Contains(err.Error(), "it carries seq 2 where 4 is next") {
			t.Error(err)
		}
	}
	if n := len(mem.Snapshot("")); n != 0 {
		t.Errorf("%d objects", n)
	}
}

// Killed during a tool call: every call gets a result, in the order of the
// requests, and nothing more the second time.
func TestC03KilledDuringAToolCall(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	lines := brief(`turn/start {"turn":1}`, `step/start {"turn":1,"step":1}`,
		`assistant/message {"turn":1,"step":1,"message":{"content":[{"type":"tool-call","id":"c1"},{"type":"tool-call","id":"c2"}]}}`, `tool/call {"callId":"c1"}`)
	written(t, b, "log", nil, lines)
	l, r := resume(t, b, "log", backend.ResumeOptions{})
	closeLog(t, l)
	if r.First != 4 || r.Count != 5 {
		t.Errorf("%+v", r)
	}
	result := func(seq int, id, text, name, code, rest string) string {
		return fmt.Sprintf(`{"type":"tool/result","seq":%d,"time":13,"data":{"turn":1,"step":1,"message":{"id":"interrupted-tool-result-%s-%d","role":"user","source":{"kind":"tool","callId":"%s"},`+
			`"content":[{"type":"tool-result","toolCallId":"%s","isError":true,"content":[{"type":"text","text":"%s"}]}]},"error":{"name":"%s","code":"%s"}},"surfaceOp":"append"%s}`,
			seq, id, seq, id, id, text, name, code, rest)
	}
	want := []string{
		result(4, "c1", plainlog.UnknownText, "ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN", `,"sourceEventSeqs":[3]`),
		result(5, "c2", plainlog.NotStartedText, "ToolNotStartedError", "TOOL_NOT_STARTED", ""),
		`{"type":"step/end","seq":6,"time":13,"data":{"turn":1,"step":1}}`,
		`{"type":"turn/end","seq":7,"time":13,"data":{"turn":1,"reason":{"kind":"interrupted"}}}`,
	}
	if diff := cmp.Diff(want, read(t, b.Reader, "log", 4)[:4]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	l, r = resume(t, b, "log", backend.ResumeOptions{})
	closeLog(t, l)
	if r.Count != 0 {
		t.Errorf("%+v", r)
	}
}

// Looking at a log while its owner waits for a slow tool repairs nothing: judged
// and verified, and seen by a handle that has not written yet.
func TestC04NoRepairByLooking(t *testing.T) {
	mem := memstore.New(t)
	b := backend.New(mem, backend.Options{})
	l := create(t, b, "log")
	appendAll(t, l, turnStart(1), stepStart(1, 1), assistant("c1"), toolCall("c1"))
	before := mem.Snapshot("")
	other := backend.New(mem, backend.Options{})
	pending, _ := resume(t, other, "log", backend.ResumeOptions{Delay: true})
	if _, _, err := pending.Check(t.Context(), compaction.Open, compaction.Close); err != nil {
		t.Error(err)
	}
	closeLog(t, pending)
	verifyClean(t, other.Reader, "log")
	if c, err := other.Check(t.Context(), "log", seedpath.Pairs["tool"], backend.CheckOptions{}); err != nil || c.Answer != seedpath.Live || c.Open.Seq != 3 {
		t.Errorf("%+v, %v", c, err)
	}
	if diff := cmp.Diff(before, mem.Snapshot("")); diff != "" {
		t.Error("something was written")
	}
	appendAll(t, l, toolResult("c1"))
	closeLog(t, l)
	if c, err := other.Check(t.Context(), "log", seedpath.Pairs["tool"], backend.CheckOptions{}); err != nil || c.Answer != seedpath.Balanced {
		t.Errorf("%+v, %v", c, err)
	}
}

// A fork of a running parent with an open compaction: stale in the child, live
// in the parent, by the stored bytes alone, which it did not change.
func TestC09ForkInheritsAnOpenMarker(t *testing.T) {
	mem := memstore.New(t)
	b := backend.New(mem, backend.Options{})
	l := create(t, b, "parent")
	appendAll(t, l, brief(`turn/start {"turn":1}`, "note", `turn/end {"turn":1}`, "note", "note", "note", "note", "compaction/start")...)
	before := mem.Snapshot(manifest.Key("parent"))
	r := forked(t, b, "parent", "child", backend.ForkOptions{At: ptr(int64(7))})
	if r.Next != 9 {
		t.Errorf("%+v", r)
	}
	auditor := backend.NewReader(reading{mem}, backend.Options{})
	verdict := func(id string, want seedpath.Answer, bound int64) {
		t.Helper()
		for _, verify := range []bool{false, true} {
			c, err := auditor.Check(t.Context(), id, compaction, backend.CheckOptions{Verify: verify})
			if err != nil || c.Answer != want || c.Open.Seq != 7 || c.LeaseState != "none" || (c.Bound == nil) != (bound < 0) || c.Bound != nil && c.Bound.Seq != bound {
				t.Errorf("%s: %+v, %v", id, c, err)
			}
		}
	}
	verdict("child", seedpath.Stale, 8)
	verdict("parent", seedpath.Live, -1)
	if diff := cmp.Diff(before, mem.Snapshot(manifest.Key("parent"))); diff != "" {
		t.Error("the parent was changed")
	}
	appendAll(t, l, []byte(`{"type":"compaction/end","data":{}}`))
	closeLog(t, l)
	if c, err := auditor.Check(t.Context(), "parent", compaction, backend.CheckOptions{}); err != nil || c.Answer != seedpath.Balanced {
		t.Errorf("%+v, %v", c, err)
	}
	verdict("child", seedpath.Stale, 8)
}

// A dangling compaction blocks until the next lifecycle, and one of that
// lifecycle blocks it.
func TestC10DanglingCompaction(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	written(t, b, "log", nil, brief("note", "note", "note", "note", "note", "compaction/start"))
	may := func(want bool) {
		t.Helper()
		c, err := b.Check(t.Context(), "log", compaction, backend.CheckOptions{Verify: true})
		if err != nil || (c.Answer != seedpath.Live) != want {
			t.Errorf("%+v, %v", c, err)
		}
	}
	may(false) // no boundary: not stale, whatever its age
	l, _ := resume(t, b, "log", backend.ResumeOptions{})
	may(true)
	if r := appendAll(t, l, []byte(`{"type":"compaction/start","data":{}}`)); r.First != 7 {
		t.Errorf("%+v", r)
	}
	may(false)
	appendAll(t, l, []byte(`{"type":"compaction/end","data":{}}`))
	may(true)
	closeLog(t, l)
}

// The answer does not depend on any clock.
func TestC11AgeIsNotLiveness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		b := backend.New(mem, backend.Options{})
		written(t, b, "log", nil, brief("note", "compaction/start"))
		for _, wait := range []time.Duration{0, 6 * time.Minute, 30 * 24 * time.Hour, 20 * 365 * 24 * time.Hour} {
			time.Sleep(wait)
			c, err := b.Check(t.Context(), "log", compaction, backend.CheckOptions{Verify: true})
			if err != nil || c.Answer != seedpath.Live || c.Open.Seq != 1 {
				t.Errorf("after %v: %+v, %v", wait, c, err)
			}
		}
	})
}

// A second terminal resumes a session that is open elsewhere: it is refused, or
// fences the first one and says so; never do both write.
func TestC13ResumeOfAnOpenSession(t *testing.T) {
	mem := memstore.New(t)
	first := create(t, backend.New(mem, backend.Options{Label: "terminal 1"}), "log")
	appendAll(t, first, turnStart(1))
	second := backend.New(mem, backend.Options{Label: "terminal 2"})
	if _, _, err := second.Resume(t.Context(), "log", backend.ResumeOptions{AdoptOptions: backend.AdoptOptions{Quiet: time.Minute}}); !errors.Is(err, backend.ErrHeld) || !strings.Contains(err.Error(), "terminal 1") {
		t.Error(err)
	}
	l, _ := resume(t, second, "log", backend.ResumeOptions{AdoptOptions: backend.AdoptOptions{Quiet: time.Minute, TakeOver: true}})
	for i := range 3 {
		_, err := first.Append(t.Context(), [][]byte{event(i)}, backend.AppendOptions{})
		var oe *backend.OpError
		if !errors.Is(err, backend.ErrFenced) || !strings.Contains(err.Error(), "terminal 2") || !errors.As(err, &oe) || oe.Log != "log" || !strings.Contains(oe.Hint, "fork") {
			t.Error(err)
		}
		appendOne(t, l, event(i))
	}
	closeLog(t, l)
	sameTypes(t, second.Reader, "log", "turn/start", "turn/end", mark, chunk, chunk, chunk)
}

// Two results for one call are kept; a resume adds no third, and verify remarks
// on it.
func TestC16NoThirdResult(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	l := create(t, b, "log")
	appendAll(t, l, turnStart(1), stepStart(1, 1), assistant("c1"), toolCall("c1"), toolResult("c1"), toolResult("c1"))
	closeLog(t, l)
	l, r := resume(t, b, "log", backend.ResumeOptions{})
	closeLog(t, l)
	if r.Count != 3 {
		t.Errorf("%+v", r)
	}
	rep := verifyClean(t, b.Reader, "log")
	if len(rep.Findings) != 1 || rep.Findings[0].Kind != "duplicate-result" || rep.Findings[0].Seq != 5 {
		t.Errorf("%+v", rep.Findings)
	}
}

// The clock of a log goes backwards: closers have the time of its last event, the
// boundary none before its greatest.
func TestC19ClosersAfterAClockThatWentBack(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	future := time.Now().Add(1000 * time.Hour).UnixMilli()
	l := create(t, b, "log")
	appendAll(t, l, fmt.Appendf(nil, `{"type":"turn/start","time":%d,"data":{"turn":1}}`, future), []byte(`{"type":"note","time":400,"data":1}`))
	closeLog(t, l)
	l, _ = resume(t, b, "log", backend.ResumeOptions{})
	closeLog(t, l)
	want := []string{
		`{"type":"turn/end","seq":2,"time":400,"data":{"turn":1,"reason":{"kind":"interrupted"}}}`,
		fmt.Sprintf(`{"type":"session/end-seed","seq":3,"time":%d,"data":{}}`, future),
	}
	if diff := cmp.Diff(want, read(t, b.Reader, "log", 2)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
