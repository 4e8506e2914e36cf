package integration

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// cached makes a program in the user's cache, under name, unless it is there.
// build says how to make it, as the file "program" of an empty directory. Two
// processes at a time may both build; the later one replaces the same file.
func cached(t *testing.T, name, program, takes string, build func(ctx context.Context, dir string) *exec.Cmd) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cache = filepath.Join(cache, "s3log")
	path := filepath.Join(cache, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(cache, "build-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	cmd := build(t.Context(), dir)
	cmd.Env = append(cmd.Environ(), "GOBIN="+dir, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	fmt.Fprintf(os.Stderr, "integration: building %s, once (%s)\n", name, takes)
	begin := time.Now()
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, text)
	}
	fmt.Fprintf(os.Stderr, "integration: built %s in %v\n", name, time.Since(begin).Round(time.Second))
	if err := os.Rename(filepath.Join(dir, program), path); err != nil {
		t.Fatal(err)
	}
	return path
}

// daemon runs a server until the test ends. It returns the first line that it
// prints, if it prints any.
func daemon(t *testing.T, cmd *exec.Cmd, printsAddress bool) (line string) {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout io.ReadCloser
	if printsAddress {
		if stdout, err = cmd.StdoutPipe(); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if !printsAddress {
		return ""
	}
	line, err = bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("%v said no address: %v", cmd, err)
	}
	return strings.TrimSpace(line)
}
