package manifest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/segment"
)

// Head is one version of a log's manifest. The zero Head is absence.
type Head struct {
	Record  *Record
	Version objstore.Version
	Info    objstore.Info // of the read; zero after a write
}

// LoadOptions tune a Load.
type LoadOptions struct {
	Clock *objstore.Clock  // takes the date of the reply; nil: none is kept
	IfNot objstore.Version // answer objstore.ErrNotModified while this is the version
}

// maxTorn is how often a manifest is read before contradicting replies make the
// store one that cannot be used.
const maxTorn = 4

// Load reads a log's manifest: one GET. A tombstone or void is returned like
// any other, its State says so. Errors: ErrNotFound, ErrDenied,
// segment.ErrCorrupt, segment.ErrUnsupportedVersion, ErrUnsupportedStore, or
// what the store said, all wrapped in an *OpError.
func Load(ctx context.Context, st objstore.Reader, id string, opt LoadOptions) (Head, error) {
	return load(ctx, st, Key(id), id, opt)
}

// LoadKey is Load where only the manifest's key is known: of a long id the key
// shows only a part.
func LoadKey(ctx context.Context, st objstore.Reader, key string, opt LoadOptions) (Head, error) {
	id, _, _ := ParseKey(key)
	return load(ctx, st, key, id, opt)
}

// load reads the manifest at key, of the log id, or of whatever log it belongs
// to if id is empty.
func load(ctx context.Context, st objstore.Reader, key, id string, opt LoadOptions) (Head, error) {
	fail := func(err error, hint string) (Head, error) {
		return Head{}, &OpError{Op: "load", Log: id, Key: key, Seq: -1, Err: err, Hint: hint}
	}
	var damaged []byte // the body that could not be decoded
	var damage error   // what is wrong with it
	for range maxTorn {
		obj, err := st.Get(ctx, key, objstore.GetOptions{IfNot: opt.IfNot, Limit: maxRead})
		if opt.Clock != nil {
			opt.Clock.Observe(cmp.Or(obj.Date, objstore.DateOf(err)))
		}
		switch {
		case errors.Is(err, objstore.ErrNotExist):
			hint := "check the id and the store; `s3logctl ls` shows the logs of a store"
			if se, ok := errors.AsType[*objstore.Error](err); ok && se.Hint != "" {
				hint = se.Hint // a delete marker
			}
			return fail(fmt.Errorf("%w: %w", ErrNotFound, err), hint)
		case errors.Is(err, objstore.ErrDenied):
			hint := "these credentials may not read the manifest, or it does not exist and they may not list the bucket, which S3 answers alike"
			if se, ok := errors.AsType[*objstore.Error](err); ok && se.Hint != "" {
				hint = se.Hint // a wrong secret key, the owner of a directory
			}
			return fail(err, hint)
		case errors.Is(err, objstore.ErrTooLarge):
			return fail(fmt.Errorf("%w: no manifest has more than %d bytes: %w", segment.ErrCorrupt, MaxManifest, err), "")
		case err != nil:
			return fail(err, "")
		}
		r, err := Decode(obj.Body)
		switch {
		case errors.Is(err, segment.ErrCorrupt) && (damage == nil || !bytes.Equal(damaged, obj.Body)):
			// Some servers cut the body where the one before it ended, while an
			// overwrite is going on. What is damaged stays as it is.
			damaged, damage = obj.Body, err
			continue
		case err != nil:
		case id != "":
			err = r.CheckLog(id)
		case Key(r.Log) != key:
			err = fmt.Errorf("%w: it is the manifest of log %q", segment.ErrCorrupt, r.Log)
		}
		if errors.Is(err, segment.ErrCorrupt) {
			return fail(err, "restore the object from a backup or an older version of it; where there is none, `s3logctl fsck --rebuild LOG` says what can be made of the segments")
		}
		if err != nil {
			return fail(err, "")
		}
		// Some servers take version and metadata from one write and the body from
		// the next while an overwrite is going on.
		if c, ok := obj.Metadata[metaCommit]; ok && c != r.Commit.ID {
			continue
		}
		return Head{Record: r, Version: obj.Version, Info: obj.Info}, nil
	}
	if damage != nil {
		return fail(fmt.Errorf("%w: read %d times in a row while it was changing, at last: %w", objstore.ErrUndecided, maxTorn, hideCorrupt{damage}),
			"try again; the store gives readers parts of what is being written")
	}
	return fail(fmt.Errorf("%w: metadata and body of the manifest come from different writes, at every read", ErrUnsupportedStore),
		"a proxy, or a copy that changed the body and kept the metadata")
}

// hideCorrupt tells of damage that may not be there.
type hideCorrupt struct{ err error }

func (h hideCorrupt) Error() string { return h.err.Error() }

// maxRead bounds what is read before it is parsed.
const maxRead = 2 * MaxManifest

// Metadata of a manifest, for listings. It may be absent.
const (
	metaCommit   = "s3log-commit"
	metaNext     = "s3log-next"
	metaActivity = "s3log-activity"
	metaState    = "s3log-state"
)

func (r *Record) metadata() map[string]string {
	m := map[string]string{metaCommit: r.Commit.ID, metaNext: strconv.FormatInt(r.Next, 10), metaState: string(r.State)}
	if a := r.Content.Activity; a != nil {
		m[metaActivity] = strconv.FormatInt(*a, 10)
	}
	return m
}

// Summary is what a listing needs of a log.
type Summary struct {
	State    LogState
	Next     int64
	Activity *int64
}

// ParseMetadata reads the summary out of an object's metadata; false where it
// is absent or incomplete, and only the manifest itself tells.
func ParseMetadata(m map[string]string) (Summary, bool) {
	s := Summary{State: LogState(m[metaState])}
	next, err := strconv.ParseInt(m[metaNext], 10, 64)
	if err != nil || s.State == "" {
		return Summary{}, false
	}
	s.Next = next
	if text, ok := m[metaActivity]; ok {
		a, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return Summary{}, false
		}
		s.Activity = &a
	}
	return s, true
}

// FencedError says who replaced a writer, and at which seq.
func FencedError(head *Record, writer string) error {
	by := head.Generations[len(head.Generations)-1]
	for _, t := range head.Generations {
		if t.Writer == writer {
			if next, ok := head.TakeoverOf(t.Generation + 1); ok {
				by = next
			}
		}
	}
	label := ""
	if head.Owner != nil && head.Owner.Generation == by.Generation && head.Owner.Label != "" {
		label = " (" + strconv.Quote(head.Owner.Label) + ")"
	}
	return fmt.Errorf("%w: writer %s%s took over at seq %d (generation %d, %s)", ErrFenced, by.Writer, label, by.First, by.Generation, by.Kind)
}

func existing(r *Record) error {
	if r.State == StateDeleted {
		return ErrDeleted
	}
	return fmt.Errorf("%w: it has %s, and its owner is writer %s", ErrExists, words.Count(r.Next, "event"), r.Owner.Writer)
}
