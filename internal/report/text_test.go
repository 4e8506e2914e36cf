package report

import (
	"strings"
	"testing"
)

func TestVisible(t *testing.T) {
	for _, tc := range []struct{ text, html, plain string }{
		{"", "", ""},
		{"plain, ünïcode 日本 🎉", "plain, ünïcode 日本 🎉", "plain, ünïcode 日本 🎉"},
		{`<b>&"'`, "&lt;b&gt;&amp;&#34;&#39;", `<b>&"'`},
		{"a\nb\tc", "a\nb\tc", "a b c"},
		{"\x00\x1b[1m\x7f\u0085", `<i class="x">\u0000</i><i class="x">\u001b</i>[1m<i class="x">\u007f</i><i class="x">\u0085</i>`, `\u0000\u001b[1m\u007f\u0085`},
		{"x\u202ey\u2028\ufeff", `x<i class="x">\u202e</i>y<i class="x">\u2028</i><i class="x">\ufeff</i>`, `x\u202ey\u2028\ufeff`},
		{"\U000e0041", `<i class="x">\u{e0041}</i>`, `\u{e0041}`},
		{"a\xffb\xc3", `a<i class="x">\xff</i>b<i class="x">\xc3</i>`, `a\xffb\xc3`},
		{"\ufffd", "\ufffd", "\ufffd"}, // which is no byte that is no UTF-8
		{"\u3164\u115f\u034f", `<i class="x">\u3164</i><i class="x">\u115f</i><i class="x">\u034f</i>`, `\u3164\u115f\u034f`},
		{"✌\ufe0f", "✌\ufe0f", "✌\ufe0f"},
	} {
		if got := string(visible(tc.text)); got != tc.html {
			t.Errorf("%q is %s, want %s", tc.text, got, tc.html)
		}
		if got := plain(tc.text); got != tc.plain {
			t.Errorf("%q is %q, want %q", tc.text, got, tc.plain)
		}
	}
}

func TestCut(t *testing.T) {
	for _, tc := range []struct {
		text string
		most int
		want excerpt
	}{
		{"abc", 3, excerpt{"abc", 0}}, {"abcd", 3, excerpt{"abc", 1}}, {"aü", 2, excerpt{"a", 2}}, {"日本", 5, excerpt{"日", 3}}, {"日", 1, excerpt{"", 3}}, {"", 0, excerpt{}},
	} {
		if got := cut(tc.text, tc.most); got != tc.want {
			t.Errorf("%q to %d: %+v", tc.text, tc.most, got)
		}
	}
}

func TestNumbersForPeople(t *testing.T) {
	for got, want := range map[string]string{
		number(int64(0)): "0", number(int64(999)): "999", number(int64(1000)): "1 000", number(int64(-1234567)): "-1 234 567", number(12): "12",
		bytesText(int64(1023)): "1023 B", bytesText(int64(1024)): "1 KiB", bytesText(3 << 20): "3 MiB", bytesText(int64(5) << 50): "5.12e+03 TiB",
		duration(0): "0 ms", duration(-1500): "−1.5 s", duration(61_000): "1 min 1 s", duration(3_661_000): "1 h 1 min", duration(86_400_000 * 3): "3 days",
		timeText(0): "1970-01-01 00:00:00.000Z", timeText(1 << 53): "9007199254740992 ms", timeText(-(1 << 53)): "-9007199254740992 ms",
		counted(1, "call"): "1 call", counted(int64(2000), "event"): "2 000 events",
	} {
		if got = strings.ReplaceAll(got, "\u202f", " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Data of any shape has the members that it has, and no others.
func TestMembers(t *testing.T) {
	m := membersOf([]byte(`{"a":{"b":{"c":"x"}},"A":1,"n":7,"neg":-1,"big":1e9,"t":true,"s":"\ud800","dup":1,"dup":2,"l":[1,2],"z":null}`))
	if got := m.in("a", "b").text("c"); got != "x" {
		t.Errorf("%q", got)
	}
	if m.in("n", "x") != nil || m.in("none") != nil || m.text("n") != "" || m.count("neg") != 0 || m.count("big") != 0 || m.count("n") != 7 || m.count("dup") != 2 {
		t.Error("members are what they are not")
	}
	if !m.is("t") || m.is("n") || m.text("s") != "\ufffd" || len(m.list("l")) != 2 || m.list("n") != nil || m.text("a") != "" {
		t.Error("members are what they are not")
	}
	for _, data := range []string{"", "7", "null", "[1]", `"x"`, "{"} {
		if m := membersOf([]byte(data)); len(m) != 0 || m.text("a") != "" || m.content(9).Text != "" {
			t.Errorf("%s has members", data)
		}
	}
}

func TestContent(t *testing.T) {
	for data, want := range map[string]excerpt{
		`{"content":"text"}`:           {"text", 0},
		`{"content":"longer than it"}`: {"longer tha", 4},
		`{"content":[{"type":"text","text":"a"},{"type":"reasoning","text":"b"},7,{"type":"text","text":"c"},{"type":"text"}]}`: {"a\nc", 0},
		`{"content":[{"type":"tool-result","content":[{"type":"text","text":"0123456789abc"}]},{"type":"text","text":"x"}]}`:    {"0123456789", 5},
		`{"content":[{"type":"image","attachment":{"mediaType":"a"}}]}`:                                                         {"[image a]", 0},
		`{"content":{"type":"text"}}`: {},
	} {
		if got := membersOf([]byte(data)).content(10); got != want {
			t.Errorf("%s: %+v, want %+v", data, got, want)
		}
	}
}

// Counts have their digits grouped, also in the words of a verification; seqs and
// points that are copied have not.
func TestGrouped(t *testing.T) {
	for text, want := range map[string]string{
		"30000 events, in 2 segments and the tail":               "30 000 events, in 2 segments and the tail",
		"14610 of its 15886 events are in frames":                "14 610 of its 15 886 events are in frames",
		"14114 of 30000 events, in 1 of 2 segments":              "14 114 of 30 000 events, in 1 of 2 segments",
		"it has 12345 bytes, the manifest says 12346":            "it has 12 345 bytes, the manifest says 12346",
		"the log extends 30000:ab0000 events":                    "the log extends 30000:ab0000 events",
		"the object with seqs 10000 to 19999 is not there":       "the object with seqs 10000 to 19999 is not there",
		"999 events, 1 event, 99999999999999999999999999 events": "999 events, 1 event, 99999999999999999999999999 events",
	} {
		if got := grouped(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	if got := thing(1, "turn") + thing(0, "turn"); got != "turnturns" {
		t.Error(got)
	}
}
