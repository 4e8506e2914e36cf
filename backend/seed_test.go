package backend_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/seedpath"
)

func lines(text string) (out [][]byte) {
	for line := range strings.Lines(text) {
		out = append(out, []byte(strings.TrimSpace(line)))
	}
	return out
}

const interrupted = `{"type":"turn/start","time":10,"data":{"turn":1}}
{"type":"step/start","time":11,"data":{"turn":1,"step":1}}
{"type":"compaction/start","time":13,"data":{"compactionId":"c1","turn":1}}`

func verifyClean(t testing.TB, r *backend.Reader, id string) backend.Report {
	t.Helper()
	rep, err := r.Verify(t.Context(), id, backend.VerifyOptions{})
	if err != nil || !rep.OK() {
		t.Errorf("verify: %+v, %v", rep, err)
	}
	return rep
}

func TestResumeForkReplay(t *testing.T) {
	store := tracestore.New(memstore.New(t), tracestore.Options{})
	b := backend.New(store, backend.Options{})
	l := create(t, b, "log")
	if _, err := l.Append(t.Context(), lines(interrupted), backend.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	compaction := seedpath.Pairs["compaction"]
	c, err := b.Check(t.Context(), "log", compaction, backend.CheckOptions{Verify: true})
	if err != nil || c.Answer != seedpath.Live || c.Open.Seq != 2 || c.Open.Generation != 1 {
		t.Fatalf("%+v, %v", c, err)
	}
	before := store.Counts()
	l, r, err := b.Resume(t.Context(), "log", backend.ResumeOptions{})
	if err != nil || r.First != 3 || r.Count != 3 || r.Next != 6 || r.Generation != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	if d := store.Counts().Sub(before); d.Get != 1 || d.Put != 1 {
		t.Errorf("%+v", d)
	}
	c, err = b.Check(t.Context(), "log", compaction, backend.CheckOptions{Verify: true})
	if err != nil || c.Answer != seedpath.Stale || c.Bound.Seq != 5 {
		t.Fatalf("%+v, %v", c, err)
	}
	before = store.Counts()
	l2, r, err := b.Resume(t.Context(), "log", backend.ResumeOptions{})
	if err != nil || r.Count != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if d := store.Counts().Sub(before); d.Get != 1 || d.Put != 0 {
		t.Errorf("%+v", d)
	}
	appendOne(t, l, event(6)) // it still owns the log
	appendOne(t, l2, event(7))
	if _, err := l.Append(t.Context(), [][]byte{event(8)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrFenced) {
		t.Error(err)
	}
	closeLog(t, l2)
	got := read(t, b.Reader, "log", 0)
	for i, want := range []string{"turn/start", "step/start", "compaction/start", "step/end", "turn/end", "session/end-seed", "chunk", "session/end-seed", "chunk"} {
		if !strings.Contains(got[i], want) {
			t.Errorf("seq %d: %s", i, got[i])
		}
	}
	verifyClean(t, b.Reader, "log")

	before = store.Counts()
	_, r, err = b.Fork(t.Context(), "log", "child", backend.ForkOptions{Release: true})
	if err != nil || r.Next != 10 {
		t.Fatalf("%+v, %v", r, err)
	}
	if d := store.Counts().Sub(before); d.Get != 1 || d.Put != 2 {
		t.Errorf("%+v", d)
	}
	verifyClean(t, b.Reader, "child")
	again, r, err := b.Fork(t.Context(), "log", "child", backend.ForkOptions{Release: true})
	if err != nil || again != nil || !r.Duplicate || r.Next != 10 {
		t.Fatalf("%+v, %v", r, err)
	}
	at := int64(1)
	if _, _, err := b.Fork(t.Context(), "log", "inside", backend.ForkOptions{At: &at}); !errors.Is(err, backend.ErrOpenTurn) {
		t.Error(err)
	}
	if _, _, err := b.Fork(t.Context(), "log", "child", backend.ForkOptions{Clip: true}); !errors.Is(err, backend.ErrExists) {
		t.Error(err)
	}
	l3, r, err := b.Fork(t.Context(), "log", "clipped", backend.ForkOptions{Clip: true})
	if err != nil || r.Next != 6 {
		t.Fatalf("%+v, %v", r, err)
	}
	if r := appendOne(t, l3, event(0)); r.First != 6 || r.Generation != 1 {
		t.Errorf("%+v", r)
	}
	closeLog(t, l3)
	verifyClean(t, b.Reader, "clipped")

	l4, r, err := b.Replay(t.Context(), "again", func(yield func([]byte, error) bool) {
		for _, line := range lines(interrupted) {
			if !yield(line, nil) {
				return
			}
		}
	}, backend.ReplayOptions{})
	if err != nil || r.Next != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	closeLog(t, l4)
	verifyClean(t, b.Reader, "again")
	l5, r, err := b.Replay(t.Context(), "empty", func(func([]byte, error) bool) {}, backend.ReplayOptions{})
	if err != nil || r.Next != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	closeLog(t, l5)
	verifyClean(t, b.Reader, "empty")
}
