package main

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/s3store"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/localstack"
	"github.com/s3log/s3log/manifest"
)

// session writes a session whose writer stops in the middle of a compaction.
func session(t *testing.T, store objstore.Store, id string, types ...string) {
	t.Helper()
	l, err := backend.New(store, backend.Options{Label: "writer"}).Create(id, backend.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var events [][]byte
	for _, typ := range types {
		events = append(events, fmt.Appendf(nil, `{"type":%q,"data":{"turn":1}}`, typ))
	}
	if _, err := l.Append(t.Context(), events, backend.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
		t.Fatal(err)
	}
}

// resumed begins the next lifecycle of a session.
func resumed(t *testing.T, store objstore.Store, id string) {
	t.Helper()
	if _, _, err := backend.New(store, backend.Options{Label: "heir"}).Resume(t.Context(), id, backend.ResumeOptions{Release: true}); err != nil {
		t.Fatal(err)
	}
}

func judged(t *testing.T, store objstore.Reader, id string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	code := judge(t.Context(), backend.NewReader(store, backend.Options{}), id, &out)
	return out.String(), code
}

func TestVerdictIsOneGet(t *testing.T) {
	mem := memstore.New(t)
	session(t, mem, "balanced", "turn/start", "compaction/start", "compaction/end")
	session(t, mem, "live", "turn/start", "compaction/start")
	session(t, mem, "stale", "turn/start", "compaction/start")
	resumed(t, mem, "stale")
	before := mem.Snapshot("")
	for id, want := range map[string]struct {
		code int
		text string
	}{
		"balanced": {exitFree, "verdict: balanced, as of revision 1 and generation 1\nowner: \"writer\", released: false, lease: none\n"},
		"live":     {exitLive, "verdict: live, as of revision 1 and generation 1\nopened: compaction/start at seq 1, by generation 1\nowner: \"writer\", released: false, lease: none\n"},
		"stale": {exitFree, "verdict: stale, as of revision 2 and generation 2\nopened: compaction/start at seq 1, by generation 1\n" +
			"boundary: at seq 3\nthe boundary came later: the lifecycle that opened it has ended\nowner: \"heir\", released: true, lease: none\n"},
	} {
		requests := tracestore.New(mem, tracestore.Options{})
		text, code := judged(t, requests, id)
		if diff := cmp.Diff(want.text, text); diff != "" || code != want.code {
			t.Errorf("%s: exit %d, want %d, %s", id, code, want.code, diff)
		}
		if c := requests.Counts(); c.Get != 1 || c.Put+c.Head+c.List+c.Delete != 0 {
			t.Errorf("%s: %+v", id, c)
		}
	}
	if diff := cmp.Diff(before, mem.Snapshot("")); diff != "" {
		t.Error(diff)
	}
}

func TestExitCodes(t *testing.T) {
	mem := memstore.New(t)
	session(t, mem, "log", "note")
	body := mem.Snapshot("")[manifest.Key("log")]
	for _, tc := range []struct {
		name  string
		store objstore.Reader
		id    string
		want  int
	}{
		{"not there", mem, "other", exitMissing},
		{"denied", faultstore.New(mem, faultstore.Rule{Fault: faultstore.Denied()}), "log", exitDenied},
		{"out of reach", faultstore.New(mem, faultstore.Rule{Fault: faultstore.Unavailable()}), "log", exitFailure},
		{"damaged", replaced(t, bytes.Replace(body, []byte(`"next":1`), []byte(`"next":2`), 1)), "log", exitDamaged},
	} {
		text, code := judged(t, tc.store, tc.id)
		if code != tc.want || !strings.HasPrefix(text, "cannot be judged: ") {
			t.Errorf("%s: exit %d, want %d: %s", tc.name, code, tc.want, text)
		}
		var out bytes.Buffer
		if code := prove(t.Context(), backend.NewReader(tc.store, backend.Options{}), tc.id, nil, &out); code != tc.want {
			t.Errorf("proving what is %s: exit %d, want %d: %s", tc.name, code, tc.want, &out)
		}
	}
}

// replaced is a store whose only manifest is this.
func replaced(t *testing.T, body []byte) objstore.Store {
	mem := memstore.New(t)
	mem.Replace(manifest.Key("log"), body)
	return mem
}

func TestProof(t *testing.T) {
	dir := t.TempDir()
	store, err := filestore.Open(dir, filestore.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	session(t, store, "log", "turn/start", "compaction/start")
	audit := func(args ...string) (string, int) {
		var out bytes.Buffer
		code := run(t.Context(), append([]string{"-store", dir}, args...), &out, &out)
		return out.String(), code
	}
	text, code := audit("-prove", "log")
	_, noted, found := strings.Cut(text, "note this elsewhere: ")
	if code != exitLive || !found || !strings.HasPrefix(text, "verified: 2 events") {
		t.Fatalf("exit %d: %s", code, text)
	}
	noted, _, _ = strings.Cut(noted, "\n")
	resumed(t, store, "log")
	if text, code := audit("-since", noted, "log"); code != exitFree || !strings.Contains(text, "verdict: stale") {
		t.Errorf("exit %d: %s", code, text)
	}
	// Of another past.
	session(t, store, "other", "turn/start", "note")
	if text, code := audit("-since", noted, "other"); code != exitDamaged || !strings.Contains(text, "finding: since") {
		t.Errorf("exit %d: %s", code, text)
	}
	for _, args := range [][]string{{}, {"a", "b"}, {"-since", "x", "log"}, {"-unknown", "log"}} {
		if text, code := audit(args...); code != exitUsage || text == "" {
			t.Errorf("%q: exit %d: %s", args, code, text)
		}
	}
	if text, code := audit("-store", dir+"/none", "log"); code == exitFree {
		t.Error(text)
	}
}

// With a client of one's own, whose keys may get objects and nothing else.
func TestAuditorWithReadOnlyKeys(t *testing.T) {
	srv := localstack.Start(t)
	bucket := srv.Bucket(t)
	owner, err := s3store.New(srv.Client(t), bucket, "sessions", s3store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	session(t, owner, "log", "turn/start", "compaction/start")
	client := srv.Client(t)
	if keys, ok := srv.ReadOnly(t, bucket); ok {
		client = keys.Client(t)
	} else {
		t.Log("this server keeps no users: the auditor has the owner's keys")
	}
	store, err := s3store.New(client, bucket, "sessions", s3store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if text, code := judged(t, store, "log"); code != exitLive {
		t.Errorf("exit %d: %s", code, text)
	}
	resumed(t, owner, "log")
	text, code := judged(t, store, "log")
	if code != exitFree || !strings.Contains(text, "verdict: stale") {
		t.Errorf("exit %d: %s", code, text)
	}
	var out bytes.Buffer
	if code := prove(t.Context(), backend.NewReader(store, backend.Options{}), "log", nil, &out); code != exitFree {
		t.Errorf("exit %d: %s", code, &out)
	}
}

func TestEveryExitIsOfAKnownError(t *testing.T) {
	known := map[string]bool{}
	for _, err := range []error{backend.ErrNotFound, backend.ErrDeleted, backend.ErrCorrupt, backend.ErrMissing, backend.ErrRolledBack, backend.ErrDenied, backend.ErrUnsupportedVersion} {
		known[backend.Code(err)] = true
	}
	for name := range maps.Keys(exits) {
		if !known[name] {
			t.Errorf("no error is named %s", name)
		}
	}
	if len(known) != len(exits) {
		t.Errorf("%v, %v", known, exits)
	}
}
