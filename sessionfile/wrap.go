package sessionfile

import (
	"bytes"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/s3log/s3log/segment"
)

// WrapLine makes an event of one line of a file in another format:
//
//	{"type":TYPE,"time":MS,"data":LINE}
//
// raw, one JSON object, becomes the data byte for byte, without white space
// around. time is that of the object's member timestamp if that is a string in
// the form of RFC 3339, else the event has none. It never has a seq.
//
// The error matches segment.ErrCorrupt if raw is not JSON, else
// segment.ErrInvalidEvent.
func WrapLine(raw []byte, typ string) ([]byte, error) {
	var s scanner
	text := bytes.Trim(raw, space)
	o, f := s.object(text)
	if f == nil && bytes.IndexByte(text, '\n') >= 0 {
		f = invalid("more than one line")
	}
	var line []byte
	if f == nil {
		line, f = appendWrapped(nil, text, typ, o.timestamp)
	}
	if f != nil {
		return nil, f
	}
	return line, nil
}

// Error and Unwrap make an error of a flaw that needs no line number.
func (f *flaw) Error() string { return f.err.Error() + ": " + f.reason }
func (f *flaw) Unwrap() error { return f.err }

func appendWrapped(dst, text []byte, typ string, timestamp []byte) ([]byte, *flaw) {
	if typ == "" || len(typ) > segment.MaxTypeName {
		return dst, invalid("an event type has 1 to %d bytes, not %d", segment.MaxTypeName, len(typ))
	}
	if k, ok := kindOf(typ); ok {
		return dst, invalid("%s is the tag of packed rows, not an event type", k.tag())
	}
	dst = append(dst, `{"type":`...)
	dst, err := jsontext.AppendQuote(dst, typ)
	if err != nil {
		return dst, invalid("the event type is not valid UTF-8")
	}
	if ms, ok := parseTimestamp(timestamp); ok {
		dst = append(dst, `,"time":`...)
		dst = strconv.AppendInt(dst, ms, 10)
	}
	dst = append(dst, `,"data":`...)
	dst = append(dst, text...)
	return append(dst, '}'), nil
}

// parseTimestamp reads a string literal in the form of RFC 3339; the result is
// in ms since the Unix epoch.
func parseTimestamp(literal []byte) (int64, bool) {
	const longest = 64
	if len(literal) < 2 || len(literal) > longest {
		return 0, false
	}
	t, err := time.Parse(time.RFC3339, string(literal[1:len(literal)-1]))
	return t.UnixMilli(), err == nil
}
