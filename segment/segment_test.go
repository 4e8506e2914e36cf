package segment

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files of this version anew")

func TestWriterClosesFramesAtWholeLines(t *testing.T) {
	lines := [][]byte{[]byte("aaa"), []byte("bbb"), []byte("cc"), []byte("dddddddddd"), []byte("e"), []byte("fffffff"), []byte("g")}
	want := []Frame{ // of 8 raw bytes
		{First: 7, Count: 2, RawLength: 8},   // full
		{First: 9, Count: 1, RawLength: 3},   // the next does not fit
		{First: 10, Count: 1, RawLength: 11}, // larger than a frame
		{First: 11, Count: 1, RawLength: 2},
		{First: 12, Count: 1, RawLength: 8}, // exactly a frame
		{First: 13, Count: 1, RawLength: 2}, // the rest
	}
	w := NewWriter(NewCodec(), LevelFast, 8, 7)
	for i, line := range lines {
		if got := w.Next(); got != int64(7+i) {
			t.Errorf("next seq %d, want %d", got, 7+i)
		}
		before := w.Len()
		if err := w.Add(line); err != nil {
			t.Fatal(err)
		}
		if i == 0 && w.Len() != 0 || w.Len() < before {
			t.Errorf("after line %d: %d bytes, before %d", i, w.Len(), before)
		}
	}
	all := append(slices.Repeat([][]byte{[]byte("x")}, 7), lines...)
	object, x, err := w.Finish(Footer{Nonce: testNonce, State: stateAfter(all)})
	if err != nil {
		t.Fatal(err)
	}
	offset := int64(0)
	for i := range want {
		want[i].Offset, want[i].Length = offset, x.Frames[min(i, len(x.Frames)-1)].Length
		offset += want[i].Length
	}
	if d := cmp.Diff(want, x.Frames); d != "" {
		t.Error(d)
	}
	if x.First != 7 || x.Count != 7 || x.Next() != 14 || x.RawLength() != 34 {
		t.Errorf("first %d, count %d, next %d, raw %d", x.First, x.Count, x.Next(), x.RawLength())
	}
	if raw, _, err := readAll(object); err != nil || !bytes.Equal(raw, joined(lines)) {
		t.Errorf("read back as %q, %v", raw, err)
	}
}

func TestWriterRefuses(t *testing.T) {
	add := func(line []byte) func(*Writer) error { return func(w *Writer) error { return w.Add(line) } }
	finish := func(f Footer) func(*Writer) error {
		return func(w *Writer) error {
			object, x, err := w.Finish(f)
			if err != nil && (object != nil || x != nil) {
				t.Errorf("a segment came with error %v", err)
			}
			return err
		}
	}
	state := stateAfter([][]byte{[]byte("a"), []byte("b")})
	good := Footer{Nonce: testNonce, State: state}
	tests := []struct {
		name  string
		first int64
		steps []func(*Writer) error // only the last fails
		want  error
	}{
		{"an empty line", 0, []func(*Writer) error{add(nil)}, ErrInvalidEvent},
		{"two lines", 0, []func(*Writer) error{add([]byte("a\nb"))}, ErrInvalidEvent},
		{"a line with its LF", 0, []func(*Writer) error{add([]byte("a\n"))}, ErrInvalidEvent},
		{"a line too large", 0, []func(*Writer) error{add(make([]byte, MaxFrameRaw))}, ErrTooLarge},
		{"no seq left", MaxSeq, []func(*Writer) error{add([]byte("a")), add([]byte("b"))}, ErrTooLarge},
		{"no events", 0, []func(*Writer) error{finish(good)}, ErrCorrupt},
		{"the state of another place", 0, []func(*Writer) error{add([]byte("a")), finish(good)}, ErrCorrupt},
		{"no nonce", 0, []func(*Writer) error{add([]byte("a")), add([]byte("b")), finish(Footer{State: state})}, ErrCorrupt},
		{"a header alone", 0, []func(*Writer) error{
			add([]byte("a")), add([]byte("b")), finish(Footer{Nonce: testNonce, State: state, Header: []byte("{}")}),
		}, ErrCorrupt},
		{"after the end", 0, []func(*Writer) error{add([]byte("a")), add([]byte("b")), finish(good), add([]byte("c"))}, errFinished},
	}
	for _, tt := range tests {
		w := NewWriter(NewCodec(), LevelFast, FrameRaw, tt.first)
		for i, step := range tt.steps {
			err := step(w)
			if i < len(tt.steps)-1 && err != nil {
				t.Fatalf("%s: step %d: %v", tt.name, i, err)
			}
			if i == len(tt.steps)-1 && !errors.Is(err, tt.want) {
				t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
			}
		}
		// It stays so.
		if err := w.Add([]byte("x")); !errors.Is(err, tt.want) {
			t.Errorf("%s: added after that: %v", tt.name, err)
		}
		if _, _, err := w.Finish(good); !errors.Is(err, tt.want) {
			t.Errorf("%s: finished after that: %v", tt.name, err)
		}
	}
}

