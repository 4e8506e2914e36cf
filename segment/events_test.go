package segment_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/segment"
)

// parse fails the test unless line is a valid stored line.
func parse(t *testing.T, line string) segment.Event {
	t.Helper()
	e, err := segment.ParseEvent([]byte(line), segment.Limits{})
	if err != nil {
		t.Fatalf("ParseEvent(%.80q): %v", line, err)
	}
	return e
}

// assign fails the test unless raw is accepted, and returns the event at seq.
func assign(t *testing.T, raw string, seq, now int64) segment.Event {
	t.Helper()
	p, err := segment.Prepare([]byte(raw), now, segment.Limits{})
	if err != nil {
		t.Fatalf("Prepare(%.80q): %v", raw, err)
	}
	e, err := p.Assign(seq)
	if err != nil {
		t.Fatalf("Assign(%d) of %.80q: %v", seq, raw, err)
	}
	return e
}

// refused fails the test unless err is an *EventError of that class whose
// reason contains the text.
func refused(t *testing.T, err, class error, reason string) *segment.EventError {
	t.Helper()
	ee, ok := errors.AsType[*segment.EventError](err)
	if !ok {
		t.Fatalf("got error %v, want an *EventError", err)
	}
	if !errors.Is(err, class) || !strings.Contains(ee.Reason, reason) {
		t.Fatalf("got error %q, want %q with reason %q", err, class, reason)
	}
	return ee
}

// withData is a stored line with this data.
func withData(data string) string { return `{"type":"a/b","seq":0,"time":1,"data":` + data + `}` }

func TestParseEvent(t *testing.T) {
	for _, tt := range []struct {
		name, line, data string
		want             segment.Event
	}{
		{"plain", `{"type":"a/b","seq":3,"time":17,"data":{"x":1}}`, `{"x":1}`, segment.Event{Type: "a/b", Seq: 3, Time: 17}},
		{"other order", `{"data":[1, 2],"time":17,"type":"a/b","seq":3}`, `[1, 2]`, segment.Event{Type: "a/b", Seq: 3, Time: 17}},
		{"null data", `{"type":"a","seq":0,"time":0,"data":null}`, `null`, segment.Event{Type: "a"}},
		{"negative time", `{"type":"a","seq":0,"time":-1,"data":0}`, `0`, segment.Event{Type: "a", Time: -1}},
		{"extremes", `{"type":"a","seq":9007199254740991,"time":-9007199254740991,"data":""}`, `""`, segment.Event{Type: "a", Seq: segment.MaxSeq, Time: -segment.MaxSeq}},
		{"ignorable", `{"type":"a","seq":0,"time":0,"data":0,"ignorable":true}`, `0`, segment.Event{Type: "a", Ignorable: true}},
		{"surface members are not ours", `{"type":"a","seq":0,"time":0,"data":0,"sourceEventSeqs":"no list","surfaceOp":{"op":7}}`, `0`, segment.Event{Type: "a"}},
		{"escaped names", `{"t\u0079pe":"\u0061/b","\u0073eq":0,"time":1,"data":0}`, `0`, segment.Event{Type: "a/b", Time: 1}},
		{"type beyond ASCII", `{"type":"é\ud83d\ude00\u0000","seq":0,"time":0,"data":0}`, `0`, segment.Event{Type: "é😀\x00"}},
		{"white space inside", "{\t\"type\" : \"a\" ,\r\"seq\": 0 , \"time\":0,\"data\": { } }", `{ }`, segment.Event{Type: "a"}},
		{"data looks like an envelope", `{"type":"a","seq":1,"time":2,"data":{"seq":1.5,"Type":2,"type":3,"type":4}}`, `{"seq":1.5,"Type":2,"type":3,"type":4}`, segment.Event{Type: "a", Seq: 1, Time: 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.Line, tt.want.Data = []byte(tt.line), []byte(tt.data)
			if diff := cmp.Diff(tt.want, parse(t, tt.line)); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
		})
	}
}

type invalidEvent struct{ name, line, typ, reason string }

