package s3store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend/objstore"
)

const text = "0123456789"

// ranged answers a GET as S3 does.
func ranged(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"e"`)
	w.Header().Set("Content-Type", "text/plain")
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
}

func TestGetRanges(t *testing.T) {
	servers := map[string]*server{
		"S3": serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { ranged(w, r) }),
		// Servers that ignore ranges answer 200 and everything.
		"ignored": serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { body(w, `"e"`, text) }),
	}
	for name, srv := range servers {
		s := srv.open(t)
		for _, tt := range []struct {
			opt  objstore.GetOptions
			want string
			err  error
		}{
			{objstore.GetOptions{}, text, nil},
			{objstore.GetOptions{Length: 1}, "0", nil},
			{objstore.GetOptions{Offset: 3, Length: 4}, "3456", nil},
			{objstore.GetOptions{Offset: 8, Length: 4}, "89", nil},
			{objstore.GetOptions{Offset: 9, Length: 1 << 62}, "9", nil},
			{objstore.GetOptions{Offset: 9, Length: 1<<63 - 1}, "9", nil},
			{objstore.GetOptions{Offset: 10, Length: 1}, "", objstore.ErrRange},
			{objstore.GetOptions{Limit: 10}, text, nil},
			{objstore.GetOptions{Limit: 9}, "", objstore.ErrTooLarge},
			{objstore.GetOptions{Offset: 3, Length: 4, Limit: 4}, "3456", nil},
			{objstore.GetOptions{Offset: 3, Length: 4, Limit: 3}, "", objstore.ErrTooLarge},
			{objstore.GetOptions{Offset: 1}, "", objstore.ErrRejected},
			{objstore.GetOptions{Offset: -1, Length: 2}, "", objstore.ErrRejected},
		} {
			obj, err := s.Get(t.Context(), "k", tt.opt)
			if !errors.Is(err, tt.err) || err != nil && tt.err == nil {
				t.Errorf("%s: %+v: %v, want %v", name, tt.opt, err, tt.err)
				continue
			}
			if string(obj.Body) != tt.want {
				t.Errorf("%s: %+v: got %q, want %q", name, tt.opt, obj.Body, tt.want)
			}
			if err == nil && obj.Size != 10 {
				t.Errorf("%s: %+v: size %d", name, tt.opt, obj.Size)
			}
		}
	}
}

// Lies about ranges and lengths are failed reads, never wrong data.
func TestGetLies(t *testing.T) {
	for name, reply := range map[string]func(w http.ResponseWriter){
		"other range":  func(w http.ResponseWriter) { partial(w, "bytes 0-3/10", "0123") },
		"longer":       func(w http.ResponseWriter) { partial(w, "bytes 3-7/10", "34567") },
		"shorter":      func(w http.ResponseWriter) { partial(w, "bytes 3-4/10", "34") },
		"body differs": func(w http.ResponseWriter) { partial(w, "bytes 3-6/10", "345") },
		"no total":     func(w http.ResponseWriter) { partial(w, "bytes 3-6/*", "3456") },
		"nonsense":     func(w http.ResponseWriter) { partial(w, "3456", "3456") },
		"reversed":     func(w http.ResponseWriter) { partial(w, "bytes 6-3/10", "3456") },
		"beyond":       func(w http.ResponseWriter) { partial(w, "bytes 3-6/5", "3456") },
		"no length": func(w http.ResponseWriter) {
			w.Header().Set("ETag", `"e"`)
			w.(http.Flusher).Flush()
			io.WriteString(w, text)
		},
	} {
		srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { reply(w) })
		obj, err := srv.open(t).Get(t.Context(), "k", objstore.GetOptions{Offset: 3, Length: 4})
		if !errors.Is(err, objstore.ErrUndecided) || obj.Body != nil {
			t.Errorf("%s: got %q, %v", name, obj.Body, err)
		}
	}
}

func partial(w http.ResponseWriter, contentRange, text string) {
	w.Header().Set("ETag", `"e"`)
	w.Header().Set("Content-Range", contentRange)
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	w.WriteHeader(http.StatusPartialContent)
	io.WriteString(w, text)
}

// A body of unannounced length ends where its framing says.
func TestGetChunked(t *testing.T) {
	srv := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"e"`)
		w.(http.Flusher).Flush()
		io.WriteString(w, text)
		if n == 1 {
			w.(http.Flusher).Flush()
			hangUp(w)
		}
	})
	s := srv.open(t)
	obj, err := s.Get(t.Context(), "k", objstore.GetOptions{})
	if err != nil || string(obj.Body) != text || obj.Size != 10 {
		t.Errorf("got %q (%d), %v", obj.Body, obj.Size, err)
	}
	if _, err := s.Get(t.Context(), "k", objstore.GetOptions{Limit: 9}); !errors.Is(err, objstore.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Get(t.Context(), "k", objstore.GetOptions{Limit: 10}); err != nil {
		t.Errorf("got %v", err)
	}
}

