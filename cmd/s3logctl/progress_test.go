package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

// shows runs something that is shown for a while, and returns what was on the
// terminal.
func shows(t *testing.T, around surroundings, setup func(g *globals), act func(g *globals)) (text string) {
	synctest.Test(t, func(t *testing.T) {
		var stderr bytes.Buffer
		around.stderr = &stderr
		if around.stdout == nil {
			around.stdout = io.Discard
		}
		g := newGlobals(around)
		if setup != nil {
			setup(g)
		}
		act(g)
		text = stderr.String()
	})
	return text
}

// What takes long is watched on a terminal, and nothing is left of that.
func TestWatch(t *testing.T) {
	dumb := func(string) string { return "dumb" }
	for _, test := range []struct {
		tty, json bool
		getenv    func(string) string
		takes     time.Duration
		want      string
	}{
		{tty: true, takes: progressAfter / 2},
		{tty: true, takes: progressAfter + progressEvery*3/2, want: strings.Repeat("\rreading x: 0 requests, 0 B read\x1b[K", 2) + "\r\x1b[K"},
		{tty: true, json: true, takes: 2 * progressAfter},
		{tty: true, getenv: dumb, takes: 2 * progressAfter},
		{takes: 2 * progressAfter},
	} {
		t.Run(fmt.Sprint(test.tty, test.json, test.getenv != nil, test.takes), func(t *testing.T) {
			got := shows(t, surroundings{stderrTTY: test.tty, getenv: test.getenv}, func(g *globals) {
				if test.json {
					g.output = outputJSON
				}
			}, func(g *globals) {
				done := g.watch("reading x")
				time.Sleep(test.takes)
				done()
			})
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// What is counted is shown as it is counted, and as a bar where the total is known.
func TestProgress(t *testing.T) {
	got := shows(t, surroundings{stderrTTY: true, width: func() int { return 90 }}, nil, func(g *globals) {
		p := g.newProgress("importing x", events, 0)
		p.add(5)
		time.Sleep(progressAfter + progressEvery/2)
		p.done()
		p.done()
		p = g.newProgress("importing x", events, 400)
		p.add(100)
		time.Sleep(progressAfter + progressEvery/2)
		p.set(200, 400)
		time.Sleep(10 * progressAfter)
		p.done()
	})
	lines := strings.Split(got, "\x1b[K")
	for _, want := range []string{
		"\rimporting x: 5 events", "\r",
		"\rimporting x [======                  ] 25% of 400 events",
		"\rimporting x [============            ] 50% of 400 events, 10s left",
	} {
		found := false
		for _, line := range lines {
			found = found || line == want
		}
		if !found {
			t.Errorf("%q is not shown, but %q", want, lines)
		}
	}
	if !strings.HasSuffix(got, "\r\x1b[K") || strings.Contains(got, "\n") {
		t.Errorf("%q", got)
	}
}

// A line is never longer than the terminal is wide.
func TestProgressFits(t *testing.T) {
	for _, what := range []string{"copying x", "copying " + strings.Repeat("a long id ", 30), "日本語のログ" + strings.Repeat("語", 40)} {
		for _, total := range []int64{0, 1 << 40} {
			p := &progress{what: what, unit: bytesText, begin: time.Now()}
			p.set(1<<39, total)
			for width := 8; width < 300; width++ {
				line := p.line("12 requests, 3 KiB read", width)
				if n := columns(line); n >= width || n == 0 {
					t.Fatalf("%d columns of %d: %q", n, width, line)
				}
				if width > 100 && !strings.Contains(line, "512 GiB") && !strings.Contains(line, "50% of 1 TiB") {
					t.Errorf("%d: %q", width, line)
				}
			}
		}
	}
}

// What else is written to the terminal comes over the line, on whichever stream.
func TestOutputComesOverTheLine(t *testing.T) {
	var terminal bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		g := newGlobals(surroundings{stdout: &terminal, stderr: &terminal, stdoutTTY: true, stderrTTY: true})
		done := g.watch("reading x")
		time.Sleep(progressAfter + progressEvery/2)
		g.notice("a notice")
		time.Sleep(progressEvery)
		g.print(nil, func(w io.Writer) { fmt.Fprintln(w, "a report") })
		done()
	})
	line := "\rreading x: 0 requests, 0 B read\x1b[K"
	if got, want := terminal.String(), line+"\r\x1b[Ks3logctl: a notice\n"+line+"\r\x1b[Ka report\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Columns are counted as terminals show them.
func TestFit(t *testing.T) {
	for _, test := range []struct {
		text  string
		width int
		want  string
	}{
		{"abc", 0, "abc"}, {"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"abc", 1, "…"}, {"", 1, ""},
		{"日本語", 6, "日本語"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日…"}, {"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"}, {"\U0001f600!", 3, "\U0001f600!"},
	} {
		if got := fit(test.text, test.width); got != test.want || test.width > 0 && columns(got) > test.width {
			t.Errorf("%q in %d: %q, want %q", test.text, test.width, got, test.want)
		}
	}
}

// Lines that are typed are answered one by one; those of a file are not, unless that
// is asked for.
func TestTypedStream(t *testing.T) {
	typed := newCLI(t).with(func(s *surroundings) { s.stdinTTY = true })
	if r := typed.run(notes("a"), "append", "log", "--create", "--stream"); !strings.HasPrefix(r.stderr, "s3logctl: appended 1 event (seq 0) of log") {
		t.Errorf("%+v", r)
	}
	if r := typed.run("", "append", "log", "--stream", file(t, notes("b"))); r.exit != exitDone || r.stderr != "" {
		t.Errorf("%+v", r)
	}
	// What waits for all of it says so.
	if r := typed.run(notes("c"), "append", "log"); r.exit != exitDone || !strings.HasPrefix(r.stderr, "s3logctl: reading what is typed; Ctrl-D ") {
		t.Errorf("%+v", r)
	}
}

// Verbs that take long show that on a terminal, and nowhere else.
func TestVerbsShowProgress(t *testing.T) {
	var session strings.Builder
	for i := range 400 {
		fmt.Fprintf(&session, `{"type":"note","data":"%d %d"}`+"\n", i, i*i*7919)
	}
	run := func(t *testing.T, tty bool, args ...string) (stdout, stderr string) {
		synctest.Test(t, func(t *testing.T) {
			stores := map[string]*faultstore.Store{}
			around := surroundings{
				getenv: func(name string) string { return map[string]string{storeVariable: "/from"}[name] },
				width:  func() int { return 100 },
				tune:   func(o *backend.Options) { o.Prefetch = 1 },
				open: func(_ context.Context, at location, _ use) (objstore.Store, error) {
					if stores[at.dir] == nil {
						stores[at.dir] = faultstore.New(memstore.New(t))
					}
					return stores[at.dir], nil
				},
			}
			do := func(args ...string) int {
				var out, err bytes.Buffer
				around.stdin, around.stdout, around.stderr = strings.NewReader(session.String()), &out, &err
				exit := run(t.Context(), args, around)
				stdout, stderr = out.String(), err.String()
				return exit
			}
			for range 3 {
				if exit := do("append", "log", "--create"); exit != exitDone {
					t.Fatal(stderr)
				}
				if exit := do("fold", "log", "--apply", "--tail", "take"); exit != exitDone {
					t.Fatal(stderr)
				}
			}
			slow := faultstore.Rule{Fault: faultstore.Delay(2 * progressAfter)}
			stores["/from"].Inject(slow)
			around.stderrTTY = tty
			if exit := do(args...); exit != exitDone {
				t.Fatal(stderr)
			}
		})
		return stdout, stderr
	}
	for _, test := range []struct{ args, want string }{
		{"cp log --to /to", "\rcopying log: 2 requests, "},
		{"sync --from /from --to /to", "\rcopying: 1 request, "},
		{"cp log new", "\rcopying log to new: "},
		{"verify log", "\rverifying log: 1 request, "},
		{"fold log --apply --tail take", "\rfolding log: "},
		{"fork log child", "\rforking log: "},
		{"gc", "\rcollecting: "},
		{"fsck", "\rchecking: "},
		{"check log --verify", "\rreading log: "},
		{"verify --all", "\rverifying log: "},
		{"report log -o " + filepath.Join(t.TempDir(), "r.html") + " --force", "\rreading log: "},
		{"export log -o " + filepath.Join(t.TempDir(), "x.jsonl"), "\rexporting log ["},
		{"import --log new -", "\rimporting new"},
		{"replay new " + file(t, notes("a")), "\rreplaying new: "},
		{"resume log", "\rresuming log: "},
		{"rm log --apply", "\rdeleting log: "},
		{"append log", "\rappending to log: "},
		{"append log --stream", "\rappending to log: "},
		{"diff log log", "\rcomparing log and log: "},
		{"ls", "\rlisting: "},
		{"fsck --rebuild log --restored --apply", "\rreading the segments of log: "},
	} {
		t.Run(test.args, func(t *testing.T) {
			args := strings.Fields(test.args)
			stdout, stderr := run(t, true, args...)
			if !strings.Contains(stderr, test.want) || !strings.HasSuffix(stderr, "\r\x1b[K") || strings.Contains(stdout, "\r") {
				t.Errorf("%q is not in %q, or stdout is wrong: %q", test.want, stderr, stdout)
			}
			if _, stderr := run(t, false, args...); stderr != "" {
				t.Errorf("in a pipe: %q", stderr)
			}
			if _, stderr := run(t, true, append(args, "--output", "json")...); stderr != "" && test.args != "gc" {
				t.Errorf("with JSON: %q", stderr)
			}
		})
	}
}
