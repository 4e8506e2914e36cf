package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
)

// objectsIn are the files of a store's trees.
func objectsIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".s3log" {
			return filepath.SkipDir
		}
		if path != dir {
			names = append(names, strings.TrimPrefix(path, dir))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// struck makes the command's store one with a fault.
func struck(c *cli, rule faultstore.Rule) {
	c.change = func(s *surroundings) {
		s.open = func(ctx context.Context, at location, use use) (objstore.Store, error) {
			store, err := openUnsynced(ctx, at, use)
			return faultstore.New(store, rule), err
		}
	}
}

// A signal at any time ends a bench with exit code 1, and nothing is left.
func TestBenchInterrupted(t *testing.T) {
	for _, nth := range []int{1, 2, 9, 40, 100, 140} {
		c := newCLI(t)
		ctx, cancel := context.WithCancel(t.Context())
		c.ctx = ctx
		struck(c, faultstore.Rule{Nth: nth, Fault: faultstore.Before(cancel)})
		r := c.run("", "bench", "--events", "200", "--batch", "10", "--rounds", "5", "--goroutines", "4", "--logs", "10", "--output", "json")
		if r.exit != exitFailure || !strings.Contains(r.stderr, `"code":"interrupted"`) || strings.Contains(r.stdout, "namespace") {
			t.Errorf("interrupted by call %d: exit code %d\n%s%s", nth, r.exit, r.stdout, r.stderr)
		}
		if left := objectsIn(t, c.store); len(left) > 0 {
			t.Errorf("interrupted by call %d: %q are left", nth, left)
		}
	}
}

// What may not be removed is said, with what to do about it, after the results.
func TestBenchMayNotRemove(t *testing.T) {
	c := newCLI(t)
	struck(c, faultstore.Rule{Match: faultstore.Op("Delete"), Fault: faultstore.Denied()})
	r := c.run("", "bench", "--events", "20", "--scenario", "append", "--output", "json")
	if r.exit != exitDenied || !strings.Contains(r.stdout, `"scenario":"append"`) || strings.Contains(r.stdout, "namespace") {
		t.Errorf("exit code %d\n%s%s", r.exit, r.stdout, r.stderr)
	}
	for _, want := range []string{`2 of 2 objects below probe/bench-`, `"hint":"`, "s3logctl gc"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("%q is not in %s", want, r.stderr)
		}
	}
	// Of two complaints the first decides.
	struck(c, faultstore.Rule{Match: faultstore.Op("Delete", "List"), Fault: faultstore.Denied()})
	if r := c.run("", "bench", "--events", "20", "--rounds", "2", "--logs", "3", "--scenario", "list"); r.exit != exitDenied || strings.Count(r.stderr, "s3logctl: ") != 2 {
		t.Errorf("exit code %d\n%s", r.exit, r.stderr)
	}
}
