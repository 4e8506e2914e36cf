package s3store

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/s3log/s3log/backend/objstore"
)

// ownClient opens a store with the HTTP client and the retries of Open.
func ownClient(t *testing.T, endpoint string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{
		Bucket: "b", Region: "us-east-1", Endpoint: endpoint, Options: Options{Profile: "conditional"},
		LoadOptions: []func(*config.LoadOptions) error{config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("AKID", "SECRET", ""))},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// authority makes an authority, and a certificate of it for names, valid until end.
func authority(t *testing.T, end time.Time, names ...string) (root []byte, cert tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: end.Add(-time.Hour), NotAfter: end, DNSNames: names}
	if names == nil {
		leaf.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der := func(c *x509.Certificate) []byte {
		b, err := x509.CreateCertificate(rand.Reader, c, ca, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return der(ca), tls.Certificate{Certificate: [][]byte{der(leaf)}, PrivateKey: key}
}

// listening counts the connections that an address gets, each of which handle ends.
func listening(t *testing.T, handle func(c net.Conn)) (addr string, n *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	n = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			handle(c)
			_ = c.Close()
		}
	}()
	return l.Addr().String(), n
}

// What will not pass is not tried again, named, and said how to mend.
func TestMistakenEndpoints(t *testing.T) {
	isolate(t)
	trusted := filepath.Join(t.TempDir(), "trusted.pem")
	var tries atomic.Int64
	counted := func(s *httptest.Server) *httptest.Server {
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				tries.Add(1)
			}
		}
		t.Cleanup(s.Close)
		return s
	}
	plain := counted(httptest.NewUnstartedServer(http.NotFoundHandler()))
	plain.Start()
	secure := func(cert tls.Certificate) string {
		s := counted(httptest.NewUnstartedServer(http.NotFoundHandler()))
		s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
		s.StartTLS()
		return s.Listener.Addr().String()
	}
	later := time.Now().Add(time.Hour / 2)
	root, expired := authority(t, time.Now().Add(-time.Minute))
	roots := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root})
	root, other := authority(t, later, "other.example")
	roots = append(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root})...)
	root, good := authority(t, later)
	roots = append(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root})...)
	if err := os.WriteFile(trusted, roots, 0o600); err != nil {
		t.Fatal(err)
	}
	_, unknown := authority(t, later)
	t.Setenv("AWS_CA_BUNDLE", trusted)
	tlsAddr := secure(good)
	nginx := counted(httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, "<html><body><center>The plain HTTP request was sent to HTTPS port</center></body></html>")
	})))
	nginx.Start()
	alert, alerts := listening(t, func(c net.Conn) {
		_, _ = io.ReadAtLeast(c, make([]byte, 1<<10), 64)
		_, _ = c.Write([]byte("\x15\x03\x01\x00\x02\x02\x0a"))
		_, _ = io.Copy(io.Discard, c) // until the other side has seen it
	})
	plainAddr := plain.Listener.Addr().String()
	for name, tc := range map[string]struct {
		endpoint, says, hint string
	}{
		"http, not https":      {"https://" + plainAddr, "HTTP response to HTTPS client", "write endpoint=http://" + plainAddr + " "},
		"https, not http":      {"http://" + tlsAddr, "speaks https", "write endpoint=https://" + tlsAddr + " "},
		"https, says nginx":    {nginx.URL, "speaks https", "write endpoint=https://" + nginx.Listener.Addr().String() + " "},
		"https, by an alert":   {"http://" + alert, "speaks https", "write endpoint=https://" + alert + " "},
		"an unknown authority": {"https://" + secure(unknown), "unknown authority", "AWS_CA_BUNDLE"},
		"expired":              {"https://" + secure(expired), "expired", "renewed"},
		"for another name":     {"https://" + secure(other), "127.0.0.1", "path-style=true"},
	} {
		t.Run(name, func(t *testing.T) {
			s := ownClient(t, tc.endpoint)
			for op, call := range map[string]func() error{
				"get":  func() error { _, err := s.Get(t.Context(), "k", objstore.GetOptions{}); return err },
				"head": func() error { _, err := s.Head(t.Context(), "k"); return err },
				"put":  func() error { _, err := put(t, s, objstore.IfAbsent()); return err },
				"list": func() error {
					for _, err := range s.List(t.Context(), "", "") {
						return err
					}
					return nil
				},
			} {
				if op == "head" && tc.endpoint == nginx.URL {
					continue // its reply has no body to tell by
				}
				var err error
				// Where the server has answered before it was sent everything, net/http
				// tells of whichever it noticed first. A writer tries again then.
				for range 50 {
					tries.Store(0)
					alerts.Store(0)
					if err = call(); op != "put" || objstore.Classify(err) != objstore.Undecided {
						break
					}
				}
				e, ok := errors.AsType[*objstore.Error](err)
				if !ok || objstore.Classify(err) != objstore.Refused || !strings.Contains(err.Error(), tc.says) || !strings.Contains(e.Hint, tc.hint) || !strings.Contains(err.Error(), tc.endpoint) {
					t.Errorf("%s: %v, hint %q", op, err, e.Hint)
				}
				if n := tries.Load() + alerts.Load(); n > 2 { // net/http may try another connection
					t.Errorf("%s: %d connections", op, n)
				}
			}
		})
	}
	// What is trusted works, which shows that the others fail for the reason that they give.
	if _, err := ownClient(t, "https://"+tlsAddr).Get(t.Context(), "k", objstore.GetOptions{}); !errors.Is(err, objstore.ErrNotExist) {
		t.Error(err)
	}
}

