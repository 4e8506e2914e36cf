package segment

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func encode(t testing.TB, raw string) []byte {
	t.Helper()
	b, err := NewCodec().EncodeFrame(nil, []byte(raw), LevelFast)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// wantCorrupt fails unless err is ErrCorrupt and says all of the words.
func wantCorrupt(t testing.TB, err error, words ...string) {
	t.Helper()
	if !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrUnsupportedVersion) {
		t.Fatalf("got error %v, want one that is ErrCorrupt", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

func TestFrameShape(t *testing.T) {
	c := NewCodec()
	for _, level := range []Level{LevelFast, LevelBetter, LevelBest} {
		for _, n := range []int{2, 255, 256, 1 << 10, 1<<10 + 1, 65_536, 65_536 + 256, 200_000, 1 << 20, 8 << 20, 8<<20 + 1} {
			raw := bytes.Repeat([]byte("x"), n)
			raw[n-1] = '\n'
			frame, err := c.EncodeFrame([]byte("prefix"), raw, level)
			if err != nil {
				t.Fatal(err)
			}
			frame = bytes.TrimPrefix(frame, []byte("prefix"))
			var h zstd.Header
			if err := h.Decode(frame); err != nil {
				t.Fatal(err)
			}
			if !h.HasCheckSum || !h.HasFCS || h.FrameContentSize != uint64(n) || h.SingleSegment != (n <= 8<<20) || h.WindowSize > 8<<20 {
				t.Errorf("level %d, %d raw bytes: header %+v", level, n, h)
			}
			got, err := c.DecodeFrame([]byte("prefix"), frame, n)
			if err != nil || !bytes.Equal(got, append([]byte("prefix"), raw...)) {
				t.Errorf("level %d, %d raw bytes: read back as %d bytes, %v", level, n, len(got), err)
			}
			if _, err := c.DecodeFrame(nil, frame, n-1); !errors.Is(err, ErrCorrupt) {
				t.Errorf("level %d, %d raw bytes: bound not kept: %v", level, n, err)
			}
		}
	}
}

func TestEncodeFrameRefuses(t *testing.T) {
	c := NewCodec()
	tests := []struct {
		name string
		raw  []byte
		want error
	}{
		{"nothing", nil, ErrInvalidEvent},
		{"half a line", []byte("{}\n{"), ErrInvalidEvent},
		{"too much", make([]byte, MaxFrameRaw+1), ErrTooLarge},
	}
	for _, tt := range tests {
		dst := []byte("dst")
		got, err := c.EncodeFrame(dst, tt.raw, LevelFast)
		if !errors.Is(err, tt.want) || string(got) != "dst" {
			t.Errorf("%s: got %q, %v; want dst unchanged and %v", tt.name, got, err, tt.want)
		}
	}
}

func TestEncodeFramesSplitsAtLines(t *testing.T) {
	c := NewCodec()
	tests := []struct {
		raw  string
		want []string
	}{
		{"", nil},
		{"a\nb\n", []string{"a\nb\n"}},
		{"aaa\nbbb\nccc\n", []string{"aaa\nbbb\n", "ccc\n"}},
		{"aaa\nb\nc\nddd\n", []string{"aaa\nb\nc\n", "ddd\n"}},
		{"a\nbbbbbbbbbbbb\nc\n", []string{"a\n", "bbbbbbbbbbbb\n", "c\n"}},
		{"bbbbbbbb\n", []string{"bbbbbbbb\n"}},
	}
	for _, tt := range tests {
		got, err := c.EncodeFrames(nil, []byte(tt.raw), LevelFast, 8)
		if err != nil {
			t.Fatal(err)
		}
		var want []byte
		for _, raw := range tt.want {
			want = append(want, encode(t, raw)...)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%q: not split as %q", tt.raw, tt.want)
		}
		raw, err := c.DecodeFrames(got, len(tt.raw))
		if err != nil || string(raw) != tt.raw {
			t.Errorf("%q: read back as %q, %v", tt.raw, raw, err)
		}
	}
	if got, err := c.EncodeFrames([]byte("dst"), []byte("a\nbbbbbbbbbbbbbb"), LevelFast, 8); !errors.Is(err, ErrInvalidEvent) || string(got) != "dst" {
		t.Errorf("half a line: %q, %v", got, err)
	}
}

func TestDecodeFramesBoundsTheTotal(t *testing.T) {
	c := NewCodec()
	frames := append(encode(t, "aaaa\n"), encode(t, "bbbb\n")...)
	if raw, err := c.DecodeFrames(frames, 10); err != nil || string(raw) != "aaaa\nbbbb\n" {
		t.Errorf("got %q, %v", raw, err)
	}
	_, err := c.DecodeFrames(frames, 9)
	wantCorrupt(t, err, "frame 1", "5 raw bytes", "at most 4")
}

// A frame may be valid for zstd and yet none of ours.
func TestFramesHoldWholeLines(t *testing.T) {
	c := NewCodec()
	half := c.encoder(LevelFast, 1).EncodeAll([]byte(`{"seq":0`), nil)
	rest := c.encoder(LevelFast, 1).EncodeAll([]byte(`,"type":"a"}`+"\n"), nil)
	raw, err := c.DecodeFrames(append(bytes.Clone(half), rest...), 1<<10)
	wantCorrupt(t, err, "frame 0 at byte 0", "line feed")
	if raw != nil {
		t.Errorf("%q was handed out", raw)
	}
	if raw, err := c.DecodeFrame(nil, half, 1<<10); err != nil || string(raw) != `{"seq":0` {
		t.Errorf("one frame alone is not judged by its lines: %q, %v", raw, err)
	}

	for says, lines := range map[string]string{"line feed": "aa", "an empty line at byte 2": "a\n\n"} {
		frame := c.encoder(LevelFast, 1).EncodeAll([]byte(lines), nil)
		x := &Index{
			Version: 1, Count: 1, Nonce: testNonce, State: stateAfter([][]byte{[]byte("a")}),
			Frames: []Frame{{0, int64(len(frame)), 0, 1, int64(len(lines))}},
		}
		raw, _, err := readAll(appendSkippable(frame, x.appendJSON(nil)))
		wantCorrupt(t, err, "frame 0 at byte 0, seq 0 to 0", says)
		if raw != nil {
			t.Errorf("%q was handed out", raw)
		}
	}
}

// An HTTP body that ends where a frame does looks complete to a stream reader.
func TestB01TruncationAtFrameBoundary(t *testing.T) {
	lines := sessionLines(60, 1)
	object, x := makeSegment(t, lines, 0, 2<<10, LevelFast)
	if len(x.Frames) < 4 {
		t.Fatalf("only %d frames", len(x.Frames))
	}
	for i, f := range x.Frames {
		cut := object[:f.Offset]
		if raw, _, err := readAll(cut); err == nil || raw != nil {
			t.Errorf("cut before frame %d: %d bytes, error %v", i, len(raw), err)
		} else {
			wantCorrupt(t, err)
		}
		// The size is known from elsewhere, and the source ends before it.
		_, err := Open(NewCodec(), bytes.NewReader(cut), int64(len(object)))
		wantCorrupt(t, err, "ends at byte")
	}
}

func TestB02TornLastFrame(t *testing.T) {
	c := NewCodec()
	f1, f2 := encode(t, `{"seq":0,"type":"a"}`+"\n"), encode(t, `{"seq":1,"type":"b"}`+"\n")
	frames := append(bytes.Clone(f1), f2...)
	if raw, err := c.DecodeFrames(frames, 1<<10); err != nil || bytes.Count(raw, []byte("\n")) != 2 {
		t.Fatalf("whole: %q, %v", raw, err)
	}
	for k := 1; k < len(f2); k++ {
		raw, err := c.DecodeFrames(frames[:len(f1)+k], 1<<10)
		wantCorrupt(t, err, "frame 1", "at byte")
		if raw != nil {
			t.Errorf("%d bytes of the second frame: %q was handed out", k, raw)
		}
		if dst, err := c.DecodeFrame([]byte("dst"), f2[:k], 1<<10); err == nil || string(dst) != "dst" {
			t.Errorf("%d bytes of a frame: %q, %v", k, dst, err)
		}
	}
}

func TestB03BytesAfterTheLastFrame(t *testing.T) {
	c := NewCodec()
	frame := encode(t, `{"seq":0,"type":"a"}`+"\n")
	lines := sessionLines(4, 1)
	object, _ := makeSegment(t, lines, 0, 2<<10, LevelFast)
	skippable := append(binary.LittleEndian.AppendUint32(nil, 0x184D2A50), 0, 0, 0, 0)
	for name, extra := range map[string][]byte{
		"1 zero": {0}, "3 zeros": {0, 0, 0}, "4 zeros": {0, 0, 0, 0}, "text": []byte("garbage"),
		"half a magic": {0x28, 0xb5}, "LF": {'\n'}, "empty skippable frame": skippable,
	} {
		raw, err := c.DecodeFrames(append(bytes.Clone(frame), extra...), 1<<10)
		wantCorrupt(t, err, "frame 1")
		if raw != nil {
			t.Errorf("%s: %q was handed out", name, raw)
		}
		_, err = c.DecodeFrame(nil, append(bytes.Clone(frame), extra...), 1<<10)
		wantCorrupt(t, err, "bytes follow it")
		_, _, err = readAll(append(bytes.Clone(object), extra...))
		wantCorrupt(t, err)
		// Between the frames and the index.
		_, _, err = readAll(splice(object, 0, 0, extra))
		wantCorrupt(t, err)
	}
	_, err := c.DecodeFrames(append(bytes.Clone(skippable), frame...), 1<<10)
	wantCorrupt(t, err, "skippable frame")
}

// splice replaces n bytes of b at offset at.
func splice(b []byte, at, n int, with []byte) []byte {
	return append(append(bytes.Clone(b[:at]), with...), b[at+n:]...)
}

func TestB04AllFramesAreRead(t *testing.T) {
	c := NewCodec()
	for _, n := range []int{20, 70 << 10} {
		first, second := strings.Repeat("x", n)+"\n", "y\n"
		frames := append(encode(t, first), encode(t, second)...)
		raw, err := c.DecodeFrames(frames, 1<<20)
		if err != nil || string(raw) != first+second {
			t.Errorf("first frame of %d bytes: got %d bytes, %v", n, len(raw), err)
		}
		object, x := makeSegment(t, [][]byte{[]byte(first[:n]), []byte("y")}, 0, 1, LevelFast)
		if raw, _, err = readAll(object); err != nil || string(raw) != first+second || len(x.Frames) != 2 {
			t.Errorf("first frame of %d bytes: segment of %d frames, got %d bytes, %v", n, len(x.Frames), len(raw), err)
		}
	}
}

func TestB05TinyFrameHugeWindow(t *testing.T) {
	c := NewCodec()
	if _, err := c.DecodeFrame(nil, encode(t, "a\n"), 2); err != nil { // the decoder exists from here on
		t.Fatal(err)
	}
	rle := "020010" // a block that is not the last: 128 KiB of the byte that follows
	tests := []struct {
		name, frame string
		says        string
	}{
		{"window of 512 MiB, no content size", "28b52ffd 00 98 010000", "checksum"},
		{"window of 512 MiB", "28b52ffd 44 98 0001 010000 00000000", "window"},
		{"window of 3.75 TiB", "28b52ffd 44 ff 0001 010000 00000000", "window"},
		{"window just above", "28b52ffd 44 69 0001 010000 00000000", "window"},
		{"content of 60 MiB in no block", "28b52ffd 84 68 0000c003 010000 00000000", "its blocks hold at most 0"},
		{"content of 60 MiB in one block", "28b52ffd 84 68 0000c003 030010 00 00000000", "its blocks hold at most 131072"},
		{"content of 65 MiB", "28b52ffd 84 68 00001004 010000 00000000", "at most 67108864"},
		{"content of 2^63", "28b52ffd c4 68 0000000000000080 010000 00000000", "at most 67108864"},
		{"content of 2^64-1", "28b52ffd c4 68 ffffffffffffffff 010000 00000000", "at most 67108864"},
		{"single segment of 9 MiB", "28b52ffd a4 00009000 010000 00000000", "single segment"},
		{"more than asked for", "28b52ffd a4 00002000" + strings.Repeat(rle+"0a", 15) + "030010 0a 00000000", "at most 1048576"},
		{"no content size", "28b52ffd 04 68 010000 00000000", "content size"},
		{"no checksum", "28b52ffd 60 0001 010000 00000000", "checksum"},
		{"dictionary", "28b52ffd 65 01 0001 010000 00000000", "dictionary"},
		{"reserved bit", "28b52ffd 6c 0001 010000 00000000", "reserved"},
		{"unused bit", "28b52ffd 74 0001 010000 00000000", "reserved"},
		{"no content", "28b52ffd 24 00 010000 99e9d851", "empty"},
		{"block beyond 128 KiB", "28b52ffd 64 0001 0b0010 00 00000000", "block of 131073"},
		{"block of a reserved type", "28b52ffd 64 0001 070000 00000000", "reserved type"},
	}
	for _, tt := range tests {
		frame := unhex(t, tt.frame)
		var err, errs error
		used := allocated(func() {
			_, err = c.DecodeFrame(nil, frame, 1<<20)
			_, errs = c.DecodeFrames(frame, 1<<20)
		})
		if used > 64<<10 {
			t.Errorf("%s: %d bytes were allocated", tt.name, used)
		}
		for _, err := range []error{err, errs} {
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: error %v does not say %q", tt.name, err, tt.says)
			}
		}
	}
}

// Even a frame that is read as far as it may is refused by the decoder itself,
// should the headers ever be read wrongly.
func TestB05DecoderIsCapped(t *testing.T) {
	c := NewCodec()
	frame := unhex(t, "28b52ffd 00 98 010000")
	if _, err := c.decode(nil, frame, frameInfo{length: len(frame), content: 1}); !errors.Is(err, zstd.ErrWindowSizeExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestB06RightLengthWrongBytes(t *testing.T) {
	c := NewCodec()
	raw := `{"seq":0,"type":"a"}` + "\n"
	// Without a checksum nothing would show that a byte has changed.
	bare := unhex(t, "28b52ffd0000a900007b22736571223a302c2274797065223a2261227d0a")
	_, err := c.DecodeFrame(nil, bare, 1<<10)
	wantCorrupt(t, err)

	frame := encode(t, raw)
	at := bytes.Index(frame, []byte("seq"))
	if at < 0 {
		t.Fatal("the frame does not hold its content as it is")
	}
	frame[at] ^= 1
	got, err := c.DecodeFrame(nil, frame, 1<<10)
	wantCorrupt(t, err)
	if got != nil {
		t.Errorf("%q was handed out", got)
	}
	frame[at] ^= 1
	if got, err := c.DecodeFrame(nil, frame, 1<<10); err != nil || string(got) != raw {
		t.Errorf("the healthy frame after it: %q, %v", got, err)
	}
}

// A codec starts no goroutines, and is bound to no bubble that ended.
func TestCodecInBubble(t *testing.T) {
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			c := NewCodec()
			raw := joined(sessionLines(5000, 3))
			for _, level := range []Level{LevelFast, LevelBetter, LevelBest} {
				frame, err := c.EncodeFrame(nil, raw, level)
				if err != nil {
					t.Fatal(err)
				}
				got, err := c.DecodeFrame(nil, frame, len(raw))
				if err != nil || !bytes.Equal(got, raw) {
					t.Fatalf("level %d: %v", level, err)
				}
			}
		})
	}
}

// Of frames of which one is damaged, the others are had.
func TestIntactFrames(t *testing.T) {
	c := NewCodec()
	var frames []byte
	var ends []int
	for _, text := range []string{"a\nb\n", "c\n", "d\n"} {
		var err error
		if frames, err = c.EncodeFrame(frames, []byte(text), LevelFast); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, len(frames))
	}
	flipped := func(at int) []byte {
		b := bytes.Clone(frames)
		b[at] ^= 1
		return b
	}
	noLF := c.encoder(LevelFast, 1).EncodeAll([]byte("e"), nil)
	for name, tc := range map[string]struct {
		frames []byte
		maxRaw int
		want   []string
		all    bool
	}{
		"all":             {frames, 1 << 20, []string{"a\nb\nc\nd\n"}, true},
		"none":            {nil, 1 << 20, nil, true},
		"cut":             {frames[:ends[1]+3], 1 << 20, []string{"a\nb\nc\n"}, false},
		"first":           {flipped(7), 1 << 20, []string{"c\nd\n"}, false},
		"in the middle":   {flipped(ends[0] + 10), 1 << 20, []string{"a\nb\n", "d\n"}, false},
		"last":            {flipped(ends[1] + 10), 1 << 20, []string{"a\nb\nc\n"}, false},
		"too many":        {frames, 5, []string{"a\nb\n"}, false},
		"no whole line":   {append(bytes.Clone(frames), noLF...), 1 << 20, []string{"a\nb\nc\nd\n"}, false},
		"something else":  {append([]byte("garbage"), frames...), 1 << 20, []string{"a\nb\nc\nd\n"}, false},
		"nothing but it":  {[]byte("garbage"), 1 << 20, nil, false},
		"too many tries":  {append(bytes.Repeat(flipped(ends[0] - 1)[:ends[0]], 9), frames...), 8, nil, false},
		"some more tries": {append(bytes.Repeat(flipped(ends[0] - 1)[:ends[0]], 2), frames...), 8, []string{"a\nb\nc\nd\n"}, false},
	} {
		runs, all := c.IntactFrames(tc.frames, tc.maxRaw)
		var got []string
		for _, run := range runs {
			got = append(got, string(run))
		}
		if d := cmp.Diff(tc.want, got); d != "" || all != tc.all {
			t.Errorf("%s: %v %s", name, all, d)
		}
	}
}
