package sessionfile

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// readAll reads data to the end and returns copies of the event lines, with
// their line numbers before them, and the error that ended it.
func readAll(t testing.TB, data []byte, opt Options) (*Reader, []string, error) {
	t.Helper()
	r, err := NewReader(bytes.NewReader(data), opt)
	if err != nil {
		t.Fatalf("NewReader: %v", err)
	}
	var lines []string
	for line, err := range r.Events() {
		if err != nil {
			return r, lines, err
		}
		lines = append(lines, fmt.Sprintf("%d %s", line.LineNo, line.Bytes))
	}
	return r, lines, nil
}

// mustRead returns the event lines alone.
func mustRead(t testing.TB, data []byte) (*Reader, []string) {
	t.Helper()
	r, lines, err := readAll(t, data, Options{})
	if err != nil {
		t.Fatalf("reading: %v", err)
	}
	for i, line := range lines {
		_, lines[i], _ = strings.Cut(line, " ")
	}
	return r, lines
}

// write returns the file that a Writer makes of a header (if not nil) and lines.
func write(t testing.TB, opt WriterOptions, header []byte, lines []string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, opt)
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		if err := w.WriteHeader(header); err != nil {
			t.Fatalf("WriteHeader: %v", err)
		}
	}
	for _, line := range lines {
		if err := w.WriteEvent([]byte(line)); err != nil {
			t.Fatalf("WriteEvent(%.200s): %v", line, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	return b.Bytes()
}

// frames compresses each part into a frame of its own.
func frames(t testing.TB, parts ...string) []byte {
	t.Helper()
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for _, p := range parts {
		out = enc.EncodeAll([]byte(p), out)
	}
	return out
}

// wantLineError checks the kind and the place of an error.
func wantLineError(t testing.TB, err, kind error, line int, reason string) {
	t.Helper()
	var e *LineError
	if !errors.As(err, &e) {
		t.Fatalf("error is %v, want a *LineError", err)
	}
	if !errors.Is(err, kind) || e.Line != line || !strings.Contains(e.Reason, reason) {
		t.Errorf("error is %q; want %v at line %d with %q", err, kind, line, reason)
	}
}

const testHeader = `{"type":"session","version":0,"id":"s1","createdAt":1000,"delegationDepth":0}`

func event(seq int) string {
	return fmt.Sprintf(`{"type":"todo/write","seq":%d,"time":%d,"data":{"todos":[]}}`, seq, 1000+seq)
}

func events(from, to int) []string {
	var lines []string
	for seq := from; seq < to; seq++ {
		lines = append(lines, event(seq))
	}
	return lines
}

func file(lines ...string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }

func textDelta(seq, time int, literal string) string {
	return fmt.Sprintf(`{"type":"assistant/chunk","seq":%d,"time":%d,"data":{"turn":1,"step":2,"chunk":{"type":"text-delta","index":0,"text":%s}}}`, seq, time, literal)
}
