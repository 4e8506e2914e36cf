package backend_test

import (
	"errors"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/seedpath"
)

// A handle that begins a log or adopts it assumes at first that it is not there.
// Where that matters to the caller it looks before it answers.
func TestOrAdoptLooksWhereItMatters(t *testing.T) {
	mem := memstore.New(t)
	store := tracestore.New(mem, tracestore.Options{})
	b := backend.New(store, backend.Options{})
	open := func(id string) *backend.Log {
		l, err := b.Create(id, backend.CreateOptions{OrAdopt: true})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	written(t, b, "log", nil, brief("note", "compaction/start"))
	spend(t, store, "events with seqs", tracestore.Counts{Get: 1, Put: 1}, func() {
		l := open("log")
		if r := appendAll(t, l, brief("", "", "note")[2]); r.First != 2 || r.Generation != 2 {
			t.Errorf("%+v", r)
		}
		closeLog(t, l)
	})
	// It looks once more before it refuses the first of them.
	spend(t, store, "an expected seq", tracestore.Counts{Get: 2, Put: 1}, func() {
		l := open("log")
		if r, err := l.Append(t.Context(), brief("note")[:1:1], backend.AppendOptions{ExpectNext: ptr(int64(3))}); !errors.Is(err, backend.ErrSeqMismatch) {
			t.Errorf("%+v, %v", r, err) // its own seq is 0
		}
		if r, err := l.Append(t.Context(), [][]byte{event(0)}, backend.AppendOptions{ExpectNext: ptr(int64(3))}); err != nil || r.First != 3 {
			t.Errorf("%+v, %v", r, err)
		}
		closeLog(t, l)
	})
	spend(t, store, "a verdict", tracestore.Counts{Get: 1}, func() {
		l := open("log")
		if v, next, err := l.Check(t.Context(), compaction.Open, compaction.Close); err != nil || v.Answer != seedpath.Live || next != 4 {
			t.Errorf("%+v, %d, %v", v, next, err)
		}
		closeLog(t, l)
	})
	spend(t, store, "a log that is not there", tracestore.Counts{Get: 2, Put: 1}, func() {
		l := open("new")
		if _, err := l.Append(t.Context(), [][]byte{event(0)}, backend.AppendOptions{ExpectNext: ptr(int64(3))}); !errors.Is(err, backend.ErrSeqMismatch) {
			t.Error(err)
		}
		if v, next, err := l.Check(t.Context(), compaction.Open, compaction.Close); err != nil || v.Answer != seedpath.Balanced || next != 0 {
			t.Errorf("%+v, %d, %v", v, next, err)
		}
		appendOne(t, l, event(0))
		closeLog(t, l)
	})
	spend(t, store, "what does not depend on it", tracestore.Counts{Get: 1, Put: 2}, func() {
		l := open("log")
		if r := appendOne(t, l, event(0)); r.First != 4 {
			t.Errorf("%+v", r)
		}
		closeLog(t, l)
	})
	denied := backend.New(faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Get"), Fault: faultstore.Denied()}), backend.Options{})
	l, err := denied.Create("log", backend.CreateOptions{OrAdopt: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), [][]byte{event(0)}, backend.AppendOptions{ExpectNext: ptr(int64(5))}); !errors.Is(err, backend.ErrDenied) || backend.Token(err) != "" {
		t.Error(err) // what cannot be seen is not taken to be absent
	}
	if err := l.Close(t.Context(), backend.CloseOptions{}); !errors.Is(err, backend.ErrDenied) {
		t.Error(err)
	}
}
