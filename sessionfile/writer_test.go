package sessionfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/s3log/s3log/segment"
)

func TestWriterForms(t *testing.T) {
	lines := []string{
		event(0), textDelta(1, 100, `"a"`), textDelta(2, 101, `"\ud800"`), textDelta(3, 99, `"c"`), event(4),
		textDelta(5, 1, `"only"`), textDelta(6, 1, `"two"`),
	}
	row := `{"type":"text-chunks","seq0":1,"time0":100,"data":{"turn":1,"step":2,"index":0,"dt":[1,-2],"texts":["a","\ud800","c"]}}`
	plain := file(append([]string{testHeader}, lines...)...)
	packed := file(testHeader, event(0), row, event(4), lines[5], lines[6])

	if diff := cmp.Diff(string(plain), string(write(t, WriterOptions{}, []byte(testHeader), lines))); diff != "" {
		t.Errorf("plain (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(string(packed), string(write(t, WriterOptions{Pack: true}, []byte(testHeader), lines))); diff != "" {
		t.Errorf("packed (-want +got):\n%s", diff)
	}
	compressed := write(t, WriterOptions{Pack: true, Zstd: true}, []byte(testHeader), lines)
	dec, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	whole, err := dec.DecodeAll(compressed, nil)
	if err != nil || !bytes.Equal(whole, packed) {
		t.Errorf("compressed: %v, contents %q", err, whole)
	}
	// Listings read the first frame alone: it holds the header line and
	// nothing else.
	first := frames(t, testHeader+"\n")
	if !bytes.HasPrefix(compressed, first) {
		t.Errorf("the first frame is not the header")
	}
	var h zstd.Header
	if err := h.Decode(compressed[len(first):]); err != nil || !h.HasCheckSum {
		t.Errorf("second frame: %+v, %v", h, err)
	}
}

func TestWriterFramesHoldWholeLines(t *testing.T) {
	var lines []string
	for seq := range 6000 {
		lines = append(lines, fmt.Sprintf(`{"type":"t","seq":%d,"time":0,"data":%q}`, seq, strings.Repeat("y", seq%500)))
	}
	data := write(t, WriterOptions{Zstd: true}, nil, lines)
	dec, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	// The decoder tells no frame ends, so each is found by its magic number.
	magic := []byte{0x28, 0xb5, 0x2f, 0xfd}
	count := 0
	for rest := data; len(rest) > 0; count++ {
		n := len(rest)
		for at := 4; ; {
			i := bytes.Index(rest[at:], magic)
			if i < 0 {
				break
			}
			at += i
			if _, err := dec.DecodeAll(rest[:at], nil); err == nil {
				n = at
				break
			}
			at++
		}
		text, err := dec.DecodeAll(rest[:n], nil)
		if err != nil || len(text) == 0 || text[len(text)-1] != '\n' || len(text) > frameSize+600 {
			t.Fatalf("frame %d: %d bytes, %v", count, len(text), err)
		}
		rest = rest[n:]
	}
	if count < 4 {
		t.Errorf("%d frames", count)
	}
}

// What does not expand to identical bytes, or does not belong together, is not
// packed together.
func TestPackingKeepsApart(t *testing.T) {
	base := []string{textDelta(0, 10, `"a"`), textDelta(1, 11, `"b"`), textDelta(2, 12, `"c"`), textDelta(3, 13, `"d"`)}
	tool := func(seq int, id, name string) string {
		return fmt.Sprintf(member, seq, 0, `"tool-call-delta","index":1,"id":"`+id+`"`+name+`,"argumentsDelta":"x"`)
	}
	edit := func(i int, old, new string) []string {
		lines := append([]string(nil), base...)
		if lines[i] = strings.Replace(lines[i], old, new, 1); lines[i] == base[i] {
			t.Fatalf("%q is not in the line", old)
		}
		return lines
	}
	const far = `"time":-9007199254740991`
	tests := map[string]struct {
		lines []string
		rows  int // lines of the packed file
	}{
		"a run":                {base, 1},
		"two":                  {base[:2], 2},
		"three":                {base[:3], 1},
		"another kind":         {edit(3, "text-delta", "reasoning-delta"), 2},
		"another turn":         {edit(3, `"turn":1`, `"turn":2`), 2},
		"another step":         {edit(3, `"step":2`, `"step":3`), 2},
		"another index":        {edit(3, `"index":0`, `"index":1`), 2},
		"order of keys":        {edit(3, `"turn":1,"step":2`, `"step":2,"turn":1`), 2},
		"order in envelope":    {edit(3, `"seq":3,"time":13`, `"time":13,"seq":3`), 2},
		"white space":          {edit(3, `,"time"`, `, "time"`), 2},
		"ignorable":            {edit(3, `}}}`, `}},"ignorable":true}`), 2},
		"extra in data":        {edit(3, `"step":2`, `"step":2,"x":1`), 2},
		"extra in chunk":       {edit(3, `"text"`, `"x":1,"text"`), 2},
		"float time":           {edit(3, `"time":13`, `"time":13.0`), 2},
		"escaped name":         {edit(3, `"text":`, `"te\u0078t":`), 2},
		"broken in the middle": {edit(1, `"index":0`, `"index":1`), 4},
		"gap too far":          {edit(3, `"time":13`, far), 2},
		"gap just fits":        {[]string{textDelta(0, 0, `"a"`), strings.Replace(textDelta(1, 11, `"b"`), `"time":11`, far, 1), textDelta(2, 0, `"c"`)}, 1},
		"same call":            {[]string{tool(0, "a", ""), tool(1, "a", ""), tool(2, "a", "")}, 1},
		"another call":         {[]string{tool(0, "a", ""), tool(1, "a", ""), tool(2, "b", "")}, 3},
		"escaped call id":      {[]string{tool(0, "a", ""), tool(1, "a", ""), tool(2, `\u0061`, "")}, 3},
		"name on the first":    {[]string{tool(0, "a", `,"name":"n"`), tool(1, "a", ""), tool(2, "a", ""), tool(3, "a", "")}, 2},
		"another name":         {[]string{tool(0, "a", `,"name":"n"`), tool(1, "a", `,"name":"n"`), tool(2, "a", `,"name":"m"`)}, 3},
		"empty name, no name":  {[]string{tool(0, "a", `,"name":""`), tool(1, "a", `,"name":""`), tool(2, "a", "")}, 3},
		"block start":          {[]string{base[0], fmt.Sprintf(member, 1, 0, `"block-start","index":0,"blockType":"text"`), base[2]}, 3},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			data := write(t, WriterOptions{Pack: true}, nil, tt.lines)
			if got := bytes.Count(data, []byte{'\n'}); got != tt.rows {
				t.Errorf("%d lines, want %d:\n%s", got, tt.rows, data)
			}
			if _, lines := mustRead(t, data); !cmp.Equal(tt.lines, lines) {
				t.Errorf("-written +read:\n%s", cmp.Diff(tt.lines, lines))
			}
		})
	}
}

