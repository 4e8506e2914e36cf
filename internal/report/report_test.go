package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/sessiongen"
)

// The page says what the manifest says, who made it and when.
func TestFacts(t *testing.T) {
	w := newWorld(t)
	w.lines("log", false, []byte(`{"type":"session","createdAt":5,"cwd":"/x"}`), [][]byte{
		[]byte(`{"type":"turn/start","time":1000,"data":{"turn":1}}`), []byte(`{"type":"session/title","time":2000,"data":{"title":"T"}}`),
	})
	info, err := w.b.Info(t.Context(), "log")
	if err != nil {
		t.Fatal(err)
	}
	page, facts := w.page("log", Options{Software: "s3logctl 9", Store: "s3://b/p"})
	root := backend.Point{Size: 2, Root: info.Content.Tree.Root}
	if facts.Log != "log" || facts.Events != 2 || facts.Root == nil || *facts.Root != root {
		t.Errorf("%+v", facts)
	}
	doc := harmless(t, page)
	all := doc.words()
	for _, want := range []string{
		"verified", info.UID, "open, revision 2, generation 1, epoch 1", root.String(), "writer " + info.Owner.Writer + " (tester), released", "turn 1",
		`{"type":"session","createdAt":5,"cwd":"/x"}`, "Made 2026-12-01 10:00:00.000Z by s3logctl 9 from s3://b/p", "1970-01-01 00:00:02.000Z",
		"Born fresh; it comes from no other log that it knows of.", "No event says what it cost", "s3logctl verify log --since " + root.String(),
	} {
		if !strings.Contains(all, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	// That a log extends an earlier state is said where somebody has noted one.
	if strings.Contains(all, "the log extends") {
		t.Error("the page says that the log extends itself")
	}
	page, _ = w.page("log", Options{Since: &root})
	if !strings.Contains(harmless(t, page).words(), "the log extends "+root.String()) {
		t.Error("the page does not say that the log extends what was noted")
	}
	for _, id := range []string{"facts", "verification", "brackets", "lineage", "lifecycles", "size", "timeline", "seq-0"} {
		doc.byID(t, id)
	}
	if n := len(doc.all("main")) + len(doc.all("h1")) + len(doc.all("nav")); n != 3 {
		t.Errorf("%d landmarks", n)
	}
}

// A log without events has a page.
func TestEmptyLog(t *testing.T) {
	w := newWorld(t)
	l, err := w.b.Create("log", backend.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
		t.Fatal(err)
	}
	page, facts := w.page("log", Options{})
	if all := harmless(t, page).words(); facts.Events != 0 || !facts.Verified.OK() || !strings.Contains(all, "no events") || !strings.Contains(all, "There is nothing to draw.") {
		t.Errorf("%+v: %s", facts, all)
	}
}

// A report reads a log twice and writes nothing; of a fork it asks the ancestors.
func TestRequests(t *testing.T) {
	w := newWorld(t)
	w.append("log", true, "note", "note")
	w.append("log", true, "note", "note")
	fork(w, "log", "child")
	fork(w, "child", "grandchild")
	for id, want := range map[string]int64{
		"log":        3 + 2*2,         // Info, Verify, Events; each segment twice
		"grandchild": 3 + 2 + 1 + 1*2, // and the parent for Verify, which it ends where the fork begins; the ancestors; one segment
	} {
		store := tracestore.New(w.mem, tracestore.Options{})
		pageOf(t, backend.NewReader(store, backend.Options{}), id, Options{})
		if c := store.Counts(); c.Get != want || c.Requests() != want {
			t.Errorf("%s: %+v, want %d GET", id, c, want)
		}
	}
}

func fork(w *world, parent, child string) {
	w.t.Helper()
	if _, _, err := w.b.Fork(w.t.Context(), parent, child, backend.ForkOptions{Release: true}); err != nil {
		w.t.Fatal(err)
	}
}

// Where a log comes from is said as far as it can be read, and whether its parent
// agrees.
func TestLineage(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world)
		says   []string
	}{
		"as it was": {func(*world) {}, []string{
			"the parent agrees", "its first 3 events from child, uid", "its first 2 events from log, uid", "now 4 events, revision 3; born as a fork", "born fresh"}},
		"without the grandparent": {func(w *world) { w.mem.Drop(manifest.Key("log")) }, []string{"the parent agrees", "not read", "no such log"}},
		"without the parent":      {func(w *world) { w.mem.Drop(manifest.Key("child")) }, []string{"parent not read", "not read", "no such log"}},
		"a deleted parent": {func(w *world) {
			if _, err := w.b.Delete(w.t.Context(), "child", backend.AdoptOptions{TakeOver: true}); err != nil {
				w.t.Fatal(err)
			}
		}, []string{"parent not read", "it was deleted"}},
		"another parent": {func(w *world) {
			w.mem.Drop(manifest.Key("child"))
			w.b = backend.New(w.mem, backend.Options{})
			w.append("child", false, "note", "note", "note")
		}, []string{"parent not read", "another log has this id now"}},
		"a parent with other events": {func(w *world) {
			forge(w.t.(*testing.T), w, "grandchild", func(r *manifest.Record) {
				o, p := *r.Origin, *r.Origin.Parent
				p.Root[0] ^= 1
				o.Parent, r.Origin = &p, &o
			})
		}, []string{"the parent differs"}},
		"a circle": {func(w *world) {
			uid := ""
			forge(w.t.(*testing.T), w, "grandchild", func(r *manifest.Record) { uid = r.UID })
			forge(w.t.(*testing.T), w, "child", func(r *manifest.Record) {
				o, p := *r.Origin, *r.Origin.Parent
				p.Log, p.UID = "grandchild", uid
				o.Parent, r.Origin = &p, &o
			})
		}, []string{"it is among its own ancestors"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "note", "note")
			fork(w, "log", "child")
			w.append("child", false, "note")
			two := int64(2)
			if _, _, err := w.b.Fork(t.Context(), "child", "grandchild", backend.ForkOptions{At: &two, Release: true}); err != nil {
				t.Fatal(err)
			}
			w.append("child", false)
			w.t = t
			tc.change(w)
			page, _ := w.page("grandchild", Options{})
			got := harmless(t, page).byID(t, "lineage").words()
			for _, want := range tc.says {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in %q", want, got)
				}
			}
		})
	}
}

