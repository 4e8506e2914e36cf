package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/delaystore"
	"github.com/s3log/s3log/internal/bench"
	"github.com/s3log/s3log/internal/words"
)

// benchFlags are the flags of bench.
type benchFlags struct {
	opt       bench.Options
	scenarios []string
	latency   string
	rate      float64
	keep      bool
}

// usualLatency is what --latency alone means.
var usualLatency = fmt.Sprintf("median=%s,p99=%s", delaystore.S3.Median, delaystore.S3.P99)

func newBenchCommand(g *globals) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a store, and what s3log adds to it",
		Long: `Append, load, judge, resume, fork and list logs, and in turn make the same
requests without s3log. How long both take, the ratio of their medians, what was
asked of the store and what that costs at S3's list price are shown for each
scenario:

  append    batches, one after another     conditional PUTs of the same bodies
  parallel  batches of many goroutines     a PUT, to the time between commits
  load      all events of a log            GET and inflate of the same objects
  verdict   check of a bracket             GET of the manifest
  resume    of a log with an open turn     GET and conditional PUT
  fork      of a whole log                 the same requests
  list      the newest 20 logs             LIST and HEAD

It works in a store of its own below probe/ in the store, and removes that at
the end, also when it is interrupted. Nothing else there is read, listed or
changed.

--latency makes the store as slow as a bucket in the same region (median 30 ms,
99 of 100 within 150 ms), so that figures mean something on a laptop. Absolute
times are those of this machine and this moment; the ratios are what to look at.`,
		Example: `  s3logctl bench --latency
  s3logctl bench --store 's3://bucket/prefix?region=eu-central-1' --scenario append,parallel
  s3logctl bench --scenario load --events 1300000 --rounds 3 --output json | jq .ratio
  s3logctl bench --latency median=50ms,p99=50ms --rate 1 --scenario append --events 500`,
		Args: func(cmd *cobra.Command, args []string) error {
			// A flag that may stand alone takes its value only behind '='.
			if len(args) == 1 && f.latency == usualLatency && strings.Contains(args[0], "=") {
				f.latency = args[0]
				args = nil
			}
			if len(args) > 0 {
				return usagef("%s takes no arguments, not %s", verbName(cmd), words.Count(len(args), "argument"))
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBench(cmd.Context(), g, f)
		},
	}
	fs := cmd.Flags()
	fs.Int64Var(&f.opt.Events, "events", 10_000, "`N` events that append writes, and that the log has that others read")
	fs.IntVar(&f.opt.Batch, "batch", 25, "`N` events in one append")
	fs.IntVar(&f.opt.Goroutines, "goroutines", 64, "`N` goroutines that append in parallel")
	fs.IntVar(&f.opt.Rounds, "rounds", 50, "`N` times that everything but append is done, in parallel by each goroutine")
	fs.IntVar(&f.opt.Logs, "logs", 200, "`N` logs to list")
	fs.Uint64Var(&f.opt.Seed, "seed", 1, "`NUMBER` that events and delays are drawn from")
	fs.StringSliceVar(&f.scenarios, "scenario", nil, "`NAME`s of scenarios, in their order (default all)")
	fs.StringVar(&f.latency, "latency", "", "delay every request: `median=TIME,p99=TIME`; alone: "+usualLatency)
	fs.Lookup("latency").NoOptDefVal = usualLatency
	fs.Float64Var(&f.rate, "rate", 0, "`N` writes a second that one key takes (R2 and Google Cloud Storage: 1); 0: any number")
	fs.BoolVar(&f.keep, "keep", false, "leave the logs where they are")
	var names []string
	for _, s := range bench.Scenarios() {
		names = append(names, string(s))
	}
	_ = cmd.RegisterFlagCompletionFunc("scenario", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// parseLatency reads the value of --latency. A median alone has a P99 as far
// from it as S3's.
func parseLatency(text string) (l delaystore.Latency, err error) {
	if text == "" {
		return l, nil
	}
	l.Median = delaystore.S3.Median
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 || name != "median" && name != "p99" {
			return l, withHint(usagef("--latency: %q is not understood", part), "write --latency, or for example --latency=median=30ms,p99=150ms")
		}
		if name == "median" {
			l.Median = d
		} else {
			l.P99 = d
		}
	}
	switch {
	case l.P99 == 0:
		l.P99 = l.Median * (delaystore.S3.P99 / delaystore.S3.Median)
	case l.P99 < l.Median:
		return l, usagef("--latency: 99 of 100 within %s, and half of them above %s, cannot be", l.P99, l.Median)
	}
	return l, nil
}

