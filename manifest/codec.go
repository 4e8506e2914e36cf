package manifest

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"

	"github.com/s3log/s3log/segment"
)

// The stored form is one JSON object without white space, in the field order of
// appendFields, and a newline. "sum" is its last member: CRC-32C over all bytes
// before the comma in front of it, so that the sum and what follows it have a
// fixed length. It finds accidents, not forgery.
//
// There is exactly one spelling of every record (header and unknown members
// are kept as they came): Decode refuses any other.
//
// A manifest that is open has all known members, null where there is nothing; a
// tombstone and a void have only those that their state has.
const (
	formatName = "s3log.manifest"
	head       = `{"format":"` + formatName + `","version":` // then the version, in every version
	sumStart   = `,"sum":"`
	sumEnd     = "\"}\n"
	sumLen     = len(sumStart) + 8 + len(sumEnd)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fields are the names of all known members in their order. No unknown member
// has one of these names, in whatever state.
var fields = []string{
	"format", "version", "critical", "log", "uid", "header", "state", "revision", "epoch", "commit",
	"owner", "generations", "keys", "next", "lastTime", "maxTime", "activity", "activityRule",
	"origin", "lifecycle", "boundary", "types", "turn", "segments", "retired", "tail", "tree", "lease", "sum",
}

// AppendTo appends the stored form of r. It validates r first: what is too
// large for a manifest is ErrTooLarge, and any other broken rule a mistake of
// this module, which matches no sentinel. On an error dst is returned as it was.
func (r *Record) AppendTo(dst []byte) ([]byte, error) {
	if err := r.Validate(); err != nil {
		if errors.Is(err, segment.ErrTooLarge) {
			return dst, err
		}
		// A rule that segment states is worded as damage; here it is a mistake.
		return dst, fmt.Errorf("manifest: record not fit to be stored: %s", err.Error())
	}
	out := r.appendSealed(slices.Grow(dst, r.sizeHint()))
	if n, limit := len(out)-len(dst), r.sizeLimit(); n > limit {
		return dst, tooLarge("manifest", n, limit)
	}
	return out, nil
}

// Encode returns the stored form of r: AppendTo into memory of its own.
func (r *Record) Encode() ([]byte, error) { return r.AppendTo(nil) }

// sizeLimit bounds the stored form, by state.
func (r *Record) sizeLimit() int {
	if r.State == StateOpen {
		return MaxManifest
	}
	return MaxTombstone
}

// sizeHint estimates the stored form from above in all but odd cases, so that
// encoding allocates once.
func (r *Record) sizeHint() int {
	n := 2048 + 2*len(r.Log) + len(r.Header) + len(r.Unknown) + base64.StdEncoding.EncodedLen(len(r.Tail)) +
		112*len(r.Generations) + 72*len(r.Keys) + 176*len(r.Segments) + 80*len(r.Retired) +
		67*len(r.Content.Tree.Range)
	for i := range r.Content.Types.Entries {
		n += len(r.Content.Types.Entries[i].Type) + 40
	}
	if t := r.Content.Turn; t != nil {
		for i := range t.Calls {
			n += len(t.Calls[i].ID) + 32
		}
	}
	return n
}

// appendSealed appends the stored form of whatever r is.
func (r *Record) appendSealed(dst []byte) []byte {
	start := len(dst)
	dst = r.appendFields(dst)
	sum := crc32.Checksum(dst[start:], castagnoli)
	dst = append(dst, sumStart...)
	dst = hex.AppendEncode(dst, []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
	return append(dst, sumEnd...)
}

// appendFields appends everything before the sum's comma.
func (r *Record) appendFields(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, head...), int64(r.Version), 10)
	dst = append(dst, `,"critical":[`...)
	for i, name := range r.Critical {
		dst = segment.AppendString(comma(dst, i), name)
	}
	dst = segment.AppendString(append(dst, `],"log":`...), r.Log)
	if r.State != StateVoid {
		dst = segment.AppendString(append(dst, `,"uid":`...), r.UID)
	}
	if r.State == StateOpen {
		dst = append(dst, `,"header":`...)
		if r.Header == nil {
			dst = append(dst, "null"...)
		}
		dst = append(dst, r.Header...)
	}
	dst = segment.AppendString(append(dst, `,"state":`...), string(r.State))
	dst = strconv.AppendInt(append(dst, `,"revision":`...), r.Revision, 10)
	dst = strconv.AppendUint(append(dst, `,"epoch":`...), uint64(r.Epoch), 10)
	dst = r.Commit.appendJSON(append(dst, `,"commit":`...))
	if r.State != StateVoid {
		dst = r.appendOwnership(dst)
	}
	if r.State == StateOpen {
		dst = r.appendContent(dst)
	}
	if len(r.Unknown) > 0 {
		dst = append(append(dst, ','), r.Unknown...)
	}
	return dst
}

// appendOwnership appends owner to next: what a tombstone has, too.
func (r *Record) appendOwnership(dst []byte) []byte {
	dst = r.Owner.appendJSON(append(dst, `,"owner":`...))
	dst = append(dst, `,"generations":[`...)
	for i := range r.Generations {
		dst = r.Generations[i].appendJSON(comma(dst, i))
	}
	dst = append(dst, `],"keys":[`...)
	for i := range r.Keys {
		dst = r.Keys[i].appendJSON(comma(dst, i))
	}
	return strconv.AppendInt(append(dst, `],"next":`...), r.Next, 10)
}

