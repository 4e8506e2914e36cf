package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
)

// A writer is killed between the opening and the closing event of a compaction:
// for whoever may only read, the marker is live before the log is resumed, and
// stale after it.
func TestKilledInACompaction(t *testing.T) {
	needSignals(t)
	c := newCLI(t)
	s := c.startStream("log", "--create", "--label", "agent")
	s.write(t, `{"type":"turn/start","data":{"turn":1}}
{"type":"compaction/start","data":{"compactionId":"c1","turn":1}}
{"type":"compaction/end","data":{"compactionId":"c1","turn":1}}
`)
	c.until(3)
	if r := c.run("", "check", "log"); r.exit != exitDone {
		t.Fatalf("closed, and still exit code %d\n%s", r.exit, r.stdout)
	}
	s.write(t, `{"type":"compaction/start","data":{"compactionId":"c2","turn":1}}
{"type":"note","data":"still here"}
`)
	c.until(5)
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.cmd.Wait() // killed

	check := func(exit int, verdict string) checked {
		t.Helper()
		var last checked
		for _, args := range [][]string{{"check", "log"}, {"check", "log", "--verify"}, {"check", "log", "--id", "compactionId"}} {
			r := c.run("", append(args, "--output", "json")...)
			last = fromJSON[checked](t, r.stdout)
			if r.exit != exit || string(last.Verdict) != verdict || last.Open == nil || last.Open.Seq != 3 {
				t.Errorf("%q: exit code %d, want %d: %s", args, r.exit, exit, r.stdout)
			}
		}
		return last
	}
	if got := check(exitLive, "live"); got.Boundary != nil || got.Generation != 1 || got.Owner.Label != "agent" || got.Owner.Released {
		t.Errorf("before the resume: %+v, owner %+v", got, got.Owner)
	}
	c.want(exitConflict, "", "resume", "log")
	r := fromJSON[receipt](t, c.must("", "resume", "log", "--take-over", "--output", "json"))
	if r.First != 5 || r.Count != 2 || r.Generation != 2 {
		t.Errorf("the resume: %+v", r)
	}
	if got := check(exitDone, "stale"); got.Boundary == nil || got.Boundary.Seq != 6 || got.Generation != 2 || *got.Open.Generation != 1 {
		t.Errorf("after the resume: %+v", got)
	}
	c.must("", "verify", "log")
}

// A writer that was only slow is fenced by a resume, and nothing of it lands.
func TestResumeFencesTheOldWriter(t *testing.T) {
	c := newCLI(t)
	s := c.startStream("log", "--create")
	s.write(t, `{"type":"compaction/start","data":{"compactionId":"c1","turn":null}}`+"\n")
	c.until(1)
	c.must("", "resume", "log", "--take-over")
	s.write(t, `{"type":"compaction/end","data":{"compactionId":"c1","turn":null}}`+"\n")
	s.in.Close()
	if exit := s.end(t); exit != exitConflict {
		t.Errorf("exit code %d: %s", exit, s.stderr.String())
	}
	if got := c.must("", "check", "log"); !strings.Contains(got, "stale: ") {
		t.Error(got)
	}
}

// deniesSegments is a store whose segments may not be read.
type deniesSegments struct{ objstore.Store }

func (s deniesSegments) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	if strings.HasPrefix(key, "segments/") {
		return objstore.Object{}, &objstore.Error{Op: "Get", Key: key, Class: objstore.ErrDenied, Status: 403, Code: "AccessDenied"}
	}
	return s.Store.Get(ctx, key, opt)
}

