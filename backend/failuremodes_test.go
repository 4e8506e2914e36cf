package backend_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
)

// The tests named FailureMode… are the ways in which logs on object stores are
// known to lose what they have acknowledged, or to stand still; docs/cases.md
// lists them. Those that are about HTTP are in package integration.

// act is something that changes a log. What is there before it, and what is to
// be there after it, follows from a run without faults.
type act struct {
	name string
	log  string
	from func(t *testing.T) map[string][]byte
	do   func(ctx context.Context, b *backend.Backend) (backend.Receipt, error)
}

// done appends to a handle that was opened, and closes it.
func done(ctx context.Context, l *backend.Log, r backend.Receipt, err error, events ...[]byte) (backend.Receipt, error) {
	if err != nil || l == nil {
		return r, err
	}
	if len(events) > 0 {
		r, err = l.Append(ctx, events, backend.AppendOptions{})
	}
	if cerr := l.Close(ctx, backend.CloseOptions{}); err == nil {
		err = cerr
	}
	return r, err
}

func acts() []act {
	var large [][]byte
	for i := range 8 {
		large = append(large, tagged(fmt.Sprint("large", i), 30<<10))
	}
	adopting := func(events ...[]byte) func(context.Context, *backend.Backend) (backend.Receipt, error) {
		return func(ctx context.Context, b *backend.Backend) (backend.Receipt, error) {
			l, err := b.Adopt(ctx, "log", backend.AdoptOptions{TakeOver: true})
			return done(ctx, l, backend.Receipt{}, err, events...)
		}
	}
	return []act{
		{"create", "log", nothing, func(ctx context.Context, b *backend.Backend) (backend.Receipt, error) {
			l, err := b.Create("log", backend.CreateOptions{})
			return done(ctx, l, backend.Receipt{}, err, event(0))
		}},
		{"append", "log", openTurn, func(ctx context.Context, b *backend.Backend) (backend.Receipt, error) {
			l, err := b.Adopt(ctx, "log", backend.AdoptOptions{TakeOver: true})
			if err == nil {
				_, err = l.Append(ctx, [][]byte{event(0)}, backend.AppendOptions{})
			}
			return done(ctx, l, backend.Receipt{}, err, event(1), event(2))
		}},
		{"seal", "log", openTurn, adopting(large...)},
		{"merge", "log", fourSegments, adopting(event(0))},
		{"resume", "log", openTurn, func(ctx context.Context, b *backend.Backend) (backend.Receipt, error) {
			l, r, err := b.Resume(ctx, "log", backend.ResumeOptions{AdoptOptions: backend.AdoptOptions{TakeOver: true}})
			return done(ctx, l, r, err)
		}},
		{"late resume", "log", openTurn, func(ctx context.Context, b *backend.Backend) (backend.Receipt, error) {
			l, r, err := b.Resume(ctx, "log", backend.ResumeOptions{Delay: true, AdoptOptions: backend.AdoptOptions{TakeOver: true}})
			return done(ctx, l, r, err, event(0))
		}},
		{"fork", "child", fourSegments, func(ctx context.Context, b *backend.Backend) (backend.Receipt, error) {
			l, r, err := b.Fork(ctx, "log", "child", backend.ForkOptions{})
			return done(ctx, l, r, err)
		}},
		{"replay", "child", nothing, func(ctx context.Context, b *backend.Backend) (backend.Receipt, error) {
			l, r, err := b.Replay(ctx, "child", sequence(brief("note", "note")), backend.ReplayOptions{})
			return done(ctx, l, r, err)
		}},
		{"delete", "log", openTurn, func(ctx context.Context, b *backend.Backend) (backend.Receipt, error) {
			return b.Delete(ctx, "log", backend.AdoptOptions{TakeOver: true})
		}},
	}
}

func nothing(*testing.T) map[string][]byte { return nil }

func openTurn(t *testing.T) map[string][]byte {
	mem := memstore.New(t)
	written(t, backend.New(mem, backend.Options{}), "log", nil, brief(`turn/start {"turn":1}`, `step/start {"turn":1,"step":1}`))
	return mem.Snapshot("")
}

func fourSegments(t *testing.T) map[string][]byte { return smallSegments(t, 4) }

