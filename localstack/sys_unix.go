//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const supported = true

// lockFile takes a lock that other processes respect and that goes with this
// process. If it is taken, wait is called once before waiting.
func lockFile(ctx context.Context, path string, wait func()) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for told := false; ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { f.Close() }, nil
		case errors.Is(err, syscall.EINTR):
			continue
		case !errors.Is(err, syscall.EWOULDBLOCK):
			f.Close()
			return nil, err
		}
		if !told {
			told = true
			wait()
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// detach keeps the terminal's signals from the server: they end the tests, and
// then the watcher ends the server.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// exited reports whether a child has ended. If so it has been waited for: its
// process id may be somebody else's by now. (A goroutine in Wait would say the
// same, but be a leak to tests that look for leaked goroutines.)
func exited(cmd *exec.Cmd) bool {
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WNOHANG, nil)
	return pid == cmd.Process.Pid || errors.Is(err, syscall.ECHILD)
}

// watchScript reads process ids, the newest of which counts. When its input
// ends, because it was closed or because the process that wrote it is no more,
// it ends that process and removes the directory.
const watchScript = `
trap '' INT TERM HUP
pid=0
while read -r p; do pid=$p; done
if [ "$pid" -gt 0 ]; then kill -9 "$pid" 2>/dev/null; fi
rm -rf -- "$1" 2>/dev/null || { sleep 1; rm -rf -- "$1"; }
`

// watcher is a process that cleans up after this one.
type watcher struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

func startWatcher(dir string) (*watcher, error) {
	cmd := exec.Command("/bin/sh", "-c", watchScript, "s3log-test-server-watcher", dir)
	cmd.Dir = "/"
	detach(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &watcher{cmd, in}, nil
}

// guard names the process to end; 0 is none.
func (w *watcher) guard(pid int) { fmt.Fprintln(w.in, pid) }

// close has the watcher clean up, and waits for it.
func (w *watcher) close() {
	w.in.Close()
	w.cmd.Wait()
}
