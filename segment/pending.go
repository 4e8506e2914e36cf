package segment

import (
	"bytes"
	"fmt"
	"strconv"
)

// Pending is a validated event of a caller whose place in the log is not fixed
// yet. It holds a copy of the caller's bytes. Its methods change nothing, so
// they may be called concurrently and Assign as often as a place is lost.
type Pending struct {
	line []byte
	env  envelope // time is set, also where the line lacks it
}

// What Assign may have to insert: the names with their punctuation, and the
// longest numbers.
const (
	seqPrefix  = `,"seq":`
	timePrefix = `,"time":`
	maxInteger = len("9007199254740991")
)

// Prepare validates one event as a caller wrote it. The event must be one JSON
// object whose members are, in this spelling and each at most once,
//
//	type             non-empty string of at most MaxTypeName bytes
//	seq              optional plain integer, 0 to MaxSeq
//	time             optional plain integer, -MaxSeq to MaxSeq
//	data             any JSON value
//	sourceEventSeqs  optional, any JSON value
//	surfaceOp        optional, any JSON value
//	ignorable        optional, only true
//
// in valid UTF-8 without a byte order mark and at most MaxDepth deep. A plain
// integer has no fraction, no exponent and is not -0. White space around the
// text is cut and raw newlines are dropped, which between JSON tokens mean
// nothing; every other byte is kept. An absent time becomes now (ms since the
// Unix epoch). raw is copied and may be reused.
//
// The error is an *EventError with ErrInvalidEvent or ErrTooLarge.
func Prepare(raw []byte, now int64, lim Limits) (Pending, error) {
	p, _, err := prepare(nil, raw, now, lim)
	if err != nil {
		return Pending{}, err
	}
	return p, nil
}

// PrepareBatch validates events that are to be appended together. Either all of
// them carry a seq, each one more than the one before, or none does. An empty
// batch is fine. raw and its elements are copied and may be reused.
//
// The error is an *EventError whose Index is the event's place in raw, with
// ErrInvalidEvent, ErrTooLarge, or ErrSeqMismatch where the seqs have a gap.
func PrepareBatch(raw [][]byte, now int64, lim Limits) ([]Pending, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	total := 0
	for _, r := range raw {
		total += min(len(r), lim.maxEvent())
	}
	var err *EventError
	arena := make([]byte, 0, total) // one allocation for all lines
	batch := make([]Pending, len(raw))
	for i, r := range raw {
		if batch[i], arena, err = prepare(arena, r, now, lim); err == nil && i > 0 {
			err = batch[i].follows(&batch[i-1])
		}
		if err != nil {
			err.Index = i
			return nil, err
		}
	}
	return batch, nil
}

// prepare appends the line of raw to arena and returns the longer arena.
func prepare(arena, raw []byte, now int64, lim Limits) (Pending, []byte, *EventError) {
	text := bytes.Trim(raw, " \t\r\n")
	limit := lim.maxEvent()
	if size := len(text); size > limit {
		// Newlines do not count, as they are not stored.
		if size -= bytes.Count(text, []byte{'\n'}); size > limit {
			return Pending{}, arena, tooLarge("", size, limit)
		}
	}
	start := len(arena)
	arena = append(arena, text...)
	line := arena[start:]
	env, err := parseEnvelope(line)
	if err == nil && bytes.IndexByte(line, '\n') >= 0 {
		// Valid JSON has newlines only where white space may stand, so that
		// dropping them joins no tokens. All offsets have moved, though.
		line = dropNewlines(line)
		arena = arena[:start+len(line)]
		env, err = parseEnvelope(line)
	}
	if err != nil {
		return Pending{}, arena[:start], err
	}
	if !env.hasTime {
		if now < -MaxSeq || now > MaxSeq {
			return Pending{}, arena[:start], invalid(env.typ, "time is missing, and the clock's %d is not within ±(2^53-1)", now)
		}
		env.time = now
	}
	p := Pending{line: line[:len(line):len(line)], env: env}
	if size := p.Size(); size > limit {
		return Pending{}, arena[:start], tooLarge(env.typ, size, limit)
	}
	return p, arena, nil
}

