package backend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
)

// manifestPuts matches what these cases are about.
var manifestPuts = faultstore.Puts("manifests/")

// Our own write answered 412, since the reply of its first copy was lost: it
// succeeds once, and a foreign one is a conflict.
func TestA01OwnWriteAnswered412(t *testing.T) {
	for _, fault := range []faultstore.Fault{faultstore.LostReply(), faultstore.Duplicate()} {
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.New(t)
			store := faultstore.New(mem, faultstore.Rule{Match: manifestPuts, Nth: 1, Fault: fault})
			l := create(t, backend.New(store, backend.Options{}), "log")
			if r := appendOne(t, l, event(0)); r.First != 0 || r.Revision != 1 {
				t.Errorf("%+v", r)
			}
			if r := appendOne(t, l, event(1)); r.First != 1 || r.Revision != 2 { // on the version that was found
				t.Errorf("%+v", r)
			}
			closeLog(t, l)
		})
	}
	synctest.Test(t, func(t *testing.T) { // somebody else's log is there
		mem := memstore.New(t)
		other := create(t, backend.New(mem, backend.Options{}), "log")
		appendOne(t, other, event(0))
		closeLog(t, other)
		l := create(t, backend.New(mem, backend.Options{}), "log")
		if _, err := l.Append(t.Context(), [][]byte{event(0)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrExists) {
			t.Error(err)
		}
		if err := l.Close(t.Context(), backend.CloseOptions{}); !errors.Is(err, backend.ErrExists) {
			t.Error(err)
		}
	})
}

// 409 decides nothing: neither that the log exists nor that we are fenced.
func TestA02ConflictIsNotExistence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		store := faultstore.New(mem, faultstore.Rule{Match: manifestPuts, Nth: 1, Times: 3, Fault: faultstore.Conflict()})
		l := create(t, backend.New(store, backend.Options{}), "log")
		appendOne(t, l, event(0))
		closeLog(t, l)
	})
	synctest.Test(t, func(t *testing.T) { // while another creates it
		mem := memstore.New(t)
		var other *backend.Log
		store := faultstore.New(mem)
		store.Inject(faultstore.Rule{Match: manifestPuts, Nth: 1, Fault: faultstore.Conflict()})
		store.Inject(faultstore.Rule{Match: manifestPuts, Nth: 2, Fault: faultstore.Before(func() {
			other = create(t, backend.New(mem, backend.Options{}), "log")
			appendOne(t, other, event(0))
		})})
		l := create(t, backend.New(store, backend.Options{}), "log")
		_, err := l.Append(t.Context(), [][]byte{event(0)}, backend.AppendOptions{})
		if !errors.Is(err, backend.ErrExists) || errors.Is(err, backend.ErrFenced) || !strings.Contains(err.Error(), other.Writer()) {
			t.Error(err)
		}
		closeLog(t, other)
		_ = l.Close(t.Context(), backend.CloseOptions{})
	})
	synctest.Test(t, func(t *testing.T) { // for ever: given up, and certainly not committed
		mem := memstore.New(t)
		store := faultstore.New(mem, faultstore.Rule{Match: manifestPuts, Fault: faultstore.Conflict()})
		l := create(t, backend.New(store, backend.Options{CommitTimeout: time.Minute}), "log")
		start := time.Now()
		_, err := l.Append(t.Context(), [][]byte{event(0)}, backend.AppendOptions{})
		if !errors.Is(err, objstore.ErrConflict) || errors.Is(err, backend.ErrOutcomeUnknown) || errors.Is(err, backend.ErrExists) {
			t.Error(err)
		}
		if d := time.Since(start); d != time.Minute {
			t.Errorf("gave up after %v", d)
		}
		_ = l.Close(t.Context(), backend.CloseOptions{})
	})
}

// A log that vanished is not created again by its owner, not even as a copy
// with the newest events only; nor when a delete marker would let it.
func TestA03VanishedLogIsNotRecreated(t *testing.T) {
	for name, before := range map[string]func(l *backend.Log){
		"owner":   func(l *backend.Log) { appendOne(t, l, event(1)) },
		"adopter": func(*backend.Log) {},
	} {
		t.Run(name, func(t *testing.T) {
			mem := memstore.New(t)
			trace := tracestore.New(mem, tracestore.Options{})
			b := backend.New(trace, backend.Options{})
			l := create(t, b, "log")
			appendOne(t, l, event(0))
			closeLog(t, l)
			l = adopt(t, b, "log")
			before(l)
			mem.Drop(manifest.Key("log"))
			for range 2 {
				_, err := l.Append(t.Context(), [][]byte{event(2)}, backend.AppendOptions{})
				if !errors.Is(err, backend.ErrNotFound) || errors.Is(err, backend.ErrFenced) || errors.Is(err, backend.ErrOutcomeUnknown) {
					t.Error(err)
				}
				oe, _ := errors.AsType[*backend.OpError](err)
				if oe == nil || oe.Log != "log" || oe.Key != manifest.Key("log") {
					t.Errorf("%+v", err)
				}
			}
			if n := len(mem.Snapshot("")); n != 0 {
				t.Errorf("%d objects", n)
			}
			if err := l.Close(t.Context(), backend.CloseOptions{Release: true, Seal: true}); !errors.Is(err, backend.ErrNotFound) {
				t.Error(err)
			}
			if n := len(mem.Snapshot("")); n != 0 {
				t.Errorf("after Close: %d objects", n)
			}
		})
	}
}

