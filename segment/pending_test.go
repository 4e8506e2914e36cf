package segment_test

import (
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/segment"
)

func TestAssign(t *testing.T) {
	for _, tt := range []struct{ name, raw, line, stored string }{
		{"nothing", `{"type":"a","seq":7,"time":1,"data":0}`, ``, ``},
		{"both", `{"type":"a","data":{"x":1}}`, ``, `{"type":"a","seq":7,"time":-5,"data":{"x":1}}`},
		{"only seq", `{"type":"a","time":1,"data":0}`, ``, `{"type":"a","seq":7,"time":1,"data":0}`},
		{"only time", `{"type":"a","seq":7,"data":0}`, ``, `{"type":"a","time":-5,"seq":7,"data":0}`},
		{"type last", `{"data":"x","type":"a"}`, ``, `{"data":"x","type":"a","seq":7,"time":-5}`},
		{"type in the middle", `{"time":3,"type":"a","data":"x"}`, ``, `{"time":3,"type":"a","seq":7,"data":"x"}`},
		{"spaces around the type", `{ "type" : "a" , "data" : 0 }`, ``, `{ "type" : "a","seq":7,"time":-5 , "data" : 0 }`},
		{"data names a type", `{"data":{"type":"b"},"type":"a"}`, ``, `{"data":{"type":"b"},"type":"a","seq":7,"time":-5}`},
		{"white space around", "\r\n\t {\"type\":\"a\",\"seq\":7,\"time\":1,\"data\":0} \r\n", `{"type":"a","seq":7,"time":1,"data":0}`, ``},
		{"LF inside", "{\n\"type\":\"a\",\n\"seq\":7,\"time\":1,\"data\":{\n  \"x\": 1\n}\n}", `{"type":"a","seq":7,"time":1,"data":{  "x": 1}}`, ``},
		{"CR stays", "{\r\n\"type\":\"a\",\r\n\"seq\":7,\r\"time\":1,\"data\":[\r\n]}", "{\r\"type\":\"a\",\r\"seq\":7,\r\"time\":1,\"data\":[\r]}", ``},
		{"LF inside and both absent", "{\"data\":\n[1,\n2],\n\"type\":\n\"a\"\n}", `{"data":[1,2],"type":"a"}`, `{"data":[1,2],"type":"a","seq":7,"time":-5}`},
		{"escaped newlines are text", `{"type":"a","seq":7,"time":1,"data":"\n"}`, ``, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.line == "" {
				tt.line = tt.raw
			}
			if tt.stored == "" {
				tt.stored = tt.line
			}
			p, err := segment.Prepare([]byte(tt.raw), -5, segment.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if got := string(p.Line()); got != tt.line {
				t.Errorf("Line: got %q, want %q", got, tt.line)
			}
			for range 2 { // what Assign yields, it yields again
				got, err := p.Assign(7)
				if err != nil {
					t.Fatal(err)
				}
				want := parse(t, tt.stored)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("event (-want +got):\n%s", diff)
				}
			}
			if got := p.Time(); got != parse(t, tt.stored).Time {
				t.Errorf("Time: got %d", got)
			}
		})
	}
}

