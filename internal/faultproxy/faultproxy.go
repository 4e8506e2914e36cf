// Package faultproxy stands between an S3 client and a server in a test: it
// hands requests and replies on as they are, counts them, and where a rule says
// so lets them go wrong: lost, late, twice, cut short, changed, or answered
// with an error of which the server knows nothing. It is no S3 server, and
// keeps no object.
package faultproxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Kinds of requests, as S3 bills them.
const (
	Get    = "GET"
	Head   = "HEAD"
	List   = "LIST"
	Put    = "PUT"
	Copy   = "COPY"
	Delete = "DELETE"
	Other  = "OTHER" // about buckets, multipart uploads, and whatever else
)

// Request is what a client sent.
type Request struct {
	Op     string // one of the kinds above
	Bucket string
	Key    string // not escaped; of a List the prefix
	Header http.Header
	Body   []byte

	method, uri, host string
}

// Condition is the condition of a write or a read, as the header says it; empty
// if there is none.
func (r *Request) Condition() string {
	for _, name := range []string{"If-Match", "If-None-Match"} {
		if v := r.Header.Get(name); v != "" {
			return name + ": " + v
		}
	}
	return ""
}

// Rule says which requests go wrong, and how.
type Rule struct {
	Op   string              // kind of the requests that are meant; empty: all
	Key  string              // part of their keys; empty: all
	When func(*Request) bool // what else must be true of them; nil: nothing
	Skip int                 // how many of those are let through first
	// Times is how many go wrong after that; 0 means one, a negative number all.
	Times int
	Fault Fault
}

func (r *Rule) matches(q *Request) bool {
	return (r.Op == "" || r.Op == q.Op) && strings.Contains(q.Key, r.Key) && (r.When == nil || r.When(q))
}

// Entry is one request that came in, and how it was answered.
type Entry struct {
	Op, Bucket, Key string
	Condition       string
	Header          http.Header
	Size            int      // of the request's body, bytes
	Sum             [32]byte // its SHA-256
	Status          int      // 0: not answered, or not yet
}

// Entries are requests in the order in which they came in.
type Entries []Entry

// Counts is how many there are of each kind; kinds of which there are none are
// not in it.
func (e Entries) Counts() map[string]int {
	counts := make(map[string]int)
	for i := range e {
		counts[e[i].Op]++
	}
	return counts
}

// Of are the entries of one kind whose key holds part.
func (e Entries) Of(op, part string) (some Entries) {
	for i := range e {
		if e[i].Op == op && strings.Contains(e[i].Key, part) {
			some = append(some, e[i])
		}
	}
	return some
}

// Proxy is a proxy that runs.
type Proxy struct {
	URL string // endpoint for clients

	tb        testing.TB
	target    *url.URL
	transport http.RoundTripper
	ctx       context.Context // ends when the test does
	work      sync.WaitGroup

	mu    sync.Mutex
	rules []*armed
	log   Entries
	taken int // entries that Take has taken away
}

// armed is a rule and what it has seen.
type armed struct {
	Rule
	seen, done int
}

// Start runs a proxy in front of target, the base URL of a server, until the
// test ends. A rule that no request has met by then fails the test: it shows
// nothing.
func Start(tb testing.TB, target string) *Proxy {
	tb.Helper()
	u, err := url.Parse(target)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{tb: tb, target: u, ctx: ctx, transport: &http.Transport{
		DisableCompression: true,
		// A request that meets a connection which the server is closing would be
		// a fault that no rule asked for.
		DisableKeepAlives: true,
	}}
	server := httptest.NewServer(p) // routed by nothing: a ServeMux cleans paths
	p.URL = server.URL
	tb.Cleanup(func() {
		cancel()
		server.CloseClientConnections()
		server.Close()
		p.work.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		for i, r := range p.rules {
			if r.done == 0 {
				tb.Errorf("faultproxy: rule %d (%s %q) met %d requests, and none went wrong", i, r.Op, r.Key, r.seen)
			}
		}
	})
	return p
}

// Add puts rules behind those that are there. A request obeys the first rule
// that is meant for it and not used up.
func (p *Proxy) Add(rules ...Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range rules {
		if r.Times == 0 {
			r.Times = 1
		}
		p.rules = append(p.rules, &armed{Rule: r})
	}
}

