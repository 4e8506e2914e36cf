package backend_test

import (
	"context"
	"iter"
	"time"

	"github.com/s3log/s3log/backend/objstore"
)

// sink is a store that takes every write and keeps nothing, so that what is
// measured is s3log alone. There is nothing to read in it.
type sink struct{ writes, size int } // size: of the newest body

func (s *sink) Put(_ context.Context, key string, body []byte, _ objstore.Condition, _ objstore.PutOptions) (objstore.Info, error) {
	s.writes++
	s.size = len(body)
	return objstore.Info{Key: key, Size: int64(len(body)), Version: sinkVersions[s.writes%len(sinkVersions)], Date: time.Now()}, nil
}

var sinkVersions = [2]objstore.Version{objstore.NewVersion("odd"), objstore.NewVersion("even")}

func (*sink) Get(_ context.Context, key string, _ objstore.GetOptions) (objstore.Object, error) {
	return objstore.Object{}, &objstore.Error{Op: "Get", Key: key, Class: objstore.ErrNotExist}
}

func (*sink) Head(_ context.Context, key string) (objstore.Info, error) {
	return objstore.Info{}, &objstore.Error{Op: "Head", Key: key, Class: objstore.ErrNotExist}
}

func (*sink) List(context.Context, string, string) iter.Seq2[objstore.Info, error] {
	return func(func(objstore.Info, error) bool) {}
}

func (*sink) Delete(context.Context, string) error { return nil }
