package s3store

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/s3log/s3log/backend/objstore"
)

// The tests in this file are named after reports of users of similar software,
// as far as the driver alone can get them right or wrong.

// 409 on a create is neither "exists" nor "lost".
func TestA02ConflictIsNotExists(t *testing.T) {
	srv := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			fail(w, 409, "ConditionalRequestConflict", "")
			return
		}
		ok(w, `"e1"`)
	})
	s := srv.open(t)
	_, err := put(t, s, objstore.IfAbsent())
	if objstore.Classify(err) != objstore.TryAgain || errors.Is(err, objstore.ErrPrecondition) {
		t.Fatalf("got %v", err)
	}
	if info, err := put(t, s, objstore.IfAbsent()); err != nil || info.Version.Token() != `"e1"` {
		t.Fatalf("got %+v, %v", info, err)
	}
}

// If-Match on an object that is gone says so, and nothing else is sent.
func TestA03ReplaceWhatIsGone(t *testing.T) {
	srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { fail(w, 404, "NoSuchKey", "") })
	_, err := put(t, srv.open(t), version(`"e1"`))
	if !errors.Is(err, objstore.ErrGone) || objstore.Classify(err) != objstore.Precondition {
		t.Errorf("got %v", err)
	}
	if n := len(srv.requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// a server that ignores or inverts conditions is found out by the
// first write, is refused, and stays readable.
func TestA04A05UnsafeStores(t *testing.T) {
	for name, tt := range map[string]struct {
		put  func(exists bool, w http.ResponseWriter)
		want string
	}{
		"ignored": {func(_ bool, w http.ResponseWriter) { ok(w, `"e"`) }, "must fail where an object is"},
		"inverted": {func(exists bool, w http.ResponseWriter) {
			if exists {
				ok(w, `"e"`)
			} else {
				fail(w, 412, "PreconditionFailed", "")
			}
		}, "must succeed where no object is"},
		"not there": {func(_ bool, w http.ResponseWriter) {
			fail(w, 501, "NotImplemented", "A header you provided implies functionality that is not implemented")
		}, "not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			written := map[string]bool{}
			srv := serve(t, inTurn(func(_ int, w http.ResponseWriter, r *http.Request) {
				switch r.Method {
				case "GET":
					body(w, `"e"`, "here")
				case "PUT":
					tt.put(written[r.RequestURI], w)
					written[r.RequestURI] = true
				default:
					w.WriteHeader(204)
				}
			}))
			s := srv.open(t, func(c *Config) { c.Profile = "" })
			if _, err := s.Get(t.Context(), "k", objstore.GetOptions{}); err != nil || len(srv.requests()) != 1 {
				t.Fatalf("a read: %v, %d requests", err, len(srv.requests()))
			}
			for range 2 {
				_, err := put(t, s, objstore.IfAbsent())
				if !errors.Is(err, objstore.ErrUnsupported) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want one with %q", err, tt.want)
				}
			}
			for _, r := range srv.requests() {
				if r.method == "PUT" && !strings.HasPrefix(r.path, "/b/p/probe/") {
					t.Errorf("PUT %s on an unsafe store", r.path)
				}
			}
			if _, err := s.Get(t.Context(), "k", objstore.GetOptions{}); err != nil {
				t.Errorf("not readable any more: %v", err)
			}
		})
	}
}

// the quotes of an ETag are sent back as they came.
func TestA06QuotesKept(t *testing.T) {
	for _, tag := range []string{`"abc"`, `abc`} {
		srv := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
			if r.Method == "GET" {
				body(w, tag, "x")
				return
			}
			ok(w, tag)
		})
		s := srv.open(t)
		obj, err := s.Get(t.Context(), "k", objstore.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := put(t, s, objstore.IfVersion(obj.Version)); err != nil {
			t.Fatal(err)
		}
		if got := srv.requests()[1].header.Get("If-Match"); got != tag {
			t.Errorf("sent %q for %q", got, tag)
		}
	}
}

// an ETag that was weakened or removed reads well, but a write on it
// fails before any request.
func TestA07WeakOrMissingETag(t *testing.T) {
	for _, tag := range []string{`W/"abc"`, `w/"abc"`, ``, `""`} {
		t.Run(tag, func(t *testing.T) {
			srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				if tag != "" {
					w.Header().Set("ETag", tag)
				}
				w.Write([]byte("x"))
			})
			s := srv.open(t)
			obj, err := s.Get(t.Context(), "k", objstore.GetOptions{})
			if err != nil || string(obj.Body) != "x" {
				t.Fatalf("got %q, %v", obj.Body, err)
			}
			if !obj.Version.IsZero() {
				t.Errorf("version %v", obj.Version)
			}
			_, err = put(t, s, objstore.IfVersion(obj.Version))
			if objstore.Classify(err) != objstore.Refused || !strings.Contains(err.Error(), "no usable strong ETag (proxy?)") {
				t.Errorf("got %v", err)
			}
			if n := len(srv.requests()); n != 1 {
				t.Errorf("%d requests, want the read alone", n)
			}
		})
	}
}

