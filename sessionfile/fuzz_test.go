package sessionfile

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whatever the input: what is read can be written and read again in every form,
// and comes back the same.
func FuzzRead(f *testing.F) {
	text := file(testHeader, event(0), textDelta(1, 5, `"a"`), textDelta(2, 5, `"b"`), textDelta(3, 4, `"c"`),
		`{"type":"text-chunks","seq0":4,"time0":1,"data":{"turn":1,"step":2,"index":0,"dt":[1],"texts":["x","\ud800"]}}`,
		`{"type":"tool-call-chunks","seq0":6,"time0":1,"data":{"turn":1,"step":2,"index":0,"dt":[],"id":"c","name":"n","args":["x"]}}`)
	f.Add(text, uint8(0))
	f.Add(text[:len(text)-9], uint8(1))
	f.Add(append(text[:len(text)-40:len(text)-40], event(6)...), uint8(1))
	f.Add(append([]byte("\xef\xbb\xbf\r\n"), text...), uint8(2))
	f.Add(frames(f, string(text[:200]), string(text[200:])), uint8(0))
	f.Add(frames(f, string(text))[:150], uint8(2))
	f.Add([]byte(`{"timestamp":"2025-01-01T00:00:01Z"}`), uint8(4))
	f.Add([]byte("\x28\xb5\x2f\xfd\x00\xa8\x00"), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, mode uint8) {
		opt := Options{Salvage: Salvage(mode % 3), MaxLine: 1 << 16}
		if mode&4 != 0 {
			opt.Wrap = "foreign"
		}
		r, err := NewReader(bytes.NewReader(data), opt)
		if err != nil {
			t.Fatalf("NewReader: %v", err) // only a failing input makes it fail
		}
		var lines []string
		for line, err := range r.Events() {
			var flawed *LineError
			switch {
			case err == nil:
				lines = append(lines, string(line.Bytes))
			case !errors.As(err, &flawed) || flawed.Line < line.LineNo:
				t.Fatalf("error after line %d: %v", line.LineNo, err)
			case opt.Salvage == SalvagePrefix || opt.Salvage == SalvageTorn && errors.Is(err, ErrTorn):
				t.Fatalf("not salvaged: %v", err)
			}
		}
		for _, opt := range []WriterOptions{{}, {Pack: true}, {Pack: true, Zstd: true}} {
			again, reread := mustRead(t, write(t, opt, r.Header(), lines))
			if diff := cmp.Diff(lines, reread); diff != "" {
				t.Errorf("%+v: -written +read:\n%s", opt, diff)
			}
			if !bytes.Equal(again.Header(), bytes.ReplaceAll(r.Header(), []byte{'\n'}, nil)) {
				t.Errorf("%+v: header became %q", opt, again.Header())
			}
		}
	})
}

// Packing is undone to the byte, whatever streams alternate, and the fast way
// to know a delta never accepts what is not JSON.
func FuzzPackRoundTrip(f *testing.F) {
	f.Add([]byte("abcdefghijklmnopqrstuvwxyz"), []byte(textDelta(0, 1, `"a"`)))
	f.Add(bytes.Repeat([]byte{40, 8, 9, 10}, 40), []byte(textDelta(7, -1, `"\ud800\n"`)))
	f.Fuzz(func(t *testing.T, choices, line []byte) {
		var s scanner
		if d, ok := parseDelta(line); ok {
			if _, flawed := s.object(line); flawed != nil {
				t.Errorf("accepted %q: %v", line, flawed)
			}
			if got := d.appendLine(nil); !bytes.Equal(got, line) {
				t.Errorf("%q became %q", line, got)
			}
		}
		lines := randomLines(func(n int) int {
			if len(choices) == 0 {
				return 0
			}
			c := int(choices[0])
			choices = choices[1:]
			return c % n
		})
		if _, got := mustRead(t, write(t, WriterOptions{Pack: true}, nil, lines)); !cmp.Equal(lines, got) {
			t.Errorf("-written +read:\n%s", cmp.Diff(lines, got))
		}
	})
}

// benchmarkText is about 8 MiB of events in the proportions of real sessions:
// four of five are streamed deltas.
func benchmarkText() (text []byte, n int) {
	words := []string{`" the"`, `" file"`, `"s"`, `" is"`, `".\n"`}
	for seq := 0; len(text) < 8<<20; seq++ {
		line := textDelta(seq, 1700000000000+seq*7, words[seq%len(words)])
		if seq%5 == 4 {
			line = event(seq)
		}
		text = append(append(text, line...), '\n')
		n++
	}
	return text, n
}

func BenchmarkRead(b *testing.B) {
	text, n := benchmarkText()
	_, lines := mustRead(b, text)
	for name, data := range map[string][]byte{
		"plain":  text,
		"packed": write(b, WriterOptions{Pack: true}, nil, lines),
		"zstd":   write(b, WriterOptions{Zstd: true}, nil, lines),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				r, err := NewReader(bytes.NewReader(data), Options{})
				if err != nil {
					b.Fatal(err)
				}
				for _, err := range r.Events() {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	text, n := benchmarkText()
	lines := bytes.Split(bytes.TrimSuffix(text, []byte{'\n'}), []byte{'\n'})
	for name, opt := range map[string]WriterOptions{"plain": {}, "packed": {Pack: true}, "packed zstd": {Pack: true, Zstd: true}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				w, err := NewWriter(io.Discard, opt)
				if err != nil {
					b.Fatal(err)
				}
				for _, line := range lines {
					if err := w.WriteEvent(line); err != nil {
						b.Fatal(err)
					}
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
