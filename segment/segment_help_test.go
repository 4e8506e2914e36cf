package segment

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
)

const testNonce = "0123456789abcdef"

// sessionLines makes n lines that look and compress like those of a real
// session: mostly small deltas of text, with messages and tool calls between.
func sessionLines(n int, seed uint64) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	words := strings.Fields("the a log manifest segment reader writer commit of to and is that bucket when never one only store event seq turn " +
		"must be written before after object key frame error returns nil func package test value range index checks what it says in order so no")
	text := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(words[rng.IntN(len(words))])
			b.WriteByte(' ')
		}
		return b.String()
	}
	lines := make([][]byte, 0, n)
	now, turn, step := int64(1785403668212), 1, 1
	for seq := range n {
		now += int64(rng.IntN(900))
		head := fmt.Sprintf(`"seq":%d,"time":%d,"data":{"turn":%d,"step":%d,`, seq, now, turn, step)
		var line string
		switch k := rng.IntN(40); {
		case seq == 0:
			line = fmt.Sprintf(`{"type":"turn/start","seq":0,"time":%d,"data":{"turn":1}}`, now)
		case k == 0:
			line = fmt.Sprintf(`{"type":"assistant/message",%s"message":{"id":"%016x","role":"assistant","content":[{"type":"text","text":"%s"}]}},"surfaceOp":"append"}`, head, rng.Uint64(), text(60))
			step++
		case k == 1:
			line = fmt.Sprintf(`{"type":"tool/call",%s"callId":"call_%016x","name":"bash","arguments":"{\"command\":\"%s\"}"}}`, head, rng.Uint64(), text(8))
		case k == 2:
			line = fmt.Sprintf(`{"type":"tool/result",%s"message":{"id":"%016x","role":"user","content":[{"type":"text","text":"%s"}]}},"surfaceOp":"append"}`, head, rng.Uint64(), text(80))
		case k == 3:
			line = fmt.Sprintf(`{"type":"user/message",%s"text":"%s"}}`, head, text(20))
			turn++
		default:
			line = fmt.Sprintf(`{"type":"assistant/chunk",%s"chunk":{"type":"text-delta","index":0,"text":"%s"}}}`, head, text(3+rng.IntN(8)))
		}
		lines = append(lines, []byte(line))
	}
	return lines
}

// stateAfter returns a valid state after the lines, which begin at seq 0, each
// of type a or b.
func stateAfter(lines [][]byte) State {
	s := NewState()
	for seq, line := range lines {
		s.Types.Add([]string{"a", "b"}[seq%2], int64(seq))
		node := sha256.Sum256(append([]byte{0}, line...))
		for range bits.TrailingZeros(uint(seq + 1)) {
			last := len(s.Tree.Range) - 1
			node = sha256.Sum256(append(append([]byte{1}, s.Tree.Range[last][:]...), node[:]...))
			s.Tree.Range = s.Tree.Range[:last]
		}
		s.Tree.Range = append(s.Tree.Range, node)
	}
	if n := int64(len(lines)); n > 0 {
		s.LastTime, s.MaxTime = new(n), new(n)
		s.Tree.Size, s.Tree.Root = n, TreeRoot(s.Tree.Range)
	}
	return s
}

// joined returns the lines from, each with its LF.
func joined(lines [][]byte) []byte {
	var b bytes.Buffer
	for _, line := range lines {
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// makeSegment makes a segment of the lines from seq first on.
func makeSegment(t testing.TB, lines [][]byte, first, frameRaw int, level Level) ([]byte, *Index) {
	t.Helper()
	w := NewWriter(NewCodec(), level, frameRaw, int64(first))
	for _, line := range lines[first:] {
		if err := w.Add(line); err != nil {
			t.Fatal(err)
		}
	}
	object, x, err := w.Finish(Footer{Nonce: testNonce, State: stateAfter(lines)})
	if err != nil {
		t.Fatal(err)
	}
	return object, x
}

// readAll opens a segment and returns the content of all its frames.
func readAll(object []byte) ([]byte, *Index, error) {
	r, err := OpenBytes(NewCodec(), object)
	if err != nil {
		return nil, nil, err
	}
	raw, err := r.Frames(0, len(r.Index().Frames))
	return raw, r.Index(), err
}

// source is an object that records how it is read, and can fail.
type source struct {
	object []byte
	reads  [][2]int64 // offset, length
	err    error
}

func (s *source) ReadAt(p []byte, off int64) (int, error) {
	s.reads = append(s.reads, [2]int64{off, int64(len(p))})
	if s.err != nil {
		return 0, s.err
	}
	return bytes.NewReader(s.object).ReadAt(p, off)
}

var _ io.ReaderAt = (*source)(nil)
