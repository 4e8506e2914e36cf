package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// What the other tests, which go by what is on a store, do not lead to.

func TestUnknownLevel(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a level that there is not was taken")
		}
	}()
	_, _ = NewCodec().EncodeFrame(nil, []byte("x\n"), LevelBest+1)
}

// TestFrameHeaderCut: a frame with a window, cut off before it says which.
func TestFrameHeaderCut(t *testing.T) {
	b := binary.LittleEndian.AppendUint32(nil, zstdMagic)
	if _, err := scanFrame(append(b, 1<<2)); !errors.Is(err, errCutOff) {
		t.Error(err)
	}
}

// TestWriterLimits: what cannot be a segment is refused, and everything after
// it with the same error.
func TestWriterLimits(t *testing.T) {
	foot := Footer{Nonce: testNonce}
	short := [][]byte{[]byte("a"), []byte("b")}
	for _, tc := range []struct {
		name string
		make func(w *Writer) error
		want error
		says string
	}{
		{"too many frames, when one is full", func(w *Writer) error {
			w.frames = make([]Frame, MaxFrames)
			return errors.Join(w.Add(short[0]), w.Add(bytes.Repeat([]byte("x"), FrameRaw)))
		}, ErrTooLarge, "more than 8192 frames"},
		{"too many frames, at the end", func(w *Writer) error {
			w.frames = make([]Frame, MaxFrames)
			_, _, err := w.Finish(foot)
			return errors.Join(err, w.Add(short[0]))
		}, ErrTooLarge, "more than 8192 frames"},
		{"a frame too large", func(w *Writer) error {
			w.raw, w.lines = make([]byte, MaxFrameRaw+1), 1
			_, _, err := w.Finish(foot)
			return err
		}, ErrTooLarge, "at most 67108864 are allowed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := NewWriter(NewCodec(), LevelFast, FrameRaw, 0)
			if strings.HasSuffix(tc.name, "at the end") {
				if err := w.Add(short[0]); err != nil {
					t.Fatal(err)
				}
			}
			err := tc.make(w)
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
				t.Fatal(err)
			}
			if again := w.Add(short[1]); again == nil || !strings.Contains(err.Error(), again.Error()) {
				t.Errorf("and then %v", again)
			}
		})
	}
}

// TestWriterTells where it is; room that was made for it is used.
func TestWriterTells(t *testing.T) {
	w := NewWriter(NewCodec(), LevelFast, FrameRaw, 7)
	w.Grow(1 << 20)
	if cap(w.out) < 1<<20 || w.Len() != 0 || w.First() != 7 || w.Next() != 7 {
		t.Errorf("room for %d bytes, %d used, seqs %d to %d", cap(w.out), w.Len(), w.First(), w.Next())
	}
}

// failingAt reads until it is asked for what lies before a place.
type failingAt struct {
	io.ReaderAt
	before int64
}

var errBroken = errors.New("broken wire")

func (f failingAt) ReadAt(p []byte, off int64) (int, error) {
	if off < f.before {
		return 0, errBroken
	}
	return f.ReaderAt.ReadAt(p, off)
}

// TestOpenFailsHalfWay: an index that is larger than what the first read brings,
// and a second read that fails, are not damage.
func TestOpenFailsHalfWay(t *testing.T) {
	object, index := makeSegment(t, sessionLines(4000, 1), 0, 1, LevelFast)
	if n := len(index.appendJSON(nil)); n < openLength {
		t.Fatalf("an index of %d bytes", n)
	}
	size := int64(len(object))
	if _, err := Open(NewCodec(), failingAt{bytes.NewReader(object), size - openLength}, size); !errors.Is(err, errBroken) || errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}

// TestIndexMembersBroken: JSON that ends, or goes wrong, in a name or a value.
func TestIndexMembersBroken(t *testing.T) {
	for _, raw := range []string{`{1:2}`, `{"a":}`, `{"a":[}`, `{"a"`, `{`, `[]`, "{\"a\xff\":1}", `{"a":1,"a":2}`, `{"a":1,}`, `{"a":1} x`} {
		if m, err := indexMembers([]byte(raw)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, %v", raw, m, err)
		}
	}
}

