package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/words"
)

type lsFlags struct {
	limit   int
	by      string
	deleted bool
	sizes   bool
}

func newLsCommand(g *globals) *cobra.Command {
	var f lsFlags
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List logs, newest activity first",
		Long: `List the logs of the store. ACTIVE is how long ago the newest message of a
person was, else the creation that the session header names; MODIFIED is how
long ago something was last written. A log that cannot be looked at is shown
with the reason, and makes the command fail at the end.`,
		Example: `  s3logctl ls --limit 20
  s3logctl ls --sizes
  s3logctl ls --by name --output json | jq -r .log`,
		Args:              exactArgs(0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runLs(cmd.Context(), g, f)
		},
	}
	cmd.Flags().IntVar(&f.limit, "limit", 0, "at most `N` logs (0: all)")
	cmd.Flags().StringVar(&f.by, "by", string(backend.ByActivity), "`order`: activity, modified or name")
	cmd.Flags().BoolVar(&f.deleted, "deleted", false, "list deleted logs, too")
	cmd.Flags().BoolVar(&f.sizes, "sizes", false, "add up what is stored of each log: lists all segments")
	orders := []string{string(backend.ByActivity), string(backend.ByModified), string(backend.ByName)}
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(orders, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// entry is one log of a listing in JSON. Times are ms since the Unix epoch.
type entry struct {
	Log      string  `json:"log"`
	Next     *int64  `json:"next"`
	Activity *int64  `json:"activity"`
	Modified int64   `json:"modified"`
	State    *string `json:"state"`
	Stored   *int64  `json:"stored,omitempty"` // with --sizes
	Error    string  `json:"error,omitempty"`
	Code     string  `json:"code,omitempty"`
}

func newEntry(e backend.Entry, sizes bool) entry {
	out := entry{Log: e.Log, Modified: e.Modified.UnixMilli()}
	if sizes {
		out.Stored = &e.Stored
	}
	if e.Err != nil {
		_, out.Code = classify(e.Err)
		out.Error = errorText(e.Err, "")
		return out
	}
	state := string(e.State)
	out.Next, out.Activity, out.State = &e.Next, e.Activity, &state
	return out
}

func runLs(ctx context.Context, g *globals, f lsFlags) error {
	order := backend.Order(f.by)
	switch order {
	case backend.ByActivity, backend.ByModified, backend.ByName:
	default:
		return usagef("--by %q is none of activity, modified, name", f.by)
	}
	if f.limit < 0 {
		return usagef("--limit %d is negative", f.limit)
	}
	r, err := g.reader(ctx)
	if err != nil {
		return err
	}
	g.verb = "" // what follows is about one of many logs each
	table := newTable(g, order, f)
	total, failed := 0, 0
	var first error
	done := g.watch("listing")
	defer done()
	for e, err := range r.List(ctx, backend.ListOptions{By: order, Limit: f.limit, Deleted: f.deleted, Stored: f.sizes}) {
		if err != nil {
			table.flush()
			return err
		}
		total++
		if e.Err != nil {
			if failed++; first == nil {
				first = e.Err
			}
		}
		g.print(newEntry(e, f.sizes), func(io.Writer) { table.add(e, time.Now()) })
	}
	done()
	table.flush()
	if total == 0 {
		g.noLogs(f.deleted)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %s could not be looked at, the first one because of: %w", failed, words.Count(total, "log"), first)
	}
	return nil
}

// noLogs says for people that there is nothing to show, and where that was.
func (g *globals) noLogs(deleted bool) {
	at, err := g.locate()
	if err != nil || g.asJSON() {
		return
	}
	more := ""
	if !deleted {
		more = " (`s3logctl ls --deleted` shows those that were deleted)"
	}
	g.notice("there are no logs below %s%s", at, more)
}

// table lists logs for people.
type table struct {
	fitted
	order          backend.Order
	deleted, sizes bool
	total          int
}

func newTable(g *globals, order backend.Order, f lsFlags) *table {
	t := &table{order: order, deleted: f.deleted, sizes: f.sizes}
	t.w, t.right = g.out, []bool{false, false, true, true, f.sizes}
	if order == backend.ByModified {
		t.right = t.right[1:]
	}
	t.width = g.textWidth()
	return t
}

func (t *table) add(e backend.Entry, now time.Time) {
	if t.total == 0 {
		t.line("ACTIVE", "MODIFIED", "EVENTS", "MANIFEST", "STORED", "STATE", "LOG")
	}
	t.total++
	active, count, state := "-", "-", "-"
	if e.Activity != nil {
		active = ageText(now.Sub(time.UnixMilli(*e.Activity)))
	}
	name := quote(e.Log)
	if e.Err != nil {
		name += "  (" + oneLine(errorText(e.Err, "")) + ")"
	} else {
		count, state = fmt.Sprint(e.Next), string(e.State)
	}
	t.line(active, ageText(now.Sub(e.Modified)), count, bytesText(e.Size), bytesText(e.Stored), state, name)
}

func (t *table) line(active, modified, count, size, stored, state, name string) {
	cells := []string{active, modified, count, size}
	if t.order == backend.ByModified { // which asks nobody for the activity
		cells = cells[1:]
	}
	if t.sizes {
		cells = append(cells, stored)
	}
	if t.deleted {
		cells = append(cells, state)
	}
	t.row(append(cells, name)...)
}
