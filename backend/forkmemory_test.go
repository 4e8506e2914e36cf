package backend_test

import (
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/filestore"
)

// The memory of a fork does not grow with its parent.
func TestForkMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 48 MB")
	}
	store, err := filestore.Open(t.TempDir(), filestore.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	b := backend.New(store, backend.Options{Foreground: true})
	rng := rand.New(rand.NewPCG(3, 4))
	l := create(t, b, "log")
	for i := range 12 {
		if _, err := l.Append(t.Context(), [][]byte{noise(rng, i, 4<<20)}, backend.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	closeLog(t, l)
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // what is measured is in use, or nearly
	for name, st := range map[string]objstore.Store{"inside": store, "through": noCopies{store}} {
		b := backend.New(st, backend.Options{})
		runtime.GC()
		peak := watchHeap()
		forked(t, b, "log", name, backend.ForkOptions{})
		grown := peak()
		t.Logf("%s: %d MB on the heap at most", name, grown>>20)
		if grown > 40<<20 { // of 48 raw, 36 stored
			t.Errorf("%s: %d bytes on the heap", name, grown)
		}
		verifyClean(t, b.Reader, name)
	}
}

// watchHeap measures by how much the heap grows until the function that it
// returns is called.
func watchHeap() func() uint64 {
	var stop atomic.Bool
	done := make(chan uint64)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	base := heap()
	go func() {
		most := base
		for !stop.Load() {
			most = max(most, heap())
			time.Sleep(2 * time.Millisecond)
		}
		done <- most - base
	}()
	return func() uint64 {
		stop.Store(true)
		return <-done
	}
}
