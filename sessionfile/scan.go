package sessionfile

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/s3log/s3log/segment"
)

// maxSafe is the greatest absolute value of an integer that every JSON reader
// keeps exact.
const maxSafe = segment.MaxSeq

// The names that this package gives a meaning to.
const (
	typeHeader = "session"         // the header line
	typeChunk  = "assistant/chunk" // what a packed row expands to
)

// object is what one pass over a line's JSON text yields: that it is one
// object, and the values of some of its members. Of a name that occurs twice the
// last one wins, apart from type.
type object struct {
	typ       string // one of the known names, else ""; unescaped
	types     int    // how often there is a type
	seq       int64
	hasSeq    bool   // seq is a plain integer within bounds
	hasData   bool   // there is a member data
	id        []byte // literal of a string; part of the line
	timestamp []byte // literal of a string; part of the line
}

// known interns the types that matter here.
func known(name []byte) string {
	switch string(name) {
	case typeHeader:
		return typeHeader
	case tagText:
		return tagText
	case tagReasoning:
		return tagReasoning
	case tagToolCall:
		return tagToolCall
	}
	return ""
}

// scanner reads JSON text in memory. It is not safe for concurrent use.
type scanner struct {
	dec     *jsontext.Decoder
	buf     bytes.Buffer
	scratch []byte
}

// A lone surrogate in an escape passes only with AllowInvalidUTF8; raw invalid
// UTF-8 is refused before.
var (
	allowInvalidUTF8    = jsontext.AllowInvalidUTF8(true)
	allowDuplicateNames = jsontext.AllowDuplicateNames(true)
)

func (s *scanner) reset(text []byte) {
	// A decoder takes over the bytes of a bytes.Buffer without copying them,
	// and never writes to them.
	s.buf = *bytes.NewBuffer(text)
	if s.dec == nil {
		s.dec = jsontext.NewDecoder(&s.buf, allowInvalidUTF8, allowDuplicateNames)
		return
	}
	s.dec.Reset(&s.buf, allowInvalidUTF8, allowDuplicateNames)
}

// value reads the next JSON value and yields it as a part of text.
func (s *scanner) value(text []byte) ([]byte, error) {
	v, err := s.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	end := s.dec.InputOffset()
	return text[end-int64(len(v)) : end : end], nil
}

// unquote yields the content of a string literal, valid until the next call.
// It reports false for a lone surrogate, which no Go string can hold.
func (s *scanner) unquote(literal []byte) ([]byte, bool) {
	if bytes.IndexByte(literal, '\\') < 0 {
		return literal[1 : len(literal)-1], true
	}
	var err error
	s.scratch, err = jsontext.AppendUnquote(s.scratch[:0], literal)
	return s.scratch, err == nil
}

// checkText refuses what JSON text cannot hold and a decoder would not see, or
// would take for something else.
func checkText(text []byte) *flaw {
	switch {
	case bytes.IndexByte(text, 0) >= 0:
		return corrupt("NUL bytes, as of a block that was never written")
	case !utf8.Valid(text):
		return corrupt("invalid UTF-8")
	}
	return nil
}

// object checks that text is one JSON object and nothing else.
func (s *scanner) object(text []byte) (object, *flaw) {
	if f := checkText(text); f != nil {
		return object{}, f
	}
	return s.checkedObject(text)
}

// checkedObject is object for text that passed checkText.
func (s *scanner) checkedObject(text []byte) (object, *flaw) {
	var o object
	err := s.members(text, func(name, value []byte) *flaw {
		switch string(name) {
		case "type":
			if o.types++; o.types == 1 && value[0] == '"' {
				if content, ok := s.unquote(value); ok {
					o.typ = known(content)
				}
			}
		case "seq":
			o.seq, o.hasSeq = plainInteger(value)
			o.hasSeq = o.hasSeq && o.seq >= 0
		case "data":
			o.hasData = true
		case "id":
			o.id = stringLiteral(value)
		case "timestamp":
			o.timestamp = stringLiteral(value)
		}
		return nil
	})
	return o, err
}

