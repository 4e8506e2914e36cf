package sessionfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/internal/fixtures"
	"github.com/s3log/s3log/segment"
)

func TestFixturesRoundTrip(t *testing.T) {
	dir := fixtures.Dir(t)
	manifest, err := os.ReadFile(filepath.Join(dir, "MANIFEST.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	files, total := 0, 0
	for row := range strings.Lines(string(manifest)) {
		f := strings.Split(strings.TrimSuffix(row, "\n"), "\t")
		if strings.HasPrefix(row, "#") || f[0] == "file" {
			continue
		}
		rows, errRows := strconv.Atoi(f[3])
		count, errCount := strconv.Atoi(f[4])
		if err := errors.Join(errRows, errCount); err != nil {
			t.Fatalf("MANIFEST.tsv: %v", err)
		}
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f[0])))
		if err != nil {
			t.Fatal(err)
		}
		files, total = files+1, total+count
		t.Run(f[0], func(t *testing.T) { roundTrip(t, data, rows, count) })
	}
	if files == 0 {
		t.Fatal("MANIFEST.tsv names no files")
	}
	t.Logf("%d fixture files, %d events", files, total)
}

func roundTrip(t *testing.T, data []byte, rows, count int) {
	r, lines := mustRead(t, data)
	if len(lines) != count {
		t.Fatalf("%d events, want %d", len(lines), count)
	}
	first, _, _ := bytes.Cut(data, []byte{'\n'})
	if !bytes.Equal(r.Header(), first) || r.HeaderID() == "" {
		t.Fatalf("header is %s with id %q, want %s", r.Header(), r.HeaderID(), first)
	}
	for i, line := range lines {
		e, err := segment.ParseEvent([]byte(line), segment.Limits{})
		if err != nil || e.Seq != int64(i) {
			t.Fatalf("event %d: seq %d, %v", i, e.Seq, err)
		}
	}
	for _, opt := range []WriterOptions{{}, {Pack: true}, {Zstd: true}, {Pack: true, Zstd: true}} {
		out := write(t, opt, r.Header(), lines)
		again, reread := mustRead(t, out)
		if !bytes.Equal(again.Header(), r.Header()) {
			t.Errorf("%+v: header became %s", opt, again.Header())
		}
		if diff := cmp.Diff(lines, reread); diff != "" {
			t.Errorf("%+v: lines changed (-written +read):\n%s", opt, diff)
		}
		if !opt.Pack || opt.Zstd {
			continue
		}
		if got := bytes.Count(out, []byte{'\n'}); len(out) > len(data) || got > rows+1 {
			t.Errorf("packed to %d bytes in %d lines, but the file has %d in %d", len(out), got, len(data), rows+1)
		}
	}
}

func TestFixturesOfOtherAgents(t *testing.T) {
	dir := filepath.Join(fixtures.Dir(t), "other-agents")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	malformed := map[string]int{"claude-code__claude-code-log__edge_cases.jsonl": 13}
	seen := 0
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(entry.Name(), func(t *testing.T) {
			r, lines, err := readAll(t, data, Options{Wrap: "foreign/line"})
			if at := malformed[entry.Name()]; at > 0 {
				wantLineError(t, err, segment.ErrInvalidEvent, at, "not a JSON object")
				data = bytes.Join(bytes.SplitAfterN(data, []byte{'\n'}, at)[:at-1], nil)
			} else if err != nil {
				t.Fatal(err)
			}
			var want []string
			for i, raw := range bytes.Split(bytes.TrimSuffix(data, []byte{'\n'}), []byte{'\n'}) {
				if bytes.Equal(raw, r.Header()) {
					continue
				}
				wrapped, err := WrapLine(raw, "foreign/line")
				if err != nil {
					t.Fatalf("line %d: %v", i+1, err)
				}
				if !bytes.HasSuffix(wrapped, append([]byte(`,"data":`), append(raw, '}')...)) {
					t.Errorf("line %d changed to %s", i+1, wrapped)
				}
				pending, err := segment.Prepare(wrapped, 0, segment.Limits{})
				if err != nil {
					t.Fatalf("line %d makes no event: %v", i+1, err)
				}
				if e, err := pending.Assign(int64(i)); err != nil || e.Type != "foreign/line" {
					t.Errorf("line %d: %+v, %v", i+1, e, err)
				}
				want = append(want, fmt.Sprintf("%d %s", i+1, wrapped))
			}
			if diff := cmp.Diff(want, lines); diff != "" {
				t.Errorf("-wrapped one by one +read:\n%s", diff)
			}
			seen += len(lines)
		})
	}
	t.Logf("%d files, %d lines of other agents", len(entries), seen)
}
