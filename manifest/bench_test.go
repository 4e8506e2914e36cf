package manifest

import (
	"crypto/sha256"
	"fmt"
	"slices"
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

// chunks are the events of an append to a log that has next events already.
func chunks(b testing.TB, next int64, n int) []segment.Event {
	b.Helper()
	all := make([]segment.Event, n)
	for i := range all {
		line := fmt.Appendf(nil, `{"type":"assistant/chunk","seq":%d,"time":1785403668212,"data":{"turn":3,"step":2,"chunk":{"type":"text-delta","index":0,"text":"the manifest names segments, never keys, so it cannot point elsewhere, "}}}`, next+int64(i))
		e, err := segment.ParseEvent(line, segment.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		all[i] = e
	}
	return all
}

// BenchmarkFold is what a commit of 25 events does to the projections and the
// tree, and what of that the events alone take.
func BenchmarkFold(b *testing.B) {
	for _, bb := range []struct {
		name string
		r    *Record
	}{{"small", openRecord()}, {"types=256", benchRecord(40)}} {
		events := chunks(b, bb.r.Next, 25)
		b.Run("commit/"+bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f, err := NewFold(bb.r.Content, RuleUserPrompt)
				if err != nil {
					b.Fatal(err)
				}
				for _, e := range events {
					f.Add(e)
				}
				f.State()
			}
		})
		b.Run("event/"+bb.name, func(b *testing.B) {
			f, err := NewFold(bb.r.Content, RuleUserPrompt)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(events[0].Line)))
			i := 0
			for b.Loop() {
				e := events[i%len(events)]
				e.Seq = f.Size()
				f.Add(e)
				i++
			}
		})
	}
}

// BenchmarkProposal is a commit of 25 events from the version before to the bytes
// that are sent, all but the tail's frames.
func BenchmarkProposal(b *testing.B) {
	for _, bb := range []struct {
		name string
		r    *Record
	}{{"small", openRecord()}, {"tail=128KiB,segments=40,types=256", benchRecord(40)}, {"segments=512", benchRecord(MaxSegments)}} {
		events := chunks(b, bb.r.Next, 25)
		w := Writer{ID: bb.r.Owner.Writer, Software: "bench"}
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d, err := Continue(bb.r, w, 1785403668212)
				if err != nil {
					b.Fatal(err)
				}
				for _, e := range events {
					d.Append(e)
				}
				d.SetTail(bb.r.Tail)
				if _, err := d.Finish(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCheckNames is the rule of names where nothing new is named, which is
// every append, and where a seal is.
func BenchmarkCheckNames(b *testing.B) {
	for _, n := range []int{4, 40, MaxSegments - 1} {
		base := benchRecord(n)
		sealed := *base
		up := Upload{Ref: SegmentRef{Name: Name{First: base.TailFirst(), Epoch: base.Epoch, Nonce: NewNonce()}, Count: 500}, TailFirst: base.TailFirst()}
		sealed.Segments = append(slices.Clip(base.Segments), up.Ref)
		for _, bb := range []struct {
			name    string
			next    *Record
			uploads []Upload
		}{{"append", base, nil}, {"seal", &sealed, []Upload{up}}} {
			b.Run(fmt.Sprintf("%s/segments=%d", bb.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := checkNames(base, bb.next, bb.uploads); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkJudge is the decision procedure on a log that was taken over as often
// as a manifest remembers.
func BenchmarkJudge(b *testing.B) {
	head := limitRecord()
	in := Intent{Kind: IntentAppend, Log: head.Log, UID: head.UID, Commit: newCommitID(), Writer: head.Owner.Writer,
		Generation: head.Generation(), Start: head.Next - 25, End: head.Next, Base: newCommitID(), Revision: head.Revision}
	if v := Judge(in, head); v != Committed {
		b.Fatal(v)
	}
	b.ReportAllocs()
	for b.Loop() {
		Judge(in, head)
	}
}
