package s3store

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/check"
)

// slow is a server that judges the conditions of a write when it has its
// header, and writes when it has its body.
type slow struct {
	mu      sync.Mutex
	etags   map[string]string
	n       int
	expects []string
}

func (s *slow) serve(_ int, w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.expects = append(s.expects, r.Header.Get("Expect"))
	etag, exists := s.etags[r.URL.Path]
	s.mu.Unlock()
	if match := r.Header.Get("If-Match"); exists && r.Header.Get("If-None-Match") == "*" || match != "" && match != etag {
		fail(w, http.StatusPreconditionFailed, "PreconditionFailed", "")
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	s.etags[r.URL.Path] = fmt.Sprintf(`"%d"`, s.n)
	ok(w, s.etags[r.URL.Path])
}

// Writes of a proof meet on the server: it has both headers before it gets a
// body.
func TestWritesMeetOnTheServer(t *testing.T) {
	s := &slow{etags: map[string]string{}}
	srv := startUnread(t, s.serve)
	store := srv.open(t)
	if _, err := check.Prove(t.Context(), store); !errors.Is(err, objstore.ErrUnsupported) || !strings.Contains(err.Error(), "checks first and writes later") {
		t.Errorf("got %v", err)
	}
	// Only those two ask to be asked for their bodies.
	if got := fmt.Sprintf("%q", s.expects[:4]); got != `["" "" "100-continue" "100-continue"]` {
		t.Errorf("Expect: %s", got)
	}
}

// A server that cannot ask for a body gets it at once.
func TestExpectationFailed(t *testing.T) {
	objects := map[string]string{}
	srv := serve(t, inTurn(func(n int, w http.ResponseWriter, r *http.Request) {
		etag, exists := objects[r.URL.Path]
		match := r.Header.Get("If-Match")
		switch {
		case r.Header.Get("Expect") != "":
			fail(w, http.StatusExpectationFailed, "", "")
		case exists && r.Header.Get("If-None-Match") == "*" || match != "" && match != etag:
			fail(w, http.StatusPreconditionFailed, "PreconditionFailed", "")
		default:
			objects[r.URL.Path] = fmt.Sprintf(`"%d"`, n)
			ok(w, objects[r.URL.Path])
		}
	}))
	if _, err := check.Prove(t.Context(), srv.open(t)); err != nil {
		t.Error(err)
	}
}

// A server that never asks is sent the body after a second.
func TestServerThatNeverAsks(t *testing.T) {
	s := &slow{etags: map[string]string{}}
	srv := startUnread(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Expect") != "" {
			conn, buf, err := w.(http.Hijacker).Hijack() // from here on nobody says "100 Continue"
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			if _, err := io.CopyN(io.Discard, buf, r.ContentLength); err != nil {
				t.Error(err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			etag := s.etags[r.URL.Path]
			if r.Header.Get("If-Match") != etag {
				fmt.Fprint(conn, "HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
				return
			}
			s.etags[r.URL.Path] = fmt.Sprintf(`"x%d"`, n)
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nETag: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", s.etags[r.URL.Path])
			return
		}
		s.serve(n, w, r)
	})
	begin := time.Now()
	if _, err := check.Prove(t.Context(), srv.open(t)); err != nil {
		t.Error(err)
	}
	if d := time.Since(begin); d > 10*time.Second {
		t.Errorf("the proof took %v", d)
	}
}

// What was found out in one place is known to every store of that place.
func TestDisprove(t *testing.T) {
	srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s was sent", r.Method, r.URL)
	})
	unproved := func(c *Config) { c.Profile = "" }
	a, b, proved := srv.open(t, unproved), srv.open(t, unproved, func(c *Config) { c.Prefix = "q" }), srv.open(t)
	why := &objstore.Error{Op: "Put", Key: "k", Class: objstore.ErrUnsupported, Err: errors.New("two winners")}
	proved.Disprove(errors.New("nobody asks it")) // it has no guard
	a.Disprove(why)
	if _, err := put(t, b, objstore.IfAbsent()); !errors.Is(err, objstore.ErrUnsupported) || !strings.Contains(err.Error(), "two winners") {
		t.Errorf("got %v", err)
	}
}
