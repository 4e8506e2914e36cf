package manifest

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/s3log/s3log/segment"
)

// maxInput bounds what is looked at: more than any manifest has, so that a
// later version may be larger and still be named as such.
const maxInput = 2 * MaxManifest

// Decode reads a manifest and checks all of it: first its sum, then format and
// version, then the extensions that it calls critical, then that every rule and
// bound is kept (Validate) and that it is spelled in the one canonical way. It
// does not check that it belongs to the log asked for; see CheckLog. The record
// shares no memory with b.
//
// Errors: segment.ErrUnsupportedVersion, which names what this version does not
// know; segment.ErrCorrupt for everything else.
func Decode(b []byte) (*Record, error) {
	version, err := decodeEnvelope(b)
	if err != nil {
		return nil, corrupt(err)
	}
	if version > Version {
		return nil, fmt.Errorf("%w: the manifest has version %d, this program reads up to %d; upgrade it",
			segment.ErrUnsupportedVersion, version, Version)
	}
	d := newDecoder(b)
	r := d.record()
	switch {
	case errors.Is(d.err, segment.ErrUnsupportedVersion):
		return nil, d.err
	case d.err != nil:
		return nil, corrupt(d.err)
	}
	if err := r.Validate(); err != nil {
		return nil, corrupt(err)
	}
	// What decodes has one spelling only. Whoever finds another one is reading
	// something that no writer of this format made.
	again := r.appendSealed(make([]byte, 0, len(b)))
	if !bytes.Equal(again, b) {
		return nil, corrupt(fmt.Errorf("not canonical from byte %d on", commonPrefix(again, b)))
	}
	if limit := r.sizeLimit(); len(b) > limit {
		return nil, corrupt(tooLarge("manifest", len(b), limit))
	}
	return r, nil
}

// corrupt makes err an ErrCorrupt and nothing else.
func corrupt(err error) error {
	if errors.Is(err, segment.ErrCorrupt) && !errors.Is(err, segment.ErrTooLarge) {
		return fmt.Errorf("manifest: %w", err)
	}
	return fmt.Errorf("manifest: %w: %s", segment.ErrCorrupt, err.Error())
}

// CheckLog reports whether r is the manifest of the log asked for. On a file
// system that ignores case, and among copies from elsewhere, a key can lead to
// the manifest of another log.
func (r *Record) CheckLog(id string) error {
	if r.Log != id {
		return fmt.Errorf("%w: the manifest is of log %.80q, not %.80q", segment.ErrCorrupt, r.Log, id)
	}
	return nil
}

// decodeEnvelope checks what keeps place and meaning in every version: size,
// sum, format, version.
func decodeEnvelope(b []byte) (version int, err error) {
	switch {
	case len(b) == 0:
		return 0, errors.New("the object is empty")
	case len(b) > maxInput:
		return 0, fmt.Errorf("%d bytes are more than any manifest has", len(b))
	}
	at := len(b) - sumLen
	if at < 0 || string(b[at:at+len(sumStart)]) != sumStart || string(b[len(b)-len(sumEnd):]) != sumEnd {
		return 0, errors.New("does not end in a sum: cut off, or no manifest")
	}
	digits := string(b[at+len(sumStart) : len(b)-len(sumEnd)])
	sum, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || !lowerHex(digits) {
		return 0, fmt.Errorf("sum %q is not 8 lower-case hex digits", digits)
	}
	if got := crc32.Checksum(b[:at], castagnoli); got != uint32(sum) {
		return 0, fmt.Errorf("bytes have the sum %08x, the manifest says %s", got, digits)
	}
	rest, ok := bytes.CutPrefix(b[:at], []byte(head))
	if !ok {
		return 0, fmt.Errorf("does not begin with format %s", formatName)
	}
	n := 0
	for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
		n++
	}
	version, err = strconv.Atoi(string(rest[:n]))
	switch {
	case errors.Is(err, strconv.ErrRange):
		return int(^uint(0) >> 1), nil // higher than any other
	case err != nil || version < 1 || rest[0] == '0' || n == len(rest) || rest[n] != ',':
		return 0, fmt.Errorf("version is not a number from 1 on")
	}
	return version, nil
}

// commonPrefix is the number of bytes that a and b begin with in common.
func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

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

