package main

import (
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend/objstore/s3store"
)

func TestParseLocation(t *testing.T) {
	for _, test := range []struct{ in, dir, bucket, prefix string }{
		{in: "/var/lib/s3log", dir: "/var/lib/s3log"},
		{in: "./dir/", dir: "dir"},
		{in: "../dir", dir: "../dir"},
		{in: ".", dir: "."},
		{in: "..", dir: ".."},
		{in: "file:///dir/a%20b", dir: "/dir/a b"},
		{in: "file://localhost/dir", dir: "/dir"},
		{in: "s3://bucket", bucket: "bucket"},
		{in: "s3://bucket/a/b", bucket: "bucket", prefix: "a/b"},
		{in: "s3://bucket/p?endpoint=http://127.0.0.1:9000&region=x&path-style=true", bucket: "bucket", prefix: "p"},
	} {
		if runtime.GOOS == "windows" && strings.Contains(test.dir, "/") {
			continue
		}
		at, err := parseLocation(test.in)
		if err != nil || at.dir != test.dir || at.s3.Bucket != test.bucket || at.s3.Prefix != test.prefix || at.embedded {
			t.Errorf("%s: %+v, %v", test.in, at, err)
		}
	}
	for _, in := range []string{
		"", "name", "name/sub", "~/x", "http://host/x", "S3://bucket", "s3:bucket", "s3://", "s3:///x", "s3://b?x=1",
		"s3://user:pw@bucket", "file://host/x", "file://", "file:///x?y=1", "file:///x#y", "file://%zz",
	} {
		at, err := parseLocation(in)
		if !errors.Is(err, errUsage) {
			t.Errorf("%q: %+v, %v", in, at, err)
		}
		if err != nil && strings.Contains(err.Error(), "pw") {
			t.Errorf("a password is shown: %v", err)
		}
	}
}

func TestParseLocationKeepsParameters(t *testing.T) {
	at, err := parseLocation("s3://b/p?endpoint=http://127.0.0.1:9000&region=eu-central-1&path-style=false&profile=conditional")
	if err != nil {
		t.Fatal(err)
	}
	if at.s3.Endpoint != "http://127.0.0.1:9000" || at.s3.Region != "eu-central-1" || at.s3.Addressing != s3store.AddressingVirtualHost || at.s3.Profile != "conditional" {
		t.Errorf("%+v", at.s3)
	}
}

func TestDataDir(t *testing.T) {
	home := map[string]string{"HOME": "/home/u"}
	for _, test := range []struct {
		goos string
		env  map[string]string
		want string
	}{
		{"linux", home, "/home/u/.local/share/s3log"},
		{"linux", map[string]string{"HOME": "/home/u", "XDG_DATA_HOME": "/data"}, "/data/s3log"},
		{"linux", map[string]string{"HOME": "/home/u", "XDG_DATA_HOME": "data"}, "/home/u/.local/share/s3log"},
		{"freebsd", home, "/home/u/.local/share/s3log"},
		{"darwin", map[string]string{"HOME": "/home/u", "XDG_DATA_HOME": "/data"}, "/home/u/Library/Application Support/s3log"},
		{"windows", map[string]string{"HOME": "/home/u", "LocalAppData": "/local"}, "/local/s3log"},
		{"linux", nil, ""}, {"darwin", nil, ""}, {"windows", home, ""},
	} {
		got, err := dataDir(test.goos, func(name string) string { return test.env[name] })
		if got != filepath.FromSlash(test.want) || (err != nil) != (test.want == "") {
			t.Errorf("%s %v: %q, %v", test.goos, test.env, got, err)
		}
		if err != nil && !errors.Is(err, errUsage) {
			t.Error(err)
		}
	}
}

// An S3 store is opened by its URL alone; nothing is asked of it before a verb
// needs it, and what it answers decides.
func TestS3Store(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	requests := 0
	server := serve(t, func() int { requests++; return 403 })
	c := newCLI(t)
	c.store = "s3://bucket/prefix?endpoint=" + server + "&path-style=true"
	c.want(exitUsage, "", "cat", "")
	c.must("", "version")
	if requests != 0 {
		t.Fatalf("%d requests before any was needed", requests)
	}
	r := c.want(exitDenied, "", "cat", "log", "--output", "json")
	if got := fromJSON[failure](t, r.stderr); got.Code != "denied" || *got.Log != "log" || *got.Key != "manifests/log.json" || got.Hint == nil {
		t.Errorf("%+v", got)
	}
	c.want(exitDenied, "", "ls")
	// The store proves itself before it is written to, and that is denied, too.
	c.want(exitDenied, notes("x"), "append", "log", "--create")
	if requests == 0 {
		t.Error("nothing was asked")
	}
}
