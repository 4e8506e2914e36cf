package s3store

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/s3log/s3log/backend/objstore"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]Config{
		"s3://bucket":                  {Bucket: "bucket"},
		"s3://my.dotted.bucket/":       {Bucket: "my.dotted.bucket"},
		"s3://bucket/a/b/?region=eu-x": {Bucket: "bucket", Prefix: "a/b", Region: "eu-x"},
		"s3://b?endpoint=http://127.0.0.1:9000&path-style=true":                               {Bucket: "b", Endpoint: "http://127.0.0.1:9000", Addressing: AddressingPath},
		"s3://b?endpoint=https%3A%2F%2Fs.example.com%2Fx&path-style=false":                    {Bucket: "b", Endpoint: "https://s.example.com/x", Addressing: AddressingVirtualHost},
		"s3://b?aws-profile=dev&profile=conditional,rate=1&checksum=crc32c":                   {Bucket: "b", AWSProfile: "dev", Options: Options{Profile: "conditional,rate=1", Checksum: ChecksumCRC32C}},
		"s3://b/p?sse=aws:kms&kms-key-id=arn:aws:kms:eu-x:1:key/2&sign-accept-encoding=false": {Bucket: "b", Prefix: "p", Options: Options{SSE: "aws:kms", KMSKeyID: "arn:aws:kms:eu-x:1:key/2", UnsignedAcceptEncoding: true}},
		"s3://b/p?sse=AES256&sign-accept-encoding=true":                                       {Bucket: "b", Prefix: "p", Options: Options{SSE: "AES256"}},
	} {
		got, err := ParseURL(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
		again, err := ParseURL(got.String())
		if err != nil {
			t.Errorf("%s, made of %s: %v", got, text, err)
		}
		if diff := cmp.Diff(got, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s, made of %s: %s", got, text, diff)
		}
	}
}

func TestParseURLErrors(t *testing.T) {
	for text, want := range map[string]string{
		"file:///dir":                      "does not begin with s3://",
		"bucket/prefix":                    "does not begin with s3://",
		"s3:///prefix":                     "no bucket",
		"s3://host:9000/bucket":            "endpoint=",
		"s3://AKIA:SECRET@bucket":          "credentials do not belong",
		"s3://b/a//b":                      "prefix",
		"s3://b/../x":                      "prefix",
		"s3://b/a%20b":                     "prefix",
		"s3://b#frag":                      "%23",
		"s3://b?regoin=eu-x":               `unknown parameter "regoin" (known are region,`,
		"s3://b?region=a&region=b":         "given 2 times",
		"s3://b?region=":                   "empty",
		"s3://b?path-style=yes":            "give true or false",
		"s3://b?sign-accept-encoding=0":    "give true or false",
		"s3://b?endpoint=localhost:9000":   "is not an http://",
		"s3://b?endpoint=http://a/?x=1":    "more than scheme",
		"s3://b?sse=rot13":                 "none of AES256",
		"s3://b?sse=AES256&kms-key-id=1":   "goes with sse=aws:kms",
		"s3://b?checksum=sha1":             "none of md5, crc32c",
		"s3://b?profile=dev":               `unknown part "dev"`,
		"s3://b?region=%zz":                "invalid URL escape",
		"s3://b?endpoint=http://u:pw@host": "more than scheme",
	} {
		_, err := ParseURL(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want one with %q", text, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "pw@")) {
			t.Errorf("a secret is shown: %v", err)
		}
	}
}

// What the URL leaves open comes from the AWS environment.
func TestEnvironment(t *testing.T) {
	srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { ok(w, `"e"`) })
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	send := func(t *testing.T, c Config) seen {
		t.Helper()
		c.Options.Profile = "conditional"
		s, err := Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		before := len(srv.requests())
		if _, err := put(t, s, objstore.IfAbsent()); err != nil {
			t.Fatal(err)
		}
		return srv.requests()[before]
	}
	t.Run("variables", func(t *testing.T) {
		isolate(t)
		t.Setenv("AWS_ENDPOINT_URL_S3", srv.URL)
		t.Setenv("AWS_REGION", "eu-x")
		t.Setenv("AWS_ACCESS_KEY_ID", "ENVKEY")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "S")
		r := send(t, Config{Bucket: "b"})
		if auth := r.header.Get("Authorization"); !strings.Contains(auth, "ENVKEY") || !strings.Contains(auth, "/eu-x/s3/") {
			t.Errorf("signed with %s", auth)
		}
		if r.path != "/b/k" {
			t.Errorf("path %s", r.path)
		}
	})
	t.Run("profile", func(t *testing.T) {
		isolate(t)
		t.Setenv("AWS_CONFIG_FILE", write("config", "[profile dev]\nregion = ap-x\nservices = s\n[services s]\ns3 =\n  endpoint_url = "+srv.URL+"\n"))
		t.Setenv("AWS_SHARED_CREDENTIALS_FILE", write("credentials", "[dev]\naws_access_key_id = DEVKEY\naws_secret_access_key = S\n"))
		r := send(t, Config{Bucket: "b", AWSProfile: "dev"})
		if auth := r.header.Get("Authorization"); !strings.Contains(auth, "DEVKEY") || !strings.Contains(auth, "/ap-x/s3/") {
			t.Errorf("signed with %s", auth)
		}
		if _, err := Open(t.Context(), Config{Bucket: "b", AWSProfile: "nosuch"}); err == nil || !strings.Contains(err.Error(), "nosuch") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no region", func(t *testing.T) {
		isolate(t)
		t.Setenv("AWS_ACCESS_KEY_ID", "K")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "S")
		r := send(t, Config{Bucket: "b", Endpoint: srv.URL})
		if auth := r.header.Get("Authorization"); !strings.Contains(auth, "/us-east-1/s3/") {
			t.Errorf("signed with %s", auth)
		}
		if _, err := Open(t.Context(), Config{Bucket: "b"}); err == nil || !strings.Contains(err.Error(), "no region") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no credentials", func(t *testing.T) {
		isolate(t)
		s, err := Open(t.Context(), Config{Bucket: "b", Endpoint: srv.URL, Options: Options{Profile: "conditional"}})
		if err != nil {
			t.Fatal(err)
		}
		before := len(srv.requests())
		_, err = put(t, s, objstore.IfAbsent())
		var e *objstore.Error
		if !errors.As(err, &e) || objstore.Classify(err) != objstore.Refused || !strings.Contains(e.Hint, "no request was sent") {
			t.Errorf("got %v", err)
		}
		if e.Code != "" || e.Status != 0 {
			t.Errorf("the store has said nothing, got %q, %d", e.Code, e.Status)
		}
		if n := len(srv.requests()) - before; n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}

