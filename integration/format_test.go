package integration

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// tool finds a program that a test needs. Where it is missing the test is
// skipped, except in CI, where nothing may be left out unnoticed.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not installed, and CI=true: the format would go untested by other programs", name)
		}
		t.Skipf("%s is not installed: the format is not tested by other programs here", name)
	}
	return path
}

// output runs a program and returns what it prints.
func output(t *testing.T, stdin []byte, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(stdin), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(name), err, stderr.Bytes())
	}
	return out
}

// events draws n events of many shapes, some of which only a reader by the book
// survives. Their lines are what the store holds.
func events(n int) (lines [][]byte) {
	rng := rand.New(rand.NewPCG(7, 11))
	odd := []string{
		`{"seq":-1,"seq":-2}`,                                 // names twice, and one that is the envelope's
		`"\ud800 lone, <b>&amp; and \u2028"`,                  // escapes stay
		`123456789012345678901234567890.50e+10`,               // no double
		"{\t\"white\" : [ 1 , 2 ]\r}",                         // white space stays, but LF
		strings.Repeat("[", 2000) + strings.Repeat("]", 2000), // deep
		strings.Repeat("7", 5000),                             // long
	}
	for i := range n {
		data := fmt.Sprintf(`{"turn":%d,"text":"%x"}`, i/10, rng.Uint64())
		if i%40 < len(odd) {
			data = odd[i%40]
		}
		line := fmt.Appendf(nil, `{"type":"note/%d","seq":%d,"time":%d,"data":%s}`, i%300, i, 1790000000000-int64(i), data)
		lines = append(lines, line)
	}
	return lines
}

// write appends events in batches to a new log of a directory.
func write(t *testing.T, dir, id string, lines [][]byte, opt backend.CloseOptions) backend.Info {
	t.Helper()
	store, err := filestore.Open(dir, filestore.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	b := backend.New(store, backend.Options{Foreground: true})
	l, err := b.Create(id, backend.CreateOptions{Header: []byte(`{"type":"session","id":"x","createdAt":1790000000000}`)})
	if err != nil {
		t.Fatal(err)
	}
	for batch := range slices.Chunk(lines, 50) {
		if _, err := l.Append(t.Context(), batch, backend.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(t.Context(), opt); err != nil {
		t.Fatal(err)
	}
	info, err := b.Info(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func joined(lines [][]byte) []byte { return append(bytes.Join(lines, []byte{'\n'}), '\n') }

// TestFormatIsEnough reads logs with docs/read_log.py, which knows nothing but
// docs/format.md.
func TestFormatIsEnough(t *testing.T) {
	python := tool(t, "python3")
	tool(t, "zstd")
	script := filepath.Join("..", "docs", "read_log.py")
	long := strings.Repeat("ü/", 200)
	for _, tt := range []struct {
		name   string
		id     string
		events int
		close  backend.CloseOptions
		sealed bool // some events are in segments
		tail   bool // some are in the tail
	}{
		{name: "tail", id: "log", events: 40, tail: true},
		{name: "segments and tail", id: "team/a b.c", events: 6000, sealed: true, tail: true},
		{name: "segments", id: long, events: 3000, close: backend.CloseOptions{Seal: true}, sealed: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			lines := events(tt.events)
			info := write(t, dir, tt.id, lines, tt.close)
			if (len(info.Segments) > 0) != tt.sealed || (info.Tail > 0) != tt.tail {
				t.Fatalf("%d segments and %d events in the tail do not test what they should", len(info.Segments), info.Tail)
			}
			got := output(t, nil, python, script, dir, tt.id)
			if !bytes.Equal(got, joined(lines)) {
				t.Errorf("read_log.py prints %d bytes, others than the %d that were appended", len(got), len(joined(lines)))
			}
		})
	}
}

// TestFormatReaderFindsDamage changes one byte of every object.
func TestFormatReaderFindsDamage(t *testing.T) {
	python := tool(t, "python3")
	tool(t, "zstd")
	dir := t.TempDir()
	info := write(t, dir, "log", events(2500), backend.CloseOptions{})
	if len(info.Segments) == 0 || info.Tail == 0 {
		t.Fatalf("%d segments, %d events in the tail", len(info.Segments), info.Tail)
	}
	objects := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if d.Name() == ".s3log" {
				return filepath.SkipDir
			}
			return nil
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		objects++
		damaged := bytes.Clone(body)
		damaged[len(damaged)/2] ^= 1
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			return err
		}
		if out, err := exec.CommandContext(t.Context(), python, filepath.Join("..", "docs", "read_log.py"), dir, "log").CombinedOutput(); err == nil {
			t.Errorf("damage of %s goes unnoticed", filepath.Base(path))
		} else if !bytes.Contains(out, []byte("read_log: ")) {
			t.Errorf("damage of %s: %s", filepath.Base(path), out)
		}
		return os.WriteFile(path, body, 0o600)
	})
	if err != nil || objects != 1+len(info.Segments) {
		t.Errorf("%d objects for %d segments, %v", objects, len(info.Segments), err)
	}
}

// TestPlainTools pipes every segment through zstd and jq.
func TestPlainTools(t *testing.T) {
	zstd, jq := tool(t, "zstd"), tool(t, "jq")
	dir := t.TempDir()
	var lines [][]byte
	for i := range 4000 {
		lines = append(lines, fmt.Appendf(nil, `{"type":"note","seq":%d,"time":%d,"data":{"i":%d,"text":"%x"}}`, i, i, i, rand.Uint64()))
	}
	info := write(t, dir, "log", lines, backend.CloseOptions{Seal: true})
	if len(info.Segments) < 2 {
		t.Fatalf("%d segments", len(info.Segments))
	}
	var all []byte
	for _, s := range info.Segments {
		object, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(manifest.SegmentKey("log", s.Name))))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, output(t, output(t, object, zstd, "-dcq"), jq, "-c", ".")...)
	}
	if !bytes.Equal(all, joined(lines)) {
		t.Errorf("zstd -dc | jq -c . prints %d bytes, others than the %d that were appended", len(all), len(joined(lines)))
	}
}