// An event without a seq may lose its place to somebody else and get another.
func TestAssignAgain(t *testing.T) {
	p, err := segment.Prepare([]byte(`{"type":"a/b","data":[]}`), 5, segment.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range []int64{9, 10, 0, segment.MaxSeq} {
		e, err := p.Assign(seq)
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq != seq || parse(t, string(e.Line)).Seq != seq {
			t.Errorf("got %+v, want seq %d", e, seq)
		}
	}
	if p.HasTime() {
		t.Error("HasTime: it has none")
	}
	if got, ok := p.HasSeq(); ok || got != 0 {
		t.Errorf("HasSeq: got %d, %v", got, ok)
	}
	if got := p.Type(); got != "a/b" {
		t.Errorf("Type: got %q", got)
	}
}

func TestAssignSeqMismatch(t *testing.T) {
	p, err := segment.Prepare([]byte(`{"type":"a","seq":7,"data":0}`), 5, segment.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if seq, ok := p.HasSeq(); seq != 7 || !ok {
		t.Errorf("HasSeq: got %d, %v", seq, ok)
	}
	_, err = p.Assign(8)
	if ee := refused(t, err, segment.ErrSeqMismatch, "carries seq 7 where 8 is next"); ee.Type != "a" {
		t.Errorf("error speaks of type %q", ee.Type)
	}
	if p, err = segment.Prepare([]byte(`{"type":"a","data":0}`), 5, segment.Limits{}); err != nil {
		t.Fatal(err)
	}
	for _, seq := range []int64{-1, segment.MaxSeq + 1, math.MinInt64, math.MaxInt64} {
		_, err = p.Assign(seq)
		refused(t, err, segment.ErrSeqMismatch, "no event can have seq")
	}
}

func TestPrepareRefusesAnImpossibleClock(t *testing.T) {
	for _, now := range []int64{math.MinInt64, -segment.MaxSeq - 1, segment.MaxSeq + 1, math.MaxInt64} {
		_, err := segment.Prepare([]byte(`{"type":"a","data":0}`), now, segment.Limits{})
		refused(t, err, segment.ErrInvalidEvent, "time is missing, and the clock's")
		if _, err := segment.Prepare([]byte(`{"type":"a","time":0,"data":0}`), now, segment.Limits{}); err != nil {
			t.Errorf("the clock does not matter here: %v", err)
		}
	}
}

func TestPrepareBatch(t *testing.T) {
	plain := `{"type":"a","data":0}`
	withSeq := func(seq string) string { return `{"type":"b","seq":` + seq + `,"data":0}` }
	for _, tt := range []struct {
		name   string
		raw    []string
		index  int
		class  error
		reason string
	}{
		{"none", nil, 0, nil, ""},
		{"one", []string{plain}, 0, nil, ""},
		{"without seqs", []string{plain, plain, plain}, 0, nil, ""},
		{"with seqs", []string{withSeq("41"), withSeq("42"), withSeq("43")}, 0, nil, ""},
		{"up to the last seq there is", []string{withSeq("9007199254740990"), withSeq("9007199254740991")}, 0, nil, ""},
		{"seq only later", []string{plain, withSeq("1")}, 1, segment.ErrInvalidEvent, "has a seq and the event before it has none"},
		{"seq only first", []string{withSeq("0"), withSeq("1"), plain}, 2, segment.ErrInvalidEvent, "has no seq and the event before it has one"},
		{"gap", []string{withSeq("0"), withSeq("2")}, 1, segment.ErrSeqMismatch, "carries seq 2 where 1 is next"},
		{"repeated", []string{withSeq("3"), withSeq("3")}, 1, segment.ErrSeqMismatch, "carries seq 3 where 4 is next"},
		{"backwards", []string{withSeq("3"), withSeq("2")}, 1, segment.ErrSeqMismatch, "carries seq 2 where 4 is next"},
		{"invalid", []string{plain, plain, "{}"}, 2, segment.ErrInvalidEvent, "type is missing"},
		{"an empty line", []string{plain, " \n"}, 1, segment.ErrInvalidEvent, "empty line"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			raw := make([][]byte, len(tt.raw))
			for i, r := range tt.raw {
				raw[i] = []byte(r)
			}
			batch, err := segment.PrepareBatch(raw, 0, segment.Limits{})
			if tt.class != nil {
				if ee := refused(t, err, tt.class, tt.reason); ee.Index != tt.index {
					t.Errorf("error names event %d, want %d", ee.Index, tt.index)
				}
				if batch != nil {
					t.Error("a refused batch yields events")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(batch) != len(tt.raw) {
				t.Fatalf("got %d events, want %d", len(batch), len(tt.raw))
			}
			for i := range batch {
				if got := string(batch[i].Line()); got != tt.raw[i] {
					t.Errorf("event %d: got %s, want %s", i, got, tt.raw[i])
				}
			}
		})
	}
}

// A caller may reuse its buffers, and what one event's holder does with its
// bytes must not reach the next event.
func TestPrepareCopies(t *testing.T) {
	raw := [][]byte{[]byte(`{"type":"a","data":"one"}`), []byte("{\n\"type\":\"b\",\n\"data\":\"two\"}"), []byte(`{"type":"c","data":"three"}`)}
	batch, err := segment.PrepareBatch(raw, 0, segment.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	single, err := segment.Prepare(raw[0], 0, segment.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range raw {
		clear(r)
	}
	for i := range batch {
		_ = append(batch[i].Line(), "overrun"...)
	}
	for i, want := range []string{`{"type":"a","data":"one"}`, `{"type":"b","data":"two"}`, `{"type":"c","data":"three"}`} {
		if got := string(batch[i].Line()); got != want {
			t.Errorf("event %d: got %s, want %s", i, got, want)
		}
	}
	if got := string(single.Line()); got != `{"type":"a","data":"one"}` {
		t.Errorf("got %s", got)
	}
}

// A batch whose lines shrink or are refused for size must not disturb others:
// they share one allocation.
func TestPrepareBatchBeyondItsEstimate(t *testing.T) {
	pretty := "{\"type\":\"a\",\"data\":[" + strings.Repeat("\n", 100) + "]}"
	lim := segment.Limits{MaxEvent: 80}
	batch, err := segment.PrepareBatch([][]byte{[]byte(pretty), []byte(pretty), []byte(`{"type":"a","data":0}`)}, 0, lim)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{`{"type":"a","data":[]}`, `{"type":"a","data":[]}`, `{"type":"a","data":0}`} {
		if got := string(batch[i].Line()); got != want {
			t.Errorf("event %d: got %s, want %s", i, got, want)
		}
	}
}

func TestPrepareConcurrently(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			text := strings.Repeat(string(rune('a'+i)), 100*i)
			for range 200 {
				p, err := segment.Prepare([]byte(`{"type":"tool/call","data":{"callId":"`+text+`"}}`), 1, segment.Limits{})
				if err != nil {
					t.Error(err)
					return
				}
				e, err := p.Assign(1)
				if err != nil {
					t.Error(err)
					return
				}
				if got := segment.Project(e).CallID; got != text {
					t.Errorf("got call id %q, want %q", got, text)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Readers are pooled; the pool must work inside and outside of test bubbles.
func TestPrepareInBubbles(t *testing.T) {
	for range 2 {
		assign(t, withData("0"), 0, 0)
		synctest.Test(t, func(t *testing.T) {
			assign(t, withData("0"), 0, 0)
			segment.Project(parse(t, `{"type":"turn/start","seq":0,"time":0,"data":{"turn":1}}`))
		})
	}
}
