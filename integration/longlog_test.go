package integration

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
)

// What an append costs does not depend on how long the log is: requests, and
// bytes sent and read for each byte that is appended, of which the manifest with
// its tail is the most, also counted as what a versioned bucket would keep. The
// long run has ten million events.
func TestCostOfAnAppendIsFlat(t *testing.T) {
	sizes := []int64{1_000, 10_000, 40_000}
	if long() {
		sizes = []int64{1_000, 10_000, 100_000, 1_000_000, 10_000_000}
	}
	dir, err := filestore.Open(t.TempDir(), filestore.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	trace := tracestore.New(dir, tracestore.Options{})
	b := backend.New(trace, backend.Options{Foreground: true})
	l, err := b.Create("log", backend.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, source := generate(1 << 40)
	next, stop := iter.Pull2(source)
	defer stop()
	var raw, appends, at int64
	type window struct{ puts, gets, out, in float64 }
	var found []window
	for _, size := range sizes {
		// Of each size the second half, in which what has to be merged comes round.
		var before tracestore.Counts
		var rawBefore, appendsBefore int64
		begin := time.Now()
		for at < size {
			if at >= size/2 && rawBefore == 0 {
				before, rawBefore, appendsBefore, begin = trace.Counts(), raw, appends, time.Now()
			}
			var batch [][]byte
			for range batchOfEvents {
				line, _, _ := next()
				batch = append(batch, bytes.Clone(line))
				raw += int64(len(line)) + 1
			}
			mustAppend(t, l, batch...)
			at += batchOfEvents
			appends++
		}
		took := time.Since(begin)
		d := trace.Counts().Sub(before)
		n, bytes := float64(appends-appendsBefore), float64(raw-rawBefore)
		w := window{float64(d.Put) / n, float64(d.Get) / n, float64(d.BytesOut) / bytes, float64(d.BytesIn) / bytes}
		found = append(found, w)
		info, err := b.Info(t.Context(), "log")
		if err != nil {
			t.Fatal(err)
		}
		stored := info.Bytes
		for _, s := range info.Segments {
			stored += s.Bytes
		}
		t.Logf("%9d events: %.3f PUT and %.3f GET an append; of each byte appended %.2f are sent and %.3f read; %v an append; %d segments, manifest %d bytes, %.3f of the events stored",
			at, w.puts, w.gets, w.out, w.in, (took / time.Duration(n)).Round(time.Microsecond), len(info.Segments), info.Bytes, float64(stored)/float64(raw))
		if info.Bytes > 256<<10 {
			t.Errorf("%d events: the manifest has %d bytes", at, info.Bytes)
		}
		if w.puts > 1.1 || w.gets > 0.1 {
			t.Errorf("%d events: %.3f PUT and %.3f GET an append", at, w.puts, w.gets)
		}
	}
	// The first size has no merges in it. A manifest names the newest 256 segments that
	// merges have replaced, so until there are as many it grows by 18 KB, which are
	// sent with every append like the rest of it.
	const retired = float64(manifest.MaxRetired * len(`["0000000000000000-00000001-0123456789abcdef.jsonl.zst",1790000000000],`))
	perAppend := float64(raw) / float64(appends)
	for i, w := range found[2:] {
		if w.out > 1.3*found[1].out+retired/perAppend || w.in > found[1].in+0.5 {
			t.Errorf("of each byte appended %.2f are sent and %.2f read at %d events, %.2f and %.2f at %d", w.out, w.in, sizes[i+2], found[1].out, found[1].in, sizes[1])
		}
	}
	if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
		t.Fatal(err)
	}
}

// The newest of ten thousand logs are found with one LIST per thousand and about
// as many HEADs as are asked for, and after maintenance has touched every log with
// no more than one HEAD each.
func TestNewestOfTenThousandLogs(t *testing.T) {
	const wanted = 20
	logs, pages := 10_000, int64(10)
	if testing.Short() {
		logs, pages = 2_000, 2
	}
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	mem := memstore.NewWith(t, memstore.Options{Now: func() time.Time { return clock }})
	writer := backend.New(mem, backend.Options{})
	var newest []string
	for i := range logs {
		clock = clock.Add(time.Minute)
		id := fmt.Sprintf("log-%05d", i*7919%logs)
		l, err := writer.Create(id, backend.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		event := fmt.Sprintf(`{"type":"user/message","time":%d,"data":{"source":{"kind":"user"}}}`, clock.UnixMilli())
		if _, err := l.Append(t.Context(), [][]byte{[]byte(event)}, backend.AppendOptions{Last: true}); err != nil {
			t.Fatal(err)
		}
		_ = l.Close(t.Context(), backend.CloseOptions{})
		newest = append(newest, id)
	}
	slices.Reverse(newest)
	list := func(what string, maxHeads int) {
		t.Helper()
		trace := tracestore.New(mem, tracestore.Options{})
		var got []string
		begin := time.Now()
		for e, err := range backend.NewReader(trace, backend.Options{}).List(t.Context(), backend.ListOptions{Limit: wanted}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Log)
		}
		c := trace.Counts()
		t.Logf("%s: %d LIST, %d HEAD, %d GET, %v", what, c.List, c.Head, c.Get, time.Since(begin).Round(time.Millisecond))
		if !slices.Equal(got, newest[:wanted]) {
			t.Errorf("%s: %v, not %v", what, got, newest[:wanted])
		}
		if c.List != pages || c.Head > int64(maxHeads) || c.Get != 0 || c.Put != 0 {
			t.Errorf("%s: %d LIST, %d HEAD, %d GET, %d PUT", what, c.List, c.Head, c.Get, c.Put)
		}
	}
	list("honest modification times", wanted+10)

	// A nightly job that touches all of them in any order.
	for i, id := range slices.Sorted(slices.Values(newest)) {
		clock = clock.Add(time.Second)
		head, err := manifest.Load(t.Context(), mem, id, manifest.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		d, err := manifest.Maintain(head.Record, manifest.NewWriter("nightly", "test"), clock.UnixMilli())
		if err != nil {
			t.Fatal(err)
		}
		step := func(_ context.Context, _ manifest.Head) (*manifest.Proposal, error) { return d.Finish() }
		if _, err := manifest.Commit(t.Context(), mem, head, step, manifest.Options{}); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	list("all touched in the night", logs)
}

// An idle handle, and an idle lease, send nothing.
func TestIdleWriterSendsNothing(t *testing.T) {
	for _, lease := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			trace := tracestore.New(memstore.New(t), tracestore.Options{})
			l, err := backend.New(trace, backend.Options{Lease: lease}).Create("log", backend.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, l, []byte(`{"type":"note","data":1}`))
			synctest.Wait()
			before := trace.Counts()
			time.Sleep(time.Hour)
			synctest.Wait()
			if d := trace.Counts().Sub(before); d != (tracestore.Counts{}) {
				t.Errorf("in an hour of idleness: %+v", d)
			}
			if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}
