package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/sessiongen"
)

func newGenerateCommand(g *globals) *cobra.Command {
	var opt sessiongen.Options
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Make up a session, to try things with",
		Long: `Write a made-up session as a session file: the header line, then one event per
line, turn by turn, with streamed output and tool calls. The same flags give the
same bytes.`,
		Example: `  s3logctl generate --events 1000 --seed 7 | s3logctl import -
  s3logctl generate --turns 3 > session.jsonl`,
		Args:              exactArgs(0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runGenerate(cmd.Context(), g, opt)
		},
	}
	fs := cmd.Flags()
	fs.Int64Var(&opt.Events, "events", 0, "exactly `N` events")
	fs.IntVar(&opt.Turns, "turns", 1, "`N` turns, of as many events as they take")
	fs.Uint64Var(&opt.Seed, "seed", 1, "`NUMBER` that the session is drawn from")
	return cmd
}

func runGenerate(ctx context.Context, g *globals, opt sessiongen.Options) error {
	if opt.Events < 0 || opt.Turns < 1 {
		return usagef("a session has a positive number of events, or of turns")
	}
	s := sessiongen.New(opt)
	line, ok := s.Header(), true
	for n := 0; ok; n++ {
		_, _ = g.out.Write(line) // the error is the next one, too
		if err := g.out.WriteByte('\n'); err != nil {
			return err
		}
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		line, ok = s.Next()
	}
	return nil
}
