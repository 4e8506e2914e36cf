package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/manifest"
)

func newGcCommand(g *globals) *cobra.Command {
	var a apply
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "gc [LOG…]",
		Short: "Remove objects that no log needs",
		Long: `Remove what no log needs any more, of the whole store or of the logs that are
named: segments that were uploaded and never named, those that merges have
replaced, those of deleted logs, and what store proofs have left behind. It is
safe at any time, whoever writes, reads or collects meanwhile; no manifest is
ever removed, and no segment is read.

Without --apply nothing is done: what would be removed is shown.

The grace spares readers that are half way through a log when its segments are
replaced or it is deleted, and uploads that take long. No log depends on it.`,
		Example: `  s3logctl gc
  s3logctl gc --apply
  s3logctl gc demo --apply --grace 1h --output json | jq .removedBytes`,
		Args: func(_ *cobra.Command, args []string) error {
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
			if grace <= 0 {
				return graceTooShort(grace)
			}
			return runGc(cmd.Context(), g, args, backend.GCOptions{Grace: grace, DryRun: !a.apply})
		},
	}
	a.addFlags(cmd)
	cmd.Flags().DurationVar(&grace, "grace", backend.DefaultGrace, "`time` for which readers and slow uploads are spared, by the store's clock")
	return cmd
}

// graceTooShort refuses a grace that would spare nobody.
func graceTooShort(grace time.Duration) error {
	return withHint(usagef("--grace %s: a grace must be longer than 0s", grace),
		"it should be longer than anybody reads one log and than any upload takes; where nobody reads or writes, --grace 1s removes all that may go")
}

// collected is what was found of one log, in JSON.
type collected struct {
	Log          *string           `json:"log"` // null where it is not known, and of what is no log's
	Prefix       string            `json:"prefix"`
	State        *string           `json:"state"` // null where there is no manifest, or none that can be read
	DryRun       bool              `json:"dryRun"`
	Named        int               `json:"named"`
	NamedBytes   int64             `json:"namedBytes"`
	Removed      int               `json:"removed"`
	RemovedBytes int64             `json:"removedBytes"`
	Barrier      bool              `json:"barrier"`
	Void         bool              `json:"void"`
	Objects      []collectedObject `json:"objects"`
	Findings     []finding         `json:"findings"`
}

type collectedObject struct {
	Key      string `json:"key"`
	Size     int64  `json:"size"`
	Modified int64  `json:"modified"`
	Fate     string `json:"fate"`
	Removed  bool   `json:"removed"`
	Error    string `json:"error,omitempty"`
}

func newCollected(l *backend.GCLog, dryRun bool) collected {
	out := collected{Prefix: l.Prefix, DryRun: dryRun, Named: l.Named, NamedBytes: l.NamedBytes, Barrier: l.Barrier, Void: l.Void,
		Objects: []collectedObject{}, Findings: newFindings(l.Findings)}
	out.Removed, out.RemovedBytes = l.Removed()
	if l.Log != "" {
		out.Log = &l.Log
	}
	if state := string(l.State); state != "" {
		out.State = &state
	}
	for _, o := range l.Objects {
		j := collectedObject{Key: o.Key, Size: o.Size, Modified: o.Modified.UnixMilli(), Fate: string(o.Fate), Removed: o.Removed}
		if o.Err != nil {
			j.Error = errorText(o.Err, "")
		}
		out.Objects = append(out.Objects, j)
	}
	return out
}

// collection is one run of gc.
type collection struct {
	g       *globals
	opt     backend.GCOptions
	logs    int // of which anything was removed
	objects int
	bytes   int64
	stay    int
	// finished: a list came to its end.
	finished bool
}

// runGc collects the store, or one log after the other, also after one that could
// not be.
func runGc(ctx context.Context, g *globals, ids []string, opt backend.GCOptions) error {
	use := useRead
	if !opt.DryRun {
		use = useWrite
	}
	b, err := g.backend(ctx, use)
	if err != nil {
		return err
	}
	c := &collection{g: g, opt: opt}
	if len(ids) == 0 {
		ids = []string{""}
	}
	for _, id := range ids {
		if ctx.Err() != nil {
			break
		}
		c.opt.Log = id
		c.run(ctx, b)
	}
	if !g.asJSON() && (c.finished || ctx.Err() != nil) {
		c.total(ctx.Err() != nil)
	}
	if err := ctx.Err(); err != nil {
		return withHint(fmt.Errorf("not everything was looked at: %w", err), "nothing is half done: the next gc goes on where this one ended")
	}
	return nil
}

func (c *collection) run(ctx context.Context, b *backend.Backend) {
	what := "collecting"
	if c.opt.Log != "" {
		what += " " + quote(c.opt.Log)
	}
	done := c.g.watch(what)
	defer func() { done() }()
	for l, err := range b.GC(ctx, c.opt) {
		if err != nil {
			if ctx.Err() == nil {
				c.g.complain(err)
			}
			return
		}
		done()
		c.report(&l)
		done = c.g.watch(what)
	}
	c.finished = true
}