func TestWriterBoundsFrames(t *testing.T) {
	w := NewWriter(NewCodec(), LevelFast, 1, 0)
	for range MaxFrames {
		if err := w.Add([]byte("a")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Add([]byte("a")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one frame too many: %v", err)
	}
}

// What is returned has been read back.
func TestFinishDetectsDamage(t *testing.T) {
	lines := sessionLines(50, 1)
	state := stateAfter(lines)
	other := sessionLines(50, 1)
	other[3][len(other[3])-1] ^= 1
	tests := []struct {
		name   string
		damage func(w *Writer)
		says   string
	}{
		{"a bit of a frame", func(w *Writer) { w.out[len(w.out)/2] ^= 1 }, "frame"},
		{"a frame is missing", func(w *Writer) { w.out = w.out[:w.frames[len(w.frames)-1].Offset] }, "the frames end at"},
		{"other events", func(w *Writer) { w.sum = sha256.New() }, "its events are others"},
		{"a frame counted wrongly", func(w *Writer) { w.frames[0].Count--; w.frames[1].First--; w.frames[1].Count++ }, "events, the index says"},
	}
	for _, tt := range tests {
		w := NewWriter(NewCodec(), LevelBetter, 2<<10, 0)
		for _, line := range lines {
			if err := w.Add(line); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.closeFrame(); err != nil {
			t.Fatal(err)
		}
		tt.damage(w)
		object, x, err := w.Finish(Footer{Nonce: testNonce, State: state})
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), tt.says) || object != nil || x != nil {
			t.Errorf("%s: %d bytes, error %v", tt.name, len(object), err)
		}
	}
}

func TestSegmentRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		line := rapid.Custom(func(rt *rapid.T) []byte {
			b := rapid.SliceOfN(rapid.Byte(), 1, 60).Draw(rt, "line")
			for i := range b {
				if b[i] == '\n' {
					b[i] = '\r'
				}
			}
			return bytes.Repeat(b, rapid.SampledFrom([]int{1, 1, 1, 50}).Draw(rt, "times"))
		})
		lines := rapid.SliceOfN(line, 1, 80).Draw(rt, "lines")
		first := rapid.IntRange(0, len(lines)-1).Draw(rt, "first")
		level := Level(rapid.IntRange(0, 2).Draw(rt, "level"))
		object, x := makeSegment(t, lines, first, rapid.IntRange(1, 3000).Draw(rt, "frame"), level)
		r, err := OpenBytes(NewCodec(), object)
		if err != nil {
			rt.Fatal(err)
		}
		if d := cmp.Diff(x, r.Index()); d != "" {
			rt.Fatal(d)
		}
		for i, f := range x.Frames {
			raw, err := r.Frame(i)
			if want := joined(lines[f.First : f.First+f.Count]); err != nil || !bytes.Equal(raw, want) {
				rt.Fatalf("frame %d: %q, %v; want %q", i, raw, err, want)
			}
		}
		i := rapid.IntRange(0, len(x.Frames)).Draw(rt, "i")
		j := rapid.IntRange(i, len(x.Frames)).Draw(rt, "j")
		raw, err := r.Frames(i, j)
		var want []byte
		if i < j {
			want = joined(lines[x.Frames[i].First : x.Frames[j-1].First+x.Frames[j-1].Count])
		}
		if err != nil || !bytes.Equal(raw, want) {
			rt.Fatalf("frames %d to %d: %q, %v; want %q", i, j, raw, err, want)
		}
		seq := rapid.IntRange(-1, len(lines)+1).Draw(rt, "seq")
		var got [][]byte
		for line, err := range r.Lines(int64(seq)) {
			if err != nil {
				rt.Fatal(err)
			}
			got = append(got, bytes.Clone(line))
		}
		if want := lines[min(max(seq, first), len(lines)):]; !slices.EqualFunc(got, want, bytes.Equal) {
			rt.Fatalf("lines from %d: %q, want %q", seq, got, want)
		}
		at := r.Find(int64(seq))
		if inside := seq >= first && seq < len(lines); inside != (at >= 0) ||
			inside && (int64(seq) < x.Frames[at].First || int64(seq) >= x.Frames[at].First+x.Frames[at].Count) {
			rt.Fatalf("seq %d is in frame %d", seq, at)
		}
	})
}