// appendContent appends lastTime to lease: what only an open log has.
func (r *Record) appendContent(dst []byte) []byte {
	s := &r.Content
	dst = appendIntOrNull(append(dst, `,"lastTime":`...), s.LastTime)
	dst = appendIntOrNull(append(dst, `,"maxTime":`...), s.MaxTime)
	dst = appendIntOrNull(append(dst, `,"activity":`...), s.Activity)
	dst = segment.AppendString(append(dst, `,"activityRule":`...), r.ActivityRule)
	dst = r.Origin.appendJSON(append(dst, `,"origin":`...))
	dst = r.Lifecycle.appendJSON(append(dst, `,"lifecycle":`...))
	dst = s.Boundary.AppendJSON(append(dst, `,"boundary":`...))
	dst = s.Types.AppendJSON(append(dst, `,"types":`...))
	dst = s.Turn.AppendJSON(append(dst, `,"turn":`...))
	dst = append(dst, `,"segments":[`...)
	for i := range r.Segments {
		dst = r.Segments[i].appendJSON(comma(dst, i))
	}
	dst = append(dst, `],"retired":[`...)
	for i := range r.Retired {
		dst = r.Retired[i].appendJSON(comma(dst, i))
	}
	dst = append(dst, `],"tail":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, r.Tail)
	dst = s.Tree.AppendJSON(append(dst, `","tree":`...))
	dst = append(dst, `,"lease":`...)
	if r.Lease == nil {
		return append(dst, "null"...)
	}
	dst = strconv.AppendInt(append(dst, `{"until":`...), r.Lease.Until, 10)
	return append(dst, '}')
}

func (c *CommitInfo) appendJSON(dst []byte) []byte {
	dst = segment.AppendString(append(dst, `{"id":`...), c.ID)
	dst = segment.AppendString(append(dst, `,"writer":`...), c.Writer)
	dst = strconv.AppendInt(append(dst, `,"at":`...), c.At, 10)
	dst = segment.AppendString(append(dst, `,"software":`...), c.Software)
	return append(dst, '}')
}

func (o *Owner) appendJSON(dst []byte) []byte {
	dst = segment.AppendString(append(dst, `{"writer":`...), o.Writer)
	dst = strconv.AppendInt(append(dst, `,"generation":`...), o.Generation, 10)
	dst = segment.AppendString(append(dst, `,"label":`...), o.Label)
	dst = strconv.AppendBool(append(dst, `,"released":`...), o.Released)
	return append(dst, '}')
}

func (t *Takeover) appendJSON(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, '['), t.Generation, 10)
	dst = segment.AppendString(append(dst, ','), t.Writer)
	dst = segment.AppendString(append(dst, ','), t.Kind)
	dst = strconv.AppendInt(append(dst, ','), t.First, 10)
	dst = strconv.AppendInt(append(dst, ','), t.At, 10)
	return append(dst, ']')
}

func (k *KeyEntry) appendJSON(dst []byte) []byte {
	dst = segment.AppendString(append(dst, '['), k.Key)
	dst = strconv.AppendInt(append(dst, ','), k.First, 10)
	dst = strconv.AppendInt(append(dst, ','), k.Count, 10)
	dst = segment.AppendString(append(dst, ','), k.Digest)
	return append(dst, ']')
}

func (o *Origin) appendJSON(dst []byte) []byte {
	dst = segment.AppendString(append(dst, `{"kind":`...), o.Kind)
	dst = strconv.AppendInt(append(dst, `,"inherited":`...), o.Inherited, 10)
	dst = append(dst, `,"parent":`...)
	if p := o.Parent; p == nil {
		dst = append(dst, "null"...)
	} else {
		dst = segment.AppendString(append(dst, `{"log":`...), p.Log)
		dst = segment.AppendString(append(dst, `,"uid":`...), p.UID)
		dst = strconv.AppendInt(append(dst, `,"upTo":`...), p.UpTo, 10)
		dst = hex.AppendEncode(append(dst, `,"root":"`...), p.Root[:])
		dst = append(dst, `"}`...)
	}
	return append(dst, '}')
}

func (l *Lifecycle) appendJSON(dst []byte) []byte {
	dst = segment.AppendString(append(dst, `{"kind":`...), l.Kind)
	dst = strconv.AppendInt(append(dst, `,"inherited":`...), l.Inherited, 10)
	dst = strconv.AppendInt(append(dst, `,"closers":`...), l.Closers, 10)
	dst = strconv.AppendInt(append(dst, `,"first":`...), l.First, 10)
	dst = strconv.AppendInt(append(dst, `,"at":`...), l.At, 10)
	return append(dst, '}')
}

func (s *SegmentRef) appendJSON(dst []byte) []byte {
	dst = s.Name.AppendTo(append(dst, `["`...))
	dst = strconv.AppendInt(append(dst, `",`...), s.Count, 10)
	dst = strconv.AppendInt(append(dst, ','), s.Bytes, 10)
	dst = strconv.AppendInt(append(dst, ','), s.Raw, 10)
	dst = hex.AppendEncode(append(dst, `,"`...), s.SHA256[:])
	return append(dst, `"]`...)
}

func (t *Retired) appendJSON(dst []byte) []byte {
	dst = t.Name.AppendTo(append(dst, `["`...))
	dst = strconv.AppendInt(append(dst, `",`...), t.At, 10)
	return append(dst, ']')
}

// comma separates the i-th element of a list from the one before it.
func comma(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return dst
}

func appendIntOrNull(dst []byte, v *int64) []byte {
	if v == nil {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, *v, 10)
}
