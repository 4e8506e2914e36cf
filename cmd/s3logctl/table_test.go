package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A table is as wide as the terminal: columns are as wide as what is in them, and
// what is too long in the last one is cut.
func TestFittedTable(t *testing.T) {
	for _, test := range []struct {
		width int
		want  string
	}{
		{0, "A      N  NAME\nlong   7  日本 a name that goes on and on\n日    12  x\n"},
		{30, "A      N  NAME\nlong   7  日本 a name that go…\n日    12  x\n"},
		{5, "A      N  NAME\nlong   7  日本 a name tha…\n日    12  x\n"},
	} {
		var out bytes.Buffer
		table := fitted{w: &out, width: test.width, right: []bool{false, true}}
		table.row("A", "N", "NAME")
		table.row("long", "7", "日本 a name that goes on and on")
		table.row("日", "12", "x")
		table.flush()
		if got := out.String(); got != test.want {
			t.Errorf("in %d columns:\n%swant\n%s", test.width, got, test.want)
		}
	}
	var out bytes.Buffer
	table := fitted{w: &out}
	for i := range 2*fittedRows + 1 {
		table.row(fmt.Sprint(i), "x")
	}
	table.flush()
	if n := strings.Count(out.String(), "\n"); n != 2*fittedRows+1 || len(table.rows) != 0 {
		t.Errorf("%d lines", n)
	}
}

// Text is broken at spaces, and loses none of its words.
func TestWrapped(t *testing.T) {
	for _, test := range []struct {
		text  string
		width int
		want  []string
	}{
		{"a b c", 0, []string{"a b c"}},
		{"a b c", 5, []string{"a b c"}},
		{"a b c", 4, []string{"a b", "c"}},
		{"a  b c", 4, []string{"a  b", "c"}},
		{"wordy b c", 3, []string{"wordy", "b c"}},
		{"日本 語", 5, []string{"日本", "語"}},
		{"", 3, []string{""}},
	} {
		if got := wrapped(test.text, test.width); !slices.Equal(got, test.want) {
			t.Errorf("%q in %d: %q, want %q", test.text, test.width, got, test.want)
		}
	}
}

// On a terminal, lists and descriptions fit it, whatever the ids are; in a pipe
// nothing is cut.
func TestOutputFitsTheTerminal(t *testing.T) {
	c := newCLI(t)
	long := strings.Repeat("a very long id ", 20)
	for _, id := range []string{long, "日本語" + strings.Repeat("語", 60), "short"} {
		c.must(`{"type":"note","data":1}`+"\n", "append", id, "--create", "--label", strings.Repeat("label ", 12))
	}
	for _, args := range [][]string{{"ls"}, {"ls", "--sizes", "--deleted"}, {"info", long}} {
		if out := c.must("", args...); !strings.Contains(out, strings.TrimSuffix(long, " ")) {
			t.Errorf("%q in a pipe:\n%s", args, out)
		}
		for _, width := range []int{80, 110, 400} {
			terminal := c.with(func(s *surroundings) { s.stdoutTTY, s.width = true, func() int { return width } })
			for line := range strings.Lines(terminal.must("", args...)) {
				if n := columns(strings.TrimSuffix(line, "\n")); n > width && strings.Contains(strings.TrimSpace(line), "  ") {
					t.Errorf("%q: %d columns of %d: %s", args, n, width, line)
				}
			}
		}
	}
}
