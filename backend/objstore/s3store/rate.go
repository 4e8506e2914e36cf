package s3store

import (
	"net/url"
	"strings"

	"github.com/s3log/s3log/backend/objstore"
)

// Rate implements objstore.Rated: what the profile says, else what is known of
// the endpoint. R2 and GCS document one write a second on one key. S3 documents
// none; about 15 conditional writes a second is what one key of it was seen to
// take, a directory bucket (S3 Express) several times as many. Of other servers
// nothing is known: their round trip has to do.
func (s *Store) Rate() objstore.Rate {
	if s.profile.Rate > 0 {
		return objstore.Rate{PerSecond: float64(s.profile.Rate)}
	}
	d := s.driver
	switch host := hostOf(d.endpoint); {
	case strings.HasSuffix(host, ".r2.cloudflarestorage.com"), host == "storage.googleapis.com", strings.HasSuffix(host, ".storage.googleapis.com"):
		return objstore.Rate{PerSecond: 1}
	case d.aws && !strings.HasSuffix(d.bucket, "--x-s3"):
		return objstore.Rate{PerSecond: 15, Burst: 15}
	}
	return objstore.Rate{}
}

func hostOf(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}
