package s3store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/s3log/s3log/backend/objstore"
)

// The operations, as errors name them.
const (
	opGet    = "Get"
	opHead   = "Head"
	opList   = "List"
	opPut    = "Put"
	opDelete = "Delete"
	opCopy   = "Copy"
)

// verdict is what a reply means and what can be done about it.
type verdict struct {
	class error
	hint  string
}

// byCode has the error codes that mean something whatever their HTTP status;
// servers agree on codes better than on statuses. Codes of throttling are the
// SDK's list, and a few here.
var byCode = map[string]verdict{
	"NoSuchKey":                    {class: objstore.ErrNotExist},
	"NoSuchVersion":                {class: objstore.ErrNotExist},
	"NotModified":                  {class: objstore.ErrNotModified},
	"InvalidRange":                 {class: objstore.ErrRange},
	"RequestedRangeNotSatisfiable": {class: objstore.ErrRange}, // the status text: a reply without a body
	"PreconditionFailed":           {class: objstore.ErrPrecondition},

	"ConditionalRequestConflict": {class: objstore.ErrConflict},
	"OperationAborted":           {class: objstore.ErrConflict},

	"BadDigest":                   {objstore.ErrRejected, hintDamaged},
	"InvalidDigest":               {objstore.ErrRejected, hintDamaged},
	"XAmzContentSHA256Mismatch":   {objstore.ErrRejected, hintDamaged},
	"XAmzContentChecksumMismatch": {objstore.ErrRejected, hintDamaged},
	"IncompleteBody":              {objstore.ErrRejected, hintDamaged},
	"EntityTooLarge":              {class: objstore.ErrRejected},
	"EntityTooSmall":              {class: objstore.ErrRejected},
	"InvalidRequest":              {class: objstore.ErrRejected},
	"InvalidArgument":             {class: objstore.ErrRejected},
	"InvalidStorageClass":         {class: objstore.ErrRejected},
	"InvalidURI":                  {class: objstore.ErrRejected},
	"KeyTooLongError":             {class: objstore.ErrRejected},
	"MalformedXML":                {class: objstore.ErrRejected},
	"MetadataTooLarge":            {class: objstore.ErrRejected},
	"MissingContentLength":        {class: objstore.ErrRejected},
	"ObjectParentIsFile":          {objstore.ErrRejected, "this server keeps objects as files, and the key runs through one of them"},

	"RequestTimeout":          {class: objstore.ErrUndecided},
	"RequestTimeoutException": {class: objstore.ErrUndecided},
	"InternalError":           {class: objstore.ErrUndecided},
	"ServiceUnavailable":      {class: objstore.ErrUndecided},
	"SlowDownRead":            {class: objstore.ErrThrottled},
	"SlowDownWrite":           {class: objstore.ErrThrottled},
	"TooManyRequests":         {class: objstore.ErrThrottled},
	"KMS.ThrottlingException": {class: objstore.ErrThrottled},

	"ExpiredToken":          {objstore.ErrRefused, hintExpired},
	"ExpiredTokenException": {objstore.ErrRefused, hintExpired},
	"InvalidToken":          {objstore.ErrRefused, hintExpired},
	"TokenRefreshRequired":  {objstore.ErrRefused, hintExpired},
	"RequestTimeTooSkewed":  {objstore.ErrRefused, hintClock},
	"RequestExpired":        {objstore.ErrRefused, hintClock},
	"RequestInTheFuture":    {objstore.ErrRefused, hintClock},

	"PermanentRedirect":                  {objstore.ErrRefused, hintRegion},
	"TemporaryRedirect":                  {objstore.ErrRefused, hintRegion},
	"Redirect":                           {objstore.ErrRefused, hintRegion},
	"MovedPermanently":                   {objstore.ErrRefused, hintRegion},
	"AuthorizationHeaderMalformed":       {objstore.ErrRefused, hintRegion},
	"IllegalLocationConstraintException": {objstore.ErrRefused, hintRegion},
	"NoSuchBucket":                       {objstore.ErrRefused, hintBucket},
	"InvalidBucketName":                  {objstore.ErrRefused, hintName},
	"SecondLevelDomainForbidden":         {objstore.ErrRefused, "this provider wants virtual-host addresses: path-style=false"},
	"InvalidObjectState":                 {objstore.ErrRefused, "the object is archived: restore it first"},

	"AccessDenied":          {class: objstore.ErrDenied},
	"AllAccessDisabled":     {class: objstore.ErrDenied},
	"AccountProblem":        {objstore.ErrDenied, "there is a problem with the account: ask the store's operator"},
	"NotSignedUp":           {objstore.ErrDenied, "there is a problem with the account: ask the store's operator"},
	"InvalidAccessKeyId":    {objstore.ErrDenied, "the store does not know this access key: is it meant for this endpoint?"},
	"SignatureDoesNotMatch": {objstore.ErrDenied, hintSignature},

	"NotImplemented":       {objstore.ErrUnsupported, hintUnsupported},
	"MethodNotAllowed":     {objstore.ErrUnsupported, hintUnsupported},
	"UnsupportedOperation": {objstore.ErrUnsupported, hintUnsupported},
}