func TestPackingSplitsHugeRows(t *testing.T) {
	big := `"` + strings.Repeat("z", 5<<20) + `"`
	var lines []string
	for seq := range 9 {
		lines = append(lines, textDelta(seq, 0, big))
	}
	data := write(t, WriterOptions{Pack: true}, nil, lines)
	if got := bytes.Count(data, []byte{'\n'}); got != 3 {
		t.Errorf("%d rows, want 3", got)
	}
	if _, got := mustRead(t, data); !cmp.Equal(lines, got) {
		t.Error("lines changed")
	}
}

// Random streams of everything that can be next to each other.
func TestPackRoundTripRandom(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		lines := randomLines(rng.IntN)
		for _, opt := range []WriterOptions{{Pack: true}, {Pack: true, Zstd: true}} {
			if _, got := mustRead(t, write(t, opt, nil, lines)); !cmp.Equal(lines, got) {
				t.Fatalf("seed %d, %+v: -written +read:\n%s", seed, opt, cmp.Diff(lines, got))
			}
		}
	}
}

// randomLines makes events by a source of choices; pick(n) is below n.
func randomLines(pick func(n int) int) []string {
	literals := []string{`"a"`, `""`, `"\ud800"`, `"\n\"x\""`, `"日本🎉"`, `"\u0000"`, `" the"`}
	var lines []string
	d := delta{run: run{turn: 1, step: 1}, time: 1000}
	for range pick(60) {
		switch pick(14) {
		case 0:
			d.kind = kind(pick(3))
		case 1:
			d.index = int64(pick(3))
		case 2:
			d.step++
		case 3:
			d.time -= int64(pick(1 << 20))
		case 4:
			d.id = []byte(literals[pick(len(literals))])
			d.name = nil
		case 5:
			d.name = []byte(literals[pick(len(literals))])
		case 6:
			lines = append(lines, event(int(d.seq)))
			d.seq++
			continue
		case 7:
			d.time = []int64{maxSafe, -maxSafe, 0}[pick(3)]
		}
		if d.kind == kindToolCall && d.id == nil {
			d.id = []byte(`"call"`)
		}
		d.text = []byte(literals[pick(len(literals))])
		if gap := int64(pick(30)); d.time <= maxSafe-gap {
			d.time += gap
		}
		line := string(d.appendLine(nil))
		if pick(20) == 0 {
			line = strings.Replace(line, `"turn":`, `"turn": `, 1)
		}
		lines = append(lines, line)
		d.seq++
	}
	return lines
}