// invalidEvents are refused by ParseEvent and by Prepare for the same reason.
var invalidEvents = slices.Concat([]invalidEvent{
	{"empty", ``, "", "empty line"},
	{"no object", `[1]`, "", "not a JSON object"},
	{"a string", `"type"`, "", "not a JSON object"},
	{"cut off", `{"type":"a","seq":0`, "a", "ends too early"},
	{"cut off in a name", `{"type":"a","se`, "a", "ends too early"},
	{"only a brace", `{`, "", "ends too early"},
	{"no comma", `{"type":"a" "seq":0}`, "a", "not JSON: "},
	{"comma at the end", `{"type":"a","seq":0,"time":0,"data":0,}`, "a", "not JSON: "},
	{"name without quotes", `{type:"a"}`, "", "not JSON: "},
	{"name is a number", `{1:"a"}`, "", "not JSON: "},
	{"wrong bracket", `{"type":"a","data":[}}`, "a", "not JSON: "},
	{"unknown escape", `{"type":"\x"}`, "", "not JSON: "},
	{"control character in a string", withData("\"\x01\""), "a/b", "not JSON: "},
	{"a second object", withData("0") + withData("0"), "a/b", "the line goes on"},
	{"garbage behind", withData("0") + "x", "a/b", "the line goes on"},
	{"NUL behind", withData("0") + "\x00", "a/b", "the line goes on"},
	{"type missing", `{"seq":0,"time":0,"data":0}`, "", "type is missing"},
	{"data missing", `{"type":"a","seq":0,"time":0}`, "a", "data is missing"},
	{"type empty", `{"type":"","seq":0,"time":0,"data":0}`, "", "type is empty"},
	{"type null", `{"type":null,"seq":0,"time":0,"data":0}`, "", "type is not a string"},
	{"type twice", `{"type":"a","type":"a","data":0}`, "a", "occurs twice"},
	{"type twice, once escaped", `{"type":"a","\u0074ype":"b","data":0}`, "a", "occurs twice"},
	{"data twice", `{"type":"a","data":0,"data":0}`, "a", "occurs twice"},
	{"surfaceOp twice", `{"type":"a","data":0,"surfaceOp":0,"surfaceOp":0}`, "a", "occurs twice"},
	{"another member", `{"type":"a","data":0,"id":1}`, "a", `"id" is not allowed`},
	{"a member without a name", `{"type":"a","":0}`, "a", `"" is not allowed`},
	{"a name with a lone surrogate", `{"type":"a","\ud800":0}`, "a", "is not allowed"},
	{"type with a lone surrogate", `{"type":"a\udfff","data":0}`, "", "lone surrogate"},
	{"ignorable false", `{"type":"a","data":0,"ignorable":false}`, "a", "ignorable is not true"},
	{"ignorable null", `{"type":"a","data":0,"ignorable":null}`, "a", "ignorable is not true"},
	{"ignorable a string", `{"type":"a","data":0,"ignorable":"true"}`, "a", "ignorable is not true"},
},
	withMember("seq", "seq is not a plain integer",
		`-0`, `-01`, `1.0`, `1e3`, `1E0`, `-1`, `9007199254740992`, `99999999999999999999`, `"1"`, `null`, `true`, `[0]`, `{}`),
	withMember("time", "time is not a plain integer",
		`-0`, `1.0`, `-1e3`, `9007199254740992`, `-9007199254740992`, `-99999999999999999`, `"1"`, `null`, `false`),
	withMember("seq", "not JSON: ", `+1`, `01`, `.5`, `1.`, `0x1`, `NaN`, `-`),
)

func withMember(name, reason string, values ...string) []invalidEvent {
	var events []invalidEvent
	for _, v := range values {
		events = append(events, invalidEvent{name + " " + v, `{"type":"a","` + name + `":` + v + `,"data":0}`, "a", reason})
	}
	return events
}

