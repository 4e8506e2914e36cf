package bench

import (
	"bytes"
	"context"
	"iter"
	"strings"
	"sync"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
)

// call is a request that was made.
type call struct {
	op, key string
	src     string // of a Copy its source, of a List what it begins after
	body    []byte // of a Put
	get     objstore.GetOptions
}

// recorder sees the requests that s3log makes, so that the same can be made
// without it. Bodies are their owner's again when a Put returns, so it copies
// them.
type recorder struct {
	*tracestore.Store
	mu      sync.Mutex
	on      bool
	calls   []call // while it is on
	commits int64  // PUTs of manifests
	newest  []byte // the body of the newest one
}

// begin forgets what was recorded, and records what follows until end.
func (r *recorder) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on, r.calls = true, nil
}

// end returns what was recorded.
func (r *recorder) end() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on = false
	return r.calls
}

func (r *recorder) note(c call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.on {
		c.body = bytes.Clone(c.body)
		r.calls = append(r.calls, c)
	}
	if c.op == "Put" && strings.HasPrefix(c.key, manifest.ManifestPrefix) {
		r.newest = append(r.newest[:0], c.body...)
		r.commits++
	}
}

// manifests returns how many manifests were put, and the newest one, behind dst.
func (r *recorder) manifests(dst []byte) (commits int64, newest []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.commits, append(dst, r.newest...)
}

// Put implements objstore.Store.
func (r *recorder) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	r.note(call{op: "Put", key: key, body: body})
	return r.Store.Put(ctx, key, body, cond, opt)
}

// Get implements objstore.Reader.
func (r *recorder) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	r.note(call{op: "Get", key: key, get: opt})
	return r.Store.Get(ctx, key, opt)
}

// Head implements objstore.Reader.
func (r *recorder) Head(ctx context.Context, key string) (objstore.Info, error) {
	r.note(call{op: "Head", key: key})
	return r.Store.Head(ctx, key)
}

// List implements objstore.Reader.
func (r *recorder) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	r.note(call{op: "List", key: prefix, src: after})
	return r.Store.List(ctx, prefix, after)
}

// Copy implements objstore.Copier. Where a store does not copy, s3log does it in
// another way, and so a copy counts only if it was made.
func (r *recorder) Copy(ctx context.Context, src, dst string) (objstore.Info, error) {
	info, err := r.Store.Copy(ctx, src, dst)
	if err == nil {
		r.note(call{op: "Copy", key: dst, src: src})
	}
	return info, err
}
