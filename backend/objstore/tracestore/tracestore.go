// Package tracestore decorates a store of objects so that what is done to it
// can be seen: it counts the requests, and writes one line for each call if
// asked to. With the same calls in the same order the lines are the same in
// every run (see Options.Mask), so tests keep them as golden files. It adds no
// policy: no call is changed, repeated or held back.
package tracestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"

	"github.com/s3log/s3log/backend/objstore"
)

// Options say what is written besides counting. The zero value writes nothing.
type Options struct {
	// Out takes one line per call, in one Write each, in the order in which the
	// calls ended; never two at a time. Its errors are ignored.
	Out io.Writer
	// Mask, if not nil, names what is random (see Masker).
	Mask *Masker
	// NoSizes leaves out the sizes of bodies, which vary where these hold
	// compressed random bytes or times.
	NoSizes bool
}

// Store counts and traces the calls to another store. It implements
// objstore.Copier whether the inner store does or not: if not, Copy is
// ErrUnsupported, and counts nothing.
type Store struct {
	inner  objstore.Store
	opt    Options
	counts counters
	mu     sync.Mutex // one line at a time
}

var (
	_ objstore.Store  = (*Store)(nil)
	_ objstore.Copier = (*Store)(nil)
)

// New decorates inner.
func New(inner objstore.Store, opt Options) *Store {
	return &Store{inner: inner, opt: opt}
}

// Unwrap returns the inner store.
func (s *Store) Unwrap() objstore.Store { return s.inner }

// Counts are the requests of all calls that have begun by now.
func (s *Store) Counts() Counts { return s.counts.load() }

// Get implements objstore.Reader.
//
//	GET manifests/a.json -> 812 bytes v1
//	GET segments/a/0000000000000000-00000001-n1.jsonl.zst range 0+65536 -> 4211 bytes v2
//	GET manifests/a.json if-not v1 -> not modified
func (s *Store) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	s.counts.get.Add(1)
	o, err := s.inner.Get(ctx, key, opt)
	s.counts.in.Add(int64(len(o.Body)))
	if s.opt.Out == nil {
		return o, err
	}
	s.line(func(w *strings.Builder) {
		fmt.Fprintf(w, "GET %s", s.mask(key))
		if opt.Length != 0 {
			fmt.Fprintf(w, " range %d+%d", opt.Offset, opt.Length)
		}
		if !opt.IfNot.IsZero() {
			fmt.Fprintf(w, " if-not %s", s.version(opt.IfNot))
		}
		s.outcome(w, err, int64(len(o.Body)), o.Version)
	})
	return o, err
}

// Head implements objstore.Reader.
//
//	HEAD manifests/a.json -> 812 bytes v1
func (s *Store) Head(ctx context.Context, key string) (objstore.Info, error) {
	s.counts.head.Add(1)
	info, err := s.inner.Head(ctx, key)
	if s.opt.Out == nil {
		return info, err
	}
	s.line(func(w *strings.Builder) {
		fmt.Fprintf(w, "HEAD %s", s.mask(key))
		s.outcome(w, err, info.Size, info.Version)
	})
	return info, err
}

// List implements objstore.Reader. It counts when the list is iterated, not
// when it is asked for.
//
//	LIST manifests/ after manifests/a.json -> 12 objects
//	LIST segments/ -> 3 objects, then undecided
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		var objects int
		var failed error
		s.counts.list.Add(1)
		for info, err := range s.inner.List(ctx, prefix, after) {
			if err != nil {
				failed = err
			} else if objects++; objects > 1 && objects%PageSize == 1 {
				s.counts.list.Add(1)
			}
			if !yield(info, err) {
				break
			}
		}
		if s.opt.Out == nil {
			return
		}
		s.line(func(w *strings.Builder) {
			fmt.Fprintf(w, "LIST %s", s.mask(prefix))
			if after != "" {
				fmt.Fprintf(w, " after %s", s.mask(after))
			}
			fmt.Fprintf(w, " -> %d objects", objects)
			if failed != nil {
				fmt.Fprintf(w, ", then %s", Outcome(failed))
			}
		})
	}
}

