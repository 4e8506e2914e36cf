package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
)

type forkFlags struct {
	at     *int64
	clip   bool
	header string // file
	from   string // store
}

func newForkCommand(g *globals) *cobra.Command {
	var f forkFlags
	var at int64
	cmd := &cobra.Command{
		Use:   "fork PARENT CHILD",
		Short: "Begin a log with the events of another",
		Long: `Begin the log CHILD with the events of PARENT, all of them or those up to a seq,
and a boundary (session/end-seed). The child shares nothing with its parent,
which is only read, and may be anybody's: nothing that happens to it later
changes the child.

A fork must not end inside an open turn: --clip ends it at the newest end of a
turn. Repeated with the same parent, cut and child it makes no second log and
prints the receipt once more ("duplicate": true).`,
		Example: `  s3logctl fork demo demo-2 --clip
  s3logctl fork demo copy --at 199 --from s3://production/agents`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := exactArgs(2, "a parent and a child")(cmd, args); err != nil {
				return err
			}
			return cmp.Or(checkLog(args[0]), checkLog(args[1]))
		},
		ValidArgsFunction: g.completeLog(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("at") {
				f.at = &at
			}
			return runFork(cmd.Context(), g, args[0], args[1], f)
		},
	}
	fs := cmd.Flags()
	fs.Int64Var(&at, "at", 0, "`SEQ` of the last event that is inherited (default: the parent's last)")
	fs.BoolVar(&f.clip, "clip", false, "inherit up to the newest end of a turn")
	fs.StringVar(&f.header, "header", "", "`FILE` with the session header of the child (default: the parent's, with the child's id)")
	fs.StringVar(&f.from, "from", "", "the parent's `STORE`, if it is another; it is only read")
	return cmd
}

func runFork(ctx context.Context, g *globals, parent, child string, f forkFlags) error {
	switch {
	case f.at != nil && f.clip:
		return usagef("--at and --clip both say where the fork ends: give one")
	case f.at != nil && *f.at < 0:
		return usagef("--at %d: seqs begin at 0", *f.at)
	}
	header, err := g.readHeader(ctx, f.header)
	if err != nil {
		return err
	}
	opt := backend.ForkOptions{At: f.at, Clip: f.clip, Header: header, Release: true}
	use := useWrite
	if f.from != "" {
		use = useCreate
		if opt.Parent, err = g.readerAt(ctx, f.from); err != nil {
			return err
		}
	}
	b, err := g.backend(ctx, use, foreground)
	if err != nil {
		return err
	}
	done := g.watch("forking " + quote(parent))
	_, r, err := b.Fork(ctx, parent, child, opt)
	done()
	if errors.Is(err, backend.ErrOpenTurn) {
		return withHint(err, openTurnHint(err))
	}
	if err != nil {
		return err
	}
	out := newReceipt(r)
	g.print(out, func(w io.Writer) {
		if r.Duplicate {
			out.text(w, "forked before from "+quote(parent)+":")
			return
		}
		out.text(w, "forked from "+quote(parent)+":")
	})
	return nil
}

// openTurnHint says where a fork may end instead.
func openTurnHint(err error) string {
	const clip = "--clip ends the fork at the newest end of a turn"
	e, ok := errors.AsType[*backend.OpenTurnError](err)
	switch {
	case !ok:
		return "no turn has ended in this log: --at ends the fork at a seq before the turn"
	case e.Instead < 0:
		return fmt.Sprintf("a turn is open everywhere up to seq %d; %s of the whole log, if one has ended", e.At, clip)
	}
	return fmt.Sprintf("--at %d is the newest seq before %d where no turn is open; %s of the whole log", e.Instead, e.At, clip)
}
