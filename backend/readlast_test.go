package backend_test

import (
	"fmt"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
)

// The newest events of a log are one GET, as is the log itself.
func TestReadLast(t *testing.T) {
	store := tracestore.New(memstore.New(t), tracestore.Options{})
	b := backend.New(store, backend.Options{Foreground: true})
	log, err := b.Create("log", backend.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var events [][]byte
	for n := range 10 {
		events = append(events, fmt.Appendf(nil, `{"type":"note","data":%d}`, n))
	}
	if _, err := log.Append(t.Context(), events, backend.AppendOptions{Last: true}); err != nil {
		t.Fatal(err)
	}
	to := int64(6)
	for _, test := range []struct {
		opt         backend.ReadOptions
		first, last int64 // none if last is before first
	}{
		{backend.ReadOptions{Last: 3}, 7, 9},
		{backend.ReadOptions{Last: 10}, 0, 9},
		{backend.ReadOptions{Last: 1 << 62}, 0, 9},
		{backend.ReadOptions{Last: 3, To: &to}, 4, 6},
		{backend.ReadOptions{Last: 3, From: 6, To: &to}, 6, 6},
		{backend.ReadOptions{Last: 3, From: 20}, 20, 19},
	} {
		before, next := store.Counts(), test.first
		for ev, err := range b.Events(t.Context(), "log", test.opt) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Seq != next {
				t.Errorf("%+v: seq %d, want %d", test.opt, ev.Seq, next)
			}
			next++
		}
		if next != test.last+1 {
			t.Errorf("%+v ends before seq %d, want %d", test.opt, next, test.last+1)
		}
		if c := store.Counts().Sub(before); c.Get != 1 || c.Requests() != 1 {
			t.Errorf("%+v: %+v", test.opt, c)
		}
	}
}
