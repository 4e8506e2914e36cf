package backend

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
)

// Order is how a listing is sorted.
type Order string

const (
	// ByActivity: newest activity first; logs without one come
	// last. An object's own modification time only bounds it.
	ByActivity Order = "activity"
	// ByModified: newest modification of the manifest first, by whatever commit.
	ByModified Order = "modified"
	// ByName: byte order of the escaped ids; the only order that needs no more
	// memory for more logs.
	ByName Order = "name"
)

// ListOptions select and sort a listing. The zero value lists all logs that are
// not deleted, newest activity first.
type ListOptions struct {
	By    Order
	Limit int // 0: all
	// Deleted lists tombstones, too.
	Deleted bool
	// Stored adds up what is stored of each log, which takes one LIST more per
	// thousand segments, and memory for each log that has any.
	Stored bool
}

// Entry is one log of a listing.
type Entry struct {
	Log      string // the id; of a long one whose manifest cannot be read, its key
	State    manifest.LogState
	Next     int64
	Activity *int64    // ms; nil if the log has none
	Modified time.Time // of the manifest
	Size     int64     // of the manifest
	// Stored is the size of all objects of the log, if ListOptions ask for it: of the
	// manifest, and of segments that it names or not.
	Stored int64
	// Err is why nothing but Log, Modified and sizes is known. Other logs are listed
	// all the same.
	Err error

	segments string // what the keys of its segments begin with
}

// sortKey is min(activity, modification) in whole seconds.
func (e *Entry) sortKey() int64 {
	if e.Activity == nil {
		return math.MinInt64
	}
	return min(floorDiv(*e.Activity, 1000), e.Modified.Unix())
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// headsAhead is how many manifests a listing asks about at a time.
const headsAhead = 8

// List iterates over the logs of the store: one LIST per thousand, and one HEAD
// for each log that has to be looked at, which for the newest k by activity is
// about k as long as modification times are honest. Where a store has lost the
// metadata, the manifest is read instead. A failure to list is yielded last; a
// log that cannot be looked at is an entry with Err.
func (r *Reader) List(ctx context.Context, opt ListOptions) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if opt.Limit > 0 {
			left, inner := opt.Limit, yield
			yield = func(e Entry, err error) bool {
				left--
				return inner(e, err) && left > 0
			}
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if opt.Stored {
			sizes, err := r.stored(ctx)
			if err != nil {
				yield(Entry{}, opError("list", "", err))
				return
			}
			inner := yield
			yield = func(e Entry, err error) bool {
				if err == nil {
					e.Stored = e.Size + sizes[e.segments]
				}
				return inner(e, err)
			}
		}
		if opt.By == ByName {
			r.listByName(ctx, opt, yield)
			return
		}
		var all []objstore.Info
		for info, err := range r.manifests(ctx) {
			if err != nil {
				yield(Entry{}, opError("list", "", err))
				return
			}
			all = append(all, info)
		}
		slices.SortStableFunc(all, func(a, b objstore.Info) int { return b.Modified.Compare(a.Modified) })
		r.listNewest(ctx, all, opt, yield)
	}
}

// stored adds up the objects below each log's prefix in the tree of segments.
func (r *Reader) stored(ctx context.Context) (map[string]int64, error) {
	sizes := map[string]int64{}
	for info, err := range r.store.List(ctx, manifest.SegmentTree, "") {
		if err != nil {
			return nil, err
		}
		if end := strings.LastIndexByte(info.Key, '/'); end >= 0 {
			sizes[info.Key[:end+1]] += info.Size
		}
	}
	return sizes, nil
}

