package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/objstoretest"
)

func open(t testing.TB, dir string, opt Options) *Store {
	t.Helper()
	s, err := Open(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t testing.TB, s *Store, key, body string, cond objstore.Condition) (objstore.Version, error) {
	t.Helper()
	info, err := s.Put(t.Context(), key, []byte(body), cond, objstore.PutOptions{})
	return info.Version, err
}

func mustPut(t testing.TB, s *Store, key, body string, cond objstore.Condition) objstore.Version {
	t.Helper()
	v, err := put(t, s, key, body, cond)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func list(t testing.TB, s *Store, prefix string) (keys []string) {
	t.Helper()
	for info, err := range s.List(t.Context(), prefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// files are the paths of all files below dir, and those in .s3log/locks left out.
func files(t testing.TB, dir string) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(name, lockDir) {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestConformance(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store { return open(t, t.TempDir(), Options{NoSync: true}) }, objstoretest.Options{})
}

func TestConformanceDurable(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store { return open(t, t.TempDir(), Options{}) }, objstoretest.Options{Keys: 100, Rounds: 10})
}

// Two Stores on one directory are like two processes.
func TestConformanceTwoStores(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store {
		dir := t.TempDir()
		return &alternate{Store: open(t, dir, Options{NoSync: true}), other: open(t, dir, Options{NoSync: true})}
	}, objstoretest.Options{Keys: 100})
}

// alternate sends every other Put to the other store.
type alternate struct {
	*Store
	other *Store
}

func (a *alternate) Put(ctx context.Context, key string, body []byte, c objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	if len(body)%2 == 0 {
		return a.other.Put(ctx, key, body, c, opt)
	}
	return a.Store.Put(ctx, key, body, c, opt)
}

// A key is a path, and nothing but objects is outside .s3log.
func TestLayout(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := open(t, dir, Options{})
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("Open writes %q", got)
	}
	v := mustPut(t, s, "manifests/x.json", "one", objstore.IfAbsent())
	mustPut(t, s, "manifests/x.json", "two", objstore.IfVersion(v))
	mustPut(t, s, "segments/x/1", "seg", objstore.IfAbsent())
	if diff := cmp.Diff([]string{"manifests/x.json", "segments/x/1"}, files(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "manifests", "x.json")); string(got) != "two" {
		t.Errorf("file holds %q, %v", got, err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the new directory has mode %v, %v", info.Mode(), err)
	}
	// sha256sum says the same.
	if want := "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3"; mustVersion(t, s, "manifests/x.json") != want {
		t.Errorf("version %s, want %s", mustVersion(t, s, "manifests/x.json"), want)
	}
}

func mustVersion(t testing.TB, s *Store, key string) string {
	t.Helper()
	info, err := s.Head(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return info.Version.Token()
}

func TestKeys(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{NoSync: true})
	for _, key := range []string{
		"", "/", "../x", "a/../b", "a//b", "a/", "/a", "a\x00b", `a\b`, "ü", strings.Repeat("k/", 600) + "k", strings.Repeat("k", 256),
		".s3log", ".s3log/x", ".S3Log/tmp/x",
	} {
		if _, err := put(t, s, key, "x", objstore.IfAbsent()); objstore.Classify(err) != objstore.NotApplied {
			t.Errorf("Put %q: %v", key, err)
		}
		if _, err := s.Get(t.Context(), key, objstore.GetOptions{}); !errors.Is(err, objstore.ErrRejected) {
			t.Errorf("Get %q: %v", key, err)
		}
		if _, err := s.Head(t.Context(), key); !errors.Is(err, objstore.ErrRejected) {
			t.Errorf("Head %q: %v", key, err)
		}
		if err := s.Delete(t.Context(), key); !errors.Is(err, objstore.ErrRefused) {
			t.Errorf("Delete %q: %v", key, err)
		}
		if _, err := s.Copy(t.Context(), key, "b"); !errors.Is(err, objstore.ErrRejected) {
			t.Errorf("Copy of %q: %v", key, err)
		}
	}
	for _, prefix := range []string{"../", "/", "a//", ".s3log/", ".s3log/tmp/"} {
		if got := list(t, s, prefix); len(got) != 0 {
			t.Errorf("list %q: %q", prefix, got)
		}
	}
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("files %q", got)
	}
}

// One key cannot be the folder of another.
func TestFileAndFolder(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{NoSync: true})
	mustPut(t, s, "file", "x", objstore.IfAbsent())
	mustPut(t, s, "dir/k", "x", objstore.IfAbsent())
	for _, key := range []string{"file/k", "file/k/l", "dir"} {
		_, err := put(t, s, key, "x", objstore.IfAbsent())
		if e, ok := errors.AsType[*objstore.Error](err); !ok || objstore.Classify(err) != objstore.NotApplied {
			t.Errorf("Put %q: %v", key, err)
		} else if e.Op != "Put" || e.Key != key {
			t.Errorf("Put %q: error %+v", key, e)
		}
		if _, err := s.Get(t.Context(), key, objstore.GetOptions{}); !errors.Is(err, objstore.ErrNotExist) {
			t.Errorf("Get %q: %v", key, err)
		}
		if err := s.Delete(t.Context(), key); err != nil {
			t.Errorf("Delete %q: %v", key, err)
		}
	}
	if diff := cmp.Diff([]string{"dir/k", "file"}, list(t, s, "")); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if got := list(t, s, "file/"); len(got) != 0 {
		t.Errorf("list below a file: %q", got)
	}
	if diff := cmp.Diff([]string{"dir/k", "file"}, files(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// A version is told where it costs little.
func TestVersionOfRanges(t *testing.T) {
	s := open(t, t.TempDir(), Options{NoSync: true})
	small := mustPut(t, s, "small", strings.Repeat("x", hashLimit), objstore.IfAbsent())
	large := mustPut(t, s, "large", strings.Repeat("x", hashLimit+1), objstore.IfAbsent())
	for _, tc := range []struct {
		key  string
		opt  objstore.GetOptions
		want objstore.Version
		err  error
	}{
		{"small", objstore.GetOptions{Offset: 5, Length: 5}, small, nil},
		{"large", objstore.GetOptions{Offset: 5, Length: 5}, objstore.Version{}, nil},
		{"large", objstore.GetOptions{Length: hashLimit + 1}, large, nil},
		{"large", objstore.GetOptions{}, large, nil},
		{"large", objstore.GetOptions{Offset: 5, Length: 5, IfNot: small}, large, nil},
		{"large", objstore.GetOptions{Offset: 5, Length: 5, IfNot: large}, objstore.Version{}, objstore.ErrNotModified},
		{"large", objstore.GetOptions{Offset: hashLimit + 1, Length: 5, IfNot: large}, objstore.Version{}, objstore.ErrNotModified},
		{"large", objstore.GetOptions{Offset: hashLimit + 1, Length: 5, IfNot: small}, objstore.Version{}, objstore.ErrRange},
		{"large", objstore.GetOptions{Offset: 1}, objstore.Version{}, objstore.ErrRejected},
	} {
		o, err := s.Get(t.Context(), tc.key, tc.opt)
		if o.Version != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s %+v: version %v, %v; want %v, %v", tc.key, tc.opt, o.Version, err, tc.want, tc.err)
		}
	}
}

func TestReadOnlyOption(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	if _, err := Open(missing, Options{ReadOnly: true}); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("Open of nothing: %v", err)
	}
	w := open(t, dir, Options{NoSync: true})
	v := mustPut(t, w, "d/k", "x", objstore.IfAbsent())
	before := files(t, dir)
	s := open(t, dir, Options{ReadOnly: true})
	for what, err := range map[string]error{
		"Put":    second(put(t, s, "d/k", "y", objstore.IfVersion(v))),
		"create": second(put(t, s, "l", "y", objstore.IfAbsent())),
		"Copy":   second(s.Copy(t.Context(), "d/k", "l")),
		"Delete": s.Delete(t.Context(), "d/k"),
	} {
		if !errors.Is(err, objstore.ErrReadOnly) || !errors.Is(err, objstore.ErrDenied) || objstore.Classify(err) != objstore.Refused {
			t.Errorf("%s: %v", what, err)
		}
	}
	if diff := cmp.Diff([]string{"d/k"}, list(t, s, "")); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, files(t, dir)); diff != "" {
		t.Errorf("files changed (-before +after):\n%s", diff)
	}
}

