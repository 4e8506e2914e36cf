package backend_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/internal/plainlog"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// manyCalls is a log with n calls in its open turn, in segments and a tail; odd
// events come before the turn began, and after.
func manyCalls(t testing.TB, mem *memstore.Store, n int, before, after []string) [][]byte {
	t.Helper()
	events := slices.Clone(before)
	events = append(events, `turn/start {"turn":4}`, `step/start {"turn":4,"step":2}`)
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf(`{"type":"tool-call","id":"call %d"}`, i))
	}
	events = append(events, fmt.Sprintf(`assistant/message {"turn":4,"step":2,"message":{"content":[%s]}}`, strings.Join(ids, ",")))
	for i := range min(n, 10) {
		events = append(events, fmt.Sprintf(`tool/call {"callId":"call %d"}`, 3*i))
	}
	events = append(events, after...)
	lines := brief(events...)
	half := len(lines) / 2
	b := backend.New(mem, backend.Options{})
	l := create(t, b, "log")
	if _, err := l.Append(t.Context(), lines[:half], backend.AppendOptions{Boundary: true}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(t.Context(), backend.CloseOptions{Seal: true}); err != nil {
		t.Fatal(err)
	}
	l = adopt(t, b, "log")
	if _, err := l.Append(t.Context(), lines[half:], backend.AppendOptions{Boundary: true}); err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	return lines
}

// An open turn with more calls than a manifest holds, or with longer ids, is
// closed by what its events say: these are read from where the turn began.
func TestResumeOfATurnWithManyCalls(t *testing.T) {
	notes := strings.Fields(strings.Repeat("note ", 30))
	var types []string
	for i := range segment.MaxTypes {
		types = append(types, fmt.Sprintf("type/%d", i))
	}
	for _, tc := range []struct {
		name          string
		calls         int
		before, after []string
		gets          int64
	}{
		{"257", 257, nil, nil, 2},
		{"in the tail alone", 300, notes, nil, 1},
		{"behind a malformed start", 300, notes, []string{`turn/start {"turn":"x"}`}, 1 + 1}, // once more from the beginning
		{"of a type that is counted with others", 300, types, nil, 2},
		{"with a boundary inside", 300, nil, []string{mark, "note"}, 2},
		{"a long id", 1, nil, []string{fmt.Sprintf(`assistant/message {"turn":4,"step":2,"message":{"content":[{"type":"tool-call","id":%q}]}}`, strings.Repeat("long", 70))}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem := memstore.New(t)
			lines := manyCalls(t, mem, tc.calls, tc.before, tc.after)
			events, err := plainlog.ParseAll(lines)
			if err != nil {
				t.Fatal(err)
			}
			closers := plainlog.Closers(events)
			want := append(closers, plainlog.Boundary(events, len(closers), 0)...)
			store := tracestore.New(mem, tracestore.Options{})
			// Seen by a handle that has yet to write them.
			b := backend.New(store, backend.Options{})
			l, _ := resume(t, b, "log", backend.ResumeOptions{Delay: true})
			if next := int64(len(lines) + len(want)); l.Next() != next {
				t.Errorf("next is %d, not %d", l.Next(), next)
			}
			closeLog(t, l)
			before := store.Counts()
			l, r := resume(t, b, "log", backend.ResumeOptions{})
			closeLog(t, l)
			// It looks twice: what there is to write, and then for the commit.
			if d := store.Counts().Sub(before); d.Put < 1 || d.Get > 1+2*tc.gets {
				t.Errorf("%+v", d)
			}
			got := read(t, b.Reader, "log", int64(len(lines)))
			n := len(got) - 1
			if diff := cmp.Diff(want[:n], got[:n]); diff != "" || len(got) != len(want) || r.Count != int64(len(got)) {
				t.Errorf("%+v, %d closers, want %d\n%.2000s", r, n, len(closers), diff)
			}
			verifyClean(t, b.Reader, "log")
			l, r = resume(t, b, "log", backend.ResumeOptions{})
			if r.Count != 0 {
				t.Errorf("%+v", r)
			}
			closeLog(t, l)
		})
	}
}

// Where the events cannot be read, or say that no turn is open, nothing is
// written.
func TestResumeOfATurnThatCannotBeRead(t *testing.T) {
	mem := memstore.New(t)
	manyCalls(t, mem, 300, nil, nil)
	before := mem.Snapshot("")
	for name, tc := range map[string]struct {
		fault faultstore.Fault
		want  error
	}{
		"missing":        {faultstore.Fail(objstore.ErrNotExist), backend.ErrMissing},
		"denied":         {faultstore.Denied(), backend.ErrDenied},
		"not answered":   {faultstore.Unavailable(), objstore.ErrUndecided},
		"damaged":        {faultstore.Edit(func(o *objstore.Object) { o.Body[3] ^= 1 }), backend.ErrCorrupt},
		"a refused read": {faultstore.Refused(), objstore.ErrRefused},
	} {
		all := faultstore.New(mem, faultstore.Rule{Match: faultstore.And(faultstore.Op("Get"), faultstore.Prefix("segments/")), Fault: tc.fault})
		for _, delay := range []bool{false, true} {
			l, _, err := backend.New(all, backend.Options{}).Resume(t.Context(), "log", backend.ResumeOptions{Delay: delay})
			if !errors.Is(err, tc.want) || l != nil || !strings.Contains(err.Error(), "open turn") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if diff := cmp.Diff(before, mem.Snapshot("")); diff != "" {
		t.Error("something was written")
	}
	written(t, backend.New(mem, backend.Options{}), "none", nil, brief("note"))
	forgeManifest(t, mem, "none", func(r *manifest.Record) { r.Content.Turn = &segment.Turn{Turn: 1, More: true} })
	if _, _, err := backend.New(mem, backend.Options{}).Resume(t.Context(), "none", backend.ResumeOptions{}); !errors.Is(err, backend.ErrCorrupt) {
		t.Error(err)
	}
}
