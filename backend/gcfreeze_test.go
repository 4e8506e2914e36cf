package backend_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
)

// frozen is a store as one process sees it that stands still at one of its
// requests, before it is sent or when the store has answered it, with all its
// other requests that come after, while the world goes on.
type frozen struct {
	store *memstore.Store
	world func()

	mu     sync.Mutex
	n      int
	at     int
	after  bool
	struck string        // the request that it stood still at
	thawed chan struct{} // closed when it goes on; nil while it has not stood still
}

// pass makes one request.
func (f *frozen) pass(op, key string, send func()) {
	f.mu.Lock()
	f.n++
	mine := f.n == f.at
	if mine {
		f.struck, f.thawed = op+" "+key, make(chan struct{})
	}
	thawed := f.thawed
	f.mu.Unlock()
	switch {
	case mine && f.after:
		send()
		f.world()
		close(thawed)
		return
	case mine:
		f.world()
		close(thawed)
	case thawed != nil:
		<-thawed
	}
	send()
}

func (f *frozen) Get(ctx context.Context, key string, opt objstore.GetOptions) (o objstore.Object, err error) {
	f.pass("Get", key, func() { o, err = f.store.Get(ctx, key, opt) })
	return o, err
}

func (f *frozen) Head(ctx context.Context, key string) (i objstore.Info, err error) {
	f.pass("Head", key, func() { i, err = f.store.Head(ctx, key) })
	return i, err
}

func (f *frozen) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		var all []objstore.Info
		var err error
		f.pass("List", prefix, func() {
			for info, lerr := range f.store.List(ctx, prefix, after) {
				if err = lerr; err == nil {
					all = append(all, info)
				}
			}
		})
		for _, info := range all {
			if !yield(info, nil) {
				return
			}
		}
		if err != nil {
			yield(objstore.Info{}, err)
		}
	}
}

func (f *frozen) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (i objstore.Info, err error) {
	f.pass("Put", key, func() { i, err = f.store.Put(ctx, key, body, cond, opt) })
	return i, err
}

func (f *frozen) Delete(ctx context.Context, key string) (err error) {
	f.pass("Delete", key, func() { err = f.store.Delete(ctx, key) })
	return err
}

func (f *frozen) Copy(ctx context.Context, src, dst string) (i objstore.Info, err error) {
	f.pass("Copy", dst, func() { i, err = f.store.Copy(ctx, src, dst) })
	return i, err
}

// ledger is what callers were told, by log and seq.
type ledger struct {
	mu     sync.Mutex
	acked  map[string]map[int64]string
	denied []string // texts of events that are in no log
	rng    *rand.Rand
}

// noise is a new event that does not compress, unlike any other.
func (l *ledger) noise(n int) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return noise(l.rng, n, 20000)
}

// append appends new events one by one, until one is not taken.
func (l *ledger) append(h *backend.Log, n int) error {
	for i := range n {
		ev := l.noise(i)
		r, err := h.Append(context.Background(), [][]byte{ev}, backend.AppendOptions{})
		if err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.denied = append(l.denied, string(ev[bytes.Index(ev, []byte(`"data"`)):]))
			return err
		}
		l.ack(h.ID(), r.First, stored(int(r.First), ev))
	}
	return nil
}

func (l *ledger) ack(id string, seq int64, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acked[id] == nil {
		l.acked[id] = map[int64]string{}
	}
	l.acked[id][seq] = line
}

// whole notes that a log holds all that it holds.
func (l *ledger) whole(r *backend.Reader, id string) error {
	for ev, err := range r.Events(context.Background(), id, backend.ReadOptions{}) {
		if err != nil {
			return err
		}
		l.ack(id, ev.Seq, string(ev.Line))
	}
	return nil
}