func second[T any](_ T, err error) error { return err }

func TestOpenFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "sub")} {
		if _, err := Open(dir, Options{}); err == nil {
			t.Errorf("Open(%q) succeeds", dir)
		} else if _, ok := errors.AsType[*objstore.Error](err); !ok {
			t.Errorf("Open(%q): %v is no *objstore.Error", dir, err)
		}
	}
}

// Leftovers of dead processes go when a later one writes, not before a day.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	mustPut(t, open(t, dir, Options{NoSync: true}), "k", "x", objstore.IfAbsent())
	for name, age := range map[string]time.Duration{"old": 25 * time.Hour, "young": 23 * time.Hour} {
		path := filepath.Join(dir, tmpDir, name)
		if err := os.WriteFile(path, []byte("half an obj"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir, Options{NoSync: true})
	if diff := cmp.Diff([]string{"k"}, list(t, s, "")); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if got := files(t, dir); len(got) != 3 {
		t.Errorf("reading swept: %q", got)
	}
	mustPut(t, s, "l", "x", objstore.IfAbsent())
	if diff := cmp.Diff([]string{tmpDir + "/young", "k", "l"}, files(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// Lock files are few, however many keys there are.
func TestLockFilesBounded(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{NoSync: true})
	if err := s.prepare(); err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		unlock, err := s.lock(t.Context(), fmt.Sprintf("k/%d", i))
		if err != nil {
			t.Fatal(err)
		}
		unlock()
	}
	locks, err := os.ReadDir(filepath.Join(dir, lockDir))
	if err != nil || len(locks) > stripes || len(locks) < stripes/2 {
		t.Errorf("%d lock files, %v", len(locks), err)
	}
}

// A writer that waits for a lock can be called off, and has done nothing.
func TestLockHonoursContext(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir, Options{NoSync: true}), open(t, dir, Options{NoSync: true})
	v := mustPut(t, a, "k", "x", objstore.IfAbsent())
	unlock, err := a.lock(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Store{"same store": a, "other store": b} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := s.Put(ctx, "k", []byte("y"), objstore.IfVersion(v), objstore.PutOptions{})
		if objstore.Classify(err) != objstore.Undecided || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: Put while locked: %v", name, err)
		}
		if err := s.Delete(ctx, "k"); !errors.Is(err, objstore.ErrUndecided) {
			t.Errorf("%s: Delete while locked: %v", name, err)
		}
		cancel()
	}
	unlock()
	mustPut(t, b, "k", "y", objstore.IfVersion(v))
	if diff := cmp.Diff([]string{"k"}, files(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// The lock files, or everything, may be removed under a running store.
func TestRemovedUnderneath(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	v := mustPut(t, s, "d/e/k", "x", objstore.IfAbsent())
	for _, name := range []string{lockDir, private, "d/e", "d"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		var err error
		for try := 0; ; try++ { // a store that decided nothing is asked again
			key := fmt.Sprintf("d/e/after-%s", strings.ReplaceAll(name, "/", "-"))
			if _, err = put(t, s, key, "x", objstore.IfAbsent()); objstore.Classify(err) != objstore.TryAgain || try == 1 {
				break
			}
		}
		if err != nil {
			t.Errorf("Put after %s was removed: %v", name, err)
		}
	}
	if _, err := put(t, s, "d/e/k", "y", objstore.IfVersion(v)); !errors.Is(err, objstore.ErrGone) {
		t.Errorf("Put on what was removed: %v", err)
	}
}

func TestStoreError(t *testing.T) {
	for _, tc := range []struct {
		op   string
		err  error
		want error
		hint bool
	}{
		{"Put", syscall.ENOSPC, objstore.ErrRejected, true},
		{"Put", syscall.EDQUOT, objstore.ErrRejected, true},
		{"Put", syscall.EROFS, objstore.ErrDenied, true},
		{"Put", syscall.EACCES, objstore.ErrDenied, true},
		{"Put", syscall.EPERM, objstore.ErrDenied, true},
		{"Put", syscall.EXDEV, objstore.ErrRefused, true},
		{"Put", syscall.ENOTSUP, objstore.ErrUnsupported, true},
		{"Put", syscall.ENOTDIR, objstore.ErrRejected, true},
		{"Put", syscall.EISDIR, objstore.ErrRejected, true},
		{"Put", syscall.EIO, objstore.ErrUndecided, false},
		{"Put", syscall.ENAMETOOLONG, objstore.ErrRejected, false},
		{"Put", context.Canceled, objstore.ErrUndecided, false},
		{"Get", syscall.ENOENT, objstore.ErrNotExist, false},
		{"Get", syscall.ENOTDIR, objstore.ErrNotExist, false},
		{"Get", syscall.EACCES, objstore.ErrDenied, true},
		{"Get", syscall.EMFILE, objstore.ErrUndecided, true},
		{"Put", syscall.ENFILE, objstore.ErrUndecided, true},
	} {
		err := storeError(tc.op, "k", &fs.PathError{Op: "x", Path: "k", Err: tc.err}, objstore.ErrUndecided)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v gives %v, want %v", tc.op, tc.err, err, tc.want)
		}
		if e, ok := errors.AsType[*objstore.Error](err); !ok || (e.Hint != "") != tc.hint {
			t.Errorf("%s: %v: hint %q", tc.op, tc.err, e.Hint)
		}
	}
}

func BenchmarkPut(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 512 << 10} {
		for _, noSync := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dKiB/NoSync=%v", size>>10, noSync), func(b *testing.B) {
				s := open(b, b.TempDir(), Options{NoSync: noSync})
				body := bytes.Repeat([]byte("0123456789abcdef"), size/16)
				info, err := s.Put(b.Context(), "manifests/k.json", body, objstore.IfAbsent(), objstore.PutOptions{})
				for i := 0; b.Loop() && err == nil; i++ {
					copy(body, fmt.Sprintf("%08d", i))
					info, err = s.Put(b.Context(), "manifests/k.json", body, objstore.IfVersion(info.Version), objstore.PutOptions{})
				}
				if err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

func BenchmarkGet(b *testing.B) {
	s := open(b, b.TempDir(), Options{NoSync: true})
	for _, size := range []int{4 << 10, 64 << 10, 512 << 10, 8 << 20} {
		key := fmt.Sprintf("segments/a/%d", size)
		if _, err := s.Put(b.Context(), key, bytes.Repeat([]byte("0123456789abcdef"), size/16), objstore.IfAbsent(), objstore.PutOptions{}); err != nil {
			b.Fatal(err)
		}
		for _, opt := range []objstore.GetOptions{{}, {Offset: 1 << 10, Length: 2 << 10}} {
			b.Run(fmt.Sprintf("%dKiB/range=%d", size>>10, opt.Length), func(b *testing.B) {
				for b.Loop() {
					if _, err := s.Get(b.Context(), key, opt); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
