package integration

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/s3log/s3log/backend"
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
// about 250 MB. It is measured in a process of its own: what the other tests
// have left on the heap is counted, and doubled by the garbage that it allows.
func TestMemoryDoesNotGrowWithTheLog(t *testing.T) {
	events := int64(100_000)
	if long() {
		events = 1_300_000
	}
	out := children(t, 1, "size", envDir+"="+t.TempDir(), fmt.Sprint(envRounds, "=", events))[0]
	var importPeak, readPeak, manifestBytes int64
	if n, _ := fmt.Sscan(out, &importPeak, &readPeak, &manifestBytes); n != 3 {
		t.Fatalf("it says %q", out)
	}
	t.Logf("%d events: at most %d MiB of heap at the import, %d MiB at the read; the manifest has %d bytes", events, importPeak, readPeak, manifestBytes)
	if importPeak > 192 || readPeak > 96 {
		t.Errorf("peak heap %d MiB at the import, %d MiB at the read", importPeak, readPeak)
	}
	if manifestBytes > 256<<10 {
		t.Errorf("the manifest has %d bytes", manifestBytes)
	}
}

// measuredSize imports a log of so many events and reads it back, as a child
// process, and says how much heap that took, in MiB, and how large the manifest is.
func measuredSize(ctx context.Context, b *backend.Backend, events int, out io.Writer) error {
	g := sessiongen.New(sessiongen.Options{Seed: 7, Events: int64(events)})
	sum := sha256.New()
	lines := func(yield func([]byte, error) bool) {
		for line, ok := g.Next(); ok; line, ok = g.Next() {
			fmt.Fprintf(sum, "%s\n", line)
			if !yield(line, nil) {
				return
			}
		}
	}
	var err error
	var imported backend.Receipt
	importPeak := peak(func() {
		imported, err = b.Import(ctx, "log", lines, backend.ImportOptions{Header: g.Header()})
	})
	if err != nil || imported.Next != int64(events) {
		return fmt.Errorf("the import: %+v, %w", imported, err)
	}
	info, err := b.Info(ctx, "log")
	if err != nil {
		return err
	}
	back := sha256.New()
	readPeak := peak(func() {
		for ev, e := range b.Events(ctx, "log", backend.ReadOptions{}) {
			if e != nil {
				err = e
				return
			}
			fmt.Fprintf(back, "%s\n", ev.Line)
		}
	})
	if err == nil && string(back.Sum(nil)) != string(sum.Sum(nil)) {
		err = errors.New("the events that come back are others")
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, importPeak, readPeak, info.Bytes)
	return err
}