// report shows one log, if there is anything to say about it.
func (c *collection) report(l *backend.GCLog) {
	n, size := l.Removed()
	c.objects, c.bytes = c.objects+n, c.bytes+size
	if n > 0 {
		c.logs++
	}
	var failed int64
	var worst *backend.GCObject
	for i, o := range l.Objects {
		switch {
		case o.Err != nil:
			if failed++; worst == nil {
				worst = &l.Objects[i]
			}
		case !o.Removed:
			c.stay++
		}
	}
	if len(l.Objects) > 0 || len(l.Findings) > 0 || c.opt.Log != "" {
		out := newCollected(l, c.opt.DryRun)
		c.g.print(out, func(w io.Writer) { gcText(w, l, c.opt.DryRun) })
	}
	c.g.complain(l.Err)
	if worst != nil {
		c.g.complain(&backend.OpError{Op: "gc", Log: l.Log, Key: worst.Key, Seq: -1,
			Err:  fmt.Errorf("%s could not be removed, the first one because of: %w", words.Count(failed, "object"), worst.Err),
			Hint: "nothing depends on it: the next collection tries again"})
	}
	for _, f := range l.Findings {
		if f.Kind == "epoch" || f.Kind == "lost" && c.opt.Log == "" {
			c.g.complain(&backend.OpError{Op: "gc", Log: l.Log, Key: f.Key, Seq: -1, Err: fmt.Errorf("%w: %s", backend.ErrCorrupt, f.Detail),
				Hint: "look at the log (`s3logctl verify`, `s3logctl fsck`) before anything of it is removed"})
			break
		}
	}
}

// fateText is what the objects of a fate are, for people.
var fateText = map[manifest.Fate]string{
	manifest.FateStale:     "never named",
	manifest.FateExpired:   "replaced by merges",
	manifest.FateDeleted:   "of the deleted log",
	backend.FateProbe:      "left by store proofs",
	manifest.FateRetired:   "replaced, but kept for readers until the grace is over",
	manifest.FateBuried:    "of the deleted log, but kept for readers until the grace is over",
	manifest.FateYoung:     "not older than the grace, and may belong to an upload under way",
	manifest.FateUnsettled: "waiting for a barrier",
	manifest.FateForeign:   "of an epoch that this log has not reached",
	backend.FateKept:       "kept, since the manifest cannot be read",
	backend.FateLost:       "of a log whose manifest was removed: `fsck --rebuild` can make one; or whose copy was interrupted: copy it again. Name the log to collect them",
	backend.FateNameless:   "below a key that does not tell the id: name the log to collect it",
}

func gcText(w io.Writer, l *backend.GCLog, dryRun bool) {
	name := quote(l.Log)
	if l.Log == "" {
		name = quote(l.Prefix)
	}
	n, size := l.Removed()
	verb := "removed"
	if dryRun {
		verb = "to be removed"
	}
	fmt.Fprintf(w, "%s: %s %s, %s", name, words.Count(n, "object"), verb, bytesText(size))
	switch {
	case l.Void:
		fmt.Fprint(w, ", behind a void that marks the id")
	case l.Barrier:
		fmt.Fprint(w, ", behind a barrier")
	}
	if l.Named > 0 {
		fmt.Fprintf(w, "; %s in use, %s", words.Count(l.Named, "segment"), bytesText(l.NamedBytes))
	}
	fmt.Fprintln(w)
	counts, sizes := map[manifest.Fate]int64{}, map[manifest.Fate]int64{}
	var order []manifest.Fate
	for _, o := range l.Objects {
		if counts[o.Fate]++; counts[o.Fate] == 1 {
			order = append(order, o.Fate)
		}
		sizes[o.Fate] += o.Size
	}
	for _, f := range order {
		what := "stays"
		if f.MayGo() || f == backend.FateProbe {
			what = "goes"
		}
		fmt.Fprintf(w, "  %s: %s %s (%s)\n", what, words.Count(counts[f], "object"), fateText[f], bytesText(sizes[f]))
	}
	for _, f := range l.Findings {
		fmt.Fprintf(w, "  %s: %s: %s\n", f.Kind, quote(f.Key), oneLine(f.Detail))
	}
}

// total says what came of it all.
func (c *collection) total(interrupted bool) {
	var text strings.Builder
	if interrupted {
		text.WriteString("until it was interrupted: ")
	}
	fmt.Fprintf(&text, "%s, %s", words.Count(c.objects, "object"), bytesText(c.bytes))
	if c.opt.DryRun {
		text.WriteString(" would be removed")
	} else {
		text.WriteString(" removed")
	}
	if c.stay > 0 {
		fmt.Fprintf(&text, ", %d more stay", c.stay)
	}
	if c.opt.DryRun && c.objects > 0 {
		text.WriteString(". Nothing was done: --apply does it")
	}
	fmt.Fprintln(c.g.out, text.String())
}
