package seedpath_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// logOf numbers events that are given as type and data.
func logOf(events ...string) (lines [][]byte) {
	for i, e := range events {
		typ, data, ok := strings.Cut(e, " ")
		if !ok {
			data = "{}"
		}
		lines = append(lines, fmt.Appendf(nil, `{"type":%q,"seq":%d,"time":%d,"data":%s}`, typ, i, 10*i, data))
	}
	return lines
}

// The rule, case by case. No clock is asked: seedpath.Judge takes none.
func TestJudge(t *testing.T) {
	const open, close, mark = "compaction/start", "compaction/end", "session/end-seed"
	for _, tc := range []struct {
		log    []string
		answer seedpath.Answer
		marker int64
		bound  int64
	}{
		{nil, seedpath.Balanced, -1, -1},
		{[]string{"note"}, seedpath.Balanced, -1, -1},
		{[]string{open}, seedpath.Live, 0, -1},
		{[]string{open, close}, seedpath.Balanced, -1, -1},
		{[]string{close, open}, seedpath.Live, 1, -1},
		{[]string{open, open}, seedpath.Live, 1, -1},
		{[]string{open, open, close}, seedpath.Balanced, -1, -1}, // the newest decides, no ids
		{[]string{open, mark}, seedpath.Stale, 0, 1},
		{[]string{mark, open}, seedpath.Live, 1, 0},
		{[]string{open, mark, open}, seedpath.Live, 2, 1},
		{[]string{open, mark, open, mark}, seedpath.Stale, 2, 3},
		{[]string{open, mark, close}, seedpath.Balanced, -1, 1},
		{[]string{open + ` {"compactionId":"x"}`, close + ` {"compactionId":"y"}`}, seedpath.Balanced, -1, -1},
	} {
		v, ok := seedpath.Judge(record(t, logOf(tc.log...)), open, close)
		if !ok || v.Answer != tc.answer || (v.Open == nil) != (tc.marker < 0) || v.Open != nil && v.Open.Seq != tc.marker ||
			(v.Bound == nil) != (tc.bound < 0) || v.Bound != nil && v.Bound.Seq != tc.bound || v.Generation != 1 || v.Revision != 1 {
			t.Errorf("%q: %+v", tc.log, v)
		}
	}
}

// Types beyond those that a manifest counts singly are left to the events.
func TestJudgeOfCountedTogether(t *testing.T) {
	var log []string
	for i := range segment.MaxTypes {
		log = append(log, fmt.Sprintf("type/%d", i))
	}
	rec := record(t, logOf(log...))
	if _, ok := seedpath.Judge(rec, "never", "seen"); !ok {
		t.Error("no verdict although every type is counted")
	}
	rec = record(t, logOf(append(log, "late/start")...))
	for _, tc := range []struct {
		open, close string
		ok          bool
	}{{"type/0", "type/1", true}, {"type/0", "late/end", false}, {"late/start", "type/0", false}, {"late/start", "late/end", false}} {
		if v, ok := seedpath.Judge(rec, tc.open, tc.close); ok != tc.ok || !ok && v != (seedpath.Verdict{}) {
			t.Errorf("%s, %s: %+v, %v", tc.open, tc.close, v, ok)
		}
	}
}

func TestGenerationOf(t *testing.T) {
	rec := &manifest.Record{
		Origin: &manifest.Origin{Kind: manifest.KindFork, Inherited: 3},
		Generations: []manifest.Takeover{
			{Generation: 1, First: 0}, {Generation: 2, First: 5}, {Generation: 3, First: 5}, {Generation: 4, First: 8},
		},
	}
	for seq, want := range []int64{0, 0, 0, 1, 1, 3, 3, 3, 4, 4} { // what was inherited was written elsewhere
		if g := seedpath.GenerationOf(rec, int64(seq)); g != want {
			t.Errorf("seq %d: generation %d, want %d", seq, g, want)
		}
	}
	rec.Generations = rec.Generations[2:] // older ones are forgotten
	if g := seedpath.GenerationOf(rec, 4); g != 0 {
		t.Errorf("generation %d", g)
	}
}

// A live marker of a writer that was replaced by an adopting one shows as such.
func TestMarkerOfAReplacedWriter(t *testing.T) {
	base := record(t, logOf("compaction/start"))
	d, err := seedpath.Adopt(next, seedpath.AdoptOptions{})(t.Context(), base, resumed)
	if err != nil {
		t.Fatal(err)
	}
	v, ok := seedpath.Judge(d.Preview(), "compaction/start", "compaction/end")
	if !ok || v.Answer != seedpath.Live || v.Open.Generation != 1 || v.Generation != 2 || v.Revision != 2 {
		t.Errorf("%+v", v)
	}
}

