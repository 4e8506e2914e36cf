package segment_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/segment"
)

// reference reads an event with encoding/json, slowly and without any code of
// the package. It cannot judge texts whose strings hold a replacement character
// after decoding: encoding/json puts it where a lone surrogate was.
func reference(text []byte) (e segment.Event, hasSeq, hasTime, ok, undecided bool) {
	fail := func() (segment.Event, bool, bool, bool, bool) { return segment.Event{}, false, false, false, undecided }
	if !utf8.Valid(text) || !json.Valid(text) || text[0] != '{' || text[len(text)-1] != '}' {
		return fail()
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if _, err := dec.Token(); err != nil {
		return fail()
	}
	members := make(map[string]json.RawMessage)
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return fail()
		}
		if _, twice := members[name.(string)]; twice {
			return fail()
		}
		members[name.(string)] = value
	}
	for name, value := range members {
		switch name {
		case "type":
			if json.Unmarshal(value, &e.Type) != nil || value[0] != '"' || e.Type == "" {
				return fail()
			}
			undecided = strings.ContainsRune(e.Type, utf8.RuneError)
			var shortest bytes.Buffer
			enc := json.NewEncoder(&shortest)
			enc.SetEscapeHTML(false)
			if enc.Encode(e.Type) != nil {
				return fail()
			}
			// encoding/json escapes two characters that need no escape.
			text := strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(strings.TrimSpace(shortest.String()))
			if len(text)-2 > 128 {
				return fail()
			}
		case "seq":
			if e.Seq, hasSeq = referenceInteger(value); !hasSeq || e.Seq < 0 {
				return fail()
			}
		case "time":
			if e.Time, hasTime = referenceInteger(value); !hasTime {
				return fail()
			}
		case "data":
			e.Data = value
		case "ignorable":
			if e.Ignorable = string(value) == "true"; !e.Ignorable {
				return fail()
			}
		case "sourceEventSeqs", "surfaceOp":
		default:
			return fail()
		}
	}
	e.Line = text
	return e, hasSeq, hasTime, e.Type != "" && e.Data != nil, undecided
}

var integer = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

func referenceInteger(value []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil && integer.Match(value) && n >= -(1<<53-1) && n <= 1<<53-1
}

func addEventSeeds(f *testing.F) {
	for _, line := range []string{
		chunkEvent, withoutSeqAndTime, string(assistantMessage(10, 2)), withData(`"\ud800"`), withData("\"\xff\""), withData(`9007199254740993`),
		"{\n \"type\": \"a\",\n \"data\": [1,\n2]\n}\r\n", `{"t\u0079pe":"\u0061","data":{"a":1,"a":2}}`, `{"type":"a","seq":-0,"data":0}`,
		`{"type":"a","data":0,"ignorable":true,"surfaceOp":"append","sourceEventSeqs":[0]}`, "\ufeff" + withData("0"), "\x00", "", " ",
		`{"type":"` + strings.Repeat(`\u0001`, 22) + `","data":0}`, `{"type":"` + strings.Repeat("\u2028", 42) + `","data":0}`,
	} {
		f.Add([]byte(line))
	}
	for _, tt := range invalidEvents {
		f.Add([]byte(tt.line))
	}
}

func checkRefusal(t *testing.T, err error) {
	t.Helper()
	ee, ok := errors.AsType[*segment.EventError](err)
	if !ok || ee.Reason == "" || !errors.Is(err, segment.ErrInvalidEvent) && !errors.Is(err, segment.ErrTooLarge) {
		t.Fatalf("not a proper refusal: %#v", err)
	}
	if !utf8.ValidString(err.Error()) || len(err.Error()) > 1<<10 {
		t.Fatalf("unusable message: %q", err)
	}
}

func FuzzParseEvent(f *testing.F) {
	addEventSeeds(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		given := bytes.Clone(line)
		got, err := segment.ParseEvent(line, segment.Limits{})
		if !bytes.Equal(line, given) {
			t.Fatal("the line was changed")
		}
		want, hasSeq, hasTime, ok, undecided := reference(line)
		ok = ok && hasSeq && hasTime && bytes.IndexByte(line, '\n') < 0
		if err != nil {
			checkRefusal(t, err)
			if ok && !undecided {
				t.Fatalf("refused, although the reference reads it: %v", err)
			}
			return
		}
		if undecided {
			return
		}
		if !ok {
			t.Fatalf("accepted, although the reference refuses it: %+v", got)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("event (-reference +got):\n%s", diff)
		}
		segment.Project(got)
	})
}

func FuzzPrepare(f *testing.F) {
	addEventSeeds(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		given := bytes.Clone(raw)
		p, err := segment.Prepare(raw, -17, segment.Limits{})
		if !bytes.Equal(raw, given) {
			t.Fatal("the caller's bytes were changed")
		}
		trimmed := bytes.Trim(raw, "\r\n\t ")
		want, hasSeq, hasTime, ok, undecided := reference(trimmed)
		if err != nil {
			checkRefusal(t, err)
			if ok && !undecided {
				t.Fatalf("refused, although the reference reads it: %v", err)
			}
			return
		}
		if !ok && !undecided {
			t.Fatalf("accepted, although the reference refuses it: %q", p.Line())
		}
		checkAssigned(t, &p, bytes.ReplaceAll(trimmed, []byte("\n"), nil))
		if !undecided && (p.Type() != want.Type || hasTime && p.Time() != want.Time || hasSeq != second(p.HasSeq())) {
			t.Fatalf("got type %q, time %d; the reference reads %+v", p.Type(), p.Time(), want)
		}
	})
}

func second(_ int64, ok bool) bool { return ok }

// checkAssigned checks what Assign makes of an accepted event whose line,
// before anything is assigned, must be this.
func checkAssigned(t interface {
	Helper()
	Fatalf(string, ...any)
}, p *segment.Pending, line []byte) {
	t.Helper()
	if !bytes.Equal(p.Line(), line) {
		t.Fatalf("Line is %q, want %q", p.Line(), line)
	}
	seq, given := p.HasSeq()
	if !given {
		seq = 1 << 50
	}
	e, err := p.Assign(seq)
	if err != nil {
		t.Fatalf("Assign(%d): %v", seq, err)
	}
	if len(e.Line) > p.Size() || given && len(e.Line) != p.Size() {
		t.Fatalf("the stored line has %d bytes, Size said %d", len(e.Line), p.Size())
	}
	if !json.Valid(e.Line) {
		t.Fatalf("encoding/json does not read %q", e.Line)
	}
	parsed, err := segment.ParseEvent(e.Line, segment.Limits{})
	if err != nil {
		t.Fatalf("the stored line is refused: %v", err)
	}
	if diff := cmp.Diff(parsed, e); diff != "" {
		t.Fatalf("event (-parsed +assigned):\n%s", diff)
	}
	if e.Seq != seq || e.Time != p.Time() || e.Type != p.Type() {
		t.Fatalf("got %+v for seq %d, time %d, type %q", e, seq, p.Time(), p.Type())
	}
	// Taking out what was inserted leaves the caller's line.
	rest := e.Line
	if len(rest) > len(line) {
		cut := len(rest) - len(line)
		at := 0
		for at < len(line) && line[at] == rest[at] {
			at++
		}
		// The insertion may begin like what follows it, so that the common
		// beginning is longer; then it also fits further to the left.
		for !bytes.Equal(line[at:], rest[at+cut:]) {
			if at--; at < 0 {
				t.Fatalf("%q is not %q with something inserted in one place", rest, line)
			}
		}
	}
}
