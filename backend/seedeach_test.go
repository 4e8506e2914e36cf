package backend_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/internal/plainlog"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/sessiongen"
)

// Real sessions, cut at every event by the death of their writer.
func TestEveryCutOfRealSessions(t *testing.T) {
	all := realSessions(t)
	cuts := 0
	for i, s := range all {
		if testing.Short() && i%8 != 0 {
			continue
		}
		t.Run(s.name, func(t *testing.T) { cuts += everyCut(t, s) })
	}
	t.Logf("%d fixtures, %d cuts", len(all), cuts)
}

// The same of sessions of any kind, the newest events of which are sealed now
// and then.
func TestEveryCutOfGeneratedSessions(t *testing.T) {
	for _, opt := range []sessiongen.Options{
		{Seed: 1, Events: 240, OpenAtEnd: sessiongen.OpenCall},
		{Seed: 2, Events: 150, Profile: sessiongen.Agent, OpenAtEnd: sessiongen.OpenTurn | sessiongen.OpenCompaction},
		{Seed: 3, Turns: 3, OpenAtEnd: sessiongen.OpenCompaction},
	} {
		s := generated(opt)
		t.Run(s.name, func(t *testing.T) { t.Logf("%d cuts", everyCut(t, s)) })
	}
}

// everyCut grows a log by one event after the other. At each one it leaves the
// writer and resumes, and forks, a copy of what is on the store.
func everyCut(t *testing.T, s session) (cuts int) {
	mem := memstore.New(t)
	l, err := backend.New(mem, backend.Options{Foreground: true}).Create("log", backend.CreateOptions{Header: s.header})
	if err != nil {
		t.Fatal(err)
	}
	defer closeLog(t, l)
	events, err := plainlog.ParseAll(s.lines)
	if err != nil {
		t.Fatal(err)
	}
	// A sample of a long session; everything about each of them only sometimes.
	every, whole := max(1, len(s.lines)/120), max(1, len(s.lines)/12)
	if testing.Short() {
		every, whole = max(1, len(s.lines)/12), max(1, len(s.lines)/3)
	}
	for n := 1; n <= len(s.lines); n++ {
		if _, err := l.Append(t.Context(), s.lines[n-1:n], backend.AppendOptions{Boundary: true}); err != nil {
			t.Fatal(err)
		}
		if n%every == 0 || n == len(s.lines) {
			cutHere(t, mem, s.lines[:n], events[:n], n%whole == 0 || n == len(s.lines))
			cuts++
		}
		if t.Failed() {
			t.Fatalf("at %d events", n)
		}
	}
	return cuts
}

func cutHere(t *testing.T, mem *memstore.Store, lines [][]byte, events []plainlog.Event, whole bool) {
	store := tracestore.New(copied(t, mem), tracestore.Options{})
	now := time.Now()
	b := backend.New(store, backend.Options{})
	before := root(t, b.Reader, "log")
	sameVerdicts(t, b.Reader, "log", events, backend.CheckOptions{Verify: whole})

	// Events, closers, boundary.
	want := make([]string, len(lines))
	for i := range lines {
		want[i] = string(lines[i])
	}
	inherited := slices.Clip(want)
	closers := plainlog.Closers(events)
	want = append(want, closers...)
	l, r := resume(t, b, "log", backend.ResumeOptions{})
	got := read(t, b.Reader, "log", 0)
	want = append(want, boundary(t, got, events, len(closers), now)...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resumed: -want +got:\n%s", diff)
	}
	if r.First != before.Size || r.Next != int64(len(want)) || r.Count != r.Next-r.First {
		t.Errorf("%+v", r)
	}
	closeLog(t, l)

	// Nothing more.
	puts := store.Counts().Put
	l, r = resume(t, backend.New(store, backend.Options{}), "log", backend.ResumeOptions{})
	if n := store.Counts().Put - puts; n != 0 || r.Count != 0 || r.Next != int64(len(want)) {
		t.Errorf("the second resume made %d PUT: %+v", n, r)
	}
	closeLog(t, l)
	sameVerdicts(t, b.Reader, "log", plainly(t, got), backend.CheckOptions{Verify: whole})
	if whole {
		verified(t, b.Reader, "log", before)
	}
	forkHere(t, mem, inherited, events, whole)
}

// boundary is the line that must come behind the closers. Its time is the
// greatest of the events, or between now and the present.
func boundary(t *testing.T, got []string, events []plainlog.Event, closers int, now time.Time) []string {
	t.Helper()
	at := now.UnixMilli()
	if i := len(events) + closers; i < len(got) {
		if e, err := plainlog.Parse([]byte(got[i])); err == nil && e.Time >= at && e.Time <= time.Now().UnixMilli() {
			at = e.Time
		}
	}
	return plainlog.Boundary(events, closers, at)
}

func forkHere(t *testing.T, mem *memstore.Store, inherited []string, events []plainlog.Event, whole bool) {
	b := backend.New(copied(t, mem), backend.Options{})
	parent := root(t, b.Reader, "log")
	now := time.Now()
	opt := backend.ForkOptions{At: ptr(parent.Size - 1)}
	if !whole {
		opt.At = nil // the same cut
	}
	l, r, err := b.Fork(t.Context(), "log", "child", opt)
	if plainlog.Open(events) {
		if !errors.Is(err, backend.ErrOpenTurn) {
			t.Errorf("forked inside an open turn: %+v, %v", r, err)
		}
		ote, ok := errors.AsType[*backend.OpenTurnError](err)
		if !ok || ote.At != parent.Size-1 || ote.Instead >= ote.At || plainlog.Open(events[:ote.Instead+1]) {
			t.Errorf("%v says to fork at %+v", err, ote)
			return
		}
		for k := ote.Instead + 2; k <= parent.Size; k++ {
			if !plainlog.Open(events[:k]) {
				t.Errorf("%v says to fork at seq %d, and not %d", err, ote.Instead, k-1)
			}
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	got := read(t, b.Reader, "child", 0)
	want := append(inherited, boundary(t, got, events, 0, now)...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("forked: -want +got:\n%s", diff)
	}
	child := info(t, b.Reader, "child")
	if o := child.Origin; o.Kind != manifest.KindFork || o.Inherited != parent.Size || o.Parent.UpTo != parent.Size || o.Parent.Root != parent.Root || o.Parent.Log != "log" {
		t.Errorf("origin %+v, the parent has %s", o, parent)
	}
	if r.Count != int64(len(want)) || r.First != 0 || r.Next != r.Count || r.Generation != 1 {
		t.Errorf("%+v", r)
	}
	sameVerdicts(t, b.Reader, "child", plainly(t, got), backend.CheckOptions{Verify: whole})
	if whole {
		verified(t, b.Reader, "child", parent) // the root of its prefix
		verified(t, b.Reader, "log", parent)   // which is as it was
	}
	closeLog(t, l)
}
