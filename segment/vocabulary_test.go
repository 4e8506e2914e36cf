package segment_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/segment"
)

func TestProject(t *testing.T) {
	opaque := segment.Projection{}
	assistant := func(calls ...string) segment.Projection {
		return segment.Projection{Kind: segment.KindAssistantMessage, Turn: 1, Step: 2, Calls: calls}
	}
	content := func(blocks string) string { return `{"turn":1,"step":2,"message":{"content":` + blocks + `}}` }
	for _, tt := range []struct {
		name, typ, data string
		want            segment.Projection
	}{
		{"turn start", "turn/start", `{"turn":1}`, segment.Projection{Kind: segment.KindTurnStart, Turn: 1}},
		{"with more", "turn/start", `{"trigger":{"turn":9},"turn":1,"x":[{"turn":8}]}`, segment.Projection{Kind: segment.KindTurnStart, Turn: 1}},
		{"turn 0", "turn/start", `{"turn":0}`, segment.Projection{Kind: segment.KindTurnStart}},
		{"greatest turn", "turn/start", `{"turn":9007199254740991}`, segment.Projection{Kind: segment.KindTurnStart, Turn: segment.MaxSeq}},
		{"turn end", "turn/end", `{"turn":3,"reason":{"kind":"completed"}}`, segment.Projection{Kind: segment.KindTurnEnd, Turn: 3}},
		{"a step means nothing here", "turn/end", `{"turn":3,"step":"x"}`, segment.Projection{Kind: segment.KindTurnEnd, Turn: 3}},
		{"step start", "step/start", `{"turn":3,"step":4}`, segment.Projection{Kind: segment.KindStepStart, Turn: 3, Step: 4}},
		{"step end", "step/end", `{"step":4,"turn":3}`, segment.Projection{Kind: segment.KindStepEnd, Turn: 3, Step: 4}},
		{"escaped name", "turn/start", `{"t\u0075rn":1}`, segment.Projection{Kind: segment.KindTurnStart, Turn: 1}},
		{"last of two", "turn/start", `{"turn":1,"turn":2}`, segment.Projection{Kind: segment.KindTurnStart, Turn: 2}},
		{"last of two is malformed", "turn/start", `{"turn":1,"turn":"x"}`, opaque},
		{"first of two is malformed", "turn/start", `{"turn":"x","turn":1}`, segment.Projection{Kind: segment.KindTurnStart, Turn: 1}},
		{"other case", "turn/start", `{"Turn":1}`, opaque},
		{"no turn", "turn/start", `{}`, opaque},
		{"null", "turn/start", `null`, opaque},
		{"a list", "turn/start", `[{"turn":1}]`, opaque},
		{"turn is a fraction", "turn/start", `{"turn":1.0}`, opaque},
		{"turn is negative", "turn/start", `{"turn":-1}`, opaque},
		{"turn is minus zero", "turn/start", `{"turn":-0}`, opaque},
		{"turn is too great", "turn/start", `{"turn":9007199254740992}`, opaque},
		{"turn is text", "turn/end", `{"turn":"1"}`, opaque},
		{"step missing", "step/start", `{"turn":1}`, opaque},
		{"step null", "step/end", `{"turn":1,"step":null}`, opaque},

		{"tool call", "tool/call", `{"turn":1,"step":1,"callId":"c1","name":"bash","arguments":"{\"callId\":\"no\"}"}`, segment.Projection{Kind: segment.KindToolCall, CallID: "c1"}},
		{"call id with escapes", "tool/call", `{"callId":"a\"\u00e9\ud83d\ude00\n"}`, segment.Projection{Kind: segment.KindToolCall, CallID: "a\"é😀\n"}},
		{"empty call id", "tool/call", `{"callId":""}`, segment.Projection{Kind: segment.KindToolCall}},
		{"call id with a lone surrogate", "tool/call", `{"callId":"\ud800"}`, opaque},
		{"call id is a number", "tool/call", `{"callId":1}`, opaque},
		{"no call id", "tool/call", `{"id":"x"}`, opaque},

		{"tool result", "tool/result", `{"turn":1,"step":1,"message":{"id":"m","source":{"kind":"tool","callId":"c1"},"content":[{"toolCallId":"c2"}]}}`, segment.Projection{Kind: segment.KindToolResult, CallID: "c1"}},
		{"result without source", "tool/result", `{"callId":"x","message":{"callId":"y"}}`, opaque},
		{"second source counts", "tool/result", `{"message":{"source":{"callId":"a"},"source":{"callId":"b"}}}`, segment.Projection{Kind: segment.KindToolResult, CallID: "b"}},
		{"second source lacks it", "tool/result", `{"message":{"source":{"callId":"a"},"source":{}}}`, opaque},
		{"second message lacks it", "tool/result", `{"message":{"source":{"callId":"a"}},"message":null}`, opaque},

		{"message without calls", "assistant/message", content(`[{"type":"text","text":"x"}]`), assistant()},
		{"message without content", "assistant/message", content(`[]`), assistant()},
		{"two calls", "assistant/message", content(`[{"type":"tool-call","id":"b"},{"type":"text","id":"no"},{"name":"x","id":"a","arguments":"{}","type":"tool-call"}]`), assistant("b", "a")},
		{"the same call twice", "assistant/message", content(`[{"type":"tool-call","id":"a"},{"type":"tool-call","id":"a"}]`), assistant("a", "a")},
		{"blocks of no known shape", "assistant/message", content(`[1,null,"tool-call",["tool-call"],{},{"type":1,"id":2},{"id":"x"}]`), assistant()},
		{"last type of a block counts", "assistant/message", content(`[{"type":"text","type":"tool-call","id":"a"},{"type":"tool-call","id":"b","type":"text"}]`), assistant("a")},
		{"second content counts", "assistant/message", `{"turn":1,"step":2,"message":{"content":[{"type":"tool-call","id":"a"}],"content":[{"type":"tool-call","id":"b"}]}}`, assistant("b")},
		{"second message counts", "assistant/message", `{"turn":1,"step":2,"message":{"content":[{"type":"tool-call","id":"a"}]},"message":{"content":[]}}`, assistant()},
		{"second message is malformed", "assistant/message", `{"turn":1,"step":2,"message":{"content":[]},"message":{}}`, opaque},
		{"call without id", "assistant/message", content(`[{"type":"tool-call","id":"a"},{"type":"tool-call"}]`), opaque},
		{"call whose id is a number", "assistant/message", content(`[{"type":"tool-call","id":7}]`), opaque},
		{"call whose id has a lone surrogate", "assistant/message", content(`[{"type":"tool-call","id":"\udc00"}]`), opaque},
		{"content is an object", "assistant/message", content(`{"type":"tool-call","id":"a"}`), opaque},
		{"content is null", "assistant/message", content(`null`), opaque},
		{"message is text", "assistant/message", `{"turn":1,"step":2,"message":"x"}`, opaque},
		{"no message", "assistant/message", `{"turn":1,"step":2}`, opaque},
		{"no turn", "assistant/message", `{"step":2,"message":{"content":[]}}`, opaque},
		{"no step", "assistant/message", `{"turn":1,"message":{"content":[]}}`, opaque},

		{"a person's message", "user/message", `{"id":"m","role":"user","content":[{"type":"text","text":"hi"}],"source":{"rpcId":1,"kind":"user"}}`, segment.Projection{Kind: segment.KindUserMessage, UserPrompt: true}},
		{"escaped kind", "user/message", `{"source":{"kind":"\u0075ser"}}`, segment.Projection{Kind: segment.KindUserMessage, UserPrompt: true}},
		{"a plugin's message", "user/message", `{"source":{"kind":"plugin"}}`, segment.Projection{Kind: segment.KindUserMessage}},
		{"kind in another case", "user/message", `{"source":{"kind":"User"}}`, segment.Projection{Kind: segment.KindUserMessage}},
		{"last source counts", "user/message", `{"source":{"kind":"user"},"source":{"kind":"plugin"}}`, segment.Projection{Kind: segment.KindUserMessage}},
		{"last source is malformed", "user/message", `{"source":{"kind":"user"},"source":1}`, opaque},
		{"kind is malformed", "user/message", `{"source":{"kind":["user"]}}`, opaque},
		{"no source", "user/message", `{"kind":"user"}`, opaque},

		{"boundary", "session/end-seed", `{}`, segment.Projection{Kind: segment.KindEndSeed}},
		{"boundary with other data", "session/end-seed", `[1]`, segment.Projection{Kind: segment.KindEndSeed}},

		{"chunk", "assistant/chunk", `{"turn":1,"step":1}`, opaque},
		{"bracket", "compaction/start", `{"turn":1}`, opaque},
		{"unknown", "x/y", `{"turn":1}`, opaque},
		{"type in another case", "Turn/start", `{"turn":1}`, opaque},
		{"no type", "", `{"turn":1}`, opaque},
	} {
		t.Run(tt.typ+" "+tt.name, func(t *testing.T) {
			got := segment.Project(segment.Event{Type: tt.typ, Data: []byte(tt.data)})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("projection of %s (-want +got):\n%s", tt.data, diff)
			}
		})
	}
}

