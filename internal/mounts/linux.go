//go:build linux

package mounts

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// again runs the test in another process.
func again(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), env+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		// Root in there, and nobody else outside.
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if cmd.Process == nil {
		cannot(t, err.Error())
	}
	report(t, out, err)
}

// private keeps what is mounted from everybody else.
func private(t *testing.T) {
	t.Helper()
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		cannot(t, err.Error())
	}
}

// Tmpfs is a new directory with a file system in memory, of the given options:
// "size=64k", "nr_inodes=10".
func Tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0, options)
	return dir
}

// ReadOnly is a directory where what is in dir can be seen, and not changed.
func ReadOnly(t *testing.T, dir string) string {
	t.Helper()
	at := t.TempDir()
	mount(t, dir, at, "", syscall.MS_BIND, "")
	if err := syscall.Mount("", at, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatalf("make %s read-only: %v", at, err)
	}
	return at
}

func mount(t *testing.T, source, at, kind string, flags uintptr, options string) {
	t.Helper()
	if err := syscall.Mount(source, at, kind, flags, options); err != nil {
		t.Fatalf("mount %s (%s) at %s: %v", source, options, at, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", at, err)
		}
	})
}
