package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/objstoretest"
	"github.com/s3log/s3log/localstack"
)

// Tests on a real server.

// onServer is a store in a bucket of its own, not proved yet.
func onServer(t *testing.T) *Store {
	t.Helper()
	srv := localstack.Start(t)
	s, err := New(srv.Client(t), srv.Bucket(t), "logs/x", Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestContract: the server may answer a read that meets an overwrite with the
// ETag of one version and the body of the other.
func TestContract(t *testing.T) {
	s := onServer(t)
	objstoretest.Run(t, func(*testing.T) objstore.Store { return s }, objstoretest.Options{Metadata: true, TornReads: true})
}

// TestContractOfManifests: but not below manifests/.
func TestContractOfManifests(t *testing.T) {
	s := onServer(t)
	if _, err := s.Put(t.Context(), "manifests/first.json", []byte("{}"), objstore.IfAbsent(), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	objstoretest.Run(t, func(*testing.T) objstore.Store { return below{s, "manifests/"} }, objstoretest.Options{Metadata: true, Keys: 20, Writers: 4})
}

// below is a part of a store.
type below struct {
	*Store
	dir string
}

func (b below) strip(info objstore.Info, err error) (objstore.Info, error) {
	info.Key = strings.TrimPrefix(info.Key, b.dir)
	if e, ok := errors.AsType[*objstore.Error](err); ok {
		e.Key = strings.TrimPrefix(e.Key, b.dir)
	}
	return info, err
}

func (b below) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	o, err := b.Store.Get(ctx, b.dir+key, opt)
	o.Info, err = b.strip(o.Info, err)
	return o, err
}

func (b below) Head(ctx context.Context, key string) (objstore.Info, error) {
	return b.strip(b.Store.Head(ctx, b.dir+key))
}

func (b below) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	if after != "" {
		after = b.dir + after
	}
	return func(yield func(objstore.Info, error) bool) {
		for info, err := range b.Store.List(ctx, b.dir+prefix, after) {
			if !yield(b.strip(info, err)) {
				return
			}
		}
	}
}

func (b below) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	return b.strip(b.Store.Put(ctx, b.dir+key, body, cond, opt))
}

func (b below) Delete(ctx context.Context, key string) error {
	_, err := b.strip(objstore.Info{}, b.Store.Delete(ctx, b.dir+key))
	return err
}

func (b below) Copy(ctx context.Context, src, dst string) (objstore.Info, error) {
	return b.strip(b.Store.Copy(ctx, b.dir+src, b.dir+dst))
}

// counter counts reads on their way to the client.
type counter struct {
	API
	gets atomic.Int64
}

func (c *counter) GetObject(ctx context.Context, in *s3.GetObjectInput, o ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	c.gets.Add(1)
	return c.API.GetObject(ctx, in, o...)
}

// TestNoTornManifests overwrites a manifest while it is read, and compares what
// the store hands out, and what a plain client gets, with the versions.
func TestNoTornManifests(t *testing.T) {
	const key, prefix = "manifests/a.json", "p"
	srv := localstack.Start(t)
	bucket, client := srv.Bucket(t), srv.Client(t)
	count := &counter{API: client}
	s, err := New(count, bucket, prefix, Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := func(n int64) string { return strings.Repeat(fmt.Sprintf("%08d\n", n), 1+int(n)%500) }
	if _, err := s.Put(t.Context(), key, []byte(text(0)), objstore.IfAbsent(), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	count.gets.Store(0) // of the proof

	var writes, gets, plain, torn atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(3 * time.Second)
	repeat := func(what string, do func() error) {
		wg.Go(func() {
			for time.Now().Before(end) {
				if err := do(); err != nil {
					t.Errorf("%s: %v", what, err)
					return
				}
			}
		})
	}
	for range 2 {
		repeat("write", func() error {
			_, err := client.PutObject(t.Context(), &s3.PutObjectInput{
				Bucket: &bucket, Key: aws.String(prefix + "/" + key), Body: strings.NewReader(text(writes.Add(1))),
			})
			return err
		})
		repeat("read", func() error {
			o, err := s.Get(t.Context(), key, objstore.GetOptions{})
			if err != nil {
				return err
			}
			gets.Add(1)
			var n int64
			fmt.Sscanf(string(o.Body), "%d", &n)
			if string(o.Body) != text(n) {
				return fmt.Errorf("a torn body: %d bytes that begin as number %d", len(o.Body), n)
			}
			if want := md5Tag(text(n)); o.Version.Token() != want {
				return fmt.Errorf("number %d came as version %s, its own is %s", n, o.Version, want)
			}
			return nil
		})
	}
	repeat("plain read", func() error {
		out, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket, Key: aws.String(prefix + "/" + key)})
		if err != nil {
			return err
		}
		defer out.Body.Close()
		body, err := io.ReadAll(out.Body)
		if plain.Add(1); err == nil && aws.ToString(out.ETag) != md5Tag(string(body)) {
			torn.Add(1)
		}
		return err
	})
	wg.Wait()
	t.Logf("%d writes; %d reads, %d of them torn and repeated; %d plain reads, %d torn",
		writes.Load(), gets.Load(), count.gets.Load()-gets.Load(), plain.Load(), torn.Load())
}

