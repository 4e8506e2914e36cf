package backend_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
)

// missing counts the segments that a reader has asked for and not got.
type missing struct {
	*frozen
	n atomic.Int64
}

func (m *missing) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	o, err := m.frozen.Get(ctx, key, opt)
	if errors.Is(err, objstore.ErrNotExist) && strings.HasPrefix(key, manifest.SegmentTree) {
		m.n.Add(1)
	}
	return o, err
}

// A reader stands still at any request while everything that it is about to read
// is replaced and collected. Within the grace it meets no object that is gone;
// later it finds its events through a newer manifest. What it yields is right, and
// all of it.
func TestReadersFrozenBesideCollections(t *testing.T) {
	for _, wait := range []time.Duration{day - time.Minute, 10 * day} {
		for _, prefetch := range []int{1, 4} {
			gone := int64(0)
			for at := 1; ; at++ {
				struck := ""
				synctest.Test(t, func(t *testing.T) {
					mem := memstore.New(t)
					segmented(t, mem, "log", 7, 40_000)
					want := read(t, backend.NewReader(mem, backend.Options{}), "log", 0)
					f := &missing{frozen: &frozen{store: mem, at: at, world: func() {
						foldNow(t, mem, "log")
						time.Sleep(wait)
						collect(t, mem, backend.GCOptions{})
					}}}
					r := backend.NewReader(f, backend.Options{Prefetch: prefetch})
					got, err := readAll(t.Context(), r, "log", 0)
					if err != nil || !slices.Equal(got, want) {
						t.Errorf("%s at request %d: %d of %d events, %v", wait, at, len(got), len(want), err)
					}
					if struck = f.struck; wait < day && f.n.Load() > 0 {
						t.Errorf("%s at request %d, %s: %d objects were gone within the grace", wait, at, struck, f.n.Load())
					}
					gone += f.n.Load()
				})
				if struck == "" {
					if at < 8 {
						t.Errorf("%d requests", at-1)
					}
					break
				}
			}
			if wait > day && gone == 0 {
				t.Error("no reader has met an object that was gone: the test shows too little")
			}
		}
	}
}

// A reader that sleeps over the grace at every object gets a right beginning, and
// then an error that says to try again, never a finding.
func TestReaderThatSleepsOverEveryGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		segmented(t, mem, "log", 3, 40_000)
		want := read(t, backend.NewReader(mem, backend.Options{}), "log", 0)
		sleeper := &sleepy{Store: mem, before: func() {
			rewriteRetiring(t, mem, "log")
			time.Sleep(2 * day)
			collect(t, mem, backend.GCOptions{})
		}}
		got, err := readAll(t.Context(), backend.NewReader(sleeper, backend.Options{Prefetch: 1}), "log", 0)
		if err == nil || !strings.Contains(err.Error(), "try again") || errors.Is(err, backend.ErrMissing) || errors.Is(err, backend.ErrCorrupt) || !slices.Equal(got, want[:len(got)]) {
			t.Errorf("%d events, %v", len(got), err)
		}
		time.Sleep(3 * day) // what it had asked for ahead ends, too
		verifyClean(t, backend.NewReader(mem, backend.Options{}), "log")
	})
}

// sleepy is a store whose every read of a segment comes late.
type sleepy struct {
	objstore.Store
	before func()
}

func (s *sleepy) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	if strings.HasPrefix(key, manifest.SegmentTree) {
		s.before()
	}
	return s.Store.Get(ctx, key, opt)
}

// rewriteRetiring replaces all segments of a log by others, and leaves the old
// ones to gc.
func rewriteRetiring(t *testing.T, mem *memstore.Store, id string) {
	t.Helper()
	before := mem.Snapshot(manifest.SegmentPrefix(id))
	rewrite(t, mem, id)
	// Others may remove: here they are put back, for gc to find.
	for key, body := range before {
		mem.Replace(key, body)
	}
}

// A fork of more than 8 MiB copies its parent's segments one by one. It may stand
// still at any request, while its parent is folded or deleted and everything is
// collected.
func TestForkOfALargeParentFrozen(t *testing.T) {
	stride := 3
	if os.Getenv("S3LOG_LONG") != "" {
		stride = 1
	} else if testing.Short() || raceDetector {
		stride = 9
	}
	a := actor{name: "a fork of a large parent", start: func(t *testing.T, mem *memstore.Store, l *ledger) {
		objects, err := bigObjects()
		if err != nil {
			t.Fatal(err)
		}
		for key, body := range objects {
			if !strings.Contains(key, "quiet") {
				mem.Replace(key, body)
			}
		}
	}, act: func(b *backend.Backend, l *ledger) error {
		at := int64(sealed - 10)
		_, _, err := b.Fork(context.Background(), "log", "child", backend.ForkOptions{At: &at, Release: true})
		if err != nil {
			return err
		}
		return l.whole(b.Reader, "child")
	}}
	for i, w := range worlds {
		if raceDetector && i > 0 {
			break
		}
		if w.lost != nil && w.lost[0] == backend.ErrFenced {
			continue // of the parent's owner, which is nothing to a fork
		}
		frozenAtRequests(t, a, w, true, i%stride, stride, nil)
	}
}
