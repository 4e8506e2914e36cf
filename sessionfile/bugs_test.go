package sessionfile

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/segment"
)

// The tests of this file are named after the project's collection of bugs seen
// in other systems.

func numbered(first int, lines ...string) []string {
	out := []string{}
	for i, line := range lines {
		out = append(out, strconv.Itoa(first+i)+" "+line)
	}
	return out
}

// A byte order mark makes the first record unreadable, and it is skipped in
// silence.
func TestB08ByteOrderMark(t *testing.T) {
	const bom = "\xef\xbb\xbf"
	for name, data := range map[string][]byte{
		"events":     file(append([]string{bom + event(0)}, events(1, 3)...)...),
		"compressed": frames(t, bom+string(file(events(0, 3)...))),
		"CR LF":      []byte(bom + strings.Join(events(0, 3), "\r\n") + "\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			_, lines, err := readAll(t, data, Options{})
			if diff := cmp.Diff(numbered(1, events(0, 3)...), lines); diff != "" || err != nil {
				t.Errorf("error %v, -want +got:\n%s", err, diff)
			}
		})
	}
	t.Run("header", func(t *testing.T) {
		r, lines := mustRead(t, file(bom+testHeader, event(0)))
		if string(r.Header()) != testHeader || len(lines) != 1 {
			t.Errorf("header %q, %d events", r.Header(), len(lines))
		}
	})
	t.Run("not at the start", func(t *testing.T) {
		_, lines, err := readAll(t, file(event(0), bom+event(1), event(2)), Options{})
		wantLineError(t, err, segment.ErrCorrupt, 2, "not JSON: ?{")
		if len(lines) != 1 {
			t.Errorf("%d lines before it, want 1", len(lines))
		}
	})
}

// A block of NULs after a crash of the machine ends the session without a word.
func TestB09NULBlockInTheMiddle(t *testing.T) {
	lines := append(events(0, 3), strings.Repeat("\x00", 300))
	lines = append(lines, events(3, 6)...)
	data := file(lines...)

	for _, salvage := range []Salvage{SalvageNothing, SalvageTorn} {
		_, got, err := readAll(t, data, Options{Salvage: salvage})
		wantLineError(t, err, segment.ErrCorrupt, 4, "NUL")
		if diff := cmp.Diff(numbered(1, events(0, 3)...), got); diff != "" {
			t.Errorf("salvage %d: -want +got:\n%s", salvage, diff)
		}
	}
	r, got, err := readAll(t, data, Options{Salvage: SalvagePrefix})
	if diff := cmp.Diff(numbered(1, events(0, 3)...), got); diff != "" || err != nil {
		t.Errorf("error %v, -want +got:\n%s", err, diff)
	}
	rest := int64(301 + len(file(events(3, 6)...)))
	wantDrops(t, r, Drop{Line: 4, Lines: 4, Bytes: rest})
	wantLineError(t, r.Dropped()[0].Err, segment.ErrCorrupt, 4, "NUL")

	t.Run("at the end", func(t *testing.T) {
		torn := append(file(events(0, 3)...), make([]byte, 300)...)
		_, _, err := readAll(t, torn, Options{})
		wantLineError(t, err, ErrTorn, 4, "NUL")
	})
}

