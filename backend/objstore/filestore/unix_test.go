//go:build unix

package filestore

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend/objstore"
)

// What others put into the directory is no object, unless it is one.
func TestForeignFiles(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	s := open(t, dir, Options{NoSync: true})
	mustPut(t, s, "d/k", "x", objstore.IfAbsent())
	write := func(name string) {
		if err := os.WriteFile(name, []byte("foreign"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "with space"))
	write(filepath.Join(dir, "d", "ünicode"))
	write(filepath.Join(dir, "d", "plain"))
	write(filepath.Join(outside, "secret"))
	for name, target := range map[string]string{"link": "d", "d/link": "k", "out": outside, "d/out": filepath.Join(outside, "secret"), "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o666); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"d/k", "d/plain"}, list(t, s, "")); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	for _, prefix := range []string{"link/", "out/", "loop/", "pipe/"} {
		if got := list(t, s, prefix); len(got) != 0 {
			t.Errorf("list %q follows a link: %q", prefix, got)
		}
	}
	for _, key := range []string{"d/link", "d/out", "loop", "pipe", "out"} {
		if _, err := s.Get(t.Context(), key, objstore.GetOptions{}); !errors.Is(err, objstore.ErrNotExist) {
			t.Errorf("Get %q: %v", key, err)
		}
		if _, err := put(t, s, key, "x", objstore.IfAbsent()); objstore.Classify(err) != objstore.NotApplied {
			t.Errorf("Put %q: %v", key, err)
		}
		if err := s.Delete(t.Context(), key); err != nil {
			t.Errorf("Delete %q: %v", key, err)
		}
	}
	if _, err := s.Get(t.Context(), "out/secret", objstore.GetOptions{}); err == nil {
		t.Error("Get leaves the directory")
	}
	if _, err := put(t, s, "out/new", "x", objstore.IfAbsent()); err == nil {
		t.Error("Put leaves the directory")
	}
	if got := files(t, outside); len(got) != 1 {
		t.Errorf("outside are %q", got)
	}
	if o, err := s.Get(t.Context(), "link/k", objstore.GetOptions{}); err != nil || string(o.Body) != "x" {
		t.Errorf("Get through a link inside: %q, %v", o.Body, err)
	}
}

// A directory that one may only read can be read; the first write is what
// fails, and says why.
func TestNoPermission(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{NoSync: true})
	mustPut(t, s, "d/k", "x", objstore.IfAbsent())
	if err := os.RemoveAll(filepath.Join(dir, private)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d", "."} {
		if err := os.Chmod(filepath.Join(dir, name), 0o555); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { os.Chmod(dir, 0o755); os.Chmod(filepath.Join(dir, "d"), 0o755) })
	for _, line := range runChild(t, "nobody", dir) {
		t.Error(line)
	}
}

// childNobody does as anybody may who is not the owner; root first has to
// become somebody else. It prints what is wrong.
func childNobody(dir string) error {
	s, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := syscall.Setuid(65534); err != nil {
			return err
		}
	}
	ctx := childContext()
	o, err := s.Get(ctx, "d/k", objstore.GetOptions{})
	if err != nil || string(o.Body) != "x" {
		say("Get: %q, %v", o.Body, err)
	}
	n := 0
	for _, err := range s.List(ctx, "", "") {
		if n++; err != nil {
			say("List: %v", err)
		}
	}
	if n != 1 {
		say("List: %d objects", n)
	}
	denied := func(what string, err error) {
		if e, ok := errors.AsType[*objstore.Error](err); !ok || !errors.Is(err, objstore.ErrDenied) || e.Hint == "" {
			say("%s: %v", what, err)
		}
	}
	_, err = s.Put(ctx, "d/k", []byte("y"), objstore.IfVersion(o.Version), objstore.PutOptions{})
	denied("Put", err)
	_, err = s.Put(ctx, "l", []byte("y"), objstore.IfAbsent(), objstore.PutOptions{})
	denied("create", err)
	denied("Delete", s.Delete(ctx, "d/k"))
	if err := s.Delete(ctx, "nothing"); err != nil {
		say("Delete of nothing: %v", err)
	}
	return nil
}
