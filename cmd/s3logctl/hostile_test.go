package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/s3log/s3log/manifest"
)

// hostile is a text that would do something to a terminal or to a page.
const hostile = "</script>\x1b[2J\x1b]0;owned\x07\u202e\u2066\u009b31m\x00\x7f\u200b\U000e0041\r"

// hostileLog is a log with such texts wherever a log has texts, and a line of a
// megabyte.
func hostileLog(t *testing.T, c *cli) (id, child string) {
	t.Helper()
	text := fmt.Sprintf("%q", hostile) // Go's escapes are not JSON's
	text = strings.NewReplacer(`\x1b`, `\u001b`, `\a`, `\u0007`, `\x00`, `\u0000`, `\x7f`, `\u007f`, `\U000e0041`, `\udb40\udc41`).Replace(text)
	raw := inJSON(hostile)
	var lines strings.Builder
	fmt.Fprintf(&lines, `{"type":"session","version":0,"id":%s,"createdAt":5,"delegationDepth":0,"cwd":%s}`+"\n", text, text)
	seq := 0
	add := func(typ, data string) {
		fmt.Fprintf(&lines, `{"type":%s,"seq":%d,"time":%d,"data":%s}`+"\n", typ, seq, seq+1, data)
		seq++
	}
	add(`"turn/start"`, `{"turn":1}`)
	add(`"step/start"`, `{"turn":1,"step":1}`)
	add(`"session/title"`, `{"title":`+text+`}`)
	add(`"user/message"`, `{"id":"m","role":"user","content":[{"type":"text","text":`+text+`}],"source":{"kind":"user"}}`)
	add(`"tool/call"`, `{"turn":1,"step":1,"callId":`+text+`,"name":`+text+`,"arguments":`+text+`}`)
	add(text, `{"raw":"`+raw+`","big":"`+strings.Repeat(raw, 1<<20/len(raw))+`"}`)
	add(`"approval/asked"`, `{"id":`+text+`}`)
	add(`"compaction/start"`, `{}`)
	id, child = "log "+hostile, "child "+hostile
	c.must(lines.String(), "import", "--label", "host "+hostile, "--log", id, "-")
	c.must("", "fold", "--apply", "--tail", "take", "--", id)
	c.must("", "fork", "--at", "0", "--header", file(t, strings.SplitAfterN(lines.String(), "\n", 2)[0]), "--", "x", child)
	return id, child
}

// inJSON is a text that can be in a JSON string as it is, which has no raw controls.
func inJSON(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return -1
		}
		return r
	}, text)
}

// unsafeIn is the first character that a terminal might act on; false if there is
// none.
func unsafeIn(text string) (rune, bool) {
	for i, r := range text {
		if r == '\n' || r == '\t' {
			continue
		}
		if _, size := utf8.DecodeRuneInString(text[i:]); unsafeRune(r) || r == utf8.RuneError && size == 1 {
			return r, true
		}
	}
	return 0, false
}

