package report

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// members are those of a JSON object; nil where a value is none. Of members with
// the same name the last one counts. Nothing here is an error: what data does not
// have in the shape that is expected, it does not have.
type members map[string]jsontext.Value

func membersOf(value []byte) (m members) {
	if err := json.Unmarshal(value, &m, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil
	}
	return m
}

// in is the member of a member, and so on.
func (m members) in(path ...string) members {
	for _, name := range path {
		m = membersOf(m[name])
	}
	return m
}

// text is a string; a lone surrogate in it becomes U+FFFD.
func (m members) text(name string) string {
	v := m[name]
	if v.Kind() != '"' {
		return ""
	}
	text, _ := jsontext.AppendUnquote(nil, v) // the error is about surrogates
	return string(text)
}

func (m members) is(name string) bool { return m[name].Kind() == 't' }

// count is a number of something, 0 if it is anything else.
func (m members) count(name string) int64 {
	n, err := strconv.ParseInt(string(m[name]), 10, 64)
	if err != nil || n < 0 || n > 1<<53 {
		return 0
	}
	return n
}

func (m members) list(name string) (list []jsontext.Value) {
	if json.Unmarshal(m[name], &list, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return nil
	}
	return list
}

// content is the text of the blocks of a message: what its writer said, with a
// word for what is no text. It is cut to most bytes.
func (m members) content(most int) excerpt {
	if m["content"].Kind() == '"' {
		return cut(m.text("content"), most)
	}
	var b strings.Builder
	more := 0
	for _, block := range m.list("content") {
		f := membersOf(block)
		part := ""
		switch f.text("type") {
		case "text":
			part = f.text("text")
		case "image":
			part = "[image " + f.in("attachment").text("mediaType") + "]"
		case "tool-result":
			inner := f.content(most)
			part, more = inner.Text, more+inner.More
		}
		if part == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(part)
	}
	e := cut(b.String(), most)
	e.More += more
	return e
}
