package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A segment is an object of this shape:
//
//	┌─────────┬─────────┬─┄─┬─────────┬──────────────────────────────────────┐
//	│ frame 0 │ frame 1 │   │ frame n │ skippable frame                      │
//	└─────────┴─────────┴─┄─┴─────────┼───────┬──────┬────────────┬──────────┤
//	                                  │ magic │ size │ index JSON │ trailer  │
//	                                  │ 4     │ 4    │            │ 16       │
//	                                  └───────┴──────┴────────────┴──────────┘
//	magic    5d 2a 4d 18
//	size     u32 LE, bytes of index JSON and trailer
//	trailer  bytes of the index JSON (u32 LE) · CRC-32C of it (u32 LE) · "S3LOGSEG"
//
// zstd tools pass over the skippable frame, so that they print the events and
// nothing else.
//
// What is covered by what: the CRC-32C covers the index JSON. Magic, size and
// trailer have only one value that agrees with the rest. The frames must fill
// what is before the skippable frame, and each has a checksum of its content.
// Not covered is what a decoder does not use inside the blocks of a frame
// (padding of entropy tables, codes of symbols that do not occur): there a
// changed bit leaves every event as it is, and only the SHA-256 of the object,
// which the manifest holds, tells.
const (
	indexFormat    = "s3log.segment"
	indexVersion   = 1
	indexMagic     = 0x184D2A5D
	skippableSize  = 4 + 4 // magic and size
	trailerSize    = 4 + 4 + len(trailerMagic)
	trailerMagic   = "S3LOGSEG"
	minSegmentSize = minFrame + skippableSize + trailerSize
)

// Bounds of an index.
const (
	// MaxIndex bounds the bytes of an index JSON.
	MaxIndex = 1 << 20
	// MaxFrames bounds the frames of a segment. Two frames in a row hold more
	// than FrameRaw raw bytes, so that no segment of a log comes near to it.
	MaxFrames = 8192

	nonceDigits = 16
	maxUID      = 64
	maxLogID    = 1024
	maxOrigin   = 16 << 10
	maxHeader   = 32 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Index is what a segment says about itself and its log.
type Index struct {
	Version int
	First   int64  // seq of the first event
	Count   int64  // events, at least one
	Nonce   string // 16 lower-case hex digits that name this encoding
	Frames  []Frame
	State   State // of the log after the segment's last event

	// What makes a log recognizable without its manifest, in the first segment
	// that the log encoded itself; empty in the others. Header is nil if the log
	// has none. Origin and Header are JSON objects, verbatim.
	UID, Log       string
	Origin, Header []byte
}

// Frame is the place of one frame in a segment, and what it holds.
type Frame struct {
	Offset    int64 // bytes from the beginning of the segment
	Length    int64 // bytes as stored
	First     int64 // seq of its first event
	Count     int64 // events
	RawLength int64 // bytes of its lines with their LFs
}

// Next returns the seq after the segment's last event.
func (x *Index) Next() int64 { return x.First + x.Count }

// RawLength returns the bytes of all lines with their LFs.
func (x *Index) RawLength() int64 {
	var n int64
	for _, f := range x.Frames {
		n += f.RawLength
	}
	return n
}

// end returns where the last frame ends.
func (x *Index) end() int64 {
	last := x.Frames[len(x.Frames)-1]
	return last.Offset + last.Length
}

// Validate checks all bounds and everything that one part of an index says
// about another. A failure is ErrCorrupt, a version above 1
// ErrUnsupportedVersion.
func (x *Index) Validate() error {
	switch {
	case x.Version > indexVersion:
		return unsupportedVersion(int64(x.Version))
	case x.Version != indexVersion:
		return corruptf("index: version %d", x.Version)
	case x.First < 0 || x.First > MaxSeq || x.Count < 1 || x.Count > MaxSeq+1-x.First:
		return corruptf("index: %d events from seq %d", x.Count, x.First)
	case !isLowerHex(x.Nonce, nonceDigits):
		return corruptf("index: nonce is not %d lower-case hex digits", nonceDigits)
	}
	if err := x.validateFrames(); err != nil {
		return err
	}
	if err := x.validateBirth(); err != nil {
		return err
	}
	if err := x.State.Validate(x.Next()); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	return nil
}

func (x *Index) validateFrames() error {
	if n := len(x.Frames); n < 1 || n > MaxFrames {
		return corruptf("index: %d frames, 1 to %d are allowed", n, MaxFrames)
	}
	offset, seq, left := int64(0), x.First, x.Count
	for i, f := range x.Frames {
		switch {
		case f.Offset != offset:
			return corruptf("index: frame %d is at byte %d, the one before it ends at %d", i, f.Offset, offset)
		case f.First != seq:
			return corruptf("index: frame %d begins with seq %d, the one before it ends before %d", i, f.First, seq)
		case f.Count < 1 || f.Count > left:
			return corruptf("index: frame %d has %d events, %d are left for it", i, f.Count, left)
		case f.RawLength > MaxFrameRaw || f.RawLength/2 < f.Count: // a line has a byte and its LF
			return corruptf("index: frame %d has %d raw bytes for %d events", i, f.RawLength, f.Count)
		case f.Length < minFrame || f.Length > f.RawLength+f.RawLength/64+64: // what cannot be compressed grows by less
			return corruptf("index: frame %d has %d bytes for %d raw bytes", i, f.Length, f.RawLength)
		}
		offset += f.Length
		seq += f.Count
		left -= f.Count
	}
	if left != 0 {
		return corruptf("index: its frames have %d of %d events", x.Count-left, x.Count)
	}
	return nil
}

func (x *Index) validateBirth() error {
	if x.UID == "" && x.Log == "" && x.Origin == nil && x.Header == nil {
		return nil
	}
	switch {
	case x.UID == "" || len(x.UID) > maxUID || !utf8.ValidString(x.UID):
		return corruptf("index: uid is missing or not a uid")
	case x.Log == "" || len(x.Log) > maxLogID || !utf8.ValidString(x.Log):
		return corruptf("index: log is missing or not an id of a log")
	case len(x.Origin) > maxOrigin || !isObject(x.Origin):
		return corruptf("index: origin is missing, too large or not an object")
	case x.Header != nil && (len(x.Header) > maxHeader || !isObject(x.Header)):
		return corruptf("index: header is too large or not an object")
	}
	return nil
}

// verbatim reads JSON that others wrote: its strings and names are not judged.
var verbatim = []jsontext.Options{jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)}