// holds compares the logs of a store with what callers were told, and each with
// itself.
func (l *ledger) holds(t *testing.T, mem *memstore.Store) {
	t.Helper()
	r := backend.NewReader(mem, backend.Options{})
	for e, err := range r.List(t.Context(), backend.ListOptions{By: backend.ByName}) {
		if err != nil || e.Err != nil {
			t.Fatal(err, e.Err)
		}
		lines := read(t, r, e.Log, 0)
		verifyClean(t, r, e.Log)
		for seq, line := range l.acked[e.Log] {
			if seq >= int64(len(lines)) || lines[seq] != line {
				t.Errorf("%s: seq %d was acknowledged and is not in the log of %d events", e.Log, seq, len(lines))
			}
		}
		delete(l.acked, e.Log)
		all := strings.Join(lines, "\n")
		for _, text := range l.denied {
			if strings.Contains(all, text) {
				t.Errorf("%s: an event was refused, and is in the log", e.Log)
			}
		}
	}
	for id := range l.acked {
		if i, err := r.Info(t.Context(), id); err != nil || i.State != manifest.StateDeleted {
			t.Errorf("%s had acknowledged events and is not listed: %+v, %v", id, i, err)
		}
	}
}

// sweep collects twice, with the grace passing before each.
func sweep(t *testing.T, mem *memstore.Store) {
	t.Helper()
	for range 2 {
		time.Sleep(day + time.Minute)
		collect(t, mem, backend.GCOptions{})
	}
}

// clean demands that nothing is left but what manifests name.
func clean(t *testing.T, mem *memstore.Store) {
	t.Helper()
	left := map[string]bool{}
	for _, key := range keys(mem, manifest.SegmentTree) {
		left[key] = true
	}
	for _, key := range keys(mem, manifest.ManifestPrefix) {
		id, _, _ := manifest.ParseKey(key)
		for _, s := range record(t, mem, id).Segments {
			delete(left, manifest.SegmentKey(id, s.Name))
		}
	}
	if len(left) > 0 {
		t.Errorf("garbage is left: %q", slices.Sorted(maps.Keys(left)))
	}
}

// patient is a process that never gives up by itself, so that what it does when
// it goes on is not to give up.
func patient(foreground bool) backend.Options {
	return backend.Options{Foreground: foreground, CommitTimeout: 1000 * day}
}

// actor is a process, and what may come of it in a world.
type actor struct {
	name  string
	start func(t *testing.T, mem *memstore.Store, l *ledger) // what is there before
	act   func(b *backend.Backend, l *ledger) error
	// lost are the errors that it may end with where only collections happen.
	lost []error
}

// parent makes a log with three segments, of which a fork takes the first two
// and part of the third, and a tail.
func parent(t *testing.T, mem *memstore.Store, l *ledger) {
	t.Helper()
	h := create(t, backend.New(mem, backend.Options{Foreground: true}), "log")
	if err := l.append(h, 12); err != nil {
		t.Fatal(err)
	}
	closeLog(t, h)
}

// errSettledMeanwhile stands for the error of a replay that has to be repeated by
// its caller.
var errSettledMeanwhile = errors.New("the id was settled by somebody else meanwhile")

