package segment

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// JSON of the parts of a State. A segment's index and a manifest write the
// same members, so both use these functions. What is written is canonical (no
// white space, fixed order, minimal escapes); what is read may have its members
// in any order, but each of them exactly once and no others: these parts are
// closed, an extension needs a member beside them. Every failure of a Parse
// function is ErrCorrupt. Parsed values hold no reference to the input.

// AppendString appends s as a JSON string, escaping no more than RFC 8259
// demands. Bytes that are not valid UTF-8 become U+FFFD; callers check before.
func AppendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}

// String returns 64 lower-case hex digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// AppendText appends 64 lower-case hex digits.
func (h Hash) AppendText(dst []byte) ([]byte, error) { return hex.AppendEncode(dst, h[:]), nil }

// MarshalText returns 64 lower-case hex digits.
func (h Hash) MarshalText() ([]byte, error) { return h.AppendText(nil) }

// UnmarshalText is the inverse of MarshalText; anything but 64 lower-case hex
// digits is ErrCorrupt and leaves h as it was.
func (h *Hash) UnmarshalText(text []byte) error {
	v, ok := parseHash(text)
	if !ok {
		return corruptf("hash is not 64 lower-case hex digits")
	}
	*h = v
	return nil
}

func parseHash(text []byte) (h Hash, ok bool) {
	if !isLowerHex(text, 2*len(h)) {
		return h, false
	}
	_, err := hex.Decode(h[:], text)
	return h, err == nil
}

// isLowerHex reports whether s is n lower-case hex digits.
func isLowerHex[Bytes ~[]byte | ~string](s Bytes, n int) bool {
	if len(s) != n {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// AppendJSON appends {"type":[count,first,last],…} in order, the overflow last
// and under the empty name.
func (t Types) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	for i := range t.Entries {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = t.Entries[i].appendJSON(dst)
	}
	if t.Overflow != nil {
		if len(t.Entries) > 0 {
			dst = append(dst, ',')
		}
		dst = t.Overflow.appendJSON(dst)
	}
	return append(dst, '}')
}

func (c TypeCount) appendJSON(dst []byte) []byte {
	dst = append(AppendString(dst, c.Type), ':', '[')
	dst = append(strconv.AppendInt(dst, c.Count, 10), ',')
	dst = append(strconv.AppendInt(dst, c.First, 10), ',')
	return append(strconv.AppendInt(dst, c.Last, 10), ']')
}

// ParseTypes is the inverse of Types.AppendJSON.
func ParseTypes(raw []byte) (Types, error) {
	var t Types
	p := newParser(raw)
	p.begin('{')
	for p.more('}') {
		c := TypeCount{Type: p.str()}
		p.begin('[')
		c.Count, c.First, c.Last = p.int(), p.int(), p.int()
		p.end(']')
		switch {
		case p.err != nil:
		case t.Overflow != nil:
			p.fail("the overflow entry is not the last")
		case c.Type == "":
			t.Overflow = &c
		case len(t.Entries) == MaxTypes:
			p.fail("more than %d entries", MaxTypes)
		default:
			t.Entries = append(t.Entries, c)
		}
	}
	p.end('}')
	if err := p.finish("types"); err != nil {
		return Types{}, err
	}
	return t, nil
}

// AppendJSON appends {"seq":…,"time":…}, or null for a nil b.
func (b *Boundary) AppendJSON(dst []byte) []byte {
	if b == nil {
		return append(dst, "null"...)
	}
	dst = strconv.AppendInt(append(dst, `{"seq":`...), b.Seq, 10)
	dst = strconv.AppendInt(append(dst, `,"time":`...), b.Time, 10)
	return append(dst, '}')
}

// ParseBoundary is the inverse of Boundary.AppendJSON: nil for null.
func ParseBoundary(raw []byte) (*Boundary, error) {
	p := newParser(raw)
	if p.null() {
		return nil, p.finish("boundary")
	}
	var b Boundary
	p.object(map[string]func(){
		"seq":  func() { b.Seq = p.int() },
		"time": func() { b.Time = p.int() },
	})
	if err := p.finish("boundary"); err != nil {
		return nil, err
	}
	return &b, nil
}

// AppendJSON appends {"turn":…,"step":…,"calls":[[id,step,seq],…],"more":…}, or
// null for a nil t.
func (t *Turn) AppendJSON(dst []byte) []byte {
	if t == nil {
		return append(dst, "null"...)
	}
	dst = strconv.AppendInt(append(dst, `{"turn":`...), t.Turn, 10)
	dst = appendIntOrNull(append(dst, `,"step":`...), t.Step)
	dst = append(dst, `,"calls":[`...)
	for i, c := range t.Calls {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendString(append(dst, '['), c.ID), ',')
		dst = append(strconv.AppendInt(dst, c.Step, 10), ',')
		dst = append(appendIntOrNull(dst, c.Seq), ']')
	}
	dst = strconv.AppendBool(append(dst, `],"more":`...), t.More)
	return append(dst, '}')
}

