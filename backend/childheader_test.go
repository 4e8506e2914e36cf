package backend_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/manifest"
)

func TestChildHeader(t *testing.T) {
	for _, test := range []struct {
		parent, want string
		err          error
	}{
		{parent: `{}`, want: `{"id":"c","parentSession":"p\"","seedLength":7}`},
		{
			parent: ` {"type":"session", "id":"p","createdAt":1.0,` + "\n" + `"x":{"id":1}} `,
			want:   `{"type":"session","id":"c","createdAt":1.0,"x":{"id":1},"parentSession":"p\"","seedLength":7}`,
		},
		{
			parent: `{"seedLength":1,"\u0069d":"p","id":"q","parentSession":null,"s":"\ud800"}`,
			want:   `{"seedLength":7,"\u0069d":"c","parentSession":"p\"","s":"\ud800"}`,
		},
		{parent: ``, err: backend.ErrInvalidEvent},
		{parent: `[]`, err: backend.ErrInvalidEvent},
		{parent: `{"id":`, err: backend.ErrInvalidEvent},
		{parent: `{"x":"` + strings.Repeat("x", manifest.MaxHeader) + `"}`, err: backend.ErrTooLarge},
	} {
		got, err := backend.ChildHeader([]byte(test.parent), "c", `p"`, 7)
		if string(got) != test.want || !errors.Is(err, test.err) {
			t.Errorf("%.60s: %s, %v, want %s, %v", test.parent, got, err, test.want, test.err)
		}
	}
}
