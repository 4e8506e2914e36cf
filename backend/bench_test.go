package backend_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/delaystore"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/sessiongen"
)

// batches are the events of a generated session in n batches, 200 bytes each on
// average, without seqs: the log gives them.
func batches(n, events int) (all [][][]byte, size int64) {
	g := sessiongen.New(sessiongen.Options{Seed: 1, Events: int64(events * n)})
	for range n {
		var batch [][]byte
		for range events {
			line, _ := g.Next()
			from := bytes.Index(line, []byte(`,"seq":`))
			to := from + 1 + bytes.IndexByte(line[from+1:], ',')
			line = append(bytes.Clone(line[:from]), line[to:]...)
			batch = append(batch, line)
			size += int64(len(line)) + 1
		}
		all = append(all, batch)
	}
	return all, size
}

// benchStores are what appends are measured on: nothing, memory, and a directory.
func benchStores(b *testing.B) []struct {
	name string
	open func() objstore.Store
} {
	return []struct {
		name string
		open func() objstore.Store
	}{
		{"sink", func() objstore.Store { return &sink{} }},
		{"memstore", func() objstore.Store { return memstore.New(b) }},
		{"filestore", func() objstore.Store {
			s, err := filestore.Open(b.TempDir(), filestore.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { s.Close() })
			return s
		}},
	}
}

// perEvent reports how many events a second there were, by the clock and for each
// processor that was kept busy. used is CPUTime before.
func perEvent(b *testing.B, events int64, used time.Duration) {
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
	if used = backend.CPUTime() - used; used > 0 {
		b.ReportMetric(float64(events)/used.Seconds(), "events/cpu-s")
		b.ReportMetric(float64(used.Nanoseconds())/float64(events), "cpu-ns/event")
	}
}

// logEvents is how long a log gets in a benchmark before another one is begun.
const logEvents = 10_000

// BenchmarkAppend appends batches one after another. Tails are sealed in the
// background, and nothing is merged. With -cpu 1 the sealing is in it.
func BenchmarkAppend(b *testing.B) {
	for _, st := range benchStores(b) {
		for _, events := range []int{1, 25} {
			all, size := batches(logEvents/events, events)
			b.Run(fmt.Sprintf("%s/%devents", st.name, events), func(b *testing.B) {
				be := backend.New(st.open(), backend.Options{PauseMerging: true})
				l := create(b, be, "log")
				b.SetBytes(size / int64(len(all)))
				b.ReportAllocs()
				i, round, used := 0, 0, backend.CPUTime()
				for b.Loop() {
					if i == len(all) {
						closeLog(b, l)
						i, round = 0, round+1
						l = create(b, be, fmt.Sprint("log", round))
					}
					if _, err := l.Append(b.Context(), all[i], backend.AppendOptions{}); err != nil {
						b.Fatal(err)
					}
					i++
				}
				closeLog(b, l)
				perEvent(b, int64(events*b.N), used)
			})
		}
	}
}

// BenchmarkAppendWatched is BenchmarkAppend of one event on nothing, with what
// tells about it: nothing; a logger, which has nothing to say; metrics; spans that
// nobody samples; and spans that are all made.
func BenchmarkAppendWatched(b *testing.B) {
	unsampled := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	sampled := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample()))
	for _, by := range []struct {
		name string
		opt  backend.Options
	}{
		{"nothing", backend.Options{}},
		{"logger", backend.Options{Logger: slog.New(slog.DiscardHandler)}},
		{"metrics", backend.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))}},
		{"unsampled", backend.Options{TracerProvider: unsampled}},
		{"spans", backend.Options{TracerProvider: sampled}},
	} {
		b.Run(by.name, func(b *testing.B) {
			l := create(b, backend.New(&sink{}, by.opt), "log")
			events := [][]byte{[]byte(`{"type":"note","time":1,"data":{}}`)}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Append(b.Context(), events, backend.AppendOptions{}); err != nil {
					b.Fatal(err)
				}
			}
			closeLog(b, l)
		})
	}
}

// BenchmarkRawPut is the conditional PUT of a body as large as the manifests that
// BenchmarkAppend makes on average.
func BenchmarkRawPut(b *testing.B) {
	for _, st := range benchStores(b) {
		b.Run(st.name, func(b *testing.B) {
			s := st.open()
			rng := rand.New(rand.NewPCG(1, 1))
			body := make([]byte, 28<<10)
			for i := range body {
				body[i] = byte(rng.Uint32())
			}
			cond, n := objstore.IfAbsent(), 0
			for b.Loop() {
				n++
				copy(body, fmt.Sprint(n))
				info, err := s.Put(b.Context(), "raw/object", body, cond, objstore.PutOptions{})
				if err != nil {
					b.Fatal(err)
				}
				cond = objstore.IfVersion(info.Version)
			}
		})
	}
}

