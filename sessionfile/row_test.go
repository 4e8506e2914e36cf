package sessionfile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/segment"
)

const member = `{"type":"assistant/chunk","seq":%d,"time":%d,"data":{"turn":1,"step":2,"chunk":{"type":%s}}}`

func TestRowsExpand(t *testing.T) {
	tests := map[string]struct {
		row  string
		want []string
	}{
		"text": {
			`{"type":"text-chunks","seq0":7,"time0":100,"data":{"turn":1,"step":2,"index":0,"dt":[5,-20,0],"texts":["a","","\n\"c\"","d"]}}`,
			[]string{
				fmt.Sprintf(member, 7, 100, `"text-delta","index":0,"text":"a"`),
				fmt.Sprintf(member, 8, 105, `"text-delta","index":0,"text":""`),
				fmt.Sprintf(member, 9, 85, `"text-delta","index":0,"text":"\n\"c\""`),
				fmt.Sprintf(member, 10, 85, `"text-delta","index":0,"text":"d"`),
			},
		},
		"reasoning, one member": {
			`{"type":"reasoning-chunks","seq0":0,"time0":-1,"data":{"turn":1,"step":2,"index":3,"dt":[],"texts":["x"]}}`,
			[]string{fmt.Sprintf(member, 0, -1, `"reasoning-delta","index":3,"text":"x"`)},
		},
		"tool call": {
			`{"type":"tool-call-chunks","seq0":7,"time0":0,"data":{"turn":1,"step":2,"index":1,"dt":[1],"id":"c\u0031","name":"bash","args":["{\"a","\":1}"]}}`,
			[]string{
				fmt.Sprintf(member, 7, 0, `"tool-call-delta","index":1,"id":"c\u0031","name":"bash","argumentsDelta":"{\"a"`),
				fmt.Sprintf(member, 8, 1, `"tool-call-delta","index":1,"id":"c\u0031","name":"bash","argumentsDelta":"\":1}"`),
			},
		},
		"tool call without a name": {
			`{"type":"tool-call-chunks","seq0":7,"time0":0,"data":{"turn":1,"step":2,"index":1,"dt":[],"id":"","args":[""]}}`,
			[]string{fmt.Sprintf(member, 7, 0, `"tool-call-delta","index":1,"id":"","argumentsDelta":""`)},
		},
		"literals as they are": {
			`{"type":"text-chunks","seq0":7,"time0":0,"data":{"turn":1,"step":2,"index":0,"dt":[0,0],"texts":["\ud800","\/\u003c<` + "\u2028" + `","日本 🎉\ud83c\udf89"]}}`,
			[]string{
				fmt.Sprintf(member, 7, 0, `"text-delta","index":0,"text":"\ud800"`),
				fmt.Sprintf(member, 8, 0, `"text-delta","index":0,"text":"\/\u003c<`+"\u2028"+`"`),
				fmt.Sprintf(member, 9, 0, `"text-delta","index":0,"text":"日本 🎉\ud83c\udf89"`),
			},
		},
		"another order, white space and escapes": {
			` { "data" : {"te\u0078ts" : [ "a" , "]," ] ,"dt":[ 1 ],"index":0,"step":2,"turn":1 } , "time0":5,"seq0":7, "type":"text\u002dchunks" } `,
			[]string{
				fmt.Sprintf(member, 7, 5, `"text-delta","index":0,"text":"a"`),
				fmt.Sprintf(member, 8, 6, `"text-delta","index":0,"text":"],"`),
			},
		},
		"at the bounds": {
			`{"type":"text-chunks","seq0":9007199254740990,"time0":-9007199254740991,"data":{"turn":1,"step":2,"index":0,"dt":[9007199254740991],"texts":["a","b"]}}`,
			[]string{
				fmt.Sprintf(member, 9007199254740990, -9007199254740991, `"text-delta","index":0,"text":"a"`),
				fmt.Sprintf(member, 9007199254740991, 0, `"text-delta","index":0,"text":"b"`),
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, lines := mustRead(t, file(tt.row))
			if diff := cmp.Diff(tt.want, lines); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for _, line := range lines {
				if _, err := segment.ParseEvent([]byte(line), segment.Limits{}); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		})
	}
}

func TestMalformedRows(t *testing.T) {
	const (
		good = `{"type":"text-chunks","seq0":1,"time0":100,"data":{"turn":1,"step":2,"index":0,"dt":[5],"texts":["a","b"]}}`
		tool = `{"type":"tool-call-chunks","seq0":1,"time0":100,"data":{"turn":1,"step":2,"index":0,"dt":[5],"id":"c","name":"n","args":["a","b"]}}`
	)
	tests := map[string]struct{ row, old, new, reason string }{
		"an event":            {good, `"seq0":1,"time0":100`, `"seq":1,"time":100`, `it has a member "seq"`},
		"no seq0":             {good, `"seq0":1,`, ``, "seq0 is missing"},
		"no time0":            {good, `"time0":100,`, ``, "time0 is missing"},
		"no data":             {good, `,"data":{"turn":1,"step":2,"index":0,"dt":[5],"texts":["a","b"]}`, ``, "data is missing"},
		"envelope extras":     {good, `"seq0"`, `"ignorable":true,"seq0"`, `it has a member "ignorable"`},
		"twice":               {good, `"seq0":1`, `"seq0":1,"seq0":1`, "seq0 occurs twice"},
		"twice inside":        {good, `"turn":1`, `"turn":1,"tur\u006e":1`, "turn occurs twice"},
		"case":                {good, `"seq0"`, `"Seq0"`, "it has a member"},
		"data is an array":    {good, `{"turn":1,"step":2,"index":0,"dt":[5],"texts":["a","b"]}`, `[]`, "data is not an object"},
		"negative seq0":       {good, `"seq0":1`, `"seq0":-1`, "seq0 is not a plain integer"},
		"fractional time0":    {good, `"time0":100`, `"time0":100.0`, "time0 is not a plain integer"},
		"exponent":            {good, `"time0":100`, `"time0":1e2`, "time0 is not a plain integer"},
		"minus zero":          {good, `"time0":100`, `"time0":-0`, "time0 is not a plain integer"},
		"string for number":   {good, `"turn":1`, `"turn":"1"`, "turn is not a plain integer"},
		"negative index":      {good, `"index":0`, `"index":-1`, "index is not a plain integer"},
		"no step":             {good, `"step":2,`, ``, "step is missing"},
		"no dt":               {good, `"dt":[5],`, ``, "dt is missing"},
		"dt is a number":      {good, `"dt":[5]`, `"dt":5`, "are arrays"},
		"too few gaps":        {good, `"dt":[5]`, `"dt":[]`, "2 members need 1 gaps, not 0"},
		"too many gaps":       {good, `"dt":[5]`, `"dt":[5,6]`, "2 members need 1 gaps, not 2"},
		"fractional gap":      {good, `"dt":[5]`, `"dt":[0.5]`, "gap 0 is not a plain integer"},
		"null gap":            {good, `"dt":[5]`, `"dt":[null]`, "gap 0 is not a plain integer"},
		"nested gap":          {good, `"dt":[5]`, `"dt":[[5]]`, "gap 0 is not a plain integer"},
		"object gap":          {good, `"dt":[5]`, `"dt":[{"a":[1,2]}]`, "gap 0 is not a plain integer"},
		"gap as string":       {good, `"dt":[5]`, `"dt":["5"]`, "gap 0 is not a plain integer"},
		"time out of bounds":  {good, `"dt":[5]`, `"dt":[9007199254740991]`, "gap 0 is not a plain integer"},
		"seq out of bounds":   {good, `"seq0":1`, `"seq0":9007199254740991`, "beyond 2^53-1"},
		"no members":          {good, `"dt":[5],"texts":["a","b"]`, `"dt":[],"texts":[]`, "it has no members"},
		"text is a number":    {good, `"b"`, `2`, "member 1 is not a string"},
		"text is an array":    {good, `"a","b"`, `["a","b"]`, "member 0 is not a string"},
		"texts is a string":   {good, `["a","b"]`, `"ab"`, "are arrays"},
		"args in text":        {good, `"texts"`, `"args"`, `it has a member "args"`},
		"id in text":          {good, `"dt"`, `"id":"x","dt"`, `it has a member "id"`},
		"texts in tool call":  {tool, `"args"`, `"texts"`, `it has a member "texts"`},
		"no id":               {tool, `"id":"c",`, ``, "id is missing"},
		"id is null":          {tool, `"id":"c"`, `"id":null`, "id is not a string"},
		"name is null":        {tool, `"name":"n"`, `"name":null`, "name is not a string"},
		"no args":             {tool, `,"args":["a","b"]`, ``, "args is missing"},
		"terminal characters": {good, `"seq0"`, `"\u001b[2J":1,"seq0"`, `it has a member`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(tt.row, tt.old, tt.new, 1)
			if bad == tt.row {
				t.Fatal("the row did not change")
			}
			_, got, err := readAll(t, file(event(0), bad, event(3)), Options{})
			wantLineError(t, err, segment.ErrInvalidEvent, 2, tt.reason)
			if !strings.Contains(err.Error(), "malformed te") && !strings.Contains(err.Error(), "malformed tool-call-chunks") || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("error is %q", err)
			}
			if len(got) != 1 {
				t.Errorf("%d lines before it", len(got))
			}
		})
	}
	if _, lines := mustRead(t, file(event(0), good, event(3))); len(lines) != 4 {
		t.Errorf("the good row gives %d lines", len(lines))
	}
	if _, lines := mustRead(t, file(event(0), tool, event(3))); len(lines) != 4 {
		t.Errorf("the good tool row gives %d lines", len(lines))
	}
}

