package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/s3store"
	"github.com/s3log/s3log/internal/faultproxy"
	"github.com/s3log/s3log/manifest"
)

// every write of a whole life has a plain body of known length and
// an integrity header, and no trailer, those of the store proof, too.
func TestA09A10PlainBodiesWithAChecksum(t *testing.T) {
	for sum, header := range map[s3store.Checksum]string{
		s3store.ChecksumAuto: "Content-Md5", s3store.ChecksumMD5: "Content-Md5", s3store.ChecksumCRC32C: "X-Amz-Checksum-Crc32c",
	} {
		r := newRig(t)
		store := r.open(t, unproved, func(c *s3store.Config) {
			c.Checksum = sum
			// The environment may ask for more than is good.
			c.LoadOptions = append(c.LoadOptions, config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenSupported))
		})
		lines, _ := grown(t, store, "log")
		if got, err := read(t, store, "log", 0); err != nil || !slices.Equal(got, lines) {
			t.Errorf("%d events, %v", len(got), err)
		}
		kinds := map[string]int{}
		for _, p := range r.proxy.Take().Of(faultproxy.Put, "") {
			kinds[strings.Split(p.Key, "/")[1]]++
			for name, wrong := range map[string]bool{
				"Content-Encoding":     p.Header.Get("Content-Encoding") != "",
				"X-Amz-Trailer":        p.Header.Get("X-Amz-Trailer") != "",
				"X-Amz-Content-Sha256": len(p.Header.Get("X-Amz-Content-Sha256")) != 64,
				"Content-Length":       p.Header.Get("Content-Length") != fmt.Sprint(p.Size),
				header:                 p.Header.Get(header) == "",
				"condition":            p.Condition == "",
			} {
				if wrong {
					t.Errorf("checksum %q: PUT %s with %s %q, condition %q", sum, p.Key, name, p.Header.Get(name), p.Condition)
				}
			}
		}
		if kinds["manifests"] == 0 || kinds["segments"] == 0 || kinds["probe"] == 0 {
			t.Errorf("not all kinds of objects were written: %v", kinds)
		}
	}
}

// the clock is an hour off. Requests are signed with the store's time;
// events keep ours.
func TestA11ClockOff(t *testing.T) {
	s := startStub(t)
	s.ahead = time.Hour
	store := openS3(t, s.URL, "b", "key", "secret")
	l := mustCreate(t, store, "log", quick)
	mustAppend(t, l, note(0))
	before := time.Now()
	mustAppend(t, l, note(1))
	after := time.Now()
	info, err := backend.NewReader(store, quick).Info(t.Context(), "log")
	if err != nil {
		t.Fatal(err)
	}
	if got := time.UnixMilli(*info.Content.LastTime); got.Before(before.Add(-time.Millisecond)) || got.After(after) {
		t.Errorf("the event's time is %v, it was appended at %v", got, before)
	}
	if d := time.UnixMilli(info.Commit.At).Sub(after) - s.ahead; d.Abs() > 10*time.Second {
		t.Errorf("the commit's time is off the store's clock by %v", d)
	}
	holds(t, store, "log", 0, 1)

	t.Run("incurable", func(t *testing.T) {
		r := newRig(t)
		r.proxy.Add(faultproxy.Rule{Times: -1, Fault: faultproxy.Refuse(403, "RequestTimeTooSkewed", "The difference is too large.")})
		_, err := mustCreate(t, r.store, "log", quick).Append(t.Context(), [][]byte{note(0)}, backend.AppendOptions{})
		if !errors.Is(err, objstore.ErrRefused) || errors.Is(err, backend.ErrOutcomeUnknown) || !strings.Contains(hintOf(err), "clock") || strings.Contains(hintOf(err), "credentials") {
			t.Errorf("got %v, hint %q", err, hintOf(err))
		}
	})
}

// renewing hands out the same keys again and again, and fails when asked too
// often.
type renewing struct {
	keys  aws.Credentials
	asked atomic.Int64
	limit int64
}

func (p *renewing) Retrieve(context.Context) (aws.Credentials, error) {
	if n := p.asked.Add(1); n > p.limit {
		return aws.Credentials{}, errors.New("the session is over")
	}
	c := p.keys
	c.CanExpire, c.Expires = true, time.Now().Add(time.Hour)
	return c, nil
}

