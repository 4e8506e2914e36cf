package backend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
)

// Append waits for room in the queue, in the order of arrival, and gives up
// waiting with its context.
func TestMaxQueueHoldsAppendersBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := slow(t, time.Second)
		b := backend.New(store, backend.Options{MaxQueue: 3000})
		l := create(t, b, "log")
		appendOne(t, l, event(0))
		const n = 40 // room comes to many at once, who must not overtake each other
		var wg sync.WaitGroup
		for i := range n {
			time.Sleep(time.Microsecond)
			wg.Go(func() {
				if _, err := l.Append(t.Context(), [][]byte{tagged(fmt.Sprint(i), 200)}, backend.AppendOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		start := time.Now()
		if _, err := l.Append(ctx, [][]byte{event(9)}, backend.AppendOptions{}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, backend.ErrOutcomeUnknown) {
			t.Error(err)
		}
		if d := time.Since(start); d > 2*time.Millisecond {
			t.Errorf("gave up after %v", d)
		}
		wg.Wait()
		closeLog(t, l)
		lines := read(t, b.Reader, "log", 1)
		if len(lines) != n {
			t.Fatalf("%d events", len(lines))
		}
		for i, line := range lines {
			if tagOf([]byte(line)) != fmt.Sprint(i) {
				t.Errorf("%d: %s", i, tagOf([]byte(line)))
			}
		}
	})
}

// More than the queue may hold is appended all the same, when it is empty.
func TestMaxQueueLetsOneLargeAppendPass(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{MaxQueue: 100, MaxBatch: 10})
	l := create(t, b, "log")
	for i := range 3 {
		appendOne(t, l, tagged(fmt.Sprint(i), 1000))
	}
	closeLog(t, l)
	if n := len(read(t, b.Reader, "log", 0)); n != 3 {
		t.Errorf("%d events", n)
	}
}

// Callers that leave the queue make room for others: what waits stays bounded.
func TestAbandonedAppendsLeaveTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := slow(t, 10*time.Second)
		trace := tracestore.New(store, tracestore.Options{})
		b := backend.New(trace, backend.Options{})
		l := create(t, b, "log")
		var wg sync.WaitGroup
		wg.Go(func() { appendOne(t, l, event(0)) })
		synctest.Wait()
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if _, err := l.Append(ctx, [][]byte{event(1)}, backend.AppendOptions{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
		}
		wg.Wait()
		closeLog(t, l)
		if n := trace.Counts().Put; n != 1 {
			t.Errorf("%d PUTs", n)
		}
	})
}

func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trace := tracestore.New(memstore.New(t), tracestore.Options{})
		b := backend.New(trace, backend.Options{Linger: time.Second})
		l := create(t, b, "log")
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 30 {
			time.Sleep(100 * time.Millisecond)
			wg.Go(func() { appendOne(t, l, event(i)) })
		}
		wg.Wait()
		if n := trace.Counts().Put; n < 3 || n > 5 {
			t.Errorf("%d commits in %v", n, time.Since(start))
		}
		// Close does not wait for a linger.
		wg.Go(func() { appendOne(t, l, event(30)) })
		time.Sleep(time.Millisecond)
		start = time.Now()
		closeLog(t, l)
		if d := time.Since(start); d > 100*time.Millisecond {
			t.Errorf("Close took %v", d)
		}
		wg.Wait()
		if n := len(read(t, b.Reader, "log", 0)); n != 31 {
			t.Errorf("%d events", n)
		}
	})
}

