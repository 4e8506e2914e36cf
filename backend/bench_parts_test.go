package backend

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
	"github.com/s3log/s3log/sessiongen"
)

// What appends do beside their commit, or leave for later, by itself.

func benchEvents(n int) (lines [][]byte, size int64) {
	g := sessiongen.New(sessiongen.Options{Seed: 1, Events: int64(n)})
	for line, ok := g.Next(); ok; line, ok = g.Next() {
		lines = append(lines, bytes.Clone(line))
		size += int64(len(line)) + 1
	}
	return lines, size
}

// perEvent reports what an event took of a processor. used is CPUTime before.
func perEvent(b *testing.B, events int, used time.Duration) {
	b.ReportMetric(float64((CPUTime()-used).Nanoseconds())/float64(events*b.N), "cpu-ns/event")
}

// BenchmarkTail adds batches to a tail until it is sealed, which joins its
// frames on the way.
func BenchmarkTail(b *testing.B) {
	for _, batch := range []int{1, 25} {
		lines, size := benchEvents(1500)
		b.Run(fmt.Sprintf("%devents", batch), func(b *testing.B) {
			c := segment.NewCodec()
			b.SetBytes(size)
			b.ReportAllocs()
			used := CPUTime()
			for b.Loop() {
				var t tail
				for at := 0; at < len(lines); at += batch {
					raw := append(bytes.Join(lines[at:at+batch], []byte{'\n'}), '\n')
					var err error
					if t, err = t.add(c, raw, int64(batch)); err != nil {
						b.Fatal(err)
					}
				}
			}
			perEvent(b, len(lines), used)
		})
	}
}

// benchTail is a tail of some events that begin at a seq of their own.
func benchTail(b *testing.B, f *manifest.Fold, lines [][]byte) tail {
	b.Helper()
	t := tail{first: f.Size()}
	for _, line := range lines {
		e, err := segment.ParseEvent(line, segment.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		f.Add(e)
	}
	t.frames = []frame{{first: t.first, count: int64(len(lines)), raw: append(bytes.Join(lines, []byte{'\n'}), '\n')}}
	return t
}

func benchLog(b *testing.B, st objstore.Store) (*Log, *manifest.Fold) {
	b.Helper()
	l, err := New(st, Options{}).Create("log", CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	f, err := manifest.NewFold(segment.NewState(), manifest.RuleUserPrompt)
	if err != nil {
		b.Fatal(err)
	}
	return l, f
}

// BenchmarkSeal makes a segment of a full tail, checks and uploads it, with the
// codec of the seal before.
func BenchmarkSeal(b *testing.B) {
	l, f := benchLog(b, memstore.New(b))
	lines, size := benchEvents(1500)
	t := benchTail(b, f, lines)
	b.SetBytes(size)
	b.ReportAllocs()
	used := CPUTime()
	c := segment.NewCodec()
	for b.Loop() {
		if _, err := l.makeSeal(b.Context(), c, t, f.State(), 1, "", nil); err != nil {
			b.Fatal(err)
		}
	}
	perEvent(b, len(lines), used)
}

// BenchmarkMerge reads four segments, checks them, joins them in larger frames and
// checks the result, without its upload: those of tails, and larger ones.
func BenchmarkMerge(b *testing.B) {
	for _, events := range []int{1500, 6000, 24_000} {
		st := memstore.New(b)
		l, f := benchLog(b, st)
		lines, size := benchEvents(mergeWidth * events)
		var inputs []manifest.SegmentRef
		for at := 0; at < len(lines); at += events {
			t := benchTail(b, f, lines[at:at+events])
			p, err := l.makeSeal(b.Context(), segment.NewCodec(), t, f.State(), 1, "", nil)
			if err != nil {
				b.Fatal(err)
			}
			inputs = append(inputs, p.upload.Ref)
		}
		b.Run(fmt.Sprintf("4x%devents", events), func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			stored, used := 0, CPUTime()
			for b.Loop() {
				c := segment.NewCodec()
				w := segment.NewWriter(c, segment.LevelBest, segment.MergedFrameRaw, 0)
				foot, err := join(b.Context(), st, c, l.id, w, inputs)
				if err != nil {
					b.Fatal(err)
				}
				foot.Nonce = manifest.NewNonce().String()
				object, _, err := w.Finish(foot)
				if err != nil {
					b.Fatal(err)
				}
				stored = len(object)
			}
			b.ReportMetric(float64(size)/float64(stored), "ratio")
			perEvent(b, len(lines), used)
		})
	}
}
