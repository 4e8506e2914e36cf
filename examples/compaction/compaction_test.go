package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

// session begins a session that nobody is at work on.
func session(t *testing.T, store objstore.Store) {
	t.Helper()
	l, err := backend.New(store, backend.Options{}).Create("s", backend.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), [][]byte{event("note", nil), event("note", nil)}, backend.AppendOptions{Last: true}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
		t.Fatal(err)
	}
}

func adopted(t *testing.T, store objstore.Store) *backend.Log {
	t.Helper()
	l, err := backend.New(store, backend.Options{}).Adopt(t.Context(), "s", backend.AdoptOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background(), backend.CloseOptions{}) })
	return l
}

// types are the types of the session's events.
func types(t *testing.T, store objstore.Store) string {
	t.Helper()
	var all []string
	for e, err := range backend.NewReader(store, backend.Options{}).Events(t.Context(), "s", backend.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		ev, err := e.Parse()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, ev.Type)
	}
	return strings.Join(all, " ")
}

// Of owners that all have the verdict that the log is free before any of them has
// opened the bracket, exactly one opens it.
func TestExactlyOneOwnerOpens(t *testing.T) {
	const owners = 8
	for name, shared := range map[string]bool{"processes": false, "goroutines that share a handle": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New(t)
				session(t, mem)
				// What takes a second has not been done before all have asked.
				slow := faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Put"), Fault: faultstore.Delay(time.Second)})
				handles := make([]*backend.Log, owners)
				for i := range handles {
					if shared && i > 0 {
						handles[i] = handles[0]
					} else {
						handles[i] = adopted(t, slow)
					}
				}
				var opened atomic.Int32
				var wg sync.WaitGroup
				for _, l := range handles {
					wg.Go(func() {
						ok, err := Begin(t.Context(), l)
						if err != nil {
							t.Error(err)
						}
						if ok {
							opened.Add(1)
						}
					})
				}
				wg.Wait()
				if n, got := opened.Load(), types(t, mem); n != 1 || got != "note note compaction/start" {
					t.Errorf("%d have opened it: %s", n, got)
				}
			})
		})
	}
}

// What happens between the verdict and the opening is not overlooked, whatever it
// is: another compaction from its beginning to its end, or a mere event.
func TestTheLogMovesInBetween(t *testing.T) {
	for name, between := range map[string]func(t *testing.T, store objstore.Store){
		"a compaction": func(t *testing.T, store objstore.Store) {
			done, err := Compact(t.Context(), backend.New(store, backend.Options{}), "s", backend.AdoptOptions{}, count)
			if err != nil || !done {
				t.Error(done, err)
			}
		},
		"an event": func(t *testing.T, store objstore.Store) {
			if _, err := adopted(t, store).Append(t.Context(), [][]byte{event("note", nil)}, backend.AppendOptions{}); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := memstore.New(t)
			session(t, mem)
			store := faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Put"), Nth: 1, Fault: faultstore.Before(func() { between(t, mem) })})
			if ok, err := Begin(t.Context(), adopted(t, store)); ok || err != nil {
				t.Error(ok, err)
			}
			if got := types(t, mem); strings.Count(got, opening) != strings.Count(got, closing) {
				t.Error(got)
			}
		})
	}
}

// A lost reply is no reason to believe that somebody else was first.
func TestLostReply(t *testing.T) {
	mem := memstore.New(t)
	session(t, mem)
	store := faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Put"), Nth: 1, Fault: faultstore.LostReply()})
	if ok, err := Begin(t.Context(), adopted(t, store)); !ok || err != nil {
		t.Error(ok, err)
	}
	if got := types(t, mem); got != "note note compaction/start" {
		t.Error(got)
	}
}