// A row has no upper bound on its members, and reading it takes no memory per
// member.
func TestLongRow(t *testing.T) {
	const n = 200_000
	row := `{"type":"reasoning-chunks","seq0":0,"time0":0,"data":{"turn":1,"step":2,"index":0,"dt":[` +
		strings.Repeat("1,", n-2) + `1],"texts":[` + strings.Repeat(`"ab",`, n-1) + `"z"]}}`
	r, err := NewReader(strings.NewReader(row), Options{})
	if err != nil {
		t.Fatal(err)
	}
	i, last := 0, ""
	for line, err := range r.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if i++; i == n {
			last = string(line.Bytes)
		}
	}
	if want := fmt.Sprintf(member, n-1, n-1, `"reasoning-delta","index":0,"text":"z"`); i != n || last != want {
		t.Errorf("%d members, the last one %s", i, last)
	}
}

// The fast way must accept nothing that the strict one refuses, and agree on
// what it finds.
func TestParseDeltaIsExact(t *testing.T) {
	good := []string{
		textDelta(0, 0, `"a"`),
		textDelta(9007199254740991, -9007199254740991, `"\\\"\/\b\f\n\r\t\u00e9\uD800é日🎉"`),
		fmt.Sprintf(member, 7, 0, `"tool-call-delta","index":1,"id":"c","name":"","argumentsDelta":"{"`),
		fmt.Sprintf(member, 7, 0, `"tool-call-delta","index":1,"id":"c","argumentsDelta":"{"`),
	}
	for _, line := range good {
		d, ok := parseDelta([]byte(line))
		if !ok {
			t.Errorf("refused %s", line)
			continue
		}
		if got := string(d.appendLine(nil)); got != line {
			t.Errorf("%s became %s", line, got)
		}
	}
	base := textDelta(1, 2, `"a"`)
	bad := map[string]string{
		"big seq":        strings.Replace(base, `"seq":1`, `"seq":9007199254740992`, 1),
		"huge seq":       strings.Replace(base, `"seq":1`, `"seq":99999999999999999999`, 1),
		"negative seq":   strings.Replace(base, `"seq":1`, `"seq":-1`, 1),
		"leading zero":   strings.Replace(base, `"seq":1`, `"seq":01`, 1),
		"minus zero":     strings.Replace(base, `"time":2`, `"time":-0`, 1),
		"fraction":       strings.Replace(base, `"time":2`, `"time":2.0`, 1),
		"no number":      strings.Replace(base, `"time":2`, `"time":-`, 1),
		"negative turn":  strings.Replace(base, `"turn":1`, `"turn":-1`, 1),
		"space":          strings.Replace(base, `,"time"`, `, "time"`, 1),
		"extra":          strings.Replace(base, `}}}`, `}},"ignorable":true}`, 1),
		"extra in chunk": strings.Replace(base, `"text":"a"`, `"text":"a","x":1`, 1),
		"order":          strings.Replace(base, `"turn":1,"step":2`, `"step":2,"turn":1`, 1),
		"text as null":   strings.Replace(base, `"text":"a"`, `"text":null`, 1),
		"bad escape":     strings.Replace(base, `"a"`, `"\x"`, 1),
		"bad hex":        strings.Replace(base, `"a"`, `"\u00g0"`, 1),
		"short hex":      strings.Replace(base, `"a"`, `"\u00"`, 1),
		"control":        strings.Replace(base, `"a"`, "\"\t\"", 1),
		"not UTF-8":      strings.Replace(base, `"a"`, "\"\xff\"", 1),
		"surrogate half": strings.Replace(base, `"a"`, "\"\xed\xa0\x80\"", 1),
		"open string":    strings.Replace(base, `"a"}}}`, `"a`, 1),
		"behind":         base + " ",
		"block":          strings.Replace(base, `"type":"text-delta"`, `"type":"block-start"`, 1),
		"empty":          "",
	}
	for name, line := range bad {
		if line == base {
			t.Fatalf("%s did not change", name)
		}
		if _, ok := parseDelta([]byte(line)); ok {
			t.Errorf("%s: accepted %s", name, line)
		}
	}
	for n := range len(base) {
		if _, ok := parseDelta([]byte(base[:n])); ok {
			t.Errorf("accepted %s", base[:n])
		}
	}
}
