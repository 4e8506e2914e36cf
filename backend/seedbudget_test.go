package backend_test

import (
	"iter"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/sessiongen"
)

// spend calls f and compares the requests that it made.
func spend(t *testing.T, store *tracestore.Store, what string, want tracestore.Counts, f func()) {
	t.Helper()
	before := store.Counts()
	f()
	got := store.Counts().Sub(before)
	got.BytesIn, got.BytesOut = 0, 0
	if got != want {
		t.Errorf("%s took %+v, want %+v", what, got, want)
	}
}

// sequence yields lines without an error.
func sequence(lines [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, line := range lines {
			if !yield(line, nil) {
				return
			}
		}
	}
}

// A verdict on a positional bracket is one GET, for a log of any length (G3).
func TestG3VerdictIsOneGet(t *testing.T) {
	for _, n := range []int64{10, 10_000} {
		store := tracestore.New(memstore.New(t), tracestore.Options{})
		b := backend.New(store, backend.Options{Foreground: true})
		s := generated(sessiongen.Options{Seed: 7, Events: n, OpenAtEnd: sessiongen.OpenTurn | sessiongen.OpenCompaction})
		if _, err := b.Import(t.Context(), "log", sequence(s.lines), backend.ImportOptions{Header: s.header}); err != nil {
			t.Fatal(err)
		}
		r := backend.NewReader(store, backend.Options{})
		for name, p := range seedpath.Pairs {
			if p.ID != "" {
				continue
			}
			spend(t, store, "check "+name, tracestore.Counts{Get: 1}, func() {
				c, err := r.Check(t.Context(), "log", p, backend.CheckOptions{})
				if err != nil || c.Answer != seedpath.Live && name != "step" || c.Scanned != 0 || c.Generation != 1 {
					t.Errorf("%d events, %s: %+v, %v", n, name, c, err)
				}
			})
		}
		spend(t, store, "info", tracestore.Counts{Get: 1}, func() { info(t, r, "log") })
		spend(t, store, "resume", tracestore.Counts{Get: 1, Put: 1}, func() {
			l, _ := resume(t, backend.New(store, backend.Options{}), "log", backend.ResumeOptions{})
			closeLog(t, l)
		})
		spend(t, store, "check after the resume", tracestore.Counts{Get: 1}, func() {
			if c, err := r.Check(t.Context(), "log", compaction, backend.CheckOptions{}); err != nil || c.Answer != seedpath.Stale {
				t.Errorf("%+v, %v", c, err)
			}
		})
		verifyClean(t, r, "log")
	}
}

func TestBudgetsOfTheSeedPath(t *testing.T) {
	store := tracestore.New(memstore.New(t), tracestore.Options{})
	b := backend.New(store, backend.Options{})
	written(t, b, "log", nil, lines(interrupted))
	cold := func() *backend.Backend { return backend.New(store, backend.Options{}) }
	var l *backend.Log
	key := backend.AppendOptions{Key: "k"}

	spend(t, store, "resume", tracestore.Counts{Get: 1, Put: 1}, func() { l, _ = resume(t, cold(), "log", backend.ResumeOptions{}) })
	closeLog(t, l)
	spend(t, store, "resume at a boundary", tracestore.Counts{Get: 1}, func() { l, _ = resume(t, cold(), "log", backend.ResumeOptions{}) })
	spend(t, store, "append to that", tracestore.Counts{Put: 1}, func() { appendOne(t, l, event(0)) })
	closeLog(t, l)
	spend(t, store, "delayed resume", tracestore.Counts{Get: 1}, func() { l, _ = resume(t, cold(), "log", backend.ResumeOptions{Delay: true}) })
	spend(t, store, "verdict of a pending handle", tracestore.Counts{}, func() {
		if _, _, err := l.Check(t.Context(), compaction.Open, compaction.Close); err != nil {
			t.Error(err)
		}
	})
	spend(t, store, "append to a delayed resume", tracestore.Counts{Put: 1}, func() {
		if r, err := l.Append(t.Context(), [][]byte{event(1)}, key); err != nil || r.First != 8 || r.Next != 9 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	closeLog(t, l)
	spend(t, store, "the same append once more, by another process", tracestore.Counts{Get: 1}, func() {
		l, _ = resume(t, cold(), "log", backend.ResumeOptions{Delay: true})
		if r, err := l.Append(t.Context(), [][]byte{event(1)}, key); err != nil || !r.Duplicate || r.First != 8 || r.Next != 9 {
			t.Errorf("%+v, %v", r, err)
		}
		if next := l.Next(); next != 10 { // its boundary is still to be written
			t.Errorf("next is %d", next)
		}
		closeLog(t, l)
	})
	spend(t, store, "claim at a boundary", tracestore.Counts{Get: 1, Put: 1}, func() {
		l, r := resume(t, cold(), "log", backend.ResumeOptions{Claim: true})
		if r.Count != 1 || r.Generation != 5 {
			t.Errorf("%+v", r)
		}
		closeLog(t, l)
	})
	spend(t, store, "fork", tracestore.Counts{Get: 1, Put: 2}, func() {
		if _, _, err := cold().Fork(t.Context(), "log", "child", backend.ForkOptions{Release: true}); err != nil {
			t.Error(err)
		}
	})
	spend(t, store, "replay", tracestore.Counts{Get: 1, Put: 2}, func() {
		if _, _, err := cold().Replay(t.Context(), "again", sequence(lines(interrupted)), backend.ReplayOptions{Release: true}); err != nil {
			t.Error(err)
		}
	})
	for _, id := range []string{"log", "child", "again"} {
		verifyClean(t, b.Reader, id)
	}
}