func wantDrops(t *testing.T, r *Reader, want ...Drop) {
	t.Helper()
	var got []Drop
	for _, d := range r.Dropped() {
		if d.Err == nil || d.Err.Line != d.Line {
			t.Errorf("line %d was dropped for %v", d.Line, d.Err)
		}
		d.Err = nil
		got = append(got, d)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
}

// The writer after a crash appends to a torn line, and both are lost.
func TestB17TornLineSwallowsTheNext(t *testing.T) {
	const fragment = `{"type":"todo/write","seq":4,"ty`
	packed := `{"type":"text-chunks","seq0":4,"time0":7,"data":{"turn":1,"step":2,"index":0,"dt":[],"texts":["x"]}}`
	for name, tt := range map[string]struct {
		fragment, good string
		after          []string // the events that good stands for
	}{
		"in a name":      {fragment, event(4), events(4, 5)},
		"in a string":    {`{"type":"todo/write","seq":4,"time":1,"data":"it is {\"`, event(4), events(4, 5)},
		"before a value": {`{"type":"todo/write","seq":4,"time":1,"data":`, event(4), events(4, 5)},
		"one byte":       {`{`, event(4), events(4, 5)},
		"packed row":     {fragment, packed, []string{textDelta(4, 7, `"x"`)}},
		"nested event": {
			fragment,
			`{"type":"t","seq":4,"time":1,"data":{"type":"u","seq":9,"data":{}}}`,
			[]string{`{"type":"t","seq":4,"time":1,"data":{"type":"u","seq":9,"data":{}}}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := file(append(append(events(0, 4), tt.fragment+tt.good), events(5, 7)...)...)
			_, got, err := readAll(t, data, Options{})
			wantLineError(t, err, segment.ErrCorrupt, 5, "; a whole event follows at byte "+strconv.Itoa(len(tt.fragment)))
			if len(got) != 4 {
				t.Errorf("%d events before it, want 4", len(got))
			}
			r, got, err := readAll(t, data, Options{Salvage: SalvageTorn})
			want := append(append(events(0, 4), tt.after...), events(5, 7)...)
			if diff := cmp.Diff(numbered(1, want...), got); diff != "" || err != nil {
				t.Errorf("error %v, -want +got:\n%s", err, diff)
			}
			wantDrops(t, r, Drop{Line: 5, Lines: 1, Bytes: int64(len(tt.fragment))})
		})
	}

	// What a torn event itself contains must not be taken for the next event.
	for name, torn := range map[string]string{
		"inner chunk": `{"type":"assistant/chunk","seq":4,"time":9,"data":{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"x"}`,
		"inner event": `{"type":"t","seq":4,"time":9,"data":{"type":"u","seq":9,"data":{}}`,
		"inner media": `{"type":"t","seq":4,"time":9,"data":{"type":"image","data":"AA=="}`,
	} {
		t.Run(name, func(t *testing.T) {
			data := append(file(events(0, 4)...), torn...)
			_, _, err := readAll(t, data, Options{})
			wantLineError(t, err, ErrTorn, 5, "ends too early")
			r, got, err := readAll(t, data, Options{Salvage: SalvageTorn})
			if diff := cmp.Diff(numbered(1, events(0, 4)...), got); diff != "" || err != nil {
				t.Errorf("error %v, -want +got:\n%s", err, diff)
			}
			wantDrops(t, r, Drop{Line: 5, Lines: 1, Bytes: int64(len(torn))})
		})
	}
}

// A lenient reader takes the two branches of a log written by two processes for
// one log, or loses one of them.
func TestC02ForkedLogIsRefused(t *testing.T) {
	seed := `{"type":"session/end-seed","seq":3,"time":9,"data":{}}`
	end := `{"type":"turn/end","seq":4,"time":9,"data":{"turn":1,"reason":{"kind":"completed"}}}`
	valid := append(events(0, 3), seed)
	lines := append(append([]string{testHeader}, valid...), event(2), seed, end)
	data := file(lines...)

	_, got, err := readAll(t, data, Options{})
	wantLineError(t, err, segment.ErrSeqMismatch, 6, "seq 2 follows seq 3 of line 5; 4 is due")
	if len(got) != 4 {
		t.Errorf("%d events before it, want 4", len(got))
	}
	r, got, err := readAll(t, data, Options{Salvage: SalvagePrefix})
	if diff := cmp.Diff(numbered(2, valid...), got); diff != "" || err != nil {
		t.Errorf("error %v, -want +got:\n%s", err, diff)
	}
	dropped := int64(len(file(event(2), seed, end)))
	wantDrops(t, r, Drop{Line: 6, Lines: 3, Bytes: dropped})

	t.Run("inside packed rows", func(t *testing.T) {
		row := `{"type":"text-chunks","seq0":2,"time0":7,"data":{"turn":1,"step":2,"index":0,"dt":[0],"texts":["a","b"]}}`
		_, got, err := readAll(t, file(event(0), event(1), row, event(3)), Options{})
		wantLineError(t, err, segment.ErrSeqMismatch, 4, "seq 3 follows seq 3 of line 3")
		if len(got) != 4 {
			t.Errorf("%d events before it, want 4", len(got))
		}
	})
}

// A reader that stops at the first bad line shows an old state as the end.
func TestC07TruncationAtTheFirstBadLine(t *testing.T) {
	lines := events(0, 10)
	lines[3] = lines[3][:len(lines[3])/2]
	plain := file(lines...)
	for name, data := range map[string][]byte{
		"plain":      plain,
		"compressed": frames(t, string(plain)), // the frame and its checksum are fine
	} {
		t.Run(name, func(t *testing.T) {
			for _, salvage := range []Salvage{SalvageNothing, SalvageTorn} {
				_, got, err := readAll(t, data, Options{Salvage: salvage})
				wantLineError(t, err, segment.ErrCorrupt, 4, "ends too early")
				if len(got) != 3 {
					t.Errorf("%d events before it, want 3", len(got))
				}
			}
			r, got, err := readAll(t, data, Options{Salvage: SalvagePrefix})
			if len(got) != 3 || err != nil {
				t.Errorf("%d events, %v", len(got), err)
			}
			wantDrops(t, r, Drop{Line: 4, Lines: 7, Bytes: int64(len(plain) - bytes.Index(plain, []byte(lines[3])))})
		})
	}
}
