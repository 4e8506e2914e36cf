package integration

import (
	"bytes"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/internal/fixtures"
	"github.com/s3log/s3log/sessionfile"
	"github.com/s3log/s3log/sessiongen"
)

// realFiles are the session files of real agents.
func realFiles(t *testing.T) (dir string, files []string) {
	t.Helper()
	return fixtures.Dir(t), fixtures.Files(t, "sessions", "legacy-messages", "other-agents")
}

// eventLines are the events of a session file.
func eventLines(t *testing.T, file string) (header []byte, lines [][]byte) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	opt := sessionfile.Options{}
	if strings.Contains(filepath.ToSlash(file), "/other-agents/") {
		opt.Wrap, opt.Salvage = "foreign/line", sessionfile.SalvagePrefix
	}
	r, err := sessionfile.NewReader(bytes.NewReader(text), opt)
	if err != nil {
		t.Fatal(err)
	}
	for line, err := range r.Events() {
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		lines = append(lines, bytes.Clone(line.Bytes))
	}
	return r.Header(), lines
}

// each iterates over lines as an import wants them.
func each(lines [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, l := range lines {
			if !yield(l, nil) {
				return
			}
		}
	}
}

// Every fixture goes to the server, and comes back byte for byte with the root
// that it has in the embedded store.
func TestFixturesOverHTTP(t *testing.T) {
	fixturesInto(t, newRig(t).direct)
}