// The parents may be in another store.
func TestLineageInAnotherStore(t *testing.T) {
	w, other := newWorld(t), newWorld(t, "note")
	if _, _, err := w.b.Fork(t.Context(), "log", "child", backend.ForkOptions{Parent: other.b.Reader, Release: true}); err != nil {
		t.Fatal(err)
	}
	page, _ := w.page("child", Options{Parent: other.reader()})
	if got := parseHTML(t, page).byID(t, "lineage").words(); !strings.Contains(got, "the parent agrees") {
		t.Error(got)
	}
	page, _ = w.page("child", Options{})
	if got := parseHTML(t, page).byID(t, "lineage").words(); !strings.Contains(got, "parent not read") {
		t.Error(got)
	}
}

// changing is a store that does something before the n-th read of a key.
type changing struct {
	objstore.Store
	key    string
	n      int
	before func()
	err    error
}

func (c *changing) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	if key == c.key {
		if c.n--; c.n == 0 {
			c.before()
		}
		if c.n <= 0 && c.err != nil {
			return objstore.Object{}, c.err
		}
	}
	return c.Store.Get(ctx, key, opt)
}

// A log may grow while a report is made: the page is about what it was in the
// beginning, and says that what it is now extends that.
func TestGrowingLog(t *testing.T) {
	for n := 2; n <= 3; n++ { // before it is verified, and before its events are read
		w := newWorld(t, "note", "note")
		store := &changing{Store: w.mem, key: manifest.Key("log"), n: n, before: func() { w.append("log", false, "more", "more") }}
		page, facts := pageOf(t, backend.NewReader(store, backend.Options{}), "log", Options{})
		if facts.Events != 2 || len(unpack(t, page)) != 2 || !facts.Verified.OK() {
			t.Errorf("%d: %+v", n, facts)
		}
		said := strings.Contains(parseHTML(t, page).byID(t, "verification").words(), "The log has grown by 2 events while the report was made")
		if said != (n == 2) {
			t.Errorf("%d: that it has grown is said: %v", n, said)
		}
	}
}