// Nor by a handle that would have created it, once it has seen it.
func TestA03VanishedWhileAdopted(t *testing.T) {
	mem := memstore.New(t)
	l := create(t, backend.New(mem, backend.Options{}), "log")
	appendOne(t, l, event(0))
	closeLog(t, l)
	store := faultstore.New(mem, faultstore.Rule{Match: manifestPuts, Nth: 2, Fault: faultstore.Before(func() { mem.Drop(manifest.Key("log")) })})
	l, err := backend.New(store, backend.Options{}).Create("log", backend.CreateOptions{OrAdopt: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), [][]byte{event(1)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrNotFound) {
		t.Error(err)
	}
	_ = l.Close(t.Context(), backend.CloseOptions{})
	if n := len(mem.Snapshot("")); n != 0 {
		t.Errorf("%d objects", n)
	}
}

// On a versioned bucket a create succeeds over a delete marker. A writer that
// has committed never creates again; a fresh create of the id may.
func TestA16DeleteMarkerCountsAsAbsent(t *testing.T) {
	mem := memstore.New(t)
	trace := tracestore.New(mem, tracestore.Options{})
	b := backend.New(trace, backend.Options{})
	l := create(t, b, "log")
	for i := range 5 {
		appendOne(t, l, event(i))
	}
	mem.Drop(manifest.Key("log")) // what a delete marker makes of it, to all requests
	if _, err := l.Append(t.Context(), [][]byte{event(5)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrNotFound) {
		t.Error(err)
	}
	_ = l.Close(t.Context(), backend.CloseOptions{})
	fresh := create(t, b, "log")
	if r := appendOne(t, fresh, event(0)); r.First != 0 || r.Generation != 1 {
		t.Errorf("%+v", r)
	}
	closeLog(t, fresh)
}

// A condition that the store refuses although nobody changed the version: an
// incompatible store, said so after a few tries, and never another writer.
func TestA06ConditionRefusedOnAnUnmovedVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		l := create(t, backend.New(mem, backend.Options{}), "log")
		appendOne(t, l, event(0))
		closeLog(t, l)
		before := mem.Snapshot("")
		trace := tracestore.New(faultstore.New(mem, faultstore.Rule{Match: manifestPuts, Fault: faultstore.Fail(objstore.ErrPrecondition)}), tracestore.Options{})
		l = adopt(t, backend.New(trace, backend.Options{}), "log")
		_, err := l.Append(t.Context(), [][]byte{event(1)}, backend.AppendOptions{})
		if !errors.Is(err, backend.ErrUnsupportedStore) || errors.Is(err, backend.ErrFenced) || errors.Is(err, backend.ErrOutcomeUnknown) {
			t.Error(err)
		}
		if c := trace.Counts(); c.Put > 6 || c.Get > 7 {
			t.Errorf("%+v", c)
		}
		_ = l.Close(t.Context(), backend.CloseOptions{})
		if string(mem.Snapshot("")[manifest.Key("log")]) != string(before[manifest.Key("log")]) {
			t.Error("the manifest was changed")
		}
	})
}

// The store names another version at every read: no condition can ever hold.
func TestA06VersionThatNeverStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		l := create(t, backend.New(mem, backend.Options{}), "log")
		appendOne(t, l, event(0))
		closeLog(t, l)
		n := 0
		trace := tracestore.New(faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Get"), Fault: edit(func(o *objstore.Object) {
			n++
			o.Version = objstore.NewVersion(fmt.Sprint("proxy", n))
		})}), tracestore.Options{})
		l = adopt(t, backend.New(trace, backend.Options{}), "log")
		if _, err := l.Append(t.Context(), [][]byte{event(1)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrUnsupportedStore) {
			t.Error(err)
		}
		if c := trace.Counts(); c.Put > 6 {
			t.Errorf("%+v", c)
		}
		_ = l.Close(t.Context(), backend.CloseOptions{})
	})
}

