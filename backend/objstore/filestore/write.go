package filestore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/s3log/s3log/backend/objstore"
)

// Put implements objstore.Store. Its steps, and what a process leaves that dies
// after each: the lock is taken (it goes with the process), the condition judged
// (nothing) · the directories of the key are made and synced (empty ones) · a
// file in .s3log/tmp is written and synced (a leftover) · and renamed into place
// (the new object, whole) · the lock is released · the directory is synced (the
// same, now also if the power fails).
func (s *Store) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	const op = "Put"
	if !cond.Valid() {
		return objstore.Info{}, storeError(op, key, errCondition, objstore.ErrRejected)
	}
	if err := objstore.CheckMetadata(opt.Metadata); err != nil {
		return objstore.Info{}, storeError(op, key, err, objstore.ErrRejected)
	}
	return s.write(ctx, op, key, cond, versionOf(body), func(f *os.File) error {
		_, err := f.Write(body)
		return err
	})
}

// Copy implements objstore.Copier. The copy shares nothing with its source,
// unless the file system shares blocks by itself. Its version is not told.
func (s *Store) Copy(ctx context.Context, src, dst string) (objstore.Info, error) {
	const op = "Copy"
	if err := ctx.Err(); err != nil {
		return objstore.Info{}, storeError(op, dst, err, objstore.ErrUndecided)
	}
	if err := checkKey(src); err != nil {
		return objstore.Info{}, storeError(op, src, err, objstore.ErrRejected)
	}
	from, _, err := s.open(src)
	if absent(err) {
		return objstore.Info{}, storeError(op, src, nil, objstore.ErrNotExist)
	}
	if err != nil {
		return objstore.Info{}, storeError(op, src, err, objstore.ErrRejected)
	}
	defer from.Close()
	return s.write(ctx, op, dst, objstore.IfAbsent(), objstore.Version{}, func(f *os.File) error {
		_, err := io.Copy(f, from)
		return err
	})
}

// write creates or replaces the object key with what fill writes, if cond
// holds.
func (s *Store) write(ctx context.Context, op, key string, cond objstore.Condition, v objstore.Version, fill func(*os.File) error) (objstore.Info, error) {
	bad := func(err, otherwise error) (objstore.Info, error) {
		return objstore.Info{}, storeError(op, key, err, otherwise)
	}
	if err := ctx.Err(); err != nil {
		return bad(err, objstore.ErrUndecided)
	}
	if err := checkKey(key); err != nil {
		return bad(err, objstore.ErrRejected)
	}
	if s.opt.ReadOnly {
		return bad(nil, objstore.ErrReadOnly)
	}
	if err := s.prepare(); err != nil {
		return bad(s.removed(err), objstore.ErrRejected)
	}
	unlock, err := s.lock(ctx, key)
	if err != nil {
		return bad(err, s.vanished(err))
	}
	info, err := s.replace(op, key, cond, fill)
	unlock()
	if err != nil && !errors.Is(err, objstore.ErrPrecondition) {
		return objstore.Info{}, err
	}
	// What is in the way may be what this very call has written when it was made
	// before, and could not sync then: its caller will find it, and take it for
	// durable.
	if e := s.settle(path.Dir(key), err == nil); e != nil {
		return objstore.Info{}, &objstore.Error{Op: op, Key: key, Class: objstore.ErrUndecided, Err: e,
			Hint: "the object is written, but a power failure may undo it"}
	}
	if err != nil {
		return objstore.Info{}, err
	}
	return reply(key, info, v), nil
}

// settle makes the entries of a directory durable, if one of them has changed or
// could not be made so before.
func (s *Store) settle(dir string, changed bool) error {
	s.mu.Lock()
	failure := s.unsynced[dir]
	s.mu.Unlock()
	if !changed && failure == 0 {
		return nil
	}
	err := s.syncDir(dir)
	if !changed && absent(err) {
		err = nil // nor is what was in it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.failures++
		s.unsynced[dir] = s.failures
	case s.unsynced[dir] == failure: // else somebody has changed it and failed meanwhile
		delete(s.unsynced, dir)
	}
	return err
}

// replace is the part of write that is done under the lock. The file is written
// there, too, and not before: so those who lose a race have nothing to sync.
func (s *Store) replace(op, key string, cond objstore.Condition, fill func(*os.File) error) (fs.FileInfo, error) {
	bad := func(err, otherwise error) (fs.FileInfo, error) {
		return nil, storeError(op, key, err, otherwise)
	}
	if err := s.judge(op, key, cond); err != nil {
		return nil, err
	}
	if err := s.makeDir(path.Dir(key)); err != nil {
		return bad(err, s.vanished(err))
	}
	tmp, info, err := s.temp(fill)
	if err != nil {
		return bad(err, s.vanished(err))
	}
	if err = s.root.Rename(tmp, filepath.FromSlash(key)); err == nil {
		return info, nil
	}
	s.root.Remove(tmp)
	if errors.Is(err, fs.ErrNotExist) {
		return bad(err, s.vanished(err))
	}
	// Where the kernel is not the last to know, a rename may fail and yet take
	// place; only what storeError knows is sure.
	return bad(err, objstore.ErrUndecided)
}

