package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// answering gives every read one answer.
type answering struct {
	objstore.Reader
	obj  objstore.Object
	err  error
	gets int
}

func (s *answering) Get(context.Context, string, objstore.GetOptions) (objstore.Object, error) {
	s.gets++
	return s.obj, s.err
}

// TestLoadFails: every way in which a manifest cannot be had, and what it is
// called.
func TestLoadFails(t *testing.T) {
	d, err := manifest.Create(nil, manifest.NewWriter("", ""), manifest.Birth{Log: "log", Origin: manifest.Origin{Kind: manifest.KindFresh}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Finish()
	if err != nil {
		t.Fatal(err)
	}
	object := func(body string, metadata map[string]string) objstore.Object {
		return objstore.Object{Body: []byte(body), Info: objstore.Info{Metadata: metadata}}
	}
	failed := func(class error, hint string) error {
		return &objstore.Error{Op: "Get", Key: "k", Class: class, Hint: hint}
	}
	later := strings.Replace(string(p.Body), `"version":1`, `"version":2`, 1)
	later = later[:strings.LastIndex(later, `,"sum"`)]
	later = fmt.Sprintf("%s,\"sum\":\"%08x\"}\n", later, crc32.Checksum([]byte(later), crc32.MakeTable(crc32.Castagnoli)))
	for _, tt := range []struct {
		name string
		key  string // instead of the log's id
		obj  objstore.Object
		err  error
		want error // nil: it is loaded
		gets int
		hint string
		says string
	}{
		{name: "it is there", obj: object(string(p.Body), nil), gets: 1},
		{name: "it is there, by its key", key: manifest.Key("log"), obj: object(string(p.Body), map[string]string{"s3log-commit": p.Record.Commit.ID}), gets: 1},
		{name: "it is not there", err: failed(objstore.ErrNotExist, ""), want: manifest.ErrNotFound, gets: 1, hint: "s3logctl ls"},
		{name: "a delete marker", err: failed(objstore.ErrNotExist, "undelete it"), want: manifest.ErrNotFound, gets: 1, hint: "undelete it"},
		{name: "too large", err: failed(objstore.ErrTooLarge, ""), want: segment.ErrCorrupt, gets: 1, says: "no manifest has more than"},
		{name: "not modified", err: failed(objstore.ErrNotModified, ""), want: objstore.ErrNotModified, gets: 1},
		{name: "no answer", err: failed(objstore.ErrUndecided, ""), want: objstore.ErrUndecided, gets: 1},
		{name: "another log's", key: manifest.Key("other"), obj: object(string(p.Body), nil), want: segment.ErrCorrupt, gets: 1, hint: "restore", says: `of log "log"`},
		{name: "of a later version", obj: object(later, nil), want: segment.ErrUnsupportedVersion, gets: 1},
		{name: "metadata of another write", obj: object(string(p.Body), map[string]string{"s3log-commit": "another"}), want: manifest.ErrUnsupportedStore, gets: 4, hint: "a proxy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &answering{obj: tt.obj, err: tt.err}
			opt := manifest.LoadOptions{Clock: &objstore.Clock{}}
			head, err := manifest.Load(t.Context(), s, "log", opt)
			if tt.key != "" {
				s.gets = 0
				head, err = manifest.LoadKey(t.Context(), s, tt.key, opt)
			}
			if !errors.Is(err, tt.want) || s.gets != tt.gets || (err == nil) != (head.Record != nil) {
				t.Fatalf("%v after %d reads, want %v after %d", err, s.gets, tt.want, tt.gets)
			}
			if err != nil && (!strings.Contains(err.Error(), tt.says) || !strings.Contains(hintOf(err), tt.hint)) {
				t.Errorf("%v, hint %q", err, hintOf(err))
			}
		})
	}
	t.Run("another log's, by the id", func(t *testing.T) {
		s := &answering{obj: object(string(p.Body), nil)}
		if _, err := manifest.Load(t.Context(), s, "other", manifest.LoadOptions{}); !errors.Is(err, segment.ErrCorrupt) {
			t.Error(err)
		}
	})
}

func TestParseMetadata(t *testing.T) {
	seven := int64(7)
	for _, tt := range []struct {
		in   map[string]string
		want manifest.Summary
		ok   bool
	}{
		{nil, manifest.Summary{}, false},
		{map[string]string{"s3log-state": "open"}, manifest.Summary{}, false},
		{map[string]string{"s3log-next": "3"}, manifest.Summary{}, false},
		{map[string]string{"s3log-next": "x", "s3log-state": "open"}, manifest.Summary{}, false},
		{map[string]string{"s3log-next": "3", "s3log-state": "open", "s3log-activity": "x"}, manifest.Summary{}, false},
		{map[string]string{"s3log-next": "3", "s3log-state": "open"}, manifest.Summary{State: "open", Next: 3}, true},
		{map[string]string{"s3log-next": "3", "s3log-state": "deleted", "s3log-activity": "7"}, manifest.Summary{State: "deleted", Next: 3, Activity: &seven}, true},
	} {
		got, ok := manifest.ParseMetadata(tt.in)
		if diff := cmp.Diff(tt.want, got); ok != tt.ok || diff != "" {
			t.Errorf("%v: %v (-want +got)\n%s", tt.in, ok, diff)
		}
	}
}

// TestMetadata: what a commit leaves beside its manifest is what a listing reads.
func TestMetadata(t *testing.T) {
	store := memstore.New(t)
	seven := int64(7)
	for _, activity := range []*int64{nil, &seven} {
		id := fmt.Sprint("log", activity != nil)
		_, err := manifest.Commit(t.Context(), store, manifest.Head{}, func(context.Context, manifest.Head) (*manifest.Proposal, error) {
			d, err := manifest.Create(nil, manifest.NewWriter("", ""), manifest.Birth{Log: id, Origin: manifest.Origin{Kind: manifest.KindFresh}, Activity: activity}, 1)
			if err != nil {
				return nil, err
			}
			return d.Finish()
		}, manifest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		info, err := store.Head(t.Context(), manifest.Key(id))
		if err != nil {
			t.Fatal(err)
		}
		got, ok := manifest.ParseMetadata(info.Metadata)
		if diff := cmp.Diff(manifest.Summary{State: manifest.StateOpen, Activity: activity}, got); !ok || diff != "" {
			t.Errorf("%v: %v (-want +got)\n%s", info.Metadata, ok, diff)
		}
	}
}
