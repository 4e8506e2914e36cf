package backend_test

import (
	"math/rand/v2"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
)

// What a resume costs does not depend on what upkeep the log is due, also where
// upkeep may not be done in the background. The next append does it.
func TestResumeLeavesUpkeepToAppends(t *testing.T) {
	mem := memstore.New(t)
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 5 {
		// Four segments, and a tail that is large enough for a fifth.
		l, err := backend.New(mem, backend.Options{Foreground: i < 4}).Create("log", backend.CreateOptions{OrAdopt: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(t.Context(), [][]byte{noise(rng, i, 60<<10)}, backend.AppendOptions{Last: true}); err != nil {
			t.Fatal(err)
		}
		closeLog(t, l)
	}
	if i := info(t, backend.NewReader(mem, backend.Options{}), "log"); len(i.Segments) != 4 || i.Tail != 1 {
		t.Fatalf("%d segments, %d events in the tail", len(i.Segments), i.Tail)
	}
	store := tracestore.New(mem, tracestore.Options{})
	b := backend.New(store, backend.Options{Foreground: true})
	l, r := resume(t, b, "log", backend.ResumeOptions{})
	if n := store.Counts(); n.Get != 1 || n.Put != 1 || n.Requests() != 2 || r.Count != 1 {
		t.Errorf("%+v: %+v", n, r)
	}
	appendOne(t, l, event(0))
	if n := store.Counts(); n.Get != 1+4 || n.Put != 1+3 {
		t.Errorf("with an append that seals and merges: %+v", n)
	}
	closeLog(t, l)
	verifyClean(t, b.Reader, "log")
}