// Reset takes all rules away, used or not.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
}

// Take returns the requests that came in since it was last called.
func (p *Proxy) Take() Entries {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := slices.Clone(p.log[p.taken:])
	p.taken = len(p.log)
	return e
}

// ServeHTTP is for the server that runs the proxy.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.work.Add(1)
	defer p.work.Done()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	x := &Exchange{Request: newRequest(r, body), proxy: p, w: w, left: r.Context().Done()}
	fault := p.note(x)
	if fault == nil {
		fault = pass
	}
	fault(x)
	if !x.answered {
		x.HangUp()
	}
}

// note writes a request down and finds the fault that is meant for it.
func (p *Proxy) note(x *Exchange) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	x.entry = len(p.log)
	p.log = append(p.log, Entry{
		Op: x.Op, Bucket: x.Bucket, Key: x.Key, Condition: x.Condition(), Header: x.Header,
		Size: len(x.Body), Sum: sha256.Sum256(x.Body),
	})
	for _, r := range p.rules {
		if r.Times == 0 || !r.matches(&x.Request) {
			continue
		}
		if r.seen++; r.seen <= r.Skip {
			continue
		}
		r.Times--
		r.done++
		return r.Fault
	}
	return nil
}

func newRequest(r *http.Request, body []byte) Request {
	q := Request{Header: r.Header.Clone(), Body: body, method: r.Method, uri: r.RequestURI, host: r.Host}
	path, _, _ := strings.Cut(strings.TrimPrefix(r.RequestURI, "/"), "?")
	bucket, key, _ := strings.Cut(path, "/")
	q.Bucket = bucket
	if k, err := url.PathUnescape(key); err == nil {
		q.Key = k
	}
	query := r.URL.Query()
	q.Op = Other
	switch plain := r.URL.RawQuery == "" || query.Has("x-id"); {
	case q.Key == "" && r.Method == http.MethodGet && query.Has("list-type"):
		q.Op, q.Key = List, query.Get("prefix")
	case q.Key == "" || !plain:
	case r.Method == http.MethodPut && r.Header.Get("X-Amz-Copy-Source") != "":
		q.Op = Copy
	case slices.Contains([]string{Get, Head, Put, Delete}, r.Method):
		q.Op = r.Method
	}
	return q
}

// send sends a request to the server, as it came: the signature covers the
// Host, the escaped path and most headers.
func (p *Proxy) send(q *Request) (*Reply, error) {
	r, err := p.outgoing(q, bytes.NewReader(q.Body))
	if err != nil {
		return nil, err
	}
	resp, err := p.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return &Reply{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

func (p *Proxy) outgoing(q *Request, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(p.ctx, q.method, p.target.String(), body)
	if err != nil {
		return nil, err
	}
	r.URL = &url.URL{Scheme: p.target.Scheme, Host: p.target.Host, Opaque: q.uri}
	r.Host = q.host
	r.Header = q.Header.Clone()
	if _, ok := r.Header["User-Agent"]; !ok {
		r.Header.Set("User-Agent", "") // or one would be made up
	}
	// The body is whole here. Waiting for the server to ask for it is between
	// the client and this proxy.
	r.Header.Del("Expect")
	r.ContentLength = int64(len(q.Body))
	if len(q.Body) == 0 {
		r.Body = http.NoBody
	}
	return r, nil
}

// sendPart sends a request whose body ends after n bytes, and hangs up.
func (p *Proxy) sendPart(q *Request, n int) error {
	conn, err := (&net.Dialer{}).DialContext(p.ctx, "tcp", p.target.Host)
	if err != nil {
		return err
	}
	defer conn.Close()
	r, err := p.outgoing(q, nil)
	if err != nil {
		return err
	}
	r.ContentLength = int64(len(q.Body))
	r.Body = io.NopCloser(bytes.NewReader(q.Body[:min(n, len(q.Body)-1)]))
	var wire bytes.Buffer
	if err := r.Write(&wire); err == nil {
		return errors.New("the request is not cut")
	}
	_, err = conn.Write(wire.Bytes())
	return err
}