// credentials expire between a segment and the manifest that names it.
func TestA12ExpiredBetweenSegmentAndManifest(t *testing.T) {
	open := func(t *testing.T, r *rig, p *renewing) *s3store.Store {
		p.keys = aws.Credentials{AccessKeyID: r.AccessKey, SecretAccessKey: r.SecretKey}
		return r.open(t, func(c *s3store.Config) {
			c.LoadOptions = append(c.LoadOptions, config.WithCredentialsProvider(p))
		})
	}
	expired := func(r *rig) {
		r.proxy.Add(faultproxy.Rule{Op: faultproxy.Put, Key: "manifests/", Fault: faultproxy.Refuse(400, "ExpiredToken", "The provided token has expired.")})
	}

	t.Run("renewed", func(t *testing.T) {
		r, p := newRig(t), &renewing{limit: 2}
		l := mustCreate(t, open(t, r, p), "log", foreground)
		mustAppend(t, l, note(0))
		expired(r)
		r.proxy.Take()
		mustAppend(t, l, notes(t, 0, 300)...)
		e := r.proxy.Take()
		if s, m := e.Of(faultproxy.Put, "/segments/"), e.Of(faultproxy.Put, "/manifests/"); len(s) != 1 || len(m) != 2 || m[0].Sum != m[1].Sum || p.asked.Load() != 2 {
			t.Errorf("%d PUTs of segments, %d of the manifest, credentials fetched %d times", len(s), len(m), p.asked.Load())
		}
		if got := checkedRead(t, backend.NewReader(r.direct, quick), "log"); len(got) != 301 {
			t.Errorf("%d events", len(got))
		}
	})

	t.Run("not renewed", func(t *testing.T) {
		r, p := newRig(t), &renewing{limit: 1}
		l := mustCreate(t, open(t, r, p), "log", foreground)
		mustAppend(t, l, note(0))
		expired(r)
		batch := notes(t, 0, 300)
		_, err := l.Append(t.Context(), batch, backend.AppendOptions{Key: "k"})
		if !errors.Is(err, objstore.ErrRefused) || errors.Is(err, backend.ErrOutcomeUnknown) || !strings.Contains(hintOf(err), "expired") {
			t.Errorf("got %v, hint %q", err, hintOf(err))
		}
		// Later, with good keys.
		l = mustAdopt(t, r.direct, "log", foreground)
		for i := range 2 {
			got, err := l.Append(t.Context(), batch, backend.AppendOptions{Key: "k"})
			if err != nil || got.First != 1 || got.Count != 300 || got.Duplicate != (i == 1) {
				t.Errorf("again: %+v, %v", got, err)
			}
		}
		if got := checkedRead(t, backend.NewReader(r.direct, quick), "log"); len(got) != 301 {
			t.Errorf("%d events", len(got))
		}
		info, err := backend.NewReader(r.direct, quick).Info(t.Context(), "log")
		if err != nil {
			t.Fatal(err)
		}
		if n := len(segmentsOf(t, r.direct, "log")); n != len(info.Segments)+1 {
			t.Errorf("%d segments, %d of them named: one was not", n, len(info.Segments))
		}
		// It is what nobody names, not what is lost.
		for g, err := range backend.New(r.direct, quick).GC(t.Context(), backend.GCOptions{Log: "log", DryRun: true}) {
			if err != nil || g.Err != nil || len(g.Objects) != 1 || g.Named != len(info.Segments) || len(g.Findings) > 0 {
				t.Errorf("%+v, %v", g, err)
			}
		}
	})
}

