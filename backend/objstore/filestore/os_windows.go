package filestore

import (
	"os"

	"golang.org/x/sys/windows"
)

// lockFile takes an exclusive lock on f, or fails with errBusy.
func lockFile(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	if err == windows.ERROR_LOCK_VIOLATION {
		return errBusy
	}
	return err
}

func unlockFile(f *os.File) {
	windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, new(windows.Overlapped))
}

// syncFile makes a file durable; directories cannot be synced here, NTFS
// journals them.
func syncFile(f *os.File) error {
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil
	}
	return f.Sync()
}
