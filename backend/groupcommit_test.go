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
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
)

// slow is a store whose PUTs take d.
func slow(t testing.TB, d time.Duration) (*faultstore.Store, *memstore.Store) {
	mem := memstore.New(t)
	return faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Put"), Fault: faultstore.Delay(d)}), mem
}

// call is one append of a batch.
type call struct {
	ev   []byte
	opt  backend.AppendOptions
	ctx  context.Context
	wait time.Duration // how long after the one before it

	receipt backend.Receipt
	err     error
}

// together makes the calls, each in a goroutine of its own, and waits for all.
func together(t testing.TB, l *backend.Log, calls []*call) {
	var wg sync.WaitGroup
	for _, c := range calls {
		time.Sleep(max(c.wait, time.Microsecond))
		wg.Go(func() {
			ctx := c.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			c.receipt, c.err = l.Append(ctx, [][]byte{c.ev}, c.opt)
		})
	}
	wg.Wait()
}

func expect(n int64) *int64 { return &n }

// Every caller gets the receipt of its own events, in the order of arrival.
func TestGroupCommitKeepsTheOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, mem := slow(t, 50*time.Millisecond)
		trace := tracestore.New(store, tracestore.Options{})
		b := backend.New(trace, backend.Options{})
		l := create(t, b, "log")
		var calls []*call
		for i := range 40 {
			calls = append(calls, &call{ev: tagged(fmt.Sprint("t", i), 10)})
		}
		together(t, l, calls)
		for i, c := range calls {
			if c.err != nil || c.receipt.First != int64(i) || c.receipt.Count != 1 {
				t.Errorf("append %d: %+v, %v", i, c.receipt, c.err)
			}
		}
		if calls[1].receipt.Revision != 2 || calls[39].receipt.Revision != 2 || calls[39].receipt.Next != 40 {
			t.Errorf("%+v, %+v", calls[1].receipt, calls[39].receipt)
		}
		closeLog(t, l)
		for i, line := range read(t, backend.NewReader(mem, backend.Options{}), "log", 0) {
			if tag := tagOf([]byte(line)); tag != fmt.Sprint("t", i) {
				t.Errorf("seq %d is %s", i, tag)
			}
		}
		if n := trace.Counts().Put; n != 2 {
			t.Errorf("%d PUTs", n)
		}
	})
}

// What is wrong with one append of a batch is told to its caller alone.
func TestBadAppendsDoNotDisturbABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := slow(t, 50*time.Millisecond)
		trace := tracestore.New(store, tracestore.Options{})
		b := backend.New(trace, backend.Options{})
		l := create(t, b, "log")
		calls := []*call{
			{ev: tagged("alone", 1)},
			{ev: tagged("a", 1), opt: backend.AppendOptions{Key: "k"}},
			{ev: tagged("wrong next", 1), opt: backend.AppendOptions{ExpectNext: expect(1)}},
			{ev: tagged("b", 1), opt: backend.AppendOptions{ExpectNext: expect(2)}},
			{ev: []byte(`{"type":"note","seq":9,"data":{"tag":"wrong seq"}}`)},
			{ev: []byte(`{"type":"note","seq":3,"data":{"tag":"c"}}`)},
			{ev: tagged("other", 1), opt: backend.AppendOptions{Key: "k"}},
			{ev: tagged("a", 1), opt: backend.AppendOptions{Key: "k"}},
			{ev: tagged("d", 1)},
		}
		together(t, l, calls)
		closeLog(t, l)
		want := []struct {
			first     int64
			duplicate bool
			err       error
		}{
			{first: 0}, {first: 1}, {err: backend.ErrSeqMismatch}, {first: 2}, {err: backend.ErrSeqMismatch}, {first: 3},
			{err: backend.ErrKeyConflict}, {first: 1, duplicate: true}, {first: 4},
		}
		for i, w := range want {
			c := calls[i]
			if !errors.Is(c.err, w.err) || c.err == nil && (c.receipt.First != w.first || c.receipt.Duplicate != w.duplicate) {
				t.Errorf("append %d: %+v, %v", i, c.receipt, c.err)
			}
		}
		var tags []string
		for _, line := range read(t, b.Reader, "log", 0) {
			tags = append(tags, tagOf([]byte(line)))
		}
		if got := strings.Join(tags, " "); got != "alone a b c d" {
			t.Errorf("the log is %s", got)
		}
		if n := trace.Counts().Put; n != 2 {
			t.Errorf("%d PUTs", n)
		}
	})
}

// Appends that are taken back before they were sent are not in the log; the
// others of the batch are.
func TestCancelInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := slow(t, time.Second)
		b := backend.New(store, backend.Options{})
		l := create(t, b, "log")
		short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		calls := []*call{
			{ev: tagged("first", 1)},
			{ev: tagged("a", 1)},
			{ev: tagged("gone", 1), ctx: short},
			{ev: tagged("last", 1), ctx: short, opt: backend.AppendOptions{Last: true}},
		}
		together(t, l, calls)
		for _, c := range calls[2:] {
			if !errors.Is(c.err, context.DeadlineExceeded) || errors.Is(c.err, backend.ErrOutcomeUnknown) || backend.Token(c.err) != "" {
				t.Error(c.err)
			}
		}
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Append(done, [][]byte{event(0)}, backend.AppendOptions{}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		// The last one did not release the log, so the handle goes on.
		if r := appendOne(t, l, tagged("b", 1)); r.First != 2 {
			t.Errorf("%+v", r)
		}
		closeLog(t, l)
		if got := read(t, b.Reader, "log", 0); len(got) != 3 || tagOf([]byte(got[1])) != "a" || tagOf([]byte(got[2])) != "b" {
			t.Errorf("%q", got)
		}
	})
}

