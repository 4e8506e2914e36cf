package bench

import (
	"math"
	"runtime/metrics"
	"slices"
	"sync"
	"time"
)

// Quantiles say how long something took, of Count times.
type Quantiles struct {
	Count                    int
	P50, P90, P99, Max, Mean time.Duration
}

// quantiles sorts d. The quantile q is the smallest of them that a part q of all
// does not exceed.
func quantiles(d []time.Duration) Quantiles {
	if len(d) == 0 {
		return Quantiles{}
	}
	slices.Sort(d)
	at := func(q float64) time.Duration {
		return d[max(0, int(math.Ceil(q*float64(len(d))))-1)]
	}
	return Quantiles{Count: len(d), P50: at(.5), P90: at(.9), P99: at(.99), Max: d[len(d)-1], Mean: sum(d) / time.Duration(len(d))}
}

func sum(d []time.Duration) (s time.Duration) {
	for _, v := range d {
		s += v
	}
	return s
}

// heapObjects is what objects have, also those that wait to be collected.
const heapObjects = "/memory/classes/heap/objects:bytes"

// watchHeap keeps the largest heap in most until stop is called.
func watchHeap(most *uint64) (stop func()) {
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		sample := []metrics.Sample{{Name: heapObjects}}
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			metrics.Read(sample)
			*most = max(*most, sample[0].Value.Uint64())
			select {
			case <-tick.C:
			case <-end:
				return
			}
		}
	})
	return func() {
		close(end)
		wg.Wait()
	}
}
