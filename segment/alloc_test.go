//go:build !race

// Under the race detector pools drop what they hold at random.

package segment_test

import (
	"bytes"
	"testing"

	"github.com/s3log/s3log/segment"
)

func TestAllocations(t *testing.T) {
	line := []byte(`{"type":"tool/code-dispatch-start","seq":0,"time":1,"data":{"x":[1,2,3]}}`)
	turn := segment.Event{Type: segment.TypeTurnStart, Data: []byte(`{"turn":1}`)}
	lines := append(bytes.Repeat(append([]byte(chunkEvent), '\n'), 250), line...)
	lines = append(lines, '\n')
	codec := segment.NewCodec()
	frame, err := codec.EncodeFrame(nil, lines, segment.LevelFast)
	if err != nil {
		t.Fatal(err)
	}
	encoded, decoded := bytes.Clone(frame), make([]byte, 0, len(lines))
	for _, tt := range []struct {
		name string
		most float64
		f    func()
	}{
		{"ParseEvent", 0, func() { _, _ = segment.ParseEvent(line, segment.Limits{}) }},
		{"Prepare", 1, func() { _, _ = segment.Prepare(line, 0, segment.Limits{}) }},
		{"Project", 0, func() { segment.Project(turn) }},
		{"EncodeFrame into a buffer", 1, func() { encoded, _ = codec.EncodeFrame(encoded[:0], lines, segment.LevelFast) }},
		{"DecodeFrame into a buffer", 1, func() { decoded, _ = codec.DecodeFrame(decoded[:0], frame, len(lines)) }},
		{"Lines of 251 events", 1, func() {
			n := 0
			for range segment.Lines(lines) {
				n++
			}
			if n != 251 {
				t.Error(n)
			}
		}},
	} {
		tt.f()
		if got := testing.AllocsPerRun(500, tt.f); got > tt.most {
			t.Errorf("%s makes %v allocations, at most %v are expected", tt.name, got, tt.most)
		} else {
			t.Logf("%s: %v", tt.name, got)
		}
	}
}