// BenchmarkAppendParallel is group commit: 64 goroutines append batches of 25
// events to one log, also where a round trip takes 30 ms. Nothing is merged.
func BenchmarkAppendParallel(b *testing.B) {
	const goroutines, perLog = 64, 40 * logEvents / 25 // batches
	all, size := batches(400, 25)
	stores := benchStores(b)
	memory := stores[1].open
	stores[2].name, stores[2].open = "30ms", func() objstore.Store {
		return delaystore.New(memory(), delaystore.Options{Latency: delaystore.Latency{Median: 30 * time.Millisecond}})
	}
	for _, st := range stores {
		b.Run(st.name, func(b *testing.B) {
			trace := tracestore.New(st.open(), tracestore.Options{})
			be := backend.New(trace, backend.Options{PauseMerging: true})
			b.SetBytes(size / int64(len(all)))
			b.ReportAllocs()
			b.ResetTimer()
			used := backend.CPUTime()
			for done := 0; done < b.N; done += perLog {
				l := create(b, be, fmt.Sprint("log", done))
				var next atomic.Int64
				var wg sync.WaitGroup
				for range goroutines {
					wg.Go(func() {
						for {
							i := next.Add(1) - 1
							if i >= int64(min(perLog, b.N-done)) {
								return
							}
							if _, err := l.Append(b.Context(), all[i%int64(len(all))], backend.AppendOptions{}); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				closeLog(b, l)
			}
			perEvent(b, int64(25*b.N), used)
			b.ReportMetric(float64(25*b.N)/float64(trace.Counts().Put), "events/PUT")
		})
	}
}

// longSealed is a log of n generated events all of which are in segments.
func longSealed(b *testing.B, st objstore.Store, n int) (be *backend.Backend, size int64) {
	b.Helper()
	be = backend.New(st, backend.Options{Foreground: true})
	l := create(b, be, "log")
	all, size := batches(n/2500, 2500)
	for _, lines := range all {
		if _, err := l.Append(b.Context(), lines, backend.AppendOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(b.Context(), backend.CloseOptions{Seal: true}); err != nil {
		b.Fatal(err)
	}
	return be, size
}

// BenchmarkColdRead reads a whole log; beside it stands fetching the same
// objects and inflating them with the same library.
func BenchmarkColdRead(b *testing.B) {
	const events = 200_000
	for _, kind := range benchStores(b)[1:] {
		st := kind.open()
		be, size := longSealed(b, st, events)
		b.Run(kind.name+"/read", func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			used := backend.CPUTime()
			for b.Loop() {
				n := 0
				for _, err := range be.Events(b.Context(), "log", backend.ReadOptions{}) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != events {
					b.Fatal(n)
				}
			}
			perEvent(b, int64(events*b.N), used)
		})
		info, err := be.Info(b.Context(), "log")
		if err != nil {
			b.Fatal(err)
		}
		dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(kind.name+"/raw", func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			used := backend.CPUTime()
			for b.Loop() {
				var n int64
				for _, ref := range info.Segments { // what merges have replaced is there, too
					obj, err := st.Get(b.Context(), manifest.SegmentKey("log", ref.Name), objstore.GetOptions{})
					if err == nil {
						err = dec.Reset(bytes.NewReader(obj.Body))
					}
					if err != nil {
						b.Fatal(err)
					}
					m, err := io.Copy(io.Discard, dec)
					if err != nil {
						b.Fatal(err)
					}
					n += m
				}
				if n < size {
					b.Fatal(n)
				}
			}
			perEvent(b, int64(events*b.N), used)
		})
		dec.Close()
	}
}

// BenchmarkReadFrom reads the last 30 events of a long log, which are in the
// middle of its last segment.
func BenchmarkReadFrom(b *testing.B) {
	const events = 200_000
	be, _ := longSealed(b, memstore.New(b), events)
	for _, from := range []int64{events - 30, events / 2} {
		to := from + 29
		b.Run(fmt.Sprint("seq=", from), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for _, err := range be.Events(b.Context(), "log", backend.ReadOptions{From: from, To: &to}) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != 30 {
					b.Fatal(n)
				}
			}
		})
	}
}

// BenchmarkCheck is a verdict on a long log.
func BenchmarkCheck(b *testing.B) {
	be, _ := longSealed(b, memstore.New(b), 200_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := be.Check(b.Context(), "log", backend.Pair{Open: "compaction/start", Close: "compaction/end"}, backend.CheckOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkList finds the newest 20 of 2,000 logs.
func BenchmarkList(b *testing.B) {
	be := backend.New(memstore.New(b), backend.Options{})
	for i := range 2000 {
		l := create(b, be, fmt.Sprint("log-", i))
		prompt := fmt.Appendf(nil, `{"type":"user/message","data":{"content":"%d","source":{"kind":"user"}}}`, i)
		if _, err := l.Append(b.Context(), [][]byte{prompt}, backend.AppendOptions{Last: true}); err != nil {
			b.Fatal(err)
		}
		closeLog(b, l)
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range be.List(b.Context(), backend.ListOptions{Limit: 20}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 20 {
			b.Fatal(n)
		}
	}
}
