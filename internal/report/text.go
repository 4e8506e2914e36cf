package report

import (
	"fmt"
	"html/template"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// invisible reports whether a character shows nothing of itself, or changes how
// others are shown: controls, format characters (bidirectional marks, zero
// widths, tags), separators of lines and paragraphs, fillers.
func invisible(r rune) bool {
	if r < 0x7f {
		return r < ' ' && r != '\n' && r != '\t'
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}

// marks splits text into what can be shown as it is and what is shown as an
// escape: \u202e for a character, \xff for a byte that is no UTF-8.
func marks(text string, plain, escape func(string)) {
	start := 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		bad := r == utf8.RuneError && size == 1
		if bad || invisible(r) {
			if start < i {
				plain(text[start:i])
			}
			switch {
			case bad:
				escape(fmt.Sprintf(`\x%02x`, text[i]))
			case r > 0xffff:
				escape(fmt.Sprintf(`\u{%x}`, r))
			default:
				escape(fmt.Sprintf(`\u%04x`, r))
			}
			start = i + size
		}
		i += size
	}
	if start < len(text) {
		plain(text[start:])
	}
}

// visible is text as HTML, with its escapes marked as such.
func visible(text string) template.HTML {
	var b strings.Builder
	marks(text,
		func(s string) { b.WriteString(template.HTMLEscapeString(s)) },
		func(s string) { b.WriteString(`<i class="x">` + s + `</i>`) })
	return template.HTML(b.String()) // escaped above
}

// plain is the same as text alone, on one line: for attributes, which the
// template escapes.
func plain(text string) string {
	var b strings.Builder
	add := func(s string) { b.WriteString(s) }
	marks(text, add, add)
	return strings.Join(strings.Fields(b.String()), " ")
}

// excerpt is the beginning of a text.
type excerpt struct {
	Text string
	More int // bytes that follow
}

// cut shortens text to about so many bytes, between two characters.
func cut(text string, most int) excerpt {
	if len(text) <= most {
		return excerpt{Text: text}
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return excerpt{strings.Clone(text[:most]), len(text) - most}
}

// bytesText is a size for people.
func bytesText[N int | int64](n N) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n)/1024, 0
	for f >= 999.5 && unit < 3 {
		f, unit = f/1024, unit+1
	}
	return fmt.Sprintf("%.3g %ciB", f, "KMGT"[unit])
}

// number groups the digits of a number.
func number[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:] // narrow, and no place for a line to end
	}
	return s
}

// counted is a number of things in words.
func counted[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return number(n) + " " + thing + "s"
}

// thing is the word for a number of things, where the number is shown apart.
func thing[N int | int64](n N, thing string) string {
	if n == 1 {
		return thing
	}
	return thing + "s"
}

// counts are numbers of things in texts that do not group their digits: other
// numbers there are seqs and sizes of points, which people copy.
var counts = regexp.MustCompile(`\b[0-9]{4,}(?: of (?:its )?[0-9]+)? (?:event|segment|byte|more of)`)

// grouped is a text of a verification with the digits of its counts grouped as
// elsewhere in the page.
func grouped(text string) string {
	return counts.ReplaceAllStringFunc(text, func(s string) string {
		return digits.ReplaceAllStringFunc(s, func(n string) string {
			v, err := strconv.ParseInt(n, 10, 64)
			if err != nil {
				return n
			}
			return number(v)
		})
	})
}

var digits = regexp.MustCompile(`[0-9]+`)

// lastTime is the last ms that a calendar has room for.
const lastTime = 253_402_300_799_999

// timeText is a time in ms since the Unix epoch, for people.
func timeText(ms int64) string {
	if ms < -lastTime || ms > lastTime {
		return fmt.Sprintf("%d ms", ms)
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05.000Z")
}

// duration is a time between two events, for people; events may go back in time.
func duration(ms int64) string {
	sign := ""
	if ms < 0 {
		sign, ms = "−", -ms
	}
	switch {
	case ms < 1000:
		return fmt.Sprintf("%s%d ms", sign, ms)
	case ms < 60_000:
		return fmt.Sprintf("%s%.1f s", sign, float64(ms/100)/10)
	case ms < 3_600_000:
		return fmt.Sprintf("%s%d min %d s", sign, ms/60_000, ms/1000%60)
	case ms < 48*3_600_000:
		return fmt.Sprintf("%s%d h %d min", sign, ms/3_600_000, ms/60_000%60)
	}
	return fmt.Sprintf("%s%s days", sign, number(ms/86_400_000))
}
