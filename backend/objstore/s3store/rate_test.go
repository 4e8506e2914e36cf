package s3store

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/s3log/s3log/backend/objstore"
)

func TestRate(t *testing.T) {
	for _, tt := range []struct {
		endpoint, bucket, profile string
		want                      objstore.Rate
	}{
		{"", "logs", "", objstore.Rate{PerSecond: 15, Burst: 15}},
		{"https://s3.eu-west-1.amazonaws.com", "logs", "", objstore.Rate{PerSecond: 15, Burst: 15}},
		{"", "logs--use1-az5--x-s3", "", objstore.Rate{}},
		{"https://0123456789abcdef.r2.cloudflarestorage.com", "logs", "", objstore.Rate{PerSecond: 1}},
		{"https://0123456789abcdef.eu.R2.cloudflarestorage.com", "logs", "", objstore.Rate{PerSecond: 1}},
		{"https://storage.googleapis.com", "logs", "", objstore.Rate{PerSecond: 1}},
		{"http://127.0.0.1:7070", "logs", "", objstore.Rate{}},
		{"http://127.0.0.1:7070", "logs", "conditional,rate=2", objstore.Rate{PerSecond: 2}},
		{"", "logs", "conditional,rate=40", objstore.Rate{PerSecond: 40}},
	} {
		o := s3.Options{Region: "us-east-1"}
		if tt.endpoint != "" {
			o.BaseEndpoint = aws.String(tt.endpoint)
		}
		s, err := New(s3.New(o), tt.bucket, "", Options{Profile: tt.profile})
		if err != nil {
			t.Fatal(err)
		}
		if got := objstore.RateOf(s); got != tt.want {
			t.Errorf("%s %s %q: %+v, not %+v", tt.endpoint, tt.bucket, tt.profile, got, tt.want)
		}
	}
}
