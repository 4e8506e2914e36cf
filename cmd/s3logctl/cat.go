package main

import (
	"context"
	"iter"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
)

type catFlags struct {
	from  int64
	to    *int64
	types []string
}

func newCatCommand(g *globals) *cobra.Command {
	var f catFlags
	var to int64
	cmd := &cobra.Command{
		Use:   "cat LOG",
		Short: "Print events",
		Long: `Print events, one JSON object per line, exactly as they are stored. On a
terminal, what it might act on (control characters, bidirectional marks, …) is
shown as \u escapes; in a pipe or file the bytes are the stored ones.`,
		Example: `  s3logctl cat demo
  s3logctl cat demo --from 100 --to 199 --type tool/call --type tool/result | jq .data`,
		Args:              logArgs,
		ValidArgsFunction: g.completeLog(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("to") {
				f.to = &to
			}
			return runCat(cmd.Context(), g, args[0], f)
		},
	}
	cmd.Flags().Int64Var(&f.from, "from", 0, "`SEQ` of the first event")
	cmd.Flags().Int64Var(&to, "to", 0, "`SEQ` of the last event")
	addTypeFlag(cmd, &f.types)
	return cmd
}

func addTypeFlag(cmd *cobra.Command, types *[]string) {
	cmd.Flags().StringArrayVar(types, "type", nil, "only events of this `TYPE`; may be repeated")
}

func runCat(ctx context.Context, g *globals, id string, f catFlags) error {
	if f.from < 0 || f.to != nil && *f.to < 0 {
		return usagef("seqs begin at 0")
	}
	r, err := g.reader(ctx)
	if err != nil {
		return err
	}
	return g.printEvents(r.Events(ctx, id, backend.ReadOptions{From: f.from, To: f.to}), f.types, false)
}

// printEvents prints events of some types, or all if none is named. With each
// set, every event is on its way at once: the next one may take long.
func (g *globals) printEvents(all iter.Seq2[backend.Event, error], types []string, each bool) error {
	wanted := make(map[string]bool, len(types))
	for _, t := range types {
		wanted[t] = true
	}
	for ev, err := range all {
		if err != nil {
			return err
		}
		if len(wanted) > 0 {
			e, err := ev.Parse()
			if err != nil {
				return err
			}
			if !wanted[e.Type] {
				continue
			}
		}
		_, _ = g.out.Write(ev.Line) // the error is the next one, too
		if err := g.out.WriteByte('\n'); err != nil {
			return err
		}
		if each {
			if err := g.out.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}
