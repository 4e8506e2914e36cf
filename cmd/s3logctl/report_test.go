package main

import (
	"testing"

	"github.com/s3log/s3log/backend/objstore/s3store"
)

// A page names the store, and nothing that is not for everybody's eyes.
func TestStoreName(t *testing.T) {
	for want, at := range map[string]location{
		"s3://bucket/a/b":    {s3: s3store.Config{Bucket: "bucket", Prefix: "a/b", Endpoint: "http://10.0.0.1:9000", AWSProfile: "admin"}},
		"s3://bucket":        {s3: s3store.Config{Bucket: "bucket"}},
		"a directory":        {dir: "/home/somebody/secret"},
		"the embedded store": {dir: "/home/somebody/.local/share/s3log", embedded: true},
	} {
		if got := storeName(at); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