func TestReaderLinesStops(t *testing.T) {
	segment, _ := makeSegment(t, sessionLines(50, 1), 0, 2<<10, LevelFast)
	r, err := OpenBytes(NewCodec(), segment)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range r.Lines(3) {
		if n++; n == 5 {
			break
		}
	}
	if n != 5 {
		t.Errorf("%d lines", n)
	}
}

// A large event is a frame of its own, and every size of line comes back.
func TestB07LongLines(t *testing.T) {
	for _, n := range []int{65_535, 65_536, 1 << 20, 8<<20 - 1, 8 << 20, 16 << 20} {
		lines := [][]byte{[]byte("a"), bytes.Repeat([]byte("0123456789abcdef"), n/16+1)[:n], []byte("b")}
		segment, x := makeSegment(t, lines, 0, 64<<10, LevelFast)
		if raw, _, err := readAll(segment); err != nil || !bytes.Equal(raw, joined(lines)) {
			t.Errorf("line of %d bytes: %d bytes, %v", n, len(raw), err)
		}
		if len(x.Frames) != 3 {
			t.Errorf("line of %d bytes: %d frames", n, len(x.Frames))
		}
	}
}

func TestOpenReadsOnce(t *testing.T) {
	// Random digits, so that frames are not much smaller than their lines.
	var incompressible [][]byte
	for i := range 400 {
		h := sha256.Sum256(fmt.Append(nil, i))
		incompressible = append(incompressible, fmt.Appendf(nil, `"%x%x"`, h, sha256.Sum256(h[:])))
	}
	manyLines := slices.Repeat([][]byte{[]byte(`{"a":1}`)}, 4000)
	tests := []struct {
		name     string
		lines    [][]byte
		frameRaw int
		open     func(size, index int64) [][2]int64
		cached   bool
	}{
		{"small", sessionLines(30, 1), 1 << 10, func(size, _ int64) [][2]int64 { return [][2]int64{{0, size}} }, true},
		{"medium", slices.Repeat(incompressible, 4), 32 << 10, func(size, _ int64) [][2]int64 {
			return [][2]int64{{size - 64<<10, 64 << 10}}
		}, false},
		{"long index", manyLines, 1, func(size, index int64) [][2]int64 {
			return [][2]int64{{size - 64<<10, 64 << 10}, {index, size - 64<<10 - index}}
		}, false},
	}
	for _, tt := range tests {
		segment, x := makeSegment(t, tt.lines, 0, tt.frameRaw, LevelFast)
		size := int64(len(segment))
		src := &source{object: segment}
		r, err := Open(NewCodec(), src, size)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if d := cmp.Diff(tt.open(size, x.end()), src.reads); d != "" {
			t.Errorf("%s: opened with these reads (-want +got):\n%s", tt.name, d)
		}
		src.reads = nil
		if _, err := r.Frame(0); err != nil {
			t.Fatal(err)
		}
		n := len(x.Frames)
		if _, err := r.Frames(0, n); err != nil {
			t.Fatal(err)
		}
		want := [][2]int64{{0, x.Frames[0].Length}, {0, x.end()}}
		if tt.cached {
			want = nil
		}
		if d := cmp.Diff(want, src.reads); d != "" {
			t.Errorf("%s: frames read with these reads (-want +got):\n%s", tt.name, d)
		}
		// What was read with the index is not read again.
		src.reads = nil
		if _, err := r.Frame(n - 1); err != nil || tt.name == "medium" && len(src.reads) != 0 {
			t.Errorf("%s: last frame: %v, reads %v", tt.name, err, src.reads)
		}
	}
}

