package sessionfile

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/s3log/s3log/segment"
)

func TestTornZstd(t *testing.T) {
	parts := []string{testHeader + "\n", string(file(events(0, 3)...)), string(file(events(3, 7)...))}
	data := frames(t, parts...)
	ends := []int{0, len(frames(t, parts[0])), len(frames(t, parts[:2]...)), len(data)}
	whole := []int{0, 0, 3, 7} // events before each end
	for n := range len(data) {
		frame := 0
		for n >= ends[frame+1] {
			frame++
		}
		_, got, err := readAll(t, data[:n], Options{})
		switch {
		case n == ends[frame]: // nobody can know that more was to come
			if err != nil || len(got) != whole[frame] {
				t.Errorf("cut at %d: %d events, %v", n, len(got), err)
			}
			continue
		case n < 4: // not even known to be zstd
			wantLineError(t, err, ErrTorn, 1, "")
			continue
		}
		// The last frame's lines may have been inflated already, if only its
		// checksum is torn.
		if !errors.Is(err, ErrTorn) || len(got) < whole[frame] || len(got) > whole[frame+1] {
			t.Errorf("cut at %d: %d events, %v", n, len(got), err)
		}
		r, saved, err := readAll(t, data[:n], Options{Salvage: SalvageTorn})
		if diff := cmp.Diff(got, saved); diff != "" || err != nil || len(r.Dropped()) != 1 {
			t.Errorf("cut at %d: %v, %d drops, -read +salvaged:\n%s", n, err, len(r.Dropped()), diff)
		}
	}
}

// Of a torn frame, what can be inflated is used, up to the last whole line.
func TestTornFrameYieldsWholeLines(t *testing.T) {
	var lines []string
	for seq := range 9000 {
		lines = append(lines, event(seq))
	}
	text := file(lines...)
	data := frames(t, string(text))
	data = data[:len(data)*3/4]
	_, got, err := readAll(t, data, Options{})
	wantLineError(t, err, ErrTorn, len(got)+1, "the input ends within a zstd frame")
	if diff := cmp.Diff(numbered(1, lines[:len(got)]...), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(got) < 1000 {
		t.Errorf("only %d lines of three quarters of %d", len(got), len(lines))
	}
	r, saved, err := readAll(t, data, Options{Salvage: SalvageTorn})
	if err != nil || len(saved) != len(got) {
		t.Errorf("salvaged %d lines, %v", len(saved), err)
	}
	if d := r.Dropped(); len(d) != 1 || d[0].Line != len(got)+1 || d[0].Lines != 1 || d[0].Bytes <= 0 || d[0].Bytes > int64(len(event(9000))) {
		t.Errorf("dropped %+v", d)
	}
}

// A whole line without its LF at the end of a torn frame may be half a line.
func TestTornFrameLastLine(t *testing.T) {
	one := frames(t, event(0)+"\n"+event(1))
	_, got, err := readAll(t, one, Options{})
	if err != nil || len(got) != 2 {
		t.Errorf("whole: %d events, %v", len(got), err)
	}
	_, got, err = readAll(t, one[:len(one)-1], Options{})
	wantLineError(t, err, ErrTorn, len(got)+1, "zstd frame")
	if len(got) > 1 {
		t.Errorf("torn: %d events", len(got))
	}
}

func TestDamagedZstd(t *testing.T) {
	parts := []string{testHeader + "\n", string(file(events(0, 3)...)), string(file(events(3, 7)...))}
	data := frames(t, parts...)
	second := len(frames(t, parts[:2]...))
	flip := func(at int) []byte {
		c := bytes.Clone(data)
		c[at] ^= 0x40
		return c
	}
	for name, tt := range map[string]struct {
		data []byte
		line int // 0: some line of the frame
	}{
		"checksum":         {flip(second - 1), 0},
		"magic in between": {flip(second), 5},
		"contents":         {flip(second - 12), 0},
		"garbage behind":   {append(bytes.Clone(data), "more bytes"...), 9},
		"plain text next":  {append(bytes.Clone(data), file(event(7))...), 9},
		"zeros behind":     {append(bytes.Clone(data), make([]byte, 64)...), 9},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := readAll(t, tt.data, Options{})
			var e *LineError
			if !errors.As(err, &e) || !errors.Is(err, segment.ErrCorrupt) || errors.Is(err, ErrTorn) {
				t.Fatalf("error is %v", err)
			}
			if tt.line > 0 && e.Line != tt.line || e.Line < 1 || e.Line > 9 {
				t.Errorf("error is %v, want line %d", err, tt.line)
			}
			_, _, err = readAll(t, tt.data, Options{Salvage: SalvageTorn})
			if !errors.Is(err, segment.ErrCorrupt) {
				t.Errorf("taken for torn: %v", err)
			}
			r, got, err := readAll(t, tt.data, Options{Salvage: SalvagePrefix})
			if err != nil || len(got) > 7 || len(r.Dropped()) != 1 {
				t.Errorf("salvage: %d events, %d drops, %v", len(got), len(r.Dropped()), err)
			}
		})
	}
}

// A record that goes over the end of a frame is one line all the same.
func TestLinesAcrossFrames(t *testing.T) {
	text := string(file(events(0, 5)...))
	_, lines := mustRead(t, frames(t, text[:10], text[10:11], "", text[11:]))
	if diff := cmp.Diff(events(0, 5), lines); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSkippableFramesArePassedOver(t *testing.T) {
	data := append([]byte{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'}, frames(t, string(file(events(0, 2)...)))...)
	data = append(data, 0x5d, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 'z')
	_, lines := mustRead(t, data)
	if diff := cmp.Diff(events(0, 2), lines); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Memory is bounded by the longest line and by the window, not by the file, and
// no decoder is left running.
func TestMemoryIsBounded(t *testing.T) {
	const window = 1 << 20
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
	if err != nil {
		t.Fatal(err)
	}
	part := strings.Repeat(`{"type":"t","data":"`+strings.Repeat("x", 979)+`"}`+"\n", 1<<10) // 1 MiB, about
	frame := enc.EncodeAll([]byte(part), nil)
	goroutines := runtime.NumGoroutine()
	r, err := NewReader(bytes.NewReader(bytes.Repeat(frame, 40)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	n := 0
	for _, err := range r.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 2<<10 {
			runtime.ReadMemStats(&before)
		}
	}
	runtime.ReadMemStats(&after)
	if n != 40<<10 {
		t.Errorf("%d lines", n)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
		t.Errorf("40 MiB of lines allocated %d bytes", got)
	}
	if got := runtime.NumGoroutine(); got > goroutines {
		t.Errorf("%d goroutines, %d before", got, goroutines)
	}
}

// A hostile frame header must not make the decoder take gigabytes.
func TestWindowIsBounded(t *testing.T) {
	header := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8} // window descriptor: 2^31 bytes
	_, _, err := readAll(t, append(header, make([]byte, 100)...), Options{})
	wantLineError(t, err, segment.ErrTooLarge, 1, "window")
}
