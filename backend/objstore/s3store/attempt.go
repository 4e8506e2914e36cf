package s3store

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// attempt watches one call of the SDK.
type attempt struct {
	began bool // the call runs through our hooks
	sent  bool // a request may have left this process
	// net/http has asked for a connection, and has got one. Clients of other kinds
	// tell neither.
	asked, connected atomic.Bool
	last             error // of the newest try that the SDK may repeat
	dials            int   // tries that ended before there was a connection
	cured            error // the reply that this call is to do better than; nil at first
}

// note reports whether the SDK may be asked to repeat what gave err.
func (a *attempt) note(err error) bool {
	a.last = err
	if isDial(err) {
		a.dials++
	}
	return a.dials < dialTries
}

// unsent reports whether it is certain that no byte of a request was sent. It
// is not where an API is used that drops option functions.
func (a *attempt) unsent() bool { return a.began && !a.sent }

// unconnected reports whether it is certain that there was no connection to send
// anything on, whatever ended the wait for one.
func (a *attempt) unconnected() bool { return a.asked.Load() && !a.connected.Load() }

// watch adds the hooks.
func (a *attempt) watch(stack *middleware.Stack) error {
	began := middleware.InitializeMiddlewareFunc("s3log:Began", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
		a.began = true
		return next.HandleInitialize(ctx, in)
	})
	sent := middleware.DeserializeMiddlewareFunc("s3log:Sent", func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
		a.sent = true
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GetConn: func(string) { a.asked.Store(true) },
			GotConn: func(httptrace.GotConnInfo) { a.connected.Store(true) },
		})
		return next.HandleDeserialize(ctx, in)
	})
	if err := stack.Initialize.Add(began, middleware.Before); err != nil {
		return err
	}
	return stack.Deserialize.Add(sent, middleware.After)
}

// options sets what every call needs, whoever made the client. Checksums in
// replies are not asked for: they break ranges on some servers, and what is
// read is checked against sums of our own.
func (d *driver) options(a *attempt, o *s3.Options) {
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	o.APIOptions = append(o.APIOptions, a.watch, d.guardBodies)
	if d.opt.UnsignedAcceptEncoding {
		o.APIOptions = append(o.APIOptions, leaveAcceptEncodingUnsigned)
	}
}

// once are the options of a call that must be sent once.
func (d *driver) once(a *attempt) func(*s3.Options) {
	return func(o *s3.Options) {
		d.options(a, o)
		o.Retryer = aws.NopRetryer{}
	}
}

// repeat are the options of a call that the SDK may repeat.
func (d *driver) repeat(a *attempt) func(*s3.Options) {
	return func(o *s3.Options) {
		d.options(a, o)
		if d.opt.Retryer != nil {
			o.Retryer = d.opt.Retryer
		}
		if v2, ok := o.Retryer.(aws.RetryerV2); ok {
			o.Retryer = &recorderV2{v2, a}
		} else if o.Retryer != nil {
			o.Retryer = &recorder{o.Retryer, a}
		}
	}
}

// meeting are options for a write that is to meet others on the server: the
// body is held back until the server, which has the header by then, asks for it
// and hold returns.
func meeting(hold func()) func(*s3.Options) {
	return func(o *s3.Options) {
		o.ContinueHeaderThresholdBytes = 1
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("s3log:Hold", func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
				if req, ok := in.Request.(*smithyhttp.Request); ok {
					if body, ok := req.GetStream().(io.ReadSeeker); ok {
						held, err := req.SetStream(&heldBody{body, hold})
						if err != nil {
							return middleware.DeserializeOutput{}, middleware.Metadata{}, err
						}
						// net/http waits for the server only in a request that says that it
						// is HTTP/1.1, which those of the SDK do not.
						held.Proto, held.ProtoMajor, held.ProtoMinor = "HTTP/1.1", 1, 1
						in.Request = held
					}
				}
				return next.HandleDeserialize(ctx, in)
			}), middleware.After)
		})
	}
}