// An earlier root that the log does not extend is a finding.
func TestSince(t *testing.T) {
	w := newWorld(t, "note", "note")
	page, facts := w.page("log", Options{Since: &backend.Point{Size: 1}})
	if facts.Verified.OK() || !strings.Contains(parseHTML(t, page).words(), "this log does not extend that one") {
		t.Errorf("%+v", facts)
	}
}

// What leaves nothing to show, and what says nothing about the log, is an error,
// and nothing is written.
func TestErrors(t *testing.T) {
	w := newWorld(t, "note")
	w.append("gone", false, "note")
	w.append("sealed", true, "note")
	if _, err := w.b.Delete(t.Context(), "gone", backend.AdoptOptions{TakeOver: true}); err != nil {
		t.Fatal(err)
	}
	info, err := w.b.Info(t.Context(), "sealed")
	if err != nil {
		t.Fatal(err)
	}
	away := func(key string, n int) objstore.Store {
		return &changing{Store: w.mem, key: key, n: n, before: func() {}, err: &objstore.Error{Op: "Get", Key: key, Err: objstore.ErrUndecided}}
	}
	for _, tc := range []struct {
		id    string
		store objstore.Store
		err   error
	}{
		{"none", w.mem, backend.ErrNotFound},
		{"gone", w.mem, backend.ErrDeleted},
		{"", w.mem, nil},
		{"log", away(manifest.Key("log"), 1), objstore.ErrUndecided},
		{"log", away(manifest.Key("log"), 2), objstore.ErrUndecided},
		{"log", away(manifest.Key("log"), 3), objstore.ErrUndecided},
		{"sealed", away(manifest.SegmentKey("sealed", info.Segments[0].Name), 2), objstore.ErrUndecided},
	} {
		var out strings.Builder
		_, err := Write(t.Context(), &out, backend.NewReader(tc.store, backend.Options{}), tc.id, Options{})
		if err == nil || tc.err != nil && !errors.Is(err, tc.err) || out.Len() > 0 {
			t.Errorf("%s: %v, %d bytes", tc.id, err, out.Len())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Write(ctx, io.Discard, w.reader(), "log", Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := Write(t.Context(), broken{}, w.reader(), "log", Options{}); !errors.Is(err, io.ErrShortWrite) {
		t.Error(err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// A page has bounds, and says what it leaves out; what it has is right.
func TestLimits(t *testing.T) {
	w := newWorld(t)
	lines := w.session("log", sessiongen.Options{Seed: 4, Events: 6000})
	whole, _ := w.page("log", Options{})
	for name, tc := range map[string]struct {
		limits Limits
		says   string
		check  func(t *testing.T, doc *node, rows []row)
	}{
		"text of an event": {Limits{Text: 20}, "", func(t *testing.T, _ *node, rows []row) {
			if len(rows) != len(lines) || *rows[9].Line != string(lines[9][:20]) || !rows[9].Cut || rows[9].Bytes != int64(len(lines[9])) {
				t.Errorf("%+v", rows[9])
			}
		}},
		"text of all events": {Limits{Events: 1000}, "some events are shown by type, time and size alone", func(t *testing.T, _ *node, rows []row) {
			last := rows[len(lines)-1]
			if len(rows) != len(lines) || last.Line != nil || last.Bytes != int64(len(lines[len(lines)-1])) || rows[0].Line == nil {
				t.Errorf("%d rows, the last %+v", len(rows), last)
			}
		}},
		"events": {Limits{Events: 1000, Rows: 2000}, "are not in this page, only what the timeline says of them", func(t *testing.T, doc *node, rows []row) {
			if len(rows) >= len(lines) || len(rows) == 0 {
				t.Errorf("%d rows", len(rows))
			}
			if want := fmt.Sprintf("The events from seq %d on", len(rows)); !strings.Contains(doc.byID(t, "timeline").words(), want) {
				t.Errorf("the page does not say %q", want)
			}
		}},
		"items": {Limits{Items: 50}, "This log has more than a page can show", func(t *testing.T, doc *node, _ []row) {
			if n := len(doc.all("ol")); n == 0 {
				t.Error("no items at all")
			}
			items := 0
			for _, li := range doc.all("li") {
				if strings.HasPrefix(li.attr["class"], "i ") {
					items++
				}
			}
			if items != 50 || !strings.Contains(doc.byID(t, "timeline").words(), "not shown here") {
				t.Errorf("%d items", items)
			}
		}},
		"blocks": {Limits{Blocks: 10}, "This log has more than a page can show", func(t *testing.T, doc *node, _ []row) {
			blocks := 0
			next := int64(0)
			doc.byID(t, "timeline").each(func(n *node) {
				if n.name != "details" || !strings.HasPrefix(n.attr["class"], "b ") {
					return
				}
				blocks++
				var first, last int64
				if _, err := fmt.Sscan(n.attr["data-first"], &first); err != nil || first != next {
					t.Errorf("a block begins at %d, %d is next", first, next)
				}
				if _, err := fmt.Sscan(n.attr["data-last"], &last); err != nil {
					t.Error(err)
				}
				next = last + 1
			})
			if blocks < 10 || blocks > 12 || next != int64(len(lines)) {
				t.Errorf("%d blocks up to %d", blocks, next)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			page, facts := w.page("log", Options{Limits: tc.limits})
			if len(page) >= len(whole) || facts.Events != int64(len(lines)) {
				t.Errorf("%d bytes, %d without limits", len(page), len(whole))
			}
			doc := harmless(t, page)
			if !strings.Contains(doc.byID(t, "timeline").words(), tc.says) {
				t.Errorf("it does not say %q", tc.says)
			}
			tc.check(t, doc, unpack(t, page))
		})
	}
}

// What a report takes does not grow with the bytes of a log: events of a megabyte
// are let go.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("measures memory")
	}
	mem := memstore.New(t)
	b := backend.New(mem, backend.Options{Foreground: true})
	l, err := b.Create("log", backend.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("0123456789abcdef", 1<<16)
	for i := range 48 {
		if _, err := l.Append(t.Context(), [][]byte{fmt.Appendf(nil, `{"type":"user/message","data":{"n":%d,"content":%q,"source":{"kind":"user"}}}`, i, text)}, backend.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
		t.Fatal(err)
	}
	l = nil
	runtime.GC()
	var before, during runtime.MemStats
	runtime.ReadMemStats(&before)
	most := uint64(0)
	n := 0
	_, err = Write(t.Context(), io.Discard, backend.NewReader(mem, backend.Options{Prefetch: 1}), "log", Options{Progress: func(int64) {
		if n++; n%12 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&during)
			most = max(most, during.HeapAlloc)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d MiB are held", (int64(most)-int64(before.HeapAlloc))>>20)
	if grown := int64(most) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("of a log of 48 MiB, %d MiB are held", grown>>20)
	}
}

// Everything about bars and lines adds up.
func TestCharts(t *testing.T) {
	w := newWorld(t)
	lines := w.session("log", sessiongen.Options{Seed: 6, Events: 30_000})
	w.resume("log")
	tl := w.timeline("log", Limits{})
	list := charts(tl)
	if len(list) != 2 || list[0].Name != "Size" || list[1].Name != "Tokens" {
		t.Fatalf("%d charts", len(list))
	}
	var bytes int64
	for _, l := range lines {
		bytes += int64(len(l))
	}
	if tl.bytes < bytes || tl.bytes > bytes+200 || list[0].Sum != bytesText(tl.bytes) || list[1].Sum != number(tl.usage.Total())+" tokens" {
		t.Errorf("%d bytes, want about %d; %s, %s", tl.bytes, bytes, list[0].Sum, list[1].Sum)
	}
	for _, c := range list {
		if n := len(c.Bars); n > maxBars || n < maxBars/3 {
			t.Errorf("%d bars", n)
		}
		top := 0.0
		for i, b := range c.Bars {
			if b.H < 0 || b.Y < 0 || b.Y+b.H > chartHeight+0.1 || b.X+b.W > chartWidth+1 || i > 0 && b.X <= c.Bars[i-1].X {
				t.Errorf("bar %d: %+v", i, b)
			}
			top = max(top, b.H)
		}
		if top != chartHeight-4 || len(c.Marks) != 1 {
			t.Errorf("the highest bar has %g, %d marks", top, len(c.Marks))
		}
		if want := fmt.Sprintf(" %d,4", chartWidth); !strings.HasSuffix(c.Line, want) {
			t.Errorf("the line ends %q", c.Line[len(c.Line)-20:])
		}
	}
	var sum int64
	for _, b := range tl.blocks {
		sum += b.Usage.Total()
	}
	if sum != tl.usage.Total() || sum == 0 {
		t.Errorf("turns took %d tokens, the log %d", sum, tl.usage.Total())
	}
}

// The lifecycles cover a log, each with the owners that took over in it.
func TestLifecycles(t *testing.T) {
	w := newWorld(t, `turn/start {"turn":1}`)
	w.resume("log")
	w.append("log", false, "note")
	w.resume("log")
	page, _ := w.page("log", Options{})
	got := parseHTML(t, page).byID(t, "lifecycles").words()
	for _, want := range []string{"fresh0–2with the log", "behind a boundary3–4", "resume no events", "generation 1: fresh by", "generation 2: resume by", "generation 3: adopt by", "generation 4: resume by"} {
		if !strings.Contains(strings.ReplaceAll(got, " ", ""), strings.ReplaceAll(want, " ", "")) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	fork(w, "log", "child")
	w.append("child", false, "note")
	page, _ = w.page("child", Options{})
	got = parseHTML(t, page).byID(t, "lifecycles").words()
	for _, want := range []string{"inherited by the fork0–2", "inherited, behind a boundary3–4", "fork5–5"} {
		if !strings.Contains(strings.ReplaceAll(got, " ", ""), strings.ReplaceAll(want, " ", "")) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

// Opening a page must stay quick: what a browser has to make of it at once grows
// with the turns alone. (browser_test.go looks at that in a browser.)
func TestPageOfAThousandTurns(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	w := newWorld(t)
	w.session("log", sessiongen.Options{Seed: 1, Turns: 1000})
	began := time.Now()
	page, facts := w.page("log", Options{})
	took := time.Since(began)
	doc := parseHTML(t, page)
	atOnce := 0
	var count func(n *node)
	count = func(n *node) {
		for _, k := range n.kids {
			if k.name != "" && n.name != "noscript" {
				atOnce++
			}
			if n.name != "noscript" {
				count(k)
			}
		}
	}
	count(doc)
	t.Logf("%d events, %d bytes, %d elements at once, in %v", facts.Events, len(page), atOnce, took)
	if atOnce > 40_000 {
		t.Errorf("%d elements are there when the page is opened", atOnce)
	}
}
