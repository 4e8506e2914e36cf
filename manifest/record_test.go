package manifest

import (
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"math/bits"
	"strings"
	"testing"

	"github.com/s3log/s3log/segment"
)

// Records that tests begin with. Each call returns new ones.

func ptr[T any](v T) *T { return &v }

// treeOf is some tree of the size, with a root that fits its range.
func treeOf(size int64) segment.Tree {
	t := segment.Tree{Size: size}
	for i := range bits.OnesCount64(uint64(size)) {
		t.Range = append(t.Range, sha256.Sum256([]byte{byte(i)}))
	}
	t.Root = segment.TreeRoot(t.Range)
	return t
}

// openRecord has something in every field, as a log of an ordinary session may.
func openRecord() *Record {
	seg := func(first, count int64, epoch uint32, n byte) SegmentRef {
		return SegmentRef{
			Name:  Name{First: first, Epoch: epoch, Nonce: Nonce{7: n}},
			Count: count, Bytes: 40_000 + count, Raw: 380_000 + count, SHA256: sha256.Sum256([]byte{n}),
		}
	}
	const w1, w2 = "0b1c2d3e-0000-4000-8000-000000000001", "0b1c2d3e-0000-4000-8000-000000000002"
	return &Record{
		Version: 1,
		Log:     "proj/2026-11-30 ü",
		UID:     "019b0000-0000-7000-8000-000000000001",
		Header:  []byte(`{"type":"session","version":0,"id":"x","createdAt":1790000000000, "note":"\ud800 <&>","note":2}`),
		State:   StateOpen, Revision: 12, Epoch: 3,
		Commit: CommitInfo{ID: "019b0000-0000-7000-8000-00000000000c", Writer: w2, At: 1790000100123, Software: "s3logctl 0.1.0"},
		Owner:  &Owner{Writer: w2, Generation: 2, Label: "ci \"7\" <a&b>", Released: true},
		Generations: []Takeover{
			{Generation: 1, Writer: w1, Kind: KindFork, First: 0, At: 1790000000000},
			{Generation: 2, Writer: w2, Kind: KindResume, First: 2010, At: 1790000090000},
		},
		Keys: []KeyEntry{
			{Key: "00112233445566ff", First: 2000, Count: 4, Digest: "ffeeddccbbaa0000"},
			{Key: "0123456789abcdef", First: 2012, Count: 1, Digest: "fedcba9876543210"},
		},
		Next: 2013,
		Content: segment.State{
			Types: segment.Types{
				Entries: []segment.TypeCount{
					{Type: "compaction/start"},
					{Type: "turn/start", Count: 2, First: 0, Last: 2012},
					{Type: "assistant/chunk", Count: 2010, First: 1, Last: 2010},
					{Type: "session/end-seed", Count: 1, First: 2011, Last: 2011},
				},
			},
			LastTime: ptr(int64(1790000100000)), MaxTime: ptr(int64(1790000100001)), Activity: ptr(int64(1790000050000)),
			Boundary: &segment.Boundary{Seq: 2011, Time: 1790000090001},
			Turn:     &segment.Turn{Turn: 2, Step: ptr(int64(1)), Calls: []segment.Call{{ID: "call_1", Step: 1, Seq: ptr(int64(2010))}, {ID: "c\n2", Step: 1}}},
			Tree:     treeOf(2013),
		},
		ActivityRule: RuleUserPrompt,
		Origin: &Origin{Kind: KindFork, Inherited: 1000, Parent: &Parent{
			Log: "proj/parent", UID: "019b0000-0000-7000-8000-0000000000aa", UpTo: 1000, Root: sha256.Sum256([]byte("root")),
		}},
		Lifecycle: &Lifecycle{Kind: KindResume, Inherited: 2010, Closers: 1, First: 2010, At: 1790000090000},
		Segments:  []SegmentRef{seg(0, 1001, 1, 1), seg(1001, 999, 3, 2)},
		Retired:   []Retired{{Name: Name{First: 1001, Epoch: 2, Nonce: Nonce{7: 3}}, At: 1790000080000}},
		Tail:      []byte("\x28\xb5\x2f\xfd frames are opaque here \x00\xff"),
		Lease:     &Lease{Until: 1790000160000},
		Unknown:   []byte(`"x-later":{"b":1, "a":[1.50,"\u00e9",null],"b":2},"y":-0`),
	}
}

// freshRecord is a log just born, with as much null as there can be.
func freshRecord() *Record {
	r := openRecord()
	return &Record{
		Version: 1, Log: "a", UID: r.UID, State: StateOpen, Revision: 1, Epoch: 1, Commit: r.Commit,
		Owner:       &Owner{Writer: "w", Generation: 1},
		Generations: []Takeover{{Generation: 1, Writer: "w", Kind: KindFresh}},
		Next:        0, Content: segment.State{Tree: treeOf(0)}, ActivityRule: RuleUserPrompt,
		Origin: &Origin{Kind: KindFresh}, Lifecycle: &Lifecycle{Kind: KindFresh},
	}
}

// tombstone is what is left of openRecord.
func tombstone() *Record {
	r := openRecord()
	return &Record{
		Version: 1, Log: r.Log, UID: r.UID, State: StateDeleted, Revision: 13, Epoch: 4, Commit: r.Commit,
		Owner:       &Owner{Writer: "w3", Generation: 3},
		Generations: append(r.Generations, Takeover{Generation: 3, Writer: "w3", Kind: KindDelete, First: 2013, At: 1790000200000}),
		Keys:        r.Keys, Next: r.Next, Unknown: r.Unknown,
	}
}

