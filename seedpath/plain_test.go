package seedpath_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// What this package does once more, without any of the project's code: events
// are decoded to maps, and every question is answered from the whole log.

type plainEvent struct {
	typ       string
	seq, time int64
	data      map[string]any // nil if data is no object
}

func plain(t testing.TB, line []byte) plainEvent {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	e := plainEvent{typ: m["type"].(string)}
	e.seq, _ = m["seq"].(json.Number).Int64()
	e.time, _ = m["time"].(json.Number).Int64()
	e.data, _ = m["data"].(map[string]any)
	return e
}

// at follows names into nested objects.
func at(v any, names ...string) any {
	for _, name := range names {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func integer(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := n.Int64()
	return i, err == nil && i >= 0 && i < 1<<53
}

type plainCall struct {
	id        string
	step, seq int64 // seq -1: only requested
}

type plainTurn struct {
	open       bool
	turn, step int64 // step -1: none
	calls      []plainCall
}

// plainOpenTurn is the table of the storage contract, row by row.
func plainOpenTurn(t testing.TB, lines [][]byte) plainTurn {
	none := plainTurn{step: -1}
	s := none
	remove := func(id string) {
		for i := range s.calls {
			if s.calls[i].id == id {
				s.calls = append(s.calls[:i:i], s.calls[i+1:]...)
				return
			}
		}
	}
	for _, line := range lines {
		e := plain(t, line)
		turn, hasTurn := integer(at(e.data, "turn"))
		step, hasStep := integer(at(e.data, "step"))
		switch e.typ {
		case "turn/start":
			if hasTurn {
				s = plainTurn{open: true, turn: turn, step: -1}
			}
		case "turn/end":
			if hasTurn {
				s = none
			}
		case "step/start":
			if hasTurn && hasStep && s.open {
				s.step = step
			}
		case "step/end":
			if hasTurn && hasStep {
				s.step, s.calls = -1, nil
			}
		case "assistant/message":
			blocks, isList := at(e.data, "message", "content").([]any)
			if !hasTurn || !hasStep || !isList || !s.open {
				break
			}
			var ids []string
			good := true
			for _, b := range blocks {
				if at(b, "type") == "tool-call" {
					id, isString := at(b, "id").(string)
					good = good && isString
					ids = append(ids, id)
				}
			}
			for _, id := range ids {
				if !good {
					break
				}
				again := false
				for i := range s.calls {
					if s.calls[i].id == id {
						s.calls[i], again = plainCall{id, step, -1}, true
					}
				}
				if !again {
					s.calls = append(s.calls, plainCall{id, step, -1})
				}
			}
		case "tool/call":
			if id, ok := at(e.data, "callId").(string); ok {
				for i := range s.calls {
					if s.calls[i].id == id {
						s.calls[i].seq = e.seq
					}
				}
			}
		case "tool/result":
			if id, ok := at(e.data, "message", "source", "callId").(string); ok {
				remove(id)
			}
		}
	}
	return s
}

// plainClosers writes the closers with structs in the order of the contract.
func plainClosers(t testing.TB, lines [][]byte) (out []string) {
	s := plainOpenTurn(t, lines)
	if !s.open {
		return nil
	}
	last := plain(t, lines[len(lines)-1])
	seq := last.seq
	emit := func(typ string, data any, rest string) {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(data); err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf(`{"type":%q,"seq":%d,"time":%d,"data":%s%s}`, typ, seq, last.time, bytes.TrimSpace(b.Bytes()), rest))
	}
	for _, c := range s.calls {
		seq++
		type text struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		type block struct {
			Type       string `json:"type"`
			ToolCallID string `json:"toolCallId"`
			IsError    bool   `json:"isError"`
			Content    []text `json:"content"`
		}
		var data struct {
			Turn    int64 `json:"turn"`
			Step    int64 `json:"step"`
			Message struct {
				ID     string `json:"id"`
				Role   string `json:"role"`
				Source struct {
					Kind   string `json:"kind"`
					CallID string `json:"callId"`
				} `json:"source"`
				Content []block `json:"content"`
			} `json:"message"`
			Error struct {
				Name string `json:"name"`
				Code string `json:"code"`
			} `json:"error"`
		}
		data.Turn, data.Step = s.turn, c.step
		m := &data.Message
		m.ID, m.Role = fmt.Sprintf("interrupted-tool-result-%s-%d", c.id, seq), "user"
		m.Source.Kind, m.Source.CallID = "tool", c.id
		rest := `,"surfaceOp":"append"`
		says := notStartedText
		data.Error.Name, data.Error.Code = "ToolNotStartedError", "TOOL_NOT_STARTED"
		if c.seq >= 0 {
			says = unknownText
			data.Error.Name, data.Error.Code = "ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN"
			rest += fmt.Sprintf(`,"sourceEventSeqs":[%d]`, c.seq)
		}
		m.Content = []block{{"tool-result", c.id, true, []text{{"text", says}}}}
		emit("tool/result", data, rest)
	}
	if s.step >= 0 {
		seq++
		emit("step/end", struct {
			Turn int64 `json:"turn"`
			Step int64 `json:"step"`
		}{s.turn, s.step}, "")
	}
	seq++
	emit("turn/end", json.RawMessage(fmt.Sprintf(`{"turn":%d,"reason":{"kind":"interrupted"}}`, s.turn)), "")
	return out
}

// plainVerdict scans backwards for the newest event of the pair and the newest
// boundary.
func plainVerdict(t testing.TB, lines [][]byte, open, close string) (answer string, marker, bound int64) {
	marker, bound = -1, -1
	decided := false
	for i := len(lines) - 1; i >= 0; i-- {
		e := plain(t, lines[i])
		if e.typ == "session/end-seed" && bound < 0 {
			bound = e.seq
		}
		if decided {
			continue
		}
		switch e.typ {
		case open:
			marker, decided = e.seq, true
		case close:
			decided = true
		}
	}
	switch {
	case marker < 0:
		return "balanced", -1, bound
	case bound > marker:
		return "stale", marker, bound
	}
	return "live", marker, bound
}

// plainUnmatched are the opening events whose id no later closing event has, the
// newest one of each id.
func plainUnmatched(t testing.TB, lines [][]byte, open, close, id string) (seqs []int64) {
	for i := range lines {
		e := plain(t, lines[i])
		v, ok := at(e.data, id).(string)
		if e.typ != open || !ok {
			continue
		}
		matched := false
		for _, later := range lines[i+1:] {
			l := plain(t, later)
			matched = matched || (l.typ == open || l.typ == close) && at(l.data, id) == v
		}
		if !matched {
			seqs = append(seqs, e.seq)
		}
	}
	return seqs
}

// greatest is the greatest time of the events, or floor.
func greatest(t testing.TB, lines [][]byte, floor int64) int64 {
	for _, line := range lines {
		floor = max(floor, plain(t, line).time)
	}
	return floor
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
		if events[i], err = segment.ParseEvent(line, segment.Limits{MaxEvent: math.MaxInt32}); err != nil {
			t.Fatalf("%.300s: %v", line, err)
		}
		if events[i].Seq != int64(i) {
			t.Fatalf("seq %d at %d", events[i].Seq, i)
		}
	}
	return events
}
