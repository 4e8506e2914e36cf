package backend_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// An earlier point proves that a log extends what it was, or that it does not.
func TestVerifySince(t *testing.T) {
	events := brief(`turn/start {"turn":1}`, "note", "note", `turn/end {"turn":1}`, mark, "note", "note")
	b := backend.New(memstore.New(t), backend.Options{})
	var points []backend.Point
	l := create(t, b, "log")
	if _, err := l.Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	points = append(points, root(t, b.Reader, "log"))
	for i := range events {
		if _, err := l.Append(t.Context(), events[i:i+1], backend.AppendOptions{Boundary: true}); err != nil {
			t.Fatal(err)
		}
		points = append(points, root(t, b.Reader, "log"))
	}
	closeLog(t, l)
	for i, p := range points {
		rep, err := b.Verify(t.Context(), "log", backend.VerifyOptions{Since: &p})
		if err != nil || !rep.OK() || !strings.Contains(strings.Join(rep.Checked, "\n"), "the log extends "+p.String()) {
			t.Errorf("%s: %+v, %v", p, rep, err)
		}
		p.Root[31] ^= 1
		rep, err = b.Verify(t.Context(), "log", backend.VerifyOptions{Since: &p})
		want := []finding{{"since", "manifest", int64(i) - 1}}
		if diff := cmp.Diff(want, findings(rep, nil), cmp.AllowUnexported(finding{})); err != nil || diff != "" || rep.OK() {
			t.Errorf("%s: %v\n%s", p, err, diff)
		}
		// A log that is one event behind.
		short := backend.New(memstore.New(t), backend.Options{})
		if i > 1 {
			written(t, short, "log", nil, events[:i-1])
			rep, err = short.Verify(t.Context(), "log", backend.VerifyOptions{Since: &points[i]})
			if err != nil || rep.OK() || rep.Findings[0].Kind != "since" || !strings.Contains(rep.Findings[0].Detail, "noted") {
				t.Errorf("%s: %+v, %v", p, rep, err)
			}
		}
	}
}

// What is proved before damage stays proved; what lies behind it is not known.
func TestVerifySinceAndDamage(t *testing.T) {
	mem, keys := threeSegments(t)
	var points []backend.Point
	for n := range int64(12) {
		fold, err := manifest.NewFold(segment.NewState(), manifest.RuleUserPrompt)
		if err != nil {
			t.Fatal(err)
		}
		for ev, err := range backend.NewReader(mem, backend.Options{}).Events(t.Context(), "log", backend.ReadOptions{To: ptr(n - 1)}) {
			if err != nil {
				t.Fatal(err)
			}
			parsed, err := ev.Parse()
			if err != nil {
				t.Fatal(err)
			}
			if ev.Seq < n {
				fold.Add(parsed)
			}
		}
		points = append(points, backend.Point{Size: n, Root: fold.State().Tree.Root})
	}
	mem.Drop(keys[1])
	r := backend.NewReader(mem, backend.Options{})
	for n, p := range points {
		rep, err := r.Verify(t.Context(), "log", backend.VerifyOptions{Since: &p})
		extends := slices.Contains(rep.Checked, "the log extends "+p.String())
		unknown := strings.Contains(strings.Join(rep.Checked, "\n"), "not whether the log extends")
		if err != nil || len(rep.Findings) != 1 || extends != (n <= 3) || unknown != (n > 3) {
			t.Errorf("%s: %+v, %v", p, rep, err)
		}
	}
}

func TestParsePoint(t *testing.T) {
	h := strings.Repeat("0a", 32)
	p, err := backend.ParsePoint("17:" + h)
	if err != nil || p.Size != 17 || p.String() != "17:"+h {
		t.Errorf("%s, %v", p, err)
	}
	for _, bad := range []string{"", "17", ":" + h, "-1:" + h, "x:" + h, "1:", "1:" + h[1:], "1:" + h + "0", "1:" + strings.ToUpper(h), "1.0:" + h} {
		if p, err := backend.ParsePoint(bad); err == nil || p != (backend.Point{}) {
			t.Errorf("%q: %v", bad, p)
		}
	}
}

