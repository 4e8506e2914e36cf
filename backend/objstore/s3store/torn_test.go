package s3store

import (
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend/objstore"
)

func md5Tag(text string) string { return fmt.Sprintf(`"%x"`, md5.Sum([]byte(text))) }

// TestTornRead: a manifest whose body is not its ETag's is read again, where
// ETags are known to be MD5s, and only there.
func TestTornRead(t *testing.T) {
	const key, written, current = "manifests/a.json", "first", "second"
	sse := func(v string) http.Header { return http.Header{"X-Amz-Server-Side-Encryption": {v}} }
	for name, tt := range map[string]struct {
		puts   []string // ETags of writes of our own before the read
		key    string
		opt    objstore.GetOptions
		torn   int // replies with the ETag of another body; -1 is all of them
		etag   string
		header http.Header
		reads  int
		err    error
	}{
		"never":                        {puts: []string{md5Tag(written)}, reads: 1},
		"once":                         {puts: []string{md5Tag(written)}, torn: 1, reads: 2},
		"in upper case, unquoted":      {puts: []string{strings.ToUpper(strings.Trim(md5Tag(written), `"`))}, torn: 1, reads: 2},
		"three times":                  {puts: []string{md5Tag(written)}, torn: 3, reads: 4},
		"always":                       {puts: []string{md5Tag(written)}, torn: -1, reads: 4, err: objstore.ErrUnsupported},
		"always, SSE-S3":               {puts: []string{md5Tag(written)}, torn: -1, header: sse("AES256"), reads: 4, err: objstore.ErrUnsupported},
		"nothing written yet":          {torn: -1, reads: 1},
		"ETags are no MD5s":            {puts: []string{`"opaque"`}, torn: -1, reads: 1},
		"ETags look like MD5s":         {puts: []string{md5Tag("encrypted")}, torn: -1, reads: 1},
		"not any more":                 {puts: []string{md5Tag(written), md5Tag("encrypted")}, torn: -1, etag: md5Tag("encrypted"), reads: 1},
		"not all are, other order":     {puts: []string{md5Tag("encrypted"), md5Tag(written)}, torn: -1, reads: 1},
		"one was not given":            {puts: []string{md5Tag(written), ""}, torn: 1, reads: 2},
		"encrypted by another":         {puts: []string{md5Tag(written)}, torn: -1, header: sse("aws:kms"), reads: 1},
		"with the customer's key":      {puts: []string{md5Tag(written)}, torn: -1, header: http.Header{"X-Amz-Server-Side-Encryption-Customer-Algorithm": {"AES256"}}, reads: 1},
		"copied in parts":              {puts: []string{md5Tag(written)}, torn: -1, etag: `"` + strings.Repeat("ab", 16) + `-2"`, reads: 1},
		"a part of it":                 {puts: []string{md5Tag(written)}, opt: objstore.GetOptions{Length: 3}, torn: -1, reads: 1},
		"an object that never changes": {puts: []string{md5Tag(written)}, key: "segments/a/s1", torn: -1, reads: 1},
	} {
		t.Run(name, func(t *testing.T) {
			puts, reads := 0, 0
			srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
				if r.Method == "PUT" {
					puts++
					ok(w, tt.puts[puts-1])
					return
				}
				reads++
				for k, v := range tt.header {
					w.Header()[k] = v
				}
				etag := md5Tag(current)
				if tt.torn < 0 || reads <= tt.torn {
					if etag = tt.etag; etag == "" {
						etag = md5Tag(written)
					}
				}
				if tt.opt.Length > 0 {
					w.Header().Set("ETag", etag)
					w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", tt.opt.Length-1, len(current)))
					w.WriteHeader(http.StatusPartialContent)
					io.WriteString(w, current[:tt.opt.Length])
					return
				}
				body(w, etag, current)
			})
			s := srv.open(t)
			for range tt.puts {
				if _, err := s.Put(t.Context(), key, []byte(written), objstore.IfAbsent(), objstore.PutOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			k := key
			if tt.key != "" {
				k = tt.key
			}
			obj, err := s.Get(t.Context(), k, tt.opt)
			if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Fatalf("got %v, want %v", err, tt.err)
			}
			if reads != tt.reads {
				t.Errorf("%d reads, want %d", reads, tt.reads)
			}
			if err != nil {
				e, ok := errors.AsType[*objstore.Error](err)
				if !ok || e.Key != k || e.Hint != hintTorn || obj.Body != nil {
					t.Errorf("got %v, hint %q, body %q", err, e.Hint, obj.Body)
				}
				return
			}
			want := current
			if tt.opt.Length > 0 {
				want = current[:tt.opt.Length]
			}
			if string(obj.Body) != want || obj.Version.IsZero() {
				t.Errorf("got %q, version %s", obj.Body, obj.Version)
			}
			if tt.torn > 0 && obj.Version.Token() != md5Tag(current) {
				t.Errorf("the version is %s, that of the body is %s", obj.Version, md5Tag(current))
			}
		})
	}
}

