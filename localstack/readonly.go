package localstack

import (
	"bytes"
	"fmt"
	"os/exec"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Identity are keys with fewer rights than the server's own.
type Identity struct {
	AccessKey string
	SecretKey string

	server *Server
}

// Client is a client with these keys. What it holds open is closed when the
// test ends.
func (i Identity) Client(tb testing.TB, change ...func(*s3.Options)) *s3.Client {
	return i.server.client(tb, i.AccessKey, i.SecretKey, change...)
}

// User makes a user without any rights, to whom the policy of a bucket can give
// some: its principal is {"AWS":[AccessKey]}. It reports false where the server
// is not one of ours, so that there is no way to make users; what the test does
// then is its own decision, and should not be silence.
func (s *Server) User(tb testing.TB) (Identity, bool) {
	tb.Helper()
	if !s.Admin {
		return Identity{}, false
	}
	id := Identity{AccessKey: "user-" + randomHex(8), SecretKey: randomHex(20), server: s}
	cmd := exec.CommandContext(tb.Context(), Binary(tb), "admin", "create-user",
		"--access", id.AccessKey, "--secret", id.SecretKey, "--role", "user")
	cmd.Env = append(cleanEnv(),
		"ADMIN_ACCESS_KEY="+s.AccessKey, "ADMIN_SECRET_KEY="+s.SecretKey,
		"ADMIN_REGION="+s.Region, "ADMIN_ENDPOINT_URL="+s.Endpoint)
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("localstack: create a user: %v\n%s", err, bytes.TrimSpace(out))
	}
	return id, true
}

// SetPolicy makes text, a JSON document, the policy of a bucket, in the place of
// the one before. It holds for requests that begin after it returns.
func (s *Server) SetPolicy(tb testing.TB, bucket, text string) {
	tb.Helper()
	if _, err := s.Client(tb).PutBucketPolicy(tb.Context(), &s3.PutBucketPolicyInput{Bucket: &bucket, Policy: &text}); err != nil {
		tb.Fatalf("localstack: policy of bucket %s: %v\n%s", bucket, err, text)
	}
}

// ReadOnly makes a user that may read the objects of a bucket (s3:GetObject on
// every key) and nothing else: neither write nor list. It replaces the bucket's
// policy. It reports false where User does.
func (s *Server) ReadOnly(tb testing.TB, bucket string) (Identity, bool) {
	tb.Helper()
	id, ok := s.User(tb)
	if ok {
		s.SetPolicy(tb, bucket, fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":[%q]},"Action":["s3:GetObject"],"Resource":["arn:aws:s3:::%s/*"]}]}`,
			id.AccessKey, bucket))
	}
	return id, ok
}
