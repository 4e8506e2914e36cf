package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/s3log/s3log/internal/bench"
	"github.com/s3log/s3log/internal/words"
)

// benched is the result of a scenario in JSON.
type benched struct {
	Scenario  string        `json:"scenario"`
	Ours      benchedSide   `json:"ours"`
	Raw       benchedSide   `json:"raw"`
	Ratio     float64       `json:"ratio"`
	Events    *int64        `json:"events"` // null where a scenario is not about events
	PerSecond *float64      `json:"eventsPerSecond"`
	Bytes     *int64        `json:"bytes"`
	Commits   *int64        `json:"commits"` // null but for parallel
	Requests  requestCounts `json:"requests"`
	BytesIn   int64         `json:"bytesIn"`
	BytesOut  int64         `json:"bytesOut"`
	USD       *json.Number  `json:"usdPerMillionEvents"`
	Heap      uint64        `json:"heap"`
}

type benchedSide struct {
	What  string       `json:"what"`
	Count int          `json:"count"`
	MS    benchedTimes `json:"ms"`
}

type benchedTimes struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// rounded keeps as many decimals.
func rounded(v float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(v*scale) / scale
}

func milliseconds(d time.Duration) float64 { return rounded(float64(d)/1e6, 3) }

func newBenchedSide(s bench.Side) benchedSide {
	q := s.Latency
	return benchedSide{What: s.What, Count: q.Count, MS: benchedTimes{
		milliseconds(q.P50), milliseconds(q.P90), milliseconds(q.P99), milliseconds(q.Max), milliseconds(q.Mean),
	}}
}

func newBenched(r bench.Result) benched {
	out := benched{
		Scenario: string(r.Scenario), Ours: newBenchedSide(r.Ours), Raw: newBenchedSide(r.Raw), Ratio: rounded(r.Ratio, 4),
		Requests: newRequestCounts(r.Counts), BytesIn: r.Counts.BytesIn, BytesOut: r.Counts.BytesOut, Heap: r.Heap,
	}
	if r.Commits > 0 {
		out.Commits = &r.Commits
	}
	if r.Events > 0 && r.Elapsed > 0 {
		rate := rounded(float64(r.Events)/r.Elapsed.Seconds(), 1)
		usd := json.Number(strconv.FormatFloat(rounded(float64(nanoUSD(r.Counts))/1e3/float64(r.Events), 6), 'f', -1, 64))
		out.Events, out.Bytes, out.PerSecond, out.USD = &r.Events, &r.Bytes, &rate, &usd
	}
	return out
}

// text writes a scenario for people.
func (o benched) text(w io.Writer, width int, r bench.Result, opt bench.Options) {
	fmt.Fprintf(w, "%s%s\n", o.Scenario, o.how(r, opt))
	sides := fitted{w: w, width: width, right: []bool{true, true, true, true, true}}
	sides.row("  TIMES", "P50", "P90", "P99", "MAX", "WHAT")
	for _, s := range []bench.Side{r.Ours, r.Raw} {
		q := s.Latency
		sides.row(fmt.Sprint(q.Count), tookText(q.P50), tookText(q.P90), tookText(q.P99), tookText(q.Max), s.What)
	}
	sides.flush()
	if r.Commits > 0 {
		fmt.Fprintf(w, "  ratio of the time between two commits to the PUT: %.2f; %s, %.0f events each\n",
			o.Ratio, words.Count(r.Commits, "commit"), float64(r.Events)/float64(r.Commits))
	} else {
		fmt.Fprintf(w, "  ratio of the medians: %.2f\n", o.Ratio)
	}
	if o.Events != nil {
		fmt.Fprintf(w, "  %.0f events/s, %s/s; %s USD per million events\n", *o.PerSecond, bytesText(int64(float64(r.Bytes)/r.Elapsed.Seconds())), *o.USD)
	}
	fmt.Fprintf(w, "  %s", o.Requests.words())
	if o.BytesOut > 0 {
		fmt.Fprintf(w, ", %s sent", bytesText(o.BytesOut))
		if o.Events != nil {
			fmt.Fprintf(w, " (%.1f bytes per byte of events)", float64(o.BytesOut)/float64(r.Bytes))
		}
	}
	if o.BytesIn > 0 {
		fmt.Fprintf(w, ", %s received", bytesText(o.BytesIn))
	}
	fmt.Fprintf(w, "; heap at most %s\n\n", bytesText(int64(o.Heap)))
}

// how says what was done, where that is more than the name.
func (o benched) how(r bench.Result, opt bench.Options) string {
	switch r.Scenario {
	case bench.Append:
		return fmt.Sprintf(": %s, %d at a time, one append after another", events(r.Events), opt.Batch)
	case bench.Parallel:
		return fmt.Sprintf(": %s, %d at a time, from %d goroutines on one log", events(r.Events), opt.Batch, opt.Goroutines)
	case bench.Load, bench.Verdict, bench.Fork:
		return fmt.Sprintf(": a log of %s", events(opt.Events))
	case bench.List:
		return fmt.Sprintf(": the newest of %s", words.Count(opt.Logs, "log"))
	}
	return ""
}

// tookText is how long something took, for people.
func tookText(d time.Duration) string {
	switch ms := float64(d) / 1e6; {
	case ms < 1:
		return fmt.Sprintf("%.0f µs", ms*1000)
	case ms < 10:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// benchEnd is the last line of a bench in JSON.
type benchEnd struct {
	Namespace string        `json:"namespace"`
	Kept      bool          `json:"kept"`
	Removed   int           `json:"removed"`
	Latency   *benchLatency `json:"latency"` // null: none was added
	Rate      float64       `json:"rate"`    // writes a second and key that s3log keeps to; 0: no limit is known
	Seconds   float64       `json:"seconds"`
}

type benchLatency struct {
	Median float64 `json:"median"` // ms
	P99    float64 `json:"p99"`
}

func (e benchEnd) text(w io.Writer) {
	fmt.Fprintf(w, "Done in %.1f s", e.Seconds)
	if e.Latency != nil {
		fmt.Fprintf(w, ", with %v ms (99 of 100: %v ms) added to each request", e.Latency.Median, e.Latency.P99)
	}
	if e.Rate > 0 {
		fmt.Fprintf(w, ", with at most %v writes a second and key", e.Rate)
	}
	if e.Kept {
		fmt.Fprintf(w, "; each scenario's store is kept below %s.\n", e.Namespace)
		return
	}
	fmt.Fprintf(w, "; %s removed, nothing is left.\n", words.Count(e.Removed, "object"))
}
