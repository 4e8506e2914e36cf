package integration

import (
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/s3log/s3log/internal/faultproxy"
)

// tree reads the files of a store in a directory.
func tree(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".s3log":
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		body, err := os.ReadFile(name)
		files[strings.TrimPrefix(filepath.ToSlash(name), filepath.ToSlash(dir)+"/")] = body
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Logs go from a directory to a bucket with the rights of a writer, interrupted and
// cut on the way, and on to another directory with those of an auditor: what
// arrives there is what was here, byte for byte. A second run sends nothing.
func TestCopyThroughABucket(t *testing.T) {
	r := newRig(t)
	writer, auditor := r.user(t), r.user(t)
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	c := with(r.ctl(t), writer)
	local := []string{"--store", from}
	for i, id := range []string{"log/ü", "small", strings.Repeat("a long id ", 40)} {
		events := c.want(0, "", "generate", "--seed", string(rune('1'+i)), "--events", []string{"30000", "20", "200"}[i])
		c.want(0, events.stdout, append(local, "import", "--log", id, "-")...)
	}
	c.want(0, "", append(local, "resume", "log/ü")...)
	c.want(0, "", append(local, "fork", "log/ü", "child")...)
	before := tree(t, from)

	r.give(t, readPolicy(t, "writer", r.bucket, writer.AccessKey, ""))
	r.proxy.Add(faultproxy.Rule{Op: faultproxy.Put, Skip: 1, Fault: faultproxy.Refuse(http.StatusForbidden, "AccessDenied", "not now")})
	r.proxy.Add(faultproxy.Rule{Op: faultproxy.Put, Skip: 3, Fault: faultproxy.LoseReply()})
	c.want(7, "", "sync", "--from", from)
	c.want(0, "", "sync", "--from", from, "--verify")
	again := c.want(0, "", "sync", "--from", from, "--requests")
	if !strings.Contains(again.stdout, "0 of 4 logs copied, 0 B sent; 4 had nothing new") || !strings.Contains(again.stderr, `"PUT":0,`) {
		t.Errorf("%s%s", again.stdout, again.stderr)
	}

	r.give(t, readPolicy(t, "auditor", r.bucket, auditor.AccessKey, ""))
	back := with(c, auditor)
	back.want(0, "", "sync", "--to", to)
	back.want(0, "", "--store", to, "verify", "--all")
	after := tree(t, to)
	for key, body := range after {
		if !bytes.Equal(before[key], body) {
			t.Errorf("%s is another one", key)
		}
	}
	for key := range before {
		if _, ok := after[key]; !ok && strings.HasPrefix(key, "manifests/") {
			t.Errorf("%s was not copied", key)
		}
	}
	if !bytes.Equal([]byte(c.want(0, "", "--store", from, "cat", "log/ü").stdout), []byte(c.want(0, "", "--store", to, "cat", "log/ü").stdout)) {
		t.Error("other events")
	}
}
