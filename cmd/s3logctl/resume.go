package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/words"
)

func newResumeCommand(g *globals) *cobra.Command {
	var takeOver bool
	cmd := &cobra.Command{
		Use:   "resume LOG",
		Short: "End the lifecycle of a log and begin the next",
		Long: `Begin the next lifecycle of a log: a turn that was interrupted is closed by
synthetic events (closers), and a boundary (session/end-seed) ends what is
inherited from now on, so that every bracket left open is stale. Both are one
commit, which releases the log, too: whoever goes on with the session appends to
it next.

A log that ends in its boundary and has no open turn needs nothing, and nothing
is written. Where the owner of the log has not released it and was active in the
last minute, nothing is written unless --take-over is given.`,
		Example: `  s3logctl resume demo
  s3logctl resume demo --take-over && s3logctl check demo`,
		Args:              logArgs,
		ValidArgsFunction: g.completeLog(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runResume(cmd.Context(), g, args[0], takeOver)
		},
	}
	cmd.Flags().BoolVar(&takeOver, "take-over", false, takeOverHelp)
	return cmd
}

func foreground(o *backend.Options) { o.Foreground = true }

func runResume(ctx context.Context, g *globals, id string, takeOver bool) error {
	b, err := g.backend(ctx, useWrite, foreground)
	if err != nil {
		return err
	}
	done := g.watch("resuming " + quote(id))
	_, r, err := b.Resume(ctx, id, backend.ResumeOptions{AdoptOptions: adoptOptions(takeOver), Release: true})
	done()
	if err != nil {
		return err
	}
	out := newReceipt(r)
	g.print(out, func(w io.Writer) {
		if r.Count == 0 {
			fmt.Fprintf(w, "nothing to write: %s ends in its boundary (seq %d) and no turn is open (revision %d, generation %d)\n",
				quote(r.Log), r.Next-1, r.Revision, r.Generation)
			return
		}
		out.text(w, "resumed with "+words.Count(r.Count-1, "closer")+" and a boundary:")
	})
	return nil
}
