package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
)

// Cases that went wrong elsewhere; the names are those of the collection.

// faulty makes the command meet faults.
func (c *cli) faulty(rules ...faultstore.Rule) *cli {
	return c.through(func(s objstore.Store) objstore.Store { return faultstore.New(s, rules...) })
}

// impatient makes it give up soon.
func (c *cli) impatient() *cli {
	return c.with(func(s *surroundings) {
		before := s.tune
		s.tune = func(o *backend.Options) {
			before(o)
			o.CommitTimeout = 500 * time.Millisecond
		}
	})
}

// C-20: persistence is never silently off.
func TestC20PersistenceSilentlyOff(t *testing.T) {
	c := newCLI(t)
	c.must(notes("a"), "append", "log", "--create")
	denied := c.faulty(faultstore.Rule{Match: faultstore.Op("Put"), Fault: faultstore.Denied()})
	for _, args := range [][]string{
		{"append", "log"}, {"append", "new", "--create"}, {"append", "log", "--stream"}, {"append", "new", "--stream", "--create"},
		{"import", "--log", "new", "-"},
	} {
		r := denied.want(exitDenied, notes("b", "c"), args...)
		if !strings.Contains(r.stderr, "denied") || !strings.Contains(r.stderr, "hint: ") {
			t.Errorf("%q: %s", args, r.stderr)
		}
		got := fromJSON[failure](t, denied.want(exitDenied, notes("b", "c"), append(args, "--output", "json")...).stderr)
		if got.Code != "denied" || got.Log == nil {
			t.Errorf("%q: %+v", args, got)
		}
	}
	if got := c.must("", "cat", "log"); strings.Count(got, "\n") != 1 {
		t.Error(got)
	}
	c.want(exitNotFound, "", "info", "new")

	// A store that stops taking writes while a stream goes on.
	later := c.faulty(faultstore.Rule{Match: faultstore.Op("Put"), Nth: 2, Fault: faultstore.Denied()})
	gate := newGate(notes("b"), notes("c"))
	r := later.with(func(s *surroundings) { s.stdin = gate }).during(func() { c.until(2); gate.open() }, "append", "log", "--stream")
	if r.exit != exitDenied || !strings.Contains(r.stdout, "appended 1 event (seq 1) of log") {
		t.Errorf("exit code %d\n%s%s", r.exit, r.stdout, r.stderr)
	}
}