func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := slow(t, time.Second)
		trace := tracestore.New(store, tracestore.Options{})
		b := backend.New(trace, backend.Options{})
		l := create(t, b, "log")
		if err := l.Flush(t.Context()); err != nil || trace.Counts().Requests() != 0 {
			t.Errorf("%v, %+v", err, trace.Counts())
		}
		var wg sync.WaitGroup
		acked := 0
		var mu sync.Mutex
		for i := range 3 {
			wg.Go(func() {
				appendOne(t, l, event(i))
				mu.Lock()
				defer mu.Unlock()
				acked++
			})
			synctest.Wait()
		}
		if err := l.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if mu.Lock(); acked != 3 {
			t.Errorf("%d of 3 decided", acked)
		}
		mu.Unlock()
		wg.Wait()
		// A flush whose caller leaves disturbs nothing.
		wg.Go(func() { appendOne(t, l, event(3)) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := l.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		wg.Wait()
		closeLog(t, l)
		if err := l.Flush(t.Context()); !errors.Is(err, backend.ErrClosed) {
			t.Error(err)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, mem := slow(t, time.Second)
		trace := tracestore.New(store, tracestore.Options{})
		b := backend.New(trace, backend.Options{})

		unused := create(t, b, "unused")
		if err := unused.Close(t.Context(), backend.CloseOptions{Release: true, Seal: true}); err != nil || trace.Counts().Requests() != 0 {
			t.Errorf("an unused handle: %v, %+v", err, trace.Counts())
		}

		// With a context that is over it does not wait; what is in flight is decided.
		l := create(t, b, "log")
		var wg sync.WaitGroup
		wg.Go(func() { appendOne(t, l, event(0)) })
		synctest.Wait()
		done, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		if err := l.Close(done, backend.CloseOptions{}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("it took %v", d)
		}
		if _, err := l.Append(t.Context(), [][]byte{event(1)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrClosed) {
			t.Error(err)
		}
		wg.Wait()
		if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil { // again
			t.Error(err)
		}

		// Close waits for all that was accepted.
		l = adopt(t, b, "log")
		for i := range 3 {
			wg.Go(func() { appendOne(t, l, event(i+1)) })
		}
		synctest.Wait()
		before := trace.Counts()
		closeLog(t, l)
		if n := len(read(t, backend.NewReader(mem, backend.Options{}), "log", 0)); n != 4 {
			t.Errorf("%d events", n)
		}
		wg.Wait()
		if d := trace.Counts().Sub(before); d.Put > 1 {
			t.Errorf("%+v", d)
		}
	})
}

// An append that says it is the last closes the handle, unless it fails.
func TestLast(t *testing.T) {
	trace := tracestore.New(memstore.New(t), tracestore.Options{})
	b := backend.New(trace, backend.Options{})
	l := create(t, b, "log")
	appendOne(t, l, event(0))
	last := backend.AppendOptions{Last: true, ExpectNext: expect(7)}
	if _, err := l.Append(t.Context(), [][]byte{event(1)}, last); !errors.Is(err, backend.ErrSeqMismatch) {
		t.Error(err)
	}
	last.ExpectNext = nil
	if r, err := l.Append(t.Context(), [][]byte{event(1)}, last); err != nil || r.First != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := l.Append(t.Context(), [][]byte{event(2)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrClosed) {
		t.Error(err)
	}
	info, err := b.Info(t.Context(), "log")
	if err != nil || !info.Owner.Released || info.Next != 2 || info.Revision != 2 {
		t.Errorf("%+v, %v", info, err)
	}
	before := trace.Counts()
	if err := l.Close(t.Context(), backend.CloseOptions{Release: true}); err != nil {
		t.Error(err)
	}
	if d := trace.Counts().Sub(before); d.Requests() != 0 {
		t.Errorf("released twice: %+v", d)
	}
	// Without the append that failed, too.
	l = adopt(t, b, "log")
	appendOne(t, l, event(2))
	last.ExpectNext = expect(0)
	if _, err := l.Append(t.Context(), [][]byte{event(3)}, last); !errors.Is(err, backend.ErrSeqMismatch) {
		t.Error(err)
	}
	if err := l.Close(t.Context(), backend.CloseOptions{Release: true}); err != nil {
		t.Error(err)
	}
	if info, err := b.Info(t.Context(), "log"); err != nil || !info.Owner.Released {
		t.Errorf("%+v, %v", info, err)
	}
}

// A handle whose commit failed refuses everything after it, with the same error;
// only an unknown outcome is not that of what was never sent.
func TestFailureIsSticky(t *testing.T) {
	denied, refused := faultstore.Denied(), faultstore.Refused()
	for _, tc := range []struct {
		name  string
		fault faultstore.Fault
		other func(t *testing.T, mem *memstore.Store)
		want  error
	}{
		{name: "denied", fault: denied, want: backend.ErrDenied},
		{name: "refused", fault: refused, want: objstore.ErrRefused},
		{name: "rejected", fault: faultstore.Rejected(), want: objstore.ErrRejected},
		{name: "unsupported", fault: faultstore.Unsupported(), want: backend.ErrUnsupportedStore},
		{name: "conflict", fault: faultstore.Conflict(), want: context.DeadlineExceeded},
		{name: "unavailable", fault: faultstore.Unavailable(), want: backend.ErrOutcomeUnknown},
		{name: "throttled", fault: faultstore.Throttled(), want: backend.ErrOutcomeUnknown},
		{name: "fenced", want: backend.ErrFenced, other: func(t *testing.T, mem *memstore.Store) { takeOver(t, mem, "log", "other", newClaims()) }},
		{name: "gone", want: backend.ErrNotFound, other: func(_ *testing.T, mem *memstore.Store) { mem.Drop(manifest.Key("log")) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New(t)
				store := faultstore.New(mem)
				b := backend.New(store, backend.Options{CommitTimeout: 5 * time.Second})
				l := create(t, b, "log")
				appendOne(t, l, event(0))
				if tc.other != nil {
					tc.other(t, mem)
				} else {
					heals := store.Inject(faultstore.Rule{Match: faultstore.Op("Put"), Fault: tc.fault})
					defer heals.Stop()
				}
				var queued error
				var wg sync.WaitGroup
				wg.Go(func() {
					time.Sleep(time.Microsecond)
					_, queued = l.Append(t.Context(), [][]byte{event(2)}, backend.AppendOptions{})
				})
				_, err := l.Append(t.Context(), [][]byte{event(1)}, backend.AppendOptions{})
				wg.Wait()
				_, after := l.Append(t.Context(), [][]byte{event(3)}, backend.AppendOptions{})
				flush, closed := l.Flush(t.Context()), l.Close(t.Context(), backend.CloseOptions{Release: true, Seal: true})
				for name, e := range map[string]error{"append": err, "flush": flush, "close": closed} {
					if !errors.Is(e, tc.want) || (backend.Token(e) != "") != (tc.want == backend.ErrOutcomeUnknown) {
						t.Errorf("%s: %v", name, e)
					}
				}
				for name, e := range map[string]error{"queued": queued, "after": after} {
					if e == nil || backend.Token(e) != "" || errors.Is(e, tc.want) != (tc.want != backend.ErrOutcomeUnknown) {
						t.Errorf("%s: %v", name, e)
					}
				}
				if l.Err() == nil {
					t.Error("Err is nil")
				}
				if oe, ok := errors.AsType[*backend.OpError](after); !ok || oe.Log != "log" || oe.Op != "append" {
					t.Errorf("%+v", after)
				}
			})
		})
	}
}

