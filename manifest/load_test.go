package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// tearing hands out bodies that are cut, as some servers do while an object is
// overwritten.
type tearing struct {
	objstore.Reader
	cuts []int // how many bytes of the body the n-th read gives; all after that
	gets int
}

func (s *tearing) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	obj, err := s.Reader.Get(ctx, key, opt)
	if s.gets < len(s.cuts) && err == nil {
		obj.Body = obj.Body[:s.cuts[s.gets]]
	}
	s.gets++
	return obj, err
}

// A manifest that is cut only for a moment is not damaged; one that is cut the
// same way again is; and one that is cut in another way every time cannot be
// judged.
func TestLoadWhileItIsOverwritten(t *testing.T) {
	store := memstore.New(t)
	d, err := manifest.Create(nil, manifest.NewWriter("", ""), manifest.Birth{Log: "log", Origin: manifest.Origin{Kind: manifest.KindFresh}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(t.Context(), manifest.Key("log"), p.Body, objstore.IfAbsent(), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		cuts []int
		gets int
		want error
	}{
		{nil, 1, nil},
		{[]int{100}, 2, nil},
		{[]int{0}, 2, nil},
		{[]int{100, 90, 0}, 4, nil},
		{[]int{100, 100}, 2, segment.ErrCorrupt},
		{[]int{0, 0}, 2, segment.ErrCorrupt},
		{[]int{100, 90, 90}, 3, segment.ErrCorrupt},
		{[]int{100, 90, 80, 70}, 4, objstore.ErrUndecided},
	} {
		t.Run(fmt.Sprint(tt.cuts), func(t *testing.T) {
			s := &tearing{Reader: store, cuts: tt.cuts}
			head, err := manifest.Load(t.Context(), s, "log", manifest.LoadOptions{})
			if !errors.Is(err, tt.want) || s.gets != tt.gets || (err == nil) != (head.Record != nil) {
				t.Errorf("%v after %d reads, want %v after %d", err, s.gets, tt.want, tt.gets)
			}
			if errors.Is(err, segment.ErrCorrupt) && errors.Is(err, objstore.ErrUndecided) {
				t.Errorf("%v is both", err)
			}
			if hint := hintOf(err); err != nil && hint == "" {
				t.Errorf("%v has no hint", err)
			}
		})
	}
}

// refusing denies every read with an error of its own.
type refusing struct {
	objstore.Reader
	err error
}

func (s refusing) Get(context.Context, string, objstore.GetOptions) (objstore.Object, error) {
	return objstore.Object{}, s.err
}

// A driver that knows why it is denied is believed; else both readings are told.
func TestLoadDenied(t *testing.T) {
	for _, tt := range []struct{ hint, want string }{
		{"the secret key is wrong", "the secret key is wrong"},
		{"", "these credentials may not read the manifest, or it does not exist and they may not list the bucket, which S3 answers alike"},
	} {
		s := refusing{err: &objstore.Error{Op: "Get", Key: "k", Class: objstore.ErrDenied, Hint: tt.hint}}
		_, err := manifest.Load(t.Context(), s, "log", manifest.LoadOptions{})
		if got := hintOf(err); !errors.Is(err, manifest.ErrDenied) || got != tt.want {
			t.Errorf("%v, hint %q, want %q", err, got, tt.want)
		}
	}
}

func hintOf(err error) string {
	if oe, ok := errors.AsType[*manifest.OpError](err); ok {
		return oe.Hint
	}
	return ""
}