var actors = []actor{
	{name: "a writer", act: func(b *backend.Backend, l *ledger) error {
		h, err := b.Create("log", backend.CreateOptions{})
		if err != nil {
			return err
		}
		return errors.Join(l.append(h, 16), h.Close(context.Background(), backend.CloseOptions{Seal: true}))
	}},
	{name: "a writer that adopts", start: parent, act: func(b *backend.Backend, l *ledger) error {
		h, err := b.Adopt(context.Background(), "log", backend.AdoptOptions{})
		if err != nil {
			return err
		}
		return errors.Join(l.append(h, 8), h.Close(context.Background(), backend.CloseOptions{Release: true}))
	}},
	{name: "a resume", start: parent, act: func(b *backend.Backend, l *ledger) error {
		h, _, err := b.Resume(context.Background(), "log", backend.ResumeOptions{})
		if err != nil {
			return err
		}
		return errors.Join(l.append(h, 6), h.Close(context.Background(), backend.CloseOptions{}))
	}},
	{name: "a delayed resume of an open turn", start: func(t *testing.T, mem *memstore.Store, l *ledger) {
		parent(t, mem, l)
		h := adopt(t, backend.New(mem, backend.Options{Foreground: true}), "log")
		appendOne(t, h, []byte(`{"type":"turn/start","data":{"turn":1}}`))
		closeLog(t, h)
	}, act: func(b *backend.Backend, l *ledger) error {
		h, _, err := b.Resume(context.Background(), "log", backend.ResumeOptions{Delay: true})
		if err != nil {
			return err
		}
		return errors.Join(l.append(h, 6), h.Close(context.Background(), backend.CloseOptions{}))
	}},
	{name: "a fork", start: parent, act: func(b *backend.Backend, l *ledger) error {
		h, _, err := b.Fork(context.Background(), "log", "child", backend.ForkOptions{})
		if err != nil {
			return err
		}
		if err := l.whole(b.Reader, "child"); err != nil {
			return err
		}
		return errors.Join(l.append(h, 6), h.Close(context.Background(), backend.CloseOptions{}))
	}},
	{name: "a replay", lost: []error{errSettledMeanwhile}, act: func(b *backend.Backend, l *ledger) error {
		events := func(yield func([]byte, error) bool) {
			for i := range 20 {
				if !yield(l.noise(i), nil) {
					return
				}
			}
		}
		h, _, err := b.Replay(context.Background(), "log", events, backend.ReplayOptions{})
		if err != nil {
			return err
		}
		if err := l.whole(b.Reader, "log"); err != nil {
			return err
		}
		return errors.Join(l.append(h, 6), h.Close(context.Background(), backend.CloseOptions{}))
	}},
	{name: "a fold", start: parent, act: func(b *backend.Backend, _ *ledger) error {
		_, err := b.Fold(context.Background(), "log", backend.FoldOptions{Tail: backend.FoldTailTake})
		return err
	}},
	{name: "a deletion", start: parent, act: func(b *backend.Backend, _ *ledger) error {
		_, err := b.Delete(context.Background(), "log", backend.AdoptOptions{})
		return err
	}},
	{name: "a collection", start: func(t *testing.T, mem *memstore.Store, l *ledger) {
		parent(t, mem, l)
		for epoch := range uint32(3) {
			orphan(t, mem, "log", epoch+1)
			orphan(t, mem, "none", 1)
		}
		time.Sleep(day + time.Minute)
	}, act: func(b *backend.Backend, _ *ledger) error {
		for g, err := range b.GC(context.Background(), backend.GCOptions{}) {
			if err = errors.Join(err, g.Err); err != nil {
				return err
			}
		}
		return nil
	}},
}

// world is what happens while an actor stands still: collections with the grace
// passing, and something before them.
type world struct {
	name  string
	first func(t *testing.T, mem *memstore.Store, l *ledger)
	lost  []error // that an actor may end with because of it
}

// there reports whether the log is one that can be written to.
func there(t *testing.T, mem *memstore.Store) bool {
	i, err := backend.NewReader(mem, backend.Options{}).Info(t.Context(), "log")
	if err != nil && !errors.Is(err, backend.ErrNotFound) {
		t.Error(err)
	}
	return err == nil && i.State == manifest.StateOpen
}

var worlds = []world{
	{name: "nothing else", first: func(*testing.T, *memstore.Store, *ledger) {}},
	{name: "another writer takes over", lost: []error{backend.ErrFenced}, first: func(t *testing.T, mem *memstore.Store, l *ledger) {
		if there(t, mem) {
			h := adopt(t, backend.New(mem, backend.Options{Foreground: true}), "log")
			if err := l.append(h, 12); err != nil {
				t.Error(err)
			}
			closeLog(t, h)
		}
	}},
	{name: "everything is folded", first: func(t *testing.T, mem *memstore.Store, _ *ledger) {
		if there(t, mem) {
			foldNow(t, mem, "log")
		}
	}},
	{name: "the log is deleted", lost: []error{backend.ErrDeleted}, first: func(t *testing.T, mem *memstore.Store, _ *ledger) {
		if there(t, mem) {
			if _, err := backend.New(mem, backend.Options{}).Delete(t.Context(), "log", backend.AdoptOptions{}); err != nil {
				t.Error(err)
			}
		}
	}},
}

