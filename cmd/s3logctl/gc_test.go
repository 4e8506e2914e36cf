package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/s3log/s3log/backend/objstore/faultstore"
)

// litter puts a segment that nobody names below a log's id, an hour ago.
func (c *cli) litter(id, nonce string) (file string) {
	c.t.Helper()
	file = filepath.Join(c.store, "segments", id, "0000000000000000-00000001-"+nonce+".jsonl.zst")
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("x"), 0o666); err != nil {
		c.t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(file, old, old); err != nil {
		c.t.Fatal(err)
	}
	return file
}

// What cannot be removed is named, does not end the rest, and makes the command
// fail as the store said.
func TestGcThatMayNotRemove(t *testing.T) {
	c := newCLI(t)
	c.must(notes("a"), "append", "log", "--create")
	stays, goes := c.litter("log", "0123456789abcdef"), c.litter("other", "0123456789abcdef")
	faulty := c.faulty(faultstore.Rule{Match: faultstore.And(faultstore.Op("Delete"), faultstore.Prefix("segments/log/")), Fault: faultstore.Denied()})
	r := faulty.run("", "gc", "--apply", "--grace", "1ms", "--output", "json")
	if r.exit != exitDenied {
		t.Errorf("exit code %d", r.exit)
	}
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if len(lines) != 2 {
		t.Fatalf("%q", lines)
	}
	first, second := fromJSON[collected](t, lines[0]), fromJSON[collected](t, lines[1])
	if o := first.Objects[0]; *first.Log != "log" || first.Removed != 0 || o.Removed || o.Fate != "stale" || !strings.Contains(o.Error, "access denied") {
		t.Errorf("%+v", first)
	}
	if *second.Log != "other" || second.Removed != 1 || second.RemovedBytes != 1 {
		t.Errorf("%+v", second)
	}
	if f := fromJSON[failure](t, r.stderr); f.Code != "denied" || *f.Log != "log" || *f.Key != first.Objects[0].Key || !strings.Contains(f.Error, "1 object could not be removed") {
		t.Errorf("%+v", f)
	}
	if _, err := os.Stat(stays); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(goes); !os.IsNotExist(err) {
		t.Errorf("%s: %v", goes, err)
	}

	// Neither may the barrier be made: what needs it stays, with the reason.
	c.litter("third", "0123456789abcdef")
	r = c.faulty(faultstore.Rule{Match: faultstore.Puts("manifests/"), Fault: faultstore.Denied()}).run("", "gc", "third", "--apply", "--grace", "1ms")
	if r.exit != exitDenied || !strings.Contains(r.stdout, "stays: 1 object waiting for a barrier") || !strings.Contains(r.stderr, "barrier: ") {
		t.Errorf("%+v", r)
	}
	// A list that fails is an error of its own.
	r = c.faulty(faultstore.Rule{Match: faultstore.Op("List"), Fault: faultstore.Unavailable()}).want(exitFailure, "", "gc")
	if !strings.Contains(r.stderr, "gc: List segments/") {
		t.Errorf("%+v", r)
	}
}

// Interrupted, a collection says how far it got.
func TestGcInterrupted(t *testing.T) {
	c := newCLI(t)
	c.must(notes("a"), "append", "log", "--create")
	c.litter("first", "0123456789abcdef")
	c.litter("second", "0123456789abcdef")
	ctx, cancel := context.WithCancel(t.Context())
	stopped := c.faulty(faultstore.Rule{Match: faultstore.And(faultstore.Op("Delete"), faultstore.Prefix("segments/second/")), Fault: faultstore.Before(cancel)})
	stopped.ctx = ctx
	r := stopped.run("", "gc", "--apply", "--grace", "1ms")
	if r.exit != exitFailure || !strings.Contains(r.stdout, "\nuntil it was interrupted: 1 object, 1 B removed") ||
		!strings.Contains(r.stderr, "s3logctl: not everything was looked at: interrupted\nhint: nothing is half done: ") {
		t.Errorf("%+v", r)
	}
	if r := c.run("", "gc", "--apply", "--grace", "1ms"); r.exit != exitDone || !strings.Contains(r.stdout, "\n1 object, 1 B removed\n") {
		t.Errorf("the next one: %+v", r)
	}
}

// A deletion of which nobody knows has a token that settles it.
func TestRmOfUnknownOutcome(t *testing.T) {
	for _, fault := range []faultstore.Fault{faultstore.LostReply(), faultstore.Unavailable()} {
		c := newCLI(t)
		c.must(notes("a"), "append", "log", "--create")
		r := c.faulty(faultstore.Rule{Match: faultstore.Op("Put"), Fault: fault}).impatient().want(exitUnknown, "", "rm", "log", "--apply", "--output", "json")
		f := fromJSON[failure](t, r.stderr)
		if r.stdout != "" || f.Token == "" || *f.Log != "log" {
			t.Fatalf("%+v", r)
		}
		got := c.decide(f.Token)
		deleted := c.run("", "cat", "log").exit == exitNotFound
		if got.Committed != deleted || got.Count != 0 || got.First != 1 {
			t.Errorf("%+v, deleted %v", got, deleted)
		}
	}
}