func TestInvalidEvents(t *testing.T) {
	for _, tt := range invalidEvents {
		t.Run(tt.name, func(t *testing.T) {
			_, parseErr := segment.ParseEvent([]byte(tt.line), segment.Limits{})
			_, prepareErr := segment.Prepare([]byte(tt.line), 0, segment.Limits{})
			for _, err := range []error{parseErr, prepareErr} {
				ee := refused(t, err, segment.ErrInvalidEvent, tt.reason)
				if ee.Type != tt.typ || ee.Index != -1 {
					t.Errorf("error speaks of type %q, index %d; want %q and -1", ee.Type, ee.Index, tt.typ)
				}
			}
		})
	}
}

// What a caller may leave out or add must not be in a stored line.
func TestParseEventIsStricterThanPrepare(t *testing.T) {
	for _, tt := range []struct{ name, line, reason string }{
		{"seq missing", `{"type":"a","time":0,"data":0}`, "seq is missing"},
		{"time missing", `{"type":"a","seq":0,"data":0}`, "time is missing"},
		{"newline", "{\"type\":\"a\",\"seq\":0,\"time\":0,\n\"data\":0}", "raw newline at byte 29"},
		{"LF at the end", withData("0") + "\n", "raw newline"},
		{"space in front", " " + withData("0"), "white space before"},
		{"CR at the end", withData("0") + "\r", "the line goes on"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := segment.ParseEvent([]byte(tt.line), segment.Limits{})
			refused(t, err, segment.ErrInvalidEvent, tt.reason)
			if _, err := segment.Prepare([]byte(tt.line), 0, segment.Limits{}); err != nil {
				t.Errorf("Prepare refuses it, too: %v", err)
			}
		})
	}
}

func TestTypeLength(t *testing.T) {
	for _, tt := range []struct {
		name, typ string
		ok        bool
	}{
		{"128 letters", strings.Repeat("x", 128), true},
		{"129 letters", strings.Repeat("x", 129), false},
		{"64 of two bytes", strings.Repeat("é", 64), true},
		{"one more", strings.Repeat("é", 64) + "x", false},
		{"needless escapes do not count", strings.Repeat(`\u0078`, 128), true},
		{"needless escapes of too many", strings.Repeat(`\u0078`, 129), false},
		{"needed short escapes count", strings.Repeat(`\"`, 64), true},
		{"one more quote", strings.Repeat(`\"`, 64) + "x", false},
		{"needed long escapes count", strings.Repeat(`\u0001`, 21), true},
		{"one more control character", strings.Repeat(`\u0001`, 22), false},
		{"line feeds have short escapes", strings.Repeat(`\u000a`, 64), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := segment.ParseEvent([]byte(`{"type":"`+tt.typ+`","seq":0,"time":0,"data":0}`), segment.Limits{})
			if tt.ok && err != nil {
				t.Errorf("refused: %v", err)
			}
			if !tt.ok {
				refused(t, err, segment.ErrInvalidEvent, "more than 128 bytes")
			}
		})
	}
}

func TestEventError(t *testing.T) {
	for _, tt := range []struct {
		err  segment.EventError
		want string
	}{
		{segment.EventError{Index: -1, Reason: "r", Err: segment.ErrInvalidEvent}, `invalid event: r`},
		{segment.EventError{Index: -1, Type: "a/b", Reason: "r", Err: segment.ErrTooLarge}, `too large: type "a/b": r`},
		{segment.EventError{Index: 0, Reason: "r", Err: segment.ErrInvalidEvent}, `invalid event: event 0: r`},
		{segment.EventError{Index: 12, Type: "a\x1b", Reason: "r", Err: segment.ErrSeqMismatch}, `seq does not fit: event 12, type "a\x1b": r`},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
		if !errors.Is(&tt.err, tt.err.Err) {
			t.Errorf("%q does not match %q", &tt.err, tt.err.Err)
		}
	}
}

