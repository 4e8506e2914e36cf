package manifest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/s3log/s3log/backend/objstore"
)

// segmentType is the media type of segments.
const segmentType = "application/zstd"

// PutSegment writes a segment that this writer has just named: one PUT under
// If-None-Match: *, repeated with the same bytes until it is decided or ctx
// ends. When it returns nil the segment is durable, and named by nobody yet.
func PutSegment(ctx context.Context, st objstore.Store, id string, name Name, body []byte, opt Options) error {
	key := SegmentKey(id, name)
	wait := backoff{min: opt.MinBackoff, max: opt.MaxBackoff}
	var last error // the newest reply that was not decisive
	note := func(err error) {
		if last == nil || !cutShort(err) {
			last = err
		}
	}
	for {
		info, err := st.Put(ctx, key, body, objstore.IfAbsent(), objstore.PutOptions{ContentType: segmentType})
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
			again, err := readBack(ctx, st, key, body)
			if !again {
				return uploadError(id, key, err)
			}
			note(fmt.Errorf("%w, and then: %w", errNoVersion, err))
		case objstore.Precondition:
			// Our own copy, sent earlier by us or repeated below us; nothing else
			// can carry this nonce. Read it rather than believe that.
			// Where a collector has removed it meanwhile it is sent again: it did so
			// because no commit may name it, which is for the commit to find out.
			again, err := readBack(ctx, st, key, body)
			if !again {
				return uploadError(id, key, err)
			}
			note(err)
		case objstore.TryAgain, objstore.Undecided:
			note(err)
		default:
			return uploadError(id, key, err)
		}
		if err := wait.sleep(ctx); err != nil {
			return uploadError(id, key, fmt.Errorf("%w (last reply: %w)", err, last))
		}
	}
}

// cutShort reports whether a request ended because nobody waited any longer: the
// reply before it says more about the store.
func cutShort(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// errNotThere is no ErrNotExist: nobody has asked for what is only being written.
var errNotThere = errors.New("reading back: it is not there")

// readBack compares an object with what it should hold. With again it is to be
// sent again, and err says why: it is not there, or that cannot be seen just now.
func readBack(ctx context.Context, st objstore.Store, key string, body []byte) (again bool, err error) {
	obj, err := st.Get(ctx, key, objstore.GetOptions{Limit: int64(len(body))})
	switch {
	case errors.Is(err, objstore.ErrNotExist):
		return true, errNotThere
	case err != nil && !errors.Is(err, objstore.ErrTooLarge):
		return errors.Is(err, objstore.ErrUndecided), fmt.Errorf("reading back: %w", err)
	case err != nil || !bytes.Equal(obj.Body, body):
		return false, fmt.Errorf("%w: another object is there already", objstore.ErrPrecondition)
	}
	return false, nil
}

// uploadError says which segment an error is about; nil is nil.
func uploadError(id, key string, err error) error {
	if err == nil {
		return nil
	}
	hint := "nothing was committed; the object, if it arrived, is an orphan that no manifest names"
	if se, ok := errors.AsType[*objstore.Error](err); ok && se.Hint != "" {
		hint = se.Hint + "; " + hint // what can be done comes first
	}
	return &OpError{Op: "upload", Log: id, Key: key, Seq: -1, Err: err, Hint: hint}
}
