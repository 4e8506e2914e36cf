package integration

import (
	"fmt"
	"iter"
)

// What an agent says about a deed.
const (
	isBegun   = "begun"   // it does it now
	isDone    = "done"    // acknowledged
	isFailed  = "failed"  // it was told that it is not in the log, and never will be
	isUnknown = "unknown" // it was told that nobody knows
	isNever   = "never"   // it is not possible, and was not when it was done before
	isBroken  = "broken"  // an error that must not be
)

// deed is one thing that an agent does to a log. It is told before it is begun,
// and again when its outcome is known, before the next one is begun.
type deed struct {
	Agent string // with its lane, if it does several things at a time: p1.2
	ID    int64  // number of its first event, and of nothing else of this agent
	Do    string
	Log   string
	State string

	Count int64 `json:",omitempty"` // events
	Size  int   `json:",omitempty"` // bytes of noise in each
	Keyed bool  `json:",omitempty"`

	Parent string `json:",omitempty"` // of a fork
	At     int64  `json:",omitempty"` // seq of the last event that it inherits

	First     int64  `json:",omitempty"` // from the receipt
	Got       int64  `json:",omitempty"` // of it: how many events
	Duplicate bool   `json:",omitempty"`
	Committed bool   `json:",omitempty"` // what a decision says
	Token     string `json:",omitempty"`
	Error     string `json:",omitempty"`
}

// Kinds of deeds. A decision has the agent and the number of what it is about.
const (
	doAppend = "append"
	doResume = "resume"
	doFork   = "fork"
	doReplay = "replay"
	doImport = "import"
	doDelete = "delete"
	doGC     = "gc"
	doFold   = "fold"
	doDecide = "decide"
)

// key is the key of a keyed append.
func (d deed) key() string {
	if !d.Keyed {
		return ""
	}
	return fmt.Sprintf("%s/%d", d.Agent, d.ID)
}

// data is the data of event i of a deed, which nobody else's is like.
func (d deed) data(i int64) string {
	n := d.ID + i
	return fmt.Sprintf(`{"who":%q,"n":%d,"turn":%d,"noise":%q}`, d.Agent, n, n/8, noise(uint64(n), d.Size))
}

// events are the events of a deed: notes, and turns and compactions that begin,
// and mostly end.
func (d deed) events() (lines [][]byte) {
	for i := range d.Count {
		typ := "note"
		switch (d.ID + i) % 41 {
		case 0:
			typ = "turn/start"
		case 7:
			typ = "turn/end"
		case 13:
			typ = "compaction/start"
		case 20:
			typ = "compaction/end"
		}
		lines = append(lines, fmt.Appendf(nil, `{"type":%q,"data":%s}`, typ, d.data(i)))
	}
	return lines
}

// timed are the events as a session file has them: with times of their own, so
// that they are the same when they are given again.
func (d deed) timed() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for i := range d.Count {
			line := fmt.Appendf(nil, `{"type":"note","time":%d,"data":%s}`, 1_700_000_000_000+d.ID+i, d.data(i))
			if !yield(line, nil) {
				return
			}
		}
	}
}
