package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A demo whose writer does not do its part says why, and leaves nothing behind.
func TestDemoThatFails(t *testing.T) {
	needSignals(t)
	c := newCLI(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	program := func(name string, err error) *cli {
		return c.with(func(s *surroundings) { s.executable = func() (string, error) { return name, err } })
	}
	for _, test := range []struct {
		c    *cli
		want string
	}{
		{program("", errors.New("no such program")), "no such program"},
		{program("/nonexistent/s3logctl", nil), "starting the writer: "},
		{program("/bin/false", nil), "the writer "},
	} {
		if r := test.c.run("", "demo"); r.exit != exitFailure || !strings.Contains(r.stderr, test.want) || strings.Contains(r.stdout, "Done") {
			t.Errorf("exit code %d, want %q: %s", r.exit, test.want, r.stderr)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	interrupted := program(mustLookPath(t), nil)
	interrupted.ctx = ctx
	if r := interrupted.run("", "demo"); r.exit != exitFailure {
		t.Errorf("exit code %d: %s", r.exit, r.stderr)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func mustLookPath(t *testing.T) string {
	t.Helper()
	name, err := exec.LookPath("s3logctl")
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestWrap(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"one", "one"},
		{"one two  three four", "one two\n  three\n  four"},
		{"äöü äöü äöüäöüäöüäöü x", "äöü äöü\n  äöüäöüäöüäöü\n  x"},
	} {
		if got := wrap(test.text, 8, "  "); got != test.want {
			t.Errorf("%q: %q, want %q", test.text, got, test.want)
		}
	}
}