// A-20, on a server: ids with special characters, as they are in keys, are kept
// apart, listed and read back.
func TestA20KeysOnAServer(t *testing.T) {
	s := onServer(t)
	keys := []string{
		"=2Fx", "=C3=A9", "=E6=97=A5=E6=9C=AC", "a=20b", "a=252Bb", "a=25b", "a=26b=3Dc", "a=2Bb", "e=CC=81", "x=2F", "x=2F=2Fy",
	}
	for i, k := range keys {
		keys[i] = "manifests/" + k + ".json"
		for _, key := range []string{keys[i], "segments/" + k + "/0000000000000000-00000001-0123456789abcdef.jsonl.zst"} {
			if _, err := s.Put(t.Context(), key, []byte(key), objstore.IfAbsent(), objstore.PutOptions{}); err != nil {
				t.Fatalf("%s: %v", key, err)
			}
		}
	}
	got, err := list(t, s, "manifests/", "")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	if d := cmp.Diff(keys, got); d != "" {
		t.Errorf("listed (-want +got):\n%s", d)
	}
	for _, key := range keys {
		if o, err := s.Get(t.Context(), key, objstore.GetOptions{}); err != nil || string(o.Body) != key {
			t.Errorf("%s: %q, %v", key, o.Body, err)
		}
		if after, err := list(t, s, "manifests/", key); err != nil || len(after) > 0 && after[0] <= key {
			t.Errorf("after %s: %q, %v", key, after, err)
		}
	}
}

