//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localstack

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// envVictim makes a test process one that starts servers, says where they are,
// and then kills itself.
const envVictim = "S3LOG_TEST_LOCALSTACK_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(envVictim) == "" {
		goleak.VerifyTestMain(m) // which exits
	}
	for range 2 {
		p, err := startProcess(context.Background(), false)
		if err != nil {
			panic(err)
		}
		os.Stdout.WriteString("server " + p.addr + " " + p.dir + "\n")
		defer p.close() // not reached
	}
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// TestServersDieWithTheirProcess: no way to end a test process leaves servers
// or their data behind.
func TestServersDieWithTheirProcess(t *testing.T) {
	Binary(t) // outside of the child's time
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(cmd.Environ(), envVictim+"=1")
	out, err := cmd.Output()
	if err == nil || cmd.ProcessState.Success() {
		t.Fatalf("the child was not killed: %v\n%s", err, out)
	}
	servers := 0
	for line := range bytes.Lines(out) {
		f := strings.Fields(string(line))
		if len(f) != 3 || f[0] != "server" {
			continue
		}
		servers++
		end := time.Now().Add(10 * time.Second)
		for {
			conn, errDial := net.Dial("tcp", f[1])
			if errDial == nil {
				conn.Close()
			}
			_, errStat := os.Stat(f[2])
			if errDial != nil && errors.Is(errStat, fs.ErrNotExist) {
				break
			}
			if time.Now().After(end) {
				t.Errorf("server %s: reachable: %v; its directory: %v", f[1], errDial == nil, errStat)
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	if servers != 2 {
		t.Errorf("%d servers in %s", servers, out)
	}
}

// TestPortTaken: a server that loses the race for its port says so, and does
// not take the winner for itself.
func TestPortTaken(t *testing.T) {
	p, err := startProcess(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	q, err := startProcess(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer q.close()
	q.kill()
	q.addr = p.addr
	if err := q.start(t.Context()); !errors.Is(err, errPortTaken) {
		t.Errorf("got %v", err)
	}
	if q.running() {
		t.Error("it thinks it runs")
	}
}

// TestServerThatCannotStart shows what the server said.
func TestServerThatCannotStart(t *testing.T) {
	p, err := startProcess(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	p.kill()
	if err := os.RemoveAll(filepath.Join(p.dir, "data")); err != nil {
		t.Fatal(err)
	}
	err = p.start(t.Context())
	if err == nil || errors.Is(err, errPortTaken) || !strings.Contains(err.Error(), "no such file or directory") {
		t.Errorf("got %v", err)
	}
}

// TestOwnServerLeavesNothing looks at the directory after the test.
func TestOwnServerLeavesNothing(t *testing.T) {
	var dir string
	t.Run("user", func(t *testing.T) { dir = Start(t, Own()).process.dir })
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", dir, err)
	}
}

// TestOtherProcessUsesIt: a child process finds the server by Env.
func TestOtherProcessUsesIt(t *testing.T) {
	s := Start(t, Own())
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServer$", "-test.v")
	cmd.Env = append(cmd.Environ(), s.Env()...)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestServer") {
		t.Fatalf("%v\n%s", err, out)
	}
	s.Kill(t)
	cmd = exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServer$", "-test.v")
	cmd.Env = append(cmd.Environ(), s.Env()...)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "--- FAIL: TestServer") {
		t.Errorf("without the server it was asked to use: %v\n%s", err, out)
	}
}
