package manifest

import (
	"bytes"
	"encoding/base64"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Remains is what can still be read of a manifest that is damaged. Nothing proves
// that it is as it was written, except for the frames of the tail, which have
// checksums.
type Remains struct {
	// Log, UID, Header and Origin are zero where they cannot be read; with an origin, a
	// header that is zero was null.
	Log    string
	UID    string
	Header []byte
	Origin *Origin
	// Counts are all numbers that may be the epoch or a generation.
	Counts []uint32
	// Tail is the frames of the tail, as far as their text goes, with something else
	// where that is no base64. Whole: nothing of the text is missing or wrong.
	Tail  []byte
	Whole bool
}

// The tail stands between these. The first one may be in a header as well, and in
// a member of a later version.
var (
	tailStart = []byte(`"tail":"`)
	tailEnd   = []byte(`","tree":`)
)

// countStarts are what epoch and generation follow. Either is there twice: a number
// that is lost must not be given to somebody else.
var countStarts = [][]byte{[]byte(`"epoch":`), []byte(`"generation":`), []byte(`"generations":[[`)}

// Salvage reads what it can of a damaged manifest. Members that lie before the
// first place where the text is no JSON are found by their names, and so is the
// tail; behind that place it is found by its own mark, which no member before it
// may hold then.
func Salvage(body []byte) Remains {
	r := Remains{Counts: counts(body)}
	var text []byte
	behind := 0 // up to here the text is JSON
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if tok, err := dec.ReadToken(); err == nil && tok.Kind() == '{' {
		for dec.PeekKind() == '"' {
			name, err := dec.ReadToken()
			if err != nil {
				break
			}
			member := name.String()
			value, err := dec.ReadValue()
			if err != nil {
				break
			}
			behind = int(dec.InputOffset())
			switch member {
			case "log":
				r.Log = unquoted(value)
			case "uid":
				r.UID = unquoted(value)
			case "header":
				if value.Kind() != 'n' {
					r.Header = bytes.Clone(value)
				}
			case "origin":
				if o, err := ParseOrigin(value); err == nil {
					r.Origin = o
				}
			case "tail":
				text = body[behind-len(value)+1:]
			}
		}
	}
	if text == nil {
		at := bytes.LastIndex(body[behind:], tailStart)
		if at < 0 {
			return r
		}
		text = body[behind+at+len(tailStart):]
	}
	text = text[:min(len(text), MaxTail+len(tailEnd))] // of one that is longer, as much as any has
	text, _, r.Whole = bytes.Cut(text, tailEnd)
	text = text[:min(len(text), MaxTail)]
	text = bytes.TrimRight(text, "=")
	clean := make([]byte, len(text))
	for i, c := range text {
		if clean[i] = c; !base64Digit(c) {
			clean[i], r.Whole = 'A', false
		}
	}
	if len(clean)%4 == 1 {
		clean, r.Whole = clean[:len(clean)-1], false
	}
	r.Tail, _ = base64.RawStdEncoding.AppendDecode(nil, clean) // digits only: it cannot fail
	return r
}

// unquoted is the text of a JSON string, empty if it is none.
func unquoted(value []byte) string {
	s, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return ""
	}
	return string(s)
}

// counts are the numbers behind countStarts.
func counts(body []byte) (all []uint32) {
	for _, start := range countStarts {
		for rest := body; ; {
			_, after, found := bytes.Cut(rest, start)
			if !found {
				break
			}
			rest = after
			digits := after[:len(after)-len(bytes.TrimLeft(after, "0123456789"))]
			if n, err := strconv.ParseUint(string(digits), 10, 32); err == nil {
				all = append(all, uint32(n))
			}
		}
	}
	return all
}

func base64Digit(c byte) bool {
	return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '+' || c == '/'
}