// Reasons end up on terminals and in logs: short, and nothing that acts.
func TestReasonsAreShortAndPrintable(t *testing.T) {
	hostile := "\x7f\u202e\u009b31m" + strings.Repeat("é", 200)
	for _, line := range []string{
		`{"` + hostile + `":0}`,
		`{"type":["` + hostile + `",` + "\r\t" + `1]}`,
		`{"type":"` + hostile + `"}`,
		`{"type":"a","seq":"` + hostile + `"}`,
		`{"type":"a","time":"` + hostile + `"}`,
		`{"type":"a","ignorable":"` + hostile + `"}`,
		`{"type":"a","data":{"` + hostile + `":` + "\x1b" + `}}`,
		`{"type":"a",` + "\u202e" + `}`,
	} {
		_, err := segment.ParseEvent([]byte(line), segment.Limits{})
		ee := refused(t, err, segment.ErrInvalidEvent, "")
		if len(ee.Reason) > 300 {
			t.Errorf("reason has %d bytes: %q", len(ee.Reason), ee.Reason)
		}
		if i := strings.IndexFunc(ee.Reason, func(c rune) bool { return !unicode.IsPrint(c) }); i >= 0 {
			t.Errorf("reason holds what is not printable: %q", ee.Reason)
		}
	}
}

func TestLimits(t *testing.T) {
	line := []byte(withData(`"0123456789"`))
	if _, err := segment.ParseEvent(line, segment.Limits{MaxEvent: len(line)}); err != nil {
		t.Errorf("a line of the greatest size: %v", err)
	}
	lim := segment.Limits{MaxEvent: len(line) - 1}
	_, err := segment.ParseEvent(line, lim)
	refused(t, err, segment.ErrTooLarge, fmt.Sprintf("%d bytes as stored, at most %d", len(line), len(line)-1))
	_, err = segment.Prepare(line, 0, lim)
	refused(t, err, segment.ErrTooLarge, fmt.Sprintf("%d bytes as stored, at most %d", len(line), len(line)-1))
}

// The greatest line must be readable again after seq and time were inserted, so
// their room counts when an event is prepared; what is not stored does not.
func TestSizeCountsWhatIsStored(t *testing.T) {
	complete := withData("0")
	lim := segment.Limits{MaxEvent: len(complete)}
	for _, tt := range []struct {
		name, raw string
		lim       segment.Limits
		ok        bool
	}{
		{"white space around", "  \r\n" + complete + "\t\n", lim, true},
		{"newlines inside", strings.ReplaceAll(complete, ",", "\n\n,\n"), lim, true},
		{"spaces inside", strings.ReplaceAll(complete, ",", " ,"), lim, false},
		{"no room for seq", strings.Replace(complete, `"seq":0,`, "", 1), lim, false},
		{"room for the longest seq", strings.Replace(complete, `"seq":0,`, "", 1), segment.Limits{MaxEvent: len(complete) + 15}, true},
		{"a byte less", strings.Replace(complete, `"seq":0,`, "", 1), segment.Limits{MaxEvent: len(complete) + 14}, false},
		{"room for the time", strings.Replace(complete, `"time":1,`, "", 1), lim, true},
		{"no room for the time", strings.Replace(complete, `"time":1,`, "", 1), segment.Limits{MaxEvent: len(complete) - 1}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := segment.Prepare([]byte(tt.raw), 1, tt.lim)
			if !tt.ok {
				refused(t, err, segment.ErrTooLarge, "")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			seq, given := p.HasSeq()
			if !given {
				seq = segment.MaxSeq
			}
			e, err := p.Assign(seq)
			if err != nil {
				t.Fatal(err)
			}
			if len(e.Line) != p.Size() {
				t.Errorf("line has %d bytes, Size said %d", len(e.Line), p.Size())
			}
			if _, err := segment.ParseEvent(e.Line, tt.lim); err != nil {
				t.Errorf("stored line is refused: %v", err)
			}
		})
	}
}

func TestEventIsPartOfItsLine(t *testing.T) {
	line := []byte(withData(`{"x":1}`))
	e, err := segment.ParseEvent(line, segment.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if &e.Line[0] != &line[0] || &e.Data[0] != &line[bytes.Index(line, e.Data)] {
		t.Error("the event was copied")
	}
	if cap(e.Data) != len(e.Data) {
		t.Error("appending to Data would change the line")
	}
}