// isObject reports whether raw is one JSON object without white space around
// that can be a member of another.
func isObject(raw []byte) bool {
	if len(raw) < 2 || raw[0] != '{' || raw[len(raw)-1] != '}' || !utf8.Valid(raw) {
		return false
	}
	nested := jsontext.Value(slices.Concat([]byte(`{"":`), raw, []byte(`}`))) // one level deeper it must be valid, too
	return nested.IsValid(verbatim...)
}

// appendJSON appends the index JSON in the order that the format fixes.
func (x *Index) appendJSON(dst []byte) []byte {
	s := &x.State
	dst = append(dst, `{"format":"`+indexFormat+`","version":`...)
	dst = strconv.AppendInt(dst, int64(x.Version), 10)
	dst = strconv.AppendInt(append(dst, `,"first":`...), x.First, 10)
	dst = strconv.AppendInt(append(dst, `,"count":`...), x.Count, 10)
	dst = AppendString(append(dst, `,"nonce":`...), x.Nonce)
	dst = append(dst, `,"frames":[`...)
	for i, f := range x.Frames {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '[')
		for _, v := range [...]int64{f.Offset, f.Length, f.First, f.Count} {
			dst = append(strconv.AppendInt(dst, v, 10), ',')
		}
		dst = append(strconv.AppendInt(dst, f.RawLength, 10), ']')
	}
	dst = s.Types.AppendJSON(append(dst, `],"types":`...))
	dst = appendIntOrNull(append(dst, `,"lastTime":`...), s.LastTime)
	dst = appendIntOrNull(append(dst, `,"maxTime":`...), s.MaxTime)
	dst = appendIntOrNull(append(dst, `,"activity":`...), s.Activity)
	dst = s.Boundary.AppendJSON(append(dst, `,"boundary":`...))
	dst = s.Turn.AppendJSON(append(dst, `,"turn":`...))
	dst = s.Tree.AppendJSON(append(dst, `,"tree":`...))
	if x.Log != "" {
		dst = AppendString(append(dst, `,"uid":`...), x.UID)
		dst = AppendString(append(dst, `,"log":`...), x.Log)
		dst = append(append(dst, `,"origin":`...), x.Origin...)
		if x.Header != nil {
			dst = append(append(dst, `,"header":`...), x.Header...)
		}
	}
	return append(dst, '}')
}

