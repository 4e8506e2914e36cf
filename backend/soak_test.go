package backend_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
)

// soak is a handful of processes that append to one log through a network that
// loses, delays, doubles and refuses, while maintenance goes on.
type soak struct {
	t      *testing.T
	seed   uint64
	mem    *memstore.Store
	store  *faultstore.Store
	claims *claims

	down atomic.Bool // no reply comes through

	mu  sync.Mutex
	rng *rand.Rand
}

// chance is true once in n times.
func (s *soak) chance(n int) bool { return s.intN(n) == 0 }

func (s *soak) intN(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

func (s *soak) pause(most time.Duration) {
	time.Sleep(time.Duration(s.intN(int(most/time.Microsecond)+1)) * time.Microsecond)
}

// faulty adds the network's faults, each once in n calls.
func (s *soak) faulty(n int) (late []*faultstore.Injection) {
	for _, f := range []faultstore.Fault{
		faultstore.LostReply(), faultstore.Unavailable(), faultstore.Throttled(), faultstore.Conflict(), faultstore.Duplicate(),
		faultstore.FailApplied(objstore.ErrThrottled), faultstore.Delay(time.Second), faultstore.Denied(),
	} {
		s.store.Inject(faultstore.Rule{Match: func(string, string, []byte) bool { return s.chance(n) }, Fault: f})
	}
	for _, f := range []faultstore.Fault{faultstore.Late(), faultstore.LostReply()} {
		late = append(late, s.store.Inject(faultstore.Rule{Match: func(op, _ string, _ []byte) bool {
			return s.down.Load() && (op == "Get" || s.chance(2))
		}, Fault: f}))
	}
	for _, f := range []faultstore.Fault{faultstore.Late(), faultstore.LateCopy()} {
		late = append(late, s.store.Inject(faultstore.Rule{Match: func(op, _ string, _ []byte) bool { return op == "Put" && s.chance(n) }, Fault: f}))
	}
	return late
}

// process appends n tagged events, one after the other, by as many handles as
// it takes, and returns where they are.
func (s *soak) process(name string, n int) (seqs []int64) {
	b := backend.New(s.store, backend.Options{
		Foreground: s.chance(2), CommitTimeout: time.Duration(1+s.intN(10)) * time.Second, Label: name,
	})
	keyed := s.chance(2)
	var l *backend.Log
	defer func() {
		if l != nil {
			_ = l.Close(s.t.Context(), backend.CloseOptions{})
		}
	}()
	for i := range n {
		tag := fmt.Sprintf("%s-%d", name, i)
		pad := []int{10, 10, 100, 3000, sealing}[s.intN(5)]
		for try := 0; ; try++ {
			if try == 200 {
				s.t.Errorf("seed %d: %s: cannot be appended", s.seed, tag)
				return seqs
			}
			if l == nil {
				var err error
				if l, err = b.Create("log", backend.CreateOptions{OrAdopt: true}); err != nil {
					s.t.Errorf("seed %d: %v", s.seed, err)
					return seqs
				}
			}
			ctx, cancel := context.WithCancel(s.t.Context())
			if s.chance(6) {
				ctx, cancel = context.WithTimeout(ctx, time.Duration(s.intN(2000))*time.Millisecond)
			}
			opt := backend.AppendOptions{Last: s.chance(8)}
			if keyed {
				opt.Key = tag
			}
			r, err := l.Append(ctx, [][]byte{tagged(tag, pad)}, opt)
			cancel()
			if err == nil {
				seqs = append(seqs, s.acked(r, tag))
				break
			}
			if token := backend.Token(err); token != "" && (!keyed || s.chance(3)) {
				if r, committed := s.decide(b, token); committed {
					seqs = append(seqs, s.acked(r, tag))
					break
				}
			}
			if l.Err() != nil || s.chance(3) {
				_ = l.Close(s.t.Context(), backend.CloseOptions{Seal: s.chance(4)})
				l = nil
			}
		}
		if l != nil && (l.Err() != nil || s.chance(5)) {
			_ = l.Close(s.t.Context(), backend.CloseOptions{Release: s.chance(2), Seal: s.chance(4)})
			l = nil
		}
		s.pause(100 * time.Millisecond)
	}
	return seqs
}

func (s *soak) acked(r backend.Receipt, tag string) int64 {
	if err := s.claims.acked(r, tag); err != nil {
		s.t.Errorf("seed %d: %v", s.seed, err)
	}
	return r.First
}

func (s *soak) decide(b *backend.Backend, token string) (backend.Receipt, bool) {
	for range 200 {
		if d, err := b.Decide(s.t.Context(), token); err == nil {
			return d.Receipt, d.Committed
		}
	}
	s.t.Errorf("seed %d: undecided", s.seed)
	return backend.Receipt{}, false
}

// Whatever the network does, each event that was acknowledged is in the log
// once, where its receipt says, and each process's events in their order.
func TestG1Soak(t *testing.T) {
	seeds := 40
	if raceDetector {
		seeds = 8
	}
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.New(&judge{t, fmt.Sprint("seed ", seed)})
			s := &soak{t: t, seed: seed, mem: mem, store: faultstore.New(mem), claims: newClaims(), rng: rand.New(rand.NewPCG(seed, 1))}
			late := s.faulty(40)
			ctx, stop := context.WithCancel(t.Context())
			var others sync.WaitGroup
			others.Go(func() { // requests arrive late
				for ctx.Err() == nil {
					s.pause(3 * time.Second)
					for _, l := range late {
						l.Release(context.Background())
					}
				}
			})
			others.Go(func() { // outages
				for ctx.Err() == nil {
					s.pause(6 * time.Second)
					s.down.Store(true)
					s.pause(6 * time.Second)
					s.down.Store(false)
				}
			})
			others.Go(func() { // maintenance
				for ctx.Err() == nil {
					s.pause(2 * time.Second)
					if _, there := mem.Snapshot("manifests/")[manifest.Key("log")]; there {
						[]func(testing.TB, objstore.Store, string){maintain, fold}[s.intN(2)](t, mem, "log")
					}
				}
			})
			var wg sync.WaitGroup
			const each = 10
			processes := 2 + seed%2
			for p := range processes {
				wg.Go(func() {
					seqs := s.process(fmt.Sprint("p", p), each)
					if !slices.IsSorted(seqs) {
						t.Errorf("seed %d: process %d's events are at %v", seed, p, seqs)
					}
				})
			}
			wg.Wait()
			stop()
			others.Wait()
			for _, l := range late {
				l.Stop()
				l.Release(t.Context())
			}
			c := s.claims
			if n := int(processes) * each; len(c.order) != n {
				t.Errorf("seed %d: %d of %d events acknowledged", seed, len(c.order), n)
			}
			slices.SortFunc(c.order, func(a, b string) int { return int(c.at[a] - c.at[b]) })
			if err := audit(t.Context(), mem, "log", c); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
}
