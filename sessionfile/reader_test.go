package sessionfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/segment"
)

func TestHeader(t *testing.T) {
	tests := map[string]struct {
		first  string
		header bool
		id     string
	}{
		"harness":        {testHeader, true, "s1"},
		"key order":      {`{"id":"a","createdAt":1,"type":"session"}`, true, "a"},
		"bare":           {`{"type":"session"}`, true, ""},
		"escaped":        {`{"\u0074ype":"\u0073ession","id":"a\u002fb"}`, true, "a/b"},
		"id not string":  {`{"type":"session","id":7}`, true, ""},
		"lone surrogate": {`{"type":"session","id":"\ud800"}`, true, ""},
		"id of another":  {`{"type":"session","data2":{"id":"x"}}`, true, ""},
		"an event":       {`{"type":"session","data":{}}`, false, ""},
		"another type":   {`{"type":"sessions","id":"x","data":1}`, false, ""},
		"case":           {`{"Type":"session","id":"x"}`, false, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, data := range [][]byte{
				file(tt.first, event(0)),
				[]byte("\n \r\n\t" + tt.first + " \r\n" + event(0)),
				frames(t, tt.first+"\n", event(0)+"\n"),
			} {
				r, lines := mustRead(t, data)
				want := []string{event(0)}
				if tt.header {
					if string(r.Header()) != tt.first {
						t.Errorf("header is %q", r.Header())
					}
				} else if want = []string{tt.first, event(0)}; r.Header() != nil {
					t.Errorf("header is %q, want none", r.Header())
				}
				if r.HeaderID() != tt.id {
					t.Errorf("id is %q, want %q", r.HeaderID(), tt.id)
				}
				if diff := cmp.Diff(want, lines); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
}

func TestHeaderSurvivesReading(t *testing.T) {
	long := strings.Repeat(event(0)[:len(event(0))-2]+`,"x":1}}`+"\n", 1)
	r, _ := mustRead(t, []byte(testHeader+"\n"+long+strings.Repeat(`{"type":"t","data":0}`+"\n", 10_000)))
	if string(r.Header()) != testHeader {
		t.Errorf("header became %q", r.Header())
	}
}

func TestEmptyInputs(t *testing.T) {
	for name, data := range map[string][]byte{
		"nothing":        nil,
		"line ends":      []byte("\n\r\n \n"),
		"order mark":     []byte("\xef\xbb\xbf"),
		"an empty frame": frames(t, ""),
		"skippable":      {0x5d, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 'h', 'i'},
	} {
		t.Run(name, func(t *testing.T) {
			r, lines := mustRead(t, data)
			if len(lines) != 0 || r.Header() != nil {
				t.Errorf("header %q, lines %q", r.Header(), lines)
			}
		})
	}
}

func TestLines(t *testing.T) {
	tests := map[string]struct {
		in   string
		want []string // with line numbers
	}{
		"CR LF":               {event(0) + "\r\n" + event(1) + "\r\n", numbered(1, events(0, 2)...)},
		"no last line end":    {event(0) + "\n" + event(1), numbered(1, events(0, 2)...)},
		"CR at the end":       {event(0) + "\n" + event(1) + "\r", numbered(1, events(0, 2)...)},
		"blank lines":         {"\n" + event(0) + "\n\n \t\n" + event(1) + "\n\n", []string{"2 " + event(0), "5 " + event(1)}},
		"white space around":  {" \t" + event(0) + "  \n\t" + event(1) + " \r\n", numbered(1, events(0, 2)...)},
		"CR inside":           {"{\"type\":\"t\",\r\"data\":0}\n", []string{"1 {\"type\":\"t\",\r\"data\":0}"}},
		"without seq":         {`{"type":"a","data":1}` + "\n" + `{"type":"b","data":1}` + "\n", []string{`1 {"type":"a","data":1}`, `2 {"type":"b","data":1}`}},
		"seq from the middle": {event(70) + "\n" + event(71) + "\n", numbered(1, events(70, 72)...)},
		"seq after none":      {`{"type":"a","data":1}` + "\n" + event(5) + "\n", []string{`1 {"type":"a","data":1}`, "2 " + event(5)}},
		"no event at all":     {`{"silly":"this"}` + "\n", []string{`1 {"silly":"this"}`}},
		"surrogates":          {`{"type":"t","data":"\ud800\udc00\udfff","data":2}` + "\n", []string{`1 {"type":"t","data":"\ud800\udc00\udfff","data":2}`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for i, data := range [][]byte{[]byte(tt.in), frames(t, tt.in), frames(t, tt.in[:len(tt.in)/2], tt.in[len(tt.in)/2:])} {
				_, got, err := readAll(t, data, Options{})
				if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
					t.Errorf("form %d: error %v, -want +got:\n%s", i, err, diff)
				}
			}
		})
	}
}

func TestFlawedLines(t *testing.T) {
	deep := `{"type":"t","data":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`
	tests := map[string]struct {
		line   string
		kind   error
		reason string
	}{
		"number":         {`42`, segment.ErrInvalidEvent, "not a JSON object: 42"},
		"string":         {`"massive error"`, segment.ErrInvalidEvent, "not a JSON object"},
		"array":          {`[1]`, segment.ErrInvalidEvent, "not a JSON object"},
		"text":           {`hello`, segment.ErrCorrupt, "not JSON: hello"},
		"two numbers":    {`1 2`, segment.ErrCorrupt, "not JSON: 1 2"},
		"two objects":    {`{"type":"t"} {"type":"t"}`, segment.ErrCorrupt, "the object ends at byte 12"},
		"comma":          {`{"type":"t","data":1},`, segment.ErrCorrupt, "the line goes on: ,"},
		"trailing comma": {`{"type":"t","data":1,}`, segment.ErrCorrupt, "not JSON"},
		"cut":            {`{"type":"t","data":{"a":1}`, segment.ErrCorrupt, "ends too early"},
		"not UTF-8":      {"{\"type\":\"t\",\"data\":\"a\xff\"}", segment.ErrCorrupt, "invalid UTF-8"},
		"terminal":       {"\x1b[31mred\u202e", segment.ErrCorrupt, "not JSON: ?[31mred?"},
		"long":           {strings.Repeat("é", 3000), segment.ErrCorrupt, "not JSON: " + strings.Repeat("é", 20) + "…"},
		"deep":           {deep, segment.ErrCorrupt, "depth"},
		"second header":  {testHeader, segment.ErrInvalidEvent, "a second session header"},
		"two types":      {`{"type":"a","type":"b","data":1}`, segment.ErrInvalidEvent, "type occurs twice"},
		"seq again":      {event(1), segment.ErrSeqMismatch, "seq 1 follows seq 1 of line 3; 2 is due"},
		"seq gap":        {event(3), segment.ErrSeqMismatch, "seq 3 follows seq 1 of line 3; 2 is due"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			text := file(testHeader, event(0), event(1), tt.line, event(2))
			for _, data := range [][]byte{text, frames(t, string(text))} {
				_, got, err := readAll(t, data, Options{})
				wantLineError(t, err, tt.kind, 4, tt.reason)
				if len(got) != 2 {
					t.Errorf("%d events before it, want 2", len(got))
				}
				if strings.ContainsAny(err.Error(), "\x1b\u202e") {
					t.Errorf("error is not safe to print: %q", err)
				}
			}
		})
	}
	t.Run("on line 1", func(t *testing.T) {
		_, _, err := readAll(t, file("oops", event(0)), Options{})
		wantLineError(t, err, segment.ErrCorrupt, 1, "not JSON: oops")
	})
}

func TestTornPlain(t *testing.T) {
	text := file(testHeader, event(0), event(1))
	header := len(testHeader) + 1
	second := header + len(event(0)) + 1
	for n := range len(text) {
		data := text[:n]
		_, got, err := readAll(t, data, Options{})
		line, whole := 1, 0
		switch {
		case n >= second:
			line, whole = 3, 1
		case n >= header:
			line = 2
		}
		// A line without its LF, or the beginning of a line, is not torn.
		ok := n == 0 || n == header || n == second || n == header-1 || n == second-1 || n == len(text)-1
		switch {
		case !ok:
			wantLineError(t, err, ErrTorn, line, "")
			if len(got) != whole {
				t.Errorf("cut at %d: %d events, want %d", n, len(got), whole)
			}
		case err != nil:
			t.Errorf("cut at %d: %v", n, err)
		}
		r, saved, err := readAll(t, data, Options{Salvage: SalvageTorn})
		if diff := cmp.Diff(got, saved); diff != "" || err != nil {
			t.Errorf("cut at %d: %v, -read +salvaged:\n%s", n, err, diff)
		}
		if ok {
			wantDrops(t, r)
			continue
		}
		begin := []int{0, 0, header, second}[line]
		wantDrops(t, r, Drop{Line: line, Lines: 1, Bytes: int64(n - begin)})
	}
}

func TestMaxLine(t *testing.T) {
	fits := `{"type":"t","data":"` + strings.Repeat("x", 78) + `"}`
	for _, tail := range []string{"\n", "", "\n" + fits + "\n"} {
		_, got, err := readAll(t, []byte(fits+tail), Options{MaxLine: 100})
		if err != nil || len(got) == 0 {
			t.Errorf("%d bytes: %v", len(fits), err)
		}
		for _, long := range []string{fits + " ", fits[:50] + strings.Repeat(" ", 400<<10) + fits[50:]} {
			data := []byte(fits + "\n" + long + tail)
			_, got, err = readAll(t, data, Options{MaxLine: 100})
			wantLineError(t, err, segment.ErrTooLarge, 2, "more than 100 bytes")
			if len(got) != 1 {
				t.Errorf("%d events before it", len(got))
			}
			r, _, err := readAll(t, data, Options{MaxLine: 100, Salvage: SalvagePrefix})
			if err != nil {
				t.Error(err)
			}
			lines := max(1, strings.Count(string(data), "\n")-1)
			wantDrops(t, r, Drop{Line: 2, Lines: lines, Bytes: int64(len(data) - len(fits) - 1)})
		}
	}
	if _, err := NewReader(strings.NewReader(""), Options{MaxLine: -1}); err == nil {
		t.Error("a negative limit was accepted")
	}
}

func TestLongLinesAcrossBuffers(t *testing.T) {
	var lines []string
	for i := range 60 {
		pad := strings.Repeat("x", i*i*97%300_000)
		lines = append(lines, fmt.Sprintf(`{"type":"t","seq":%d,"time":0,"data":%q}`, i, pad))
	}
	text := file(lines...)
	for name, r := range map[string]io.Reader{
		"at once":        bytes.NewReader(text),
		"one by one":     iotest.OneByteReader(bytes.NewReader(text)),
		"halves":         iotest.HalfReader(bytes.NewReader(text)),
		"data with EOF":  iotest.DataErrReader(bytes.NewReader(text)),
		"zstd by single": iotest.OneByteReader(bytes.NewReader(frames(t, string(text[:9999]), string(text[9999:])))),
	} {
		rd, err := NewReader(r, Options{})
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for line, err := range rd.Events() {
			if err != nil || string(line.Bytes) != lines[i] || line.LineNo != i+1 {
				t.Fatalf("%s: line %d is %d bytes with number %d, %v", name, i+1, len(line.Bytes), line.LineNo, err)
			}
			i++
		}
		if i != len(lines) {
			t.Errorf("%s: %d lines, want %d", name, i, len(lines))
		}
	}
}

// What the input's reader says is neither a flaw of the file nor an end.
func TestReaderErrors(t *testing.T) {
	boom := errors.New("boom")
	text := file(append([]string{testHeader}, events(0, 300)...)...)
	for name, data := range map[string][]byte{"plain": text, "zstd": frames(t, string(text))} {
		for _, fail := range []error{boom, io.ErrUnexpectedEOF} {
			for _, n := range []int{0, 2, 70, len(data) / 2, len(data) - 1, len(data)} {
				in := io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(fail))
				r, err := NewReader(in, Options{Salvage: SalvagePrefix})
				if err == nil {
					for _, err = range r.Events() {
						if err != nil {
							break
						}
					}
				}
				var flawed *LineError
				if !errors.Is(err, fail) || errors.As(err, &flawed) || !strings.Contains(err.Error(), "reading line ") {
					t.Errorf("%s, %v after %d bytes: %v", name, fail, n, err)
				}
			}
		}
	}
}

