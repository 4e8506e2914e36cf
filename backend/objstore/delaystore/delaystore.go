// Package delaystore decorates a store of objects so that it answers as slowly
// as one at the other end of a network, and as rarely as one that takes only so
// many writes per second on one key: what is measured on a laptop then says
// something about a bucket. Delays are drawn from a seed, so that the same calls
// in the same order take the same time. It needs no goroutines and works in
// testing/synctest bubbles; it loses, repeats and changes nothing.
package delaystore

import (
	"context"
	"iter"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/s3log/s3log/backend/objstore"
)

// Latency is a log-normal distribution of round trips, as those of object stores
// roughly are: most near the median, a few much longer, none negative.
type Latency struct {
	// Median is the round trip that half of the requests do not exceed.
	Median time.Duration
	// P99 is the one that 99 of 100 do not exceed. What is not above Median means
	// that all take exactly Median.
	P99 time.Duration
}

// S3 is what small requests to S3 take within its region.
var S3 = Latency{Median: 30 * time.Millisecond, P99: 150 * time.Millisecond}

const (
	z99 = 2.3263478740408408 // of the normal distribution: 99 of 100 are below it
	// maxZ cuts off what would happen once in some thirty thousand requests, and
	// would then be the only thing that a measurement shows.
	maxZ = 4
)

// at is the round trip at z standard deviations from the median.
func (l Latency) at(z float64) time.Duration {
	if l.Median <= 0 {
		return 0
	}
	if l.P99 <= l.Median {
		return l.Median
	}
	sigma := math.Log(float64(l.P99)/float64(l.Median)) / z99
	return time.Duration(float64(l.Median) * math.Exp(sigma*min(max(z, -maxZ), maxZ)))
}

// Options say how slow the store is. The zero value changes nothing.
type Options struct {
	// Latency is that of every request. A List waits once per page of a thousand
	// objects.
	Latency Latency
	// Of has the latencies of kinds that differ: "Get", "Put", "Head", "List",
	// "Delete", "Copy".
	Of map[string]Latency
	// Seed is what the delays are drawn from.
	Seed uint64
	// WritesPerSecond, unless 0, is how many Puts and Copies one key takes: 1 on
	// R2 and on Google Cloud Storage. As many may come at once after a pause, at
	// least one; what comes beyond that is ErrThrottled and has no effect. The store
	// says so to whoever asks (Rate).
	WritesPerSecond float64
}

// Store passes calls on to another store, late. It is safe for concurrent use:
// calls at a time wait at a time. It implements objstore.Copier whether the inner
// store does or not: if not, Copy is ErrUnsupported.
//
// A request spends half of its round trip on its way to the store and half on its
// way back. A call whose context ends in the first half never reaches the inner
// store; one whose context ends in the second has taken effect there. The caller
// hears the same of both, ErrUndecided, as it does from a network.
type Store struct {
	inner objstore.Store
	opt   Options

	mu    sync.Mutex
	rng   *rand.Rand
	meter meter
}

var (
	_ objstore.Store  = (*Store)(nil)
	_ objstore.Copier = (*Store)(nil)
	_ objstore.Rated  = (*Store)(nil)
)

// New decorates inner.
func New(inner objstore.Store, opt Options) *Store {
	return &Store{
		inner: inner, opt: opt,
		rng:   rand.New(rand.NewPCG(opt.Seed, 0xde1a)),
		meter: newMeter(opt.WritesPerSecond),
	}
}

// Unwrap returns the inner store.
func (s *Store) Unwrap() objstore.Store { return s.inner }

// Rate implements objstore.Rated: what one key takes, where Options say so, else
// what the inner store says.
func (s *Store) Rate() objstore.Rate {
	if s.meter.rate > 0 {
		return objstore.Rate{PerSecond: s.meter.rate, Burst: int(s.meter.most)}
	}
	return objstore.RateOf(s.inner)
}

// draw is the round trip of the next request of a kind.
func (s *Store) draw(op string) time.Duration {
	l, ok := s.opt.Of[op]
	if !ok {
		l = s.opt.Latency
	}
	s.mu.Lock()
	z := s.rng.NormFloat64()
	s.mu.Unlock()
	return l.at(z)
}

// do sends one request and brings its reply back.
func (s *Store) do(ctx context.Context, op, key string, send func() error) error {
	trip := s.draw(op)
	if err := sleep(ctx, trip/2); err != nil {
		return undecided(op, key, err)
	}
	err := send()
	if werr := sleep(ctx, trip-trip/2); werr != nil {
		return undecided(op, key, werr)
	}
	return err
}

// write is do for what the rate of a key limits.
func (s *Store) write(ctx context.Context, op, key string, send func() error) error {
	return s.do(ctx, op, key, func() error {
		s.mu.Lock()
		takes := s.meter.takes(key, time.Now())
		s.mu.Unlock()
		if !takes {
			return &objstore.Error{Op: op, Key: key, Class: objstore.ErrThrottled, Code: "SlowDown", Status: 429}
		}
		return send()
	})
}

func undecided(op, key string, cause error) error {
	return &objstore.Error{Op: op, Key: key, Class: objstore.ErrUndecided, Err: cause}
}

// sleep waits for d, or for the end of ctx, which it also sees if d is 0.
func sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Get implements objstore.Reader.
func (s *Store) Get(ctx context.Context, key string, opt objstore.GetOptions) (o objstore.Object, err error) {
	err = s.do(ctx, "Get", key, func() (err error) {
		o, err = s.inner.Get(ctx, key, opt)
		return err
	})
	if err != nil {
		return objstore.Object{}, err
	}
	return o, nil
}

// Head implements objstore.Reader.
func (s *Store) Head(ctx context.Context, key string) (info objstore.Info, err error) {
	err = s.do(ctx, "Head", key, func() (err error) {
		info, err = s.inner.Head(ctx, key)
		return err
	})
	if err != nil {
		return objstore.Info{}, err
	}
	return info, nil
}

// pageSize is how many objects one request of a List returns on S3.
const pageSize = 1000

// List implements objstore.Reader.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		page := func() bool {
			err := sleep(ctx, s.draw("List"))
			if err != nil {
				yield(objstore.Info{}, undecided("List", prefix, err))
			}
			return err == nil
		}
		if !page() {
			return
		}
		n := 0
		for info, err := range s.inner.List(ctx, prefix, after) {
			if n == pageSize && err == nil {
				if n = 0; !page() {
					return
				}
			}
			n++
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (info objstore.Info, err error) {
	err = s.write(ctx, "Put", key, func() (err error) {
		info, err = s.inner.Put(ctx, key, body, cond, opt)
		return err
	})
	if err != nil {
		return objstore.Info{}, err
	}
	return info, nil
}

// Delete implements objstore.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	return s.do(ctx, "Delete", key, func() error { return s.inner.Delete(ctx, key) })
}

// Copy implements objstore.Copier.
func (s *Store) Copy(ctx context.Context, src, dst string) (info objstore.Info, err error) {
	c, ok := s.inner.(objstore.Copier)
	if !ok {
		return objstore.Info{}, &objstore.Error{Op: "Copy", Key: dst, Class: objstore.ErrUnsupported}
	}
	err = s.write(ctx, "Copy", dst, func() (err error) {
		info, err = c.Copy(ctx, src, dst)
		return err
	})
	if err != nil {
		return objstore.Info{}, err
	}
	return info, nil
}
