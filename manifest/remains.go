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
	// Tail is the frames of the tail, as far as their base64 goes. Whole: to its end.
	Tail  []byte
	Whole bool
}

// tailStart is what the tail follows. It may be in a header or a label as well,
// but not behind the tail.
var tailStart = []byte(`"tail":"`)

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
	text = text[:min(len(text), MaxTail+1)] // with its quote; of one that is longer, as much as any has
	text, _, r.Whole = bytes.Cut(text, []byte{'"'})
	enc := base64.StdEncoding.Strict()
	for {
		tail, err := enc.AppendDecode(nil, text[:len(text)/4*4])
		if err == nil {
			r.Tail, r.Whole = tail, r.Whole && len(text)%4 == 0
			return r
		}
		// What comes before the first character that does not belong there.
		bad, ok := err.(base64.CorruptInputError)
		if !ok || int(bad) >= len(text) {
			return r
		}
		text, r.Whole = text[:bad], false
	}
}
