// Package place opens a store by its name, for the examples. A program of its
// own would know which driver it wants.
package place

import (
	"context"
	"strings"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/backend/objstore/s3store"
)

// Open opens a bucket (s3://bucket/prefix?region=…, with credentials from where
// AWS tools find them) or a directory, for reading only or also for writing. The
// function closes it.
func Open(ctx context.Context, name string, readOnly bool) (objstore.Store, func(), error) {
	if strings.HasPrefix(name, "s3://") {
		c, err := s3store.ParseURL(name)
		if err != nil {
			return nil, nil, err
		}
		store, err := s3store.Open(ctx, c)
		return store, func() {}, err
	}
	store, err := filestore.Open(name, filestore.Options{ReadOnly: readOnly})
	if err != nil {
		return nil, nil, err
	}
	return store, func() { _ = store.Close() }, nil
}