// Hints, for the person who has to act.
const (
	hintDamaged     = "the body was changed on its way, or the store computes another checksum: try checksum=md5 or checksum=crc32c"
	hintChecksum    = "the store wants another integrity header: try checksum=md5 or checksum=crc32c"
	hintExpired     = "the credentials have expired and could not be renewed; this request changed nothing"
	hintClock       = "the clock of this host differs too much from the store's: set it"
	hintRegion      = "the bucket is in another region"
	hintSignature   = "the secret key is wrong, or a proxy changes what was signed: try sign-accept-encoding=false"
	hintUnsupported = "the store does not implement this"
	hintCondition   = "the store does not implement conditional writes"
	hintKMS         = "the KMS key that encrypts the object may not be used: reading needs kms:Decrypt on it, writing kms:GenerateDataKey, too"
	hintWeak        = "no usable strong ETag (proxy?): something between here and the store removes or weakens ETags"
	hintMarker      = "it was deleted: its newest version is a delete marker"
	hintNotS3       = "is the endpoint an S3 endpoint, and is there such a bucket?"
	hintBucket      = "there is no such bucket at this endpoint: check the bucket's name, the endpoint and the region"
	hintName        = "a bucket's name has 3 to 63 lower-case letters, digits, dots and hyphens, and begins and ends with a letter or a digit; what follows it in the store's URL, s3://BUCKET/PREFIX, is the prefix"
	hintProxy       = "a proxy between here and the store wants to know who asks: HTTPS_PROXY may name user and password"
	hintSize        = "something between here and the store allows no body of this size (client_max_body_size in nginx); s3log sends up to 10 MiB at once"
	hintUnsent      = "no request was sent: credentials, region or endpoint cannot be used. Keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile (aws-profile=, AWS_PROFILE), or the machine's role"
	hintNobody      = "nobody can be reached there: check the endpoint, the network and the name"
	hintReadDenied  = "cannot tell: denied, or absent. These credentials may not read it (s3:GetObject, and kms:Decrypt if a KMS key encrypts it), or it does not exist and they may not list the bucket (s3:ListBucket), which S3 answers alike"
)

// hintDenied says which right an operation needs.
var hintDenied = map[string]string{
	opGet:    hintReadDenied,
	opHead:   hintReadDenied,
	opList:   "needs s3:ListBucket on the bucket",
	opPut:    "needs s3:PutObject, and kms:GenerateDataKey if a KMS key encrypts it",
	opDelete: "needs s3:DeleteObject",
	opCopy:   "needs s3:GetObject on the source and s3:PutObject on the copy",
}

// reply is what came back, or did not.
type reply struct {
	op      string
	match   bool // the request had If-Match
	code    string
	status  int // 0: there was no reply
	message string
	header  http.Header
}

// judge maps a reply that is an error to its class.
func (r reply) judge() verdict {
	if r.foreign() {
		return verdict{objstore.ErrUndecided, hintForeign}
	}
	v, ok := byCode[r.code]
	if _, throttled := retry.DefaultThrottleErrorCodes[r.code]; throttled {
		v, ok = verdict{class: objstore.ErrThrottled}, true
	}
	if !ok {
		v = r.byStatus()
	}
	switch {
	case strings.HasPrefix(r.code, "KMS.") && v.class != objstore.ErrThrottled:
		return verdict{objstore.ErrRefused, hintKMS}
	case (v.class == objstore.ErrRejected || v.class == objstore.ErrUnsupported) && r.writes() && aboutCondition.MatchString(r.message):
		return verdict{objstore.ErrUnsupported, hintCondition}
	case v.class == objstore.ErrRejected && v.hint == "" && aboutChecksum.MatchString(r.message):
		v.hint = hintChecksum
	case v.class == objstore.ErrDenied && aboutKMS.MatchString(r.message):
		v.hint = hintKMS
	case v.class == objstore.ErrDenied && v.hint == "":
		v.hint = hintDenied[r.op]
	case v.hint == hintRegion:
		v.hint = r.regionHint()
	case v.class == objstore.ErrNotExist && r.header.Get("X-Amz-Delete-Marker") == "true":
		v.hint = hintMarker
	}
	return r.permitted(v)
}

