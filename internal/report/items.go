package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/s3log/s3log/segment"
)

// itemKind is what an item of a block is.
type itemKind string

const (
	itemUser      itemKind = "user"
	itemAssistant itemKind = "assistant"
	itemStep      itemKind = "step"
	itemCall      itemKind = "call"
	itemResult    itemKind = "result" // of a call that has no item
	itemPair      itemKind = "pair"   // another bracket
	itemBoundary  itemKind = "boundary"
	itemOwner     itemKind = "owner"
	itemEnd       itemKind = "end"
	itemEvent     itemKind = "event"
	itemCloser    itemKind = "closer" // not in the log
)

// item is what happened in a block, as far as it is worth a line.
type item struct {
	Kind      itemKind
	Seq       int64 // -1: of no event
	At        int64 // ms since the block began
	time      int64
	Deep      bool // inside a step
	Title     string
	Text      excerpt
	Tag       string // how it ended
	Class     string // what that means: good, warn, bad, open
	Ends      bool   // there is an event that ends it:
	EndSeq    int64
	Took      int64 // ms
	Result    excerpt
	Synthetic bool // what ends it was added by a resume
	Usage     *usage
}

// maxModels is how many models are named.
const maxModels = 8

// item puts an item into a block, as long as there is room.
func (t *timeline) item(b *block, i *item) *item {
	if t.items >= t.limits.Items || b.Kind == blockRest {
		b.Left++
		return i
	}
	t.items++
	b.Items = append(b.Items, i)
	return i
}

// event makes the items of an event, and ends those that it ends.
func (t *timeline) event(b *block, ev segment.Event, p segment.Projection, synthetic bool) {
	// What a bracket's closing event ends is found before its opening one can be
	// forgotten.
	opened := t.close(b, ev, synthetic)
	add := func(i item) *item {
		i.Seq, i.At, i.time = ev.Seq, ev.Time-b.Start, ev.Time
		i.Deep = i.Deep || t.step != nil && i.Kind != itemStep
		return t.item(b, &i)
	}
	most := t.limits.Preview
	switch p.Kind {
	case segment.KindTurnStart:
		t.open("turn", ev, nil)
	case segment.KindTurnEnd:
		t.turnEnd(b, ev, synthetic)
		t.step = nil
	case segment.KindStepStart:
		b.Steps++
		t.step = nil // what comes is not inside the one before, also if that has no end
		t.step = add(item{Kind: itemStep, Title: fmt.Sprintf("step %d", p.Step)})
		t.open("step", ev, t.step)
	case segment.KindStepEnd:
		t.step = nil
	case segment.KindUserMessage:
		m := membersOf(ev.Data)
		text := m.content(most)
		if p.UserPrompt && !b.asked || b.Prompt == "" {
			b.Prompt, b.asked = text.Text, p.UserPrompt
		}
		add(item{Kind: itemUser, Title: source(m.in("source")), Text: text})
	case segment.KindAssistantMessage:
		t.assistant(b, ev, p, add)
	case segment.KindToolCall:
		m := membersOf(ev.Data)
		b.Calls++
		i := add(item{Kind: itemCall, Deep: true, Title: m.text("name"), Text: cut(m.text("arguments"), most/2), Tag: "no result", Class: "warn"})
		t.open("tool", ev, i)
	case segment.KindToolResult:
		if !opened {
			i := add(item{Kind: itemResult, Deep: true, Title: "result of a call that was not started: " + p.CallID})
			t.result(b, i, ev, synthetic)
		}
	case segment.KindEndSeed:
		t.bounds = append(t.bounds, segment.Boundary{Seq: ev.Seq, Time: ev.Time})
		if b.Kind != blockBoundary {
			add(item{Kind: itemBoundary, Title: "boundary: what is above is history"})
		}
	default:
		t.other(b, ev, opened, add)
	}
}

// other takes an event that the state of a log does not need.
func (t *timeline) other(b *block, ev segment.Event, closes bool, add func(item) *item) {
	switch ev.Type {
	case segment.TypeSessionTitle:
		t.title = cut(membersOf(ev.Data).text("title"), t.limits.Preview).Text
		return
	case segment.TypeCompactionSummary:
		m := membersOf(ev.Data)
		u := t.paidFor(b, m)
		add(item{Kind: itemEvent, Title: ev.Type, Text: members{"content": m["summary"]}.content(t.limits.Preview), Usage: u})
		return
	}
	for _, p := range t.pairs {
		switch ev.Type {
		case p.Open:
			i := add(item{Kind: itemPair, Title: p.Name + ": " + ev.Type, Text: cut(string(ev.Data), t.limits.Preview/2), Tag: "not closed", Class: "warn"})
			t.open(p.Name, ev, i)
			return
		case p.Close:
			if !closes {
				add(item{Kind: itemEvent, Title: p.Name + ": " + ev.Type + " without an opening event", Class: "warn", Text: cut(string(ev.Data), t.limits.Preview/2)})
			}
			return
		}
	}
}