// TestFormatExamples decodes what docs/format.md shows.
func TestFormatExamples(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "docs", "format.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := func(name string) []byte {
		m := regexp.MustCompile("(?s)\n```"+name+"\n(.*?\n)```\n").FindAllSubmatch(doc, -1)
		if len(m) != 1 {
			t.Fatalf("%d blocks %q in docs/format.md", len(m), name)
		}
		return m[0][1]
	}
	r, err := manifest.Decode(block("json manifest"))
	if err != nil {
		t.Fatal(err)
	}
	codec := segment.NewCodec()
	tail, err := codec.DecodeFrames(r.Tail, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	object, err := hex.DecodeString(strings.ReplaceAll(string(block("hex segment")), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	s, err := segment.OpenBytes(codec, object)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := s.Frames(0, len(s.Index().Frames))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(raw, tail) || s.Index().Log != r.Log || s.Index().UID != r.UID {
		t.Error("the segment holds other events than the manifest, or those of another log")
	}
	if diff := cmp.Diff(r.Content, s.Index().State); diff != "" {
		t.Errorf("state (-manifest +segment):\n%s", diff)
	}
}

// TestFormatNamesEveryMember compares the table of members with a manifest that
// was written.
func TestFormatNamesEveryMember(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "docs", "format.md"))
	if err != nil {
		t.Fatal(err)
	}
	var members []string
	for _, row := range regexp.MustCompile(`(?m)^\| \d+ \| (.*?) \|`).FindAllSubmatch(doc, -1) {
		for _, name := range regexp.MustCompile("`(.*?)`").FindAllSubmatch(row[1], -1) {
			members = append(members, string(name[1]))
		}
	}
	dir := t.TempDir()
	write(t, dir, "log", events(10), backend.CloseOptions{})
	body, err := os.ReadFile(filepath.Join(dir, "manifests", "log.json"))
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	dec := json.NewDecoder(bytes.NewReader(body))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		written = append(written, name.(string))
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(members, written); diff != "" {
		t.Errorf("members, in order (-docs/format.md +written):\n%s", diff)
	}
}
