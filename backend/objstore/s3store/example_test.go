package s3store_test

import (
	"context"
	"log"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/s3store"
)

// A bucket, with credentials, region and endpoint from where AWS tools find them.
func ExampleOpen() {
	ctx := context.Background()
	store, err := s3store.Open(ctx, s3store.Config{Bucket: "logs", Prefix: "team-a", Region: "eu-central-1"})
	if err != nil {
		log.Fatal(err)
	}
	b := backend.New(store, backend.Options{})
	l, err := b.Create("session-1", backend.CreateOptions{OrAdopt: true})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := l.Append(ctx, [][]byte{[]byte(`{"type":"note","data":"hello"}`)}, backend.AppendOptions{Last: true}); err != nil {
		log.Fatal(err)
	}
	if err := l.Close(ctx, backend.CloseOptions{}); err != nil {
		log.Fatal(err)
	}
}

// A client of one's own brings its credentials, endpoint, HTTP client, middleware
// (otelaws, say) and retries. Conditional writes are sent once all the same: what
// becomes of them is for the library to find out.
func ExampleNew() {
	ctx := context.Background()
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion("eu-central-1"))
	if err != nil {
		log.Fatal(err)
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.Retryer = retry.AddWithMaxBackoffDelay(retry.NewStandard(), time.Second)
	})
	store, err := s3store.New(client, "logs", "team-a", s3store.Options{SSE: "aws:kms"})
	if err != nil {
		log.Fatal(err)
	}
	r := backend.NewReader(store, backend.Options{})
	for e, err := range r.Events(ctx, "session-1", backend.ReadOptions{}) {
		if err != nil {
			log.Fatal(err)
		}
		log.Printf("%d %s", e.Seq, e.Line)
	}
}
