package backend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
)

// types are the types of a log's events, in order.
func types(t testing.TB, r *backend.Reader, id string) (list []string) {
	t.Helper()
	for _, e := range plainly(t, read(t, r, id, 0)) {
		list = append(list, e.Type)
	}
	return list
}

func sameTypes(t testing.TB, r *backend.Reader, id string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, types(t, r, id)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	verifyClean(t, r, id)
}

const (
	chunk = "assistant/chunk"
	mark  = "session/end-seed"
)

// What a pending resume has to write is made for what is there when it is
// written: the owner went on meanwhile, and that is no fencing.
func TestPendingResumeLooksAnew(t *testing.T) {
	store := tracestore.New(memstore.New(t), tracestore.Options{})
	b := backend.New(store, backend.Options{})
	owner := create(t, b, "log")
	if _, err := owner.Append(t.Context(), lines(interrupted), backend.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	l, r := resume(t, b, "log", backend.ResumeOptions{Delay: true})
	if r.Count != 0 || r.First != 3 || r.Next != 3 || l.Next() != 6 {
		t.Errorf("%+v, next %d", r, l.Next())
	}
	// The turn is ended, and another one begun, by the owner.
	appendAll(t, owner, []byte(`{"type":"turn/end","data":{"turn":1}}`), []byte(`{"type":"turn/start","time":99,"data":{"turn":2}}`))
	spend(t, store, "append", tracestore.Counts{Put: 2, Get: 1}, func() {
		if r := appendOne(t, l, event(0)); r.First != 7 || r.Generation != 2 {
			t.Errorf("%+v", r)
		}
	})
	if _, err := owner.Append(t.Context(), [][]byte{event(1)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrFenced) || !strings.Contains(err.Error(), "at seq 5") {
		t.Error(err)
	}
	closeLog(t, l)
	sameTypes(t, b.Reader, "log", "turn/start", "step/start", "compaction/start", "turn/end", "turn/start", "turn/end", mark, chunk)
}

// The same, where the owner has just written what the pending one would write.
func TestPendingResumeFindsTheBoundary(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	written(t, b, "log", nil, lines(interrupted))
	pending, _ := resume(t, b, "log", backend.ResumeOptions{Delay: true})
	l, _ := resume(t, b, "log", backend.ResumeOptions{})
	if r := appendOne(t, pending, event(0)); r.First != 6 {
		t.Errorf("%+v", r)
	}
	closeLog(t, pending)
	closeLog(t, l)
	sameTypes(t, b.Reader, "log", "turn/start", "step/start", "compaction/start", "step/end", "turn/end", mark, chunk)
}

// Of two pending resumes the second to append begins a lifecycle of its own,
// behind what the first one wrote.
func TestTwoPendingResumes(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	written(t, b, "log", nil, lines(interrupted))
	one, _ := resume(t, b, "log", backend.ResumeOptions{Delay: true})
	two, _ := resume(t, b, "log", backend.ResumeOptions{Delay: true})
	if r := appendOne(t, one, event(0)); r.First != 6 || r.Generation != 2 {
		t.Errorf("%+v", r)
	}
	if r := appendOne(t, two, event(1)); r.First != 8 || r.Generation != 3 {
		t.Errorf("%+v", r)
	}
	if _, err := one.Append(t.Context(), [][]byte{event(2)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrFenced) {
		t.Error(err)
	}
	closeLog(t, two)
	sameTypes(t, b.Reader, "log", "turn/start", "step/start", "compaction/start", "step/end", "turn/end", mark, chunk, mark, chunk)
	if i := info(t, b.Reader, "log"); i.Lifecycle.Kind != manifest.KindResume || i.Lifecycle.Inherited != 7 || i.Lifecycle.First != 8 || i.Origin.Kind != manifest.KindFresh {
		t.Errorf("%+v", i.Lifecycle)
	}
}

// Many at a time, with and without delay: one closes the turn, each appends
// behind a boundary, nothing twice.
func TestResumesRace(t *testing.T) {
	mem := memstore.New(t)
	written(t, backend.New(mem, backend.Options{}), "log", nil, lines(interrupted))
	var wg sync.WaitGroup
	for w := range 12 {
		wg.Go(func() {
			b := backend.New(mem, backend.Options{MinBackoff: time.Millisecond})
			l, _, err := b.Resume(t.Context(), "log", backend.ResumeOptions{Delay: w%2 == 0})
			if err != nil {
				t.Error(err)
				return
			}
			ev := fmt.Appendf(nil, `{"type":"note","data":{"w":%d}}`, w)
			if _, err := l.Append(t.Context(), [][]byte{ev}, backend.AppendOptions{}); err != nil && !errors.Is(err, backend.ErrFenced) {
				t.Error(err)
			}
			_ = l.Close(t.Context(), backend.CloseOptions{}) // perhaps fenced
		})
	}
	wg.Wait()
	r := backend.NewReader(mem, backend.Options{})
	count := map[string]int{}
	before := ""
	for _, typ := range types(t, r, "log") {
		count[typ]++
		if typ == mark && before == mark || typ == "note" && before != mark {
			t.Errorf("%s behind %s", typ, before)
		}
		before = typ
	}
	if count["turn/end"] != 1 || count["step/end"] != 1 || count["note"] == 0 {
		t.Errorf("%v", count)
	}
	verifyClean(t, r, "log")
}

func TestClaim(t *testing.T) {
	store := tracestore.New(memstore.New(t), tracestore.Options{})
	b := backend.New(store, backend.Options{})
	written(t, b, "log", nil, lines(interrupted))
	l, _ := resume(t, b, "log", backend.ResumeOptions{Delay: true})
	claim := func(want backend.Receipt, puts int64) {
		t.Helper()
		spend(t, store, "claim", tracestore.Counts{Put: puts}, func() {
			if r, err := l.Claim(t.Context()); err != nil || r != want {
				t.Errorf("%+v, %v, want %+v", r, err, want)
			}
		})
	}
	claim(backend.Receipt{Log: "log", First: 3, Count: 3, Next: 6, Revision: 2, Generation: 2}, 1)
	claim(backend.Receipt{Log: "log", First: 6, Next: 6, Revision: 2, Generation: 2}, 0)
	closeLog(t, l)
	// Where nothing is to be written a claim is a takeover all the same.
	l, r := resume(t, b, "log", backend.ResumeOptions{})
	if r != (backend.Receipt{Log: "log", First: 6, Next: 6, Revision: 2, Generation: 2}) {
		t.Errorf("%+v", r)
	}
	claim(backend.Receipt{Log: "log", First: 6, Next: 6, Revision: 3, Generation: 3}, 1)
	closeLog(t, l)
	if i := info(t, b.Reader, "log"); i.Lifecycle.First != 6 || i.Lifecycle.Inherited != 6 || i.Lifecycle.Closers != 0 || i.History[2].Kind != manifest.KindResume {
		t.Errorf("%+v, %+v", i.Lifecycle, i.History)
	}
	// An adopting handle and one of a new log can be claimed, too.
	l = adopt(t, b, "log")
	claim(backend.Receipt{Log: "log", First: 6, Next: 6, Revision: 4, Generation: 4}, 1)
	closeLog(t, l)
	sameTypes(t, b.Reader, "log", "turn/start", "step/start", "compaction/start", "step/end", "turn/end", mark)
	l = create(t, b, "empty")
	if r, err := l.Claim(t.Context()); err != nil || r.Next != 0 || r.Generation != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	closeLog(t, l)
	l, _ = resume(t, b, "empty", backend.ResumeOptions{}) // an empty history is marked
	closeLog(t, l)
	sameTypes(t, b.Reader, "empty", mark)
}

// A handle counts the boundary that it has yet to write; nobody else can.
func TestOwnVerdictOfAPendingResume(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	written(t, b, "log", nil, lines(interrupted))
	l, _ := resume(t, b, "log", backend.ResumeOptions{Delay: true})
	v, next, err := l.Check(t.Context(), compaction.Open, compaction.Close)
	if err != nil || v.Answer != seedpath.Stale || v.Open.Seq != 2 || v.Bound.Seq != 5 || next != 6 || l.Next() != 6 {
		t.Errorf("%+v, next %d or %d, %v", v, next, l.Next(), err)
	}
	if c, err := b.Check(t.Context(), "log", compaction, backend.CheckOptions{Verify: true}); err != nil || c.Answer != seedpath.Live {
		t.Errorf("%+v, %v", c, err)
	}
	// Check and opening are one step.
	open := []byte(`{"type":"compaction/start","data":{"compactionId":"c2"}}`)
	if _, err := l.Append(t.Context(), [][]byte{open}, backend.AppendOptions{ExpectNext: ptr(next - 1)}); !errors.Is(err, backend.ErrSeqMismatch) {
		t.Error(err)
	}
	if n := len(read(t, b.Reader, "log", 0)); n != 3 {
		t.Errorf("a refused append wrote %d events", n-3)
	}
	if r, err := l.Append(t.Context(), [][]byte{open}, backend.AppendOptions{ExpectNext: &next}); err != nil || r.First != next {
		t.Errorf("%+v, %v", r, err)
	}
	if v, _, err := l.Check(t.Context(), compaction.Open, compaction.Close); err != nil || v.Answer != seedpath.Live || v.Open.Seq != 6 || v.Open.Generation != 2 {
		t.Errorf("%+v, %v", v, err)
	}
	closeLog(t, l)
	if _, _, err := l.Check(t.Context(), compaction.Open, compaction.Close); !errors.Is(err, backend.ErrClosed) {
		t.Error(err)
	}
	sameTypes(t, b.Reader, "log", "turn/start", "step/start", "compaction/start", "step/end", "turn/end", mark, "compaction/start")
}

// A pending handle that appends nothing leaves nothing behind.
func TestPendingResumeWithoutWork(t *testing.T) {
	store := tracestore.New(memstore.New(t), tracestore.Options{})
	b := backend.New(store, backend.Options{})
	written(t, b, "log", nil, lines(interrupted))
	spend(t, store, "a resume without work", tracestore.Counts{Get: 1}, func() {
		l, _ := resume(t, b, "log", backend.ResumeOptions{Delay: true})
		if r, err := l.Append(t.Context(), nil, backend.AppendOptions{}); err != nil || r.Count != 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if err := l.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if err := l.Close(t.Context(), backend.CloseOptions{Release: true, Seal: true}); err != nil {
			t.Error(err)
		}
	})
	sameTypes(t, b.Reader, "log", "turn/start", "step/start", "compaction/start")
}

// lease gives a log's owner a lease, by hand: nothing sets one yet.
func lease(t testing.TB, mem *memstore.Store, id string, until int64) {
	t.Helper()
	maintain(t, mem, id) // so that it is another version
	forgeManifest(t, mem, id, func(r *manifest.Record) { r.Lease = &manifest.Lease{Until: until} })
}

// Nobody resumes or adopts a log that is held, unless told to.
func TestResumeOfAHeldLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		b := backend.New(mem, backend.Options{Label: "the owner"})
		written(t, b, "log", nil, lines(interrupted))
		lease(t, mem, "log", time.Now().Add(time.Minute).UnixMilli())
		refused := func(opt backend.AdoptOptions, words string) {
			t.Helper()
			_, _, err := b.Resume(t.Context(), "log", backend.ResumeOptions{AdoptOptions: opt})
			_, err2 := b.Adopt(t.Context(), "log", opt)
			for _, err := range []error{err, err2} {
				var oe *backend.OpError
				if !errors.Is(err, backend.ErrHeld) || !errors.As(err, &oe) || oe.Log != "log" || oe.Hint == "" || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), "the owner") {
					t.Errorf("%v", err)
				}
			}
		}
		refused(backend.AdoptOptions{}, "with a lease until")
		if c, err := b.Check(t.Context(), "log", compaction, backend.CheckOptions{}); err != nil || c.LeaseState != "held" || c.Lease == nil || c.Owner.Label != "the owner" {
			t.Errorf("%+v, %v", c, err)
		}
		time.Sleep(70 * time.Second)
		if c, err := b.Check(t.Context(), "log", compaction, backend.CheckOptions{}); err != nil || c.LeaseState != "expired" {
			t.Errorf("%+v, %v", c, err)
		}
		refused(backend.AdoptOptions{Quiet: 2 * time.Minute}, "committed 1m10s ago")
		// A pending one learns that the owner is there after all.
		l, _ := resume(t, b, "log", backend.ResumeOptions{Delay: true, AdoptOptions: backend.AdoptOptions{Quiet: time.Minute}})
		lease(t, mem, "log", time.Now().Add(time.Minute).UnixMilli())
		if _, err := l.Append(t.Context(), [][]byte{event(0)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrHeld) {
			t.Error(err)
		}
		if err := l.Close(t.Context(), backend.CloseOptions{}); !errors.Is(err, backend.ErrHeld) {
			t.Error(err)
		}
		l, r := resume(t, b, "log", backend.ResumeOptions{AdoptOptions: backend.AdoptOptions{TakeOver: true}})
		if r.Count != 3 {
			t.Errorf("%+v", r)
		}
		closeLog(t, l)
		if i := info(t, b.Reader, "log"); i.LeaseState != "none" {
			t.Error(i.LeaseState) // the lease was another writer's
		}
	})
}

