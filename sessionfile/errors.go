package sessionfile

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/s3log/s3log/segment"
)

// ErrTorn: the input ends in the middle of a line or of a zstd frame, as a
// file does whose writer was killed. Everything before is intact, which sets it
// apart from damage in the middle.
var ErrTorn = errors.New("torn at the end")

// LineError says which line was refused and why.
type LineError struct {
	Line   int    // from 1; of the uncompressed text
	Reason string // for a person; quotes input only in escaped and shortened form
	// Err is ErrTorn, segment.ErrCorrupt (not JSON, or a zstd frame that does
	// not hold what it should), segment.ErrInvalidEvent (JSON of another
	// shape), segment.ErrSeqMismatch or segment.ErrTooLarge.
	Err error
}

func (e *LineError) Error() string {
	return fmt.Sprintf("line %d: %v: %s", e.Line, e.Err, e.Reason)
}

func (e *LineError) Unwrap() error { return e.Err }

// flaw is a LineError before the line number is known.
type flaw struct {
	reason string
	err    error
}

func (f *flaw) at(line int) *LineError {
	return &LineError{Line: line, Reason: f.reason, Err: f.err}
}

func corrupt(format string, args ...any) *flaw {
	return &flaw{fmt.Sprintf(format, args...), segment.ErrCorrupt}
}

func invalid(format string, args ...any) *flaw {
	return &flaw{fmt.Sprintf(format, args...), segment.ErrInvalidEvent}
}

// excerpt shortens text for a message and escapes what a terminal might act on.
func excerpt(text []byte) string {
	const most = 40
	more := ""
	if len(text) > most {
		text, more = text[:most], "…"
		for n := 0; n < utf8.UTFMax && !utf8.Valid(text); n++ {
			text = text[:len(text)-1] // the cut went through a character
		}
	}
	return printable(string(text)) + more
}

// printable replaces what is not plainly visible.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == utf8.RuneError ||
			r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0xfeff {
			return '?'
		}
		return r
	}, s)
}
