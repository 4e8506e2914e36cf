package segment

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestAppendString(t *testing.T) {
	for in, want := range map[string]string{
		"":                          `""`,
		"turn/start":                `"turn/start"`,
		"a\"b\\c":                   `"a\"b\\c"`,
		"\b\f\n\r\t":                `"\b\f\n\r\t"`,
		"\x00\x1f\x7f":              `"\u0000\u001f` + "\x7f" + `"`,
		"<b>&'":                     `"<b>&'"`,
		"ü\u2028\u2029😀":            "\"ü\u2028\u2029😀\"",
		"not UTF-8 is replaced\xff": "\"not UTF-8 is replaced\ufffd\"",
	} {
		if got := string(AppendString([]byte("x"), in)); got != "x"+want {
			t.Errorf("%q: got %s, want %s", in, got[1:], want)
		}
	}
}

func TestHashText(t *testing.T) {
	h := Hash(sha256.Sum256(nil))
	const text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if h.String() != text {
		t.Errorf("String: %s", h)
	}
	if b, err := json.Marshal(h); err != nil || string(b) != `"`+text+`"` {
		t.Errorf("MarshalText: %s, %v", b, err)
	}
	var got Hash
	if err := json.Unmarshal([]byte(`"`+text+`"`), &got); err != nil || got != h {
		t.Errorf("UnmarshalText: %v, %v", got, err)
	}
	for _, bad := range []string{"", text[1:], text + "0", strings.ToUpper(text), "g" + text[1:], " " + text[1:]} {
		got := h
		if err := got.UnmarshalText([]byte(bad)); !errors.Is(err, ErrCorrupt) || got != h {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
}

func TestStateJSONGolden(t *testing.T) {
	h := func(s string) Hash { return sha256.Sum256([]byte(s)) }
	tests := []struct {
		got, want string
	}{
		{string(Types{}.AppendJSON(nil)), `{}`},
		{
			string(Types{
				Entries:  []TypeCount{{"turn/start", 2, 0, 9}, {"z\"\n", 0, 0, 0}, {"a", 1, 4, 4}},
				Overflow: &TypeCount{"", 3, 5, 8},
			}.AppendJSON(nil)),
			`{"turn/start":[2,0,9],"z\"\n":[0,0,0],"a":[1,4,4],"":[3,5,8]}`,
		},
		{string(Types{Overflow: &TypeCount{"", 1, 0, 0}}.AppendJSON(nil)), `{"":[1,0,0]}`},
		{string((*Boundary)(nil).AppendJSON(nil)), `null`},
		{string((&Boundary{Seq: 7, Time: -1}).AppendJSON(nil)), `{"seq":7,"time":-1}`},
		{string((*Turn)(nil).AppendJSON(nil)), `null`},
		{string((&Turn{Turn: 3, More: true}).AppendJSON(nil)), `{"turn":3,"step":null,"calls":[],"more":true}`},
		{
			string((&Turn{Turn: 1, Step: new(int64(2)), Calls: []Call{{"x", 2, nil}, {"<ü>", 1, new(int64(0))}}}).AppendJSON(nil)),
			`{"turn":1,"step":2,"calls":[["x",2,null],["<ü>",1,0]],"more":false}`,
		},
		{
			string(NewState().Tree.AppendJSON(nil)),
			`{"size":0,"root":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","range":[]}`,
		},
		{
			string(Tree{Size: 3, Root: h("r"), Range: []Hash{h("a"), h("b")}}.AppendJSON(nil)),
			`{"size":3,"root":"` + h("r").String() + `","range":["` + h("a").String() + `","` + h("b").String() + `"]}`,
		},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("got  %s\nwant %s", tt.got, tt.want)
		}
		if !json.Valid([]byte(tt.got)) {
			t.Errorf("not JSON: %s", tt.got)
		}
	}
}

func TestStateJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		safe := rapid.Int64Range(-MaxSeq, MaxSeq)
		ptr := rapid.Ptr(safe, true)
		hash := rapid.Custom(func(t *rapid.T) Hash {
			return sha256.Sum256(rapid.SliceOf(rapid.Byte()).Draw(t, "hashed"))
		})
		types := Types{
			Entries: rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) TypeCount {
				return TypeCount{
					rapid.StringN(1, 20, -1).Draw(t, "type"),
					safe.Draw(t, "count"), safe.Draw(t, "first"), safe.Draw(t, "last"),
				}
			}), 0, 20, func(c TypeCount) string { return c.Type }).Draw(t, "types"),
			Overflow: rapid.Ptr(rapid.Just(TypeCount{"", 1, 2, 3}), true).Draw(t, "overflow"),
		}
		boundary := rapid.Ptr(rapid.Custom(func(t *rapid.T) Boundary {
			return Boundary{safe.Draw(t, "seq"), safe.Draw(t, "time")}
		}), true).Draw(t, "boundary")
		turn := rapid.Ptr(rapid.Custom(func(t *rapid.T) Turn {
			return Turn{safe.Draw(t, "turn"), ptr.Draw(t, "step"), rapid.SliceOf(rapid.Custom(func(t *rapid.T) Call {
				return Call{rapid.String().Draw(t, "id"), safe.Draw(t, "call step"), ptr.Draw(t, "call seq")}
			})).Draw(t, "calls"), rapid.Bool().Draw(t, "more")}
		}), true).Draw(t, "turn")
		tree := Tree{safe.Draw(t, "size"), hash.Draw(t, "root"), rapid.SliceOfN(hash, 0, maxRange).Draw(t, "range")}

		check := func(got, want any, err error) {
			if err != nil {
				t.Fatalf("%+v: %v", want, err)
			}
			if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("(-want +got):\n%s", d)
			}
		}
		gotTypes, err := ParseTypes(types.AppendJSON(nil))
		check(gotTypes, types, err)
		gotBoundary, err := ParseBoundary(boundary.AppendJSON(nil))
		check(gotBoundary, boundary, err)
		gotTurn, err := ParseTurn(turn.AppendJSON(nil))
		check(gotTurn, turn, err)
		gotTree, err := ParseTree(tree.AppendJSON(nil))
		check(gotTree, tree, err)
	})
}