// smallSegments are those of a log that has merged nothing.
func smallSegments(t *testing.T, n int) map[string][]byte {
	mem := memstore.New(t)
	for i := range n {
		l, err := backend.New(mem, backend.Options{PauseMerging: true}).Create("log", backend.CreateOptions{OrAdopt: true})
		if err != nil {
			t.Fatal(err)
		}
		appendOne(t, l, tagged(fmt.Sprint("sealed", i), 100))
		if err := l.Close(t.Context(), backend.CloseOptions{Seal: true}); err != nil {
			t.Fatal(err)
		}
	}
	return mem.Snapshot("")
}

// oneByOne does things on the path of the call that asks for them, and asleep is
// the same of a process that was asleep without knowing it.
var (
	oneByOne = backend.Options{Foreground: true, Label: "act"}
	asleep   = backend.Options{Foreground: true, Label: "asleep", CommitTimeout: 300 * day}
)

// outcomeOf is what a log looks like, without times and random names.
func outcomeOf(t *testing.T, st objstore.Store, id string) (lines []string, info backend.Info) {
	t.Helper()
	r := backend.NewReader(st, backend.Options{})
	info, err := r.Info(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if info.State == manifest.StateOpen {
		verifyClean(t, r, id)
		lines = types(t, r, id)
	}
	return lines, info
}

// everyPut plays each act with a fault at its n-th PUT, for every n, and hands
// what came of it to check, beside what comes of it without.
func everyPut(t *testing.T, fault func() faultstore.Fault, check func(t *testing.T, a act, st *memstore.Store, i *faultstore.Injection, got, want backend.Receipt, err error)) {
	t.Helper()
	for _, a := range acts() {
		t.Run(a.name, func(t *testing.T) {
			for n := 1; ; n++ {
				struck := true
				synctest.Test(t, func(t *testing.T) {
					before := a.from(t)
					plain, faulty := restore(t, before), restore(t, before)
					want, err := a.do(t.Context(), backend.New(plain, oneByOne))
					if err != nil {
						t.Fatal(err)
					}
					store := faultstore.New(faulty)
					i := store.Inject(faultstore.Rule{Match: faultstore.Op("Put"), Nth: n, Fault: fault()})
					got, err := a.do(t.Context(), backend.New(store, oneByOne))
					if struck = i.Hits() > 0; !struck {
						return
					}
					check(t, a, faulty, i, got, want, err)
				})
				if !struck {
					if n == 1 {
						t.Error("it makes no PUT")
					}
					return
				}
			}
		})
	}
}

// Failure mode 1: one's own retry is answered 412, and is taken for a conflict,
// for being fenced, or appends twice. Whatever PUT of whatever operation was
// applied and its reply lost, it counts once, for its own writer.
func TestFailureMode1OwnRetryAnswered412(t *testing.T) {
	for name, fault := range map[string]func() faultstore.Fault{
		"reply lost":     faultstore.LostReply,
		"sent twice":     faultstore.Duplicate,
		"applied, 500":   func() faultstore.Fault { return faultstore.FailApplied(nil) },
		"applied, 503":   func() faultstore.Fault { return faultstore.FailApplied(objstore.ErrThrottled) },
		"late duplicate": faultstore.LateCopy,
	} {
		t.Run(name, func(t *testing.T) {
			everyPut(t, fault, func(t *testing.T, a act, st *memstore.Store, i *faultstore.Injection, got, want backend.Receipt, err error) {
				if err != nil {
					t.Fatalf("%s: %v", a.name, err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: another receipt, -want +got:\n%s", a.name, diff)
				}
				lines, info := outcomeOf(t, st, a.log)
				i.Release(t.Context())
				again, after := outcomeOf(t, st, a.log)
				if int64(len(lines)) != want.Next && info.State == manifest.StateOpen || info.Generation != want.Generation || info.Revision != want.Revision {
					t.Errorf("%s: %d events, generation %d, revision %d; want %+v", a.name, len(lines), info.Generation, info.Revision, want)
				}
				if !slices.Equal(lines, again) || info.Commit != after.Commit {
					t.Errorf("%s: changed by a request that was late", a.name)
				}
			})
		})
	}
}

// Failure mode 3: a collector removes a name, the stalled writer makes it again,
// and acknowledged events are lost. Here no name is used twice: a writer whose
// upload was collected learns it before its commit counts, whether somebody has
// replaced it meanwhile or not, and what comes back late is nobody's.
func TestFailureMode3NamesAreNotReused(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		t.Run(fmt.Sprint("replaced ", replaced), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New(t)
				store := faultstore.New(mem)
				l := create(t, backend.New(store, asleep), "log")
				c := newClaims()
				say := func(l *backend.Log, tag string, pad int) error {
					t.Helper()
					r, err := l.Append(t.Context(), [][]byte{tagged(tag, pad)}, backend.AppendOptions{})
					if err == nil {
						err = c.acked(r, tag)
					}
					return err
				}
				if err := say(l, "first", 10); err != nil {
					t.Fatal(err)
				}
				names := map[string][32]byte{} // every segment that was ever sent
				reused, first, firstBody := false, "", []byte(nil)
				store.Inject(faultstore.Rule{Match: func(op, key string, body []byte) bool {
					if op != "Put" || !strings.HasPrefix(key, "segments/") {
						return false
					}
					sum := sha256.Sum256(body)
					was, known := names[key]
					reused = reused || known && was != sum
					if names[key] = sum; first == "" {
						first, firstBody = key, slices.Clone(body)
					}
					return false
				}})
				var heir *backend.Log
				store.Inject(faultstore.Rule{Match: manifestPuts, Nth: 1, Fault: faultstore.Before(func() {
					time.Sleep(3 * day)
					if removed := fates(collect(t, mem, backend.GCOptions{})); len(removed) != 1 {
						t.Errorf("collected: %v", removed)
					}
					if replaced {
						heir = adopt(t, backend.New(store, oneByOne), "log")
						if err := say(heir, "heir", 200<<10); err != nil {
							t.Error(err)
						}
					}
				})})
				err := say(l, "stalled", 200<<10)
				switch {
				case replaced && !errors.Is(err, backend.ErrFenced), !replaced && err != nil:
					t.Errorf("got %v", err)
				case replaced:
					c.absent["stalled"] = true
				}
				// The removed object comes back, by a copy of its PUT that was late.
				mem.Replace(first, firstBody)
				if len(names) != 2 || reused {
					t.Errorf("%d names, used for other bytes: %v", len(names), reused)
				}
				for range 2 {
					if err := audit(t.Context(), mem, "log", c); err != nil {
						t.Error(err)
					}
					time.Sleep(3 * day)
					collect(t, mem, backend.GCOptions{})
				}
				rec := info(t, backend.NewReader(mem, backend.Options{}), "log")
				if left := len(mem.Snapshot("segments/")); left != len(rec.Segments) || left != 1 {
					t.Errorf("%d segments, %d of them named", left, len(rec.Segments))
				}
				_ = l.Close(t.Context(), backend.CloseOptions{})
				if heir != nil {
					closeLog(t, heir)
				}
			})
		})
	}
}

