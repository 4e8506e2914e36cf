package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
)

// unknown appends through a store whose replies to writes do not decide, and
// returns the token.
func (c *cli) unknown(fault faultstore.Fault, args ...string) string {
	c.t.Helper()
	faulty := c.faulty(faultstore.Rule{Match: faultstore.Op("Put"), Fault: fault}).impatient()
	r := faulty.want(exitUnknown, notes("in question"), append([]string{"append", "log", "--output", "json"}, args...)...)
	f := fromJSON[failure](c.t, r.stderr)
	if f.Code != "outcome-unknown" || f.Token == "" || *f.Log != "log" || !strings.Contains(*f.Hint, "decide") {
		c.t.Fatalf("%+v", f)
	}
	return f.Token
}

func (c *cli) decide(token string) decided {
	c.t.Helper()
	return fromJSON[decided](c.t, c.must("", "decide", "--output", "json", token))
}

func TestDecide(t *testing.T) {
	for _, test := range []struct {
		name      string
		fault     faultstore.Fault
		committed bool
	}{
		{"never arrived", faultstore.Unavailable(), false},
		{"reply lost", faultstore.LostReply(), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, create := range []bool{false, true} {
				c := newCLI(t)
				var args []string
				before := int64(1)
				if create {
					args, before = []string{"--create"}, 0
					c.must(notes("a"), "append", "other", "--create")
				} else {
					c.must(notes("a"), "append", "log", "--create")
				}
				token := c.unknown(test.fault, args...)
				want := decided{test.committed, receipt{Log: "log", First: before, Next: before}}
				if test.committed {
					want.Count, want.Next = 1, before+1
				}
				for range 2 { // the answer stays
					got := c.decide(token)
					want.Revision, want.Generation = got.Revision, got.Generation
					if got != want {
						t.Errorf("create %v: %+v, want %+v", create, got, want)
					}
				}
				out := c.must("", "decide", token)
				if strings.HasPrefix(out, "committed: 1 event ") != test.committed || strings.HasPrefix(out, "not committed, and never will be: ") == test.committed {
					t.Error(out)
				}
				exit, events := exitDone, strings.Count(c.run("", "cat", "log").stdout, "\n")
				if create && !test.committed {
					exit = exitNotFound
				}
				if c.run("", "cat", "log").exit != exit || events != int(want.Next) {
					t.Errorf("create %v: %d events, want %d", create, events, want.Next)
				}
				c.must(notes("goes on"), "append", "log", "--create")
			}
		})
	}
}

// What arrives after the decision does not land any more.
func TestDecideBeforeALateWrite(t *testing.T) {
	for _, create := range []bool{false, true} {
		c := newCLI(t)
		c.must(notes("a"), "append", "other", "--create")
		args := []string{"append", "log", "--output", "json", "--create"}
		if !create {
			c.must(notes("a"), "append", "log", "--create")
		}
		var late *faultstore.Injection
		faulty := c.through(func(s objstore.Store) objstore.Store {
			f := faultstore.New(s)
			if !create {
				args = args[:len(args)-1]
			}
			late = f.Inject(faultstore.Rule{Match: faultstore.Op("Put"), Fault: faultstore.Late()})
			return f
		}).impatient()
		token := fromJSON[failure](t, faulty.want(exitUnknown, notes("late"), args...).stderr).Token
		if got := c.decide(token); got.Committed {
			t.Errorf("%+v", got)
		}
		if late.Held() == 0 {
			t.Fatal("nothing was held")
		}
		late.Release(context.Background())
		if got := c.run("", "cat", "log").stdout; strings.Contains(got, "late") {
			t.Error(got)
		}
		if got := c.decide(token); got.Committed {
			t.Errorf("%+v", got)
		}
	}
}

// A repetition with the same key is what the token asks about, too.
func TestDecideAfterRepetition(t *testing.T) {
	c := newCLI(t)
	c.must(notes("a"), "append", "log", "--create")
	token := c.unknown(faultstore.Unavailable(), "--key", "k")
	c.must(notes("between"), "append", "log")
	c.must(notes("in question"), "append", "log", "--key", "k")
	got := c.decide(token)
	if !got.Committed || !got.Duplicate || got.First != 2 || got.Count != 1 {
		t.Errorf("%+v", got)
	}
	if out := c.must("", "decide", token); !strings.HasPrefix(out, "committed, by a repetition with the same key: 1 event (seq 2) of log") {
		t.Error(out)
	}
}

// Where the settling is unsettled itself, the question remains the caller's.
func TestDecideUnknown(t *testing.T) {
	c := newCLI(t)
	c.must(notes("a"), "append", "log", "--create")
	token := c.unknown(faultstore.Unavailable())
	faulty := c.faulty(faultstore.Rule{Match: faultstore.Op("Put"), Fault: faultstore.Unavailable()})
	ctx, cancel := context.WithCancel(t.Context())
	faulty.ctx = ctx
	stop := faulty.through(func(s objstore.Store) objstore.Store {
		f := faultstore.New(s)
		f.Inject(faultstore.Rule{Match: faultstore.Op("Put"), Nth: 3, Fault: faultstore.Before(cancel)})
		return f
	})
	r := stop.want(exitUnknown, "", "decide", token)
	if !strings.Contains(r.stderr, "\ntoken: "+token+"\n") {
		t.Error(r.stderr)
	}
	if got := c.decide(token); got.Committed {
		t.Errorf("%+v", got)
	}
	c.want(exitNotFound, "", "--store", t.TempDir()+"/nowhere", "decide", token)
}

// An interrupted append is not committed, or not known, and never silent.
func TestInterruptedAppend(t *testing.T) {
	c := newCLI(t)
	c.must(notes("a"), "append", "log", "--create")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in := *c
	in.ctx = ctx
	r := in.through(func(s objstore.Store) objstore.Store {
		return faultstore.New(s, faultstore.Rule{Match: faultstore.Op("Put"), Fault: faultstore.Late()},
			faultstore.Rule{Match: faultstore.Op("Put"), Nth: 2, Fault: faultstore.Before(cancel)})
	}).with(func(s *surroundings) {
		s.stdin = io.MultiReader(strings.NewReader(notes("b")), readerFunc(func([]byte) (int, error) {
			go cancel()
			return 0, io.EOF
		}))
	}).run("", "append", "log", "--output", "json")
	f := fromJSON[failure](t, r.stderr)
	switch r.exit {
	case exitFailure:
		if f.Code != "interrupted" || f.Token != "" {
			t.Errorf("%+v", f)
		}
	case exitUnknown:
		if got := c.decide(f.Token); got.Committed {
			t.Errorf("%+v", got)
		}
	default:
		t.Errorf("exit code %d: %s", r.exit, r.stderr)
	}
	if got := c.must("", "cat", "log"); strings.Count(got, "\n") != 1 {
		t.Error(got)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
