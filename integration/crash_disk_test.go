package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/internal/mounts"
)

// onDirectory runs the command on a store in a directory.
func onDirectory(t *testing.T, dir, stdin string, args ...string) ran {
	t.Helper()
	path, err := builtCommand()
	if err != nil {
		t.Fatalf("building s3logctl: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = []string{"S3LOG_STORE=file://" + dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "HOME=" + os.DevNull}
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if _, ended := errors.AsType[*exec.ExitError](cmd.Run()); !ended && cmd.ProcessState == nil {
		t.Fatal("s3logctl did not start")
	}
	return ran{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// fillDisk leaves so many bytes of a disk of so many free.
func fillDisk(t *testing.T, file string, size, free int) {
	t.Helper()
	if err := os.WriteFile(file, make([]byte, size), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is larger than it should be: %v", err)
	}
	info, err := os.Stat(file)
	if err == nil {
		err = os.Truncate(file, info.Size()-int64(free))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A log on a disk that becomes full: what was acknowledged is there, what was
// refused is not, nothing is damaged, and when there is room again it goes on.
func TestLogOnAFullDisk(t *testing.T) {
	if !mounts.Own(t) {
		return
	}
	const size = 2 << 20
	for name, opt := range map[string]backend.Options{"in the background": quick, "in the foreground": foreground} {
		for _, free := range []int{0, 8 << 10, 200 << 10, 600 << 10} {
			t.Run(fmt.Sprintf("%s, %d bytes free", name, free), func(t *testing.T) {
				dir := mounts.Tmpfs(t, fmt.Sprint("size=", size))
				filler := filepath.Join(dir, "filler!") // no key
				store, err := filestore.Open(dir, filestore.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				l := mustCreate(t, store, "log", opt)
				mustAppend(t, l, note(0))
				mustAppend(t, mustCreate(t, store, "other", opt), note(0))
				var want []string
				fillDisk(t, filler, size, free)
				for n := 0; ; n++ {
					if n == 1000 {
						t.Fatal("the disk never becomes full")
					}
					batch := notes(t, n*20, 20)
					if _, err = l.Append(t.Context(), batch, backend.AppendOptions{}); err != nil {
						break
					}
					for _, line := range batch {
						want = append(want, string(line))
					}
				}
				refused := func(what string, err error) {
					t.Helper()
					if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, backend.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "log") || !strings.Contains(hintOf(err), "free some space") {
						t.Errorf("%s: %v, hint %q", what, err, hintOf(err))
					}
				}
				refused("append", err)
				_, err = l.Append(t.Context(), [][]byte{note(-1)}, backend.AppendOptions{})
				refused("the same handle", err)
				_ = l.Close(t.Context(), backend.CloseOptions{}) // with that error
				fillDisk(t, filler, size, 0)
				_, err = mustAdopt(t, store, "log", opt).Append(t.Context(), notes(t, 0, 20), backend.AppendOptions{})
				refused("another handle", err)
				if got := onDirectory(t, dir, string(notes(t, 0, 1)[0]), "append", "other", "--take-over"); got.exit != 1 || !strings.Contains(got.stderr, "no space left") || !strings.Contains(got.stderr, "free some space") {
					t.Errorf("the command: %+v", got)
				}

				sound := func() {
					t.Helper()
					got := checkedRead(t, backend.NewReader(store, quick), "log")
					same := len(got) == 1+len(want) && slices.EqualFunc(got[1:], want, func(stored, given string) bool {
						_, data, _ := strings.Cut(given, `"data":`)
						return strings.HasSuffix(stored, data)
					})
					if rep, err := backend.NewReader(store, quick).Verify(t.Context(), "log", backend.VerifyOptions{}); !same || err != nil || !rep.OK() {
						t.Errorf("%d events of %d; %+v, %v", len(got), 1+len(want), rep.Findings, err)
					}
				}
				sound()
				holds(t, store, "other", 0)
				if left, err := filepath.Glob(filepath.Join(dir, ".s3log", "tmp", "*")); err != nil || len(left) > 0 {
					t.Errorf("%d temporary files take room, %v", len(left), err)
				}
				if err := os.Truncate(filler, 0); err != nil {
					t.Fatal(err)
				}
				l = mustAdopt(t, store, "log", opt)
				for _, line := range notes(t, 1_000_000, 20) {
					mustAppend(t, l, line)
					want = append(want, string(line))
				}
				sound()
			})
		}
	}
}

// Whoever has a store on a file system that is mounted read-only can do all that
// a reader does, and leaves no trace.
func TestStoreOnAReadOnlyDisk(t *testing.T) {
	if !mounts.Own(t) {
		return
	}
	dir := t.TempDir()
	store, err := filestore.Open(dir, filestore.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	want, _ := grown(t, store, "log")
	if err := os.RemoveAll(filepath.Join(dir, ".s3log")); err != nil { // as in a copy
		t.Fatal(err)
	}
	at := mounts.ReadOnly(t, dir)
	paths := func() (all []string) {
		t.Helper()
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			all = append(all, path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := paths()
	for _, args := range [][]string{{"cat", "log"}, {"ls"}, {"info", "log"}, {"check", "log"}, {"verify", "log"}, {"inspect", "log"}, {"tail", "log"}} {
		got := onDirectory(t, at, "", args...)
		if got.exit != 0 || got.stderr != "" {
			t.Errorf("%q: %+v", args, got)
		}
		if args[0] == "cat" && strings.Count(got.stdout, "\n") != len(want) {
			t.Errorf("cat: %d lines, want %d", strings.Count(got.stdout, "\n"), len(want))
		}
	}
	for _, args := range [][]string{{"append", "log", "--take-over"}, {"append", "new", "--create"}, {"resume", "log", "--take-over"}, {"fork", "log", "child"}, {"rm", "log", "--apply", "--take-over"}} {
		got := onDirectory(t, at, string(note(1))+"\n", args...)
		if got.exit != 7 || !strings.Contains(got.stderr, "read-only") {
			t.Errorf("%q: %+v", args, got)
		}
	}
	if after := paths(); !slices.Equal(after, before) {
		t.Errorf("there is %q, before there was %q", after, before)
	}
}
