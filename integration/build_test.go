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

// cached makes the file name in the user's cache, with build, unless it is
// there. build gets the path of a file to make beside it. Two processes at a
// time may both build; the later one replaces the same file.
func cached(t *testing.T, name string, build func(ctx context.Context, out string) *exec.Cmd) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "s3log")
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	tmp, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, filepath.Base(name))
	cmd := build(t.Context(), out)
	fmt.Fprintf(os.Stderr, "integration: building %s, once\n", name)
	begin := time.Now()
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, text)
	}
	fmt.Fprintf(os.Stderr, "integration: built %s in %v\n", name, time.Since(begin).Round(time.Second))
	if err := os.Rename(out, path); err != nil {
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
