package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/check"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
)

// G1 and G2 are shown in package backend, by the processes here, and by the
// explorer of package manifest.

// grown makes a log with segments and a tail, and returns its lines.
func grown(t *testing.T, store objstore.Store, id string) (lines []string, info backend.Info) {
	t.Helper()
	b := backend.New(store, backend.Options{Foreground: true})
	l, err := b.Create(id, backend.CreateOptions{Header: []byte(`{"createdAt":5}`)})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 70 {
		var batch [][]byte
		for range 100 {
			line := fmt.Sprintf(`{"type":"note","seq":%d,"time":%d,"data":"%x"}`, len(lines), i, rng.Uint64())
			lines = append(lines, line)
			batch = append(batch, []byte(line))
		}
		if _, err := l.Append(t.Context(), batch, backend.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
		t.Fatal(err)
	}
	if info, err = b.Info(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if len(info.Segments) < 2 || info.Tail == 0 {
		t.Fatalf("%d segments and %d events in the tail are not what the test is about", len(info.Segments), info.Tail)
	}
	return lines, info
}

// lines reads events from a seq on, up to the first error.
func lines(events iter.Seq2[backend.Event, error]) (got []string, err error) {
	for ev, err := range events {
		if err != nil {
			return got, err
		}
		got = append(got, string(ev.Line))
	}
	return got, nil
}

// getOnly is a store of which one may read objects of one log, and nothing else.
type getOnly struct {
	objstore.Reader
	id string
}

func denied(op, key string) error {
	return &objstore.Error{Op: op, Key: key, Class: objstore.ErrDenied, Status: 403}
}

func (s getOnly) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	if key != manifest.Key(s.id) && !strings.HasPrefix(key, manifest.SegmentPrefix(s.id)) {
		return objstore.Object{}, denied("Get", key)
	}
	return s.Reader.Get(ctx, key, opt)
}

func (s getOnly) Head(_ context.Context, key string) (objstore.Info, error) {
	return objstore.Info{}, denied("Head", key)
}

func (s getOnly) List(_ context.Context, prefix, _ string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) { yield(objstore.Info{}, denied("List", prefix)) }
}

// TestG3GetObjectIsEnough reads, follows and looks at a log with nothing but the
// right to get its objects.
func TestG3GetObjectIsEnough(t *testing.T) {
	store := memstore.New(t)
	want, info := grown(t, store, "a/log")
	grown(t, store, "a")
	r := backend.NewReader(getOnly{store, "a/log"}, backend.Options{PollInterval: time.Millisecond})
	for _, from := range []int{0, 1, int(info.Segments[0].Count), len(want) - 1, len(want)} {
		got, err := lines(r.Events(t.Context(), "a/log", backend.ReadOptions{From: int64(from)}))
		if err != nil || !slices.Equal(got, want[from:]) {
			t.Errorf("from %d: %d events, %v", from, len(got), err)
		}
	}
	var got []string
	for ev, err := range r.Follow(t.Context(), "a/log", 7) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, string(ev.Line)); len(got) == len(want)-7 {
			break
		}
	}
	if !slices.Equal(got, want[7:]) {
		t.Errorf("followed: %d other events", len(got))
	}
	check, err := r.Check(t.Context(), "a/log", backend.Pair{Open: "compaction/start", Close: "compaction/end"}, backend.CheckOptions{Verify: true})
	if err != nil || check.Scanned != info.Next {
		t.Errorf("check: %d events, %v", check.Scanned, err)
	}
	if report, err := r.Verify(t.Context(), "a/log", backend.VerifyOptions{}); err != nil || len(report.Findings) > 0 {
		t.Errorf("verify: %+v, %v", report, err)
	}
	if again, err := r.Info(t.Context(), "a/log"); err != nil || again.Content.Tree.Root != info.Content.Tree.Root {
		t.Errorf("info: %v", err)
	}
	if _, err := r.Info(t.Context(), "a"); !errors.Is(err, backend.ErrDenied) {
		t.Errorf("another log: %v", err)
	}
}