func TestWriterRefuses(t *testing.T) {
	tests := map[string]struct {
		line   string
		kind   error
		reason string
	}{
		"not JSON":       {`oops`, segment.ErrCorrupt, "not JSON"},
		"two lines":      {"{\"type\":\"t\",\n\"data\":1}", segment.ErrInvalidEvent, "more than one line"},
		"line end":       {event(1) + "\n", segment.ErrInvalidEvent, "more than one line"},
		"white space":    {event(1) + " ", segment.ErrInvalidEvent, "white space around it"},
		"header":         {testHeader, segment.ErrInvalidEvent, "header"},
		"tag":            {`{"type":"text-chunks","seq":1,"time":0,"data":{}}`, segment.ErrInvalidEvent, "text-chunks is the tag"},
		"two types":      {`{"type":"a","type":"b","data":1}`, segment.ErrInvalidEvent, "twice"},
		"seq":            {event(5), segment.ErrSeqMismatch, "seq 5 follows seq 0 of line 1; 1 is due"},
		"seq of a delta": {textDelta(5, 0, `""`), segment.ErrSeqMismatch, "seq 5 follows seq 0"},
		"too long":       {strings.Repeat(" ", DefaultMaxLine+1), segment.ErrTooLarge, "67108865 bytes"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			w, err := NewWriter(&b, WriterOptions{Pack: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.WriteEvent([]byte(event(0))); err != nil {
				t.Fatal(err)
			}
			wantLineError(t, w.WriteEvent([]byte(tt.line)), tt.kind, 2, tt.reason)
			// Nothing of it is written, and the writer goes on.
			if err := w.WriteEvent([]byte(event(1))); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(file(event(0), event(1))), b.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestWriteHeader(t *testing.T) {
	good := map[string]string{
		testHeader:                               testHeader,
		" {\"type\":\"session\",\n\"id\":1}\r\n": `{"type":"session","id":1}`,
		`{"type":"session","parent":{"data":1}}`: `{"type":"session","parent":{"data":1}}`,
	}
	for raw, want := range good {
		data := write(t, WriterOptions{}, []byte(raw), nil)
		if diff := cmp.Diff(want+"\n", string(data)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	bad := map[string]error{
		`{"type":"session","data":1}`:            segment.ErrInvalidEvent,
		`{"type":"sessions"}`:                    segment.ErrInvalidEvent,
		`{"id":"x"}`:                             segment.ErrInvalidEvent,
		`[1]`:                                    segment.ErrInvalidEvent,
		`{"type":"session","type":"session"}`:    segment.ErrInvalidEvent,
		`{"type":"session"`:                      segment.ErrCorrupt,
		``:                                       segment.ErrCorrupt,
		"{\"type\":\"session\",\"id\":\"\xff\"}": segment.ErrCorrupt,
	}
	for raw, want := range bad {
		w, err := NewWriter(io.Discard, WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteHeader([]byte(raw)); !errors.Is(err, want) {
			t.Errorf("WriteHeader(%s) = %v, want %v", raw, err, want)
		}
		if err := CheckHeader([]byte(raw)); !errors.Is(err, want) {
			t.Errorf("CheckHeader(%s) = %v, want %v", raw, err, want)
		}
	}
	w, err := NewWriter(io.Discard, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteEvent([]byte(event(0))); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteHeader([]byte(testHeader)); err == nil {
		t.Error("a header was written behind an event")
	}
}

func TestDefaultHeader(t *testing.T) {
	tests := map[string]struct {
		id        string
		createdAt int64
		want      string // "" if refused
	}{
		"plain":        {"s1", 1000, testHeader},
		"escaped":      {"a\"<b>\u2028\n", 0, `{"type":"session","version":0,"id":"a\"<b>` + "\u2028" + `\n","createdAt":0,"delegationDepth":0}`},
		"empty id":     {"", 1, ""},
		"not UTF-8":    {"a\xff", 1, ""},
		"before 1970":  {"a", -1, ""},
		"beyond exact": {"a", 1 << 53, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := DefaultHeader(tt.id, tt.createdAt)
			if tt.want == "" {
				if !errors.Is(err, segment.ErrInvalidEvent) {
					t.Errorf("got %s, %v", got, err)
				}
				return
			}
			if err != nil || string(got) != tt.want {
				t.Errorf("got %s, %v; want %s", got, err, tt.want)
			}
			r, _ := mustRead(t, write(t, WriterOptions{Zstd: true}, got, nil))
			if r.HeaderID() != tt.id {
				t.Errorf("id came back as %q", r.HeaderID())
			}
		})
	}
}

type failingWriter struct {
	left int
	err  error
}

func (f *failingWriter) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, f.err
	}
	return len(p), nil
}

// The first failed write sticks: nothing is written behind a hole.
func TestWriterFailureSticks(t *testing.T) {
	boom := errors.New("boom")
	for _, opt := range []WriterOptions{{}, {Pack: true}, {Zstd: true}} {
		f := &failingWriter{left: 100_000, err: boom}
		w, err := NewWriter(f, opt)
		if err != nil {
			t.Fatal(err)
		}
		noise := rand.New(rand.NewPCG(1, 2))
		for seq := 0; err == nil && seq < 20_000; seq++ {
			err = w.WriteEvent(fmt.Appendf(nil, `{"type":"t","seq":%d,"time":0,"data":"%x%x"}`, seq, noise.Uint64(), noise.Uint64()))
		}
		if !errors.Is(err, boom) {
			t.Fatalf("%+v: %v", opt, err)
		}
		f.left = 1 << 30
		for name, err := range map[string]error{
			"WriteEvent":  w.WriteEvent([]byte(event(0))),
			"WriteHeader": w.WriteHeader([]byte(testHeader)),
			"Close":       w.Close(),
		} {
			if !errors.Is(err, boom) {
				t.Errorf("%+v: %s after a failure: %v", opt, name, err)
			}
		}
		if f.left != 1<<30 {
			t.Errorf("%+v: wrote on after a failure", opt)
		}
	}
}

func TestWriterClose(t *testing.T) {
	w, err := NewWriter(io.Discard, WriterOptions{Zstd: true, Pack: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := w.WriteEvent([]byte(event(0))); err == nil {
		t.Error("wrote after Close")
	}
	f := &failingWriter{err: errors.New("boom")}
	w, err = NewWriter(f, WriterOptions{Pack: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteEvent([]byte(textDelta(0, 0, `"held back"`))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); !errors.Is(err, f.err) {
		t.Errorf("Close = %v", err)
	}
}

// The caller may reuse a line at once.
func TestWriterKeepsNoLine(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(&b, WriterOptions{Pack: true})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	var line []byte
	for seq := range 8 {
		d := delta{run: run{kind: kindToolCall, id: []byte(`"c"`), name: []byte(`"n"`)}, seq: int64(seq), text: []byte(`"t"`)}
		if seq > 5 {
			d.id = []byte(`"d"`)
		}
		want = append(want, string(d.appendLine(nil)))
		line = append(line[:0], want[seq]...)
		if err := w.WriteEvent(line); err != nil {
			t.Fatal(err)
		}
		clear(line)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, got := mustRead(t, b.Bytes()); !cmp.Equal(want, got) {
		t.Errorf("-want +got:\n%s", cmp.Diff(want, got))
	}
}
