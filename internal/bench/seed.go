package bench

import (
	"context"
	"fmt"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
)

// resume closes an interrupted turn and writes a boundary: one GET, one PUT.
func (r *run) resume(ctx context.Context) error {
	r.result.Ours.What, r.result.Raw.What = "resume", "GET and conditional PUT of the same body"
	b := r.prepare()
	measured := r.backend()
	raw := &chain{store: r.slow, key: rawTree + id}
	var newest []byte
	return r.inTurn(ctx, r.opt.Rounds, sides{
		before: func(ctx context.Context, round int) error {
			l, err := b.Create(id, backend.CreateOptions{OrAdopt: true})
			if err != nil {
				return err
			}
			start := fmt.Appendf(nil, `{"type":"turn/start","data":{"turn":%d}}`, round+1)
			_, err = l.Append(ctx, [][]byte{start}, backend.AppendOptions{Last: true})
			return err
		},
		ours: func(ctx context.Context) error {
			_, _, err := measured.Resume(ctx, id, backend.ResumeOptions{Release: true})
			return err
		},
		learn: func() {
			_, newest = r.recorder.manifests(newest[:0])
			raw.set(newest)
		},
		raw: func(ctx context.Context) error {
			if !raw.version.IsZero() {
				if _, err := r.slow.Get(ctx, raw.key, objstore.GetOptions{}); err != nil {
					return err
				}
			}
			return raw.put(ctx)
		},
	})
}

// fork forks a whole log, each time into another one.
func (r *run) fork(ctx context.Context) error {
	r.result.Ours.What, r.result.Raw.What = "fork", "the same requests"
	if err := r.imported(ctx); err != nil {
		return err
	}
	b := r.backend()
	var calls []call
	children := 0
	return r.inTurn(ctx, r.opt.Rounds, sides{
		ours: func(ctx context.Context) error {
			children++
			r.recorder.begin()
			_, _, err := b.Fork(ctx, id, fmt.Sprint("child-", children), backend.ForkOptions{Release: true})
			return err
		},
		learn: func() { calls = r.recorder.end() },
		raw:   func(ctx context.Context) error { return r.again(ctx, calls) },
	})
}
