package faultproxy

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// client is an http.Client of one connection, as a caller has it who uses it
// again.
func client(t *testing.T) *http.Client {
	c := &http.Client{
		Transport:     &http.Transport{DisableCompression: true, MaxConnsPerHost: 1},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func request(t *testing.T, ctx context.Context, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCutHeader(t *testing.T) {
	o := serve(t, hello)
	p := Start(t, o.URL)
	p.Add(Rule{Fault: CutHeader()})
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /b/k HTTP/1.1\r\nHost: h\r\n\r\n")
	got, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 200 OK\r\n") || strings.Contains(string(got), "\r\n\r\n") {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := http.ReadResponse(bufio.NewReader(strings.NewReader(string(got))), nil); err == nil {
		t.Error("that is a whole header")
	}
	if n := len(o.requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// What comes too much is met by the next request on the same connection.
func TestSurplus(t *testing.T) {
	o := serve(t, hello)
	p := Start(t, o.URL)
	p.Add(Rule{Fault: Surplus("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother")})
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /b/k HTTP/1.1\r\nHost: h\r\n\r\n")
	r := bufio.NewReader(conn)
	for _, want := range []string{"hello", "other"} {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != want {
			t.Errorf("%q, %v, want %q", body, err, want)
		}
		resp.Body.Close()
	}
}

func TestEndless(t *testing.T) {
	o := serve(t, hello)
	p := Start(t, o.URL)
	p.Add(Rule{Fault: Endless()})
	resp, err := client(t).Do(request(t, t.Context(), p.URL+"/b/k"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.CopyN(io.Discard, resp.Body, 5<<20)
	if err != nil || resp.ContentLength != -1 || resp.Header.Get("ETag") != `"e"` {
		t.Errorf("%d bytes of %d, %v", n, resp.ContentLength, err)
	}
}

// A body that drips comes whole to whoever waits, and one that hangs does not.
func TestDrip(t *testing.T) {
	o := serve(t, hello)
	p := Start(t, o.URL)
	p.Add(Rule{Fault: Drip(2, time.Millisecond)}, Rule{Fault: Drip(2, time.Hour)})
	for _, want := range []string{"hello", "he"} {
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := client(t).Do(request(t, ctx, p.URL+"/b/k"))
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if n, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want || resp.ContentLength != 5 {
			t.Errorf("%d bytes of %d, %v", n, resp.ContentLength, err)
		}
		cancel()
		if _, err := io.ReadAll(resp.Body); (err != nil) != (want == "he") {
			t.Errorf("after %q: %v", want, err)
		}
		resp.Body.Close()
	}
}

// Nobody answers, although the server has seen the request, or will.
func TestNoAnswer(t *testing.T) {
	for name, late := range map[string]bool{"unanswered": false, "stalled": true} {
		t.Run(name, func(t *testing.T) {
			o := serve(t, hello)
			p := Start(t, o.URL)
			held := NewHeld()
			p.Add(Rule{Fault: Unanswered()})
			if late {
				p.Reset()
				p.Add(Rule{Fault: held.Stall()})
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := client(t).Do(request(t, ctx, p.URL+"/b/k"))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			if n := len(o.requests()); n != 1 && !late || n != 0 && late {
				t.Errorf("the server saw %d", n)
			}
			if late {
				if r := held.Release(); r.Status != 200 || len(o.requests()) != 1 {
					t.Errorf("%+v, the server saw %d", r, len(o.requests()))
				}
			}
			if e := p.Take(); len(e) != 1 || e[0].Status != 0 {
				t.Errorf("%+v", e)
			}
		})
	}
}

func TestReplies(t *testing.T) {
	o := serve(t, hello)
	p := Start(t, o.URL)
	p.Add(
		Rule{Key: "twice", Fault: RepeatAtOnce()},
		Rule{Key: "page", Times: 2, Fault: Instead(Page(503))},
		Rule{Key: "moved", Fault: Moved(307, "http://elsewhere.invalid/")},
		Rule{Key: "gzip", Fault: Gzip()},
	)
	for _, tt := range []struct {
		path           string
		status, server int
		header, value  string
		body           string
	}{
		{"twice", 200, 2, "ETag", `"e"`, "hello"},
		{"page", 503, 0, "Content-Type", "text/html; charset=utf-8", "Service Unavailable"},
		{"page", 503, 0, "Content-Type", "text/html; charset=utf-8", "Service Unavailable"},
		{"moved", 307, 0, "Location", "http://elsewhere.invalid/", "TemporaryRedirect"},
		{"gzip", 200, 1, "Content-Encoding", "gzip", "\x1f\x8b"},
	} {
		before := len(o.requests())
		status, h, text, err := do(t, "PUT", p.URL+"/b/"+tt.path, "body")
		if err != nil || status != tt.status || h.Get(tt.header) != tt.value || !strings.Contains(text, tt.body) {
			t.Errorf("%s: %d %v %q, %v", tt.path, status, h, text, err)
		}
		if n := len(o.requests()) - before; n != tt.server {
			t.Errorf("%s: the server saw %d", tt.path, n)
		}
		if tt.path == "gzip" {
			r, err := gzip.NewReader(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if plain, err := io.ReadAll(r); err != nil || string(plain) != "hello" {
				t.Errorf("%q, %v", plain, err)
			}
		}
	}
}
