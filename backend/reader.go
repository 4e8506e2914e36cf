package backend

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// Reader reads logs. It never writes, and lists only where logs are listed, so
// that GetObject on a log's keys is enough for everything else. It is safe for
// concurrent use.
type Reader struct {
	store objstore.Reader
	opt   Options
	clock objstore.Clock

	mu   sync.Mutex
	seen map[string]seen // newest revision seen per id
}

type seen struct {
	uid      string
	revision int64
}

// maxSeen bounds what a Reader remembers of the logs that it has read.
const maxSeen = 4096

// NewReader makes a Reader on a store. It sends nothing.
func NewReader(store objstore.Reader, opt Options) *Reader {
	return &Reader{store: store, opt: opt.withDefaults(), seen: make(map[string]seen)}
}

// now is the store's time in ms.
func (r *Reader) now() int64 { return r.clock.Now().UnixMilli() }

// load reads a manifest and refuses one that is older than what this Reader has
// seen of the same log.
func (r *Reader) load(ctx context.Context, id string) (manifest.Head, error) {
	return r.loadIf(ctx, id, objstore.Version{})
}

func (r *Reader) loadIf(ctx context.Context, id string, ifNot objstore.Version) (manifest.Head, error) {
	if err := manifest.CheckID(id); err != nil {
		return manifest.Head{}, err
	}
	was := r.lastSeen(id)
	head, err := manifest.Load(ctx, r.store, id, manifest.LoadOptions{Clock: &r.clock, IfNot: ifNot})
	if err != nil {
		return head, err
	}
	// What counts is what had been seen when the read began: of two reads at a
	// time the older one may well be answered last.
	if rec := head.Record; was.uid == rec.UID && rec.Revision < was.revision {
		return head, &OpError{Op: "load", Log: id, Key: manifest.Key(id), Seq: -1,
			Err:  fmt.Errorf("%w: revision %d, %d was seen before", ErrRolledBack, rec.Revision, was.revision),
			Hint: "an older manifest was put back, or a cache or replica answers with old objects; compare with a root noted elsewhere (`s3logctl verify --since`)"}
	}
	r.remember(id, head.Record)
	return head, nil
}

func (r *Reader) lastSeen(id string) seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[id]
}

// remember notes a version that was read or written.
func (r *Reader) remember(id string, rec *manifest.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, known := r.seen[id]
	if was.uid == rec.UID && was.revision >= rec.Revision {
		return
	}
	if !known && len(r.seen) >= maxSeen {
		for other := range r.seen {
			delete(r.seen, other)
			break
		}
	}
	r.seen[id] = seen{rec.UID, rec.Revision}
}

// Info is what one log's manifest says.
type Info struct {
	Log        string
	UID        string
	State      manifest.LogState
	Revision   int64
	Generation int64
	Epoch      uint32
	Next       int64
	Header     []byte // raw JSON, nil if there is none
	Content    segment.State
	Origin     *manifest.Origin
	Lifecycle  *manifest.Lifecycle
	Owner      *manifest.Owner
	Commit     manifest.CommitInfo
	History    []manifest.Takeover // the newest 64 takeovers, oldest first
	Segments   []manifest.SegmentRef
	Tail       int64 // events that are in the manifest itself
	TailBytes  int64 // their compressed size
	Bytes      int64 // of the manifest as stored
	Lease      *manifest.Lease
	LeaseState string // none, held, expired
}

// Info reads one log's manifest: one GET. A deleted log has State deleted.
func (r *Reader) Info(ctx context.Context, id string) (Info, error) {
	head, err := r.load(ctx, id)
	if err == nil && head.Record.State == manifest.StateVoid {
		err = fmt.Errorf("%w: only a void is there", ErrNotFound)
	}
	if err != nil {
		return Info{}, opError("info", id, err)
	}
	rec := head.Record
	inTail := rec.Next - rec.TailFirst()
	if rec.State != manifest.StateOpen {
		inTail = 0
	}
	return Info{
		Log: rec.Log, UID: rec.UID, State: rec.State, Revision: rec.Revision, Generation: rec.Generation(), Epoch: rec.Epoch,
		Next: rec.Next, Header: rec.Header, Content: rec.Content, Origin: rec.Origin, Lifecycle: rec.Lifecycle,
		Owner: rec.Owner, Commit: rec.Commit, History: rec.Generations, Segments: rec.Segments,
		Tail: inTail, TailBytes: int64(len(rec.Tail)), Bytes: head.Info.Size,
		Lease: rec.Lease, LeaseState: seedpath.LeaseState(rec, r.now()),
	}, nil
}

// open is load for whoever wants events.
func (r *Reader) open(ctx context.Context, id string) (manifest.Head, error) {
	head, err := r.load(ctx, id)
	if err != nil {
		return head, err
	}
	return head, readable(head.Record)
}

func readable(rec *manifest.Record) error {
	switch rec.State {
	case manifest.StateDeleted:
		return ErrDeleted
	case manifest.StateVoid:
		return fmt.Errorf("%w: only a void is there", ErrNotFound)
	}
	return nil
}

// notThere reports whether a segment could not be had: missing, or denied, which
// without the right to list is how S3 says missing.
func notThere(err error) bool {
	return errors.Is(err, objstore.ErrNotExist) || errors.Is(err, objstore.ErrDenied)
}
