package seedpath_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/s3log/s3log/internal/plainlog"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// ids of calls: few, so that they are requested and answered again and again.
// Some need escapes, two are longer than a summary holds, one may be empty.
var ids = []string{"a", "b", "c", "d", "", `with "quotes" \ and`, "ünicode\tid", strings.Repeat("long", 70), strings.Repeat("\x01", 43)}

func quoted(s string) string { return string(segment.AppendString(nil, s)) }

// drawLog is a log of events that mean something to closers and verdicts, in any
// order, some of them malformed.
func drawLog(t *rapid.T) (lines [][]byte) {
	small := rapid.Int64Range(0, 4)
	id := rapid.SampledFrom(ids)
	place := func() string {
		return fmt.Sprintf(`"turn":%d,"step":%d`, small.Draw(t, "turn"), small.Draw(t, "step"))
	}
	blocks := func() string {
		var b []string
		for range rapid.IntRange(0, 4).Draw(t, "calls") {
			b = append(b, fmt.Sprintf(`{"type":"tool-call","id":%s,"name":"x"}`, quoted(id.Draw(t, "id"))))
		}
		return strings.Join(b, ",")
	}
	type event struct {
		typ  string
		data func() string
	}
	common := []event{
		{"turn/start", func() string { return "{" + place() + "}" }},
		{"turn/end", func() string { return "{" + place() + "}" }},
		{"step/start", func() string { return "{" + place() + "}" }},
		{"step/end", func() string { return "{" + place() + "}" }},
		{"assistant/message", func() string { return fmt.Sprintf(`{%s,"message":{"content":[%s]}}`, place(), blocks()) }},
		{"assistant/message", func() string { return fmt.Sprintf(`{%s,"message":{"content":[%s]}}`, place(), blocks()) }},
		{"tool/call", func() string { return fmt.Sprintf(`{%s,"callId":%s}`, place(), quoted(id.Draw(t, "id"))) }},
		{"tool/call", func() string { return fmt.Sprintf(`{"callId":%s}`, quoted(id.Draw(t, "id"))) }},
		{"tool/result", func() string {
			return fmt.Sprintf(`{"message":{"source":{"callId":%s}}}`, quoted(id.Draw(t, "id")))
		}},
		{"session/end-seed", func() string { return "{}" }},
		{"compaction/start", func() string { return fmt.Sprintf(`{"compactionId":%s}`, quoted(id.Draw(t, "id"))) }},
		{"compaction/end", func() string { return fmt.Sprintf(`{"compactionId":%s}`, quoted(id.Draw(t, "id"))) }},
		{"note", func() string { return "null" }},
	}
	odd := []event{
		{"assistant/message", func() string { // more calls than a summary holds
			return fmt.Sprintf(`{%s,"message":{"content":[%s]}}`, place(), toolCalls(rapid.IntRange(200, 300).Draw(t, "many")))
		}},
		{"assistant/message", func() string {
			return fmt.Sprintf(`{%s,"message":{"content":[{"type":"tool-call","id":"a"},{"type":"tool-call"}]}}`, place())
		}},
		{"assistant/message", func() string {
			return fmt.Sprintf(`{%s,"message":{"content":[{"type":"text","id":"a"},7,{"id":"b","type":"tool-call","id":"c"}]}}`, place())
		}},
		{"assistant/message", func() string { return `{"message":{"content":[{"type":"tool-call","id":"a"}]}}` }},
		{"turn/start", func() string { return `{"turn":"1"}` }},
		{"turn/start", func() string { return `{"turn":-1}` }},
		{"turn/end", func() string { return `[]` }},
		{"turn/end", func() string { return `{"turn":1.5}` }},
		{"step/start", func() string { return `{"turn":1}` }},
		{"step/end", func() string { return `{"turn":1,"step":null}` }},
		{"tool/call", func() string { return `{"callId":["a"]}` }},
		{"tool/result", func() string { return `{"message":{"source":{"callId":"a"},"source":{}}}` }},
		{"tool/result", func() string { return `{"message":"a"}` }},
		{"session/end-seed", func() string { return `{"turn":1}` }},
		{"compaction/end", func() string { return `0` }},
	}
	for seq := range rapid.IntRange(0, 60).Draw(t, "events") {
		kinds := common
		if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
			kinds = odd
		}
		if seq == 0 && rapid.Bool().Draw(t, "starts") {
			kinds = common[:1]
		}
		e := kinds[rapid.IntRange(0, len(kinds)-1).Draw(t, "kind")]
		lines = append(lines, fmt.Appendf(nil, `{"type":%q,"seq":%d,"time":%d,"data":%s}`,
			e.typ, seq, rapid.Int64Range(-5, 100).Draw(t, "time"), e.data()))
	}
	return lines
}

