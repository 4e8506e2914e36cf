package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
)

func newInspectCommand(g *globals) *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use:   "inspect LOG",
		Short: "Print events as a resume would leave them",
		Long: `Print the balanced view of a log, one JSON object per line: its events, as cat
prints them, and where a turn is open the closers that a resume would add. The
log does not hold those, and nothing is written. A line on stderr tells where
they begin.`,
		Example: `  s3logctl inspect demo | tail -n 3
  s3logctl inspect demo --raw | wc -l`,
		Args:              logArgs,
		ValidArgsFunction: g.completeLog(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runInspect(cmd.Context(), g, args[0], raw)
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "only what is stored: no closers")
	return cmd
}

func runInspect(ctx context.Context, g *globals, id string, raw bool) error {
	r, err := g.reader(ctx)
	if err != nil {
		return err
	}
	if raw {
		return g.printEvents(r.Events(ctx, id, backend.ReadOptions{}), nil, false)
	}
	return g.printEvents(func(yield func(backend.Event, error) bool) {
		told := false
		for ev, err := range r.Inspect(ctx, id) {
			if ev.Synthetic && !told {
				told = true
				_ = g.out.Flush() // in the order in which things belong; its error comes again
				g.notice("the log ends here; from seq %d on there are closers that `s3logctl resume` would add", ev.Seq)
			}
			if !yield(ev.Event, err) {
				return
			}
		}
	}, nil, false)
}
