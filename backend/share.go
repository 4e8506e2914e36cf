package backend

import (
	"context"
	"errors"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// shareAbove is the raw size of a prefix from which on whole segments of a
// parent are copied instead of encoded anew.
const shareAbove = 8 << 20

// shareSegments finds the segments of the parent that the child can have as they
// are, and the state after them.
func (s *seeding) shareSegments(ctx context.Context, rec *manifest.Record, upTo int64) error {
	var raw int64
	var whole []manifest.SegmentRef
	for _, ref := range rec.Segments {
		if ref.Name.First < upTo {
			raw += ref.Raw
		}
		if ref.Name.First+ref.Count <= upTo {
			whole = append(whole, ref)
		}
	}
	if len(whole) > manifest.MaxSegments-8 {
		whole = whole[:manifest.MaxSegments/2] // the child needs room for segments of its own
	}
	if raw <= shareAbove || len(whole) == 0 {
		return nil
	}
	last := whole[len(whole)-1]
	r, err := openSegment(segment.NewCodec(), rec.Log, last,
		&rangedObject{ctx: ctx, store: s.src.store, key: manifest.SegmentKey(rec.Log, last.Name), size: last.Bytes})
	if err != nil {
		return finding(err)
	}
	s.shared, s.start = whole, r.Index().State.Clone()
	return s.ownActivity(ctx, rec)
}

// ownActivity replaces the activity of the shared events where it may not be the
// child's: as long as no person has written, a log's activity is that of its own
// header, and an index speaks of the log that encoded it.
func (s *seeding) ownActivity(ctx context.Context, rec *manifest.Record) error {
	_, was, err := checkHeader(rec.Header)
	if err != nil {
		return err
	}
	last := s.shared[len(s.shared)-1]
	if last.Name.First+last.Count > rec.Origin.Inherited { // encoded by the parent itself
		if equalTime(s.birth.Activity, was) || !equalTime(s.start.Activity, was) {
			return nil
		}
	}
	end := s.start.Tree.Size
	if messages, exact := s.start.Types.Get(segment.TypeUserMessage); exact {
		end = 0
		if messages.Count > 0 {
			end = messages.Last + 1
		}
	}
	prompt, err := s.newestPrompt(ctx, rec, end)
	if s.start.Activity = prompt; prompt == nil {
		s.start.Activity = s.birth.Activity
	}
	return err
}

// newestPrompt is the time of the newest message of a person before seq end, nil
// if there is none. It reads the shared segments backwards, one by one.
func (s *seeding) newestPrompt(ctx context.Context, rec *manifest.Record, end int64) (newest *int64, err error) {
	for i := len(s.shared) - 1; i >= 0 && newest == nil && err == nil; i-- {
		ref := s.shared[i]
		if ref.Name.First >= end {
			continue
		}
		_, _ = s.src.span(ctx, manifest.Head{Record: rec}, ref.Name.First, min(end, ref.Name.First+ref.Count), func(e Event, eerr error) bool {
			var ev segment.Event
			if err = eerr; err == nil {
				ev, err = e.Parse()
			}
			if err == nil && segment.Project(ev).UserPrompt {
				newest = &ev.Time
			}
			return err == nil
		})
	}
	return newest, err
}

func equalTime(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }

// share copies the parent's segments, each under a new name of the child's, and
// lets the draft name them.
func (s *seeding) share(ctx context.Context, d *manifest.Draft) error {
	for _, ref := range s.shared {
		copied := ref
		copied.Name = manifest.Name{First: ref.Name.First, Epoch: d.Epoch(), Nonce: manifest.NewNonce()}
		if !s.copyInside(ctx, ref, copied.Name) {
			// Not offered, not allowed, or not known to be done: the bytes through here
			// always work. That is another upload, with a name of its own.
			copied.Name.Nonce = manifest.NewNonce()
			if err := s.copyThrough(ctx, ref, copied.Name); err != nil {
				return err
			}
		}
		d.Seal(manifest.Upload{Ref: copied, TailFirst: ref.Name.First, Commit: d.CommitID()})
	}
	return nil
}

// copyInside reports whether the store made the copy, of the right size whatever
// its reply is worth.
func (s *seeding) copyInside(ctx context.Context, ref manifest.SegmentRef, name manifest.Name) bool {
	c, ok := s.b.store.(objstore.Copier)
	if !ok || s.noCopy || s.src != s.b.Reader {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, s.b.opt.CommitTimeout)
	defer cancel()
	to := manifest.SegmentKey(s.id, name)
	info, err := c.Copy(ctx, manifest.SegmentKey(s.parent.Log, ref.Name), to)
	if err == nil && info.Size == 0 { // it did not say
		info, err = s.b.store.Head(ctx, to)
	}
	s.noCopy = errors.Is(err, objstore.ErrRefused)
	return err == nil && info.Size == ref.Bytes
}

// copyThrough reads a segment, checks it and writes it again.
func (s *seeding) copyThrough(ctx context.Context, ref manifest.SegmentRef, name manifest.Name) error {
	ctx, cancel := context.WithTimeout(ctx, s.b.opt.CommitTimeout)
	defer cancel()
	object, err := fetchObject(ctx, s.src.store, s.parent.Log, ref)
	if err != nil {
		return finding(err)
	}
	return manifest.PutSegment(ctx, s.b.store, s.id, name, object, s.b.commitOptions())
}
