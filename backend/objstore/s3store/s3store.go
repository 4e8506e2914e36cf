// Package s3store is the driver for S3 and for servers that speak its protocol,
// over aws-sdk-go-v2. Replies are classified by error code, conditional writes
// are sent once, everything else is repeated by the SDK, and a store that is
// not known to honour conditions is proved before the first write. It knows
// nothing of segments and manifests.
package s3store

import (
	"context"
	"crypto/fips140"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/check"
)

// API are the calls that the driver makes. *s3.Client has them; so has whatever
// a caller wraps around one, as long as it hands on the option functions.
type API interface {
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	HeadObject(context.Context, *s3.HeadObjectInput, ...func(*s3.Options)) (*s3.HeadObjectOutput, error)
	ListObjectsV2(context.Context, *s3.ListObjectsV2Input, ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	DeleteObject(context.Context, *s3.DeleteObjectInput, ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
	CopyObject(context.Context, *s3.CopyObjectInput, ...func(*s3.Options)) (*s3.CopyObjectOutput, error)
}

// Checksum is the integrity header that every Put carries, besides the hash of
// the body in its signature. Trailing checksums are never sent.
type Checksum string

// The integrity headers.
const (
	ChecksumAuto   Checksum = ""       // crc32c on AWS and in FIPS mode, else md5
	ChecksumMD5    Checksum = "md5"    // Content-MD5, which every server knows
	ChecksumCRC32C Checksum = "crc32c" // x-amz-checksum-crc32c, which S3 keeps with the object
)

// Options are what a store needs to know beside its client and place.
type Options struct {
	// Profile is the text form of a check.Profile: what an earlier proof found
	// out about this endpoint. With it, or on an endpoint of AWS, no proof is
	// made before the first write.
	Profile string
	// SSE is the server-side encryption to ask for: "", "AES256", "aws:kms" or
	// "aws:kms:dsse". KMSKeyID goes with the latter two; empty is the account's
	// default key.
	SSE, KMSKeyID string
	// Checksum selects the integrity header.
	Checksum Checksum
	// UnsignedAcceptEncoding leaves Accept-Encoding out of the signature, for
	// gateways that rewrite it.
	UnsignedAcceptEncoding bool
	// Retryer repeats reads, lists and deletes; nil means the client's own.
	// Conditional writes are never repeated by it.
	Retryer aws.Retryer
}

func (o Options) validate() (check.Profile, error) {
	switch o.SSE {
	case "", "AES256", "aws:kms", "aws:kms:dsse":
	default:
		return check.Profile{}, fmt.Errorf("sse %q is none of AES256, aws:kms, aws:kms:dsse", o.SSE)
	}
	if o.KMSKeyID != "" && !strings.HasPrefix(o.SSE, "aws:kms") {
		return check.Profile{}, fmt.Errorf("a KMS key id goes with sse=aws:kms, not with sse=%q", o.SSE)
	}
	switch o.Checksum {
	case ChecksumAuto, ChecksumMD5, ChecksumCRC32C:
	default:
		return check.Profile{}, fmt.Errorf("checksum %q is none of md5, crc32c", o.Checksum)
	}
	return check.ParseProfile(o.Profile)
}

// Store is a bucket, or the part of one below a prefix. The embedded Store has
// the methods of the contract; writes pass through a check.Guard where the
// endpoint needs one. It is safe for concurrent use.
type Store struct {
	objstore.Store
	driver  *driver
	profile check.Profile
}

var (
	_ objstore.Store  = (*Store)(nil)
	_ objstore.Copier = (*Store)(nil)
)

// New makes a store of a client that the caller has configured. The client's
// endpoint, region, credentials, HTTP client and retries are its own; checksum
// settings and, for conditional writes, retries are overridden call by call.
// An HTTP client that follows redirects or repeats requests by itself is the
// caller's responsibility. prefix may be empty; the store's keys are
// prefix + "/" + key.
func New(client API, bucket, prefix string, opt Options) (*Store, error) {
	if bucket == "" {
		return nil, errors.New("s3store: no bucket")
	}
	prefix = strings.Trim(prefix, "/")
	if prefix != "" {
		if err := objstore.CheckKey(prefix); err != nil {
			return nil, fmt.Errorf("s3store: prefix: %w", err)
		}
		prefix += "/"
	}
	profile, err := opt.validate()
	if err != nil {
		return nil, fmt.Errorf("s3store: %w", err)
	}
	d := &driver{api: client, bucket: bucket, prefix: prefix, opt: opt, sleep: pause, silence: replyTimeout}
	if o, ok := client.(interface{ Options() s3.Options }); ok {
		o := o.Options()
		d.endpoint, d.aws = endpointOf(o)
		d.region = o.Region
		d.credentials, _ = o.Credentials.(interface{ Invalidate() })
	}
	if d.opt.Checksum == ChecksumAuto {
		d.opt.Checksum = ChecksumMD5
		if d.aws || fips140.Enabled() {
			d.opt.Checksum = ChecksumCRC32C
		}
	}
	s := &Store{Store: d, driver: d, profile: profile}
	if !d.aws && !profile.Conditional {
		place := d.endpoint + "/" + bucket
		if d.endpoint == "" { // not an *s3.Client: nothing is known of other stores like it
			place = fmt.Sprintf("%p/%s", d, bucket)
		}
		s.Store = check.Guard(d, place)
	}
	return s, nil
}

// endpointOf is the endpoint that a client was given, empty for the SDK's own
// choice, and whether it is one of AWS.
func endpointOf(o s3.Options) (endpoint string, isAWS bool) {
	if o.BaseEndpoint == nil {
		// A resolver of the caller's may lead anywhere; the SDK's own to AWS.
		if o.EndpointResolver != nil { //nolint:staticcheck // deprecated, but obeyed by the SDK
			return fmt.Sprintf("resolver %p", o.EndpointResolver), false //nolint:staticcheck
		}
		if reflect.TypeOf(o.EndpointResolverV2) != reflect.TypeOf(s3.NewDefaultEndpointResolverV2()) {
			return fmt.Sprintf("resolver %T %p", o.EndpointResolverV2, o.EndpointResolverV2), false
		}
		return "aws:" + o.Region, true
	}
	u, err := url.Parse(*o.BaseEndpoint)
	if err != nil {
		return *o.BaseEndpoint, false
	}
	host := strings.ToLower(u.Hostname())
	for _, suffix := range []string{".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu", ".api.aws"} {
		if strings.HasSuffix(host, suffix) {
			return *o.BaseEndpoint, true
		}
	}
	return strings.TrimSuffix(*o.BaseEndpoint, "/"), false
}

// Copy implements objstore.Copier.
func (s *Store) Copy(ctx context.Context, src, dst string) (objstore.Info, error) {
	return s.Store.(objstore.Copier).Copy(ctx, src, dst)
}

// Disprove makes the store, and all others of its endpoint and bucket that have
// to be proved, refuse writes of this process from now on. check.Race calls it
// where it finds a reason.
func (s *Store) Disprove(why error) {
	if g, ok := s.Store.(interface{ Disprove(why error) }); ok {
		g.Disprove(why)
	}
}

// Profile is the profile that the store was given.
func (s *Store) Profile() check.Profile { return s.profile }

// String names the place in messages: bucket, prefix and, unless it is AWS,
// endpoint.
func (s *Store) String() string {
	d := s.driver
	name := "s3://" + d.bucket + "/" + strings.TrimSuffix(d.prefix, "/")
	if !d.aws && d.endpoint != "" {
		name += " at " + d.endpoint
	}
	return name
}

// driver is the store without a guard.
type driver struct {
	api      API
	bucket   string
	prefix   string // empty, or ends in "/"
	endpoint string
	aws      bool
	opt      Options
	sleep    func(ctx context.Context, try int) error // between tries of a body
	silence  time.Duration                            // of a body, before it is fetched again
	tags     tags
	met      atomic.Bool // somebody has answered there

	region    string    // that requests are signed for, if it is known
	deletions deletions // what they left

	credentials interface{ Invalidate() } // nil if they cannot be refreshed
	refreshes   atomic.Int64
}

// full is the key in the bucket.
func (d *driver) full(key string) *string { return aws.String(d.prefix + key) }

// versionOf makes a version of an ETag, quotes and all, as the server gave it.
// A weak one, or none, is no version: If-Match compares strongly.
func versionOf(etag *string) objstore.Version {
	tag := aws.ToString(etag)
	if strings.HasPrefix(tag, "W/") || strings.HasPrefix(tag, "w/") || strings.Trim(tag, `"`) == "" {
		return objstore.Version{}
	}
	return objstore.NewVersion(tag)
}
