package backend_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/segment"
)

// noise is an event of about size bytes that does not compress well.
func noise(rng *rand.Rand, n, size int) []byte {
	text := make([]byte, size)
	for i := range text {
		text[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[rng.IntN(64)]
	}
	return fmt.Appendf(nil, `{"type":"note","time":%d,"data":%q}`, n, text)
}

// stored is the line that is stored for a caller's event of ours.
func stored(seq int, line []byte) string {
	const typ = `{"type":"note"`
	return fmt.Sprintf("%s,\"seq\":%d%s", typ, seq, line[len(typ):])
}

func TestSealAndMerge(t *testing.T) {
	for _, foreground := range []bool{false, true} {
		t.Run(fmt.Sprintf("foreground=%v", foreground), func(t *testing.T) {
			store := tracestore.New(memstore.New(t), tracestore.Options{})
			b := backend.New(store, backend.Options{Foreground: foreground})
			l, err := b.Create("log", backend.CreateOptions{Header: []byte(`{"id":"x"}`)})
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			var want []string
			for i := range 1500 {
				ev := noise(rng, i, 500+rng.IntN(4000))
				if i == 700 {
					ev = noise(rng, i, 300<<10) // more than a tail may hold
				}
				want = append(want, stored(i, ev))
				if _, err := l.Append(t.Context(), [][]byte{ev}, backend.AppendOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
				t.Fatal(err)
			}
			info, err := b.Info(t.Context(), "log")
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v, %d segments", store.Counts(), len(info.Segments))
			// In the background merges may lag behind a store without latency.
			most := map[bool]int{true: 16, false: 130}[foreground]
			if n := len(info.Segments); n < 3 || n > most {
				t.Errorf("%d segments", n)
			}
			for _, from := range []int64{0, 1, 699, 700, 701, 1400, 1499, 1500} {
				if got := read(t, b.Reader, "log", from); !slices.Equal(got, want[from:]) {
					t.Errorf("events from %d are others", from)
				}
			}
			l, err = b.Adopt(t.Context(), "log", backend.AdoptOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if r, err := l.Append(t.Context(), [][]byte{noise(rng, 1500, 10)}, backend.AppendOptions{}); err != nil || r.First != 1500 || r.Generation != 2 {
				t.Errorf("%+v, %v", r, err)
			}
			if err := l.Close(t.Context(), backend.CloseOptions{Seal: true, Release: true}); err != nil {
				t.Fatal(err)
			}
			info, err = b.Info(t.Context(), "log")
			if err != nil || info.Tail != 0 || !info.Owner.Released {
				t.Errorf("%+v, %v", info, err)
			}
			if got := read(t, b.Reader, "log", 0); len(got) != 1501 {
				t.Errorf("%d events", len(got))
			}
		})
	}
}

// A boundary judges everything before it stale, so it cannot slip in with
// ordinary events.
func TestAppendRefusesABoundary(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	l := create(t, b, "log")
	mark := []byte(`{"type":"session/end-seed","data":{}}`)
	_, err := l.Append(t.Context(), [][]byte{event(0), mark}, backend.AppendOptions{})
	var ee *segment.EventError
	if !errors.Is(err, backend.ErrInvalidEvent) || !errors.As(err, &ee) || ee.Index != 1 {
		t.Errorf("%v", err)
	}
	if r, err := l.Append(t.Context(), [][]byte{event(0), mark}, backend.AppendOptions{Boundary: true}); err != nil || r.Count != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	closeLog(t, l)
	if info, err := b.Info(t.Context(), "log"); err != nil || info.Content.Boundary == nil || info.Content.Boundary.Seq != 1 {
		t.Errorf("%+v, %v", info, err)
	}
}
