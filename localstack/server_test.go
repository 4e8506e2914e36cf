package localstack

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"go.uber.org/goleak"
)

func put(t *testing.T, c *s3.Client, bucket, key, body string) error {
	t.Helper()
	_, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader(body), IfNoneMatch: aws.String("*")})
	return err
}

func get(t *testing.T, c *s3.Client, bucket, key string) (string, error) {
	t.Helper()
	out, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	if err != nil {
		return "", err
	}
	defer out.Body.Close()
	b, err := io.ReadAll(out.Body)
	return string(b), err
}

func code(err error) string {
	var e smithy.APIError
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	return ""
}

func TestServer(t *testing.T) {
	s := Start(t)
	if again := Start(t); again != s {
		t.Error("a second server for the same process")
	}
	c, bucket := s.Client(t), s.Bucket(t)
	if other := s.Bucket(t); other == bucket {
		t.Error("two tests would share a bucket")
	}
	if err := put(t, c, bucket, "a/b", "text"); err != nil {
		t.Fatal(err)
	}
	if err := put(t, c, bucket, "a/b", "other"); code(err) != "PreconditionFailed" {
		t.Errorf("a second create: %v", err)
	}
	if got, err := get(t, c, bucket, "a/b"); err != nil || got != "text" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestBucketIsRemoved looks for what a test left after its end.
func TestBucketIsRemoved(t *testing.T) {
	s := Start(t)
	var bucket string
	t.Run("user", func(t *testing.T) {
		bucket = s.Bucket(t)
		if err := put(t, s.Client(t), bucket, "a/b/c", "1"); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := s.Client(t).HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: &bucket}); code(err) != "NotFound" {
		t.Errorf("the bucket is still there: %v", err)
	}
	t.Run("user who removes it", func(t *testing.T) {
		bucket = s.Bucket(t)
		if _, err := s.Client(t).DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: &bucket}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRemoveBucket removes a bucket with old versions, unfinished uploads, and
// more objects than one page of a list has.
func TestRemoveBucket(t *testing.T) {
	s := Start(t, Versioning())
	c := s.Client(t)
	bucket := s.Bucket(t)
	if _, err := c.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{Bucket: &bucket,
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}}); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		if err := put(t, c, bucket, "k/"+strings.Repeat("x", i)+randomHex(4), "1"); err != nil {
			t.Fatal(err)
		}
	}
	for _, body := range []string{"1", "2"} {
		if _, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: aws.String("v"), Body: strings.NewReader(body)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &bucket, Key: aws.String("v")}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: &bucket, Key: aws.String("m")}); err != nil {
		t.Fatal(err)
	}
	if err := removeBucket(t.Context(), c, bucket, 7); err != nil {
		t.Fatal(err)
	}
	if _, err := c.HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: &bucket}); code(err) != "NotFound" {
		t.Errorf("the bucket is still there: %v", err)
	}
}

// TestNoGoroutinesStay: tests that look for leaked goroutines of their own can
// use servers.
func TestNoGoroutinesStay(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("user", func(t *testing.T) {
		for _, s := range []*Server{Start(t), Start(t, Own())} {
			bucket := s.Bucket(t)
			if err := put(t, s.Client(t), bucket, "k", "text"); err != nil {
				t.Error(err)
			}
			if id, ok := s.ReadOnly(t, bucket); ok {
				if _, err := get(t, id.Client(t), bucket, "k"); err != nil {
					t.Error(err)
				}
			}
		}
	})
	goleak.VerifyNone(t, before)
}

// Stop hangs up on clients that keep connections; the next test gets another
// server.
func TestStop(t *testing.T) {
	s := Start(t)
	if s.process == nil {
		t.Skip("the server is not ours")
	}
	before := goleak.IgnoreCurrent()
	c := s.newClient(&http.Client{Transport: &http.Transport{}}, s.AccessKey, s.SecretKey, func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })
	if _, err := c.ListBuckets(t.Context(), &s3.ListBucketsInput{}); err != nil {
		t.Fatal(err)
	}
	if goleak.Find(before) == nil {
		t.Error("nothing is kept: the test shows nothing")
	}
	Stop()
	Stop()
	goleak.VerifyNone(t, before)
	if _, err := c.ListBuckets(t.Context(), &s3.ListBucketsInput{}); err == nil {
		t.Error("it still answers")
	}
	TestServer(t)
}

func TestReadOnly(t *testing.T) {
	s := Start(t, Own())
	c, bucket, other := s.Client(t), s.Bucket(t), s.Bucket(t)
	for _, b := range []string{bucket, other} {
		if err := put(t, c, b, "k", "text"); err != nil {
			t.Fatal(err)
		}
	}
	id, ok := s.ReadOnly(t, bucket)
	if !ok {
		t.Fatal("versitygw has users")
	}
	reader := id.Client(t)
	if got, err := get(t, reader, bucket, "k"); err != nil || got != "text" {
		t.Errorf("got %q, %v", got, err)
	}
	_, errOther := get(t, reader, other, "k")
	_, errList := reader.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &bucket})
	_, errDelete := reader.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &bucket, Key: aws.String("k")})
	for what, err := range map[string]error{"put": put(t, reader, bucket, "n", ""), "list": errList, "delete": errDelete, "read of another bucket": errOther} {
		if code(err) != "AccessDenied" {
			t.Errorf("%s: %v", what, err)
		}
	}

	if _, ok := (&Server{}).ReadOnly(t, bucket); ok {
		t.Error("a user on a server that is not ours")
	}
}

func TestKillAndRestart(t *testing.T) {
	s := Start(t, Own())
	c, bucket := s.Client(t, func(o *s3.Options) { o.Retryer = aws.NopRetryer{} }), s.Bucket(t)
	if err := put(t, c, bucket, "k", "text"); err != nil {
		t.Fatal(err)
	}
	s.Kill(t)
	s.Kill(t)
	if _, err := get(t, c, bucket, "k"); err == nil {
		t.Error("a dead server answers")
	}
	s.Restart(t)
	if got, err := get(t, c, bucket, "k"); err != nil || got != "text" {
		t.Errorf("after a restart: %q, %v", got, err)
	}
	s.Restart(t) // of one that runs
	if err := put(t, c, bucket, "k", "other"); code(err) != "PreconditionFailed" {
		t.Errorf("a second create: %v", err)
	}
	s.Kill(t) // the bucket's removal copes
}

func TestAnonymousIsDenied(t *testing.T) {
	s := Start(t)
	resp, err := http.Get(s.Endpoint + "/" + s.Bucket(t) + "/k")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Error(resp.Status)
	}
}
