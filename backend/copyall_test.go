package backend_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
)

// Every log of a store is copied, whatever its id; what goes wrong with one does
// not end the rest.
func TestCopyAll(t *testing.T) {
	from, to := memstore.New(t), memstore.New(t)
	b := backend.New(from, backend.Options{})
	ids := []string{"a", "b/c", strings.Repeat("long ", 100), "ü"}
	for i := range 3 * 32 {
		ids = append(ids, "log-"+string(rune('a'+i/10))+string(rune('a'+i%10)))
	}
	for _, id := range ids {
		written(t, b, id, nil, [][]byte{event(1)})
	}
	segmented(t, from, "big", 5, 20<<10)
	for _, gone := range []string{"deleted", strings.Repeat("deleted ", 100)} {
		written(t, b, gone, nil, [][]byte{event(1)})
		if _, err := b.Delete(t.Context(), gone, backend.AdoptOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	from.Replace(manifest.Key("damaged"), []byte("garbage"))
	from.Replace(manifest.Key("void"), voidBody(t, "void"))
	written(t, backend.New(to, backend.Options{}), "a", nil, [][]byte{event(1)}) // another log
	wrong := map[string]error{"a": backend.ErrExists, "damaged": backend.ErrCorrupt}

	all := func(opt backend.CopyOptions) (reports map[string]backend.CopyReport) {
		t.Helper()
		reports = map[string]backend.CopyReport{}
		for rep, err := range backend.New(to, backend.Options{}).CopyAll(t.Context(), backend.NewReader(from, backend.Options{}), opt) {
			if err != nil {
				t.Fatal(err)
			}
			if !errors.Is(rep.Err, wrong[rep.Log]) {
				t.Errorf("%s: %v", rep.Log, rep.Err)
			}
			reports[rep.Log] = rep
		}
		if len(reports) != len(ids)+2 {
			t.Errorf("%d reports, %q", len(reports), slices.Sorted(maps.Keys(reports)))
		}
		return reports
	}
	all(backend.CopyOptions{DryRun: true})
	if n := len(to.Snapshot("")); n != 1 {
		t.Errorf("%d objects", n)
	}
	if rep := all(backend.CopyOptions{})["big"]; rep.Segments != 5 {
		t.Errorf("%+v", rep)
	}
	for _, id := range append(ids, "big") {
		if wrong[id] == nil {
			exact(t, from, to, id)
		}
	}
	for id, rep := range all(backend.CopyOptions{}) {
		if rep.Duplicate == (wrong[id] != nil) || rep.Bytes != 0 {
			t.Errorf("again: %+v", rep)
		}
	}
	t.Run("a failure to list", func(t *testing.T) {
		faulty := faultstore.New(from, faultstore.Rule{Match: faultstore.Op("List"), Fault: faultstore.FailList(40, objstore.ErrDenied)})
		n := 0
		var last error
		for _, err := range backend.New(to, backend.Options{}).CopyAll(t.Context(), backend.NewReader(faulty, backend.Options{}), backend.CopyOptions{}) {
			if last = err; err == nil {
				n++
			}
		}
		if !errors.Is(last, backend.ErrDenied) || n < 30 {
			t.Errorf("%d reports, %v", n, last)
		}
	})
	t.Run("a consumer that leaves", func(t *testing.T) {
		for range backend.New(to, backend.Options{}).CopyAll(t.Context(), backend.NewReader(from, backend.Options{}), backend.CopyOptions{}) {
			break
		}
	})
}

// Under another id the events are a fresh log, without a boundary and without
// what belongs to the owners of the source; it can be gone on with.
func TestCopyAs(t *testing.T) {
	from, to := memstore.New(t), memstore.New(t)
	segmented(t, from, "log", 3, 5000)
	src, dst := backend.NewReader(from, backend.Options{}), backend.New(to, backend.Options{})
	r, err := dst.CopyAs(t.Context(), src, "log", "new", backend.AdoptOptions{})
	if err != nil || r.Log != "new" || r.Count != 4 || r.Duplicate {
		t.Fatalf("%+v, %v", r, err)
	}
	a, b := record(t, from, "log"), record(t, to, "new")
	if a.Content.Tree.Root != b.Content.Tree.Root || string(a.Header) != string(b.Header) || a.UID == b.UID || b.Origin.Kind != manifest.KindFresh || b.Content.Boundary != nil || !b.Owner.Released {
		t.Errorf("%+v", b)
	}
	if r, err := dst.CopyAs(t.Context(), src, "log", "new", backend.AdoptOptions{}); err != nil || !r.Duplicate {
		t.Errorf("again: %+v, %v", r, err)
	}
	if _, err := appendLast(t, backend.New(from, backend.Options{}), "log", event(5)); err != nil {
		t.Fatal(err)
	}
	if r, err := dst.CopyAs(t.Context(), src, "log", "new", backend.AdoptOptions{}); err != nil || r.Count != 1 || r.Next != 5 {
		t.Errorf("later: %+v, %v", r, err)
	}
	// Within one store, too.
	same := backend.New(from, backend.Options{})
	if _, err := same.CopyAs(t.Context(), same.Reader, "log", "new", backend.AdoptOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := appendLast(t, dst, "new", event(6)); err != nil {
		t.Fatal(err)
	}
	if r, err := dst.CopyAs(t.Context(), src, "log", "new", backend.AdoptOptions{}); !errors.Is(err, backend.ErrExists) {
		t.Errorf("onto another: %+v, %v", r, err)
	}
	if _, err := dst.CopyAs(t.Context(), src, "missing", "new", backend.AdoptOptions{}); !errors.Is(err, backend.ErrNotFound) || !strings.Contains(err.Error(), "source: ") {
		t.Error(err)
	}
}

// What only one side has is listed: not what it shares, nor what was deleted on
// either side.
func TestOnlyThere(t *testing.T) {
	from, to := memstore.New(t), memstore.New(t)
	src, dst := backend.New(from, backend.Options{}), backend.New(to, backend.Options{})
	long := strings.Repeat("long ", 100)
	for _, id := range []string{"a", "b", long, "deleted", "gone there"} {
		written(t, src, id, nil, [][]byte{event(1)})
		transferred(t, from, to, id, backend.CopyOptions{})
	}
	for b, id := range map[*backend.Backend]string{src: "deleted", dst: "gone there"} {
		if _, err := b.Delete(t.Context(), id, backend.AdoptOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	to.Replace(manifest.Key("void"), voidBody(t, "void"))
	to.Replace(manifest.Key("damaged"), []byte("garbage"))
	only := func(b *backend.Backend, other *backend.Reader) (ids []string, last error) {
		opt := backend.CopyOptions{DryRun: true, OnlyThere: func(e backend.Entry, err error) {
			if last != nil || err == nil && (e.Err != nil) != (e.Log == "damaged") {
				t.Errorf("%+v after %v", e, last)
			}
			if last = err; err == nil {
				ids = append(ids, e.Log)
			}
		}}
		for _, err := range b.CopyAll(t.Context(), other, opt) {
			if err != nil {
				t.Error(err)
			}
		}
		return ids, last
	}
	if got, err := only(dst, src.Reader); err != nil || !slices.Equal(got, []string{"damaged"}) {
		t.Errorf("%q, %v", got, err)
	}
	for _, id := range []string{"a", long, "gone there"} {
		from.Drop(manifest.Key(id))
	}
	if got, err := only(dst, src.Reader); err != nil || !slices.Equal(got, []string{"a", "damaged", long}) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := only(src, dst.Reader); err != nil || got != nil {
		t.Errorf("%q, %v", got, err)
	}
	// That takes one LIST there beside the one here; a failure of it is told when all
	// is copied.
	for name, tc := range map[string]struct {
		rules []faultstore.Rule
		only  []string
		err   error
	}{
		"listed": {nil, []string{"a", "damaged", long}, nil},
		"denied": {[]faultstore.Rule{{Match: faultstore.Op("List"), Fault: faultstore.Denied()}}, nil, backend.ErrDenied},
		"broken": {[]faultstore.Rule{{Match: faultstore.Op("List"), Fault: faultstore.FailList(1, objstore.ErrUndecided)}}, []string{"a"}, objstore.ErrUndecided},
	} {
		here, there := tracestore.New(from, tracestore.Options{}), tracestore.New(to, tracestore.Options{})
		b := backend.New(faultstore.New(there, tc.rules...), backend.Options{})
		got, err := only(b, backend.NewReader(here, backend.Options{}))
		if !slices.Equal(got, tc.only) || !errors.Is(err, tc.err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if here, there := here.Counts(), there.Counts(); here.List != 1 || there.List > 1 {
			t.Errorf("%s: %+v here, %+v there", name, here, there)
		}
	}
}
