package backend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

// moody takes up to 40 ms for a write, and denies some.
type moody struct {
	objstore.Store
	mu     sync.Mutex
	rng    *rand.Rand
	denies int // of a thousand
}

func (s *moody) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	s.mu.Lock()
	takes := time.Duration(s.rng.IntN(40)) * time.Millisecond
	denied := s.rng.IntN(1000) < s.denies
	s.mu.Unlock()
	time.Sleep(takes)
	if denied {
		return objstore.Info{}, objstore.ErrDenied
	}
	return s.Store.Put(ctx, key, body, cond, opt)
}

// Operations of all kinds, more than the queue has room for, of which some are
// larger than it and some are given up at any time, on a handle that may be closed
// or fail meanwhile: everyone gets an answer, what is acknowledged is in the
// order of arrival, and the queue is empty in the end.
func TestQueueUnderPressure(t *testing.T) {
	for round := range 60 {
		synctest.Test(t, func(t *testing.T) { pressed(t, uint64(round)) })
	}
}

func pressed(t *testing.T, round uint64) {
	rng := rand.New(rand.NewPCG(round, 1))
	store := &moody{Store: memstore.New(t), rng: rand.New(rand.NewPCG(round, 2))}
	if round%3 == 2 {
		store.denies = 20
	}
	opt := Options{MaxQueue: 1000 + rng.IntN(4000), MaxBatch: 500 + rng.IntN(4000), Lease: 20 * time.Second}
	l, err := New(store, opt).Create("log", CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	padded := func(n int) [][]byte { return [][]byte{fmt.Appendf(nil, `{"type":"note","data":"%0*d"}`, n, 0)} }
	const operations = 200
	closes := operations // when the handle is closed
	if round%2 == 1 {
		closes = operations/2 + rng.IntN(operations/2)
	}
	var wg sync.WaitGroup
	var first [operations]int64 // seq of each append that is acknowledged
	var errs [operations]error
	for i := range operations {
		first[i] = -1
		time.Sleep(time.Duration(1+rng.IntN(200)) * time.Microsecond)
		if i == closes {
			release := rng.IntN(2) == 0
			wg.Go(func() { _ = l.Close(t.Context(), CloseOptions{Release: release}) })
		}
		kind, size, patience := rng.IntN(12), 10+rng.IntN(600), time.Hour
		if rng.IntN(15) == 0 {
			size = 2 * opt.MaxQueue
		}
		if rng.IntN(2) == 0 {
			patience = time.Duration(rng.IntN(300)) * time.Millisecond
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			switch kind {
			case 0:
				errs[i] = l.Flush(ctx)
			case 1:
				_, errs[i] = l.Claim(ctx)
			case 2:
				errs[i] = l.Renew(ctx)
			case 3:
				_, _, errs[i] = l.Check(ctx, "a", "b")
			default:
				var r Receipt
				if r, errs[i] = l.Append(ctx, padded(size), AppendOptions{}); errs[i] == nil {
					first[i] = r.First
				}
			}
		})
	}
	wg.Wait()
	last := int64(-1)
	for i := range operations {
		switch err := errs[i]; {
		case err == nil, errors.Is(err, context.DeadlineExceeded):
		case errors.Is(err, ErrClosed) && i >= closes:
		case errors.Is(err, objstore.ErrDenied) && store.denies > 0:
		default:
			t.Errorf("round %d, operation %d: %v", round, i, err)
		}
		if first[i] >= 0 && first[i] <= last {
			t.Errorf("round %d: operation %d is at seq %d, behind %d", round, i, first[i], last)
		}
		last = max(last, first[i])
	}
	if closes == operations && store.denies == 0 {
		if _, err := l.Append(t.Context(), padded(5*opt.MaxQueue), AppendOptions{}); err != nil {
			t.Errorf("round %d, after all: %v", round, err)
		}
	}
	if err := l.Close(t.Context(), CloseOptions{}); err != nil && store.denies == 0 {
		t.Errorf("round %d: %v", round, err)
	}
	if l.held != 0 || len(l.waiting) != 0 || len(l.queue) != 0 {
		t.Errorf("round %d: %d bytes held, %d operations wait, %d are in the queue", round, l.held, len(l.waiting), len(l.queue))
	}
}
