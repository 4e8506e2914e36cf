// Package localstack gives tests an S3 server: the one that the environment
// names, or else versitygw, built once from its module into the user's cache
// and started on the loopback interface. Tests of any project may use it:
//
//	srv := localstack.Start(t)
//	bucket := srv.Bucket(t) // fresh, and removed after the test
//	client := srv.Client(t) // an *s3.Client
//
// A server that cannot be had fails the test; nothing is skipped. A test that
// is run without S3LOG_TEST_ENDPOINT needs the go command, a Unix system and,
// once, the Go module proxy. Servers in containers are in the package container
// below this one, which for its part needs no container client. It is not for
// anything but tests, and knows nothing of s3log.
package localstack

import (
	"errors"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
)

// The environment that names a server which is already there. With the first
// one set, the keys must be, too; the region is us-east-1 unless given. The
// keys must be allowed to create and delete buckets.
const (
	EnvEndpoint  = "S3LOG_TEST_ENDPOINT" // http://127.0.0.1:9000
	EnvAccessKey = "S3LOG_TEST_ACCESS_KEY"
	EnvSecretKey = "S3LOG_TEST_SECRET_KEY"
	EnvRegion    = "S3LOG_TEST_REGION"
)

const defaultRegion = "us-east-1"

// Server is an S3 server with keys that may do everything on it. Its methods
// may be called concurrently.
type Server struct {
	Endpoint  string // URL
	Region    string
	AccessKey string
	SecretKey string
	// Admin says that the server is a versitygw that keeps users, which is what
	// ReadOnly needs.
	Admin bool

	process *process // nil if it is not ours; it ends when nobody refers to it
	own     bool     // one test's
}

// Option changes what Start returns.
type Option func(*options)

type options struct{ own, versioning bool }

// Own asks for a server that no other test uses, which may be killed and
// restarted. It is stopped when the test ends. The environment is not asked.
func Own() Option { return func(o *options) { o.own = true } }

// Versioning asks for a server of the test's own where buckets can be
// versioned. They are not until a PutBucketVersioning.
func Versioning() Option { return func(o *options) { o.own, o.versioning = true, true } }

// shared is the server of this process, once a test asked for it.
var shared struct {
	sync.Mutex
	server *Server
	err    error // remembered: what failed is not tried again by every test
}

// Start returns a server that answers: the one of the environment, or else a
// versitygw that all tests of this process share. That one is built if no test
// of this machine has done so before, which takes minutes and is said on the
// terminal; it is started by the first test that needs it, in some 100 ms, and
// is gone with its data when the process ends, however it ends.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if o.own {
		p, err := startProcess(tb.Context(), o.versioning)
		if err != nil {
			tb.Fatalf("localstack: %v", err)
		}
		tb.Cleanup(p.close)
		return p.server(true)
	}

	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.err == nil {
		var err error
		if shared.server, err = find(tb); err != nil && tb.Context().Err() != nil {
			tb.Fatalf("localstack: %v", err) // the next test may have more time
		}
		shared.err = err
	}
	if shared.err != nil {
		tb.Fatalf("localstack: %v", shared.err)
	}
	return shared.server
}

// Stop ends the server that all tests share, if there is one and it is ours, and
// hangs up on all its clients: for a TestMain that looks for leaked goroutines
// after all tests, which idle connections have, too.
func Stop() {
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil && shared.server.process != nil {
		shared.server.process.close()
		shared.server = nil
	}
}

// find looks for a server in the order that Start promises.
func find(tb testing.TB) (*Server, error) {
	if s, err := fromEnv(os.Getenv); s != nil || err != nil {
		return s, err
	}
	p, err := startProcess(tb.Context(), false)
	if err != nil {
		return nil, err
	}
	return p.server(false), nil
}

// fromEnv is the server that the environment names, or nil.
func fromEnv(getenv func(string) string) (*Server, error) {
	s := &Server{
		Endpoint:  strings.TrimSuffix(getenv(EnvEndpoint), "/"),
		Region:    getenv(EnvRegion),
		AccessKey: getenv(EnvAccessKey),
		SecretKey: getenv(EnvSecretKey),
	}
	if s.Endpoint == "" {
		return nil, nil
	}
	if u, err := url.Parse(s.Endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New(EnvEndpoint + " must be a URL like http://127.0.0.1:9000, not " + s.Endpoint)
	}
	if s.AccessKey == "" || s.SecretKey == "" {
		return nil, errors.New(EnvEndpoint + " is set, so " + EnvAccessKey + " and " + EnvSecretKey + " must be, too")
	}
	if s.Region == "" {
		s.Region = defaultRegion
	}
	return s, nil
}

// Env is the environment, as for exec.Cmd, by which another test process finds
// this server.
func (s *Server) Env() []string {
	return []string{EnvEndpoint + "=" + s.Endpoint, EnvAccessKey + "=" + s.AccessKey, EnvSecretKey + "=" + s.SecretKey, EnvRegion + "=" + s.Region}
}

// Kill ends a server of the test's own as a crash of its process would: at
// once, with whatever it was doing. What it had acknowledged is still in the
// page cache; this is no power cut. Killing a dead server does nothing.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	if !s.own {
		tb.Fatal("localstack: only a server of the test's own can be killed: Start(tb, localstack.Own())")
	}
	s.process.kill()
}

// Restart starts a server of the test's own again, on the same endpoint with
// the same data, after killing it if it still runs.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	if !s.own {
		tb.Fatal("localstack: only a server of the test's own can be restarted: Start(tb, localstack.Own())")
	}
	if err := s.process.restart(tb.Context()); err != nil {
		tb.Fatalf("localstack: %v", err)
	}
}
