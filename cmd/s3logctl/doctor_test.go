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

// denying is a store that lets nobody write, in words of its own.
type denying struct{ objstore.Store }

func (denying) Put(_ context.Context, key string, _ []byte, _ objstore.Condition, _ objstore.PutOptions) (objstore.Info, error) {
	return objstore.Info{}, &objstore.Error{Op: "Put", Key: key, Class: objstore.ErrDenied, Code: "AccessDenied", Status: 403,
		Hint: "needs kms:GenerateDataKey", Err: errors.New("no kms:GenerateDataKey on \x1b[2Jkey/7")}
}

// Credentials that may only read are fine, unless it is said what is needed.
func TestDoctorNeed(t *testing.T) {
	c := newCLI(t)
	c.must(notes("a"), "append", "log", "--create")
	c = c.through(func(s objstore.Store) objstore.Store { return denying{s} })
	for args, want := range map[string]int{"": exitDone, "--need=read,list": exitDone, "--need=append": exitDenied, "--need=read,collect": exitDenied} {
		r := c.run("", append([]string{"doctor"}, strings.Fields(args)...)...)
		if r.exit != want || !strings.Contains(strings.Join(strings.Fields(r.stdout), " "), "The store says: no kms:GenerateDataKey on ") || strings.Contains(r.stdout+r.stderr, "\x1b") {
			t.Errorf("%s: exit code %d\n%s%s", args, r.exit, r.stdout, r.stderr)
		}
		if want == exitDenied && (!strings.Contains(r.stderr, "these credentials cannot ") || !strings.Contains(r.stderr, "hint: needs kms:GenerateDataKey")) {
			t.Error(r.stderr)
		}
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
