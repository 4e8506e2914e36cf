package backend

import (
	"encoding/base64"
	"fmt"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

const (
	// sealSoft and sealHard are sizes of the tail as the manifest holds it, in
	// base64: at the first it is sealed in the background, beyond the second no
	// commit goes (docs/format.md).
	sealSoft = 48 << 10
	sealHard = manifest.MaxTail
	// maxTailRaw bounds the events of a tail, inflated, and with that what a
	// reader of a manifest has to hold: a manifest that compresses a thousand to
	// one is not refused, but sealed.
	maxTailRaw = 8 << 20
)

// frame is a part of a tail: whole lines, and their zstd frames.
type frame struct {
	first, count int64
	raw          []byte // lines, each with LF
	enc          []byte // one zstd frame, or several of a tail that was read
}

// tail is the newest events of a log as its writer holds them. It is a value:
// methods return a new tail and leave the old one, since a commit may fail.
type tail struct {
	first  int64 // seq of its first event
	frames []frame
	// barrier is the seq before which a seal is under way: frames are not joined
	// across it.
	barrier int64
}

// readTail takes the tail out of a manifest. Damage is ErrCorrupt.
func readTail(c *segment.Codec, r *manifest.Record) (tail, error) {
	t := tail{first: r.TailFirst()}
	if len(r.Tail) == 0 {
		return t, nil
	}
	raw, err := c.DecodeFrames(r.Tail, maxTailRaw)
	if err != nil {
		return tail{}, fmt.Errorf("the manifest's tail: %w", err)
	}
	n, err := countEvents(raw)
	if err == nil && n != r.Next-t.first {
		err = fmt.Errorf("%w: %d events", segment.ErrCorrupt, n)
	}
	if err != nil {
		return tail{}, fmt.Errorf("the manifest's tail, seqs %d to %d: %w", t.first, r.Next-1, err)
	}
	t.frames = []frame{{first: t.first, count: n, raw: raw, enc: r.Tail}}
	return t, nil
}

func countEvents(raw []byte) (n int64, err error) {
	for _, err := range segment.Lines(raw) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// next is the seq after its last event.
func (t tail) next() int64 {
	if n := len(t.frames); n > 0 {
		return t.frames[n-1].first + t.frames[n-1].count
	}
	return t.first
}

// raw is the number of bytes of its lines.
func (t tail) raw() (n int) {
	for _, f := range t.frames {
		n += len(f.raw)
	}
	return n
}

// encoded is the size that the manifest will show: base64.
func (t tail) encoded() int {
	n := 0
	for _, f := range t.frames {
		n += len(f.enc)
	}
	return base64.StdEncoding.EncodedLen(n)
}

// over reports whether no manifest may hold it.
func (t tail) over(limit int) bool { return t.encoded() > limit || t.raw() > maxTailRaw }

// bytes are the frames for the manifest.
func (t tail) bytes() []byte {
	if len(t.frames) == 0 {
		return nil
	}
	n := 0
	for _, f := range t.frames {
		n += len(f.enc)
	}
	b := make([]byte, 0, n)
	for _, f := range t.frames {
		b = append(b, f.enc...)
	}
	return b
}

// add returns the tail with a batch of lines behind it. As in a binary counter,
// the batch is joined with the frames before it that are not larger than what
// has been joined so far: an event is encoded again about log2 times, not once
// for every later append, and the frames grow until compression is good.
func (t tail) add(c *segment.Codec, raw []byte, count int64) (tail, error) {
	if count == 0 {
		return t, nil
	}
	f := frame{first: t.next(), count: count, raw: raw}
	keep := len(t.frames)
	joined := len(raw)
	for keep > 0 {
		prev := t.frames[keep-1]
		if prev.first < t.barrier || len(prev.raw) > 2*joined || len(prev.raw)+joined > segment.FrameRaw {
			break
		}
		joined += len(prev.raw)
		keep--
	}
	if keep < len(t.frames) {
		f.raw = make([]byte, 0, joined)
		for _, prev := range t.frames[keep:] {
			f.raw = append(f.raw, prev.raw...)
		}
		f.raw = append(f.raw, raw...)
		f.count += f.first - t.frames[keep].first
		f.first = t.frames[keep].first
	}
	var err error
	if f.enc, err = c.EncodeFrame(nil, f.raw, segment.LevelFast); err != nil {
		return t, err
	}
	t.frames = append(t.frames[:keep:keep], f)
	return t, nil
}

// from returns the tail without the events before seq, which must be where a
// frame begins, or its end.
func (t tail) from(seq int64) (tail, error) {
	i := 0
	for i < len(t.frames) && t.frames[i].first < seq {
		i++
	}
	if i < len(t.frames) && t.frames[i].first != seq || i == len(t.frames) && t.next() != seq {
		return t, fmt.Errorf("tail of seqs %d to %d has no frame that begins at %d", t.first, t.next()-1, seq)
	}
	return tail{first: seq, frames: t.frames[i:], barrier: t.barrier}, nil
}
