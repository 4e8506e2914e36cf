package words

import (
	"os/exec"
	"testing"
)

func TestShell(t *testing.T) {
	for text, want := range map[string]string{
		"session-1":      "session-1",
		"proj/2026_a=b":  "proj/2026_a=b",
		"":               "''",
		"=x":             "'=x'", // zsh looks for a command x
		"~":              "'~'",
		"two words":      "'two words'",
		"über":           "über",
		"日本":             "日本",
		"it's":           `'it'\''s'`,
		"$(rm -rf /)":    "'$(rm -rf /)'",
		"a\nb\t'\\":      `$'a\nb\t\'\\'`,
		"a\u202eb":       `$'a\U0000202eb'`,
		"a\u3164b":       `$'a\U00003164b'`,
		"\x1b[31m":       `$'\U0000001b[31m'`,
		"non\u00a0break": `$'non\U000000a0break'`,
	} {
		if got := Shell(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-c", "printf %s "+want)
		cmd.Env = []string{"LC_ALL=C.UTF-8"}
		if got, err := cmd.Output(); err != nil || string(got) != text {
			t.Errorf("%s is %q for bash, want %q (%v)", want, got, text, err)
		}
	}
}
