package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/segment"
	"github.com/s3log/s3log/sessionfile"
)

// eventLine is one line of JSON and where it comes from.
type eventLine struct {
	text []byte
	file string
	line int // from 1
}

// lineReader reads lines of JSON. White space around them is left to whoever
// validates them; blank lines, and a byte order mark at the beginning, are
// passed over.
type lineReader struct {
	r    *bufio.Reader
	file string
	line int
}

// maxInputLine bounds what is kept of a line; a longer one is no event anyway.
const maxInputLine = segment.DefaultMaxEvent + segment.DefaultMaxEvent/2

func newLineReader(r io.Reader, file string) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, outputBuffer), file: file}
}

// next returns the next line that is not blank; io.EOF after the last one.
func (l *lineReader) next() (eventLine, error) {
	for {
		var text []byte
		var err error
		for more := true; more; {
			var part []byte
			part, err = l.r.ReadSlice('\n')
			if text = append(text, part...); len(text) > maxInputLine {
				return eventLine{}, fmt.Errorf("%s, line %d: %w: more than %d bytes", quote(l.file), l.line+1, backend.ErrTooLarge, maxInputLine)
			}
			more = errors.Is(err, bufio.ErrBufferFull)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return eventLine{}, fmt.Errorf("reading %s: %w", quote(l.file), err)
		}
		if len(text) > 0 {
			l.line++
		}
		if l.line == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		if text = bytes.Trim(text, " \t\r\n"); len(text) > 0 {
			return eventLine{text, l.file, l.line}, nil // the end comes again
		}
		if errors.Is(err, io.EOF) {
			return eventLine{}, err
		}
	}
}

// stdinName is how messages call standard input, stdinArg how arguments do.
const (
	stdinName = "stdin"
	stdinArg  = "-"
)

// openInput opens a file named by an argument. A pipe that nobody writes to yet is
// waited for until ctx ends; so are reads where whole is set, and what has been read
// of an input that does not end before ctx is of no use.
func (g *globals) openInput(ctx context.Context, name string, whole bool) (r io.ReadCloser, shown string, err error) {
	if name == stdinArg {
		r = io.NopCloser(g.stdin)
		if whole && g.stdinTTY {
			g.notice("reading what is typed; Ctrl-D at the beginning of a line ends it")
		}
		if whole {
			r = interruptible(ctx, r)
		}
		return r, stdinName, nil
	}
	f, err := openFile(ctx, name)
	if err != nil {
		return nil, name, err
	}
	info, err := f.Stat()
	switch {
	case err == nil && info.IsDir():
		_ = f.Close() // only read
		return nil, name, fmt.Errorf("%s is a directory", quote(name))
	case whole && (err != nil || !info.Mode().IsRegular()):
		return interruptible(ctx, f), name, nil
	}
	return f, name, nil
}

// openFile is os.Open, which for a named pipe waits for somebody who writes to it.
func openFile(ctx context.Context, name string) (*os.File, error) {
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened)
	go func() {
		f, err := os.Open(name)
		select {
		case done <- opened{f, err}:
		case <-ctx.Done():
			if err == nil {
				_ = f.Close() // nothing was read
			}
		}
	}()
	select {
	case o := <-done:
		return o.f, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("opening %s: %w", quote(name), ctx.Err())
	}
}

// interruptible reads from r until ctx ends: a terminal or a pipe may keep a read
// waiting for ever. A blocked read ends with the process.
func interruptible(ctx context.Context, r io.ReadCloser) io.ReadCloser {
	pr, pw := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = pw.CloseWithError(ctx.Err()) }) // never fails
	go func() {
		_, err := io.Copy(pw, r)
		_ = r.Close()              // only read
		_ = pw.CloseWithError(err) // never fails
		stop()
	}()
	return pr
}

// readBatch reads all lines of some files, or of stdin if none is named, as far
// as one append can hold them.
func (g *globals) readBatch(ctx context.Context, files []string) ([]eventLine, error) {
	if len(files) == 0 {
		files = []string{stdinArg}
	}
	var lines []eventLine
	size := 0
	for _, name := range files {
		r, shown, err := g.openInput(ctx, name, true)
		if err != nil {
			return nil, err
		}
		in := newLineReader(r, shown)
		for {
			line, err := in.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if size += len(line.text) + 1; err == nil && size > backend.MaxAppend {
				err = tooMuch(fmt.Errorf("%w: more than %d bytes of events in one append", backend.ErrTooLarge, backend.MaxAppend))
			}
			if err != nil {
				_ = r.Close() // only read
				return nil, err
			}
			lines = append(lines, line)
		}
		_ = r.Close() // only read
	}
	if len(lines) == 0 {
		return nil, usagef("there are no events to append")
	}
	return lines, nil
}

// tooMuch tells how to append more than fits into one commit.
func tooMuch(err error) error {
	return withHint(err, "one append is one commit, all or nothing: split it, use --stream, or `s3logctl import` for a whole session")
}

func texts(lines []eventLine) [][]byte {
	raw := make([][]byte, len(lines))
	for i := range lines {
		raw[i] = lines[i].text
	}
	return raw
}

// atLine says which line an append was refused for, if it was for one.
func atLine(lines []eventLine, err error) error {
	if ee, ok := errors.AsType[*segment.EventError](err); ok && ee.Index >= 0 && ee.Index < len(lines) {
		at := lines[ee.Index]
		err = fmt.Errorf("%s, line %d: %w", quote(at.file), at.line, err)
		switch {
		case !errors.Is(err, backend.ErrInvalidEvent):
			return err
		case sessionfile.CheckHeader(at.text) == nil:
			return withHint(err, "it is the header of a session file, which `s3logctl import` takes")
		case ee.Type == segment.TypeEndSeed:
			return withHint(err, "`s3logctl resume`, `fork` and `replay` write boundaries; files that have some are imported")
		}
		return withHint(err, `an event is a JSON object on one line, {"type":"note","data":…}; seq and time are assigned where both are absent`)
	}
	if errors.Is(err, backend.ErrTooLarge) {
		return tooMuch(err)
	}
	return err
}
