package report

import (
	"context"
	"fmt"
	"slices"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/manifest"
)

// gather reads the events that info counts. What cannot be read is a gap in the
// timeline, and reading goes on behind it.
func gather(ctx context.Context, r *backend.Reader, info *backend.Info, t *timeline, progress func(int64)) error {
	last := info.Next - 1
	if last < 0 {
		t.end()
		return nil
	}
	for e, err := range r.Events(ctx, info.Log, backend.ReadOptions{To: &last, Damaged: t.gap}) {
		if err != nil {
			return err
		}
		t.add(e)
		if progress != nil {
			progress(1)
		}
	}
	t.end()
	return nil
}

// ancestor is a log that another one was forked from.
type ancestor struct {
	manifest.Parent
	// Unread says why it could not be looked at; else:
	Unread   string
	Next     int64
	Revision int64
	Kind     string // how it was born itself
}

// maxAncestors bounds how far a lineage is followed.
const maxAncestors = 16

// ancestors follows the origins of a log as far as they can be read, the parent
// first: one GET each. In other stores, src reads them.
func ancestors(ctx context.Context, r *backend.Reader, info *backend.Info, src *backend.Reader) (list []ancestor) {
	if src == nil {
		src = r
	}
	seen := []string{info.UID}
	origin := info.Origin
	for origin != nil && origin.Parent != nil && len(list) < maxAncestors {
		a := ancestor{Parent: *origin.Parent}
		parent, err := src.Info(ctx, a.Log)
		switch {
		case err != nil:
			a.Unread = err.Error()
		case parent.UID != a.UID:
			a.Unread = fmt.Sprintf("another log has this id now, with uid %s", parent.UID)
		case parent.State != manifest.StateOpen:
			a.Unread = "it was deleted"
		case slices.Contains(seen, a.UID):
			a.Unread = "it is among its own ancestors"
		}
		if a.Unread != "" {
			return append(list, a)
		}
		seen = append(seen, a.UID)
		a.Next, a.Revision, origin = parent.Next, parent.Revision, parent.Origin
		if origin != nil {
			a.Kind = origin.Kind
		}
		list = append(list, a)
	}
	return list
}
