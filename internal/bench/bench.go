// Package bench measures what s3log adds to what a store takes anyway: each
// scenario does something with a log and, in turn and in the same run, the
// requests that it comes down to without one. On a machine that others use, and on
// a store that is fast today, the ratio of the two medians says more than either.
//
// It works in a namespace of its own: a prefix that nobody else has, below which
// there is a store for each scenario. What is in the store it is given is neither
// read nor listed nor changed.
package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
)

// Scenario is one thing that is measured.
type Scenario string

const (
	Append   Scenario = "append"   // batches, one after another, on one log
	Parallel Scenario = "parallel" // the same from many goroutines: group commit
	Load     Scenario = "load"     // all events of a log
	Verdict  Scenario = "verdict"  // a positional bracket
	Resume   Scenario = "resume"   // of a log with an open turn
	Fork     Scenario = "fork"     // of a whole log
	List     Scenario = "list"     // the newest 20 logs
)

// Scenarios are all of them, in the order in which they are best run.
func Scenarios() []Scenario { return []Scenario{Append, Parallel, Load, Verdict, Resume, Fork, List} }

// Options size the scenarios. What is 0 has a default.
type Options struct {
	// Events is how many Append appends, and how many the log of Load, Verdict and
	// Fork has; 0 means 10,000.
	Events int64
	// Batch is how many events one append has; 0 means 25.
	Batch int
	// Goroutines is how many append in Parallel; 0 means 64.
	Goroutines int
	// Rounds is how often Parallel appends from each goroutine, and how often all
	// others but Append do what they do; 0 means 50.
	Rounds int
	// Logs is how many List finds; 0 means 200.
	Logs int
	// Seed is what the events are drawn from.
	Seed uint64
	// Slow, unless nil, decorates the store for what is measured, once for each side,
	// so that equal delays can meet both; what has to be there before, and the
	// removal, go without it.
	Slow func(objstore.Store) objstore.Store
	// Backend are the options of the library.
	Backend backend.Options
}

func (o *Options) setDefaults() {
	if o.Events == 0 {
		o.Events = 10_000
	}
	for _, d := range []struct {
		n         *int
		otherwise int
	}{{&o.Batch, 25}, {&o.Goroutines, 64}, {&o.Rounds, 50}, {&o.Logs, 200}} {
		if *d.n == 0 {
			*d.n = d.otherwise
		}
	}
	if o.Slow == nil {
		o.Slow = func(s objstore.Store) objstore.Store { return s }
	}
}

// Side is one of the two things that a scenario compares.
type Side struct {
	What    string
	Latency Quantiles
}

// Result is what a scenario has found.
type Result struct {
	Scenario Scenario
	// Ours is what was done with s3log, Raw the same requests without it.
	Ours, Raw Side
	// Ratio is that of the medians. Of Parallel it is that of the time between two
	// commits to the median of Raw.
	Ratio float64
	// Events is how many events Ours has appended or read in Elapsed, and Bytes what
	// they have, each with a line end; 0 where a scenario is not about events.
	Events, Bytes int64
	Elapsed       time.Duration
	// Commits is how many PUTs of a manifest Parallel has made in Elapsed.
	Commits int64
	// Counts are the requests of Ours.
	Counts tracestore.Counts
	// Heap is the most memory that objects of this process had while Ours ran, in
	// bytes, garbage included.
	Heap uint64
}

// Bench is a namespace on a store. Scenarios are run one at a time.
type Bench struct {
	store  objstore.Store
	opt    Options
	prefix string
}

// New makes a namespace. It sends nothing.
func New(store objstore.Store, opt Options) *Bench {
	opt.setDefaults()
	return &Bench{store: store, opt: opt, prefix: manifest.BenchPrefix(manifest.NewNonce())}
}

// Prefix is what the keys of the namespace begin with. That of a scenario's store
// goes on with its name and a slash.
func (b *Bench) Prefix() string { return b.prefix }

// Rate is what one key is known to take of what is measured; s3log keeps to it,
// and so commits no faster.
func (b *Bench) Rate() objstore.Rate { return objstore.RateOf(b.opt.Slow(b.store)) }