func TestScanByID(t *testing.T) {
	for _, tc := range []struct {
		name string
		pair seedpath.Pair
		log  []string
		want []int64

		without int64
	}{
		{"closed", seedpath.Pairs["approval"], []string{`approval/asked {"id":"a"}`, `approval/decided {"id":"a"}`}, nil, 0},
		{"overlapping", seedpath.Pairs["approval"], []string{`approval/asked {"id":"a"}`, `approval/asked {"id":"b"}`, `approval/decided {"id":"a"}`}, []int64{1}, 0},
		{"asked again", seedpath.Pairs["approval"], []string{`approval/asked {"id":"a"}`, `approval/asked {"id":"a"}`}, []int64{1}, 0},
		{"closed before", seedpath.Pairs["approval"], []string{`approval/decided {"id":"a"}`, `approval/asked {"id":"a"}`}, []int64{1}, 0},
		{"equal in other words", seedpath.Pairs["approval"], []string{`approval/asked {"id":"a/b"}`, `approval/decided {"id":"\u0061\/b"}`}, nil, 0},
		{"not equal", seedpath.Pairs["approval"], []string{`approval/asked {"id":"1"}`, `approval/decided {"id":1}`}, []int64{0}, 0},
		{"great numbers", seedpath.Pairs["approval"], []string{`approval/asked {"id":9007199254740993}`, `approval/decided {"id":9007199254740992}`}, []int64{0}, 0},
		{"lone surrogates", seedpath.Pairs["approval"], []string{`approval/asked {"id":"\ud800"}`, `approval/asked {"id":"\ud801"}`, `approval/decided {"id":"\ud800"}`}, []int64{1}, 0},
		{"the last of two names", seedpath.Pairs["approval"], []string{`approval/asked {"id":"a","id":"b"}`, `approval/decided {"id":"b"}`}, nil, 0},
		{"without an id", seedpath.Pairs["approval"], []string{`approval/asked {}`, `approval/asked 7`, `approval/asked null`, `approval/decided []`}, nil, 3},
		{"members of members", seedpath.Pair{Open: "o", Close: "c", ID: "x.y"}, []string{`o {"x":{"y":1}}`, `o {"x":{"y":2}}`, `o {"x":1}`, `c {"x":{"y":1}}`}, []int64{1}, 1},
		{"two members", seedpath.Pairs["member"], []string{
			`tool-workflow/agent-start {"runId":"r","seq":1}`, `tool-workflow/agent-start {"runId":"r","seq":2}`, `tool-workflow/agent-start {"runId":"r1","seq":1}`,
			`tool-workflow/agent-end {"runId":"r","seq":2}`, `tool-workflow/agent-end {"runId":"r"}`,
		}, []int64{0, 2}, 0},
		{"elsewhere in the closing event", seedpath.Pairs["tool"], []string{
			`tool/call {"callId":"a"}`, `tool/call {"callId":"b"}`, `tool/result {"message":{"source":{"callId":"a"}},"callId":"b"}`,
		}, []int64{1}, 0},
	} {
		scan := seedpath.NewScan(tc.pair)
		for _, e := range parse(t, logOf(tc.log...)) {
			scan.Add(e)
		}
		if got := scan.Unmatched(); !slices.Equal(got, tc.want) {
			t.Errorf("%s: unmatched %v, want %v", tc.name, got, tc.want)
		}
		if got := scan.WithoutID(); got != tc.without {
			t.Errorf("%s: %d opening events without an id, want %d", tc.name, got, tc.without)
		}
	}
}

// Whatever closes a marker says which.
func TestScanClosings(t *testing.T) {
	scan := seedpath.NewScan(seedpath.Pairs["approval"])
	want := map[int64]int64{3: 1, 5: 4}
	for _, e := range parse(t, logOf("note", `approval/asked {"id":"a"}`, `approval/asked {"id":"b"}`, `approval/decided {"id":"a"}`,
		`approval/asked {"id":"a"}`, `approval/decided {"id":"a"}`, `approval/decided {"id":"a"}`, `approval/decided {}`)) {
		opened, closes := scan.Add(e)
		if seq, ok := want[e.Seq]; closes != ok || opened != seq {
			t.Errorf("seq %d closes %d, %v; want %d, %v", e.Seq, opened, closes, seq, ok)
		}
	}
}

// Of several unmatched markers a live one decides.
func TestScanVerdict(t *testing.T) {
	log := logOf(`approval/asked {"id":"a"}`, "session/end-seed", `approval/asked {"id":"b"}`)
	for n, want := range []seedpath.Answer{seedpath.Balanced, seedpath.Live, seedpath.Stale, seedpath.Live} {
		rec := record(t, log[:n])
		scan := seedpath.NewScan(seedpath.Pairs["approval"])
		for _, e := range parse(t, log[:n]) {
			scan.Add(e)
		}
		if v := scan.Verdict(rec); v.Answer != want {
			t.Errorf("after %d: %+v, want %s", n, v, want)
		}
	}
}

// The pairs by name are brackets of two types; those that the table of the
// contract has by an id have one.
func TestPairs(t *testing.T) {
	positional := []string{"compaction", "turn", "step"}
	for name, p := range seedpath.Pairs {
		if p.Open == "" || p.Close == "" || p.Open == p.Close || slices.Contains(positional, name) != (p.ID == "") {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if len(seedpath.Pairs) != 12 {
		t.Errorf("%d pairs", len(seedpath.Pairs))
	}
}

// TestScanOfBrokenData: data that ends, or goes wrong, before it says an id pairs
// with nothing. No stored event is like that.
func TestScanOfBrokenData(t *testing.T) {
	for _, data := range []string{``, `{`, `{"id"`, `{"id":`, `{"id":]}`, `{"id":"a","x":}`, `[]`} {
		s := seedpath.NewScan(seedpath.Pair{Open: "a/start", Close: "a/end", ID: "id"})
		s.Add(segment.Event{Type: "a/start", Seq: 3, Data: []byte(data)})
		if open := s.Unmatched(); len(open) != 0 || s.WithoutID() != 1 {
			t.Errorf("%s: unmatched %v, %d without an id", data, open, s.WithoutID())
		}
	}
}
