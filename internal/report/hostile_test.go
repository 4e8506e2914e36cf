package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend"
)

// hostile are texts that would like to be more than text.
var hostile = []string{
	`</script><script>alert(1)</script>`, `<!--<script>`, `--><img src=x onerror=alert(2)>`, `</noscript><img src=x onerror=alert(3)>`,
	`</details></main></body></html>`, `</title><script>alert(4)</script>`, `]]><svg onload=alert(5)>`, `" onmouseover="alert(6)`, `' autofocus onfocus='alert(7)`,
	`javascript:alert(8)`, `{{.Info}} ${x} <% y %>`, `&lt;b&gt; &#x3c;script&#x3e;`, `<a href=//evil.example>x</a>`, `</style><style>*{display:none}</style>`,
	"\u202egnp.exe\u202c \u200f\u200e\u2066x\u2069", "a\u2028b\u2029c", "nul\x00 bell\a esc\x1b[31mred\x1b[0m \x7f \u0085\u009b", "\x1b]0;title\a",
	"\ufeff\u200b\u2060\u3164\u115f\u00ad", "\U000e0041\U000e0042 tags", "Z\u0335" + strings.Repeat("\u0300", 300), strings.Repeat("A", 5000), "مرحبا abc",
}

// quoted is a text in JSON, as a writer may have put it: escaped or not.
func quoted(s string, escape bool) string {
	if escape {
		text, _ := json.Marshal(s)
		return string(text)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	return strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(strings.TrimSpace(b.String()))
}

// hostileWorld has a log with such texts wherever a log has text.
func hostileWorld(t testing.TB) (*world, string) {
	t.Helper()
	w := newWorld(t)
	id := hostile[0] + hostile[14]
	var events []string
	add := func(format string, args ...any) { events = append(events, fmt.Sprintf(format, args...)) }
	add(`turn/start {"turn":1}`)
	add(`step/start {"turn":1,"step":1}`)
	for i, h := range hostile {
		q := quoted(h, i%2 == 0)
		add(`user/message {"content":[{"type":"text","text":%s}],"source":{"kind":"user"}}`, q)
		add(`assistant/message {"turn":1,"step":1,"message":{"content":[{"type":"text","text":%s},{"type":"tool-call","id":%s}],"source":{"provider":%s,"model":%s}},"usage":{"inputTokens":1}}`, q, q, q, q)
		add(`tool/call {"turn":1,"step":1,"callId":%s,"name":%s,"arguments":%s}`, q, q, q)
		add(`tool/result {"message":{"source":{"callId":%s},"content":[{"type":"tool-result","content":[{"type":"text","text":%s}]}]},"error":{"code":%s}}`, q, q, q)
		add(`tool/result {"message":{"source":{"callId":%s},"content":%s}}`, quoted("no "+h, true), q)
		add(`approval/asked {"id":%s,"x":%s}`, q, q)
		add(`compaction/summary {"summary":[{"type":"text","text":%s}]}`, q)
		add(`session/title {"title":%s}`, q)
	}
	add(`turn/end {"turn":1,"reason":{"kind":"error","error":{"code":%s,"message":%s}}}`, quoted(hostile[0], false), quoted(hostile[14], false))
	for i, h := range hostile {
		add(`turn/start {"turn":%d}`, i+2)
		add(`turn/end {"turn":%d,"reason":{"kind":%s}}`, i+2, quoted(h, false))
		typ := h
		if len(typ) > 60 {
			typ = typ[:60]
		}
		events = append(events, fmt.Sprintf(`{"type":%s,"seq":%d,"time":%d,"data":%s}`, quoted(typ, true), len(events), len(events), quoted(h, false)))
	}
	add(`lone {"t":"\ud800 \udc00","dup":1,"dup":2,"n":1e400,"m":"%s"}`, strings.Repeat("</script>", 200_000))
	add(`user/message {"content":"lone \ud800 end","source":{"kind":"user"}}`)
	var lines [][]byte
	for i, e := range events {
		typ, data, _ := strings.Cut(e, " ")
		if strings.HasPrefix(e, "{") {
			lines = append(lines, []byte(e))
			continue
		}
		lines = append(lines, fmt.Appendf(nil, `{"type":%q,"seq":%d,"time":%d,"data":%s}`, typ, i, i, data))
	}
	w.lines(id, false, []byte(`{"type":"session","x":`+quoted(hostile[0]+hostile[1], false)+`}`), lines)
	return w, id
}

// What the pages of this package have: nothing else must be in one, whatever a
// log holds.
var (
	elements = strings.Fields("a b body br button code dd details div dl dt figcaption figure footer form h1 h2 head header html i input kbd label " +
		"li line main meta nav noscript ol p polyline pre rect script section small span style summary svg table tbody td th thead time title tr ul")
	attributes = map[string]*regexp.Regexp{
		"charset": exact("utf-8"), "http-equiv": exact("Content-Security-Policy"), "content": regexp.MustCompile(`.`), "name": exact("viewport|referrer|color-scheme"),
		"lang": exact("en"), "class": exact("[a-z0-9 ]*"), "id": exact("[a-z-]+|seq-[0-9]+"), "href": exact("#[a-z]+|#seq-[0-9]+"), "for": exact("q"),
		"role": exact("[a-z]+"), "aria-label": exact("[A-Za-z ,]+"), "aria-labelledby": exact("h-[a-z]+"), "aria-live": exact("polite"), "scope": exact("row"),
		"type": exact("search|checkbox|button|submit|application/json|text/plain"), "placeholder": exact("text, or a seq"), "title": exact("the match before|the next match"),
		"autocomplete": exact("off"), "spellcheck": exact("false"), "hidden": exact(""), "checked": exact(""), "tabindex": exact("-1"), "data-json": exact(""), "data-errors": exact(""),
		"data-first": exact("[0-9]+"), "data-last": exact("[0-9]+"), "data-next": exact("[0-9]+"), "data-class": exact("good|warn|bad|open"),
		"viewBox": exact("0 0 900 120"), "preserveAspectRatio": exact("none"), "points": exact("[0-9., ]+"),
		"x": number_, "y": number_, "width": number_, "height": number_, "x1": number_, "x2": number_, "y1": number_, "y2": number_,
	}
	number_ = exact("[0-9.]+")
)

func exact(pattern string) *regexp.Regexp { return regexp.MustCompile("^(?:" + pattern + ")$") }

// harmless fails unless a page consists of our own markup and text.
func harmless(t testing.TB, page string) *node {
	t.Helper()
	doc := parseHTML(t, page)
	var scripts, styles []*node
	doc.each(func(n *node) {
		if !slices.Contains(elements, n.name) {
			t.Errorf("the page has <%.40s>", n.name)
		}
		for name, value := range n.attr {
			if pattern := attributes[name]; pattern == nil || !pattern.MatchString(value) {
				t.Errorf("the page has <%s %.60s=%.60q>", n.name, name, value)
			}
		}
		switch {
		case n.name == "script" && n.attr["type"] == "":
			scripts = append(scripts, n)
		case n.name == "style":
			styles = append(styles, n)
		case n.name == "script" && n.attr["class"] == "part":
			if _, err := base64.StdEncoding.DecodeString(n.text); err != nil {
				t.Errorf("a part: %v", err)
			}
		case n.name == "script":
			if n.attr["id"] != "data" || !json.Valid([]byte(n.text)) || strings.ContainsAny(n.text, "<>&\u2028\u2029") {
				t.Errorf("a script of type %s: %.100q", n.attr["type"], n.text)
			}
		}
	})
	if len(scripts) != 1 || len(styles) != 1 {
		t.Fatalf("the page has %d scripts and %d styles", len(scripts), len(styles))
	}
	policy := ""
	for _, m := range doc.all("meta") {
		if m.attr["http-equiv"] != "" {
			policy = m.attr["content"]
		}
	}
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	want := "default-src 'none'; base-uri 'none'; form-action 'none'; style-src " + hash(styles[0].text) + "; script-src " + hash(scripts[0].text) +
		"; require-trusted-types-for 'script'; trusted-types report"
	if policy != want {
		t.Errorf("the policy is\n%s\nwant\n%s", policy, want)
	}
	if scripts[0].text != pageScript || styles[0].text != pageStyle {
		t.Error("script or style are not ours")
	}
	body := strings.Replace(strings.Replace(page, pageScript, "", 1), pageStyle, "", 1)
	for i, r := range body {
		if invisible(r) {
			t.Fatalf("the page has %U: %.100q", r, body[max(0, i-50):])
		}
	}
	return doc
}

// Nothing that a log holds is anything but text on its page, and all of it can be
// seen.
func TestHostileLog(t *testing.T) {
	w, id := hostileWorld(t)
	page, facts := w.page(id, Options{Store: hostile[2], Software: hostile[3]})
	if !facts.Verified.OK() {
		t.Fatalf("%+v", facts.Verified)
	}
	doc := harmless(t, page)
	if got := doc.all("title")[0].text; !strings.HasPrefix(got, `</script><script>alert(1)</script>\u202egnp.exe\u202c`) {
		t.Errorf("the title is %q", got)
	}
	timeline := doc.byID(t, "timeline").words()
	for _, want := range []string{hostile[0], hostile[3], `\u202e gnp.exe \u202c`, `a \u2028 b \u2029 c`, `nul \u0000 bell \u0007 esc \u001b [31mred`, `\u007f \u0085 \u009b`, `\ufeff \u200b \u2060 \u3164 \u115f`, `\u{e0041}`, "مرحبا", "lone \ufffd end"} {
		if strip := strings.NewReplacer(" ", ""); !strings.Contains(strip.Replace(timeline), strip.Replace(want)) {
			t.Errorf("the timeline does not show %q", want)
		}
	}
	rows := unpack(t, page)
	if int64(len(rows)) != facts.Events {
		t.Fatalf("%d rows of %d events", len(rows), facts.Events)
	}
	for e, err := range w.reader().Events(t.Context(), id, backend.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		r := rows[e.Seq]
		if want := cut(string(e.Line), 4<<10); r.Line == nil || *r.Line != want.Text || r.Cut != (want.More > 0) || r.Bytes != int64(len(e.Line)) || r.Seq != e.Seq {
			t.Errorf("seq %d: %+v", e.Seq, r)
		}
	}
}

// A log that holds anything at all has a harmless page.
func FuzzReport(f *testing.F) {
	for _, h := range hostile {
		f.Add(h, `{"content":`+quoted(h, false)+`,"source":{"kind":"user"}}`)
	}
	f.Add("tool/result", `{"message":{"content":[7,{"type":"tool-result","isError":true}],"source":{"callId":"x"}},"error":[]}`)
	f.Add("turn/end", `{"turn":1,"reason":{"kind":"aborted","reason":{"kind":"hook","reason":"</x>"}}}`)
	f.Fuzz(func(t *testing.T, typ, data string) {
		w := newWorld(t)
		l, err := w.b.Create("log", backend.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		name, err := json.Marshal(typ)
		if err != nil {
			t.Fatal(err)
		}
		lines := [][]byte{[]byte(`{"type":"turn/start","data":{"turn":1}}`)}
		for _, known := range append(slices.Sorted(maps.Keys(knownTypes)), string(name)) {
			lines = append(lines, fmt.Appendf(nil, `{"type":%s,"time":1,"data":%s}`, known, data))
		}
		_, err = l.Append(t.Context(), lines, backend.AppendOptions{Boundary: true})
		_ = l.Close(t.Context(), backend.CloseOptions{}) // whatever came of it
		if err != nil {
			t.Skip("no event: ", err)
		}
		page, _ := w.page("log", Options{})
		harmless(t, page)
	})
}

var knownTypes = map[string]bool{
	`"assistant/message"`: true, `"user/message"`: true, `"tool/call"`: true, `"tool/result"`: true, `"turn/end"`: true, `"step/start"`: true, `"approval/asked"`: true,
	`"approval/decided"`: true, `"compaction/summary"`: true, `"session/title"`: true,
}

// The script gets text into the page as text: the one exception is what this
// package has put there.
func TestScriptMakesNoMarkup(t *testing.T) {
	for _, never := range []string{"outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser", "setAttribute", "fetch(", "XMLHttpRequest", "import("} {
		if strings.Contains(pageScript, never) {
			t.Errorf("the script uses %s", never)
		}
	}
	if n := strings.Count(pageScript, "innerHTML"); n != 1 {
		t.Errorf("innerHTML is there %d times", n)
	}
	if strings.Contains(strings.ToLower(pageScript), "</script") || strings.Contains(pageScript, "<!--") || strings.Contains(strings.ToLower(pageStyle), "</style") {
		t.Error("script or style would end too early")
	}
	if strings.Contains(pageStyle, "url(") || strings.Contains(pageStyle, "@import") {
		t.Error("the style loads something")
	}
}
