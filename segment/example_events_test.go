package segment_test

import (
	"fmt"

	"github.com/s3log/s3log/segment"
)

// A caller leaves seq and time to the log, and every other byte stays as it is.
func ExamplePrepare() {
	raw := []byte(`{"type":"tool/call", "data":{"callId":"c1","size":9007199254740993,"text":"<b>"}}` + "\n")
	p, err := segment.Prepare(raw, 1700000000000, segment.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := p.Assign(41)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", e.Line)
	fmt.Println(segment.Project(e).CallID)
	// Output:
	// {"type":"tool/call","seq":41,"time":1700000000000, "data":{"callId":"c1","size":9007199254740993,"text":"<b>"}}
	// c1
}

func ExamplePrepareBatch() {
	_, err := segment.PrepareBatch([][]byte{
		[]byte(`{"type":"turn/start","data":{"turn":1}}`),
		[]byte(`{"type":"turn/end","data":{"turn":1},"Time":5}`),
	}, 0, segment.Limits{})
	fmt.Println(err)
	// Output:
	// invalid event: event 1, type "turn/end": member "Time" is not allowed (allowed are type, seq, time, data, sourceEventSeqs, surfaceOp and ignorable, in this spelling)
}
