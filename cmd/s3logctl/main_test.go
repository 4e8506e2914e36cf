package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/filestore"
)

// The test binary runs as the command itself when it is started under its name:
// in scripts, and by tests that need processes.
func TestMain(m *testing.M) {
	testscript.Main(leakless{m}, map[string]func(){"s3logctl": func() { os.Exit(systemRun()) }})
}

// leakless are tests that leave no goroutine behind.
type leakless struct{ *testing.M }

func (m leakless) Run() int {
	code := m.M.Run()
	// A commit whose caller has left is decided in the background, within a minute.
	deciding := goleak.IgnoreAnyFunction("github.com/s3log/s3log/manifest.(*backoff).sleep")
	if err := goleak.Find(deciding); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// cli runs the command in this process.
type cli struct {
	t     testing.TB
	store string // a directory
	ctx   context.Context
	// change, unless nil, changes what the command touches.
	change func(*surroundings)
}

type result struct {
	exit           int
	stdout, stderr string
}

func newCLI(t testing.TB) *cli { return &cli{t: t, store: t.TempDir() + "/store", ctx: t.Context()} }

func (c *cli) run(stdin string, args ...string) result {
	c.t.Helper()
	var stdout, stderr bytes.Buffer
	env := map[string]string{storeVariable: c.store}
	around := surroundings{
		stdin: strings.NewReader(stdin), stdout: &stdout, stderr: &stderr,
		getenv:     func(name string) string { return env[name] },
		open:       openUnsynced,
		executable: func() (string, error) { return exec.LookPath("s3logctl") },
		tune:       func(o *backend.Options) { o.MinBackoff, o.MaxBackoff = time.Millisecond, 5*time.Millisecond },
	}
	if c.change != nil {
		c.change(&around)
	}
	exit := run(c.ctx, args, around)
	return result{exit, stdout.String(), stderr.String()}
}

// openUnsynced is openStore without waiting for the disk, which no test in one
// process needs.
func openUnsynced(ctx context.Context, at location, use use) (objstore.Store, error) {
	store, err := openStore(ctx, at, use)
	if f, ok := store.(*filestore.Store); ok && err == nil && use != useRead {
		f.Close()
		return filestore.Open(at.dir, filestore.Options{NoSync: true})
	}
	return store, err
}

// must runs a command that has to succeed, and returns its output.
func (c *cli) must(stdin string, args ...string) string {
	c.t.Helper()
	r := c.run(stdin, args...)
	if r.exit != exitDone {
		c.t.Fatalf("s3logctl %s: exit code %d\n%s", strings.Join(args, " "), r.exit, r.stderr)
	}
	return r.stdout
}

// want runs a command that has to end with an exit code, and without output if
// that is not 0.
func (c *cli) want(exit int, stdin string, args ...string) result {
	c.t.Helper()
	r := c.run(stdin, args...)
	if r.exit != exit {
		c.t.Fatalf("s3logctl %q: exit code %d, want %d\nstdout: %s\nstderr: %s", args, r.exit, exit, r.stdout, r.stderr)
	}
	if exit != exitDone && r.stdout != "" {
		c.t.Errorf("s3logctl %q failed and still wrote %s", args, r.stdout)
	}
	return r
}

// through makes the command use a store around the one in its directory.
func (c *cli) through(wrap func(objstore.Store) objstore.Store) *cli {
	d := *c
	before := c.change
	d.change = func(s *surroundings) {
		if before != nil {
			before(s)
		}
		open := s.open
		s.open = func(ctx context.Context, at location, use use) (objstore.Store, error) {
			store, err := open(ctx, at, use)
			if err != nil {
				return nil, err
			}
			return wrap(store), nil
		}
	}
	return &d
}

// with adds a change of what the command touches.
func (c *cli) with(change func(*surroundings)) *cli {
	d := *c
	before := c.change
	d.change = func(s *surroundings) {
		if before != nil {
			before(s)
		}
		change(s)
	}
	return &d
}

// fromJSON decodes the last line of an output.
func fromJSON[T any](t testing.TB, text string) (v T) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &v); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, text)
	}
	return v
}

// numbered makes events that carry their seq and a time.
func numbered(first, n int) string {
	var b strings.Builder
	for seq := first; seq < first+n; seq++ {
		fmt.Fprintf(&b, `{"type":"note","seq":%d,"time":%d,"data":{"n":%d}}`+"\n", seq, 1000+seq, seq)
	}
	return b.String()
}

// notes makes events without seq.
func notes(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, `{"type":"note","data":%q}`+"\n", name)
	}
	return b.String()
}

// file writes a temporary file.
func file(t testing.TB, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file.jsonl")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
