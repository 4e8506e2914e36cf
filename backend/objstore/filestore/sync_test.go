package filestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend/objstore"
)

// Each sync in turn fails: before the rename nothing has happened, after it
// nobody can say that it will last.
func TestSyncFails(t *testing.T) {
	broken := errors.New("broken disk")
	for nth := 1; ; nth++ {
		dir := t.TempDir()
		s := open(t, dir, Options{})
		n, failed := 0, false
		s.sync = func(f *os.File) error {
			if n++; n == nth {
				failed = true
				return broken
			}
			return syncFile(f)
		}
		_, err := put(t, s, "d/k", "x", objstore.IfAbsent())
		if !failed {
			if err != nil || nth != 4 { // root, file, d
				t.Errorf("%d syncs, %v; want 3", nth-1, err)
			}
			return
		}
		want, there := objstore.NotApplied, []string(nil)
		if nth == 3 {
			want, there = objstore.Undecided, []string{"d/k"}
		}
		if objstore.Classify(err) != want || !errors.Is(err, broken) {
			t.Errorf("sync %d fails: %v, want class %v", nth, err, want)
		}
		if diff := cmp.Diff(there, files(t, dir)); diff != "" {
			t.Errorf("sync %d fails: files (-want +got):\n%s", nth, diff)
		}
		if _, err := put(t, s, "d/k2", "x", objstore.IfAbsent()); err != nil {
			t.Errorf("Put after sync %d failed: %v", nth, err)
		}
	}
}

// What survives a power failure is a matter of order: the whole file is synced
// before it gets its name, its directory after, and directories that are new
// before anything is in them.
func TestOrderOfSyncs(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	content := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return "-"
		}
		return string(text)
	}
	var steps []string
	s.sync = func(f *os.File) error {
		name, err := filepath.Rel(dir, f.Name())
		if err != nil {
			return err
		}
		what := name
		if strings.HasPrefix(filepath.ToSlash(name), tmpDir+"/") {
			what = "new file " + content(filepath.ToSlash(name))
		}
		steps = append(steps, fmt.Sprintf("%s while d/k is %s", what, content("d/k")))
		return syncFile(f)
	}
	said := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, steps); diff != "" {
			t.Errorf("syncs (-want +got):\n%s", diff)
		}
		steps = nil
	}
	v := mustPut(t, s, "d/k", "one", objstore.IfAbsent())
	said(". while d/k is -", "new file one while d/k is -", "d while d/k is one")
	mustPut(t, s, "d/k", "two", objstore.IfVersion(v))
	said("new file two while d/k is one", "d while d/k is two")
	if _, err := s.Copy(t.Context(), "d/k", "d/l"); err != nil {
		t.Fatal(err)
	}
	said("new file two while d/k is two", "d while d/k is two")
	if err := s.Delete(t.Context(), "d/k"); err != nil {
		t.Fatal(err)
	}
	said("d while d/k is -")
	_, err := put(t, s, "d/l", "lost", objstore.IfAbsent())
	if !errors.Is(err, objstore.ErrPrecondition) {
		t.Errorf("Put on what is there: %v", err)
	}
	said()
}

// A write whose directory could not be synced is found by its caller when it is
// sent again. It must not be taken for durable before the directory is.
func TestSyncIsMadeUpFor(t *testing.T) {
	broken := errors.New("broken disk")
	dir := t.TempDir()
	s := open(t, dir, Options{})
	mustPut(t, s, "d/other", "x", objstore.IfAbsent())
	fail, synced := true, 0
	s.sync = func(f *os.File) error {
		if info, err := f.Stat(); err != nil || !info.IsDir() {
			return err
		}
		if fail {
			return broken
		}
		synced++
		return nil
	}
	again := func(want objstore.Class, syncs int) {
		t.Helper()
		synced = 0
		if _, err := put(t, s, "d/k", "x", objstore.IfAbsent()); objstore.Classify(err) != want || synced != syncs {
			t.Errorf("%v after %d syncs, want %v after %d", err, synced, want, syncs)
		}
	}
	again(objstore.Undecided, 0)
	again(objstore.Undecided, 0)
	fail = false
	again(objstore.Precondition, 1)
	again(objstore.Precondition, 0)
	fail = true
	if err := s.Delete(t.Context(), "d/k"); !errors.Is(err, objstore.ErrUndecided) {
		t.Errorf("Delete: %v", err)
	}
	if err := s.Delete(t.Context(), "d/k"); !errors.Is(err, objstore.ErrUndecided) {
		t.Errorf("Delete again: %v", err)
	}
	fail, synced = false, 0
	if err := s.Delete(t.Context(), "d/k"); err != nil || synced != 1 {
		t.Errorf("Delete after all: %v, %d syncs", err, synced)
	}
	// Nothing is owed to a directory that has gone.
	mustPut(t, s, "e/k", "x", objstore.IfAbsent())
	fail = true
	if _, err := put(t, s, "e/l", "x", objstore.IfAbsent()); !errors.Is(err, objstore.ErrUndecided) {
		t.Errorf("Put: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "e")); err != nil {
		t.Fatal(err)
	}
	fail = false
	if err := s.Delete(t.Context(), "e/l"); err != nil {
		t.Errorf("Delete of what has gone: %v", err)
	}
}

// Directories made by a process that died before it could sync them are synced
// by the next one, each once.
func TestFoundDirectoriesSynced(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o777); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, Options{})
	var synced []string
	s.sync = func(f *os.File) error {
		if info, err := f.Stat(); err == nil && info.IsDir() {
			name, _ := filepath.Rel(dir, f.Name())
			synced = append(synced, name)
		}
		return nil
	}
	mustPut(t, s, "a/b/1", "x", objstore.IfAbsent())
	mustPut(t, s, "a/b/2", "x", objstore.IfAbsent())
	if diff := cmp.Diff([]string{".", "a", "a/b", "a/b"}, synced); diff != "" {
		t.Errorf("directories synced (-want +got):\n%s", diff)
	}
}