var (
	aboutCondition = regexp.MustCompile(`(?i)if-?(none-?)?match|conditional|precondition`)
	aboutChecksum  = regexp.MustCompile(`(?i)content-?md5|checksum`)
	aboutKMS       = regexp.MustCompile(`(?i)\bkms\b`)
	expecting      = regexp.MustCompile(`expecting ['"]([a-z0-9-]+)['"]`)
)

// byStatus is for replies without a code, or with one that nobody knows.
func (r reply) byStatus() verdict {
	switch s := r.status; {
	case s == http.StatusNotModified:
		return verdict{class: objstore.ErrNotModified}
	case s >= 300 && s < 400:
		return verdict{objstore.ErrRefused, hintRegion}
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		return verdict{class: objstore.ErrDenied}
	case s == http.StatusNotFound:
		return verdict{class: objstore.ErrNotExist}
	case s == http.StatusMethodNotAllowed, s == http.StatusNotImplemented:
		return verdict{objstore.ErrUnsupported, hintUnsupported}
	case s == http.StatusConflict:
		return verdict{class: objstore.ErrConflict}
	case s == http.StatusPreconditionFailed:
		return verdict{class: objstore.ErrPrecondition}
	case s == http.StatusRequestedRangeNotSatisfiable:
		return verdict{class: objstore.ErrRange}
	case s == http.StatusTooManyRequests:
		return verdict{class: objstore.ErrThrottled}
	case s == http.StatusProxyAuthRequired:
		return verdict{objstore.ErrRefused, hintProxy}
	case s == http.StatusRequestEntityTooLarge:
		return verdict{objstore.ErrRejected, hintSize}
	case s == http.StatusRequestTimeout, s == 425, s == 499: // too early; the proxy saw us hang up
		return verdict{class: objstore.ErrUndecided}
	case s >= 400 && s < 500:
		return verdict{class: objstore.ErrRejected}
	}
	return verdict{class: objstore.ErrUndecided} // no reply, 5xx, or a 2xx that could not be read
}

// foreign reports whether the refusal is not the store's, but a page of a proxy,
// a gateway or a portal between. It says nothing of the object, nor of what the
// store did with the request. (Errors of S3 are XML, or nothing.)
func (r reply) foreign() bool {
	kind, _, _ := strings.Cut(r.header.Get("Content-Type"), ";")
	switch {
	case strings.TrimSpace(kind) != "text/html", r.header.Get("X-Amz-Request-Id") != "":
		return false
	case r.status == http.StatusProxyAuthRequired, r.status == http.StatusRequestEntityTooLarge:
		return false // whoever says so has not passed it on
	}
	return r.status >= 300 && r.status < 500
}

// writes reports whether the request had a condition.
func (r reply) writes() bool { return r.op == opPut || r.op == opCopy }

// permitted keeps classes to the operations that may give them.
func (r reply) permitted(v verdict) verdict {
	switch v.class {
	case objstore.ErrNotExist:
		switch {
		case r.op == opPut && r.match:
			v.class = objstore.ErrGone
		case r.op == opPut, r.op == opList:
			v = verdict{objstore.ErrRefused, hintNotS3}
		}
	case objstore.ErrNotModified, objstore.ErrRange:
		if r.op != opGet {
			v.class = objstore.ErrUndecided // no sense in it: conclude nothing
		}
	case objstore.ErrPrecondition, objstore.ErrConflict:
		if !r.writes() {
			v.class = objstore.ErrUndecided
		}
	}
	return v
}

// region is the bucket's, if the reply names it.
func (r reply) region() string {
	region := r.header.Get("X-Amz-Bucket-Region")
	if m := expecting.FindStringSubmatch(r.message); region == "" && m != nil {
		region = m[1]
	}
	return region
}

// regionHint names the region where the reply does.
func (r reply) regionHint() string {
	if region := r.region(); region != "" {
		return hintRegion + ": set region=" + region + " in the store's URL"
	}
	return hintRegion + ": set the right one, or the right endpoint"
}

// replyOf takes an SDK error apart.
func replyOf(op string, match bool, err error) reply {
	r := reply{op: op, match: match, header: http.Header{}}
	var withResponse *smithyhttp.ResponseError
	if errors.As(err, &withResponse) && withResponse.HTTPResponse() != nil {
		r.status = withResponse.HTTPStatusCode()
		if h := withResponse.Response.Header; h != nil {
			r.header = h
		}
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		r.code, r.message = api.ErrorCode(), api.ErrorMessage()
	}
	return r
}

