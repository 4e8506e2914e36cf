package bench

import (
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// heapObjects is what objects have, also those that wait to be collected.
const heapObjects = "/memory/classes/heap/objects:bytes"

// heapWatch finds the largest heap while it is on.
type heapWatch struct {
	on   atomic.Bool
	most uint64 // before stop: the watching goroutine's
	end  chan struct{}
	wg   sync.WaitGroup
}

func watchHeap() *heapWatch {
	w := &heapWatch{end: make(chan struct{})}
	w.wg.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			if w.on.Load() {
				w.most = max(w.most, heap())
			}
			select {
			case <-tick.C:
			case <-w.end:
				return
			}
		}
	})
	return w
}

func (w *heapWatch) stop() uint64 {
	close(w.end)
	w.wg.Wait()
	if w.most == 0 { // it was never on for long enough
		return heap()
	}
	return w.most
}

func heap() uint64 {
	sample := []metrics.Sample{{Name: heapObjects}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