// A handle that owns nothing yet does not judge by what it saw when it was
// opened.
func TestExpectNextOfAHandleOpenedLongAgo(t *testing.T) {
	trace := tracestore.New(memstore.New(t), tracestore.Options{})
	b := backend.New(trace, backend.Options{})
	l := create(t, b, "log")
	appendOne(t, l, event(0))
	pending := adopt(t, b, "log")
	appendOne(t, l, event(1))
	appendOne(t, l, event(2))
	before := trace.Counts()
	for _, n := range []int64{1, 2, 4} { // 1 is what it saw
		if _, err := pending.Append(t.Context(), [][]byte{event(3)}, backend.AppendOptions{ExpectNext: expect(n)}); !errors.Is(err, backend.ErrSeqMismatch) || !strings.Contains(err.Error(), "continues at 3") {
			t.Errorf("%d: %v", n, err)
		}
	}
	if r, err := pending.Append(t.Context(), [][]byte{event(3)}, backend.AppendOptions{ExpectNext: expect(3)}); err != nil || r.First != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := pending.Append(t.Context(), [][]byte{event(4)}, backend.AppendOptions{ExpectNext: expect(3)}); !errors.Is(err, backend.ErrSeqMismatch) {
		t.Error(err)
	}
	if c := trace.Counts().Sub(before); c.Put != 2 || c.Get > 4 {
		t.Errorf("%+v", c)
	}
	closeLog(t, pending)
	_ = l.Close(t.Context(), backend.CloseOptions{})

	pending = adopt(t, b, "log")
	appendOne(t, adopt(t, b, "log"), event(4))
	if r, err := pending.Append(t.Context(), [][]byte{[]byte(`{"type":"note","seq":5,"data":0}`)}, backend.AppendOptions{}); err != nil || r.First != 5 {
		t.Errorf("%+v, %v", r, err)
	}
	closeLog(t, pending)
}
