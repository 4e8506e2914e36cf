package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/words"
)

func newSyncCommand(g *globals) *cobra.Command {
	var f copyFlags
	cmd := &cobra.Command{
		Use:   "sync --from STORE --to STORE [LOG…]",
		Short: "Copy all logs of a store to another",
		Long: `Copy all logs of a store to another, or those that are named, each as cp does:
the first time everything, later what is missing or new. It keeps going after a
log that could not be copied; the exit code is that of the first failure.

Nothing is ever removed at the destination, and a log that was deleted at the
source stays there as it is. Logs at the destination of which the source knows
nothing are counted: some may have been lost at the source.`,
		Example: `  s3logctl sync --from s3://bucket/agents --to ./backup
  s3logctl sync --from ./backup --to s3://other/agents --dry-run
  s3logctl sync --from s3://bucket/agents --to ./backup --output json | jq 'select(.copied)'`,
		Args: func(_ *cobra.Command, args []string) error {
			for _, id := range args {
				if err := checkLog(id); err != nil {
					return err
				}
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
			if f.from != "" {
				g.store = f.from
			}
			return g.logIDs(cmd.Context(), begin), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runSync(cmd.Context(), g, args, f)
		},
	}
	f.addTo(cmd)
	return cmd
}

// syncing adds up what several copies have done.
type syncing struct {
	mu   sync.Mutex
	open map[string]int64 // bytes by log that is being copied
	sent int64            // of those that were copied

	logs, copied, failed, repaired int64
}

// synced is what several copies came to, in JSON.
type synced struct {
	Logs        int64    `json:"logs"`
	Copied      int64    `json:"copied"` // or would be
	Failed      int64    `json:"failed"`
	Repaired    int64    `json:"repaired"` // segments
	Bytes       int64    `json:"bytes"`
	DryRun      bool     `json:"dryRun"`
	NotAtSource []string `json:"notAtSource"` // null: not asked, or not to be known
}

// runSync copies logs, also after one that could not be copied.
func runSync(ctx context.Context, g *globals, ids []string, f copyFlags) error {
	src, dst, err := g.openBoth(ctx, &f, true)
	if err != nil {
		return err
	}
	s := &syncing{open: map[string]int64{}}
	p := g.newProgress("copying", func(int64) string { return s.text() }, 0)
	defer p.done()
	opt := f.options(func(c backend.CopyProgress) { p.add(s.saw(c)) })
	only := onlyThere{ids: []string{}}
	opt.OnlyThere = only.add
	reports := dst.CopyAll(ctx, src, opt)
	if len(ids) > 0 {
		reports = copyEach(ctx, dst, src, ids, opt)
	}
	for rep, err := range reports {
		if err != nil {
			return err
		}
		s.finished(&rep)
		p.add(1)
		if err := rep.Err; err != nil {
			if rep.Verified != nil {
				g.complain(reportCopy(g, &rep, f.dryRun))
			}
			g.complain(err)
			continue
		}
		if news := !rep.Duplicate || rep.Copied || rep.Verified != nil; news || g.asJSON() || len(ids) > 0 {
			g.complain(reportCopy(g, &rep, f.dryRun))
		}
	}
	p.done()
	sum := synced{Logs: s.logs, Copied: s.copied, Failed: s.failed, Repaired: s.repaired, Bytes: s.sent, DryRun: f.dryRun}
	if len(ids) == 0 && ctx.Err() == nil {
		sum.NotAtSource = only.ids
		g.complain(only.err)
	}
	g.print(struct {
		Summary synced `json:"summary"`
	}{sum}, func(w io.Writer) { fmt.Fprintln(w, sum.text()) })
	return ctx.Err()
}

// onlyThere collects the logs at the destination that the source does not have; ids
// is nil if these credentials may not list them.
type onlyThere struct {
	ids []string
	err error
}

func (o *onlyThere) add(e backend.Entry, err error) {
	switch {
	case errors.Is(err, backend.ErrDenied):
		o.ids = nil
	case err != nil:
		o.ids, o.err = nil, fmt.Errorf("logs that are only at the destination: %w", err)
	default:
		o.ids = append(o.ids, e.Log)
	}
}

// copyEach copies some logs, one after the other.
func copyEach(ctx context.Context, dst *backend.Backend, src *backend.Reader, ids []string, opt backend.CopyOptions) iter.Seq2[backend.CopyReport, error] {
	return func(yield func(backend.CopyReport, error) bool) {
		for _, id := range ids {
			if ctx.Err() != nil {
				yield(backend.CopyReport{}, fmt.Errorf("%s and what follows: not copied: %w", quote(id), ctx.Err()))
				return
			}
			rep, err := dst.Copy(ctx, src, id, opt)
			rep.Err = err
			if !yield(rep, nil) {
				return
			}
		}
	}
}

// saw takes how far a log is, and returns how much has come since.
func (s *syncing) saw(c backend.CopyProgress) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	more := c.Bytes - s.open[c.Log]
	s.open[c.Log] = c.Bytes
	return more
}

func (s *syncing) finished(r *backend.CopyReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, r.Log)
	s.logs++
	s.sent += r.Bytes
	for _, m := range r.Repairs {
		if m.Err == nil {
			s.repaired++
		}
	}
	switch {
	case r.Err != nil:
		s.failed++
	case !r.Duplicate:
		s.copied++
	}
}

// text says how far it all is.
func (s *syncing) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.sent
	for _, n := range s.open {
		sent += n
	}
	return fmt.Sprintf("%s done, %s sent", words.Count(s.logs, "log"), bytesText(sent))
}

// text says what came of it all.
func (s *synced) text() string {
	did, sent := "copied", "sent"
	if s.DryRun {
		did, sent = "would be copied", "in segments"
	}
	text := fmt.Sprintf("%d of %s %s, %s %s", s.Copied, words.Count(s.Logs, "log"), did, bytesText(s.Bytes), sent)
	if s.Repaired > 0 {
		repaired := "repaired"
		if s.DryRun {
			repaired = "would be repaired"
		}
		text += fmt.Sprintf("; %s %s", words.Count(s.Repaired, "segment"), repaired)
	}
	if rest := s.Logs - s.Copied - s.Failed; rest > 0 {
		text += fmt.Sprintf("; %d had nothing new", rest)
	}
	if s.Failed > 0 {
		text += fmt.Sprintf("; %d could not be copied", s.Failed)
	}
	switch n := len(s.NotAtSource); n {
	case 0:
	case 1:
		text += "\n1 log at the destination is not at the source (--output json names it)"
	default:
		text += fmt.Sprintf("\n%d logs at the destination are not at the source (--output json names them)", n)
	}
	return text
}
