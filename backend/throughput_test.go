package backend_test

import (
	"bytes"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/sessiongen"
)

// 64 goroutines that append batches of 25 events to one log, on a store that
// takes 30 ms for a write and nothing else that takes time: every commit has
// them all. Of three commits one waits for the seal that makes room for it.
func TestThroughputAtADistance(t *testing.T) {
	const goroutines, batch, rounds = 64, 25, 40
	g := sessiongen.New(sessiongen.Options{Seed: 3, Events: goroutines * batch * rounds})
	batches := make([][][]byte, 0, goroutines*rounds)
	for range goroutines * rounds {
		var b [][]byte
		for range batch {
			line, ok := g.Next()
			if !ok {
				t.Fatal("too few events")
			}
			b = append(b, seqless(bytes.Clone(line)))
		}
		batches = append(batches, b)
	}
	synctest.Test(t, func(t *testing.T) {
		st := &distant{Store: memstore.New(t)}
		l, err := backend.New(st, backend.Options{}).Create("log", backend.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		var wg sync.WaitGroup
		for i := range goroutines {
			wg.Go(func() {
				for r := range rounds {
					if _, err := l.Append(t.Context(), batches[i*rounds+r], backend.AppendOptions{Boundary: true}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		took := time.Since(begin)
		if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
			t.Fatal(err)
		}
		perSecond := float64(goroutines*batch*rounds) / took.Seconds()
		t.Logf("%.0f events/s: %d commits and %d segments in %s", perSecond, st.manifests, st.segments, took)
		if perSecond < 35_000 {
			t.Errorf("%.0f events/s, of %d that fit into a round trip of 30 ms", perSecond, goroutines*batch*1000/30)
		}
	})
}

// seqless is an event without the seq that its generator gave it.
func seqless(line []byte) []byte {
	i := bytes.Index(line, []byte(`"seq":`))
	if i < 0 {
		return line
	}
	end := i + bytes.IndexByte(line[i:], ',') + 1
	return append(line[:i:i], line[end:]...)
}
