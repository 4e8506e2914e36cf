package bench

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/sessiongen"
)

// id is the log of a scenario that has one.
const id = "log"

// batch takes the next n events of a generated session.
func batch(g *sessiongen.Generator, n int) (lines [][]byte, size int64) {
	for range n {
		line, ok := g.Next()
		if !ok {
			break
		}
		lines = append(lines, bytes.Clone(line))
		size += int64(len(line)) + 1
	}
	return lines, size
}

// create begins the log of a scenario.
func (r *run) create(header []byte) (l *backend.Log, done func(), err error) {
	l, err = r.backend().Create(id, backend.CreateOptions{Header: header})
	if err != nil {
		return nil, nil, err
	}
	// A commit that is under way is waited for also after ctx: nothing is to arrive
	// after the namespace was removed. Its error was an append's.
	return l, func() { _ = l.Close(context.Background(), backend.CloseOptions{}) }, nil
}

// appends appends batch after batch to one log. Sealing and merging go on beside
// it, as they would.
func (r *run) appends(ctx context.Context) error {
	r.result.Ours.What, r.result.Raw.What = "append", "conditional PUT of the same body"
	rounds := max(1, int(r.opt.Events)/r.opt.Batch)
	g := sessiongen.New(sessiongen.Options{Seed: r.opt.Seed, Events: int64((rounds + 1) * r.opt.Batch)})
	l, done, err := r.create(g.Header())
	if err != nil {
		return err
	}
	defer done()
	raw := &chain{store: r.slow, key: rawTree + id}
	var lines [][]byte
	var newest []byte
	err = r.inTurn(ctx, rounds, sides{
		before: func(_ context.Context, round int) error {
			var size int64
			if lines, size = batch(g, r.opt.Batch); round > 0 {
				r.result.Events += int64(len(lines))
				r.result.Bytes += size
			}
			return nil
		},
		ours: func(ctx context.Context) error {
			_, err := l.Append(ctx, lines, backend.AppendOptions{})
			return err
		},
		learn: func() {
			_, newest = r.recorder.manifests(newest[:0])
			raw.set(newest)
		},
		raw: raw.put,
	})
	r.result.Elapsed = sum(r.ours)
	return err
}

const (
	// sections is how often Parallel stops for some raw requests.
	sections       = 5
	rawsPerSection = 5
	// pool is how many different batches Parallel appends. They have more bytes
	// than any window of a compressor, which so finds nothing twice.
	pool = 256
)

// parallel appends from many goroutines to one log. They stop some times for
// raw PUTs, which so are made in the same run.
func (r *run) parallel(ctx context.Context) error {
	r.result.Ours.What, r.result.Raw.What = "append", "conditional PUT of a body of the same size"
	g := sessiongen.New(sessiongen.Options{Seed: r.opt.Seed, Events: int64(pool * r.opt.Batch)})
	l, done, err := r.create(g.Header())
	if err != nil {
		return err
	}
	defer done()
	var batches [][][]byte
	var sizes []int64
	for range pool {
		lines, size := batch(g, r.opt.Batch)
		for i, line := range lines {
			lines[i] = withoutSeq(line)
			size += int64(len(lines[i]) - len(line))
		}
		batches, sizes = append(batches, lines), append(sizes, size)
	}
	if _, err := l.Append(ctx, batches[0], backend.AppendOptions{}); err != nil {
		return err
	}
	raw := &chain{store: r.slow, key: rawTree + id}
	r.start()
	var taken atomic.Int64
	total := int64(r.opt.Goroutines) * int64(r.opt.Rounds)
	for section := range int64(sections) {
		until := total * (section + 1) / sections
		times := make([][]time.Duration, r.opt.Goroutines)
		errs := make([]error, r.opt.Goroutines)
		taken.Store(total * section / sections)
		before, _ := r.recorder.manifests(nil)
		r.heap.on.Store(true)
		begin := time.Now()
		var wg sync.WaitGroup
		for n := range r.opt.Goroutines {
			wg.Go(func() {
				for errs[n] == nil {
					i := taken.Add(1)
					if i > until {
						return
					}
					errs[n] = timed(&times[n], func() error {
						_, err := l.Append(ctx, batches[i%pool], backend.AppendOptions{})
						return err
					})
				}
			})
		}
		wg.Wait()
		r.result.Elapsed += time.Since(begin)
		r.heap.on.Store(false)
		after, newest := r.recorder.manifests(nil)
		r.result.Commits += after - before
		for n := range times {
			r.ours = append(r.ours, times[n]...)
			if errs[n] != nil {
				return errs[n]
			}
		}
		for range rawsPerSection {
			raw.set(newest)
			if err := timed(&r.raw, func() error { return raw.put(ctx) }); err != nil {
				return err
			}
		}
	}
	r.result.Events = total * int64(r.opt.Batch)
	for i := range total {
		r.result.Bytes += sizes[(i+1)%pool]
	}
	return nil
}

// withoutSeq is a generated line whose seq the log is to assign.
func withoutSeq(line []byte) []byte {
	from := bytes.Index(line, []byte(`,"seq":`))
	to := from + 1 + bytes.IndexByte(line[from+1:], ',')
	return append(line[:from:from], line[to:]...)
}
