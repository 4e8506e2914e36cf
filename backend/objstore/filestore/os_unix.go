//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filestore

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes an exclusive lock on f, or fails with errBusy. It goes with f,
// or with the process.
func lockFile(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch err {
		case syscall.EINTR:
			continue
		case syscall.EWOULDBLOCK:
			return errBusy
		}
		return err
	}
}

func unlockFile(f *os.File) {
	syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
}

// syncFile makes a file or a directory durable. Some file systems cannot sync a
// directory, and say so: they do it by themselves, or nobody can.
func syncFile(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		if info, e := f.Stat(); e == nil && info.IsDir() {
			return nil
		}
	}
	return err
}