// fixturesInto imports every fixture into a store, and reads it back.
func fixturesInto(t *testing.T, store objstore.Store) {
	t.Helper()
	dir, files := realFiles(t)
	embedded, err := filestore.Open(t.TempDir(), filestore.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer embedded.Close()
	local, remote := backend.New(embedded, quick), backend.New(store, quick)
	events := 0
	for _, file := range files {
		id, err := filepath.Rel(dir, file)
		if err != nil {
			t.Fatal(err)
		}
		header, lines := eventLines(t, file)
		if len(lines) == 0 {
			t.Fatalf("%s has no events", id)
		}
		opt := backend.ImportOptions{Header: header}
		if _, err := local.Import(t.Context(), id, each(lines), opt); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		// As stored: of foreign lines the time was assigned just now.
		want := checkedRead(t, local.Reader, id)
		lines = lines[:0]
		for _, l := range want {
			lines = append(lines, []byte(l))
		}
		if _, err := remote.Import(t.Context(), id, each(lines), opt); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		if got := checkedRead(t, remote.Reader, id); !slices.Equal(got, want) {
			t.Errorf("%s: other events come back", id)
		}
		sameLog(t, local.Reader, remote.Reader, id)
		events += len(lines)
	}
	t.Logf("%d session files, %d events", len(files), events)
}

// sameLog compares what two stores say about a log.
func sameLog(t *testing.T, a, b *backend.Reader, id string) {
	t.Helper()
	x, err := a.Info(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	y, err := b.Info(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if x.Content.Tree.Root != y.Content.Tree.Root || x.Next != y.Next || string(x.Header) != string(y.Header) {
		t.Errorf("%s: %d:%s and %d:%s", id, x.Next, x.Content.Tree.Root, y.Next, y.Content.Tree.Root)
	}
}

// generate yields the lines of a session of n events.
func generate(n int64) (header []byte, lines iter.Seq2[[]byte, error]) {
	opt := sessiongen.Options{Seed: 42, Events: n}
	return sessiongen.New(opt).Header(), func(yield func([]byte, error) bool) {
		g := sessiongen.New(opt)
		for {
			line, ok := g.Next()
			if !ok || !yield(line, nil) {
				return
			}
		}
	}
}

// A long log goes to the server in batches, is merged on the way, and comes
// back; 1.3 million events in the long run.
func TestGeneratedLogOverHTTP(t *testing.T) {
	generatedLog(t, newRig(t).direct)
}

// generatedLog imports a generated log into a store and checks what is there
// then.
func generatedLog(t *testing.T, store objstore.Store) {
	t.Helper()
	n := int64(30_000)
	if long() {
		n = 1_300_000
	}
	header, lines := generate(n)
	embedded, err := filestore.Open(t.TempDir(), filestore.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer embedded.Close()
	local, remote := backend.New(embedded, quick), backend.New(store, quick)
	opt := backend.ImportOptions{Header: header}
	begin := time.Now()
	got, err := remote.Import(t.Context(), "generated", lines, opt)
	if err != nil || got.Count != n || got.Next != n {
		t.Fatalf("%+v, %v", got, err)
	}
	imported := time.Since(begin)
	if _, err := local.Import(t.Context(), "generated", lines, opt); err != nil {
		t.Fatal(err)
	}
	sameLog(t, local.Reader, remote.Reader, "generated")

	begin = time.Now()
	next, stop := iter.Pull2(lines)
	defer stop()
	seen := int64(0)
	for ev, err := range remote.Events(t.Context(), "generated", backend.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if want, _, ok := next(); !ok || !bytes.Equal(ev.Line, want) {
			t.Fatalf("seq %d is %s, want %s", ev.Seq, ev.Line, want)
		}
		seen++
	}
	if seen != n {
		t.Errorf("%d events come back, want %d", seen, n)
	}
	info, err := remote.Info(t.Context(), "generated")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d events in %d segments: in %v, out and compared %v", n, len(info.Segments), imported.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
}

// The embedded store's directory, copied into a bucket object by object as any
// tool does, is the same logs; and the reverse.
func TestDirectoryAndBucketAreTheSame(t *testing.T) {
	r := newRig(t)
	client := r.Client(t)
	dir := t.TempDir()
	embedded, err := filestore.Open(dir, filestore.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer embedded.Close()
	want := map[string][]string{}
	for _, id := range []string{"log", "team/a b=c", "日本"} {
		want[id], _ = grown(t, embedded, id)
	}
	same := func(t *testing.T, store objstore.Store, add int) {
		t.Helper()
		reader := backend.NewReader(store, quick)
		var listed []string
		for e, err := range reader.List(t.Context(), backend.ListOptions{By: backend.ByName}) {
			if err != nil || e.Err != nil || e.Next != int64(len(want[e.Log])) {
				t.Fatalf("%+v, %v", e, err)
			}
			listed = append(listed, e.Log)
		}
		if len(listed) != len(want) {
			t.Errorf("listed %q", listed)
		}
		for id := range want {
			if got := checkedRead(t, reader, id); !slices.Equal(got, want[id]) {
				t.Errorf("%s: %d other events", id, len(got))
			}
			// Not only a picture of it: it can be continued.
			l := mustAdopt(t, store, id, foreground)
			mustAppend(t, l, note(add))
			if err := l.Close(t.Context(), backend.CloseOptions{Release: true}); err != nil {
				t.Error(err)
			}
			want[id] = checkedRead(t, reader, id)
		}
	}

	files := 0
	for _, tree := range []string{"manifests", "segments"} {
		err := filepath.WalkDir(filepath.Join(dir, tree), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			rel, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			files++
			key := "logs/" + filepath.ToSlash(rel)
			_, err = client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &r.bucket, Key: &key, Body: f})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	same(t, r.direct, 1)

	back := t.TempDir()
	objects := 0
	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: &r.bucket})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Contents {
			objects++
			download(t, client, r.bucket, *o.Key, filepath.Join(back, filepath.FromSlash(strings.TrimPrefix(*o.Key, "logs/"))))
		}
	}
	synced, err := filestore.Open(back, filestore.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer synced.Close()
	same(t, synced, 2)
	t.Logf("%d files to the bucket, %d objects back", files, objects)
}

func download(t *testing.T, client *s3.Client, bucket, key, file string) {
	t.Helper()
	out, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o777)
	}
	if err == nil {
		err = os.WriteFile(file, body, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}
