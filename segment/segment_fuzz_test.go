package segment

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// The fuzz targets that decode frames make no progress while Go minimizes what it
// finds, so run them with -fuzzminimizetime=5x.

// Whatever is opened is either refused or consistent, and is never read beyond
// what it says.
func FuzzOpenSegment(f *testing.F) {
	goldens, err := filepath.Glob("testdata/*.jsonl.zst")
	if err != nil || len(goldens) == 0 {
		f.Fatal("no goldens: ", err)
	}
	for _, path := range goldens {
		object, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(object, "")
	}
	small, x := makeSegment(f, sessionLines(3, 1), 0, 200, LevelFast)
	f.Add(small, "")
	f.Add(small[:x.end()], string(x.appendJSON(nil)))
	f.Add([]byte{}, "")
	f.Fuzz(func(t *testing.T, object []byte, indexJSON string) {
		if indexJSON != "" { // an index with the right checksum around it
			object = appendSkippable(bytes.Clone(object), []byte(indexJSON))
		}
		src := &source{object: object}
		c := NewCodec()
		r, err := Open(c, src, int64(len(object)))
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupportedVersion) {
				t.Fatalf("neither damage nor a version: %v", err)
			}
			return
		}
		x := r.Index()
		if err := x.Validate(); err != nil {
			t.Fatal(err)
		}
		again, err := parseIndex(x.appendJSON(nil))
		if err != nil || !bytes.Equal(again.appendJSON(nil), x.appendJSON(nil)) {
			t.Fatalf("the index does not come back: %v", err)
		}
		var events, raw int64
		intact := true
		for i, frame := range x.Frames {
			b, err := r.Frame(i)
			if err != nil {
				if !errors.Is(err, ErrCorrupt) || b != nil {
					t.Fatalf("frame %d: %d bytes, %v", i, len(b), err)
				}
				intact = false
				continue
			}
			ends, err := AppendLineEnds(nil, b)
			n := int64(len(ends))
			if err != nil || n != frame.Count || int64(len(b)) != frame.RawLength {
				t.Fatalf("frame %d: %d lines, %d bytes, %v", i, n, len(b), err)
			}
			events, raw = events+n, raw+int64(len(b))
		}
		all, err := r.Frames(0, len(x.Frames))
		if (err == nil) != intact || intact && (events != x.Count || raw != x.RawLength() || int64(len(all)) != raw) {
			t.Fatalf("%d events, %d bytes, all at once %d bytes, %v", events, raw, len(all), err)
		}
		for _, read := range src.reads {
			if read[0] < 0 || read[0]+read[1] > int64(len(object)) {
				t.Fatalf("read %v of an object of %d bytes", read, len(object))
			}
		}
	})
}

func FuzzDecodeFrames(f *testing.F) {
	c := NewCodec()
	for _, raw := range []string{"a\n", string(joined(sessionLines(30, 1)))} {
		for _, level := range []Level{LevelFast, LevelBest} {
			frames, err := c.EncodeFrames(nil, []byte(raw), level, 1<<10)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(frames)
		}
	}
	f.Add(unhex(f, "28b52ffd0098010000"))
	f.Add(unhex(f, "28b52ffd0000a900007b22736571223a302c2274797065223a2261227d0a"))
	f.Add([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, frames []byte) {
		const maxRaw = 1 << 20
		c := NewCodec()
		raw, err := c.DecodeFrames(frames, maxRaw)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) || raw != nil {
				t.Fatalf("%d bytes, %v", len(raw), err)
			}
			return
		}
		if len(raw) > maxRaw || (len(raw) == 0) != (len(frames) == 0) || len(raw) > 0 && raw[len(raw)-1] != '\n' {
			t.Fatalf("%d bytes of %d", len(raw), len(frames))
		}
		// One by one they say the same.
		var parts []byte
		for at := 0; at < len(frames); {
			info, err := scanFrame(frames[at:])
			if err != nil {
				t.Fatal(err)
			}
			if parts, err = c.DecodeFrame(parts, frames[at:at+info.length], maxRaw); err != nil {
				t.Fatal(err)
			}
			at += info.length
		}
		if !bytes.Equal(parts, raw) {
			t.Fatal("frame by frame they hold something else")
		}
		if _, err := c.DecodeFrames(frames, len(raw)-1); len(raw) > 0 && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("bound not kept: %v", err)
		}
	})
}

func FuzzParseState(f *testing.F) {
	s := full()
	f.Add(s.Types.AppendJSON(nil), s.Boundary.AppendJSON(nil), s.Turn.AppendJSON(nil), s.Tree.AppendJSON(nil))
	s = NewState()
	f.Add(s.Types.AppendJSON(nil), s.Boundary.AppendJSON(nil), s.Turn.AppendJSON(nil), s.Tree.AppendJSON(nil))
	f.Fuzz(func(t *testing.T, types, boundary, turn, tree []byte) {
		if v, err := ParseTypes(types); err == nil {
			once := v.AppendJSON(nil)
			again, err := ParseTypes(once)
			if err != nil || !bytes.Equal(again.AppendJSON(nil), once) {
				t.Fatalf("types %s: %v", once, err)
			}
		}
		if v, err := ParseBoundary(boundary); err == nil {
			once := v.AppendJSON(nil)
			again, err := ParseBoundary(once)
			if err != nil || !bytes.Equal(again.AppendJSON(nil), once) {
				t.Fatalf("boundary %s: %v", once, err)
			}
		}
		if v, err := ParseTurn(turn); err == nil {
			once := v.AppendJSON(nil)
			again, err := ParseTurn(once)
			if err != nil || !bytes.Equal(again.AppendJSON(nil), once) {
				t.Fatalf("turn %s: %v", once, err)
			}
		}
		if v, err := ParseTree(tree); err == nil {
			once := v.AppendJSON(nil)
			again, err := ParseTree(once)
			if err != nil || !bytes.Equal(again.AppendJSON(nil), once) {
				t.Fatalf("tree %s: %v", once, err)
			}
		}
	})
}
