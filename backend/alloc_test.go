//go:build !race

// Under the race detector pools drop what they hold at random.

package backend_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/sessiongen"
)

// appendCost is what one append of n small events allocates, in number and in
// bytes, on a log whose tail has about so many bytes already; body is the size of
// the manifest that it puts.
func appendCost(t *testing.T, opt backend.Options, tail, n int) (allocs, bytes, body float64) {
	t.Helper()
	store := &sink{}
	l := create(t, backend.New(store, opt), "log")
	defer closeLog(t, l)
	rng := rand.New(rand.NewPCG(1, uint64(tail)))
	const piece = 1000
	for range tail / piece {
		noise := make([]byte, piece) // hardly compressible, so that a tail is about as large as is said
		for i := range noise {
			noise[i] = byte('#' + rng.IntN(26))
		}
		if _, err := l.Append(t.Context(), [][]byte{fmt.Appendf(nil, `{"type":"note","data":"%s"}`, noise)}, backend.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var events [][]byte
	for range n {
		events = append(events, []byte(`{"type":"note","time":1,"data":{}}`))
	}
	one := func() {
		if _, err := l.Append(t.Context(), events, backend.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 32 {
		one()
	}
	// Frames are joined as digits are carried in a counter: over a power of two it
	// evens out.
	const runs = 64
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	allocs = testing.AllocsPerRun(runs, one)
	runtime.ReadMemStats(&after)
	return allocs, float64(after.TotalAlloc-before.TotalAlloc) / (runs + 1), float64(store.size)
}

// What an append allocates does not depend on the tail: not how often, and as to
// bytes only by the body that is put and the frames that are in it.
func TestAllocationsOfAnAppend(t *testing.T) {
	const copies = 2.25
	for _, tt := range []struct {
		events int
		most   float64 // allocations
		fixed  float64 // bytes, besides the copies of the body
	}{{1, 85, 12 << 10}, {25, 300, 40 << 10}} {
		var first float64
		for _, tail := range []int{0, 4_000, 16_000, 40_000} {
			allocs, bytes, body := appendCost(t, backend.Options{}, tail, tt.events)
			t.Logf("%d events on a tail of %d bytes: %.0f allocations, %.0f bytes; the body has %.0f", tt.events, tail, allocs, bytes, body)
			if tail == 0 {
				first = allocs
			}
			if allocs > tt.most || allocs > first+8 {
				t.Errorf("an append of %d events on a tail of %d bytes makes %.0f allocations, %.0f on an empty one; at most %.0f are expected", tt.events, tail, allocs, first, tt.most)
			}
			if most := tt.fixed + copies*body; bytes > most {
				t.Errorf("an append of %d events on a tail of %d bytes allocates %.0f bytes, at most %.0f are expected", tt.events, tail, bytes, most)
			}
		}
	}
}

// Whoever wants to be told pays a few allocations for each append, however many
// events it has; TestNobodyWatches says what others pay.
func TestAllocationsOfAWatchedAppend(t *testing.T) {
	for _, events := range []int{1, 25} {
		off, _, _ := appendCost(t, backend.Options{}, 0, events)
		for name, tt := range map[string]struct {
			opt  backend.Options
			most float64 // more than off
		}{
			"logger":  {backend.Options{Logger: slog.New(slog.DiscardHandler)}, 20},
			"metrics": {backend.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))}, 20},
			"spans":   {backend.Options{TracerProvider: sdktrace.NewTracerProvider()}, 40},
		} {
			on, _, _ := appendCost(t, tt.opt, 0, events)
			t.Logf("%d events: %.0f allocations, %.0f with %s", events, off, on, name)
			if on > off+tt.most {
				t.Errorf("%s: %.0f allocations for %d events, %.0f without; at most %.0f more are expected", name, on, events, off, tt.most)
			}
		}
	}
}

// Reading allocates by frames, not by events.
func TestAllocationsOfARead(t *testing.T) {
	const n = 20_000
	s := generated(sessiongen.Options{Seed: 5, Events: n})
	b := backend.New(memstore.New(t), backend.Options{Foreground: true})
	written(t, b, "log", s.header, s.lines)
	read := func() {
		events := 0
		for _, err := range b.Events(t.Context(), "log", backend.ReadOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			events++
		}
		if events != n {
			t.Fatalf("%d events", events)
		}
	}
	if allocs := testing.AllocsPerRun(3, read); allocs > n/10 {
		t.Errorf("reading %d events makes %.0f allocations", n, allocs)
	} else {
		t.Logf("%.0f allocations for %d events", allocs, n)
	}
}
