package backend

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// checkHeader accepts a session header: one JSON object, kept as it is except
// that white space around it is cut and raw newlines are dropped. It also finds
// createdAt, ms, if the header has one as a plain non-negative integer.
func checkHeader(raw []byte) (header []byte, createdAt *int64, err error) {
	header = bytes.Trim(raw, " \t\r\n")
	if len(header) == 0 {
		return nil, nil, nil
	}
	if n := len(header) - bytes.Count(header, newline); n > manifest.MaxHeader {
		return nil, nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", segment.ErrTooLarge, n, manifest.MaxHeader)
	}
	if !utf8.Valid(header) {
		return nil, nil, fmt.Errorf("%w: not valid UTF-8", segment.ErrInvalidEvent)
	}
	// Lone surrogate escapes and repeated names are the caller's business.
	dec := jsontext.NewDecoder(bytes.NewReader(header), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if dec.PeekKind() != '{' {
		return nil, nil, fmt.Errorf("%w: it must be one JSON object", segment.ErrInvalidEvent)
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", segment.ErrInvalidEvent, err)
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", segment.ErrInvalidEvent, err)
		}
		key := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", segment.ErrInvalidEvent, err)
		}
		if key == "createdAt" {
			if n, err := strconv.ParseInt(string(value), 10, 64); err == nil && value[0] != '-' && n <= segment.MaxSeq {
				createdAt = &n
			}
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", segment.ErrInvalidEvent, err)
	}
	if rest := header[dec.InputOffset():]; len(rest) > 0 {
		return nil, nil, fmt.Errorf("%w: %d bytes follow the object", segment.ErrInvalidEvent, len(rest))
	}
	// Valid JSON has newlines only where white space may stand; before this point
	// dropping them might have made a number of two, or shortened a string.
	return bytes.ReplaceAll(header, newline, nil), createdAt, nil
}

var newline = []byte{'\n'}

// ChildHeader is the header of a log that inherits seedLength events of a session
// with a header: the parent's, with id, parentSession and seedLength set for the
// child and every other member as it is. Fork makes it by itself; a replay of a
// session that was kept elsewhere may want one. The parent's header must be one
// JSON object.
func ChildHeader(parent []byte, child, parentID string, seedLength int64) ([]byte, error) {
	header, _, err := checkHeader(parent)
	if err == nil && header == nil {
		err = fmt.Errorf("%w: it must be one JSON object", segment.ErrInvalidEvent)
	}
	if err != nil {
		return nil, err
	}
	return childHeader(header, child, parentID, seedLength)
}

// childHeader is a parent's header with the members that name a session and its
// origin set for a fork; every other member is kept as it is.
func childHeader(parent []byte, child, parentID string, seedLength int64) ([]byte, error) {
	set := map[string][]byte{
		"id":            segment.AppendString(nil, child),
		"parentSession": segment.AppendString(nil, parentID),
		"seedLength":    strconv.AppendInt(nil, seedLength, 10),
	}
	dec := jsontext.NewDecoder(bytes.NewReader(parent), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	out := []byte{'{'}
	member := func(name, value []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	for dec.PeekKind() != '}' {
		raw, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		name := bytes.Clone(raw)
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		plain, err := jsontext.AppendUnquote(nil, name)
		if v, ok := set[string(plain)]; ok && err == nil {
			if v != nil {
				member(name, v)
				set[string(plain)] = nil // once, whatever the parent's header repeats
			}
			continue
		}
		member(name, value)
	}
	for _, name := range []string{"id", "parentSession", "seedLength"} {
		if v := set[name]; v != nil {
			member(segment.AppendString(nil, name), v)
		}
	}
	return append(out, '}'), nil
}
