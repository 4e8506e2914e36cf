package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/manifest"
)

type catFlags struct {
	from  int64
	to    *int64
	types []string
	// salvage prints what can be read of a log that is damaged.
	salvage bool
}

func newCatCommand(g *globals) *cobra.Command {
	var f catFlags
	var to int64
	cmd := &cobra.Command{
		Use:   "cat LOG",
		Short: "Print events",
		Long: `Print events, one JSON object per line, exactly as they are stored. On a
terminal, what it might act on (control characters, bidirectional marks, …) is
shown as \u escapes; in a pipe or file the bytes are the stored ones.

Of an object that is damaged nothing is printed, and nothing behind it. With
--salvage, whatever has an intact checksum of its own is printed, what is not
readable is named on stderr, and the exit code is that of the first complaint.`,
		Example: `  s3logctl cat demo
  s3logctl cat demo --salvage > what-is-left.jsonl
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
	cmd.Flags().BoolVar(&f.salvage, "salvage", false, "of a damaged log: print what can be read, and name what cannot")
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
	opt := backend.ReadOptions{From: f.from, To: f.to}
	if f.salvage {
		opt.Damaged = func(first, next int64, err error) {
			if first < next {
				g.complain(fmt.Errorf("seq %d to %d left out: %w", first, next-1, err))
			} else {
				g.complain(fmt.Errorf("from seq %d on only as far as checksums of parts hold: %w", first, err))
			}
		}
	}
	err = g.printEvents(r.Events(ctx, id, opt), f.types, false)
	return salvageable(err, id)
}

// salvageable says of an error about a part of a log how to get at the others.
func salvageable(err error, id string) error {
	e, ok := errors.AsType[*backend.OpError](err)
	if !ok || !strings.HasPrefix(e.Key, manifest.SegmentTree) || errors.Is(err, objstore.ErrUndecided) {
		return err
	}
	hint := e.Hint
	if hint != "" {
		hint = "; " + hint
	}
	return withHint(err, fmt.Sprintf("`s3logctl cat %s --salvage` prints what can be read, and names the rest%s", words.Shell(id), hint))
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