// segmentsOf are the names of the objects that are there for a log, named by
// its manifest or not.
func segmentsOf(t *testing.T, store objstore.Reader, id string) (names []manifest.Name) {
	t.Helper()
	for info, err := range store.List(t.Context(), manifest.SegmentPrefix(id), "") {
		if err != nil {
			t.Fatal(err)
		}
		name, err := manifest.ParseName(strings.TrimPrefix(info.Key, manifest.SegmentPrefix(id)))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

// the store asks for fewer requests, for a while or for ever. What
// is repeated is the same to the byte.
func TestA18A19Throttling(t *testing.T) {
	t.Run("passes", func(t *testing.T) {
		r := newRig(t)
		l := mustCreate(t, r.store, "log", foreground)
		mustAppend(t, l, note(0))
		r.proxy.Add(
			faultproxy.Rule{Op: faultproxy.Put, Key: "segments/", Times: 8, Fault: faultproxy.Refuse(503, "SlowDown", "Please reduce your request rate.")},
			faultproxy.Rule{Op: faultproxy.Put, Key: "manifests/", Times: 3, Fault: faultproxy.Refuse(503, "SlowDown", "Please reduce your request rate.")},
		)
		r.proxy.Take()
		mustAppend(t, l, notes(t, 0, 300)...)
		e := r.proxy.Take()
		for part, want := range map[string]int{"/segments/": 9, "/manifests/": 4} {
			puts := e.Of(faultproxy.Put, part)
			if len(puts) != want {
				t.Errorf("%d PUTs of %s, want %d", len(puts), part, want)
			}
			for _, p := range puts {
				if p.Key != puts[0].Key || p.Sum != puts[0].Sum || p.Condition != puts[0].Condition {
					t.Errorf("another request: %+v", p)
				}
			}
		}
		mustAppend(t, l, note(1))
		if got := checkedRead(t, backend.NewReader(r.direct, quick), "log"); len(got) != 302 {
			t.Errorf("%d events", len(got))
		}
	})

	throttled := func(t *testing.T, key string, opt backend.Options, batch [][]byte) (*rig, *backend.Log) {
		r := newRig(t)
		l := mustCreate(t, r.store, "log", opt)
		mustAppend(t, l, note(0))
		r.proxy.Add(faultproxy.Rule{Op: faultproxy.Put, Key: key, Times: -1, Fault: faultproxy.Refuse(503, "SlowDown", "Please reduce your request rate.")})
		return r, l
	}
	for name, unknown := range map[string]bool{"segments/": false, "manifests/": true} {
		t.Run("never passes "+name, func(t *testing.T) {
			opt := foreground
			opt.CommitTimeout = patience(500 * time.Millisecond)
			batch := notes(t, 0, 300)
			r, l := throttled(t, name, opt, batch)
			_, err := l.Append(t.Context(), batch, backend.AppendOptions{})
			se, ok := errors.AsType[*objstore.Error](err)
			if !ok || se.Code != "SlowDown" || se.Status != 503 || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, backend.ErrOutcomeUnknown) != unknown {
				t.Errorf("got %v", err)
			}
			holds(t, r.direct, "log", 0)
		})
	}
	t.Run("nobody waits any more", func(t *testing.T) {
		opt := foreground
		opt.MinBackoff, opt.MaxBackoff = time.Minute, time.Minute
		opt.CommitTimeout = 4 * time.Second
		_, l := throttled(t, "manifests/", opt, [][]byte{note(1)})
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		begin := time.Now()
		_, err := l.Append(ctx, [][]byte{note(1)}, backend.AppendOptions{})
		if d := time.Since(begin); d > 3*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", d, err)
		}
	})
}

