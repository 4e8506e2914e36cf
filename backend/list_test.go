package backend_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// prompt is a message of a person at a time (ms).
func prompt(at int64) []byte {
	return fmt.Appendf(nil, `{"type":"user/message","time":%d,"data":{"turn":1,"source":{"kind":"user"},"content":[]}}`, at)
}

// listed are the ids of a listing.
func listed(t testing.TB, r *backend.Reader, opt backend.ListOptions) (ids []string) {
	t.Helper()
	for e, err := range r.List(t.Context(), opt) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.Log)
	}
	return ids
}

// Modification times do not order sessions (C-08): what a person did last does.
func TestC08OrderByActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		b := backend.New(mem, backend.Options{})
		start := time.Now()
		logs := map[string]*backend.Log{}
		for i, id := range []string{"never", "x", "y", "z"} {
			l, err := b.Create(id, backend.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			logs[id] = l
			if id == "never" {
				appendOne(t, l, event(0))
			} else {
				appendOne(t, l, prompt(start.UnixMilli()+int64(i)*1000))
			}
			time.Sleep(10 * time.Second)
		}
		want := []string{"z", "y", "x", "never"}
		if got := listed(t, b.Reader, backend.ListOptions{}); !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		// Titles, boundaries, repairs, merges, copies: later writes that no person made.
		appendOne(t, logs["x"], event(1))
		time.Sleep(time.Second)
		maintain(t, mem, "never")
		time.Sleep(time.Second)
		if got := listed(t, b.Reader, backend.ListOptions{}); !slices.Equal(got, want) {
			t.Errorf("after other writes: %q", got)
		}
		for k := 1; k <= 4; k++ {
			if got := listed(t, b.Reader, backend.ListOptions{Limit: k}); !slices.Equal(got, want[:k]) {
				t.Errorf("newest %d: %q", k, got)
			}
		}
		if got := listed(t, b.Reader, backend.ListOptions{By: backend.ByModified}); !slices.Equal(got, []string{"never", "x", "z", "y"}) {
			t.Errorf("by modification: %q", got)
		}
		if got := listed(t, b.Reader, backend.ListOptions{By: backend.ByName}); !slices.Equal(got, []string{"never", "x", "y", "z"}) {
			t.Errorf("by name: %q", got)
		}
		// A copy of the bucket has new times and no metadata.
		for key, body := range mem.Snapshot("manifests/") {
			mem.Replace(key, body)
			time.Sleep(time.Second)
		}
		if got := listed(t, backend.NewReader(mem, backend.Options{}), backend.ListOptions{}); !slices.Equal(got, want) {
			t.Errorf("a copy: %q", got)
		}
		// A time in the future is capped by the modification.
		appendOne(t, logs["x"], prompt(start.Add(1000*time.Hour).UnixMilli()))
		time.Sleep(time.Minute)
		appendOne(t, logs["y"], prompt(time.Now().UnixMilli()))
		if got := listed(t, b.Reader, backend.ListOptions{}); !slices.Equal(got, []string{"y", "x", "z", "never"}) {
			t.Errorf("a time in the future: %q", got)
		}
		for _, l := range logs {
			closeLog(t, l)
		}
	})
}

// A listing ends with its context, also while it waits for the store.
func TestListEndsWithItsContext(t *testing.T) {
	for _, by := range []backend.Order{backend.ByActivity, backend.ByModified, backend.ByName} {
		for _, op := range []string{"Head", "List", "Get"} {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New(t)
				for i := range 40 {
					l := create(t, backend.New(mem, backend.Options{}), fmt.Sprint("log", i))
					appendOne(t, l, event(0))
					closeLog(t, l)
				}
				store := faultstore.New(mem, faultstore.Rule{Match: faultstore.Op(op), Fault: faultstore.Delay(time.Second)})
				if op == "Get" {
					for key, body := range mem.Snapshot("") {
						mem.Replace(key, body) // without metadata every log is read
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
				defer cancel()
				var last error
				for _, err := range backend.NewReader(store, backend.Options{}).List(ctx, backend.ListOptions{By: by}) {
					last = err
				}
				if !errors.Is(last, context.DeadlineExceeded) {
					t.Errorf("%s, %s: %v", by, op, last)
				}
			})
		}
	}
}

