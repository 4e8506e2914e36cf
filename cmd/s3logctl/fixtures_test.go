package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/s3log/s3log/internal/fixtures"
	"github.com/s3log/s3log/sessionfile"
)

// TestFixtures imports every real session, reads it back byte for byte, exports
// it, and imports the export under another id: the same Merkle root.
func TestFixtures(t *testing.T) {
	names := fixtures.Files(t, "sessions", "legacy-messages")
	total := 0
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			header, events := expand(t, name)
			total += bytes.Count(events, []byte{'\n'})
			c := newCLI(t)
			r := fromJSON[imported](t, c.must("", "import", "--log", "log", name, "--output", "json"))
			if int(r.Count) != bytes.Count(events, []byte{'\n'}) || r.Duplicate {
				t.Errorf("%+v", r)
			}
			if got := c.must("", "cat", "log"); got != string(events) {
				t.Error("the events have changed")
			}
			first := c.info()
			if !bytes.Equal(first.Header, header) {
				t.Errorf("the header is %s, want %s", first.Header, header)
			}
			if got := c.requestsOf("", "import", "--log", "log", name); got.Put != 0 || got.Get != 1 {
				t.Errorf("imported again by %+v", got)
			}
			for _, form := range [][]string{nil, {"--zstd", "--pack"}} {
				out := filepath.Join(t.TempDir(), "out")
				c.must("", append([]string{"export", "log", "-o", out}, form...)...)
				id := "again" + strings.Join(form, "")
				c.must("", "import", "--log", id, out)
				again := fromJSON[infoReport](t, c.must("", "info", id, "--output", "json"))
				if *again.Root != *first.Root {
					t.Errorf("%q: root %s, want %s", form, *again.Root, *first.Root)
				}
			}
		})
	}
	t.Logf("%d real sessions, %d events", len(names), total)
}

// expand is the header and the events of a session file.
func expand(t *testing.T, name string) (header, events []byte) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := sessionfile.NewReader(f, sessionfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for line, err := range r.Events() {
		if err != nil {
			t.Fatal(err)
		}
		events = append(append(events, line.Bytes...), '\n')
	}
	return r.Header(), events
}

// Transcripts of other agents are wrapped.
func TestFixturesOfOtherAgents(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(fixtures.Dir(t), "other-agents", "*.jsonl"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no transcripts (%v)", err)
	}
	total := 0
	for _, name := range names {
		c := newCLI(t)
		args := []string{"import", "--log", "log", "--wrap", "agent/line", name}
		if strings.Contains(name, "edge_cases") {
			c.want(exitUsage, "", args...)
			c.want(exitNotFound, "", "cat", "log")
			args = append(args, "--salvage")
		}
		c.must("", args...)
		n := strings.Count(c.must("", "cat", "log", "--type", "agent/line"), "\n")
		if n == 0 {
			t.Errorf("%s: no events", name)
		}
		total += n
	}
	t.Logf("%d transcripts, %d lines", len(names), total)
}
