package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/klauspost/compress/zstd"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/sessiongen"
)

// imported makes the log of a scenario that reads one.
func (r *run) imported(ctx context.Context) error {
	g := sessiongen.New(sessiongen.Options{Seed: r.opt.Seed, Events: r.opt.Events})
	lines := iter.Seq2[[]byte, error](func(yield func([]byte, error) bool) {
		for line, ok := g.Next(); ok; line, ok = g.Next() {
			if !yield(line, nil) {
				return
			}
		}
	})
	_, err := r.prepare().Import(ctx, id, lines, backend.ImportOptions{Header: g.Header()})
	return err
}

// load reads all events of a log, each time with a reader that knows nothing yet.
func (r *run) load(ctx context.Context) error {
	r.result.Ours.What, r.result.Raw.What = "load", "GET and inflate of the same objects"
	if err := r.imported(ctx); err != nil {
		return err
	}
	body, err := r.setup.Get(ctx, manifest.Key(id), objstore.GetOptions{})
	if err != nil {
		return err
	}
	rec, err := manifest.Decode(body.Body)
	if err != nil {
		return err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer dec.Close()
	// Both must have read the same.
	var read, inflated int64
	err = r.inTurn(ctx, r.opt.Rounds, sides{
		ours: func(ctx context.Context) error {
			n := int64(0)
			read = 0
			for ev, err := range backend.NewReader(r.recorder, r.opt.Backend).Events(ctx, id, backend.ReadOptions{}) {
				if err != nil {
					return err
				}
				n++
				read += int64(len(ev.Line)) + 1
			}
			if n != r.opt.Events {
				return fmt.Errorf("%d events came back of %d", n, r.opt.Events)
			}
			return nil
		},
		raw: func(ctx context.Context) (err error) {
			inflated, err = r.fetch(ctx, dec, rec)
			return err
		},
	})
	if err == nil && read != inflated {
		err = fmt.Errorf("%d bytes were read, and %d are in the objects", read, inflated)
	}
	r.result.Events, r.result.Bytes = r.opt.Events*int64(len(r.ours)), read*int64(len(r.ours))
	r.result.Elapsed = sum(r.ours)
	return err
}

// fetch gets a log's manifest and its segments, some ahead, and inflates them.
func (r *run) fetch(ctx context.Context, dec *zstd.Decoder, rec *manifest.Record) (n int64, err error) {
	if _, err := r.slow.Get(ctx, manifest.Key(id), objstore.GetOptions{}); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type object struct {
		body []byte
		err  error
	}
	ahead := make(chan chan object, getsAtATime-1)
	go func() {
		defer close(ahead)
		for i := range rec.Segments {
			ch := make(chan object, 1)
			select {
			case ahead <- ch:
			case <-ctx.Done():
				return
			}
			go func() {
				o, err := r.slow.Get(ctx, manifest.SegmentKey(id, rec.Segments[i].Name), objstore.GetOptions{})
				ch <- object{o.Body, err}
			}()
		}
	}()
	inflate := func(body []byte) error {
		if err := dec.Reset(bytes.NewReader(body)); err != nil {
			return err
		}
		m, err := io.Copy(io.Discard, dec)
		n += m
		return err
	}
	for ch := range ahead {
		o := <-ch
		if o.err == nil {
			o.err = inflate(o.body)
		}
		if o.err != nil {
			return 0, o.err
		}
	}
	return n, errors.Join(inflate(rec.Tail), ctx.Err())
}

// verdict judges a positional bracket, which is one GET of the manifest.
func (r *run) verdict(ctx context.Context) error {
	r.result.Ours.What, r.result.Raw.What = "check", "GET of the manifest"
	if err := r.imported(ctx); err != nil {
		return err
	}
	reader := backend.NewReader(r.recorder, r.opt.Backend)
	pair := backend.Pair{Open: "compaction/start", Close: "compaction/end"}
	return r.inTurn(ctx, r.opt.Rounds, sides{
		ours: func(ctx context.Context) error {
			_, err := reader.Check(ctx, id, pair, backend.CheckOptions{})
			return err
		},
		raw: func(ctx context.Context) error {
			_, err := r.slow.Get(ctx, manifest.Key(id), objstore.GetOptions{})
			return err
		},
	})
}

// newest is how many logs List asks for.
const newest = 20

// list finds the newest logs of many.
func (r *run) list(ctx context.Context) error {
	r.result.Ours.What, r.result.Raw.What = "list", "LIST and HEAD of the same objects"
	b := r.prepare()
	errs := make([]error, r.opt.Logs)
	atATime(16, r.opt.Logs, func(i int) {
		l, err := b.Create(fmt.Sprintf("log-%06d", i), backend.CreateOptions{})
		if err == nil {
			prompt := fmt.Appendf(nil, `{"type":"user/message","data":{"content":"%d","source":{"kind":"user"}}}`, i)
			_, err = l.Append(ctx, [][]byte{prompt}, backend.AppendOptions{Last: true})
		}
		errs[i] = err
	})
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	reader := backend.NewReader(r.recorder, r.opt.Backend)
	var calls []call
	return r.inTurn(ctx, r.opt.Rounds, sides{
		ours: func(ctx context.Context) error {
			r.recorder.begin()
			n := 0
			for e, err := range reader.List(ctx, backend.ListOptions{Limit: newest}) {
				if err == nil {
					err = e.Err
				}
				if err != nil {
					return err
				}
				n++
			}
			if n != min(newest, r.opt.Logs) {
				return fmt.Errorf("%d logs were listed of %d", n, r.opt.Logs)
			}
			return nil
		},
		learn: func() { calls = r.recorder.end() },
		raw:   func(ctx context.Context) error { return r.again(ctx, calls) },
	})
}
