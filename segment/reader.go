package segment

import (
	"fmt"
	"io"
	"iter"
	"sort"
)

// openLength is how many bytes of a segment's end Open reads at first. Indexes
// are longer only in logs of unusually many types or open calls, and in
// segments of more than about a thousand frames.
const openLength = 64 << 10

// Reader reads a segment. What it returns has been checked as far as the
// segment itself allows: lengths, counts, checksums, continuity of seqs. It does
// not look into the lines, and it cannot tell a segment from another valid one:
// that is for the caller, who knows the object's SHA-256 and its place in the
// log. It is used, and uses its codec, by one goroutine at a time.
type Reader struct {
	codec *Codec
	src   io.ReaderAt
	size  int64
	index *Index
	end   []byte // the last bytes of the segment, or all, kept for the frames in them
	ends  []int  // of the lines of a frame, kept to be used again
}

// Open reads the index of a segment of size bytes: by one ReadAt of its last 64
// KiB or less, and a second one if the index begins before that. Frames that lie
// within these bytes are not read again.
//
// Damage is ErrCorrupt, an index of a higher version ErrUnsupportedVersion. An
// error of src is returned wrapped and means neither, except for an io.EOF: it
// says that the object is shorter than size and is ErrCorrupt, too.
func Open(c *Codec, src io.ReaderAt, size int64) (*Reader, error) {
	if size < int64(minSegmentSize) {
		return nil, tooSmall(size)
	}
	r := &Reader{codec: c, src: src, size: size}
	var err error
	if r.end, err = r.read(max(0, size-openLength), size); err != nil {
		return nil, err
	}
	return r.open()
}

// OpenBytes is Open for a segment in memory. The reader refers to object.
func OpenBytes(c *Codec, object []byte) (*Reader, error) {
	if len(object) < minSegmentSize {
		return nil, tooSmall(int64(len(object)))
	}
	r := &Reader{codec: c, size: int64(len(object)), end: object} // src is never needed
	return r.open()
}

func tooSmall(size int64) error {
	return corruptf("a segment of %d bytes, the smallest has %d", size, minSegmentSize)
}

// open reads the index.
func (r *Reader) open() (*Reader, error) {
	t, err := parseTrailer(r.end, r.size)
	if err != nil {
		return nil, err
	}
	length := int64(skippableSize+trailerSize) + t.indexLength
	if missing := length - int64(len(r.end)); missing > 0 {
		begin, err := r.read(r.size-length, r.size-length+missing)
		if err != nil {
			return nil, err
		}
		r.end = append(begin, r.end...)
	}
	if r.index, err = parseSkippable(r.end[int64(len(r.end))-length:], t); err != nil {
		return nil, err
	}
	if end := r.index.end(); end != r.size-length {
		return nil, corruptf("the frames end at byte %d, the frame around the index begins at %d", end, r.size-length)
	}
	return r, nil
}

// With is a reader of the same segment that uses another codec. The two may be used
// at the same time if their source may.
func (r *Reader) With(c *Codec) *Reader {
	other := *r
	other.codec, other.ends = c, nil
	return &other
}

// Index returns the index. It must not be modified.
func (r *Reader) Index() *Index { return r.index }

// Find returns the number of the frame that holds the event at seq, or -1 if
// the segment does not.
func (r *Reader) Find(seq int64) int {
	if seq < r.index.First || seq >= r.index.Next() {
		return -1
	}
	frames := r.index.Frames
	return sort.Search(len(frames), func(i int) bool { return frames[i].First > seq }) - 1
}

// Frame returns the lines of frame i, each with its LF; see Lines. It takes one
// ReadAt.
func (r *Reader) Frame(i int) ([]byte, error) { return r.Frames(i, i+1) }

// FrameInto is Frame into buffers of the caller's, which it overwrites and replaces
// where they are too small. lineEnds says where in raw the LF of each line is. On
// an error they come back with nothing in them.
func (r *Reader) FrameInto(buf []byte, ends []int, i int) (raw []byte, lineEnds []int, err error) {
	r.ends = ends
	raw, err = r.appendFrames(buf[:0], i, i+1)
	if lineEnds = r.ends; err != nil {
		lineEnds = lineEnds[:0]
	}
	r.ends = nil
	return raw, lineEnds, err
}

