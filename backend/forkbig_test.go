package backend_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// The big logs: three segments of 4 MB each, which is more than a fork encodes
// anew, and five events in the tail. In "log" a person wrote at seq 20, in
// "quiet" nobody did; a compaction is open since seq 21.
const (
	perSegment = 256
	sealed     = 3 * perSegment
	bigNext    = sealed + 5
)

func bigEvent(rng *rand.Rand, id string, seq int) []byte {
	switch {
	case seq == 20 && id == "log":
		return []byte(`{"type":"user/message","seq":20,"time":20,"data":{"source":{"kind":"user"}}}`)
	case seq == 21:
		return []byte(`{"type":"compaction/start","seq":21,"time":21,"data":{}}`)
	case seq >= sealed:
		return fmt.Appendf(nil, `{"type":"note","seq":%d,"time":%d,"data":0}`, seq, seq)
	}
	return fmt.Appendf(nil, `{"type":"note","seq":%d,"time":%d,"data":%q}`, seq, seq, strings.Repeat(fmt.Sprintf("%016x ", rng.Uint64()), 1000))
}

var bigLines = sync.OnceValue(func() map[string][][]byte {
	all := map[string][][]byte{}
	for _, id := range []string{"log", "quiet"} {
		rng := rand.New(rand.NewPCG(1, 2))
		for seq := range bigNext {
			all[id] = append(all[id], bigEvent(rng, id, seq))
		}
	}
	return all
})

