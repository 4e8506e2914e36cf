package simulation

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

// No goroutine may be left behind by any schedule.
func TestMain(m *testing.M) {
	// Thousands of short-lived stores and encoders: collecting them one by one
	// takes longer than using them.
	debug.SetGCPercent(400)
	goleak.VerifyTestMain(m)
}

// schedules is how many are played: as many as the time allows.
func schedules() int {
	switch {
	case os.Getenv("S3LOG_LONG") != "":
		return 100_000
	case raceDetector || testing.Short():
		return 500
	case os.Getenv("CI") == "true":
		return 10_000
	}
	return 1000
}

// TestSchedules plays the first seeds, and finds no promise broken.
func TestSchedules(t *testing.T) {
	first, n := uint64(1), schedules()
	if v := os.Getenv("S3LOG_SEEDS"); v != "" { // as FIRST+N
		if _, err := fmt.Sscanf(v, "%d+%d", &first, &n); err != nil {
			t.Fatalf("S3LOG_SEEDS=%s: %v", v, err)
		}
	}
	began := time.Now()
	all := playMany(t, first, n)
	if t.Failed() {
		return
	}
	t.Logf("%d schedules, %.0f/s\n%s", all.played, float64(all.played)/time.Since(began).Seconds(), all)
	if n >= 1000 {
		all.complete(t, reached)
	}
	if n >= 10_000 {
		all.complete(t, reachedSeldom)
	}
}

// playMany plays schedules on all processors, until one fails. Of several that
// fail at the same time the first one is reported, however fast each is played.
func playMany(t *testing.T, first uint64, n int) *total {
	var all total
	var next atomic.Uint64
	end := first + uint64(n)
	var mu sync.Mutex // of end and failed
	var failed *result
	t.Run("", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint("worker", i), func(t *testing.T) {
				t.Parallel()
				for {
					seed := first + next.Add(1) - 1
					mu.Lock()
					over := seed >= end
					mu.Unlock()
					if over {
						return
					}
					res := play(t, newPlan(seed), false)
					all.add(res)
					mu.Lock()
					if res.broken != "" && seed < end {
						end, failed = seed, &res
					}
					mu.Unlock()
				}
			})
		}
	})
	if failed != nil {
		report(t, *failed)
	}
	return &all
}

// report shows a schedule that broke a promise, as small as it gets.
func report(t *testing.T, res result) {
	t.Helper()
	if os.Getenv("S3LOG_SHRINK") == "no" { // of a mutant
		t.Errorf("seed %d: %s", res.plan.seed, res.broken)
		return
	}
	small := shrink(t, res.plan)
	without := small.plan.leftOut()
	t.Errorf("seed %d: %s\n\nWithout what is not needed for it (%s):\n%s\n%s\n\n%s\n\nPlay it again: S3LOG_SEED=%d S3LOG_WITHOUT=%s go test -run TestReplay ./simulation",
		res.plan.seed, res.broken, strings.Join(without, ","), small.plan, small.broken, strings.Join(small.trace, "\n"), res.plan.seed, strings.Join(without, ","))
}

// TestReplay plays one schedule and shows it.
func TestReplay(t *testing.T) {
	text := os.Getenv("S3LOG_SEED")
	if text == "" {
		text = "1"
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlan(seed, strings.FieldsFunc(os.Getenv("S3LOG_WITHOUT"), func(r rune) bool { return r == ',' })...)
	res := play(t, p, true)
	t.Logf("%s\n%s", p, strings.Join(res.trace, "\n"))
	if res.broken != "" {
		t.Error(res.broken)
	}
}

// A seed is a schedule: played again, the same requests are answered in the same
// order, and at the same time. Only who follows waits at random after a failure,
// and only reads. Two or three seeds in ten thousand, none of these, leave an order
// open: a collection that removes more than eight objects whose names differ in
// nothing but the nonce does so in the order of nonces, and two requests of one
// process may have the same lane.
func TestSameSeed(t *testing.T) {
	n := uint64(100)
	if raceDetector {
		n = 20
	}
	deterministic := func(res result) []string {
		return slices.DeleteFunc(res.trace, func(line string) bool { return strings.Contains(line, " follower") })
	}
	for seed := range n {
		one, two := play(t, newPlan(seed), true), play(t, newPlan(seed), true)
		if diff := cmp.Diff(deterministic(one), deterministic(two)); diff != "" {
			t.Fatalf("seed %d, played twice: %s", seed, diff)
		}
	}
}
