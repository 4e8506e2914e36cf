package backend_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
)

// distant is a store that takes 30 ms for a write, and counts them.
type distant struct {
	objstore.Store
	mu        sync.Mutex
	manifests int
	segments  int
}

func (s *distant) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	time.Sleep(30 * time.Millisecond)
	s.mu.Lock()
	if strings.HasPrefix(key, manifest.ManifestPrefix) {
		s.manifests++
	} else {
		s.segments++
	}
	s.mu.Unlock()
	return s.Store.Put(ctx, key, body, cond, opt)
}

// Of goroutines that append again as soon as they are answered, all are in every
// commit: those of one commit are not spread over the next two. One alone never
// waits for others.
func TestGroupCommitGathersItsCallers(t *testing.T) {
	for _, n := range []int{1, 2, 64} {
		synctest.Test(t, func(t *testing.T) {
			st := &distant{Store: memstore.New(t)}
			l, err := backend.New(st, backend.Options{}).Create("log", backend.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			const rounds = 50
			begin := time.Now()
			var wg sync.WaitGroup
			for g := range n {
				wg.Go(func() {
					for i := range rounds {
						// Whoever has an answer takes a little time for the next question.
						if n > 1 {
							time.Sleep(time.Duration(g) * 5 * time.Microsecond)
						}
						if _, err := l.Append(t.Context(), [][]byte{tagged(fmt.Sprintf("%d-%d", g, i), 20)}, backend.AppendOptions{}); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			if took, most := time.Since(begin), (rounds+2)*31*time.Millisecond; took > most {
				t.Errorf("%d callers: %d appends each took %s, in %d commits", n, rounds, took, st.manifests)
			}
			if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Merging that is paused costs nothing, and a log without it is as readable.
func TestPauseMerging(t *testing.T) {
	for _, foreground := range []bool{false, true} {
		st := &distant{Store: memstore.New(t)}
		synctest.Test(t, func(t *testing.T) {
			l, err := backend.New(st, backend.Options{PauseMerging: true, Foreground: foreground}).Create("log", backend.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 40 {
				if _, err := l.Append(t.Context(), [][]byte{tagged(fmt.Sprint(i), sealing)}, backend.AppendOptions{}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				time.Sleep(time.Second)
			}
			if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
				t.Fatal(err)
			}
		})
		rep, err := backend.NewReader(st, backend.Options{}).Verify(t.Context(), "log", backend.VerifyOptions{})
		if err != nil || !rep.OK() || rep.Segments < 16 || rep.Segments < st.segments-1 { // the last one may have been named by nobody
			t.Errorf("foreground %v: %d segments of %d uploads, %v %v", foreground, rep.Segments, st.segments, rep.Findings, err)
		}
	}
}
