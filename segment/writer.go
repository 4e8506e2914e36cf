package segment

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"slices"
)

// Writer builds a segment from event lines. It closes a frame as soon as it is
// full, so it holds the bytes of the segment and the raw bytes of one frame.
// After its first error it refuses everything else with that error. It uses its
// codec, and is used, by one goroutine at a time.
type Writer struct {
	codec    *Codec
	level    Level
	frameRaw int
	first    int64

	out    []byte
	frames []Frame
	raw    []byte // the open frame
	lines  int64  // in the open frame
	next   int64
	sum    hash.Hash // SHA-256 of all raw bytes
	err    error
}

// Footer is what a segment's index says beside where its frames are. See Index.
type Footer struct {
	Nonce          string
	State          State
	UID, Log       string
	Origin, Header []byte
}

var errFinished = errors.New("segment: the writer is finished")

// NewWriter returns a writer of a segment whose first event has seq first. Its
// frames hold up to frameRaw raw bytes (FrameRaw, or MergedFrameRaw), or one
// event that is larger.
func NewWriter(c *Codec, level Level, frameRaw int, first int64) *Writer {
	return &Writer{codec: c, level: level, frameRaw: frameRaw, first: first, next: first, sum: sha256.New()}
}

// Add appends the line of the next event, without its LF. The line is copied.
func (w *Writer) Add(line []byte) error {
	switch {
	case w.err != nil:
		return w.err
	case len(line) == 0 || bytes.IndexByte(line, '\n') >= 0:
		return w.fail(fmt.Errorf("%w: seq %d is not exactly one line", ErrInvalidEvent, w.next))
	case len(line) >= MaxFrameRaw:
		return w.fail(fmt.Errorf("%w: seq %d has %d bytes, at most %d are allowed", ErrTooLarge, w.next, len(line), MaxFrameRaw-1))
	case w.next > MaxSeq:
		return w.fail(fmt.Errorf("%w: no seq after %d", ErrTooLarge, MaxSeq))
	}
	if w.lines > 0 && len(w.raw)+len(line)+1 > w.frameRaw {
		if err := w.closeFrame(); err != nil {
			return err
		}
	}
	w.raw = append(append(w.raw, line...), '\n')
	w.lines++
	w.next++
	if len(w.raw) >= w.frameRaw {
		return w.closeFrame()
	}
	return nil
}

// Grow makes room for n bytes of the segment, so that they are not moved while it
// grows.
func (w *Writer) Grow(n int) { w.out = slices.Grow(w.out, n) }

// Len returns the bytes of the closed frames.
func (w *Writer) Len() int { return len(w.out) }

// First returns the seq of the segment's first event.
func (w *Writer) First() int64 { return w.first }

// Next returns the seq that the next added line gets.
func (w *Writer) Next() int64 { return w.next }

func (w *Writer) closeFrame() error {
	if len(w.frames) == MaxFrames {
		return w.fail(fmt.Errorf("%w: more than %d frames in a segment", ErrTooLarge, MaxFrames))
	}
	offset := len(w.out)
	out, err := w.codec.EncodeFrame(w.out, w.raw, w.level)
	if err != nil {
		return w.fail(err)
	}
	w.out = out
	w.sum.Write(w.raw)
	w.frames = append(w.frames, Frame{
		Offset:    int64(offset),
		Length:    int64(len(out) - offset),
		First:     w.next - w.lines,
		Count:     w.lines,
		RawLength: int64(len(w.raw)),
	})
	if w.raw = w.raw[:0]; cap(w.raw) > 2*w.frameRaw {
		w.raw = nil // an event of unusual size does not keep its buffer
	}
	w.lines = 0
	return nil
}

// Finish ends the segment with its index and returns its bytes and the index as
// a reader sees it. Before that it opens what it has made, decodes every frame
// and compares with what was added: only a segment that can be read is
// returned. At least one event must have been added. A footer that cannot be
// right, such as the state of another place, is ErrCorrupt: with it the segment
// would be damaged.
func (w *Writer) Finish(f Footer) ([]byte, *Index, error) {
	if w.err != nil {
		return nil, nil, w.err
	}
	if w.lines > 0 {
		if err := w.closeFrame(); err != nil {
			return nil, nil, err
		}
	}
	x := &Index{
		Version: indexVersion, First: w.first, Count: w.next - w.first, Nonce: f.Nonce, Frames: w.frames,
		State: f.State, UID: f.UID, Log: f.Log, Origin: f.Origin, Header: f.Header,
	}
	if err := x.Validate(); err != nil {
		return nil, nil, w.fail(fmt.Errorf("a segment cannot have this index: %w", err))
	}
	indexJSON := x.appendJSON(nil) // within MaxIndex, which holds every bound at once
	w.out = appendSkippable(w.out, indexJSON)
	read, err := w.verify(indexJSON)
	if err != nil {
		return nil, nil, w.fail(fmt.Errorf("the segment just made does not read back: %w", err))
	}
	object := w.out
	w.out, w.raw = nil, nil
	w.err = errFinished
	return object, read, nil
}

// verify reads the finished segment and compares it with what was put in.
func (w *Writer) verify(indexJSON []byte) (*Index, error) {
	r, err := OpenBytes(w.codec, w.out)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(r.index.appendJSON(nil), indexJSON) {
		return nil, corruptf("its index is another one")
	}
	sum := sha256.New()
	raw := w.raw[:0]
	for i := range r.index.Frames {
		if raw, err = r.appendFrames(raw[:0], i, i+1); err != nil {
			return nil, err
		}
		sum.Write(raw)
	}
	if !bytes.Equal(sum.Sum(nil), w.sum.Sum(nil)) {
		return nil, corruptf("its events are others")
	}
	return r.index, nil
}

func (w *Writer) fail(err error) error {
	w.err = err
	w.out, w.raw = nil, nil
	return err
}