// saysWhy reports whether an error is one of those, and says by whom and where.
func saysWhy(err error, lost []error) bool {
	return slices.ContainsFunc(lost, func(is error) bool {
		switch is {
		case errSettledMeanwhile:
			return strings.Contains(err.Error(), is.Error()) && strings.Contains(err.Error(), "repeat")
		case backend.ErrFenced:
			return errors.Is(err, is) && strings.Contains(err.Error(), "took over at seq")
		}
		return errors.Is(err, is)
	})
}

// Any process may stand still for days at any request, before it is sent or when
// it has been answered, while others write, fold, delete and collect. When it goes
// on, nothing that anybody was told is untrue, every log loads and verifies, and
// whoever has lost is told why. In the end nothing is left that nobody needs.
//
// With S3LOG_LONG set it is every request, else some of them.
func TestProcessesFrozenForDays(t *testing.T) {
	stride := 4
	switch {
	case os.Getenv("S3LOG_LONG") != "":
		stride = 1
	case raceDetector:
		stride = 32
	case testing.Short():
		stride = 16
	case os.Getenv("CI") == "true":
		stride = 2
	}
	seen := &sync.Map{} // fates of objects
	t.Cleanup(func() {
		for _, fate := range []manifest.Fate{manifest.FateStale, manifest.FateExpired, manifest.FateDeleted, manifest.FateRetired, manifest.FateBuried} {
			if _, ok := seen.Load(fate); !ok && !t.Failed() {
				t.Errorf("no collection has met an object that is %s: the test shows too little", fate)
			}
		}
	})
	for i, a := range actors {
		for k, w := range worlds {
			t.Run(a.name+", "+w.name, func(t *testing.T) {
				t.Parallel()
				if !raceDetector { // without goroutines there is no race
					frozenAtRequests(t, a, w, true, (i+k)%stride, stride, seen)
				}
				frozenAtRequests(t, a, w, false, (3*i+k)%min(stride, 8), stride, seen)
			})
		}
	}
}

func frozenAtRequests(t *testing.T, a actor, w world, foreground bool, from, stride int, seen *sync.Map) {
	for at := from + 1; ; at += stride {
		struck := ""
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New(t)
				l := &ledger{acked: map[string]map[int64]string{}, rng: rand.New(rand.NewPCG(uint64(at), 7))}
				if a.start != nil {
					a.start(t, mem, l)
				}
				f := &frozen{store: mem, at: at, after: after, world: func() {
					w.first(t, mem, l)
					for _, pause := range []time.Duration{time.Hour, 60 * time.Hour, day, 156 * time.Hour} {
						time.Sleep(pause)
						for _, fate := range fates(collect(t, mem, backend.GCOptions{})) {
							if seen != nil {
								seen.Store(fate, true)
							}
						}
					}
				}}
				err := a.act(backend.New(f, patient(foreground)), l)
				synctest.Wait()
				struck = f.struck
				if err != nil && !saysWhy(err, slices.Concat(a.lost, w.lost)) {
					t.Errorf("%v", err)
				}
				sweep(t, mem)
				l.holds(t, mem)
				clean(t, mem)
				if t.Failed() {
					t.Fatalf("it stood still at request %d, %s (foreground %v, after it %v): %v", at, struck, foreground, after, err)
				}
			})
			if t.Failed() || struck == "" { // it has made all its requests
				return
			}
		}
	}
}
