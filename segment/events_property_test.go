package segment_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/s3log/s3log/segment"
)

// drawSpace yields white space as it may stand between tokens.
func drawSpace(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", "", "", " ", "\t", "\r", "\n", "\r\n  "}).Draw(t, "space")
}

// drawString yields a JSON string literal, in more spellings than an encoder
// would choose, some of them with lone surrogates.
func drawString(t *rapid.T) string {
	pieces := []string{
		"a", "Z", " ", "é", "\u2028", "😀", "<&>", "/", "\x7f", "{", "]", ",", ":", "seq",
		`\"`, `\\`, `\/`, `\n`, `\u0000`, `\u00e9`, `\ud83d\ude00`, `\ud800`, `\uDFFF`, `\u003c`,
	}
	return `"` + strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8).Draw(t, "string"), "") + `"`
}

// drawValue yields any JSON text, with white space and duplicate names.
func drawValue(t *rapid.T, depth int) string {
	kinds := 3
	if depth > 0 {
		kinds = 5
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "literal")
	case 1:
		return rapid.SampledFrom([]string{"0", "-0", "1.50", "1E+3", "9007199254740993", "1e999", "-12345678901234567890123"}).Draw(t, "number")
	case 2:
		return drawString(t)
	case 3:
		var b strings.Builder
		b.WriteString("[" + drawSpace(t))
		for i := range rapid.IntRange(0, 3).Draw(t, "elements") {
			if i > 0 {
				b.WriteString("," + drawSpace(t))
			}
			b.WriteString(drawValue(t, depth-1) + drawSpace(t))
		}
		return b.String() + "]"
	}
	var members []string
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		members = append(members, drawString(t)+drawSpace(t)+":"+drawSpace(t)+drawValue(t, depth-1)+drawSpace(t))
	}
	return "{" + drawSpace(t) + strings.Join(members, ","+drawSpace(t)) + "}"
}

type drawn struct {
	raw              string
	typ, data        string
	seq, time        int64
	hasSeq, hasTime  bool
	ignorable, plain bool // plain: nothing to cut or to drop
}

func drawEvent(t *rapid.T) drawn {
	d := drawn{
		typ:       rapid.SampledFrom([]string{"a", "turn/start", "assistant/chunk", "x/é", "with space"}).Draw(t, "type"),
		data:      drawValue(t, 3),
		seq:       rapid.Int64Range(0, segment.MaxSeq).Draw(t, "seq"),
		time:      rapid.Int64Range(-segment.MaxSeq, segment.MaxSeq).Draw(t, "time"),
		hasSeq:    rapid.Bool().Draw(t, "has seq"),
		hasTime:   rapid.Bool().Draw(t, "has time"),
		ignorable: rapid.Bool().Draw(t, "ignorable"),
	}
	members := [][2]string{{`"type"`, `"` + d.typ + `"`}, {rapid.SampledFrom([]string{`"data"`, `"d\u0061ta"`}).Draw(t, "name"), d.data}}
	if d.hasSeq {
		members = append(members, [2]string{`"seq"`, fmt.Sprint(d.seq)})
	}
	if d.hasTime {
		members = append(members, [2]string{`"time"`, fmt.Sprint(d.time)})
	}
	if d.ignorable {
		members = append(members, [2]string{`"ignorable"`, "true"})
	}
	for _, name := range []string{`"sourceEventSeqs"`, `"surfaceOp"`} {
		if rapid.Bool().Draw(t, name) {
			members = append(members, [2]string{name, drawValue(t, 1)})
		}
	}
	order := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0))
	order.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	var b strings.Builder
	b.WriteString(drawSpace(t) + "{")
	for i, m := range members {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(drawSpace(t) + m[0] + drawSpace(t) + ":" + drawSpace(t) + m[1] + drawSpace(t))
	}
	b.WriteString("}" + drawSpace(t))
	d.raw = b.String()
	d.plain = strings.TrimSpace(d.raw) == d.raw && !strings.Contains(d.raw, "\n")
	return d
}

func TestPrepareAssignParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawEvent(t)
		now := rapid.Int64Range(-segment.MaxSeq, segment.MaxSeq).Draw(t, "now")
		p, err := segment.Prepare([]byte(d.raw), now, segment.Limits{})
		if err != nil {
			t.Fatalf("Prepare(%q): %v", d.raw, err)
		}
		line := strings.ReplaceAll(strings.Trim(d.raw, " \t\r\n"), "\n", "")
		checkAssigned(t, &p, []byte(line))
		e, err := p.Assign(d.seq)
		if err != nil {
			t.Fatal(err)
		}
		want := segment.Event{Line: e.Line, Type: d.typ, Seq: d.seq, Time: now, Data: []byte(strings.ReplaceAll(d.data, "\n", "")), Ignorable: d.ignorable}
		if d.hasTime {
			want.Time = d.time
		}
		if diff := cmp.Diff(want, e); diff != "" {
			t.Fatalf("event (-drawn +got):\n%s", diff)
		}
		if d.plain && d.hasSeq && d.hasTime && string(e.Line) != d.raw {
			t.Fatalf("bytes were changed:\n%q\n%q", d.raw, e.Line)
		}
		segment.Project(e)
	})
}

// A batch is what its events are one by one.
func TestPrepareBatchIsPrepare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var raw [][]byte
		for _, d := range rapid.SliceOfN(rapid.Custom(drawEvent), 0, 6).Draw(t, "batch") {
			raw = append(raw, []byte(d.raw))
		}
		batch, err := segment.PrepareBatch(raw, 7, segment.Limits{})
		if err != nil {
			// Drawn events are valid; drawn seqs do not follow each other.
			if !isBatchError(err) {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		for i := range batch {
			single, err := segment.Prepare(raw[i], 7, segment.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			seq, ok := single.HasSeq()
			if !ok {
				seq = int64(i)
			}
			want, err1 := single.Assign(seq)
			got, err2 := batch[i].Assign(seq)
			if diff := cmp.Diff(want, got); err1 != nil || err2 != nil || diff != "" {
				t.Fatalf("event %d: %v, %v\n%s", i, err1, err2, diff)
			}
		}
	})
}

func isBatchError(err error) bool {
	return errors.Is(err, segment.ErrSeqMismatch) || strings.Contains(err.Error(), "all events of a batch")
}

// What one byte does to a good line is either refused or a good line again.
func TestParseEventAfterDamage(t *testing.T) {
	line := []byte(chunkEvent)
	for at := range line {
		for _, c := range []byte{0, '\n', ' ', '"', '\\', ',', '0', '{', ']', 0x80, line[at] ^ 0x20, line[at] ^ 1} {
			damaged := bytes.Clone(line)
			damaged[at] = c
			e, err := segment.ParseEvent(damaged, segment.Limits{})
			if err != nil {
				checkRefusal(t, err)
				continue
			}
			want, _, _, ok, _ := reference(damaged)
			if diff := cmp.Diff(want, e); !ok || diff != "" {
				t.Fatalf("byte %d is %q: reference reads %v\n%s", at, c, ok, diff)
			}
		}
	}
}
