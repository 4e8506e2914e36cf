package main

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// writeFile makes a file whole or not at all: it is written beside its place,
// synced, and renamed. What is there and is no regular file (a device, a pipe)
// is written to directly. Symbolic links are followed.
func writeFile(path string, write func(io.Writer) error) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory", quote(path))
	}
	if err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return finish(f, write(f))
	}
	mode := fs.FileMode(0o666) // less what the umask says
	if err == nil {
		mode = info.Mode().Perm()
	}
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()[:12]+".tmp")
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: "create", Path: path, Err: pe.Err} // the name that was asked for
	}
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(f, outputBuffer)
	err = write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = finish(f, err); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp) // the error before it is the one to tell
	}
	return err
}

func finish(f *os.File, err error) error {
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// spool is a file to read; a temporary one is removed when it is closed.
type spool struct {
	*os.File
	temporary bool
}

func newSpool() (*spool, error) {
	f, err := os.CreateTemp("", "s3logctl-*.jsonl")
	if err != nil {
		return nil, err
	}
	// Where the system allows it, nobody else ever finds it, and it is gone also
	// when the process is killed.
	err = os.Remove(f.Name())
	return &spool{File: f, temporary: err != nil}, nil
}

// Close closes the file. It was only read, or is thrown away: there is no error
// that matters.
func (s *spool) Close() {
	_ = s.File.Close()
	if s.temporary {
		_ = os.Remove(s.Name())
	}
}
