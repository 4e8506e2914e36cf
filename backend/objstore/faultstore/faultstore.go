// Package faultstore decorates a store of objects with faults: calls that fail
// without effect, calls that fail although they took effect, requests that
// arrive late or twice, replies that are wrong. Rules say which calls are
// struck. It needs no goroutines and works in testing/synctest bubbles. It
// repeats nothing by itself and judges nothing: what a fault must not cause is
// for the tests to say.
package faultstore

import (
	"bytes"
	"context"
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/s3log/s3log/backend/objstore"
)

// Store passes calls on to another store, as far as its rules let it. It is
// safe for concurrent use. It implements objstore.Copier whether the inner
// store does or not: if not, Copy is ErrUnsupported.
type Store struct {
	inner objstore.Store
	mu    sync.Mutex
	rules []*Injection // only ever appended to
}

var (
	_ objstore.Store  = (*Store)(nil)
	_ objstore.Copier = (*Store)(nil)
)

// New decorates inner; without a rule nothing is changed.
func New(inner objstore.Store, rules ...Rule) *Store {
	s := &Store{inner: inner}
	for _, r := range rules {
		s.Inject(r)
	}
	return s
}

// Unwrap returns the inner store.
func (s *Store) Unwrap() objstore.Store { return s.inner }

// call is one call on its way to the inner store. send may be called more than
// once; body is what it sends.
type call struct {
	op, key string
	body    []byte
	write   bool
	send    func(ctx context.Context, body []byte) (objstore.Object, error)
}

// do passes c on as the rules say.
func (s *Store) do(ctx context.Context, c call) (objstore.Object, error) {
	i := s.strike(c.op, c.key, c.body)
	if i == nil {
		return c.send(ctx, c.body)
	}
	switch f := i.rule.Fault; f.kind {
	case kindFailApplied:
		c.send(ctx, c.body)
		return objstore.Object{}, storeError(c.op, c.key, orUndecided(f.err))
	case kindLate:
		if c.write {
			i.hold(c.later())
		}
		return objstore.Object{}, storeError(c.op, c.key, errLate)
	case kindLateCopy:
		if c.write {
			i.hold(c.later())
		}
		return c.send(ctx, c.body)
	case kindDuplicate:
		c.send(ctx, c.body)
		return c.send(ctx, c.body)
	case kindDelay:
		if err := sleep(ctx, f.delay); err != nil {
			return objstore.Object{}, storeError(c.op, c.key, err)
		}
		return c.send(ctx, c.body)
	case kindBefore:
		f.hook()
		return c.send(ctx, c.body)
	case kindAfter:
		o, err := c.send(ctx, c.body)
		f.hook()
		return o, err
	case kindEdit:
		o, err := c.send(ctx, c.body)
		if err == nil {
			f.edit(&o)
		}
		return o, err
	default: // fail, failList
		return objstore.Object{}, storeError(c.op, c.key, orUndecided(f.err))
	}
}

// later keeps what is needed to send c when its caller has long gone on.
func (c call) later() held {
	body := bytes.Clone(c.body)
	return func(ctx context.Context) error {
		_, err := c.send(ctx, body)
		return err
	}
}

func orUndecided(err error) error {
	if err == nil {
		return objstore.ErrUndecided
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Get implements objstore.Reader.
func (s *Store) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	return s.do(ctx, call{op: "Get", key: key, send: func(ctx context.Context, _ []byte) (objstore.Object, error) {
		return s.inner.Get(ctx, key, opt)
	}})
}

// Head implements objstore.Reader.
func (s *Store) Head(ctx context.Context, key string) (objstore.Info, error) {
	o, err := s.do(ctx, call{op: "Head", key: key, send: func(ctx context.Context, _ []byte) (objstore.Object, error) {
		info, err := s.inner.Head(ctx, key)
		return objstore.Object{Info: info}, err
	}})
	return o.Info, err
}

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	opt.Metadata = maps.Clone(opt.Metadata) // a late Put outlives the caller's
	o, err := s.do(ctx, call{op: "Put", key: key, body: body, write: true, send: func(ctx context.Context, body []byte) (objstore.Object, error) {
		info, err := s.inner.Put(ctx, key, body, cond, opt)
		return objstore.Object{Info: info}, err
	}})
	return o.Info, err
}

// Delete implements objstore.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := s.do(ctx, call{op: "Delete", key: key, write: true, send: func(ctx context.Context, _ []byte) (objstore.Object, error) {
		return objstore.Object{}, s.inner.Delete(ctx, key)
	}})
	return err
}

// Copy implements objstore.Copier.
func (s *Store) Copy(ctx context.Context, src, dst string) (objstore.Info, error) {
	c, ok := s.inner.(objstore.Copier)
	if !ok {
		return objstore.Info{}, &objstore.Error{Op: "Copy", Key: dst, Class: objstore.ErrUnsupported}
	}
	o, err := s.do(ctx, call{op: "Copy", key: dst, write: true, send: func(ctx context.Context, _ []byte) (objstore.Object, error) {
		info, err := c.Copy(ctx, src, dst)
		return objstore.Object{Info: info}, err
	}})
	return o.Info, err
}

// List implements objstore.Reader. A rule sees it when it is iterated.
// Duplicate, Edit, Late and LateCopy mean nothing to it, except that Late fails.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		limit, failure := -1, error(nil)
		if i := s.strike("List", prefix, nil); i != nil {
			switch f := i.rule.Fault; f.kind {
			case kindFail:
				limit, failure = 0, orUndecided(f.err)
			case kindFailList:
				limit, failure = f.after, orUndecided(f.err)
			case kindFailApplied:
				failure = orUndecided(f.err)
			case kindLate:
				limit, failure = 0, errLate
			case kindDelay:
				if err := sleep(ctx, f.delay); err != nil {
					limit, failure = 0, err
				}
			case kindBefore:
				f.hook()
			case kindAfter:
				defer f.hook()
			}
		}
		broken := func() { yield(objstore.Info{}, storeError("List", prefix, failure)) }
		if limit == 0 {
			broken()
			return
		}
		n := 0
		for info, err := range s.inner.List(ctx, prefix, after) {
			if !yield(info, err) || err != nil {
				return
			}
			if n++; n == limit {
				break
			}
		}
		if failure != nil {
			broken()
		}
	}
}
