package backend_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
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

// damages are what may happen to the object of a segment.
var damages = map[string]func(s *memstore.Store, key string){
	"missing": func(s *memstore.Store, key string) { s.Drop(key) },
	"flipped": func(s *memstore.Store, key string) {
		body := s.Snapshot(key)[key]
		body[len(body)/2] ^= 1
		s.Replace(key, body)
	},
	"cut":    func(s *memstore.Store, key string) { s.Replace(key, s.Snapshot(key)[key][:100]) },
	"longer": func(s *memstore.Store, key string) { s.Replace(key, append(s.Snapshot(key)[key], "more"...)) },
	"other":  func(s *memstore.Store, key string) { s.Replace(key, []byte("garbage")) },
}

// repairable has a log at two stores, and the keys of its segments.
func repairable(t *testing.T) (from, to *memstore.Store, keys []string) {
	t.Helper()
	from = memstore.New(t)
	segmented(t, from, "log", 4, 5000)
	to, keys = copyOf(t, from)
	return from, to, keys
}

// copyOf has the log of another store, and the keys of its segments.
func copyOf(t *testing.T, from *memstore.Store) (to *memstore.Store, keys []string) {
	t.Helper()
	to = memstore.New(t)
	transferred(t, from, to, "log", backend.CopyOptions{})
	for _, s := range record(t, from, "log").Segments {
		keys = append(keys, manifest.SegmentKey("log", s.Name))
	}
	return to, keys
}

var verifying = backend.CopyOptions{Verify: true}

// Whatever happened to segments at the destination, the copy puts their bytes back,
// and says so; nothing else is written.
func TestCopyRepairs(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			from, to, keys := repairable(t)
			damage(to, keys[1])
			damage(to, keys[3])
			was := "damaged"
			if name == "missing" {
				was = "missing"
			}
			before := to.Snapshot("")
			rep := transferred(t, from, to, "log", backend.CopyOptions{Verify: true, DryRun: true})
			if rep.Copied || len(rep.Repairs) != 2 || rep.Repairs[0].Err != nil || rep.Verified.OK() || !sameObjects(before, to.Snapshot("")) {
				t.Errorf("a dry run: %+v", rep)
			}
			trace := tracestore.New(to, tracestore.Options{})
			if rep = transferred(t, from, trace, "log", verifying); !rep.Copied || !rep.Duplicate || rep.Segments != 2 || !rep.Verified.OK() {
				t.Errorf("%+v", rep)
			}
			for i, key := range []string{keys[1], keys[3]} {
				if r := rep.Repairs[i]; r.Key != key || r.Was != was || r.Err != nil || r.Bytes != int64(len(to.Snapshot(key)[key])) {
					t.Errorf("%+v", r)
				}
			}
			if n := trace.Counts(); n.Put != 2 || n.Delete != 0 {
				t.Errorf("%+v", n)
			}
			exact(t, from, to, "log")
			if rep = transferred(t, from, to, "log", verifying); rep.Copied || rep.Repairs != nil {
				t.Errorf("again: %+v", rep)
			}
		})
	}
}

// The log that is damaged may have gone on since it was copied, and its copy may have
// been taken over: what both have helps all the same.
func TestCopyRepairsWhatHasDiverged(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, from, to *memstore.Store){
		"ahead": func(t *testing.T, _, to *memstore.Store) { goOn(t, to) },
		"both":  func(t *testing.T, from, to *memstore.Store) { goOn(t, from); goOn(t, to) },
		"older": func(t *testing.T, from, _ *memstore.Store) { goOn(t, from) },
	} {
		t.Run(name, func(t *testing.T) {
			from, to, keys := repairable(t)
			change(t, from, to)
			body := to.Snapshot("")[manifest.Key("log")]
			damages["flipped"](to, keys[0])
			damages["missing"](to, keys[2])
			rep, err := copyLog(t, from, to, "log", verifying)
			if len(rep.Repairs) != 2 || rep.Segments != 2 || !rep.Copied || rep.Verified == nil || !rep.Verified.OK() {
				t.Errorf("%+v", rep)
			}
			verifyClean(t, backend.NewReader(to, backend.Options{}), "log")
			if name == "older" {
				if err != nil || rep.Duplicate {
					t.Errorf("%+v, %v", rep, err)
				}
				exact(t, from, to, "log")
				return
			}
			oe, ok := errors.AsType[*backend.OpError](err)
			if !errors.Is(err, backend.ErrDiverged) || !ok || !strings.HasPrefix(oe.Hint, "2 segments put back there, and nothing else was changed") {
				t.Errorf("%v", err)
			}
			if rec := record(t, to, "log"); rep.Events != rec.Next || rep.Root != rec.Content.Tree.Root || rep.Revision != rec.Revision || !bytes.Equal(body, to.Snapshot("")[manifest.Key("log")]) {
				t.Errorf("%+v", rep)
			}
			if rep, err = copyLog(t, from, to, "log", verifying); !errors.Is(err, backend.ErrDiverged) || rep.Copied || !rep.Verified.OK() {
				t.Errorf("again: %+v, %v", rep, err)
			}
		})
	}
}

// goOn appends as another owner.
func goOn(t *testing.T, st objstore.Store) {
	t.Helper()
	if _, err := appendLast(t, backend.New(st, backend.Options{PauseMerging: true}), "log", event(4)); err != nil {
		t.Fatal(err)
	}
}

