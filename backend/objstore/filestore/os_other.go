//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package filestore

import (
	"errors"
	"os"
)

// Without locks conditions cannot hold, so nothing is written.
func lockFile(*os.File) error { return errors.ErrUnsupported }

func unlockFile(*os.File) {}

func syncFile(f *os.File) error { return f.Sync() }
