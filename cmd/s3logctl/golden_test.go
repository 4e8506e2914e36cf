package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// scripted says what the script of a verb, testdata/VERB.txtar, need not show, since
// there is no such thing. What is not listed here has to show everything: what a
// verb that is new has to show, too, before its tests pass.
var scripted = map[string]struct {
	// writes: it changes the store. All others have to prove that they do not.
	writes bool
	// lines: its output is lines in either format, and only its errors are JSON.
	lines bool
	// noJSON: it has nothing to say in JSON, not even an error of its own.
	noJSON bool
	// noStore: it touches none.
	noStore bool
}{
	"append": {writes: true}, "resume": {writes: true}, "fork": {writes: true}, "replay": {writes: true},
	"import": {writes: true}, "cp": {writes: true}, "sync": {writes: true}, "decide": {writes: true},
	"fold": {writes: true}, "rm": {writes: true}, "gc": {writes: true}, "fsck": {writes: true}, // with --rebuild
	"demo": {writes: true}, "bench": {writes: true},
	"doctor": {writes: true}, // below probe/
	"cat":    {lines: true}, "tail": {lines: true}, "inspect": {lines: true},
	"generate": {lines: true, noStore: true}, "version": {noStore: true}, "completion": {noJSON: true, noStore: true},
}

// call is one command line of a script, and what the script says about it.
type call struct {
	exit string
	args string
	says []string
}

func (c call) json() bool { return strings.Contains(c.args, "--output json") }

func (c call) failed() bool { return c.exit != "0" && c.exit != "3" }

// about reports whether the script says anything about what was written to a
// stream.
func (c call) about(stream string) bool {
	return slices.ContainsFunc(c.says, func(s string) bool {
		words := strings.Fields(s)
		return words[0] == stream || len(words) > 1 && words[1] == stream && slices.Contains([]string{"cmp", "value", "fields", "cp"}, words[0])
	})
}

var callLine = regexp.MustCompile(`^status (\d) s3logctl (\S+)(.*)$`)

// callsOf are the command lines of a verb in a script.
func callsOf(script, verb string) (calls []call) {
	mine := false
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "-- ") {
			break // the files
		}
		if m := callLine.FindStringSubmatch(line); m != nil {
			if mine = m[2] == verb; mine {
				calls = append(calls, call{exit: m[1], args: m[3]})
			}
			continue
		}
		if mine && line != "" {
			last := &calls[len(calls)-1]
			last.says = append(last.says, line)
		}
	}
	return calls
}

// TestEveryVerbHasAScript: the script of a verb shows its output as text and as
// JSON, and two errors; and if the verb only reads, that the store is as before.
func TestEveryVerbHasAScript(t *testing.T) {
	for _, cmd := range newRootCommand(newGlobals(surroundings{})).Commands() {
		verb := cmd.Name()
		if verb == "help" {
			continue
		}
		body, err := os.ReadFile(filepath.Join("testdata", verb+".txtar"))
		if err != nil {
			t.Errorf("%s has no script: %v", verb, err)
			continue
		}
		script, is := string(body), scripted[verb]
		has := func(what string, ok func(c call) bool) {
			if !slices.ContainsFunc(callsOf(script, verb), ok) {
				t.Errorf("testdata/%s.txtar does not show %s", verb, what)
			}
		}
		has("its output as text", func(c call) bool { return !c.failed() && !c.json() && c.about("stdout") })
		switch {
		case is.noJSON:
		case is.lines:
			has("an error as JSON", func(c call) bool { return c.failed() && c.json() && c.about("stderr") })
		default:
			has("its output as JSON", func(c call) bool { return !c.failed() && c.json() && c.about("stdout") })
		}
		var failures []string
		for _, c := range callsOf(script, verb) {
			if c.failed() && !slices.Contains(failures, c.args) {
				failures = append(failures, c.args)
			}
		}
		if len(failures) < 2 {
			t.Errorf("testdata/%s.txtar shows %d ways in which it fails, want 2", verb, len(failures))
		}
		has("what an error says", func(c call) bool { return c.failed() && c.about("stderr") })
		if !is.writes && !is.noStore && !regexp.MustCompile(`(?m)^unchanged `).MatchString(script) {
			t.Errorf("testdata/%s.txtar does not show that nothing is written", verb)
		}
	}
	for verb := range scripted {
		if cmd, _, err := newRootCommand(newGlobals(surroundings{})).Find([]string{verb}); err != nil || cmd.Name() != verb {
			t.Errorf("there is no verb %s (%v)", verb, err)
		}
	}
}
