package backend

import (
	"context"
	"fmt"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
)

// Delete deletes a log: one commit that takes it over and leaves a tombstone.
// From then on nobody can read it or append to it, and its id stays taken; its
// segments are GC's to remove, when the grace for readers is over. Forks are
// logs of their own, and are not touched. An owner with a lease, or one active
// within opt.Quiet, is respected unless opt.TakeOver is set.
//
// When it returns nil the deletion is durable. The receipt is a Duplicate where
// the log was deleted before: then nothing was written. Errors: ErrNotFound,
// ErrHeld, those of reading the manifest and those of a commit;
// ErrOutcomeUnknown has a Token, which Decide settles, and repeating the call
// does, too.
func (b *Backend) Delete(ctx context.Context, id string, opt AdoptOptions) (Receipt, error) {
	ctx, op := b.tel.begin(ctx, "delete", id)
	r, err := b.delete(ctx, id, opt)
	op.end(ctx, r, err)
	return r, err
}

func (b *Backend) delete(ctx context.Context, id string, opt AdoptOptions) (Receipt, error) {
	head, err := b.load(ctx, id)
	if err != nil {
		return Receipt{}, opError("delete", id, err)
	}
	w := b.writer()
	if err := w.Check(); err != nil {
		return Receipt{}, opError("delete", id, err)
	}
	ctx, cancel := context.WithTimeout(ctx, b.opt.CommitTimeout)
	defer cancel()
	res, err := b.commit(ctx, "delete", id, head, func(_ context.Context, base manifest.Head) (*manifest.Proposal, error) {
		return proposeDelete(base.Record, w, opt, b.now())
	})
	if ce, ok := isCommitError(err); ok {
		if ce.Verdict == manifest.Deleted && ce.Head.Record != nil {
			res.Head, err = ce.Head, nil // by somebody else, at the same time
		}
		ce.Intent.First = ce.Intent.Start
	}
	if err != nil {
		return Receipt{}, opError("delete", id, err)
	}
	b.remember(id, res.Head.Record)
	r := Receipt{Log: id, First: res.Head.Record.Next, Duplicate: res.Proposal == nil}
	r.place(res.Head.Record)
	return r, nil
}

// proposeDelete is the tombstone, or nil if it is there already.
func proposeDelete(base *manifest.Record, w manifest.Writer, opt AdoptOptions, at int64) (*manifest.Proposal, error) {
	if base != nil && base.State == manifest.StateDeleted {
		return nil, nil
	}
	if err := seedpath.MayTake(base, w, seedpath.AdoptOptions(opt), at); err != nil {
		return nil, err
	}
	d, err := manifest.TakeOver(base, w, manifest.KindDelete, at)
	if err != nil {
		return nil, err
	}
	d.Delete()
	return d.Finish()
}

// Deletion is what a Delete would do.
type Deletion struct {
	Log        string
	Done       bool  // it is deleted already: of what it held nothing is known
	Revision   int64 // of what is there
	Generation int64
	Events     int64
	Segments   int   // that are named
	Bytes      int64 // of these segments and of the events in the manifest
}

// PlanDelete says what Delete would do, and fails as it would: one GET.
func (r *Reader) PlanDelete(ctx context.Context, id string, opt AdoptOptions) (Deletion, error) {
	head, err := r.load(ctx, id)
	if err == nil && head.Record.State == manifest.StateVoid {
		err = fmt.Errorf("%w: only a void is there", ErrNotFound)
	}
	if err == nil {
		err = seedpath.MayTake(head.Record, manifest.Writer{}, seedpath.AdoptOptions(opt), r.now())
	}
	if err != nil {
		return Deletion{}, opError("delete", id, err)
	}
	rec := head.Record
	d := Deletion{
		Log: id, Done: rec.State == manifest.StateDeleted, Revision: rec.Revision, Generation: rec.Generation(),
		Events: rec.Next, Segments: len(rec.Segments), Bytes: int64(len(rec.Tail)),
	}
	for i := range rec.Segments {
		d.Bytes += rec.Segments[i].Bytes
	}
	return d, nil
}
