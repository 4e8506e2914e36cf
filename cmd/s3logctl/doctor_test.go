package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend/objstore"
)

// careless is a store that writes whatever the condition says.
type careless struct{ objstore.Store }

func (c careless) Put(ctx context.Context, key string, body []byte, _ objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	cond := objstore.IfAbsent()
	if info, err := c.Head(ctx, key); err == nil {
		cond = objstore.IfVersion(info.Version)
	}
	return c.Store.Put(ctx, key, body, cond, opt)
}

func TestDoctorOfUnsafeStore(t *testing.T) {
	c := newCLI(t)
	c.must(notes("a"), "append", "log", "--create")
	c = c.through(func(s objstore.Store) objstore.Store { return careless{s} })
	r := c.run("", "doctor")
	if r.exit != exitUnsupported {
		t.Fatalf("exit code %d\n%s%s", r.exit, r.stdout, r.stderr)
	}
	for _, want := range []string{
		"\nfailed   conditional  If-None-Match: * must fail where an object is: the condition was ignored\n",
		"\n                      → two writers would overwrite each other",
		"\nskipped  race         not tried: the store is not safe to write to\n",
		"\nthis store and these credentials can: read, list; cannot: append, collect\n",
	} {
		if !strings.Contains("\n"+r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	if !strings.HasPrefix(r.stderr, "s3logctl: writing here is not safe: conditional: ") || !strings.Contains(r.stderr, "\nhint: logs on this store can be read") {
		t.Error(r.stderr)
	}
	got := fromJSON[doctorReport](t, c.run("", "doctor", "--output", "json").stdout)
	if got.Profile != nil || *got.Can.Append || !*got.Can.Read {
		t.Errorf("%+v", got)
	}
}

// What a store says reaches no terminal as it is.
func TestDoctorEscapes(t *testing.T) {
	c := newCLI(t)
	c.must(notes("a"), "append", "log", "--create")
	c = c.through(func(s objstore.Store) objstore.Store { return evil{s} }).with(func(s *surroundings) { s.stdoutTTY = true })
	for _, args := range [][]string{{"doctor"}, {"doctor", "--output", "json"}} {
		r := c.run("", args...)
		if r.exit != exitFailure {
			t.Errorf("exit code %d", r.exit)
		}
		if all := r.stdout + r.stderr; strings.ContainsAny(all, "\x1b\u202e") || !strings.Contains(all, "evil") {
			t.Errorf("%q", all)
		}
	}
}

// evil is a store whose errors are meant for terminals.
type evil struct{ objstore.Store }

func (evil) Get(_ context.Context, key string, _ objstore.GetOptions) (objstore.Object, error) {
	return objstore.Object{}, &objstore.Error{Op: "Get", Key: key, Class: objstore.ErrUndecided, Err: errors.New("evil \x1b[2J\u202e\nsecond line"), Hint: "\x1b[31mred"}
}

// Interrupted, it says so and not that the store is bad.
func TestDoctorInterrupted(t *testing.T) {
	c := newCLI(t)
	c.must(notes("a"), "append", "log", "--create")
	ctx, cancel := context.WithCancel(t.Context())
	c.ctx = ctx
	c = c.through(func(s objstore.Store) objstore.Store { return &interrupting{s, cancel} })
	r := c.run("", "doctor", "--output", "json")
	if r.exit != exitFailure || !strings.Contains(r.stderr, `"code":"interrupted"`) {
		t.Errorf("exit code %d: %s", r.exit, r.stderr)
	}
}

type interrupting struct {
	objstore.Store
	cancel func()
}

func (i *interrupting) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	i.cancel()
	return i.Store.Put(ctx, key, body, cond, opt)
}
