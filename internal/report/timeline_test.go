package report

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/fixtures"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
	"github.com/s3log/s3log/sessionfile"
	"github.com/s3log/s3log/sessiongen"
)

// sketch is a timeline in few words.
func sketch(t *timeline) string {
	var b strings.Builder
	for _, k := range t.blocks {
		fmt.Fprintf(&b, "%s %d-%d", k.Kind, k.First, k.Last)
		add := func(format string, args ...any) { fmt.Fprintf(&b, " "+format, args...) }
		if k.Kind == blockTurn {
			add("turn %d %s(%s) %q steps %d calls %d errors %d", k.Turn, k.Status, k.Class, k.Prompt, k.Steps, k.Calls, k.Errors)
		}
		if k.Synthetic > 0 {
			add("synthetic %d", k.Synthetic)
		}
		if k.Inherited {
			add("inherited")
		}
		if k.Kind == blockOutside {
			add("%s", k.TypeList())
		}
		if k.Note != "" && k.Kind != blockOwner {
			add("note %q", k.Note)
		}
		b.WriteByte('\n')
		for _, i := range k.Items {
			fmt.Fprintf(&b, "  %s %d", i.Kind, i.Seq)
			if i.Deep {
				add("deep")
			}
			if i.Kind == itemOwner {
				add("%s", strings.Fields(i.Title)[2])
			} else {
				add("%s", i.Title)
			}
			for _, s := range []string{i.Text.Text, i.Result.Text} {
				if s != "" {
					add("%q", s)
				}
			}
			if i.Tag != "" {
				add("[%s %s]", i.Tag, i.Class)
			}
			if i.Ends {
				add("ends %d after %d", i.EndSeq, i.Took)
			}
			if i.Synthetic {
				add("synthetic")
			}
			if i.Usage != nil {
				add("usage %v", *i.Usage)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

const (
	call   = `tool/call {"turn":1,"step":1,"callId":"%s","name":"bash","arguments":"ls"}`
	asks   = `assistant/message {"turn":1,"step":1,"message":{"content":[{"type":"text","text":"so"},{"type":"reasoning","text":"hm"},{"type":"tool-call","id":"x"},{"type":"tool-call","id":"y"}],"source":{"provider":"p","model":"m"}},"usage":{"inputTokens":10,"outputTokens":5,"cacheReadTokens":7}}`
	result = `tool/result {"message":{"source":{"kind":"tool","callId":"%s"},"content":[{"type":"tool-result","content":[{"type":"text","text":"%s"}]%s}]}%s}`
)

// What happened is told turn by turn, with the outcome of everything.
func TestTimeline(t *testing.T) {
	w := newWorld(t,
		"note", "note", `session/title {"title":"a title"}`,
		`turn/start {"turn":1}`,
		`user/message {"content":"from a plugin","source":{"kind":"plugin","plugin":"hooks"}}`,
		`user/message {"content":[{"type":"text","text":"hello"},{"type":"image","attachment":{"mediaType":"image/png"}}],"source":{"kind":"user"}}`,
		`step/start {"turn":1,"step":1}`,
		asks,
		fmt.Sprintf(call, "x"), fmt.Sprintf(call, "y"),
		fmt.Sprintf(result, "y", "oh", `,"isError":true`, ""),
		`approval/asked {"id":"a"}`, `approval/decided {"id":"a"}`,
		fmt.Sprintf(result, "x", "fine", "", ""),
		`step/end {"turn":1,"step":1}`,
		`turn/end {"turn":1,"reason":{"kind":"completed"}}`,
		`compaction/start {"compactionId":"c"}`, `compaction/summary {"summary":[{"type":"text","text":"short"}],"usage":{"inputTokens":3,"outputTokens":1}}`, `compaction/end {"compactionId":"c"}`,
		`turn/start {"turn":2}`, `turn/end {"turn":2,"reason":{"kind":"error","error":{"code":"RATE","message":"slow down"}}}`,
		`turn/start {"turn":3}`, `turn/end {"turn":3,"reason":{"kind":"aborted","reason":{"kind":"user"}}}`,
		`turn/start {"turn":4}`, `compaction/start {"compactionId":"d"}`,
		`turn/start {"turn":5}`, `user/message {"content":"go","source":{"kind":"user"}}`, `step/start {"turn":5,"step":1}`, asks, fmt.Sprintf(call, "x"),
	)
	if r := w.resume("log"); r.Count != 5 {
		t.Fatalf("%+v", r)
	}
	w.append("log", false, `approval/decided {"id":"never asked"}`, `turn/start {"turn":6}`, `step/start {"turn":6,"step":1}`)
	w.append("log", false, "note", `approval/asked {"id":"b"}`)
	got := sketch(w.timeline("log", Limits{}))
	want := `owner 0--1
outside 0-2 note ×2, session/title
turn 3-15 turn 1 completed(good) "hello\n[image image/png]" steps 1 calls 2 errors 1
  user 4 plugin hooks "from a plugin"
  user 5 user "hello\n[image image/png]"
  step 6 step 1 ends 14 after 8000
  assistant 7 deep assistant "so" [asks for 2 calls ] usage {10 5 7 0 0}
  call 8 deep bash "ls" "fine" [ok good] ends 13 after 5000
  call 9 deep bash "ls" "oh" [failed bad] ends 10 after 1000
  pair 11 deep approval: approval/asked "{\"id\":\"a\"}" "{\"id\":\"a\"}" [closed good] ends 12 after 1000
outside 16-18 compaction/end, compaction/start, compaction/summary
  pair 16 compaction: compaction/start "{\"compactionId\":\"c\"}" "{\"compactionId\":\"c\"}" [closed good] ends 18 after 2000
  event 17 compaction/summary "short" usage {3 1 0 0 0}
turn 19-20 turn 2 error(bad) "" steps 0 calls 0 errors 1 note "RATE: slow down"
  end 20 turn ends "RATE: slow down" [error bad]
turn 21-22 turn 3 aborted(warn) "" steps 0 calls 0 errors 0
  end 22 turn ends "user" [aborted warn]
turn 23-24 turn 4 not ended(warn) "" steps 0 calls 0 errors 0
  pair 24 compaction: compaction/start "{\"compactionId\":\"d\"}" [not closed, stale warn]
turn 25-33 turn 5 interrupted(warn) "go" steps 1 calls 1 errors 2 synthetic 4
  user 26 user "go"
  step 27 step 1 ends 32 after 2000 synthetic
  assistant 28 deep assistant "so" [asks for 2 calls ] usage {10 5 7 0 0}
  call 29 deep bash "ls" "UNKNOWN" [TOOL_OUTCOME_UNKNOWN bad] ends 30 after 0 synthetic
  owner -1 resume
  result 31 deep result of a call that was not started: y "NOT STARTED" [TOOL_NOT_STARTED bad] synthetic
  end 33 turn ends [interrupted warn] synthetic
boundary 34-34
owner 35-34
outside 35-35 approval/decided
  event 35 approval: approval/decided without an opening event "{\"id\":\"never asked\"}"
turn 36-39 turn 6 open(open) "" steps 1 calls 0 errors 0
  step 37 step 1 [live open]
  owner -1 adopt
  pair 39 deep approval: approval/asked "{\"id\":\"b\"}" [not closed, live open]
closers 40-39
  closer -1 step/end "step 1"
  closer -1 turn/end "turn 6, interrupted"
`
	got = strings.ReplaceAll(got, textOf(t, "x"), "UNKNOWN")
	got = strings.ReplaceAll(got, textOf(t, ""), "NOT STARTED")
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Error(diff)
	}
}

// textOf is what the synthetic result of a call says: of one that was started, or not.
func textOf(t *testing.T, started string) string {
	t.Helper()
	w := newWorld(t, `turn/start {"turn":1}`, `step/start {"turn":1,"step":1}`, asks)
	if started != "" {
		w.append("log", false, fmt.Sprintf(call, started))
	}
	w.resume("log")
	for e, err := range w.reader().Events(t.Context(), "log", backend.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if ev, err := e.Parse(); err == nil && ev.Type == "tool/result" {
			return membersOf(ev.Data).in("message").content(400).Text
		}
	}
	t.Fatal("no result")
	return ""
}

// Whatever a session is cut at: what a resume adds to it is marked as synthetic,
// and nothing else is, also where a copy of the log does not know of the resume.
func TestSyntheticEvents(t *testing.T) {
	for seed := range uint64(2) {
		g := sessiongen.New(sessiongen.Options{Seed: seed, Events: 120, Profile: sessiongen.Agent})
		var lines [][]byte
		for line, ok := g.Next(); ok; line, ok = g.Next() {
			lines = append(lines, bytes.Clone(line))
		}
		for n := 1 + int(seed); n < len(lines); n += 4 {
			w := newWorld(t)
			w.lines("log", false, nil, lines[:n])
			info, err := w.b.Info(t.Context(), "log")
			if err != nil {
				t.Fatal(err)
			}
			r := w.resume("log")
			synthetic := 0
			for _, b := range w.timeline("log", Limits{}).blocks {
				synthetic += b.Synthetic
			}
			if want := int(r.Count) - 1; synthetic != want { // the boundary is none
				t.Errorf("seed %d cut at %d: %d events are marked, %d were added", seed, n, synthetic, want)
			}
			if info.Content.Turn == nil {
				continue
			}
			// In a copy nothing but the events tells.
			var all [][]byte
			for e, err := range w.reader().Events(t.Context(), "log", backend.ReadOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, bytes.Clone(e.Line))
			}
			w.lines("copy", false, nil, all)
			marked := 0
			for _, b := range w.timeline("copy", Limits{}).blocks {
				marked += b.Synthetic
			}
			lacks := 0 // the end of a step that says nothing of itself
			if info.Content.Turn.Step != nil && len(info.Content.Turn.Calls) == 0 {
				lacks = 1
			}
			if marked != synthetic-lacks {
				t.Errorf("seed %d cut at %d: in a copy %d events are marked, %d were added", seed, n, marked, synthetic)
			}
		}
	}
}

// What the owner that resumed a log writes itself is not synthetic, and a resume
// may have had nothing to close.
func TestEventsBehindAResume(t *testing.T) {
	own := []string{`turn/start {"turn":2}`, `step/start {"turn":2,"step":1}`, `step/end {"turn":2,"step":1}`, `turn/end {"turn":2,"reason":{"kind":"completed"}}`}
	for want, events := range map[int][]string{
		2: {`turn/start {"turn":1}`, `step/start {"turn":1,"step":1}`},
		0: {`turn/start {"turn":1}`, `turn/end {"turn":1}`},
	} {
		w := newWorld(t, events...)
		l, _, err := w.b.Resume(t.Context(), "log", backend.ResumeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var lines [][]byte
		for _, e := range own {
			typ, data, _ := strings.Cut(e, " ")
			lines = append(lines, fmt.Appendf(nil, `{"type":%q,"data":%s}`, typ, data))
		}
		if _, err := l.Append(t.Context(), lines, backend.AppendOptions{Last: true}); err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, b := range w.timeline("log", Limits{}).blocks {
			got += b.Synthetic
		}
		if got != want {
			t.Errorf("%d events are marked behind %q, want %d", got, events, want)
		}
	}
}

// The verdicts of a page are those of check, for every bracket and every log.
func TestVerdictsAreThoseOfCheck(t *testing.T) {
	types := []string{
		`approval/asked {"id":"1"}`, `approval/asked {"id":"2"}`, `approval/decided {"id":"1"}`, `approval/asked {}`, "compaction/start", "compaction/end",
		`turn/start {"turn":1}`, `turn/end {"turn":1}`, `step/start {"turn":1,"step":1}`, `step/end {"turn":1,"step":1}`, "session/end-seed", "note",
		fmt.Sprintf(call, "x"), fmt.Sprintf(result, "x", "", "", ""), `command/run {"commandId":"1"}`, `command/done {"commandId":"1"}`,
	}
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 9))
		var events []string
		for range 3 + rng.IntN(25) {
			events = append(events, types[rng.IntN(len(types))])
		}
		w := newWorld(t, events...)
		if seed%3 == 0 {
			w.append("log", false, "note")
		}
		tl := w.timeline("log", Limits{})
		list, unused := tl.verdicts()
		if len(list)+len(unused) != len(seedpath.Pairs) {
			t.Errorf("seed %d: %d verdicts, %d unused", seed, len(list), len(unused))
		}
		for _, v := range list {
			c, err := w.reader().Check(t.Context(), "log", v.Pair.Pair, backend.CheckOptions{Verify: true})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.Verdict, v.Verdict); diff != "" || !v.Known {
				t.Errorf("seed %d, %s of %q: %s", seed, v.Pair.Name, events, diff)
			}
			if v.WithoutID != c.WithoutID || !slices.Equal(v.Unmatched, c.Unmatched) && len(v.Unmatched)+len(c.Unmatched) > 0 {
				t.Errorf("seed %d, %s of %q: unmatched %v, %d without an id; check says %v, %d", seed, v.Pair.Name, events, v.Unmatched, v.WithoutID, c.Unmatched, c.WithoutID)
			}
			if strings.Contains(v.Evidence, "damaged") || v.Words == "" {
				t.Errorf("seed %d: %q, %q", seed, v.Words, v.Evidence)
			}
		}
		for _, name := range unused {
			p := seedpath.Pairs[name]
			for _, e := range events {
				if strings.HasPrefix(e, p.Open+" ") || strings.HasPrefix(e, p.Close+" ") {
					t.Errorf("seed %d: %s is said to be unused", seed, name)
				}
			}
		}
	}
}