// judge returns nil if cond holds now, else the error of the call.
func (s *Store) judge(op, key string, cond objstore.Condition) error {
	info, err := s.root.Lstat(filepath.FromSlash(key))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if cond.Absent() {
			return nil
		}
		return storeError(op, key, nil, objstore.ErrGone)
	case err != nil:
		return storeError(op, key, err, objstore.ErrRejected)
	case !info.Mode().IsRegular():
		return storeError(op, key, errNotRegular, objstore.ErrRejected)
	case cond.Absent():
		return storeError(op, key, nil, objstore.ErrPrecondition)
	}
	f, _, err := s.open(key)
	if errors.Is(err, fs.ErrNotExist) {
		return storeError(op, key, nil, objstore.ErrGone)
	}
	if err != nil {
		return storeError(op, key, err, objstore.ErrRejected)
	}
	defer f.Close()
	now, err := versionOfFile(f)
	if err != nil {
		return storeError(op, key, err, objstore.ErrRejected)
	}
	if now != cond.Match() {
		return storeError(op, key, nil, objstore.ErrPrecondition)
	}
	return nil
}

// removed is errRemoved where err, of making a directory below the store's, says
// that the latter is no more.
func (s *Store) removed(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errRemoved
	}
	return err
}

// vanished is the class of an error before the rename. If directories that were
// there have gone, they are made again by the next attempt, which the caller is
// asked for.
func (s *Store) vanished(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return objstore.ErrRejected
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prepared = false
	s.durable = map[string]bool{".": true}
	return objstore.ErrConflict
}

// temp makes a synced file in tmpDir, and returns its name. After an error
// there is none.
func (s *Store) temp(fill func(*os.File) error) (name string, info fs.FileInfo, err error) {
	var b [16]byte
	rand.Read(b[:])
	name = filepath.FromSlash(tmpDir + "/" + hex.EncodeToString(b[:]))
	f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return "", nil, err
	}
	if err = fill(f); err == nil {
		if err = s.sync(f); err == nil {
			info, err = f.Stat()
		}
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		s.root.Remove(name)
		return "", nil, err
	}
	return name, info, nil
}

// maxDurable bounds what is remembered about directories.
const maxDurable = 4096

// makeDir makes the directory dir (in slashes, "." is the root), with those
// above it, so that they survive a power failure. A directory that is there
// already may have been made by a process that died before it could sync, so
// every process syncs each once.
func (s *Store) makeDir(dir string) error {
	s.mu.Lock()
	known := s.durable[dir]
	s.mu.Unlock()
	if known {
		return nil
	}
	parent := path.Dir(dir)
	if err := s.makeDir(parent); err != nil {
		return err
	}
	err := s.root.Mkdir(filepath.FromSlash(dir), 0o777)
	if errors.Is(err, fs.ErrExist) {
		var info fs.FileInfo
		if info, err = s.root.Stat(filepath.FromSlash(dir)); err == nil && !info.IsDir() {
			err = &fs.PathError{Op: "mkdir", Path: dir, Err: fs.ErrExist}
		}
	}
	if err == nil {
		err = s.syncDir(parent)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.durable) >= maxDurable {
		s.durable = map[string]bool{".": true}
	}
	s.durable[dir] = true
	return nil
}

// syncDir makes the entries of a directory durable.
func (s *Store) syncDir(dir string) error {
	f, err := s.root.Open(filepath.FromSlash(dir))
	if err != nil {
		return err
	}
	defer f.Close()
	return s.sync(f)
}

// Delete implements objstore.Store. It takes the lock, so that no conditional
// Put is decided on an object that is just going.
func (s *Store) Delete(ctx context.Context, key string) error {
	const op = "Delete"
	if err := ctx.Err(); err != nil {
		return storeError(op, key, err, objstore.ErrUndecided)
	}
	if err := checkKey(key); err != nil {
		return storeError(op, key, err, objstore.ErrRefused)
	}
	if s.opt.ReadOnly {
		return storeError(op, key, nil, objstore.ErrReadOnly)
	}
	there := func() (bool, error) {
		info, err := s.root.Lstat(filepath.FromSlash(key))
		if absent(err) {
			return false, nil
		}
		return err == nil && info.Mode().IsRegular(), err
	}
	if ok, err := there(); !ok {
		if err == nil {
			err = s.settle(path.Dir(key), false)
		}
		return s.deleted(key, err)
	}
	if err := s.prepare(); err != nil {
		return s.deleted(key, s.removed(err))
	}
	unlock, err := s.lock(ctx, key)
	if err != nil {
		return s.deleted(key, err)
	}
	ok, err := there()
	if err == nil && ok {
		err = s.root.Remove(filepath.FromSlash(key))
	}
	unlock()
	if err == nil {
		err = s.settle(path.Dir(key), ok)
	}
	return s.deleted(key, err)
}

// deleted is the error of a Delete, or nil.
func (s *Store) deleted(key string, err error) error {
	if err == nil {
		return nil
	}
	s.vanished(err)
	err = storeError("Delete", key, err, objstore.ErrUndecided)
	if e := err.(*objstore.Error); e.Class == objstore.ErrRejected {
		e.Class = objstore.ErrRefused // a Delete has no malformed request
	}
	return err
}
