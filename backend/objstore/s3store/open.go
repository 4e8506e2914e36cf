package s3store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
)

const (
	readTries   = 10               // of a read; with the waits between them about a minute
	dialTries   = 4                // of a connection for one read; nobody may be there
	dialTimeout = 10 * time.Second // to connect
	// A server that has the whole request answers within this, or the same is
	// sent again, and a body brings something. There is room for more than one try
	// in the minute that a commit has.
	replyTimeout = 20 * time.Second
	idlePerHost  = 64 // connections kept: segments are read in parallel
)

// Open makes a client from c and the AWS environment, and a store of it. It
// sends nothing to the store; credentials are fetched with the first request.
func Open(ctx context.Context, c Config) (*Store, error) {
	client, err := NewClient(ctx, c)
	if err != nil {
		return nil, err
	}
	s, err := New(client, c.Bucket, c.Prefix, c.Options)
	if err == nil {
		s.driver.silence = cmp.Or(c.ReplyTimeout, replyTimeout)
	}
	return s, err
}

// NewClient makes the client that Open uses, for callers that need one for
// something else, too. It logs nothing, unless LoadOptions bring a logger.
func NewClient(ctx context.Context, c Config) (*s3.Client, error) {
	if err := checkEndpoint(c.Endpoint); err != nil {
		return nil, fmt.Errorf("s3store: %w", err)
	}
	httpClient := awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout }).
		WithTransportOptions(func(t *http.Transport) {
			t.ResponseHeaderTimeout = cmp.Or(c.ReplyTimeout, replyTimeout)
			t.MaxIdleConnsPerHost = idlePerHost
		})
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(httpClient),
		config.WithSharedConfigProfile(c.AWSProfile),
		// By default the SDK writes warnings to the process's stderr. What matters
		// of them is in the errors.
		config.WithLogger(logging.Nop{}),
	}
	if c.Region != "" {
		options = append(options, config.WithRegion(c.Region))
	}
	options = append(options, c.LoadOptions...)
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("s3store: AWS configuration: %w", err)
	}

	var settled s3.Options
	build := func() *s3.Client {
		return s3.NewFromConfig(cfg, func(o *s3.Options) {
			if c.Endpoint != "" {
				o.BaseEndpoint = aws.String(c.Endpoint)
			}
			_, isAWS := endpointOf(*o)
			if o.Region == "" && !isAWS {
				o.Region = "us-east-1" // what servers without regions expect
			}
			o.UsePathStyle = pathStyle(c.Addressing, isAWS)
			o.HTTPClient = withoutRedirects(o.HTTPClient)
			if cfg.Retryer == nil && cfg.RetryMaxAttempts == 0 && cfg.RetryMode == "" {
				o.Retryer = newRetryer()
			}
			settled = *o
		})
	}
	client := build()
	if settled.Region == "" {
		// On a machine of AWS the machine itself knows; elsewhere the question
		// costs a second or two, so it comes last.
		machine, err := config.LoadDefaultConfig(ctx, append(options, config.WithEC2IMDSRegion())...)
		if err != nil {
			return nil, fmt.Errorf("s3store: %w: %w", ErrNoRegion, err)
		}
		if machine.Region == "" {
			return nil, fmt.Errorf("s3store: %w", ErrNoRegion)
		}
		cfg = machine
		client = build()
	}
	return client, nil
}

// ErrNoRegion: neither the Config (region=) nor the environment (AWS_REGION, a
// profile, the machine) says in which region of AWS the bucket is.
var ErrNoRegion = errors.New("no region is named")

// newRetryer repeats reads with growing, jittered pauses of up to 20 s each.
// Unlike the SDK's default it has no budget shared by all requests, which a
// busy minute uses up; the caller's context bounds it.
func newRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = readTries
		o.MaxBackoff = 20 * time.Second
		o.BaseDelay = 200 * time.Millisecond
		o.RateLimiter = ratelimit.None
	})
}

// withoutRedirects makes a client hand out redirects as replies. S3 redirects
// to tell that the region is wrong; followed to another host the request would
// go without its signature, and be answered 403.
func withoutRedirects(c s3.HTTPClient) s3.HTTPClient {
	b, ok := c.(*awshttp.BuildableClient)
	if !ok {
		return c // the caller's own
	}
	frozen, ok := b.Freeze().(*http.Client)
	if !ok {
		return c
	}
	client := *frozen
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}
