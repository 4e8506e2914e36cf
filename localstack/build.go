package localstack

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

// The server. Conditional writes are atomic in it from this version on.
const (
	gatewayModule  = "github.com/versity/versitygw"
	gatewayVersion = "v1.8.0"
	gatewayTakes   = "2 to 5 minutes on two cores, once; later runs take it from the cache"
)

// binaries is what this process has found out, by path.
var binaries = struct {
	sync.Mutex
	done map[string]error
}{done: map[string]error{}}

// Binary is the path of a statically linked versitygw for this machine. If the
// user's cache has none, it is built with the go command; other processes that
// need it at the same time wait for that one build.
func Binary(tb testing.TB) string {
	tb.Helper()
	return BinaryFor(tb, runtime.GOOS, runtime.GOARCH)
}

// BinaryFor is Binary for another machine, as the go command names it: for a
// container on a machine that does not run Linux itself.
func BinaryFor(tb testing.TB, goos, goarch string) string {
	tb.Helper()
	path, err := gateway(tb.Context(), goos, goarch)
	if err != nil {
		tb.Fatalf("localstack: %v", err)
	}
	return path
}

func gateway(ctx context.Context, goos, goarch string) (string, error) {
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, fmt.Sprintf("versitygw-%s-%s-%s-static", gatewayVersion, goos, goarch))
	binaries.Lock()
	defer binaries.Unlock()
	err, known := binaries.done[path]
	if !known {
		err = install(ctx, path, func(ctx context.Context, dir string) (string, error) { return goBuild(ctx, dir, goos, goarch) })
		if err == nil || ctx.Err() == nil { // else the next test may have more time
			binaries.done[path] = err
		}
	}
	return path, err
}

// cacheDir is where the server is kept, and its data where the temporary
// directory will not do.
func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("nowhere to keep a server for tests: %w", err)
	}
	dir = filepath.Join(dir, "s3log")
	return dir, os.MkdirAll(dir, 0o755)
}

// install makes the file at path, with build, unless it is there. Of all
// processes that want it, one builds, in an empty directory that is removed
// afterwards; build returns the file it has made.
func install(ctx context.Context, path string, build func(ctx context.Context, dir string) (string, error)) error {
	if isExecutable(path) {
		return nil
	}
	unlock, err := lockFile(ctx, path+".lock", func() {
		say("another process is building versitygw %s; waiting for it (%s)", gatewayVersion, gatewayTakes)
	})
	if err != nil {
		return fmt.Errorf("lock the cache of test servers: %w", err)
	}
	defer unlock()
	if isExecutable(path) {
		return nil
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	say("building versitygw %s, an S3 server for tests, from its module (%s)", gatewayVersion, gatewayTakes)
	begin := time.Now()
	quit := every(20*time.Second, func() {
		say("still building versitygw, %v so far", time.Since(begin).Round(time.Second))
	})
	built, err := build(ctx, dir)
	quit()
	if err != nil {
		say("building versitygw failed after %v", time.Since(begin).Round(time.Second))
		return err
	}
	if err := os.Rename(built, path); err != nil {
		return err
	}
	say("built versitygw in %v: %s", time.Since(begin).Round(time.Second), path)
	return nil
}

// goBuild builds the server in dir, in a module that requires it and nothing
// else, so that it gets the versions it was released with, whatever the
// directory and the settings of the tests are. (go install would do, but not
// for another machine where GOBIN is set.)
func goBuild(ctx context.Context, dir, goos, goarch string) (string, error) {
	mod := fmt.Sprintf("module server\n\ngo 1.25.0\n\nrequire %s %s\n", gatewayModule, gatewayVersion)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o644); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "versitygw")
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", file, gatewayModule+"/cmd/versitygw")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOFLAGS=-mod=mod", "GOWORK=off")
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the server for tests failed: %v: %w\n%s\n(or name a server that runs already: %s, %s, %s)",
			cmd, err, bytes.TrimSpace(out), EnvEndpoint, EnvAccessKey, EnvSecretKey)
	}
	return file, nil
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// every calls f at intervals until the function it returns is called.
func every(interval time.Duration, f func()) (quit func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				f()
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// say tells the person who waits about long work; a variable for our own tests.
var say = sayAloud

// sayAloud writes a line to standard error. The go command keeps the output of tests
// of several packages to itself until they are done, so the line goes to the
// terminal, too, if there is one.
func sayAloud(format string, args ...any) {
	line := "localstack: " + fmt.Sprintf(format, args...) + "\n"
	os.Stderr.WriteString(line)
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		return
	}
	if tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0); err == nil {
		tty.WriteString(line)
		tty.Close()
	}
}
