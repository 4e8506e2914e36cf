package backend_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
)

// plot is what a first writer does while others come between.
type plot struct {
	name    string
	opt     backend.Options
	prepare func(t *testing.T, b *backend.Backend)
	create  bool
	pads    []int // of one event each
}

var plots = []plot{
	{name: "create", create: true, pads: []int{10}},
	{name: "append", create: true, pads: []int{10, 10, 10}},
	{name: "adopt", prepare: prepareSmall, pads: []int{10, 10}},
	{name: "seal in the background", create: true, pads: []int{10, sealing, 10, sealing, 10}},
	{name: "seal in the foreground", opt: backend.Options{Foreground: true}, create: true, pads: []int{10, sealing, 10}},
	{name: "more than fits", prepare: prepareSmall, pads: []int{150 << 10, 10, 150 << 10}},
	{name: "merge in the background", prepare: prepareSegments, pads: []int{10, 10, 10}},
	{name: "merge in the foreground", opt: backend.Options{Foreground: true}, prepare: prepareSegments, pads: []int{10, 10}},
}

// firstWriter plays a plot until an error, and claims what it was told.
func firstWriter(t *testing.T, what string, pl plot, b *backend.Backend, c *claims) (err error) {
	var l *backend.Log
	if pl.create {
		l, err = b.Create(matrixLog, backend.CreateOptions{})
	} else {
		l, err = b.Adopt(t.Context(), matrixLog, backend.AdoptOptions{TakeOver: true})
	}
	if err != nil {
		return err
	}
	for i, pad := range pl.pads {
		tag := fmt.Sprint("first", i)
		var r backend.Receipt
		if r, err = l.Append(t.Context(), [][]byte{tagged(tag, pad)}, backend.AppendOptions{}); err != nil {
			c.absent[tag] = true
			break
		}
		if cerr := c.acked(r, tag); cerr != nil {
			t.Errorf("%s: %v", what, cerr)
		}
		synctest.Wait()
	}
	if cerr := l.Close(t.Context(), backend.CloseOptions{}); (cerr == nil) != (l.Err() == nil) {
		t.Errorf("%s: closed with %v, Err is %v", what, cerr, l.Err())
	}
	return err
}

// interleave plays a plot once, with other run before or after each of the
// calls in at.
func interleave(t *testing.T, what string, pl plot, before map[string][]byte, at []int, after bool,
	other func(t *testing.T, mem *memstore.Store, c *claims, k int), verdict func(t *testing.T, c *claims, err error)) (calls int) {
	synctest.Test(t, func(t *testing.T) {
		mem := restore(&judge{t, what}, before)
		store := faultstore.New(mem)
		count := store.Inject(faultstore.Rule{Nth: 1 << 30, Fault: faultstore.Unavailable()})
		c := newClaims()
		for k, n := range at {
			hook := func() { other(t, mem, c, k) }
			f := faultstore.Before(hook)
			if after {
				f = faultstore.After(hook)
			}
			store.Inject(faultstore.Rule{Nth: n, Fault: f})
		}
		err := firstWriter(t, what, pl, backend.New(store, pl.opt), c)
		verdict(t, c, err)
		slices.SortFunc(c.order, func(a, b string) int { return int(c.at[a] - c.at[b]) })
		if err := audit(t.Context(), mem, matrixLog, c); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		calls = count.Matches()
	})
	return calls
}

func everyCall(t *testing.T, other func(t *testing.T, mem *memstore.Store, c *claims, k int), verdict func(t *testing.T, what string, c *claims, err error)) {
	for _, pl := range plots {
		t.Run(pl.name, func(t *testing.T) {
			t.Parallel()
			before := prepared(t, scenario{prepare: pl.prepare})
			calls := interleave(t, "alone", pl, before, nil, false, nil, func(t *testing.T, _ *claims, err error) {
				if err != nil {
					t.Error(err)
				}
			})
			for n := 1; n <= calls; n++ {
				for _, after := range []bool{false, true} {
					what := fmt.Sprintf("%v call %d", map[bool]string{false: "before", true: "after"}[after], n)
					interleave(t, what, pl, before, []int{n}, after, other, func(t *testing.T, c *claims, err error) { verdict(t, what, c, err) })
					if t.Failed() {
						return
					}
				}
			}
		})
	}
}

// Another writer takes the log over at any call: the first one's events are in
// the log or it is fenced, by whom and at which seq (G2).
func TestG2TakeoverAtEveryCall(t *testing.T) {
	everyCall(t, func(t *testing.T, mem *memstore.Store, c *claims, _ int) {
		if writer := takeOver(t, mem, matrixLog, "second", c); writer != "" {
			c.maybe[writer] = true // remembered for the verdict
		}
	}, func(t *testing.T, what string, c *claims, err error) {
		took := len(c.maybe) > 0
		switch {
		case err == nil: // the other came before the first commit, or after the last
		case errors.Is(err, backend.ErrFenced) && took:
			for writer := range c.maybe {
				if !strings.Contains(err.Error(), writer) || !strings.Contains(err.Error(), fmt.Sprintf("at seq %d", c.at["second"])) {
					t.Errorf("%s: %v; want writer %s at seq %d", what, err, writer, c.at["second"])
				}
			}
		default:
			t.Errorf("%s: %v (taken over: %v)", what, err, took)
		}
	})
}

// A maintenance commit at any call changes nothing for the owner.
func TestMaintenanceAtEveryCall(t *testing.T) {
	others := map[string]func(t *testing.T, mem *memstore.Store){
		"nothing": func(t *testing.T, mem *memstore.Store) { maintain(t, mem, matrixLog) },
		"fold":    func(t *testing.T, mem *memstore.Store) { fold(t, mem, matrixLog) },
		"barrier": func(t *testing.T, mem *memstore.Store) { barrier(t, mem, matrixLog, 0) },
		"rewrite": func(t *testing.T, mem *memstore.Store) { rewrite(t, mem, matrixLog) },
		"twice": func(t *testing.T, mem *memstore.Store) {
			fold(t, mem, matrixLog)
			barrier(t, mem, matrixLog, 9)
			rewrite(t, mem, matrixLog)
		},
	}
	for name, do := range others {
		t.Run(name, func(t *testing.T) {
			everyCall(t, func(t *testing.T, mem *memstore.Store, _ *claims, _ int) {
				if _, there := mem.Snapshot("manifests/")[manifest.Key(matrixLog)]; there {
					do(t, mem)
				}
			}, func(t *testing.T, what string, _ *claims, err error) {
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
			})
		})
	}
}

// Three writers: the second comes at one call, the third at a later one.
func TestG2TwoTakeoversAtEveryPairOfCalls(t *testing.T) {
	for _, pl := range plots {
		t.Run(pl.name, func(t *testing.T) {
			t.Parallel()
			before := prepared(t, scenario{prepare: pl.prepare})
			for n := 1; n <= 6; n++ {
				for m := n; m <= 7; m++ {
					if raceDetector && m != n+1 {
						continue
					}
					what := fmt.Sprintf("before calls %d and %d", n, m)
					interleave(t, what, pl, before, []int{n, m}, false, func(t *testing.T, mem *memstore.Store, c *claims, k int) {
						takeOver(t, mem, matrixLog, fmt.Sprint("other", k), c)
					}, func(t *testing.T, _ *claims, err error) {
						if err != nil && !errors.Is(err, backend.ErrFenced) {
							t.Errorf("%s: %v", what, err)
						}
					})
				}
			}
		})
	}
}