// TestG4ReadersNeitherWriteNorList counts the requests of every way to read.
func TestG4ReadersNeitherWriteNorList(t *testing.T) {
	mem := memstore.New(t)
	want, info := grown(t, mem, "log")
	store := tracestore.New(mem, tracestore.Options{})
	r := backend.NewReader(store, backend.Options{PollInterval: time.Millisecond})
	requests := func(what string, gets int64, do func() error) {
		t.Helper()
		before := store.Counts()
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		n := store.Counts().Sub(before)
		if n.Get != gets || n.Requests() != gets {
			t.Errorf("%s: %+v, want %d GET and nothing else", what, n, gets)
		}
	}
	all := int64(1 + len(info.Segments))
	requests("info", 1, func() error { _, err := r.Info(t.Context(), "log"); return err })
	requests("check", 1, func() error {
		_, err := r.Check(t.Context(), "log", backend.Pair{Open: "compaction/start", Close: "compaction/end"}, backend.CheckOptions{})
		return err
	})
	requests("verify", all, func() error { _, err := r.Verify(t.Context(), "log", backend.VerifyOptions{}); return err })
	requests("whole log", all, func() error { _, err := lines(r.Events(t.Context(), "log", backend.ReadOptions{})); return err })
	requests("tail", 1, func() error {
		_, err := lines(r.Events(t.Context(), "log", backend.ReadOptions{From: info.Next - info.Tail}))
		return err
	})
	requests("a log that is not there", 1, func() error {
		if _, err := r.Info(t.Context(), "other"); !errors.Is(err, backend.ErrNotFound) {
			return fmt.Errorf("%w, want ErrNotFound", err)
		}
		return nil
	})
	before := store.Counts()
	n := 0
	for _, err := range r.Follow(t.Context(), "log", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == len(want) {
			break
		}
	}
	if c := store.Counts().Sub(before); c.Get != c.Requests() {
		t.Errorf("follow: %+v", c)
	}
}

// editing hands out other bodies than are stored.
type editing struct {
	objstore.Reader
	key  string
	edit func(body []byte) ([]byte, error)
}

func (s editing) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	if key != s.key {
		return s.Reader.Get(ctx, key, opt)
	}
	obj, err := s.Reader.Get(ctx, key, objstore.GetOptions{})
	if err != nil {
		return obj, err
	}
	body, err := s.edit(bytes.Clone(obj.Body))
	if err != nil {
		return objstore.Object{}, err
	}
	offset, length, err := opt.Span(int64(len(body)))
	if err != nil {
		return objstore.Object{}, &objstore.Error{Op: "Get", Key: key, Class: err}
	}
	obj.Size, obj.Body = int64(len(body)), body[offset:offset+length]
	return obj, nil
}

// TestG5DamageIsNamed damages each object of a log in several ways: reading
// yields a beginning of the events, and then an error that names the object.
func TestG5DamageIsNamed(t *testing.T) {
	store := memstore.New(t)
	want, info := grown(t, store, "log")
	keys := []string{manifest.Key("log")}
	starts := []int64{0} // the events before it do not need the object
	for _, s := range info.Segments {
		keys = append(keys, manifest.SegmentKey("log", s.Name))
		starts = append(starts, s.Name.First)
	}
	flip := func(at float64) func([]byte) ([]byte, error) {
		return func(b []byte) ([]byte, error) { b[int(at*float64(len(b)-1))] ^= 0x10; return b, nil }
	}
	fail := func(key string, class error) func([]byte) ([]byte, error) {
		return func([]byte) ([]byte, error) { return nil, &objstore.Error{Op: "Get", Key: key, Class: class} }
	}
	for i, key := range keys {
		missing := backend.ErrMissing
		if i == 0 {
			missing = backend.ErrNotFound
		}
		for _, tt := range []struct {
			name string
			edit func([]byte) ([]byte, error)
			want error
		}{
			{"first byte", flip(0), backend.ErrCorrupt},
			{"middle", flip(0.5), backend.ErrCorrupt},
			{"near the end", flip(0.99), backend.ErrCorrupt},
			{"last byte", flip(1), backend.ErrCorrupt},
			{"cut off", func(b []byte) ([]byte, error) { return b[:len(b)-9], nil }, backend.ErrCorrupt},
			{"longer", func(b []byte) ([]byte, error) { return append(b, "more"...), nil }, backend.ErrCorrupt},
			{"empty", func([]byte) ([]byte, error) { return nil, nil }, backend.ErrCorrupt},
			{"missing", fail(key, objstore.ErrNotExist), missing},
			{"denied", fail(key, objstore.ErrDenied), backend.ErrDenied},
		} {
			t.Run(fmt.Sprintf("object %d %s", i, tt.name), func(t *testing.T) {
				r := backend.NewReader(editing{store, key, tt.edit}, backend.Options{})
				got, err := lines(r.Events(t.Context(), "log", backend.ReadOptions{}))
				var oe *backend.OpError
				switch {
				case !errors.Is(err, tt.want):
					t.Errorf("error %v, want %v", err, tt.want)
				case !errors.As(err, &oe) || oe.Key != key && !strings.Contains(err.Error(), key):
					t.Errorf("%v does not name %s", err, key)
				}
				for _, other := range []error{backend.ErrCorrupt, backend.ErrMissing, backend.ErrDenied, backend.ErrUnsupportedVersion} {
					if !errors.Is(tt.want, other) && errors.Is(err, other) {
						t.Errorf("%v matches %v, too", err, other)
					}
				}
				if int64(len(got)) < starts[i] || !slices.Equal(got, want[:len(got)]) {
					t.Errorf("%d events before the error, the object is needed from seq %d on", len(got), starts[i])
				}
			})
		}
	}
}