// Where the source cannot help nothing is written, and it is said why; what it can
// help with is repaired.
func TestCopyRepairsOnlyWithTheSameBytes(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(t *testing.T, from *memstore.Store, key string)
		want   error
		says   string
	}{
		"damaged there, too":    {func(_ *testing.T, from *memstore.Store, key string) { damages["flipped"](from, key) }, backend.ErrCorrupt, "source: "},
		"the same damage there": {func(_ *testing.T, from *memstore.Store, key string) { from.Replace(key, []byte("garbage")) }, backend.ErrCorrupt, "source: "},
		"missing there, too":    {func(_ *testing.T, from *memstore.Store, key string) { from.Drop(key) }, backend.ErrMissing, "source: "},
		"in other segments":     {func(t *testing.T, from *memstore.Store, _ string) { foldNow(t, from, "log") }, nil, "no segment with the bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			from, to, keys := repairable(t)
			if name == "in other segments" { // which the copy would be brought to otherwise
				goOn(t, to)
			}
			tc.change(t, from, keys[1])
			damages["flipped"](to, keys[1])
			damages["cut"](to, keys[2])
			before := to.Snapshot("")
			rep, err := copyLog(t, from, to, "log", verifying)
			if err != nil && !errors.Is(err, backend.ErrDiverged) || len(rep.Repairs) != 2 || rep.Verified.OK() {
				t.Fatalf("%+v, %v", rep, err)
			}
			if r := rep.Repairs[0]; r.Key != keys[1] || r.Err == nil || tc.want != nil && !errors.Is(r.Err, tc.want) || !strings.Contains(r.Err.Error(), tc.says) {
				t.Errorf("%+v", r)
			}
			for key, body := range to.Snapshot("") {
				if same := bytes.Equal(body, before[key]); same == (key == keys[2] && tc.want != nil) {
					t.Errorf("%s: the same %v", key, same)
				}
			}
		})
	}
}

// Whichever call of a repair fails, and however, the object holds what it held or what
// it should, and repeating it ends well; late requests change nothing after that.
func TestCopyRepairFaultMatrix(t *testing.T) {
	from, _, _ := repairable(t)
	for name, damage := range damages {
		if (testing.Short() || raceDetector) && (name == "cut" || name == "flipped" || name == "other") {
			continue // another way of the same: "longer" stays, and "missing"
		}
		t.Run(name, func(t *testing.T) {
			for _, f := range forms {
				for n, more := 1, true; more; n++ {
					synctest.Test(t, func(t *testing.T) {
						what := fmt.Sprintf("%s at call %d", f.name, n)
						to, keys := copyOf(t, from)
						damage(to, keys[2])
						before := to.Snapshot("")[keys[2]]
						faulty := faultstore.New(to)
						struck := faulty.Inject(faultstore.Rule{Nth: n, Times: f.times, Fault: f.fault})
						for try := 0; ; try++ {
							rep, err := backend.New(faulty, backend.Options{CommitTimeout: 20 * time.Second, Prefetch: 1}).
								Copy(t.Context(), backend.NewReader(from, backend.Options{}), "log", verifying)
							if now := to.Snapshot("")[keys[2]]; !bytes.Equal(now, before) && !bytes.Equal(now, from.Snapshot("")[keys[2]]) {
								t.Fatalf("%s: there are %d bytes", what, len(now))
							}
							if err == nil && rep.Verified.OK() {
								break
							}
							if try == 3 {
								t.Fatalf("%s: %+v, %v", what, rep, err)
							}
							if f.times < 0 {
								struck.Stop()
							}
						}
						more = struck.Hits() > 0
						struck.Stop()
						exact(t, from, to, "log")
						struck.Release(context.Background())
						exact(t, from, to, "log")
					})
				}
			}
		})
	}
}

// Of several repairs at once each ends well, at whatever request the others come
// in between; so does a newer object that somebody else puts there.
func TestCopyRepairsRace(t *testing.T) {
	from, to, keys := repairable(t)
	for round := range 20 {
		for name := range damages {
			damages[name](to, keys[round%4])
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					opt := backend.Options{MinBackoff: time.Millisecond, MaxBackoff: 3 * time.Millisecond}
					rep, err := backend.New(to, opt).Copy(t.Context(), backend.NewReader(from, backend.Options{}), "log", verifying)
					if err != nil || !rep.Verified.OK() || slices.ContainsFunc(rep.Repairs, func(r backend.Repair) bool { return r.Err != nil }) {
						t.Errorf("%s: %+v, %v", name, rep, err)
					}
				})
			}
			wg.Wait()
			exact(t, from, to, "log")
		}
	}
	for _, when := range []func(func()) faultstore.Fault{faultstore.Before, faultstore.After} {
		for _, other := range []func(){
			func() { to.Replace(keys[0], from.Snapshot("")[keys[0]]) },
			func() { to.Replace(keys[0], []byte("other garbage")) },
			func() { to.Drop(keys[0]) },
		} {
			for n, hit := 1, true; hit; n++ {
				damages["flipped"](to, keys[0])
				faulty := faultstore.New(to)
				struck := faulty.Inject(faultstore.Rule{Nth: n, Fault: when(other)})
				rep, err := copyLog(t, from, faulty, "log", verifying)
				if hit = struck.Hits() > 0; err != nil {
					t.Fatalf("at call %d: %+v, %v", n, rep, err)
				}
				transferred(t, from, to, "log", verifying)
				exact(t, from, to, "log")
			}
		}
	}
}
