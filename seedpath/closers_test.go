package seedpath_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/internal/fixtures"
	"github.com/s3log/s3log/internal/plainlog"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// example is one of the examples of the storage contract.
type example struct {
	name    string
	log     [][]byte
	closers []string
}

// examples reads testdata/closers.txt: sections that begin with "== name", the
// events, a line "->" and the closers.
func examples(t testing.TB) (all []example) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "closers.txt"))
	if err != nil {
		t.Fatal(err)
	}
	inLog := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "== "); ok {
			all = append(all, example{name: name})
			inLog = true
			continue
		}
		if line == "" || len(all) == 0 {
			continue
		}
		e := &all[len(all)-1]
		switch {
		case line == "->":
			inLog = false
		case inLog:
			e.log = append(e.log, []byte(line))
		default:
			line = strings.ReplaceAll(line, "<UNKNOWN>", plainlog.UnknownText)
			e.closers = append(e.closers, strings.ReplaceAll(line, "<NOT_STARTED>", plainlog.NotStartedText))
		}
	}
	return all
}

// closers computes them twice: from what a manifest holds, and from the events.
func closers(t testing.TB, lines [][]byte) []string {
	t.Helper()
	s := fold(t, lines)
	var turns seedpath.Turns
	for _, e := range parse(t, lines) {
		turns.Add(e)
	}
	last := int64(0)
	if s.LastTime != nil {
		last = *s.LastTime
	}
	fromEvents := texts(t, turns.Open(), int64(len(lines)), last)
	if s.Turn == nil || !s.Turn.More {
		if diff := cmp.Diff(texts(t, s.Turn, int64(len(lines)), last), fromEvents); diff != "" {
			t.Errorf("closers differ (-manifest +events):\n%s", diff)
		}
	}
	return fromEvents
}