// errorOf makes the error of an operation. key is the key as the caller knows
// it; a tells what is known of the way the request went. Where the place may be
// the wrong one, the error names it.
func (d *driver) errorOf(op, key string, match bool, err error, a *attempt) *objstore.Error {
	e := errorOf(op, key, match, err, a)
	if e.Hint == hintHost && e.Class == objstore.ErrUnsent && !d.met.Load() { //nolint:errorlint // the class itself
		e.Class = objstore.ErrRefused // a name that has never been right
	}
	e.Hint = d.named(e.Hint)
	switch e.Hint {
	case hintNobody, hintBucket, hintNotS3:
		e.Err = d.at(e.Err)
	case hintNoKeys:
	default:
		if e.Status == 0 || wantsTLS(err) || errors.Is(e, objstore.ErrRefused) && e.Status/100 == 3 {
			e.Err = d.at(e.Err)
		}
	}
	return e
}

// at is an error with the bucket and the endpoint where it was met.
func (d *driver) at(err error) error {
	place := fmt.Sprintf("bucket %q", d.bucket)
	switch region, isRegion := strings.CutPrefix(d.endpoint, "aws:"); {
	case isRegion:
		place += " of AWS, region " + region
	case strings.Contains(d.endpoint, "://"):
		place += " at " + d.endpoint
	}
	return fmt.Errorf("%s: %w", place, err)
}

func errorOf(op, key string, match bool, err error, a *attempt) *objstore.Error {
	r, text := replyOf(op, match, err), textOf(err)
	if r.status == 0 && a.last != nil && !errors.Is(err, a.last) {
		// The wait for another try was cut short. The reply that led to it says
		// more than that.
		r, text, err = replyOf(op, match, a.last), text+"; last reply: "+textOf(a.last), errors.Join(err, a.last)
	}
	unsent := a.unsent() && !isContext(err)
	if unsent && a.cured != nil {
		// There was a reply, and what it complained of could not be cured.
		r, text, err = replyOf(op, match, a.cured), textOf(a.cured)+"; then: "+text, errors.Join(a.cured, err)
		unsent = false
	}
	e := &objstore.Error{Op: op, Key: key, Code: r.code, Status: r.status, Err: &cause{text: text, err: err}}
	var withID interface{ ServiceRequestID() string }
	if errors.As(err, &withID) {
		e.Request = withID.ServiceRequestID()
	}
	e.Date = dateOf(err)
	v := r.judge()
	wrong, plainly, isWrong := mistake(err)
	switch {
	case unsent:
		v = verdict{objstore.ErrRefused, hintUnsent}
		if text, is := withoutKeys(err); is {
			v = verdict{objstore.ErrNoCredentials, hintNoKeys}
			e.Err = &cause{text: text, err: err}
		}
		e.Code, e.Status, e.Date = "", 0, time.Time{} // of whoever gives credentials, if of anybody
	case isWrong:
		v = wrong
		if e.Code = ""; plainly != "" {
			e.Err = &cause{text: plainly, err: err}
		}
	case r.status == 0 && (isDial(err) || r.writes() && a.unconnected()):
		// Without a connection no byte was sent, and a PUT that was sent is never
		// repeated below us.
		if v.hint = hintNobody; isNoHost(err) {
			v.hint = hintHost
		}
		if r.writes() {
			v.class = objstore.ErrUnsent
		}
	}
	e.Class, e.Hint = v.class, v.hint
	return e
}

// dateOf is the Date header of the reply that an error is.
func dateOf(err error) time.Time {
	var r interface{ HTTPResponse() *smithyhttp.Response }
	if !errors.As(err, &r) || r.HTTPResponse() == nil {
		return time.Time{}
	}
	date, _ := http.ParseTime(r.HTTPResponse().Header.Get("Date"))
	return date // zero unless it is one
}

// isContext reports whether err comes from a context that is done.
func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// isDial reports whether there was no connection.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// cause keeps an SDK error in the chain, but tells only its point: operation,
// status and code are said by objstore.Error.
type cause struct {
	text string
	err  error
}

func (c *cause) Error() string { return c.text }
func (c *cause) Unwrap() error { return c.err }

// textOf is the point of an SDK error.
func textOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorMessage() != "" {
		return api.ErrorMessage()
	}
	var transport *url.Error
	if errors.As(err, &transport) {
		return transport.Err.Error()
	}
	var operation *smithy.OperationError
	if errors.As(err, &operation) {
		return operation.Err.Error()
	}
	return err.Error()
}
