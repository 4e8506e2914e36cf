package s3store

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/s3log/s3log/backend/objstore"
)

// More tests named after reports: what replies mean, reads, lists, copies and
// addresses.

// the wrong region is named, and is not "not found".
func TestA13WrongRegion(t *testing.T) {
	srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Amz-Bucket-Region", "eu-x")
		if r.Method == "HEAD" {
			fail(w, 301, "", "")
			return
		}
		fail(w, 301, "PermanentRedirect", "The bucket you are attempting to access must be addressed using the specified endpoint.")
	})
	s := srv.open(t)
	_, errGet := s.Get(t.Context(), "k", objstore.GetOptions{})
	_, errHead := s.Head(t.Context(), "k")
	_, errPut := put(t, s, objstore.IfAbsent())
	for _, err := range []error{errGet, errHead, errPut} {
		var e *objstore.Error
		if !errors.As(err, &e) || !errors.Is(err, objstore.ErrRefused) || errors.Is(err, objstore.ErrDenied) || e.Hint != "the bucket is in another region: set region=eu-x in the store's URL" {
			t.Errorf("got %v, hint %q", err, e.Hint)
		}
	}
}

// 403 is not absence.
func TestA14DeniedOrAbsent(t *testing.T) {
	srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { fail(w, 403, "", "") })
	s := srv.open(t)
	_, errHead := s.Head(t.Context(), "k")
	_, errGet := s.Get(t.Context(), "k", objstore.GetOptions{})
	for _, err := range []error{errHead, errGet} {
		var e *objstore.Error
		if !errors.As(err, &e) || !errors.Is(err, objstore.ErrDenied) || errors.Is(err, objstore.ErrNotExist) ||
			!strings.Contains(e.Hint, "cannot tell: denied, or absent") || !strings.Contains(e.Hint, "s3:ListBucket") {
			t.Errorf("got %v, hint %q", err, e.Hint)
		}
	}
}

// a denial names the object, and the key that may be the cause.
func TestA15KMSDenied(t *testing.T) {
	srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/segments/") {
			fail(w, 403, "AccessDenied", "Access Denied")
			return
		}
		body(w, `"e"`, "{}")
	})
	s := srv.open(t)
	if _, err := s.Get(t.Context(), "manifests/a.json", objstore.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Get(t.Context(), "segments/a/s1", objstore.GetOptions{})
	var e *objstore.Error
	if !errors.As(err, &e) || e.Key != "segments/a/s1" || !errors.Is(err, objstore.ErrDenied) || !strings.Contains(e.Hint, "kms:Decrypt") {
		t.Errorf("got %v, hint %q", err, e.Hint)
	}
}

// a read waits out a throttled store, with pauses that grow; it returns
// at once when cancelled, and remembers what it waited for.
func TestA18Throttling(t *testing.T) {
	srv := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n <= 8 {
			fail(w, 503, "SlowDown", "Please reduce your request rate.")
			return
		}
		body(w, `"e"`, "x")
	})
	s := srv.open(t, func(c *Config) { c.Retryer = quickRetries(readTries) })
	if _, err := s.Get(t.Context(), "k", objstore.GetOptions{}); err != nil {
		t.Error(err)
	}

	var total time.Duration
	r := newRetryer()
	slow := &retryable503{}
	for try := 1; try <= 8; try++ {
		d, err := r.RetryDelay(try, slow)
		if err != nil || d > 21*time.Second {
			t.Errorf("try %d: %v, %v", try, d, err)
		}
		total += d
	}
	if total < 3*time.Second {
		t.Errorf("eight pauses of %v in all", total)
	}
	if r.MaxAttempts() < 9 {
		t.Errorf("only %d tries", r.MaxAttempts())
	}

	t.Run("cancelled", func(t *testing.T) {
		srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			fail(w, 503, "SlowDown", "Please reduce your request rate.")
		})
		s := srv.open(t, func(c *Config) {
			c.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
				o.RateLimiter = ratelimit.None
				o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return time.Hour, nil })
			})
		})
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := s.Get(ctx, "k", objstore.GetOptions{})
		if time.Since(start) > 5*time.Second {
			t.Error("did not return promptly")
		}
		var e *objstore.Error
		if !errors.As(err, &e) || e.Code != "SlowDown" || e.Status != 503 || !errors.Is(err, objstore.ErrThrottled) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

