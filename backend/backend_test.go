package backend_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
)

// event is a small event with a time, so that its stored line is known.
func event(n int) []byte {
	return fmt.Appendf(nil, `{"type":"assistant/chunk","time":%d,"data":{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"word number %d"}}}`, 1000+n, n)
}

// read returns all lines of a log from a seq on.
func read(t testing.TB, r *backend.Reader, id string, from int64) (lines []string) {
	t.Helper()
	for ev, err := range r.Events(t.Context(), id, backend.ReadOptions{From: from}) {
		if err != nil {
			t.Fatalf("reading %s: %v", id, err)
		}
		if ev.Seq != from+int64(len(lines)) {
			t.Fatalf("seq %d where %d is next", ev.Seq, from+int64(len(lines)))
		}
		if _, err := ev.Parse(); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(ev.Line))
	}
	return lines
}

func TestThousandAppends(t *testing.T) {
	store := tracestore.New(memstore.New(t), tracestore.Options{})
	b := backend.New(store, backend.Options{})
	l, err := b.Create("log", backend.CreateOptions{Header: []byte(`{"type":"session","createdAt":5}`)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		r, err := l.Append(t.Context(), [][]byte{event(i)}, backend.AppendOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if r.First != int64(i) || r.Count != 1 || r.Next != int64(i+1) {
			t.Fatalf("append %d: %+v", i, r)
		}
	}
	if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", store.Counts())
	info, err := b.Info(t.Context(), "log")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("segments %d tail %d bytes %d", len(info.Segments), info.Tail, info.Bytes)
	if got := read(t, b.Reader, "log", 0); len(got) != 1000 {
		t.Fatalf("%d events", len(got))
	}
	if got := read(t, b.Reader, "log", 500); len(got) != 500 {
		t.Fatalf("%d events", len(got))
	}
	l2, err := b.Adopt(t.Context(), "log", backend.AdoptOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l2.Append(t.Context(), [][]byte{event(1000)}, backend.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), [][]byte{event(1)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrClosed) {
		t.Fatal(err)
	}
	if err := l2.Close(t.Context(), backend.CloseOptions{Release: true}); err != nil {
		t.Fatal(err)
	}
}
