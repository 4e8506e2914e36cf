package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
)

// interruptible returns a cli whose commands end with what interrupt does.
func (c *cli) interruptible() (in *cli, interrupt func()) {
	ctx, cancel := context.WithCancel(c.ctx)
	c.t.Cleanup(cancel)
	out := *c
	out.ctx = ctx
	return &out, cancel
}

// Whoever presses Ctrl-C need not end the input, too: not at a terminal where
// nothing was typed, and not where it never ends.
func TestInterruptedWhileReading(t *testing.T) {
	for name, endless := range map[string]bool{"nothing comes": false, "endless": true} {
		for _, args := range [][]string{{"append", "log"}, {"append", "log", "-"}, {"append", "log", "--stream"}, {"import", "--log", "new", "-"}, {"replay", "new"}, {"append", "new", "--create", "--header", "-"}} {
			stream := args[len(args)-1] == "--stream"
			if stream && endless { // what has been read is appended
				continue
			}
			c := newCLI(t)
			c.must(notes("a"), "append", "log", "--create")
			in, interrupt := c.interruptible()
			blocked := make(chan struct{})
			t.Cleanup(func() { close(blocked) })
			reads := 0
			r := in.with(func(s *surroundings) {
				s.stdin = readerFunc(func(p []byte) (int, error) {
					if reads++; reads == 3 || !endless {
						interrupt()
					}
					if !endless {
						<-blocked
						return 0, io.EOF
					}
					return copy(p, strings.Repeat(notes("b"), len(p)/len(notes("b")))), nil
				})
			}).run("", append(args, "--output", "json")...)
			if stream { // which ends like that
				if r.exit != exitDone {
					t.Errorf("%s, %q: %+v", name, args, r)
				}
				continue
			}
			if f := fromJSON[failure](t, r.stderr); r.exit != exitFailure || f.Code != "interrupted" || f.Hint != nil || !strings.Contains(f.Error, "stdin: interrupted") {
				t.Errorf("%s, %q: %+v", name, args, r)
			}
			if got := c.must("", "cat", "log"); strings.Count(got, "\n") != 1 {
				t.Errorf("%s, %q: %s", name, args, got)
			}
		}
	}
}

// The user's own Ctrl-C is no failure of the store.
func TestInterruptedRequest(t *testing.T) {
	c := newCLI(t)
	c.must(notes("a"), "append", "log", "--create")
	for _, args := range [][]string{{"info", "log"}, {"check", "log"}, {"cat", "log"}, {"ls"}, {"verify", "log"}, {"fsck"}, {"export", "log"}, {"inspect", "log"}, {"fold", "log"}, {"rm", "log"}, {"resume", "log"}} {
		in, interrupt := c.interruptible()
		r := in.through(func(s objstore.Store) objstore.Store {
			return faultstore.New(s, faultstore.Rule{Match: faultstore.Not(faultstore.Op("Put")), Fault: faultstore.Before(interrupt)}, // and the driver tells what becomes of it
				faultstore.Rule{Fault: faultstore.Fail(&objstore.Error{Op: "Get", Key: "k", Class: objstore.ErrUndecided, Err: context.Canceled})})
		}).run("", append(args, "--output", "json")...)
		if f := fromJSON[failure](t, r.stderr); r.exit != exitFailure || f.Code != "interrupted" || f.Hint != nil || !strings.HasSuffix(f.Error, "interrupted") || strings.Contains(f.Error, "no answer") {
			t.Errorf("%q: %+v", args, r)
		}
	}
}

// An import that is interrupted lets the log go: to repeat it at once goes on from
// there, and says so.
func TestInterruptedImport(t *testing.T) {
	c := newCLI(t)
	lines := c.must("", "generate", "--events", "500")
	in, interrupt := c.with(func(s *surroundings) {
		tune := s.tune
		s.tune = func(o *backend.Options) {
			tune(o)
			o.MaxBatch = 8 << 10
		}
	}).interruptible()
	r := in.faulty(faultstore.Rule{Match: faultstore.Puts("manifests/"), Nth: 3, Fault: faultstore.Before(interrupt)}).run(lines, "import", "--log", "log", "-")
	if r.exit != exitFailure || !strings.Contains(r.stderr, "interrupted") || !strings.Contains(r.stderr, "hint: what was committed is there: repeat it") {
		t.Errorf("%+v", r)
	}
	if i := c.info(); i.Next == 0 || i.Next >= 500 || !i.Owner.Released {
		t.Errorf("%+v", i)
	}
	if r := c.want(exitDone, lines, "import", "--log", "log", "-"); !strings.HasPrefix(r.stdout, "imported ") {
		t.Errorf("%+v", r)
	}
	if i := c.info(); i.Next != 500 {
		t.Errorf("%+v", i)
	}
}
