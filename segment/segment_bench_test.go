package segment

import (
	"fmt"
	"testing"
)

var levels = []struct {
	name  string
	level Level
}{{"fast", LevelFast}, {"better", LevelBetter}, {"best", LevelBest}}

// BenchmarkEncodeFrames makes the frames of a 1 MiB session: as appends of 25
// events do, as sealing does, and as merging does. The ratio is raw to stored.
func BenchmarkEncodeFrames(b *testing.B) {
	lines := sessionLines(6000, 7)
	for _, size := range []struct {
		name   string
		events int
		raw    int
	}{{"25events", 25, FrameRaw}, {"256KiB", len(lines), FrameRaw}, {"1MiB", len(lines), MergedFrameRaw}} {
		for _, l := range levels {
			b.Run(size.name+"/"+l.name, func(b *testing.B) {
				b.ReportAllocs()
				c := NewCodec()
				var out []byte
				raw := 0
				for b.Loop() {
					out, raw = out[:0], 0
					for at := 0; at < len(lines); at += size.events {
						batch := joined(lines[at:min(at+size.events, len(lines))])
						raw += len(batch)
						var err error
						if out, err = c.EncodeFrames(out, batch, l.level, size.raw); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.SetBytes(int64(raw))
				b.ReportMetric(float64(raw)/float64(len(out)), "ratio")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(lines)), "ns/event")
			})
		}
	}
}

// BenchmarkFirstFrame is what the first append of a process pays, in time and
// in memory that its codec keeps.
func BenchmarkFirstFrame(b *testing.B) {
	for _, n := range []int{25, 2500} {
		raw := joined(sessionLines(n, 7))
		for _, l := range levels {
			b.Run(fmt.Sprintf("%dKiB/%s", len(raw)>>10, l.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := NewCodec().EncodeFrame(nil, raw, l.level); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
	frame, err := NewCodec().EncodeFrame(nil, joined(sessionLines(25, 7)), LevelFast)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := NewCodec().DecodeFrame(nil, frame, FrameRaw); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkSeal includes everything that Writer does, verification too.
func BenchmarkSeal(b *testing.B) {
	lines := sessionLines(6000, 7)
	state := stateAfter(lines)
	for _, tt := range []struct {
		name  string
		level Level
		raw   int
	}{{"seal", LevelBetter, FrameRaw}, {"merge", LevelBest, MergedFrameRaw}} {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			c := NewCodec()
			var x *Index
			var object []byte
			for b.Loop() {
				w := NewWriter(c, tt.level, tt.raw, 0)
				for _, line := range lines {
					if err := w.Add(line); err != nil {
						b.Fatal(err)
					}
				}
				var err error
				if object, x, err = w.Finish(Footer{Nonce: testNonce, State: state}); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(x.RawLength())
			b.ReportMetric(float64(x.RawLength())/float64(len(object)), "ratio")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	lines := sessionLines(6000, 7)
	for _, l := range levels {
		object, x := makeSegment(b, lines, 0, MergedFrameRaw, l.level)
		b.Run(l.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(x.RawLength())
			c := NewCodec()
			for b.Loop() {
				r, err := OpenBytes(c, object)
				if err != nil {
					b.Fatal(err)
				}
				for _, err := range r.Lines(0) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	object, _ := makeSegment(b, sessionLines(6000, 7), 0, FrameRaw, LevelFast)
	c := NewCodec()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := OpenBytes(c, object); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkClone(b *testing.B) {
	s := full()
	for i := range 20 {
		s.Types.Add(fmt.Sprint("type/", i), int64(5+i))
	}
	b.ReportAllocs()
	for b.Loop() {
		s = s.Clone()
	}
}
