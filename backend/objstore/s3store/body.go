package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/s3log/s3log/backend/objstore"
)

// What comes back may hang, never end, or not be the store's at all.

var (
	// errCut marks a body that is not as long as announced, or stopped coming.
	errCut = errors.New("the body ended early")
	// errForeign marks a reply of 200 that no S3 server gives: the page of a proxy,
	// or of a portal that wants somebody to log in.
	errForeign = errors.New("this is no reply of an S3 server")
)

const (
	hintForeign = "a proxy or a portal answers in the store's place: check the endpoint and the network"
	hintEncoded = "something between here and the store changes bodies on their way: go past it"
)

// watched is a body that ends with an error when it has brought nothing for a
// while, also where its reader would wait for ever.
type watched struct {
	io.ReadCloser
	ctx     context.Context
	cancel  context.CancelCauseFunc
	silence time.Duration
	timer   *time.Timer
}

// watch makes the body of a request watched: cancel is what ends the request,
// whose context is ctx.
func watch(ctx context.Context, cancel context.CancelCauseFunc, body io.ReadCloser, silence time.Duration) *watched {
	err := fmt.Errorf("nothing came for %v", silence)
	return &watched{body, ctx, cancel, silence, time.AfterFunc(silence, func() { cancel(err) })}
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		w.timer.Reset(w.silence)
	}
	if cause := context.Cause(w.ctx); err != nil && err != io.EOF && cause != nil && !isContext(cause) {
		err = cause // not "context canceled": nobody has given up
	}
	return n, err
}

func (w *watched) Close() error {
	w.timer.Stop()
	defer w.cancel(nil)
	return w.ReadCloser.Close()
}

// genuine reports why a reply of 200 to a Get cannot be the object: without an
// ETag, which S3 always gives, and of a kind, or of no length, that no object of
// ours has.
func genuine(out *s3.GetObjectOutput) (class error, hint string, err error) {
	nothing := out.ContentLength != nil && *out.ContentLength == 0 && aws.ToString(out.ETag) == ""
	if nothing || isPage(out.ContentType, out.ETag) {
		return objstore.ErrUndecided, hintForeign, fmt.Errorf("%w: no ETag, content type %q", errForeign, aws.ToString(out.ContentType))
	}
	switch encoding := aws.ToString(out.ContentEncoding); encoding {
	case "", "identity", "aws-chunked":
		return nil, "", nil
	default:
		return objstore.ErrUnsupported, hintEncoded, fmt.Errorf("the body came with Content-Encoding %q, which it was not stored with", encoding)
	}
}

// isPage reports whether a reply of success is not about an object of ours.
func isPage(contentType, etag *string) bool {
	kind, _, _ := strings.Cut(aws.ToString(contentType), ";")
	return aws.ToString(etag) == "" && (strings.HasSuffix(kind, "/html") || strings.HasSuffix(kind, "/xml"))
}

// Bodies that the SDK reads by itself have no business to be longer.
const (
	maxListBody  = 8 << 20 // 1,000 keys
	maxReplyBody = 1 << 20 // errors, and replies to writes
)

// guardBodies adds the hook that ends bodies of replies which hang, and those
// that would fill the memory. How long the body of an object may be is for those
// to say who asked for it.
func (d *driver) guardBodies(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("s3log:Bodies", func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		out, metadata, err := next.HandleDeserialize(ctx, in)
		resp, ok := out.RawResponse.(*smithyhttp.Response)
		if !ok || resp.Body == nil {
			cancel(nil)
			return out, metadata, err
		}
		body := watch(ctx, cancel, resp.Body, d.silence)
		resp.Body = body
		if refusesPlain(in.Request, resp) {
			return out, metadata, errWantsTLS
		}
		limit := int64(maxReplyBody)
		if resp.StatusCode < http.StatusMultipleChoices {
			switch middleware.GetOperationName(ctx) {
			case "GetObject":
				limit = math.MaxInt64
			case "ListObjectsV2":
				limit = maxListBody
			}
		}
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, limit), body}
		return out, metadata, err
	}), middleware.After)
}