func TestOpenPassesErrorsOn(t *testing.T) {
	segment, _ := makeSegment(t, sessionLines(4000, 1), 0, 8<<10, LevelFast)
	for _, want := range []error{io.ErrUnexpectedEOF, errors.New("connection reset"), os.ErrPermission} {
		src := &source{object: segment, err: want}
		_, err := Open(NewCodec(), src, int64(len(segment)))
		if !errors.Is(err, want) || errors.Is(err, ErrCorrupt) {
			t.Errorf("opening: got %v, want %v and no damage", err, want)
		}
		src.err = nil
		r, err := Open(NewCodec(), src, int64(len(segment)))
		if err != nil {
			t.Fatal(err)
		}
		if r.Find(0) != 0 || len(segment) < openLength+1000 {
			t.Fatal("frame 0 is read with the index")
		}
		src.err = want
		raw, err := r.Frame(0)
		if !errors.Is(err, want) || errors.Is(err, ErrCorrupt) || raw != nil {
			t.Errorf("frame 0: got %v, want %v and no damage", err, want)
		}
		for line, err := range r.Lines(0) {
			if !errors.Is(err, want) || line != nil {
				t.Errorf("lines: got %q, %v", line, err)
			}
		}
		src.err = nil
		if _, err := r.Frame(0); err != nil {
			t.Errorf("the next read: %v", err)
		}
	}
	// A source may be shorter than the size that the manifest says.
	_, err := Open(NewCodec(), bytes.NewReader(segment[:len(segment)-1]), int64(len(segment)))
	wantCorrupt(t, err, "before its size")
	// Or longer: only what the manifest says is looked at.
	longer := append(bytes.Clone(segment), "appended"...)
	if _, err := Open(NewCodec(), bytes.NewReader(longer), int64(len(segment))); err != nil {
		t.Error(err)
	}
	_, err = Open(NewCodec(), shortReader{}, int64(len(segment)))
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a source against the rules: %v", err)
	}
}

// shortReader reads less than it is asked to without saying why.
type shortReader struct{}

func (shortReader) ReadAt(p []byte, _ int64) (int, error) { return len(p) / 2, nil }

func TestEveryTruncationIsDetected(t *testing.T) {
	segment, _ := makeSegment(t, sessionLines(20, 2), 0, 1<<10, LevelFast)
	for n := range segment {
		raw, _, err := readAll(segment[:n])
		if !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrUnsupportedVersion) || raw != nil {
			t.Errorf("first %d bytes: %d bytes of events, error %v", n, len(raw), err)
		}
		raw, _, err = readAll(segment[n+1:])
		if !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrUnsupportedVersion) || raw != nil {
			t.Errorf("without the first %d bytes: %d bytes of events, error %v", n+1, len(raw), err)
		}
	}
}

// Every flipped bit is found, except in the blocks of frames, where it may be
// one that decoding does not depend on: then all events are as they were, and
// only the SHA-256 of the object tells.
func TestEveryBitFlipIsDetected(t *testing.T) {
	for _, level := range []Level{LevelFast, LevelBest} {
		lines := sessionLines(20, 2)
		segment, x := makeSegment(t, lines, 0, 1<<10, level)
		want := joined(lines)
		inBlock := func(at int64) bool { // beside the headers of a frame of one block, and its checksum
			i := slices.IndexFunc(x.Frames, func(f Frame) bool { return at < f.Offset+f.Length })
			return i >= 0 && at-x.Frames[i].Offset >= 4+1+2+3 && at < x.Frames[i].Offset+x.Frames[i].Length-4
		}
		harmless := 0
		for i := range 8 * len(segment) {
			flipped := bytes.Clone(segment)
			flipped[i/8] ^= 1 << (i % 8)
			raw, got, err := readAll(flipped)
			switch {
			case errors.Is(err, ErrCorrupt) && raw == nil:
			case err == nil && inBlock(int64(i/8)) && bytes.Equal(raw, want) && cmp.Equal(got, x):
				harmless++
			default:
				t.Errorf("bit %d of byte %d (frames end at %d): %d bytes of events, error %v", i%8, i/8, x.end(), len(raw), err)
			}
		}
		t.Logf("level %d: %d of %d bits leave all events as they are", level, harmless, 8*len(segment))
	}
}

