package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/internal/mounts"
)

const page = 4096 // bytes, what a file system in memory counts in

// tree is all that is below a directory: files with their content, and
// directories. Lock files are left out, which hold nothing.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || strings.HasPrefix(name, lockDir+"/"):
			return err
		case d.IsDir():
			all[name] = "directory"
			return nil
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		all[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// fill writes to a file until the disk is full, and then frees so many pages.
func fill(t *testing.T, file string, free int) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, page))
	}
	size, serr := f.Seek(0, 2)
	if !errors.Is(err, syscall.ENOSPC) || serr != nil {
		t.Fatalf("%v, %v", err, serr)
	}
	if err := f.Truncate(size - int64(free)*page); err != nil {
		t.Fatal(err)
	}
}

// crowd makes empty files until there is no room for another one, and then
// removes so many of them.
func crowd(t *testing.T, dir string, free int) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	var err error
	n := 0
	for ; err == nil; n++ {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), nil, 0o666)
	}
	if !errors.Is(err, syscall.ENOSPC) || n <= free {
		t.Fatalf("%d files: %v", n, err)
	}
	for i := range free {
		if err := os.Remove(filepath.Join(dir, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
}

// full checks the error of a write to a disk that is full.
func full(t *testing.T, what string, err error, key string) {
	t.Helper()
	e, ok := errors.AsType[*objstore.Error](err)
	if !ok || objstore.Classify(err) != objstore.NotApplied || !errors.Is(err, syscall.ENOSPC) ||
		!strings.Contains(err.Error(), key) || !strings.Contains(e.Hint, "free some space") {
		t.Errorf("%s: %v (%v)", what, err, objstore.Classify(err))
	}
}

// However much room is left for it, a write is done as a whole or not at all,
// and says so; and when there is room again it can be repeated as it was.
func TestDiskFull(t *testing.T) {
	if !mounts.Own(t) {
		return
	}
	dir := mounts.Tmpfs(t, "size=512k")
	filler := filepath.Join(dir, "filler!") // no key
	s := open(t, dir, Options{})
	v := mustPut(t, s, "manifests/k.json", "the old manifest", objstore.IfAbsent())
	mustPut(t, s, "segments/k/0", "a segment", objstore.IfAbsent())
	old := mustVersion(t, s, "manifests/k.json")
	const pages = 12 // of a new object
	body := strings.Repeat("0123456789abcdef", pages*page/16)
	refused, done := 0, 0
	for free := range pages + 8 {
		fill(t, filler, free)
		before := tree(t, dir)
		for what, cond := range map[string]objstore.Condition{
			"segments/k/1":     objstore.IfAbsent(),
			"new/dir/2":        objstore.IfAbsent(),
			"manifests/k.json": objstore.IfVersion(v),
		} {
			_, err := put(t, s, what, body, cond)
			if err == nil {
				done++
				if o, err := s.Get(t.Context(), what, objstore.GetOptions{}); err != nil || string(o.Body) != body {
					t.Errorf("%d pages free: %s has %d bytes: %v", free, what, len(o.Body), err)
				}
				if what == "manifests/k.json" { // make it as it was
					now, err := s.Head(t.Context(), what)
					if err != nil {
						t.Fatal(err)
					}
					if err := os.Truncate(filler, 0); err != nil {
						t.Fatal(err)
					}
					mustPut(t, s, what, "the old manifest", objstore.IfVersion(now.Version))
				} else if err := s.Delete(t.Context(), what); err != nil {
					t.Fatal(err)
				}
				fill(t, filler, free)
				continue
			}
			refused++
			full(t, fmt.Sprintf("%d pages free: %s", free, what), err, what)
			after := tree(t, dir)
			for _, made := range []string{"new", "new/dir"} { // empty directories may stay
				delete(before, made)
				delete(after, made)
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Fatalf("%d pages free: %s was refused, and changes (-before +after):\n%.2000s", free, what, diff)
			}
			if _, err := s.Copy(t.Context(), "segments/k/0", "segments/k/copy"); free == 0 {
				full(t, "Copy", err, "segments/k/copy")
			} else if err := s.Delete(t.Context(), "segments/k/copy"); err != nil {
				t.Error(err)
			}
		}
		if got := mustVersion(t, s, "manifests/k.json"); got != old {
			t.Fatalf("%d pages free: the manifest has version %s", free, got)
		}
	}
	if refused < 3*pages || done == 0 {
		t.Errorf("%d writes were refused, %d done: the disk was not as full as it should be", refused, done)
	}
	// What fills the disk can be removed from the store itself.
	if err := os.Truncate(filler, 0); err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, "segments/k/big", body, objstore.IfAbsent())
	fill(t, filler, 0)
	full(t, "again", second(put(t, s, "manifests/k.json", body, objstore.IfVersion(v))), "manifests/k.json")
	if err := s.Delete(t.Context(), "segments/k/big"); err != nil {
		t.Errorf("Delete on a full disk: %v", err)
	}
	mustPut(t, s, "manifests/k.json", "the new one", objstore.IfVersion(v))
}

// A disk that has no room for another file, at each file and directory that a
// write makes.
func TestNoMoreFiles(t *testing.T) {
	if !mounts.Own(t) {
		return
	}
	dir := mounts.Tmpfs(t, "size=1m,nr_inodes=100")
	others := filepath.Join(dir, "filler!")
	attempt := 0
	// A write needs: .s3log, tmp, locks; the lock file; two directories; the file.
	for free := 0; ; free++ {
		if err := os.RemoveAll(others); err != nil {
			t.Fatal(err)
		}
		for _, made := range []string{private, "a"} {
			if err := os.RemoveAll(filepath.Join(dir, made)); err != nil {
				t.Fatal(err)
			}
		}
		crowd(t, others, free)
		s := open(t, dir, Options{})
		_, err := put(t, s, "a/b/k", "x", objstore.IfAbsent())
		if err == nil {
			break
		}
		attempt++
		full(t, fmt.Sprintf("%d files more", free), err, "a/b/k")
		if got := list(t, s, "a/"); len(got) != 0 {
			t.Errorf("%d files more: %q is there", free, got)
		}
		if err := os.RemoveAll(others); err != nil {
			t.Fatal(err)
		}
		mustPut(t, s, "a/b/k", "x", objstore.IfAbsent())
	}
	if attempt != 7 {
		t.Errorf("it failed at %d files, of 7 that it makes", attempt)
	}
	// With everything there, all that is missing is the new file.
	if err := os.RemoveAll(others); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, Options{})
	v := mustPut(t, s, "a/b/l", "x", objstore.IfAbsent())
	crowd(t, others, 0)
	full(t, "replacement", second(put(t, s, "a/b/l", "y", objstore.IfVersion(v))), "a/b/l")
	if o, err := s.Get(t.Context(), "a/b/l", objstore.GetOptions{}); err != nil || string(o.Body) != "x" {
		t.Errorf("it holds %q, %v", o.Body, err)
	}
}