// C-21: whatever an id is, it names one place below the store, or none.
func TestC21HostileIDs(t *testing.T) {
	c := newCLI(t)
	outside := filepath.Dir(c.store)
	for _, id := range []string{"..", "../other", "a/../../b", ".", "/etc/passwd", "a\nb", "a\x00b", "manifests/x", "=2E", "CON", strings.Repeat("x", 1024)} {
		c.must(notes("x"), "append", "--create", "--", id)
		if got := c.must("", "cat", "--", id); strings.Count(got, "\n") != 1 {
			t.Errorf("%q: %s", id, got)
		}
		if got := fromJSON[infoReport](t, c.must("", "info", "--output", "json", "--", id)); got.Log != id || got.Next != 1 {
			t.Errorf("%q: %+v", id, got)
		}
		// A header's own id may be another.
		if other := id + "2"; len(other) <= 1024 {
			c.must("{\"type\":\"session\",\"id\":\"inner\"}\n"+numbered(0, 1), "import", "--log", other, "-")
		}
	}
	for _, id := range []string{"", strings.Repeat("x", 2000), "a\xff"} {
		c.want(exitUsage, notes("x"), "append", "--create", "--", id)
		c.want(exitUsage, "", "cat", "--", id)
		c.want(exitUsage, notes("x"), "import", "--log", id, "-")
	}
	beside, err := os.ReadDir(outside)
	if err != nil || len(beside) != 1 {
		t.Errorf("beside the store: %v, %v", beside, err)
	}
	err = filepath.WalkDir(filepath.Join(c.store, "manifests"), func(path string, d os.DirEntry, err error) error {
		if key, kerr := filepath.Rel(c.store, path); err != nil || kerr != nil || len(key) > 255 {
			return errors.Join(err, kerr, errors.New(path))
		}
		if !d.IsDir() && filepath.Ext(path) != ".json" {
			return errors.New(path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	// The manifest must be that of the log asked for.
	body, err := os.ReadFile(filepath.Join(c.store, "manifests", "CON.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(c.store, "manifests", "con.json"), body, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.want(exitDamaged, "", "cat", "con")
	c.want(exitDamaged, notes("x"), "append", "con")
}

// C-22: what cannot be loaded is an error of its own kind, with nothing on
// stdout, and nothing is made in its place.
func TestC22UnloadableReportedAsSuccess(t *testing.T) {
	c := newCLI(t)
	c.must(notes("a"), "append", "log", "--create")
	verbs := [][]string{{"cat"}, {"tail"}, {"tail", "-f"}, {"info"}, {"export"}, {"append"}}
	run := func(c *cli, id string, exit int, code string) {
		t.Helper()
		for _, verb := range verbs {
			r := c.want(exit, notes("x"), append(append([]string{"--output", "json"}, verb...), id)...)
			if got := fromJSON[failure](t, r.stderr); got.Code != code {
				t.Errorf("%q %s: %+v, want %s", verb, id, got, code)
			}
		}
	}
	before, err := treeSum(c.store)
	if err != nil {
		t.Fatal(err)
	}
	run(c, "missing", exitNotFound, "not-found")
	denied := c.faulty(faultstore.Rule{Match: faultstore.Op("Get", "Head", "List"), Fault: faultstore.Denied()})
	run(denied, "log", exitDenied, "denied")
	run(denied, "missing", exitDenied, "denied")
	denied.want(exitDenied, "", "ls")
	denied.want(exitDenied, "", "ls", "--by", "name", "--output", "json")
	denied.want(exitDenied, notes("x"), "import", "--log", "missing", "-")
	away := c.faulty(faultstore.Rule{Match: faultstore.Op("Get", "Head", "List"), Fault: faultstore.Unavailable()})
	run(away, "log", exitFailure, "unavailable")
	away.want(exitFailure, "", "ls")
	if after, err := treeSum(c.store); err != nil || after != before {
		t.Errorf("the store has changed (%v)", err)
	}
	if err := os.WriteFile(filepath.Join(c.store, "manifests", "bad.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(c, "bad", exitDamaged, "corrupt")
	// Logs whose metadata may not be read are listed, and the listing fails.
	one := c.faulty(faultstore.Rule{Match: faultstore.And(faultstore.Op("Get", "Head"), faultstore.Key("manifests/log.json")), Fault: faultstore.Denied()})
	r := one.run("", "ls", "--by", "name", "--output", "json")
	if r.exit == exitDone || strings.Count(r.stdout, "\n") != 2 || !strings.Contains(r.stdout, `"code":"denied"`) {
		t.Errorf("exit code %d\n%s", r.exit, r.stdout)
	}
}

// B-08: a byte order mark never costs the first event.
func TestB08ByteOrderMark(t *testing.T) {
	c := newCLI(t)
	const bom = "\xef\xbb\xbf"
	c.must(bom+numbered(0, 2), "import", "--log", "imported", "-")
	c.must(bom+numbered(0, 2), "append", "appended", "--create")
	for _, id := range []string{"imported", "appended"} {
		if got := c.must("", "cat", id); got != numbered(0, 2) {
			t.Errorf("%s: %q", id, got)
		}
	}
	r := c.want(exitUsage, numbered(2, 1)+bom+numbered(3, 1), "append", "appended")
	if !strings.Contains(r.stderr, "stdin, line 2: ") {
		t.Error(r.stderr)
	}
}

// B-09: a block of NULs in the middle of a file imports nothing, or with
// --salvage what is before it, and says so.
func TestB09NULBlock(t *testing.T) {
	c := newCLI(t)
	input := numbered(0, 3) + strings.Repeat("\x00", 300) + "\n" + numbered(3, 3)
	r := c.want(exitDamaged, input, "import", "--log", "log", "-")
	if !strings.Contains(r.stderr, "stdin: line 4: ") {
		t.Error(r.stderr)
	}
	c.want(exitNotFound, "", "info", "log")
	got := fromJSON[imported](t, c.must(input, "import", "--log", "log", "--salvage", "--output", "json", "-"))
	if got.Count != 3 || len(got.Dropped) != 1 || got.Dropped[0].Line != 4 || got.Dropped[0].Lines != 4 {
		t.Errorf("%+v", got)
	}
	if got := c.must("", "cat", "log"); got != numbered(0, 3) {
		t.Error(got)
	}
}

// gate is an input that waits between its parts until it is opened.
type gate struct {
	parts []string
	ready chan struct{}
	wait  bool
}

func newGate(parts ...string) *gate {
	return &gate{parts: parts, ready: make(chan struct{}, len(parts))}
}

func (g *gate) open() { g.ready <- struct{}{} }

func (g *gate) Read(p []byte) (int, error) {
	if len(g.parts) == 0 {
		return 0, io.EOF
	}
	if g.wait {
		<-g.ready
		g.wait = false
	}
	n := copy(p, g.parts[0])
	if g.parts[0] = g.parts[0][n:]; g.parts[0] == "" {
		g.parts, g.wait = g.parts[1:], true
	}
	return n, nil
}

// during runs a command while something else happens.
func (c *cli) during(meanwhile func(), args ...string) result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, time.Minute)
	defer cancel()
	d := *c
	d.ctx = ctx
	done := make(chan result)
	go func() { done <- d.run("", args...) }()
	meanwhile()
	return <-done
}

// Of several imports of one file at a time, one makes the log, and the others find
// that it is there.
func TestImportsAtATime(t *testing.T) {
	c := newCLI(t)
	lines := c.must("", "generate", "--events", "20")
	other := faultstore.Before(func() { c.must(lines, "import", "--log", "log", "-") })
	r := c.faulty(faultstore.Rule{Match: faultstore.Puts("manifests/"), Nth: 1, Fault: other}).want(exitDone, lines, "import", "--log", "log", "-", "--output", "json")
	if got := fromJSON[imported](t, r.stdout); !got.Duplicate || got.Next != 20 {
		t.Errorf("%+v", got)
	}
	// The same where the log has a beginning.
	begun := strings.Join(strings.SplitAfter(lines, "\n")[:6], "")
	c.must(begun, "import", "--log", "begun", "-")
	other = faultstore.Before(func() { c.must(lines, "import", "--log", "begun", "-") })
	r = c.faulty(faultstore.Rule{Match: faultstore.Puts("manifests/"), Nth: 1, Fault: other}).want(exitDone, lines, "import", "--log", "begun", "-", "--output", "json")
	if got := fromJSON[imported](t, r.stdout); !got.Duplicate || got.Next != 20 {
		t.Errorf("%+v", got)
	}
	c.want(exitConflict, c.must("", "generate", "--events", "21", "--seed", "2"), "import", "--log", "log", "-")
}