// An append that is cancelled while its segment is uploaded is not sent.
func TestCancelDuringAnUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		store := faultstore.New(mem)
		b := backend.New(store, backend.Options{})
		l := create(t, b, "log")
		appendOne(t, l, tagged("a", 1))
		ctx, cancel := context.WithCancel(t.Context())
		store.Inject(faultstore.Rule{Match: faultstore.Puts("segments/"), Nth: 1, Fault: faultstore.After(func() {
			cancel()
			synctest.Wait()
		})})
		_, err := l.Append(ctx, [][]byte{tagged("large", 200<<10)}, backend.AppendOptions{})
		if !errors.Is(err, context.Canceled) || errors.Is(err, backend.ErrOutcomeUnknown) {
			t.Error(err)
		}
		appendOne(t, l, tagged("b", 1))
		closeLog(t, l)
		c := newClaims()
		c.order, c.at, c.absent["large"] = []string{"a", "b"}, map[string]int64{"a": 0, "b": 1}, true
		if err := audit(t.Context(), mem, "log", c); err != nil {
			t.Error(err)
		}
	})
}

// A takeover that lost starts over, unless its caller has left with a token
// meanwhile: that token names the first try, so there must be no second one.
func TestCancelWhileStartingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		store := faultstore.New(mem)
		b := backend.New(store, backend.Options{})
		seed := create(t, b, "log")
		appendOne(t, seed, tagged("seed", 1))
		closeLog(t, seed)
		l := adopt(t, b, "log")
		c := newClaims()
		ctx, cancel := context.WithCancel(t.Context())
		store.Inject(faultstore.Rule{Match: faultstore.Puts("manifests/"), Nth: 1, Fault: faultstore.Before(func() { takeOver(t, mem, "log", "other", c) })})
		store.Inject(faultstore.Rule{Match: faultstore.Puts("segments/"), Nth: 2, Fault: faultstore.After(func() {
			cancel() // the second try is about to be sent
			synctest.Wait()
		})})
		_, err := l.Append(ctx, [][]byte{tagged("large", 200<<10)}, backend.AppendOptions{})
		if !errors.Is(err, backend.ErrOutcomeUnknown) || backend.Token(err) == "" {
			t.Fatal(err)
		}
		if err := l.Flush(t.Context()); err == nil {
			t.Error("the handle goes on")
		}
		closed := l.Close(t.Context(), backend.CloseOptions{})
		d, err := b.Decide(t.Context(), backend.Token(err))
		if err != nil || d.Committed {
			t.Errorf("%+v, %v (closed: %v)", d, err, closed)
		}
		c.order, c.at["seed"], c.absent["large"] = append([]string{"seed"}, c.order...), 0, true
		if err := audit(t.Context(), mem, "log", c); err != nil {
			t.Error(err)
		}
	})
}

// Whoever leaves a batch takes its own token along: of its own events, and none
// where nothing of it was sent.
func TestTokensOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		store := faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Put"), Nth: 1, Fault: faultstore.Delay(time.Second)})
		b := backend.New(store, backend.Options{CommitTimeout: time.Minute})
		l := create(t, b, "log")
		late := store.Inject(faultstore.Rule{Match: faultstore.Op("Put"), Nth: 2, Times: -1, Fault: faultstore.Late()})
		leaves, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		calls := []*call{
			{ev: tagged("first", 1)},
			{ev: tagged("a", 1)},
			{ev: tagged("b", 1), opt: backend.AppendOptions{Key: "k"}},
			{ev: tagged("b", 1), opt: backend.AppendOptions{Key: "k"}},
			{ev: tagged("refused", 1), opt: backend.AppendOptions{ExpectNext: expect(77)}},
			{ev: tagged("refused, left", 1), opt: backend.AppendOptions{ExpectNext: expect(77)}, ctx: leaves},
			{ev: tagged("left", 1), ctx: leaves},
			{ev: tagged("after", 1), wait: 3 * time.Second},
		}
		var flush error
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(500 * time.Millisecond)
			flush = l.Flush(t.Context())
		})
		together(t, l, calls)
		wg.Wait()
		late.Stop()
		late.Release(t.Context())
		_, sticky := l.Append(t.Context(), [][]byte{tagged("sticky", 1)}, backend.AppendOptions{})
		closed := l.Close(t.Context(), backend.CloseOptions{Release: true})

		for name, err := range map[string]error{"after": calls[7].err, "sticky": sticky, "refused": calls[4].err, "refused, left": calls[5].err} {
			if err == nil || errors.Is(err, backend.ErrOutcomeUnknown) || backend.Token(err) != "" {
				t.Errorf("%s: %v", name, err)
			}
		}
		want := map[int]backend.Receipt{1: {First: 1, Count: 1}, 2: {First: 2, Count: 1}, 3: {First: 2, Count: 1}, 6: {First: 3, Count: 1}}
		for i, w := range want {
			d, err := b.Decide(t.Context(), backend.Token(calls[i].err))
			if err != nil || !d.Committed || d.First != w.First || d.Count != w.Count {
				t.Errorf("append %d: %+v, %v (%v)", i, d, err, calls[i].err)
			}
		}
		for name, err := range map[string]error{"flush": flush, "close": closed} { // of the whole batch
			d, derr := b.Decide(t.Context(), backend.Token(err))
			if derr != nil || !d.Committed || d.First != 1 || d.Count != 3 {
				t.Errorf("%s: %+v, %v (%v)", name, d, derr, err)
			}
		}
		if got := read(t, b.Reader, "log", 0); len(got) != 4 {
			t.Errorf("%q", got)
		}
	})
}
