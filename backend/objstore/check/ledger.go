package check

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/s3log/s3log/backend/objstore"
)

// ledger is a store that knows what it wrote and did not remove.
type ledger struct {
	objstore.Store
	mu       sync.Mutex
	keys     map[string]bool
	written  int
	deleted  int   // probes
	undelete error // why the newest deletion of a probe failed
}

// Unwrap is for find.
func (l *ledger) Unwrap() objstore.Store { return l.Store }

func (l *ledger) wrote(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.keys[key] {
		l.keys[key] = true
		l.written++
	}
}

// Put implements objstore.Store.
func (l *ledger) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	info, err := l.Store.Put(ctx, key, body, cond, opt)
	if c := objstore.Classify(err); c == objstore.Applied || c == objstore.Undecided {
		l.wrote(key)
	}
	return info, err
}

// Copy implements objstore.Copier, if the store does.
func (l *ledger) Copy(ctx context.Context, src, dst string) (objstore.Info, error) {
	c, ok := l.Store.(objstore.Copier)
	if !ok {
		return objstore.Info{}, &objstore.Error{Op: "Copy", Key: dst, Class: objstore.ErrUnsupported}
	}
	info, err := c.Copy(ctx, src, dst)
	if class := objstore.Classify(err); class == objstore.Applied || class == objstore.Undecided {
		l.wrote(dst)
	}
	return info, err
}

// Delete implements objstore.Store.
func (l *ledger) Delete(ctx context.Context, key string) error {
	err := l.Store.Delete(ctx, key)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		delete(l.keys, key)
	}
	if strings.HasPrefix(key, probePrefix) {
		if l.undelete = err; err == nil {
			l.deleted++
		}
	}
	return err
}

// keeps reports whether probes may not be deleted.
func (l *ledger) keeps() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Is(l.undelete, objstore.ErrRefused)
}

// total is how many objects were written.
func (l *ledger) total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written
}

// remove deletes what is left, and returns what it could not.
func (l *ledger) remove(ctx context.Context) (left []string) {
	l.mu.Lock()
	for key := range l.keys {
		left = append(left, key)
	}
	l.mu.Unlock()
	slices.Sort(left)
	return slices.DeleteFunc(left, func(key string) bool { return !l.keeps() && l.Delete(ctx, key) == nil })
}
