package integration

import (
	"fmt"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/faultproxy"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/sessiongen"
)

// imported makes a log of n generated events which ends inside a compaction of an
// open turn.
func imported(t *testing.T, r *rig, id string, n int64) backend.Info {
	t.Helper()
	g := sessiongen.New(sessiongen.Options{Seed: 5, Events: n, OpenAtEnd: sessiongen.OpenCall | sessiongen.OpenCompaction})
	b := backend.New(r.direct, quick)
	events := func(yield func([]byte, error) bool) {
		for line, ok := g.Next(); ok && yield(line, nil); line, ok = g.Next() {
		}
	}
	if _, err := b.Import(t.Context(), id, events, backend.ImportOptions{Header: g.Header()}); err != nil {
		t.Fatal(err)
	}
	info, err := b.Info(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if info.Next != n || info.Content.Turn == nil {
		t.Fatalf("%d events, turn %+v", info.Next, info.Content.Turn)
	}
	return info
}

// What judging, resuming and forking cost does not depend on how long the log
// is, counted where it is billed.
func TestSeedPathBudgetsOverHTTP(t *testing.T) {
	sizes := []int64{10, 10_000}
	if long() {
		sizes = append(sizes, 1_000_000)
	}
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := newRig(t)
			info := imported(t, r, "log", n)
			t.Logf("%d segments, a manifest of %d bytes", len(info.Segments), info.Bytes)
			seedPathBudgets(t, r)
		})
	}
}

func seedPathBudgets(t *testing.T, r *rig) {
	const (
		put = faultproxy.Put
		get = faultproxy.Get
	)
	ctl := r.ctl(t)
	check := func(want seedpath.Answer, exit int) {
		t.Helper()
		counted(t, r, "check", map[string]int{get: 1}, func() {
			c, err := backend.NewReader(r.open(t), quick).Check(t.Context(), "log", seedpath.Pairs["compaction"], backend.CheckOptions{})
			if err != nil || c.Answer != want || c.Scanned != 0 {
				t.Errorf("%+v, %v", c, err)
			}
		})
		counted(t, r, "s3logctl check", map[string]int{get: 1}, func() { ctl.want(exit, "", "check", "log") })
	}
	check(seedpath.Live, 3)
	// A cold resume: a process that knows nothing.
	counted(t, r, "resume", map[string]int{get: 1, put: 1}, func() { ctl.want(0, "", "resume", "log") })
	check(seedpath.Stale, 0)
	counted(t, r, "resume of what ends in its boundary", map[string]int{get: 1}, func() { ctl.want(0, "", "resume", "log") })

	resume := func(opt backend.ResumeOptions) *backend.Log {
		t.Helper()
		l, _, err := backend.New(r.open(t), quick).Resume(t.Context(), "log", opt)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	// The last append of a handle begins no merges.
	last := func(l *backend.Log, event []byte) {
		t.Helper()
		got, err := l.Append(t.Context(), [][]byte{event}, backend.AppendOptions{Last: true})
		if err != nil || got.Count != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	}
	done := func(l *backend.Log) {
		t.Helper()
		if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
			t.Error(err)
		}
	}
	counted(t, r, "pending resume and append", map[string]int{get: 1, put: 1}, func() {
		l := resume(backend.ResumeOptions{})
		last(l, note(0))
		done(l)
	})
	counted(t, r, "delayed resume and append", map[string]int{get: 1, put: 1}, func() {
		l := resume(backend.ResumeOptions{Delay: true})
		last(l, []byte(`{"type":"compaction/start","data":{}}`))
		done(l)
	})
	counted(t, r, "a judgement by the writer itself", map[string]int{get: 1}, func() {
		l := resume(backend.ResumeOptions{Delay: true})
		if v, _, err := l.Check(t.Context(), "compaction/start", "compaction/end"); err != nil || v.Answer != seedpath.Stale {
			t.Errorf("%+v, %v", v, err)
		}
		done(l)
	})
	check(seedpath.Live, 3)
	counted(t, r, "resume and claim", map[string]int{get: 1, put: 1}, func() { resume(backend.ResumeOptions{Claim: true, Release: true}) })
	check(seedpath.Stale, 0)

	info, err := backend.NewReader(r.direct, quick).Info(t.Context(), "log")
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Segments) == 0 {
		counted(t, r, "fork of a parent in its tail", map[string]int{get: 1, put: 2}, func() { ctl.want(0, "", "fork", "log", "child") })
		// Its manifest is refused: what is there is looked at only then.
		counted(t, r, "the same again", map[string]int{get: 2, put: 2}, func() {
			if got := ctl.want(0, "", "fork", "log", "child", "--output", "json"); !fields[receiptJSON](t, got.stdout).Duplicate {
				t.Error(got.stdout)
			}
		})
	}
}