// Segments that an earlier version wrote stay readable.
func TestGoldenSegments(t *testing.T) {
	goldens := []struct {
		file   string
		events string // SHA-256 of their lines
		make   func() []byte
	}{
		{"v1-first.jsonl.zst", "b388197c78be6b5f63564e8f2874aad5ea10ced649bdfb0cb524d837f999b668", func() []byte {
			lines := sessionLines(100, 42)
			w := NewWriter(NewCodec(), LevelBetter, 4<<10, 0)
			for _, line := range lines {
				if err := w.Add(line); err != nil {
					t.Fatal(err)
				}
			}
			object, _, err := w.Finish(Footer{
				Nonce: testNonce, State: stateAfter(lines), UID: "019a0000-0000-7000-8000-000000000001", Log: "golden/1",
				Origin: []byte(`{"kind":"fresh","inherited":0}`), Header: []byte(`{"type":"session","version":0,"id":"golden/1"}`),
			})
			if err != nil {
				t.Fatal(err)
			}
			return object
		}},
		{"v1-later.jsonl.zst", "62c3a67da4724e0d0075e3e9c9a5a70321fecb57dab97c848661488528ed74e5", func() []byte {
			object, _ := makeSegment(t, sessionLines(140, 42), 100, MergedFrameRaw, LevelBest)
			return object
		}},
	}
	for i, g := range goldens {
		path := filepath.Join("testdata", g.file)
		if *update {
			if err := os.WriteFile(path, g.make(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		object, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		raw, x, err := readAll(object)
		if err != nil {
			t.Errorf("%s: %v", g.file, err)
			continue
		}
		if sum := fmt.Sprintf("%x", sha256.Sum256(raw)); sum != g.events {
			t.Errorf("%s: its events are others, of SHA-256 %s", g.file, sum)
		}
		if (x.Log != "") != (i == 0) || x.Nonce != testNonce {
			t.Errorf("%s: index %+v", g.file, x)
		}
	}
}

// Plain tools print the events of a segment and nothing else.
func TestZstdTool(t *testing.T) {
	tool, err := exec.LookPath("zstd")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("NOT TESTED with the zstd tool, which is not installed: ", err)
	}
	run := func(stdin []byte, args ...string) []byte {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Stdin = bytes.NewReader(stdin)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, &stderr)
		}
		return out
	}
	lines := sessionLines(3000, 5)
	lines[1500] = fmt.Appendf(nil, `{"type":"x","seq":1500,"time":0,"data":"%s"}`, strings.Repeat("0123456789abcdef", 9<<20/16))
	want := joined(lines)
	for _, level := range []Level{LevelFast, LevelBetter, LevelBest} {
		segment, x := makeSegment(t, lines, 0, 64<<10, level)
		if got := run(segment, tool, "-dc"); !bytes.Equal(got, want) {
			t.Errorf("level %d: zstd -dc prints %d bytes, want %d", level, len(got), len(want))
		}
		if got := run(segment, tool, "-t"); len(got) != 0 {
			t.Errorf("level %d: zstd -t says %s", level, got)
		}
		for i, f := range x.Frames {
			if got := run(segment[f.Offset:f.Offset+f.Length], tool, "-dc"); int64(len(got)) != f.RawLength {
				t.Errorf("level %d, frame %d: zstd -dc prints %d bytes, want %d", level, i, len(got), f.RawLength)
			}
		}
		jq, err := exec.LookPath("jq")
		if err != nil {
			t.Log("jq is not installed: ", err)
			continue
		}
		if got := run(run(segment, tool, "-dc"), jq, "-c", "."); !bytes.Equal(got, want) {
			t.Errorf("level %d: jq prints %d bytes, want %d", level, len(got), len(want))
		}
	}
	// The reference encoder's frames are read, too.
	raw := joined(sessionLines(500, 1))
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, level := range []string{"-1", "-3", "-19"} {
		got, err := NewCodec().DecodeFrames(run(nil, tool, level, "--check", "-c", path), len(raw))
		if err != nil || !bytes.Equal(got, raw) {
			t.Errorf("zstd %s: %d bytes, %v", level, len(got), err)
		}
	}
}

func TestLines(t *testing.T) {
	tests := []struct {
		raw  string
		want []string
		says string
	}{
		{"", nil, ""},
		{"a\n", []string{"a"}, ""},
		{"a\nb\r\nc\n", []string{"a", "b\r", "c"}, ""},
		{"a\nb", []string{"a"}, "at byte 2, does not end"},
		{"a", nil, "does not end"},
		{"a\n\nb\n", []string{"a"}, "empty line at byte 2"},
		{"\n", nil, "empty line at byte 0"},
	}
	for _, tt := range tests {
		var got []string
		var err error
		for line, e := range Lines([]byte(tt.raw)) {
			if err != nil {
				t.Errorf("%q: goes on after %v", tt.raw, err)
			}
			if err = e; err != nil {
				continue
			}
			got = append(got, string(line))
			if cap(line) != len(line) {
				t.Errorf("%q: a line can be appended to", tt.raw)
			}
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%q: %s", tt.raw, d)
		}
		ends, endsErr := AppendLineEnds([]int{-1}, []byte(tt.raw))
		if tt.says == "" {
			if err != nil || endsErr != nil || len(ends) != 1+len(tt.want) {
				t.Errorf("%q: %v, ends %v, %v", tt.raw, err, ends, endsErr)
			}
			for i, line := range tt.want {
				if got := tt.raw[ends[i]+1 : ends[i+1]]; got != line {
					t.Errorf("%q: line %d is %q by its ends", tt.raw, i, got)
				}
			}
			continue
		}
		wantCorrupt(t, err, tt.says)
		wantCorrupt(t, endsErr, tt.says)
		if len(ends) != 1 {
			t.Errorf("%q: ends %v beside an error", tt.raw, ends)
		}
	}
	for range Lines([]byte("a\nb\n")) {
		break
	}
}
