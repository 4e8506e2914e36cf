package filestore

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/s3log/s3log/backend/objstore"
)

// List implements objstore.Reader. It reads one directory after the other, as
// far as the caller goes, and holds the names of those that it is in.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		w := walk{ctx: ctx, prefix: prefix, after: after, yield: yield}
		if err := w.begin(s.root); err != nil {
			err = storeError("List", prefix, err, objstore.ErrUndecided)
			if !errors.Is(err, objstore.ErrNotExist) { // a prefix that no directory has is that of no object
				yield(objstore.Info{}, err)
			}
		}
	}
}

// walk is one List at work.
type walk struct {
	ctx           context.Context
	prefix, after string
	yield         func(objstore.Info, error) bool
}

// errStop ends a walk whose caller has enough.
var errStop = errors.New("stop")

// begin goes to the directory that holds all keys with the prefix, and walks
// from there.
func (w *walk) begin(root *os.Root) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	dir := w.prefix[:strings.LastIndexByte(w.prefix, '/')+1]
	if dir != "" && checkKey(strings.TrimSuffix(dir, "/")) != nil {
		return nil // no key begins like this
	}
	at := root
	for element := range strings.SplitSeq(dir, "/") {
		if element == "" { // behind the last '/'
			break
		}
		info, err := at.Lstat(element)
		if err == nil && !info.IsDir() {
			err = fs.ErrNotExist
		}
		if err != nil {
			return err
		}
		if at, err = at.OpenRoot(element); err != nil {
			return err
		}
		defer at.Close()
	}
	if err := w.dir(at, dir); err != nil && err != errStop {
		return err
	}
	return nil
}

// dir walks the directory r, whose keys begin with base ("" or ending in '/').
// An error that is about something having gone is not returned.
func (w *walk) dir(r *os.Root, base string) error {
	names, err := readDir(r)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		key := base + name
		switch {
		case base == "" && strings.EqualFold(strings.TrimSuffix(name, "/"), private):
		case strings.HasSuffix(name, "/"):
			// All keys of this directory begin with key: some may have the prefix,
			// and some may come after w.after.
			if !strings.HasPrefix(key, w.prefix) && !strings.HasPrefix(w.prefix, key) ||
				key < w.after && !strings.HasPrefix(w.after, key) {
				continue
			}
			sub, err := r.OpenRoot(strings.TrimSuffix(name, "/"))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			err = w.dir(sub, key)
			sub.Close()
			if err != nil {
				return err
			}
		case strings.HasPrefix(key, w.prefix) && key > w.after && checkKey(key) == nil:
			info, err := r.Lstat(name)
			if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
				continue
			}
			if err != nil {
				return err
			}
			if !w.yield(reply(key, info, objstore.Version{}), nil) {
				return errStop
			}
		}
	}
	return nil
}

// recent is how coarse the times of a directory may be.
const recent = 20 * time.Millisecond

// readDir reads the names of files and directories in r. That of a directory
// ends in '/', as the keys below it spell it, and they are sorted so: thus, and
// in no other order, a walk meets the keys in theirs ('-' and '.' come before
// '/', letters after it).
//
// While a name is replaced by a rename, some file systems show neither the old nor the
// new entry to somebody who is reading the directory. So a directory that
// changes is read again, and what either reading has seen counts; what has
// really gone is noticed later.
func readDir(r *os.Root) ([]string, error) {
	var all []string
	for range 3 {
		started := time.Now()
		names, changed, err := readDirOnce(r)
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
		if changed.Before(started.Add(-recent)) {
			break
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// readDirOnce also says when the directory was changed last, as seen after
// reading it.
func readDirOnce(r *os.Root) ([]string, time.Time, error) {
	f, err := r.Open(".")
	if err != nil {
		return nil, time.Time{}, err
	}
	defer f.Close()
	read, err := f.ReadDir(-1)
	if err != nil {
		return nil, time.Time{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	names := make([]string, 0, len(read))
	for _, e := range read {
		switch {
		case e.Type().IsRegular():
			names = append(names, e.Name())
		case e.IsDir():
			names = append(names, e.Name()+"/")
		}
	}
	return names, info.ModTime(), nil
}
