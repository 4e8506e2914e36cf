package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/segment"
	"github.com/s3log/s3log/sessionfile"
)

// serve answers every request with a status.
func serve(t *testing.T, status func() int) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status())
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestExitCodes has the exit codes that docs/cli.md promises.
func TestExitCodes(t *testing.T) {
	wrap := func(outer, inner error) error { return fmt.Errorf("%w: %w", outer, inner) }
	for _, test := range []struct {
		err  error
		exit int
		code string
	}{
		{errors.New("anything"), 1, "failure"},
		{context.Canceled, 1, "interrupted"},
		{objstore.ErrUndecided, 1, "unavailable"},
		{objstore.ErrUnsent, 1, "unavailable"},
		{objstore.ErrThrottled, 1, "unavailable"},
		{context.DeadlineExceeded, 1, "unavailable"},
		{usagef("mistake"), 2, "usage"},
		{backend.ErrInvalidEvent, 2, "invalid-event"},
		{backend.ErrTooLarge, 2, "too-large"},
		{backend.ErrFenced, 4, "fenced"},
		{backend.ErrHeld, 4, "held"},
		{backend.ErrExists, 4, "exists"},
		{backend.ErrSeqMismatch, 4, "seq-mismatch"},
		{backend.ErrKeyConflict, 4, "key-conflict"},
		{backend.ErrNotFound, 5, "not-found"},
		{backend.ErrDeleted, 5, "deleted"},
		{backend.ErrCorrupt, 6, "corrupt"},
		{backend.ErrMissing, 6, "missing"},
		{backend.ErrRolledBack, 6, "rolled-back"},
		{sessionfile.ErrTorn, 6, "torn"},
		{backend.ErrDenied, 7, "denied"},
		{backend.ErrUnsupportedStore, 8, "unsupported-store"},
		{backend.ErrUnsupportedVersion, 8, "unsupported-version"},
		{backend.ErrOutcomeUnknown, 9, "outcome-unknown"},
		// What matters more wins.
		{wrap(backend.ErrOutcomeUnknown, backend.ErrDenied), 9, "outcome-unknown"},
		{wrap(backend.ErrOutcomeUnknown, context.Canceled), 9, "outcome-unknown"},
		{wrap(backend.ErrMissing, objstore.ErrNotExist), 6, "missing"},
		{wrap(backend.ErrNotFound, objstore.ErrNotExist), 5, "not-found"},
		{wrap(errors.New("x"), &backend.OpError{Err: backend.ErrFenced}), 4, "fenced"},
		{withHint(&segment.EventError{Err: segment.ErrTooLarge}, "hint"), 2, "too-large"},
	} {
		if exit, code := classify(test.err); exit != test.exit || code != test.code {
			t.Errorf("%v: %d %s, want %d %s", test.err, exit, code, test.exit, test.code)
		}
	}
}

// docs/cli.md lists the same codes, and every verb and flag.
func TestExitCodesAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d) \|[^|]*\|(.*)\|$`).FindAllStringSubmatch(string(text), -1) {
		for _, code := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(row[2], -1) {
			documented[code[1]] = row[1]
		}
	}
	want := map[string]string{}
	for code, exit := range exits {
		want[code] = fmt.Sprint(exit)
	}
	if diff := cmp.Diff(want, documented); diff != "" {
		t.Errorf("-table of the program +docs/cli.md:\n%s", diff)
	}
	g := newGlobals(surroundings{})
	root := newRootCommand(g)
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" || cmd.Name() == "help" {
			continue
		}
		if !strings.Contains(string(text), "\n### "+cmd.Use) {
			t.Errorf("docs/cli.md has no heading %q", cmd.Use)
		}
	}
	for _, flag := range flagNames(root) {
		if !strings.Contains(string(text), "`--"+flag) && !strings.Contains(string(text), "--"+flag+"`") {
			t.Errorf("docs/cli.md does not explain --%s", flag)
		}
	}
}

func TestDescribe(t *testing.T) {
	inner := &backend.OpError{Op: "read", Log: "inner", Key: "segments/x", Seq: 7, Err: &objstore.Error{Op: "Get", Key: "k", Class: objstore.ErrNotExist, Hint: "store's"}}
	outer := fmt.Errorf("file: %w", &backend.OpError{Op: "load", Log: "outer", Seq: -1, Err: fmt.Errorf("%w: %w", backend.ErrMissing, inner)})
	text := func(s string) *string { return &s }
	seq := int64(7)
	const said = `file: read "outer": object is missing: read "inner" (object "segments/x") at seq 7: Get k: object does not exist`
	for _, test := range []struct {
		err  error
		want failure
		exit int
	}{
		{errors.New("a\nb"), failure{Error: "a\nb", Code: "failure"}, 1},
		{outer, failure{Error: said, Code: "missing", Log: text("outer"), Key: text("segments/x"), Seq: &seq, Hint: text("store's")}, 6},
		{withHint(outer, "mine"), failure{Error: said, Code: "missing", Log: text("outer"), Key: text("segments/x"), Seq: &seq, Hint: text("mine")}, 6},
		{tokened{backend.ErrOutcomeUnknown, "t"}, failure{Error: "outcome unknown", Code: "outcome-unknown", Token: "t"}, 9},
	} {
		got, exit := describe(test.err, "read")
		if diff := cmp.Diff(test.want, got); diff != "" || exit != test.exit {
			t.Errorf("%v: exit code %d, -want +got:\n%s", test.err, exit, diff)
		}
	}
}

func TestTexts(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 999 << 10: "999 KiB", 1023 << 10: "0.999 MiB", 5 << 20: "5 MiB", 3 << 40: "3 TiB", 3000 << 40: "3e+03 TiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d bytes are %s, want %s", n, got, want)
		}
	}
	for s, want := range map[int64]string{-5: "0s", 0: "0s", 59: "59s", 60: "1m", 3599: "59m", 3600: "1h", 47 * 3600: "47h", 48 * 3600: "2d", 400 * 86400: "400d"} {
		if got := ageText(seconds(s)); got != want {
			t.Errorf("%d s are %s, want %s", s, got, want)
		}
	}
	if got := seqs(3, 1) + seqs(3, 2) + seqs(3, 0) + events(1) + events(2); got != "(seq 3) of(seq 3 to 4) ofof1 event2 events" {
		t.Error(got)
	}
}

// Every name that an error has in the library has its exit code here, and none has
// one for nothing.
func TestCodesOfTheLibrary(t *testing.T) {
	names := append(backend.Codes(), "failure")
	for _, own := range ownErrors {
		if !slices.Contains(names, own.code) {
			names = append(names, own.code)
		}
		if exit, code := classify(fmt.Errorf("%w: %w", backend.ErrCorrupt, own.err)); code != own.code || exit != exits[own.code] {
			t.Errorf("%v: %d %s", own.err, exit, code)
		}
		if _, code := classify(fmt.Errorf("%w: %w", own.err, backend.ErrOutcomeUnknown)); code != "outcome-unknown" {
			t.Errorf("%v with an unknown outcome: %s", own.err, code)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(exits)), slices.Sorted(slices.Values(names))); diff != "" {
		t.Error("-exit codes +names:", diff)
	}
	if backend.Code(nil) != "" || backend.Code(errors.New("anything")) != "failure" {
		t.Error("an error without a name")
	}
}
