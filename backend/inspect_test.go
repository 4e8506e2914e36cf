package backend_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/sessiongen"
)

// inspect returns the balanced view, and how many lines of it are synthetic.
func inspect(t testing.TB, r *backend.Reader, id string) (lines []string, synthetic int) {
	t.Helper()
	for ev, err := range r.Inspect(t.Context(), id) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Log != id || ev.Seq != int64(len(lines)) {
			t.Fatalf("%+v where seq %d of %s is next", ev.Event, len(lines), id)
		}
		if _, err := ev.Parse(); err != nil {
			t.Fatal(err)
		}
		if ev.Synthetic {
			synthetic++
		} else if synthetic > 0 {
			t.Fatalf("seq %d is stored and comes behind a closer", ev.Seq)
		}
		lines = append(lines, string(ev.Line))
	}
	return lines, synthetic
}

// requested is an open turn in whose only step n calls were requested.
func requested(n int) string {
	var blocks []string
	for i := range n {
		blocks = append(blocks, fmt.Sprintf(`{"type":"tool-call","id":"c%d","name":"read","arguments":"{}"}`, i))
	}
	return `{"type":"turn/start","time":10,"data":{"turn":1}}
{"type":"step/start","time":11,"data":{"turn":1,"step":1}}
{"type":"assistant/message","time":12,"data":{"turn":1,"step":1,"message":{"id":"m","role":"assistant","content":[` + strings.Join(blocks, ",") + `],"source":{"kind":"model"}}},"surfaceOp":"append"}`
}

// The balanced view of a log is what is in it after a resume, less the boundary.
func TestInspectShowsWhatAResumeWrites(t *testing.T) {
	logs := map[string]string{
		"balanced":    `{"type":"turn/start","time":1,"data":{"turn":1}}` + "\n" + `{"type":"turn/end","time":2,"data":{"turn":1}}`,
		"no turn":     string(event(1)),
		"interrupted": interrupted,
		"one call":    requested(1),
		"many calls":  requested(300),
		"old boundary": `{"type":"turn/start","time":10,"data":{"turn":1}}
{"type":"session/end-seed","time":50,"data":{}}`,
	}
	for seed := range uint64(6) {
		var text strings.Builder
		gen := sessiongen.New(sessiongen.Options{Seed: seed + 1, Events: 30 + 17*int64(seed)})
		for line, ok := gen.Next(); ok; line, ok = gen.Next() {
			text.Write(line)
			text.WriteByte('\n')
		}
		logs[fmt.Sprint("generated ", seed)] = text.String()
	}
	for name, text := range logs {
		t.Run(name, func(t *testing.T) {
			store := tracestore.New(memstore.New(t), tracestore.Options{})
			b := backend.New(store, backend.Options{Foreground: true})
			l := create(t, b, "log")
			if _, err := l.Append(t.Context(), lines(text), backend.AppendOptions{Boundary: true, Last: true}); err != nil {
				t.Fatal(err)
			}
			closeLog(t, l)
			stored, before := read(t, b.Reader, "log", 0), store.Counts()
			view, synthetic := inspect(t, b.Reader, "log")
			if d := store.Counts().Sub(before); d.Put != 0 || d.Get != 1 {
				t.Errorf("it took %+v", d)
			}
			if diff := cmp.Diff(stored, view[:len(view)-synthetic]); diff != "" {
				t.Errorf("the stored events: -stored +view\n%s", diff)
			}
			l, r, err := b.Resume(t.Context(), "log", backend.ResumeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			closeLog(t, l)
			after := read(t, b.Reader, "log", 0)
			if r.Count != 0 {
				after = after[:len(after)-1] // the boundary
			}
			if diff := cmp.Diff(after, view); diff != "" {
				t.Errorf("-resumed +view\n%s", diff)
			}
			if again, synthetic := inspect(t, b.Reader, "log"); synthetic != 0 || len(again) < len(view) {
				t.Errorf("after the resume there are %d closers", synthetic)
			}
		})
	}
}

// Whoever has seen enough gets no more, and what cannot be read is an error.
func TestInspectEnds(t *testing.T) {
	store := memstore.New(t)
	b := backend.New(store, backend.Options{})
	l := create(t, b, "log")
	if _, err := l.Append(t.Context(), lines(interrupted), backend.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	for stop := range 5 {
		n := 0
		for _, err := range b.Inspect(t.Context(), "log") {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n > stop {
				break
			}
		}
		if n != min(stop+1, 5) {
			t.Errorf("%d events were yielded, %d were wanted", n, stop+1)
		}
	}
	for _, err := range b.Inspect(t.Context(), "missing") {
		if !errors.Is(err, backend.ErrNotFound) {
			t.Error(err)
		}
		var oe *backend.OpError
		if !errors.As(err, &oe) || oe.Log != "missing" || oe.Hint == "" {
			t.Errorf("%+v", oe)
		}
	}
}
