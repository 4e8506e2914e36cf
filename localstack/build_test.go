package localstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// script writes an executable file, as a build would.
func script(dir string) (string, error) {
	file := filepath.Join(dir, "made")
	return file, os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755)
}

// quiet hears what is said, for tests of builds that are none.
func quiet(t *testing.T) (said func() string) {
	var mu sync.Mutex
	var lines strings.Builder
	say = func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&lines, format+"\n", args...)
	}
	t.Cleanup(func() { say = sayAloud })
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return lines.String()
	}
}

func TestInstallBuildsOnce(t *testing.T) {
	said := quiet(t)
	path := filepath.Join(t.TempDir(), "server")
	var builds atomic.Int32
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			err := install(t.Context(), path, func(_ context.Context, dir string) (string, error) {
				builds.Add(1)
				time.Sleep(300 * time.Millisecond)
				return script(dir)
			})
			if err != nil || !isExecutable(path) {
				t.Errorf("%v; there: %v", err, isExecutable(path))
			}
		})
	}
	wg.Wait()
	if n := builds.Load(); n != 1 {
		t.Errorf("%d builds", n)
	}
	if s := said(); strings.Count(s, "waiting for it") != 4 || !strings.Contains(s, "building versitygw v") || !strings.Contains(s, "minutes") || !strings.Contains(s, "built versitygw in") {
		t.Errorf("said %s", s)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "build-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestInstallAgain: neither a failed build nor a killed one leaves anything
// that a later one would take for a server.
func TestInstallAgain(t *testing.T) {
	quiet(t)
	path := filepath.Join(t.TempDir(), "server")
	broken := errors.New("no network")
	if err := install(t.Context(), path, func(context.Context, string) (string, error) { return "", broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := install(t.Context(), path, func(_ context.Context, dir string) (string, error) { return script(dir) }); err != nil || !isExecutable(path) {
		t.Errorf("%v; there: %v", err, isExecutable(path))
	}
}

func TestInstallStopsWaiting(t *testing.T) {
	quiet(t)
	path := filepath.Join(t.TempDir(), "server")
	unlock, err := lockFile(t.Context(), path+".lock", func() {})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = install(ctx, path, func(context.Context, string) (string, error) { return "", errors.New("built under a lock of another") })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	unlock()
	if err := install(t.Context(), path, func(_ context.Context, dir string) (string, error) { return script(dir) }); err != nil {
		t.Errorf("after the lock was given back: %v", err)
	}
}

// TestFailedBuildSaysWhy builds for a machine that does not exist.
func TestFailedBuildSaysWhy(t *testing.T) {
	_, err := goBuild(t.Context(), t.TempDir(), "linux", "abacus")
	if err == nil || !strings.Contains(err.Error(), "unsupported GOOS/GOARCH pair linux/abacus") || !strings.Contains(err.Error(), EnvEndpoint) {
		t.Errorf("got %v", err)
	}
}

func TestFromEnv(t *testing.T) {
	for name, tt := range map[string]struct {
		env  map[string]string
		want string // endpoint and region, or part of the error
	}{
		"nothing":    {nil, ""},
		"all":        {map[string]string{EnvEndpoint: "https://h:1/", EnvAccessKey: "a", EnvSecretKey: "s", EnvRegion: "eu-x"}, "https://h:1 eu-x"},
		"no region":  {map[string]string{EnvEndpoint: "http://h", EnvAccessKey: "a", EnvSecretKey: "s"}, "http://h us-east-1"},
		"no keys":    {map[string]string{EnvEndpoint: "http://h"}, "must be, too"},
		"no URL":     {map[string]string{EnvEndpoint: "h:1", EnvAccessKey: "a", EnvSecretKey: "s"}, "must be a URL"},
		"other keys": {map[string]string{EnvAccessKey: "a", EnvSecretKey: "s"}, ""},
	} {
		s, err := fromEnv(func(name string) string { return tt.env[name] })
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case s != nil:
			got = s.Endpoint + " " + s.Region
			if s.AccessKey != "a" || s.SecretKey != "s" || s.Admin {
				t.Errorf("%s: %+v", name, s)
			}
		}
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// TestNoContainerClient: a test that uses this package does not build the
// client of a container engine.
func TestNoContainerClient(t *testing.T) {
	for _, pkg := range []string{"../localstack", "../backend", "../backend/objstore/s3store"} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg).Output()
		if err != nil {
			t.Fatalf("go list -deps %s: %v", pkg, err)
		}
		for p := range strings.Lines(string(out)) {
			for _, heavy := range []string{"github.com/testcontainers", "github.com/docker", "github.com/moby", "github.com/containerd", "github.com/versity"} {
				if strings.HasPrefix(p, heavy) {
					t.Errorf("%s depends on %s: containers are localstack/container's", pkg, strings.TrimSpace(p))
				}
			}
		}
	}
}
