package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAppendSafe(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"plain", "a b\n\tc~", "a b\n\tc~"},
		{"letters", "ü 日本 🎉 e\u0301", "ü 日本 🎉 e\u0301"},
		{"escape", "\x1b[31m\x07\x00", `\u001b[31m\u0007\u0000`},
		{"carriage return", "a\rb", `a\u000db`},
		{"delete", "\x7f", `\u007f`},
		{"C1", "\u009b31m\u0080", `\u009b31m\u0080`},
		{"bidirectional", "\u202eabc\u2066\u200f", `\u202eabc\u2066\u200f`},
		{"zero width", "a\u200bb\ufeff\u00ad", `a\u200bb\ufeff\u00ad`},
		{"line separators", "a\u2028b\u2029", `a\u2028b\u2029`},
		{"tag", "\U000e0041", `\udb40\udc41`},
		{"no UTF-8", "a\xff\xc3(", `a\xff\xc3(`},
		{"replacement character", "\ufffd", "\ufffd"},
	} {
		if got := string(appendSafe(nil, []byte(test.in))); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestSafeWriterSplit(t *testing.T) {
	const text = "ab\u202ecd🎉\U000e0041\x1b日\xff\xe6\x97"
	want := string(appendSafe(nil, []byte(text)))
	for cut := range len(text) + 1 {
		for second := cut; second <= len(text); second++ {
			var out bytes.Buffer
			w := &safeWriter{w: &out}
			for _, part := range []string{text[:cut], text[cut:second], text[second:]} {
				if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
					t.Fatal(n, err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if out.String() != want {
				t.Errorf("cut at %d and %d: %q, want %q", cut, second, out.String(), want)
			}
		}
	}
}

func TestSafeWriterError(t *testing.T) {
	full := errors.New("full")
	w := &safeWriter{w: failingWriter{full}}
	if _, err := w.Write([]byte("a")); err != full {
		t.Error(err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// Escaped JSON text is the same JSON value, and safe.
func FuzzSafeJSON(f *testing.F) {
	f.Add("\x1b\u202e\u009b\x7f\U000e0041 \r\n\"\\")
	f.Fuzz(func(t *testing.T, s string) {
		raw, err := json.Marshal(strings.ToValidUTF8(s, "?"))
		if err != nil {
			t.Fatal(err)
		}
		safe := appendSafe(nil, raw)
		var was, is string
		if err := errors.Join(json.Unmarshal(raw, &was), json.Unmarshal(safe, &is)); err != nil || was != is {
			t.Fatalf("%s became %s (%v)", raw, safe, err)
		}
		for text := safe; len(text) > 0; {
			r, size := utf8.DecodeRune(text)
			if unsafeRune(r) {
				t.Fatalf("%q is in %q", r, safe)
			}
			text = text[size:]
		}
	})
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"":           `""`,
		"plain-1.x":  "plain-1.x",
		"a/b:ü日":     "a/b:ü日",
		"a b":        `"a b"`,
		`a"b`:        `"a\"b"`,
		`a\b`:        `"a\\b"`,
		"a\tb\nc":    `"a\tb\nc"`,
		"\x1b[31m":   `"\x1b[31m"`,
		"\u202eabc":  `"\u202eabc"`,
		"\xff":       `"\xff"`,
		"a\u200bb":   `"a\u200bb"`,
		"nb\u00a0sp": `"nb\u00a0sp"`,
	} {
		if got := quote(in); got != want {
			t.Errorf("quote(%q) is %s, want %s", in, got, want)
		}
	}
}

func TestTerminalOutput(t *testing.T) {
	c := newCLI(t)
	const line = "{\"type\":\"note\",\"seq\":0,\"time\":1,\r\"data\":\"\u202e\u009b31m \x7f\U000e0041\"}"
	c.must(line, "append", "log", "--create")
	if got := c.must("", "cat", "log"); got != line+"\n" {
		t.Errorf("in a pipe: %q", got)
	}
	terminal := c.with(func(s *surroundings) { s.stdoutTTY = true })
	const safe = `{"type":"note","seq":0,"time":1,\u000d"data":"\u202e\u009b31m \u007f\udb40\udc41"}` + "\n"
	for _, args := range [][]string{{"cat", "log"}, {"tail", "log"}, {"export", "log"}} {
		if got := terminal.must("", args...); !strings.HasSuffix(got, safe) {
			t.Errorf("%q: %q", args, got)
		}
	}
	for _, args := range [][]string{{"export", "log", "--zstd"}, {"report", "log"}} {
		if r := terminal.want(exitUsage, "", args...); !strings.Contains(r.stderr, "not for a terminal") {
			t.Error(r.stderr)
		}
	}
}

// Whatever goes wrong, stderr is safe, and an error is one line.
func TestErrorsAreSafe(t *testing.T) {
	c := newCLI(t)
	c.must(notes("a"), "append", "log", "--create")
	const evil = "a\nb\x1b[31m\u202e"
	for _, args := range [][]string{
		{evil}, {"cat", evil}, {"cat", "log", "--" + evil}, {"append", "log", evil}, {"import", evil},
		{"--store", evil, "ls"}, {"--output", evil, "ls"}, {"ls", "--by", evil}, {"decide", evil},
		{"export", "log", "-o", "/" + evil + "/x"},
	} {
		for _, output := range []string{outputText, outputJSON} {
			r := c.run("", append([]string{"--output", output}, args...)...)
			if r.exit == exitDone || r.stderr == "" {
				t.Errorf("%q: exit code %d, %s", args, r.exit, r.stderr)
			}
			for line := range strings.Lines(r.stderr) {
				line = strings.TrimSuffix(line, "\n")
				if strings.ContainsFunc(line, unsafeRune) {
					t.Errorf("%q: %q", args, line)
				}
				if output == outputText && !strings.HasPrefix(line, "s3logctl: ") && !strings.HasPrefix(line, "hint: ") {
					t.Errorf("%q: %q", args, line)
				}
			}
		}
	}
}
