package integration

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/faultproxy"
)

// counted checks how many requests of each kind reach the server, by HTTP.
func counted(t *testing.T, r *rig, what string, want map[string]int, do func()) faultproxy.Entries {
	t.Helper()
	r.proxy.Take()
	do()
	e := r.proxy.Take()
	if got := e.Counts(); !maps.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
	return e
}

// What an action may cost, counted where it is billed.
func TestBudgetsOverHTTP(t *testing.T) {
	const (
		put  = faultproxy.Put
		get  = faultproxy.Get
		head = faultproxy.Head
		list = faultproxy.List
	)
	r := newRig(t)
	opt := quick
	opt.PollInterval = time.Millisecond

	l := mustCreate(t, r.store, "log", opt)
	counted(t, r, "create and first append", map[string]int{put: 1}, func() { mustAppend(t, l, note(0)) })
	counted(t, r, "20 appends", map[string]int{put: 20}, func() {
		for i := range 20 {
			mustAppend(t, l, note(i+1))
		}
	})
	counted(t, r, "an idle writer, and its Close", map[string]int{}, func() {
		time.Sleep(50 * time.Millisecond)
		if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
			t.Error(err)
		}
	})
	counted(t, r, "append from a fresh process", map[string]int{get: 1, put: 1}, func() {
		store := r.open(t)
		l, err := backend.New(store, opt).Adopt(t.Context(), "log", backend.AdoptOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(t.Context(), [][]byte{note(21)}, backend.AppendOptions{Last: true}); err != nil {
			t.Error(err)
		}
		if err := l.Close(t.Context(), backend.CloseOptions{Release: true}); err != nil {
			t.Error(err)
		}
	})
	counted(t, r, "load of a log in its tail", map[string]int{get: 1}, func() {
		if got, err := read(t, r.store, "log", 0); err != nil || len(got) != 22 {
			t.Errorf("%d events, %v", len(got), err)
		}
	})
	counted(t, r, "info", map[string]int{get: 1}, func() {
		if _, err := backend.NewReader(r.store, opt).Info(t.Context(), "log"); err != nil {
			t.Error(err)
		}
	})

	counted(t, r, "verdict", map[string]int{get: 1}, func() {
		pair := backend.Pair{Open: "compaction/start", Close: "compaction/end"}
		if _, err := backend.NewReader(r.store, opt).Check(t.Context(), "log", pair, backend.CheckOptions{}); err != nil {
			t.Error(err)
		}
	})
	resume := func() {
		l, _, err := backend.New(r.store, opt).Resume(t.Context(), "log", backend.ResumeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
			t.Error(err)
		}
	}
	counted(t, r, "resume", map[string]int{get: 1, put: 1}, resume)
	counted(t, r, "resume of what ends in its boundary", map[string]int{get: 1}, resume)
	counted(t, r, "fork", map[string]int{get: 1, put: 2}, func() {
		if _, _, err := backend.New(r.store, opt).Fork(t.Context(), "log", "child", backend.ForkOptions{Release: true}); err != nil {
			t.Error(err)
		}
	})

	t.Run("segments", func(t *testing.T) {
		l := mustCreate(t, r.store, "long", foreground)
		mustAppend(t, l, note(0))
		counted(t, r, "an append that seals", map[string]int{put: 2}, func() { mustAppend(t, l, notes(t, 0, 300)...) })
		mustAppend(t, l, notes(t, 0, 300)...)
		mustAppend(t, l, notes(t, 0, 300)...)
		counted(t, r, "an append that seals, after it the first merge is due", map[string]int{put: 2}, func() { mustAppend(t, l, notes(t, 0, 300)...) })
		counted(t, r, "an append that merges four", map[string]int{put: 2, get: 4}, func() { mustAppend(t, l, note(0)) })
		info, err := backend.NewReader(r.direct, opt).Info(t.Context(), "long")
		if err != nil || len(info.Segments) != 1 {
			t.Fatalf("%d segments, %v", len(info.Segments), err)
		}
		counted(t, r, "load", map[string]int{get: 1 + len(info.Segments)}, func() {
			if got, err := read(t, r.store, "long", 0); err != nil || len(got) != 1202 {
				t.Errorf("%d events, %v", len(got), err)
			}
		})
	})

	t.Run("follow", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		r.proxy.Take()
		for _, err := range backend.NewReader(r.store, opt).Follow(ctx, "log", 1000) {
			if err == nil {
				t.Error("an event that is not there")
			}
		}
		e := r.proxy.Take()
		if len(e) < 5 || e[0].Status != 200 {
			t.Fatalf("%d requests", len(e))
		}
		for _, poll := range e[1 : len(e)-1] { // the last one may have been cut off
			if poll.Op != get || poll.Status != 304 || poll.Condition == "" {
				t.Errorf("a poll was %s with %q, answered %d", poll.Op, poll.Condition, poll.Status)
			}
		}
	})

	t.Run("list", func(t *testing.T) {
		const logs, at = 2500, 16
		r := newRig(t)
		b := backend.New(r.direct, opt)
		var wg sync.WaitGroup
		for w := range at {
			wg.Go(func() {
				for i := w; i < logs; i += at {
					prompt := fmt.Appendf(nil, `{"type":"user/message","data":{"content":"%d","source":{"kind":"user"}}}`, i)
					l, err := b.Create(fmt.Sprintf("log-%04d", i), backend.CreateOptions{})
					if err == nil {
						_, err = l.Append(t.Context(), [][]byte{prompt}, backend.AppendOptions{Last: true})
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		reader := backend.NewReader(r.store, opt)
		walk := func(o backend.ListOptions) (n int) {
			for e, err := range reader.List(t.Context(), o) {
				if err != nil || e.Err != nil || e.Next != 1 {
					t.Fatalf("%+v, %v", e, err)
				}
				n++
			}
			return n
		}
		counted(t, r, "all logs", map[string]int{list: 3, head: logs}, func() {
			if n := walk(backend.ListOptions{}); n != logs {
				t.Errorf("%d logs listed", n)
			}
		})
		r.proxy.Take()
		if n := walk(backend.ListOptions{Limit: 20}); n != 20 {
			t.Errorf("%d logs listed", n)
		}
		if got := r.proxy.Take().Counts(); got[list] != 3 || got[head] < 20 || got[head] > 32 || len(got) != 2 {
			t.Errorf("the newest 20: %v", got)
		}
	})
}

// The first write to an endpoint of which nothing is known is preceded by four
// more, once in a process, whoever writes next.
func TestProofOncePerProcess(t *testing.T) {
	r := newRig(t)
	counted(t, r, "reading", map[string]int{faultproxy.Get: 1}, func() {
		if _, err := backend.NewReader(r.open(t, unproved), quick).Info(t.Context(), "log"); err == nil {
			t.Error("there is a log")
		}
	})
	e := counted(t, r, "first append", map[string]int{faultproxy.Put: 5, faultproxy.Delete: 1}, func() {
		mustAppend(t, mustCreate(t, r.open(t, unproved), "log", quick), note(0))
	})
	if n := len(e.Of(faultproxy.Put, "/probe/")); n != 4 {
		t.Errorf("%d PUTs of the proof", n)
	}
	counted(t, r, "another", map[string]int{faultproxy.Put: 1}, func() {
		mustAppend(t, mustCreate(t, r.open(t, unproved), "other", quick), note(0))
	})
}
