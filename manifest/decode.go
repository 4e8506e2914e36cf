package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"

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
		r.Header = d.objectOrNull()
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
