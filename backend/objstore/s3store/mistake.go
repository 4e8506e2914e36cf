package s3store

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/s3log/s3log/backend/objstore"
)

// Some failures do not pass: the endpoint is written wrongly, or there are no
// credentials. They are not tried again.

// errWantsTLS: a plain request was sent to where TLS is spoken.
var errWantsTLS = errors.New("it speaks https, and was sent a request of plain http")

const (
	hintHost        = "there is no host of this name: check the endpoint and the region in the store's URL; where the bucket's name stands before the endpoint's, path-style=true leaves it out"
	hintScheme      = "the endpoint speaks http: write endpoint=http://… in the store's URL"
	hintWantsTLS    = "the endpoint speaks https: write endpoint=https://… in the store's URL"
	hintAuthority   = "the certificate is of no authority that this machine knows: AWS_CA_BUNDLE names a file with further ones"
	hintExpiredCert = "the certificate has expired, or is not valid yet: have it renewed, or set the clock of this machine"
	hintOtherName   = "the certificate is for other names than this host's: check the endpoint; a bucket's name in front of it needs a wildcard, path-style=true needs none"
	hintCertificate = "the certificate is not accepted"
	hintNoKeys      = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile that has keys (aws-profile= in the store's URL, or AWS_PROFILE); no request was sent"
	seenNoKeys      = "neither in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, nor in a profile of ~/.aws/credentials and ~/.aws/config, nor by the role of a container or a web identity, nor by this machine's role"
)

// mistake is what an error means that will not pass, whatever of a request was
// sent; ok is false if it is none.
func mistake(err error) (v verdict, text string, ok bool) {
	switch {
	case isCertificate(err): // no request without a handshake
		return verdict{objstore.ErrRefused, certificateHint(err)}, "", true
	case errors.Is(err, http.ErrSchemeMismatch):
		return verdict{objstore.ErrRefused, hintScheme}, "", true
	case wantsTLS(err):
		return verdict{objstore.ErrRefused, hintWantsTLS}, errWantsTLS.Error(), true
	}
	return verdict{}, "", false
}

// lasting reports whether an error of a request is not to be tried again.
func lasting(err error) bool {
	_, _, is := mistake(err)
	return is || isNoHost(err)
}

// isCertificate reports whether the server's certificate was not accepted.
func isCertificate(err error) bool {
	var e *tls.CertificateVerificationError
	return errors.As(err, &e)
}

func certificateHint(err error) string {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority):
		return hintAuthority
	case errors.As(err, &name):
		return hintOtherName
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return hintExpiredCert
	}
	return hintCertificate
}

// isNoHost reports whether there is no host of the name that was asked for.
func isNoHost(err error) bool {
	var e *net.DNSError
	return errors.As(err, &e) && e.IsNotFound
}

// wantsTLS reports whether a plain request met TLS: a server that says so, or one that
// answered with an alert.
func wantsTLS(err error) bool {
	return errors.Is(err, errWantsTLS) || err != nil && strings.Contains(err.Error(), `malformed HTTP response "\x15\x03`)
}

// plainToTLS is what servers of https say to a request of http.
var plainToTLS = regexp.MustCompile(`(?i)\bHTTP request (was sent )?to (an )?HTTPS (server|port)`)

// refusesPlain reports whether a reply to a request is that of a server of https to
// one of http. It leaves the body as it was.
func refusesPlain(request any, resp *smithyhttp.Response) bool {
	req, ok := request.(*smithyhttp.Request)
	if !ok || req.URL.Scheme != "http" || resp.StatusCode != http.StatusBadRequest || resp.Header.Get("X-Amz-Request-Id") != "" {
		return false
	}
	if len(resp.Header) == 0 { // Go's: the body is often lost to a reset, and no store answers so
		return true
	}
	head, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	rest := io.Reader(resp.Body)
	if err != nil {
		rest = failing{err}
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), rest), resp.Body}
	return plainToTLS.Match(head)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// withoutKeys reports whether the whole chain of places where credentials may be was
// walked in vain, and what its last one said: the machine itself.
func withoutKeys(err error) (text string, is bool) {
	for err != nil {
		if op, ok := err.(*smithy.OperationError); ok && op.Service() == "ec2imds" { //nolint:errorlint // each link has its turn
			return fmt.Sprintf("%s (%v)", seenNoKeys, op.Err), true
		}
		err = errors.Unwrap(err)
	}
	return "", false
}

// named puts the endpoint into a hint that says how to write it.
func (d *driver) named(hint string) string {
	scheme, rest, ok := strings.Cut(d.endpoint, "://")
	switch {
	case !ok:
	case hint == hintScheme && scheme == "https":
		return strings.ReplaceAll(hint, "http://…", "http://"+rest)
	case hint == hintWantsTLS && scheme == "http":
		return strings.ReplaceAll(hint, "https://…", "https://"+rest)
	}
	return hint
}