func stringLiteral(value []byte) []byte {
	if value[0] == '"' {
		return value
	}
	return nil
}

// members checks that text, which passed checkText, is one JSON object and
// nothing else, and calls do with each member: its name, unescaped and valid during the call only, and its
// value, a part of text.
func (s *scanner) members(text []byte, do func(name, value []byte) *flaw) *flaw {
	s.reset(text)
	if len(text) == 0 || text[0] != '{' {
		if err := s.dec.SkipValue(); err != nil || len(bytes.TrimLeft(text[s.dec.InputOffset():], space)) > 0 {
			return corrupt("not JSON: %s", excerpt(text))
		}
		return invalid("not a JSON object: %s", excerpt(text))
	}
	if _, err := s.dec.ReadToken(); err != nil {
		return notJSON(err)
	}
	for s.dec.PeekKind() != '}' {
		literal, err := s.value(text)
		if err != nil {
			return notJSON(err)
		}
		value, err := s.value(text)
		if err != nil {
			return notJSON(err)
		}
		name, ok := s.unquote(literal)
		if !ok {
			name = literal // a lone surrogate: none of the names that matter
		}
		if f := do(name, value); f != nil {
			return f
		}
	}
	if _, err := s.dec.ReadToken(); err != nil {
		return notJSON(err)
	}
	if end := s.dec.InputOffset(); int(end) != len(text) {
		return corrupt("the object ends at byte %d, but the line goes on: %s", end, excerpt(text[end:]))
	}
	return nil
}

// notJSON leaves out the path that the decoder names: it may be as long as the
// line.
func notJSON(err error) *flaw {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return corrupt("the JSON text ends too early")
	case errors.As(err, &syntax) && syntax.Err != nil:
		return corrupt("not JSON: %s at byte %d", printable(syntax.Err.Error()), syntax.ByteOffset)
	}
	return corrupt("not JSON: %s", printable(err.Error()))
}

// plainInteger reads a JSON value that must be an integer without fraction,
// exponent or minus zero, and exact for every JSON reader.
func plainInteger(value []byte) (int64, bool) {
	n, rest, ok := cutInteger(value)
	return n, ok && len(rest) == 0
}

// cutInteger is plainInteger for an integer that text begins with.
func cutInteger(text []byte) (n int64, rest []byte, ok bool) {
	digits := text
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		digits = text[1:]
	}
	i := 0
	for i < len(digits) && digits[i] >= '0' && digits[i] <= '9' {
		if i == len("9007199254740991") {
			return 0, nil, false
		}
		n = n*10 + int64(digits[i]-'0')
		i++
	}
	if i == 0 || i > 1 && digits[0] == '0' || n > maxSafe || negative && n == 0 {
		return 0, nil, false
	}
	if negative {
		n = -n
	}
	return n, digits[i:], true
}

// space is JSON white space.
const space = " \t\r\n"

// lastEvent finds the event that text ends with, although what comes before
// makes no JSON of the whole. To be told from a part of an event that is torn
// itself, it must have a type, data, and a seq that suits, or be a packed row.
// It reports 0 if there is none.
func (s *scanner) lastEvent(text []byte, suits func(seq int64) bool) (at int, o object) {
	// From the end backwards, each beginning of an object is tried. Most fail at
	// their own closing brace, but how far the decoder came it does not say, so
	// each is taken to cost all of its text. The budget is enough for every
	// object of a line of usual size, and bounds what a line made for the
	// purpose can cause.
	budget := 16*len(text) + 4<<20
	for end := len(text); ; end = at {
		at = bytes.LastIndex(text[:end], []byte(`{"`))
		if budget -= len(text) - at; at <= 0 || budget < 0 || checkText(text[at:end]) != nil {
			return 0, object{}
		}
		o, f := s.checkedObject(text[at:])
		if _, packed := kindOf(o.typ); f == nil && o.types == 1 && o.hasData && (packed || o.hasSeq && suits(o.seq)) {
			return at, o
		}
	}
}
