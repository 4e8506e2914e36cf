package segment_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/s3log/s3log/segment"
)

// The tests in this file are named after cases that went wrong elsewhere.

// B-07: a line beyond a scanner's default buffer.
func TestB07LongLines(t *testing.T) {
	for _, size := range []int{65_535, 65_536, 1 << 20, segment.DefaultMaxEvent} {
		line := withData(`"` + strings.Repeat("x", size-len(withData(`""`))) + `"`)
		if len(line) != size {
			t.Fatalf("the test's line has %d bytes, want %d", len(line), size)
		}
		if got := assign(t, line, 0, 0); string(got.Line) != line {
			t.Errorf("a line of %d bytes was changed", size)
		}
		if got := parse(t, line); len(got.Line) != size {
			t.Errorf("a line of %d bytes has %d afterwards", size, len(got.Line))
		}
	}
	line := []byte(withData(`"` + strings.Repeat("x", segment.DefaultMaxEvent+1-len(withData(`""`))) + `"`))
	_, err := segment.Prepare(line, 0, segment.Limits{})
	refused(t, err, segment.ErrTooLarge, "16777217 bytes as stored, at most 16777216")
	_, err = segment.PrepareBatch([][]byte{[]byte(withData("0")), line}, 0, segment.Limits{})
	if ee := refused(t, err, segment.ErrTooLarge, "16777217"); ee.Index != 1 {
		t.Errorf("error names event %d, want 1", ee.Index)
	}
	if _, err := segment.Prepare(line, 0, segment.Limits{MaxEvent: len(line)}); err != nil {
		t.Errorf("a higher limit changes nothing: %v", err)
	}
}

// B-08: a byte order mark made the first record vanish.
func TestB08ByteOrderMark(t *testing.T) {
	for _, space := range []string{"", " "} {
		raw := space + "\ufeff" + withData("0")
		_, err := segment.Prepare([]byte(raw), 0, segment.Limits{})
		refused(t, err, segment.ErrInvalidEvent, "byte order mark")
	}
	if raw := withData("\"\ufeff\""); string(assign(t, raw, 0, 0).Line) != raw {
		t.Error("a byte order mark inside a string is text and must stay")
	}
}

// B-09: a block of NUL bytes ended a log silently.
func TestB09NULBlock(t *testing.T) {
	for _, raw := range []string{strings.Repeat("\x00", 300), withData("0") + strings.Repeat("\x00", 300), withData("\"\x00\"")} {
		_, err := segment.Prepare([]byte(raw), 0, segment.Limits{})
		refused(t, err, segment.ErrInvalidEvent, "")
	}
	if raw := withData(`"\u0000"`); string(assign(t, raw, 0, 0).Line) != raw {
		t.Error("an escaped NUL is text and must stay")
	}
}

// B-10: invalid UTF-8 was replaced.
func TestB10InvalidUTF8(t *testing.T) {
	for _, bad := range []string{"\xff", "\xc3", "\xed\xa0\x80" /* a surrogate */, "\xf4\x90\x80\x80" /* beyond U+10FFFF */, "\xc0\x80" /* overlong */} {
		raw := withData(`"é` + bad + `"`)
		_, err := segment.Prepare([]byte(raw), 0, segment.Limits{})
		refused(t, err, segment.ErrInvalidEvent, fmt.Sprintf("invalid UTF-8 at byte %d", len(`{"type":"a/b","seq":0,"time":1,"data":"é`)))
	}
	if raw := withData(`"` + "\ufffd" + `"`); string(assign(t, raw, 0, 0).Line) != raw {
		t.Error("a replacement character that the caller wrote must stay")
	}
}

// B-11: one lone surrogate made a session unloadable.
func TestB11LoneSurrogate(t *testing.T) {
	for _, data := range []string{`"\ud800"`, `"\udc00\ud800"`, `{"\ud83d":["x\uDE00\\ud800"]}`, `"\ud83d\ude00"`} {
		if raw := withData(data); string(assign(t, raw, 0, 0).Line) != raw || string(parse(t, raw).Data) != data {
			t.Errorf("%s was changed", data)
		}
	}
}

// B-12: two parsers read different values from one object.
func TestB12KeysByCaseAndTwice(t *testing.T) {
	for _, members := range []string{`"seq":1,"Seq":2`, `"SEQ":7`, `"seq":1,"Time":1`, `"Data":1`, `"TYPE":"b"`, `"ſeq":1`} {
		_, err := segment.Prepare([]byte(`{"type":"a",`+members+`,"data":0}`), 0, segment.Limits{})
		refused(t, err, segment.ErrInvalidEvent, "is not allowed")
	}
	for _, members := range []string{`"seq":1,"seq":2`, `"seq":1,"seq":1`, `"seq":1,"s\u0065q":1`, `"time":1,"time":1`} {
		_, err := segment.Prepare([]byte(`{"type":"a",`+members+`,"data":0}`), 0, segment.Limits{})
		refused(t, err, segment.ErrInvalidEvent, "occurs twice")
	}
	const data = `{"seq":1,"Seq":2,"seq":3,"":0,"":0}`
	if got := assign(t, withData(data), 0, 0); string(got.Data) != data {
		t.Errorf("data was changed to %s", got.Data)
	}
}

