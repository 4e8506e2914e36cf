package backend_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

// golden compares text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got), go test -update writes it anew:\n%s", path, d)
	}
}

// The requests of a log's life, one line each. A line more or less is a change
// of what every user pays.
func TestGoldenTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		trace := tracestore.New(memstore.New(t), tracestore.Options{Out: &out, Mask: tracestore.NewMasker(), NoSizes: true})
		b := backend.New(trace, backend.Options{PollInterval: time.Second})
		section := func(format string, args ...any) {
			synctest.Wait() // for what goes on in the background
			fmt.Fprintf(&out, "# "+format+"\n", args...)
		}
		section("create: nothing, then with the first append")
		l, err := b.Create("log", backend.CreateOptions{Header: []byte(`{"id":"log"}`)})
		if err != nil {
			t.Fatal(err)
		}
		appendOne(t, l, event(0))
		section("append, three times")
		for i := range 3 {
			appendOne(t, l, event(i+1))
		}
		section("info")
		if _, err := b.Info(t.Context(), "log"); err != nil {
			t.Error(err)
		}
		section("read")
		read(t, b.Reader, "log", 0)
		section("close, without anything asked")
		closeLog(t, l)
		section("adopt: nothing but a read, then append")
		l = adopt(t, b, "log")
		appendOne(t, l, event(4))
		section("append so much that the tail is to be sealed")
		appendOne(t, l, tagged("a", sealing))
		section("the next append names the segment")
		appendOne(t, l, event(6))
		section("three more seals, and with the fourth segment a merge")
		for i := range 2 {
			appendOne(t, l, tagged(fmt.Sprint("c", i), sealing))
			synctest.Wait()
			appendOne(t, l, event(0))
			synctest.Wait()
		}
		appendOne(t, l, tagged("d", sealing))
		synctest.Wait()
		section("the next append names the segment, the one after it the merge")
		appendOne(t, l, event(0))
		synctest.Wait()
		appendOne(t, l, event(0))
		section("append more than fits")
		appendOne(t, l, tagged("b", 150<<10))
		section("read all, and from the tail on")
		read(t, backend.NewReader(trace, backend.Options{Prefetch: 1}), "log", 0)
		read(t, b.Reader, "log", l.Next()-1)
		section("follow: what is there, nothing new, one event, nothing new")
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		next := l.Next()
		for ev, err := range b.Follow(ctx, "log", next-1) {
			if err == nil && ev.Seq == next-1 {
				go func() {
					time.Sleep(1500 * time.Millisecond)
					appendOne(t, l, event(9))
				}()
			}
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
		cancel()
		section("a keyed append, and again by another process")
		key := backend.AppendOptions{Key: "k"}
		if _, err := l.Append(t.Context(), [][]byte{event(10)}, key); err != nil {
			t.Error(err)
		}
		other := adopt(t, b, "log")
		if r, err := other.Append(t.Context(), [][]byte{event(10)}, key); err != nil || !r.Duplicate {
			t.Error(r, err)
		}
		closeLog(t, other)
		section("close with a seal and a release")
		if err := l.Close(t.Context(), backend.CloseOptions{Seal: true, Release: true}); err != nil {
			t.Error(err)
		}
		section("list")
		listed(t, b.Reader, backend.ListOptions{})
		section("import, and again")
		session := func(yield func([]byte, error) bool) { _ = yield(event(0), nil) && yield(event(1), nil) }
		for range 2 {
			if _, err := b.Import(t.Context(), "session", session, backend.ImportOptions{}); err != nil {
				t.Error(err)
			}
		}
		section("end")
		golden(t, "trace.txt", out.String())
	})
}