// Put implements objstore.Store.
//
//	PUT manifests/a.json 812 bytes if-absent -> ok v1
//	PUT manifests/a.json 831 bytes if-version v1 -> precondition failed
func (s *Store) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	s.counts.put.Add(1)
	s.counts.out.Add(int64(len(body)))
	info, err := s.inner.Put(ctx, key, body, cond, opt)
	if s.opt.Out == nil {
		return info, err
	}
	s.line(func(w *strings.Builder) {
		fmt.Fprintf(w, "PUT %s", s.mask(key))
		if !s.opt.NoSizes {
			fmt.Fprintf(w, " %d bytes", len(body))
		}
		if cond.Valid() && !cond.Absent() {
			fmt.Fprintf(w, " if-version %s", s.version(cond.Match()))
		} else {
			fmt.Fprintf(w, " %s", cond)
		}
		s.outcome(w, err, -1, info.Version)
	})
	return info, err
}

// Delete implements objstore.Store.
//
//	DELETE segments/a/0000000000000000-00000001-n1.jsonl.zst -> ok
func (s *Store) Delete(ctx context.Context, key string) error {
	s.counts.delete.Add(1)
	err := s.inner.Delete(ctx, key)
	if s.opt.Out == nil {
		return err
	}
	s.line(func(w *strings.Builder) {
		fmt.Fprintf(w, "DELETE %s -> %s", s.mask(key), Outcome(err))
	})
	return err
}

// Copy implements objstore.Copier.
//
//	COPY a b -> ok v2
func (s *Store) Copy(ctx context.Context, src, dst string) (objstore.Info, error) {
	c, ok := s.inner.(objstore.Copier)
	if !ok {
		return objstore.Info{}, &objstore.Error{Op: "Copy", Key: dst, Class: objstore.ErrUnsupported}
	}
	s.counts.copy.Add(1)
	info, err := c.Copy(ctx, src, dst)
	if s.opt.Out == nil {
		return info, err
	}
	s.line(func(w *strings.Builder) {
		fmt.Fprintf(w, "COPY %s %s", s.mask(src), s.mask(dst))
		s.outcome(w, err, -1, info.Version)
	})
	return info, err
}

// line composes and writes one line. Both happen under the lock, so that names
// are given in the order of the lines.
func (s *Store) line(compose func(w *strings.Builder)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var w strings.Builder
	compose(&w)
	w.WriteByte('\n')
	io.WriteString(s.opt.Out, w.String())
}

func (s *Store) mask(text string) string {
	if s.opt.Mask == nil {
		return text
	}
	return s.opt.Mask.Mask(text)
}

func (s *Store) version(v objstore.Version) string {
	if s.opt.Mask == nil {
		return v.String()
	}
	return s.opt.Mask.Version(v)
}

// outcome writes the result of a call; size -1 says that none came back.
func (s *Store) outcome(w *strings.Builder, err error, size int64, v objstore.Version) {
	switch {
	case err != nil:
		fmt.Fprintf(w, " -> %s", Outcome(err))
	case size < 0 || s.opt.NoSizes:
		fmt.Fprintf(w, " -> ok %s", s.version(v))
	default:
		fmt.Fprintf(w, " -> %d bytes %s", size, s.version(v))
	}
}

// outcomes has the finer classes before those that they belong to.
var outcomes = []struct {
	class error
	word  string
}{
	{objstore.ErrGone, "gone"},
	{objstore.ErrThrottled, "throttled"},
	{objstore.ErrDenied, "denied"},
	{objstore.ErrUnsupported, "unsupported"},
	{objstore.ErrNotExist, "not exist"},
	{objstore.ErrNotModified, "not modified"},
	{objstore.ErrRange, "out of range"},
	{objstore.ErrPrecondition, "precondition failed"},
	{objstore.ErrConflict, "conflict"},
	{objstore.ErrRejected, "rejected"},
	{objstore.ErrUndecided, "undecided"},
	{objstore.ErrRefused, "refused"},
	{objstore.ErrTooLarge, "too large"},
}

// Outcome names the class of a store's error in a word or two, "ok" for nil and
// "error" for one that no store made.
func Outcome(err error) string {
	if err == nil {
		return "ok"
	}
	for _, o := range outcomes {
		if errors.Is(err, o.class) {
			return o.word
		}
	}
	return "error"
}
