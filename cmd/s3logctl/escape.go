package main

import (
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// safeWriter shows what a terminal might act on instead of passing it through:
// control characters, deletes, and characters that are invisible or change the
// direction of text become \uXXXX as in JSON strings, so JSON text stays the
// same value; bytes that are no UTF-8 become \xXX. Line ends and tabs pass. It
// holds back an incomplete character until the rest of it comes.
type safeWriter struct {
	w    io.Writer
	rest []byte // the beginning of a character
	buf  []byte
}

// Write implements io.Writer; n counts bytes of p.
func (s *safeWriter) Write(p []byte) (n int, err error) {
	text := p
	if len(s.rest) > 0 {
		text = append(s.rest, p...)
	}
	whole := len(text)
	for i := max(0, whole-utf8.UTFMax+1); i < len(text); i++ {
		if utf8.RuneStart(text[i]) && !utf8.FullRune(text[i:]) {
			whole = i
			break
		}
	}
	s.buf = appendSafe(s.buf[:0], text[:whole])
	s.rest = append([]byte(nil), text[whole:]...)
	if len(s.buf) == 0 {
		return len(p), nil
	}
	if _, err := s.w.Write(s.buf); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes what was held back; the underlying writer stays open.
func (s *safeWriter) Close() error {
	if len(s.rest) == 0 {
		return nil
	}
	rest := appendSafe(nil, s.rest)
	s.rest = nil
	_, err := s.w.Write(rest)
	return err
}

// appendSafe appends text as a terminal may see it.
func appendSafe(dst, text []byte) []byte {
	for len(text) > 0 {
		n := 0
		for n < len(text) && (text[n] >= ' ' && text[n] < 0x7f || text[n] == '\n' || text[n] == '\t') {
			n++
		}
		dst = append(dst, text[:n]...)
		if text = text[n:]; len(text) == 0 {
			break
		}
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(dst, '\\', 'x', hexDigits[text[0]>>4], hexDigits[text[0]&15])
		case !unsafeRune(r):
			dst = append(dst, text[:size]...)
		case r > 0xffff:
			r -= 0x10000
			dst = appendEscape(appendEscape(dst, 0xd800+r>>10), 0xdc00+r&0x3ff)
		default:
			dst = appendEscape(dst, r)
		}
		text = text[size:]
	}
	return dst
}

const hexDigits = "0123456789abcdef"

func appendEscape(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// unsafeRune: controls, format characters (bidirectional marks, zero widths,
// tags), and separators of lines and paragraphs.
func unsafeRune(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

// quote shows a name that came from elsewhere: as it is if it is plain, else
// as a quoted string that cannot be mistaken for anything else.
func quote(name string) string {
	if q := strconv.Quote(name); q[1:len(q)-1] != name || name == "" || strings.Contains(name, " ") {
		return q
	}
	return name
}

var oneLiner = strings.NewReplacer("\n", `\n`, "\t", `\t`)

// oneLine is text for a line, or a cell of a table, of its own.
func oneLine(text string) string {
	return oneLiner.Replace(string(appendSafe(nil, []byte(text))))
}
