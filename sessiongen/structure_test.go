package sessiongen

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/s3log/s3log/segment"
)

// line is what the structure of a session shows in.
type line struct {
	SurfaceOp       json.RawMessage
	SourceEventSeqs []int64
	Data            struct {
		Turn, Step *int64
		CallID     string
		Arguments  string
		Chunk      struct {
			Type           string
			Index          int
			Text           string
			ID             string
			ArgumentsDelta string
			Block          block
		}
		Message struct {
			Source  struct{ CallID string }
			Content []block
		}
		Source       struct{ Kind string }
		CompactionID string
	}
}

type block struct{ Type, Text, ID, Arguments string }

// checker follows a session and knows what must come next.
type checker struct {
	turn, step int64 // counted, 0 for none open
	turns      int64
	steps      int64
	blocks     []block         // streamed since the last message
	open       map[int]*block  // by index, while they are streamed
	calls      []string        // asked for or recorded, without result
	recorded   map[string]bool // those of calls that are recorded
	surface    []int64
	compaction string
	pairs      map[string]int // other brackets, by their first type
}

func newChecker() *checker {
	return &checker{open: map[int]*block{}, recorded: map[string]bool{}, pairs: map[string]int{}}
}

func (c *checker) check(e segment.Event) error {
	var l line
	if err := json.Unmarshal(e.Line, &l); err != nil {
		return err
	}
	if err := c.checkSurface(e, l); err != nil {
		return err
	}
	if d := l.Data; d.Step != nil && (*d.Turn != c.turn || *d.Step != c.step) && e.Type != "step/start" {
		return fmt.Errorf("in turn %d, step %d, but %d and %d are open", *d.Turn, *d.Step, c.turn, c.step)
	}
	switch e.Type {
	case "turn/start":
		c.turns++
		if c.turn != 0 || *l.Data.Turn != c.turns || c.compaction != "" {
			return fmt.Errorf("turn %d begins in turn %d", *l.Data.Turn, c.turn)
		}
		c.turn, c.steps = c.turns, 0
	case "turn/end":
		if c.turn == 0 || c.step != 0 || *l.Data.Turn != c.turn {
			return fmt.Errorf("turn %d ends in turn %d, step %d", *l.Data.Turn, c.turn, c.step)
		}
		c.turn = 0
	case "step/start":
		c.steps++
		if c.turn == 0 || c.step != 0 || *l.Data.Step != c.steps {
			return fmt.Errorf("step %d begins in turn %d, step %d", *l.Data.Step, c.turn, c.step)
		}
		c.step = c.steps
	case "step/end":
		if c.step == 0 || len(c.calls) > 0 || len(c.blocks) > 0 || len(c.open) > 0 {
			return fmt.Errorf("step ends with calls %v, blocks %v", c.calls, c.blocks)
		}
		c.step = 0
	case "assistant/chunk":
		return c.checkChunk(l)
	case "assistant/message":
		return c.checkMessage(l)
	case "tool/call":
		if !slices.Contains(c.calls, l.Data.CallID) || c.recorded[l.Data.CallID] || !json.Valid([]byte(l.Data.Arguments)) {
			return fmt.Errorf("call %s with %s was not asked for", l.Data.CallID, l.Data.Arguments)
		}
		c.recorded[l.Data.CallID] = true
	case "tool/result":
		id := l.Data.Message.Source.CallID
		i := slices.Index(c.calls, id)
		if i < 0 || !c.recorded[id] {
			return fmt.Errorf("result of %s, which was not recorded", id)
		}
		c.calls = slices.Delete(c.calls, i, i+1)
		delete(c.recorded, id)
	case "compaction/start":
		if c.compaction != "" || (l.Data.Turn != nil) != (c.turn != 0) {
			return fmt.Errorf("compaction in turn %v", l.Data.Turn)
		}
		c.compaction = l.Data.CompactionID
	case "compaction/end":
		if c.compaction != l.Data.CompactionID {
			return fmt.Errorf("compaction %s ends in %q", l.Data.CompactionID, c.compaction)
		}
		c.compaction = ""
	default:
		return c.checkPair(e.Type)
	}
	return nil
}

