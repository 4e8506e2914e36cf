package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/delaystore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func small() Options {
	opt := Options{Events: 2000, Batch: 20, Goroutines: 8, Rounds: 10, Logs: 40, Seed: 3}
	opt.Backend.MinBackoff, opt.Backend.MaxBackoff = time.Millisecond, 5*time.Millisecond
	return opt
}

// other is an object of somebody else's.
const other = "manifests/other.json"

func stores(t *testing.T) map[string]objstore.Store {
	file, err := filestore.Open(t.TempDir(), filestore.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	all := map[string]objstore.Store{"memstore": memstore.New(t), "filestore": file}
	for _, s := range all {
		if _, err := s.Put(t.Context(), other, []byte("x"), objstore.IfAbsent(), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// left are the keys of a store.
func left(t *testing.T, s objstore.Store) (keys []string) {
	t.Helper()
	for info, err := range s.List(context.Background(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// Every scenario asks of the store what docs promise, does the same without
// s3log, stays in its namespace, and leaves nothing in it.
func TestScenarios(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			var sides []*tracestore.Store // what is measured
			opt := small()
			opt.Slow = func(s objstore.Store) objstore.Store {
				sides = append(sides, tracestore.New(s, tracestore.Options{}))
				return sides[len(sides)-1]
			}
			b := New(store, opt)
			for _, s := range Scenarios() {
				r, err := b.Run(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				n := int64(opt.Rounds)
				want := map[Scenario]struct {
					ours, raw      int
					put, get, head int64
					events         int64
				}{
					Append:   {ours: 100, raw: 100, put: 100, events: 2000},
					Parallel: {ours: 80, raw: 25, put: r.Commits, events: 1600},
					Load:     {ours: 10, raw: 10, get: n * 2, events: 20_000},
					Verdict:  {ours: 10, raw: 10, get: n},
					Resume:   {ours: 10, raw: 10, put: n, get: n},
					Fork:     {ours: 10, raw: 10, put: 2 * n, get: n * 2},
					List:     {ours: 10, raw: 10, head: r.Counts.Head, get: r.Counts.Get},
				}[s]
				if s == List && want.get != 0 && want.get != want.head { // where there is no metadata
					t.Errorf("list: %+v", r.Counts)
				}
				seals := r.Counts.Put - want.put // one for each 48 KiB or so
				if s == Append || s == Parallel {
					want.put += seals
				}
				got := r.Counts
				if got.Put != want.put || got.Get != want.get || got.Head != want.head || seals < 0 || seals > 2 || got.Delete+got.Copy != 0 {
					t.Errorf("%s: %+v, want %+v", s, got, want)
				}
				if (s == List) != (got.List == n) || s == List && (got.Head < 20*n || got.Head > 40*n) {
					t.Errorf("%s: %+v", s, got)
				}
				if r.Ours.Latency.Count != want.ours || r.Raw.Latency.Count != want.raw || r.Events != want.events {
					t.Errorf("%s: %d and %d times, %d events, want %+v", s, r.Ours.Latency.Count, r.Raw.Latency.Count, r.Events, want)
				}
				if r.Ratio <= 0 || r.Heap == 0 || r.Ours.What == "" || r.Raw.What == "" || r.Ours.Latency.P50 <= 0 || r.Ours.Latency.Max < r.Ours.Latency.P99 {
					t.Errorf("%s: %+v", s, r)
				}
				if (r.Events > 0) != (r.Bytes > 100*r.Events && r.Elapsed > 0) {
					t.Errorf("%s: %d events of %d bytes in %v", s, r.Events, r.Bytes, r.Elapsed)
				}
				switch s {
				case Verdict, Resume, Fork, List:
					// Raw did the same as often, after one more time that is not counted.
					raw, slack := sides[0].Counts(), int64(1)
					if s == List {
						slack = 100 // the order of logs that are written at a time varies
					}
					if raw.Put != got.Put+got.Put/n || abs(raw.Get-got.Get-got.Get/n) > slack || abs(raw.Head-got.Head-got.Head/n) > slack || raw.List != got.List+got.List/n {
						t.Errorf("%s: %+v of the raw side, %+v of ours", s, raw, got)
					}
				}
				sides = nil
			}
			keys := left(t, store)
			for _, key := range keys {
				if !strings.HasPrefix(key, b.Prefix()) && key != other {
					t.Errorf("%s is outside of the namespace", key)
				}
			}
			removed, err := b.Clean(t.Context())
			if err != nil || removed != len(keys)-1 {
				t.Errorf("%d objects removed of %d, %v", removed, len(keys), err)
			}
			if diff := cmp.Diff([]string{other}, left(t, store)); diff != "" {
				t.Errorf("what is left (-want +got):\n%s", diff)
			}
		})
	}
}

func abs(n int64) int64 { return max(n, -n) }

// A delay counts on both sides, and not for what has to be there before, nor for
// the removal.
func TestSlowly(t *testing.T) {
	const trip = 20 * time.Millisecond
	opt := small()
	opt.Rounds, opt.Goroutines = 4, 4
	opt.Slow = func(s objstore.Store) objstore.Store {
		return delaystore.New(s, delaystore.Options{Latency: delaystore.Latency{Median: trip}})
	}
	b := New(memstore.New(t), opt)
	begin := time.Now()
	for _, s := range []Scenario{List, Verdict, Resume, Parallel} {
		r, err := b.Run(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if r.Ours.Latency.P50 < trip || r.Raw.Latency.P50 < trip {
			t.Errorf("%s: %v and %v", s, r.Ours.Latency.P50, r.Raw.Latency.P50)
		}
	}
	if d := time.Since(begin); d > 30*time.Second {
		t.Errorf("that took %v: what is not measured was slow, too", d)
	}
	if _, err := b.Clean(t.Context()); err != nil {
		t.Error(err)
	}
}

// Where a key takes few writes both sides wait, whether that is known or not, and
// neither fails.
func TestThrottled(t *testing.T) {
	for _, known := range []bool{true, false} {
		opt := small()
		opt.Events, opt.Batch = 100, 10
		opt.Slow = func(s objstore.Store) objstore.Store {
			slow := delaystore.New(s, delaystore.Options{WritesPerSecond: 8})
			if known {
				return slow
			}
			return tight{slow}
		}
		b := New(memstore.New(t), opt)
		if (b.Rate().PerSecond == 8) != known {
			t.Errorf("rate %+v, known is %v", b.Rate(), known)
		}
		r, err := b.Run(t.Context(), Append)
		if err != nil || r.Events != 100 || r.Raw.Latency.Count != 10 {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// tight hides what a store says of itself, and what it can do besides.
type tight struct{ objstore.Store }

// A fork of a large log copies segments, where the store can, and both sides do the
// same.
func TestForkOfALargeLog(t *testing.T) {
	for _, copies := range []bool{true, false} {
		opt := small()
		opt.Events, opt.Rounds = 60_000, 1
		var store objstore.Store = memstore.New(t)
		if !copies {
			store = tight{store}
		}
		r, err := New(store, opt).Run(t.Context(), Fork)
		if err != nil {
			t.Fatal(err)
		}
		if c := r.Counts; copies && (c.Copy < 2 || c.Put > 2) || !copies && (c.Copy > 1 || c.Put < 4) {
			t.Errorf("copies is %v: %+v", copies, c)
		}
	}
}

// The raw side goes on after replies that were lost, as s3log does.
func TestLostReplies(t *testing.T) {
	for _, s := range []Scenario{Append, Resume} {
		opt := small()
		opt.Events, opt.Rounds = 200, 5
		opt.Slow = func(s objstore.Store) objstore.Store {
			f := faultstore.New(s)
			for n := 2; n < 10; n += 3 {
				f.Inject(faultstore.Rule{Match: faultstore.Op("Put"), Nth: n, Fault: faultstore.LostReply()})
			}
			f.Inject(faultstore.Rule{Match: faultstore.Op("Put"), Nth: 4, Fault: faultstore.Conflict()})
			return f
		}
		if _, err := New(memstore.New(t), opt).Run(t.Context(), s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// Whatever is interrupted ends with that error, with nothing under way, and the
// namespace can be removed.
func TestInterrupted(t *testing.T) {
	for _, s := range Scenarios() {
		t.Run(string(s), func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			stopped := errors.New("stopped")
			opt := small()
			opt.Slow = func(s objstore.Store) objstore.Store {
				f := faultstore.New(s)
				f.Inject(faultstore.Rule{Nth: 7, Fault: faultstore.Before(func() { cancel(stopped) })})
				return f
			}
			mem := memstore.New(t)
			b := New(mem, opt)
			if _, err := b.Run(ctx, s); !errors.Is(err, stopped) || errors.Is(err, backend.ErrOutcomeUnknown) {
				t.Errorf("error %v", err)
			}
			keys := left(t, mem)
			if removed, err := b.Clean(context.WithoutCancel(ctx)); err != nil || removed != len(keys) || removed == 0 {
				t.Errorf("%d removed of %d, %v", removed, len(keys), err)
			}
			time.Sleep(20 * time.Millisecond)
			if keys := left(t, mem); len(keys) > 0 {
				t.Errorf("%q came later", keys)
			}
		})
	}
}

// What a store that does not answer leaves open concerns nobody: no token.
func TestNoAnswer(t *testing.T) {
	opt := small()
	opt.Backend.CommitTimeout = 50 * time.Millisecond
	opt.Slow = func(s objstore.Store) objstore.Store {
		return faultstore.New(s, faultstore.Rule{Match: faultstore.Puts("manifests/"), Fault: faultstore.LostReply()})
	}
	_, err := New(memstore.New(t), opt).Run(t.Context(), Append)
	if !errors.Is(err, objstore.ErrUndecided) || errors.Is(err, backend.ErrOutcomeUnknown) || backend.Token(err) != "" {
		t.Errorf("error %v", err)
	}
}

// What cannot be removed is said, and everything else is removed.
func TestCleanGoesOn(t *testing.T) {
	mem := memstore.New(t)
	f := faultstore.New(mem)
	b := New(f, small())
	if _, err := b.Run(t.Context(), Resume); err != nil {
		t.Fatal(err)
	}
	all := left(t, mem)
	f.Inject(faultstore.Rule{Match: faultstore.Op("Delete"), Nth: 1, Fault: faultstore.Denied()})
	removed, err := b.Clean(t.Context())
	if removed != len(all)-1 || !errors.Is(err, objstore.ErrDenied) || !strings.Contains(err.Error(), b.Prefix()) {
		t.Errorf("%d removed of %d, %v", removed, len(all), err)
	}
	if removed, err = b.Clean(t.Context()); removed != 1 || err != nil {
		t.Errorf("then %d removed, %v", removed, err)
	}
}

func TestUnknownScenario(t *testing.T) {
	if _, err := New(memstore.New(t), Options{}).Run(t.Context(), "flight"); err == nil || !strings.Contains(err.Error(), "append") {
		t.Errorf("error %v", err)
	}
}

func TestQuantiles(t *testing.T) {
	var d []time.Duration
	for i := range 200 {
		d = append(d, time.Duration(200-i))
	}
	if got, want := quantiles(slices.Clone(d)), (Quantiles{Count: 200, P50: 100, P90: 180, P99: 198, Max: 200, Mean: 100}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := quantiles(d[:1]), (Quantiles{1, 200, 200, 200, 200, 200}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := quantiles(nil); got != (Quantiles{}) {
		t.Errorf("%+v of nothing", got)
	}
}

func TestWithoutSeq(t *testing.T) {
	const line = `{"type":"note","seq":12,"time":3,"data":{"seq":4}}`
	if got := string(withoutSeq([]byte(line))); got != `{"type":"note","time":3,"data":{"seq":4}}` {
		t.Error(got)
	}
}