type retryable503 struct{}

func (*retryable503) Error() string     { return "503" }
func (*retryable503) ErrorCode() string { return "SlowDown" }

// sent twice, the body is the same twice.
func TestA19BodyIsSentAgainWhole(t *testing.T) {
	srv := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			fail(w, 503, "SlowDown", "")
			return
		}
		ok(w, `"e"`)
	})
	s := srv.open(t)
	text := []byte(strings.Repeat("segment ", 1<<19)) // 4 MiB, more than goes without "continue"
	var err error
	for range 2 {
		_, err = s.Put(t.Context(), "segments/a/s1", text, objstore.IfAbsent(), objstore.PutOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	r := srv.requests()
	if len(r) != 2 || string(r[0].body) != string(text) || string(r[1].body) != string(text) {
		t.Errorf("%d requests, bodies of %d and %d bytes", len(r), len(r[0].body), len(r[1].body))
	}
}

// what a key becomes on the wire. Ids are escaped before they are keys,
// so '=' is the one special character; it must arrive as itself.
func TestA20KeysOnTheWire(t *testing.T) {
	srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { ok(w, `"e"`) })
	s := srv.open(t)
	for _, key := range []string{"manifests/a=20b.json", "manifests/a=2Bb.json", "segments/x=2F=2Fy/0", "manifests/=C3=A9.json", "manifests/e=CC=81.json", "manifests/=.=.json"} {
		before := len(srv.requests())
		if _, err := s.Put(t.Context(), key, []byte("x"), objstore.IfAbsent(), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		got, err := url.PathUnescape(srv.requests()[before].path)
		if err != nil || got != "/b/p/"+key {
			t.Errorf("%s arrived as %s (%v)", key, got, err)
		}
	}
	before := len(srv.requests())
	for _, key := range []string{"", "a//b", "/a", "a/", "a/../b", "a b", "é"} {
		if _, err := s.Put(t.Context(), key, []byte("x"), objstore.IfAbsent(), objstore.PutOptions{}); !errors.Is(err, objstore.ErrRejected) {
			t.Errorf("%q: %v", key, err)
		}
	}
	if n := len(srv.requests()) - before; n != 0 {
		t.Errorf("%d requests for keys that are none", n)
	}
}

// page is a reply to a LIST.
func page(w http.ResponseWriter, token string, keys ...string) {
	type content struct {
		Key, ETag, LastModified string
		Size                    int
	}
	p := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		Contents              []content
	}{IsTruncated: token != "", NextContinuationToken: token}
	for _, k := range keys {
		p.Contents = append(p.Contents, content{k, `"e"`, "2026-01-02T03:04:05.678Z", 7})
	}
	w.Header().Set("Content-Type", "application/xml")
	xml.NewEncoder(w).Encode(p)
}

func list(t *testing.T, s objstore.Store, prefix, after string) (keys []string, err error) {
	t.Helper()
	for info, e := range s.List(t.Context(), prefix, after) {
		if err != nil {
			t.Fatal("the list goes on after an error")
		}
		if err = e; err == nil {
			keys = append(keys, info.Key)
		}
	}
	return keys, err
}

