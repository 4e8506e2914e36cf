package integration

import (
	"crypto/sha256"
	"iter"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/sessiongen"
)

// peak samples the heap while f runs.
func peak(f func()) (mib uint64) {
	debug.FreeOSMemory()
	stop, done := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			case <-stop:
				done <- most
				return
			}
		}
	}()
	f()
	close(stop)
	return <-done >> 20
}

// A log of any size is imported and read back with memory that does not grow
// with it, and its manifest stays small. The long run has 1.3 million events,
// about 250 MB.
func TestMemoryDoesNotGrowWithTheLog(t *testing.T) {
	events := int64(100_000)
	if long() {
		events = 1_300_000
	}
	store, err := filestore.Open(t.TempDir(), filestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := backend.New(store, backend.Options{})
	g := sessiongen.New(sessiongen.Options{Seed: 7, Events: events})
	sum, raw := sha256.New(), int64(0)
	lines := func() iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			for {
				line, ok := g.Next()
				if !ok {
					return
				}
				sum.Write(line)
				sum.Write([]byte{'\n'})
				raw += int64(len(line)) + 1
				if !yield(line, nil) {
					return
				}
			}
		}
	}
	begin := time.Now()
	importPeak := peak(func() {
		r, err := b.Import(t.Context(), "log", lines(), backend.ImportOptions{Header: g.Header()})
		if err != nil || r.Count != events || r.Next != events {
			t.Errorf("%+v, %v", r, err)
		}
	})
	imported := time.Since(begin)
	info, err := b.Info(t.Context(), "log")
	if err != nil {
		t.Fatal(err)
	}
	if info.Bytes > 256<<10 {
		t.Errorf("the manifest has %d bytes", info.Bytes)
	}
	back := sha256.New()
	begin = time.Now()
	readPeak := peak(func() {
		for ev, err := range b.Events(t.Context(), "log", backend.ReadOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			back.Write(ev.Line)
			back.Write([]byte{'\n'})
		}
	})
	if string(back.Sum(nil)) != string(sum.Sum(nil)) {
		t.Error("the events that come back are others")
	}
	var stored int64
	for _, s := range info.Segments {
		stored += s.Bytes
	}
	t.Logf("%d events, %.1f MB raw, %.1f MB stored in %d segments, manifest %d bytes; import %v with at most %d MiB of heap, read %v with %d MiB",
		events, float64(raw)/1e6, float64(stored+info.Bytes)/1e6, len(info.Segments), info.Bytes, imported.Round(time.Millisecond), importPeak, time.Since(begin).Round(time.Millisecond), readPeak)
	if importPeak > 192 || readPeak > 96 {
		t.Errorf("peak heap %d MiB at the import, %d MiB at the read", importPeak, readPeak)
	}
}
