package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend/objstore/tracestore"
)

// requestsOf runs a command that has to succeed, or may have a verdict, and returns what it asked of
// the store.
func (c *cli) requestsOf(stdin string, args ...string) tracestore.Counts {
	c.t.Helper()
	r := c.run(stdin, append([]string{"--requests"}, args...)...)
	if r.exit != exitDone && r.exit != exitLive {
		c.t.Fatalf("s3logctl %q: exit code %d\n%s", args, r.exit, r.stderr)
	}
	q := fromJSON[requestReport](c.t, r.stderr).Requests
	return tracestore.Counts{Put: q.Put, Get: q.Get, Head: q.Head, List: q.List, Delete: q.Delete, Copy: q.Copy}
}

// TestRequestBudgets holds every verb to the requests that it may cost.
func TestRequestBudgets(t *testing.T) {
	session := file(t, numbered(0, 40))
	for _, test := range []struct {
		name  string
		stdin string
		args  []string
		want  tracestore.Counts
	}{
		{"create", notes("a"), []string{"append", "new", "--create"}, tracestore.Counts{Put: 1}},
		{"append", notes("a"), []string{"append", "log"}, tracestore.Counts{Get: 1, Put: 1}},
		{"keyed append", notes("a"), []string{"append", "log", "--key", "k"}, tracestore.Counts{Get: 1, Put: 1}},
		{"keyed append again", notes("a"), []string{"append", "log", "--key", "used"}, tracestore.Counts{Get: 1}},
		{"create of what is there", notes("a"), []string{"append", "log", "--create"}, tracestore.Counts{Get: 1, Put: 2}},
		{"stream of one batch", notes("a", "b"), []string{"append", "log", "--stream"}, tracestore.Counts{Get: 1, Put: 1}},
		{"info", "", []string{"info", "log"}, tracestore.Counts{Get: 1}},
		{"cat", "", []string{"cat", "log"}, tracestore.Counts{Get: 1}},
		{"cat, some types", "", []string{"cat", "log", "--type", "x", "--from", "1"}, tracestore.Counts{Get: 1}},
		{"tail", "", []string{"tail", "log"}, tracestore.Counts{Get: 1}},
		{"tail of none", "", []string{"tail", "log", "-n", "0"}, tracestore.Counts{Get: 1}},
		{"tail from", "", []string{"tail", "log", "--from", "1"}, tracestore.Counts{Get: 1}},
		{"export", "", []string{"export", "log"}, tracestore.Counts{Get: 2}},
		{"import", "", []string{"import", session, "--log", "new"}, tracestore.Counts{Get: 1, Put: 1}},
		{"import again", "", []string{"import", session, "--log", "log"}, tracestore.Counts{Get: 1}},
		{"check", "", []string{"check", "log"}, tracestore.Counts{Get: 1}},
		{"check by an id", "", []string{"check", "log", "--open", "note", "--close", "x", "--id", "n"}, tracestore.Counts{Get: 1}},
		{"check of all events", "", []string{"check", "log", "--verify"}, tracestore.Counts{Get: 1}},
		{"inspect", "", []string{"inspect", "log"}, tracestore.Counts{Get: 1}},
		{"verify", "", []string{"verify", "log"}, tracestore.Counts{Get: 1}},
		{"resume", "", []string{"resume", "log"}, tracestore.Counts{Get: 1, Put: 1}},
		{"resume again", "", []string{"resume", "log"}, tracestore.Counts{Get: 1}},
		{"fork of a log in its tail", "", []string{"fork", "log", "child"}, tracestore.Counts{Get: 1, Put: 2}},
		{"replay", "", []string{"replay", "new", session}, tracestore.Counts{Get: 1, Put: 2}},
		// A directory keeps no metadata, so its manifests are read.
		{"ls", "", []string{"ls"}, tracestore.Counts{List: 1, Head: 1, Get: 1}},
		{"version", "", []string{"version"}, tracestore.Counts{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCLI(t)
			c.must("", "import", session, "--log", "log")
			if strings.HasSuffix(test.name, " again") && test.args[0] != "import" {
				c.must(test.stdin, test.args...)
			}
			if diff := cmp.Diff(test.want, c.requestsOf(test.stdin, test.args...)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Verbs that read, and dry runs of those that write, ask for no write and leave the
// store as it was.
func TestReadVerbsNeverWrite(t *testing.T) {
	c := newCLI(t)
	c.must(c.must("", "generate", "--events", "3000"), "import", "--log", "log", "-")
	c.must("", "fork", "log", "child", "--clip")
	tried := map[string]bool{}
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	before, err := treeSum(c.store)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"cat", "log"}, {"cat", "log", "--from", "2000"}, {"tail", "log"}, {"ls"}, {"ls", "--by", "name", "--deleted"},
		{"info", "log"}, {"export", "log", "--pack"}, {"__complete", "cat", ""},
		{"check", "log"}, {"check", "log", "--pair", "approval"}, {"check", "log", "--verify"}, {"__complete", "check", "--pair", ""},
		{"inspect", "log"}, {"inspect", "log", "--raw"}, {"verify", "log"}, {"verify", "--all"},
		{"diff", "log", "child"}, {"diff", "log", "child", "--verify", "--events=3"}, {"report", "log"}, {"fsck"}, {"fsck", "--read-data"},
		{"rm", "log"}, {"gc"}, {"gc", "log", "--grace", "1ms"}, {"fold", "--all", "--tail", "take"}, {"fsck", "--rebuild", "--restored", "log"},
		{"cp", "log", "--to", nowhere, "--dry-run"}, {"sync", "--from", c.store, "--to", nowhere, "--dry-run"},
	} {
		tried[args[0]] = true
		if got := c.requestsOf("", args...); got.Put+got.Delete+got.Copy != 0 {
			t.Errorf("%q: %+v", args, got)
		}
		if after, err := treeSum(c.store); err != nil || after != before {
			t.Errorf("%q changed the store (%v)", args, err)
		}
	}
	if _, err := os.Stat(nowhere); !os.IsNotExist(err) {
		t.Errorf("a dry run has made %s (%v)", nowhere, err)
	}
	for _, cmd := range newRootCommand(newGlobals(surroundings{})).Commands() {
		if is := scripted[cmd.Name()]; !is.writes && !is.noStore && !tried[cmd.Name()] && cmd.Name() != "help" {
			t.Errorf("%s was not tried: does it write?", cmd.Name())
		}
	}
}

func TestCost(t *testing.T) {
	for _, test := range []struct {
		counts tracestore.Counts
		want   string
	}{
		{tracestore.Counts{}, "0"},
		{tracestore.Counts{Put: 1000}, "0.005"},
		{tracestore.Counts{List: 1000}, "0.005"},
		{tracestore.Counts{Copy: 1000}, "0.005"},
		{tracestore.Counts{Get: 1000}, "0.0004"},
		{tracestore.Counts{Head: 1000}, "0.0004"},
		{tracestore.Counts{Delete: 1000}, "0"},
		{tracestore.Counts{Put: 1, Get: 1, BytesIn: 1 << 40}, "0.0000054"},
		{tracestore.Counts{Put: 2_000_000_000}, "10000"},
	} {
		if got := cost(test.counts); got.String() != test.want {
			t.Errorf("%+v costs %s, want %s", test.counts, got, test.want)
		}
	}
}