// Run runs one scenario. When it returns, also after ctx has ended, no write of it
// is under way any more, unless the store does not answer for a minute.
func (b *Bench) Run(ctx context.Context, s Scenario) (Result, error) {
	do, ok := map[Scenario]func(*run, context.Context) error{
		Append: (*run).appends, Parallel: (*run).parallel, Load: (*run).load, Verdict: (*run).verdict,
		Resume: (*run).resume, Fork: (*run).fork, List: (*run).list,
	}[s]
	if !ok {
		return Result{}, fmt.Errorf("no scenario %q: there are %q", s, Scenarios())
	}
	r := newRun(b, s)
	r.heap = watchHeap()
	err := do(r, ctx)
	r.result.Heap = r.heap.stop()
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return Result{}, fmt.Errorf("%s: %w", s, context.Cause(ctx))
	case errors.Is(err, backend.ErrOutcomeUnknown):
		// A token settles nothing here: the log goes with the namespace.
		return Result{}, fmt.Errorf("%s: %w: %s", s, objstore.ErrUndecided, err.Error())
	default:
		return Result{}, fmt.Errorf("%s: %w", s, err)
	}
	r.result.Counts = r.recorder.Counts().Sub(r.base)
	r.result.Ours.Latency, r.result.Raw.Latency = quantiles(r.ours), quantiles(r.raw)
	ours := r.result.Ours.Latency.P50
	if r.result.Commits > 0 {
		ours = r.result.Elapsed / time.Duration(r.result.Commits)
	}
	if raw := r.result.Raw.Latency.P50; raw > 0 {
		r.result.Ratio = float64(ours) / float64(raw)
	}
	return r.result, nil
}

// removalsAtATime bounds the removals in flight.
const removalsAtATime = 8

// Clean removes everything in the namespace. It goes on after a failure; the
// error is of what is left.
func (b *Bench) Clean(ctx context.Context) (removed int, err error) {
	var keys []string
	for info, err := range b.store.List(ctx, b.prefix, "") {
		if err != nil {
			return 0, err
		}
		keys = append(keys, info.Key)
	}
	errs := make([]error, len(keys))
	atATime(removalsAtATime, len(keys), func(i int) { errs[i] = b.store.Delete(ctx, keys[i]) })
	left := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(left) > 0 {
		err = fmt.Errorf("%d of %d objects below %s are left: %w", len(left), len(keys), b.prefix, left[0])
	}
	return len(keys) - len(left), err
}

// atATime calls do for 0 to n-1, at most width at a time, and waits for all.
func atATime(width, n int, do func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(width, n) {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// run is a scenario at work. Its own store is seen in three ways: setup is for
// what has to be there before, slow for the raw side, recorder for ours.
type run struct {
	opt         Options
	setup, slow objstore.Store
	recorder    *recorder
	heap        *heapWatch
	result      Result

	ours, raw []time.Duration
	base      tracestore.Counts // when counting began
	rawKeys   int               // raw objects so far
}

func newRun(b *Bench, s Scenario) *run {
	r := &run{opt: b.opt, result: Result{Scenario: s}}
	r.setup = &within{b.store, b.prefix + string(s) + "/"}
	r.slow = b.opt.Slow(r.setup)
	r.recorder = &recorder{Store: tracestore.New(b.opt.Slow(r.setup), tracestore.Options{})}
	return r
}

// backend opens the store for what is measured.
func (r *run) backend() *backend.Backend { return backend.New(r.recorder, r.opt.Backend) }

// prepare opens it for what is not.
func (r *run) prepare() *backend.Backend {
	opt := r.opt.Backend
	opt.Foreground = true // nothing of it goes on while something is measured
	return backend.New(r.setup, opt)
}

// timed does something and notes how long it took.
func timed(to *[]time.Duration, do func() error) error {
	begin := time.Now()
	err := do()
	*to = append(*to, time.Since(begin))
	return err
}

// start begins to count.
func (r *run) start() { r.base = r.recorder.Counts() }

// sides are what is done in turn.
type sides struct {
	before func(ctx context.Context, round int) error // not timed; nil: nothing
	ours   func(ctx context.Context) error
	learn  func() // takes what raw has to do from what ours did; not timed; nil: nothing
	raw    func(ctx context.Context) error
}

// inTurn does both sides n times, and which one comes first changes, so that what
// one leaves to be done in the background does not always hit the other. A round 0
// before them, in which connections are made and memory grows, does not count.
func (r *run) inTurn(ctx context.Context, n int, s sides) error {
	if s.before == nil {
		s.before = func(context.Context, int) error { return nil }
	}
	round := 0
	ours := func() error {
		r.heap.on.Store(round > 0)
		err := timed(&r.ours, func() error { return s.ours(ctx) })
		r.heap.on.Store(false)
		if err == nil && s.learn != nil {
			s.learn()
		}
		return err
	}
	raw := func() error { return timed(&r.raw, func() error { return s.raw(ctx) }) }
	for ; round <= n; round++ {
		if err := s.before(ctx, round); err != nil {
			return err
		}
		order := []func() error{ours, raw}
		if round > 0 && round%2 == 0 {
			order = []func() error{raw, ours}
		}
		for _, do := range order {
			if err := do(); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
		}
		if round == 0 {
			r.ours, r.raw = nil, nil
			r.start()
		}
	}
	return nil
}
