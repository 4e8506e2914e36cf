package integration

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/check"
	"github.com/s3log/s3log/backend/objstore/objstoretest"
	"github.com/s3log/s3log/localstack"
	"github.com/s3log/s3log/localstack/container"
)

// Servers beside the one that all other tests use.

// conditionalWrites checks what a log needs of a server: conditions, also in
// races, of single writers and of processes.
func conditionalWrites(t *testing.T, r *rig) {
	t.Helper()
	if p, err := check.Prove(t.Context(), r.direct); err != nil || !p.Conditional {
		t.Fatalf("proof: %+v, %v", p, err)
	}
	result, err := check.Race(t.Context(), r.direct, check.RaceOptions{Racers: 16, Rounds: 50})
	if err != nil || result.Races != 100 {
		t.Errorf("races: %+v, %v", result, err)
	}
	t.Logf("races: %+v", result)
	want, _ := grown(t, r.direct, "grown")
	if got, err := read(t, r.direct, "grown", 0); err != nil || !slices.Equal(got, want) {
		t.Errorf("%d events, %v", len(got), err)
	}
	oneShotProcesses(t, r)
}

// A server in a container does what the process does.
func TestContainer(t *testing.T) {
	container.SkipUnlessWanted(t)
	r := rigOn(t, container.Start(t, container.Versitygw(t)))
	t.Run("conditional writes", func(t *testing.T) { conditionalWrites(t, r) })
	t.Run("contract", func(t *testing.T) {
		objstoretest.Run(t, func(t *testing.T) objstore.Store {
			return openS3(t, r.Endpoint, r.bucket, r.AccessKey, r.SecretKey)
		}, objstoretest.Options{Metadata: true, TornReads: true, Keys: 1100, Writers: 8, Rounds: 10})
	})
	t.Run("fixtures", func(t *testing.T) { fixturesInto(t, rigOn(t, r.Server).direct) })
	t.Run("generated", func(t *testing.T) { generatedLog(t, rigOn(t, r.Server).direct) })
}

// envRclone asks for the tests with rclone, which takes long to build.
const envRclone = "S3LOG_TEST_RCLONE"

// rcloneRig runs rclone's S3 server, which keeps objects in a directory, or
// skips the test where it was not asked for.
func rcloneRig(t *testing.T) *rig {
	t.Helper()
	if os.Getenv(envRclone) != "1" && !long() {
		t.Skipf("rclone takes 5 to 10 minutes to build, once: set %s=1 to test with it", envRclone)
	}
	const version = "v1.76.0"
	binary := cached(t, "rclone-"+version, "rclone", "5 to 10 minutes", func(ctx context.Context, dir string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "go", "install", "-ldflags=-s -w", "github.com/rclone/rclone@"+version)
		cmd.Dir = dir
		return cmd
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	server := &localstack.Server{Endpoint: "http://" + addr, Region: "us-east-1", AccessKey: "access", SecretKey: "secret-of-the-test"}
	log := filepath.Join(t.TempDir(), "log") // it says much
	cmd := exec.Command(binary, "--log-file", log, "serve", "s3", "--addr", addr, "--auth-key", server.AccessKey+","+server.SecretKey,
		"--config", os.DevNull, "--cache-dir", t.TempDir(), t.TempDir())
	daemon(t, cmd, false)
	client := server.Client(t)
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if _, err := client.ListBuckets(t.Context(), &s3.ListBucketsInput{}); err == nil {
			break
		} else if time.Since(begin) > 20*time.Second {
			said, _ := os.ReadFile(log)
			t.Fatalf("rclone does not answer: %v\n%s", err, said)
		}
	}
	bucket := "s3log-test"
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket}); err != nil {
		t.Fatal(err)
	}
	return &rig{Server: server, bucket: bucket, direct: openS3(t, server.Endpoint, bucket, server.AccessKey, server.SecretKey)}
}

// rclone's server honours conditions, but not more of the contract than a log
// needs: a read that meets a write may fail.
func TestRclone(t *testing.T) {
	r := rcloneRig(t)
	conditionalWrites(t, r)
	generatedLog(t, r.direct)
}