// An absurd length is refused by the limit, and without one costs no memory
// before the bytes are there.
func TestGetAbsurdLength(t *testing.T) {
	srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { cut(w, 1<<60, "x") })
	s := srv.open(t)
	if _, err := s.Get(t.Context(), "k", objstore.GetOptions{Limit: 1 << 20}); !errors.Is(err, objstore.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Get(t.Context(), "k", objstore.GetOptions{}); !errors.Is(err, objstore.ErrUndecided) {
		t.Errorf("got %v", err)
	}
}

func TestGetNotModified(t *testing.T) {
	srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") == `"e"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		body(w, `"e"`, text)
	})
	s := srv.open(t)
	obj, err := s.Get(t.Context(), "k", objstore.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "k", objstore.GetOptions{IfNot: obj.Version}); !errors.Is(err, objstore.ErrNotModified) {
		t.Errorf("got %v", err)
	}
	if n := len(srv.requests()); n != 2 {
		t.Errorf("%d requests", n)
	}
}

func TestInfo(t *testing.T) {
	modified := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	date := modified.Add(time.Minute)
	srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Date", date.Format(http.TimeFormat))
		switch {
		case r.Method == "PUT":
			h.Set("ETag", `"e"`)
			return
		case strings.Contains(r.URL.RawQuery, "list-type=2"):
			page(w, "", "p/k")
			return
		}
		h.Set("Last-Modified", modified.Format(http.TimeFormat))
		h["x-amz-meta-S3Log-Commit"] = []string{"c1"}
		h.Set("X-Amz-Meta-Next", "7")
		body(w, `"e"`, text)
	})
	s := srv.open(t)
	want := objstore.Info{Key: "k", Size: 10, Version: objstore.NewVersion(`"e"`), Modified: modified, Date: date,
		Metadata: map[string]string{"s3log-commit": "c1", "next": "7"}}
	compare := cmp.Comparer(func(a, b objstore.Version) bool { return a == b })

	obj, err := s.Get(t.Context(), "k", objstore.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, obj.Info, compare); diff != "" {
		t.Error("Get:", diff)
	}
	head, err := s.Head(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, head, compare); diff != "" {
		t.Error("Head:", diff)
	}
	info, err := s.Put(t.Context(), "k", []byte(text), objstore.IfAbsent(), objstore.PutOptions{
		Metadata: map[string]string{"s3log-commit": "c1"}, ContentType: "application/json"})
	if err != nil {
		t.Fatal(err)
	}
	want.Modified, want.Metadata = time.Time{}, nil
	if diff := cmp.Diff(want, info, compare); diff != "" {
		t.Error("Put:", diff)
	}
	sent := srv.requests()[2].header
	if sent.Get("X-Amz-Meta-S3log-Commit") != "c1" || sent.Get("Content-Type") != "application/json" {
		t.Errorf("sent %v", sent)
	}
	for info, err := range s.List(t.Context(), "k", "") {
		if err != nil {
			t.Fatal(err)
		}
		want.Size, want.Modified = 7, time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
		if diff := cmp.Diff(want, info, compare); diff != "" {
			t.Error("List:", diff)
		}
	}
}

