package delaystore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	. "github.com/s3log/s3log/backend/objstore/delaystore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/objstoretest"
)

const ms = time.Millisecond

// fixed makes every request take so long.
func fixed(d time.Duration) Options { return Options{Latency: Latency{Median: d, P99: d}} }

func put(ctx context.Context, s objstore.Store, key, body string, c objstore.Condition) (objstore.Version, error) {
	info, err := s.Put(ctx, key, []byte(body), c, objstore.PutOptions{})
	return info.Version, err
}

func took(f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin)
}

// The suite breaks rules on purpose, so the memory is without a judge here.
func TestContract(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store {
		return New(memstore.New(nil), Options{Latency: Latency{Median: 100 * time.Microsecond, P99: ms}})
	}, objstoretest.Options{Metadata: true, Keys: 1100, Rounds: 3})
}

// Half of the requests take at most the median, 99 of 100 at most P99, and none
// is free or takes for ever.
func TestLatenciesAreThoseAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(memstore.New(t), Options{Latency: S3, Seed: 7})
		const n = 20_000
		var all []time.Duration
		for range n {
			all = append(all, took(func() {
				if _, err := s.Head(t.Context(), "k"); !errors.Is(err, objstore.ErrNotExist) {
					t.Fatal(err)
				}
			}))
		}
		slices.Sort(all)
		for _, q := range []struct {
			of         float64
			low, above time.Duration
		}{{0, ms, 10 * ms}, {.5, 29 * ms, 31 * ms}, {.99, 135 * ms, 165 * ms}, {.99999, 250 * ms, 600 * ms}} {
			if d := all[int(q.of*n)]; d < q.low || d > q.above {
				t.Errorf("quantile %v is %v, want %v to %v", q.of, d, q.low, q.above)
			}
		}
	})
}

func TestEqualSeedsTakeEquallyLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := func(seed uint64) (all []time.Duration) {
			s := New(memstore.New(t), Options{Latency: S3, Seed: seed})
			for i := range 20 {
				all = append(all, took(func() {
					if _, err := put(t.Context(), s, fmt.Sprint("k", i), "x", objstore.IfAbsent()); err != nil {
						t.Error(err)
					}
				}))
			}
			return all
		}
		if a, b := run(1), run(1); !slices.Equal(a, b) {
			t.Errorf("%v, then %v", a, b)
		}
		if a, b := run(1), run(2); slices.Equal(a, b) {
			t.Errorf("another seed makes no difference: %v", a)
		}
	})
}

// The zero value changes nothing, a median alone is what all requests take, and
// a kind may have a latency of its own.
func TestLatencyByKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tt := range map[string]struct {
			opt       Options
			put, head time.Duration
		}{
			"zero":     {Options{}, 0, 0},
			"one":      {Options{Latency: Latency{Median: 30 * ms}}, 30 * ms, 30 * ms},
			"own":      {Options{Latency: Latency{Median: 30 * ms}, Of: map[string]Latency{"Put": {Median: 50 * ms}}}, 50 * ms, 30 * ms},
			"one free": {Options{Latency: Latency{Median: 30 * ms}, Of: map[string]Latency{"Head": {}}}, 30 * ms, 0},
		} {
			s := New(memstore.New(t), tt.opt)
			if d := took(func() { put(t.Context(), s, "k", "x", objstore.IfAbsent()) }); d != tt.put {
				t.Errorf("%s: a Put took %v, want %v", name, d, tt.put)
			}
			if d := took(func() { s.Head(t.Context(), "k") }); d != tt.head {
				t.Errorf("%s: a Head took %v, want %v", name, d, tt.head)
			}
		}
	})
}

// What was cancelled on its way to the store has no effect, what was cancelled
// on the way back has one, and the caller cannot tell.
func TestCancelledOnTheWay(t *testing.T) {
	for _, tt := range []struct {
		name    string
		after   time.Duration
		applied bool
	}{{"before", 0, false}, {"to the store", 30 * ms, false}, {"from the store", 70 * ms, true}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New(t)
				s := New(mem, fixed(100*ms))
				ctx, cancel := context.WithTimeout(t.Context(), tt.after)
				defer cancel()
				var err error
				if d := took(func() { _, err = put(ctx, s, "k", "x", objstore.IfAbsent()) }); d != tt.after {
					t.Errorf("it took %v", d)
				}
				if !errors.Is(err, context.DeadlineExceeded) || objstore.Classify(err) != objstore.Undecided {
					t.Errorf("error %v, want an undecided one", err)
				}
				time.Sleep(time.Second)
				if got := len(mem.Snapshot("")) == 1; got != tt.applied {
					t.Errorf("applied is %v, want %v", got, tt.applied)
				}
			})
		})
	}
}

func TestCallsAtATimeWaitAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(memstore.New(t), fixed(100*ms))
		d := took(func() {
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					if _, err := put(t.Context(), s, fmt.Sprint(i), "x", objstore.IfAbsent()); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		})
		if d != 100*ms {
			t.Errorf("50 writes at a time took %v", d)
		}
	})
}

func TestListWaitsPerPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		for i := range 2001 {
			if _, err := put(t.Context(), mem, fmt.Sprintf("k%04d", i), "x", objstore.IfAbsent()); err != nil {
				t.Fatal(err)
			}
		}
		s := New(mem, fixed(100*ms))
		for after, pages := range map[string]time.Duration{"": 3, "k0000": 2, "k1000": 1, "k1999": 1, "k2000": 1} {
			n := 0
			d := took(func() {
				for _, err := range s.List(t.Context(), "k", after) {
					if err != nil {
						t.Error(err)
					}
					n++
				}
			})
			if d != pages*100*ms {
				t.Errorf("%d objects took %v, want %d round trips", n, d, pages)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 150*ms)
		defer cancel()
		n, last := 0, error(nil)
		for _, err := range s.List(ctx, "k", "") {
			if last = err; err == nil {
				n++
			}
		}
		if n != 1000 || !errors.Is(last, objstore.ErrUndecided) {
			t.Errorf("cancelled in the second page: %d objects, then %v", n, last)
		}
	})
}

// A key takes so many writes a second and no more, other keys are not concerned,
// and what was refused has no effect.
func TestWritesPerSecond(t *testing.T) {
	for _, rate := range []float64{0.5, 1, 15} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New(t)
				s := New(mem, Options{Latency: Latency{Median: 10 * ms}, WritesPerSecond: rate})
				v, err := put(t.Context(), s, "k", "0", objstore.IfAbsent())
				if err != nil {
					t.Fatal(err)
				}
				written, refused, begin := 1, 0, time.Now()
				for time.Since(begin) < 20*time.Second {
					was := string(mem.Snapshot("k")["k"])
					next, err := put(t.Context(), s, "k", fmt.Sprint(written), objstore.IfVersion(v))
					switch {
					case err == nil:
						v = next
						written++
					case errors.Is(err, objstore.ErrThrottled) && objstore.Classify(err) == objstore.Undecided:
						refused++
						if now := string(mem.Snapshot("k")["k"]); now != was {
							t.Fatalf("%q was refused and is there: %v", now, err)
						}
					default:
						t.Fatal(err)
					}
				}
				most := max(rate, 1) + 20*rate
				if float64(written) > most+1 || float64(written) < most-2 || refused == 0 {
					t.Errorf("%d writes in 20 s, %d refused; want %v", written, refused, most)
				}
				if _, err := put(t.Context(), s, "other", "x", objstore.IfAbsent()); err != nil {
					t.Errorf("another key: %v", err)
				}
				if _, err := s.Get(t.Context(), "k", objstore.GetOptions{}); err != nil {
					t.Errorf("a read: %v", err)
				}
			})
		})
	}
}

// It says what a key takes, by itself or as the store behind it.
func TestRate(t *testing.T) {
	mem := memstore.New(t)
	for _, tt := range []struct {
		rate float64
		want objstore.Rate
	}{{0, objstore.Rate{}}, {1, objstore.Rate{PerSecond: 1, Burst: 1}}, {0.5, objstore.Rate{PerSecond: 0.5, Burst: 1}}, {15, objstore.Rate{PerSecond: 15, Burst: 15}}} {
		s := New(mem, Options{WritesPerSecond: tt.rate})
		if got := objstore.RateOf(s); got != tt.want {
			t.Errorf("%v: %+v", tt.rate, got)
		}
		if got := objstore.RateOf(New(s, Options{})); got != tt.want {
			t.Errorf("%v, behind another: %+v", tt.rate, got)
		}
	}
}

// What is remembered about keys stays small, and no key gets more than its rate
// by that.
func TestManyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(memstore.New(t), Options{WritesPerSecond: 1})
		for i := range 5000 {
			key := fmt.Sprint("k", i)
			v, err := put(t.Context(), s, key, "x", objstore.IfAbsent())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := put(t.Context(), s, key, "y", objstore.IfVersion(v)); !errors.Is(err, objstore.ErrThrottled) {
				t.Fatalf("a second write on %s at once: %v", key, err)
			}
			time.Sleep(ms)
		}
	})
}

// onlyStore hides what else a store can do.
type onlyStore struct{ objstore.Store }

func TestCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		s := New(mem, fixed(100*ms))
		if s.Unwrap() != objstore.Store(mem) {
			t.Error("Unwrap is another store")
		}
		if _, err := put(t.Context(), s, "a", "x", objstore.IfAbsent()); err != nil {
			t.Fatal(err)
		}
		var err error
		if d := took(func() { _, err = s.Copy(t.Context(), "a", "b") }); err != nil || d != 100*ms {
			t.Errorf("copy: %v after %v", err, d)
		}
		if d := took(func() { err = s.Delete(t.Context(), "a") }); err != nil || d != 100*ms {
			t.Errorf("delete: %v after %v", err, d)
		}
		if o, err := s.Get(t.Context(), "b", objstore.GetOptions{}); err != nil || string(o.Body) != "x" {
			t.Errorf("%q, %v", o.Body, err)
		}
		if _, err := New(onlyStore{mem}, Options{}).Copy(t.Context(), "b", "c"); !errors.Is(err, objstore.ErrUnsupported) {
			t.Errorf("copy where there is none: %v", err)
		}
	})
}
