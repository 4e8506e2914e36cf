// Package filestore keeps objects as files below a directory: the store that
// s3log has without any server. A key is a path, so plain tools can read what is
// there.
//
// # What holds
//
// Conditions are atomic among all processes of one machine that use this
// package, by lock files below .s3log/locks. A Put that returned nil survives a
// power failure: the file is synced before it is renamed into place, and its
// directory after. A process that dies at any instruction leaves the old object
// or the new one, and at worst a file in .s3log/tmp, which a later process
// removes a day after. Readers take no locks and write nothing: they open one
// file, which never changes, because every write makes a new one. A version is
// the SHA-256 of the content.
//
// # What is different from S3
//
// Metadata and content types are checked and not stored. An object cannot have
// a key that is the folder of another one's. Directories are never removed.
// Neither a List nor a ranged Get of an object of more than 1 MiB tells the
// version, which would cost reading all of it. What is no regular file, or has
// a name that no key can have, is not there. Symbolic links to directories
// inside the store work for Get and Put, but List does not follow them.
//
// The directory should be on a local file system: on others locks and syncs may
// mean less. This package does not share a store between machines.
package filestore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/s3log/s3log/backend/objstore"
)

// hashLimit is the largest object in bytes that is read as a whole just to tell
// its version.
const hashLimit = 1 << 20

// Options of a store. The zero value reads and writes, durably.
type Options struct {
	// ReadOnly refuses every write with ErrReadOnly, and does not create the
	// directory. A store without it writes nothing before the first Put either.
	ReadOnly bool
	// NoSync leaves it to the operating system when files reach the disk: for
	// tests and throw-away stores. Conditions hold all the same, and so does
	// everything when only the process dies.
	NoSync bool
}

// Store is a directory of objects. It is safe for concurrent use, also by
// several Stores and processes at a time.
type Store struct {
	root *os.Root
	opt  Options
	// sync makes an open file or directory durable; tests make it fail.
	sync func(*os.File) error
	// turn lets one goroutine at a time try for the lock file of a stripe.
	turn [stripes]chan struct{}

	mu       sync.Mutex
	prepared bool            // .s3log is there, and swept
	durable  map[string]bool // directories known to survive a power failure
	unsynced map[string]int  // directories with a change that may not; which failure to sync it was
	failures int             // to sync a directory
}

var (
	_ objstore.Store  = (*Store)(nil)
	_ objstore.Copier = (*Store)(nil)
)

// Open opens the store in directory dir, which is created if it is missing, for
// its owner alone. Close it when done.
func Open(dir string, opt Options) (*Store, error) {
	if !opt.ReadOnly {
		if err := createRoot(dir, opt); err != nil {
			return nil, storeError("Open", dir, err, objstore.ErrRefused)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, storeError("Open", dir, err, objstore.ErrRefused)
	}
	s := &Store{root: root, opt: opt, sync: syncFile, durable: map[string]bool{".": true}, unsynced: map[string]int{}}
	if opt.NoSync {
		s.sync = func(*os.File) error { return nil }
	}
	for i := range s.turn {
		s.turn[i] = make(chan struct{}, 1)
	}
	return s, nil
}

// createRoot makes dir and what is missing above it, durably.
func createRoot(dir string, opt Options) error {
	var missing []string
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) || d == filepath.Dir(d) {
			break
		}
		missing = append(missing, d)
	}
	if len(missing) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, d := range missing {
		parent, err := os.Open(filepath.Dir(d))
		if errors.Is(err, fs.ErrPermission) {
			continue // one may create in a directory that one may not read
		}
		if err != nil {
			return err
		}
		if !opt.NoSync {
			err = syncFile(parent)
		}
		parent.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// Close releases the directory. No call may follow or be in progress.
func (s *Store) Close() error { return s.root.Close() }

// checkKey is objstore.CheckKey plus what file systems ask for and what this
// package keeps for itself.
func checkKey(key string) error {
	if err := objstore.CheckKey(key); err != nil {
		return err
	}
	for element := range strings.SplitSeq(key, "/") {
		if len(element) > 255 {
			return errElement
		}
	}
	first, _, _ := strings.Cut(key, "/")
	if strings.EqualFold(first, private) {
		return errPrivate
	}
	return nil
}

var (
	errElement    = errors.New("an element of the key is longer than 255 bytes")
	errPrivate    = errors.New("keys below " + private + " belong to the store itself")
	errRemoved    = errors.New("the directory of the store is not there any more")
	errNotRegular = errors.New("not a regular file")
	errCondition  = errors.New("a write without a valid condition")
)

// open opens the file of an object; the error is a plain one.
func (s *Store) open(key string) (*os.File, fs.FileInfo, error) {
	name := filepath.FromSlash(key)
	info, err := s.root.Lstat(name) // opening a named pipe would wait for its writer
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fs.ErrNotExist
	}
	f, err := s.root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// reply is what is said about an object; v may be zero.
func reply(key string, info fs.FileInfo, v objstore.Version) objstore.Info {
	return objstore.Info{Key: key, Size: info.Size(), Version: v, Modified: info.ModTime(), Date: time.Now().Round(0)}
}

func versionOf(body []byte) objstore.Version {
	sum := sha256.Sum256(body)
	return objstore.NewVersion(hex.EncodeToString(sum[:]))
}

// versionOfFile reads f from its offset to its end.
func versionOfFile(f *os.File) (objstore.Version, error) {
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return objstore.Version{}, err
	}
	return objstore.NewVersion(hex.EncodeToString(h.Sum(nil))), nil
}