// Without a usable ETag reading works, and a write fails before it is sent.
func TestA07NoUsableVersion(t *testing.T) {
	mem := memstore.New(t)
	l := create(t, backend.New(mem, backend.Options{}), "log")
	appendOne(t, l, event(0))
	closeLog(t, l)
	stripped := edit(func(o *objstore.Object) { o.Version = objstore.Version{} })
	trace := tracestore.New(faultstore.New(mem, faultstore.Rule{Fault: stripped}), tracestore.Options{})
	b := backend.New(trace, backend.Options{})
	if n := len(read(t, b.Reader, "log", 0)); n != 1 {
		t.Errorf("%d events", n)
	}
	l = adopt(t, b, "log")
	_, err := l.Append(t.Context(), [][]byte{event(1)}, backend.AppendOptions{})
	if !errors.Is(err, backend.ErrUnsupportedStore) || errors.Is(err, backend.ErrOutcomeUnknown) {
		t.Error(err)
	}
	if c := trace.Counts(); c.Put != 0 {
		t.Errorf("%+v", c)
	}
	_ = l.Close(t.Context(), backend.CloseOptions{})
	// A create succeeds, and what would build on it does not.
	l = create(t, b, "new")
	if r, err := l.Append(t.Context(), [][]byte{event(0)}, backend.AppendOptions{}); err != nil || r.First != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := l.Append(t.Context(), [][]byte{event(1)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrUnsupportedStore) {
		t.Error(err)
	}
	_ = l.Close(t.Context(), backend.CloseOptions{})
}

// A reply without an ETag is a yes; the version is fetched.
func TestAppliedWithoutAVersion(t *testing.T) {
	mem := memstore.New(t)
	trace := tracestore.New(faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Put"), Fault: edit(func(o *objstore.Object) { o.Version = objstore.Version{} })}), tracestore.Options{})
	l := create(t, backend.New(trace, backend.Options{}), "log")
	for i := range 3 {
		if r := appendOne(t, l, event(i)); r.First != int64(i) {
			t.Errorf("%+v", r)
		}
	}
	closeLog(t, l)
	if c := trace.Counts(); c.Put != 3 || c.Get != 3 {
		t.Errorf("%+v", c)
	}
}

// "Absent" after a time-out is not final: the create that arrives late is
// recognised as ours.
func TestA17AbsenceAfterATimeoutIsNotFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		store := faultstore.New(mem)
		late := store.Inject(faultstore.Rule{Match: manifestPuts, Nth: 1, Fault: faultstore.Late()})
		store.Inject(faultstore.Rule{Match: manifestPuts, Nth: 2, Fault: faultstore.Before(func() {
			for _, err := range late.Release(context.Background()) {
				if err != nil {
					t.Error(err)
				}
			}
		})})
		l := create(t, backend.New(store, backend.Options{}), "log")
		if r := appendOne(t, l, event(0)); r.First != 0 || r.Revision != 1 {
			t.Errorf("%+v", r)
		}
		closeLog(t, l)
	})
}

// A replaced writer ends, what it uploaded is never seen, and its keys are
// nobody else's.
func TestA29ZombieWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		a := create(t, backend.New(mem, backend.Options{}), "log")
		appendOne(t, a, tagged("a0", 10))
		c := newClaims()
		c.order, c.at["a0"] = []string{"a0"}, 0
		winner := takeOver(t, mem, "log", "b0", c)
		c.absent["zombie"] = true
		for range 3 {
			_, err := a.Append(t.Context(), [][]byte{tagged("zombie", 200<<10)}, backend.AppendOptions{})
			if !errors.Is(err, backend.ErrFenced) || !strings.Contains(err.Error(), winner) {
				t.Error(err)
			}
		}
		if err := a.Close(t.Context(), backend.CloseOptions{Release: true, Seal: true}); !errors.Is(err, backend.ErrFenced) {
			t.Error(err)
		}
		orphans := len(mem.Snapshot("segments/"))
		if orphans != 1 {
			t.Errorf("%d segments", orphans)
		}
		l, err := backend.New(mem, backend.Options{}).Adopt(t.Context(), "log", backend.AdoptOptions{TakeOver: true})
		if err != nil {
			t.Fatal(err)
		}
		r, err := l.Append(t.Context(), [][]byte{tagged("c0", 200<<10)}, backend.AppendOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.acked(r, "c0"); err != nil {
			t.Error(err)
		}
		closeLog(t, l)
		if err := audit(t.Context(), mem, "log", c); err != nil {
			t.Error(err)
		}
	})
}

// A reader never writes, however often it looks, and needs GetObject only (G4).
func TestA30ReaderThatWrites(t *testing.T) {
	objects, lines := longLog(t)
	mem := restore(t, objects)
	trace := tracestore.New(faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Put", "Delete", "Copy", "List", "Head"), Fault: faultstore.Denied()}), tracestore.Options{})
	r := backend.NewReader(trace, backend.Options{PollInterval: time.Millisecond})
	for range 100 {
		if _, err := r.Info(t.Context(), "log"); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(read(t, r, "log", 0)); n != len(lines) {
		t.Errorf("%d events", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for _, err := range r.Follow(ctx, "log", 0) {
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
	if c := trace.Counts(); c.Put+c.Delete+c.Copy+c.List+c.Head != 0 {
		t.Errorf("%+v", c)
	}
}