// a copy is answered 200, and the body says that it failed, or nothing.
func TestA23CopyThatSays200(t *testing.T) {
	r := newRig(t)
	body := []byte(strings.Repeat("segment", 100))
	if _, err := r.direct.Put(t.Context(), "segments/a/s", body, objstore.IfAbsent(), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, reply := range map[string][]byte{
		"error":    faultproxy.Error(200, "InternalError", "We encountered an internal error.").Body,
		"nothing":  nil,
		"no etag":  []byte(`<?xml version="1.0" encoding="UTF-8"?><CopyObjectResult></CopyObjectResult>`),
		"not done": []byte(`<?xml version="1.0" encoding="UTF-8"?><CopyObjectResult><ETag>"e"</ETag></CopyObjectResult>`),
	} {
		t.Run(name, func(t *testing.T) {
			dst := "segments/b/" + strings.ReplaceAll(name, " ", "-")
			r.proxy.Add(faultproxy.Rule{Op: faultproxy.Copy, Key: dst, Fault: func(x *faultproxy.Exchange) {
				x.Answer(&faultproxy.Reply{Status: 200, Header: http.Header{"Content-Type": {"application/xml"}}, Body: reply})
			}})
			if info, err := r.store.Copy(t.Context(), "segments/a/s", dst); objstore.Classify(err) != objstore.Undecided {
				t.Errorf("got %+v, %v", info, err)
			}
			if _, err := r.direct.Head(t.Context(), dst); !errors.Is(err, objstore.ErrNotExist) {
				t.Fatalf("%v", err)
			}
			info, err := r.store.Copy(t.Context(), "segments/a/s", dst)
			if err != nil || info.Size != int64(len(body)) {
				t.Errorf("again: %+v, %v", info, err)
			}
			if obj, err := r.direct.Get(t.Context(), dst, objstore.GetOptions{}); err != nil || string(obj.Body) != string(body) {
				t.Errorf("%d bytes, %v", len(obj.Body), err)
			}
		})
	}
}

// a fork of a large log has its segments copied inside the store. A
// copy that says 200 and did not happen is not believed; the child's manifest
// comes last; and the child needs nothing of its parent any more.
func TestA23A28ForkByCopies(t *testing.T) {
	r := newRig(t)
	header, events := generate(60_000)
	opt := backend.ImportOptions{Header: header}
	if _, err := backend.New(r.direct, quick).Import(t.Context(), "parent", events, opt); err != nil {
		t.Fatal(err)
	}
	want := checkedRead(t, backend.NewReader(r.direct, quick), "parent")
	for name, reply := range map[string][]byte{
		"error":   faultproxy.Error(200, "InternalError", "").Body,
		"nothing": nil,
		"no":      []byte(`<?xml version="1.0" encoding="UTF-8"?><CopyObjectResult><ETag>"e"</ETag></CopyObjectResult>`),
	} {
		r.proxy.Add(faultproxy.Rule{Op: faultproxy.Copy, Key: "segments/" + name, Fault: func(x *faultproxy.Exchange) {
			x.Answer(&faultproxy.Reply{Status: 200, Header: http.Header{"Content-Type": {"application/xml"}}, Body: reply})
		}})
		r.proxy.Take()
		at := int64(len(want) - 1)
		_, _, err := backend.New(r.store, quick).Fork(t.Context(), "parent", name, backend.ForkOptions{At: &at, Release: true})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		e := r.proxy.Take()
		if n := len(e.Of(faultproxy.Copy, "")); n == 0 {
			t.Errorf("%s: nothing was copied inside the store: %v", name, e.Counts())
		}
		if last := e[len(e)-1]; last.Op != faultproxy.Put || !strings.Contains(last.Key, "/manifests/") {
			t.Errorf("%s: the last request is %s %s", name, last.Op, last.Key)
		}
	}

	for info, err := range r.direct.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		if info.Key == manifest.Key("parent") || strings.HasPrefix(info.Key, manifest.SegmentPrefix("parent")) {
			if err := r.direct.Delete(t.Context(), info.Key); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, child := range []string{"error", "nothing", "no"} {
		got := checkedRead(t, backend.NewReader(r.direct, quick), child)
		if len(got) != len(want)+1 || !slices.Equal(got[:len(want)], want) || !strings.Contains(got[len(want)], "session/end-seed") {
			t.Errorf("%s: %d events", child, len(got))
		}
	}
}

// a collector removes a segment that was uploaded and not named yet. It
// has made a barrier before, so that the writer notices and uploads again.
func TestA28CollectedBeforeItWasNamed(t *testing.T) {
	r := newRig(t)
	l := mustCreate(t, r.store, "log", foreground)
	mustAppend(t, l, note(0))
	r.proxy.Add(faultproxy.Rule{Op: faultproxy.Put, Key: "manifests/", Fault: func(x *faultproxy.Exchange) {
		if n := collect(t, r.direct, "log"); n != 1 {
			t.Errorf("%d segments were collected", n)
		}
		x.Answer(x.Forward())
	}})
	r.proxy.Take()
	got := mustAppend(t, l, notes(t, 0, 300)...)
	e := r.proxy.Take()
	if got.First != 1 || got.Count != 300 || len(e.Of(faultproxy.Put, "/segments/")) != 2 {
		t.Errorf("%+v, %d uploads", got, len(e.Of(faultproxy.Put, "/segments/")))
	}
	mustAppend(t, l, note(1))
	if got := checkedRead(t, backend.NewReader(r.direct, quick), "log"); len(got) != 302 {
		t.Errorf("%d events", len(got))
	}
	if n := collect(t, r.direct, "log"); n != 0 {
		t.Errorf("%d segments were left behind", n)
	}
	if got := checkedRead(t, backend.NewReader(r.direct, quick), "log"); len(got) != 302 {
		t.Errorf("%d events after another collection", len(got))
	}
}

// collect does what a collector may do to a log: a barrier above everything
// that is listed, then the removal of what is not named.
func collect(t *testing.T, store objstore.Store, id string) (removed int) {
	t.Helper()
	names := segmentsOf(t, store, id)
	var highest uint32
	for _, n := range names {
		highest = max(highest, n.Epoch)
	}
	base, err := manifest.Load(t.Context(), store, id, manifest.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := manifest.NewWriter("collector", "test")
	res, err := manifest.Commit(t.Context(), store, base, func(_ context.Context, base manifest.Head) (*manifest.Proposal, error) {
		d, err := manifest.Maintain(base.Record, w, time.Now().UnixMilli())
		if err != nil {
			return nil, err
		}
		d.Barrier(highest)
		return d.Finish()
	}, manifest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if n.Epoch >= res.Head.Record.Epoch || slices.ContainsFunc(res.Head.Record.Segments, func(s manifest.SegmentRef) bool { return s.Name == n }) {
			continue
		}
		if err := store.Delete(t.Context(), manifest.SegmentKey(id, n)); err != nil {
			t.Fatal(err)
		}
		removed++
	}
	return removed
}