// check turns the flags into options.
func (f *benchFlags) check() (latency delaystore.Latency, scenarios []bench.Scenario, err error) {
	for _, n := range []struct {
		flag string
		n    int64
	}{{"events", f.opt.Events}, {"batch", int64(f.opt.Batch)}, {"goroutines", int64(f.opt.Goroutines)}, {"rounds", int64(f.opt.Rounds)}, {"logs", int64(f.opt.Logs)}} {
		if n.n < 1 {
			return latency, nil, usagef("--%s %d: it must be 1 at least", n.flag, n.n)
		}
	}
	if f.rate < 0 {
		return latency, nil, usagef("--rate %v: it must not be negative", f.rate)
	}
	all := bench.Scenarios()
	if scenarios = all; len(f.scenarios) > 0 {
		scenarios = nil
		for _, name := range f.scenarios {
			s := bench.Scenario(name)
			if !slices.Contains(all, s) {
				return latency, nil, withHint(usagef("there is no scenario %q", name), fmt.Sprintf("there are %s", strings.Trim(fmt.Sprint(all), "[]")))
			}
			scenarios = append(scenarios, s)
		}
	}
	latency, err = parseLatency(f.latency)
	return latency, scenarios, err
}

// cleanTimeout bounds the removal of what was written.
const cleanTimeout = time.Minute

func runBench(ctx context.Context, g *globals, f benchFlags) error {
	latency, scenarios, err := f.check()
	if err != nil {
		return err
	}
	at, err := g.locate()
	if err != nil {
		return err
	}
	store, err := g.openStore(ctx, useCreate)
	if err != nil {
		return err
	}
	f.opt.Backend = g.options(nil)
	if latency.Median > 0 || f.rate > 0 {
		opt := delaystore.Options{Latency: latency, Seed: f.opt.Seed, WritesPerSecond: f.rate}
		f.opt.Slow = func(s objstore.Store) objstore.Store { return delaystore.New(s, opt) }
	}
	b := bench.New(store, f.opt)
	begin := time.Now()
	end := benchEnd{Namespace: b.Prefix(), Kept: f.keep, Rate: b.Rate().PerSecond}
	if latency.Median > 0 {
		end.Latency = &benchLatency{milliseconds(latency.Median), milliseconds(latency.P99)}
	}
	err = measure(ctx, g, b, scenarios, f.opt)
	if !f.keep {
		removed, cerr := clean(ctx, g, b, at)
		end.Removed = removed
		if cerr != nil {
			g.complain(err) // which came first
			err = withHint(fmt.Errorf("removing what was written: %w", cerr), "if anything was, `s3logctl gc` removes it when it is older than the grace")
		}
	}
	if err != nil {
		return err
	}
	end.Seconds = rounded(time.Since(begin).Seconds(), 2)
	g.print(end, end.text)
	return nil
}

// measure runs the scenarios, and shows what each has found.
func measure(ctx context.Context, g *globals, b *bench.Bench, scenarios []bench.Scenario, opt bench.Options) error {
	for _, s := range scenarios {
		done := g.watch("measuring " + string(s))
		r, err := b.Run(ctx, s)
		done()
		if err != nil {
			return err
		}
		out := newBenched(r)
		g.print(out, func(w io.Writer) { out.text(w, g.textWidth(), r, opt) })
		if err := g.out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// clean removes what was written, also after a signal: nobody else would for a
// day.
func clean(ctx context.Context, g *globals, b *bench.Bench, at location) (removed int, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	defer g.watch("removing what was written")()
	if removed, err = b.Clean(ctx); err == nil {
		removeEmpty(at.dir, b.Prefix())
	}
	return removed, err
}

// removeEmpty removes the directories that were made for the namespace where the
// store is a directory: there, they are no objects.
func removeEmpty(dir, prefix string) {
	if dir == "" {
		return
	}
	root := filepath.Join(dir, filepath.FromSlash(prefix))
	var dirs []string
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	for _, d := range slices.Backward(append([]string{filepath.Dir(root)}, dirs...)) {
		_ = os.Remove(d) // unless something is in it
	}
}
