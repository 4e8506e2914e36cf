package backend

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

const (
	// mergeWidth segments of a size class make one of the next.
	mergeWidth = 4
	// smallestClass is the upper bound of the first size class in stored bytes;
	// each further class is mergeWidth times as large.
	smallestClass = 64 << 10
	// mergeMax is the largest output of a merge: what is larger is not rewritten
	// any more, except by a fold.
	mergeMax = 8 << 20
)

// mergePressure is the number of segments from which on appends wait for merges:
// a writer that is faster than they are must not run into manifest.MaxSegments.
const mergePressure = 128

func sizeClass(bytes int64) int {
	class := 0
	for limit := int64(smallestClass); bytes > limit; limit *= mergeWidth {
		class++
	}
	return class
}

// planMerge picks the segments to join next: mergeWidth of one size class, the
// lowest class and the oldest first, with the smaller ones that lie between
// them, as far as their sum stays within mergeMax. So no pattern of sizes makes
// the list grow without end, and no segment is rewritten for a few small ones.
// What is larger than half of mergeMax is left alone. nil: nothing is due.
func planMerge(segs []manifest.SegmentRef) []manifest.SegmentRef {
	for class := 0; class <= sizeClass(mergeMax/2); class++ {
		var members []int // of this class, with nothing larger between them
		for i := range segs {
			switch c := sizeClass(segs[i].Bytes); {
			case c > class:
				members = members[:0]
			case c == class:
				members = append(members, i)
			}
			if len(members) == mergeWidth {
				return within(segs[members[0] : i+1])
			}
		}
	}
	return nil
}

// within is the longest beginning whose sum is small enough. It has at least two
// segments, as none is larger than half of it.
func within(segs []manifest.SegmentRef) []manifest.SegmentRef {
	var sum int64
	n := 0
	for n < len(segs) && sum+segs[n].Bytes <= mergeMax {
		sum += segs[n].Bytes
		n++
	}
	return segs[:n]
}

// makeMerge reads the segments, checks them, joins their events in larger frames
// and uploads the result. It holds the inputs one at a time, and the output.
func (l *Log) makeMerge(ctx context.Context, rec *manifest.Record, inputs []manifest.SegmentRef, epoch uint32) (*prepared, error) {
	ctx, op := l.b.tel.begin(ctx, "merge", l.id)
	p, err := l.merge(ctx, rec, inputs, epoch)
	op.upkeep(ctx, l, err)
	return p, err
}

func (l *Log) merge(ctx context.Context, rec *manifest.Record, inputs []manifest.SegmentRef, epoch uint32) (*prepared, error) {
	select {
	case l.b.merging <- struct{}{}:
		defer func() { <-l.b.merging }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c := segment.NewCodec()
	name := manifest.Name{First: inputs[0].Name.First, Epoch: epoch, Nonce: manifest.NewNonce()}
	w := segment.NewWriter(c, segment.LevelBest, segment.MergedFrameRaw, name.First)
	foot, err := join(ctx, l.b.store, c, l.id, w, inputs)
	if err != nil {
		return nil, err
	}
	bear(&foot, rec, name.First, w.Next())
	foot.Nonce = name.Nonce.String()
	return uploadSegment(ctx, l.b, l.id, w, name, foot, manifest.Upload{Inputs: namesOf(inputs), TailFirst: -1})
}

// bear puts into the footer of a rewritten segment what it must say about its
// log: where it begins the log, or holds the first segment that the log encoded
// itself. What was only copied from a parent goes on to speak of that.
func bear(foot *segment.Footer, rec *manifest.Record, first, next int64) {
	o := rec.Origin
	if foot.UID == "" && !bornAt(first, o) || o.Kind == manifest.KindFork && next <= o.Inherited {
		return
	}
	b := birthOf(rec.UID, rec.Log, rec.Header, o)
	foot.UID, foot.Log, foot.Origin, foot.Header = b.UID, b.Log, b.Origin, b.Header
}

// join reads segments, one at a time, checks them and adds their events to w. It
// returns what the index of the result has to say, all but its nonce.
func join(ctx context.Context, st objstore.Reader, c *segment.Codec, id string, w *segment.Writer, inputs []manifest.SegmentRef) (foot segment.Footer, err error) {
	for _, in := range inputs {
		r, err := fetchSegment(ctx, st, c, id, in)
		if err != nil {
			return foot, err
		}
		for line, err := range r.Lines(in.Name.First) {
			if err == nil {
				err = w.Add(line)
			}
			if err != nil {
				return foot, segmentError("merge", id, in, err)
			}
		}
		x := r.Index()
		if x.UID != "" {
			foot.UID, foot.Log, foot.Origin, foot.Header = x.UID, x.Log, x.Origin, x.Header
		}
		foot.State = x.State
	}
	return foot, nil
}

func namesOf(segs []manifest.SegmentRef) []manifest.Name {
	names := make([]manifest.Name, len(segs))
	for i := range segs {
		names[i] = segs[i].Name
	}
	return names
}

// nameMerged lets the commit name a merge that is ready. If it is told to, and
// where merges have fallen far behind, it merges first, if something is due.
func (c *batch) nameMerged(ctx context.Context, d *manifest.Draft, now bool) error {
	l := c.l
	base := d.Base()
	pressed := base != nil && len(base.Segments) >= mergePressure
	// A merge can wait and events cannot: it may neither fail the commit nor use
	// up its time.
	mctx, cancel := context.WithTimeout(ctx, l.b.opt.CommitTimeout/2)
	defer cancel()
	if pressed {
		l.merger.waitOrStop(mctx, l.b.opt.CommitTimeout/4)
	}
	c.merged = l.merger.ready()
	if c.merged == nil && base != nil && (pressed || now) && !l.merger.held(len(base.Segments)) {
		if plan := planMerge(base.Segments); plan != nil {
			p, err := l.makeMerge(mctx, base, plan, d.Epoch())
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				l.merger.fail(len(base.Segments))
			}
			c.merged = p
		}
	}
	if c.merged != nil {
		d.Merge(c.merged.upload)
	}
	return nil
}