// The bracket of an owner that has died is live, and nobody opens another one,
// until the session is resumed.
func TestDeadOwner(t *testing.T) {
	mem := memstore.New(t)
	session(t, mem)
	if ok, err := Begin(t.Context(), adopted(t, mem)); !ok || err != nil {
		t.Fatal(ok, err)
	}
	b := backend.New(mem, backend.Options{})
	if done, err := Compact(t.Context(), b, "s", backend.AdoptOptions{}, count); done || err != nil {
		t.Error(done, err)
	}
	if _, _, err := b.Resume(t.Context(), "s", backend.ResumeOptions{Release: true}); err != nil {
		t.Fatal(err)
	}
	if done, err := Compact(t.Context(), b, "s", backend.AdoptOptions{}, count); !done || err != nil {
		t.Error(done, err)
	}
	if got, want := types(t, mem), "note note compaction/start session/end-seed compaction/start compaction/summary compaction/end"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What is summarised is what is in the log, also where that is in several frames of
// a segment.
func TestSummaryOfALongLog(t *testing.T) {
	mem := memstore.New(t)
	session(t, mem)
	want := []string{`"note"`, `"note"`}
	l := adopted(t, mem)
	for i := range 40 {
		tag := fmt.Sprintf("%02d", i)
		if _, err := l.Append(t.Context(), [][]byte{event("note", map[string]any{"text": strings.Repeat(tag, 32<<10)})}, backend.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
		want = append(want, `"`+tag+tag)
	}
	if err := l.Close(t.Context(), backend.CloseOptions{Release: true, Seal: true}); err != nil {
		t.Fatal(err)
	}
	done, err := Compact(t.Context(), backend.New(mem, backend.Options{}), "s", backend.AdoptOptions{}, func(_ context.Context, events [][]byte) (string, error) {
		for i, text := range append(want, opening) {
			if !bytes.Contains(events[i], []byte(text)) || !bytes.Contains(events[i], fmt.Appendf(nil, `"seq":%d,`, i)) {
				t.Fatalf("event %d is %.100s", i, events[i])
			}
		}
		return "", nil
	})
	if !done || err != nil {
		t.Error(done, err)
	}
}

// A compaction that fails closes its bracket, also where it was cancelled.
func TestFailedSummary(t *testing.T) {
	failing := func(fault faultstore.Fault, summarise func(context.Context, context.CancelFunc) (string, error)) {
		t.Helper()
		mem := memstore.New(t)
		session(t, mem)
		store := faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Get"), Nth: 2, Fault: fault})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done, err := Compact(ctx, backend.New(store, backend.Options{}), "s", backend.AdoptOptions{}, func(ctx context.Context, _ [][]byte) (string, error) { return summarise(ctx, cancel) })
		if done || err == nil {
			t.Error(done, err)
		}
		if got := types(t, mem); got != "note note compaction/start compaction/end" {
			t.Error(got)
		}
	}
	failing(faultstore.Denied(), nil)
	failing(faultstore.Before(func() {}), func(ctx context.Context, cancel context.CancelFunc) (string, error) {
		cancel()
		return "", ctx.Err()
	})

	mem := memstore.New(t)
	session(t, mem)
	failure := errors.New("overloaded")
	done, err := Compact(t.Context(), backend.New(mem, backend.Options{}), "s", backend.AdoptOptions{}, func(context.Context, [][]byte) (string, error) { return "", failure })
	if done || !errors.Is(err, failure) {
		t.Error(done, err)
	}
	if got := types(t, mem); got != "note note compaction/start compaction/end" {
		t.Error(got)
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	store, err := filestore.Open(dir, filestore.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	session(t, store)
	tell := func(want int, says string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		if code := run(t.Context(), append([]string{"-store", dir}, args...), &out, &out); code != want || !strings.Contains(out.String(), says) {
			t.Errorf("%q: exit %d, want %d: %s", args, code, want, &out)
		}
	}
	tell(0, "compacted", "s")
	if ok, err := Begin(t.Context(), adopted(t, store)); !ok || err != nil {
		t.Fatal(ok, err)
	}
	tell(exitHeld, "held", "s") // its owner committed just now
	tell(exitLive, "somebody else is at it", "-quiet", "0s", "s")
	tell(exitFailure, "no such log", "other")
	tell(exitUsage, "name one session")
	tell(exitUsage, "flag provided", "-unknown")
	if got, want := types(t, store), "note note compaction/start compaction/summary compaction/end compaction/start"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if text, err := count(t.Context(), make([][]byte, 3)); err != nil || text != fmt.Sprint(3, " events") {
		t.Error(text, err)
	}
}
