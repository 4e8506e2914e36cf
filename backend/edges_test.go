package backend_test

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// A seal that hangs, at the size beyond which no commit goes without it, delays
// the commit and does not fail it.
func TestSealThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		store := faultstore.New(mem, faultstore.Rule{Match: faultstore.Puts("segments/"), Nth: 1, Fault: faultstore.Delay(time.Hour)})
		l := create(t, backend.New(store, backend.Options{CommitTimeout: time.Minute}), "log")
		c := newClaims()
		start := time.Now()
		for i := range 8 {
			tag := fmt.Sprint(i)
			r := appendOne(t, l, tagged(tag, sealing))
			if err := c.acked(r, tag); err != nil {
				t.Error(err)
			}
		}
		if d := time.Since(start); d < 20*time.Second || d > time.Minute {
			t.Errorf("it took %v", d)
		}
		closeLog(t, l)
		if err := audit(t.Context(), mem, "log", c); err != nil {
			t.Error(err)
		}
	})
}

// Nothing can be sealed at all: appends go on up to the size that fits, then
// they fail, certainly not committed.
func TestSealsThatNeverWork(t *testing.T) {
	for name, fault := range map[string]faultstore.Fault{"denied": faultstore.Denied(), "unavailable": faultstore.Unavailable(), "hanging": faultstore.Delay(time.Hour)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New(t)
				store := faultstore.New(mem, faultstore.Rule{Match: faultstore.Puts("segments/"), Fault: fault})
				l := create(t, backend.New(store, backend.Options{CommitTimeout: time.Minute}), "log")
				c := newClaims()
				var err error
				for i := 0; err == nil && i < 10; i++ {
					tag := fmt.Sprint(i)
					var r backend.Receipt
					if r, err = l.Append(t.Context(), [][]byte{tagged(tag, 20<<10)}, backend.AppendOptions{}); err != nil {
						c.absent[tag] = true
					} else if err := c.acked(r, tag); err != nil {
						t.Error(err)
					}
				}
				if err == nil || errors.Is(err, backend.ErrOutcomeUnknown) || len(c.order) < 4 {
					t.Errorf("%d appends, %v", len(c.order), err)
				}
				_ = l.Close(t.Context(), backend.CloseOptions{})
				if err := audit(t.Context(), mem, "log", c); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A merge that fails, or hangs, fails no append.
func TestMergesThatNeverWork(t *testing.T) {
	for name, fault := range map[string]faultstore.Fault{
		"denied": faultstore.Denied(), "missing": faultstore.Fail(objstore.ErrNotExist), "hanging": faultstore.Delay(time.Hour),
		"damaged": edit(func(o *objstore.Object) { o.Body[len(o.Body)/2] ^= 1 }),
	} {
		for _, foreground := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/foreground=%v", name, foreground), func(t *testing.T) {
				before := prepared(t, scenario{prepare: prepareSegments})
				synctest.Test(t, func(t *testing.T) {
					mem := restore(t, before)
					trace := tracestore.New(faultstore.New(mem, faultstore.Rule{Match: faultstore.And(faultstore.Op("Get"), faultstore.Prefix("segments/")), Fault: fault}), tracestore.Options{})
					l := adopt(t, backend.New(trace, backend.Options{Foreground: foreground, CommitTimeout: time.Minute}), matrixLog)
					c := newClaims()
					for i := range 6 {
						tag := fmt.Sprint(i)
						if err := c.acked(appendOne(t, l, tagged(tag, 10)), tag); err != nil {
							t.Error(err)
						}
						synctest.Wait()
					}
					closeLog(t, l)
					if n := trace.Counts().Get; n != 2 { // the manifest, and the first segment once
						t.Errorf("%d GETs", n)
					}
					if err := audit(t.Context(), mem, matrixLog, c); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// A seal whose commit landed, with the reply lost and a maintenance commit on
// top, is not named again.
func TestSealIsNamedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		store := faultstore.New(mem)
		b := backend.New(store, backend.Options{})
		l := create(t, b, "log")
		c := newClaims()
		if err := c.acked(appendOne(t, l, tagged("a", sealing)), "a"); err != nil {
			t.Error(err)
		}
		synctest.Wait() // the seal is ready, and waits for a commit
		store.Inject(faultstore.Rule{Match: manifestPuts, Nth: 1, Fault: faultstore.LostReply()})
		store.Inject(faultstore.Rule{Match: manifestPuts, Nth: 2, Fault: faultstore.Before(func() { maintain(t, mem, "log") })})
		if err := l.Close(t.Context(), backend.CloseOptions{Release: true}); err != nil {
			t.Error(err)
		}
		info, err := b.Info(t.Context(), "log")
		if err != nil || len(info.Segments) != 1 || !info.Owner.Released {
			t.Errorf("%+v, %v", info, err)
		}
		if err := audit(t.Context(), mem, "log", c); err != nil {
			t.Error(err)
		}
	})
}

// An upload of before a barrier is never named.
func TestBarrierDropsUploads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		b := backend.New(mem, backend.Options{})
		l := create(t, b, "log")
		c := newClaims()
		add := func(tag string, pad int) {
			if err := c.acked(appendOne(t, l, tagged(tag, pad)), tag); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		add("a", sealing)
		orphan := segmentOf(mem.Snapshot(""))
		barrier(t, mem, "log", 7)
		add("b", 10)
		add("c", 10)
		closeLog(t, l)
		info, err := b.Info(t.Context(), "log")
		if err != nil || info.Epoch != 8 || len(info.Segments) != 1 {
			t.Errorf("%+v, %v", info, err)
		}
		for _, s := range info.Segments {
			if key := manifest.SegmentKey("log", s.Name); key == orphan || s.Name.Epoch != 8 {
				t.Errorf("%s is named", key)
			}
		}
		if err := audit(t.Context(), mem, "log", c); err != nil {
			t.Error(err)
		}
	})
}

// A deletion at any call: events are acknowledged or not, and then it is deleted
// for all.
func TestDeletionAtEveryCall(t *testing.T) {
	everyCall(t, func(t *testing.T, mem *memstore.Store, c *claims, _ int) {
		if _, there := mem.Snapshot("manifests/")[manifest.Key(matrixLog)]; !there {
			return
		}
		c.maybe["deleted"] = true
		commitBy(t, mem, matrixLog, func(base *manifest.Record, w manifest.Writer) (*manifest.Draft, error) {
			if base.State != manifest.StateOpen {
				return manifest.Maintain(base, w, base.Commit.At)
			}
			d, err := manifest.TakeOver(base, w, manifest.KindDelete, base.Commit.At)
			if err == nil {
				d.Delete()
			}
			return d, err
		})
	}, func(t *testing.T, what string, c *claims, err error) {
		deleted := c.maybe["deleted"]
		if err != nil && !(deleted && errors.Is(err, backend.ErrDeleted)) {
			t.Errorf("%s: %v", what, err)
		}
		if deleted { // nothing can be read any more
			c.order, c.at = nil, map[string]int64{}
		}
	})
}

// Any seq may be the last one asked for.
func TestReadUpToAnySeq(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	l := create(t, b, "log")
	appendAll(t, l, event(0), event(1), event(2))
	closeLog(t, l)
	for to, want := range map[int64]int{math.MinInt64: 0, -1: 0, 0: 1, 2: 3, 3: 3, math.MaxInt64 - 1: 3, math.MaxInt64: 3} {
		n := 0
		for _, err := range b.Events(t.Context(), "log", backend.ReadOptions{To: &to}) {
			if err != nil {
				t.Error(err)
			}
			n++
		}
		if n != want {
			t.Errorf("up to %d: %d events", to, n)
		}
	}
	for _, from := range []int64{math.MinInt64, -1} {
		if _, err := readAll(t.Context(), b.Reader, "log", from); err == nil {
			t.Errorf("read from %d", from)
		}
	}
	if got, err := readAll(t.Context(), b.Reader, "log", math.MaxInt64); err != nil || len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
}

// What can be refused without the store is refused before anything is sent.
func TestCreateRefusesWhatCannotBeStored(t *testing.T) {
	trace := tracestore.New(memstore.New(t), tracestore.Options{})
	many := make([]string, 257)
	for i := range many {
		many[i] = fmt.Sprint("type", i)
	}
	for name, tc := range map[string]struct {
		opt  backend.CreateOptions
		back backend.Options
		want error
	}{
		"newline in a string":  {opt: backend.CreateOptions{Header: []byte("{\"a\":\"x\ny\"}")}, want: backend.ErrInvalidEvent},
		"newline in a number":  {opt: backend.CreateOptions{Header: []byte("{\"a\":1\n2}")}, want: backend.ErrInvalidEvent},
		"newline in a literal": {opt: backend.CreateOptions{Header: []byte("{\"a\":tr\nue}")}, want: backend.ErrInvalidEvent},
		"no object":            {opt: backend.CreateOptions{Header: []byte("[]")}, want: backend.ErrInvalidEvent},
		"two objects":          {opt: backend.CreateOptions{Header: []byte("{}{}")}, want: backend.ErrInvalidEvent},
		"large header":         {opt: backend.CreateOptions{Header: fmt.Appendf(nil, `{"a":%q}`, strings.Repeat("x", 32<<10))}, want: backend.ErrTooLarge},
		"deep header":          {opt: backend.CreateOptions{Header: fmt.Appendf(nil, `{"a":%s%s}`, strings.Repeat("[", 9999), strings.Repeat("]", 9999))}},
		"large label":          {back: backend.Options{Label: strings.Repeat("x", 129)}, want: backend.ErrTooLarge},
		"large label, escaped": {back: backend.Options{Label: strings.Repeat("\x01", 30)}, want: backend.ErrTooLarge},
		"large software":       {back: backend.Options{Software: strings.Repeat("x", 129)}, want: backend.ErrTooLarge},
		"label of bad UTF-8":   {back: backend.Options{Label: "\xff"}},
		"many types":           {opt: backend.CreateOptions{Types: many}},
	} {
		_, err := backend.New(trace, tc.back).Create("log", tc.opt)
		if err == nil || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, header := range map[string]string{
		"newlines between": "{\n\"a\" :\n[1,\n2]\n}\n", "duplicate names": `{"a":1,"a":2}`, "lone surrogate": `{"a":"\ud800"}`,
		"of the greatest size": fmt.Sprintf("{\n\"a\":%q}", strings.Repeat("x", 32<<10-8)),
	} {
		l, err := backend.New(memstore.New(t), backend.Options{}).Create("log", backend.CreateOptions{Header: []byte(header)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		appendOne(t, l, event(0))
		closeLog(t, l)
	}
	if n := trace.Counts().Requests(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// A clock that is behind the newest commit holds nobody off (whole seconds, and
// writers that had not heard the store's clock yet).
func TestAdoptWithAClockBehind(t *testing.T) {
	mem := memstore.New(t)
	l := create(t, backend.New(mem, backend.Options{}), "log")
	appendOne(t, l, event(0))
	closeLog(t, l)
	mem.SetClock(func() time.Time { return time.Now().Add(-time.Hour) })
	b := backend.New(mem, backend.Options{})
	appendOne(t, adopt(t, b, "log"), event(1))
	if _, err := b.Adopt(t.Context(), "log", backend.AdoptOptions{Quiet: time.Minute}); !errors.Is(err, backend.ErrHeld) {
		t.Error(err)
	}
}

// Decide that fails keeps the question: its error has the token that was asked
// about.
func TestDecideThatFailsKeepsTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		store := faultstore.New(mem)
		b := backend.New(store, backend.Options{CommitTimeout: time.Second})
		l := create(t, b, "log")
		appendOne(t, l, event(0))
		late := store.Inject(faultstore.Rule{Match: manifestPuts, Fault: faultstore.Late()})
		_, err := l.Append(t.Context(), [][]byte{event(1)}, backend.AppendOptions{})
		token := backend.Token(err)
		if token == "" {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := b.Decide(ctx, token); !errors.Is(err, backend.ErrOutcomeUnknown) || backend.Token(err) != token {
			t.Errorf("%v", err)
		}
		late.Stop()
		if d, err := b.Decide(t.Context(), token); err != nil || d.Committed {
			t.Errorf("%+v, %v", d, err)
		}
		late.Release(t.Context())
		if n := len(read(t, b.Reader, "log", 0)); n != 1 {
			t.Errorf("%d events", n)
		}
		_ = l.Close(t.Context(), backend.CloseOptions{})
	})
}

// A keyed append that another process has made meanwhile is answered with its
// receipt, also where this handle was fenced by it.
func TestKeyOfAFencedAppend(t *testing.T) {
	for name, ev := range map[string][]byte{"same": tagged("a", 1), "other": tagged("b", 1)} {
		t.Run(name, func(t *testing.T) {
			mem := memstore.New(t)
			store := faultstore.New(mem)
			l := create(t, backend.New(store, backend.Options{}), "log")
			appendOne(t, l, event(0))
			key := backend.AppendOptions{Key: "k"}
			var first backend.Receipt
			store.Inject(faultstore.Rule{Match: manifestPuts, Nth: 1, Fault: faultstore.Before(func() {
				other := adopt(t, backend.New(mem, backend.Options{}), "log")
				var err error
				if first, err = other.Append(t.Context(), [][]byte{ev}, key); err != nil {
					t.Error(err)
				}
				closeLog(t, other)
			})})
			r, err := l.Append(t.Context(), [][]byte{tagged("a", 1)}, key)
			switch name {
			case "same":
				if err != nil || !r.Duplicate || r.First != first.First || r.Count != 1 || r.Generation != 2 {
					t.Errorf("%+v, %v", r, err)
				}
			default:
				if !errors.Is(err, backend.ErrKeyConflict) {
					t.Error(err)
				}
			}
			// The handle is fenced all the same.
			if _, err := l.Append(t.Context(), [][]byte{event(1)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrFenced) {
				t.Error(err)
			}
			if err := l.Close(t.Context(), backend.CloseOptions{}); !errors.Is(err, backend.ErrFenced) {
				t.Error(err)
			}
			if n := len(read(t, backend.NewReader(mem, backend.Options{}), "log", 0)); n != 2 {
				t.Errorf("%d events", n)
			}
		})
	}
}

// The same session is the same log, also if its events have no times and got
// theirs when they were imported.
func TestImportAgainWithoutTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := backend.New(memstore.New(t), backend.Options{})
		session := func(n int, change int) func(yield func([]byte, error) bool) {
			return func(yield func([]byte, error) bool) {
				for i := range n {
					line := fmt.Appendf(nil, `{"type":"note","data":%d}`, i)
					if i == change {
						line = []byte(`{"type":"note","data":"changed"}`)
					}
					if i%3 == 2 {
						line = fmt.Appendf(nil, `{"type":"note","time":%d,"data":0}`, i)
					}
					if !yield(line, nil) {
						return
					}
				}
			}
		}
		imported := func(n, change int) (backend.Receipt, error) {
			time.Sleep(time.Minute)
			return b.Import(t.Context(), "log", session(n, change), backend.ImportOptions{})
		}
		if r, err := imported(5, -1); err != nil || r.Next != 5 {
			t.Fatalf("%+v, %v", r, err)
		}
		if r, err := imported(5, -1); err != nil || !r.Duplicate || r.Next != 5 {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err := imported(9, -1); err != nil || r.Duplicate || r.First != 5 || r.Count != 4 {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err := imported(9, 7); !errors.Is(err, backend.ErrExists) {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err := imported(9, -1); err != nil || !r.Duplicate {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// An import appends in batches of MaxBatch, or of what one append may hold, and
// its last one releases the log.
func TestImportBatches(t *testing.T) {
	large := tagged("large", 10<<20)
	for _, tc := range []struct {
		max, events int
		line        []byte
		puts        int64
	}{
		{max: 1, events: 5, line: event(0), puts: 5},
		{max: 1000, events: 100, line: event(0), puts: 20},
		{max: 1 << 20, events: 100, line: event(0), puts: 1},
		{max: 1 << 30, events: 7, line: large, puts: 3 + 3}, // each with a segment
	} {
		trace := tracestore.New(memstore.New(t), tracestore.Options{})
		b := backend.New(trace, backend.Options{MaxBatch: tc.max})
		r, err := b.Import(t.Context(), "log", func(yield func([]byte, error) bool) {
			for range tc.events {
				if !yield(tc.line, nil) {
					return
				}
			}
		}, backend.ImportOptions{})
		if err != nil || r.Count != int64(tc.events) {
			t.Errorf("%d: %+v, %v", tc.max, r, err)
		}
		if n := trace.Counts().Put; n != tc.puts {
			t.Errorf("%d: %d PUTs", tc.max, n)
		}
		if info, err := b.Info(t.Context(), "log"); err != nil || !info.Owner.Released || info.Next != int64(tc.events) {
			t.Errorf("%d: %+v, %v", tc.max, info, err)
		}
	}
}

// A closing handle begins nothing that no commit of it would name.
func TestCloseBeginsNoMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faultstore.New(memstore.New(t))
		reads := store.Inject(faultstore.Rule{Match: faultstore.And(faultstore.Op("Get"), faultstore.Prefix("segments/")), Nth: 1 << 30, Fault: faultstore.Unavailable()})
		prepareSegments(t, backend.New(store, backend.Options{})) // the last Close makes a merge due
		synctest.Wait()
		if n := reads.Matches(); n != 0 {
			t.Errorf("%d segments were read", n)
		}
	})
}
