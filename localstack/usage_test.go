package localstack_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

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