// On a file system that is mounted read-only everything can be read, and nothing
// is tried that would write.
func TestReadOnlyMount(t *testing.T) {
	if !mounts.Own(t) {
		return
	}
	dir := t.TempDir()
	s := open(t, dir, Options{})
	v := mustPut(t, s, "d/k", "x", objstore.IfAbsent())
	mustPut(t, s, "d/l", "y", objstore.IfAbsent())
	never := t.TempDir() // a copy that nobody has written to with this package
	if err := os.MkdirAll(filepath.Join(never, "d"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{"k": "x", "l": "y"} {
		if err := os.WriteFile(filepath.Join(never, "d", name), []byte(body), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for what, at := range map[string]string{"a store": mounts.ReadOnly(t, dir), "a copy": mounts.ReadOnly(t, never)} {
		before := tree(t, at)
		for _, opt := range []Options{{}, {ReadOnly: true}} {
			s := open(t, at, opt)
			if o, err := s.Get(t.Context(), "d/k", objstore.GetOptions{}); err != nil || string(o.Body) != "x" || o.Version != v {
				t.Errorf("%s: Get: %q, %v", what, o.Body, err)
			}
			if info, err := s.Head(t.Context(), "d/k"); err != nil || info.Version != v {
				t.Errorf("%s: Head: %v", what, err)
			}
			if diff := cmp.Diff([]string{"d/k", "d/l"}, list(t, s, "")); diff != "" {
				t.Errorf("%s: list (-want +got):\n%s", what, diff)
			}
			for call, err := range map[string]error{
				"Put":    second(put(t, s, "d/k", "z", objstore.IfVersion(v))),
				"create": second(put(t, s, "e/k", "z", objstore.IfAbsent())),
				"Copy":   second(s.Copy(t.Context(), "d/k", "d/m")),
				"Delete": s.Delete(t.Context(), "d/k"),
			} {
				e, ok := errors.AsType[*objstore.Error](err)
				if !ok || !errors.Is(err, objstore.ErrDenied) || objstore.Classify(err) != objstore.Refused || !opt.ReadOnly && !strings.Contains(e.Hint, "read-only") {
					t.Errorf("%s: %s: %v", what, call, err)
				}
			}
		}
		if _, err := Open(filepath.Join(at, "other"), Options{}); !errors.Is(err, objstore.ErrDenied) {
			t.Errorf("%s: Open of a new store: %v", what, err)
		}
		if diff := cmp.Diff(before, tree(t, at)); diff != "" {
			t.Errorf("%s changes (-before +after):\n%s", what, diff)
		}
	}
}

// The store's directory is removed while it is open.
func TestRootRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir, Options{})
	v := mustPut(t, s, "d/k", "x", objstore.IfAbsent())
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for _, cond := range []objstore.Condition{objstore.IfAbsent(), objstore.IfVersion(v)} {
		var err error
		for range 3 { // a store that decided nothing is asked again
			if _, err = put(t, s, "d/k", "y", cond); objstore.Classify(err) != objstore.TryAgain {
				break
			}
		}
		e, ok := errors.AsType[*objstore.Error](err)
		if !ok || objstore.Classify(err) != objstore.Refused || !errors.Is(err, errRemoved) || !strings.Contains(e.Hint, "open the store anew") {
			t.Errorf("Put %v: %v", cond, err)
		}
	}
	if _, err := s.Get(t.Context(), "d/k", objstore.GetOptions{}); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("Get: %v", err)
	}
	if err := s.Delete(t.Context(), "d/k"); err != nil {
		t.Errorf("Delete of what is not there: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is back: %v", err)
	}
}

// A file is where the store needs a directory for itself or for a key.
func TestFileInTheWay(t *testing.T) {
	for _, name := range []string{private, tmpDir, lockDir, "manifests", "segments/k"} {
		dir := t.TempDir()
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("somebody's"), 0o666); err != nil {
			t.Fatal(err)
		}
		before := tree(t, dir)
		s := open(t, dir, Options{})
		key := "manifests/k"
		if strings.HasPrefix(name, "segments") {
			key = name + "/1"
		}
		_, err := put(t, s, key, "x", objstore.IfAbsent())
		if e, ok := errors.AsType[*objstore.Error](err); !ok || objstore.Classify(err) != objstore.NotApplied || e.Hint == "" || !strings.Contains(err.Error(), filepath.Base(name)) {
			t.Errorf("%s is a file: %v", name, err)
		}
		if _, err := s.Get(t.Context(), key, objstore.GetOptions{}); !errors.Is(err, objstore.ErrNotExist) {
			t.Errorf("%s is a file: Get: %v", name, err)
		}
		if got := list(t, s, "manifests/"); len(got) != 0 {
			t.Errorf("%s is a file: %q is listed", name, got)
		}
		after := tree(t, dir)
		for _, made := range []string{private, tmpDir, lockDir, "manifests"} { // as directories
			if _, ok := before[made]; !ok {
				delete(after, made)
			}
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s is a file: changes (-before +after):\n%s", name, diff)
		}
	}
}
