package backend_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
)

// copyCase is what is at both ends before a copy.
type copyCase struct {
	name     string
	from, to map[string][]byte
	exact    bool // the copy becomes the same byte for byte
}

// copyCases: a log of which nothing was copied; one that was, of which the source
// has more by now and has folded what it had; and one whose copy has met a
// collection beside that.
func copyCases(t *testing.T) (all []copyCase) {
	t.Helper()
	from, to := memstore.New(t), memstore.New(t)
	segmented(t, from, "log", 3, 5000)
	all = append(all, copyCase{"onto nothing", from.Snapshot(""), nil, true})
	transferred(t, from, to, "log", backend.CopyOptions{})
	older := to.Snapshot("")
	barrier(t, to, "log", 30)
	for i := range 2 {
		if _, err := appendLast(t, backend.New(from, backend.Options{PauseMerging: true}), "log", event(4+i)); err != nil {
			t.Fatal(err)
		}
		fold(t, from, "log")
	}
	foldNow(t, from, "log")
	if _, err := appendLast(t, backend.New(from, backend.Options{}), "log", event(6)); err != nil {
		t.Fatal(err)
	}
	return append(all, copyCase{"onto an older copy", from.Snapshot(""), older, true},
		copyCase{"onto an older copy behind a barrier", from.Snapshot(""), to.Snapshot(""), false})
}

// Whichever call of a copy fails, and however, the destination has what it had or
// the whole copy; repeating it until it succeeds yields the copy, and late requests
// change nothing after that.
func TestCopyFaultMatrix(t *testing.T) {
	for _, tc := range copyCases(t) {
		for _, side := range []string{"destination", "source"} {
			t.Run(tc.name+", "+side, func(t *testing.T) {
				runs := 0
				for _, f := range forms {
					for n, more := 1, true; more; n++ {
						synctest.Test(t, func(t *testing.T) { more = tc.play(t, f, n, side == "source") })
						runs++
					}
				}
				t.Logf("%d runs", runs)
			})
		}
	}
}

// play reports false when the fault struck no call any more.
func (tc *copyCase) play(t *testing.T, f form, n int, source bool) bool {
	what := fmt.Sprintf("%s at call %d", f.name, n)
	from, to := restore(t, tc.from), restore(&judge{t, what}, tc.to)
	src, dst := faultstore.New(from), faultstore.New(to)
	at := dst
	if source {
		at = src
	}
	struck := at.Inject(faultstore.Rule{Nth: n, Times: f.times, Fault: f.fault})
	before := bytes.Clone(to.Snapshot("")[manifest.Key("log")])
	for try := 0; ; try++ {
		rep, err := backend.New(dst, backend.Options{CommitTimeout: 20 * time.Second, Prefetch: 1}).
			Copy(t.Context(), backend.NewReader(src, backend.Options{}), "log", backend.CopyOptions{})
		tc.whole(t, what, from, to, before)
		if err == nil {
			break
		}
		if backend.Token(err) != "" || rep.Copied && errors.Is(err, objstore.ErrUndecided) {
			t.Errorf("%s: %+v, %v", what, rep, err)
		}
		if try == 3 {
			t.Errorf("%s: %v", what, err)
			return true
		}
		if f.times < 0 {
			struck.Stop()
		}
	}
	hit := struck.Hits() > 0
	struck.Stop()
	for _, late := range []bool{false, true} {
		if late {
			struck.Release(context.Background())
		}
		if tc.exact {
			exact(t, from, to, "log")
		} else {
			equal(t, from, to, "log")
		}
	}
	if t.Failed() {
		t.Fatal(what)
	}
	return hit
}

// whole demands that the destination has what it had, or all of the source.
func (tc *copyCase) whole(t *testing.T, what string, from, to *memstore.Store, before []byte) {
	t.Helper()
	body, ok := to.Snapshot("")[manifest.Key("log")]
	if bytes.Equal(body, before) && (ok || before == nil) {
		return
	}
	if tc.exact != bytes.Equal(body, from.Snapshot("")[manifest.Key("log")]) {
		t.Errorf("%s: there is %s", what, body)
	}
	verifyClean(t, backend.NewReader(to, backend.Options{}), "log")
}

