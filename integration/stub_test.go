package integration

import (
	"crypto/md5"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// stub is a server of objects that does with conditions what a test wants it
// to. It asks nobody for keys.
type stub struct {
	*httptest.Server
	// put decides about a PUT: whether it takes place, and what is said.
	put func(r *http.Request, etag string) (applied bool, status int, code string)
	// ahead is how far its clock is ahead of ours.
	ahead time.Duration

	mu      sync.Mutex
	objects map[string]stubObject
	puts    []string // paths of all PUTs
}

type stubObject struct {
	body []byte
	etag string
	meta http.Header
}

func startStub(t *testing.T) *stub {
	t.Helper()
	s := &stub{objects: map[string]stubObject{}, put: honest}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

// honest obeys conditions.
func honest(r *http.Request, etag string) (bool, int, string) {
	if match := r.Header.Get("If-Match"); r.Header.Get("If-None-Match") == "*" && etag != "" || match != "" && match != etag {
		return false, http.StatusPreconditionFailed, "PreconditionFailed"
	}
	return true, http.StatusOK, ""
}

// carelessPut applies everything.
func carelessPut(*http.Request, string) (bool, int, string) { return true, http.StatusOK, "" }

// invertedPut fails where it should not, and the other way round.
func invertedPut(r *http.Request, etag string) (bool, int, string) {
	if ok, _, _ := honest(r, etag); ok {
		return false, http.StatusPreconditionFailed, "PreconditionFailed"
	}
	return true, http.StatusOK, ""
}

// halfInvertedPut gets creates wrong and replacements right.
func halfInvertedPut(r *http.Request, etag string) (bool, int, string) {
	if r.Header.Get("If-Match") != "" {
		return honest(r, etag)
	}
	return invertedPut(r, etag)
}

// ignorantPut knows no conditions and says so.
func ignorantPut(r *http.Request, _ string) (bool, int, string) {
	if r.Header.Get("If-Match")+r.Header.Get("If-None-Match") != "" {
		return false, http.StatusNotImplemented, "NotImplemented"
	}
	return true, http.StatusOK, ""
}

func (s *stub) fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message></Message></Error>`, code)
}

func (s *stub) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().Add(s.ahead)
	w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
	if signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date")); err != nil || now.Sub(signed).Abs() > 15*time.Minute {
		s.fail(w, http.StatusForbidden, "RequestTimeTooSkewed")
		return
	}
	path, _, _ := strings.Cut(r.RequestURI, "?")
	obj, exists := s.objects[path]
	switch r.Method {
	case http.MethodPut:
		s.puts = append(s.puts, path)
		applied, status, code := s.put(r, obj.etag)
		if applied {
			obj = stubObject{body: body, etag: fmt.Sprintf("%q", fmt.Sprintf("%x", md5.Sum(body))), meta: http.Header{}}
			for k, v := range r.Header {
				if strings.HasPrefix(k, "X-Amz-Meta-") {
					obj.meta[k] = v
				}
			}
			s.objects[path] = obj
		}
		if code != "" {
			s.fail(w, status, code)
			return
		}
		w.Header().Set("ETag", obj.etag)
		w.WriteHeader(status)
	case http.MethodGet, http.MethodHead:
		if !exists {
			s.fail(w, http.StatusNotFound, "NoSuchKey")
			return
		}
		for k, v := range obj.meta {
			w.Header()[k] = v
		}
		w.Header().Set("ETag", obj.etag)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(obj.body)))
	case http.MethodDelete:
		delete(s.objects, path)
		w.WriteHeader(http.StatusNoContent)
	default:
		s.fail(w, http.StatusNotImplemented, "NotImplemented")
	}
}

// written are the PUTs of keys that hold part.
func (s *stub) written(part string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, path := range s.puts {
		if strings.Contains(path, part) {
			n++
		}
	}
	return n
}

// behave changes what it does with conditions.
func (s *stub) behave(put func(*http.Request, string) (bool, int, string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put = put
}