// ParseTurn is the inverse of Turn.AppendJSON: nil for null.
func ParseTurn(raw []byte) (*Turn, error) {
	p := newParser(raw)
	if p.null() {
		return nil, p.finish("turn")
	}
	var t Turn
	p.object(map[string]func(){
		"turn": func() { t.Turn = p.int() },
		"step": func() { t.Step = p.intOrNull() },
		"more": func() { t.More = p.bool() },
		"calls": func() {
			p.begin('[')
			for p.more(']') {
				var c Call
				p.begin('[')
				c.ID, c.Step, c.Seq = p.str(), p.int(), p.intOrNull()
				p.end(']')
				if len(t.Calls) == MaxCalls {
					p.fail("more than %d calls", MaxCalls)
					break
				}
				t.Calls = append(t.Calls, c)
			}
			p.end(']')
		},
	})
	if err := p.finish("turn"); err != nil {
		return nil, err
	}
	return &t, nil
}

// AppendJSON appends {"size":…,"root":"…","range":["…",…]}.
func (t Tree) AppendJSON(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"size":`...), t.Size, 10)
	dst = appendHash(append(dst, `,"root":`...), t.Root)
	dst = append(dst, `,"range":[`...)
	for i, h := range t.Range {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendHash(dst, h)
	}
	return append(dst, "]}"...)
}

// ParseTree is the inverse of Tree.AppendJSON.
func ParseTree(raw []byte) (Tree, error) {
	var t Tree
	p := newParser(raw)
	p.object(map[string]func(){
		"size": func() { t.Size = p.int() },
		"root": func() { t.Root = p.hash() },
		"range": func() {
			p.begin('[')
			for p.more(']') {
				if len(t.Range) == maxRange {
					p.fail("more than %d hashes", maxRange)
					break
				}
				t.Range = append(t.Range, p.hash())
			}
			p.end(']')
		},
	})
	if err := p.finish("tree"); err != nil {
		return Tree{}, err
	}
	return t, nil
}

func appendHash(dst []byte, h Hash) []byte {
	return append(hex.AppendEncode(append(dst, '"'), h[:]), '"')
}

func appendIntOrNull(dst []byte, v *int64) []byte {
	if v == nil {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, *v, 10)
}

// parser reads one JSON value strictly: no duplicate names, valid UTF-8, plain
// integers. The first failure sticks, and everything after it is a zero value.
type parser struct {
	dec *jsontext.Decoder
	err error
}

func newParser(raw []byte) *parser {
	return &parser{dec: jsontext.NewDecoder(bytes.NewBuffer(raw))}
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// token returns the next token, which must be of the kind.
func (p *parser) token(kind jsontext.Kind) jsontext.Token {
	if p.err != nil {
		return jsontext.Token{}
	}
	tok, err := p.dec.ReadToken()
	switch {
	case err != nil:
		p.err = err
	case tok.Kind() != kind:
		p.fail("%v where %v is expected, at byte %d", tok.Kind(), kind, p.dec.InputOffset())
	default:
		return tok
	}
	return jsontext.Token{}
}

func (p *parser) begin(kind jsontext.Kind) { p.token(kind) }
func (p *parser) end(kind jsontext.Kind)   { p.token(kind) }

// more reports whether another element follows before the closing token.
func (p *parser) more(closing jsontext.Kind) bool {
	if p.err != nil {
		return false
	}
	k := p.dec.PeekKind()
	return k != closing && k != jsontext.KindInvalid
}

// null reports whether the next value is null, and consumes it then.
func (p *parser) null() bool {
	if p.err != nil || p.dec.PeekKind() != 'n' {
		return false
	}
	p.token('n')
	return true
}

func (p *parser) str() string {
	tok := p.token('"')
	if p.err != nil {
		return ""
	}
	return tok.String()
}

func (p *parser) int() int64 {
	tok := p.token('0')
	if p.err != nil {
		return 0
	}
	v, ok := parseSafeInt(tok.String())
	if !ok {
		p.fail("%.40q is not a plain integer within ±(2^53-1)", tok.String())
	}
	return v
}

// parseSafeInt reads an integer without fraction, exponent or sign of zero.
func parseSafeInt(s string) (int64, bool) {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v > MaxSeq || v < -MaxSeq || s == "-0" {
		return 0, false
	}
	return v, true
}

func (p *parser) intOrNull() *int64 {
	if p.null() || p.err != nil {
		return nil
	}
	v := p.int()
	return &v
}

func (p *parser) bool() bool {
	if p.err == nil && p.dec.PeekKind() == 't' {
		p.token('t')
		return true
	}
	p.token('f')
	return false
}

func (p *parser) hash() Hash {
	h, ok := parseHash([]byte(p.str()))
	if !ok {
		p.fail("a hash is not 64 lower-case hex digits")
	}
	return h
}

// object reads an object that has exactly the given members, in any order.
func (p *parser) object(members map[string]func()) {
	n := len(members)
	p.begin('{')
	for p.more('}') {
		name := p.str()
		if p.err != nil {
			return
		}
		read, ok := members[name]
		if !ok {
			p.fail("unknown member %.40q", name)
			return
		}
		read()
		n--
	}
	p.end('}')
	if n != 0 {
		p.fail("%d members are missing", n)
	}
}

// finish checks that nothing follows the value and returns the first failure,
// as ErrCorrupt.
func (p *parser) finish(what string) error {
	if p.err == nil {
		switch _, err := p.dec.ReadToken(); err {
		case io.EOF:
			return nil
		case nil:
			p.fail("something follows the value")
		default:
			p.err = err
		}
	}
	return fmt.Errorf("%w: %s: %v", ErrCorrupt, what, p.err)
}

func corruptf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrCorrupt, fmt.Errorf(format, args...))
}
