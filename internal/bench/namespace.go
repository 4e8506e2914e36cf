package bench

import (
	"context"
	"iter"
	"strings"

	"github.com/s3log/s3log/backend/objstore"
)

// within is the part of a store below a prefix. Errors name keys as the store
// has them.
type within struct {
	inner  objstore.Store
	prefix string
}

// Unwrap returns the whole store.
func (w *within) Unwrap() objstore.Store { return w.inner }

// cut makes what the store says about one of its objects what is said here.
func (w *within) cut(info objstore.Info) objstore.Info {
	info.Key = strings.TrimPrefix(info.Key, w.prefix)
	return info
}

// Get implements objstore.Reader.
func (w *within) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	o, err := w.inner.Get(ctx, w.prefix+key, opt)
	o.Info = w.cut(o.Info)
	return o, err
}

// Head implements objstore.Reader.
func (w *within) Head(ctx context.Context, key string) (objstore.Info, error) {
	info, err := w.inner.Head(ctx, w.prefix+key)
	return w.cut(info), err
}

// List implements objstore.Reader.
func (w *within) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	if after != "" {
		after = w.prefix + after
	}
	return func(yield func(objstore.Info, error) bool) {
		for info, err := range w.inner.List(ctx, w.prefix+prefix, after) {
			if !yield(w.cut(info), err) {
				return
			}
		}
	}
}

// Put implements objstore.Store.
func (w *within) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	info, err := w.inner.Put(ctx, w.prefix+key, body, cond, opt)
	return w.cut(info), err
}

// Delete implements objstore.Store.
func (w *within) Delete(ctx context.Context, key string) error {
	return w.inner.Delete(ctx, w.prefix+key)
}

// Copy implements objstore.Copier.
func (w *within) Copy(ctx context.Context, src, dst string) (objstore.Info, error) {
	c, ok := w.inner.(objstore.Copier)
	if !ok {
		return objstore.Info{}, &objstore.Error{Op: "Copy", Key: w.prefix + dst, Class: objstore.ErrUnsupported}
	}
	info, err := c.Copy(ctx, w.prefix+src, w.prefix+dst)
	return w.cut(info), err
}
