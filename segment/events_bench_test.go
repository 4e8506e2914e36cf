package segment_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/s3log/s3log/segment"
)

// chunkEvent is an event of the most frequent type, of the usual 200 bytes.
const chunkEvent = `{"type":"assistant/chunk","seq":4211,"time":1785403668212,"data":{"turn":3,"step":2,` +
	`"chunk":{"type":"text-delta","index":0,"text":"the manifest names segments, never keys, so it cannot point elsewhere, "}}}`

// withoutSeqAndTime is chunkEvent as a caller writes it who leaves both to the log.
var withoutSeqAndTime = strings.NewReplacer(`"seq":4211,`, "", `"time":1785403668212,`, "").Replace(chunkEvent)

func assistantMessage(text, calls int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"type":"assistant/message","seq":9,"time":1,"data":{"turn":1,"step":1,"message":{"id":"m","role":"assistant",`+
		`"content":[{"type":"text","text":%q}`, strings.Repeat("x", text))
	for i := range calls {
		fmt.Fprintf(&b, `,{"type":"tool-call","id":"call-%d","name":"bash","arguments":"{\"cmd\":\"ls -l\"}"}`, i)
	}
	b.WriteString(`],"source":{"kind":"model","provider":"p","model":"m"}}},"surfaceOp":"append"}`)
	return b.Bytes()
}

func BenchmarkParseEvent(b *testing.B) {
	for name, line := range map[string][]byte{
		"200B": []byte(chunkEvent),
		"1MiB": assistantMessage(1<<20, 1),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				if _, err := segment.ParseEvent(line, segment.Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPrepare includes Assign.
func BenchmarkPrepare(b *testing.B) {
	for name, line := range map[string]string{"complete": chunkEvent, "assigned": withoutSeqAndTime} {
		b.Run(name, func(b *testing.B) {
			raw := []byte(line)
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				p, err := segment.Prepare(raw, 1, segment.Limits{})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := p.Assign(4211); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPrepareBatch(b *testing.B) {
	batch := make([][]byte, 25)
	for i := range batch {
		batch[i] = []byte(withoutSeqAndTime)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(batch) * len(withoutSeqAndTime)))
	for b.Loop() {
		pending, err := segment.PrepareBatch(batch, 1, segment.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		for i := range pending {
			if _, err := pending[i].Assign(int64(i)); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkProject(b *testing.B) {
	for name, line := range map[string][]byte{
		"chunk":   []byte(chunkEvent),
		"turn":    []byte(`{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}`),
		"message": assistantMessage(500, 2),
		"result":  []byte(`{"type":"tool/result","seq":0,"time":1,"data":{"turn":1,"step":1,"message":{"id":"m","role":"user","source":{"kind":"tool","callId":"call-1"},"content":[{"type":"tool-result","toolCallId":"call-1","content":[{"type":"text","text":"ok"}]}]}}}`),
	} {
		e, err := segment.ParseEvent(line, segment.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				segment.Project(e)
			}
		})
	}
}