var bigObjects = sync.OnceValues(func() (map[string][]byte, error) {
	mem, ctx := memstore.New(nil), context.Background()
	b := backend.New(mem, backend.Options{Foreground: true})
	for id, all := range bigLines() {
		for events := range slices.Chunk(all, perSegment) {
			l, err := b.Adopt(ctx, id, backend.AdoptOptions{})
			if errors.Is(err, backend.ErrNotFound) {
				l, err = b.Create(id, backend.CreateOptions{Header: []byte(`{"createdAt":5}`)})
			}
			if err == nil {
				_, err = l.Append(ctx, events, backend.AppendOptions{})
			}
			if err == nil {
				err = l.Close(ctx, backend.CloseOptions{Seal: len(events) == perSegment})
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return mem.Snapshot(""), nil
})

// bigStore is a store with the big logs.
func bigStore(t testing.TB) *memstore.Store {
	t.Helper()
	objects, err := bigObjects()
	if err != nil {
		t.Fatal(err)
	}
	return restore(t, objects)
}

// sameLines compares a child with the parent's lines, and expects a boundary
// behind them.
func sameLines(t testing.TB, r *backend.Reader, id string, want [][]byte) {
	t.Helper()
	n := 0
	for ev, err := range r.Events(t.Context(), id, backend.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n < len(want) && string(ev.Line) != string(want[n]) || n == len(want) && !strings.HasPrefix(string(ev.Line), `{"type":"session/end-seed"`) {
			t.Fatalf("%s: seq %d is %.100s", id, n, ev.Line)
		}
		n++
	}
	if n != len(want)+1 {
		t.Errorf("%s: %d events, want %d", id, n, len(want)+1)
	}
}

// noCopies hides that a store can copy.
type noCopies struct{ objstore.Store }

// A big prefix is shared: whole segments as they are, inside the store where it
// can, else through here; only the cut segment and the tail are encoded anew.
func TestForkOfABigParent(t *testing.T) {
	for _, tc := range []struct {
		name string
		wrap func(mem *memstore.Store) objstore.Store
		// Of the fork at the end, at the end of a segment, inside one.
		want [3]tracestore.Counts
	}{
		{"copied inside", func(mem *memstore.Store) objstore.Store { return mem },
			[3]tracestore.Counts{{Get: 2, Copy: 3, Put: 2}, {Get: 2, Copy: 2, Put: 2}, {Get: 3, Copy: 2, Put: 2}}},
		{"copied through here", func(mem *memstore.Store) objstore.Store { return noCopies{mem} },
			[3]tracestore.Counts{{Get: 5, Put: 5}, {Get: 4, Put: 4}, {Get: 5, Put: 4}}},
		{"copying is denied", func(mem *memstore.Store) objstore.Store {
			return faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Copy"), Fault: faultstore.Denied()})
		}, [3]tracestore.Counts{{Get: 5, Put: 5, Copy: 1}, {Get: 4, Put: 4, Copy: 1}, {Get: 5, Put: 4, Copy: 1}}},
		{"a copy is not answered", func(mem *memstore.Store) objstore.Store {
			return faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Copy"), Nth: 1, Fault: faultstore.LostReply()})
		}, [3]tracestore.Counts{{Get: 3, Put: 3, Copy: 3}, {Get: 2, Put: 2, Copy: 2}, {Get: 3, Put: 2, Copy: 2}}},
		{"a copy without its size", func(mem *memstore.Store) objstore.Store {
			return faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Copy"), Fault: faultstore.Edit(func(o *objstore.Object) { o.Size = 0 })})
		}, [3]tracestore.Counts{{Get: 2, Copy: 3, Put: 2, Head: 3}, {Get: 2, Copy: 2, Put: 2, Head: 2}, {Get: 3, Copy: 2, Put: 2, Head: 2}}},
		{"a copy that is not whole", func(mem *memstore.Store) objstore.Store {
			return faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Copy"), Nth: 1, Fault: faultstore.Edit(func(o *objstore.Object) { o.Size-- })})
		}, [3]tracestore.Counts{{Get: 3, Put: 3, Copy: 3}, {Get: 2, Put: 2, Copy: 2}, {Get: 3, Put: 2, Copy: 2}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem := bigStore(t)
			store := tracestore.New(tc.wrap(mem), tracestore.Options{})
			var traced objstore.Store = store
			if tc.name == "copied through here" {
				traced = noCopies{store}
			}
			before := mem.Snapshot("segments/log/")
			for i, at := range []int64{bigNext - 1, 2*perSegment - 1, 2*perSegment + 100} {
				child := fmt.Sprint("child", i)
				b := backend.New(traced, backend.Options{})
				spend(t, store, child, tc.want[i], func() { forked(t, b, "log", child, backend.ForkOptions{At: &at}) })
				sameLines(t, b.Reader, child, bigLines()["log"][:at+1])
				verifyClean(t, b.Reader, child)
				c := info(t, b.Reader, child)
				if n := len(c.Segments); n != 1+int(at+1)/perSegment || c.Tail != 0 || *c.Content.Activity != 20 {
					t.Errorf("%d segments, a tail of %d, activity %d", n, c.Tail, *c.Content.Activity)
				}
				if v, err := b.Check(t.Context(), child, compaction, backend.CheckOptions{}); err != nil || v.Answer != seedpath.Stale || v.Open.Seq != 21 {
					t.Errorf("%+v, %v", v, err)
				}
				// It goes on like any other log, and merges what it shares.
				l, _ := resume(t, backend.New(mem, backend.Options{Foreground: true}), child, backend.ResumeOptions{Claim: true})
				appendOne(t, l, event(0))
				if err := l.Close(t.Context(), backend.CloseOptions{Seal: true}); err != nil {
					t.Error(err)
				}
				l = adopt(t, backend.New(mem, backend.Options{Foreground: true}), child)
				appendOne(t, l, event(1))
				closeLog(t, l)
				verifyClean(t, b.Reader, child)
			}
			if !sameObjects(before, mem.Snapshot("segments/log/")) {
				t.Error("the parent's segments were changed")
			}
			verifyClean(t, backend.NewReader(mem, backend.Options{}), "log")
			dropLog(mem, "log")
			verifyClean(t, backend.NewReader(mem, backend.Options{}), "child0") // G6
		})
	}
}

func sameObjects(a, b map[string][]byte) bool {
	for key, body := range a {
		if string(b[key]) != string(body) {
			return false
		}
	}
	return len(a) == len(b)
}

// dropLog removes everything of a log.
func dropLog(mem *memstore.Store, id string) {
	for key := range mem.Snapshot("segments/" + id + "/") {
		mem.Drop(key)
	}
	mem.Drop(manifest.Key(id))
}

// As long as no person has written, a log's activity is its own header's, also
// where its segments were copied from a log with another header, and from a log
// that had copied them itself.
func TestActivityOfSharedSegments(t *testing.T) {
	header := func(created int) []byte { return fmt.Appendf(nil, `{"createdAt":%d}`, created) }
	for _, tc := range []struct {
		parent          string
		header          []byte
		child, again    int64 // activity, -1: none
		grandchild, own int64
	}{
		{"quiet", header(77), 77, 77, 99, -1},
		{"quiet", header(5), 5, 5, 99, -1},
		{"quiet", []byte(`{}`), -1, -1, 99, -1},
		{"log", header(77), 20, 20, 20, 20},
		{"log", header(20), 20, 20, 20, 20}, // the person wrote when the session began
	} {
		mem := bigStore(t)
		b := backend.New(mem, backend.Options{})
		activity := func(id string) int64 {
			verifyClean(t, b.Reader, id)
			if a := info(t, b.Reader, id).Content.Activity; a != nil {
				return *a
			}
			return -1
		}
		what := fmt.Sprintf("%s, %s", tc.parent, tc.header)
		forked(t, b, tc.parent, "child", backend.ForkOptions{Header: tc.header})
		if got := activity("child"); got != tc.child {
			t.Errorf("%s: child %d", what, got)
		}
		// Cut inside what the child has from its parent, by header of its own and by
		// none; and behind it.
		inside := ptr(int64(2*perSegment + 1))
		forked(t, b, "child", "again", backend.ForkOptions{At: inside})
		forked(t, b, "child", "grandchild", backend.ForkOptions{At: inside, Header: header(99)})
		forked(t, b, "child", "own", backend.ForkOptions{Header: []byte(`{}`)})
		for id, want := range map[string]int64{"again": tc.again, "grandchild": tc.grandchild, "own": tc.own} {
			if got := activity(id); got != want {
				t.Errorf("%s: %s %d, want %d", what, id, got, want)
			}
		}
	}
}

// Segments that are replaced by others while they are copied are found again; a
// segment that is really not there is named, and there is no child then.
func TestForkMeetsReplacedSegments(t *testing.T) {
	at := ptr(int64(2*perSegment + 100))
	for _, copies := range []bool{true, false} {
		for n := 1; ; n++ {
			mem := bigStore(t)
			all := faultstore.New(mem)
			in := all.Inject(faultstore.Rule{Match: faultstore.Op("Get", "Copy"), Nth: n, Fault: faultstore.Before(func() { rewrite(t, mem, "log") })})
			var store objstore.Store = all
			if !copies {
				store = noCopies{all}
			}
			b := backend.New(store, backend.Options{Prefetch: 1})
			forked(t, b, "log", "child", backend.ForkOptions{At: at})
			if in.Hits() == 0 {
				if n < 4 {
					t.Errorf("%d calls", n)
				}
				break
			}
			sameLines(t, b.Reader, "child", bigLines()["log"][:*at+1])
			verifyClean(t, b.Reader, "child")
		}
	}
	for name, fault := range map[string]faultstore.Fault{"missing": faultstore.Fail(objstore.ErrNotExist), "denied": faultstore.Denied()} {
		for i := range 3 {
			mem := bigStore(t)
			key := manifest.SegmentKey("log", info(t, backend.NewReader(mem, backend.Options{}), "log").Segments[i].Name)
			all := faultstore.New(mem, faultstore.Rule{Match: faultstore.And(faultstore.Op("Get"), faultstore.Key(key)), Fault: fault})
			_, _, err := backend.New(noCopies{all}, backend.Options{}).Fork(t.Context(), "log", "child", backend.ForkOptions{At: at})
			want := map[string]error{"missing": backend.ErrMissing, "denied": backend.ErrDenied}[name]
			if !errors.Is(err, want) || !strings.Contains(err.Error(), key) {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := backend.NewReader(mem, backend.Options{}).Info(t.Context(), "child"); !errors.Is(err, backend.ErrNotFound) {
				t.Error(err)
			}
		}
	}
}

// Damage in a parent ends a fork; no child is made of it.
func TestForkOfADamagedParent(t *testing.T) {
	for i := range 3 {
		mem := bigStore(t)
		key := manifest.SegmentKey("log", info(t, backend.NewReader(mem, backend.Options{}), "log").Segments[i].Name)
		body := mem.Snapshot(key)[key]
		body[len(body)/2] ^= 1
		mem.Replace(key, body)
		b := backend.New(noCopies{mem}, backend.Options{})
		_, _, err := b.Fork(t.Context(), "log", "child", backend.ForkOptions{At: ptr(int64(2*perSegment + 100))})
		if !errors.Is(err, backend.ErrCorrupt) || !strings.Contains(err.Error(), key) {
			t.Errorf("segment %d: %v", i, err)
		}
		if _, err := b.Info(t.Context(), "child"); !errors.Is(err, backend.ErrNotFound) {
			t.Error(err)
		}
	}
	// A bad event that the manifest vouches for.
	bad, keys := threeSegments(t)
	vouch(t, bad, 1, remade(t, bad, keys[1], func(seq int64, line []byte) []byte { return line[:len(line)-1] }, nil))
	if _, _, err := backend.New(bad, backend.Options{}).Fork(t.Context(), "log", "child", backend.ForkOptions{At: ptr(int64(5))}); !errors.Is(err, backend.ErrCorrupt) || !strings.Contains(err.Error(), "event 3") {
		t.Error(err)
	}
	// A manifest whose root is not that of the events: nobody else would notice.
	mem := bigStore(t)
	forgeManifest(t, mem, "log", func(r *manifest.Record) { r.Content.Tree.Range[0][0] ^= 1 })
	b := backend.New(mem, backend.Options{})
	if _, _, err := b.Fork(t.Context(), "log", "child", backend.ForkOptions{}); !errors.Is(err, backend.ErrCorrupt) || !strings.Contains(err.Error(), "root") {
		t.Error(err)
	}
	forked(t, b, "log", "child", backend.ForkOptions{At: ptr(int64(9))}) // of which the manifest says nothing
	verifyClean(t, b.Reader, "child")
}

// A parent with as many segments as a manifest holds can be forked: the child
// shares fewer, to have room for its own.
func TestForkOfAParentWithManySegments(t *testing.T) {
	mem := memstore.New(t)
	written(t, backend.New(mem, backend.Options{}), "log", nil, brief("note"))
	rng := rand.New(rand.NewPCG(7, 8))
	lines := brief("note")
	commitBy(t, mem, "log", func(base *manifest.Record, w manifest.Writer) (*manifest.Draft, error) {
		d, err := manifest.TakeOver(base, w, manifest.KindAdopt, base.Commit.At)
		if err != nil {
			return nil, err
		}
		next := *base
		next.Epoch = d.Epoch()
		for seq := range int64(manifest.MaxSegments) {
			line := lines[0]
			if seq > 0 {
				line = bigEvent(rng, "quiet", 100+int(seq)%100)
				line = fmt.Appendf(nil, `{"type":"note","seq":%d,"time":1,"data":[%s]}`, seq, line)
				ev, err := segment.ParseEvent(line, segment.Limits{})
				if err != nil {
					return nil, err
				}
				d.Append(ev)
				lines = append(lines, line)
			}
			ref := putSegment(t, mem, &next, append(slices.Clone(line), '\n'), seq, d.State(), segment.LevelFast)
			d.Seal(manifest.Upload{Ref: ref, TailFirst: seq, Commit: d.CommitID()})
		}
		d.SetTail(nil)
		return d, nil
	})
	b := backend.New(mem, backend.Options{})
	if n := len(info(t, b.Reader, "log").Segments); n != manifest.MaxSegments {
		t.Fatalf("%d segments", n)
	}
	for at, want := range map[int64]int{manifest.MaxSegments - 1: manifest.MaxSegments/2 + 1, manifest.MaxSegments - 10: manifest.MaxSegments - 9 + 1} {
		child := fmt.Sprint("child", at)
		forked(t, b, "log", child, backend.ForkOptions{At: &at})
		sameLines(t, b.Reader, child, lines[:at+1])
		verifyClean(t, b.Reader, child)
		if n := len(info(t, b.Reader, child).Segments); n != want {
			t.Errorf("%d segments, want %d", n, want)
		}
	}
}