// checkPair counts the simple brackets.
func (c *checker) checkPair(typ string) error {
	for open, end := range map[string]string{
		"llm/retry": "llm/retry-started", "approval/asked": "approval/decided", "hook/invoked": "hook/result", "command/run": "command/done",
	} {
		switch typ {
		case open:
			c.pairs[open]++
		case end:
			c.pairs[open]--
		}
		if n := c.pairs[open]; n < 0 || n > 1 {
			return fmt.Errorf("%d open of %s", n, open)
		}
	}
	return nil
}

func (c *checker) checkSurface(e segment.Event, l line) error {
	switch e.Type {
	case "user/message", "assistant/message", "tool/result":
	default:
		if l.SurfaceOp != nil || l.SourceEventSeqs != nil {
			return fmt.Errorf("is not of the surface")
		}
		return nil
	}
	seen := map[int64]bool{}
	for _, seq := range l.SourceEventSeqs {
		if seq < 0 || seq >= e.Seq || seen[seq] {
			return fmt.Errorf("source %d", seq)
		}
		seen[seq] = true
	}
	if string(l.SurfaceOp) == `"append"` {
		c.surface = append(c.surface, e.Seq)
		return nil
	}
	var op struct {
		Op         string
		Start, End int64
	}
	if err := json.Unmarshal(l.SurfaceOp, &op); err != nil || op.Op != "replace" {
		return fmt.Errorf("operation %s: %v", l.SurfaceOp, err)
	}
	from, to := slices.Index(c.surface, op.Start), slices.Index(c.surface, op.End)
	if from < 0 || to < from || c.compaction == "" {
		return fmt.Errorf("replaces %d to %d", op.Start, op.End)
	}
	for _, seq := range c.surface[from : to+1] {
		if !seen[seq] {
			return fmt.Errorf("replaces %d, which is no source", seq)
		}
	}
	c.surface = slices.Replace(c.surface, from, to+1, e.Seq)
	return nil
}

// checkChunk puts a stream together.
func (c *checker) checkChunk(l line) error {
	chunk := l.Data.Chunk
	b := c.open[chunk.Index]
	switch chunk.Type {
	case "block-start":
		if b != nil {
			return fmt.Errorf("block %d begins twice", chunk.Index)
		}
		c.open[chunk.Index] = &block{}
	case "text-delta", "reasoning-delta", "tool-call-delta":
		if b == nil {
			return fmt.Errorf("delta of block %d, which has not begun", chunk.Index)
		}
		b.Text += chunk.Text
		b.Arguments += chunk.ArgumentsDelta
		b.ID = chunk.ID
	case "block-end":
		if b == nil {
			return fmt.Errorf("block %d ends before it begins", chunk.Index)
		}
		if b.Type = chunk.Block.Type; *b != chunk.Block {
			return fmt.Errorf("block is %+v, but %+v was streamed", chunk.Block, *b)
		}
		delete(c.open, chunk.Index)
		c.blocks = append(c.blocks, *b)
	case "usage", "finish":
		if len(c.open) > 0 {
			return fmt.Errorf("%s with an open block", chunk.Type)
		}
	default:
		return fmt.Errorf("chunk %q", chunk.Type)
	}
	return nil
}

func (c *checker) checkMessage(l line) error {
	content := l.Data.Message.Content
	if len(l.SourceEventSeqs) > 0 && !slices.Equal(content, c.blocks) {
		return fmt.Errorf("message is %+v, but %+v was streamed", content, c.blocks)
	}
	c.blocks = nil
	for _, b := range content {
		if b.Type == "tool-call" {
			if !json.Valid([]byte(b.Arguments)) {
				return fmt.Errorf("arguments are %s", b.Arguments)
			}
			c.calls = append(c.calls, b.ID)
		}
	}
	return nil
}

