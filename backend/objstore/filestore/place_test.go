package filestore

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend/objstore/check"
)

// describe asks a store about its place; the probes are removed.
func describe(t *testing.T, s *Store, write bool) map[string]check.Finding {
	t.Helper()
	d := s.Describe(t.Context(), check.Scope{Write: write, Probe: "probe/0", Wrote: func(key string) {
		if err := s.Delete(t.Context(), key); err != nil {
			t.Error(err)
		}
	}})
	if !d.Trusted || d.Markers != check.No || !strings.HasPrefix(d.Name, "file://") || d.Nowhere.IsZero() {
		t.Errorf("%+v", d)
	}
	all := map[string]check.Finding{}
	for _, f := range d.Findings {
		all[f.Name] = f
	}
	return all
}

func TestDescribe(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	got := describe(t, s, false)
	if f := got["directory"]; f.Status != check.OK || !strings.Contains(f.Seen, "nothing was written yet") {
		t.Errorf("%+v", f)
	}
	if f := got["disk"]; f.Status == check.Failed || f.Seen == "" {
		t.Errorf("%+v", f)
	}
	if _, ok := got["sync"]; ok {
		t.Error("a file was written without permission")
	}
	if _, err := s.root.Stat(private); !os.IsNotExist(err) {
		t.Errorf("looking made %s: %v", private, err)
	}
}

// The URL of a directory is absolute, and leads back to it.
func TestURL(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".", "x", "a b/50%#1?", filepath.Join(here, "absolute")} {
		got, err := url.Parse(URL(dir))
		if err != nil || got.Scheme != "file" || got.Host != "" || got.RawQuery != "" || got.Fragment != "" {
			t.Fatalf("%s: %s, %v", dir, URL(dir), err)
		}
		want, err := filepath.Abs(dir)
		if err != nil || strings.TrimPrefix(got.Path, "/") != strings.TrimPrefix(filepath.ToSlash(want), "/") {
			t.Errorf("%s: %s, %v", dir, got.Path, err)
		}
	}
}

// The whole of it, as doctor does it, and what is left then.
func TestExamine(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	r := check.Examine(t.Context(), s, check.Options{Rounds: 4, Racers: 4})
	for _, name := range []string{"directory", "sync", "case", check.NameConditional, check.NameRace, check.NameConsistency, check.NameWrite, check.NameDelete, check.NameMetadata} {
		if f, _ := r.Find(name); f.Status != check.OK && !(name == "case" && f.Status == check.Warning) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if f, _ := r.Find(check.NameClock); f.Status != check.Skipped {
		t.Errorf("%+v", f)
	}
	if r.Err() != nil || r.Can != (check.Abilities{Read: check.Yes, Append: check.Yes, List: check.Yes, Collect: check.Yes}) {
		t.Errorf("%v, %s", r.Err(), r.Summary())
	}
	for info, err := range s.List(t.Context(), "", "") {
		t.Errorf("%s is left, %v", info.Key, err)
	}
}

// A store that was opened for reading is examined by reading.
func TestExamineReadOnly(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{ReadOnly: true})
	r := check.Examine(t.Context(), s, check.Options{Rounds: 4, Racers: 4})
	if r.Err() != nil || r.Can != (check.Abilities{Read: check.Yes, Append: check.No, List: check.Yes, Collect: check.No}) {
		t.Errorf("%v, %s", r.Err(), r.Summary())
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A disk that does not take what is synced is no place for logs.
func TestExamineSyncFails(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	if err := s.prepare(); err != nil {
		t.Fatal(err)
	}
	s.sync = func(*os.File) error { return errors.New("I/O error") }
	if f := s.describeSync(); f.Status != check.Failed || !strings.Contains(f.Seen, "I/O error") || f.Means == "" {
		t.Errorf("%+v", f)
	}
	// Nor does it take the writes of a proof.
	r := check.Examine(t.Context(), s, check.Options{Rounds: 4, Racers: 4})
	if f, _ := r.Find(check.NameConditional); f.Status != check.Unknown || !strings.Contains(f.Seen, "I/O error") {
		t.Errorf("%+v", f)
	}
	if r.Can.Append == check.Yes {
		t.Error(r.Summary())
	}
}
