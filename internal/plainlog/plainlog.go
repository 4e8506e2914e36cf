// Package plainlog answers from the whole log, in the plainest way, what s3log
// answers from a few numbers: which events end an interrupted turn, and what
// became of a bracket. Tests compare the two. It decodes events to maps, shares
// no code with the rest of the module, and is not meant to be fast or to be used
// for anything else.
package plainlog

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// What a synthetic result says to a model, word by word.
const (
	UnknownText = "This tool call was recorded as started, but the session was interrupted before its result was stored. " +
		"Whether it took effect is not known. Call it again only if it merely reads or may safely happen twice; " +
		"otherwise look at the state it would have changed first, or ask the user. Do not repeat it blindly."
	NotStartedText = "The session was interrupted before this tool call was recorded as started. It may be called again if it is still needed."
)

// Event is one decoded event.
type Event struct {
	Type      string
	Seq, Time int64
	Data      map[string]any // nil if it is no object
}

// Parse decodes a line.
func Parse(line []byte) (Event, error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		return Event{}, fmt.Errorf("%.100s: %w", line, err)
	}
	var e Event
	var ok [3]bool
	e.Type, ok[0] = m["type"].(string)
	e.Seq, ok[1] = integer(m["seq"])
	e.Time, ok[2] = integer(m["time"])
	if ok != [3]bool{true, true, true} {
		return Event{}, fmt.Errorf("%.100s: no event", line)
	}
	e.Data, _ = m["data"].(map[string]any)
	return e, nil
}

// ParseAll decodes lines.
func ParseAll(lines [][]byte) ([]Event, error) {
	events := make([]Event, len(lines))
	for i, line := range lines {
		var err error
		if events[i], err = Parse(line); err != nil {
			return nil, err
		}
	}
	return events, nil
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
	return i, err == nil && i > -1<<53 && i < 1<<53
}

func count(v any) (int64, bool) {
	n, ok := integer(v)
	return n, ok && n >= 0
}

type call struct {
	id        string
	step, seq int64 // seq -1: only requested
}

type turn struct {
	open       bool
	turn, step int64 // step -1: none
	calls      []call
}

func (s *turn) find(id string) int {
	for i := range s.calls {
		if s.calls[i].id == id {
			return i
		}
	}
	return -1
}

// openTurn is the table of the storage contract, row by row.
func openTurn(events []Event) turn {
	none := turn{step: -1}
	s := none
	for _, e := range events {
		n, hasTurn := count(at(e.Data, "turn"))
		step, hasStep := count(at(e.Data, "step"))
		switch e.Type {
		case "turn/start":
			if hasTurn {
				s = turn{open: true, turn: n, step: -1}
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
			ids, ok := requested(e)
			if !hasTurn || !hasStep || !ok || !s.open {
				break
			}
			for _, id := range ids {
				if i := s.find(id); i >= 0 {
					s.calls[i] = call{id, step, -1}
				} else {
					s.calls = append(s.calls, call{id, step, -1})
				}
			}
		case "tool/call":
			if id, ok := at(e.Data, "callId").(string); ok {
				if i := s.find(id); i >= 0 {
					s.calls[i].seq = e.Seq
				}
			}
		case "tool/result":
			if id, ok := at(e.Data, "message", "source", "callId").(string); ok {
				if i := s.find(id); i >= 0 {
					s.calls = append(s.calls[:i:i], s.calls[i+1:]...)
				}
			}
		}
	}
	return s
}

// requested are the calls that a message asks for.
func requested(e Event) (ids []string, ok bool) {
	blocks, ok := at(e.Data, "message", "content").([]any)
	for _, b := range blocks {
		if at(b, "type") == "tool-call" {
			id, isString := at(b, "id").(string)
			ok = ok && isString
			ids = append(ids, id)
		}
	}
	return ids, ok
}

// Open reports whether a turn is open behind the events.
func Open(events []Event) bool { return openTurn(events).open }

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

type result struct {
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

// Closers are the lines that end an interrupted turn, in the order of keys of
// the contract.
func Closers(events []Event) (lines []string) {
	s := openTurn(events)
	if !s.open {
		return nil
	}
	last := events[len(events)-1]
	seq := last.Seq
	emit := func(typ string, data any, rest string) {
		lines = append(lines, fmt.Sprintf(`{"type":%q,"seq":%d,"time":%d,"data":%s%s}`, typ, seq, last.Time, encode(data), rest))
	}
	for _, c := range s.calls {
		seq++
		rest, says := `,"surfaceOp":"append"`, NotStartedText
		var r result
		r.Error.Name, r.Error.Code = "ToolNotStartedError", "TOOL_NOT_STARTED"
		if c.seq >= 0 {
			says = UnknownText
			r.Error.Name, r.Error.Code = "ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN"
			rest += fmt.Sprintf(`,"sourceEventSeqs":[%d]`, c.seq)
		}
		r.Turn, r.Step = s.turn, c.step
		m := &r.Message
		m.ID, m.Role = fmt.Sprintf("interrupted-tool-result-%s-%d", c.id, seq), "user"
		m.Source.Kind, m.Source.CallID = "tool", c.id
		m.Content = []block{{"tool-result", c.id, true, []text{{"text", says}}}}
		emit("tool/result", r, rest)
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
	return lines
}

func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // of structs of strings and numbers
	}
	return bytes.TrimSpace(b.Bytes())
}

// Boundary is the line that ends inherited events; none if they end in one and
// leave no turn open. closers are those that come before it.
func Boundary(events []Event, closers int, now int64) []string {
	n := len(events)
	if closers == 0 && n > 0 && events[n-1].Type == "session/end-seed" && !Open(events) {
		return nil
	}
	for _, e := range events {
		now = max(now, e.Time)
	}
	return []string{fmt.Sprintf(`{"type":"session/end-seed","seq":%d,"time":%d,"data":{}}`, n+closers, now)}
}

// Verdict scans backwards for the newest event of a pair and for the newest
// boundary; -1 stands for none.
func Verdict(events []Event, open, close string) (answer string, marker, bound int64) {
	marker, bound = -1, -1
	decided := false
	for i := len(events) - 1; i >= 0; i-- {
		e := events[i]
		if e.Type == "session/end-seed" && bound < 0 {
			bound = e.Seq
		}
		if decided {
			continue
		}
		switch e.Type {
		case open:
			marker, decided = e.Seq, true
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

// Unmatched are the opening events that have a string under the name id and no
// later event of the pair with the same.
func Unmatched(events []Event, open, close, id string) (seqs []int64) {
	for i, e := range events {
		v, ok := e.Data[id].(string)
		if e.Type != open || !ok {
			continue
		}
		matched := false
		for _, later := range events[i+1:] {
			matched = matched || (later.Type == open || later.Type == close) && later.Data[id] == v
		}
		if !matched {
			seqs = append(seqs, e.Seq)
		}
	}
	return seqs
}
