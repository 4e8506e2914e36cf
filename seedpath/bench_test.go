package seedpath_test

import (
	"fmt"
	"testing"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// BenchmarkJudge judges from a manifest with as many event types and takeovers
// as it can have.
func BenchmarkJudge(b *testing.B) {
	r := record(b, logOf("compaction/start", "note"))
	for i := range 254 {
		r.Content.Types.Entries = append(r.Content.Types.Entries, segment.TypeCount{Type: fmt.Sprintf("zz/%03d", i), Count: 1})
	}
	for g := range int64(63) {
		r.Generations = append(r.Generations, manifest.Takeover{Generation: g + 2, Writer: "w", Kind: manifest.KindAdopt, First: 2})
	}
	b.ReportAllocs()
	for b.Loop() {
		if v, ok := seedpath.Judge(r, segment.TypeCompactionStart, segment.TypeCompactionEnd); !ok || v.Answer != seedpath.Live {
			b.Fatal(v)
		}
	}
}

// BenchmarkClosers closes a turn with so many calls without a result.
func BenchmarkClosers(b *testing.B) {
	step := int64(2)
	for _, calls := range []int{0, 3, 256} {
		turn := &segment.Turn{Turn: 7, Step: &step}
		for i := range calls {
			turn.Calls = append(turn.Calls, segment.Call{ID: fmt.Sprintf("call_%024d", i), Step: 2, Seq: &step})
		}
		b.Run(fmt.Sprint("calls=", calls), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if events, err := seedpath.Closers(turn, 1000, 1); err != nil || len(events) != calls+2 {
					b.Fatal(len(events), err)
				}
			}
		})
	}
}

// BenchmarkScan is what a bracket that an id pairs takes for each event.
func BenchmarkScan(b *testing.B) {
	events := parse(b, logOf("tool/call", "note"))
	events[0].Data = []byte(`{"turn":1,"step":1,"callId":"call_1","name":"bash","arguments":"{}"}`)
	scan := seedpath.NewScan(seedpath.Pairs["tool"])
	b.ReportAllocs()
	for b.Loop() {
		for _, e := range events {
			scan.Add(e)
		}
	}
}
