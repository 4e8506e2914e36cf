package integration

import (
	"slices"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
)

// On a server, with the rights of a writer: a log is folded, loses its manifest,
// has it damaged, and is made again each time, with everything that was sealed;
// with those of an auditor it is checked.
func TestFoldCheckAndRebuildOnAServer(t *testing.T) {
	r := newRig(t)
	lines, before := grown(t, r.direct, "log/ü")
	writer, auditor := r.user(t), r.user(t)
	key := manifest.Key("log/ü")

	check := func() (l backend.FsckLog) {
		t.Helper()
		r.give(t, readPolicy(t, "auditor", r.bucket, auditor.AccessKey, ""))
		n := 0
		for found, err := range backend.NewReader(r.as(t, auditor), quick).Fsck(t.Context(), backend.FsckOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			if found.Log == "log/ü" || found.Key == key {
				l = found
				n++
			}
		}
		if n != 1 {
			t.Fatalf("%d reports", n)
		}
		return l
	}
	rebuild := func(want backend.RebuildCase) {
		t.Helper()
		r.give(t, readPolicy(t, "writer", r.bucket, writer.AccessKey, ""))
		rep, err := backend.New(r.as(t, writer), quick).Rebuild(t.Context(), "log/ü", backend.RebuildOptions{})
		if err != nil || rep.Found != want || !rep.Done || rep.UID != before.UID {
			t.Fatalf("%+v, %v", rep, err)
		}
		if got := checkedRead(t, backend.NewReader(r.direct, quick), "log/ü"); int64(len(got)) != rep.Next || !slices.Equal(got, lines[:rep.Next]) {
			t.Errorf("%d events", len(got))
		}
	}

	r.give(t, readPolicy(t, "writer", r.bucket, writer.AccessKey, ""))
	rep, err := backend.New(r.as(t, writer), quick).Fold(t.Context(), "log/ü", backend.FoldOptions{Tail: backend.FoldTailTake})
	if err != nil || rep.After.Segments >= rep.Before.Segments || rep.After.Tail != 0 {
		t.Fatalf("%+v, %v", rep, err)
	}
	if got := checkedRead(t, backend.NewReader(r.direct, quick), "log/ü"); !slices.Equal(got, lines) {
		t.Errorf("%d events, there were %d", len(got), len(lines))
	}
	if l := check(); !l.OK() || l.Segments != rep.After.Segments || len(l.Unnamed) == 0 {
		t.Errorf("%+v", l)
	}

	if err := r.direct.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if l := check(); l.State != "" || len(l.Findings) != 1 || l.Findings[0].Kind != "headless" {
		t.Errorf("%+v", l)
	}
	rebuild(backend.RebuildMissing)
	if l := check(); !l.OK() {
		t.Errorf("%+v", l)
	}

	obj, err := r.direct.Get(t.Context(), key, objstore.GetOptions{})
	if err == nil {
		_, err = r.direct.Put(t.Context(), key, obj.Body[:len(obj.Body)/2], objstore.IfVersion(obj.Version), objstore.PutOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	if l := check(); l.OK() {
		t.Errorf("%+v", l)
	}
	rebuild(backend.RebuildDamaged)
	if l := check(); !l.OK() {
		t.Errorf("%+v", l)
	}
	l := mustAdopt(t, r.direct, "log/ü", quick)
	mustAppend(t, l, note(0))
}
