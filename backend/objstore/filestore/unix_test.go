//go:build unix

package filestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// One object, or one directory, may be somebody else's. That is said of it, and
// the others are as they were.
func TestOneObjectDenied(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{NoSync: true})
	for _, key := range []string{"d/denied", "d/k", "e/denied"} {
		mustPut(t, s, key, "x", objstore.IfAbsent())
	}
	chmod := func(mode os.FileMode, names ...string) {
		t.Helper()
		for _, name := range names {
			if err := os.Chmod(filepath.Join(dir, filepath.FromSlash(name)), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	chmod(0o777, ".", "d", private, tmpDir, lockDir)
	locks, err := filepath.Glob(filepath.Join(dir, lockDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range locks {
		if err := os.Chmod(name, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	chmod(0, "d/denied", "e")
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "e"), 0o755) })
	for _, line := range runChild(t, "denied", dir) {
		t.Error(line)
	}
}

// childDenied does what can be done around an object and a directory that it may
// not open, and prints what is wrong.
func childDenied(dir string) error {
	s, err := Open(dir, Options{NoSync: true})
	if err != nil {
		return err
	}
	if err := beNobody(); err != nil {
		return err
	}
	ctx := childContext()
	denied := func(what, key string, err error) {
		if e, ok := errors.AsType[*objstore.Error](err); !ok || !errors.Is(err, objstore.ErrDenied) || e.Hint == "" || !strings.Contains(err.Error(), key) {
			say("%s: %v", what, err)
		}
	}
	v := versionOf([]byte("x"))
	for _, key := range []string{"d/denied", "e/denied"} {
		_, err := s.Get(ctx, key, objstore.GetOptions{})
		denied("Get", key, err)
		_, err = s.Head(ctx, key)
		denied("Head", key, err)
		_, err = s.Put(ctx, key, []byte("y"), objstore.IfVersion(v), objstore.PutOptions{})
		denied("Put", key, err)
	}
	if _, err := s.Put(ctx, "d/denied", []byte("y"), objstore.IfAbsent(), objstore.PutOptions{}); !errors.Is(err, objstore.ErrPrecondition) {
		say("create where it is: %v", err)
	}
	o, err := s.Get(ctx, "d/k", objstore.GetOptions{})
	if err != nil || string(o.Body) != "x" {
		say("Get of another: %q, %v", o.Body, err)
	}
	if _, err := s.Put(ctx, "d/k", []byte("y"), objstore.IfVersion(v), objstore.PutOptions{}); err != nil {
		say("Put of another: %v", err)
	}
	var keys []string
	var last error
	for info, err := range s.List(ctx, "", "") {
		if last = err; err == nil {
			keys = append(keys, info.Key)
		}
	}
	if !slices.Equal(keys, []string{"d/denied", "d/k"}) {
		say("listed %q", keys)
	}
	denied("List", "", last)
	return nil
}

// A process that may not open another file gets errors that say so, and goes on
// when it may.
func TestTooManyFiles(t *testing.T) {
	dir := t.TempDir()
	mustPut(t, open(t, dir, Options{NoSync: true}), "d/k", "x", objstore.IfAbsent())
	for _, line := range runChild(t, "files", dir) {
		t.Error(line)
	}
}

// childFiles uses a store with any number of files left that it may open.
func childFiles(dir string) error {
	s, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: 64}); err != nil {
		return err
	}
	ctx := childContext()
	v := versionOf([]byte("x"))
	refused, got, body := 0, 0, "x"
	for free := range 12 {
		var held []*os.File
		for {
			f, err := os.Open(dir)
			if err != nil {
				break
			}
			held = append(held, f)
		}
		if len(held) < 12 {
			return errors.New("there is no limit")
		}
		for _, f := range held[:free] {
			f.Close()
		}
		o, getErr := s.Get(ctx, "d/k", objstore.GetOptions{})
		next := fmt.Sprint("body ", free)
		info, putErr := s.Put(ctx, "d/k", []byte(next), objstore.IfVersion(v), objstore.PutOptions{})
		for _, f := range held[free:] {
			f.Close()
		}
		for what, err := range map[string]error{"Get": getErr, "Put": putErr} {
			if e, ok := errors.AsType[*objstore.Error](err); err != nil && (!ok || !errors.Is(err, syscall.EMFILE) || !strings.Contains(e.Hint, "ulimit")) {
				say("%d files free: %s: %v", free, what, err)
			}
		}
		if getErr == nil {
			if got++; string(o.Body) != body {
				say("%d files free: Get: %q, want %q", free, o.Body, body)
			}
		}
		now, err := s.Get(ctx, "d/k", objstore.GetOptions{})
		switch {
		case err != nil:
			say("after %d files free: %v", free, err)
		case putErr == nil:
			v, body = info.Version, next
		case objstore.Classify(putErr) == objstore.NotApplied:
			if refused++; string(now.Body) != body {
				say("%d files free: refused, and there is %q", free, now.Body)
			}
		default:
			say("%d files free: %v is not decided", free, putErr)
		}
		if string(now.Body) != body {
			say("%d files free: there is %q, want %q", free, now.Body, body)
		}
	}
	if refused == 0 || got == 0 || body == "x" {
		say("%d writes were refused, %d reads done, %s in the end", refused, got, body)
	}
	if left, err := os.ReadDir(filepath.Join(dir, filepath.FromSlash(tmpDir))); err != nil || len(left) > 0 {
		say("temporary files stay: %d, %v", len(left), err)
	}
	return nil
}

// beNobody gives up the rights of root.
func beNobody() error {
	if os.Geteuid() != 0 {
		return nil
	}
	return syscall.Setuid(65534)
}

// childNobody does as anybody may who is not the owner; root first has to
// become somebody else. It prints what is wrong.
func childNobody(dir string) error {
	s, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	if err := beNobody(); err != nil {
		return err
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
