package faultproxy

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Faults of connections, of proxies that change bodies, and of servers that
// are no S3 servers.

// gone waits until the client has hung up, or the test ends.
func (x *Exchange) gone() {
	select {
	case <-x.left:
	case <-x.proxy.ctx.Done():
	}
}

// raw writes bytes to the client as they are, and takes the connection away
// from the server. The caller closes it.
func (x *Exchange) raw(status int, b []byte) (closing func()) {
	x.answered = true
	x.status(status)
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		x.proxy.tb.Errorf("faultproxy: %v", err)
		return func() {}
	}
	// An error means that the client has gone.
	_, _ = conn.Write(b)
	return func() { _ = conn.Close() }
}

// head is the beginning of a reply as it is on the wire.
func head(r *Reply, length string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", r.Status, http.StatusText(r.Status))
	h := r.Header.Clone()
	for _, name := range []string{"Connection", "Keep-Alive", "Transfer-Encoding", "Content-Length"} {
		h.Del(name)
	}
	_ = h.Write(&b) // to memory
	if length != "" {
		b.WriteString("Content-Length: " + length + "\r\n")
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// CutHeader sends the first half of the reply's header, and closes the
// connection.
func CutHeader() Fault {
	return func(x *Exchange) {
		r := x.Forward()
		h := head(r, strconv.Itoa(len(r.Body)))
		x.raw(0, h[:len(h)/2])()
	}
}

// Surplus sends the whole reply and then bytes that nobody has asked for, on a
// connection that stays open, as after a fault in counting bytes: whoever uses
// the connection again reads them first.
func Surplus(extra string) Fault {
	return func(x *Exchange) {
		r := x.Forward()
		b := head(r, strconv.Itoa(len(r.Body)))
		if x.method != http.MethodHead {
			b = append(b, r.Body...)
		}
		closing := x.raw(r.Status, append(b, extra...))
		x.proxy.work.Go(func() {
			<-x.proxy.ctx.Done()
			closing()
		})
	}
}

// Endless answers with what the server says, but its body, of unknown length,
// never ends: it is repeated until the client goes away.
func Endless() Fault { return func(x *Exchange) { EndlessReply(x.Forward())(x) } }

// EndlessReply answers with r in that way; the server never sees the request.
func EndlessReply(r *Reply) Fault {
	return func(x *Exchange) {
		x.stream(r, false, func(send func([]byte) bool) {
			body := bytes.Repeat(append(r.Body, '\n'), 1+(64<<10)/(len(r.Body)+1))
			for send(body) {
			}
		})
	}
}

// Drip sends n bytes of the reply's body at a time, with pauses. A pause that
// is longer than anybody waits makes a body that hangs.
func Drip(n int, pause time.Duration) Fault {
	return func(x *Exchange) {
		r := x.Forward()
		x.stream(r, true, func(send func([]byte) bool) {
			for body := r.Body; len(body) > 0; {
				k := min(n, len(body))
				if !send(body[:k]) {
					return
				}
				body = body[k:]
				t := time.NewTimer(pause)
				select {
				case <-t.C:
				case <-x.left:
					t.Stop()
					return
				case <-x.proxy.ctx.Done():
					t.Stop()
					return
				}
			}
		})
	}
}

// stream answers with a body in pieces, of the reply's length or of one that is
// not announced. send reports whether somebody still reads.
func (x *Exchange) stream(r *Reply, announced bool, body func(send func([]byte) bool)) {
	x.answered = true
	x.status(r.Status)
	h := x.w.Header()
	for name, values := range r.Header {
		switch name {
		case "Connection", "Keep-Alive", "Transfer-Encoding", "Content-Length":
		default:
			h[name] = values
		}
	}
	if announced {
		h.Set("Content-Length", strconv.Itoa(len(r.Body)))
	}
	x.w.WriteHeader(r.Status)
	flush := http.NewResponseController(x.w)
	body(func(b []byte) bool {
		if x.proxy.ctx.Err() != nil {
			return false
		}
		_, err := x.w.Write(b)
		return err == nil && flush.Flush() == nil
	})
}

// Unanswered sends the request to the server, and never answers.
func Unanswered() Fault {
	return func(x *Exchange) {
		x.Forward()
		x.gone()
		x.HangUp()
	}
}

// RepeatAtOnce sends the request twice at the same time, and answers with the
// reply that came last.
func RepeatAtOnce() Fault {
	return func(x *Exchange) {
		replies := make(chan *Reply, 2)
		for range 2 {
			go func() { replies <- x.Forward() }()
		}
		<-replies
		x.Answer(<-replies)
	}
}

// Instead answers with r; the server never sees the request.
func Instead(r *Reply) Fault { return func(x *Exchange) { x.Answer(r.Clone()) } }

// Clone is a copy of a reply that can be changed.
func (r *Reply) Clone() *Reply {
	return &Reply{Status: r.Status, Header: r.Header.Clone(), Body: bytes.Clone(r.Body)}
}

// Page is an answer that no S3 server gives: the HTML of a proxy, or of a portal
// that wants somebody to log in.
func Page(status int) *Reply {
	return &Reply{Status: status, Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}},
		Body: fmt.Appendf(nil, "<!DOCTYPE html><html><head><title>%d</title></head><body><h1>%s</h1></body></html>\n", status, http.StatusText(status))}
}

// Moved redirects to another server, as S3 does while a bucket is young, and as
// portals do.
func Moved(status int, location string) Fault {
	return func(x *Exchange) {
		r := Error(status, "TemporaryRedirect", "Please re-send this request to the specified temporary endpoint.")
		r.Header.Set("Location", location)
		x.Answer(r)
	}
}

// Gzip compresses the body, as proxies do that nobody has asked to.
func Gzip() Fault {
	return Edit(func(r *Reply) {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(r.Body) // to memory
		_ = w.Close()
		r.Body = b.Bytes()
		r.Header.Set("Content-Encoding", "gzip")
	})
}

// Stall is the fault that lets a request be late as Hold does, but leaves the
// client waiting for an answer that does not come.
func (h *Held) Stall() Fault {
	return func(x *Exchange) {
		h.late <- x
		x.gone()
		x.HangUp()
	}
}
