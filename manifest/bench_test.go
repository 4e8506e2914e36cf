package manifest

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/s3log/s3log/segment"
)

// benchRecord is a long log: so many segments, 256 types, a full tail.
func benchRecord(segments int) *Record {
	r := openRecord()
	r.Segments, r.Retired = nil, nil
	const count = 250_000
	for i := range segments {
		r.Segments = append(r.Segments, SegmentRef{
			Name:  Name{First: int64(i) * count, Epoch: 3, Nonce: NewNonce()},
			Count: count, Bytes: 8 << 20, Raw: 90 << 20, SHA256: sha256.Sum256([]byte{byte(i)}),
		})
	}
	r.Next = int64(segments)*count + 500
	r.Content.Tree = treeOf(r.Next)
	r.Content.Types = segment.Types{Entries: []segment.TypeCount{{Type: "assistant/chunk", Count: r.Next - 255, First: 0, Last: r.Next - 1}}}
	for i := range int64(255) {
		r.Content.Types.Entries = append(r.Content.Types.Entries, segment.TypeCount{
			Type: fmt.Sprintf("plugin/example-event-%d", i), Count: 1, First: i + 1, Last: i + 1,
		})
	}
	r.Tail = make([]byte, MaxTail/4*3)
	return r
}

func BenchmarkAppendTo(b *testing.B) {
	for _, bb := range []struct {
		name string
		r    *Record
	}{
		{"small", openRecord()},
		{"tail=128KiB,segments=40,types=256", benchRecord(40)},
		{"limits", limitRecord()},
	} {
		b.Run(bb.name, func(b *testing.B) {
			dst := encode(b, bb.r)
			b.SetBytes(int64(len(dst)))
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if dst, err = bb.r.AppendTo(dst[:0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, bb := range []struct {
		name string
		r    *Record
	}{
		{"small", openRecord()},
		{"tail=128KiB,segments=40,types=256", benchRecord(40)},
		{"limits", limitRecord()},
	} {
		b.Run(bb.name, func(b *testing.B) {
			body := encode(b, bb.r)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
