package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// around is span for a log that may be damaged: what cannot be read is told, and
// reading goes on behind it.
func (r *Reader) around(ctx context.Context, head manifest.Head, from, to int64, tell func(first, next int64, err error), yield func(Event, error) bool) {
	for from < to {
		var failed error
		stopped := false
		from, _ = r.span(ctx, head, from, to, func(e Event, err error) bool {
			if failed = err; err == nil {
				stopped = !yield(e, nil)
			}
			return err == nil && !stopped
		})
		if stopped || failed == nil {
			return
		}
		if !lasting(failed) {
			yield(Event{}, failed)
			return
		}
		// Segments may have been merged since: those of now hold what comes next.
		fresh, err := r.open(ctx, head.Record.Log)
		if err != nil {
			yield(Event{}, opError("read", head.Record.Log, err))
			return
		}
		head = fresh
		p := piece{rec: head.Record, from: from, to: to, failed: failed, tell: tell, yield: yield}
		if !p.read(ctx, r) {
			return
		}
		from = p.to
	}
}

// lasting reports whether an error says something about the log, and will be the
// same the next time.
func lasting(err error) bool {
	for _, is := range []error{ErrCorrupt, ErrMissing, ErrDenied, ErrUnsupportedVersion} {
		if errors.Is(err, is) {
			return !passing(err)
		}
	}
	return false
}

// piece is what is read around damage: the rest of one segment, or of the tail.
type piece struct {
	rec      *manifest.Record
	from, to int64 // to: of what is asked for; after read, of the piece
	failed   error // why it is read like this
	tell     func(first, next int64, err error)
	yield    func(Event, error) bool
}

// read yields the events of the frames that can be read, and tells of the others.
// It returns whether to go on behind the piece.
func (p *piece) read(ctx context.Context, r *Reader) bool {
	ref := p.segment()
	if ref == nil { // the tail is in one piece
		p.tell(p.from, p.to, p.failed)
		return true
	}
	p.to = min(p.to, ref.Name.First+ref.Count)
	obj, err := fetchAny(ctx, r.store, p.rec.Log, *ref)
	switch {
	case errors.Is(err, objstore.ErrNotExist), errors.Is(err, objstore.ErrDenied):
		p.tell(p.from, p.to, p.failed)
		return true
	case err != nil:
		p.yield(Event{}, opError("read", p.rec.Log, segmentError("read", p.rec.Log, *ref, err)))
		return false
	}
	s, err := openSegment(segment.NewCodec(), p.rec.Log, *ref, bytes.NewReader(obj.body))
	if err != nil {
		p.tell(p.from, p.to, p.failed)
		return true
	}
	if obj.damaged != nil {
		p.tell(p.from, p.from, p.error(*ref, p.from, fmt.Errorf("%w: %w", ErrCorrupt, obj.damaged)))
	}
	return p.frames(s, *ref)
}

// error is about the events of a segment from a seq on.
func (p *piece) error(ref manifest.SegmentRef, seq int64, err error) error {
	return &OpError{Op: "read", Log: p.rec.Log, Key: manifest.SegmentKey(p.rec.Log, ref.Name), Seq: seq, Err: err, Hint: hint(err)}
}

// segment is the one that holds the first event; nil if none does.
func (p *piece) segment() *manifest.SegmentRef {
	for i := range p.rec.Segments {
		if s := &p.rec.Segments[i]; p.from >= s.Name.First && p.from < s.Name.First+s.Count {
			return s
		}
	}
	return nil
}

// frames reads them one by one. Gaps side by side are one.
func (p *piece) frames(s *segment.Reader, ref manifest.SegmentRef) bool {
	var gap error // of the events from p.from on
	end := p.from
	closeGap := func() {
		if gap != nil {
			p.tell(p.from, end, gap)
			p.from, gap = end, nil
		}
	}
	frames := s.Index().Frames
	for i := s.Find(p.from); i < len(frames) && end < p.to; i++ {
		first := max(end, frames[i].First)
		raw, err := s.Frame(i)
		if err != nil {
			if gap == nil {
				gap = p.error(ref, first, err)
			}
			end = min(p.to, frames[i].First+frames[i].Count)
			continue
		}
		closeGap()
		seq := frames[i].First
		for line := range segment.Lines(raw) { // whole lines: they were counted
			if seq >= first && seq < p.to {
				if !p.yield(Event{Log: p.rec.Log, Seq: seq, Line: line}, nil) {
					return false
				}
				end = seq + 1
			}
			seq++
		}
		p.from = end
	}
	closeGap()
	return true
}
