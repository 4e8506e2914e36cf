//go:build !race

// Under the race detector pools drop what they hold at random.

package segment_test

import (
	"testing"

	"github.com/s3log/s3log/segment"
)

func TestAllocations(t *testing.T) {
	line := []byte(`{"type":"tool/code-dispatch-start","seq":0,"time":1,"data":{"x":[1,2,3]}}`)
	turn := segment.Event{Type: segment.TypeTurnStart, Data: []byte(`{"turn":1}`)}
	for _, tt := range []struct {
		name string
		most float64
		f    func()
	}{
		{"ParseEvent", 0, func() { _, _ = segment.ParseEvent(line, segment.Limits{}) }},
		{"Prepare", 1, func() { _, _ = segment.Prepare(line, 0, segment.Limits{}) }},
		{"Project", 0, func() { segment.Project(turn) }},
	} {
		tt.f()
		if got := testing.AllocsPerRun(500, tt.f); got > tt.most {
			t.Errorf("%s makes %v allocations, at most %v are expected", tt.name, got, tt.most)
		}
	}
}