// Failure mode 4: a collector removes what was uploaded and is not named yet, or
// what somebody reads. Within the grace it does neither; after it the one uploads
// again and the other finds the events where they are now.
func TestFailureMode4CollectorSparesWhatIsInUse(t *testing.T) {
	t.Run("uploaded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.New(t)
			trace := tracestore.New(mem, tracestore.Options{})
			store := faultstore.New(trace)
			l := create(t, backend.New(store, asleep), "log")
			appendOne(t, l, event(0))
			store.Inject(faultstore.Rule{Match: manifestPuts, Nth: 1, Fault: faultstore.Before(func() {
				time.Sleep(backend.DefaultGrace / 2)
				for _, g := range collect(t, mem, backend.GCOptions{}) {
					if n, _ := g.Removed(); n > 0 || g.Barrier {
						t.Errorf("%+v", g)
					}
				}
			})})
			before := trace.Counts()
			appendOne(t, l, tagged("large", 200<<10))
			if c := trace.Counts().Sub(before); c.Put != 2 {
				t.Errorf("%d PUTs, want one segment and one manifest", c.Put)
			}
			closeLog(t, l)
			verifyClean(t, backend.NewReader(mem, backend.Options{}), "log")
		})
	})
	for name, tc := range map[string]struct {
		sleep     time.Duration
		manifests int64 // further reads of the manifest by the reader
	}{
		"read, within the grace": {backend.DefaultGrace / 2, 0},
		"read, after the grace":  {3 * day, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := restore(t, smallSegments(t, 12))
				want := read(t, backend.NewReader(mem, backend.Options{}), "log", 0)
				trace := tracestore.New(mem, tracestore.Options{})
				looked := faultstore.New(trace)
				looks := looked.Inject(faultstore.Rule{Match: faultstore.And(faultstore.Op("Get"), faultstore.Prefix("manifests/")), Fault: faultstore.After(func() {})})
				var got []string
				for ev, err := range backend.NewReader(looked, backend.Options{Prefetch: 1}).Events(t.Context(), "log", backend.ReadOptions{}) {
					if err != nil {
						t.Fatal(err)
					}
					if got = append(got, string(ev.Line)); len(got) == 1 {
						b := backend.New(mem, oneByOne)
						l := adopt(t, b, "log")
						for range 3 {
							appendOne(t, l, event(0)) // and merges
						}
						closeLog(t, l)
						merged := len(info(t, b.Reader, "log").Segments)
						if merged > 3 {
							t.Fatalf("%d segments after merges", merged)
						}
						time.Sleep(tc.sleep)
						collect(t, mem, backend.GCOptions{})
						if n := len(mem.Snapshot("segments/")); (n == merged) != (tc.manifests > 0) {
							t.Errorf("%d segments are left", n)
						}
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("%d events", len(got))
				}
				if n := int64(looks.Hits()) - 1; n != tc.manifests {
					t.Errorf("the manifest was read %d times more, want %d", n, tc.manifests)
				}
			})
		})
	}
}