func TestParseStateStrict(t *testing.T) {
	var many, calls, hashes []string
	for i := range 300 {
		many = append(many, fmt.Sprintf(`"t%d":[0,0,0]`, i))
		calls = append(calls, fmt.Sprintf(`["c%d",1,null]`, i))
		hashes = append(hashes, `"`+Hash{}.String()+`"`)
	}
	zero := Hash{}.String()
	tests := []struct {
		part, raw, says string
	}{
		{"types", ``, "EOF"},
		{"types", `null`, "expected"},
		{"types", `[]`, "expected"},
		{"types", `{"a":[1,2,3]`, "EOF"},
		{"types", `{"a":[1,2,3]}{}`, "follows"},
		{"types", `{"a":[1,2,3]}x`, "invalid"},
		{"types", `{"a":[1,2]}`, "expected"},
		{"types", `{"a":[1,2,3,4]}`, "expected"},
		{"types", `{"a":[1,2,"3"]}`, "expected"},
		{"types", `{"a":[1,2,3.0]}`, "plain integer"},
		{"types", `{"a":[1,2,3e0]}`, "plain integer"},
		{"types", `{"a":[1,2,-0]}`, "plain integer"},
		{"types", `{"a":[1,2,9007199254740992]}`, "plain integer"},
		{"types", `{"a":[1,2,-9007199254740992]}`, "plain integer"},
		{"types", `{"a":[1,2,99999999999999999999]}`, "plain integer"},
		{"types", `{"a":[01,2,3]}`, "invalid"},
		{"types", `{"a":[1,2,3],"a":[1,2,3]}`, "duplicate"},
		{"types", `{"a":[1,2,3],"\u0061":[1,2,3]}`, "duplicate"},
		{"types", `{"":[1,2,3],"a":[1,2,3]}`, "overflow"},
		{"types", `{"\ud800":[1,2,3]}`, "surrogate"},
		{"types", "{\"\xff\":[1,2,3]}", "UTF-8"},
		{"types", `{` + strings.Join(many, ",") + `}`, "more than 256"},
		{"boundary", `{}`, "missing"},
		{"boundary", `{"seq":1}`, "missing"},
		{"boundary", `{"seq":1,"time":2,"more":3}`, "unknown member"},
		{"boundary", `{"seq":1,"Time":2}`, "unknown member"},
		{"boundary", `{"seq":1,"time":null}`, "expected"},
		{"boundary", `null null`, "follows"},
		{"boundary", `"x"`, "expected"},
		{"turn", `{"turn":1,"step":1,"calls":[]}`, "missing"},
		{"turn", `{"turn":null,"step":1,"calls":[],"more":false}`, "expected"},
		{"turn", `{"turn":1,"step":"1","calls":[],"more":false}`, "expected"},
		{"turn", `{"turn":1,"step":1,"calls":null,"more":false}`, "expected"},
		{"turn", `{"turn":1,"step":1,"calls":[],"more":null}`, "expected"},
		{"turn", `{"turn":1,"step":1,"calls":[["x",1]],"more":false}`, "expected"},
		{"turn", `{"turn":1,"step":1,"calls":[["x",null,1]],"more":false}`, "expected"},
		{"turn", `{"turn":1,"step":1,"calls":[["x",1,1,1]],"more":false}`, "expected"},
		{"turn", `{"turn":1,"step":1,"calls":[["x",1,1],"more":false}`, "expected"},
		{"turn", `{"turn":1,"step":1,"calls":[` + strings.Join(calls, ",") + `],"more":false}`, "more than 256"},
		{"turn", `false`, "expected"},
		{"tree", `null`, "expected"},
		{"tree", `{"size":0,"range":[]}`, "missing"},
		{"tree", `{"size":0,"root":"00","range":[]}`, "hex"},
		{"tree", `{"size":0,"root":"` + strings.Repeat("A", 64) + `","range":[]}`, "hex"},
		{"tree", `{"size":0,"root":"` + zero + `","range":["x"]}`, "hex"},
		{"tree", `{"size":0,"root":"` + zero + `","range":[` + strings.Join(hashes, ",") + `]}`, "more than 53"},
	}
	for _, tt := range tests {
		var err error
		switch tt.part {
		case "types":
			_, err = ParseTypes([]byte(tt.raw))
		case "boundary":
			_, err = ParseBoundary([]byte(tt.raw))
		case "turn":
			_, err = ParseTurn([]byte(tt.raw))
		case "tree":
			_, err = ParseTree([]byte(tt.raw))
		}
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), tt.part+": ") || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s %.60s: error %v does not say %q", tt.part, tt.raw, err, tt.says)
		}
	}
}

// Members may come in any order and with white space; nothing of the input is
// kept.
func TestParseStateLenient(t *testing.T) {
	raw := []byte(` { "more" : true , "calls" : [ [ "x" , 1 , null ] ] , "step" : null , "turn" : 4 } `)
	got, err := ParseTurn(raw)
	if err != nil {
		t.Fatal(err)
	}
	clear(raw)
	if d := cmp.Diff(&Turn{Turn: 4, Calls: []Call{{"x", 1, nil}}, More: true}, got); d != "" {
		t.Error(d)
	}
	raw = []byte(`{"b":[1,0,0],"a":[0,0,0],"":[2,1,3]}`)
	types, err := ParseTypes(raw)
	if err != nil {
		t.Fatal(err)
	}
	clear(raw)
	want := Types{Entries: []TypeCount{{"b", 1, 0, 0}, {"a", 0, 0, 0}}, Overflow: &TypeCount{"", 2, 1, 3}}
	if d := cmp.Diff(want, types); d != "" {
		t.Error(d)
	}
}
