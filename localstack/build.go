package localstack

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// The server. Conditional writes are atomic in it from this version on.
const (
	gatewayPackage = "github.com/versity/versitygw/cmd/versitygw"
	gatewayVersion = "v1.8.0"
	gatewayTakes   = "2 to 5 minutes on two cores, once; later runs take it from the cache"
)

// binary is what Binary has found out in this process.
var binary struct {
	sync.Mutex
	path string
	err  error
}

// Binary is the path of a statically linked versitygw for this machine. If the
// user's cache has none, it is built with the go command; other processes that
// need it at the same time wait for that one build.
func Binary(tb testing.TB) string {
	tb.Helper()
	path, err := gateway(tb.Context())
	if err != nil {
		tb.Fatalf("localstack: %v", err)
	}
	return path
}

func gateway(ctx context.Context) (string, error) {
	binary.Lock()
	defer binary.Unlock()
	if binary.path == "" && binary.err == nil {
		dir, err := cacheDir()
		if err != nil {
			return "", err
		}
		path, err := install(ctx, filepath.Join(dir, fmt.Sprintf("versitygw-%s-%s-%s-static", gatewayVersion, runtime.GOOS, runtime.GOARCH)), goInstall)
		if ctx.Err() != nil {
			return "", err // of one test; the next may have more time
		}
		binary.path, binary.err = path, err
	}
	return binary.path, binary.err
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
// processes that want it, one builds. build gets an empty directory to leave
// the file in, under path's name or as "versitygw".
func install(ctx context.Context, path string, build func(ctx context.Context, dir string) (string, error)) (string, error) {
	if isExecutable(path) {
		return path, nil
	}
	unlock, err := lockFile(ctx, path+".lock", func() {
		say("another process is building versitygw %s; waiting for it (%s)", gatewayVersion, gatewayTakes)
	})
	if err != nil {
		return "", fmt.Errorf("lock the cache of test servers: %w", err)
	}
	defer unlock()
	if isExecutable(path) {
		return path, nil
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), "build-")
	if err != nil {
		return "", err
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
		return "", err
	}
	if err := os.Rename(built, path); err != nil {
		return "", err
	}
	say("built versitygw in %v: %s", time.Since(begin).Round(time.Second), path)
	return path, nil
}

// goInstall builds the server in dir.
func goInstall(ctx context.Context, dir string) (string, error) {
	// The module is built by itself, with its own versions, whatever the
	// directory and the settings of the tests are, and always for the machine.
	cmd := exec.CommandContext(ctx, "go", "install", "-ldflags=-s -w", gatewayPackage+"@"+gatewayVersion)
	cmd.Dir = dir
	cmd.Env = append(without(os.Environ(), "GOOS", "GOARCH"), "GOBIN="+dir, "CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOWORK=off")
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the server for tests failed: %v: %w\n%s\n(or name a server that runs already: %s, %s, %s)",
			cmd, err, bytes.TrimSpace(out), EnvEndpoint, EnvAccessKey, EnvSecretKey)
	}
	return filepath.Join(dir, "versitygw"), nil
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// without is env without some variables.
func without(env []string, names ...string) (rest []string) {
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		drop := false
		for _, n := range names {
			drop = drop || n == name
		}
		if !drop {
			rest = append(rest, v)
		}
	}
	return rest
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

// say writes a line about long work. The go command keeps the output of tests
// of several packages to itself until they are done, so the line goes to the
// terminal, too, if there is one.
func say(format string, args ...any) {
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
