package backend

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// prepared is a segment on the store that no manifest names yet.
type prepared struct {
	upload manifest.Upload
	end    int64 // a seal: seq after its last event
}

// job is background work of one kind: at most one at a time. Its result waits
// until the next commit names it.
type job struct {
	mu     sync.Mutex
	done   chan struct{} // closed when the work has ended; nil while there is none
	stop   context.CancelFunc
	result *prepared
	until  int64 // a seal: the end of what it covers
	hold   int   // after a failure: do not begin again below this measure
}

func (j *job) running() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.done != nil && j.result == nil
}

func (j *job) idle() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.done == nil && j.result == nil
}

// end is the seq that a seal under way, or waiting to be named, reaches.
func (j *job) end() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.until
}

// start runs work in a goroutine, until ctx ends or waitOrStop gives up on it.
// measure is what hold compares with.
func (j *job) start(ctx context.Context, until int64, measure int, work func(context.Context) (*prepared, error)) {
	ctx, stop := context.WithCancel(ctx)
	j.mu.Lock()
	defer j.mu.Unlock()
	done := make(chan struct{})
	j.done, j.until, j.stop = done, until, stop
	go func() {
		defer stop()
		p, err := work(ctx)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.done, j.result = nil, p
		if err != nil {
			j.until, j.hold = 0, measure+measure/4
		}
		close(done)
	}()
}

func (j *job) wait(ctx context.Context) {
	j.mu.Lock()
	done := j.done
	j.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// waitOrStop waits at most d, then ends the work: it hangs, and others must not
// wait for it again and again.
func (j *job) waitOrStop(ctx context.Context, d time.Duration) {
	wctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	j.wait(wctx)
	if ctx.Err() != nil || !j.running() {
		return
	}
	j.mu.Lock()
	stop := j.stop
	j.mu.Unlock()
	stop()
	j.wait(ctx) // it has nothing to wait for any more
}

// ready is the finished work, if there is any.
func (j *job) ready() *prepared {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.result
}

// clear drops the result: it was named, or never will be.
func (j *job) clear() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.result, j.until, j.hold = nil, 0, 0
}

// fail notes that work of the measure could not be done where it was tried
// without start.
func (j *job) fail(measure int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.hold = measure + measure/4
}

func (j *job) held(measure int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return measure < j.hold
}

// used drops what the commit that landed has named: a segment is named once.
func (l *Log) used(c *batch) {
	if c.sealed != nil {
		l.sealer.clear()
	}
	if c.merged != nil {
		l.merger.clear()
	}
}

// forget drops what does not fit the version that is there now.
func (l *Log) forget(c *batch) { l.used(c) }

// nameSealed lets the commit name a seal that is ready, and returns the tail
// that remains.
func (c *batch) nameSealed(d *manifest.Draft, t tail) (tail, error) {
	c.sealed = c.l.sealer.ready()
	t.barrier = c.l.sealer.end()
	if c.sealed == nil {
		return t, nil
	}
	rest, err := t.from(c.sealed.end)
	if err != nil {
		return t, fmt.Errorf("%w: %w", manifest.ErrStaleUpload, err)
	}
	d.Seal(c.sealed.upload)
	return rest, nil
}

// startBackground begins what the sizes of tail and segments ask for.
func (l *Log) startBackground() {
	r := l.head.Record
	l.mu.Lock()
	ends := l.closed || l.last != nil // no commit will come to name what is begun now
	l.mu.Unlock()
	if ends || l.b.opt.Foreground || !l.owned || r == nil || l.tailOf != r.Commit.ID || l.bgCtx.Err() != nil {
		return
	}
	if n := l.tail.encoded(); n >= sealSoft && l.sealer.idle() && !l.sealer.held(n) {
		t := l.tail
		l.tail.barrier = t.next()
		l.sealer.start(l.bgCtx, t.next(), n, func(ctx context.Context) (*prepared, error) {
			c, ok := l.codecs.Get().(*segment.Codec)
			if !ok {
				c = segment.NewCodec()
			}
			defer l.codecs.Put(c)
			return l.makeSeal(ctx, c, t, r.Content, r.Epoch, "", l.birth(r))
		})
	}
	if plan := planMerge(r.Segments); plan != nil && !(l.b.opt.PauseMerging && len(r.Segments) < mergePressure) && l.merger.idle() && !l.merger.held(len(r.Segments)) {
		l.merger.start(l.bgCtx, 0, len(r.Segments), func(ctx context.Context) (*prepared, error) { return l.makeMerge(ctx, r, plan, r.Epoch) })
	}
}

