package backend_test

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
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

// A merge that replaces segments under a reader is followed: at every call, by
// way of a newer manifest.
func TestReaderFollowsReplacedSegments(t *testing.T) {
	objects, lines := longLog(t)
	for _, times := range []int{1, 2, 4} {
		for n := 1; n <= 4; n++ {
			t.Run(fmt.Sprintf("%d from call %d", times, n), func(t *testing.T) {
				mem := restore(t, objects)
				store := faultstore.New(mem, faultstore.Rule{
					Match: faultstore.Op("Get"), Nth: n, Times: times,
					Fault: faultstore.After(rewriter(t, mem)),
				})
				got, err := readAll(t.Context(), backend.NewReader(store, backend.Options{Prefetch: 1}), "log", 0)
				if err != nil || !slices.Equal(got, lines) {
					t.Errorf("%d events, %v", len(got), err)
				}
			})
		}
	}
}

// Where segments are always replaced before they are read, the reader gives up
// and says that it may be tried again.
func TestReaderGivesUpOnSegmentsReplacedForEver(t *testing.T) {
	objects, _ := longLog(t)
	mem := restore(t, objects)
	store := faultstore.New(mem)
	manifests := store.Inject(faultstore.Rule{
		Match: faultstore.And(faultstore.Op("Get"), faultstore.Prefix("manifests/")),
		Fault: faultstore.After(rewriter(t, mem)),
	})
	got, err := readAll(t.Context(), backend.NewReader(store, backend.Options{}), "log", 0)
	if len(got) != 0 || err == nil || !strings.Contains(err.Error(), "try again") || errors.Is(err, backend.ErrMissing) || errors.Is(err, backend.ErrCorrupt) {
		t.Errorf("%d events, %v", len(got), err)
	}
	if n := manifests.Hits(); n != 7 { // the last one to see that it is no finding
		t.Errorf("the manifest was read %d times", n)
	}
}

// rewriter replaces all segments of the log, by one caller at a time.
func rewriter(t testing.TB, mem *memstore.Store) func() {
	var mu sync.Mutex
	return func() {
		mu.Lock()
		defer mu.Unlock()
		rewrite(t, mem, "log")
	}
}

