package backend_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
)

// event is a small event with a time, so that its stored line is known.
func event(n int) []byte {
	return fmt.Appendf(nil, `{"type":"assistant/chunk","time":%d,"data":{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"word number %d"}}}`, 1000+n, n)
}

// read returns all lines of a log from a seq on.
func read(t testing.TB, r *backend.Reader, id string, from int64) (lines []string) {
	t.Helper()
	for ev, err := range r.Events(t.Context(), id, backend.ReadOptions{From: from}) {
		if err != nil {
			t.Fatalf("reading %s: %v", id, err)
		}
		if ev.Seq != from+int64(len(lines)) {
			t.Fatalf("seq %d where %d is next", ev.Seq, from+int64(len(lines)))
		}
		if _, err := ev.Parse(); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(ev.Line))
	}
	return lines
}

// A thousand appends of one event each are a thousand PUTs of the manifest, one
// for each segment that is sealed or merged, one GET for each segment that went
// into a merge, and no other request.
func TestThousandAppends(t *testing.T) {
	for _, foreground := range []bool{true, false} {
		t.Run(fmt.Sprintf("foreground=%v", foreground), func(t *testing.T) { thousandAppends(t, foreground) })
	}
}

func thousandAppends(t *testing.T, foreground bool) {
	mem := memstore.New(t)
	store := tracestore.New(mem, tracestore.Options{})
	b := backend.New(store, backend.Options{Foreground: foreground})
	l, err := b.Create("log", backend.CreateOptions{Header: []byte(`{"type":"session","createdAt":5}`)})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	merged := func() int { return len(record(t, mem, "log").Retired) }
	appends := 0
	// In the background, a busy machine may come to merging only later.
	for ; appends < 1000 || !foreground && appends < 50_000 && merged() < 4; appends++ {
		i := appends
		r, err := l.Append(t.Context(), [][]byte{noise(rng, i, 600)}, backend.AppendOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if r.First != int64(i) || r.Count != 1 || r.Next != int64(i+1) {
			t.Fatalf("append %d: %+v", i, r)
		}
	}
	if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
		t.Fatal(err)
	}
	counts := store.Counts()
	head, err := manifest.Load(t.Context(), mem, "log", manifest.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	segments, retired := len(head.Record.Segments), len(head.Record.Retired)
	uploaded := len(mem.Snapshot("segments/"))
	t.Logf("%+v; %d segments uploaded, %d named, %d replaced by merges", counts, uploaded, segments, retired)
	if retired < 4 {
		t.Error("nothing was merged: the test shows too little")
	}
	// What is under way in the background when the handle closes is given up, or
	// not named.
	spare := map[bool]int{true: 0, false: 4}[foreground]
	if puts := int(counts.Put) - appends; puts < uploaded || puts > uploaded+spare/2 || counts.Head+counts.List+counts.Delete+counts.Copy != 0 {
		t.Errorf("%+v with %d segments", counts, uploaded)
	}
	if gets := int(counts.Get); gets < retired || gets > retired+spare {
		t.Errorf("%d GETs for %d merged segments", gets, retired)
	}
	if named := segments + retired; uploaded < named || uploaded > named+spare/2 {
		t.Errorf("%d segments were uploaded, %d were ever named", uploaded, named)
	}
	if got := read(t, b.Reader, "log", 0); len(got) != appends {
		t.Fatalf("%d events", len(got))
	}
	if got := read(t, b.Reader, "log", 500); len(got) != appends-500 {
		t.Fatalf("%d events", len(got))
	}
	l2, err := b.Adopt(t.Context(), "log", backend.AdoptOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l2.Append(t.Context(), [][]byte{event(1000)}, backend.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), [][]byte{event(1)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrClosed) {
		t.Fatal(err)
	}
	if err := l2.Close(t.Context(), backend.CloseOptions{Release: true}); err != nil {
		t.Fatal(err)
	}
}