// birth is what the first segment that a log encodes itself says about it.
func (l *Log) birth(r *manifest.Record) *segment.Footer {
	if !bornAt(r.TailFirst(), r.Origin) {
		return nil
	}
	return birthOf(r.UID, r.Log, r.Header, r.Origin)
}

// bornAt reports whether a segment that begins at seq first may be the first one
// that a log encodes itself. A fork that ends where a segment of its parent does,
// with the parent's own boundary, has encoded none so far.
func bornAt(first int64, o *manifest.Origin) bool {
	return first == 0 || o.Kind == manifest.KindFork && first == o.Inherited
}

func birthOf(uid, id string, header []byte, origin *manifest.Origin) *segment.Footer {
	return &segment.Footer{UID: uid, Log: id, Header: header, Origin: manifest.AppendOrigin(nil, origin)}
}

// makeSeal encodes all events of a tail as a segment and uploads it. state is
// that after its last event; commit is set where some of them are not committed
// yet and only that commit may name it.
func (l *Log) makeSeal(ctx context.Context, c *segment.Codec, t tail, state segment.State, epoch uint32, commit string, birth *segment.Footer) (*prepared, error) {
	ctx, op := l.b.tel.begin(ctx, "seal", l.id)
	p, err := l.seal(ctx, c, t, state, epoch, commit, birth)
	op.upkeep(ctx, l, err)
	return p, err
}

func (l *Log) seal(ctx context.Context, c *segment.Codec, t tail, state segment.State, epoch uint32, commit string, birth *segment.Footer) (*prepared, error) {
	name := manifest.Name{First: t.first, Epoch: epoch, Nonce: manifest.NewNonce()}
	w := segment.NewWriter(c, segment.LevelBetter, segment.FrameRaw, t.first)
	for _, f := range t.frames {
		for line, err := range segment.Lines(f.raw) {
			if err == nil {
				err = w.Add(line)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	foot := segment.Footer{}
	if birth != nil {
		foot = *birth
	}
	foot.Nonce, foot.State = name.Nonce.String(), state
	return uploadSegment(ctx, l.b, l.id, w, name, foot, manifest.Upload{TailFirst: t.first, Commit: commit})
}

// uploadSegment finishes a segment and puts it on the store.
func uploadSegment(ctx context.Context, b *Backend, id string, w *segment.Writer, name manifest.Name, foot segment.Footer, u manifest.Upload) (*prepared, error) {
	object, index, err := w.Finish(foot)
	if err != nil {
		return nil, err
	}
	if err := manifest.PutSegment(ctx, b.store, id, name, object, b.commitOptions()); err != nil {
		return nil, err
	}
	u.Ref = refOf(name, object, index)
	return &prepared{upload: u, end: index.Next()}, nil
}

// refOf is how a manifest names a segment.
func refOf(name manifest.Name, object []byte, x *segment.Index) manifest.SegmentRef {
	return manifest.SegmentRef{Name: name, Count: x.Count, Bytes: int64(len(object)), Raw: x.RawLength(), SHA256: sha256.Sum256(object)}
}

// sealNow seals the tail and the events of this very commit, on its path: where
// they are too large for a manifest, or nothing may happen in the background.
func (l *Log) sealNow(ctx context.Context, d *manifest.Draft, t tail, lines []byte, count int64) (tail, error) {
	if count > 0 {
		// Not encoded as a frame: only the lines are needed.
		t.frames = append(t.frames[:len(t.frames):len(t.frames)], frame{first: t.next(), count: count, raw: lines})
	}
	commit := ""
	if count > 0 {
		commit = d.CommitID()
	}
	var birth *segment.Footer
	if header, origin := d.Birth(); bornAt(t.first, origin) {
		birth = birthOf(d.UID(), l.id, header, origin)
	}
	p, err := l.makeSeal(ctx, l.codec, t, d.State(), d.Epoch(), commit, birth)
	if err != nil {
		return t, err
	}
	d.Seal(p.upload)
	return tail{first: p.end}, nil
}
