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

// On a terminal no line is wider than it is: neither tables nor descriptions nor
// help, whatever is in the log. A word that has no space in it stays whole.
func TestOutputFits(t *testing.T) {
	const width = 80
	c := newCLI(t)
	id := strings.Repeat("a log with a long name ", 8)
	long := strings.Repeat("t", 120)
	session := c.must("", "generate", "--events", "300") + fmt.Sprintf(`{"type":%q,"seq":300,"time":1,"data":1}`+"\n", long)
	c.must(session, "import", "--log", id, "-", "--label", strings.Repeat("host ", 20))
	c.must("", "fork", id, "child", "--clip")
	c.must(notes("x")+fmt.Sprintf(`{"type":%q,"data":1}`+"\n", long), "append", "child")
	terminal := c.with(func(s *surroundings) { s.stdoutTTY, s.width = true, func() int { return width } })
	commands := [][]string{
		{"--help"}, {"ls"}, {"ls", "--sizes", "--deleted"}, {"info", id}, {"check", id, "--pair", "tool"}, {"check", id, "--open", long, "--close", "x"},
		{"diff", id, "child", "--events=40"}, {"doctor", "--rounds", "1"}, {"bench", "--scenario", "append", "--events", "20"},
	}
	for _, cmd := range newRootCommand(newGlobals(surroundings{})).Commands() {
		commands = append(commands, []string{cmd.Name(), "--help"})
	}
	for _, args := range commands {
		out := terminal.run("", args...).stdout
		if out == "" {
			t.Errorf("%q shows nothing", args)
		}
		for line := range strings.Lines(out) {
			line = strings.TrimSuffix(line, "\n")
			whole := slices.ContainsFunc(strings.Fields(line), func(word string) bool { return columns(word) > width/2 })
			example := strings.HasPrefix(line, "  ") && strings.Contains(line, "s3logctl ")
			if columns(line) > width && !whole && !example && !strings.HasPrefix(line, "file://") {
				t.Errorf("%q: %d columns: %s", args, columns(line), line)
			}
		}
	}
}

// Every verb explains itself and shows how it is used.
func TestHelp(t *testing.T) {
	for _, cmd := range newRootCommand(newGlobals(surroundings{})).Commands() {
		if cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		if cmd.Long == "" || !strings.Contains(cmd.Example, "s3logctl "+cmd.Name()) || cmd.GroupID == "" && cmd.Name() != "version" {
			t.Errorf("%s: no description, no example or no group", cmd.Name())
		}
		for line := range strings.Lines(cmd.Long) {
			if n := columns(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s: a line of %d columns: %s", cmd.Name(), n, line)
			}
		}
		for line := range strings.Lines(cmd.Example) {
			if !strings.HasPrefix(line, "  ") || columns(line) > 110 {
				t.Errorf("%s: an example of %d columns: %s", cmd.Name(), columns(line), line)
			}
		}
	}
}
