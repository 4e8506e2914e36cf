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
	// UID, Header, Origin and Epoch are zero where they cannot be read; with an origin,
	// a header that is zero was null.
	UID    string
	Header []byte
	Origin *Origin
	Epoch  uint32
	// Tail is the frames of the tail, as far as their text goes, with something else
	// where that is no base64. Whole: nothing of the text is missing or wrong.
	Tail  []byte
	Whole bool
}

// The tail stands between these. The first one may be in a header or a label as
// well, but not behind the tail.
var (
	tailStart = []byte(`"tail":"`)
	tailEnd   = []byte(`","tree":`)
)

// Salvage reads what it can of a damaged manifest. Members that lie before the
// first place where the text is no JSON are found by their names, the tail by its
// own mark.
func Salvage(body []byte) Remains {
	var r Remains
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
			switch member {
			case "uid":
				if s, err := jsontext.AppendUnquote(nil, value); err == nil {
					r.UID = string(s)
				}
			case "header":
				if value.Kind() != 'n' {
					r.Header = bytes.Clone(value)
				}
			case "epoch":
				if n, err := strconv.ParseUint(string(value), 10, 32); err == nil {
					r.Epoch = uint32(n)
				}
			case "origin":
				if o, err := ParseOrigin(value); err == nil {
					r.Origin = o
				}
			}
		}
	}
	at := bytes.LastIndex(body, tailStart)
	if at < 0 {
		return r
	}
	text := body[at+len(tailStart):]
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

func base64Digit(c byte) bool {
	return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '+' || c == '/'
}
