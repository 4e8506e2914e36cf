package sessionfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/s3log/s3log/segment"
)

// Options say how to read a file. The zero value reads a harness's session
// file and takes every flaw for an error.
type Options struct {
	// MaxLine is the greatest length of a line in bytes; 0 means
	// DefaultMaxLine. A packed row is one line.
	MaxLine int
	// Salvage says what may be left out of a damaged file.
	Salvage Salvage
	// Wrap, if not empty, takes the file for one of another format: every line
	// but a header becomes the data of an event of this type (see WrapLine),
	// rows are not expanded and seqs not looked at.
	Wrap string
}

// Salvage says what may be left out of a damaged file. Whatever is left out is
// listed by [Reader.Dropped].
type Salvage int

const (
	// SalvageNothing: every flaw is an error.
	SalvageNothing Salvage = iota
	// SalvageTorn leaves out the torn end of the file, and what stands before a
	// whole event on one line, as when somebody went on writing behind a torn
	// line (the event is kept if it has the seq that is due; not with Wrap,
	// where nothing tells it from a part of the torn line). Other flaws are
	// errors.
	SalvageTorn
	// SalvagePrefix does so, too, and ends at any other flaw as if the file
	// ended before it: what is kept is the longest valid prefix.
	SalvagePrefix
)

// Drop is a part of a file that was left out.
type Drop struct {
	Line  int   // where it begins, from 1
	Lines int   // how many lines it touches; 0 if nothing of a torn frame could be inflated
	Bytes int64 // its length as far as it could be read, with line ends
	Err   *LineError
}

// Line is one event line.
type Line struct {
	Bytes  []byte // without the LF and without white space around; valid until the next one is yielded
	LineNo int    // the line of the file it comes from, from 1; the members of a packed row share theirs
}

// Reader reads one session file. It is not safe for concurrent use, starts no
// goroutines and need not be closed.
type Reader struct {
	opt     Options
	lines   *lineReader
	scan    scanner
	row     row
	member  []byte // the line expanded last
	wrapped []byte // the line wrapped last
	first   *textLine
	header  []byte
	id      string
	seqs    sequence
	dropped []Drop
	used    bool
}

// NewReader begins to read r, up to the end of the first line. The error is
// that of r, or one of the options; what is wrong with the first line is found
// by Events.
func NewReader(r io.Reader, opt Options) (*Reader, error) {
	switch {
	case opt.MaxLine < 0:
		return nil, fmt.Errorf("sessionfile: negative line limit %d", opt.MaxLine)
	case opt.MaxLine == 0:
		opt.MaxLine = DefaultMaxLine
	}
	if opt.Wrap != "" {
		if _, f := appendWrapped(nil, []byte("{}"), opt.Wrap, nil); f != nil {
			return nil, fmt.Errorf("sessionfile: %w", f)
		}
	}
	lines, err := newLineReader(r, opt.MaxLine)
	if err != nil {
		return nil, err
	}
	rd := &Reader{opt: opt, lines: lines}
	if err := rd.readHeader(); err != nil {
		return nil, err
	}
	return rd, nil
}

// readHeader looks for the header on the first line that is not blank. Any
// other line is left to Events, as is any flaw.
func (r *Reader) readHeader() error {
	line, err := r.nextText()
	var flawed *LineError
	switch {
	case err == io.EOF, errors.As(err, &flawed):
		return nil // comes again
	case err != nil:
		return err
	}
	o, f := r.scan.object(line.text)
	if f != nil || !isHeader(o) || !line.whole && r.lines.ended(1) != io.EOF {
		r.first = &line
		return nil
	}
	r.header = bytes.Clone(line.text)
	if o.id != nil {
		if id, ok := r.scan.unquote(o.id); ok {
			r.id = string(id)
		}
	}
	return nil
}

// isHeader tells the header of a session from an event.
func isHeader(o object) bool { return o.typ == typeHeader && o.types == 1 && !o.hasData }

// Header is the header line as it stands in the file, without the LF and
// without white space around, or nil if there is none.
func (r *Reader) Header() []byte { return r.header }

// HeaderID is the header's id, or "" if there is no header or its id is not a
// string (or one with a lone surrogate).
func (r *Reader) HeaderID() string { return r.id }

// Dropped lists what was left out, in the order of the file. It is complete
// when Events has ended.
func (r *Reader) Dropped() []Drop { return r.dropped }