// Failure mode 6: a PUT that is late lands after a newer one. Whatever PUT of
// whatever operation it is, it changes nothing any more.
func TestFailureMode6LatePut(t *testing.T) {
	everyPut(t, faultstore.Late, func(t *testing.T, a act, st *memstore.Store, i *faultstore.Injection, _, _ backend.Receipt, err error) {
		if err != nil {
			t.Fatalf("%s: %v", a.name, err)
		}
		if a.name != "delete" {
			takeOver(t, st, a.log, "newer", newClaims())
		}
		before := st.Snapshot("")
		for _, err := range i.Release(t.Context()) {
			if !errors.Is(err, objstore.ErrPrecondition) {
				t.Errorf("%s: the late PUT: %v", a.name, err)
			}
		}
		if diff := cmp.Diff(before, st.Snapshot("")); diff != "" {
			t.Errorf("%s: a late PUT changed something:\n%s", a.name, diff)
		}
	})
}

// Failure mode 7: a version comes back (ETags are sums of bytes), and a condition
// on the old one holds again. No two manifests of a log have the same bytes: not
// where the clock stands still, nor where the same is done again and again.
func TestFailureMode7VersionsDoNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		frozen := time.Now()
		mem.SetClock(func() time.Time { return frozen })
		seen := map[[32]byte]string{}
		what := ""
		store := faultstore.New(mem, faultstore.Rule{Match: func(op, key string, body []byte) bool {
			if op == "Put" && strings.HasPrefix(key, "manifests/") {
				sum := sha256.Sum256(body)
				if was, known := seen[sum]; known {
					t.Errorf("%s has the bytes of %s", what, was)
				}
				seen[sum] = what
			}
			return false
		}})
		b := backend.New(store, backend.Options{Foreground: true, Label: "same", Software: "same"})
		same := []byte(`{"type":"note","time":1,"data":1}`)
		for round := range 20 {
			step := func(name string, err error) {
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				what = fmt.Sprint(name, " of round ", round)
			}
			what = fmt.Sprint("create of round ", round)
			l := create(t, b, "log")
			appendOne(t, l, same)
			appendOne(t, l, same)
			step("append", l.Close(t.Context(), backend.CloseOptions{Release: true, Seal: true}))
			for range 3 {
				l, err := b.Adopt(t.Context(), "log", backend.AdoptOptions{TakeOver: true})
				step("adopt", err)
				_, err = l.Claim(t.Context())
				step("claim", err)
				step("close", l.Close(t.Context(), backend.CloseOptions{Release: true}))
			}
			// Somebody puts the oldest state back, or removes it all, and it is all done
			// again from there.
			mem.Drop(manifest.Key("log"))
			for key := range mem.Snapshot("segments/") {
				mem.Drop(key)
			}
		}
		if len(seen) < 20*6 {
			t.Errorf("%d manifests", len(seen))
		}
	})
}

