package integration

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/klauspost/compress/zstd"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
)

// Ratios are taken between things done in turn, in one run, on one server:
// absolute times of a loopback server on a shared machine say nothing. They are
// benchmarks and not tests since even a ratio depends on what else the machine
// does; docs/performance.md has what they are to be.

// timed is something whose time is taken.
type timed struct {
	name string
	do   func()
}

// inTurn does all of them in each round, and reports the median of the first, and
// how many times as long it takes as each of the others.
func inTurn(b *testing.B, before func(), what ...timed) {
	times := make([][]time.Duration, len(what))
	round := func() {
		before()
		for k, d := range what {
			begin := time.Now()
			d.do()
			times[k] = append(times[k], time.Since(begin))
		}
	}
	for range 20 { // connections, tables and caches
		round()
	}
	clear(times)
	for b.Loop() {
		round()
	}
	ours := median(times[0])
	b.ReportMetric(0, "ns/op") // of all of them: of no use
	b.ReportMetric(float64(ours.Microseconds()), "µs/"+what[0].name)
	for k, d := range what[1:] {
		b.ReportMetric(float64(ours)/float64(median(times[k+1])), "x-"+d.name)
	}
}

// median of some durations.
func median(d []time.Duration) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[len(d)/2]
}

// lastBody keeps what the newest PUT of a manifest has sent.
type lastBody struct {
	objstore.Store
	mu   sync.Mutex
	body []byte
	opt  objstore.PutOptions
}

func (s *lastBody) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	if key == manifest.Key("log") {
		s.mu.Lock()
		s.body, s.opt = body, opt
		s.mu.Unlock()
	}
	return s.Store.Put(ctx, key, body, cond, opt)
}

func (s *lastBody) last() ([]byte, objstore.PutOptions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.body, s.opt
}

// BenchmarkAppendBesideRawPut compares an append with the one conditional PUT that
// it is: of the same body with the same type, metadata and checksum, which take the
// server some time, and of the body alone. Of 25 events each, appends follow each
// other as fast as they can: what was appended before is sealed and merged all the
// time, on the same processors.
func BenchmarkAppendBesideRawPut(b *testing.B) {
	for _, n := range []int{1, 25} {
		b.Run(fmt.Sprint("events=", n), func(b *testing.B) {
			r := newRig(b)
			client, bucket := r.Client(b), r.Bucket(b)
			store := &lastBody{Store: openS3(b, r.Endpoint, bucket, r.AccessKey, r.SecretKey)}
			l := mustCreate(b, store, "log", quick)
			_, source := generate(1 << 40)
			next, stop := iter.Pull2(source)
			defer stop()
			var batch [][]byte
			put := func(key string, in s3.PutObjectInput) timed {
				in.Bucket, in.Key, in.IfNoneMatch = &bucket, &key, aws.String("*")
				return timed{key, func() {
					body, opt := store.last()
					in.Body = bytes.NewReader(body)
					if in.Metadata != nil {
						sum := md5.Sum(body)
						in.ContentMD5 = aws.String(base64.StdEncoding.EncodeToString(sum[:]))
						in.ContentType, in.Metadata = &opt.ContentType, opt.Metadata
					}
					out, err := client.PutObject(b.Context(), &in)
					if err != nil {
						b.Fatal(err)
					}
					in.IfMatch, in.IfNoneMatch = out.ETag, nil
				}}
			}
			draw := func() {
				batch = nil
				for range n {
					line, _, _ := next()
					batch = append(batch, bytes.Clone(line))
				}
			}
			inTurn(b, draw, timed{"append", func() { mustAppend(b, l, batch...) }},
				put("same-put", s3.PutObjectInput{Metadata: map[string]string{}}),
				put("bare-put", s3.PutObjectInput{}))
		})
	}
}

// BenchmarkLoadBesideRawGet compares a cold load with fetching and inflating the
// same objects, and what one GET tells about a log with that GET.
func BenchmarkLoadBesideRawGet(b *testing.B) {
	r := newRig(b)
	client := r.Client(b)
	header, lines := generate(60_000)
	if _, err := backend.New(r.direct, quick).Import(b.Context(), "log", lines, backend.ImportOptions{Header: header}); err != nil {
		b.Fatal(err)
	}
	info, err := backend.NewReader(r.direct, quick).Info(b.Context(), "log")
	if err != nil {
		b.Fatal(err)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		b.Fatal(err)
	}
	defer dec.Close()
	nothing := func() {}
	b.Run("load", func(b *testing.B) {
		var got, raw int64
		inTurn(b, nothing, timed{"load", func() {
			got = 0
			for ev, err := range backend.NewReader(r.direct, quick).Events(b.Context(), "log", backend.ReadOptions{}) {
				if err != nil {
					b.Fatal(err)
				}
				got += int64(len(ev.Line)) + 1
			}
		}}, timed{"get-and-inflate", func() { raw = fetchRaw(b, client, dec, r.bucket, info) }})
		if got < 8<<20 || raw < got {
			b.Errorf("%d bytes of events in %d bytes", got, raw)
		}
	})
	b.Run("info", func(b *testing.B) {
		reader := backend.NewReader(r.direct, quick)
		inTurn(b, nothing, timed{"info", func() {
			if _, err := reader.Info(b.Context(), "log"); err != nil {
				b.Fatal(err)
			}
		}}, timed{"get", func() { getRaw(b, client, r.bucket, manifest.Key("log")) }})
	})
}

func getRaw(t testing.TB, client *s3.Client, bucket, key string) []byte {
	t.Helper()
	out, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket, Key: aws.String("logs/" + key)})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// fetchRaw gets a log's manifest, then its segments, several at a time, and
// inflates them.
func fetchRaw(t testing.TB, client *s3.Client, dec *zstd.Decoder, bucket string, info backend.Info) (n int64) {
	t.Helper()
	n = int64(len(getRaw(t, client, bucket, manifest.Key("log"))))
	bodies := make([][]byte, len(info.Segments))
	var wg sync.WaitGroup
	room := make(chan struct{}, 4)
	for i, s := range info.Segments {
		wg.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			bodies[i] = getRaw(t, client, bucket, manifest.SegmentKey("log", s.Name))
		})
	}
	wg.Wait()
	for i, body := range bodies {
		raw, err := dec.DecodeAll(body, make([]byte, 0, info.Segments[i].Raw))
		if err != nil {
			t.Fatal(err)
		}
		n += int64(len(raw))
	}
	return n
}