// record reads everything but checks no rule between fields.
func (d *decoder) record() *Record {
	r := new(Record)
	d.begin('{')
	d.field("format")
	d.str()
	d.field("version")
	r.Version = int(d.int())
	d.field("critical")
	r.Critical = list(d, func() string { return d.str() })
	if err := checkCritical(r.Critical); err != nil && d.err == nil {
		d.err = err
		return r
	}
	d.field("log")
	r.Log = d.str()
	// A void has no uid, and only an open log has a header.
	name := d.nextName()
	if name == "uid" {
		r.UID = d.str()
		name = d.nextName()
	}
	if name == "header" {
		r.Header = d.rawOrNull()
		name = d.nextName()
	}
	d.expect(name, "state")
	r.State = LogState(d.str())
	r.Revision = d.fieldInt("revision")
	r.Epoch = d.epoch()
	d.field("commit")
	r.Commit = d.commit()
	if r.State == StateOpen || r.State == StateDeleted {
		d.ownership(r)
	}
	if r.State == StateOpen {
		d.content(r)
	}
	r.Unknown = d.unknown("sum")
	d.str()
	d.end('}')
	d.finish()
	return r
}

func (d *decoder) commit() (c CommitInfo) {
	d.begin('{')
	c.ID = d.fieldStr("id")
	c.Writer = d.fieldStr("writer")
	c.At = d.fieldInt("at")
	c.Software = d.fieldStr("software")
	d.end('}')
	return c
}

func (d *decoder) ownership(r *Record) {
	d.field("owner")
	d.begin('{')
	r.Owner = &Owner{Writer: d.fieldStr("writer"), Generation: d.fieldInt("generation"), Label: d.fieldStr("label")}
	d.field("released")
	r.Owner.Released = d.bool()
	d.end('}')
	d.field("generations")
	r.Generations = list(d, func() (t Takeover) {
		d.begin('[')
		t.Generation, t.Writer, t.Kind, t.First, t.At = d.int(), d.str(), d.str(), d.int(), d.int()
		d.end(']')
		return t
	})
	d.field("keys")
	r.Keys = list(d, func() (k KeyEntry) {
		d.begin('[')
		k.Key, k.First, k.Count, k.Digest = d.str(), d.int(), d.int(), d.str()
		d.end(']')
		return k
	})
	r.Next = d.fieldInt("next")
}

func (d *decoder) content(r *Record) {
	s := &r.Content
	d.field("lastTime")
	s.LastTime = d.intOrNull()
	d.field("maxTime")
	s.MaxTime = d.intOrNull()
	d.field("activity")
	s.Activity = d.intOrNull()
	r.ActivityRule = d.fieldStr("activityRule")
	r.Origin = d.origin()
	r.Lifecycle = d.lifecycle()
	d.field("boundary")
	s.Boundary = parsed(d, segment.ParseBoundary)
	d.field("types")
	s.Types = parsed(d, segment.ParseTypes)
	d.field("turn")
	s.Turn = parsed(d, segment.ParseTurn)
	d.field("segments")
	r.Segments = list(d, func() (s SegmentRef) {
		d.begin('[')
		s.Name, s.Count, s.Bytes, s.Raw, s.SHA256 = d.segmentName(), d.int(), d.int(), d.int(), d.hash()
		d.end(']')
		return s
	})
	d.field("retired")
	r.Retired = list(d, func() (t Retired) {
		d.begin('[')
		t.Name, t.At = d.segmentName(), d.int()
		d.end(']')
		return t
	})
	d.field("tail")
	r.Tail = d.base64()
	d.field("tree")
	s.Tree = parsed(d, segment.ParseTree)
	d.field("lease")
	if !d.null() {
		d.begin('{')
		r.Lease = &Lease{Until: d.fieldInt("until")}
		d.end('}')
	}
}

func (d *decoder) origin() *Origin {
	d.field("origin")
	d.begin('{')
	o := &Origin{Kind: d.fieldStr("kind"), Inherited: d.fieldInt("inherited")}
	d.field("parent")
	if !d.null() {
		d.begin('{')
		o.Parent = &Parent{Log: d.fieldStr("log"), UID: d.fieldStr("uid"), UpTo: d.fieldInt("upTo")}
		d.field("root")
		o.Parent.Root = d.hash()
		d.end('}')
	}
	d.end('}')
	return o
}

func (d *decoder) lifecycle() *Lifecycle {
	d.field("lifecycle")
	d.begin('{')
	l := &Lifecycle{
		Kind: d.fieldStr("kind"), Inherited: d.fieldInt("inherited"), Closers: d.fieldInt("closers"),
		First: d.fieldInt("first"), At: d.fieldInt("at"),
	}
	d.end('}')
	return l
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