// Types that a manifest counts together with others are judged by the events.
func TestVerdictBeyondTheTypesOfAManifest(t *testing.T) {
	var events []string
	for i := range segment.MaxTypes {
		events = append(events, fmt.Sprintf("type/%d", i))
	}
	w := newWorld(t, append(events, "compaction/start", "session/end-seed")...)
	list, unused := w.timeline("log", Limits{}).verdicts()
	if len(list) != 1 || len(unused) != len(seedpath.Pairs)-1 {
		t.Fatalf("%+v, %q", list, unused)
	}
	v := list[0]
	if v.Answer != seedpath.Stale || v.Open.Seq != segment.MaxTypes || !v.Known || !strings.Contains(v.Evidence, "the events (1 opening, 0 closing)") {
		t.Errorf("%+v", v)
	}
}

// What is damaged is a gap, and the rest is there.
func TestDamagedLog(t *testing.T) {
	w := newWorld(t)
	w.append("log", true, `turn/start {"turn":1}`, `approval/asked {"id":"a"}`, "compaction/start")
	w.append("log", true, "note", "note")
	w.append("log", true, `turn/end {"turn":1,"reason":{"kind":"completed"}}`, "note")
	w.append("log", false, `turn/start {"turn":2}`, `turn/end {"turn":2,"reason":{"kind":"completed"}}`)
	info, err := w.b.Info(t.Context(), "log")
	if err != nil || len(info.Segments) != 3 {
		t.Fatalf("%+v, %v", info.Segments, err)
	}
	w.mem.Drop(manifest.SegmentKey("log", info.Segments[1].Name))
	page, facts := w.page("log", Options{})
	if facts.Verified.OK() || facts.Unread != 2 || facts.Events != 9 || facts.Root != nil || !errors.Is(facts.Damage, backend.ErrMissing) {
		t.Errorf("%+v", facts)
	}
	doc := harmless(t, page)
	root := backend.Point{Size: 9, Root: info.Content.Tree.Root}.String()
	all := doc.words()
	for _, want := range []string{
		"not intact: 1 finding 7 of 9 events can be read, with 2 turns", "Events7 of 9 can be read, seq 0 to 8", "of event lines that can be read: 3 segments",
		"Verified7 of 9 events in 2 of 3 segments and the manifest", "Rootnot proved the manifest says " + root,
		"Of events that cannot be read nothing is counted.", "What is wrong with the log now: s3logctl verify log", "s3logctl cat log --salvage --from 0 --to 2",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("the page does not say %q: %s", want, all)
		}
	}
	if n, not := strings.Count(all, root), strings.Count(all, "not proved the manifest says "+root); n != not || strings.Contains(all, "--since") {
		t.Errorf("the root is on the page %d times, and %d times said not to be proved", n, not)
	}
	timeline := doc.byID(t, "timeline").words()
	for _, want := range []string{"Seq 3 to 4 cannot be read.", "Turn 1 end not readable", "approval: approval/asked end not seen", "Turn 2 completed"} {
		if !strings.Contains(timeline, want) {
			t.Errorf("the timeline does not say %q: %s", want, timeline)
		}
	}
	if v := doc.byID(t, "verification").words(); !strings.Contains(v, "not ok 1 finding. 2 events cannot be read") || !strings.Contains(v, "missing") {
		t.Errorf("the verification says %q", v)
	}
	brackets := doc.byID(t, "brackets").words()
	for _, want := range []string{"approval approval/asked … approval/decided by id unknown not judged", "compaction/start at seq 2 has no compaction/end", "the manifest alone: events are missing or damaged"} {
		if !strings.Contains(brackets, want) {
			t.Errorf("the brackets do not say %q: %s", want, brackets)
		}
	}
	rows := unpack(t, page)
	if seqs := seqsOf(rows); !slices.Equal(seqs, []int64{0, 1, 2, 5, 6, 7, 8}) {
		t.Errorf("the page has the seqs %v", seqs)
	}
	// An object that is another one has events all the same, as far as they go.
	w = newWorld(t)
	w.append("log", true, "note", "note")
	info, err = w.b.Info(t.Context(), "log")
	if err != nil {
		t.Fatal(err)
	}
	key := manifest.SegmentKey("log", info.Segments[0].Name)
	other := bytes.Clone(w.mem.Snapshot(key)[key])
	nonce := bytes.Index(other, []byte(`"nonce":"`)) + len(`"nonce":"`)
	copy(other[nonce:], "0000000000000000")
	index := other[bytes.LastIndex(other[:nonce], []byte(`{"format"`)) : len(other)-16]
	binary.LittleEndian.PutUint32(other[len(other)-12:], crc32.Checksum(index, crc32.MakeTable(crc32.Castagnoli)))
	w.mem.Replace(key, other)
	page, facts = w.page("log", Options{})
	if facts.Verified.OK() || facts.Unread != 0 || len(unpack(t, page)) != 2 || facts.Root != nil || !errors.Is(facts.Damage, backend.ErrCorrupt) {
		t.Errorf("%+v", facts)
	}
	if v := harmless(t, page).byID(t, "verification").words(); !strings.Contains(v, "2 events that are shown are from objects that are not what the manifest means") ||
		!strings.Contains(v, "Verified0 of 2 events in 0 of 1 segment") {
		t.Errorf("the verification says %q", v)
	}
	// A manifest whose tail is damaged leaves the segments.
	w = newWorld(t)
	w.append("log", true, "note")
	w.append("log", false, "note")
	forge(t, w, "log", func(r *manifest.Record) { r.Tail = []byte("nothing") })
	page, facts = w.page("log", Options{})
	if facts.Unread != 1 || facts.Verified.OK() || len(unpack(t, page)) != 1 {
		t.Errorf("%+v", facts)
	}
}