// follows checks that p may come right after prev in one batch.
func (p *Pending) follows(prev *Pending) *EventError {
	switch {
	case p.env.hasSeq != prev.env.hasSeq:
		have, lack := "has a seq", "has none"
		if prev.env.hasSeq {
			have, lack = "has no seq", "has one"
		}
		return invalid(p.env.typ, "%s and the event before it %s; all events of a batch carry a seq, or none", have, lack)
	case p.env.hasSeq && p.env.seq != prev.env.seq+1:
		return mismatch(p.env.typ, p.env.seq, prev.env.seq+1)
	}
	return nil
}

func mismatch(typ string, have, want int64) *EventError {
	return &EventError{
		Index: -1, Type: typ, Err: ErrSeqMismatch,
		Reason: fmt.Sprintf("it carries seq %d where %d is next", have, want),
	}
}

func dropNewlines(line []byte) []byte {
	kept := line[:0]
	for _, c := range line {
		if c != '\n' {
			kept = append(kept, c)
		}
	}
	return kept
}

// Type returns the event's type, unescaped.
func (p *Pending) Type() string { return p.env.typ }

// Time returns the event's time in ms since the Unix epoch: the caller's, or
// the time at which the event was prepared.
func (p *Pending) Time() int64 { return p.env.time }

// HasTime reports whether the caller gave a time.
func (p *Pending) HasTime() bool { return p.env.hasTime }

// HasSeq returns the seq that the caller gave, and whether there is one.
func (p *Pending) HasSeq() (seq int64, ok bool) { return p.env.seq, p.env.hasSeq }

// Line returns the caller's line as it would be stored if nothing had to be
// assigned. It is the same for every attempt to append the same event and so
// what the digest of a keyed append covers. It must not be modified.
func (p *Pending) Line() []byte { return p.line }

// Size returns how many bytes the stored line will have at most, without LF.
// It is exact if the caller gave a seq.
func (p *Pending) Size() int {
	size := len(p.line)
	if !p.env.hasSeq {
		size += len(seqPrefix) + maxInteger
	}
	if !p.env.hasTime {
		size += len(timePrefix) + decimalLen(p.env.time)
	}
	return size
}

// Assign returns the event at its place in the log. An absent seq and an absent
// time are inserted right after the type, in this order. If nothing has to be
// inserted, the event refers to the bytes of Line.
//
// The error is an *EventError with ErrSeqMismatch if the caller gave another
// seq or seq is not from 0 to MaxSeq.
func (p *Pending) Assign(seq int64) (Event, error) {
	switch {
	case p.env.hasSeq && p.env.seq != seq:
		return Event{}, mismatch(p.env.typ, p.env.seq, seq)
	case seq < 0 || seq > MaxSeq:
		return Event{}, &EventError{
			Index: -1, Type: p.env.typ, Err: ErrSeqMismatch,
			Reason: fmt.Sprintf("no event can have seq %d", seq),
		}
	case p.env.hasSeq && p.env.hasTime:
		return p.env.event(p.line), nil
	}
	env := p.env
	env.seq = seq
	line := make([]byte, 0, p.Size())
	line = append(line, p.line[:env.typeEnd]...)
	if !env.hasSeq {
		line = append(line, seqPrefix...)
		line = strconv.AppendInt(line, seq, 10)
	}
	if !env.hasTime {
		line = append(line, timePrefix...)
		line = strconv.AppendInt(line, env.time, 10)
	}
	if inserted := len(line) - env.typeEnd; env.dataStart >= env.typeEnd {
		env.dataStart += inserted
		env.dataEnd += inserted
	}
	line = append(line, p.line[env.typeEnd:]...)
	return env.event(line), nil
}

// decimalLen is the number of bytes of n in decimal.
func decimalLen(n int64) int {
	var buf [20]byte
	return len(strconv.AppendInt(buf[:0], n, 10))
}