// the ETag need not be an MD5.
func TestA08ETagIsOpaque(t *testing.T) {
	for _, tag := range []string{`"0f1e2d3c4b5a69788796a5b4c3d2e1f0-2"`, `"00112233445566778899aabbccddeeff"`} {
		srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { body(w, tag, "text") })
		obj, err := srv.open(t).Get(t.Context(), "k", objstore.GetOptions{})
		if err != nil || string(obj.Body) != "text" || obj.Version.Token() != tag {
			t.Errorf("got %q %v, %v", obj.Body, obj.Version, err)
		}
	}
}

// no chunked signatures and no trailers, on http and on https, whatever
// the client's own settings; and an integrity header every time.
func TestA09NoTrailers(t *testing.T) {
	script := func(_ int, w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") || r.Header.Get("X-Amz-Trailer") != "" ||
			strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING") {
			fail(w, 400, "NotImplemented", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
			return
		}
		ok(w, `"e"`)
	}
	for name, srv := range map[string]*server{"http": serve(t, script), "https": serveTLS(t, script)} {
		for _, sum := range []Checksum{ChecksumAuto, ChecksumMD5, ChecksumCRC32C} {
			t.Run(name+" "+string(sum), func(t *testing.T) {
				before := len(srv.requests())
				s := srv.open(t, func(c *Config) {
					c.Checksum = sum
					// The environment asks for more than is good.
					c.LoadOptions = append(c.LoadOptions, config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenSupported))
				})
				if _, err := put(t, s, objstore.IfAbsent()); err != nil {
					t.Fatal(err)
				}
				r := srv.requests()[before]
				if r.length != 4 || len(r.encoding) != 0 || string(r.body) != "body" {
					t.Errorf("length %d, encoding %v, body %q", r.length, r.encoding, r.body)
				}
				sumMD5 := md5.Sum([]byte("body"))
				wantMD5, wantCRC := base64.StdEncoding.EncodeToString(sumMD5[:]), ""
				if sum == ChecksumCRC32C {
					wantMD5, wantCRC = "", "Jj/JUA=="
				}
				if got := r.header.Get("Content-Md5"); got != wantMD5 {
					t.Errorf("Content-MD5 %q, want %q", got, wantMD5)
				}
				if got := r.header.Get("X-Amz-Checksum-Crc32c"); got != wantCRC {
					t.Errorf("CRC %q, want %q", got, wantCRC)
				}
			})
		}
	}
}

// a bucket with object lock refuses writes without a checksum; all pass,
// those of the proof, too. And where the header is the wrong one, the error
// says which knob to turn.
func TestA10ObjectLockWantsChecksum(t *testing.T) {
	objects := map[string]string{}
	n := 0
	srv := serve(t, inTurn(func(_ int, w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case "PUT":
			if r.Header.Get("Content-Md5") == "" && r.Header.Get("X-Amz-Checksum-Crc32c") == "" {
				fail(w, 400, "InvalidRequest", "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock parameters")
				return
			}
			etag := objects[r.RequestURI]
			if none := r.Header.Get("If-None-Match") == "*"; none && etag != "" || !none && r.Header.Get("If-Match") != etag {
				fail(w, 412, "PreconditionFailed", "")
				return
			}
			n++
			objects[r.RequestURI] = fmt.Sprintf("%q", fmt.Sprint("e", n))
			ok(w, objects[r.RequestURI])
		default:
			w.WriteHeader(204)
		}
	}))
	s := srv.open(t, func(c *Config) { c.Profile = "" })
	for _, key := range []string{"manifests/a.json", "segments/a/s"} {
		if _, err := s.Put(t.Context(), key, []byte(key), objstore.IfAbsent(), objstore.PutOptions{}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}

	strict := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		fail(w, 400, "InvalidRequest", "Missing required header for this request: x-amz-checksum-crc32c")
	})
	_, err := put(t, strict.open(t), objstore.IfAbsent())
	var e *objstore.Error
	if !errors.As(err, &e) || !errors.Is(err, objstore.ErrRejected) || !strings.Contains(e.Hint, "checksum=crc32c") {
		t.Errorf("got %v, hint %q", err, e.Hint)
	}
}

