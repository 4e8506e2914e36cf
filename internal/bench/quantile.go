package bench

import (
	"math"
	"slices"
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