// Whatever the log, at each of its events: the manifest's summary, the scan of
// the events and the table of the contract give the same closers; these end the
// turn; and a resume adds them, one boundary, and nothing a second time.
func TestClosersAgree(t *testing.T) {
	var open, more, called int
	rapid.Check(t, func(rt *rapid.T) {
		log := drawLog(rt)
		step := max(1, len(log)/8)
		for n := len(log); n >= 0; n -= step {
			lines := log[:n]
			got := closers(t, lines)
			if diff := cmp.Diff(plainlog.Closers(plain(t, lines)), got); diff != "" {
				rt.Fatalf("after %d events (-plain +got):\n%s", n, diff)
			}
			s := fold(t, lines)
			if s.Turn != nil {
				open++
				called += len(s.Turn.Calls)
				if s.Turn.More {
					more++
					continue
				}
			}
			if again := closers(t, join(lines, got)); again != nil {
				rt.Fatalf("a second pass adds %q", again)
			}
			d := resumeDraft(t, record(t, lines), seedpath.ResumeOptions{})
			added := drafted(d)
			want := append(slices.Clip(got), plainlog.Boundary(plain(t, lines), len(got), resumed)...)
			if diff := cmp.Diff(want, added); diff != "" {
				rt.Fatalf("resume after %d events: -want +got:\n%s", n, diff)
			}
			after := join(lines, added)
			if !seedpath.Marked(fold(t, after), int64(len(after))) {
				rt.Fatal("not marked after a resume")
			}
			if again := drafted(resumeDraft(t, record(t, after), seedpath.ResumeOptions{})); again != nil {
				rt.Fatalf("a second resume adds %q", again)
			}
		}
	})
	t.Logf("%d open turns with %d calls, %d with more than the summary holds", open, called, more)
	if open == 0 || more == 0 || called == 0 {
		t.Error("the logs that were drawn lack what this is about")
	}
}

// The verdict of the manifest, that of a scan, and a plain backward scan agree at
// each event, also after a resume, which leaves nothing live.
func TestVerdictsAgree(t *testing.T) {
	pairs := []seedpath.Pair{seedpath.Pairs["compaction"], seedpath.Pairs["turn"], seedpath.Pairs["step"], {Open: "note", Close: "nothing"}, {Open: "nothing", Close: "note"}}
	byID := seedpath.Pair{Open: "compaction/start", Close: "compaction/end", ID: "compactionId"}
	seen := map[seedpath.Answer]int{}
	rapid.Check(t, func(rt *rapid.T) {
		log := drawLog(rt)
		if s := fold(t, log); s.Turn == nil || !s.Turn.More {
			log = join(log, drafted(resumeDraft(t, record(t, log), seedpath.ResumeOptions{})))
		}
		step := max(1, len(log)/8)
		for n := len(log); n >= 0; n -= step {
			lines := log[:n]
			rec := record(t, lines)
			for _, p := range pairs {
				answer, marker, bound := plainlog.Verdict(plain(t, lines), p.Open, p.Close)
				v, ok := seedpath.Judge(rec, p.Open, p.Close)
				scan := seedpath.NewScan(p)
				for _, e := range parse(t, lines) {
					scan.Add(e)
				}
				if diff := cmp.Diff(v, scan.Verdict(rec)); diff != "" || !ok {
					rt.Fatalf("-manifest +scan:\n%s", diff)
				}
				seen[v.Answer]++
				if string(v.Answer) != answer || (v.Open == nil) != (marker < 0) || (v.Bound == nil) != (bound < 0) {
					rt.Fatalf("%+v, a backward scan says %s, marker %d, boundary %d", v, answer, marker, bound)
				}
				if v.Open != nil && (v.Open.Seq != marker || v.Open.Type != p.Open || v.Open.Generation != 1) ||
					v.Bound != nil && (v.Bound.Seq != bound || *scan.Bound() != *v.Bound) {
					rt.Fatalf("%+v, a backward scan says %s, marker %d, boundary %d", v, answer, marker, bound)
				}
			}
			scan := seedpath.NewScan(byID)
			for _, e := range parse(t, lines) {
				scan.Add(e)
			}
			want := plainlog.Unmatched(plain(t, lines), byID.Open, byID.Close, byID.ID)
			if got := scan.Unmatched(); !slices.Equal(got, want) {
				rt.Fatalf("unmatched %v, want %v", got, want)
			}
			v := scan.Verdict(rec)
			if (v.Answer == seedpath.Balanced) != (len(want) == 0) || v.Open != nil && v.Open.Seq != want[len(want)-1] {
				rt.Fatalf("%+v, unmatched %v", v, want)
			}
		}
	})
	t.Log(seen)
}