// A name that no host has is named; a write is not sent again and again, unless the
// store has answered before: then the name service may be ill.
func TestNoHostOfThisName(t *testing.T) {
	isolate(t)
	s := ownClient(t, "http://no-such-host.invalid")
	noHost := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "no-such-host.invalid", IsNotFound: true}}
	for _, met := range []bool{false, true} {
		s.driver.met.Store(met)
		get := s.driver.errorOf(opGet, "k", false, noHost, &attempt{})
		put := s.driver.errorOf(opPut, "k", false, noHost, &attempt{})
		if get.Hint != hintHost || put.Hint != hintHost || !strings.Contains(get.Error(), "no-such-host.invalid") {
			t.Errorf("%v, %q", get, get.Hint)
		}
		if errors.Is(put, objstore.ErrUnsent) != met || errors.Is(put, objstore.ErrRefused) == met || !errors.Is(get, objstore.ErrUndecided) {
			t.Errorf("met %v: %v, %v", met, put, get)
		}
	}
	if !lasting(noHost) || lasting(&net.OpError{Op: "dial", Err: &net.DNSError{Err: "timed out", IsTimeout: true}}) {
		t.Error("what lasts, and what passes, is mixed up")
	}
}

// An answer of the store, also a refusal, shows that its name is right.
func TestAnswersAreRemembered(t *testing.T) {
	for status, want := range map[int]bool{200: true, 403: true, 0: false} {
		srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			if status == 0 {
				hangUp(w)
				return
			}
			w.WriteHeader(status)
		})
		s := srv.open(t)
		_, _ = put(t, s, objstore.IfAbsent())
		if got := s.driver.met.Load(); got != want {
			t.Errorf("%d: %v", status, got)
		}
	}
}

// Without any credentials that is what is said first, and where they were looked for.
func TestNoCredentials(t *testing.T) {
	isolate(t)
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"} {
		t.Setenv(name, "")
	}
	nothing := filepath.Join(t.TempDir(), "nothing")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", nothing)
	t.Setenv("AWS_CONFIG_FILE", nothing)
	machine, _ := listening(t, func(net.Conn) {})
	for name, set := range map[string]func(){
		"not asked": func() { t.Setenv("AWS_EC2_METADATA_DISABLED", "true") },
		"not there": func() { t.Setenv("AWS_EC2_METADATA_DISABLED", "false") },
	} {
		set()
		t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://"+machine)
		s, err := Open(t.Context(), Config{Bucket: "b", Region: "us-east-1", Endpoint: "http://127.0.0.1:1", Options: Options{Profile: "conditional"}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = put(t, s, objstore.IfAbsent())
		e, ok := errors.AsType[*objstore.Error](err)
		if !ok || !errors.Is(err, objstore.ErrNoCredentials) || e.Status != 0 || !e.Date.IsZero() ||
			!strings.HasPrefix(err.Error(), "Put k: refused: no credentials found: neither in AWS_ACCESS_KEY_ID") || !strings.HasPrefix(e.Hint, "set AWS_ACCESS_KEY_ID") {
			t.Errorf("%s: %v, hint %q", name, err, e.Hint)
		}
	}
}
