package s3store

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/s3log/s3log/backend/objstore"
)

// Addressing is where the bucket's name goes in a request's address.
type Addressing uint8

const (
	// AddressingAuto is path style on endpoints that are not AWS, and for
	// buckets with dots (whose names no TLS certificate covers); else virtual
	// host.
	AddressingAuto        Addressing = iota
	AddressingPath                   // https://host/bucket/key
	AddressingVirtualHost            // https://bucket.host/key
)

// Config says where a store is and how to get there. What it leaves open comes
// from the usual AWS environment: variables, shared config and credentials
// files with their profiles, SSO, assumed roles, container and instance roles,
// AWS_ENDPOINT_URL_S3.
type Config struct {
	Bucket, Prefix string
	// Region; empty is that of the environment, or us-east-1 on an endpoint
	// that is not AWS.
	Region string
	// Endpoint is a base URL such as "http://127.0.0.1:9000"; empty is that of
	// the environment, or AWS.
	Endpoint   string
	Addressing Addressing
	// AWSProfile is a profile of the AWS configuration files. (Options.Profile
	// is another thing: the profile of the store.)
	AWSProfile string
	// ReplyTimeout is how long a server may be silent, from the end of a request to
	// its answer, and between two pieces of a body, before the same is asked again.
	// 0 means 20 s. A client of LoadOptions has a time-out of its own for answers.
	ReplyTimeout time.Duration
	Options
	// LoadOptions are applied last when the AWS configuration is loaded, for
	// what has no field here: an HTTP client, a credentials provider.
	LoadOptions []func(*config.LoadOptions) error
}

// Query parameters of a store URL.
const (
	paramRegion     = "region"
	paramEndpoint   = "endpoint"
	paramPathStyle  = "path-style"
	paramAWSProfile = "aws-profile"
	paramProfile    = "profile"
	paramSSE        = "sse"
	paramKMSKeyID   = "kms-key-id"
	paramChecksum   = "checksum"
	paramSignAE     = "sign-accept-encoding"
)

var params = []string{paramRegion, paramEndpoint, paramPathStyle, paramAWSProfile, paramProfile, paramSSE, paramKMSKeyID, paramChecksum, paramSignAE}

// ParseURL reads a store URL, s3://bucket/prefix?name=value&…, where each of
// these may be given once:
//
//	region=eu-central-1
//	endpoint=http://127.0.0.1:9000     of a server that is not AWS
//	path-style=true|false              default: see AddressingAuto
//	aws-profile=NAME                   of ~/.aws/config
//	profile=conditional                what an earlier proof found out about it
//	sse=AES256|aws:kms|aws:kms:dsse    server-side encryption to ask for
//	kms-key-id=ID                      with the latter two
//	checksum=md5|crc32c                the integrity header of writes
//	sign-accept-encoding=false         for gateways that rewrite that header
//
// Credentials are no part of it.
func ParseURL(text string) (Config, error) {
	c, err := parseURL(text)
	if err != nil {
		return Config{}, fmt.Errorf("store URL %q: %w", redact(text), err)
	}
	return c, nil
}

func parseURL(text string) (Config, error) {
	u, err := url.Parse(text)
	if err != nil {
		var e *url.Error
		if errors.As(err, &e) {
			err = e.Err
		}
		return Config{}, err
	}
	switch {
	case u.Scheme != "s3":
		return Config{}, errors.New("does not begin with s3://")
	case u.User != nil:
		return Config{}, errors.New("credentials do not belong in it; use the AWS environment or aws-profile=")
	case u.Port() != "" || u.Hostname() != u.Host:
		return Config{}, fmt.Errorf("%q is no bucket name; a server's address goes into endpoint=", u.Host)
	case u.Host == "":
		return Config{}, errors.New("no bucket")
	case u.Fragment != "":
		return Config{}, errors.New("a fragment (#…) means nothing; write # as %23")
	}
	c := Config{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/")}
	if c.Prefix != "" {
		if err := objstore.CheckKey(c.Prefix); err != nil {
			return Config{}, fmt.Errorf("prefix: %w", err)
		}
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Config{}, err
	}
	for name, values := range query {
		switch {
		case !slices.Contains(params, name):
			return Config{}, fmt.Errorf("unknown parameter %q (known are %s)", name, strings.Join(params, ", "))
		case len(values) > 1:
			return Config{}, fmt.Errorf("parameter %s is given %d times", name, len(values))
		case values[0] == "":
			return Config{}, fmt.Errorf("parameter %s is empty", name)
		}
	}
	c.Region = query.Get(paramRegion)
	c.Endpoint = query.Get(paramEndpoint)
	c.AWSProfile = query.Get(paramAWSProfile)
	c.Profile = query.Get(paramProfile)
	c.SSE = query.Get(paramSSE)
	c.KMSKeyID = query.Get(paramKMSKeyID)
	c.Checksum = Checksum(query.Get(paramChecksum))
	if path, given, err := flag(query, paramPathStyle); err != nil {
		return Config{}, err
	} else if given {
		c.Addressing = AddressingVirtualHost
		if path {
			c.Addressing = AddressingPath
		}
	}
	if sign, given, err := flag(query, paramSignAE); err != nil {
		return Config{}, err
	} else if given {
		c.UnsignedAcceptEncoding = !sign
	}
	if err := checkEndpoint(c.Endpoint); err != nil {
		return Config{}, err
	}
	if _, err := c.Options.validate(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// flag reads a parameter that is true or false.
func flag(query url.Values, name string) (value, given bool, err error) {
	text := query.Get(name)
	if text == "" {
		return false, false, nil
	}
	if text != "true" && text != "false" {
		return false, false, fmt.Errorf("%s=%s: give true or false", name, text)
	}
	return text == "true", true, nil
}

// checkEndpoint reports what is wrong with an endpoint; an empty one is right.
func checkEndpoint(endpoint string) error {
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("endpoint %q is not an http:// or https:// address", endpoint)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("endpoint %q has more than scheme, host and path", u.Redacted())
	}
	return nil
}

// secret is whatever stands before an '@', in the URL itself or in a parameter.
var secret = regexp.MustCompile(`[^/=&?]*@`)

// redact hides credentials that somebody put into a store URL.
func redact(text string) string { return secret.ReplaceAllString(text, "…@") }

// String is the store URL of c. LoadOptions are not in it.
func (c Config) String() string {
	u := url.URL{Scheme: "s3", Host: c.Bucket}
	if c.Prefix != "" {
		u.Path = "/" + c.Prefix
	}
	query := url.Values{}
	for name, value := range map[string]string{
		paramRegion: c.Region, paramEndpoint: c.Endpoint, paramAWSProfile: c.AWSProfile, paramProfile: c.Profile,
		paramSSE: c.SSE, paramKMSKeyID: c.KMSKeyID, paramChecksum: string(c.Checksum),
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if c.Addressing != AddressingAuto {
		query.Set(paramPathStyle, strconv.FormatBool(c.Addressing == AddressingPath))
	}
	if c.UnsignedAcceptEncoding {
		query.Set(paramSignAE, "false")
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// pathStyle decides AddressingAuto. Most servers that are not AWS have one name,
// or just an address, without a wildcard before it. On AWS the SDK turns to
// path style for buckets with dots by itself.
func pathStyle(a Addressing, isAWS bool) bool {
	return a == AddressingPath || a == AddressingAuto && !isAWS
}
