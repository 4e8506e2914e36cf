package segment

// The names of event types that s3log knows. This is the only place that
// spells them: package manifest follows the projections below, package seedpath
// writes some of these events, and every other type is opaque to both.
const (
	TypeTurnStart        = "turn/start"
	TypeTurnEnd          = "turn/end"
	TypeStepStart        = "step/start"
	TypeStepEnd          = "step/end"
	TypeUserMessage      = "user/message"
	TypeAssistantChunk   = "assistant/chunk"
	TypeAssistantMessage = "assistant/message"
	TypeToolCall         = "tool/call"
	TypeToolResult       = "tool/result"
	TypeCompactionStart  = "compaction/start"
	TypeCompactionEnd    = "compaction/end"
	TypeEndSeed          = "session/end-seed"

	// Of these only reports for people make something.
	TypeCompactionSummary = "compaction/summary"
	TypeSessionTitle      = "session/title"
)

// Kind is what an event means to a log's state.
type Kind uint8

// The kinds of events. Only what the state of a log needs has one.
const (
	KindOpaque           Kind = iota // another type, or malformed data of a known one
	KindTurnStart                    // Turn
	KindTurnEnd                      // Turn
	KindStepStart                    // Turn, Step
	KindStepEnd                      // Turn, Step
	KindUserMessage                  // UserPrompt
	KindAssistantMessage             // Turn, Step, Calls
	KindToolCall                     // CallID
	KindToolResult                   // CallID
	KindEndSeed                      // nothing: the type alone makes a boundary, whatever its data
)

var kindNames = [...]string{
	"opaque", "turn start", "turn end", "step start", "step end", "user message",
	"assistant message", "tool call", "tool result", "end of seed",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown kind"
}

// Projection is the part of an event's data that the state of a log needs.
// Fields that the kind does not name are zero.
type Projection struct {
	Kind       Kind
	Turn, Step int64    // 0 to MaxSeq
	CallID     string   // data.callId of a call, data.message.source.callId of a result
	Calls      []string // ids of the tool-call blocks of data.message.content, in order
	UserPrompt bool     // data.source.kind is "user": a person wrote this message
}

// Project reads the projection of an event. It is total: data that lacks what
// the kind needs, or holds it in another shape, makes the event opaque; so does
// a call id with a lone surrogate, which no Go string can hold. Members that the
// kind does not need may have any shape. Of members with the same name the last
// one counts, as it does for JSON.parse. Types that have no kind cost nothing.
func Project(e Event) Projection {
	switch e.Type {
	case TypeTurnStart:
		return projectMarker(e.Data, KindTurnStart)
	case TypeTurnEnd:
		return projectMarker(e.Data, KindTurnEnd)
	case TypeStepStart:
		return projectMarker(e.Data, KindStepStart)
	case TypeStepEnd:
		return projectMarker(e.Data, KindStepEnd)
	case TypeUserMessage:
		return projectUserMessage(e.Data)
	case TypeAssistantMessage:
		return projectAssistantMessage(e.Data)
	case TypeToolCall:
		return projectToolCall(e.Data)
	case TypeToolResult:
		return projectToolResult(e.Data)
	case TypeEndSeed:
		return Projection{Kind: KindEndSeed}
	}
	return Projection{}
}

func projectMarker(data []byte, kind Kind) Projection {
	v := viewOf(data)
	defer v.close()
	var turn, step int64
	var hasTurn, hasStep bool
	v.object(func(name []byte) {
		switch string(name) {
		case "turn":
			turn, hasTurn = v.count()
		case "step":
			step, hasStep = v.count()
		default:
			v.skip()
		}
	})
	switch {
	case v.failed() || !hasTurn:
		return Projection{}
	case kind == KindTurnStart || kind == KindTurnEnd:
		return Projection{Kind: kind, Turn: turn}
	case !hasStep:
		return Projection{}
	}
	return Projection{Kind: kind, Turn: turn, Step: step}
}

func projectUserMessage(data []byte) Projection {
	v := viewOf(data)
	defer v.close()
	var prompt, hasKind bool
	v.object(func(name []byte) {
		if string(name) != "source" {
			v.skip()
			return
		}
		prompt, hasKind = false, false
		v.object(func(name []byte) {
			if string(name) != "kind" {
				v.skip()
				return
			}
			var kind []byte
			kind, hasKind = v.text()
			prompt = string(kind) == "user"
		})
	})
	if v.failed() || !hasKind {
		return Projection{}
	}
	return Projection{Kind: KindUserMessage, UserPrompt: prompt}
}

func projectToolCall(data []byte) Projection {
	v := viewOf(data)
	defer v.close()
	var id string
	var hasID bool
	v.object(func(name []byte) {
		if string(name) == "callId" {
			id, hasID = v.str()
		} else {
			v.skip()
		}
	})
	if v.failed() || !hasID {
		return Projection{}
	}
	return Projection{Kind: KindToolCall, CallID: id}
}

func projectToolResult(data []byte) Projection {
	v := viewOf(data)
	defer v.close()
	var id string
	var hasID bool
	v.object(func(name []byte) {
		if string(name) != "message" {
			v.skip()
			return
		}
		hasID = false
		v.object(func(name []byte) {
			if string(name) != "source" {
				v.skip()
				return
			}
			hasID = false
			v.object(func(name []byte) {
				if string(name) == "callId" {
					id, hasID = v.str()
				} else {
					v.skip()
				}
			})
		})
	})
	if v.failed() || !hasID {
		return Projection{}
	}
	return Projection{Kind: KindToolResult, CallID: id}
}

func projectAssistantMessage(data []byte) Projection {
	v := viewOf(data)
	defer v.close()
	p := Projection{Kind: KindAssistantMessage}
	var hasTurn, hasStep, hasCalls bool
	v.object(func(name []byte) {
		switch string(name) {
		case "turn":
			p.Turn, hasTurn = v.count()
		case "step":
			p.Step, hasStep = v.count()
		case "message":
			p.Calls, hasCalls = nil, false
			v.object(func(name []byte) {
				if string(name) == "content" {
					p.Calls, hasCalls = v.toolCalls()
				} else {
					v.skip()
				}
			})
		default:
			v.skip()
		}
	})
	if v.failed() || !hasTurn || !hasStep || !hasCalls {
		return Projection{}
	}
	return p
}

// toolCalls reads an array of content blocks and returns the ids of those of
// type tool-call. Blocks of another type, or of none, mean nothing here.
func (v *view) toolCalls() (ids []string, ok bool) {
	ok = true
	isArray := v.array(func() {
		var id string
		var isCall, hasID bool
		v.object(func(name []byte) {
			switch string(name) {
			case "type":
				kind, _ := v.text()
				isCall = string(kind) == "tool-call"
			case "id":
				id, hasID = v.str()
			default:
				v.skip()
			}
		})
		if isCall {
			ids = append(ids, id)
			ok = ok && hasID
		}
	})
	return ids, ok && isArray
}