// a list that does not advance ends in an error, without duplicates.
func TestA21ListThatNeverAdvances(t *testing.T) {
	tests := map[string]func(n int, w http.ResponseWriter){
		"same page, same token":   func(_ int, w http.ResponseWriter) { page(w, "T", "p/m/a", "p/m/b") },
		"same page, other tokens": func(n int, w http.ResponseWriter) { page(w, fmt.Sprint("T", n), "p/m/a", "p/m/b") },
		"truncated without a token": func(_ int, w http.ResponseWriter) {
			fmt.Fprint(w, `<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>p/m/a</Key></Contents><Contents><Key>p/m/b</Key></Contents></ListBucketResult>`)
		},
		"out of order":         func(_ int, w http.ResponseWriter) { page(w, "", "p/m/a", "p/m/b", "p/m/aa") },
		"not asked for":        func(_ int, w http.ResponseWriter) { page(w, "", "p/m/a", "p/m/b", "q/m/c") },
		"empty pages for ever": func(n int, w http.ResponseWriter) { page(w, fmt.Sprint("T", n)) },
	}
	for name, script := range tests {
		t.Run(name, func(t *testing.T) {
			srv := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) { script(n, w) })
			keys, err := list(t, srv.open(t), "m/", "")
			if !errors.Is(err, objstore.ErrUndecided) {
				t.Errorf("got %v", err)
			}
			seen := map[string]bool{}
			for _, k := range keys {
				if seen[k] {
					t.Errorf("%s twice", k)
				}
				seen[k] = true
			}
			if n := len(srv.requests()); n > emptyPages {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// Keys that are not ours do not keep ours from being listed, whatever they hold:
// XML has no way to say some of them.
func TestListOfKeysThatXMLCannotHold(t *testing.T) {
	strange := []string{"m/\x1b[31m", "m/a b+c%41&", "m/\xff", "m/\u2028", "m/z"}
	slices.Sort(strange)
	const head = `<ListBucketResult><Name>b</Name><IsTruncated>false</IsTruncated>`
	t.Run("encoded", func(t *testing.T) {
		srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("encoding-type") != "url" {
				t.Errorf("asked for %s", r.URL.RawQuery)
			}
			fmt.Fprint(w, head, "<EncodingType>url</EncodingType>")
			for _, key := range strange {
				fmt.Fprintf(w, "<Contents><Key>%s</Key></Contents>", strings.ReplaceAll(url.QueryEscape("p/"+key), "%2F", "/"))
			}
			fmt.Fprint(w, "</ListBucketResult>")
		})
		if keys, err := list(t, srv.open(t), "m/", ""); err != nil || !slices.Equal(keys, strange) {
			t.Errorf("%q, %v", keys, err)
		}
	})
	t.Run("by a server that only says so", func(t *testing.T) {
		srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, head, "<EncodingType>url</EncodingType><Contents><Key>a+b%25/m/k</Key></Contents></ListBucketResult>")
		})
		s := srv.open(t, func(c *Config) { c.Prefix = "a+b%25" })
		if keys, err := list(t, s, "m/", ""); err != nil || !slices.Equal(keys, []string{"m/k"}) {
			t.Errorf("%q, %v", keys, err)
		}
	})
	t.Run("mangled", func(t *testing.T) {
		got := []string{"m/\ufffd[31m", "m/a", "m/\ufffd", "m/b"}
		srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			page(w, "", "p/"+got[0], "p/"+got[1], "p/"+got[2], "p/"+got[3])
		})
		if keys, err := list(t, srv.open(t), "m/", ""); err != nil || !slices.Equal(keys, got) {
			t.Errorf("%q, %v", keys, err)
		}
	})
}

// a body that is cut is fetched again; if it always is, that is a failed
// read and nothing else.
func TestA22ShortBody(t *testing.T) {
	for _, bad := range []int{1, bodyTries - 1, bodyTries} {
		srv := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n <= bad {
				cut(w, 68, strings.Repeat("x", 50))
				return
			}
			body(w, `"e"`, strings.Repeat("x", 68))
		})
		obj, err := srv.open(t).Get(t.Context(), "k", objstore.GetOptions{})
		if bad < bodyTries {
			if err != nil || len(obj.Body) != 68 {
				t.Errorf("%d bad replies: %d bytes, %v", bad, len(obj.Body), err)
			}
			continue
		}
		if !errors.Is(err, objstore.ErrUndecided) || obj.Body != nil || !strings.Contains(err.Error(), "ended early") {
			t.Errorf("got %q, %v", obj.Body, err)
		}
	}
}

