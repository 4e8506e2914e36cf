package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// What documents say of the command is tried: every command line that they show
// must be one that the command takes, and every block of theirs that begins with
//
//	```sh run
//
// is run, those of one document one after another, with an embedded store of their
// own, in a directory where there is nothing but docs. A block
//
//	```text output
//
// behind one has lines of what it prints, in order; … stands for anything.

// block is a fenced block of a document.
type block struct {
	line int    // where its first line is
	info string // what is behind the fence
	text string
}

// manual is a document.
type manual struct {
	name   string // from the module's root
	blocks []block
	prose  []string // what is in single backquotes outside of them
}

// manuals reads every document of the module.
func manuals(t *testing.T) (all []manual) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name != root && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".md"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		all = append(all, readManual(filepath.ToSlash(rel), string(text)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var inlineCode = regexp.MustCompile("`([^`]+)`")

func readManual(name, text string) manual {
	m := manual{name: name}
	var open *block
	var prose strings.Builder
	n := 0
	for line := range strings.Lines(text) {
		n++
		fence := strings.TrimSpace(line)
		switch {
		case open != nil && fence == "```":
			m.blocks = append(m.blocks, *open)
			open = nil
		case open != nil:
			open.text += line
		case strings.HasPrefix(fence, "```"):
			open = &block{line: n + 1, info: strings.TrimSpace(strings.TrimPrefix(fence, "```"))}
		default:
			prose.WriteString(line)
		}
	}
	for _, c := range inlineCode.FindAllStringSubmatch(prose.String(), -1) {
		m.prose = append(m.prose, strings.ReplaceAll(c[1], "\n", " "))
	}
	return m
}

// shellWords splits a text into the words of its commands, as far as documents
// need a shell: quotes, comments, pipes and lists, redirections, assignments in
// front of a command, and $(…), which is a command of its own.
func shellWords(text string) (commands [][]string) {
	var words []string
	var word strings.Builder
	var quote rune
	inWord := false
	endWord := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	endCommand := func() {
		endWord()
		for len(words) > 0 && assignment.MatchString(words[0]) {
			words = words[1:]
		}
		if len(words) > 0 {
			commands = append(commands, words)
		}
		words = nil
	}
	runes := []rune(strings.ReplaceAll(text, "\\\n", " "))
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == '\\' && i+1 < len(runes):
			i++
			word.WriteRune(runes[i])
			inWord = true
		case r == '#' && !inWord:
			for i+1 < len(runes) && runes[i+1] != '\n' {
				i++
			}
		case strings.ContainsRune("|&;()\n", r):
			endCommand()
		case r == '>' || r == '<':
			if _, err := strconv.Atoi(word.String()); err == nil { // 2>
				word.Reset()
				inWord = false
			}
			endWord()
			for i+1 < len(runes) && strings.ContainsRune(">& ", runes[i+1]) {
				i++
			}
			for i+1 < len(runes) && !strings.ContainsRune(" \n|;)", runes[i+1]) {
				i++
			}
		case r == ' ' || r == '\t':
			endWord()
		case r == '$' && i+1 < len(runes) && runes[i+1] == '(':
			endCommand()
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	endCommand()
	return commands
}

var (
	assignment  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	placeholder = regexp.MustCompile(`^[A-Z][A-Z0-9-]*(:[A-Z]+)?$`)
)

// before are words that a shell, or another program, puts in front of a command.
var before = []string{"if", "then", "else", "while", "until", "do", "!", "time", "exec", "env", "sudo", "{"}

// ours are the arguments of the command lines of this program in a text.
func ours(text string) (all [][]string) {
	for _, words := range shellWords(text) {
		for len(words) > 0 && (slices.Contains(before, words[0]) || assignment.MatchString(words[0])) {
			words = words[1:]
		}
		if len(words) > 2 && words[0] == "go" && words[1] == "run" && words[2] == "./cmd/s3logctl" {
			words = words[2:]
		}
		if len(words) > 0 && filepath.Base(words[0]) == "s3logctl" {
			all = append(all, words[1:])
		}
	}
	return all
}

// wrong says what is wrong with a command line, if anything. A whole one must
// have as many arguments as its verb takes.
func wrong(args []string, whole bool) error {
	if slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "…") || strings.HasPrefix(a, "[") }) {
		whole = false
	}
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.Contains(a, "…") || a == "VERB" })
	for i, a := range args {
		args[i] = strings.Trim(a, "[]")
	}
	root := newRootCommand(newGlobals(surroundings{getenv: func(string) string { return "" }}))
	root.InitDefaultHelpFlag()
	root.InitDefaultVersionFlag()
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if cmd == root && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return fmt.Errorf("there is no verb %q", rest[0])
	}
	cmd.InitDefaultHelpFlag()
	err = cmd.ParseFlags(rest)
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok && placeholder.MatchString(invalid.GetValue()) {
		return nil // --at SEQ
	}
	if _, ok := errors.AsType[*pflag.ValueRequiredError](err); ok && !whole {
		return nil // the flag alone, in a sentence
	}
	if err != nil || !whole || cmd == root {
		return err
	}
	return validArgs(cmd)
}

