package integration

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/localstack"
)

// A bucket that is not there, and an endpoint where nobody is, are named by every
// error; neither is "no such log", and nothing is left open where nothing was sent.
func TestErrorsNameThePlace(t *testing.T) {
	server := localstack.Start(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + l.Addr().String()
	l.Close()
	opt := quick
	opt.CommitTimeout = patience(impatient)
	for name, tc := range map[string]struct {
		endpoint string
		class    error
		hint     string
	}{
		"no such bucket": {server.Endpoint, objstore.ErrRefused, "no such bucket"},
		"nobody there":   {nobody, nil, "nobody can be reached there"},
	} {
		t.Run(name, func(t *testing.T) {
			b := backend.New(openS3(t, tc.endpoint, "s3log-not-there", server.AccessKey, server.SecretKey), opt)
			_, ierr := b.Info(t.Context(), "log")
			_, rerr := lines(b.Events(t.Context(), "log", backend.ReadOptions{}))
			_, aerr := b.Adopt(t.Context(), "log", backend.AdoptOptions{})
			c, err := b.Create("log", backend.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			_, cerr := c.Append(t.Context(), [][]byte{note(0)}, backend.AppendOptions{})
			_ = c.Close(t.Context(), backend.CloseOptions{}) // the same error again
			var lerr error
			for _, err := range b.List(t.Context(), backend.ListOptions{}) {
				lerr = err
			}
			for what, err := range map[string]error{"info": ierr, "read": rerr, "adopt": aerr, "create": cerr, "list": lerr} {
				switch {
				case err == nil, tc.class != nil && !errors.Is(err, tc.class):
					t.Errorf("%s: %v", what, err)
				case !strings.Contains(err.Error(), `bucket "s3log-not-there" at `+tc.endpoint), !strings.Contains(hintOf(err), tc.hint):
					t.Errorf("%s: %v, hint %q", what, err, hintOf(err))
				case errors.Is(err, backend.ErrNotFound), errors.Is(err, backend.ErrOutcomeUnknown), errors.Is(err, backend.ErrDenied):
					t.Errorf("%s: %v is called something else", what, err)
				}
			}
		})
	}
}
