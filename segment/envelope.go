package segment

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// envelope is what one pass over an event's JSON text yields.
type envelope struct {
	typ                string
	seq, time          int64
	hasSeq, hasTime    bool
	ignorable          bool
	typeEnd            int // offset just behind the value of type
	dataStart, dataEnd int // the value of data
}

// member is a set of envelope members.
type member uint8

const (
	memberType member = 1 << iota
	memberSeq
	memberTime
	memberData
	memberSources
	memberSurface
	memberIgnorable
)

// jsonReader is a JSON decoder over bytes in memory, with what it needs to be
// used again. It knows nothing of events.
type jsonReader struct {
	dec     *jsontext.Decoder
	buf     bytes.Buffer
	scratch []byte            // unescaped strings
	types   map[string]string // event types seen lately, so that a type costs no allocation per event
}

// A decoder accepts what a log has to keep as it is: lone surrogates in escapes
// (only AllowInvalidUTF8 lets them pass; raw invalid UTF-8 is refused before)
// and duplicate names inside data.
var (
	allowInvalidUTF8    = jsontext.AllowInvalidUTF8(true)
	allowDuplicateNames = jsontext.AllowDuplicateNames(true)
)

var jsonReaders = sync.Pool{New: func() any {
	r := &jsonReader{types: make(map[string]string)}
	r.dec = jsontext.NewDecoder(&r.buf, allowInvalidUTF8, allowDuplicateNames)
	return r
}}

// readJSON returns a reader of text, which must go back by release.
func readJSON(text []byte) *jsonReader {
	r := jsonReaders.Get().(*jsonReader)
	// A decoder takes over the bytes of a bytes.Buffer without copying them,
	// and never writes to them.
	r.buf = *bytes.NewBuffer(text)
	return r
}

// release drops every reference to the text, so that a pooled reader keeps no
// log contents in memory.
func (r *jsonReader) release() {
	const maxScratch = 64 << 10
	r.buf = bytes.Buffer{}
	r.dec.Reset(&r.buf, allowInvalidUTF8, allowDuplicateNames)
	if cap(r.scratch) > maxScratch {
		r.scratch = nil
	}
	jsonReaders.Put(r)
}

// unquote yields the content of a JSON string literal, valid until the next
// call. It reports false for a lone surrogate, which no Go string can hold.
func (r *jsonReader) unquote(literal []byte) ([]byte, bool) {
	if bytes.IndexByte(literal, '\\') < 0 {
		return literal[1 : len(literal)-1], true
	}
	var err error
	r.scratch, err = jsontext.AppendUnquote(r.scratch[:0], literal)
	return r.scratch, err == nil
}

