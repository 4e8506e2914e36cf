// Package container gives tests an S3 server in a container, through
// testcontainers-go: LocalStack, MinIO, versitygw in an image built on the
// spot, or any other image. It needs a container engine that answers; a server
// that cannot be had fails the test. Who wants a server without an engine uses
// package localstack, and does not import this one.
package container

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"

	"github.com/s3log/s3log/localstack"
)

// EnvWanted says whether tests with containers are to run: 1, or 0. Without it
// they run where CI=true says that this is not somebody's own machine.
const EnvWanted = "S3LOG_TEST_CONTAINERS"

// SkipUnlessWanted skips a test that needs a container, and says how to run it,
// unless such tests are to run here.
func SkipUnlessWanted(tb testing.TB) {
	tb.Helper()
	if !wanted(os.Getenv) {
		tb.Skipf("needs a container engine: set %s=1 to run it", EnvWanted)
	}
}

func wanted(getenv func(string) string) bool {
	for _, name := range []string{EnvWanted, "CI"} {
		if v := getenv(name); v != "" {
			on, err := strconv.ParseBool(v)
			return on || err != nil // CI=woodpecker
		}
	}
	return false
}

// Image is an image with an S3 server, and how it is run.
type Image struct {
	Name      string            // with its registry and tag, as docker run takes it
	Port      string            // where it listens inside: "9000/tcp"
	Env       map[string]string // of its process
	Cmd       []string          // arguments, unless the image's own will do
	AccessKey string
	SecretKey string
	Region    string        // empty is us-east-1
	Admin     bool          // see localstack.Server
	Timeout   time.Duration // to pull, to start, to answer; 0 is five minutes
}

// LocalStack runs an image of LocalStack with its S3 service. Where
// LOCALSTACK_AUTH_TOKEN is set, the container gets it. LocalStack checks
// signatures, but not what a user may do.
func LocalStack(name string) Image {
	env := map[string]string{"SERVICES": "s3"}
	if token := os.Getenv("LOCALSTACK_AUTH_TOKEN"); token != "" {
		env["LOCALSTACK_AUTH_TOKEN"] = token
	}
	return Image{Name: name, Port: "4566/tcp", Env: env, AccessKey: "test", SecretKey: "test"}
}

// MinIO runs an image of MinIO.
func MinIO(name string) Image {
	const access, secret = "s3log-root", "s3log-root-secret"
	return Image{
		Name: name, Port: "9000/tcp", Cmd: []string{"server", "/data"},
		Env:       map[string]string{"MINIO_ROOT_USER": access, "MINIO_ROOT_PASSWORD": secret},
		AccessKey: access, SecretKey: secret,
	}
}

// Start runs a server in a container of the test's own, and returns when it
// answers. The container is removed when the test ends; if the test process is
// killed, by testcontainers' reaper, where that can be had.
func Start(tb testing.TB, image Image) *localstack.Server {
	tb.Helper()
	s, _ := run(tb, image)
	return s
}

func run(tb testing.TB, image Image) (*localstack.Server, *testcontainers.DockerContainer) {
	tb.Helper()
	prepare(tb)
	if image.Timeout == 0 {
		image.Timeout = 5 * time.Minute
	}
	ctx, cancel := context.WithTimeout(tb.Context(), image.Timeout)
	defer cancel()
	options := []testcontainers.ContainerCustomizer{
		testcontainers.WithLogger(log.TestLogger(tb)),
		testcontainers.WithExposedPorts(image.Port),
		testcontainers.WithEnv(maps.Clone(image.Env)),
	}
	if image.Cmd != nil {
		options = append(options, testcontainers.WithCmd(image.Cmd...))
	}
	ctr, err := testcontainers.Run(ctx, image.Name, options...)
	testcontainers.CleanupContainer(tb, ctr, testcontainers.StopTimeout(0))
	if err != nil {
		tb.Fatalf("localstack: start a container of %s: %v%s", image.Name, err, output(ctr))
	}
	s := &localstack.Server{Region: image.Region, AccessKey: image.AccessKey, SecretKey: image.SecretKey, Admin: image.Admin}
	if s.Region == "" {
		s.Region = "us-east-1"
	}
	if s.Endpoint, err = ctr.PortEndpoint(ctx, image.Port, "http"); err == nil {
		err = answers(ctx, tb, s, ctr)
	}
	if err != nil {
		if state, errState := ctr.State(ctx); errState == nil && !state.Running {
			err = fmt.Errorf("it ended with exit code %d (%w)", state.ExitCode, err)
		}
		tb.Fatalf("localstack: container of %s at %s, port %s: %v%s", image.Name, s.Endpoint, image.Port, err, output(ctr))
	}
	return s, ctr
}

// answers waits until the server lists its buckets.
func answers(ctx context.Context, tb testing.TB, s *localstack.Server, ctr *testcontainers.DockerContainer) error {
	client := s.Client(tb, func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })
	for {
		one, cancel := context.WithTimeout(ctx, 10*time.Second)
		_, err := client.ListBuckets(one, &s3.ListBucketsInput{})
		cancel()
		if err == nil {
			return nil
		}
		if state, errState := ctr.State(ctx); errState == nil && !state.Running {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// output is the end of what a container said, for an error.
func output(ctr *testcontainers.DockerContainer) string {
	if ctr == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := ctr.Logs(ctx)
	if err != nil {
		return ""
	}
	defer r.Close()
	text, _ := io.ReadAll(io.LimitReader(r, 1<<20))
	if text = bytes.TrimSpace(text); len(text) > 4<<10 {
		text = text[len(text)-4<<10:]
	}
	if len(text) == 0 {
		return "\n(it said nothing)"
	}
	return "\nit said:\n" + strings.ToValidUTF8(string(text), "?")
}
