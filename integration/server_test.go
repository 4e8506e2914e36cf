package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/s3store"
	"github.com/s3log/s3log/internal/faultproxy"
	"github.com/s3log/s3log/localstack"
)

// long reports whether tests that take minutes are to run.
func long() bool { return os.Getenv("S3LOG_LONG") == "1" }

// s3Config is where a program would find a store, on a server that is taken to
// be proved.
func s3Config(endpoint, bucket, accessKey, secretKey string) s3store.Config {
	return s3store.Config{
		Bucket: bucket, Prefix: "logs", Region: "us-east-1", Endpoint: endpoint,
		Options: s3store.Options{Profile: "conditional", Retryer: quickRetries()},
		LoadOptions: []func(*config.LoadOptions) error{
			config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(accessKey, secretKey, "")),
			config.WithSharedConfigFiles(nil), config.WithSharedCredentialsFiles(nil),
		},
	}
}

func openS3(t testing.TB, endpoint, bucket, accessKey, secretKey string, change ...func(*s3store.Config)) *s3store.Store {
	t.Helper()
	c := s3Config(endpoint, bucket, accessKey, secretKey)
	for _, f := range change {
		f(&c)
	}
	s, err := s3store.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// quickRetries repeats reads as often as usual, without the pauses.
func quickRetries() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = 6
		o.RateLimiter = ratelimit.None
		o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 5 * time.Millisecond, nil })
	})
}

// unproved leaves it to the store to find out about the server.
func unproved(c *s3store.Config) { c.Profile = "" }

// rig is a bucket of a server, and two ways to it.
type rig struct {
	*localstack.Server
	bucket string
	proxy  *faultproxy.Proxy
	direct *s3store.Store
	store  *s3store.Store // through the proxy
}

func newRig(t testing.TB, opts ...localstack.Option) *rig {
	t.Helper()
	return rigOn(t, localstack.Start(t, opts...))
}

func rigOn(t testing.TB, server *localstack.Server) *rig {
	t.Helper()
	r := &rig{Server: server}
	r.bucket = r.Bucket(t)
	r.proxy = faultproxy.Start(t, r.Endpoint)
	r.direct = openS3(t, r.Endpoint, r.bucket, r.AccessKey, r.SecretKey)
	r.store = r.open(t)
	return r
}

// open opens the bucket through the proxy.
func (r *rig) open(t testing.TB, change ...func(*s3store.Config)) *s3store.Store {
	t.Helper()
	return openS3(t, r.proxy.URL, r.bucket, r.AccessKey, r.SecretKey, change...)
}

// quick are options of a backend that does not wait long for a test server.
var quick = backend.Options{MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond}

// foreground is quick, with one request after the other.
var foreground = backend.Options{MinBackoff: quick.MinBackoff, MaxBackoff: quick.MaxBackoff, Foreground: true}

// patience is how long a test waits for something to fail that was tried before.
func patience(d time.Duration) time.Duration {
	if raceDetector {
		d *= 10
	}
	return d
}

func note(n int) []byte { return fmt.Appendf(nil, `{"type":"note","data":%d}`, n) }

// notes are events too large for a tail: an append of them seals a segment.
func notes(t testing.TB, from, n int) (batch [][]byte) {
	t.Helper()
	for i := from; i < from+n; i++ {
		batch = append(batch, fmt.Appendf(nil, `{"type":"note","data":{"n":%d,"noise":%q}}`, i, noise(uint64(i), 300)))
	}
	return batch
}

// noise is text that hardly compresses.
func noise(seed uint64, n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-"
	var b strings.Builder
	x := seed*0x9e3779b97f4a7c15 + 1
	for range n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b.WriteByte(letters[x%64])
	}
	return b.String()
}

func mustCreate(t testing.TB, store objstore.Store, id string, opt backend.Options) *backend.Log {
	t.Helper()
	l, err := backend.New(store, opt).Create(id, backend.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background(), backend.CloseOptions{}) })
	return l
}

func mustAdopt(t testing.TB, store objstore.Store, id string, opt backend.Options) *backend.Log {
	t.Helper()
	l, err := backend.New(store, opt).Adopt(t.Context(), id, backend.AdoptOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background(), backend.CloseOptions{}) })
	return l
}

func mustAppend(t testing.TB, l *backend.Log, events ...[]byte) backend.Receipt {
	t.Helper()
	r, err := l.Append(t.Context(), events, backend.AppendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// holds checks that a log has exactly these notes, as the store itself says.
func holds(t testing.TB, store objstore.Reader, id string, want ...int) {
	t.Helper()
	got := checkedRead(t, backend.NewReader(store, quick), id)
	if len(got) != len(want) {
		t.Errorf("%q has %d events, want %d", id, len(got), len(want))
		return
	}
	for i, n := range want {
		if !strings.HasSuffix(got[i], fmt.Sprintf(`"data":%d}`, n)) {
			t.Errorf("seq %d of %q is %s, want note %d", i, id, got[i], n)
		}
	}
}

// hintOf is what an error advises.
func hintOf(err error) string {
	if oe, ok := errors.AsType[*backend.OpError](err); ok {
		return oe.Hint
	}
	return ""
}
