package integration

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/check"
)

// a server that does not do what a condition says is refused for
// writing, before anything of a log is written, and can be read.
func TestA04A05UnsafeServersAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		put  func(*http.Request, string) (bool, int, string)
		want string
	}{
		"ignores conditions": {carelessPut, "If-None-Match: * must fail where an object is"},
		"inverts conditions": {invertedPut, "If-None-Match: * must succeed where no object is"},
		"inverts creates":    {halfInvertedPut, "If-None-Match: * must succeed where no object is"},
		"has no conditions":  {ignorantPut, "not supported"},
		"ignores If-Match": {func(r *http.Request, etag string) (bool, int, string) {
			if r.Header.Get("If-Match") != "" {
				return carelessPut(r, etag)
			}
			return honest(r, etag)
		}, "If-Match must fail on a version that has been replaced"},
		"never matches": {func(r *http.Request, etag string) (bool, int, string) {
			if r.Header.Get("If-Match") != "" {
				return false, http.StatusPreconditionFailed, "PreconditionFailed"
			}
			return honest(r, etag)
		}, "If-Match must succeed on the current version"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startStub(t)
			want, _ := grown(t, openS3(t, s.URL, "b", "key", "secret"), "log")
			s.behave(tt.put)
			before := s.written("")

			store := openS3(t, s.URL, "b", "key", "secret", unproved)
			if got, err := read(t, store, "log", 0); err != nil || !slices.Equal(got, want) {
				t.Errorf("%d events, %v", len(got), err)
			}
			_, aerr := mustAdopt(t, store, "log", quick).Append(t.Context(), [][]byte{note(0)}, backend.AppendOptions{})
			_, cerr := mustCreate(t, store, "new", quick).Append(t.Context(), [][]byte{note(0)}, backend.AppendOptions{})
			for what, err := range map[string]error{"append": aerr, "create": cerr} {
				if !errors.Is(err, backend.ErrUnsupportedStore) || errors.Is(err, backend.ErrOutcomeUnknown) || !strings.Contains(err.Error(), tt.want) || hintOf(err) == "" {
					t.Errorf("%s: %v, hint %q; want one with %q", what, err, hintOf(err), tt.want)
				}
			}
			if n, probes := s.written("")-before, s.written("/probe/"); n != probes || n == 0 || n > 8 {
				t.Errorf("%d PUTs, %d of them of the proof", n, probes)
			}
			if got, err := read(t, store, "log", 0); err != nil || !slices.Equal(got, want) {
				t.Errorf("afterwards: %d events, %v", len(got), err)
			}
		})
	}
}

// racyServer is a server that obeys conditions as long as nobody else writes.
func racyServer(t *testing.T) (endpoint string) {
	t.Helper()
	dir := filepath.Join("testdata", "racyserver")
	hash := sha256.New()
	for _, file := range []string{"main.go", "go.mod"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		hash.Write(text)
	}
	source, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	binary := cached(t, fmt.Sprintf("racyserver-%x", hash.Sum(nil)[:8]), "racyserver", "some seconds", func(ctx context.Context, _ string) *exec.Cmd {
		return exec.CommandContext(ctx, "go", "install", "-C", source, ".")
	})
	return daemon(t, exec.Command(binary), true)
}

// A server that checks first and writes later obeys every request that comes
// alone. Two that meet on it find it out, so that the first write of a process
// is refused. Reading goes on.
func TestRacyServerIsFoundOut(t *testing.T) {
	endpoint := racyServer(t)
	store := openS3(t, endpoint, "bucket", "key", "secret")
	want, _ := grown(t, store, "log")

	const tries = 20
	refused := 0
	for n := range tries { // each bucket is a place of its own
		unknown := openS3(t, endpoint, fmt.Sprint("bucket-", n), "key", "secret", unproved)
		_, err := mustCreate(t, unknown, "new", quick).Append(t.Context(), [][]byte{note(0)}, backend.AppendOptions{})
		switch {
		case errors.Is(err, backend.ErrUnsupportedStore) && strings.Contains(err.Error(), "checks first and writes later"):
			refused++
		case err != nil:
			t.Errorf("append: %v", err)
		}
	}
	t.Logf("%d of %d first writes are refused", refused, tries)
	if refused < tries/2 { // all of them, on a machine that has nothing else to do
		t.Errorf("%d of %d first writes are refused", refused, tries)
	}

	result, err := check.Race(t.Context(), store, check.RaceOptions{Racers: 16, Rounds: 300})
	if !errors.Is(err, backend.ErrUnsupportedStore) {
		t.Errorf("after %+v: %v", result, err)
	}
	t.Logf("found out after %d races: %v", result.Races, err)
	if got, err := read(t, store, "log", 0); err != nil || !slices.Equal(got, want) {
		t.Errorf("%d events, %v", len(got), err)
	}
}

// The server of the other tests holds what this one does not.
func TestServerPassesProofAndRace(t *testing.T) {
	r := newRig(t)
	if p, err := check.Prove(t.Context(), r.direct); err != nil || !p.Conditional {
		t.Errorf("proof: %+v, %v", p, err)
	}
	rounds := 25
	if long() {
		rounds = 500
	}
	result, err := check.Race(t.Context(), r.direct, check.RaceOptions{Racers: 16, Rounds: rounds})
	if err != nil || result.Races != 2*rounds {
		t.Errorf("%+v, %v", result, err)
	}
	t.Logf("%+v", result)
}