// parseIndex is the inverse of appendJSON, for an index whose checksum is right.
// Members it does not know are ignored.
func parseIndex(raw []byte) (*Index, error) {
	members, err := indexMembers(raw)
	if err != nil {
		return nil, err
	}
	// Format and version keep place and meaning in every version, so they are
	// judged before anything else.
	r := memberReader{members: members}
	format := r.str("format")
	version := r.int("version")
	switch {
	case r.err != nil:
		return nil, r.err
	case format != indexFormat:
		return nil, corruptf("index: format %.40q", format)
	case version > indexVersion:
		return nil, unsupportedVersion(version)
	}
	x := &Index{
		Version: int(version),
		First:   r.int("first"),
		Count:   r.int("count"),
		Nonce:   r.str("nonce"),
		Frames:  memberAs(&r, "frames", parseFrames),
		State: State{
			Types:    memberAs(&r, "types", ParseTypes),
			LastTime: r.intOrNull("lastTime"),
			MaxTime:  r.intOrNull("maxTime"),
			Activity: r.intOrNull("activity"),
			Boundary: memberAs(&r, "boundary", ParseBoundary),
			Turn:     memberAs(&r, "turn", ParseTurn),
			Tree:     memberAs(&r, "tree", ParseTree),
		},
	}
	for _, name := range []string{"uid", "log", "origin", "header"} {
		if members[name] == nil {
			continue
		}
		switch name {
		case "uid":
			x.UID = r.str(name)
		case "log":
			x.Log = r.str(name)
		case "origin":
			x.Origin = bytes.Clone(members[name])
		case "header":
			x.Header = bytes.Clone(members[name])
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	if err := x.Validate(); err != nil {
		return nil, err
	}
	return x, nil
}

// indexMembers returns the raw values of the members of an index JSON.
func indexMembers(raw []byte) (map[string]jsontext.Value, error) {
	if !utf8.Valid(raw) {
		return nil, corruptf("index: not valid UTF-8")
	}
	// The header may have duplicate names and lone surrogates, the index itself
	// not; strings of ours are read strictly later.
	p := &parser{dec: jsontext.NewDecoder(bytes.NewBuffer(raw), verbatim...)}
	members := make(map[string]jsontext.Value)
	p.begin('{')
	for p.more('}') {
		name := p.str()
		if p.err != nil {
			break
		}
		if members[name] != nil {
			p.fail("member %.40q twice", name)
			break
		}
		v, err := p.dec.ReadValue()
		if err != nil {
			p.err = err
			break
		}
		members[name] = v.Clone()
	}
	p.end('}')
	return members, p.finish("index")
}

// memberReader reads members that must be there. The first failure sticks.
type memberReader struct {
	members map[string]jsontext.Value
	err     error
}

func memberAs[T any](r *memberReader, name string, parse func([]byte) (T, error)) T {
	var zero T
	if r.err != nil {
		return zero
	}
	raw := r.members[name]
	if raw == nil {
		r.err = corruptf("index: %s is missing", name)
		return zero
	}
	v, err := parse(raw)
	if err != nil {
		r.err = fmt.Errorf("index: %w", err)
		return zero
	}
	return v
}

func memberWith[T any](r *memberReader, name string, read func(*parser) T) T {
	return memberAs(r, name, func(raw []byte) (T, error) {
		p := newParser(raw)
		v := read(p)
		return v, p.finish(name)
	})
}

func (r *memberReader) str(name string) string { return memberWith(r, name, (*parser).str) }
func (r *memberReader) int(name string) int64  { return memberWith(r, name, (*parser).int) }
func (r *memberReader) intOrNull(name string) *int64 {
	return memberWith(r, name, (*parser).intOrNull)
}

func parseFrames(raw []byte) ([]Frame, error) {
	var frames []Frame
	p := newParser(raw)
	p.begin('[')
	for p.more(']') {
		if len(frames) == MaxFrames {
			p.fail("more than %d frames", MaxFrames)
			break
		}
		p.begin('[')
		frames = append(frames, Frame{Offset: p.int(), Length: p.int(), First: p.int(), Count: p.int(), RawLength: p.int()})
		p.end(']')
	}
	p.end(']')
	return frames, p.finish("frames")
}

func unsupportedVersion(v int64) error {
	return fmt.Errorf("%w: segment version %d, this program reads version %d", ErrUnsupportedVersion, v, indexVersion)
}

// appendSkippable appends the skippable frame with an index JSON.
func appendSkippable(dst, indexJSON []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, indexMagic)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(indexJSON)+trailerSize))
	dst = append(dst, indexJSON...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(indexJSON)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(indexJSON, castagnoli))
	return append(dst, trailerMagic...)
}

// trailer is the end of a segment.
type trailer struct {
	indexLength int64
	indexSum    uint32
}

// parseTrailer reads the end of a segment of size bytes, of which tail are the
// last ones.
func parseTrailer(tail []byte, size int64) (trailer, error) {
	if len(tail) < trailerSize || string(tail[len(tail)-len(trailerMagic):]) != trailerMagic {
		return trailer{}, corruptf("a segment does not end like this: it is cut off, something follows it, or it is none")
	}
	tail = tail[len(tail)-trailerSize:]
	t := trailer{int64(binary.LittleEndian.Uint32(tail)), binary.LittleEndian.Uint32(tail[4:])}
	if t.indexLength > MaxIndex || t.indexLength > size-skippableSize-int64(trailerSize) {
		return trailer{}, corruptf("trailer: an index of %d bytes in a segment of %d, at most %d are allowed", t.indexLength, size, MaxIndex)
	}
	return t, nil
}

// parseSkippable reads a skippable frame with an index and a trailer that was
// already read.
func parseSkippable(b []byte, t trailer) (*Index, error) {
	indexJSON := b[skippableSize : len(b)-trailerSize]
	if sum := crc32.Checksum(indexJSON, castagnoli); sum != t.indexSum {
		return nil, corruptf("index: checksum %08x, the trailer says %08x", sum, t.indexSum)
	}
	x, err := parseIndex(indexJSON)
	if err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint32(b) != indexMagic || int64(binary.LittleEndian.Uint32(b[4:])) != int64(len(b)-skippableSize) {
		return nil, corruptf("the frame around the index is not one of %d bytes", len(b)-skippableSize)
	}
	return x, nil
}