// Failure mode 8: manifests grow without end, and readers and idle loops send
// requests for ever.
func TestFailureMode8NothingRunsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		trace := tracestore.New(mem, tracestore.Options{})
		b := backend.New(trace, oneByOne)
		largest := 0
		l := create(t, b, "log")
		for i := range 120 { // each of them is sealed
			appendOne(t, l, tagged(fmt.Sprint(i), 130<<10))
			largest = max(largest, len(mem.Snapshot(manifest.Key("log"))[manifest.Key("log")]))
		}
		rec := info(t, b.Reader, "log")
		if len(rec.Segments) > 20 || largest > 64<<10 {
			t.Errorf("%d segments, the largest manifest had %d bytes", len(rec.Segments), largest)
		}
		before := trace.Counts()
		time.Sleep(30 * day)
		if c := trace.Counts().Sub(before); c.Requests() != 0 {
			t.Errorf("an idle writer sent %+v", c)
		}
		// A reader that follows asks as often as it was told to, gets nothing, and
		// writes nothing.
		r := backend.NewReader(trace, backend.Options{PollInterval: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
		defer cancel()
		next := rec.Next - 1
		for _, err := range r.Follow(ctx, "log", next) {
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			next++
		}
		c := trace.Counts().Sub(before)
		if c.Requests() != c.Get || c.Get > 605 || c.Put != 0 || c.BytesIn > 4<<20 {
			t.Errorf("ten hours of following: %+v", c)
		}
		closeLog(t, l)
	})
}

// Failure mode 9: a clone that is half done, or that breaks when its parent is
// cleaned up. Where a fork ends at any of its requests there is no child, or the
// whole child; repeated it is whole; and it needs nothing of its parent.
func TestFailureMode9HalfDoneFork(t *testing.T) {
	want := append(slices.Repeat([]string{"note"}, 4), "session/end-seed")
	for n := 1; ; n++ {
		struck := true
		synctest.Test(t, func(t *testing.T) {
			mem := restore(t, fourSegments(t))
			store := faultstore.New(mem)
			i := store.Inject(faultstore.Rule{Nth: n, Times: -1, Fault: faultstore.Unavailable()})
			opt := oneByOne
			opt.CommitTimeout = time.Minute
			_, _, err := backend.New(store, opt).Fork(t.Context(), "log", "child", backend.ForkOptions{Release: true})
			if struck = i.Hits() > 0; !struck {
				return
			}
			if err == nil {
				t.Errorf("call %d: no error", n)
			}
			b := backend.New(mem, backend.Options{})
			if _, err := b.Info(t.Context(), "child"); !errors.Is(err, backend.ErrNotFound) {
				t.Errorf("call %d: half a child: %v", n, err)
			}
			if r := forked(t, b, "log", "child", backend.ForkOptions{}); r.Duplicate || r.Next != 5 {
				t.Errorf("call %d: %+v", n, r)
			}
			if r := forked(t, b, "log", "child", backend.ForkOptions{}); !r.Duplicate || r.Next != 5 {
				t.Errorf("call %d, once more: %+v", n, r)
			}
			// The parent is deleted and collected, with what the failed forks have left.
			if _, err := b.Delete(t.Context(), "log", backend.AdoptOptions{TakeOver: true}); err != nil {
				t.Error(err)
			}
			time.Sleep(3 * day)
			collect(t, mem, backend.GCOptions{})
			time.Sleep(3 * day)
			collect(t, mem, backend.GCOptions{})
			for key := range mem.Snapshot("") {
				if strings.HasPrefix(key, manifest.SegmentPrefix("log")) {
					t.Errorf("%s is left", key)
				}
			}
			sameTypes(t, b.Reader, "child", want...)
			if rec := info(t, b.Reader, "child"); len(mem.Snapshot(manifest.SegmentPrefix("child"))) != len(rec.Segments) {
				t.Errorf("call %d: uploads of failed forks are left", n)
			}
		})
		if !struck {
			if n < 7 {
				t.Errorf("a fork made %d calls", n-1)
			}
			return
		}
	}
}