// plain are the events for package plainlog.
func plain(t testing.TB, lines [][]byte) []plainlog.Event {
	t.Helper()
	events, err := plainlog.ParseAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// fold gives the state that a manifest would hold.
func fold(t testing.TB, lines [][]byte) segment.State {
	t.Helper()
	f, err := manifest.NewFold(segment.NewState(), manifest.RuleUserPrompt)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range parse(t, lines) {
		f.Add(e)
	}
	return f.State()
}

func parse(t testing.TB, lines [][]byte) []segment.Event {
	t.Helper()
	events := make([]segment.Event, len(lines))
	for i, line := range lines {
		var err error
		if events[i], err = segment.ParseEvent(line, segment.Limits{}); err != nil {
			t.Fatalf("%.300s: %v", line, err)
		}
		if events[i].Seq != int64(i) {
			t.Fatalf("seq %d at %d", events[i].Seq, i)
		}
	}
	return events
}

func texts(t testing.TB, turn *segment.Turn, first, time int64) (lines []string) {
	t.Helper()
	events, err := seedpath.Closers(turn, first, time)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range events {
		if e.Seq != first+int64(i) || e.Time != time {
			t.Errorf("closer %d has seq %d, time %d", i, e.Seq, e.Time)
		}
		lines = append(lines, string(e.Line))
	}
	return lines
}

func join(log [][]byte, more []string) [][]byte {
	log = log[:len(log):len(log)]
	for _, line := range more {
		log = append(log, []byte(line))
	}
	return log
}

// record is the manifest of a log with these events. Its tail is not looked at
// by this package.
func record(t testing.TB, lines [][]byte) *manifest.Record {
	t.Helper()
	d, err := manifest.Create(nil, writer, manifest.Birth{Log: "log", Origin: manifest.Origin{Kind: manifest.KindFresh}}, born)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range parse(t, lines) {
		d.Append(e)
	}
	if len(lines) > 0 {
		d.SetTail([]byte("opaque"))
	}
	p, err := d.Finish()
	if err != nil {
		t.Fatal(err)
	}
	r, err := manifest.Decode(p.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var (
	writer = manifest.NewWriter("the first", "test")
	next   = manifest.NewWriter("the next", "test")
)

const (
	born    = int64(5)  // when logs of these tests begin, store clock
	resumed = int64(30) // when they are resumed
)

// resumeDraft begins a resume of a log.
func resumeDraft(t testing.TB, base *manifest.Record, opt seedpath.ResumeOptions) *manifest.Draft {
	t.Helper()
	d, err := seedpath.Resume(next, opt)(t.Context(), base, resumed)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func drafted(d *manifest.Draft) (lines []string) {
	raw, _ := d.Lines()
	for line := range strings.Lines(string(raw)) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return lines
}

func TestExamples(t *testing.T) {
	all := examples(t)
	if len(all) != 12 {
		t.Fatalf("%d examples", len(all))
	}
	// What a resume at time 30 then adds: where its boundary is, at which time.
	boundaries := []string{"2:30", "2:30", "4:30", "6:30", "7:30", "10:30", "5:30", "5:30", "6:200", "3:50", "5:30", "3:30"}
	for i, e := range all {
		t.Run(e.name, func(t *testing.T) {
			got := closers(t, e.log)
			if diff := cmp.Diff(e.closers, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(plainlog.Closers(plain(t, e.log)), got); diff != "" {
				t.Errorf("-plain +got:\n%s", diff)
			}
			balanced := join(e.log, got)
			if again := closers(t, balanced); again != nil {
				t.Errorf("a second pass adds %s", again)
			}

			base := record(t, e.log)
			d := resumeDraft(t, base, seedpath.ResumeOptions{})
			added := drafted(d)
			seq, at, _ := strings.Cut(boundaries[i], ":")
			want := append(e.closers[:len(e.closers):len(e.closers)], `{"type":"session/end-seed","seq":`+seq+`,"time":`+at+`,"data":{}}`)
			if diff := cmp.Diff(want, added); diff != "" {
				t.Errorf("resume: -want +got:\n%s", diff)
			}
			after := d.Preview()
			if l := after.Lifecycle; l.Kind != manifest.KindResume || l.Inherited != base.Next || l.Closers != int64(len(got)) || l.First != after.Next || l.At != resumed {
				t.Errorf("lifecycle %+v", l)
			}
			if o := after.Origin; o.Kind != manifest.KindFresh {
				t.Errorf("origin %+v", o)
			}
			if err := after.Content.Validate(after.Next); err != nil {
				t.Error(err)
			}
			if again := drafted(resumeDraft(t, record(t, join(e.log, added)), seedpath.ResumeOptions{})); again != nil {
				t.Errorf("a second resume adds %s", again)
			}
		})
	}
}

// E11: the bracket stays open in the log, and is stale behind the boundary.
func TestOrphanedCompactionIsStaleAfterResume(t *testing.T) {
	log := examples(t)[10].log
	c := seedpath.Pairs["compaction"]
	if v, ok := seedpath.Judge(record(t, log), c.Open, c.Close); !ok || v.Answer != seedpath.Live || v.Open.Seq != 3 || v.Bound != nil {
		t.Errorf("%+v", v)
	}
	d := resumeDraft(t, record(t, log), seedpath.ResumeOptions{})
	if v, ok := seedpath.Judge(d.Preview(), c.Open, c.Close); !ok || v.Answer != seedpath.Stale || v.Open.Seq != 3 || v.Bound.Seq != 5 {
		t.Errorf("%+v", v)
	}
}

// The closers that a harness really wrote, byte for byte except the sentence.
func TestRealCloser(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(fixtures.Dir(t), "sessions", "examples__headless-agent__semantic-checkpoint-snapshots__tool-outcome-unknown__session.expected.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte{'\n'})[1:] // after the header
	want := string(bytes.Join(lines[5:8], []byte{'\n'}))
	from := strings.Index(want, `"text":"`) + len(`"text":"`)
	want = want[:from] + plainlog.UnknownText + want[from+strings.IndexByte(want[from:], '"'):]
	got := closers(t, lines[:5])
	if diff := cmp.Diff(strings.Split(want, "\n"), got); diff != "" {
		t.Errorf("-real +ours:\n%s", diff)
	}
	// Its boundary came right behind them.
	added := drafted(resumeDraft(t, record(t, lines[:5]), seedpath.ResumeOptions{}))
	if mark := strings.Replace(string(lines[8]), `"time":0`, `"time":30`, 1); added[len(added)-1] != mark {
		t.Errorf("%s, want %s", added[len(added)-1], mark)
	}
	t.Log("1 fixture with 3 closers")
}

// A manifest's summary that lacks calls is refused here, completed by the
// events in a resume.
func TestClosersOfManyCalls(t *testing.T) {
	log := [][]byte{
		[]byte(`{"type":"turn/start","seq":0,"time":1,"data":{"turn":7}}`),
		[]byte(`{"type":"step/start","seq":1,"time":2,"data":{"turn":7,"step":3}}`),
		[]byte(`{"type":"assistant/message","seq":2,"time":3,"data":{"turn":7,"step":3,"message":{"content":[` + strings.Repeat(`{"type":"tool-call","id":"first"},`, 2) + toolCalls(299) + `]}}}`),
	}
	s := fold(t, log)
	if !s.Turn.More {
		t.Fatal("the summary has room for 300 calls")
	}
	if events, err := seedpath.Closers(s.Turn, 3, 3); err == nil || events != nil {
		t.Errorf("%d closers of a summary", len(events))
	}
	if _, err := seedpath.Resume(next, seedpath.ResumeOptions{})(t.Context(), record(t, log), resumed); err == nil {
		t.Error("resumed by a summary alone")
	}
	opt := seedpath.ResumeOptions{Turn: func(_ context.Context, base *manifest.Record) (*segment.Turn, error) {
		var turns seedpath.Turns
		for _, e := range parse(t, log) {
			turns.Add(e)
		}
		return turns.Open(), nil
	}}
	added := drafted(resumeDraft(t, record(t, log), opt))
	if len(added) != 303 || !strings.Contains(added[0], `"callId":"first"`) || !strings.Contains(added[299], `"callId":"call 298"`) {
		t.Errorf("%d events added, from %.200s", len(added), added[0])
	}
	opt.Turn = func(context.Context, *manifest.Record) (*segment.Turn, error) { return nil, context.Canceled }
	if _, err := seedpath.Resume(next, opt)(t.Context(), record(t, log), resumed); err == nil || !strings.Contains(err.Error(), "open turn") {
		t.Error(err)
	}
}

// A result names its call three times, so the id of a call in an event of the
// greatest size still has a closer; one that no segment could hold is an error.
func TestClosersOfHugeIDs(t *testing.T) {
	step := int64(1)
	for _, tc := range []struct {
		size int
		ok   bool
	}{{16 << 20, true}, {22 << 20, false}} {
		turn := &segment.Turn{Turn: 1, Step: &step, Calls: []segment.Call{{ID: strings.Repeat("x", tc.size), Step: 1}}}
		events, err := seedpath.Closers(turn, 9, 9)
		if (err == nil) != tc.ok || tc.ok && len(events) != 3 {
			t.Errorf("an id of %d bytes: %d events, %v", tc.size, len(events), err)
		}
	}
}

// toolCalls are the blocks of n requested calls.
func toolCalls(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"type":"tool-call","id":"call %d"}`, i)
	}
	return b.String()
}