// TestReadOnlyCredentials: who may only read reads, and is told that it may not
// write, list or delete, by a request or, where the store must be proved first,
// by the proof.
func TestReadOnlyCredentials(t *testing.T) {
	srv := localstack.Start(t)
	bucket := srv.Bucket(t)
	writer, err := New(srv.Client(t), bucket, "p", Options{})
	if err != nil {
		t.Fatal(err)
	}
	info, err := writer.Put(t.Context(), "manifests/a.json", []byte("0123456789"), objstore.IfAbsent(), objstore.PutOptions{Metadata: map[string]string{"s3log-next": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	id, ok := srv.ReadOnly(t, bucket)
	if !ok {
		t.Logf("no read-only user on %s: only an own server has one", srv.Endpoint)
		srv = localstack.Start(t, localstack.Own())
		bucket = srv.Bucket(t)
		if writer, err = New(srv.Client(t), bucket, "p", Options{}); err != nil {
			t.Fatal(err)
		}
		if info, err = writer.Put(t.Context(), "manifests/a.json", []byte("0123456789"), objstore.IfAbsent(), objstore.PutOptions{Metadata: map[string]string{"s3log-next": "1"}}); err != nil {
			t.Fatal(err)
		}
		id, _ = srv.ReadOnly(t, bucket)
	}
	// Another name for the server: what the writer has proved is not known there.
	s, err := New(id.Client(t, func(o *s3.Options) {
		o.BaseEndpoint = aws.String(strings.Replace(srv.Endpoint, "127.0.0.1", "localhost", 1))
	}), bucket, "p", Options{})
	if err != nil {
		t.Fatal(err)
	}
	proved, err := New(id.Client(t), bucket, "p", Options{Profile: "conditional"})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Store{"to be proved": s, "proved": proved} {
		t.Run(name, func(t *testing.T) {
			if o, err := s.Get(t.Context(), "manifests/a.json", objstore.GetOptions{}); err != nil || string(o.Body) != "0123456789" || o.Version != info.Version || o.Metadata["s3log-next"] != "1" {
				t.Errorf("got %+v, %v", o, err)
			}
			if o, err := s.Get(t.Context(), "manifests/a.json", objstore.GetOptions{Offset: 3, Length: 4}); err != nil || string(o.Body) != "3456" || o.Size != 10 {
				t.Errorf("range: %+v, %v", o, err)
			}
			if _, err := s.Get(t.Context(), "manifests/a.json", objstore.GetOptions{IfNot: info.Version}); !errors.Is(err, objstore.ErrNotModified) {
				t.Errorf("unless modified: %v", err)
			}
			if h, err := s.Head(t.Context(), "manifests/a.json"); err != nil || h.Version != info.Version || h.Size != 10 {
				t.Errorf("head: %+v, %v", h, err)
			}
			_, errList := list(t, s, "manifests/", "")
			_, errCreate := s.Put(t.Context(), "manifests/b.json", []byte("{}"), objstore.IfAbsent(), objstore.PutOptions{})
			_, errWrite := s.Put(t.Context(), "manifests/a.json", []byte("{}"), objstore.IfVersion(info.Version), objstore.PutOptions{})
			_, errCopy := s.Copy(t.Context(), "manifests/a.json", "manifests/c.json")
			for what, err := range map[string]error{
				"list": errList, "create": errCreate, "write": errWrite, "copy": errCopy, "delete": s.Delete(t.Context(), "manifests/a.json"),
			} {
				e, ok := errors.AsType[*objstore.Error](err)
				if !ok || !errors.Is(err, objstore.ErrDenied) || e.Hint == "" {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
	if got, err := list(t, writer, "", ""); err != nil || !slices.Equal(got, []string{"manifests/a.json"}) {
		t.Errorf("there is %q, %v", got, err)
	}
	if o, err := writer.Get(t.Context(), "manifests/a.json", objstore.GetOptions{}); err != nil || o.Version != info.Version {
		t.Errorf("the object was changed: %s, %v", o.Version, err)
	}
}

// TestVersionedBucket: a delete leaves a marker; a read then is "not there" and
// says why, and history stays readable to other tools.
func TestVersionedBucket(t *testing.T) {
	srv := localstack.Start(t, localstack.Versioning())
	bucket, client := srv.Bucket(t), srv.Client(t)
	if _, err := client.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{Bucket: &bucket,
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}}); err != nil {
		t.Fatal(err)
	}
	s, err := New(client, bucket, "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	const key = "manifests/a.json"
	info, err := s.Put(t.Context(), key, []byte("1"), objstore.IfAbsent(), objstore.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stale := info.Version
	if info, err = s.Put(t.Context(), key, []byte("2"), objstore.IfVersion(info.Version), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), key, []byte("3"), objstore.IfVersion(stale), objstore.PutOptions{}); !errors.Is(err, objstore.ErrPrecondition) {
		t.Errorf("on an old version: %v", err)
	}
	if o, err := s.Get(t.Context(), key, objstore.GetOptions{}); err != nil || string(o.Body) != "2" || o.Version != info.Version {
		t.Errorf("got %q, %v", o.Body, err)
	}
	if err := s.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	_, err = s.Get(t.Context(), key, objstore.GetOptions{})
	if e, ok := errors.AsType[*objstore.Error](err); !ok || !errors.Is(err, objstore.ErrNotExist) || !strings.Contains(e.Hint, "delete marker") {
		t.Errorf("after a delete: %v", err)
	}
	if got, err := list(t, s, "manifests/", ""); err != nil || len(got) != 0 {
		t.Errorf("listed %q, %v", got, err)
	}
	// (The version right before the marker is taken for the current one by
	// versitygw; S3 answers 404.)
	if _, err := s.Put(t.Context(), key, []byte("3"), objstore.IfVersion(stale), objstore.PutOptions{}); !errors.Is(err, objstore.ErrPrecondition) {
		t.Errorf("on an old version of what is deleted: %v", err)
	}
}
