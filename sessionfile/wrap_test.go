package sessionfile

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/segment"
)

func TestWrapLine(t *testing.T) {
	tests := map[string]struct{ raw, typ, want string }{
		"UTC":             {`{"timestamp":"2025-01-01T00:00:01.250Z","a":1}`, "x/y", `{"type":"x/y","time":1735689601250,"data":{"timestamp":"2025-01-01T00:00:01.250Z","a":1}}`},
		"offset":          {`{"timestamp":"2025-01-01T01:00:01+01:00"}`, "x", `{"type":"x","time":1735689601000,"data":{"timestamp":"2025-01-01T01:00:01+01:00"}}`},
		"before 1970":     {`{"timestamp":"1969-12-31T23:59:59.999Z"}`, "x", `{"type":"x","time":-1,"data":{"timestamp":"1969-12-31T23:59:59.999Z"}}`},
		"none":            {`{}`, "x", `{"type":"x","data":{}}`},
		"a number":        {`{"timestamp":1763681581544}`, "x", `{"type":"x","data":{"timestamp":1763681581544}}`},
		"another form":    {`{"timestamp":"yesterday"}`, "x", `{"type":"x","data":{"timestamp":"yesterday"}}`},
		"long":            {`{"timestamp":"2025-01-01T00:00:01.` + strings.Repeat("0", 99) + `Z"}`, "x", `{"type":"x","data":{"timestamp":"2025-01-01T00:00:01.` + strings.Repeat("0", 99) + `Z"}}`},
		"inner one":       {`{"a":{"timestamp":"2025-01-01T00:00:01Z"}}`, "x", `{"type":"x","data":{"a":{"timestamp":"2025-01-01T00:00:01Z"}}}`},
		"own seq":         {`{"seq":9,"type":"text-chunks"}`, "x", `{"type":"x","data":{"seq":9,"type":"text-chunks"}}`},
		"bytes survive":   {" {\"b\":1, \"a\":\"<\\ud800é\",\"a\":1.50e+1}\r\n", "x", `{"type":"x","data":{"b":1, "a":"<\ud800é","a":1.50e+1}}`},
		"type is escaped": {`{}`, "a\"<b", `{"type":"a\"<b","data":{}}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := WrapLine([]byte(tt.raw), tt.typ)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if _, err := segment.Prepare(got, 0, segment.Limits{}); err != nil {
				t.Errorf("no valid event: %v", err)
			}
		})
	}
}

func TestWrapLineRefuses(t *testing.T) {
	tests := map[string]struct {
		raw, typ string
		kind     error
	}{
		"not an object": {`42`, "x", segment.ErrInvalidEvent},
		"not JSON":      {`{`, "x", segment.ErrCorrupt},
		"empty":         {``, "x", segment.ErrCorrupt},
		"two lines":     {"{\n}", "x", segment.ErrInvalidEvent},
		"no type":       {`{}`, "", segment.ErrInvalidEvent},
		"long type":     {`{}`, strings.Repeat("x", 129), segment.ErrInvalidEvent},
		"a tag":         {`{}`, "tool-call-chunks", segment.ErrInvalidEvent},
		"not UTF-8":     {`{}`, "a\xff", segment.ErrInvalidEvent},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := WrapLine([]byte(tt.raw), tt.typ)
			if !errors.Is(err, tt.kind) || got != nil {
				t.Errorf("got %s, %v; want %v", got, err, tt.kind)
			}
		})
	}
}

func TestReaderWraps(t *testing.T) {
	data := file(
		`{"type":"session","id":"p1","timestamp":"2025-01-01T00:00:00Z"}`, // some formats begin like a harness
		`{"type":"message","timestamp":"2025-01-01T00:00:01Z"}`,
		``,
		`{"type":"text-chunks","type":"b","seq":7}`,
		`{"type":"session","id":"p2"}`,
		`{"seq":3}`,
	)
	r, got, err := readAll(t, data, Options{Wrap: "p/line"})
	want := []string{
		`2 {"type":"p/line","time":1735689601000,"data":{"type":"message","timestamp":"2025-01-01T00:00:01Z"}}`,
		`4 {"type":"p/line","data":{"type":"text-chunks","type":"b","seq":7}}`,
		`5 {"type":"p/line","data":{"type":"session","id":"p2"}}`,
		`6 {"type":"p/line","data":{"seq":3}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil || r.HeaderID() != "p1" {
		t.Errorf("id %q, error %v, -want +got:\n%s", r.HeaderID(), err, diff)
	}

	_, got, err = readAll(t, append(data, `{"cut`...), Options{Wrap: "p/line"})
	wantLineError(t, err, ErrTorn, 7, "")
	if len(got) != 4 {
		t.Errorf("%d lines before it", len(got))
	}
	for _, typ := range []string{"text-chunks", "a\xff", strings.Repeat("x", 129)} {
		if _, err := NewReader(strings.NewReader(""), Options{Wrap: typ}); !errors.Is(err, segment.ErrInvalidEvent) {
			t.Errorf("type %q: %v", typ, err)
		}
	}
}