// fetchSegment reads a whole segment and checks it against the manifest.
func fetchSegment(ctx context.Context, st objstore.Reader, c *segment.Codec, id string, ref manifest.SegmentRef) (*segment.Reader, error) {
	body, err := fetchObject(ctx, st, id, ref)
	if err != nil {
		return nil, err
	}
	r, err := segment.OpenBytes(c, body)
	return checkSegment(r, id, ref, err)
}

// fetchObject reads the bytes of a segment, and checks that they are those that
// the manifest means.
func fetchObject(ctx context.Context, st objstore.Reader, id string, ref manifest.SegmentRef) ([]byte, error) {
	key := manifest.SegmentKey(id, ref.Name)
	obj, err := st.Get(ctx, key, objstore.GetOptions{Limit: ref.Bytes})
	switch {
	case errors.Is(err, objstore.ErrTooLarge), err == nil && int64(len(obj.Body)) != ref.Bytes:
		return nil, segmentError("read", id, ref, fmt.Errorf("%w: the object has %d bytes, the manifest says %d", ErrCorrupt, obj.Size, ref.Bytes))
	case err != nil:
		return nil, segmentError("read", id, ref, err)
	case sha256.Sum256(obj.Body) != ref.SHA256:
		return nil, segmentError("read", id, ref, fmt.Errorf("%w: its SHA-256 is not the one in the manifest", ErrCorrupt))
	}
	return obj.Body, nil
}

// openSegment opens a segment and checks that it is the one that is meant.
func openSegment(c *segment.Codec, id string, ref manifest.SegmentRef, src readerAt) (*segment.Reader, error) {
	r, err := segment.Open(c, src, ref.Bytes)
	return checkSegment(r, id, ref, err)
}

func checkSegment(r *segment.Reader, id string, ref manifest.SegmentRef, err error) (*segment.Reader, error) {
	if err != nil {
		return nil, segmentError("read", id, ref, err)
	}
	if x := r.Index(); x.First != ref.Name.First || x.Count != ref.Count {
		return nil, segmentError("read", id, ref, fmt.Errorf("%w: it holds seqs %d to %d, the manifest says %d to %d",
			ErrCorrupt, x.First, x.Next()-1, ref.Name.First, ref.Name.First+ref.Count-1))
	}
	return r, nil
}

type readerAt interface {
	ReadAt(p []byte, off int64) (int, error)
}

// segmentError names the object and the first seq that is concerned.
func segmentError(op, id string, ref manifest.SegmentRef, err error) error {
	return &OpError{Op: op, Log: id, Key: manifest.SegmentKey(id, ref.Name), Seq: ref.Name.First,
		Err: fmt.Errorf("segment of seqs %d to %d: %w", ref.Name.First, ref.Name.First+ref.Count-1, err), Hint: hint(err)}
}