// a copy that was answered 200 with an error inside, or with nothing, is
// not a copy; and one that "succeeded" is confirmed.
func TestA23CopyThatFailedWith200(t *testing.T) {
	const done = `<CopyObjectResult><ETag>"e"</ETag></CopyObjectResult>`
	for name, tt := range map[string]struct {
		reply string
		there bool
		want  objstore.Class
	}{
		"done":           {done, true, objstore.Applied},
		"error inside":   {`<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>`, false, objstore.Undecided},
		"nothing":        {``, false, objstore.Undecided},
		"empty result":   {`<CopyObjectResult/>`, false, objstore.Undecided},
		"said, not done": {done, false, objstore.Undecided},
	} {
		t.Run(name, func(t *testing.T) {
			copied := false
			srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == "PUT":
					copied = tt.there
					fmt.Fprint(w, tt.reply)
				case copied:
					w.Header().Set("ETag", `"e"`)
					w.Header().Set("Content-Length", "7")
				default:
					fail(w, 404, "", "")
				}
			})
			info, err := srv.open(t).Copy(t.Context(), "segments/a/s=1", "segments/b/s=1")
			if got := objstore.Classify(err); got != tt.want {
				t.Fatalf("%v: %v", got, err)
			}
			if err == nil && (info.Size != 7 || info.Key != "segments/b/s=1" || info.Version.Token() != `"e"`) {
				t.Errorf("got %+v", info)
			}
			puts := 0
			for _, r := range srv.requests() {
				if r.method == "PUT" {
					puts++
					src, err := url.PathUnescape(r.header.Get("X-Amz-Copy-Source"))
					if err != nil || src != "b/p/segments/a/s=1" || r.header.Get("If-None-Match") != "*" {
						t.Errorf("source %q, condition %q", src, r.header.Get("If-None-Match"))
					}
				}
			}
			if puts != 1 {
				t.Errorf("%d copies were asked for", puts)
			}
		})
	}
}

// a range of an empty object is a range error, not a retry loop.
func TestA24RangeOfNothing(t *testing.T) {
	srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		fail(w, 416, "InvalidRange", "The requested range is not satisfiable")
	})
	_, err := srv.open(t).Get(t.Context(), "k", objstore.GetOptions{Length: 1024})
	if !errors.Is(err, objstore.ErrRange) || len(srv.requests()) != 1 {
		t.Errorf("got %v after %d requests", err, len(srv.requests()))
	}
}

// a gateway that rewrites Accept-Encoding breaks its signature; with the
// switch the header is not signed, and without it the error names the switch.
func TestA25AcceptEncodingRewritten(t *testing.T) {
	srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("Accept-Encoding %q", r.Header.Get("Accept-Encoding"))
		}
		auth := r.Header.Get("Authorization")
		signed := strings.Split(auth[strings.Index(auth, "SignedHeaders=")+len("SignedHeaders="):], ",")[0]
		for h := range strings.SplitSeq(signed, ";") {
			if h == "accept-encoding" {
				fail(w, 403, "SignatureDoesNotMatch", "The request signature we calculated does not match")
				return
			}
		}
		if r.Method == "GET" {
			body(w, `"e"`, "x")
			return
		}
		ok(w, `"e"`)
	})
	s := srv.open(t, func(c *Config) { c.UnsignedAcceptEncoding = true })
	if _, err := put(t, s, objstore.IfAbsent()); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(t.Context(), "k", objstore.GetOptions{}); err != nil {
		t.Error(err)
	}
	_, err := srv.open(t).Get(t.Context(), "k", objstore.GetOptions{})
	var e *objstore.Error
	if !errors.As(err, &e) || !strings.Contains(e.Hint, "sign-accept-encoding=false") {
		t.Errorf("got %v", err)
	}
}

