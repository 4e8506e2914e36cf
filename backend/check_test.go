package backend_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// Brackets that are paired by an id are answered by the events between the first
// and the last of the two types, and it is said how many that were.
func TestCheckByID(t *testing.T) {
	mem := memstore.New(t)
	store := tracestore.New(mem, tracestore.Options{})
	b := backend.New(store, backend.Options{Foreground: true})
	events := brief(
		"note", "note", "note",
		`command/run {"commandId":"a"}`, `command/run {"commandId":"b"}`, `command/done {"commandId":"a"}`,
		"note", "note", "note",
		mark, `command/run {"commandId":"c"}`, "note")
	for i := 0; i < len(events); i += 3 {
		l, err := b.Adopt(t.Context(), "log", backend.AdoptOptions{})
		if errors.Is(err, backend.ErrNotFound) {
			l, err = b.Create("log", backend.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(t.Context(), events[i:i+3], backend.AppendOptions{Boundary: true}); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(t.Context(), backend.CloseOptions{Seal: i < 9}); err != nil {
			t.Fatal(err)
		}
	}
	r := backend.NewReader(store, backend.Options{})
	check := func(name string, get int64, opt backend.CheckOptions) (c backend.Check) {
		t.Helper()
		spend(t, store, name, tracestore.Counts{Get: get}, func() {
			var err error
			if c, err = r.Check(t.Context(), "log", seedpath.Pairs[name], opt); err != nil {
				t.Error(err)
			}
		})
		return c
	}
	c := check("command", 3, backend.CheckOptions{}) // the manifest, and two segments
	if c.Answer != seedpath.Live || c.Open.Seq != 10 || c.Scanned != 8 || !slices.Equal(c.Unmatched, []int64{4, 10}) || c.Bound.Seq != 9 {
		t.Errorf("%+v", c)
	}
	if again := check("command", 4, backend.CheckOptions{Verify: true}); again.Answer != c.Answer || again.Scanned != 12 || !slices.Equal(again.Unmatched, c.Unmatched) {
		t.Errorf("%+v", again)
	}
	if c := check("approval", 1, backend.CheckOptions{}); c.Answer != seedpath.Balanced || c.Scanned != 0 || c.Open != nil || len(c.Unmatched) > 0 {
		t.Errorf("%+v", c)
	}
	l, _ := resume(t, b, "log", backend.ResumeOptions{})
	closeLog(t, l)
	if c := check("command", 3, backend.CheckOptions{}); c.Answer != seedpath.Stale || c.Open.Seq != 10 || !slices.Equal(c.Unmatched, []int64{4, 10}) {
		t.Errorf("%+v", c)
	}
}

// Types beyond the 256th of a log are counted together: their brackets are
// answered by the events, and by a handle not at all.
func TestCheckBeyondTheTypesOfAManifest(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	var many []string
	for i := range segment.MaxTypes {
		many = append(many, fmt.Sprintf("type/%d", i))
	}
	late := backend.Pair{Open: "late/start", Close: "late/end"}
	written(t, b, "log", nil, brief(append(many, "late/start", "late/other", "late/end", "late/start", mark)...))
	for _, verify := range []bool{false, true} {
		c, err := b.Check(t.Context(), "log", late, backend.CheckOptions{Verify: verify})
		if err != nil || c.Answer != seedpath.Stale || c.Open.Seq != 259 || c.Scanned < 4 || !verify && c.Scanned != 5 {
			t.Errorf("%+v, %v", c, err)
		}
	}
	l, _ := resume(t, b, "log", backend.ResumeOptions{Claim: true})
	if _, _, err := l.Check(t.Context(), late.Open, late.Close); err == nil || !strings.Contains(err.Error(), "late/start") {
		t.Error(err)
	}
	if _, _, err := l.Check(t.Context(), "type/0", "type/1"); err != nil {
		t.Error(err)
	}
	closeLog(t, l)
	if _, _, err := b.Fork(t.Context(), "log", "child", backend.ForkOptions{Clip: true}); err == nil || !strings.Contains(err.Error(), "give the seq") {
		t.Error(err)
	}
}

// What the manifest says is not believed where the events are asked, too.
func TestCheckVerifies(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(r *manifest.Record)
		says   string
	}{
		"another boundary": {func(r *manifest.Record) { r.Content.Boundary = nil }, "boundary"},
		"another time":     {func(r *manifest.Record) { r.Content.Boundary.Time++ }, "boundary"},
		"balanced": {func(r *manifest.Record) {
			e := r.Content.Types.Entries
			i := slices.IndexFunc(e, func(c segment.TypeCount) bool { return c.Type == "compaction/start" })
			j := slices.IndexFunc(e, func(c segment.TypeCount) bool { return c.Type == "note" })
			e[i], e[j] = segment.TypeCount{Type: "note", Count: e[i].Count, First: e[i].First, Last: e[i].Last}, segment.TypeCount{Type: "compaction/start"}
		}, "the events say stale"},
	} {
		mem := memstore.New(t)
		b := backend.New(mem, backend.Options{})
		l, err := b.Create("log", backend.CreateOptions{Types: []string{"note"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(t.Context(), brief("compaction/start", mark), backend.AppendOptions{Boundary: true}); err != nil {
			t.Fatal(err)
		}
		closeLog(t, l)
		if _, err := b.Check(t.Context(), "log", compaction, backend.CheckOptions{Verify: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		forgeManifest(t, mem, "log", tc.change)
		r := backend.NewReader(mem, backend.Options{})
		if _, err := r.Check(t.Context(), "log", compaction, backend.CheckOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := r.Check(t.Context(), "log", compaction, backend.CheckOptions{Verify: true}); !errors.Is(err, backend.ErrCorrupt) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckErrors(t *testing.T) {
	mem, keys := threeSegments(t)
	b := backend.New(mem, backend.Options{})
	for _, p := range []backend.Pair{{}, {Open: "a"}, {Close: "a"}, {Open: "a", Close: "a"}} {
		if _, err := b.Check(t.Context(), "log", p, backend.CheckOptions{}); err == nil {
			t.Errorf("%+v is no bracket", p)
		}
	}
	if _, err := b.Check(t.Context(), "missing", compaction, backend.CheckOptions{}); !errors.Is(err, backend.ErrNotFound) {
		t.Error(err)
	}
	mem.Drop(keys[1])
	if c, err := b.Check(t.Context(), "log", seedpath.Pairs["turn"], backend.CheckOptions{}); err != nil || c.Answer != seedpath.Live {
		t.Errorf("%+v, %v", c, err) // the manifest is enough
	}
	for _, tc := range []struct {
		pair string
		opt  backend.CheckOptions
	}{{"turn", backend.CheckOptions{Verify: true}}, {"approval", backend.CheckOptions{Verify: true}}} {
		if _, err := b.Check(t.Context(), "log", seedpath.Pairs[tc.pair], tc.opt); !errors.Is(err, backend.ErrMissing) || !strings.Contains(err.Error(), keys[1]) {
			t.Errorf("%s: %v", tc.pair, err)
		}
	}
}
