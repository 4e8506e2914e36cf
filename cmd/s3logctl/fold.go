package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/words"
)

type foldFlags struct {
	all  bool
	tail string
}

func newFoldCommand(g *globals) *cobra.Command {
	var a apply
	var f foldFlags
	cmd := &cobra.Command{
		Use:   "fold LOG…",
		Short: "Rewrite segments into few and small ones",
		Long: `Rewrite what logs have sealed into few segments, compressed as well as it gets.
Events, owner and generation stay what they are, and the owner may go on
appending. What was replaced stays on the store until gc collects it.

Without --apply, nothing is written: what would be done is shown. Where nothing
is to be gained, nothing is done either.`,
		Example: `  s3logctl fold demo
  s3logctl fold demo --apply
  s3logctl fold --all --apply --output json | jq 'select(.steps != [])'`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.all && len(args) > 0:
				return usagef("--all is every log of the store: name none")
			case !f.all && len(args) == 0:
				return withHint(usagef("%s takes log ids", verbName(cmd)), "--all is every log of the store")
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
			return runFold(cmd.Context(), g, args, f, a)
		},
	}
	a.addFlags(cmd)
	cmd.Flags().BoolVar(&f.all, "all", false, "every log of the store")
	cmd.Flags().StringVar(&f.tail, "tail", string(backend.FoldTailAuto), "the newest events, in the manifest: `auto`, keep or take")
	choices := []string{string(backend.FoldTailAuto), string(backend.FoldTailKeep), string(backend.FoldTailTake)}
	_ = cmd.RegisterFlagCompletionFunc("tail", cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// folded is a report in JSON.
type folded struct {
	Log       string        `json:"log"`
	DryRun    bool          `json:"dryRun"`
	Before    foldedSize    `json:"before"`
	After     foldedSize    `json:"after"`
	Steps     []foldedStep  `json:"steps"`
	Revision  int64         `json:"revision"`
	Conflicts int           `json:"conflicts"`
	Dropped   int64         `json:"dropped"`
	Requests  requestCounts `json:"requests"`
}

type foldedSize struct {
	Segments int   `json:"segments"`
	Bytes    int64 `json:"bytes"`
	Tail     int64 `json:"tail"`
}

type foldedStep struct {
	First    int64    `json:"first"`
	Next     int64    `json:"next"`
	Segments []string `json:"segments"`
	Tail     bool     `json:"tail"`
	Read     int64    `json:"read"`
	Written  *int64   `json:"written"`
}

func newFolded(r backend.FoldReport, dry bool, requests requestCounts) folded {
	out := folded{
		Log: r.Log, DryRun: dry, Before: foldedSize(r.Before), After: foldedSize(r.After), Steps: []foldedStep{},
		Revision: r.Revision, Conflicts: r.Conflicts, Dropped: r.Dropped, Requests: requests,
	}
	for _, s := range r.Steps {
		step := foldedStep{First: s.First, Next: s.Next, Segments: []string{}, Tail: s.Tail, Read: s.Read}
		for _, n := range s.Inputs {
			step.Segments = append(step.Segments, n.String())
		}
		if !dry {
			step.Written = &s.Written
		}
		out.Steps = append(out.Steps, step)
	}
	return out
}

func runFold(ctx context.Context, g *globals, ids []string, f foldFlags, a apply) error {
	tail := backend.FoldTail(f.tail)
	switch tail {
	case backend.FoldTailAuto, backend.FoldTailKeep, backend.FoldTailTake:
	default:
		return usagef("--tail %q is none of auto, keep, take", f.tail)
	}
	b, err := g.backend(ctx, a.use())
	if err != nil {
		return err
	}
	logs := named(ids)
	if f.all {
		logs = every(ctx, b.Reader)
	}
	some, none := false, true
	for id, err := range logs {
		none = false
		if ctx.Err() != nil {
			g.complain(fmt.Errorf("%s: not folded: %w", rest(id), ctx.Err()))
			break
		}
		if err == nil {
			var found bool
			found, err = foldLog(ctx, g, b, id, backend.FoldOptions{DryRun: !a.apply, Tail: tail})
			some = some || found
		}
		if f.all && g.passOver(id, err) {
			continue
		}
		g.complain(err)
	}
	if none {
		g.noLogs(false)
	}
	if !a.apply && some {
		g.notice("nothing was written; --apply does it")
	}
	return nil
}

// foldLog folds one log, and reports whether there was anything to do.
func foldLog(ctx context.Context, g *globals, b *backend.Backend, id string, opt backend.FoldOptions) (bool, error) {
	before := g.counts()
	done := g.watch("folding " + quote(id))
	rep, err := b.Fold(ctx, id, opt)
	done()
	if err != nil && len(rep.Steps) == 0 {
		return false, err
	}
	out := newFolded(rep, opt.DryRun, newRequestCounts(g.counts().Sub(before)))
	g.print(out, out.text)
	return len(rep.Steps) > 0, err
}

func (f folded) text(w io.Writer) {
	switch {
	case len(f.Steps) == 0:
		fmt.Fprintf(w, "%s: nothing to fold: %s\n", quote(f.Log), f.Before)
		return
	case f.DryRun:
		fmt.Fprintf(w, "%s: %s; folded, at most %s\n", quote(f.Log), f.Before, f.After)
	default:
		fmt.Fprintf(w, "%s: %s; before, %s\n", quote(f.Log), f.After, f.Before)
	}
	for _, s := range f.Steps {
		what := words.Count(len(s.Segments), "segment")
		switch {
		case s.Tail && len(s.Segments) == 0:
			what = "the tail"
		case s.Tail:
			what += " and the tail"
		}
		fmt.Fprintf(w, "  %s: %s, %s", span(s.First, s.Next-1), what, bytesText(s.Read))
		if s.Written != nil {
			fmt.Fprintf(w, ", became %s", bytesText(*s.Written))
		}
		fmt.Fprintln(w)
	}
	if f.Conflicts > 0 {
		fmt.Fprintf(w, "  others came first %s\n", words.Count(f.Conflicts, "time"))
	}
	if f.Dropped > 0 {
		fmt.Fprintf(w, "  %s written in vain are left for gc\n", bytesText(f.Dropped))
	}
}

// span is some seqs in words.
func span(first, last int64) string {
	if first == last {
		return fmt.Sprintf("seq %d", first)
	}
	return fmt.Sprintf("seq %d to %d", first, last)
}

func (s foldedSize) String() string {
	text := fmt.Sprintf("%s in %s", bytesText(s.Bytes), words.Count(s.Segments, "segment"))
	if s.Tail > 0 {
		text += fmt.Sprintf(" and a tail of %s", events(s.Tail))
	}
	return text
}
