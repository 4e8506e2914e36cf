package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// segment brings one segment, and returns the leaves of its events from seq from
// on.
func (c *copying) segment(ctx context.Context, s manifest.CopySegment, from int64) ([]segment.Hash, error) {
	weight := min(s.Ref.Bytes, copyRoom)
	if err := c.room.Acquire(ctx, weight); err != nil {
		return nil, err
	}
	defer c.room.Release(weight)
	_, listed := c.there[s.To]
	var object []byte
	var err error
	if listed {
		object, err = c.readBack(ctx, s)
		// A collection that was faster has moved the manifest on, or the commit could
		// name it: then it is sent in vain, and the copy starts over.
		listed = !errors.Is(err, objstore.ErrNotExist)
	}
	if !listed {
		object, err = c.send(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !listed {
		c.rep.Segments++
		c.rep.Bytes += s.Ref.Bytes
	}
	c.done.Segments++
	c.done.Bytes += s.Ref.Bytes
	if c.opt.Progress != nil {
		c.opt.Progress(c.done)
	}
	return leaves(c.id, s.Ref, object, from)
}

// send reads a segment from the source, checks it, and writes it.
func (c *copying) send(ctx context.Context, s manifest.CopySegment) ([]byte, error) {
	object, err := fetchObject(ctx, c.src.store, c.id, s.Ref)
	if oe, ok := errors.AsType[*OpError](err); ok {
		return nil, sourceError{oe}
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.b.opt.CommitTimeout)
	defer cancel()
	err = manifest.PutSegment(ctx, c.b.store, c.id, s.To, object, c.b.commitOptions())
	if errors.Is(err, objstore.ErrPrecondition) {
		return nil, c.damaged(s, err)
	}
	if err != nil {
		return nil, atDestination(err)
	}
	return object, nil
}

// readBack reads what is at the destination under the name of a segment.
func (c *copying) readBack(ctx context.Context, s manifest.CopySegment) ([]byte, error) {
	ref := s.Ref
	ref.Name = s.To
	object, err := fetchObject(ctx, c.b.store, c.id, ref)
	switch {
	case errors.Is(err, ErrCorrupt):
		return nil, c.damaged(s, err)
	case err != nil:
		return nil, atDestination(err)
	}
	return object, nil
}

// damaged says that something else is where a segment belongs.
func (c *copying) damaged(s manifest.CopySegment, err error) error {
	return &OpError{Op: "copy", Log: c.id, Key: manifest.SegmentKey(c.id, s.To), Seq: s.Ref.Name.First,
		Err:  atDestination(fmt.Errorf("%w: what is there is not the segment that the source has: %w", ErrCorrupt, err)),
		Hint: "remove this object at the destination, and copy the log again"}
}

// leaves are those of a segment's events from seq from on.
func leaves(id string, ref manifest.SegmentRef, object []byte, from int64) (all []segment.Hash, err error) {
	if ref.Name.First+ref.Count <= from {
		return nil, nil
	}
	r, err := openSegment(segment.NewCodec(), id, ref, bytes.NewReader(object))
	if err != nil {
		return nil, atSource(err)
	}
	for line, err := range r.Lines(max(from, ref.Name.First)) {
		if err != nil {
			return nil, atSource(segmentError("read", id, ref, err))
		}
		all = append(all, manifest.LeafHash(line))
	}
	return all, nil
}

// arrived checks that the manifest at the destination can be read, and that the
// segments which were sent are there.
func (c *copying) arrived(ctx context.Context, commit string) error {
	head, err := c.b.open(ctx, c.id)
	if err != nil {
		return atDestination(fmt.Errorf("reading back: %w", err))
	}
	sent := slices.DeleteFunc(slices.Clone(c.plan.Segments), func(s manifest.CopySegment) bool { return s.Named })
	if len(sent) == 0 || head.Record.Commit.ID != commit { // others have been here since
		return nil
	}
	there, err := c.listed(ctx)
	if errors.Is(err, objstore.ErrRefused) {
		there, err = c.asked(ctx, sent)
	}
	if err != nil {
		return atDestination(err)
	}
	i := slices.IndexFunc(sent, func(s manifest.CopySegment) bool { return there[s.To] != s.Ref.Bytes })
	if i < 0 {
		return nil
	}
	if head, err = c.b.open(ctx, c.id); err != nil {
		return atDestination(err)
	}
	if head.Record.Commit.ID != commit {
		return nil // it was replaced since
	}
	ref := sent[i].Ref
	ref.Name = sent[i].To
	what := fmt.Errorf("%w: the store has taken it, and does not have it", ErrMissing)
	if size, ok := there[ref.Name]; ok {
		what = fmt.Errorf("%w: it has %d bytes, the manifest says %d", ErrCorrupt, size, ref.Bytes)
	}
	return atDestination(segmentError("copy", c.id, ref, what))
}

// asked are the sizes of segments, by a HEAD of each.
func (c *copying) asked(ctx context.Context, segs []manifest.CopySegment) (map[manifest.Name]int64, error) {
	there := map[manifest.Name]int64{}
	for _, s := range segs {
		info, err := c.b.store.Head(ctx, manifest.SegmentKey(c.id, s.To))
		if errors.Is(err, objstore.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		there[s.To] = info.Size
	}
	return there, nil
}
