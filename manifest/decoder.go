package manifest

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/s3log/s3log/segment"
)

// decoder reads a record in its one order and, but for what is inside of values
// that it does not know, in its one spelling, which needs no tokenizer. The first
// failure sticks, and everything after it is a zero value. What it lets pass
// nevertheless (escapes that are not needed, -0, 007), Decode finds by encoding
// again.
type decoder struct {
	b     []byte
	at    int  // what is read next
	first bool // no comma stands before the next value
	free  jsontext.Decoder
	err   error
	name  string // of the member being read, for messages
}

// newDecoder reads b, to which whatever it returns may refer.
func newDecoder(b []byte) *decoder { return &decoder{b: b, first: true} }

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%s: "+format, append([]any{strconv.Quote(d.name)}, args...)...)
	}
}

// next is the byte that comes next, 0 at the end.
func (d *decoder) next() byte {
	if d.err != nil || d.at >= len(d.b) {
		return 0
	}
	return d.b[d.at]
}

// skip passes over c, which must come next.
func (d *decoder) skip(c byte) {
	if got := d.next(); got != c {
		d.fail("not canonical: %q where %q is expected, at byte %d", got, c, d.at)
	}
	d.at++
}

// comma passes over what separates the next value from the one before it.
func (d *decoder) comma() {
	if !d.first {
		d.skip(',')
	}
	d.first = false
}

func (d *decoder) begin(bracket byte) {
	d.comma()
	d.skip(bracket)
	d.first = true
}

func (d *decoder) end(bracket byte) {
	d.skip(bracket)
	d.first = false
}

// quoted returns what stands between two quotation marks, as it is spelled.
func (d *decoder) quoted() []byte {
	d.comma()
	d.skip('"')
	for i := d.at; d.err == nil; i++ {
		n := bytes.IndexByte(d.b[min(i, len(d.b)):], '"')
		if n < 0 {
			d.fail("text without an end, from byte %d on", d.at)
			break
		}
		i += n
		escapes := 0
		for i-escapes > d.at && d.b[i-escapes-1] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			text := d.b[d.at:i]
			d.at = i + 1
			return text
		}
	}
	return nil
}

// nextName reads the name of the next member.
func (d *decoder) nextName() string {
	name := d.str()
	if d.err == nil {
		d.name = name
	}
	d.skip(':')
	d.first = true
	return name
}

// expect fails unless the member just begun is this one.
func (d *decoder) expect(got, name string) {
	if got != name {
		d.fail("stands where %q is expected", name)
	}
}

// field reads the name of the next member, which must be this one.
func (d *decoder) field(name string) { d.expect(d.nextName(), name) }

func (d *decoder) fieldStr(name string) string {
	d.field(name)
	return d.str()
}

func (d *decoder) fieldInt(name string) int64 {
	d.field(name)
	return d.int()
}

func (d *decoder) epoch() uint32 {
	v := d.fieldInt("epoch")
	if v < 0 || v > 1<<32-1 {
		d.fail("%d is not within 0 … 2^32-1", v)
		return 0
	}
	return uint32(v)
}

func (d *decoder) str() string {
	text := d.quoted()
	if d.err != nil {
		return ""
	}
	if !slices.ContainsFunc(text, func(c byte) bool { return c < ' ' || c == '\\' || c >= utf8.RuneSelf }) {
		return string(text)
	}
	s, err := jsontext.AppendUnquote(nil, d.b[d.at-len(text)-2:d.at])
	if err != nil {
		d.fail("%w", err)
		return ""
	}
	return string(s)
}

func (d *decoder) int() int64 {
	d.comma()
	start := d.at
	negative := d.next() == '-'
	if negative {
		d.at++
	}
	var v int64
	digits := d.at
	for c := d.next(); c >= '0' && c <= '9' && d.at-digits < len("9007199254740991"); c = d.next() {
		v = 10*v + int64(c-'0')
		d.at++
	}
	switch {
	case d.err != nil:
		return 0
	case d.at == digits:
		d.fail("not canonical: %q where a number is expected, at byte %d", d.next(), start)
		return 0
	case !safe(v) || strings.IndexByte("0123456789.eE", d.next()) >= 0:
		d.fail("%s… is not a plain integer within ±(2^53-1)", d.b[start:d.at])
		return 0
	case negative:
		return -v
	}
	return v
}