// TestTornReadIsOfOneStore: what one store's writes have shown says nothing
// about another's ETags.
func TestTornReadIsOfOneStore(t *testing.T) {
	script := func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.Method == "PUT" {
			ok(w, md5Tag("first"))
			return
		}
		body(w, md5Tag("first"), "second")
	}
	writer := serve(t, script).open(t)
	if _, err := writer.Put(t.Context(), "manifests/a.json", []byte("first"), objstore.IfAbsent(), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	reader := serve(t, script).open(t)
	if _, err := reader.Get(t.Context(), "manifests/a.json", objstore.GetOptions{}); err != nil {
		t.Errorf("a store that only reads: %v", err)
	}
}

// TestReplyOfAnotherRequest: where ETags are MD5s, a success with another one is
// no version of what was written. Where they turn out not to be MD5s any more it
// is, from the next read on.
func TestReplyOfAnotherRequest(t *testing.T) {
	const key = "manifests/a.json"
	for name, tt := range map[string]struct {
		key    string
		etags  []string // of the writes
		header http.Header
		read   string // ETag of the read between the second and the third
		before string // unless empty, read before the first, with its MD5 for an ETag
		first  bool   // the key is that of the first write, too
		zero   []bool // which of the writes have no version
	}{
		"out of step":        {etags: []string{md5Tag("1"), `"other"`, md5Tag("3")}, read: md5Tag("1"), zero: []bool{false, true, false}},
		"looks like an MD5":  {etags: []string{md5Tag("1"), md5Tag("x"), md5Tag("3")}, read: md5Tag("1"), zero: []bool{false, true, false}},
		"no MD5s any more":   {etags: []string{md5Tag("1"), `"random-2"`, `"random-3"`}, read: `"random-2"`, zero: []bool{false, true, false}},
		"first of all":       {before: `1`, etags: []string{`"other"`, md5Tag("2"), md5Tag("3")}, read: md5Tag("1"), zero: []bool{true, false, false}},
		"first, a segment":   {before: `1`, key: "segments/a/s", first: true, etags: []string{`"other"`, md5Tag("2"), md5Tag("3")}, read: md5Tag("1"), zero: []bool{true, false, false}},
		"first, and its own": {before: `1`, etags: []string{`"random-1"`, `"random-2"`, `"random-3"`}, read: `"random-1"`, zero: []bool{true, true, false}},
		"never MD5s":         {etags: []string{`"random-1"`, `"random-2"`, `"random-3"`}, read: `"random-2"`, zero: []bool{false, false, false}},
		"a segment":          {key: "segments/a/s", etags: []string{md5Tag("1"), `"other"`, md5Tag("3")}, read: md5Tag("1"), zero: []bool{false, true, false}},
		"encrypted": {etags: []string{md5Tag("1"), `"random-2"`, `"random-3"`}, read: `"random-2"`, zero: []bool{false, false, false},
			header: http.Header{"X-Amz-Server-Side-Encryption": {"aws:kms"}}},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
				if r.Method == "GET" {
					etag := tt.read
					if tt.before != "" && n == 0 {
						etag = md5Tag(tt.before)
					}
					body(w, etag, "1")
					return
				}
				for k, v := range tt.header {
					w.Header()[k] = v
				}
				ok(w, tt.etags[n])
				n++
			})
			s := srv.open(t)
			if tt.before != "" {
				if _, err := s.Get(t.Context(), key, objstore.GetOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range tt.etags {
				k := key
				if tt.key != "" && (i > 0 || tt.first) {
					k = tt.key
				}
				info, err := s.Put(t.Context(), k, []byte(fmt.Sprint(i+1)), objstore.IfAbsent(), objstore.PutOptions{})
				if err != nil || info.Version.IsZero() != tt.zero[i] {
					t.Errorf("write %d: version %s, %v", i+1, info.Version, err)
				}
				if i == 1 {
					if _, err := s.Get(t.Context(), key, objstore.GetOptions{}); err != nil {
						t.Errorf("the read: %v", err)
					}
				}
			}
		})
	}
}
