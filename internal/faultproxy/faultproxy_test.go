package faultproxy

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// origin is a server that notes what it sees.
type origin struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string // method, URI, host and body; "cut" if that ended early
	head []http.Header
}

func serve(t *testing.T, answer http.HandlerFunc) *origin {
	t.Helper()
	o := &origin{}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		line := fmt.Sprintf("%s %s %s %s", r.Method, r.RequestURI, r.Host, body)
		if err != nil {
			line += " cut"
		}
		o.mu.Lock()
		o.seen = append(o.seen, line)
		o.head = append(o.head, r.Header.Clone())
		o.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(o.Close)
	return o
}

func (o *origin) requests() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.seen...)
}

func hello(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("ETag", `"e"`)
	_, _ = io.WriteString(w, "hello")
}

// do sends a request that is not retried by net/http, and reads the reply.
func do(t *testing.T, method, url, body string, header ...string) (status int, h http.Header, text string, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(b), err
}

// What is signed arrives as it was sent: path, host, headers, body.
func TestVerbatim(t *testing.T) {
	o := serve(t, hello)
	p := Start(t, o.URL)
	host := p.URL[len("http://"):]
	for _, uri := range []string{
		"/b/a%20b%2Bc%25d/%C3%A9?x-id=PutObject", "/b/x//y/../z", "/b/=2F%3D?a=b%20c&d", "/b//lead", "/b/%2e%2E/",
	} {
		before := len(o.requests())
		if _, _, text, err := do(t, "PUT", p.URL+uri, "body", "X-Amz-Meta-A", "v  w", "Accept-Encoding", "identity"); err != nil || text != "hello" {
			t.Fatalf("%s: %q, %v", uri, text, err)
		}
		got := o.requests()[before:]
		if diff := cmp.Diff([]string{"PUT " + uri + " " + host + " body"}, got); diff != "" {
			t.Errorf("-sent +arrived:\n%s", diff)
		}
	}
	h := o.head[0]
	delete(h, "User-Agent")
	want := http.Header{"Accept-Encoding": {"identity"}, "Content-Length": {"4"}, "X-Amz-Meta-A": {"v  w"}, "Connection": {"close"}}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("headers, -sent +arrived:\n%s", diff)
	}
}

