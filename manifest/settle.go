package manifest

import (
	"context"
	"errors"
	"fmt"

	"github.com/s3log/s3log/backend/objstore"
)

// Settlement is the answer to what became of a commit.
type Settlement struct {
	Verdict Verdict // never Unmoved
	Head    Head    // the version that it rests on
}

// Settle answers what became of a commit whose outcome was unknown. Where the
// version has not moved, reading cannot tell: then it takes the log over (kind
// decide, released at once), or puts a void in the place of an unsettled
// create, so that the commit can never land any more, and answers from that. It
// writes nothing where position already answers. w must be a fresh writer.
//
// Verdict Unknown means that the manifest has moved on too far, for ever.
// Errors are those of Commit and Load.
func Settle(ctx context.Context, st objstore.Store, in Intent, w Writer, opt Options) (Settlement, error) {
	base, err := Load(ctx, st, in.Log, LoadOptions{Clock: opt.Clock})
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Settlement{}, err
	}
	step := func(_ context.Context, base Head) (*Proposal, error) {
		return settle(in, base.Record, w, opt.now())
	}
	res, err := Commit(ctx, st, base, step, opt)
	if err != nil {
		return Settlement{}, fmt.Errorf("settling the outcome of commit %s: %w", in.Commit, err)
	}
	v := rules.judge(in, res.Head.Record)
	if in.Kind == IntentMaintain && v == StartOver && res.Proposal == nil {
		v = Unknown // it has no position: it may have landed before what is there now
	}
	return Settlement{Verdict: v, Head: res.Head}, nil
}

// settle proposes what ends the doubt about a commit whose version has not
// moved, and nothing where position answers already.
func settle(in Intent, base *Record, w Writer, at int64) (*Proposal, error) {
	if rules.judge(in, base) != Unmoved {
		return nil, nil
	}
	if in.Kind == IntentCreate {
		return voidProposal(base, in.Log, w, at)
	}
	d, err := TakeOver(base, w, KindDecide, at)
	if err != nil {
		return nil, err
	}
	d.Release()
	return d.Finish()
}

// voidProposal puts a void where nothing is, or a new revision of the one there.
func voidProposal(base *Record, id string, w Writer, at int64) (*Proposal, error) {
	return voidAbove(base, id, w, 0, at)
}

// voidAbove is voidProposal with an epoch above the given one.
func voidAbove(base *Record, id string, w Writer, epoch uint32, at int64) (*Proposal, error) {
	next := &Record{Version: Version, Log: id, State: StateVoid, Revision: 1, Epoch: epoch + 1}
	in := Intent{Kind: IntentMaintain, Log: id, Writer: w.ID}
	if base != nil {
		next.Revision, next.Epoch = base.Revision+1, max(base.Epoch, epoch+1)
		next.Critical, next.Unknown = base.Critical, base.Unknown
		in.Base = base.Commit.ID
	}
	next.Commit = CommitInfo{ID: newCommitID(), Writer: w.ID, At: at, Software: w.Software}
	in.Commit, in.Revision = next.Commit.ID, next.Revision
	body, err := next.Encode()
	if err != nil {
		return nil, err
	}
	return &Proposal{Record: next, Body: body, Intent: in}, nil
}
