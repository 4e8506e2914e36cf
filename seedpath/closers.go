package seedpath

import (
	"fmt"
	"strconv"

	"github.com/s3log/s3log/segment"
)

// What a synthetic result says to the model that called the tool. The codes are
// those that harnesses know; the sentences are ours.
const (
	textUnknown = "This tool call was recorded as started, but the session was interrupted before its result was stored. " +
		"Whether it took effect is not known. Call it again only if it merely reads or may safely happen twice; " +
		"otherwise look at the state it would have changed first, or ask the user. Do not repeat it blindly."
	textNotStarted = "The session was interrupted before this tool call was recorded as started. It may be called again if it is still needed."
)

// Closers are the events that end an interrupted turn, as the storage contract
// of session logs has them: a result for every call without one, in the order of
// the requests; the end of the open step; the end of the turn. first is the seq
// of the first of them, time (ms) that of the log's last event, which all of
// them carry. There are none where no turn is open. Only turns are closed, never
// another bracket. A turn whose calls are not all known (More) cannot be closed
// by this and is an error: find them with TurnOf.
func Closers(turn *segment.Turn, first, time int64) ([]segment.Event, error) {
	if turn == nil {
		return nil, nil
	}
	if turn.More {
		return nil, fmt.Errorf("turn %d has more open calls than its summary holds", turn.Turn)
	}
	var lines [][]byte
	seq := func() int64 { return first + int64(len(lines)) }
	head := func(typ string) []byte {
		b := append([]byte(`{"type":`), '"')
		b = append(append(b, typ...), `","seq":`...)
		b = append(strconv.AppendInt(b, seq(), 10), `,"time":`...)
		b = append(strconv.AppendInt(b, time, 10), `,"data":{"turn":`...)
		return strconv.AppendInt(b, turn.Turn, 10)
	}
	for _, call := range turn.Calls {
		lines = append(lines, toolResult(head(segment.TypeToolResult), call, seq()))
	}
	if turn.Step != nil {
		b := append(head(segment.TypeStepEnd), `,"step":`...)
		lines = append(lines, append(strconv.AppendInt(b, *turn.Step, 10), `}}`...))
	}
	lines = append(lines, append(head(segment.TypeTurnEnd), `,"reason":{"kind":"interrupted"}}}`...))
	return parse(lines)
}

// toolResult completes the line of a synthetic result. The order of the keys is
// that of the contract: sources come after the operation.
func toolResult(b []byte, call segment.Call, seq int64) []byte {
	text, name, code := textNotStarted, "ToolNotStartedError", "TOOL_NOT_STARTED"
	if call.Seq != nil {
		text, name, code = textUnknown, "ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN"
	}
	b = append(b, `,"step":`...)
	b = strconv.AppendInt(b, call.Step, 10)
	b = append(b, `,"message":{"id":`...)
	b = segment.AppendString(b, "interrupted-tool-result-"+call.ID+"-"+strconv.FormatInt(seq, 10))
	b = append(b, `,"role":"user","source":{"kind":"tool","callId":`...)
	b = segment.AppendString(b, call.ID)
	b = append(b, `},"content":[{"type":"tool-result","toolCallId":`...)
	b = segment.AppendString(b, call.ID)
	b = append(b, `,"isError":true,"content":[{"type":"text","text":`...)
	b = segment.AppendString(b, text)
	b = append(b, `}]}]},"error":{"name":"`...)
	b = append(b, name...)
	b = append(b, `","code":"`...)
	b = append(b, code...)
	b = append(b, `"}},"surfaceOp":"append"`...)
	if call.Seq != nil {
		b = append(b, `,"sourceEventSeqs":[`...)
		b = append(strconv.AppendInt(b, *call.Seq, 10), ']')
	}
	return append(b, '}')
}

// Boundary is the event that ends inherited history. Its time is now, but never
// before anything that it inherits, so that no duration across it is negative.
func Boundary(seq, now int64, maxTime *int64) (segment.Event, error) {
	t := now
	if maxTime != nil {
		t = max(t, *maxTime)
	}
	b := append([]byte(`{"type":"`), segment.TypeEndSeed...)
	b = append(strconv.AppendInt(append(b, `","seq":`...), seq, 10), `,"time":`...)
	b = append(strconv.AppendInt(b, t, 10), `,"data":{}}`...)
	events, err := parse([][]byte{b})
	if err != nil {
		return segment.Event{}, err
	}
	return events[0], nil
}

// synthetic is how long a synthetic event may be. A result names its call three
// times: it may be longer than any event that an append accepts, and is bounded
// by what a segment can hold.
var synthetic = segment.Limits{MaxEvent: segment.MaxFrameRaw - 1}

// parse gives the events that were just written; like every other event they
// must pass the rules of the envelope.
func parse(lines [][]byte) ([]segment.Event, error) {
	events := make([]segment.Event, len(lines))
	for i, line := range lines {
		var err error
		if events[i], err = segment.ParseEvent(line, synthetic); err != nil {
			return nil, fmt.Errorf("synthetic event: %w", err)
		}
	}
	return events, nil
}