// Get implements objstore.Reader.
func (s *Store) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	const op = "Get"
	bad := func(err, otherwise error) (objstore.Object, error) {
		return objstore.Object{}, storeError(op, key, err, otherwise)
	}
	if err := ctx.Err(); err != nil {
		return bad(err, objstore.ErrUndecided)
	}
	if err := checkKey(key); err != nil {
		return bad(err, objstore.ErrRejected)
	}
	f, info, err := s.open(key)
	if err != nil {
		return bad(err, objstore.ErrUndecided)
	}
	defer f.Close()

	offset, length, spanErr := opt.Span(info.Size())
	if spanErr == objstore.ErrRejected {
		return bad(nil, spanErr)
	}
	var v objstore.Version
	whole := spanErr == nil && length == info.Size()
	if !whole && (info.Size() <= hashLimit || !opt.IfNot.IsZero()) {
		if v, err = versionOfFile(f); err != nil {
			return bad(err, objstore.ErrUndecided)
		}
	}
	var body []byte
	if spanErr == nil {
		body = make([]byte, length)
		if n, err := f.ReadAt(body, offset); n < len(body) {
			return bad(err, objstore.ErrUndecided)
		}
	}
	if whole {
		v = versionOf(body)
	}
	if !opt.IfNot.IsZero() && opt.IfNot == v {
		return bad(nil, objstore.ErrNotModified)
	}
	if spanErr != nil {
		return bad(nil, spanErr)
	}
	return objstore.Object{Info: reply(key, info, v), Body: body}, nil
}

// Head implements objstore.Reader. It reads the object, to tell its version.
func (s *Store) Head(ctx context.Context, key string) (objstore.Info, error) {
	const op = "Head"
	if err := ctx.Err(); err != nil {
		return objstore.Info{}, storeError(op, key, err, objstore.ErrUndecided)
	}
	if err := checkKey(key); err != nil {
		return objstore.Info{}, storeError(op, key, err, objstore.ErrRejected)
	}
	f, info, err := s.open(key)
	if err != nil {
		return objstore.Info{}, storeError(op, key, err, objstore.ErrUndecided)
	}
	defer f.Close()
	v, err := versionOfFile(f)
	if err != nil {
		return objstore.Info{}, storeError(op, key, err, objstore.ErrUndecided)
	}
	return reply(key, info, v), nil
}

// stripe is the number of the lock file that guards key.
func stripe(key string) int {
	h := fnv.New32a()
	io.WriteString(h, key)
	return int(h.Sum32() % stripes)
}
