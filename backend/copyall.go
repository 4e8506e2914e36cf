package backend

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"strings"

	"golang.org/x/sync/semaphore"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
)

// CopyAll copies every log of another store, as Copy does, several at a time. It
// costs one LIST per thousand logs beside that. Deleted logs and voids are passed
// over: their copies, if there are any, stay as they are.
//
// It yields one report per log, in the order of the keys; what goes wrong with a
// log is in CopyReport.Err, and the rest goes on. A failure to list, or the end of
// ctx, is yielded last, with a zero CopyReport. A consumer that leaves cancels what
// is under way. See also CopyOptions.OnlyThere.
func (b *Backend) CopyAll(ctx context.Context, src *Reader, opt CopyOptions) iter.Seq2[CopyReport, error] {
	return func(yield func(CopyReport, error) bool) {
		room := semaphore.NewWeighted(copyRoom)
		one := func(ctx context.Context, info objstore.Info) (*CopyReport, error) {
			return b.copyListed(ctx, src, info, opt, room)
		}
		var more *extras
		if opt.OnlyThere != nil {
			next, stop := iter.Pull2(b.manifests(ctx))
			defer stop()
			more = &extras{next: next}
		}
		var batch []objstore.Info
		flush := func() bool {
			ctx, cancel := context.WithCancel(ctx)
			copies, workers := fetching(ctx, batch, logsAtATime, one)
			defer func() {
				cancel()
				workers.Wait()
			}()
			for _, ch := range copies {
				got := take(ctx, ch)
				if got.err != nil {
					yield(CopyReport{}, opError("copy", "", got.err))
					return false
				}
				if got.value != nil && !yield(*got.value, nil) {
					return false
				}
			}
			batch = batch[:0]
			return true
		}
		for info, err := range src.manifests(ctx) {
			if err != nil {
				if flush() {
					yield(CopyReport{}, opError("copy", "", atSource(err)))
				}
				return
			}
			more.pass(info.Key)
			if batch = append(batch, info); len(batch) == 4*logsAtATime && !flush() {
				return
			}
		}
		if flush() {
			more.tell(ctx, b.Reader, opt.OnlyThere)
		}
	}
}

// extras finds in a listing what another one does not have. Both are in the order
// of their keys; the other one is told of key by key.
type extras struct {
	next  func() (objstore.Info, error, bool)
	ahead *objstore.Info // listed, and not compared yet
	infos []objstore.Info
	err   error // the listing failed
}

// pass compares with the next key of the other listing.
func (x *extras) pass(key string) {
	if x == nil {
		return
	}
	for {
		if x.ahead == nil {
			info, err, ok := x.next()
			if !ok || err != nil {
				x.err = cmp.Or(x.err, err)
				return
			}
			x.ahead = &info
		}
		switch c := strings.Compare(x.ahead.Key, key); {
		case c > 0:
			return
		case c < 0:
			x.infos = append(x.infos, *x.ahead)
		}
		x.ahead = nil
	}
}

// last is behind all keys of manifests.
const last = manifest.ManifestPrefix + "\xff"

// tell looks at what was found, when the other listing has ended.
func (x *extras) tell(ctx context.Context, r *Reader, told func(Entry, error)) {
	if x == nil {
		return
	}
	x.pass(last)
	r.listed(ctx, func(yield func(objstore.Info, error) bool) {
		for _, info := range x.infos {
			if !yield(info, nil) {
				return
			}
		}
		if x.err != nil {
			yield(objstore.Info{}, x.err)
		}
	}, ListOptions{}, func(e Entry, err error) bool {
		told(e, err)
		return true
	})
}

// copyListed copies the log of a manifest that was listed; nil if there is none,
// or none any more. Only the end of ctx is an error.
func (b *Backend) copyListed(ctx context.Context, src *Reader, info objstore.Info, opt CopyOptions, room *semaphore.Weighted) (*CopyReport, error) {
	id, exact, _ := manifest.ParseKey(info.Key)
	var rep CopyReport
	var err error
	if !exact { // only the manifest knows the id
		var head manifest.Head
		head, err = manifest.LoadKey(ctx, src.store, info.Key, manifest.LoadOptions{Clock: &src.clock})
		switch {
		case err == nil:
			id = head.Record.Log
		case errors.Is(err, ErrNotFound):
			return nil, nil
		default:
			rep.Log, err = info.Key, opError("copy", "", atSource(err))
		}
	}
	if err == nil {
		rep, err = b.copyLog(ctx, src, id, opt, room)
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, errNoSource):
		return nil, nil
	}
	rep.Err = err
	return &rep, nil
}

// errNoSource: the source has no log, or none any more.
var errNoSource = errors.New("nothing to copy")

// noSource marks an error which says that there is no log at the source.
type noSource struct{ error }

func (e noSource) Unwrap() []error { return []error{e.error, errNoSource} }

// CopyAs makes a new log of the events of another, which may be on another store:
// it is fresh, has the same header and the same events, and so the same Merkle
// root, but no boundary, and nothing of the owners, keys and lifecycles of the
// source. It is Import of what is read: where the log is there already, only what
// the source has more is appended, and anything but its first events is ErrExists.
func (b *Backend) CopyAs(ctx context.Context, src *Reader, id, as string, opt AdoptOptions) (Receipt, error) {
	head, err := src.open(ctx, id)
	if err != nil {
		return Receipt{}, opError("copy", id, atSource(err))
	}
	events := func(yield func([]byte, error) bool) {
		_, _ = src.span(ctx, head, 0, head.Record.Next, func(e Event, err error) bool {
			if err != nil {
				err = atSource(err)
			}
			return yield(e.Line, err)
		})
	}
	return b.Import(ctx, as, events, ImportOptions{Header: head.Record.Header, Types: ownPlaces(head.Record.Content.Types), AdoptOptions: opt})
}