func TestEventsIsForOneUse(t *testing.T) {
	r, err := NewReader(bytes.NewReader(file(events(0, 3)...)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range r.Events() {
		break
	}
	for line, err := range r.Events() {
		if err == nil {
			t.Errorf("yielded %q again", line.Bytes)
		}
	}
}

func TestSalvagePrefixReadsOn(t *testing.T) {
	first := `{"bad`
	lines := append(events(0, 2), first)
	for i := range 5000 {
		lines = append(lines, event(i))
	}
	data := append(file(lines...), `{"torn`...)
	r, got, err := readAll(t, data, Options{Salvage: SalvagePrefix})
	if err != nil || len(got) != 2 {
		t.Errorf("%d events, %v", len(got), err)
	}
	wantDrops(t, r, Drop{Line: 3, Lines: 5002, Bytes: int64(len(data) - bytes.Index(data, []byte(first)))})
}

// Looking for a whole event in a line that is not JSON must not take the square
// of its length.
func TestHostileLinesTakeNoSquare(t *testing.T) {
	const n = 1 << 16
	for name, line := range map[string]string{
		"nested":  strings.Repeat(`{"a":`, n),
		"flat":    `{` + strings.Repeat(`{"a":1}`, n),
		"strings": strings.Repeat(`{"`, n),
		"accents": strings.Repeat(`{"é`, n) + "\xff",
		"closed":  `{` + strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat(`}`, 5000),
	} {
		start := time.Now()
		_, _, err := readAll(t, file(line), Options{})
		wantLineError(t, err, segment.ErrCorrupt, 1, "")
		if d := time.Since(start); d > time.Minute {
			t.Errorf("%s took %v", name, d)
		}
	}
}
