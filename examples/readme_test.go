package examples

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// The commands of README.md print what it says.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	commands, output := block(t, string(text), "sh"), block(t, string(text), "text")
	if n := strings.Count(commands, "go run ./examples/"); n != 5 {
		t.Fatalf("%d commands:\n%s", n, commands)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	got, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, got)
	}
	want := regexp.MustCompile(`(?s)\A` + strings.ReplaceAll(regexp.QuoteMeta(output), "…", `[^\n]*`) + `\z`)
	if !want.Match(got) {
		t.Errorf("README.md says\n%s\nthe commands print\n%s", output, got)
	}
}

// block is the first block of code of a language.
func block(t *testing.T, text, language string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, "\n```"+language+"\n")
	code, _, ends := strings.Cut(rest, "```")
	if !found || !ends {
		t.Fatalf("no block of %s", language)
	}
	return code
}
