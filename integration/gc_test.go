package integration

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/internal/faultproxy"
	"github.com/s3log/s3log/manifest"
)

// shortGrace is over by the next second of the server's clock.
const shortGrace = time.Millisecond

// pastGrace waits for it. Times on S3 have whole seconds.
func pastGrace() { time.Sleep(2100 * time.Millisecond) }

// abandoned uploads a segment that nobody names.
func abandoned(t *testing.T, store objstore.Store, id string, epoch uint32) string {
	t.Helper()
	name := manifest.Name{First: 5, Epoch: epoch, Nonce: manifest.NewNonce()}
	if err := manifest.PutSegment(t.Context(), store, id, name, []byte("nobody names it"), manifest.Options{}); err != nil {
		t.Fatal(err)
	}
	return manifest.SegmentKey(id, name)
}

// collectAll does what a collector does, on a store of which nothing is known: it
// makes a barrier, removes what nobody names, and voids the id of a log that has
// objects but no manifest.
func collectAll(t *testing.T, r *rig, store objstore.Store) error {
	if err := prove(t, r, store); err != nil {
		return err
	}
	tries++
	id := fmt.Sprint("garbage-", tries)
	mustAppend(t, mustCreate(t, r.direct, id, quick), note(0))
	garbage := []string{abandoned(t, r.direct, id, 1), abandoned(t, r.direct, id+"-none", 1)}
	pastGrace()
	_, err := collectStore(t, store)
	if err != nil {
		return err
	}
	for _, key := range garbage {
		if _, err := r.direct.Head(t.Context(), key); !errors.Is(err, objstore.ErrNotExist) {
			t.Errorf("%s is left: %v", key, err)
		}
	}
	return nil
}

// collectStore collects the whole store; the error is all that went wrong.
func collectStore(t *testing.T, store objstore.Store) (all []backend.GCLog, err error) {
	t.Helper()
	var errs []error
	for g, err := range backend.New(store, quick).GC(t.Context(), backend.GCOptions{Grace: shortGrace}) {
		errs = append(errs, err, g.Err)
		for _, o := range g.Objects {
			errs = append(errs, o.Err)
		}
		all = append(all, g)
	}
	return all, errors.Join(errs...)
}

// On a server, with the rights of a collector and no others: a writer seals and
// merges beside it, a log is forked and deleted, uploads are abandoned. Every log
// is whole afterwards, and nothing is left that nobody names. The collector reads
// no segment, and when there is nothing to do it writes nothing.
func TestCollectionOnAServer(t *testing.T) {
	r := newRig(t)
	grown(t, r.direct, "grown")
	b := backend.New(r.direct, quick)
	if _, _, err := b.Fork(t.Context(), "grown", "child/ü", backend.ForkOptions{Release: true}); err != nil {
		t.Fatal(err)
	}
	child := checkedRead(t, b.Reader, "child/ü")
	if _, err := b.Delete(t.Context(), "grown", backend.AdoptOptions{TakeOver: true}); err != nil {
		t.Fatal(err)
	}
	abandoned(t, r.direct, "child/ü", 1)
	abandoned(t, r.direct, "a/void", 1)

	who := r.user(t)
	r.give(t, readPolicy(t, "collector", r.bucket, who.AccessKey, ""))
	store := r.as(t, who)
	l := mustCreate(t, r.direct, "live", quick)
	want := 0
	removed := 0
	for range 4 {
		for range 3 {
			mustAppend(t, l, notes(t, want, 300)...)
			want += 300
		}
		pastGrace()
		all, err := collectStore(t, store)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range all {
			n, _ := g.Removed()
			removed += n
		}
	}
	if err := l.Close(t.Context(), backend.CloseOptions{Release: true}); err != nil {
		t.Fatal(err)
	}
	pastGrace()
	if _, err := collectStore(t, store); err != nil {
		t.Fatal(err)
	}
	entries := r.proxy.Take()
	if reads := entries.Of(faultproxy.Get, "/segments/"); len(reads) > 0 {
		t.Errorf("the collector has read %d segments", len(reads))
	}
	if _, err := collectStore(t, store); err != nil {
		t.Fatal(err)
	}
	if c := r.proxy.Take().Counts(); c[faultproxy.Put]+c[faultproxy.Delete] != 0 || c[faultproxy.List] < 2 {
		t.Errorf("without garbage: %v", c)
	}
	if removed < 8 {
		t.Errorf("%d objects were removed: the test shows too little", removed)
	}

	if got := checkedRead(t, b.Reader, "live"); len(got) != want {
		t.Errorf("%d events, want %d", len(got), want)
	}
	if got := checkedRead(t, b.Reader, "child/ü"); !slices.Equal(got, child) {
		t.Errorf("%d events in the child, there were %d", len(got), len(child))
	}
	left := map[string]bool{}
	for info, err := range r.direct.List(t.Context(), manifest.SegmentTree, "") {
		if err != nil {
			t.Fatal(err)
		}
		left[info.Key] = true
	}
	for id, state := range map[string]manifest.LogState{"live": manifest.StateOpen, "child/ü": manifest.StateOpen, "grown": manifest.StateDeleted, "a/void": manifest.StateVoid} {
		head, err := manifest.Load(t.Context(), r.direct, id, manifest.LoadOptions{})
		if err != nil || head.Record.State != state {
			t.Fatalf("%s: %+v, %v", id, head.Record, err)
		}
		for _, s := range head.Record.Segments {
			key := manifest.SegmentKey(id, s.Name)
			if !left[key] {
				t.Errorf("%s is gone", key)
			}
			delete(left, key)
		}
		if state != manifest.StateOpen {
			continue
		}
		if rep, err := b.Verify(t.Context(), id, backend.VerifyOptions{}); err != nil || !rep.OK() {
			t.Errorf("%+v, %v", rep, err)
		}
	}
	if len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}