// TestG6ForkIsSelfContained reads a fork where nothing of its parent can be read.
func TestG6ForkIsSelfContained(t *testing.T) {
	store := memstore.New(t)
	want, info := grown(t, store, "parent")
	at := info.Segments[0].Count + 7
	b := backend.New(store, backend.Options{})
	if _, _, err := b.Fork(t.Context(), "parent", "child", backend.ForkOptions{At: &at, Release: true}); err != nil {
		t.Fatal(err)
	}
	r := backend.NewReader(getOnly{store, "child"}, backend.Options{})
	got, err := lines(r.Events(t.Context(), "child", backend.ReadOptions{}))
	if err != nil || len(got) != int(at)+2 || !slices.Equal(got[:at+1], want[:at+1]) || !strings.Contains(got[at+1], "session/end-seed") {
		t.Errorf("%d events, %v", len(got), err)
	}
	if report, err := r.Verify(t.Context(), "child", backend.VerifyOptions{}); err != nil || len(report.Findings) > 0 {
		t.Errorf("verify: %+v, %v", report, err)
	}
}

// TestG7BytesComeBack appends lines in every state that a caller's line may be
// in.
func TestG7BytesComeBack(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"type":"a","seq":0,"time":-5,"data":null}`, `{"type":"a","seq":0,"time":-5,"data":null}`},
		{" \t{\"data\":{\"b\":1,\"a\":1.50,\"b\":2},\"type\":\"a\",\"time\":3,\"seq\":0}\r\n", `{"data":{"b":1,"a":1.50,"b":2},"type":"a","time":3,"seq":0}`},
		{`{ "type" : "a" , "data" : "\ud800 \/ <&> \u00e9" ,"time":7}`, `{ "type" : "a","seq":0 , "data" : "\ud800 \/ <&> \u00e9" ,"time":7}`},
		{"{\"type\":\"a\",\n\"time\":1,\r\n\"data\":[1,\n2]}", "{\"type\":\"a\",\"seq\":0,\"time\":1,\r\"data\":[1,2]}"},
		{`{"\u0074ype":"\u0061","time":1e0,"data":1}`, ""},
	} {
		b := backend.New(memstore.New(t), backend.Options{})
		l, err := b.Create("log", backend.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Append(t.Context(), [][]byte{[]byte(tt.in)}, backend.AppendOptions{})
		switch {
		case tt.want == "":
			if !errors.Is(err, backend.ErrInvalidEvent) {
				t.Errorf("%q: %v", tt.in, err)
			}
		case err != nil:
			t.Errorf("%q: %v", tt.in, err)
		default:
			if got, err := lines(b.Events(t.Context(), "log", backend.ReadOptions{})); err != nil || len(got) != 1 || got[0] != tt.want {
				t.Errorf("%q comes back as %q, %v", tt.in, got, err)
			}
		}
		if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// careless is a store that ignores conditions.
type careless struct{ objstore.Store }

func (s careless) Put(ctx context.Context, key string, body []byte, _ objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	info, err := s.Store.Put(ctx, key, body, objstore.IfAbsent(), opt)
	if errors.Is(err, objstore.ErrPrecondition) {
		if info, err = s.Store.Head(ctx, key); err == nil {
			info, err = s.Store.Put(ctx, key, body, objstore.IfVersion(info.Version), opt)
		}
	}
	return info, err
}

// TestG8UnsafeStoreIsRefused: no write reaches a store that ignores conditions,
// and what is there can be read.
func TestG8UnsafeStoreIsRefused(t *testing.T) {
	mem := memstore.New(t)
	want, _ := grown(t, mem, "log")
	trace := tracestore.New(careless{mem}, tracestore.Options{})
	b := backend.New(check.Guard(trace, t.Name()), backend.Options{})
	l, err := b.Create("log", backend.CreateOptions{OrAdopt: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := l.Append(t.Context(), [][]byte{[]byte(`{"type":"a","data":1}`)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrUnsupportedStore) {
			t.Errorf("append: %v", err)
		}
	}
	if got, err := lines(b.Events(t.Context(), "log", backend.ReadOptions{})); err != nil || !slices.Equal(got, want) {
		t.Errorf("%d events, %v", len(got), err)
	}
	if err := l.Close(t.Context(), backend.CloseOptions{}); !errors.Is(err, backend.ErrUnsupportedStore) {
		t.Errorf("close: %v", err)
	}
}