// manifests lists the objects that are manifests by their names.
func (r *Reader) manifests(ctx context.Context) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		for info, err := range r.store.List(ctx, manifest.ManifestPrefix, "") {
			if _, _, ok := manifest.ParseKey(info.Key); err == nil && !ok {
				continue
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

// looking asks about logs, several at a time, and has the answers in the order of
// the questions.
type looking struct {
	r     *Reader
	asked []chan result[*Entry] // what has not been taken yet
}

func (l *looking) ask(ctx context.Context, info objstore.Info) {
	answer := make(chan result[*Entry], 1) // which nobody may want any more
	go func() {
		e, err := l.r.look(ctx, info)
		answer <- result[*Entry]{e, err}
	}()
	l.asked = append(l.asked, answer)
}

func (l *looking) take(ctx context.Context) (*Entry, error) {
	got := take(ctx, l.asked[0])
	l.asked = l.asked[1:]
	return got.value, got.err
}

// listByName asks about no more logs ahead than are still to be listed.
func (r *Reader) listByName(ctx context.Context, opt ListOptions, yield func(Entry, error) bool) {
	r.listed(ctx, r.manifests(ctx), opt, yield)
}

// listed looks at manifests in the order in which they are listed.
func (r *Reader) listed(ctx context.Context, manifests iter.Seq2[objstore.Info, error], opt ListOptions, yield func(Entry, error) bool) {
	l := looking{r: r}
	left := math.MaxInt
	if opt.Limit > 0 {
		left = opt.Limit
	}
	listed := func() bool {
		e, err := l.take(ctx)
		if err != nil {
			yield(Entry{}, opError("list", "", err))
			return false
		}
		if !opt.shows(e) {
			return true
		}
		left--
		return yield(*e, nil)
	}
	var failed error
	for info, err := range manifests {
		if failed = err; err != nil {
			break
		}
		for len(l.asked) >= min(headsAhead, left) {
			if !listed() {
				return
			}
		}
		l.ask(ctx, info)
	}
	for len(l.asked) > 0 {
		if !listed() {
			return
		}
	}
	if failed != nil {
		yield(Entry{}, opError("list", "", failed))
	}
}

// listNewest walks the manifests, newest modification first, and yields an entry
// as soon as none that is still to come can be before it. It asks about no more
// logs ahead than are still to be found.
func (r *Reader) listNewest(ctx context.Context, all []objstore.Info, opt ListOptions, yield func(Entry, error) bool) {
	waiting := &entryHeap{by: opt.By}
	left := math.MaxInt
	if opt.Limit > 0 {
		left = opt.Limit
	}
	l := looking{r: r}
	for asked := 0; ; {
		coming := all[asked-len(l.asked):]
		if waiting.Len() > 0 && (len(coming) == 0 || waiting.key(0) >= coming[0].Modified.Unix()) {
			if !yield(*heap.Pop(waiting).(*Entry), nil) {
				return
			}
			left--
			continue
		}
		if len(coming) == 0 {
			return
		}
		ahead := headsAhead
		if need := left - waiting.Len(); need > 0 {
			ahead = min(ahead, need)
		} // else enough are known, and may all be older than what comes
		for asked < len(all) && len(l.asked) < ahead {
			l.ask(ctx, all[asked])
			asked++
		}
		e, err := l.take(ctx)
		if err != nil {
			yield(Entry{}, opError("list", "", err))
			return
		}
		if opt.shows(e) {
			heap.Push(waiting, e)
		}
	}
}

func (o ListOptions) shows(e *Entry) bool {
	switch {
	case e == nil:
		return false
	case e.Err != nil:
		return true
	case e.State == manifest.StateVoid:
		return false
	}
	return e.State != manifest.StateDeleted || o.Deleted
}

// look finds out about one log; nil if it is gone by now. Only the end of ctx is
// an error.
func (r *Reader) look(ctx context.Context, info objstore.Info) (*Entry, error) {
	id, exact, _ := manifest.ParseKey(info.Key)
	if !exact {
		id = info.Key // until the manifest says
	}
	e := &Entry{Log: id, Modified: info.Modified, Size: info.Size, segments: segmentPrefixOf(info.Key)}
	if exact {
		head, err := r.store.Head(ctx, info.Key)
		r.clock.Observe(head.Date)
		if s, ok := manifest.ParseMetadata(head.Metadata); ok && err == nil {
			e.State, e.Next, e.Activity = s.State, s.Next, s.Activity
			return e, nil
		}
		if errors.Is(err, objstore.ErrNotExist) {
			return nil, nil
		}
		if ctx.Err() != nil { // nobody wants to know any more
			return nil, context.Cause(ctx)
		}
	}
	head, err := manifest.LoadKey(ctx, r.store, info.Key, manifest.LoadOptions{Clock: &r.clock})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err != nil:
		e.Err = err
		return e, nil
	}
	e.Log, e.State, e.Next, e.Activity = head.Record.Log, head.Record.State, head.Record.Next, head.Record.Content.Activity
	return e, nil
}

// entryHeap has the entry that is to be listed next on top.
type entryHeap struct {
	by   Order
	list []*Entry
}

func (h *entryHeap) key(i int) int64 {
	if h.by == ByModified {
		return h.list[i].Modified.Unix()
	}
	return h.list[i].sortKey()
}

func (h *entryHeap) Len() int { return len(h.list) }

func (h *entryHeap) Less(i, j int) bool {
	if c := cmp.Compare(h.key(i), h.key(j)); c != 0 {
		return c > 0
	}
	if h.by == ByModified {
		if c := h.list[i].Modified.Compare(h.list[j].Modified); c != 0 {
			return c > 0
		}
	}
	return h.list[i].Log < h.list[j].Log
}

func (h *entryHeap) Swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *entryHeap) Push(e any)    { h.list = append(h.list, e.(*Entry)) }
func (h *entryHeap) Pop() any {
	e := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return e
}