// heldBody is a body that waits before it is read.
type heldBody struct {
	io.ReadSeeker
	hold func()
}

func (b *heldBody) Read(p []byte) (int, error) {
	b.hold()
	return b.ReadSeeker.Read(p)
}

// recorder notes the errors that a retryer is asked about, because the SDK
// forgets them when the context ends the wait for the next try. It ends the
// wait for a server that is not there earlier than for one that is busy.
type recorder struct {
	aws.Retryer
	a *attempt
}

func (r *recorder) IsErrorRetryable(err error) bool {
	return r.a.note(err) && !lasting(err) && r.Retryer.IsErrorRetryable(err)
}

type recorderV2 struct {
	aws.RetryerV2
	a *attempt
}

func (r *recorderV2) IsErrorRetryable(err error) bool {
	return r.a.note(err) && !lasting(err) && r.RetryerV2.IsErrorRetryable(err)
}

// try makes a call, and once more for each of two causes that are decided no
// and can be cured here: credentials that have just expired, and a clock that
// is wrong, whose error the SDK has measured by the reply. It returns the
// watch of the newest call beside its error.
func (d *driver) try(op string, options func(*attempt) func(*s3.Options), call func(func(*s3.Options)) error) (*attempt, error) {
	var refreshed, reclocked bool
	var cured error
	for {
		generation := d.refreshes.Load()
		a := &attempt{cured: cured}
		err := call(options(a))
		if err == nil {
			d.met.Store(true)
			return a, nil
		}
		r := replyOf(op, false, err)
		if r.status != 0 && !a.unsent() {
			d.met.Store(true)
		}
		switch {
		case !refreshed && d.credentials != nil && r.expired():
			refreshed, cured = true, err
			// Of many calls that fail at once one renews for all.
			if d.refreshes.CompareAndSwap(generation, generation+1) {
				d.credentials.Invalidate()
			}
		case !reclocked && r.skewed(err):
			reclocked, cured = true, err
		default:
			return a, err
		}
	}
}

// expired reports whether new credentials may help. A reply to HEAD has no
// body, so that an expired token is a bare 400 there.
func (r reply) expired() bool {
	return byCode[r.code].hint == hintExpired || r.op == opHead && r.status == http.StatusBadRequest
}

// skewed reports whether the same request, signed with the store's time, may
// pass. For codes that have other causes, too, the SDK compares the clocks, and
// then calls an error repeatable that otherwise is not.
func (r reply) skewed(err error) bool {
	if byCode[r.code].hint == hintClock {
		return true
	}
	var marked interface{ RetryableError() bool }
	return r.status == http.StatusForbidden && errors.As(err, &marked) && marked.RetryableError()
}

// leaveAcceptEncodingUnsigned moves the header to where the signature is made
// already.
func leaveAcceptEncodingUnsigned(stack *middleware.Stack) error {
	const name = "Accept-Encoding"
	var value string
	hide := middleware.FinalizeMiddlewareFunc("s3log:HideAcceptEncoding", func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
		if req, ok := in.Request.(*smithyhttp.Request); ok {
			value = req.Header.Get(name)
			req.Header.Del(name)
		}
		return next.HandleFinalize(ctx, in)
	})
	show := middleware.FinalizeMiddlewareFunc("s3log:ShowAcceptEncoding", func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
		if req, ok := in.Request.(*smithyhttp.Request); ok && value != "" {
			req.Header.Set(name, value)
		}
		return next.HandleFinalize(ctx, in)
	})
	if err := stack.Finalize.Insert(hide, "Signing", middleware.Before); err != nil {
		return err
	}
	return stack.Finalize.Insert(show, "Signing", middleware.After)
}

// pause waits before another try of a body: 100 ms doubled with every try, half
// of it at random.
func pause(ctx context.Context, try int) error {
	d := 100 * time.Millisecond << try
	t := time.NewTimer(d/2 + rand.N(d/2))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
