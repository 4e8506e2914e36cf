package s3store

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/s3log/s3log/backend/objstore"
)

// webPage answers as proxies and portals do.
func webPage(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprint(w, "<html><head><title>nginx</title></head><body><hr>oh & no")
}

// A page of HTML says nothing of what the store did, nor of the object, whatever
// its status. Two statuses are of those who have not passed the request on.
func TestPages(t *testing.T) {
	for status, want := range map[int]struct {
		class error
		hint  string
	}{
		400: {objstore.ErrUndecided, "portal"}, 401: {objstore.ErrUndecided, "portal"}, 403: {objstore.ErrUndecided, "portal"},
		404: {objstore.ErrUndecided, "portal"}, 302: {objstore.ErrUndecided, "portal"},
		502: {objstore.ErrUndecided, ""}, 504: {objstore.ErrUndecided, ""},
		413: {objstore.ErrRejected, "client_max_body_size"}, 407: {objstore.ErrRefused, "HTTPS_PROXY"},
	} {
		srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { webPage(w, status) })
		s := srv.open(t)
		_, perr := put(t, s, objstore.IfAbsent())
		_, gerr := s.Get(t.Context(), "k", objstore.GetOptions{})
		_, herr := s.Head(t.Context(), "k")
		for what, err := range map[string]error{"Put": perr, "Get": gerr, "Head": herr} {
			e, ok := errors.AsType[*objstore.Error](err)
			if !ok || !errors.Is(err, want.class) || errors.Is(err, objstore.ErrNotExist) || !strings.Contains(e.Hint, want.hint) || e.Status != status {
				t.Errorf("%s of %d: %v, want %v", what, status, err, want.class)
			}
		}
	}
}

// A page with 200 is no object, and an object may be gone for it to come back.
func TestPageInsteadOfAnObject(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"a page":   func(w http.ResponseWriter) { webPage(w, 200) },
		"nothing":  func(w http.ResponseWriter) { w.Header().Set("Content-Length", "0") },
		"an error": func(w http.ResponseWriter) { fail(w, 200, "InternalError", "We encountered an internal error.") },
	} {
		t.Run(name, func(t *testing.T) {
			times := 2
			srv := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
				if n <= times {
					answer(w)
					return
				}
				body(w, `"e"`, "text")
			})
			s := srv.open(t)
			if obj, err := s.Get(t.Context(), "k", objstore.GetOptions{}); err != nil || string(obj.Body) != "text" {
				t.Errorf("%q, %v", obj.Body, err)
			}
			times = 1 << 30
			_, err := s.Get(t.Context(), "k", objstore.GetOptions{})
			e, ok := errors.AsType[*objstore.Error](err)
			if !ok || !errors.Is(err, objstore.ErrUndecided) || e.Hint == "" && name != "an error" || !strings.Contains(err.Error(), `bucket "b" at `+srv.URL) && name != "an error" {
				t.Errorf("%+v", err)
			}
			if n := len(srv.requests()); n != 3+bodyTries {
				t.Errorf("%d requests", n)
			}
			if info, err := s.Head(t.Context(), "k"); name == "a page" && !errors.Is(err, objstore.ErrUndecided) {
				t.Errorf("Head: %+v, %v", info, err)
			}
		})
	}
	// What has an ETag is an object, whatever it is called.
	srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		body(w, `"e"`, "text")
	})
	if obj, err := srv.open(t).Get(t.Context(), "k", objstore.GetOptions{}); err != nil || string(obj.Body) != "text" {
		t.Errorf("%q, %v", obj.Body, err)
	}
}

// A body that was compressed on the way is not handed out as the object.
func TestContentEncoding(t *testing.T) {
	encoding := "gzip"
	srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); got != "identity" {
			t.Errorf("Accept-Encoding %q asks for it", got)
		}
		text := "text"
		if encoding == "gzip" {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			z.Write([]byte(text))
			z.Close()
			text = b.String()
		}
		w.Header().Set("Content-Encoding", encoding)
		body(w, `"e"`, text)
	})
	s := srv.open(t)
	_, err := s.Get(t.Context(), "k", objstore.GetOptions{})
	e, ok := errors.AsType[*objstore.Error](err)
	if !ok || !errors.Is(err, objstore.ErrUnsupported) || !strings.Contains(err.Error(), `"gzip"`) || e.Hint == "" {
		t.Errorf("%+v", err)
	}
	for _, encoding = range []string{"identity", "aws-chunked"} {
		if obj, err := s.Get(t.Context(), "k", objstore.GetOptions{}); err != nil || string(obj.Body) != "text" {
			t.Errorf("%s: %q, %v", encoding, obj.Body, err)
		}
	}
}

