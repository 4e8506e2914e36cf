package backend

import (
	"context"
	"errors"
	"iter"

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
// is under way.
func (b *Backend) CopyAll(ctx context.Context, src *Reader, opt CopyOptions) iter.Seq2[CopyReport, error] {
	return func(yield func(CopyReport, error) bool) {
		room := semaphore.NewWeighted(copyRoom)
		one := func(ctx context.Context, info objstore.Info) (*CopyReport, error) {
			return b.copyListed(ctx, src, info, opt, room)
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
			if batch = append(batch, info); len(batch) == 4*logsAtATime && !flush() {
				return
			}
		}
		flush()
	}
}

// OnlyHere lists the logs of this store that are not at another one, not even as a
// tombstone: logs that were copied from there once, and have been lost there, or that
// somebody else has put here. Deleted logs are not among them. It costs one LIST
// per thousand logs on either side, and a look at each log that it yields. A failure
// to list is yielded last; a log that cannot be looked at is an Entry with Err.
func (r *Reader) OnlyHere(ctx context.Context, other *Reader) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		there := map[string]bool{}
		for info, err := range other.manifests(ctx) {
			if err != nil {
				yield(Entry{}, opError("list", "", err))
				return
			}
			there[info.Key] = true
		}
		r.listed(ctx, func(yield func(objstore.Info, error) bool) {
			for info, err := range r.manifests(ctx) {
				if (err != nil || !there[info.Key]) && !yield(info, err) {
					return
				}
			}
		}, ListOptions{}, yield)
	}
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