// A list that breaks off is an error, after what was right of it or before.
func TestListThatBreaksOff(t *testing.T) {
	mem := memstore.New(t)
	for i := range 50 {
		l := create(t, backend.New(mem, backend.Options{}), fmt.Sprint("log", i))
		appendOne(t, l, event(0))
		closeLog(t, l)
	}
	for _, by := range []backend.Order{backend.ByActivity, backend.ByModified, backend.ByName} {
		for _, n := range []int{0, 1, 20, 49} {
			store := faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("List"), Fault: faultstore.FailList(n, objstore.ErrUndecided)})
			var last error
			seen := map[string]bool{}
			for e, err := range backend.NewReader(store, backend.Options{}).List(t.Context(), backend.ListOptions{By: by}) {
				if last = err; err == nil {
					if seen[e.Log] {
						t.Errorf("%s twice", e.Log)
					}
					seen[e.Log] = true
				}
			}
			if !errors.Is(last, objstore.ErrUndecided) || len(seen) > n {
				t.Errorf("%s, broken after %d: %d entries, %v", by, n, len(seen), last)
			}
		}
	}
}

// One log that cannot be looked at does not hide the others; what is no log is
// no entry.
func TestListShowsWhatItCannotRead(t *testing.T) {
	mem := memstore.New(nil)
	b := backend.New(mem, backend.Options{})
	long := strings.Repeat("x", 900)
	for _, id := range []string{"a", "b", "c", "deleted", long} {
		l := create(t, b, id)
		appendOne(t, l, event(0))
		closeLog(t, l)
	}
	commitBy(t, mem, "deleted", func(base *manifest.Record, w manifest.Writer) (*manifest.Draft, error) {
		d, err := manifest.TakeOver(base, w, manifest.KindDelete, base.Commit.At)
		if err == nil {
			d.Delete()
		}
		return d, err
	})
	mem.Replace(manifest.Key("b"), []byte("damaged"))
	mem.Replace("manifests/unrelated.txt", []byte("x"))
	mem.Replace("manifests/sub/x.json", []byte("x"))
	mem.Replace("manifests/=4x.json", []byte("x"))
	for _, by := range []backend.Order{backend.ByActivity, backend.ByModified, backend.ByName} {
		got := map[string]error{}
		for e, err := range b.List(t.Context(), backend.ListOptions{By: by}) {
			if err != nil {
				t.Fatal(err)
			}
			got[e.Log] = e.Err
		}
		if len(got) != 4 || got["a"] != nil || got["c"] != nil || got[long] != nil || !errors.Is(got["b"], backend.ErrCorrupt) {
			t.Errorf("%s: %v", by, got)
		}
		if ids := listed(t, b.Reader, backend.ListOptions{By: by, Deleted: true}); len(ids) != 5 || !slices.Contains(ids, "deleted") {
			t.Errorf("%s: %q", by, ids)
		}
		if _, there := got[long]; !there {
			t.Errorf("%s: the long id is not listed", by)
		}
	}
	// Without the right to look, entries say so.
	denied := faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Head", "Get"), Fault: faultstore.Denied()})
	n := 0
	for e, err := range backend.NewReader(denied, backend.Options{}).List(t.Context(), backend.ListOptions{}) {
		if err != nil || !errors.Is(e.Err, backend.ErrDenied) {
			t.Errorf("%+v, %v", e, err)
		}
		n++
	}
	if n != 5 {
		t.Errorf("%d entries", n)
	}
}

// A listing asks about no more logs than it shows, where the order of the keys or of
// their modification is that of the listing.
func TestListAsksAboutWhatItShows(t *testing.T) {
	mem := memstore.New(t)
	for i := range 30 {
		l := create(t, backend.New(mem, backend.Options{}), fmt.Sprint("log", i))
		appendAll(t, l, event(0))
		closeLog(t, l)
	}
	for _, by := range []backend.Order{backend.ByName, backend.ByModified} {
		for _, limit := range []int{1, 3, 8, 20, 30, 40} {
			requests := tracestore.New(mem, tracestore.Options{})
			shown := 0
			for _, err := range backend.NewReader(requests, backend.Options{}).List(t.Context(), backend.ListOptions{By: by, Limit: limit}) {
				if err != nil {
					t.Fatal(err)
				}
				shown++
			}
			if heads := requests.Counts().Head; shown != min(limit, 30) || heads != int64(shown) {
				t.Errorf("by %s, %d at most: %d shown, %d HEAD", by, limit, shown, heads)
			}
		}
	}
}
