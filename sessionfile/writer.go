package sessionfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/zstd"

	"github.com/s3log/s3log/segment"
)

// WriterOptions say in which form a file is written. The zero value writes
// plain lines, one per event.
type WriterOptions struct {
	// Pack writes runs of streamed output as packed rows.
	Pack bool
	// Zstd writes zstd frames: one with the header line, then frames of whole
	// lines, each with a checksum.
	Zstd bool
}

// frameSize is how many bytes of lines close a zstd frame.
const frameSize = 256 << 10

// Writer writes one session file. It writes nothing that a [Reader] with
// default options would refuse. It is not safe for concurrent use and starts no
// goroutines. After the first error that is not about an argument it refuses
// all further work with the same error.
type Writer struct {
	pack    bool
	out     *bufio.Writer
	enc     *zstd.Encoder // nil if the file is plain
	raw     []byte        // lines of the open frame
	packed  []byte        // the frame encoded last
	scan    scanner
	seqs    sequence
	lines   int // given so far, the header included
	run     pendingRun
	failure error
}

var lineEnd = []byte{'\n'}

var errClosed = errors.New("sessionfile: writer is closed")

// NewWriter returns a writer to w. Nothing is written before there are some
// lines; Close writes the rest.
func NewWriter(w io.Writer, opt WriterOptions) (*Writer, error) {
	wr := &Writer{pack: opt.Pack, out: bufio.NewWriterSize(w, bufferSize)}
	if opt.Zstd {
		var err error
		wr.enc, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true))
		if err != nil {
			return nil, err
		}
	}
	return wr, nil
}

// DefaultHeader is the header of a session that has none of its own: id is the
// log's, createdAt is in ms since the Unix epoch and not negative. The error
// matches segment.ErrInvalidEvent.
func DefaultHeader(id string, createdAt int64) ([]byte, error) {
	if createdAt < 0 || createdAt > maxSafe {
		return nil, invalid("createdAt is not from 0 to 2^53-1: %d", createdAt)
	}
	header := []byte(`{"type":"` + typeHeader + `","version":0,"id":`)
	header, err := jsontext.AppendQuote(header, id)
	if err != nil || id == "" {
		return nil, invalid("the id is empty or not valid UTF-8")
	}
	header = append(header, `,"createdAt":`...)
	header = strconv.AppendInt(header, createdAt, 10)
	return append(header, `,"delegationDepth":0}`...), nil
}

// CheckHeader tells whether raw can be the header line of a session file: one
// JSON object with "type":"session" and without "data". The error matches
// segment.ErrInvalidEvent, or segment.ErrCorrupt if raw is not JSON at all.
func CheckHeader(raw []byte) error {
	var s scanner
	o, f := s.object(bytes.Trim(raw, space))
	if f == nil && !isHeader(o) {
		f = invalid(`a header has "type":"session" once, and no data`)
	}
	if f != nil {
		return f
	}
	return nil
}

// WriteHeader writes the header line. It comes before every event, once.
// Raw newlines, which can only be white space, are dropped.
func (w *Writer) WriteHeader(raw []byte) error {
	if w.failure != nil {
		return w.failure
	}
	if w.lines > 0 {
		return errors.New("sessionfile: the header is the first line")
	}
	if err := CheckHeader(raw); err != nil {
		return fmt.Errorf("sessionfile: header: %w", err)
	}
	line := bytes.ReplaceAll(bytes.Trim(raw, space), []byte("\n"), nil)
	if len(line) > DefaultMaxLine {
		return fmt.Errorf("sessionfile: header: %w: %d bytes", segment.ErrTooLarge, len(line))
	}
	w.lines++
	w.emit(line)
	w.endFrame()
	return w.failure
}

// WriteEvent writes one event line, without its LF, as it is. What makes a line
// a valid event is checked only as far as a [Reader] does. The line may be
// reused afterwards.
func (w *Writer) WriteEvent(line []byte) error {
	if w.failure != nil {
		return w.failure
	}
	d, isDelta, f := w.check(line)
	if f != nil {
		return f.at(w.lines + 1)
	}
	w.lines++
	if !w.pack || !isDelta {
		w.endRun()
		w.emit(line)
		return w.failure
	}
	if !w.run.extends(&d) {
		w.endRun()
	}
	w.run.add(&d, line)
	return w.failure
}

// check refuses a line that a Reader would not yield as it is.
func (w *Writer) check(line []byte) (d delta, isDelta bool, f *flaw) {
	if len(line) > DefaultMaxLine {
		return d, false, &flaw{fmt.Sprintf("%d bytes", len(line)), segment.ErrTooLarge}
	}
	if d, isDelta = parseDelta(line); isDelta {
		return d, true, w.seqs.advance(d.seq, 1, w.lines+1)
	}
	if bytes.IndexByte(line, '\n') >= 0 || len(bytes.Trim(line, space)) != len(line) {
		return d, false, invalid("more than one line, or white space around it")
	}
	o, f := w.scan.object(line)
	_, tagged := kindOf(o.typ)
	switch {
	case f != nil:
		return d, false, f
	case o.types > 1:
		return d, false, invalid("the member type occurs twice")
	case tagged:
		return d, false, invalid("%s is the tag of packed rows, not an event type", o.typ)
	case isHeader(o):
		return d, false, invalid("a session header in the place of an event")
	case !o.hasSeq:
		w.seqs = sequence{}
		return d, false, nil
	}
	return d, false, w.seqs.advance(o.seq, 1, w.lines+1)
}

// Close writes what is left; it does not close the underlying writer.
func (w *Writer) Close() error {
	if w.failure != nil {
		if w.failure == errClosed {
			return nil
		}
		return w.failure
	}
	w.endRun()
	w.endFrame()
	if err := w.out.Flush(); err != nil && w.failure == nil {
		w.failure = err
	}
	if w.failure != nil {
		return w.failure
	}
	w.failure = errClosed
	return nil
}

// endRun writes the deltas held back.
func (w *Writer) endRun() {
	if w.run.n >= minRun {
		w.emit(w.run.row())
	} else {
		for _, line := range w.run.lines[:w.run.n] {
			w.emit(line)
		}
	}
	w.run.n = 0
}

func (w *Writer) emit(line []byte) {
	if w.enc == nil {
		w.write(line)
		w.write(lineEnd)
		return
	}
	w.raw = append(append(w.raw, line...), '\n')
	if len(w.raw) >= frameSize {
		w.endFrame()
	}
}

func (w *Writer) endFrame() {
	if len(w.raw) == 0 {
		return
	}
	w.packed = w.enc.EncodeAll(w.raw, w.packed[:0])
	w.raw = w.raw[:0]
	w.write(w.packed)
}

func (w *Writer) write(p []byte) {
	if w.failure == nil {
		_, w.failure = w.out.Write(p)
	}
}
