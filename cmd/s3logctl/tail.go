package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
)

type tailFlags struct {
	lines    int64
	from     *int64
	follow   bool
	interval time.Duration
	types    []string
}

func newTailCommand(g *globals) *cobra.Command {
	var f tailFlags
	var from int64
	cmd := &cobra.Command{
		Use:   "tail LOG",
		Short: "Print the newest events, and follow",
		Long: `Print the last events of a log, as cat does. With -f, go on with what is
appended, until it is interrupted or the log is deleted: the manifest is asked
for by a conditional GET, which transfers nothing while nothing is new. While
the store does not answer it waits, and says so on stderr.`,
		Example: `  s3logctl tail demo -n 3
  s3logctl tail demo -f --type user/message`,
		Args:              logArgs,
		ValidArgsFunction: g.completeLog(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("from") {
				f.from = &from
			}
			return runTail(cmd.Context(), g, args[0], f)
		},
	}
	fs := cmd.Flags()
	fs.Int64VarP(&f.lines, "lines", "n", 10, "the last `N` events")
	fs.Int64Var(&from, "from", 0, "instead of -n: from this `SEQ` on")
	fs.BoolVarP(&f.follow, "follow", "f", false, "go on with what is appended")
	fs.DurationVar(&f.interval, "interval", time.Second, "with -f: how often to ask")
	addTypeFlag(cmd, &f.types)
	return cmd
}

func runTail(ctx context.Context, g *globals, id string, f tailFlags) error {
	switch {
	case f.lines < 0:
		return usagef("-n %d is negative", f.lines)
	case f.from != nil && *f.from < 0:
		return usagef("--from %d: seqs begin at 0", *f.from)
	case f.interval <= 0:
		return usagef("--interval %s is not positive", f.interval)
	}
	r, err := g.reader(ctx, func(o *backend.Options) { o.PollInterval = f.interval })
	if err != nil {
		return err
	}
	if !f.follow && (f.from != nil || f.lines > 0) {
		opt := backend.ReadOptions{Last: f.lines}
		if f.from != nil {
			opt = backend.ReadOptions{From: *f.from}
		}
		return g.printEvents(r.Events(ctx, id, opt), f.types, false)
	}
	from, err := f.begin(ctx, r, id)
	if err != nil || !f.follow {
		return err
	}
	g.wait.follows.Store(true)
	err = g.printEvents(r.Follow(ctx, id, from), f.types, true)
	if interrupted(ctx, err) {
		return nil // the usual end
	}
	return err
}

// begin is the seq to follow from.
func (f *tailFlags) begin(ctx context.Context, r *backend.Reader, id string) (int64, error) {
	if f.from != nil {
		return *f.from, nil
	}
	info, err := r.Info(ctx, id)
	return max(0, info.Next-f.lines), err
}

// interrupted reports whether err is the user's own doing.
func interrupted(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, objstore.ErrUndecided))
}