// Whatever is in a log, in a store or in an argument: nothing that a terminal might
// act on reaches it, of any verb, as text or as JSON, on stdout or on stderr; and
// what is text for people is harmless in a pipe, too.
func TestHostileStrings(t *testing.T) {
	c := newCLI(t)
	c.must(`{"type":"turn/end","time":1,"data":{"turn":1}}`+"\n", "append", "x", "--create")
	id, child := hostileLog(t, c)
	// What is no log, or a broken one.
	for name, body := range map[string]string{
		manifest.Key("broken " + hostile): `{"format":"s3log.manifest","version":1,` + hostile + `,"sum":"00000000"}` + "\n",
		manifest.Key("other " + hostile):  hostile,
		"segments/loose.txt":              hostile,
	} {
		if err := os.WriteFile(filepath.Join(c.store, filepath.FromSlash(name)), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	out := filepath.Join(dir, strings.ReplaceAll(strings.ReplaceAll(hostile, "\x00", ""), "/", "")) // a name that a file can have
	good := `{"type":"note","data":"` + inJSON(hostile) + "\"}\n"
	stdin := good + hostile + "\n" // which is refused
	lineVerbs := []string{"cat", "tail", "inspect", "export"}
	calls := [][]string{
		{"ls"}, {"ls", "--sizes", "--deleted"}, {"info", "--", id}, {"info", "--", child}, {"cat", "--", id}, {"tail", "--", id}, {"inspect", "--", id},
		{"check", "--", id}, {"check", "--pair", "approval", "--", id}, {"check", "--pair", "tool", "--", id}, {"check", "--open", hostile, "--close", "x", "--id", hostile, "--", id},
		{"verify", "--", id, child}, {"verify", "--all"}, {"diff", "--events=9", "--", id, child}, {"report", "-o", out, "--force", "--", id},
		{"export", "--", id}, {"export", "-o", out, "--", id}, {"import", "--log", id, out}, {"import", out}, {"import", "--log", id, "-"},
		{"append", "--", id}, {"append", "--label", hostile, "--", id, file(t, good)}, {"append", "--key", hostile, "--label", hostile, "--", id}, {"append", "--stream", "--progress", "--", id}, {"append", "--create", "--", "new " + hostile},
		{"resume", "--take-over", "--", id}, {"replay", "--", "again " + hostile, out}, {"fork", "--", id, "fork " + hostile}, {"fork", "--", id, child},
		{"cp", "--to", dir, "--", id}, {"cp", "--", id, "copy " + hostile}, {"sync", "--from", c.store, "--to", dir}, {"fold", "--all"}, {"fold", "--apply", "--", id},
		{"gc"}, {"gc", "--", id}, {"fsck"}, {"fsck", "--read-data"}, {"fsck", "--rebuild", "--", "broken " + hostile}, {"rm", "--", id}, {"rm", "--apply", "--", child},
		{"doctor", "--rounds", "1", "--log", id}, {"decide", hostile},
		// Errors.
		{hostile}, {"cat", "--" + hostile}, {"cat", "--", "missing " + hostile}, {"cat", "--", "broken " + hostile}, {"info", "--", "other " + hostile},
		{"ls", "--by", hostile}, {"ls", "--store", hostile}, {"ls", "--store", "./" + hostile}, {"ls", "--store", "s3://b/?" + hostile}, {"ls", "--output", hostile},
		{"check", "--pair", hostile, "--", id}, {"verify", "--since", hostile, "--", id}, {"append", "--", id, hostile}, {"append", "--create", "--header", hostile, "--", id},
		{"export", "-o", "/" + hostile + "/x", "--", id}, {"fold", "--tail", hostile, "--", id}, {"bench", "--scenario", hostile}, {"bench", "--latency=" + hostile},
		{"completion", hostile}, {"generate", hostile}, {"version", hostile}, {"demo", "--keep", out}, {"help", hostile}, {"__complete", "cat", ""}, {"__complete", "cat", hostile},
	}
	terminal := c.with(func(s *surroundings) {
		s.stdoutTTY, s.stderrTTY, s.width = true, true, func() int { return 100 }
	})
	for _, args := range calls {
		for _, way := range []struct {
			name string
			c    *cli
			args []string
		}{{"on a terminal", terminal, nil}, {"as JSON", terminal, []string{"--output", "json"}}, {"in a pipe", c, nil}} {
			all := append(slices.Clone(way.args), args...)
			r := way.c.run(stdin, all...)
			if r.stdout+r.stderr == "" {
				t.Errorf("%q says nothing", all)
			}
			for stream, text := range map[string]string{"stdout": r.stdout, "stderr": r.stderr} {
				if way.name == "in a pipe" && stream == "stdout" && slices.Contains(lineVerbs, args[0]) {
					continue // the bytes that are stored
				}
				if bad, found := unsafeIn(text); found {
					t.Errorf("%q %s: %q is on %s: %.300q", all, way.name, bad, stream, text)
				}
			}
		}
	}
	for _, cmd := range newRootCommand(newGlobals(surroundings{})).Commands() {
		if !slices.ContainsFunc(calls, func(args []string) bool { return args[0] == cmd.Name() }) {
			t.Errorf("%s was not tried", cmd.Name())
		}
	}
}