func validArgs(cmd *cobra.Command) error {
	if help, err := cmd.Flags().GetBool("help"); help && err == nil {
		return nil
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// TestDocumentedCommandLines: every command line that a document shows, in a
// block or in a sentence, and every example of --help, has a verb and flags that
// there are.
func TestDocumentedCommandLines(t *testing.T) {
	shown := 0
	for _, m := range manuals(t) {
		for _, b := range m.blocks {
			if b.info == "go" || b.info == "json" || strings.HasSuffix(b.info, "output") {
				continue
			}
			for _, args := range ours(b.text) {
				shown++
				if err := wrong(args, true); err != nil {
					t.Errorf("%s:%d: s3logctl %s: %v", m.name, b.line, strings.Join(args, " "), err)
				}
			}
		}
		for _, text := range m.prose {
			for _, args := range ours(text) {
				shown++
				if err := wrong(args, false); err != nil {
					t.Errorf("%s: `%s`: %v", m.name, text, err)
				}
			}
		}
	}
	var help func(cmd *cobra.Command)
	help = func(cmd *cobra.Command) {
		for _, args := range ours(cmd.Example) {
			shown++
			if err := wrong(args, true); err != nil {
				t.Errorf("examples of %s: s3logctl %s: %v", cmd.CommandPath(), strings.Join(args, " "), err)
			}
		}
		for _, sub := range cmd.Commands() {
			help(sub)
		}
	}
	help(newRootCommand(newGlobals(surroundings{})))
	if shown < 100 {
		t.Errorf("only %d command lines were found", shown)
	}
}

// TestWrongCommandLinesAreFound: what the test above looks at, it understands.
func TestWrongCommandLinesAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"s3logctl gc --apply": "",
		"s3logctl gc --aply":  "unknown flag: --aply",
		"s3logctl collect":    "no verb",
		"FOO=1 s3logctl --output json ls --limit 3 | jq .log":     "",
		"s3logctl ls --limit three":                               "invalid argument",
		"s3logctl fork parent child --at SEQ":                     "",
		"s3logctl fork parent":                                    "takes",
		"if s3logctl verify --nothing; then :; fi":                "unknown flag: --nothing",
		"root=$(s3logctl info LOG --wrong | jq -r .root)":         "unknown flag: --wrong",
		"echo 's3logctl nothing' # s3logctl nothing":              "",
		"go run ./cmd/s3logctl nothing":                           "no verb",
		"s3logctl append LOG 2>/dev/null <events.jsonl --creat":   "unknown flag: --creat",
		"x; s3logctl cat LOG \\\n  --form 3":                      "unknown flag: --form",
		"s3logctl [--store URL] VERB …":                           "",
		"s3logctl --store 's3://b/p?region=x&path-style=true' ls": "",
	} {
		var got []string
		for _, args := range ours(text) {
			if err := wrong(args, true); err != nil {
				got = append(got, err.Error())
			}
		}
		if all := strings.Join(got, "; "); (all == "") != (want == "") || !strings.Contains(all, want) {
			t.Errorf("%s: got %q, want %q", text, all, want)
		}
	}
}

// TestDocumentedBlocksRun runs what documents say can be run.
func TestDocumentedBlocksRun(t *testing.T) {
	if testing.Short() {
		t.Skip("many processes")
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	ran := 0
	for _, m := range manuals(t) {
		var steps []block
		for _, b := range m.blocks {
			if b.info == "sh run" || b.info == "text output" {
				steps = append(steps, b)
			}
		}
		if steps == nil {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			dir, home := t.TempDir(), t.TempDir()
			if docs, err := filepath.Abs(filepath.Join("..", "..", "docs")); err != nil || os.Symlink(docs, filepath.Join(dir, "docs")) != nil {
				t.Fatal(docs, err)
			}
			var last []byte
			for _, b := range steps {
				if b.info == "text output" {
					if missing := lacks(string(last), b.text); missing != "" {
						t.Errorf("%s:%d: the block before does not print %q, but\n%s", m.name, b.line, missing, last)
					}
					continue
				}
				ran++
				if _, err := exec.LookPath("jq"); err != nil && strings.Contains(b.text, "| jq ") {
					if os.Getenv("CI") != "" {
						t.Fatal(err)
					}
					t.Skip(err)
				}
				cmd := exec.CommandContext(t.Context(), bash, "-euo", "pipefail", "-c", b.text)
				cmd.Dir = dir
				cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + os.TempDir(), "LANG=C.UTF-8"}
				if last, err = cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s:%d: %v\n%s\n%s", m.name, b.line, err, b.text, last)
				}
				last = bytes.ReplaceAll(last, []byte(home), []byte("$HOME"))
			}
		})
	}
	if ran == 0 {
		t.Error("no document has anything to run")
	}
}

// lacks finds the first line that is not in an output, in this order.
func lacks(output, lines string) string {
	rest := strings.Split(output, "\n")
	for line := range strings.Lines(lines) {
		line = strings.TrimRight(line, " \n")
		if line == "" {
			continue
		}
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + `\s*$`)
		at := slices.IndexFunc(rest, pattern.MatchString)
		if at < 0 {
			return line
		}
		rest = rest[at+1:]
	}
	return ""
}

// TestRunbook: docs/operating.md says what to do for every code that the command
// may end with, and gives each its exit code.
func TestRunbook(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operating.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := maps.Clone(exits)
	rows := regexp.MustCompile("(?m)^\\| (\\d) \\| `([a-z-]+)` \\| .{20,} \\|$").FindAllStringSubmatch(string(text), -1)
	for _, row := range rows {
		exit, ok := want[row[2]]
		if !ok || strconv.Itoa(exit) != row[1] {
			t.Errorf("exit code %s with %q is none: %d", row[1], row[2], exit)
		}
		delete(want, row[2])
	}
	for code, exit := range want {
		t.Errorf("nothing says what to do about %q (%d)", code, exit)
	}
}