// Copies of one log at the same moment, of different revisions, end with the
// newest one.
func TestCopiesRace(t *testing.T) {
	from, to := memstore.New(t), memstore.New(t)
	rng := rand.New(rand.NewPCG(3, 9))
	l := create(t, backend.New(from, backend.Options{}), "log")
	var wg sync.WaitGroup
	for round := range 10 {
		for i := range 8 {
			if _, err := l.Append(t.Context(), [][]byte{noise(rng, 8*round+i, 9000)}, backend.AppendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			wg.Go(func() {
				opt := backend.Options{MinBackoff: time.Millisecond, MaxBackoff: 3 * time.Millisecond}
				rep, err := backend.New(to, opt).Copy(t.Context(), backend.NewReader(from, backend.Options{}), "log", backend.CopyOptions{})
				if err != nil || rep.Copied == rep.Duplicate {
					t.Errorf("%+v, %v", rep, err)
				}
			})
		}
	}
	wg.Wait()
	closeLog(t, l)
	transferred(t, from, to, "log", backend.CopyOptions{})
	exact(t, from, to, "log")
}

// away lets days go by at the destination, with collections.
func away(t *testing.T, to *memstore.Store) {
	t.Helper()
	for _, pause := range []time.Duration{time.Hour, 60 * time.Hour, day, 156 * time.Hour} {
		time.Sleep(pause)
		collect(t, to, backend.GCOptions{})
	}
}

// goesOnThere lets the source go on with another owner; what it had sealed before is
// folded, or stays as it was.
func goesOnThere(t *testing.T, from *memstore.Store, round int, folds bool) {
	t.Helper()
	b := backend.New(from, backend.Options{Foreground: true, PauseMerging: !folds})
	l := adopt(t, b, "log")
	grow(t, l, 100*round, 4)
	if _, err := l.Append(t.Context(), [][]byte{event(round)}, backend.AppendOptions{Last: true}); err != nil {
		t.Fatal(err)
	}
	if folds {
		foldNow(t, from, "log")
	}
}

// A copy, or a collection of the destination, may stand still for days at any
// request, before it is sent or when it has been answered, while the source goes
// on, other copies are made, folded and collected. Whatever it does when it goes
// on, the copy is whole, and the next one brings it up to date.
func TestCopiesFrozenForDays(t *testing.T) {
	stride := 5
	switch {
	case os.Getenv("S3LOG_LONG") != "":
		stride = 1
	case testing.Short() || raceDetector:
		stride = 9
	case os.Getenv("CI") == "true":
		stride = 3
	}
	type process struct {
		name string
		act  func(ctx context.Context, from *memstore.Store, to objstore.Store) error
		late bool // it may write again what was removed meanwhile
	}
	processes := []process{
		{"a copy", func(ctx context.Context, from *memstore.Store, to objstore.Store) error {
			opt := patient(true)
			opt.Prefetch = 1
			_, err := backend.New(to, opt).Copy(ctx, backend.NewReader(from, backend.Options{}), "log", backend.CopyOptions{})
			return err
		}, true},
		{"a collection", func(ctx context.Context, _ *memstore.Store, to objstore.Store) error {
			for g, err := range backend.New(to, patient(true)).GC(ctx, backend.GCOptions{Log: "log"}) {
				if err = errors.Join(err, g.Err); err != nil && !errors.Is(err, backend.ErrNotFound) {
					return err
				}
			}
			return nil
		}, false},
	}
	// What has happened at the destination before.
	starts := []struct {
		name string
		do   func(t *testing.T, from, to *memstore.Store)
	}{
		{"nothing", func(*testing.T, *memstore.Store, *memstore.Store) {}},
		{"an interrupted copy", interruptedCopy},
		{"a copy, and an interrupted one", func(t *testing.T, from, to *memstore.Store) {
			transferred(t, from, to, "log", backend.CopyOptions{})
			goesOnThere(t, from, 1, true)
			interruptedCopy(t, from, to)
		}},
		{"a copy that was folded", func(t *testing.T, from, to *memstore.Store) {
			transferred(t, from, to, "log", backend.CopyOptions{})
			foldNow(t, to, "log")
			goesOnThere(t, from, 1, false)
		}},
	}
	worlds := []struct {
		name string
		do   func(t *testing.T, from, to *memstore.Store)
	}{
		{"nothing else", func(*testing.T, *memstore.Store, *memstore.Store) {}},
		{"another copy", func(t *testing.T, from, to *memstore.Store) { transferred(t, from, to, "log", backend.CopyOptions{}) }},
		{"the source goes on and is copied and folded there", func(t *testing.T, from, to *memstore.Store) {
			goesOnThere(t, from, 2, false)
			transferred(t, from, to, "log", backend.CopyOptions{})
			foldNow(t, to, "log")
		}},
		{"another copy, interrupted, days later, and once more", func(t *testing.T, from, to *memstore.Store) {
			goesOnThere(t, from, 2, true)
			interruptedCopy(t, from, to)
			away(t, to)
			transferred(t, from, to, "log", backend.CopyOptions{})
		}},
	}
	for i, p := range processes {
		for j, s := range starts {
			for k, w := range worlds {
				t.Run(p.name+", "+s.name+", "+w.name, func(t *testing.T) {
					t.Parallel()
					for at := 1 + (i+j+k)%stride; ; at += stride {
						struck := ""
						for _, after := range []bool{false, true} {
							synctest.Test(t, func(t *testing.T) {
								from := memstore.New(t)
								to := memstore.NewWith(t, memstore.Options{LateRetries: p.late})
								l := create(t, backend.New(from, backend.Options{Foreground: true}), "log")
								grow(t, l, 0, 5)
								closeLog(t, l)
								s.do(t, from, to)
								time.Sleep(2 * day) // what was left is old enough to be collected
								f := &frozen{store: to, at: at, after: after, world: func() {
									w.do(t, from, to)
									away(t, to)
								}}
								err := p.act(t.Context(), from, f)
								if struck = f.struck; err != nil {
									t.Errorf("it stood still at request %d, %s (after it %v): %v", at, struck, after, err)
								}
								for round := range 2 {
									transferred(t, from, to, "log", backend.CopyOptions{})
									equal(t, from, to, "log")
									sweep(t, to)
									equal(t, from, to, "log")
									goesOnThere(t, from, 3+round, round == 0)
								}
								clean(t, to)
								if t.Failed() {
									t.Fatalf("it stood still at request %d, %s (after it %v)", at, struck, after)
								}
							})
						}
						if t.Failed() || struck == "" {
							return
						}
					}
				})
			}
		}
	}
}

// interruptedCopy sends all segments, and no manifest.
func interruptedCopy(t *testing.T, from, to *memstore.Store) {
	t.Helper()
	faulty := faultstore.New(to, faultstore.Rule{Match: faultstore.Puts(manifest.ManifestPrefix), Fault: faultstore.Denied()})
	if rep, err := copyLog(t, from, faulty, "log", backend.CopyOptions{}); !errors.Is(err, backend.ErrDenied) {
		t.Errorf("%+v, %v", rep, err)
	}
}

// Whoever takes over a copy, at whatever call of the next copy or that one at any
// of his, loses nothing that was acknowledged: either he appends behind what has come,
// or the copy is refused.
func TestCopiesBesideAWriter(t *testing.T) {
	older, newer := memstore.New(t), memstore.New(t)
	segmented(t, newer, "log", 3, 5000)
	transferred(t, newer, older, "log", backend.CopyOptions{})
	if _, err := appendLast(t, backend.New(newer, backend.Options{}), "log", event(9)); err != nil {
		t.Fatal(err)
	}
	fold(t, newer, "log")
	copies := func(t *testing.T, to objstore.Store) bool {
		rep, err := backend.New(to, backend.Options{Prefetch: 1}).Copy(t.Context(), backend.NewReader(newer, backend.Options{}), "log", backend.CopyOptions{})
		if err != nil && !errors.Is(err, backend.ErrDiverged) {
			t.Errorf("%+v, %v", rep, err)
		}
		return err == nil
	}
	writes := func(t *testing.T, to objstore.Store) {
		l, err := backend.New(to, backend.Options{}).Adopt(t.Context(), "log", backend.AdoptOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			appendOne(t, l, fmt.Appendf(nil, `{"type":"note","data":"by the writer: %d"}`, i))
		}
		closeLog(t, l)
	}
	outcomes := map[bool]int{}
	for _, writerFirst := range []bool{false, true} {
		for _, fault := range []func(func()) faultstore.Fault{faultstore.Before, faultstore.After} {
			for n, hit := 1, true; hit; n++ {
				to := restore(t, older.Snapshot(""))
				landed := false
				other := func() { landed = copies(t, to) }
				if !writerFirst {
					other = func() { writes(t, to) }
				}
				faulty := faultstore.New(to)
				struck := faulty.Inject(faultstore.Rule{Nth: n, Fault: fault(other)})
				if writerFirst {
					writes(t, faulty)
				} else {
					landed = copies(t, faulty)
				}
				if hit = struck.Hits() > 0; !hit {
					break
				}
				outcomes[landed]++
				r := backend.NewReader(to, backend.Options{})
				verifyClean(t, r, "log")
				lines := read(t, r, "log", 0)
				want := map[bool]int{false: 4 + 2, true: 5 + 2}[landed]
				if len(lines) != want || !bytes.Contains([]byte(lines[want-1]), []byte("by the writer: 1")) {
					t.Errorf("at call %d, landed %v: %q", n, landed, lines[3:])
				}
				if copies(t, to) {
					t.Errorf("at call %d: a copy that was taken over was replaced", n)
				}
			}
		}
	}
	if outcomes[true] == 0 || outcomes[false] == 0 {
		t.Errorf("%v: the test shows too little", outcomes)
	}
}
