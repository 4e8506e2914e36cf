package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// What the store keeps for itself.
const (
	private = ".s3log"
	tmpDir  = private + "/tmp"
	lockDir = private + "/locks"
	// stripes is the number of lock files. Keys share them, so that they are few;
	// a lock is held for about as long as it takes to write and sync one file.
	stripes = 256
	// tmpAge is how old a file in tmpDir must be to be taken for a leftover.
	tmpAge = 24 * time.Hour
)

var errBusy = errors.New("locked by another process")

// lock takes the lock of key's stripe, first among the goroutines of this
// Store, then among all others. It gives up when ctx ends.
func (s *Store) lock(ctx context.Context, key string) (unlock func(), err error) {
	n := stripe(key)
	select {
	case s.turn[n] <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	name := fmt.Sprintf("%s/%02x", lockDir, n)
	// A blocking lock would be fairer, but could not be given up, and its holder
	// may be a process that somebody has stopped.
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		f, err := s.tryLock(name)
		if err == nil {
			return func() {
				unlockFile(f)
				f.Close()
				<-s.turn[n]
			}, nil
		}
		if errors.Is(err, errBusy) {
			t := time.NewTimer(pause)
			select {
			case <-t.C:
				continue
			case <-ctx.Done():
				t.Stop()
				err = ctx.Err()
			}
		}
		<-s.turn[n]
		return nil, err
	}
}

// tryLock opens and locks a lock file, or fails with errBusy.
func (s *Store) tryLock(name string) (*os.File, error) {
	name = filepath.FromSlash(name)
	f, err := s.root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if err = lockFile(f); err == nil {
		// Somebody may have removed the file since it was opened; then others lock
		// another one.
		var mine, now fs.FileInfo
		if mine, err = f.Stat(); err == nil {
			now, err = s.root.Lstat(name)
		}
		if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(mine, now) {
			err = errBusy
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// prepare makes the private directories, and removes what dead processes have
// left in them, once per Store.
func (s *Store) prepare() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prepared {
		return nil
	}
	for _, dir := range []string{private, tmpDir, lockDir} {
		if err := s.root.Mkdir(filepath.FromSlash(dir), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	s.sweep(time.Now().Add(-tmpAge))
	s.prepared = true
	return nil
}

// sweep removes files of tmpDir that were last written before old. It is a
// courtesy to the disk, so its errors are nobody's: what one process may not
// remove, or removes at the same time as another, does no harm.
func (s *Store) sweep(old time.Time) {
	f, err := s.root.Open(filepath.FromSlash(tmpDir))
	if err != nil {
		return
	}
	defer f.Close()
	entries, _ := f.ReadDir(-1)
	for _, e := range entries {
		name := filepath.FromSlash(tmpDir + "/" + e.Name())
		if info, err := s.root.Lstat(name); err == nil && info.Mode().IsRegular() && info.ModTime().Before(old) {
			s.root.Remove(name)
		}
	}
}
