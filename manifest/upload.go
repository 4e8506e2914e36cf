package manifest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/s3log/s3log/backend/objstore"
)

// PutSegment writes a segment that this writer has just named: one PUT under
// If-None-Match: *, repeated with the same bytes until it is decided or ctx
// ends. When it returns nil the segment is durable, and named by nobody yet.
func PutSegment(ctx context.Context, st objstore.Store, id string, name Name, body []byte, opt Options) error {
	key := SegmentKey(id, name)
	wait := backoff{min: opt.MinBackoff, max: opt.MaxBackoff}
	var last error // the newest reply that was not decisive
	for {
		info, err := st.Put(ctx, key, body, objstore.IfAbsent(), objstore.PutOptions{ContentType: "application/zstd"})
		if opt.Clock != nil {
			opt.Clock.Observe(cmp.Or(info.Date, objstore.DateOf(err)))
		}
		switch objstore.Classify(err) {
		case objstore.Applied:
			if !info.Version.IsZero() {
				return nil
			}
			// Whoever stores something says which version that is. A proxy that answers
			// in the store's place does not, and then nothing was stored.
			err = sameSegment(ctx, st, id, key, body)
			if !errors.Is(err, objstore.ErrNotExist) && !errors.Is(err, objstore.ErrUndecided) {
				return err
			}
			last = fmt.Errorf("%w, and then: %w", errNoVersion, err)
			if werr := wait.sleep(ctx); werr != nil {
				return uploadError(id, key, fmt.Errorf("%w (last reply: %w)", werr, last))
			}
		case objstore.Precondition:
			// Our own copy, sent earlier by us or repeated below us; nothing else
			// can carry this nonce. Read it rather than believe that.
			// Where a collector has removed it meanwhile it is sent again: it did so
			// because no commit may name it, which is for the commit to find out.
			err = sameSegment(ctx, st, id, key, body)
			if !errors.Is(err, objstore.ErrUndecided) && !errors.Is(err, objstore.ErrNotExist) {
				return err
			}
			if werr := wait.sleep(ctx); werr != nil {
				return err
			}
		case objstore.TryAgain, objstore.Undecided:
			if last == nil || !cutShort(err) {
				last = err
			}
			if werr := wait.sleep(ctx); werr != nil {
				return uploadError(id, key, fmt.Errorf("%w (last reply: %w)", werr, last))
			}
		default:
			return uploadError(id, key, err)
		}
	}
}

// cutShort reports whether a request ended because nobody waited any longer: the
// reply before it says more about the store.
func cutShort(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func sameSegment(ctx context.Context, st objstore.Store, id, key string, body []byte) error {
	obj, err := st.Get(ctx, key, objstore.GetOptions{Limit: int64(len(body))})
	if err != nil && !errors.Is(err, objstore.ErrTooLarge) {
		return uploadError(id, key, fmt.Errorf("reading back: %w", err))
	}
	if err != nil || !bytes.Equal(obj.Body, body) {
		return uploadError(id, key, fmt.Errorf("%w: another object is there already", objstore.ErrPrecondition))
	}
	return nil
}

func uploadError(id, key string, err error) error {
	hint := "nothing was committed; the object, if it arrived, is an orphan that no manifest names"
	if se, ok := errors.AsType[*objstore.Error](err); ok && se.Hint != "" {
		hint = se.Hint + "; " + hint // what can be done comes first
	}
	return &OpError{Op: "upload", Log: id, Key: key, Seq: -1, Err: err, Hint: hint}
}