// A fork is compared with its parent, as far as that can be read.
func TestVerifyParent(t *testing.T) {
	build := func() (*memstore.Store, *backend.Backend) {
		mem := memstore.New(t)
		b := backend.New(mem, backend.Options{})
		written(t, b, "log", nil, brief("note", "note", "note"))
		forked(t, b, "log", "child", backend.ForkOptions{At: ptr(int64(1))})
		forked(t, b, "log", "twin", backend.ForkOptions{})
		return mem, backend.New(mem, backend.Options{})
	}
	for _, tc := range []struct {
		name   string
		change func(mem *memstore.Store, b *backend.Backend)
		id     string
		want   []finding
		says   string
	}{
		{"as it was", func(*memstore.Store, *backend.Backend) {}, "child", nil, `the parent "log" has at 2 events the root`},
		{"at its end", func(*memstore.Store, *backend.Backend) {}, "twin", nil, `the parent "log" has at 3 events the root`},
		{"goes on", func(_ *memstore.Store, b *backend.Backend) {
			l := adopt(t, b, "log")
			appendOne(t, l, event(0))
			closeLog(t, l)
		}, "twin", nil, `the parent "log" has at 3 events the root`},
		{"gone", func(mem *memstore.Store, _ *backend.Backend) { mem.Drop(manifest.Key("log")) }, "child", nil, "cannot be read"},
		{"deleted", func(mem *memstore.Store, _ *backend.Backend) {
			commitBy(t, mem, "log", func(base *manifest.Record, w manifest.Writer) (*manifest.Draft, error) {
				d, err := manifest.TakeOver(base, w, manifest.KindDelete, base.Commit.At)
				if err == nil {
					d.Delete()
				}
				return d, err
			})
		}, "child", nil, "cannot be read"},
		{"another log", func(mem *memstore.Store, _ *backend.Backend) {
			mem.Drop(manifest.Key("log"))
			written(t, backend.New(mem, backend.Options{}), "log", nil, brief("note", "note", "note"))
		}, "child", nil, "another log has this id now"},
		{"put back", func(mem *memstore.Store, _ *backend.Backend) {
			uid := info(t, backend.NewReader(mem, backend.Options{}), "log").UID
			mem.Drop(manifest.Key("log"))
			written(t, backend.New(mem, backend.Options{}), "log", nil, brief("note"))
			forgeManifest(t, mem, "log", func(r *manifest.Record) { r.UID = uid })
		}, "child", []finding{{"parent", "manifest", -1}}, ""},
		{"rewritten", func(mem *memstore.Store, _ *backend.Backend) {
			uid := info(t, backend.NewReader(mem, backend.Options{}), "log").UID
			mem.Drop(manifest.Key("log"))
			written(t, backend.New(mem, backend.Options{}), "log", nil, brief("note", "other", "note"))
			forgeManifest(t, mem, "log", func(r *manifest.Record) { r.UID = uid })
		}, "child", []finding{{"parent", "manifest", 1}}, ""},
		{"damaged", func(mem *memstore.Store, _ *backend.Backend) {
			forgeManifest(t, mem, "log", func(r *manifest.Record) { r.Tail = []byte("nothing") })
		}, "child", nil, "cannot be read"},
		{"the origin is wrong", func(mem *memstore.Store, _ *backend.Backend) {
			forgeManifest(t, mem, "child", func(r *manifest.Record) {
				o, p := *r.Origin, *r.Origin.Parent
				p.Root[0] ^= 1
				o.Parent = &p
				r.Origin = &o
			})
		}, "child", []finding{{"parent", "child", 1}, {"state", "", 0}, {"parent", "manifest", 1}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem, b := build()
			tc.change(mem, b)
			rep, err := backend.NewReader(mem, backend.Options{}).Verify(t.Context(), tc.id, backend.VerifyOptions{})
			if diff := cmp.Diff(tc.want, findings(rep, nil), cmp.AllowUnexported(finding{}), cmpopts.EquateEmpty()); err != nil || diff != "" {
				t.Errorf("%v\n%s\n%+v", err, diff, rep.Findings)
			}
			state := backend.ParentDiffers
			switch {
			case strings.Contains(tc.says, "has at"):
				state = backend.ParentAgrees
			case tc.want == nil:
				state = backend.ParentUnread
			}
			if rep.Parent != state {
				t.Errorf("the parent %s, want %s", rep.Parent, state)
			}
			if !strings.Contains(strings.Join(rep.Checked, "\n"), tc.says) {
				t.Errorf("%q", rep.Checked)
			}
		})
	}
}

// A second result for one call is a remark, unless the call was made again, or
// the second takes the place of the first: it is no damage.
func TestVerifyRemarksOnSecondResults(t *testing.T) {
	asks := `assistant/message {"turn":1,"step":1,"message":{"content":[{"type":"tool-call","id":"c"}]}}`
	result := `tool/result {"message":{"source":{"callId":"c"}}}`
	for _, tc := range []struct {
		name   string
		events []string
		want   []finding
	}{
		{"two results", []string{`turn/start {"turn":1}`, asks, result, result, result}, []finding{{"duplicate-result", "manifest", 3}, {"duplicate-result", "manifest", 4}}},
		{"asked again", []string{`turn/start {"turn":1}`, asks, result, asks, result}, nil},
		{"in the next turn", []string{`turn/start {"turn":1}`, asks, result, `turn/start {"turn":2}`, result}, nil},
	} {
		b := backend.New(memstore.New(t), backend.Options{})
		written(t, b, "log", nil, brief(tc.events...))
		rep, err := b.Verify(t.Context(), "log", backend.VerifyOptions{})
		if diff := cmp.Diff(tc.want, findings(rep, nil), cmp.AllowUnexported(finding{}), cmpopts.EquateEmpty()); err != nil || diff != "" || !rep.OK() {
			t.Errorf("%s: %v\n%s", tc.name, err, diff)
		}
	}
	b := backend.New(memstore.New(t), backend.Options{})
	events := brief(`turn/start {"turn":1}`, asks, result, result)
	events[3] = []byte(strings.TrimSuffix(string(events[3]), "}") + `,"sourceEventSeqs":[2],"surfaceOp":{"op":"replace","start":2,"end":2}}`)
	written(t, b, "log", nil, events)
	if rep := verifyClean(t, b.Reader, "log"); len(rep.Findings) != 0 {
		t.Errorf("%+v", rep)
	}
}

// An activity rule of a later version is not followed, and not complained about.
func TestVerifyOfAnUnknownRule(t *testing.T) {
	mem, _ := threeSegments(t)
	forgeManifest(t, mem, "log", func(r *manifest.Record) { r.ActivityRule, *r.Content.Activity = "later", 3 })
	verifyClean(t, backend.NewReader(mem, backend.Options{}), "log")
}