func (d *decoder) intOrNull() *int64 {
	if d.null() || d.err != nil {
		return nil
	}
	v := d.int()
	return &v
}

func (d *decoder) bool() bool {
	switch {
	case d.word("true"):
		return true
	case !d.word("false"):
		d.fail("neither true nor false, at byte %d", d.at)
	}
	return false
}

// null reports whether the value of the member is null, and consumes it then.
func (d *decoder) null() bool { return d.word("null") }

func (d *decoder) word(w string) bool {
	if d.err != nil || !bytes.HasPrefix(d.b[min(d.at, len(d.b)):], []byte(w)) {
		return false
	}
	d.at += len(w)
	d.first = false
	return true
}

func (d *decoder) objectOrNull() []byte {
	if d.null() {
		return nil
	}
	if d.next() != '{' {
		d.fail("%q where an object is expected, at byte %d", d.next(), d.at)
	}
	return bytes.Clone(d.any())
}

func (d *decoder) hash() (h segment.Hash) {
	text := d.quoted()
	if d.err != nil {
		return h
	}
	if err := h.UnmarshalText(text); err != nil {
		d.fail("%w", err)
	}
	return h
}

func (d *decoder) segmentName() Name {
	text := d.quoted()
	if d.err != nil {
		return Name{}
	}
	n, ok := parseName(text)
	if !ok {
		_, err := ParseName(string(text))
		d.fail("%w", err)
	}
	return n
}

func (d *decoder) base64() []byte {
	text := d.quoted()
	if d.err != nil || len(text) == 0 {
		return nil
	}
	if len(text) > MaxTail {
		d.fail("%d bytes in base64, at most %d are allowed", len(text), MaxTail)
		return nil
	}
	b, err := base64.StdEncoding.Strict().AppendDecode(nil, text)
	if err != nil {
		d.fail("%w", err)
	}
	return b
}

// unknown reads members up to the one named last, whose name it consumes, and
// returns them as they are spelled.
func (d *decoder) unknown(last string) []byte {
	var raw []byte
	seen := make(map[string]bool)
	for d.err == nil {
		start := d.at + 1 // behind the comma
		if d.first {
			start--
		}
		d.nextName()
		if d.err != nil {
			break
		}
		name := d.b[start : d.at-1]
		switch {
		case d.name == last:
			return raw
		case slices.Contains(fields, d.name):
			d.fail("does not belong here, or stands twice")
		case seen[d.name]:
			d.fail("stands twice")
		}
		v := d.any()
		raw = append(append(comma(raw, len(seen)), name...), ':')
		raw = append(raw, v...)
		seen[d.name] = true
		if len(raw) > MaxUnknown {
			d.fail("unknown members of more than %d bytes", MaxUnknown)
		}
	}
	return raw
}

// any returns the next value as it is spelled, valid until the next call.
func (d *decoder) any() []byte {
	if d.err != nil {
		return nil
	}
	d.comma()
	if c := d.next(); c <= ' ' {
		d.fail("not canonical: white space, or the end, where a value is expected, at byte %d", d.at)
		return nil
	}
	// Headers and unknown members may hold what is no clean JSON: lone surrogate
	// escapes, duplicate names. All others are checked where they are read.
	d.free.Reset(bytes.NewBuffer(d.b[d.at:]), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	v, err := d.free.ReadValue()
	if err != nil {
		d.fail("in the value from byte %d on: %w", d.at, err)
	}
	d.at += len(v)
	return v
}

func (d *decoder) finish() {
	if d.err == nil && string(d.b[d.at:]) != "\n" {
		d.fail("something follows")
	}
}

// list reads an array.
func list[T any](d *decoder, elem func() T) []T {
	var l []T
	d.begin('[')
	for c := d.next(); c != ']' && c != 0; c = d.next() {
		l = append(l, elem())
	}
	d.end(']')
	return l
}

// parsed reads a value that package segment knows.
func parsed[T any](d *decoder, parse func([]byte) (T, error)) (v T) {
	raw := d.any()
	if d.err != nil {
		return v
	}
	v, err := parse(raw)
	if err != nil {
		d.fail("%w", err)
	}
	return v
}
