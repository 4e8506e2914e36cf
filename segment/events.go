package segment

import (
	"bytes"
	"fmt"
	"strconv"
)

// Bounds of an event.
const (
	// DefaultMaxEvent is the greatest size of a stored line in bytes, without
	// its LF, unless [Limits] say otherwise.
	DefaultMaxEvent = 16 << 20
	// MaxTypeName is the greatest length of an event type in bytes. What counts
	// is its shortest JSON encoding without the quotes, since this is what it
	// takes in an index or a manifest.
	MaxTypeName = 128
	// MaxDepth is how deep the objects and arrays of an event may nest. The
	// event's own object is one of them, so its data may nest MaxDepth-1 deep.
	MaxDepth = 10_000
	// MaxSeq is the greatest seq, and the greatest absolute value of a time:
	// 2^53-1, up to which every JSON reader keeps integers exact.
	MaxSeq = 1<<53 - 1
)

// Event is one validated event. Line and Data are the bytes that are stored;
// they must not be modified.
type Event struct {
	Line      []byte // the stored line, without LF
	Type      string // unescaped
	Seq       int64  // zero-based place in the log
	Time      int64  // ms since the Unix epoch; may be negative and may go backwards
	Data      []byte // the JSON text of data, a part of Line
	Ignorable bool   // a reader that does not know the type may pass over it
}

// Limits bounds what is accepted. The zero value means the defaults.
type Limits struct {
	MaxEvent int // bytes of a stored line; 0 means DefaultMaxEvent
}

func (l Limits) maxEvent() int {
	if l.MaxEvent <= 0 {
		return DefaultMaxEvent
	}
	return l.MaxEvent
}

// EventError says which event was refused and why.
type EventError struct {
	Index  int    // place in the batch, from 0; -1 for an event that came alone
	Type   string // its type, as far as it was known; may be empty
	Reason string // for a person; quotes input only in escaped and shortened form
	Err    error  // ErrInvalidEvent, ErrTooLarge or ErrSeqMismatch
}

func (e *EventError) Error() string {
	b := []byte(e.Err.Error())
	b = append(b, ": "...)
	if e.Index >= 0 {
		b = append(b, "event "...)
		b = strconv.AppendInt(b, int64(e.Index), 10)
		if e.Type == "" {
			b = append(b, ": "...)
		} else {
			b = append(b, ", "...)
		}
	}
	if e.Type != "" {
		b = append(b, "type "...)
		b = strconv.AppendQuote(b, e.Type)
		b = append(b, ": "...)
	}
	return string(append(b, e.Reason...))
}

func (e *EventError) Unwrap() error { return e.Err }

func invalid(typ, format string, args ...any) *EventError {
	return &EventError{Index: -1, Type: typ, Reason: fmt.Sprintf(format, args...), Err: ErrInvalidEvent}
}

func tooLarge(typ string, size, limit int) *EventError {
	return &EventError{
		Index: -1, Type: typ, Err: ErrTooLarge,
		Reason: fmt.Sprintf("%d bytes as stored, at most %d are allowed", size, limit),
	}
}

// ParseEvent checks a stored line (without its LF) strictly and takes its
// envelope apart. Beside the rules that [Prepare] applies, seq and time must be
// there, and neither a raw newline nor white space around the JSON text is
// allowed. The event refers to line, which is neither copied nor changed.
//
// The error is an *EventError with ErrInvalidEvent or ErrTooLarge; it is for the
// caller to know whether that means damage.
func ParseEvent(line []byte, lim Limits) (Event, error) {
	if limit := lim.maxEvent(); len(line) > limit {
		return Event{}, tooLarge("", len(line), limit)
	}
	if i := bytes.IndexByte(line, '\n'); i >= 0 {
		return Event{}, invalid("", "raw newline at byte %d", i)
	}
	env, err := parseEnvelope(line)
	if err != nil {
		return Event{}, err
	}
	switch {
	case !env.hasSeq:
		return Event{}, invalid(env.typ, "seq is missing")
	case !env.hasTime:
		return Event{}, invalid(env.typ, "time is missing")
	}
	return env.event(line), nil
}

// event is the event of a complete line that env was read from.
func (env *envelope) event(line []byte) Event {
	return Event{
		Line:      line,
		Type:      env.typ,
		Seq:       env.seq,
		Time:      env.time,
		Data:      line[env.dataStart:env.dataEnd:env.dataEnd],
		Ignorable: env.ignorable,
	}
}
