package backend_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
)

// putBack is a store with a log whose older manifest was put back, and what the
// log holds then.
func putBack(t testing.TB) (*memstore.Store, []string) {
	t.Helper()
	mem, _ := threeSegments(t)
	older := mem.Snapshot("")[manifest.Key("log")]
	for i := range 3 {
		l := adopt(t, backend.New(mem, backend.Options{}), "log")
		appendOne(t, l, event(i))
		if err := l.Close(t.Context(), backend.CloseOptions{Seal: true}); err != nil {
			t.Fatal(err)
		}
	}
	mem.Replace(manifest.Key("log"), older)
	return mem, read(t, backend.NewReader(mem, backend.Options{}), "log", 0)
}

// Whatever goes wrong at whichever call, an older manifest stays what it is but
// for its epoch, and repeating it gets there.
func TestRaiseFaultMatrix(t *testing.T) {
	base, lines := putBack(t)
	for _, f := range forms {
		for n := 1; n <= 3; n++ { // LIST, GET, PUT
			synctest.Test(t, func(t *testing.T) {
				what := fmt.Sprintf("%s at call %d", f.name, n)
				mem := restore(&judge{t, what}, base.Snapshot(""))
				all := faultstore.New(mem)
				struck := all.Inject(faultstore.Rule{Nth: n, Times: f.times, Fault: f.fault})
				if f.then != nil {
					all.Inject(faultstore.Rule{Nth: n + 1, Fault: *f.then})
				}
				rep, err := backend.New(all, backend.Options{CommitTimeout: 20 * time.Second}).Rebuild(t.Context(), "log", backend.RebuildOptions{})
				if struck.Hits() == 0 {
					t.Errorf("%s: no call was struck", what)
				}
				struck.Stop()
				if backend.Token(err) != "" || err != nil && rep.Done {
					t.Errorf("%s: %+v, %v", what, rep, err)
				}
				again, err := backend.New(mem, backend.Options{}).Rebuild(t.Context(), "log", backend.RebuildOptions{})
				if err != nil || again.Done != (again.Found == backend.RebuildOlder) {
					t.Errorf("%s, repeated: %+v, %v", what, again, err)
				}
				struck.Release(context.Background())
				r := backend.NewReader(mem, backend.Options{})
				if got := read(t, r, "log", 0); !slices.Equal(got, lines) {
					t.Errorf("%s: %q", what, got)
				}
				if l := check(t, mem, backend.FsckOptions{})["log"]; !l.OK() {
					t.Errorf("%s: %+v", what, l)
				}
			})
		}
	}
}

// Of two that raise an older manifest at a time one does, and the other has
// nothing to do; a log that goes on meanwhile, or is deleted, is not touched.
func TestRaiseBesideOthers(t *testing.T) {
	base, lines := putBack(t)
	for _, tc := range []struct {
		name string
		act  func(mem *memstore.Store)
		done bool
		want error
	}{
		{name: "another raises it", act: func(mem *memstore.Store) {
			if rep, err := backend.New(mem, backend.Options{}).Rebuild(t.Context(), "log", backend.RebuildOptions{}); err != nil || !rep.Done {
				t.Errorf("%+v, %v", rep, err)
			}
		}},
		{name: "a commit that changes nothing", act: func(mem *memstore.Store) { maintain(t, mem, "log") }, done: true},
		{name: "it is deleted", act: func(mem *memstore.Store) {
			if _, err := backend.New(mem, backend.Options{}).Delete(t.Context(), "log", backend.AdoptOptions{TakeOver: true}); err != nil {
				t.Error(err)
			}
		}, want: backend.ErrDeleted},
		{name: "it is removed", act: func(mem *memstore.Store) { mem.Drop(manifest.Key("log")) }, want: backend.ErrNotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem := copied(t, base)
			store := faultstore.New(mem, faultstore.Rule{Match: faultstore.Puts("manifests/"), Nth: 1, Fault: faultstore.Before(func() { tc.act(mem) })})
			rep, err := backend.New(store, backend.Options{}).Rebuild(t.Context(), "log", backend.RebuildOptions{})
			if rep.Done != tc.done || !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
				t.Errorf("%+v, %v", rep, err)
			}
			if tc.want != nil {
				return
			}
			if got := read(t, backend.NewReader(mem, backend.Options{}), "log", 0); !slices.Equal(got, lines) {
				t.Errorf("%q", got)
			}
			if l := check(t, mem, backend.FsckOptions{})["log"]; !l.OK() || l.Epoch != rep.Epoch {
				t.Errorf("%+v, the report says epoch %d", l, rep.Epoch)
			}
		})
	}
}

// An object of an epoch that no log can have raises nothing.
func TestRaiseIgnoresWhatIsForeign(t *testing.T) {
	mem, _ := putBack(t)
	orphan(t, mem, "log", 1<<30)
	rep, err := backend.New(mem, backend.Options{}).Rebuild(t.Context(), "log", backend.RebuildOptions{})
	if err != nil || !rep.Done || rep.Epoch > 100 {
		t.Errorf("%+v, %v", rep, err)
	}
}

// What happens to the object between two looks at it is told apart.
func TestRebuildOfAManifestThatChanges(t *testing.T) {
	three, _ := threeSegments(t)
	body := three.Snapshot("")[manifest.Key("log")]
	for _, tc := range []struct {
		name  string
		act   func(mem *memstore.Store)
		fault faultstore.Fault // at the second look, unless there is act
		want  error
	}{
		{name: "is restored", act: func(mem *memstore.Store) { mem.Replace(manifest.Key("log"), body) }, want: backend.ErrExists},
		{name: "is removed", act: func(mem *memstore.Store) { mem.Drop(manifest.Key("log")) }},
		{name: "is denied", fault: faultstore.Denied(), want: backend.ErrDenied},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem := copied(t, three)
			mem.Replace(manifest.Key("log"), body[:50])
			f := tc.fault
			if tc.act != nil {
				f = faultstore.Before(func() { tc.act(mem) })
			}
			// It takes two reads to see that it is damaged.
			store := faultstore.New(mem, faultstore.Rule{Match: faultstore.Key(manifest.Key("log")), Nth: 3, Fault: f})
			rep, err := backend.New(store, backend.Options{}).Rebuild(t.Context(), "log", backend.RebuildOptions{})
			if err == nil || rep.Done || tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("%+v, %v", rep, err)
			}
		})
	}
}
