package backend_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/sessiongen"
)

// batches are generated sessions in batches of 25 events, about 5 KB each.
func batches(n int) (all [][][]byte, size int64) {
	g := sessiongen.New(sessiongen.Options{Seed: 1, Events: int64(25 * n)})
	for range n {
		var batch [][]byte
		for range 25 {
			line, ok := g.Next()
			if !ok {
				break
			}
			batch = append(batch, bytes.Clone(line))
			size += int64(len(line)) + 1
		}
		all = append(all, batch)
	}
	return all, size
}

// BenchmarkAppend appends 25-event batches one after another. Beside it stands
// the raw conditional PUT of a body as large as the manifests that this makes.
func BenchmarkAppend(b *testing.B) {
	stores := map[string]func() objstore.Store{
		"memstore": func() objstore.Store { return memstore.New(b) },
		"filestore": func() objstore.Store {
			s, err := filestore.Open(b.TempDir(), filestore.Options{})
			if err != nil {
				b.Fatal(err)
			}
			return s
		},
	}
	all, size := batches(400)
	for name, open := range stores {
		b.Run(name+"/append", func(b *testing.B) {
			be := backend.New(open(), backend.Options{})
			l := create(b, be, "log")
			b.SetBytes(size / int64(len(all)))
			i, round := 0, 0
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
			b.ReportMetric(float64(25*b.N)/b.Elapsed().Seconds(), "events/s")
		})
		b.Run(name+"/rawput", func(b *testing.B) {
			st := open()
			rng := rand.New(rand.NewPCG(1, 1))
			body := make([]byte, 28<<10) // the mean over a tail that is sealed at 48 KiB
			for i := range body {
				body[i] = byte(rng.Uint32())
			}
			cond := objstore.IfAbsent()
			n := 0
			for b.Loop() {
				n++
				copy(body, fmt.Sprint(n))
				info, err := st.Put(b.Context(), "raw/object", body, cond, objstore.PutOptions{})
				if err != nil {
					b.Fatal(err)
				}
				cond = objstore.IfVersion(info.Version)
			}
		})
	}
}

// BenchmarkAppendParallel is group commit: 64 goroutines append to one log.
func BenchmarkAppendParallel(b *testing.B) {
	all, size := batches(400)
	be := backend.New(memstore.New(b), backend.Options{})
	l := create(b, be, "log")
	b.SetBytes(size / int64(len(all)))
	var mu sync.Mutex
	i := 0
	strip := func(batch [][]byte) [][]byte { // seqs are given by the log
		out := make([][]byte, len(batch))
		for j, line := range batch {
			from := bytes.Index(line, []byte(`,"seq":`))
			to := from + 1 + bytes.IndexByte(line[from+1:], ',')
			out[j] = append(append([]byte{}, line[:from]...), line[to:]...)
		}
		return out
	}
	for k := range all {
		all[k] = strip(all[k])
	}
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mu.Lock()
			batch := all[i%len(all)]
			i++
			mu.Unlock()
			if _, err := l.Append(b.Context(), batch, backend.AppendOptions{}); err != nil {
				b.Error(err)
				return
			}
		}
	})
	closeLog(b, l)
	b.ReportMetric(float64(25*b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkColdRead reads a whole log; beside it stands fetching the same
// objects and inflating them with the same library.
func BenchmarkColdRead(b *testing.B) {
	all, size := batches(8000)
	for _, kind := range []string{"memstore", "filestore"} {
		var st objstore.Store
		if kind == "memstore" {
			st = memstore.New(b)
		} else {
			s, err := filestore.Open(b.TempDir(), filestore.Options{})
			if err != nil {
				b.Fatal(err)
			}
			st = s
		}
		be := backend.New(st, backend.Options{Foreground: true})
		l := create(b, be, "log")
		for i := 0; i < len(all); i += 100 {
			var lines [][]byte
			for _, batch := range all[i : i+100] {
				lines = append(lines, batch...)
			}
			if _, err := l.Append(b.Context(), lines, backend.AppendOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		if err := l.Close(b.Context(), backend.CloseOptions{Seal: true}); err != nil {
			b.Fatal(err)
		}
		b.Run(kind+"/read", func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				n := 0
				for _, err := range be.Events(b.Context(), "log", backend.ReadOptions{}) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != 25*len(all) {
					b.Fatal(n)
				}
			}
		})
		b.Run(kind+"/raw", func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				var n int64
				for info, err := range st.List(b.Context(), "segments/", "") {
					if err != nil {
						b.Fatal(err)
					}
					obj, err := st.Get(b.Context(), info.Key, objstore.GetOptions{})
					if err != nil {
						b.Fatal(err)
					}
					r, err := zstd.NewReader(bytes.NewReader(obj.Body), zstd.WithDecoderConcurrency(1))
					if err != nil {
						b.Fatal(err)
					}
					m, err := io.Copy(io.Discard, r)
					if err != nil {
						b.Fatal(err)
					}
					n += m
					r.Close()
				}
				if n < size/2 {
					b.Fatal(n)
				}
			}
		})
	}
}
