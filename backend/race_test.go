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

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
)

func create(t testing.TB, b *backend.Backend, id string) *backend.Log {
	t.Helper()
	l, err := b.Create(id, backend.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func adopt(t testing.TB, b *backend.Backend, id string) *backend.Log {
	t.Helper()
	l, err := b.Adopt(t.Context(), id, backend.AdoptOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func appendOne(t testing.TB, l *backend.Log, ev []byte) backend.Receipt {
	t.Helper()
	r, err := l.Append(t.Context(), [][]byte{ev}, backend.AppendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A writer that was replaced learns it, by whom and where, and nothing it writes
// lands (G2).
func TestG2ReplacedWriterIsFenced(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{Label: "first"})
	l := create(t, b, "log")
	for i := range 5 {
		appendOne(t, l, event(i))
	}
	l2 := adopt(t, b, "log")
	appendOne(t, l, event(5)) // ownership begins with the first commit, not before
	r := appendOne(t, l2, event(6))
	if r.First != 6 || r.Generation != 2 {
		t.Errorf("%+v", r)
	}
	for range 2 { // sticky
		_, err := l.Append(t.Context(), [][]byte{event(7)}, backend.AppendOptions{})
		if !errors.Is(err, backend.ErrFenced) || !strings.Contains(err.Error(), l2.Writer()) || !strings.Contains(err.Error(), "at seq 6") {
			t.Fatalf("%v", err)
		}
	}
	if got := read(t, b.Reader, "log", 0); len(got) != 7 {
		t.Errorf("%d events", len(got))
	}
	closeLog(t, l2)
	if err := l.Close(t.Context(), backend.CloseOptions{Release: true}); !errors.Is(err, backend.ErrFenced) {
		t.Error(err)
	}
}

func closeLog(t testing.TB, l *backend.Log) {
	t.Helper()
	if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
		t.Error(err)
	}
}

// Ten one-shot appenders race: nothing lost, nothing doubled, each one's
// events in order.
func TestOneShotAppendersRace(t *testing.T) {
	store := memstore.New(t)
	var wg sync.WaitGroup
	// Not more than 64 takeovers in all: an appender that sleeps through more of them
	// while its reply is open can only be told that nobody knows.
	const writers, rounds = 10, 6
	for w := range writers {
		wg.Go(func() {
			for i := range rounds {
				b := backend.New(store, backend.Options{Foreground: true, MinBackoff: time.Millisecond})
				l, err := b.Create("log", backend.CreateOptions{OrAdopt: true})
				if err != nil {
					t.Error(err)
					return
				}
				ev := fmt.Appendf(nil, `{"type":"note","data":{"w":%d,"i":%d}}`, w, i)
				if _, err := l.Append(t.Context(), [][]byte{ev, ev}, backend.AppendOptions{Last: true}); err != nil {
					t.Error(err)
				}
				if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	lines := read(t, backend.NewReader(store, backend.Options{}), "log", 0)
	if len(lines) != 2*writers*rounds {
		t.Fatalf("%d events", len(lines))
	}
	for w := range writers {
		var is []string
		for _, line := range lines {
			if strings.Contains(line, fmt.Sprintf(`{"w":%d,`, w)) {
				is = append(is, line[strings.Index(line, `"i":`)+4:][:1])
			}
		}
		if got := strings.Join(is, ""); got != "001122334455" {
			t.Errorf("writer %d: %s", w, got)
		}
	}
}

func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trace := tracestore.New(faultstore.New(memstore.New(t), faultstore.Rule{Match: faultstore.Op("Put"), Fault: faultstore.Delay(30 * time.Millisecond)}), tracestore.Options{})
		b := backend.New(trace, backend.Options{})
		l := create(t, b, "log")
		start := time.Now()
		var wg sync.WaitGroup
		for w := range 64 {
			wg.Go(func() {
				for i := range 10 {
					appendOne(t, l, event(100*w+i))
				}
			})
		}
		wg.Wait()
		closeLog(t, l)
		// All that wait for a commit ride on the next one.
		if n := trace.Counts().Put; n > 22 {
			t.Errorf("%d PUTs for 640 appends", n)
		}
		t.Logf("%d PUTs, %v", trace.Counts().Put, time.Since(start))
		if got := read(t, b.Reader, "log", 0); len(got) != 640 {
			t.Errorf("%d events", len(got))
		}
	})
}

func TestExpectNext(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	l := create(t, b, "log")
	appendOne(t, l, event(0))
	at := func(n int64) backend.AppendOptions { return backend.AppendOptions{ExpectNext: &n} }
	if _, err := l.Append(t.Context(), [][]byte{event(1)}, at(0)); !errors.Is(err, backend.ErrSeqMismatch) {
		t.Error(err)
	}
	if r, err := l.Append(t.Context(), [][]byte{event(1)}, at(1)); err != nil || r.First != 1 {
		t.Error(r, err)
	}
	if _, err := l.Append(t.Context(), [][]byte{[]byte(`{"type":"x","seq":7,"data":1}`)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrSeqMismatch) {
		t.Error(err)
	}
	if r, err := l.Append(t.Context(), [][]byte{[]byte(`{"type":"x","seq":2,"data":1}`)}, backend.AppendOptions{}); err != nil || r.First != 2 {
		t.Error(r, err)
	}
	closeLog(t, l)
}

func TestKeyedAppend(t *testing.T) {
	store := tracestore.New(memstore.New(t), tracestore.Options{})
	b := backend.New(store, backend.Options{})
	l := create(t, b, "log")
	keyed := backend.AppendOptions{Key: "request 1"}
	first, err := l.Append(t.Context(), [][]byte{event(0), event(1)}, keyed)
	if err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	before := store.Counts()
	l = adopt(t, b, "log")
	again, err := l.Append(t.Context(), [][]byte{event(0), event(1)}, keyed)
	if err != nil || !again.Duplicate || again.First != first.First || again.Count != 2 || again.Generation != 1 {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := l.Append(t.Context(), [][]byte{event(7)}, keyed); !errors.Is(err, backend.ErrKeyConflict) {
		t.Error(err)
	}
	if d := store.Counts().Sub(before); d.Put != 0 || d.Get != 1 {
		t.Errorf("a repeated keyed append: %+v", d)
	}
	closeLog(t, l)
}

// A lost reply loses nothing and duplicates nothing (G1).
func TestG1LostReply(t *testing.T) {
	faults := map[string]faultstore.Fault{
		"lost reply": faultstore.LostReply(), "unavailable": faultstore.Unavailable(), "duplicate": faultstore.Duplicate(),
		"conflict": faultstore.Conflict(), "throttled": faultstore.Throttled(),
	}
	for name, fault := range faults {
		for nth := 1; nth <= 4; nth++ {
			t.Run(fmt.Sprintf("%s/%d", name, nth), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := faultstore.New(memstore.New(t), faultstore.Rule{Match: faultstore.Op("Put"), Nth: nth, Fault: fault})
					b := backend.New(store, backend.Options{})
					l := create(t, b, "log")
					for i := range 4 {
						if r := appendOne(t, l, event(i)); r.First != int64(i) {
							t.Errorf("%+v", r)
						}
					}
					closeLog(t, l)
					if got := read(t, b.Reader, "log", 0); len(got) != 4 {
						t.Errorf("%d events", len(got))
					}
				})
			})
		}
	}
}

// An outcome that reading cannot settle is settled by Decide, and the late
// request can never land after that.
func TestG1DecideSettlesALateRequest(t *testing.T) {
	for _, release := range []string{"never", "before", "after"} {
		for _, kind := range []string{"create", "append", "adopt"} {
			t.Run(kind+"/"+release, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					mem := memstore.New(t)
					clean := backend.New(mem, backend.Options{})
					faulty := faultstore.New(mem)
					b := backend.New(faulty, backend.Options{CommitTimeout: time.Second})
					var l *backend.Log
					if kind != "create" {
						seed := create(t, clean, "log")
						appendOne(t, seed, event(0))
						closeLog(t, seed)
					}
					switch kind {
					case "create":
						l = create(t, b, "log")
					case "adopt":
						l = adopt(t, b, "log")
					case "append":
						l = adopt(t, b, "log")
						appendOne(t, l, event(1))
					}
					late := faulty.Inject(faultstore.Rule{Match: faultstore.Op("Put"), Fault: faultstore.Late()})
					_, err := l.Append(t.Context(), [][]byte{event(9)}, backend.AppendOptions{})
					if !errors.Is(err, backend.ErrOutcomeUnknown) || backend.Token(err) == "" {
						t.Fatal(err)
					}
					late.Stop()
					if release == "before" {
						late.Release(t.Context())
					}
					d, derr := clean.Decide(t.Context(), backend.Token(err))
					if derr != nil {
						t.Fatal(derr)
					}
					if d.Committed != (release == "before") {
						t.Errorf("%+v", d)
					}
					if release == "after" {
						late.Release(t.Context())
					}
					again, err := clean.Decide(t.Context(), backend.Token(err))
					if err != nil || again.Committed != d.Committed {
						t.Errorf("%+v, %v", again, err)
					}
					n := 0
					if kind != "create" || d.Committed {
						for _, line := range read(t, clean.Reader, "log", 0) {
							n += strings.Count(line, "number 9")
						}
					}
					if (n == 1) != d.Committed || n > 1 {
						t.Errorf("told %v, %d times in the log", d.Committed, n)
					}
					if kind == "create" && !d.Committed { // the id can be used again
						l := create(t, clean, "log")
						appendOne(t, l, event(3))
						closeLog(t, l)
					}
				})
			})
		}
	}
}

// Whoever stops waiting gets a token, and the commit is decided all the same.
func TestCancelledAppendIsDecidedInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		store := faultstore.New(mem, faultstore.Rule{Match: faultstore.Op("Put"), Fault: faultstore.Delay(time.Second)})
		b := backend.New(store, backend.Options{})
		l := create(t, b, "log")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(2 * time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, err := l.Append(ctx, [][]byte{event(7)}, backend.AppendOptions{})
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, backend.ErrOutcomeUnknown) {
				t.Error(err) // it was still in the queue
			}
		})
		_, err := l.Append(ctx, [][]byte{event(0)}, backend.AppendOptions{})
		if !errors.Is(err, backend.ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) || backend.Token(err) == "" {
			t.Error(err)
		}
		wg.Wait()
		if err := l.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if d, err := b.Decide(t.Context(), backend.Token(err)); err != nil || !d.Committed || d.Count != 1 {
			t.Errorf("%+v, %v", d, err)
		}
		if r := appendOne(t, l, event(1)); r.First != 1 {
			t.Errorf("%+v", r)
		}
		closeLog(t, l)
	})
}

func TestC20PersistenceSilentlyOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faultstore.New(memstore.New(t))
		b := backend.New(store, backend.Options{})
		l := create(t, b, "log")
		appendOne(t, l, event(0))
		denied := store.Inject(faultstore.Rule{Match: faultstore.Op("Put"), Fault: faultstore.Denied()})
		for i := range 50 {
			if _, err := l.Append(t.Context(), [][]byte{event(i + 1)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrDenied) {
				t.Fatal(err)
			}
		}
		if err := l.Flush(t.Context()); !errors.Is(err, backend.ErrDenied) {
			t.Error(err)
		}
		if err := l.Close(t.Context(), backend.CloseOptions{}); !errors.Is(err, backend.ErrDenied) {
			t.Error(err)
		}
		var oe *objstore.Error
		if err := l.Err(); !errors.As(err, &oe) {
			t.Error(err)
		}
		// None of them was taken without being stored: whoever has them still appends
		// them again, once the store takes writes.
		denied.Stop()
		l = adopt(t, b, "log")
		for i := range 50 {
			appendOne(t, l, event(i+1))
		}
		closeLog(t, l)
		if n := len(read(t, b.Reader, "log", 0)); n != 51 {
			t.Errorf("%d events", n)
		}
	})
}