// where the bucket's name goes.
func TestA26BucketsWithDots(t *testing.T) {
	isolate(t)
	for _, tt := range []struct {
		endpoint, bucket string
		addressing       Addressing
		want             string
	}{
		{"", "plain", AddressingAuto, "https://plain.s3.eu-central-1.amazonaws.com/k"},
		{"", "my.dotted.bucket", AddressingAuto, "https://s3.eu-central-1.amazonaws.com/my.dotted.bucket/k"},
		{"", "plain", AddressingPath, "https://s3.eu-central-1.amazonaws.com/plain/k"},
		{"https://s3.eu-central-1.amazonaws.com", "plain", AddressingAuto, "https://plain.s3.eu-central-1.amazonaws.com/k"},
		{"https://s3.eu-central-1.amazonaws.com", "my.dotted.bucket", AddressingAuto, "https://s3.eu-central-1.amazonaws.com/my.dotted.bucket/k"},
		{"http://127.0.0.1:9000", "plain", AddressingAuto, "http://127.0.0.1:9000/plain/k"},
		{"http://localhost:9000", "plain", AddressingAuto, "http://localhost:9000/plain/k"},
		{"https://store.example.com", "plain", AddressingAuto, "https://store.example.com/plain/k"},
		{"https://store.example.com", "plain", AddressingVirtualHost, "https://plain.store.example.com/k"},
		{"https://store.example.com", "my.dotted.bucket", AddressingVirtualHost, "https://store.example.com/my.dotted.bucket/k"},
		{"https://store.example.com/base", "plain", AddressingAuto, "https://store.example.com/base/plain/k"},
	} {
		var got string
		c := Config{Bucket: tt.bucket, Endpoint: tt.endpoint, Region: "eu-central-1", Addressing: tt.addressing,
			Options: Options{Profile: "conditional"},
			LoadOptions: []func(*config.LoadOptions) error{
				config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("A", "S", "")),
				config.WithHTTPClient(doer(func(r *http.Request) (*http.Response, error) {
					got = strings.SplitN(r.URL.String(), "?", 2)[0]
					return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, ContentLength: 0}, nil
				})),
			}}
		s, err := Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := put(t, s, objstore.IfAbsent()); err != nil {
			t.Fatal(err)
		}
		if got != tt.want {
			t.Errorf("%s %s %d:\ngot  %s\nwant %s", tt.endpoint, tt.bucket, tt.addressing, got, tt.want)
		}
	}

	// A certificate that does not fit names the addressing.
	srv := serveTLS(t, func(_ int, w http.ResponseWriter, _ *http.Request) { ok(w, `"e"`) })
	s := srv.open(t, func(c *Config) { c.Endpoint, c.Retryer = strings.Replace(srv.URL, "127.0.0.1", "localhost", 1), nil })
	_, errPut := put(t, s, objstore.IfAbsent())
	_, errGet := s.Get(t.Context(), "k", objstore.GetOptions{})
	for _, err := range []error{errPut, errGet} {
		var e *objstore.Error
		if !errors.As(err, &e) || objstore.Classify(err) != objstore.Refused || !strings.Contains(e.Hint, "certificate") || !strings.Contains(e.Hint, "path-style") {
			t.Errorf("got %v", err)
		}
	}
}

type doer func(*http.Request) (*http.Response, error)

func (f doer) Do(r *http.Request) (*http.Response, error) { return f(r) }

// A caller's own client works as well, with its own retries for reads.
func TestOwnClient(t *testing.T) {
	srv := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if r.Method == "PUT" || n <= 2 {
			fail(w, 500, "InternalError", "")
			return
		}
		body(w, `"e"`, "x")
	})
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(srv.URL), Region: "us-east-1", UsePathStyle: true, Retryer: quickRetries(3), RetryMaxAttempts: 3,
		Credentials: credentials.NewStaticCredentialsProvider("A", "S", ""),
	})
	s, err := New(client, "b", "/p/", Options{Profile: "conditional"})
	if err != nil {
		t.Fatal(err)
	}
	if obj, err := s.Get(t.Context(), "k", objstore.GetOptions{}); err != nil || string(obj.Body) != "x" {
		t.Errorf("got %q, %v", obj.Body, err)
	}
	before := len(srv.requests())
	if _, err := put(t, s, objstore.IfAbsent()); !errors.Is(err, objstore.ErrUndecided) {
		t.Errorf("got %v", err)
	}
	if n := len(srv.requests()) - before; n != 1 {
		t.Errorf("a conditional write was sent %d times", n)
	}
	if got, want := s.String(), "s3://b/p at "+srv.URL; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