// a wrong clock is measured by the reply, and the request sent once more.
func TestA11ClockSkew(t *testing.T) {
	const skew = time.Hour
	script := func(_ int, w http.ResponseWriter, r *http.Request) {
		signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		if err != nil {
			t.Errorf("signing time: %v", err)
		}
		now := time.Now().Add(skew)
		w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
		if d := now.Sub(signed).Abs(); d > 15*time.Minute {
			fail(w, 403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large.")
			return
		}
		ok(w, `"e"`)
	}
	srv := serve(t, script)
	info, err := put(t, srv.open(t), objstore.IfAbsent())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(srv.requests()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
	if d := time.Until(info.Date) - skew; d.Abs() > time.Minute {
		t.Errorf("the store's clock is said to be %v", info.Date)
	}

	t.Run("incurable", func(t *testing.T) {
		srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { fail(w, 403, "RequestTimeTooSkewed", "too large") })
		_, err := put(t, srv.open(t), objstore.IfAbsent())
		var e *objstore.Error
		if !errors.As(err, &e) || objstore.Classify(err) != objstore.Refused || !strings.Contains(e.Hint, "clock") || strings.Contains(e.Hint, "credentials") {
			t.Errorf("got %v, hint %q", err, e.Hint)
		}
		if n := len(srv.requests()); n != 2 {
			t.Errorf("%d requests, want one and a corrected one", n)
		}
	})
}

// renewable hands out other keys every time it is asked.
type renewable struct {
	n   atomic.Int64
	err error // of the second time and later
}

func (p *renewable) Retrieve(context.Context) (aws.Credentials, error) {
	n := p.n.Add(1)
	if n > 1 && p.err != nil {
		return aws.Credentials{}, p.err
	}
	return aws.Credentials{AccessKeyID: fmt.Sprint("KEY", n), SecretAccessKey: "SECRET", SessionToken: "T", CanExpire: true, Expires: time.Now().Add(time.Hour)}, nil
}

// expired credentials are renewed once, and the request is signed anew.
func TestA12ExpiredToken(t *testing.T) {
	expired := func(_ int, w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.Contains(r.Header.Get("Authorization"), "Credential=KEY1/"):
			if r.Method == "GET" {
				body(w, `"e"`, "x")
				return
			}
			ok(w, `"e"`)
		case r.Method == "HEAD":
			fail(w, 400, "", "")
		default:
			fail(w, 400, "ExpiredToken", "The provided token has expired.")
		}
	}
	open := func(t *testing.T, srv *server, p *renewable) *Store {
		return srv.open(t, func(c *Config) {
			c.LoadOptions = append(c.LoadOptions, config.WithCredentialsProvider(p))
		})
	}
	calls := map[string]func(*Store) error{
		"Put":    func(s *Store) error { _, err := put(t, s, version(`"e1"`)); return err },
		"Get":    func(s *Store) error { _, err := s.Get(t.Context(), "k", objstore.GetOptions{}); return err },
		"Head":   func(s *Store) error { _, err := s.Head(t.Context(), "k"); return err },
		"Delete": func(s *Store) error { return s.Delete(t.Context(), "k") },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			srv, p := serve(t, expired), &renewable{}
			if err := call(open(t, srv, p)); err != nil {
				t.Fatal(err)
			}
			if n := len(srv.requests()); n != 2 || p.n.Load() != 2 {
				t.Errorf("%d requests with %d credentials", n, p.n.Load())
			}
		})
	}
	t.Run("no others", func(t *testing.T) {
		srv, p := serve(t, expired), &renewable{err: errors.New("the session is over: log in again")}
		_, err := put(t, open(t, srv, p), version(`"e1"`))
		var e *objstore.Error
		if !errors.As(err, &e) || objstore.Classify(err) != objstore.Refused || !strings.Contains(err.Error(), "log in again") || e.Code != "ExpiredToken" || !strings.Contains(e.Hint, "changed nothing") {
			t.Errorf("got %v, hint %q", err, e.Hint)
		}
		if n := len(srv.requests()); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
	t.Run("others expired, too", func(t *testing.T) {
		srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { fail(w, 400, "ExpiredToken", "") })
		_, err := put(t, open(t, srv, &renewable{}), version(`"e1"`))
		var e *objstore.Error
		if !errors.As(err, &e) || objstore.Classify(err) != objstore.Refused || !strings.Contains(e.Hint, "changed nothing") {
			t.Errorf("got %v", err)
		}
		if n := len(srv.requests()); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
	})
	t.Run("many at once renew once", func(t *testing.T) {
		srv, p := serve(t, expired), &renewable{}
		s := open(t, srv, p)
		done := make(chan error)
		for range 16 {
			go func() { _, err := s.Get(t.Context(), "k", objstore.GetOptions{}); done <- err }()
		}
		for range 16 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := p.n.Load(); n > 3 {
			t.Errorf("credentials were fetched %d times", n)
		}
	})
}
