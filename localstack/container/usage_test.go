package container_test

import (
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/s3log/s3log/localstack/container"
)

// What docs/testing-with-localstack.md shows.

func TestInAContainer(t *testing.T) {
	name := os.Getenv("S3LOG_TEST_MINIO_IMAGE") // minio/minio:RELEASE.2025-09-07T16-13-09Z, or its name in your registry
	if name == "" {
		t.Skip("S3LOG_TEST_MINIO_IMAGE names no image")
	}
	srv := container.Start(t, container.MinIO(name))
	bucket := srv.Bucket(t)
	if _, err := srv.Client(t).HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: &bucket}); err != nil {
		t.Fatal(err)
	}
}
