package localstack

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

// Client is a client with the server's own keys, path style. What it holds
// open is closed when the test ends.
func (s *Server) Client(tb testing.TB, change ...func(*s3.Options)) *s3.Client {
	return s.client(tb, s.AccessKey, s.SecretKey, change...)
}

func (s *Server) client(tb testing.TB, accessKey, secretKey string, change ...func(*s3.Options)) *s3.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	tb.Cleanup(transport.CloseIdleConnections)
	return s.newClient(&http.Client{Transport: transport}, accessKey, secretKey, change...)
}

func (s *Server) newClient(c *http.Client, accessKey, secretKey string, change ...func(*s3.Options)) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(s.Endpoint),
		Region:       s.Region,
		UsePathStyle: true,
		HTTPClient:   c,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secretKey, Source: "localstack"}, nil
		}),
	}, change...)
}

const (
	cleanTimeout = 2 * time.Minute // for the removal of a bucket after its test
	cleanPage    = 1000            // objects deleted by one request
	cleanTries   = 20              // where a request of the test still arrives
	cleanPause   = 250 * time.Millisecond
)

// Bucket makes a bucket for the test, and removes it with all that is in it
// when the test ends.
func (s *Server) Bucket(tb testing.TB) string {
	tb.Helper()
	client := s.Client(tb)
	name := "s3log-" + randomHex(10)
	in := &s3.CreateBucketInput{Bucket: &name}
	if s.Region != defaultRegion {
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraint(s.Region)}
	}
	if _, err := client.CreateBucket(tb.Context(), in); err != nil {
		tb.Fatalf("localstack: create bucket %s at %s: %v", name, s.Endpoint, err)
	}
	tb.Cleanup(func() {
		if s.own && !s.process.running() {
			return // the data goes with the server
		}
		ctx, cancel := context.WithTimeout(context.Background(), cleanTimeout)
		defer cancel()
		err := removeBucket(ctx, client, name, cleanPage)
		for range cleanTries {
			if codeOf(err) != "BucketNotEmpty" {
				break
			}
			time.Sleep(cleanPause)
			err = removeBucket(ctx, client, name, cleanPage)
		}
		if err != nil && codeOf(err) != "NoSuchBucket" { // the test did it
			tb.Errorf("localstack: remove bucket %s: %v", name, err)
		}
	})
	return name
}

// codeOf is the code of a server's error, or empty.
func codeOf(err error) string {
	var e smithy.APIError
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	return ""
}

// removeBucket empties a bucket, of old versions, too, and deletes it,
// by pages of so many objects.
func removeBucket(ctx context.Context, client *s3.Client, bucket string, pageSize int32) error {
	for {
		page, err := client.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{Bucket: &bucket, MaxKeys: &pageSize})
		if err != nil {
			return fmt.Errorf("list versions: %w", err)
		}
		var objects []types.ObjectIdentifier
		for _, v := range page.Versions {
			objects = append(objects, types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
		}
		for _, m := range page.DeleteMarkers {
			objects = append(objects, types.ObjectIdentifier{Key: m.Key, VersionId: m.VersionId})
		}
		if len(objects) == 0 {
			break
		}
		out, err := client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &bucket, Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(true)}})
		if err != nil {
			return fmt.Errorf("delete objects: %w", err)
		}
		if len(out.Errors) > 0 {
			e := out.Errors[0]
			return fmt.Errorf("delete %s: %s %s", aws.ToString(e.Key), aws.ToString(e.Code), aws.ToString(e.Message))
		}
	}
	uploads, err := client.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: &bucket})
	if err != nil {
		return fmt.Errorf("list uploads: %w", err)
	}
	for _, u := range uploads.Uploads {
		if _, err := client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &bucket, Key: u.Key, UploadId: u.UploadId}); err != nil {
			return fmt.Errorf("abort upload of %s: %w", aws.ToString(u.Key), err)
		}
	}
	_, err = client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &bucket})
	return err
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}