// A body that stops coming is fetched again, also where nobody would ever give
// up; one that comes slowly is waited for.
func TestBodyThatHangs(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	hangs := 1
	srv := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"e"`)
		w.Header().Set("Content-Length", "4")
		for i, c := range "text" {
			if i == 2 && n <= hangs {
				select {
				case <-hang:
				case <-r.Context().Done():
				}
				return
			}
			fmt.Fprint(w, string(c))
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
	})
	s := srv.open(t, func(c *Config) { c.ReplyTimeout = 60 * time.Millisecond })
	if obj, err := s.Get(t.Context(), "k", objstore.GetOptions{}); err != nil || string(obj.Body) != "text" || len(srv.requests()) != 2 {
		t.Errorf("%q, %v, %d requests", obj.Body, err, len(srv.requests()))
	}
	hangs = 1 << 30
	_, err := s.Get(t.Context(), "k", objstore.GetOptions{})
	if !errors.Is(err, objstore.ErrUndecided) || isContext(err) || !strings.Contains(err.Error(), "nothing came for 60ms") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.Get(ctx, "k", objstore.GetOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// Replies without end do not fill the memory.
func TestEndlessReplies(t *testing.T) {
	var status int
	srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"e"`)
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		head := `<?xml version="1.0" encoding="UTF-8"?><Error><Code>InternalError</Code><Message>`
		switch {
		case status == 200 && r.Method != "GET":
			head = "<Result>" // the SDK knows that an error may come with 200
		case status == 200:
			head = `<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Contents><Key>`
		}
		if _, err := fmt.Fprint(w, head); err != nil {
			return
		}
		for chunk := strings.Repeat("x", 64<<10); ; {
			if _, err := fmt.Fprint(w, chunk); err != nil {
				return
			}
		}
	})
	s := srv.open(t, func(c *Config) { c.Retryer = quickRetries(1) })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, status = range []int{200, 400, 500} {
		_, err := put(t, s, objstore.IfAbsent())
		if status == 200 && err != nil || status != 200 && err == nil {
			t.Errorf("Put, %d: %v", status, err)
		}
		if status != 200 {
			if _, err := s.Get(t.Context(), "k", objstore.GetOptions{}); err == nil {
				t.Errorf("Get, %d: no error", status)
			}
		} else if _, err := s.Get(t.Context(), "k", objstore.GetOptions{Limit: 1 << 20}); !errors.Is(err, objstore.ErrTooLarge) {
			t.Errorf("Get: %v", err)
		}
		for _, err := range s.List(t.Context(), "p", "") {
			if err == nil {
				t.Errorf("List, %d: no error", status)
			}
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<30 {
		t.Errorf("%d MiB were allocated", n>>20)
	}
}

// Where the place may be the wrong one, errors name it: bucket and endpoint.
func TestErrorsNameThePlace(t *testing.T) {
	status, code := 404, "NoSuchBucket"
	srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		fail(w, status, code, "The specified bucket does not exist")
	})
	s := srv.open(t)
	place := fmt.Sprintf("bucket %q at %s", "b", srv.URL)
	named := func(what string, err error, hint string) {
		t.Helper()
		e, ok := errors.AsType[*objstore.Error](err)
		if !ok || !strings.Contains(err.Error(), place) || !strings.Contains(e.Hint, hint) {
			t.Errorf("%s: %+v, want it to name %s and to hint at %q", what, err, place, hint)
		}
	}
	all := func(hint string) {
		t.Helper()
		_, err := s.Get(t.Context(), "k", objstore.GetOptions{})
		named("Get", err, hint)
		_, err = put(t, s, objstore.IfAbsent())
		named("Put", err, hint)
		_, err = put(t, s, version(`"e"`))
		named("Put", err, hint)
		named("Delete", s.Delete(t.Context(), "k"), hint)
		for _, err := range s.List(t.Context(), "p", "") {
			named("List", err, hint)
		}
	}
	all("no such bucket")
	if _, err := s.Copy(t.Context(), "a", "b"); err == nil {
		t.Error("copied")
	}

	// A server without that much sense says less about the create of an object.
	code = "NoSuchKey"
	_, err := put(t, s, objstore.IfAbsent())
	named("Put", err, "is there such a bucket")
	status, code = 301, "PermanentRedirect"
	_, err = s.Get(t.Context(), "k", objstore.GetOptions{})
	named("Get", err, "region")

	srv.Close() // nobody is there
	all("nobody can be reached there")
	if _, err := s.Head(t.Context(), "k"); errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("Head: %v", err)
	}

	// On AWS the region is the place.
	aws := &driver{bucket: "b", endpoint: "aws:eu-x"}
	if got := aws.at(errors.New("no")).Error(); got != `bucket "b" of AWS, region eu-x: no` {
		t.Error(got)
	}
	if got := (&driver{bucket: "b", endpoint: "resolver 0x1"}).at(errors.New("no")).Error(); got != `bucket "b": no` {
		t.Error(got)
	}
}