// intern returns name as a string.
func (r *jsonReader) intern(name []byte) string {
	const maxTypes = 256
	if s, ok := r.types[string(name)]; ok {
		return s
	}
	if len(r.types) >= maxTypes {
		clear(r.types)
	}
	s := string(name)
	r.types[s] = s
	return s
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// parseEnvelope validates text, which has no white space around it, and reads
// its envelope. The error, if any, has ErrInvalidEvent.
func parseEnvelope(text []byte) (envelope, *EventError) {
	var env envelope
	switch {
	case len(text) == 0:
		return env, invalid("", "empty line")
	case bytes.HasPrefix(text, byteOrderMark):
		return env, invalid("", "begins with a UTF-8 byte order mark, which is not part of JSON")
	case !utf8.Valid(text):
		return env, invalid("", "invalid UTF-8 at byte %d", invalidUTF8(text))
	}
	r := readJSON(text)
	defer r.release()
	if err := env.read(r, text); err != nil {
		err.Type = env.typ
		return env, err
	}
	return env, nil
}

func (env *envelope) read(r *jsonReader, text []byte) *EventError {
	if text[0] != '{' {
		if isSpace(text[0]) {
			return invalid("", "white space before the event")
		}
		return invalid("", "not a JSON object")
	}
	_, _ = r.dec.ReadToken() // the brace just seen
	var seen member
	for r.dec.PeekKind() != '}' {
		literal, err := r.dec.ReadValue()
		if err != nil {
			return notJSON(text, err)
		}
		m, reason := r.member(literal)
		if reason == nil && seen&m != 0 {
			reason = invalid("", "member %s occurs twice", literal)
		}
		if reason != nil {
			return reason
		}
		seen |= m
		value, err := r.dec.ReadValue()
		if err != nil {
			return notJSON(text, err)
		}
		if reason := env.set(r, m, value, int(r.dec.InputOffset())); reason != nil {
			return reason
		}
	}
	_, _ = r.dec.ReadToken() // the brace just seen; else the end below is not that of the line
	if end := int(r.dec.InputOffset()); end != len(text) {
		return invalid("", "the event's object ends at byte %d, but the line goes on", end)
	}
	switch {
	case seen&memberType == 0:
		return invalid("", "type is missing")
	case seen&memberData == 0:
		return invalid("", "data is missing (null is allowed)")
	}
	env.hasSeq = seen&memberSeq != 0
	env.hasTime = seen&memberTime != 0
	return nil
}

// member tells which envelope member a name is, by its exact spelling after
// unescaping.
func (r *jsonReader) member(literal []byte) (member, *EventError) {
	name, ok := r.unquote(literal)
	if ok {
		switch string(name) {
		case "type":
			return memberType, nil
		case "seq":
			return memberSeq, nil
		case "time":
			return memberTime, nil
		case "data":
			return memberData, nil
		case "sourceEventSeqs":
			return memberSources, nil
		case "surfaceOp":
			return memberSurface, nil
		case "ignorable":
			return memberIgnorable, nil
		}
	}
	return 0, invalid("", "member %s is not allowed (allowed are type, seq, time, data, sourceEventSeqs, surfaceOp and ignorable, in this spelling)", excerpt(literal))
}

// set takes over the value of member m, which ends at offset end.
func (env *envelope) set(r *jsonReader, m member, value []byte, end int) *EventError {
	var ok bool
	switch m {
	case memberType:
		env.typeEnd = end
		return env.setType(r, value)
	case memberSeq:
		if env.seq, ok = plainInteger(value); !ok || env.seq < 0 {
			return invalid("", "seq is not a plain integer from 0 to 2^53-1: %s", excerpt(value))
		}
	case memberTime:
		if env.time, ok = plainInteger(value); !ok {
			return invalid("", "time is not a plain integer within ±(2^53-1): %s", excerpt(value))
		}
	case memberData:
		env.dataStart, env.dataEnd = end-len(value), end
	case memberIgnorable:
		if env.ignorable = string(value) == "true"; !env.ignorable {
			return invalid("", "ignorable is not true: %s", excerpt(value))
		}
	case memberSources, memberSurface:
		// Any value will do: what they mean is the harness's business.
	}
	return nil
}

func (env *envelope) setType(r *jsonReader, value []byte) *EventError {
	if value[0] != '"' {
		return invalid("", "type is not a string: %s", excerpt(value))
	}
	name, ok := r.unquote(value)
	switch {
	case !ok:
		return invalid("", "type holds a lone surrogate: %s", excerpt(value))
	case len(name) == 0:
		return invalid("", "type is empty")
	case encodedLen(name) > MaxTypeName:
		return invalid("", "type takes more than %d bytes in JSON: %s", MaxTypeName, excerpt(value))
	}
	env.typ = r.intern(name)
	return nil
}

// plainInteger reads a JSON value that must be an integer without fraction,
// exponent or minus zero, of an absolute value of at most MaxSeq.
func plainInteger(value []byte) (int64, bool) {
	digits := value
	negative := len(value) > 0 && value[0] == '-'
	if negative {
		digits = value[1:]
	}
	if len(digits) == 0 || len(digits) > len("9007199254740991") {
		return 0, false
	}
	var n int64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if n > MaxSeq || negative && n == 0 || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	if negative {
		n = -n
	}
	return n, true
}

// encodedLen is the length of s in its shortest JSON encoding, without quotes.
func encodedLen[Bytes ~[]byte | ~string](s Bytes) int {
	n := len(s)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"', c == '\\', c == '\b', c == '\f', c == '\n', c == '\r', c == '\t':
			n++
		case c < ' ':
			n += len(`\u0000`) - 1
		}
	}
	return n
}

// excerpt shortens JSON text for a message and escapes what a terminal might
// act on.
func excerpt(text []byte) string {
	const most = 48
	more := ""
	if len(text) > most {
		text, more = text[:most], "…"
		for len(text) > 0 && !utf8.Valid(text) {
			text = text[:len(text)-1] // the cut went through a character
		}
	}
	return strings.Map(printable, string(text)) + more
}

// printable replaces characters that a terminal might act on.
func printable(c rune) rune {
	if unicode.IsPrint(c) {
		return c
	}
	return utf8.RuneError
}

// notJSON turns a decoder's error about text into a reason. The decoder's own
// message is not used as a whole: it names a path into data, which may be as
// long as data.
func notJSON(text []byte, err error) *EventError {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return invalid("", "the JSON text ends too early")
	}
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok || syntax.Err == nil {
		return invalid("", "not JSON: %s", strings.Map(printable, err.Error()))
	}
	at := min(int(syntax.ByteOffset), len(text)-1)
	if depth(text[:at+1]) > MaxDepth {
		return invalid("", "objects and arrays nest more than %d deep", MaxDepth)
	}
	return invalid("", "not JSON: %s at byte %d", strings.Map(printable, syntax.Err.Error()), at)
}

// depth is how many objects and arrays are open at the end of a beginning of
// JSON text.
func depth(text []byte) int {
	open, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{', c == '[':
			open++
		case c == '}', c == ']':
			open--
		}
	}
	return open
}

// invalidUTF8 is the offset of the first byte of text that is not UTF-8.
func invalidUTF8(text []byte) int {
	at := 0
	for at < len(text) {
		c, n := utf8.DecodeRune(text[at:])
		if c == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return at
}

// isSpace reports whether c is JSON white space.
func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
