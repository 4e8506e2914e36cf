package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/manifest"
)

func newDecideCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "decide TOKEN",
		Short: "Settle what became of a commit",
		Long: `Settle an outcome that was unknown (exit code 9) with the token that came with
it: afterwards the events are in the log, or can never get there, and this says
which. Where only a write can settle it, the log is taken over, or its id is
marked as void; where the log has moved on, nothing is written.`,
		Example: `  s3logctl decide eyJraW5kIjoiYXBwZW5kIiwi…`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := exactArgs(1, "one token")(cmd, args); err != nil {
				return err
			}
			if _, err := manifest.ParseToken(args[0]); err != nil {
				return withHint(usagef("%s is not the token of an unknown outcome", quote(shortened(args[0]))), tokenHint)
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDecide(cmd.Context(), g, args[0])
		},
	}
}

const tokenHint = "a command that ends with exit code 9 prints its token on the line `token: …` of stderr (with --output json as the member `token`): " +
	"some hundred letters that begin with eyJ; give all of them, as they were printed"

// shortened is the beginning of an argument that may be of any length.
func shortened(text string) string {
	const most = 40
	for i := range text {
		if i >= most {
			return text[:i] + "…"
		}
	}
	return text
}

// decided is a decision in JSON.
type decided struct {
	Committed bool `json:"committed"`
	receipt
}

func runDecide(ctx context.Context, g *globals, token string) error {
	b, err := g.backend(ctx, useWrite)
	if err != nil {
		return err
	}
	done := g.watch("settling")
	d, err := b.Decide(ctx, token)
	done()
	if backend.Token(err) != "" {
		// The take-over that was to settle it is itself unsettled; what is still to
		// be asked about is the commit of the caller.
		return tokened{err, token}
	}
	if err != nil {
		return err
	}
	out := decided{d.Committed, newReceipt(d.Receipt)}
	g.print(out, func(w io.Writer) {
		switch {
		case d.Duplicate:
			out.text(w, "committed, by a repetition with the same key:")
		case d.Committed:
			out.text(w, "committed:")
		default:
			out.text(w, "not committed, and never will be:")
		}
	})
	return nil
}