// B-13: integers were rounded.
func TestB13IntegersAbove2to53(t *testing.T) {
	for _, data := range []string{
		`9007199254740993`, `100000000000000000000000`, `{"id":-9007199254740993}`, `1E400`, `-0`, `0.1000`, `1e-400`,
		strings.Repeat("9", 100_000),
	} {
		if raw := withData(data); string(assign(t, raw, 0, 0).Line) != raw {
			t.Errorf("%.40s was changed", data)
		}
	}
	for _, member := range []string{"seq", "time"} {
		_, err := segment.Prepare([]byte(`{"type":"a","`+member+`":9007199254740993,"data":0}`), 0, segment.Limits{})
		refused(t, err, segment.ErrInvalidEvent, member+" is not a plain integer")
	}
}

// B-14: deep nesting was accepted on write and refused on read.
func TestB14DeepNesting(t *testing.T) {
	nested := func(open, inner, shut string, n int) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(shut, n)
	}
	const most = segment.MaxDepth - 1 // the event's own object is one
	for _, shape := range []struct{ open, inner, shut string }{{"[", "", "]"}, {"[", "0", "]"}, {`{"":`, "0", "}"}, {`[{"x":[0,`, "0", "]}]"}} {
		per := strings.Count(shape.open, "[") + strings.Count(shape.open, "{")
		fits := withData(nested(shape.open, shape.inner, shape.shut, most/per))
		parse(t, fits)
		assign(t, fits, 0, 0)
		if !json.Valid([]byte(fits)) {
			t.Errorf("%s: encoding/json does not read what is accepted", shape.open)
		}
		deeper := withData(nested(shape.open, shape.inner, shape.shut, most/per+1))
		for _, accept := range []func() error{
			func() error { _, err := segment.ParseEvent([]byte(deeper), segment.Limits{}); return err },
			func() error { _, err := segment.Prepare([]byte(deeper), 0, segment.Limits{}); return err },
		} {
			refused(t, accept(), segment.ErrInvalidEvent, "nest more than 10000 deep")
		}
	}
	// Without an end there is nothing to find at that depth; and it must not
	// take the stack either.
	_, err := segment.Prepare([]byte(`{"type":"a","data":`+strings.Repeat("[", 5_000_000)), 0, segment.Limits{})
	refused(t, err, segment.ErrInvalidEvent, "nest more than 10000 deep")
	for member, value := range map[string]string{"surfaceOp": "[", "sourceEventSeqs": "["} {
		line := `{"type":"a","seq":0,"time":0,"data":0,"` + member + `":` + nested(value, "", "]", most+1) + `}`
		_, err := segment.ParseEvent([]byte(line), segment.Limits{})
		refused(t, err, segment.ErrInvalidEvent, "nest more than 10000 deep")
	}
	// Brackets inside strings do not nest.
	parse(t, withData(`"`+strings.Repeat(`[{\"`, 20_000)+`"`))
	_, err = segment.Prepare([]byte(withData(`["`+strings.Repeat(`[{\"`, 20_000)+`"x]`)), 0, segment.Limits{})
	refused(t, err, segment.ErrInvalidEvent, "not JSON: ")
}

// B-15: characters that HTML gives a meaning came back as escapes.
func TestB15HTMLEscaping(t *testing.T) {
	for _, data := range []string{`"<&>"`, `"\u003c\u0026\u003e"`, "\"\u2028\u2029\"", `"\/"`, `"/"`} {
		if raw := withData(data); string(assign(t, raw, 0, 0).Line) != raw {
			t.Errorf("%s was changed", data)
		}
	}
}

// B-16: maps gave keys another order.
func TestB16KeyOrder(t *testing.T) {
	for _, raw := range []string{
		`{"data":{"b":1,"a":2,"10":0,"9":0},"time":1,"type":"a","seq":0}`,
		`{"time":1,"ignorable":true,"surfaceOp":"append","sourceEventSeqs":[ 2,1 ],"data":{"b":1,"a":2},"seq":0,"type":"a"}`,
	} {
		if got := assign(t, raw, 0, 0); string(got.Line) != raw {
			t.Errorf("got  %s\nwant %s", got.Line, raw)
		}
	}
}

// B-17: a torn line and the next one were taken for one record.
func TestB17TornLine(t *testing.T) {
	for _, raw := range []string{`{"seq":4,"ty` + withData("0"), `{"seq":4,"ty` + "\n" + withData("0"), withData("0") + "\n" + withData("0")} {
		_, err := segment.Prepare([]byte(raw), 0, segment.Limits{})
		refused(t, err, segment.ErrInvalidEvent, "")
	}
}
