package sessionfile

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// The tags of packed rows, one per kind of delta. They are a matter of files
// and never event types.
const (
	tagText      = "text-chunks"
	tagReasoning = "reasoning-chunks"
	tagToolCall  = "tool-call-chunks"
)

// kind is the kind of a streamed delta.
type kind uint8

const (
	kindText kind = iota
	kindReasoning
	kindToolCall
)

// kindOf is the kind that a row's tag stands for.
func kindOf(tag string) (kind, bool) {
	switch tag {
	case tagText:
		return kindText, true
	case tagReasoning:
		return kindReasoning, true
	case tagToolCall:
		return kindToolCall, true
	}
	return 0, false
}

func (k kind) tag() string {
	return [...]string{tagText, tagReasoning, tagToolCall}[k]
}

func (k kind) chunkType() string {
	return [...]string{"text-delta", "reasoning-delta", "tool-call-delta"}[k]
}

// run is what the deltas of one packed row have in common.
type run struct {
	kind              kind
	turn, step, index int64  // not negative
	id                []byte // tool calls only; a string literal
	name              []byte // tool calls only; a string literal, nil if absent
}

func (r *run) equal(o *run) bool {
	return r.kind == o.kind && r.turn == o.turn && r.step == o.step && r.index == o.index &&
		bytes.Equal(r.id, o.id) && (r.name == nil) == (o.name == nil) && bytes.Equal(r.name, o.name)
}

// delta is one streamed piece of output.
type delta struct {
	run
	seq, time int64
	text      []byte // a string literal: the text, or a part of the arguments
}

// appendLine appends the event that d stands for, in the form in which
// harnesses write it.
func (d *delta) appendLine(dst []byte) []byte {
	dst = append(dst, `{"type":"`+typeChunk+`","seq":`...)
	dst = strconv.AppendInt(dst, d.seq, 10)
	dst = append(dst, `,"time":`...)
	dst = strconv.AppendInt(dst, d.time, 10)
	dst = append(dst, `,"data":{"turn":`...)
	dst = strconv.AppendInt(dst, d.turn, 10)
	dst = append(dst, `,"step":`...)
	dst = strconv.AppendInt(dst, d.step, 10)
	dst = append(dst, `,"chunk":{"type":"`...)
	dst = append(dst, d.kind.chunkType()...)
	dst = append(dst, `","index":`...)
	dst = strconv.AppendInt(dst, d.index, 10)
	if d.kind == kindToolCall {
		dst = append(dst, `,"id":`...)
		dst = append(dst, d.id...)
		if d.name != nil {
			dst = append(dst, `,"name":`...)
			dst = append(dst, d.name...)
		}
		dst = append(dst, `,"argumentsDelta":`...)
	} else {
		dst = append(dst, `,"text":`...)
	}
	dst = append(dst, d.text...)
	return append(dst, `}}}`...)
}

// parseDelta is the inverse of appendLine: it accepts exactly what that would
// write, byte for byte, so a line that passes is also valid JSON. The literals
// are parts of line.
func parseDelta(line []byte) (d delta, ok bool) {
	p := parser{rest: line}
	p.expect(`{"type":"` + typeChunk + `","seq":`)
	d.seq = p.natural()
	p.expect(`,"time":`)
	d.time = p.integer()
	p.expect(`,"data":{"turn":`)
	d.turn = p.natural()
	p.expect(`,"step":`)
	d.step = p.natural()
	p.expect(`,"chunk":{"type":"`)
	switch {
	case p.try(`text-delta","index":`):
		d.kind = kindText
	case p.try(`reasoning-delta","index":`):
		d.kind = kindReasoning
	default:
		p.expect(`tool-call-delta","index":`)
		d.kind = kindToolCall
	}
	d.index = p.natural()
	if d.kind == kindToolCall {
		p.expect(`,"id":`)
		d.id = p.literal()
		if p.try(`,"name":`) {
			d.name = p.literal()
		}
		p.expect(`,"argumentsDelta":`)
	} else {
		p.expect(`,"text":`)
	}
	d.text = p.literal()
	p.expect(`}}}`)
	return d, !p.failed && len(p.rest) == 0
}

// parser takes text apart that must have one exact form. After a failure it
// goes on without effect; the caller looks at failed once, at the end.
type parser struct {
	rest   []byte
	failed bool
}

func (p *parser) try(prefix string) bool {
	if len(p.rest) < len(prefix) || string(p.rest[:len(prefix)]) != prefix {
		return false
	}
	p.rest = p.rest[len(prefix):]
	return true
}

func (p *parser) expect(prefix string) {
	if !p.try(prefix) {
		p.fail()
	}
}

func (p *parser) fail() {
	p.failed, p.rest = true, nil
}

func (p *parser) integer() int64 {
	n, rest, ok := cutInteger(p.rest)
	if !ok {
		p.fail()
		return 0
	}
	p.rest = rest
	return n
}

func (p *parser) natural() int64 {
	n := p.integer()
	if n < 0 {
		p.fail()
	}
	return n
}

func (p *parser) literal() []byte {
	n := literalLen(p.rest)
	if n == 0 {
		p.fail()
		return nil
	}
	v := p.rest[:n:n]
	p.rest = p.rest[n:]
	return v
}

// literalLen is the length of the JSON string literal that text begins with, 0
// if there is no valid one. Lone surrogates in escapes are valid.
func literalLen(text []byte) int {
	if len(text) == 0 || text[0] != '"' {
		return 0
	}
	ascii := true
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			if !ascii && !utf8.Valid(text[:i]) {
				return 0
			}
			return i + 1
		case c < ' ':
			return 0
		case c >= utf8.RuneSelf:
			ascii = false
		case c == '\\':
			n := escapeLen(text[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		}
	}
	return 0
}

// escapeLen is the length of the escape that text begins with, 0 if it is not
// valid.
func escapeLen(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	switch text[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(text) < 6 {
			return 0
		}
		for _, c := range text[2:6] {
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return 0
			}
		}
		return 6
	}
	return 0
}