// What the service that gives credentials answers is not the store's word, and
// the SDK's opinion of it does not go to a stderr that is not ours.
func TestRefusedByTheMachine(t *testing.T) {
	srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { fail(w, 403, "", "") })
	isolate(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", srv.URL)
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	defer func(was *os.File) { os.Stderr = was }(os.Stderr)
	os.Stderr = stderr
	s, err := Open(t.Context(), Config{Bucket: "b", Endpoint: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Get(t.Context(), "k", objstore.GetOptions{})
	var e *objstore.Error
	if !errors.As(err, &e) || !errors.Is(err, objstore.ErrRefused) || errors.Is(err, objstore.ErrDenied) || e.Code != "" || e.Status != 0 || !strings.Contains(e.Hint, "AWS_ACCESS_KEY_ID") {
		t.Errorf("got %v", err)
	}
	if len(srv.requests()) == 0 {
		t.Error("nobody was asked for credentials")
	}
	if text, err := os.ReadFile(stderr.Name()); err != nil || len(text) > 0 {
		t.Errorf("on stderr: %s, %v", text, err)
	}
}

// Endpoints of AWS are known to be good; others are proved, once per process.
func TestProofWhereNeeded(t *testing.T) {
	for endpoint, aws := range map[string]bool{
		"": true, "https://s3.eu-x.amazonaws.com": true, "https://bucket.vpce-1.s3.eu-x.vpce.amazonaws.com": true,
		"https://s3.cn-x.amazonaws.com.cn": true, "http://127.0.0.1:9000": false, "https://amazonaws.com.example.com": false,
		"https://notamazonaws.com": false,
	} {
		isolate(t)
		s, err := Open(t.Context(), Config{Bucket: "b", Region: "eu-x", Endpoint: endpoint})
		if err != nil {
			t.Fatal(err)
		}
		if _, guarded := s.Store.(*driver); guarded == !aws {
			t.Errorf("%s: AWS %v, guarded %v", endpoint, aws, !guarded)
		}
		if s.driver.aws != aws {
			t.Errorf("%s: AWS %v", endpoint, s.driver.aws)
		}
	}
	objects := map[string]string{}
	srv := serve(t, inTurn(func(n int, w http.ResponseWriter, r *http.Request) {
		if r.Method == "PUT" {
			etag := objects[r.RequestURI]
			if none := r.Header.Get("If-None-Match") == "*"; none && etag != "" || !none && r.Header.Get("If-Match") != etag {
				fail(w, 412, "PreconditionFailed", "")
				return
			}
			objects[r.RequestURI] = `"` + strings.Repeat("e", n) + `"`
			ok(w, objects[r.RequestURI])
			return
		}
		w.WriteHeader(204)
	}))
	for _, prefix := range []string{"p", "q"} {
		s := srv.open(t, func(c *Config) { c.Profile, c.Prefix = "", prefix })
		if _, err := put(t, s, objstore.IfAbsent()); err != nil {
			t.Fatal(err)
		}
	}
	counts := map[string]int{}
	for _, r := range srv.requests() {
		counts[r.method]++
	}
	if diff := cmp.Diff(map[string]int{"PUT": 4 + 2, "DELETE": 1}, counts); diff != "" {
		t.Error(diff)
	}
	if s := srv.open(t, func(c *Config) { c.Profile = "conditional,raced,rate=1" }); s.Profile().Rate != 1 {
		t.Errorf("profile %v", s.Profile())
	}
}

func TestOpenErrors(t *testing.T) {
	isolate(t)
	for want, c := range map[string]Config{
		"no bucket":       {Region: "r"},
		"prefix":          {Region: "r", Bucket: "b", Prefix: "a b"},
		"is not an http":  {Bucket: "b", Endpoint: "localhost:9000"},
		"none of AES256":  {Region: "r", Bucket: "b", Options: Options{SSE: "x"}},
		"none of md5":     {Region: "r", Bucket: "b", Options: Options{Checksum: "x"}},
		"unknown part":    {Region: "r", Bucket: "b", Options: Options{Profile: "x"}},
		"configuration: ": {Region: "r", Bucket: "b", LoadOptions: []func(*config.LoadOptions) error{func(*config.LoadOptions) error { return errors.New("bad option") }}},
	} {
		if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want one with %q", err, want)
		}
	}
}

// A machine that is not there is told from one that is busy.
func TestNobodyThereIsFoundOutSoon(t *testing.T) {
	srv := serve(t, func(int, http.ResponseWriter, *http.Request) {})
	s := srv.open(t, func(c *Config) { c.Retryer = nil })
	srv.Close()
	start := time.Now()
	_, err := s.Get(t.Context(), "k", objstore.GetOptions{})
	if !errors.Is(err, objstore.ErrUndecided) || time.Since(start) > 10*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}