func TestList(t *testing.T) {
	all := make([]string, 0, 25)
	for i := range 25 {
		all = append(all, fmt.Sprintf("m/%02d", i))
	}
	// knowsAfter: some servers do not know start-after.
	for _, knowsAfter := range []bool{true, false} {
		srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			from := 0
			if q.Get("continuation-token") != "" {
				fmt.Sscan(q.Get("continuation-token"), &from)
			} else if after := q.Get("start-after"); after != "" && knowsAfter {
				for from < len(all) && "p/"+all[from] <= after {
					from++
				}
			}
			to, token := from+10, ""
			if to < len(all) {
				token = fmt.Sprint(to)
			}
			var keys []string
			for _, k := range all[from:min(to, len(all))] {
				keys = append(keys, "p/"+k)
			}
			page(w, token, keys...)
		})
		s := srv.open(t)
		for _, after := range []string{"", "m/04", "m/044", "m/24", "z"} {
			before := len(srv.requests())
			got, err := list(t, s, "m/", after)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, k := range all {
				if k > after {
					want = append(want, k)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("after %q: %s", after, diff)
			}
			for i, r := range srv.requests()[before:] {
				if first := i == 0; !strings.Contains(r.query, "prefix=p%2Fm%2F") || first == strings.Contains(r.query, "continuation-token") {
					t.Errorf("request %d: %s", i, r.query)
				}
			}
		}
		// Pages are fetched as they are needed.
		before := len(srv.requests())
		for range s.List(t.Context(), "m/", "") {
			break
		}
		if n := len(srv.requests()) - before; n != 1 {
			t.Errorf("%d requests for one entry", n)
		}
	}
}

func TestDelete(t *testing.T) {
	status := 204
	srv := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		switch {
		case n == 1:
			fail(w, 503, "SlowDown", "")
		case status == 204:
			w.WriteHeader(204)
		default:
			fail(w, status, map[int]string{404: "NoSuchKey", 403: "AccessDenied"}[status], "")
		}
	})
	s := srv.open(t)
	for st, want := range map[int]error{204: nil, 404: nil} {
		status = st
		if err := s.Delete(t.Context(), "k"); !errors.Is(err, want) {
			t.Errorf("%d: %v", st, err)
		}
	}
	status = 403
	if err := s.Delete(t.Context(), "k"); !errors.Is(err, objstore.ErrDenied) {
		t.Errorf("got %v", err)
	}
}

func TestEncryptionHeaders(t *testing.T) {
	srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Amz-Copy-Source") != "" {
			fmt.Fprint(w, `<CopyObjectResult><ETag>"e"</ETag></CopyObjectResult>`)
			return
		}
		if r.Method == "HEAD" && !strings.HasSuffix(r.URL.Path, "copied") {
			w.WriteHeader(404)
			return
		}
		ok(w, `"e"`)
	})
	s := srv.open(t, func(c *Config) { c.SSE, c.KMSKeyID = "aws:kms", "key-1" })
	if _, err := put(t, s, objstore.IfAbsent()); err != nil {
		t.Fatal(err)
	}
	s.Copy(t.Context(), "k", "l") // the confirming HEAD finds nothing, which is not the point
	for _, r := range srv.requests() {
		if r.method == "PUT" && (r.header.Get("X-Amz-Server-Side-Encryption") != "aws:kms" || r.header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id") != "key-1") {
			t.Errorf("sent %v", r.header)
		}
	}
	_, err := s.Copy(t.Context(), "k", "copied")
	if !errors.Is(err, objstore.ErrPrecondition) {
		t.Errorf("copy over an object: %v", err)
	}
}

func TestReadBody(t *testing.T) {
	for _, tt := range []struct {
		length, limit int64
		ok            bool
	}{{10, 0, true}, {11, 0, false}, {4, 0, true}, {-1, 0, true}, {-1, 10, true}, {-1, 9, false}, {0, 0, true}} {
		got, err := readBody(bytes.NewReader([]byte(text)), tt.length, tt.limit)
		want := text
		if tt.length >= 0 && tt.length < 10 {
			want = text[:tt.length]
		}
		if (err == nil) != tt.ok || err == nil && string(got) != want {
			t.Errorf("%+v: %q, %v", tt, got, err)
		}
	}
}