func void() *Record {
	return &Record{Version: 1, Log: "orphans", State: StateVoid, Revision: 1, Epoch: 7, Commit: openRecord().Commit}
}

var records = map[string]func() *Record{
	"open": openRecord, "fresh": freshRecord, "deleted": tombstone, "void": void,
}

// limitRecord is at every limit at once: every list full, every text as long
// as it may be and of what takes most room, numbers of 16 digits where the
// rules between the fields leave it to choose.
func limitRecord() *Record {
	const (
		most  = int64(segment.MaxSeq) // of everything
		next  = most                  // 53 perfect subtrees
		share = next / (MaxSegments + 1)
	)
	ctrl := func(limit int) string { // takes limit bytes in JSON
		return strings.Repeat("\x01", limit/6) + strings.Repeat("x", limit%6)
	}
	numbered := func(limit, i int) string { return fmt.Sprintf("%0*d", limit, i) }
	r := &Record{
		Version: 1, Log: ctrl(6 * MaxID), UID: numbered(MaxToken, 1), State: StateOpen, Revision: most, Epoch: 1<<32 - 1,
		Header: []byte(`{"x":"` + strings.Repeat("h", MaxHeader-8) + `"}`),
		Commit: CommitInfo{ID: numbered(MaxToken, 1), Writer: ctrl(MaxToken), At: most, Software: ctrl(MaxSoftware)},
		Next:   next, ActivityRule: ctrl(MaxRule),
		Origin: &Origin{Kind: numbered(MaxKind, 1), Inherited: next, Parent: &Parent{
			Log: ctrl(6 * MaxID), UID: ctrl(MaxToken), UpTo: most,
		}},
		Lifecycle: &Lifecycle{Kind: numbered(MaxKind, 2), Inherited: next, Closers: next, First: next, At: most},
		Tail:      make([]byte, MaxTail/4*3),
		Lease:     &Lease{Until: most},
		Unknown:   []byte(`"x":"` + strings.Repeat("u", MaxUnknown-6) + `"`),
	}
	for i := range MaxGenerations {
		r.Generations = append(r.Generations, Takeover{
			Generation: most - MaxGenerations + 1 + int64(i), Writer: numbered(MaxToken, i), Kind: numbered(MaxKind, i), First: next, At: most,
		})
	}
	r.Owner = &Owner{Writer: r.Generations[MaxGenerations-1].Writer, Generation: most, Label: ctrl(MaxLabel)}
	for i := range MaxKeys {
		r.Keys = append(r.Keys, KeyEntry{Key: numbered(16, i), First: 1e15 + int64(i)*3e13, Count: 3e13, Digest: numbered(16, i)})
	}
	for i := range MaxSegments {
		r.Segments = append(r.Segments, SegmentRef{
			Name: Name{First: int64(i) * share, Epoch: r.Epoch, Nonce: NewNonce()}, Count: share, Bytes: most, Raw: most,
		})
	}
	for range MaxRetired {
		r.Retired = append(r.Retired, Retired{Name: Name{First: next - 1, Epoch: r.Epoch, Nonce: NewNonce()}, At: most})
	}
	s := &r.Content
	s.LastTime, s.MaxTime, s.Activity = ptr(-most), ptr(-most), ptr(-most)
	s.Boundary = &segment.Boundary{Seq: next - 1, Time: -most}
	s.Tree = treeOf(next)
	left := next
	for i := range segment.MaxTypes {
		c := segment.TypeCount{Type: numbered(segment.MaxTypeName, i), First: 1e15, Last: next - 1, Count: next / (segment.MaxTypes + 1)}
		if i == 0 {
			c.First = 0
		}
		left -= c.Count
		s.Types.Entries = append(s.Types.Entries, c)
	}
	s.Types.Overflow = &segment.TypeCount{First: 1e15, Last: next - 1, Count: left}
	s.Turn = &segment.Turn{Turn: -most, Step: ptr(-most)}
	for i := range segment.MaxCalls {
		s.Turn.Calls = append(s.Turn.Calls, segment.Call{ID: numbered(segment.MaxCallID, i), Step: -most, Seq: ptr(next - 1)})
	}
	return r
}

// reseal replaces old by new in a manifest, which must hold it, and gives it
// the sum of what it is then.
func reseal(t testing.TB, body []byte, old, new string) []byte {
	t.Helper()
	s := string(body[:len(body)-sumLen])
	if !strings.Contains(s, old) {
		t.Fatalf("the manifest does not hold %q:\n%s", old, body)
	}
	return seal(strings.Replace(s, old, new, 1))
}

// seal closes a manifest: everything before the sum's comma.
func seal(s string) []byte {
	return fmt.Appendf(nil, "%s,\"sum\":\"%08x\"}\n", s, crc32.Checksum([]byte(s), crc32.MakeTable(crc32.Castagnoli)))
}

func encode(t testing.TB, r *Record) []byte {
	t.Helper()
	b, err := r.Encode()
	if err != nil {
		t.Fatalf("Encode: %v", err)
	}
	return b
}
