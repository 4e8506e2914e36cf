package manifest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/segment"
)

// ErrIntact: there is nothing to restore.
var ErrIntact = errors.New("the object is there, and intact")

// RestoreSegment makes the object of a segment that a manifest names hold again
// what that manifest says: body, which must have the size and SHA-256 of ref, is
// put where the object is missing under If-None-Match: *, and where it is damaged
// under If-Match with the version that was read and found so. Before every attempt
// the object is read again, so that nothing but damage is ever replaced, whoever
// else may be at it. When it returns nil or ErrIntact the object is as the manifest
// says, and durable; otherwise a request of it that is under way can do no more than that,
// either. It is repeated until that is so, is refused, or ctx ends.
func RestoreSegment(ctx context.Context, st objstore.Store, id string, ref SegmentRef, body []byte, opt Options) error {
	key := SegmentKey(id, ref.Name)
	if !isSegment(ref, body) {
		return restoreError(id, key, ref, fmt.Errorf("%w: other bytes than the manifest says", segment.ErrCorrupt))
	}
	wait := backoff{min: opt.MinBackoff, max: opt.MaxBackoff}
	var last error
	for sent := false; ; {
		cond, err := restorable(ctx, st, key, ref)
		switch {
		case errors.Is(err, ErrIntact) && sent:
			return nil
		case errors.Is(err, ErrIntact):
			return err
		case err == nil:
			var info objstore.Info
			info, err = st.Put(ctx, key, body, cond, objstore.PutOptions{ContentType: segmentType})
			if opt.Clock != nil {
				opt.Clock.Observe(cmp.Or(info.Date, objstore.DateOf(err)))
			}
			if sent = true; err == nil && info.Version.IsZero() {
				err = errNoVersion // see PutSegment
			}
		}
		switch objstore.Classify(err) {
		case objstore.Applied:
			return nil
		case objstore.Precondition, objstore.TryAgain, objstore.Undecided:
		default:
			return restoreError(id, key, ref, err)
		}
		if last == nil || !cutShort(err) {
			last = err
		}
		if err := wait.sleep(ctx); err != nil {
			return restoreError(id, key, ref, fmt.Errorf("%w (last reply: %w)", err, last))
		}
	}
}

// restorable is the condition on which the object of a segment may be replaced, or
// ErrIntact.
func restorable(ctx context.Context, st objstore.Store, key string, ref SegmentRef) (objstore.Condition, error) {
	obj, err := st.Get(ctx, key, objstore.GetOptions{Limit: ref.Bytes})
	info := obj.Info
	if errors.Is(err, objstore.ErrTooLarge) {
		if info, err = st.Head(ctx, key); err == nil && info.Size <= ref.Bytes {
			return objstore.Condition{}, fmt.Errorf("%w: it has changed while it was read", objstore.ErrConflict)
		}
	}
	switch {
	case errors.Is(err, objstore.ErrNotExist):
		return objstore.IfAbsent(), nil
	case err != nil:
		return objstore.Condition{}, err
	case isSegment(ref, obj.Body):
		return objstore.Condition{}, ErrIntact
	}
	return objstore.IfVersion(info.Version), nil
}

// isSegment reports whether an object has the bytes that a manifest says.
func isSegment(ref SegmentRef, body []byte) bool {
	return int64(len(body)) == ref.Bytes && sha256.Sum256(body) == ref.SHA256
}

func restoreError(id, key string, ref SegmentRef, err error) error {
	hint := "nothing but this object can have been changed, and that only into what it should be"
	if se, ok := errors.AsType[*objstore.Error](err); ok && se.Hint != "" {
		hint = se.Hint
	}
	return &OpError{Op: "restore", Log: id, Key: key, Seq: ref.Name.First, Err: err, Hint: hint}
}