var projectedTypes = []string{
	segment.TypeTurnStart, segment.TypeTurnEnd, segment.TypeStepStart, segment.TypeStepEnd, segment.TypeUserMessage,
	segment.TypeAssistantMessage, segment.TypeToolCall, segment.TypeToolResult, segment.TypeEndSeed,
}

// Every beginning of a good text is broken JSON, and projecting an event that
// nobody validated must be safe, too.
func TestProjectBrokenData(t *testing.T) {
	whole := `{"turn":1,"step":2,"callId":"c","source":{"kind":"user"},"message":{"source":{"callId":"c"},"content":[{"type":"tool-call","id":"a\u0041"}]}}`
	for _, typ := range projectedTypes {
		for n := range len(whole) {
			want := segment.KindOpaque
			if typ == segment.TypeEndSeed {
				want = segment.KindEndSeed
			}
			if got := segment.Project(segment.Event{Type: typ, Data: []byte(whole[:n])}); got.Kind != want {
				t.Errorf("%s of %s is %v", typ, whole[:n], got.Kind)
			}
		}
		if got := segment.Project(segment.Event{Type: typ, Data: []byte(whole)}); got.Kind == segment.KindOpaque {
			t.Errorf("%s of the whole text is opaque", typ)
		}
	}
}

func TestProjectDeepData(t *testing.T) {
	const deep = segment.MaxDepth - 2
	line := `{"type":"turn/start","seq":0,"time":0,"data":{"x":` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + `,"turn":1}}`
	if got := segment.Project(parse(t, line)); got.Kind != segment.KindTurnStart || got.Turn != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestKindString(t *testing.T) {
	seen := make(map[string]bool)
	for k := segment.KindOpaque; k <= segment.KindEndSeed; k++ {
		if name := k.String(); name == "" || name == "unknown kind" || seen[name] {
			t.Errorf("kind %d is called %q", k, name)
		} else {
			seen[name] = true
		}
	}
	if got := (segment.KindEndSeed + 1).String(); got != "unknown kind" {
		t.Errorf("a kind that does not exist is called %q", got)
	}
}

// referenceProjection projects by encoding/json and maps, as a program in a
// language with JSON.parse would.
func referenceProjection(typ string, data []byte) segment.Projection {
	var p segment.Projection
	var root any
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.UseNumber()
	if dec.Decode(&root) != nil {
		root = nil
	}
	get := func(v any, path ...string) any {
		for _, name := range path {
			object, _ := v.(map[string]any)
			v = object[name]
		}
		return v
	}
	ok := true
	count := func(name string) int64 {
		number, _ := get(root, name).(json.Number)
		n, good := referenceInteger([]byte(number))
		ok = ok && good && n >= 0
		return n
	}
	text := func(v any) string {
		s, good := v.(string)
		ok = ok && good
		return s
	}
	switch typ {
	case "turn/start":
		p = segment.Projection{Kind: segment.KindTurnStart, Turn: count("turn")}
	case "turn/end":
		p = segment.Projection{Kind: segment.KindTurnEnd, Turn: count("turn")}
	case "step/start":
		p = segment.Projection{Kind: segment.KindStepStart, Turn: count("turn"), Step: count("step")}
	case "step/end":
		p = segment.Projection{Kind: segment.KindStepEnd, Turn: count("turn"), Step: count("step")}
	case "user/message":
		p = segment.Projection{Kind: segment.KindUserMessage, UserPrompt: text(get(root, "source", "kind")) == "user"}
	case "tool/call":
		p = segment.Projection{Kind: segment.KindToolCall, CallID: text(get(root, "callId"))}
	case "tool/result":
		p = segment.Projection{Kind: segment.KindToolResult, CallID: text(get(root, "message", "source", "callId"))}
	case "assistant/message":
		p = segment.Projection{Kind: segment.KindAssistantMessage, Turn: count("turn"), Step: count("step")}
		blocks, good := get(root, "message", "content").([]any)
		ok = ok && good
		for _, b := range blocks {
			if get(b, "type") == "tool-call" {
				p.Calls = append(p.Calls, text(get(b, "id")))
			}
		}
	case "session/end-seed":
		p = segment.Projection{Kind: segment.KindEndSeed}
	}
	if !ok {
		return segment.Projection{}
	}
	return p
}

func FuzzProject(f *testing.F) {
	for i := range projectedTypes {
		for _, data := range []string{
			`{"turn":1,"step":2,"callId":"c","source":{"kind":"user"},"message":{"source":{"callId":"c"},"content":[{"type":"tool-call","id":"a"}]}}`,
			`{"turn":1,"turn":2,"step":-0,"message":{"content":[[],{},{"id":1,"type":"tool-call"}]}}`,
			`{"message":{"source":{"callId":"\ud800"}},"source":null}`, `null`, `[`, ``,
		} {
			f.Add(uint8(i), []byte(data))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		typ := projectedTypes[int(which)%len(projectedTypes)]
		got := segment.Project(segment.Event{Type: typ, Data: data}) // must not panic, whatever it is
		if !utf8.Valid(data) || !json.Valid(data) || strings.Contains(string(data), "\ufffd") || strings.Contains(string(data), `\u`) {
			return // no event has such data, or encoding/json decodes it to something else
		}
		if diff := cmp.Diff(referenceProjection(typ, data), got); diff != "" {
			t.Errorf("projection of %s as %s (-reference +got):\n%s", data, typ, diff)
		}
	})
}