// openNow reports what is open.
func (c *checker) openNow() string {
	what := ""
	if c.turn != 0 {
		what += " turn"
	}
	if c.step != 0 {
		what += " step"
	}
	if len(c.recorded) > 0 {
		what += " call"
	}
	if c.compaction != "" {
		what += " compaction"
	}
	for typ, n := range c.pairs {
		if n != 0 {
			what += " " + typ
		}
	}
	return what
}

func TestStructure(t *testing.T) {
	endings := map[Open]string{
		0:                                    "",
		OpenTurn:                             " turn step",
		OpenCall:                             " turn step call",
		OpenTurn | OpenCall:                  " turn step call",
		OpenCompaction:                       " compaction",
		OpenCompaction | OpenTurn:            " turn step compaction",
		OpenCompaction | OpenCall:            " turn step call compaction",
		OpenCompaction | OpenCall | OpenTurn: " turn step call compaction",
	}
	for _, profile := range profiles {
		for open, want := range endings {
			for _, opt := range []Options{
				{Events: 7}, {Events: 11}, {Events: 30}, {Events: 77}, {Events: 1000}, {Events: 3210}, {Turns: 1}, {Turns: 8},
			} {
				opt.Seed, opt.Profile, opt.OpenAtEnd = uint64(open)+3, profile, open
				c := newChecker()
				last := ""
				each(t, opt, func(e segment.Event) {
					if err := c.check(e); err != nil {
						t.Fatalf("%+v: seq %d, %s: %v\n%.500s", opt, e.Seq, e.Type, err, e.Line)
					}
					last = e.Type
				})
				if got := c.openNow(); got != want {
					t.Errorf("%+v: open at the end:%s, want%s", opt, got, want)
				}
				if open&OpenCompaction != 0 && last != "compaction/start" {
					t.Errorf("%+v: ends in %s", opt, last)
				}
			}
		}
	}
}

// Sessions too short for a turn still leave open what they can, and nothing
// that they should not.
func TestTinySessions(t *testing.T) {
	for _, profile := range profiles {
		for open := range OpenCompaction<<1 - 1 {
			for n := int64(1); n < 40; n++ {
				c := newChecker()
				each(t, Options{Events: n, Profile: profile, OpenAtEnd: open}, func(e segment.Event) {
					if err := c.check(e); err != nil {
						t.Fatalf("%s, open %d, %d events: seq %d: %v\n%s", profile, open, n, e.Seq, err, e.Line)
					}
				})
				if (c.compaction != "") != (open&OpenCompaction != 0) {
					t.Errorf("%s, open %d, %d events: compaction %q", profile, open, n, c.compaction)
				}
				room := n - int64(open>>2&1)
				if inTurn := open&(OpenTurn|OpenCall) != 0 && room > 0; (c.turn != 0) != inTurn {
					t.Errorf("%s, open %d, %d events: turn %d", profile, open, n, c.turn)
				}
				if inCall := open&OpenCall != 0 && room >= 5; (len(c.recorded) > 0) != inCall {
					t.Errorf("%s, open %d, %d events: calls %v", profile, open, n, c.recorded)
				}
			}
		}
	}
}

// Sessions are in more than one language, and hold what plain ASCII would not.
func TestTextIsVaried(t *testing.T) {
	var chinese, emojis, escapes int
	each(t, Options{Seed: 1, Events: 40_000}, func(e segment.Event) {
		for _, r := range string(e.Line) {
			switch {
			case r >= 0x4e00 && r < 0xa000:
				chinese++
			case r >= 0x1f000:
				emojis++
			case r == '\\':
				escapes++
			}
		}
	})
	if chinese < 1000 || emojis < 20 || escapes < 1000 {
		t.Errorf("%d Chinese characters, %d emojis, %d escapes", chinese, emojis, escapes)
	}
}
