package main

import (
	"os"
	"strings"
	"testing"

	"github.com/s3log/s3log/manifest"
)

// A writer is called user@host where nobody has given it a name, or given it none.
func TestDefaultLabel(t *testing.T) {
	c := newCLI(t)
	c.change = func(s *surroundings) { s.writer = func() string { return "ann@box" } }
	for _, tc := range []struct {
		id    string
		flags []string
		want  string
	}{
		{"default", nil, "ann@box"},
		{"given", []string{"--label", "job-17"}, "job-17"},
		{"none", []string{"--label", ""}, ""},
	} {
		c.must(`{"type":"note","data":1}`, append([]string{"append", tc.id, "--create"}, tc.flags...)...)
		if got := fromJSON[infoReport](t, c.must("", "info", tc.id, "--output", "json")).Owner.Label; got != tc.want {
			t.Errorf("%s: the label is %q, want %q", tc.id, got, tc.want)
		}
	}
	c.must("", "rm", "default", "--apply")
	if text := c.must("", "info", "default"); !strings.Contains(text, "Z by ann@box. ") {
		t.Errorf("it is not said who deleted the log:\n%s", text)
	}
}

func TestUserAtHost(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if got := userAtHost(); !strings.HasSuffix(got, fittingLabel(host)) {
		t.Errorf("%q does not name the host %q", got, host)
	}
	for name, want := range map[string]string{
		"ann@box": "ann@box", "": "", "a\xff": "a?",
		strings.Repeat("x", 200): strings.Repeat("x", manifest.MaxLabel),
		strings.Repeat("ü", 100): strings.Repeat("ü", manifest.MaxLabel/2),
		strings.Repeat(`\`, 100): strings.Repeat(`\`, manifest.MaxLabel/2), // as JSON
	} {
		if got := fittingLabel(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