// TestStateMembersBroken is the same of an object with fixed members.
func TestStateMembersBroken(t *testing.T) {
	for _, raw := range []string{`{"\ud800":1}`, `{1:2}`, `{"a":1,"b":2}`, `{}`, `{"a":1`, `{"a":}`, `{"a":1,}`, `{"a":1} 2`} {
		p := newParser([]byte(raw))
		p.object(map[string]func(){"a": func() { p.int() }})
		if err := p.finish("test"); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// TestReservedTypes: types that a log is born with have no events yet.
func TestReservedTypes(t *testing.T) {
	s := NewState()
	if err := s.Types.Reserve([]string{"b", "c"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(0); err != nil {
		t.Error(err)
	}
}

// TestManyTypes: names of types are kept for the next event that has them, but
// not without end; no more is a large string's room.
func TestManyTypes(t *testing.T) {
	r := readJSON(nil)
	for i := range 1000 {
		want := fmt.Sprint("type/", i)
		if got := r.intern([]byte(want)); got != want || len(r.types) > 256 {
			t.Fatalf("%q of %q, %d kept", got, want, len(r.types))
		}
	}
	long := `"\n` + strings.Repeat("x", 100<<10) + `"`
	if text, ok := r.unquote([]byte(long)); !ok || len(text) != 100<<10+1 {
		t.Errorf("%d bytes, %v", len(text), ok)
	}
	if r.release(); r.scratch != nil {
		t.Errorf("room for %d bytes is kept", cap(r.scratch))
	}
}

// TestViewAfterBrokenJSON: nothing has any shape any more.
func TestViewAfterBrokenJSON(t *testing.T) {
	v := viewOf([]byte(`{`))
	defer v.close()
	v.skip()
	if _, ok := v.count(); ok || !v.failed() {
		t.Error("broken JSON has a number")
	}
	if _, ok := v.str(); ok || v.object(func([]byte) {}) || v.array(func() {}) {
		t.Error("broken JSON has a shape")
	}
}

// TestNotJSON: errors of the decoder that say nothing of a place.
func TestNotJSON(t *testing.T) {
	if err := notJSON([]byte("{"), errors.New("a\x1b[31m")); !errors.Is(err, ErrInvalidEvent) || strings.ContainsRune(err.Error(), '\x1b') {
		t.Error(err)
	}
	for _, line := range []string{`{"type":"x","data":1,}`, `{"type":"x","data":1`, `{"type":"x" "data":1}`, `{`} {
		if _, err := ParseEvent([]byte(line), Limits{}); !errors.Is(err, ErrInvalidEvent) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestDecodeRoom: just the room that the content needs is enough, and content of
// another length than the header says is damage.
func TestDecodeRoom(t *testing.T) {
	c := NewCodec()
	raw := []byte(strings.Repeat("abcdefgh", 100) + "\n")
	frame, err := c.EncodeFrame(nil, raw, LevelFast)
	if err != nil {
		t.Fatal(err)
	}
	dst := append(make([]byte, 0, 3+len(raw)), "abc"...)
	if got, err := c.decode(dst, frame, frameInfo{content: len(raw)}); err != nil || !bytes.Equal(got, append([]byte("abc"), raw...)) {
		t.Errorf("%v: %q", err, got)
	}
	if got, err := c.decode(grow(nil, len(raw)), frame, frameInfo{content: len(raw) + 1}); err == nil || len(got) != 0 {
		t.Errorf("%v: %q", err, got)
	}
}

// TestVerifyIndex: a segment whose index is not the one that was meant is not
// handed out.
func TestVerifyIndex(t *testing.T) {
	object, x := makeSegment(t, sessionLines(3, 1), 0, FrameRaw, LevelFast)
	w := NewWriter(NewCodec(), LevelFast, FrameRaw, 0)
	w.out = object
	x.Nonce = strings.Repeat("f", nonceDigits)
	if _, err := w.verify(x.appendJSON(nil)); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "index") {
		t.Error(err)
	}
}