// What may not be read is neither damaged nor in order.
func TestVerifyDenied(t *testing.T) {
	c := newCLI(t)
	c.must(notes("a"), "append", "parent", "--create")
	c.must("", "fork", "parent", "child")
	denied := c.through(func(s objstore.Store) objstore.Store { return deniesSegments{s} })
	r := denied.run("", "verify", "--all", "--output", "json")
	if r.exit != exitDenied {
		t.Fatalf("exit code %d\n%s\n%s", r.exit, r.stdout, r.stderr)
	}
	var reports []verified
	for line := range strings.Lines(r.stdout) {
		reports = append(reports, fromJSON[verified](t, line))
	}
	if len(reports) != 2 || reports[0].OK || reports[0].Root != nil || !reports[1].OK || reports[1].Root == nil {
		t.Fatalf("%s", r.stdout)
	}
	if f := reports[0].Findings; len(f) != 1 || f[0].Kind != "denied" || !strings.HasPrefix(f[0].Key, "segments/child/") || !strings.Contains(f[0].Detail, "or it is missing") {
		t.Errorf("%+v", f)
	}
	if e := fromJSON[failure](t, r.stderr); e.Code != "denied" || *e.Log != "child" {
		t.Errorf("%+v", e)
	}
	// The bracket is judged all the same: it is in the manifest.
	denied.must("", "check", "child")
	if r := denied.run("", "check", "child", "--verify"); r.exit != exitDenied {
		t.Errorf("exit code %d: %s", r.exit, r.stderr)
	}
}

// A verdict that could not be written is a failure, and not a verdict.
func TestVerdictThatCannotBeWritten(t *testing.T) {
	c := newCLI(t)
	c.must(`{"type":"compaction/start","data":{}}`, "append", "log", "--create")
	if r := c.run("", "check", "log"); r.exit != exitLive || r.stderr != "" {
		t.Fatalf("exit code %d: %s", r.exit, r.stderr)
	}
	full := c.with(func(s *surroundings) { s.stdout = failingWriter{errors.New("disk is full")} })
	if r := full.run("", "check", "log"); r.exit != exitFailure || !strings.Contains(r.stderr, "disk is full") {
		t.Errorf("exit code %d: %s", r.exit, r.stderr)
	}
}

// docs/cli.md lists the brackets that have a name.
func TestBracketsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range pairNames() {
		p := seedpath.Pairs[name]
		by := "position"
		if p.ID != "" {
			by = "`" + p.ID + "`"
		}
		if row := fmt.Sprintf("\n| `%s` | `%s` | `%s` | %s |\n", name, p.Open, p.Close, by); !strings.Contains(string(text), row) {
			t.Errorf("docs/cli.md has no row %s", row)
		}
	}
}

func TestSeqList(t *testing.T) {
	many := make([]int64, 12)
	for i := range many {
		many[i] = int64(i)
	}
	for want, list := range map[string][]int64{
		"seq 4":    {4},
		"seq 4, 7": {4, 7},
		"seq …, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11": many,
	} {
		if got := seqList(list); got != want {
			t.Errorf("%v: %q, want %q", list, got, want)
		}
	}
}

// A log of the store's that is deleted after the listing was not asked for; one
// that was named was.
func TestDeletedAfterTheListing(t *testing.T) {
	for _, args := range [][]string{{"fold", "--all", "--apply"}, {"fold", "--all"}, {"verify", "--all"}} {
		c := newCLI(t)
		for _, id := range []string{"a", "b", "c"} {
			c.must(notes("x"), "append", id, "--create")
		}
		before := faultstore.Before(func() { c.must("", "rm", "b", "--apply", "--take-over") })
		rule := faultstore.Rule{Match: faultstore.And(faultstore.Op("Get"), faultstore.Key(manifest.Key("b"))), Nth: 2, Fault: before} // the first is the listing's
		r := c.faulty(rule).want(exitDone, "", args...)
		if !strings.Contains(r.stderr, "b was deleted in the meantime") || !strings.Contains(r.stdout, "a: ") || strings.Contains(r.stdout, "b: ") || !strings.Contains(r.stdout, "c: ") {
			t.Errorf("%q: %+v", args, r)
		}
		if r = c.run("", append(slices.Clone(args[:1]), "a", "b")...); r.exit != exitNotFound || strings.Contains(r.stderr, "meantime") {
			t.Errorf("%q, named: %+v", args, r)
		}
	}
}