// manyLogs puts n logs on a store, one a second: each with an activity at the
// time of its modification, or honest by half an hour less.
func manyLogs(t *testing.T, mem *memstore.Store, n int, lag time.Duration) {
	ctx := t.Context()
	for i := range n {
		time.Sleep(2 * time.Second)
		key := fmt.Sprintf("manifests/log%05d.json", i)
		_, err := mem.Put(ctx, key, fmt.Appendf(nil, "manifest of %d", i), objstore.IfAbsent(), objstore.PutOptions{Metadata: map[string]string{
			"s3log-commit": "c", "s3log-next": "5", "s3log-state": "open",
			"s3log-activity": fmt.Sprint(time.Now().Add(-lag).UnixMilli()),
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A listing costs a LIST per thousand, and for the newest k about k HEADs.
func TestBudgetOfListings(t *testing.T) {
	for _, tc := range []struct {
		logs, limit, least, most int
		lag                      time.Duration
		by                       backend.Order
	}{
		{logs: 2500, limit: 0, least: 2500, most: 2500, by: backend.ByName},
		{logs: 2500, limit: 0, least: 2500, most: 2500},
		{logs: 2500, limit: 1, least: 1, most: 8},
		{logs: 10_000, limit: 20, least: 20, most: 32},
		{logs: 10_000, limit: 20, least: 20, most: 32, by: backend.ByModified},
		{logs: 3000, limit: 20, lag: 10 * time.Second, least: 20, most: 40},
		{logs: 3000, limit: 20, lag: time.Minute, least: 30, most: 80},
	} {
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.New(t)
			manyLogs(t, mem, tc.logs, tc.lag)
			trace := tracestore.New(mem, tracestore.Options{})
			n := 0
			for e, err := range backend.NewReader(trace, backend.Options{}).List(t.Context(), backend.ListOptions{By: tc.by, Limit: tc.limit}) {
				if err != nil || e.Err != nil {
					t.Fatal(err, e.Err)
				}
				want := tc.logs - 1 - n
				if tc.by == backend.ByName {
					want = n
				}
				if e.Log != fmt.Sprintf("log%05d", want) || e.Next != 5 {
					t.Errorf("entry %d: %+v", n, e)
				}
				n++
			}
			synctest.Wait()
			c := trace.Counts()
			if want := tc.limit; n != want && want != 0 || want == 0 && n != tc.logs {
				t.Errorf("%d entries", n)
			}
			if lists := int64((tc.logs + 999) / 1000); c.List != lists || c.Get != 0 || c.Head < int64(tc.least) || c.Head > int64(tc.most) {
				t.Errorf("%+v: %+v", tc, c)
			}
		})
	}
}

// The other budgets, in steps of one handle and one reader.
func TestBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		trace := tracestore.New(mem, tracestore.Options{})
		b := backend.New(trace, backend.Options{})
		step := func(name string, want tracestore.Counts, f func()) {
			t.Helper()
			before := trace.Counts()
			f()
			synctest.Wait()
			got := trace.Counts().Sub(before)
			got.BytesIn, got.BytesOut = 0, 0
			if got != want {
				t.Errorf("%s: %+v", name, got)
			}
		}
		l := create(t, b, "log")
		step("hundred appends", tracestore.Counts{Put: 100}, func() {
			for i := range 100 {
				appendOne(t, l, event(i))
			}
		})
		step("an hour of nothing", tracestore.Counts{}, func() { time.Sleep(time.Hour) })
		step("flush", tracestore.Counts{}, func() {
			if err := l.Flush(t.Context()); err != nil {
				t.Error(err)
			}
		})
		step("close", tracestore.Counts{}, func() { closeLog(t, l) })
		step("adopt and append", tracestore.Counts{Get: 1, Put: 1}, func() {
			l = adopt(t, b, "log")
			appendOne(t, l, event(0))
		})
		step("release", tracestore.Counts{Put: 1}, func() {
			if err := l.Close(t.Context(), backend.CloseOptions{Release: true}); err != nil {
				t.Error(err)
			}
		})
		step("one shot on what is there", tracestore.Counts{Get: 1, Put: 2}, func() {
			l, err := b.Create("log", backend.CreateOptions{OrAdopt: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Append(t.Context(), [][]byte{event(0)}, backend.AppendOptions{Last: true}); err != nil {
				t.Error(err)
			}
			if err := l.Close(t.Context(), backend.CloseOptions{Release: true}); err != nil {
				t.Error(err)
			}
		})
		step("one shot on nothing", tracestore.Counts{Put: 1}, func() {
			l, err := b.Create("new", backend.CreateOptions{OrAdopt: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Append(t.Context(), [][]byte{event(0)}, backend.AppendOptions{Last: true}); err != nil {
				t.Error(err)
			}
			closeLog(t, l)
		})
		step("read a log in its tail", tracestore.Counts{Get: 1}, func() { read(t, b.Reader, "log", 0) })
		objects, lines := longLog(t)
		for key, body := range objects {
			if key != "manifests/log.json" {
				mem.Replace(key, body)
			}
		}
		mem.Drop("manifests/log.json")
		mem.Replace("manifests/log.json", objects["manifests/log.json"])
		r := backend.NewReader(trace, backend.Options{})
		step("read a log of three segments", tracestore.Counts{Get: 4}, func() {
			if n := len(read(t, r, "log", 0)); n != len(lines) {
				t.Errorf("%d events", n)
			}
		})
		step("read its last segment and tail", tracestore.Counts{Get: 2}, func() { read(t, r, "log", 44) })
		step("read its tail", tracestore.Counts{Get: 1}, func() { read(t, r, "log", 46) })
		step("read from beyond its end", tracestore.Counts{Get: 1}, func() { read(t, r, "log", 1000) })
	})
}
