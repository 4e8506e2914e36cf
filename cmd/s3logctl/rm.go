package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/words"
)

func newRmCommand(g *globals) *cobra.Command {
	var a apply
	var takeOver bool
	cmd := &cobra.Command{
		Use:   "rm LOG…",
		Short: "Delete logs",
		Long: `Delete logs, for ever: of each a tombstone is left, so that its id stays taken
and whoever still writes to it learns what happened. Its segments stay until gc
removes them, when readers have had time to end. Forks of it are logs of their
own, and stay as they are.

Without --apply nothing is done: what would be deleted is shown. Where the owner
of a log has not released it and was active in the last minute, it is not
deleted unless --take-over is given. A log that is deleted already is no error.`,
		Example: `  s3logctl rm demo-2
  s3logctl rm demo-2 --apply`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := minArgs(1, "log ids")(cmd, args); err != nil {
				return err
			}
			for _, id := range args {
				if err := checkLog(id); err != nil {
					return err
				}
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
			return g.logIDs(cmd.Context(), begin), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.check(cmd); err != nil {
				return err
			}
			return runRm(cmd.Context(), g, args, a, adoptOptions(takeOver))
		},
	}
	a.addFlags(cmd)
	cmd.Flags().BoolVar(&takeOver, "take-over", false, takeOverHelp)
	return cmd
}

// removed is a deletion in JSON.
type removed struct {
	Log        string `json:"log"`
	Deleted    bool   `json:"deleted"`
	DryRun     bool   `json:"dryRun"`
	Duplicate  bool   `json:"duplicate"`
	Events     int64  `json:"events"`
	Segments   int    `json:"segments"`
	Bytes      int64  `json:"bytes"`
	Revision   int64  `json:"revision"`
	Generation int64  `json:"generation"`
}

// runRm deletes one log after the other, also after one that could not be.
func runRm(ctx context.Context, g *globals, ids []string, a apply, opt backend.AdoptOptions) error {
	b, err := g.backend(ctx, a.use())
	if err != nil {
		return err
	}
	for _, id := range ids {
		if ctx.Err() != nil {
			return fmt.Errorf("%s and what follows: not deleted: %w", quote(id), ctx.Err())
		}
		g.complain(rmLog(ctx, g, b, id, a, opt))
	}
	return nil
}

func rmLog(ctx context.Context, g *globals, b *backend.Backend, id string, a apply, opt backend.AdoptOptions) error {
	done := g.watch("deleting " + quote(id))
	defer done()
	plan, err := b.PlanDelete(ctx, id, opt)
	if err != nil {
		return err
	}
	out := removed{Log: id, Deleted: plan.Done, DryRun: !a.apply, Duplicate: plan.Done, Events: plan.Events, Segments: plan.Segments,
		Bytes: plan.Bytes, Revision: plan.Revision, Generation: plan.Generation}
	if a.apply && !plan.Done {
		r, err := b.Delete(ctx, id, opt)
		if err != nil {
			return err
		}
		out.Deleted, out.Duplicate, out.Revision, out.Generation = true, r.Duplicate, r.Revision, r.Generation
	}
	done()
	g.print(out, out.text)
	return nil
}

func (r removed) text(w io.Writer) {
	what := fmt.Sprintf("%s, %s in %s and the manifest", events(r.Events), bytesText(r.Bytes), words.Count(r.Segments, "segment"))
	switch {
	case r.Duplicate:
		fmt.Fprintf(w, "%s: is deleted already (revision %d, generation %d)\n", quote(r.Log), r.Revision, r.Generation)
	case r.Deleted:
		fmt.Fprintf(w, "%s: deleted (%s; revision %d, generation %d). Its segments are left to gc\n", quote(r.Log), what, r.Revision, r.Generation)
	default:
		fmt.Fprintf(w, "%s: would be deleted (%s). Nothing was done: --apply does it\n", quote(r.Log), what)
	}
}