// A page of a list that is cut, that hangs, or that is none is fetched again, and
// never taken for the end of the list.
func TestListPages(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	const head = `<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>b</Name><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated><Contents><Key>p/k</Key><Size>1</Size>`
	const whole = head + `</Contents></ListBucketResult>`
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"a page":     func(w http.ResponseWriter, _ *http.Request) { webPage(w, 200) },
		"a 404 page": func(w http.ResponseWriter, _ *http.Request) { webPage(w, 404) },
		"nothing":    func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "0") },
		"other XML":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<Other><Key>k</Key></Other>") },
		"cut":        func(w http.ResponseWriter, _ *http.Request) { cut(w, len(whole), head) },
		"too short":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, head) },
		"hangs": func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, head)
			w.(http.Flusher).Flush()
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			times := 1
			srv := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
				if n <= times {
					answer(w, r)
					return
				}
				fmt.Fprint(w, whole)
			})
			s := srv.open(t, func(c *Config) { c.ReplyTimeout = 60 * time.Millisecond })
			list := func() (keys []string, err error) {
				for info, err := range s.List(t.Context(), "", "") {
					if err != nil {
						return keys, err
					}
					keys = append(keys, info.Key)
				}
				return keys, nil
			}
			// A refusal is not repeated, whoever it comes from.
			if keys, err := list(); name != "a 404 page" && (err != nil || len(keys) != 1 || keys[0] != "k") {
				t.Errorf("%q, %v", keys, err)
			}
			times = 1 << 30
			keys, err := list()
			if !errors.Is(err, objstore.ErrUndecided) || isContext(err) || len(keys) > 0 {
				t.Errorf("%q, %v", keys, err)
			}
		})
	}
}

// A write that waited for a connection until nobody waited for it any more was
// not sent, however that is said; one that had a connection may have been.
func TestUnsentWhileDialling(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	expired, stop := context.WithCancel(t.Context())
	stop()
	for name, tc := range map[string]struct {
		silent bool // nobody accepts a connection, and nobody refuses it
		ctx    context.Context
		class  objstore.Class
	}{
		"nobody accepts":  {true, t.Context(), objstore.TryAgain},
		"nobody answers":  {false, t.Context(), objstore.Undecided},
		"over beforehand": {false, expired, objstore.Undecided}, // so says the contract
	} {
		t.Run(name, func(t *testing.T) {
			s := srv.open(t, func(c *Config) {
				if tc.silent {
					c.LoadOptions = append(c.LoadOptions, config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(tr *http.Transport) {
						tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
							select {
							case <-hang: // net/http goes on dialling for others
							case <-ctx.Done():
							}
							return nil, errors.New("nobody is there")
						}
					})))
				}
			})
			ctx, cancel := context.WithTimeout(tc.ctx, 50*time.Millisecond)
			defer cancel()
			before := len(srv.requests())
			_, err := put(t, withContext{s, ctx}, objstore.IfAbsent())
			if objstore.Classify(err) != tc.class || errors.Is(err, objstore.ErrUnsent) != (tc.class == objstore.TryAgain) || !isContext(err) {
				t.Errorf("got %v, want %v", err, tc.class)
			}
			if sent := len(srv.requests()) > before; sent != (name == "nobody answers") {
				t.Errorf("it was sent: %v", sent)
			}
		})
	}
}

// withContext is a store whose callers have another context.
type withContext struct {
	objstore.Store
	ctx context.Context
}

func (s withContext) Put(_ context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	return s.Store.Put(s.ctx, key, body, cond, opt)
}
