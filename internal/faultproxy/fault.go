package faultproxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// Reply is an answer as a whole.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Error makes the reply to a failed request. An empty code means that it has no
// body, as those to HEAD never have one.
func Error(status int, code, message string) *Reply {
	r := &Reply{Status: status, Header: http.Header{"X-Amz-Request-Id": {"FAULTPROXY"}}}
	if code != "" {
		r.Header.Set("Content-Type", "application/xml")
		r.Body = fmt.Appendf(nil, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>%s</Message><RequestId>FAULTPROXY</RequestId></Error>`, code, message)
	}
	return r
}

// Fault is what becomes of one request. If it does not answer, the client's
// connection is closed.
type Fault func(*Exchange)

// Exchange is one request on its way.
type Exchange struct {
	Request
	proxy    *Proxy
	w        http.ResponseWriter
	left     <-chan struct{} // closed when the client has gone
	entry    int
	answered bool // or hung up
}

// Forward sends the request to the server and returns its reply. It may be
// called more than once, and at any time, also after the client was answered.
func (x *Exchange) Forward() *Reply {
	r, err := x.proxy.send(&x.Request)
	switch {
	case err == nil:
		return r
	case x.proxy.ctx.Err() != nil: // the test is over
	case slices.ContainsFunc(brokenOff, func(e error) bool { return errors.Is(err, e) }):
		// A server may refuse a request before it has read the body, and close: whether
		// its reply still arrives depends on the moment. The client is to see the same.
		x.proxy.tb.Logf("faultproxy: %s %s: hung up as the server did: %v", x.Op, x.Key, err)
		x.HangUp()
	default:
		x.proxy.tb.Errorf("faultproxy: %s %s: %v", x.Op, x.Key, err)
	}
	return Error(http.StatusBadGateway, "BadGateway", "")
}

// brokenOff is how net/http says that the server has closed the connection.
var brokenOff = []error{syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed, io.EOF, io.ErrUnexpectedEOF}

// Answer answers the client, as the first one of several attempts to do so.
func (x *Exchange) Answer(r *Reply) { x.answer(r, len(r.Body)) }

// answer sends n bytes of the body, and hangs up if there are more.
func (x *Exchange) answer(r *Reply, n int) {
	if x.answered {
		return
	}
	x.answered = true
	x.status(r.Status)
	h := x.w.Header()
	for name, values := range r.Header {
		switch name {
		case "Connection", "Keep-Alive", "Transfer-Encoding":
		default:
			h[name] = values
		}
	}
	if x.method != http.MethodHead && r.Status >= 200 && r.Status != http.StatusNoContent && r.Status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(r.Body)))
	}
	if h.Get("Date") == "" {
		h["Date"] = nil // the server's clock, or none
	}
	x.w.WriteHeader(r.Status)
	if x.method == http.MethodHead {
		return
	}
	// An error means that the client has gone.
	_, _ = x.w.Write(r.Body[:n])
	if n < len(r.Body) {
		_ = http.NewResponseController(x.w).Flush()
		x.close()
	}
}

// HangUp closes the client's connection, unless it was answered.
func (x *Exchange) HangUp() {
	if !x.answered {
		x.answered = true
		x.close()
	}
}

func (x *Exchange) close() {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		x.proxy.tb.Errorf("faultproxy: %v", err)
		return
	}
	_ = conn.Close()
}

func (x *Exchange) status(status int) {
	x.proxy.mu.Lock()
	defer x.proxy.mu.Unlock()
	x.proxy.log[x.entry].Status = status
}

func pass(x *Exchange) { x.Answer(x.Forward()) }

// Pass lets a request through, past the rules behind it.
func Pass() Fault { return pass }

// LoseRequest closes the connection; the server never sees the request.
func LoseRequest() Fault { return func(x *Exchange) { x.HangUp() } }

// LoseReply closes the connection when the server has answered.
func LoseReply() Fault {
	return func(x *Exchange) {
		x.Forward()
		x.HangUp()
	}
}

// Repeat sends the request twice, one after the other, and answers with the
// second reply, as a proxy does that had lost the first one.
func Repeat() Fault {
	return func(x *Exchange) {
		x.Forward()
		x.Answer(x.Forward())
	}
}

// Refuse answers with an error; the server never sees the request.
func Refuse(status int, code, message string) Fault {
	return func(x *Exchange) { x.Answer(Error(status, code, message)) }
}

// ApplyThen sends the request to the server and answers with an error.
func ApplyThen(status int, code, message string) Fault {
	return func(x *Exchange) {
		x.Forward()
		x.Answer(Error(status, code, message))
	}
}

// Redirect answers as S3 does where the bucket is in another region: 301, and
// no Location.
func Redirect(region string) Fault {
	return func(x *Exchange) {
		r := Error(http.StatusMovedPermanently, "PermanentRedirect", "The bucket you are attempting to access must be addressed using the specified endpoint.")
		r.Header.Set("X-Amz-Bucket-Region", region)
		x.Answer(r)
	}
}

// CutRequest hands on the first n bytes of the body only; then both connections
// are closed.
func CutRequest(n int) Fault {
	return func(x *Exchange) {
		if err := x.proxy.sendPart(&x.Request, n); err != nil {
			x.proxy.tb.Errorf("faultproxy: cutting %s %s: %v", x.Op, x.Key, err)
		}
		x.HangUp()
	}
}

// CutReply sends the reply's header and the first n bytes of its body, or all
// but the last one if it is not longer, and closes the connection.
func CutReply(n int) Fault {
	return func(x *Exchange) {
		r := x.Forward()
		x.answer(r, max(0, min(n, len(r.Body)-1)))
	}
}

// Edit changes the reply.
func Edit(change func(*Reply)) Fault {
	return func(x *Exchange) {
		r := x.Forward()
		change(r)
		x.Answer(r)
	}
}

// ETag rewrites the ETag of a reply that has one; an empty result removes it.
func ETag(rewrite func(string) string) Fault {
	return Edit(func(r *Reply) {
		tag := r.Header.Get("ETag")
		if tag == "" {
			return
		}
		if tag = rewrite(tag); tag == "" {
			r.Header.Del("ETag")
			return
		}
		r.Header.Set("ETag", tag)
	})
}

// DenyAbsent answers 403 where the server says 404, as S3 does to whoever may
// not list the bucket.
func DenyAbsent() Fault {
	return func(x *Exchange) {
		r := x.Forward()
		if r.Status == http.StatusNotFound {
			code := "AccessDenied"
			if x.method == http.MethodHead {
				code = ""
			}
			r = Error(http.StatusForbidden, code, "Access Denied")
		}
		x.Answer(r)
	}
}

// Delay lets the request through after d.
func Delay(d time.Duration) Fault {
	return func(x *Exchange) {
		select {
		case <-time.After(d):
		case <-x.proxy.ctx.Done():
		}
		pass(x)
	}
}

// Held are requests that are late: their clients' connections were closed, and
// they reach the server when the test says so.
type Held struct{ late chan *Exchange }

// NewHeld makes a place for requests that are late.
func NewHeld() *Held { return &Held{make(chan *Exchange, 1000)} }

// Hold is the fault that takes a request there.
func (h *Held) Hold() Fault {
	return func(x *Exchange) {
		x.HangUp()
		h.late <- x
	}
}

// Release sends the request that has waited longest, and waits for one if there
// is none. It returns the server's reply, which reaches nobody else.
func (h *Held) Release() *Reply { return (<-h.late).Forward() }

// Waiting is the number of requests that wait.
func (h *Held) Waiting() int { return len(h.late) }
