package seedpath

import (
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// Answer is what a log says about one bracket.
type Answer string

const (
	// Balanced: the newest event of the pair is not an opening one.
	Balanced Answer = "balanced"
	// Stale: an opening marker is unmatched, and a boundary came after it: the
	// lifecycle that wrote it is over.
	Stale Answer = "stale"
	// Live: an opening marker is unmatched, and no boundary came after it.
	Live Answer = "live"
)

// Marker is an opening event that nothing has closed.
type Marker struct {
	Type string
	Seq  int64
	// Generation is the one that wrote it; 0 if that is older than what the
	// manifest keeps, or if the log was born with the event.
	Generation int64
}

// Verdict is an answer with its evidence.
type Verdict struct {
	Answer Answer
	Open   *Marker           // the unmatched marker; nil when balanced
	Bound  *segment.Boundary // the newest boundary; nil if there is none
	// Generation and Revision are the log's when it was judged. A live marker of
	// an earlier generation was written by a writer that has since been replaced
	// by one that adopted the log.
	Generation, Revision int64
}

// Judge answers for a positional bracket: the newest event that is of either
// type decides, and the newest boundary. Position decides, never age, and never
// what is inside the events. ok is false where the manifest counts one of the
// types only together with others, so that the events must be asked.
func Judge(r *manifest.Record, open, close string) (v Verdict, ok bool) {
	opened, exact := r.Content.Types.Get(open)
	closed, exact2 := r.Content.Types.Get(close)
	if !exact || !exact2 {
		return Verdict{}, false
	}
	seq := int64(-1)
	if opened.Count > 0 && (closed.Count == 0 || opened.Last > closed.Last) {
		seq = opened.Last
	}
	return JudgeAt(r, open, seq), true
}

// JudgeAt is the verdict where the unmatched marker is known: its type and seq,
// or -1 if there is none.
func JudgeAt(r *manifest.Record, typ string, seq int64) Verdict {
	v := Verdict{Answer: Balanced, Bound: r.Content.Boundary, Generation: r.Generation(), Revision: r.Revision}
	if seq < 0 {
		return v
	}
	v.Answer = Live
	if v.Bound != nil && v.Bound.Seq > seq {
		v.Answer = Stale
	}
	v.Open = &Marker{Type: typ, Seq: seq, Generation: GenerationOf(r, seq)}
	return v
}

// GenerationOf is the generation that wrote an event; 0 if it is older than the
// takeovers that the manifest keeps, or was inherited at birth: then no
// generation of this log wrote it.
func GenerationOf(r *manifest.Record, seq int64) (g int64) {
	if r.Origin != nil && seq < r.Origin.Inherited {
		return 0
	}
	for _, t := range r.Generations {
		if t.First <= seq {
			g = t.Generation
		}
	}
	return g
}

// Pair is a bracket of some vocabulary.
type Pair struct {
	Open, Close string
	// ID is the member of data that pairs the two events, with dots for members
	// of members; where several do together they are joined by "+". It is empty
	// for a positional bracket.
	ID string
	// CloseID is where the closing event has the same, if not in ID.
	CloseID string
}

// Pairs are the brackets that agents are known to write, by name.
var Pairs = map[string]Pair{
	"compaction": {Open: segment.TypeCompactionStart, Close: segment.TypeCompactionEnd},
	"turn":       {Open: segment.TypeTurnStart, Close: segment.TypeTurnEnd},
	"step":       {Open: segment.TypeStepStart, Close: segment.TypeStepEnd},
	"tool":       {Open: segment.TypeToolCall, Close: segment.TypeToolResult, ID: "callId", CloseID: "message.source.callId"},
	"command":    {Open: "command/run", Close: "command/done", ID: "commandId"},
	"approval":   {Open: "approval/asked", Close: "approval/decided", ID: "id"},
	"hook":       {Open: "hook/invoked", Close: "hook/result", ID: "handlerId"},
	"retry":      {Open: "llm/retry", Close: "llm/retry-started", ID: "retryId"},
	"dispatch":   {Open: "tool/code-dispatch-start", Close: "tool/code-dispatch", ID: "subCallId"},
	"workflow":   {Open: "tool-workflow/run-start", Close: "tool-workflow/run-end", ID: "runId"},
	"member":     {Open: "tool-workflow/agent-start", Close: "tool-workflow/agent-end", ID: "runId+seq"},
	"message":    {Open: "team/message/queued", Close: "team/message/delivered", ID: "messageId"},
}