func seqsOf(rows []row) (list []int64) {
	for _, r := range rows {
		list = append(list, r.Seq)
	}
	return list
}

// forge changes a manifest behind everybody's back.
func forge(t *testing.T, w *world, id string, change func(r *manifest.Record)) {
	t.Helper()
	head, err := manifest.Load(t.Context(), w.mem, id, manifest.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rec := *head.Record
	change(&rec)
	body, err := rec.Encode()
	if err != nil {
		t.Fatal(err)
	}
	w.mem.Replace(manifest.Key(id), body)
}

// A manifest that contradicts the events is shown to.
func TestContradiction(t *testing.T) {
	w := newWorld(t, "compaction/start", "compaction/end", "note")
	forge(t, w, "log", func(r *manifest.Record) {
		r.Content = r.Content.Clone()
		r.Content.Types.Entries[0].Last, r.Content.Types.Entries[0].First = 2, 2
		r.Content.Types.Entries[2].Last, r.Content.Types.Entries[2].First = 0, 0
	})
	page, facts := w.page("log", Options{})
	if facts.Verified.OK() {
		t.Error("the log is said to be intact")
	}
	if b := harmless(t, page).byID(t, "brackets").words(); !strings.Contains(b, "the manifest; the events say balanced: one of them is damaged") {
		t.Error(b)
	}
}

// Every real session has a page, with all of its events.
func TestFixtures(t *testing.T) {
	for _, file := range fixtures.Files(t, "sessions", "legacy-messages") {
		header, lines := expand(t, file)
		w := newWorld(t)
		w.lines("log", false, header, lines)
		page, facts := w.page("log", Options{})
		if !facts.Verified.OK() || facts.Events != int64(len(lines)) || facts.Unread != 0 {
			t.Errorf("%s: %+v", file, facts)
		}
		harmless(t, page)
		for i, r := range unpack(t, page) {
			if want := cut(string(lines[i]), 4<<10).Text; *r.Line != want {
				t.Errorf("%s: seq %d is %.100s", file, i, *r.Line)
			}
		}
	}
}

// expand is the header and the events of a session file.
func expand(t *testing.T, file string) (header []byte, lines [][]byte) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := sessionfile.NewReader(f, sessionfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for line, err := range r.Events() {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, bytes.Clone(line.Bytes))
	}
	return r.Header(), lines
}
