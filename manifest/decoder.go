package manifest

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/s3log/s3log/segment"
)

// decoder reads a record in its one order. The first failure sticks, and
// everything after it is a zero value. It is lenient about spelling (white
// space, escapes), which Decode finds by encoding again.
type decoder struct {
	dec  *jsontext.Decoder
	err  error
	name string // of the member being read, for messages
}

// newDecoder reads b, to which whatever it returns may refer.
func newDecoder(b []byte) *decoder {
	// Headers and unknown members may hold what is no clean JSON: lone surrogate
	// escapes, duplicate names. All others are checked where they are read.
	return &decoder{dec: jsontext.NewDecoder(bytes.NewBuffer(b), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))}
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%s: "+format, append([]any{strconv.Quote(d.name)}, args...)...)
	}
}

// value returns the next value, which must be of the kind, as it is spelled; it
// is valid until the next call.
func (d *decoder) value(kind jsontext.Kind) []byte {
	if d.err == nil {
		if k := d.dec.PeekKind(); k != kind && k != jsontext.KindInvalid {
			d.fail("%v where %v is expected, at byte %d", k, kind, d.dec.InputOffset())
		}
	}
	return d.any()
}

func (d *decoder) token(kind jsontext.Kind) {
	if d.err != nil {
		return
	}
	switch tok, err := d.dec.ReadToken(); {
	case err != nil:
		d.fail("%w", err)
	case tok.Kind() != kind:
		d.fail("%v where %v is expected, at byte %d", tok.Kind(), kind, d.dec.InputOffset())
	}
}

func (d *decoder) begin(kind jsontext.Kind) { d.token(kind) }
func (d *decoder) end(kind jsontext.Kind)   { d.token(kind) }

// nextName reads the name of the next member.
func (d *decoder) nextName() string {
	name := d.str()
	if d.err == nil {
		d.name = name
	}
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
	raw := d.value('"')
	if d.err != nil {
		return ""
	}
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	s, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		d.fail("%w", err)
		return ""
	}
	return string(s)
}

func (d *decoder) int() int64 {
	raw := d.value('0')
	if d.err != nil {
		return 0
	}
	v, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || !safe(v) {
		d.fail("%.40s is not a plain integer within ±(2^53-1)", raw)
		return 0
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
	if d.err == nil && d.dec.PeekKind() == 't' {
		d.token('t')
		return true
	}
	d.token('f')
	return false
}

// null reports whether the next value is null, and consumes it then.
func (d *decoder) null() bool {
	if d.err != nil || d.dec.PeekKind() != 'n' {
		return false
	}
	d.token('n')
	return true
}

func (d *decoder) rawOrNull() []byte {
	if d.null() {
		return nil
	}
	return bytes.Clone(d.value('{'))
}

func (d *decoder) hash() (h segment.Hash) {
	raw := d.value('"')
	if d.err != nil {
		return h
	}
	if err := h.UnmarshalText(raw[1 : len(raw)-1]); err != nil {
		d.fail("%w", err)
	}
	return h
}

func (d *decoder) segmentName() Name {
	s := d.str()
	if d.err != nil {
		return Name{}
	}
	n, err := ParseName(s)
	if err != nil {
		d.fail("%w", err)
	}
	return n
}

func (d *decoder) base64() []byte {
	raw := d.value('"')
	if d.err != nil || len(raw) == 2 {
		return nil
	}
	text := raw[1 : len(raw)-1]
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
		name := bytes.Clone(d.value('"'))
		if d.err != nil {
			break
		}
		text, err := jsontext.AppendUnquote(nil, name)
		if err != nil {
			d.fail("followed by a member whose name is no text: %w", err)
			break
		}
		d.name = string(text)
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
	v, err := d.dec.ReadValue()
	if err != nil {
		d.fail("%w", err)
	}
	return v
}

func (d *decoder) finish() {
	if d.err != nil {
		return
	}
	if _, err := d.dec.ReadToken(); err != io.EOF {
		d.fail("something follows")
	}
}

// list reads an array.
func list[T any](d *decoder, elem func() T) []T {
	var l []T
	d.begin('[')
	for d.err == nil && d.dec.PeekKind() != ']' && d.dec.PeekKind() != jsontext.KindInvalid {
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
