package localstack_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/s3log/s3log/localstack"
)

// What docs/testing-with-localstack.md shows.

func TestWithABucket(t *testing.T) {
	srv := localstack.Start(t)
	bucket := srv.Bucket(t) // new, and removed with all that is in it when the test ends
	client := srv.Client(t) // an *s3.Client with keys that may do everything

	_, err := client.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: &bucket, Key: aws.String("hello"), Body: strings.NewReader("world"), IfNoneMatch: aws.String("*"),
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWithAReader(t *testing.T) {
	srv := localstack.Start(t)
	bucket := srv.Bucket(t)
	reader, ok := srv.ReadOnly(t, bucket) // its keys are reader.AccessKey and reader.SecretKey
	if !ok {
		t.Skip("the server that the environment names makes no users")
	}
	_, err := reader.Client(t).PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: aws.String("hello"), Body: strings.NewReader("world")})
	if denied, ok := errors.AsType[smithy.APIError](err); !ok || denied.ErrorCode() != "AccessDenied" {
		t.Errorf("a reader wrote: %v", err)
	}
}