func (t *timeline) assistant(b *block, ev segment.Event, p segment.Projection, add func(item) *item) {
	m := membersOf(ev.Data)
	message := m.in("message")
	i := item{Kind: itemAssistant, Deep: true, Title: "assistant", Text: message.content(t.limits.Preview)}
	if n := len(p.Calls); n > 0 {
		i.Tag = "asks for " + counted(n, "call")
	}
	if m.is("interrupted") {
		i.Tag, i.Class = strings.TrimPrefix(i.Tag+", interrupted", ", "), "warn"
	}
	i.Usage = t.paidFor(b, m)
	src := message.in("source")
	if model := strings.Trim(src.text("provider")+" "+src.text("model"), " "); model != "" && len(t.models) < maxModels && !slices.Contains(t.models, model) {
		t.models = append(t.models, model)
	}
	add(i)
}

// paidFor is the usage that an event tells.
func (t *timeline) paidFor(b *block, m members) *usage {
	if m["usage"].Kind() != '{' {
		return nil
	}
	f := m.in("usage")
	u := &usage{
		In: f.count("inputTokens"), Out: f.count("outputTokens"), CacheRead: f.count("cacheReadTokens"),
		CacheWrite: f.count("cacheWriteTokens"), Reasoning: f.count("reasoningTokens"),
	}
	b.Usage.add(*u)
	t.usage.add(*u)
	t.paid = true
	return u
}

// source says who wrote a message.
func source(m members) string {
	kind := m.text("kind")
	for _, name := range []string{"plugin", "senderSessionId", "compactionId"} {
		if text := m.text(name); text != "" {
			return kind + " " + text
		}
	}
	return kind
}

// turnEnd ends a turn's block, or is an event like others where none is open.
func (t *timeline) turnEnd(b *block, ev segment.Event, synthetic bool) {
	reason := membersOf(ev.Data).in("reason")
	kind := cut(reason.text("kind"), 40).Text
	if kind == "" {
		kind = "ended"
	}
	class := "warn"
	var detail string
	switch kind {
	case "completed", "ended":
		class = "good"
	case "error":
		class = "bad"
		e := reason.in("error")
		detail = strings.Trim(e.text("code")+": "+e.text("message"), ": ")
	case "aborted":
		why := reason.in("reason")
		detail = strings.Trim(why.text("kind")+": "+why.text("reason"), ": ")
	}
	if b.Kind == blockTurn {
		b.Status, b.Class = kind, class
		if class == "bad" {
			b.Errors++
			b.Note = cut(detail, t.limits.Preview).Text
		}
	}
	if b.Kind != blockTurn || synthetic || detail != "" {
		t.item(b, &item{
			Kind: itemEnd, Seq: ev.Seq, At: ev.Time - b.Start, Title: "turn ends", Tag: kind, Class: class,
			Text: cut(detail, t.limits.Preview), Synthetic: synthetic,
		})
	}
}

// result ends a call with its result.
func (t *timeline) result(b *block, i *item, ev segment.Event, synthetic bool) {
	m := membersOf(ev.Data)
	message := m.in("message")
	i.Result, i.Synthetic = message.content(t.limits.Preview), synthetic
	i.Tag, i.Class = "ok", "good"
	failed := false
	for _, blockValue := range message.list("content") {
		failed = failed || membersOf(blockValue).is("isError")
	}
	e := m.in("error")
	code := e.text("code")
	if code == "" {
		code = e.text("name")
	}
	switch {
	case code != "":
		i.Tag, i.Class = cut(code, 80).Text, "bad"
	case failed:
		i.Tag, i.Class = "failed", "bad"
	}
	if i.Class == "bad" {
		b.Errors++
	}
}

// isRepair reports whether a tool result says that it was made for a call whose
// own result was lost.
func isRepair(data []byte) bool {
	m := membersOf(data)
	switch m.in("error").text("code") {
	case "TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED":
		return strings.HasPrefix(m.in("message").text("id"), "interrupted-tool-result-")
	}
	return false
}
