package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
)

type lsFlags struct {
	limit   int
	by      string
	deleted bool
}

func newLsCommand(g *globals) *cobra.Command {
	var f lsFlags
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List logs, newest activity first",
		Long: `List the logs of the store. Activity is the time of the newest message of a
person, else of the creation that the session header names; it is not the time
of the last write. A log that cannot be looked at is shown with the reason, and
makes the command fail at the end.`,
		Example: `  s3logctl ls --limit 20
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
	Error    string  `json:"error,omitempty"`
	Code     string  `json:"code,omitempty"`
}

func newEntry(e backend.Entry) entry {
	out := entry{Log: e.Log, Modified: e.Modified.UnixMilli()}
	if e.Err != nil {
		_, out.Code = classify(e.Err)
		out.Error = e.Err.Error()
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
	table := newTable(g.out, order, f.deleted)
	total, failed := 0, 0
	var first error
	for e, err := range r.List(ctx, backend.ListOptions{By: order, Limit: f.limit, Deleted: f.deleted}) {
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
		g.print(newEntry(e), func(io.Writer) { table.add(e, time.Now()) })
	}
	table.flush()
	if failed > 0 {
		return fmt.Errorf("%d of %d logs could not be looked at, the first one because of: %w", failed, total, first)
	}
	return nil
}

// table lists logs for people. It is fitted a thousand lines at a time, so that
// its memory does not grow with the listing.
type table struct {
	w       *tabwriter.Writer
	order   backend.Order
	deleted bool
	rows    int
}

const fittedRows = 1000

func newTable(w io.Writer, order backend.Order, deleted bool) *table {
	return &table{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), order: order, deleted: deleted}
}

func (t *table) add(e backend.Entry, now time.Time) {
	if t.rows == 0 {
		age := "ACTIVE"
		if t.order == backend.ByModified {
			age = "MODIFIED"
		}
		t.row(age, "EVENTS", "MANIFEST", "STATE", "LOG")
	}
	t.rows++
	age, count, state := "-", "-", "-"
	switch {
	case t.order == backend.ByModified:
		age = ageText(now.Sub(e.Modified))
	case e.Activity != nil:
		age = ageText(now.Sub(time.UnixMilli(*e.Activity)))
	}
	name := quote(e.Log)
	if e.Err != nil {
		name += "  (" + oneLine(e.Err.Error()) + ")"
	} else {
		count, state = fmt.Sprint(e.Next), string(e.State)
	}
	t.row(age, count, bytesText(e.Size), state, name)
	if t.rows%fittedRows == 0 {
		t.flush()
	}
}

func (t *table) row(age, count, size, state, name string) {
	if !t.deleted {
		state = ""
	} else {
		state += "\t"
	}
	fmt.Fprintf(t.w, "%s\t%s\t%s\t%s%s\n", age, count, size, state, name)
}

func (t *table) flush() { _ = t.w.Flush() } // a failed write shows again at the end
