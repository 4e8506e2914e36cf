package sessionfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/s3log/s3log/segment"
)

// DefaultMaxLine is the greatest length of a line in bytes, unless options say
// otherwise.
const DefaultMaxLine = 64 << 20

// maxWindow is the greatest window of a zstd frame that is read, as much as the
// zstd command accepts without being told to. Frames with a larger one are
// refused: their decoder would take that much memory.
const maxWindow = 128 << 20

// lineReader cuts an input, compressed or not, into lines.
type lineReader struct {
	src    source
	buf    []byte // bytes read and not yet yielded are buf[start:end]
	start  int
	end    int
	err    error // why src has no more; io.EOF at a proper end
	max    int   // bytes of a line
	number int   // of the line yielded last, from 1
}

// textLine is one line as it stands in the input.
type textLine struct {
	text  []byte // without the LF; valid until the next call
	whole bool   // it ended in LF
	size  int    // bytes, with the LF
}

const bufferSize = 64 << 10

func newLineReader(r io.Reader, max int) (*lineReader, error) {
	l := &lineReader{max: max, buf: make([]byte, bufferSize)}
	return l, l.src.open(r)
}

// next yields the next line. At the proper end of the input the error is
// io.EOF. At any other end, what is left without an LF is yielded first, then
// follows a *LineError, or the error of the input's reader.
func (l *lineReader) next() (textLine, error) {
	searched := l.start
	for {
		lf := bytes.IndexByte(l.buf[searched:l.end], '\n')
		end := l.end
		if lf >= 0 {
			end = searched + lf
		}
		switch {
		case end-l.start > l.max:
			f := flaw{fmt.Sprintf("more than %d bytes", l.max), segment.ErrTooLarge}
			return textLine{}, f.at(l.number + 1)
		case lf >= 0:
			return l.yield(end, 1), nil
		case l.err != nil && l.start < l.end:
			return l.yield(end, 0), nil
		case l.err != nil:
			return textLine{}, l.ended(l.number + 1)
		}
		searched = l.end
		searched -= l.fill()
	}
}

// yield takes the line up to end, which n bytes of line end follow.
func (l *lineReader) yield(end, n int) textLine {
	text := l.buf[l.start:end:end]
	l.number++
	l.start = end + n
	return textLine{text, n > 0, len(text) + n}
}

// fill reads once, making room before. It returns by how much the buffered
// bytes moved to the front.
func (l *lineReader) fill() (moved int) {
	if l.end == len(l.buf) {
		moved = l.start
		to := l.buf
		if moved <= len(l.buf)/2 && len(l.buf) < l.max+bufferSize {
			to = make([]byte, min(2*len(l.buf), l.max+bufferSize))
		}
		copy(to, l.buf[l.start:l.end])
		l.buf, l.start, l.end = to, 0, l.end-moved
	}
	for range 100 {
		n, err := l.src.Read(l.buf[l.end:])
		l.end += n
		l.err = err
		if n > 0 || err != nil {
			return moved
		}
	}
	l.err = io.ErrNoProgress
	return moved
}

// ended explains why there is nothing after the given line's beginning.
func (l *lineReader) ended(line int) error {
	if l.err == io.EOF {
		return io.EOF
	}
	if f := l.src.explain(l.err); f != nil {
		return f.at(line)
	}
	return fmt.Errorf("reading line %d: %w", line, l.err)
}

// discard reads to the end, however that comes, and returns how many lines and
// bytes there were.
func (l *lineReader) discard() (lines int, n int64) {
	inLine := false
	for {
		rest := l.buf[l.start:l.end]
		n += int64(len(rest))
		lines += bytes.Count(rest, []byte{'\n'})
		if len(rest) > 0 {
			inLine = rest[len(rest)-1] != '\n'
		}
		l.start, l.end = 0, 0
		if l.err != nil {
			break
		}
		l.fill()
	}
	if inLine {
		lines++
	}
	return lines, n
}

// source is the text of the input, inflated if it is compressed.
type source struct {
	in   *bufio.Reader
	text io.Reader // in, or a decoder over it
	zstd bool
	fail error // what the input's own reader said, apart from io.EOF
}

func (s *source) open(r io.Reader) error {
	s.in = bufio.NewReaderSize(watch{r, &s.fail}, bufferSize)
	s.text = s.in
	magic, err := s.in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading line 1: %w", err)
	}
	if !isZstd(magic) {
		return nil
	}
	s.zstd = true
	// One block after the other in the caller's goroutine: there is then
	// nothing to close.
	s.text, err = zstd.NewReader(s.in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecodeBuffersBelow(0))
	return err
}

// isZstd knows the magic numbers of zstd frames and of skippable frames.
func isZstd(magic []byte) bool {
	if len(magic) < 4 {
		return false
	}
	frame := magic[0] == 0x28 && magic[1] == 0xb5 && magic[2] == 0x2f && magic[3] == 0xfd
	skippable := magic[0]&0xf0 == 0x50 && magic[1] == 0x2a && magic[2] == 0x4d && magic[3] == 0x18
	return frame || skippable
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.text.Read(p)
	if err == io.EOF && s.fail != nil {
		err = s.fail // a decoder may take it for the end if it comes between frames
	}
	return n, err
}

// explain tells what is wrong with the input if err comes from its contents,
// nil if it comes from its reader.
func (s *source) explain(err error) *flaw {
	switch {
	case !s.zstd, s.fail != nil:
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &flaw{"the input ends within a zstd frame", ErrTorn}
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		// The decoder says the same of a block that is larger than its window.
		return &flaw{fmt.Sprintf("a zstd frame's window of more than %d bytes, or less than its blocks need", maxWindow), segment.ErrTooLarge}
	}
	return corrupt("zstd: %s", printable(err.Error()))
}

// watch remembers an error of r, so that it is not taken for one of the
// contents.
type watch struct {
	r    io.Reader
	fail *error
}

func (w watch) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && err != io.EOF {
		*w.fail = err
	}
	return n, err
}