// Events yields the event lines in order. It can be used once. The first error
// ends it: a *LineError for a flaw of the file, else what the input's reader
// said. Lines come as they are read, so those before an error have been yielded
// by then, and in a compressed file also lines of a frame whose checksum turns
// out wrong only at its end: who wants all or nothing reads twice.
func (r *Reader) Events() iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		if r.used {
			yield(Line{}, errors.New("sessionfile: Events used twice"))
			return
		}
		r.used = true
		for {
			line, err := r.next()
			if err == io.EOF || !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// next yields the next event line; io.EOF at the end, also at one by salvage.
func (r *Reader) next() (Line, error) {
	for {
		var more bool
		if r.member, more = r.row.expand(r.member[:0]); more {
			return Line{r.member, r.lines.number}, nil
		}
		line, err := r.nextText()
		if err != nil {
			return Line{}, r.settle(err, 0)
		}
		if !line.whole {
			if end := r.lines.ended(r.lines.number); end != io.EOF {
				return Line{}, r.settle(end, line.size)
			}
		}
		event, f := r.event(line)
		if f != nil {
			return Line{}, r.settle(f.at(r.lines.number), line.size)
		}
		if event != nil {
			return Line{event, r.lines.number}, nil
		}
	}
}

// nextText yields the next line that is not blank, trimmed.
func (r *Reader) nextText() (textLine, error) {
	if line := r.first; line != nil {
		r.first = nil
		return *line, nil
	}
	for {
		line, err := r.lines.next()
		if err != nil {
			return line, err
		}
		if r.lines.number == 1 {
			line.text = bytes.TrimPrefix(line.text, []byte("\xef\xbb\xbf"))
		}
		if line.text = bytes.Trim(line.text, space); len(line.text) > 0 {
			return line, nil
		}
	}
}

// event makes an event line of a line, or begins to expand it: then it yields
// nil.
func (r *Reader) event(line textLine) ([]byte, *flaw) {
	text := line.text
	if r.opt.Wrap == "" {
		if d, ok := parseDelta(text); ok {
			return text, r.seqs.advance(d.seq, 1, r.lines.number)
		}
	}
	o, f := r.scan.object(text)
	if f != nil && f.err == segment.ErrCorrupt {
		text, o, f = r.recoverLine(line, f)
	}
	if f != nil {
		return nil, f
	}
	if r.opt.Wrap != "" {
		r.wrapped, f = appendWrapped(r.wrapped[:0], text, r.opt.Wrap, o.timestamp)
		return r.wrapped, f
	}
	if o.types > 1 {
		return nil, invalid("the member type occurs twice")
	}
	if k, ok := kindOf(o.typ); ok {
		if r.row, f = r.scan.parseRow(k, text); f != nil {
			return nil, f
		}
		f = r.seqs.advance(r.row.next.seq, r.row.left, r.lines.number)
		if f != nil {
			r.row = row{}
		}
		return nil, f
	}
	if isHeader(o) {
		return nil, invalid("a second session header: one file holds one session")
	}
	if o.hasSeq {
		f = r.seqs.advance(o.seq, 1, r.lines.number)
	} else {
		r.seqs = sequence{}
	}
	return text, f
}

// recoverLine looks into a line that is not JSON: a torn line that somebody
// went on writing behind ends in one whole event. Salvage keeps that.
func (r *Reader) recoverLine(line textLine, f *flaw) ([]byte, object, *flaw) {
	if r.opt.Wrap == "" {
		if at, o := r.scan.lastEvent(line.text, r.seqs.allow); at > 0 {
			f = corrupt("%s; a whole event follows at byte %d", f.reason, at)
			if r.opt.Salvage == SalvageNothing {
				return nil, object{}, f
			}
			r.drop(1, int64(at), f.at(r.lines.number))
			return line.text[at:], o, nil
		}
	}
	if !line.whole {
		f = &flaw{f.reason, ErrTorn}
	}
	return nil, object{}, f
}

// settle decides what an error means under the salvage option: io.EOF if the
// file may end here, else the error itself. size is that of the line it is about,
// if that was read.
func (r *Reader) settle(err error, size int) error {
	var flawed *LineError
	if !errors.As(err, &flawed) {
		return err
	}
	torn := flawed.Err == ErrTorn
	if r.opt.Salvage == SalvageNothing || r.opt.Salvage == SalvageTorn && !torn {
		return err
	}
	lines, n := r.lines.discard()
	if size > 0 {
		lines++
		n += int64(size)
	}
	r.drop(lines, n, flawed)
	return io.EOF
}

func (r *Reader) drop(lines int, n int64, err *LineError) {
	r.dropped = append(r.dropped, Drop{Line: err.Line, Lines: lines, Bytes: n, Err: err})
}

// sequence follows the seqs of neighbouring lines.
type sequence struct {
	next int64 // the seq due
	line int   // the line before, 0 if that carries none
}

// allow reports whether an event with this seq may follow.
func (s *sequence) allow(seq int64) bool { return s.line == 0 || seq == s.next }

// advance passes n events that begin with seq.
func (s *sequence) advance(seq int64, n, line int) *flaw {
	if !s.allow(seq) {
		return &flaw{
			fmt.Sprintf("seq %d follows seq %d of line %d; %d is due", seq, s.next-1, s.line, s.next),
			segment.ErrSeqMismatch,
		}
	}
	s.next, s.line = seq+int64(n), line
	return nil
}
