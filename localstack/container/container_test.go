package container

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/s3log/s3log/localstack"
)

func code(err error) string {
	var e smithy.APIError
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	return ""
}

// works checks that a server keeps objects, and honours a condition.
func works(t *testing.T, s *localstack.Server) (bucket string) {
	t.Helper()
	bucket = s.Bucket(t)
	c := s.Client(t)
	put := func() error {
		_, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: aws.String("a/b"), Body: strings.NewReader("text"), IfNoneMatch: aws.String("*")})
		return err
	}
	if err := put(); err != nil {
		t.Fatal(err)
	}
	if err := put(); code(err) != "PreconditionFailed" {
		t.Errorf("a second create: %v", err)
	}
	out, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket, Key: aws.String("a/b")})
	if err != nil || aws.ToInt64(out.ContentLength) != 4 {
		t.Errorf("read: %v", err)
	}
	return bucket
}

func TestVersitygw(t *testing.T) {
	SkipUnlessWanted(t)
	begin := time.Now()
	image := Versitygw(t)
	t.Logf("image after %v", time.Since(begin).Round(time.Millisecond))
	begin = time.Now()
	s := Start(t, image)
	t.Logf("server after %v", time.Since(begin).Round(time.Millisecond))
	bucket := works(t, s)

	reader, ok := s.ReadOnly(t, bucket)
	if !ok {
		t.Fatal("versitygw has users")
	}
	_, errGet := reader.Client(t).GetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket, Key: aws.String("a/b")})
	_, errPut := reader.Client(t).PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: aws.String("c")})
	if errGet != nil || code(errPut) != "AccessDenied" {
		t.Errorf("a reader reads: %v, and writes: %v", errGet, errPut)
	}
	if _, err := s.Client(t).PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{Bucket: &bucket,
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}}); err != nil {
		t.Error(err)
	}

	again := Versitygw(t)
	if again.Name != image.Name || again.SecretKey == image.SecretKey {
		t.Errorf("the same image with new keys is wanted, got %+v after %+v", again, image)
	}
}

// TestAnyImage runs a server that listens where LocalStack does, and with its
// keys: what Start needs to know is in Image alone.
func TestAnyImage(t *testing.T) {
	SkipUnlessWanted(t)
	image := LocalStack(Versitygw(t).Name)
	image.Cmd = []string{"--port", ":4566", "--access", "test", "--secret", "test", "--region", "eu-x", "posix", "/data"}
	image.Region = "eu-x"
	works(t, Start(t, image))
}

// TestLocalStack and TestMinIO run with images that the environment names,
// which are in registries that not everybody reaches.
func TestLocalStack(t *testing.T) { named(t, "S3LOG_TEST_LOCALSTACK_IMAGE", LocalStack) }

func TestMinIO(t *testing.T) { named(t, "S3LOG_TEST_MINIO_IMAGE", MinIO) }

func named(t *testing.T, env string, image func(string) Image) {
	name := os.Getenv(env)
	if name == "" {
		t.Skipf("needs an image: set %s to its name", env)
	}
	works(t, Start(t, image(name)))
}

// TestImageThatCannotBeHad and TestImageThatEnds: a server that was asked for
// and is not there fails the test, with the reason.
func TestImageThatCannotBeHad(t *testing.T) {
	SkipUnlessWanted(t)
	fails(t, "cannot-be-had", "start a container of localhost:1/no/such:image")
}

func TestImageThatEnds(t *testing.T) {
	SkipUnlessWanted(t)
	Versitygw(t) // outside of the child's time
	fails(t, "ends", "it ended with exit code 1", "no such file or directory")
}

func TestNoEngine(t *testing.T) {
	const socket = "/var/run/docker.sock"
	if _, err := os.Stat(socket); err == nil {
		t.Skipf("there is an engine: %s", socket)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVersitygw$", "-test.v")
	cmd.Env = append(cmd.Environ(), EnvWanted+"=1", "DOCKER_HOST=tcp://127.0.0.1:1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--- FAIL: TestVersitygw") || !strings.Contains(string(out), "no container engine") {
		t.Errorf("%v\n%s", err, out)
	}
}

const envVictim = "S3LOG_TEST_CONTAINER_VICTIM"

// fails runs TestVictim in another process, and looks for its words.
func fails(t *testing.T, what string, want ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVictim$", "-test.v")
	cmd.Env = append(cmd.Environ(), envVictim+"="+what)
	out, err := cmd.CombinedOutput()
	for _, w := range append(want, "--- FAIL: TestVictim") {
		if err == nil || !strings.Contains(string(out), w) {
			t.Errorf("%v, without %q:\n%s", err, w, out)
		}
	}
}

func TestVictim(t *testing.T) {
	switch os.Getenv(envVictim) {
	case "cannot-be-had":
		Start(t, Image{Name: "localhost:1/no/such:image", Port: "1/tcp", Timeout: 20 * time.Second})
	case "ends":
		image := Versitygw(t)
		image.Cmd = []string{"posix", "/no/such/directory"}
		Start(t, image)
	}
}

func TestWanted(t *testing.T) {
	for _, tt := range []struct {
		own, ci string
		want    bool
	}{
		{"", "", false}, {"1", "", true}, {"true", "", true}, {"0", "", false},
		{"", "true", true}, {"", "1", true}, {"", "false", false}, {"", "some-ci", true},
		{"0", "true", false}, {"1", "false", true},
	} {
		got := wanted(func(name string) string { return map[string]string{EnvWanted: tt.own, "CI": tt.ci}[name] })
		if got != tt.want {
			t.Errorf("%s=%q CI=%q: %v", EnvWanted, tt.own, tt.ci, got)
		}
	}
}