// Without the right to write a resume is refused at once, and says so; a delayed
// one with its first append.
func TestResumeDenied(t *testing.T) {
	mem := memstore.New(t)
	written(t, backend.New(mem, backend.Options{}), "log", nil, lines(interrupted))
	store := tracestore.New(faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Put"), Fault: faultstore.Denied()}), tracestore.Options{})
	b := backend.New(store, backend.Options{})
	denied := func(err error) {
		t.Helper()
		var oe *backend.OpError
		if !errors.Is(err, backend.ErrDenied) || !errors.As(err, &oe) || oe.Log != "log" || oe.Hint == "" || backend.Token(err) != "" {
			t.Errorf("%v", err)
		}
	}
	spend(t, store, "a resume that is denied", tracestore.Counts{Get: 1, Put: 1}, func() {
		l, r, err := b.Resume(t.Context(), "log", backend.ResumeOptions{})
		denied(err)
		if l != nil || r != (backend.Receipt{}) {
			t.Errorf("%+v", r)
		}
	})
	l, _ := resume(t, b, "log", backend.ResumeOptions{Delay: true})
	_, err := l.Append(t.Context(), [][]byte{event(0)}, backend.AppendOptions{})
	denied(err)
	denied(l.Close(t.Context(), backend.CloseOptions{}))
	_, _, err = b.Fork(t.Context(), "log", "child", backend.ForkOptions{At: ptr(int64(0))})
	if !errors.Is(err, backend.ErrOpenTurn) {
		t.Error(err)
	}
	_, _, err = b.Replay(t.Context(), "child", sequence(lines(interrupted)), backend.ReplayOptions{})
	if !errors.Is(err, backend.ErrDenied) {
		t.Error(err)
	}
	sameTypes(t, backend.NewReader(mem, backend.Options{}), "log", "turn/start", "step/start", "compaction/start")
}

// A resume whose caller goes away does not wait for the store.
func TestResumeIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		written(t, backend.New(mem, backend.Options{}), "log", nil, lines(interrupted))
		slow := faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Put"), Fault: faultstore.Delay(30 * time.Second)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		b := backend.New(slow, backend.Options{})
		_, _, err := b.Resume(ctx, "log", backend.ResumeOptions{})
		if token := backend.Token(err); !errors.Is(err, backend.ErrOutcomeUnknown) || token == "" || time.Since(begin) > 2*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		time.Sleep(time.Minute) // it is decided all the same
		d, err := b.Decide(t.Context(), backend.Token(err))
		if err != nil || !d.Committed || d.First != 3 || d.Count != 3 {
			t.Errorf("%+v, %v", d, err)
		}
	})
}
