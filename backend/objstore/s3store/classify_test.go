package s3store

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend/objstore"
)

// Every reply is sent by a real HTTP server and goes through the SDK, because
// what the SDK makes of a reply is half of the matter.
func TestReplyClasses(t *testing.T) {
	type want struct {
		class error
		hint  string // part of it
	}
	tests := []struct {
		status        int
		code, message string
		header        string // name: value
		get, put, upd want   // a read, a create, a replacement
	}{
		{status: 404, code: "NoSuchKey",
			get: want{objstore.ErrNotExist, ""}, put: want{objstore.ErrRefused, "S3 endpoint"}, upd: want{objstore.ErrGone, ""}},
		{status: 404,
			get: want{objstore.ErrNotExist, ""}, put: want{objstore.ErrRefused, "S3 endpoint"}, upd: want{objstore.ErrGone, ""}},
		{status: 404, code: "NoSuchKey", header: "X-Amz-Delete-Marker: true",
			get: want{objstore.ErrNotExist, "delete marker"}, put: want{objstore.ErrRefused, ""}, upd: want{objstore.ErrGone, ""}},
		{status: 404, code: "NoSuchBucket",
			get: want{objstore.ErrRefused, "no such bucket"}, put: want{objstore.ErrRefused, "no such bucket"}, upd: want{objstore.ErrRefused, "no such bucket"}},
		{status: 412, code: "PreconditionFailed",
			get: want{objstore.ErrUndecided, ""}, put: want{objstore.ErrPrecondition, ""}, upd: want{objstore.ErrPrecondition, ""}},
		{status: 412,
			get: want{objstore.ErrUndecided, ""}, put: want{objstore.ErrPrecondition, ""}, upd: want{objstore.ErrPrecondition, ""}},
		{status: 409, code: "ConditionalRequestConflict",
			get: want{objstore.ErrUndecided, ""}, put: want{objstore.ErrConflict, ""}, upd: want{objstore.ErrConflict, ""}},
		{status: 409, code: "OperationAborted",
			get: want{objstore.ErrUndecided, ""}, put: want{objstore.ErrConflict, ""}, upd: want{objstore.ErrConflict, ""}},
		{status: 409, code: "ObjectParentIsFile",
			get: want{objstore.ErrRejected, "as files"}, put: want{objstore.ErrRejected, "as files"}, upd: want{objstore.ErrRejected, ""}},
		{status: 409,
			get: want{objstore.ErrUndecided, ""}, put: want{objstore.ErrConflict, ""}, upd: want{objstore.ErrConflict, ""}},
		{status: 416, code: "InvalidRange",
			get: want{objstore.ErrRange, ""}, put: want{objstore.ErrUndecided, ""}, upd: want{objstore.ErrUndecided, ""}},
		{status: 416,
			get: want{objstore.ErrRange, ""}, put: want{objstore.ErrUndecided, ""}, upd: want{objstore.ErrUndecided, ""}},
		{status: 304,
			get: want{objstore.ErrNotModified, ""}, put: want{objstore.ErrUndecided, ""}, upd: want{objstore.ErrUndecided, ""}},

		{status: 400, code: "BadDigest",
			get: want{objstore.ErrRejected, ""}, put: want{objstore.ErrRejected, "checksum="}, upd: want{objstore.ErrRejected, ""}},
		{status: 400, code: "EntityTooLarge",
			get: want{objstore.ErrRejected, ""}, put: want{objstore.ErrRejected, ""}, upd: want{objstore.ErrRejected, ""}},
		{status: 413,
			get: want{objstore.ErrRejected, ""}, put: want{objstore.ErrRejected, ""}, upd: want{objstore.ErrRejected, ""}},
		{status: 400, code: "SomethingNew",
			get: want{objstore.ErrRejected, ""}, put: want{objstore.ErrRejected, ""}, upd: want{objstore.ErrRejected, ""}},
		{status: 400, code: "InvalidArgument", message: "Unsupported header If-None-Match",
			get: want{objstore.ErrRejected, ""}, put: want{objstore.ErrUnsupported, "conditional writes"}, upd: want{objstore.ErrUnsupported, ""}},
		{status: 501, code: "NotImplemented", message: "A header you provided implies functionality that is not implemented",
			get: want{objstore.ErrUnsupported, ""}, put: want{objstore.ErrUnsupported, ""}, upd: want{objstore.ErrUnsupported, ""}},
		{status: 501,
			get: want{objstore.ErrUnsupported, ""}, put: want{objstore.ErrUnsupported, ""}, upd: want{objstore.ErrUnsupported, ""}},
		{status: 405,
			get: want{objstore.ErrUnsupported, ""}, put: want{objstore.ErrUnsupported, ""}, upd: want{objstore.ErrUnsupported, ""}},

		{status: 400, code: "RequestTimeout",
			get: want{objstore.ErrUndecided, ""}, put: want{objstore.ErrUndecided, ""}, upd: want{objstore.ErrUndecided, ""}},
		{status: 408,
			get: want{objstore.ErrUndecided, ""}, put: want{objstore.ErrUndecided, ""}, upd: want{objstore.ErrUndecided, ""}},
		{status: 499,
			get: want{objstore.ErrUndecided, ""}, put: want{objstore.ErrUndecided, ""}, upd: want{objstore.ErrUndecided, ""}},
		{status: 500, code: "InternalError",
			get: want{objstore.ErrUndecided, ""}, put: want{objstore.ErrUndecided, ""}, upd: want{objstore.ErrUndecided, ""}},
		{status: 502,
			get: want{objstore.ErrUndecided, ""}, put: want{objstore.ErrUndecided, ""}, upd: want{objstore.ErrUndecided, ""}},
		{status: 503, code: "ServiceUnavailable",
			get: want{objstore.ErrUndecided, ""}, put: want{objstore.ErrUndecided, ""}, upd: want{objstore.ErrUndecided, ""}},
		{status: 503, code: "SlowDown",
			get: want{objstore.ErrThrottled, ""}, put: want{objstore.ErrThrottled, ""}, upd: want{objstore.ErrThrottled, ""}},
		{status: 429,
			get: want{objstore.ErrThrottled, ""}, put: want{objstore.ErrThrottled, ""}, upd: want{objstore.ErrThrottled, ""}},

		{status: 403, code: "AccessDenied",
			get: want{objstore.ErrDenied, "cannot tell: denied, or absent"}, put: want{objstore.ErrDenied, "s3:PutObject"}, upd: want{objstore.ErrDenied, ""}},
		{status: 403,
			get: want{objstore.ErrDenied, "cannot tell"}, put: want{objstore.ErrDenied, "s3:PutObject"}, upd: want{objstore.ErrDenied, ""}},
		{status: 401,
			get: want{objstore.ErrDenied, "cannot tell"}, put: want{objstore.ErrDenied, ""}, upd: want{objstore.ErrDenied, ""}},
		{status: 403, code: "AccessDenied", message: "not authorized to perform: kms:Decrypt on the resource",
			get: want{objstore.ErrDenied, "KMS key"}, put: want{objstore.ErrDenied, "KMS key"}, upd: want{objstore.ErrDenied, "KMS key"}},
		{status: 400, code: "KMS.DisabledException",
			get: want{objstore.ErrRefused, "KMS key"}, put: want{objstore.ErrRefused, "KMS key"}, upd: want{objstore.ErrRefused, "KMS key"}},
		{status: 403, code: "InvalidAccessKeyId",
			get: want{objstore.ErrDenied, "access key"}, put: want{objstore.ErrDenied, "access key"}, upd: want{objstore.ErrDenied, ""}},
		{status: 403, code: "SignatureDoesNotMatch",
			get: want{objstore.ErrDenied, "proxy changes"}, put: want{objstore.ErrDenied, "proxy changes"}, upd: want{objstore.ErrDenied, ""}},
		{status: 400, code: "ExpiredToken",
			get: want{objstore.ErrRefused, "expired"}, put: want{objstore.ErrRefused, "changed nothing"}, upd: want{objstore.ErrRefused, "expired"}},
		{status: 400, code: "InvalidToken",
			get: want{objstore.ErrRefused, "expired"}, put: want{objstore.ErrRefused, "expired"}, upd: want{objstore.ErrRefused, ""}},
		{status: 403, code: "RequestTimeTooSkewed",
			get: want{objstore.ErrRefused, "clock"}, put: want{objstore.ErrRefused, "clock"}, upd: want{objstore.ErrRefused, "clock"}},
		{status: 403, code: "InvalidObjectState",
			get: want{objstore.ErrRefused, "archived"}, put: want{objstore.ErrRefused, ""}, upd: want{objstore.ErrRefused, ""}},
		{status: 301, code: "PermanentRedirect", header: "X-Amz-Bucket-Region: eu-x",
			get: want{objstore.ErrRefused, "region=eu-x"}, put: want{objstore.ErrRefused, "region=eu-x"}, upd: want{objstore.ErrRefused, "region=eu-x"}},
		{status: 307, code: "TemporaryRedirect", header: "Location: http://127.0.0.1:1/elsewhere",
			get: want{objstore.ErrRefused, "region"}, put: want{objstore.ErrRefused, "region"}, upd: want{objstore.ErrRefused, "region"}},
		{status: 400, code: "AuthorizationHeaderMalformed", message: "the region 'us-east-1' is wrong; expecting 'eu-x'",
			get: want{objstore.ErrRefused, "region=eu-x"}, put: want{objstore.ErrRefused, "region=eu-x"}, upd: want{objstore.ErrRefused, "region=eu-x"}},
		{status: 400, code: "AuthorizationHeaderMalformed", message: `the region "us-east-1" is wrong; expecting "eu-x"`,
			get: want{objstore.ErrRefused, "region=eu-x"}, put: want{objstore.ErrRefused, "region=eu-x"}, upd: want{objstore.ErrRefused, "region=eu-x"}},
		{status: 200, code: "InternalError", // an error inside a success
			get: want{nil, ""}, put: want{objstore.ErrUndecided, ""}, upd: want{objstore.ErrUndecided, ""}},
	}
	classes := []error{objstore.ErrNotExist, objstore.ErrNotModified, objstore.ErrRange, objstore.ErrPrecondition, objstore.ErrConflict,
		objstore.ErrRejected, objstore.ErrUndecided, objstore.ErrRefused, objstore.ErrTooLarge}
	for _, tt := range tests {
		name := http.StatusText(tt.status) + " " + tt.code
		t.Run(name, func(t *testing.T) {
			srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				if k, v, ok := strings.Cut(tt.header, ": "); ok {
					w.Header().Set(k, v)
				}
				fail(w, tt.status, tt.code, tt.message)
			})
			s := srv.open(t, func(c *Config) { c.Retryer = quickRetries(1) })
			check := func(what string, err error, want want) {
				t.Helper()
				if want.class == nil {
					return
				}
				var e *objstore.Error
				if !errors.As(err, &e) {
					t.Fatalf("%s: %v is no *objstore.Error", what, err)
				}
				if !errors.Is(err, want.class) {
					t.Errorf("%s: %v, want %v", what, err, want.class)
				}
				n := 0
				for _, class := range classes {
					if errors.Is(err, class) {
						n++
					}
				}
				if n != 1 {
					t.Errorf("%s: %v matches %d of the classes, want 1", what, err, n)
				}
				if !strings.Contains(e.Hint, want.hint) {
					t.Errorf("%s: hint %q, want one with %q", what, e.Hint, want.hint)
				}
				if tt.status != 200 && e.Status != tt.status {
					t.Errorf("%s: status %d, want %d", what, e.Status, tt.status)
				}
				if tt.code != "" && e.Code != tt.code && tt.status != 304 {
					t.Errorf("%s: code %q, want %q", what, e.Code, tt.code)
				}
				if tt.status != 304 && e.Request != "REQ-1" {
					t.Errorf("%s: request id %q", what, e.Request)
				}
			}
			_, err := s.Get(t.Context(), "k", objstore.GetOptions{})
			check("Get", err, tt.get)
			before := len(srv.requests())
			_, err = put(t, s, objstore.IfAbsent())
			check("create", err, tt.put)
			_, err = put(t, s, version(`"e1"`))
			check("replace", err, tt.upd)
			// A Put is sent once, except for the two replies that say it was not
			// applied and that can be cured here.
			if n, curable := len(srv.requests())-before, strings.Contains(tt.upd.hint+tt.put.hint, "expired") || tt.code == "RequestTimeTooSkewed"; n != 2 && !curable {
				t.Errorf("%d requests for 2 Puts", n)
			}
		})
	}
}

// Errors read well: once operation, key and code, and the store's words.
func TestErrorText(t *testing.T) {
	srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		fail(w, 403, "AccessDenied", "Not yours.")
	})
	_, err := put(t, srv.open(t), objstore.IfAbsent())
	if got, want := err.Error(), "Put k: refused: access denied (AccessDenied, HTTP 403): Not yours."; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestNetworkErrors(t *testing.T) {
	t.Run("hang up", func(t *testing.T) {
		srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { hangUp(w) })
		_, err := put(t, srv.open(t), objstore.IfAbsent())
		if objstore.Classify(err) != objstore.Undecided {
			t.Errorf("got %v", err)
		}
		if n := len(srv.requests()); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		srv := serve(t, func(int, http.ResponseWriter, *http.Request) {})
		s := srv.open(t)
		srv.Close()
		_, err := put(t, s, objstore.IfAbsent())
		if objstore.Classify(err) != objstore.TryAgain || !errors.Is(err, objstore.ErrUnsent) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("got %v", err)
		}
	})
}
