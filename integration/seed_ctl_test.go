package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/s3log/s3log/backend/objstore/s3store"
)

// builtCommand makes s3logctl once in this process. TestMain removes it.
var builtCommand = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "s3log-integration-")
	if err != nil {
		return "", err
	}
	atExit = append(atExit, func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s3logctl")
	if text, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "../cmd/s3logctl").CombinedOutput(); err != nil {
		return "", errors.New(string(text))
	}
	return path, nil
})

// atExit is done when all tests have ended.
var atExit []func()

// command is s3logctl as a process of its own, with somebody's keys.
type command struct {
	t                    testing.TB
	endpoint, bucket     string
	accessKey, secretKey string
	change               func(*s3store.Config) // of the store's URL; may be nil
}

// ctl is the command with the server's own keys, through the proxy.
func (r *rig) ctl(t testing.TB) command {
	return command{t: t, endpoint: r.proxy.URL, bucket: r.bucket, accessKey: r.AccessKey, secretKey: r.SecretKey}
}

// storeURL is what --store says.
func (c command) storeURL() string {
	cfg := s3Config(c.endpoint, c.bucket, "", "")
	if c.change != nil {
		c.change(&cfg)
	}
	return cfg.String()
}

// cmd prepares a process. It finds nothing but its keys in the environment.
func (c command) cmd(args ...string) *exec.Cmd {
	c.t.Helper()
	path, err := builtCommand()
	if err != nil {
		c.t.Fatalf("building s3logctl: %v", err)
	}
	cmd := exec.CommandContext(c.t.Context(), path, args...)
	cmd.Env = []string{
		"S3LOG_STORE=" + c.storeURL(),
		"AWS_ACCESS_KEY_ID=" + c.accessKey, "AWS_SECRET_ACCESS_KEY=" + c.secretKey,
		"AWS_CONFIG_FILE=" + os.DevNull, "AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull, "AWS_EC2_METADATA_DISABLED=true",
		"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "HOME=" + os.DevNull,
	}
	return cmd
}

// ran is what a process did.
type ran struct {
	stdout, stderr string
	exit           int // -1: killed by a signal
}

func (c command) run(stdin string, args ...string) ran {
	c.t.Helper()
	cmd := c.cmd(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		c.t.Fatal(err)
	}
	return ran{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// want runs the command and checks its exit code.
func (c command) want(exit int, stdin string, args ...string) ran {
	c.t.Helper()
	r := c.run(stdin, args...)
	if r.exit != exit {
		c.t.Errorf("%q: exit code %d, want %d\n%s%s", args, r.exit, exit, r.stdout, r.stderr)
	}
	return r
}

// fields decodes what a command says in JSON, as far as T has fields for it.
func fields[T any](t testing.TB, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	return v
}

// Of the JSON that s3logctl prints, what the tests look at.
type (
	receiptJSON struct {
		First, Count, Next, Generation int64
		Duplicate                      bool
	}
	checkJSON struct {
		Verdict    string
		Open       *struct{ Seq, Generation int64 }
		Boundary   *struct{ Seq int64 }
		Generation int64
	}
	errorJSON struct{ Error, Code, Key, Hint string }
)