// Frames returns the lines of the frames i up to but not including j, read by
// one ReadAt. Nothing is returned unless all of them are intact; the error is
// ErrCorrupt, or that of the source. It panics if i and j are no range of frames.
func (r *Reader) Frames(i, j int) ([]byte, error) {
	raw, err := r.appendFrames(nil, i, j)
	if err != nil {
		return nil, err
	}
	return raw, nil
}

// Lines iterates over the lines from seq to the end of the segment, without
// their LFs, frame by frame. A line is valid until the iteration goes on. After
// an error, which is one of Frames, the iteration ends.
func (r *Reader) Lines(seq int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		first := r.Find(max(seq, r.index.First))
		if first < 0 {
			return
		}
		var raw []byte
		for i, f := range r.index.Frames[first:] {
			var err error
			if raw, err = r.appendFrames(raw[:0], first+i, first+i+1); err != nil {
				yield(nil, err)
				return
			}
			at := f.First
			for line := range Lines(raw) { // without errors: they have been counted
				if at >= seq && !yield(line, nil) {
					return
				}
				at++
			}
		}
	}
}

// appendFrames appends the lines of the frames i up to but not including j. On
// an error dst is returned as it was.
func (r *Reader) appendFrames(dst []byte, i, j int) ([]byte, error) {
	frames := r.index.Frames[i:j]
	if len(frames) == 0 {
		return dst, nil
	}
	from, last := frames[0].Offset, frames[len(frames)-1]
	data, err := r.read(from, last.Offset+last.Length)
	if err != nil {
		return dst, fmt.Errorf("frames %d to %d: %w", i, j-1, err)
	}
	stored := func(f Frame) []byte { return data[f.Offset-from:][:f.Length] }

	// The frames' own headers bound what is allocated, not the index alone.
	infos := make([]frameInfo, len(frames))
	total := 0
	for n, f := range frames {
		if infos[n], err = scanWhole(stored(f)); err == nil && int64(infos[n].content) != f.RawLength {
			err = fmt.Errorf("it declares %d raw bytes, the index says %d", infos[n].content, f.RawLength)
		}
		if err != nil {
			return dst, f.damaged(i+n, err)
		}
		total += infos[n].content
	}
	out := grow(dst, total)
	for n, f := range frames {
		before := len(out)
		if out, err = r.codec.decode(out, stored(f), infos[n]); err == nil {
			r.ends, err = f.lineEnds(r.ends, out[before:])
		}
		if err != nil {
			return dst, f.damaged(i+n, err)
		}
	}
	return out, nil
}

func (f Frame) damaged(i int, err error) error {
	return corruptf("frame %d at byte %d, seq %d to %d: %w", i, f.Offset, f.First, f.First+f.Count-1, err)
}

// lineEnds finds the ends of the lines, and compares their number with the index.
func (f Frame) lineEnds(ends []int, raw []byte) ([]int, error) {
	ends, err := AppendLineEnds(ends[:0], raw)
	if n := int64(len(ends)); err == nil && n != f.Count {
		err = fmt.Errorf("%d events, the index says %d", n, f.Count)
	}
	return ends, err
}

// read returns the bytes from from up to but not including to. They are taken
// from the last bytes of the segment that were read already, if they are all there.
func (r *Reader) read(from, to int64) ([]byte, error) {
	if begin := r.size - int64(len(r.end)); from >= begin && len(r.end) > 0 {
		return r.end[from-begin : to-begin], nil
	}
	b := make([]byte, to-from)
	n, err := r.src.ReadAt(b, from)
	switch {
	case n == len(b):
		return b, nil
	case err == nil:
		err = io.ErrUnexpectedEOF // against the rules of io.ReaderAt
	case err == io.EOF: // not one within the error of a connection that broke
		return nil, corruptf("the object ends at byte %d, before its size of %d", from+int64(n), r.size)
	}
	return nil, fmt.Errorf("reading bytes %d to %d: %w", from, to-1, err)
}
