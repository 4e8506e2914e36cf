package s3store

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/s3log/s3log/backend/objstore"
)

// seen is a request as it was on the wire.
type seen struct {
	method, path, query string // path as escaped by the client
	header              http.Header
	length              int64
	encoding            []string // transfer encoding
	body                []byte
}

// server is a scripted S3 server. It routes on nothing: the script sees what
// the client sent. (http.ServeMux would clean paths.)
type server struct {
	*httptest.Server
	mu   sync.Mutex
	seen []seen
}

// serve starts a server whose n-th request, from 1, is answered by script.
func serve(t *testing.T, script func(n int, w http.ResponseWriter, r *http.Request)) *server {
	t.Helper()
	s := start(t, script)
	s.Start()
	return s
}

// inTurn makes a script that has a state safe: a proof has requests that race.
func inTurn(script func(n int, w http.ResponseWriter, r *http.Request)) func(n int, w http.ResponseWriter, r *http.Request) {
	var mu sync.Mutex
	return func(n int, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		script(n, w, r)
	}
}

func serveTLS(t *testing.T, script func(n int, w http.ResponseWriter, r *http.Request)) *server {
	t.Helper()
	s := start(t, script)
	s.StartTLS()
	return s
}

func start(t *testing.T, script func(n int, w http.ResponseWriter, r *http.Request)) *server {
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.mu.Lock()
		s.seen = append(s.seen, seen{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Clone(), r.ContentLength, r.TransferEncoding, body})
		n := len(s.seen)
		s.mu.Unlock()
		script(n, w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// startUnread starts a server whose script reads bodies by itself, and whose
// requests are not kept.
func startUnread(t *testing.T, script func(n int, w http.ResponseWriter, r *http.Request)) *server {
	t.Helper()
	s := &server{}
	var n atomic.Int64
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		script(int(n.Add(1)), w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) requests() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.seen...)
}

// open opens a store on the server: proved already, quick to retry. change may
// alter the configuration.
func (s *server) open(t *testing.T, change ...func(*Config)) *Store {
	t.Helper()
	isolate(t)
	c := Config{
		Bucket: "b", Prefix: "p", Region: "us-east-1", Endpoint: s.URL,
		Options: Options{Profile: "conditional", Retryer: quickRetries(4)},
		LoadOptions: []func(*config.LoadOptions) error{
			config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("AKID", "SECRET", "")),
		},
	}
	if s.TLS != nil {
		c.LoadOptions = append(c.LoadOptions, config.WithHTTPClient(s.Client()))
	}
	for _, f := range change {
		f(&c)
	}
	st, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	st.driver.sleep = func(ctx context.Context, _ int) error { return ctx.Err() }
	return st
}

// isolate hides the AWS configuration of whoever runs the tests.
func isolate(t *testing.T) {
	t.Helper()
	for _, name := range []string{"AWS_PROFILE", "AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_CA_BUNDLE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

func quickRetries(attempts int) aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = attempts
		o.RateLimiter = ratelimit.None
		o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return time.Millisecond, nil })
	})
}

// fail answers with an S3 error; an empty code means an empty body.
func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("X-Amz-Request-Id", "REQ-1")
	if code == "" {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>%s</Message><RequestId>REQ-1</RequestId></Error>`, code, message)
}

// ok answers a PUT.
func ok(w http.ResponseWriter, etag string) {
	if etag != "" {
		w.Header().Set("ETag", etag)
	}
	w.WriteHeader(http.StatusOK)
}

// body answers a GET.
func body(w http.ResponseWriter, etag, text string) {
	w.Header().Set("ETag", etag)
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	io.WriteString(w, text)
}

// cut announces length bytes, sends text and hangs up.
func cut(w http.ResponseWriter, length int, text string) {
	w.Header().Set("ETag", `"e"`)
	w.Header().Set("Content-Length", fmt.Sprint(length))
	io.WriteString(w, text)
	w.(http.Flusher).Flush()
	hangUp(w)
}

// hangUp closes the connection under a request.
func hangUp(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
}

func put(t *testing.T, s objstore.Store, cond objstore.Condition) (objstore.Info, error) {
	t.Helper()
	return s.Put(t.Context(), "k", []byte("body"), cond, objstore.PutOptions{})
}

func version(token string) objstore.Condition {
	return objstore.IfVersion(objstore.NewVersion(token))
}

// readAll is the body of a request.
func readAll(r *http.Request) []byte {
	text, _ := io.ReadAll(r.Body)
	return text
}