func TestCounts(t *testing.T) {
	o := serve(t, hello)
	p := Start(t, o.URL)
	for _, r := range [][]string{
		{"GET", "/b/manifests/a%20b.json?x-id=GetObject"},
		{"GET", "/b/k", "If-None-Match", `"e"`},
		{"HEAD", "/b/k"},
		{"GET", "/b?list-type=2&prefix=manifests%2F"},
		{"GET", "/b?location"},
		{"PUT", "/b/k", "If-None-Match", "*"},
		{"PUT", "/b/k", "X-Amz-Copy-Source", "b/x"},
		{"PUT", "/b/k?partNumber=1&uploadId=u"},
		{"PUT", "/b"},
		{"DELETE", "/b/k"},
		{"POST", "/b?delete"},
	} {
		if _, _, _, err := do(t, r[0], p.URL+r[1], "", r[2:]...); err != nil {
			t.Fatal(err)
		}
	}
	e := p.Take()
	want := map[string]int{Get: 2, Head: 1, List: 1, Put: 1, Copy: 1, Delete: 1, Other: 4}
	if diff := cmp.Diff(want, e.Counts()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if e[0].Key != "manifests/a b.json" || e[0].Bucket != "b" || e[0].Status != 200 || e[3].Key != "manifests/" {
		t.Errorf("%+v", e)
	}
	if e[1].Condition != `If-None-Match: "e"` || e[5].Condition != "If-None-Match: *" {
		t.Errorf("conditions %q, %q", e[1].Condition, e[5].Condition)
	}
	if got := e.Of(Get, "json"); len(got) != 1 {
		t.Errorf("%+v", got)
	}
	if rest := p.Take(); len(rest) != 0 {
		t.Errorf("again: %+v", rest)
	}
}

func TestFaults(t *testing.T) {
	type outcome struct {
		Status int
		Text   string
		Failed bool
		Server int // requests that the server saw whole
	}
	denied := `<?xml version="1.0" encoding="UTF-8"?><Error><Code>X</Code><Message>m</Message><RequestId>FAULTPROXY</RequestId></Error>`
	for name, tt := range map[string]struct {
		fault Fault
		want  outcome
	}{
		"pass":         {Pass(), outcome{Status: 200, Text: "hello", Server: 1}},
		"lose request": {LoseRequest(), outcome{Failed: true}},
		"lose reply":   {LoseReply(), outcome{Failed: true, Server: 1}},
		"repeat":       {Repeat(), outcome{Status: 200, Text: "hello", Server: 2}},
		"refuse":       {Refuse(409, "X", "m"), outcome{Status: 409, Text: denied}},
		"apply, fail":  {ApplyThen(500, "X", "m"), outcome{Status: 500, Text: denied, Server: 1}},
		"cut request":  {CutRequest(2), outcome{Failed: true}},
		"cut reply":    {CutReply(2), outcome{Status: 200, Text: "he", Failed: true, Server: 1}},
		"cut short":    {CutReply(99), outcome{Status: 200, Text: "hell", Failed: true, Server: 1}},
		"edit":         {Edit(func(r *Reply) { r.Body = []byte("bye") }), outcome{Status: 200, Text: "bye", Server: 1}},
		"delay":        {Delay(time.Millisecond), outcome{Status: 200, Text: "hello", Server: 1}},
		"silence":      {func(*Exchange) {}, outcome{Failed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			o := serve(t, hello)
			p := Start(t, o.URL)
			p.Add(Rule{Fault: tt.fault})
			var got outcome
			var err error
			got.Status, _, got.Text, err = do(t, "PUT", p.URL+"/b/k", "body")
			got.Failed = err != nil
			if name == "cut request" {
				for len(o.requests()) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			for _, r := range o.requests() {
				if r == "PUT /b/k "+p.URL[len("http://"):]+" body" {
					got.Server++
				} else if r != "PUT /b/k "+p.URL[len("http://"):]+" bo cut" {
					t.Errorf("the server saw %q", r)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			// Used up: the next one is as it should be.
			if status, _, text, err := do(t, "PUT", p.URL+"/b/k", "body"); status != 200 || text != "hello" || err != nil {
				t.Errorf("after it: %d %q %v", status, text, err)
			}
		})
	}
}

func TestETagDeniedRedirect(t *testing.T) {
	o := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/b/absent" {
			w.WriteHeader(404)
			return
		}
		hello(w, r)
	})
	p := Start(t, o.URL)
	p.Add(
		Rule{Key: "weak", Fault: ETag(func(s string) string { return "W/" + s })},
		Rule{Key: "none", Fault: ETag(func(string) string { return "" })},
		Rule{Key: "region", Fault: Redirect("eu-x")},
		Rule{Times: -1, Fault: DenyAbsent()},
	)
	for path, want := range map[string]string{"weak": `W/"e"`, "none": "", "k": `"e"`} {
		if _, h, _, err := do(t, "GET", p.URL+"/b/"+path, ""); err != nil || h.Get("ETag") != want {
			t.Errorf("%s: ETag %q, %v", path, h.Get("ETag"), err)
		}
	}
	for _, method := range []string{"GET", "HEAD"} {
		status, _, text, err := do(t, method, p.URL+"/b/absent", "")
		if status != 403 || err != nil || (text == "") != (method == "HEAD") {
			t.Errorf("%s: %d %q %v", method, status, text, err)
		}
	}
	status, h, _, err := do(t, "GET", p.URL+"/b/region", "")
	if status != 301 || h.Get("X-Amz-Bucket-Region") != "eu-x" || h.Get("Location") != "" || err != nil {
		t.Errorf("%d %v %v", status, h, err)
	}
}

// A late request reaches the server after one that was sent later.
func TestHeld(t *testing.T) {
	o := serve(t, hello)
	p := Start(t, o.URL)
	held := NewHeld()
	p.Add(Rule{Op: Put, Fault: held.Hold()})
	if _, _, _, err := do(t, "PUT", p.URL+"/b/k", "old"); err == nil {
		t.Error("answered")
	}
	if _, _, _, err := do(t, "PUT", p.URL+"/b/k", "new"); err != nil {
		t.Error(err)
	}
	if r := held.Release(); r.Status != 200 || string(r.Body) != "hello" || held.Waiting() != 0 {
		t.Errorf("%+v", r)
	}
	host := p.URL[len("http://"):]
	if diff := cmp.Diff([]string{"PUT /b/k " + host + " new", "PUT /b/k " + host + " old"}, o.requests()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if e := p.Take(); e[0].Status != 0 || e[1].Status != 200 || e[0].Sum == e[1].Sum || e[0].Size != 3 {
		t.Errorf("%+v", e)
	}
}

func TestRules(t *testing.T) {
	o := serve(t, hello)
	p := Start(t, o.URL)
	p.Add(
		Rule{Op: Put, Key: "manifests/", Skip: 1, Times: 2, Fault: Refuse(503, "SlowDown", "")},
		Rule{Key: "manifests/", When: func(q *Request) bool { return q.Header.Get("If-Match") != "" }, Times: -1, Fault: Refuse(412, "PreconditionFailed", "")},
	)
	for i, tt := range []struct {
		method, path string
		want         int
		header       []string
	}{
		{"PUT", "/b/manifests/a", 200, nil}, // skipped
		{"GET", "/b/manifests/a", 200, nil},
		{"PUT", "/b/segments/a", 200, nil},
		{"PUT", "/b/manifests/a", 503, []string{"If-Match", `"e"`}}, // the first rule that is meant
		{"PUT", "/b/manifests/b", 503, nil},
		{"PUT", "/b/manifests/b", 200, nil}, // used up
		{"PUT", "/b/manifests/b", 412, []string{"If-Match", `"e"`}},
		{"GET", "/b/manifests/b", 412, []string{"If-Match", `"e"`}},
	} {
		if got, _, _, err := do(t, tt.method, p.URL+tt.path, "x", tt.header...); got != tt.want || err != nil {
			t.Errorf("%d: %d, %v, want %d", i, got, err, tt.want)
		}
	}
	p.Reset()
	if got, _, _, err := do(t, "PUT", p.URL+"/b/manifests/b", "x", "If-Match", `"e"`); got != 200 || err != nil {
		t.Errorf("after Reset: %d, %v", got, err)
	}
}

// failures is a test that notes what it is told.
type failures struct {
	testing.TB
	cleanup []func()
	said    []string
}

func (f *failures) Helper()                   {}
func (f *failures) Cleanup(c func())          { f.cleanup = append(f.cleanup, c) }
func (f *failures) Errorf(s string, a ...any) { f.said = append(f.said, fmt.Sprintf(s, a...)) }

// A rule that was never met fails the test, and so does a server that is gone.
func TestIdleRuleFails(t *testing.T) {
	o := serve(t, hello)
	f := &failures{TB: t}
	p := Start(f, o.URL)
	p.Add(Rule{Op: Put, Key: "manifests/", Fault: LoseReply()})
	o.Close()
	if status, _, _, err := do(t, "GET", p.URL+"/b/k", ""); status != 502 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
	for _, c := range f.cleanup {
		c()
	}
	if len(f.said) != 2 || !bytes.Contains([]byte(f.said[1]), []byte(`rule 0 (PUT "manifests/") met 0 requests`)) {
		t.Errorf("%q", f.said)
	}
}

// A server that closes in the middle of a body has done so to the client, too.
func TestServerHangsUp(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.(*net.TCPConn).SetLinger(0) // with a reset
		_ = conn.Close()
	}))
	t.Cleanup(server.Close)
	p := Start(t, server.URL)
	if status, _, _, err := do(t, http.MethodPut, p.URL+"/b/key", strings.Repeat("x", 8<<20)); err == nil {
		t.Errorf("answered with %d", status)
	}
	if log := p.Take(); len(log) != 1 || log[0].Status != 0 {
		t.Errorf("%+v", log)
	}
}
