package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/manifest"
)

// Repair is what became of one segment that a copy has found missing or damaged at
// the destination.
type Repair struct {
	Key   string // of the object
	Seq   int64  // its first event
	Bytes int64  // its size, as the manifest says
	Was   string // missing or damaged, as in a Finding
	// Err is why it is as it was; nil if it was put back, or would be in a dry run.
	Err error
}

// errNoBytes: the source cannot help.
var errNoBytes = errors.New("the source has no segment with the bytes that the manifest at the destination says")

// verify verifies what is at the destination. Segments of it that are missing or
// damaged are put back, where the source has them, and then it is verified again.
// rec is the manifest there, as far as it is known.
func (c *copying) verify(ctx context.Context, rec *manifest.Record) error {
	rep, err := c.b.Verify(ctx, c.id, VerifyOptions{})
	if err != nil {
		return atDestination(err)
	}
	c.rep.Verified = &rep
	if c.rep.Revision == 0 { // what is there is not what was to be copied
		c.rep.Events, c.rep.Root, c.rep.Revision = rec.Next, rec.Content.Tree.Root, rec.Revision
	}
	broken := func(ref manifest.SegmentRef) (was string, is bool) {
		key := manifest.SegmentKey(c.id, ref.Name)
		i := slices.IndexFunc(rep.Findings, func(f Finding) bool { return f.Key == key && (f.Kind == "missing" || f.Kind == "damaged") })
		if i < 0 {
			return "", false
		}
		return rep.Findings[i].Kind, true
	}
	if rep.OK() {
		return nil
	}
	// What is not named any more is nobody's to put back.
	head, err := c.b.open(ctx, c.id)
	if err != nil {
		return atDestination(err)
	}
	done := 0
	for _, ref := range head.Record.Segments {
		was, is := broken(ref)
		if !is {
			continue
		}
		err := c.repair(ctx, ref)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, manifest.ErrIntact) {
			done++ // another one has been here
			continue
		}
		c.rep.Repairs = append(c.rep.Repairs, Repair{Key: manifest.SegmentKey(c.id, ref.Name), Seq: ref.Name.First, Bytes: ref.Bytes, Was: was, Err: err})
		if err == nil {
			done++
			c.rep.Segments++
			c.rep.Bytes += ref.Bytes
		}
	}
	if done == 0 || c.opt.DryRun {
		return nil
	}
	c.rep.Copied = c.rep.Copied || c.put() > 0
	if rep, err = c.b.Verify(ctx, c.id, VerifyOptions{}); err != nil {
		return atDestination(err)
	}
	return nil
}

// put counts the segments that were put back.
func (c *copying) put() (n int) {
	for _, r := range c.rep.Repairs {
		if r.Err == nil {
			n++
		}
	}
	return n
}

// repair puts back one segment that the manifest at the destination names.
// manifest.ErrIntact says that there is no need any more.
func (c *copying) repair(ctx context.Context, ref manifest.SegmentRef) error {
	i := slices.IndexFunc(c.head.Record.Segments, func(s manifest.SegmentRef) bool {
		return s.SHA256 == ref.SHA256 && s.Bytes == ref.Bytes && s.Name.First == ref.Name.First && s.Count == ref.Count
	})
	if i < 0 {
		return errNoBytes
	}
	weight := min(ref.Bytes, copyRoom)
	if err := c.room.Acquire(ctx, weight); err != nil {
		return err
	}
	defer c.room.Release(weight)
	object, err := fetchObject(ctx, c.src.store, c.id, c.head.Record.Segments[i])
	if notThere(err) {
		err = finding(err)
	}
	if err != nil {
		return atSource(err)
	}
	if c.opt.DryRun {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.b.opt.CommitTimeout)
	defer cancel()
	if err := manifest.RestoreSegment(ctx, c.b.store, c.id, ref, object, c.b.commitOptions()); err != nil {
		return atDestination(err)
	}
	return nil
}

// mended is the error of a copy that was refused, after segments were put back.
func (c *copying) mended(refused error) error {
	oe, ok := errors.AsType[*OpError](refused)
	n := c.put()
	if !ok || n == 0 || c.opt.DryRun {
		return refused
	}
	e := *oe
	const nothing = "nothing was changed there"
	e.Hint = fmt.Sprintf("%s put back there, and nothing else was changed%s", words.Count(n, "segment"), strings.TrimPrefix(oe.Hint, nothing))
	return &e
}