// A segment that is missing is a finding also while its log goes on.
func TestA27MissingSegmentOfALiveLog(t *testing.T) {
	objects, lines := longLog(t)
	mem := restore(nil, objects)
	var key string
	for k := range objects {
		if strings.HasPrefix(k, "segments/log/0000000000000003") {
			key = k
		}
	}
	mem.Drop(key)
	l := adopt(t, backend.New(mem, backend.Options{}), "log")
	store := faultstore.New(mem, faultstore.Rule{
		Match: faultstore.Key(key),
		Fault: faultstore.After(func() { appendOne(t, l, event(0)) }),
	})
	r := backend.NewReader(store, backend.Options{})
	got, err := readAll(t.Context(), r, "log", 0)
	oe, _ := errors.AsType[*backend.OpError](err)
	if !errors.Is(err, backend.ErrMissing) || !slices.Equal(got, lines[:3]) || oe == nil || oe.Key != key || oe.Seq != 3 {
		t.Errorf("%d events, %v", len(got), err)
	}
	closeLog(t, l)
	n := 0
	for e, err := range r.List(t.Context(), backend.ListOptions{}) { // the store's other logs, and this one
		if err != nil || e.Err != nil {
			t.Error(err, e.Err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d logs listed", n)
	}
}

// reseal replaces text in a manifest and makes its sum right again.
func reseal(t testing.TB, body []byte, old, with string) []byte {
	t.Helper()
	if old != "" && !bytes.Contains(body, []byte(old)) {
		t.Fatalf("the manifest holds no %q", old)
	}
	body = bytes.Replace(body, []byte(old), []byte(with), 1)
	i := bytes.LastIndex(body, []byte(`,"sum":`))
	sum := crc32.Checksum(body[:i], crc32.MakeTable(crc32.Castagnoli))
	return fmt.Appendf(slices.Clone(body[:i]), ",\"sum\":\"%08x\"}\n", sum)
}

// Each thing that can be wrong with a manifest has its own error.
func TestG5ManifestErrorsAreTold(t *testing.T) {
	objects, _ := longLog(t)
	key := manifest.Key("log")
	body := objects[key]
	for name, tc := range map[string]struct {
		body []byte
		want error
		not  []error
	}{
		"another log's":   {reseal(t, body, `"log":"log"`, `"log":"other"`), backend.ErrCorrupt, nil},
		"higher version":  {reseal(t, body, `"version":1`, `"version":2`), backend.ErrUnsupportedVersion, []error{backend.ErrCorrupt}},
		"critical":        {reseal(t, body, `"critical":[]`, `"critical":["seals"]`), backend.ErrUnsupportedVersion, []error{backend.ErrCorrupt}},
		"unknown field":   {reseal(t, body, `,"sum":`, `,"later":{"a":1},"sum":`), nil, nil},
		"flipped":         {bytes.Replace(body, []byte(`"next":49`), []byte(`"next":48`), 1), backend.ErrCorrupt, nil},
		"sealed flip":     {reseal(t, body, `"next":49`, `"next":48`), backend.ErrCorrupt, nil},
		"truncated":       {body[:len(body)-1], backend.ErrCorrupt, nil},
		"half":            {body[:len(body)/2], backend.ErrCorrupt, nil},
		"empty":           {[]byte{}, backend.ErrCorrupt, nil},
		"something else":  {[]byte("<html>"), backend.ErrCorrupt, nil},
		"a segment":       {objects[segmentOf(objects)], backend.ErrCorrupt, nil},
		"tail of zeroes":  {reseal(t, body, `"tail":"`, `"tail":"AAAA`), backend.ErrCorrupt, nil},
		"more than fits":  {append(bytes.Repeat([]byte(" "), 2<<20), body...), backend.ErrCorrupt, nil},
		"points outside":  {reseal(t, body, `"segments":[["0000000000000000`, `"segments":[["../../../../outside`), backend.ErrCorrupt, nil},
		"a later segment": {reseal(t, body, `"segments":[["0000000000000000`, `"segments":[["0000000000000001`), backend.ErrCorrupt, nil},
	} {
		t.Run(name, func(t *testing.T) {
			mem := restore(nil, objects)
			mem.Replace(key, tc.body)
			b := backend.New(mem, backend.Options{})
			_, err := readAll(t.Context(), b.Reader, "log", 0)
			if !errors.Is(err, tc.want) || (tc.want == nil) != (err == nil) {
				t.Fatalf("%v", err)
			}
			if err == nil {
				return
			}
			for _, not := range append(tc.not, backend.ErrNotFound, backend.ErrMissing, backend.ErrDenied) {
				if errors.Is(err, not) {
					t.Errorf("%v is %v", err, not)
				}
			}
			oe, _ := errors.AsType[*backend.OpError](err)
			if oe == nil || oe.Key != key {
				t.Errorf("%+v", err)
			}
			// Nobody appends to it, nor begins it anew.
			if l, aerr := b.Create("log", backend.CreateOptions{OrAdopt: true}); aerr == nil {
				if _, aerr = l.Append(t.Context(), [][]byte{event(0)}, backend.AppendOptions{}); aerr == nil {
					t.Error("appended to it")
				}
				_ = l.Close(t.Context(), backend.CloseOptions{})
			}
			if got := mem.Snapshot(key)[key]; !bytes.Equal(got, tc.body) {
				t.Error("it was changed")
			}
		})
	}
}

func segmentOf(objects map[string][]byte) (key string) {
	for k := range objects {
		if strings.HasPrefix(k, "segments/") {
			key = k
		}
	}
	return key
}

// A reader refuses to go back, one that comes new cannot know.
func TestRolledBack(t *testing.T) {
	mem := memstore.New(nil)
	b := backend.New(mem, backend.Options{})
	l := create(t, b, "log")
	appendOne(t, l, event(0))
	old := mem.Snapshot("manifests/")[manifest.Key("log")]
	appendOne(t, l, event(1))
	r := backend.NewReader(mem, backend.Options{})
	if n := len(read(t, r, "log", 0)); n != 2 {
		t.Fatal(n)
	}
	mem.Replace(manifest.Key("log"), old)
	for range 2 {
		if _, err := readAll(t.Context(), r, "log", 0); !errors.Is(err, backend.ErrRolledBack) {
			t.Error(err)
		}
		if _, err := r.Info(t.Context(), "log"); !errors.Is(err, backend.ErrRolledBack) {
			t.Error(err)
		}
	}
	if _, err := b.Info(t.Context(), "log"); !errors.Is(err, backend.ErrRolledBack) { // what it wrote it has seen
		t.Error(err)
	}
	if _, err := b.Adopt(t.Context(), "log", backend.AdoptOptions{}); !errors.Is(err, backend.ErrRolledBack) {
		t.Error(err)
	}
	// The owner does not go on with a log that lost what it had acknowledged (C-06).
	if _, err := l.Append(t.Context(), [][]byte{event(2)}, backend.AppendOptions{}); err == nil {
		t.Error("appended to a log that was rolled back")
	} else if closed := l.Close(t.Context(), backend.CloseOptions{}); closed == nil {
		t.Error("closed without the error")
	}
	if n := len(read(t, backend.NewReader(mem, backend.Options{}), "log", 0)); n != 1 {
		t.Errorf("%d events", n)
	}
}

// Body and metadata of different writes are read again, a few times.
func TestTornManifest(t *testing.T) {
	objects, lines := longLog(t)
	torn := edit(func(o *objstore.Object) { o.Metadata = map[string]string{"s3log-commit": "another"} })
	store := faultstore.New(restore(t, objects), faultstore.Rule{Match: faultstore.Prefix("manifests/"), Nth: 1, Times: 3, Fault: torn})
	if got, err := readAll(t.Context(), backend.NewReader(store, backend.Options{}), "log", 0); err != nil || !slices.Equal(got, lines) {
		t.Errorf("%d events, %v", len(got), err)
	}
	trace := tracestore.New(faultstore.New(restore(t, objects), faultstore.Rule{Match: faultstore.Prefix("manifests/"), Fault: torn}), tracestore.Options{})
	if _, err := readAll(t.Context(), backend.NewReader(trace, backend.Options{}), "log", 0); !errors.Is(err, backend.ErrUnsupportedStore) {
		t.Error(err)
	}
	if n := trace.Counts().Get; n != 4 {
		t.Errorf("%d GETs", n)
	}
}

// Two reads at a time may be answered in either order: that is no going back.
func TestReadsThatOvertakeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		store := faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Get"), Nth: 1, Fault: faultstore.After(func() { time.Sleep(time.Second) })})
		r := backend.NewReader(store, backend.Options{})
		l := create(t, backend.New(mem, backend.Options{}), "log")
		appendOne(t, l, event(0))
		done := make(chan error)
		go func() {
			_, err := r.Info(t.Context(), "log")
			done <- err
		}()
		synctest.Wait()
		appendOne(t, l, event(1))
		if info, err := r.Info(t.Context(), "log"); err != nil || info.Revision != 2 {
			t.Errorf("%+v, %v", info, err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		closeLog(t, l)
	})
}
