package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/segment"
)

type diffFlags struct {
	parentStore string
	verify      bool
	events      int64
}

// defaultRows is how many events --events shows if it is not told.
const defaultRows = 20

func newDiffCommand(g *globals) *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use:   "diff PARENT CHILD",
		Short: "Show where a fork leaves its parent",
		Long: `Show how many events two logs begin with that are the same, and what each has
behind them: how many events, of which types, until when. Nothing is written.

Where one was forked from the other, or both from the same log, their manifests
answer: one GET each. Other logs are read from where their Merkle trees and
segments stop to agree, until their events differ. A difference is no error: the
exit code is 0.`,
		Example: `  s3logctl diff demo demo-2
  s3logctl diff demo demo-2 --events=5
  s3logctl diff demo copy --parent-store s3://production/agents --output json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := exactArgs(2, "a parent and a child")(cmd, args); err != nil {
				return err
			}
			return cmp.Or(checkLog(args[0]), checkLog(args[1]))
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 1 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return g.logIDs(cmd.Context(), begin), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runDiff(cmd.Context(), g, args[0], args[1], f) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.parentStore, "parent-store", "", "the parent's `STORE`, if it is another")
	fs.BoolVar(&f.verify, "verify", false, "compare all events, whatever the manifests say, and count what each has of its own")
	fs.Int64Var(&f.events, "events", 0, "show the first `N` events of each from there on, side by side; --events alone: 20")
	fs.Lookup("events").NoOptDefVal = fmt.Sprint(defaultRows)
	return cmd
}

// differs is where two logs part, in JSON.
type differs struct {
	Parent diffSide   `json:"parent"`
	Child  diffSide   `json:"child"`
	Common int64      `json:"common"`
	By     string     `json:"by"`
	Origin *int64     `json:"origin"` // null: neither comes from the other
	Proved int64      `json:"proved"`
	Doubt  *string    `json:"doubt"`
	Root   *string    `json:"root"`   // SIZE:ROOT of what is common, where it is known
	Events *[]diffRow `json:"events"` // null: not asked for
}

type diffSide struct {
	Log      string     `json:"log"`
	UID      string     `json:"uid"`
	Revision int64      `json:"revision"`
	Next     int64      `json:"next"`
	Root     string     `json:"root"`
	Own      int64      `json:"own"`
	First    *int64     `json:"first"` // seq of its first own event
	LastTime *int64     `json:"lastTime"`
	Types    []diffType `json:"types"`
}

type diffType struct {
	Type  string `json:"type"`
	Count *int64 `json:"count"` // null: at least one
	Last  int64  `json:"last"`
}

type diffRow struct {
	Seq    int64      `json:"seq"`
	Parent *diffEvent `json:"parent"`
	Child  *diffEvent `json:"child"`
}

type diffEvent struct {
	Type  string `json:"type"`
	Time  int64  `json:"time"`
	Bytes int    `json:"bytes"`
}

func runDiff(ctx context.Context, g *globals, parent, child string, f diffFlags) error {
	if f.events < 0 {
		return usagef("--events %d: a number of events, 0 for none", f.events)
	}
	r, err := g.reader(ctx)
	if err != nil {
		return err
	}
	opt := backend.DiffOptions{Verify: f.verify, Events: f.events}
	if f.parentStore != "" {
		if opt.Parent, err = g.readerAt(ctx, f.parentStore); err != nil {
			return err
		}
	}
	done := g.watch("comparing " + quote(parent) + " and " + quote(child))
	d, err := r.Diff(ctx, parent, child, opt)
	done()
	if err != nil {
		return err
	}
	out := newDiffers(d, f.events > 0)
	g.print(out, func(w io.Writer) { diffText(w, g.textWidth(), d, out) })
	return nil
}

func newDiffers(d backend.Diff, rows bool) differs {
	out := differs{
		Parent: newDiffSide(d.Parent, d.Common), Child: newDiffSide(d.Child, d.Common),
		Common: d.Common, By: string(d.By), Proved: d.Proved,
	}
	if d.Origin >= 0 {
		out.Origin = &d.Origin
	}
	if d.Doubt != "" {
		out.Doubt = &d.Doubt
	}
	if d.Root != nil {
		root := backend.Point{Size: d.Common, Root: *d.Root}.String()
		out.Root = &root
	}
	if rows {
		out.Events = &[]diffRow{}
		for _, r := range d.Rows {
			*out.Events = append(*out.Events, diffRow{r.Seq, newDiffEvent(r.Parent), newDiffEvent(r.Child)})
		}
	}
	return out
}

func newDiffSide(s backend.DiffSide, common int64) diffSide {
	out := diffSide{
		Log: s.Log, UID: s.UID, Revision: s.Revision, Next: s.Next, Own: s.Own, LastTime: s.LastTime,
		Root: backend.Point{Size: s.Next, Root: s.Root}.String(), Types: []diffType{},
	}
	if s.Own > 0 {
		out.First = &common
	}
	for _, t := range s.Types {
		j := diffType{Type: t.Type, Last: t.Last}
		if t.Count >= 0 {
			j.Count = &t.Count
		}
		out.Types = append(out.Types, j)
	}
	return out
}

func newDiffEvent(e *segment.Event) *diffEvent {
	if e == nil {
		return nil
	}
	return &diffEvent{e.Type, e.Time, len(e.Line)}
}

// diffText says the same in words.
func diffText(out io.Writer, width int, d backend.Diff, j differs) {
	line, flush := fittedLines(out, width)
	for _, s := range []struct {
		name string
		backend.DiffSide
	}{{"parent", d.Parent}, {"child", d.Child}} {
		line(s.name, "%s, %s, revision %d", quote(s.Log), events(s.Next), s.Revision)
	}
	line("common", "%s", commonWords(d))
	if j.Doubt != nil {
		line("doubt", "the origin is not believed: %s", *j.Doubt)
	}
	if j.Root != nil && d.Common > 0 {
		line("root", "%s", *j.Root)
	}
	ownText(line, "parent's own", d.Parent, d.Common)
	ownText(line, "child's own", d.Child, d.Common)
	flush()
	if j.Events != nil {
		rowsText(out, width, d)
	}
}

// commonWords says what two logs share, and what tells.
func commonWords(d backend.Diff) string {
	what := "nothing"
	switch {
	case d.Common == d.Parent.Next && d.Common == d.Child.Next:
		what = "everything"
	case d.Common == 1:
		what = "the first event (seq 0)"
	case d.Common > 1:
		what = fmt.Sprintf("the first %d events (seq 0 to %d)", d.Common, d.Common-1)
	}
	switch d.By {
	case backend.ByRoots:
		return what + ", as the trees in the manifests prove"
	case backend.ByOrigin:
		what += ", as the origin says"
		switch d.Proved {
		case d.Common:
			return what + " and the trees in the manifests prove"
		case 0:
			return what + " (--verify compares the events)"
		}
		return what + fmt.Sprintf("; the trees in the manifests prove it of the first %d (--verify compares all)", d.Proved)
	}
	return what + ", as the events say"
}

func ownText(line lineFunc, name string, s backend.DiffSide, common int64) {
	if s.Own == 0 {
		line(name, "nothing")
		return
	}
	text := events(s.Own)
	if s.Own == 1 {
		text += fmt.Sprintf(" (seq %d)", common)
	} else {
		text += fmt.Sprintf(" (seq %d to %d)", common, s.Next-1)
	}
	if s.LastTime != nil {
		text += ", the last at " + timeText(*s.LastTime)
	}
	sep := ": "
	for _, t := range s.Types {
		text, sep = text+sep, ", "
		typ := "others"
		if t.Type != "" {
			typ = quote(t.Type)
		}
		if t.Count < 0 {
			text += typ + " (how many, --verify tells)"
		} else {
			text += fmt.Sprintf("%s %d", typ, t.Count)
		}
	}
	line(name, "%s", text)
}

// rowsText shows events side by side.
func rowsText(out io.Writer, width int, d backend.Diff) {
	if len(d.Rows) == 0 {
		return
	}
	fmt.Fprintln(out)
	w := fitted{w: out, width: width}
	room := 0 // for the parent's event: half of what there is
	if width > 0 {
		last := d.Rows[len(d.Rows)-1].Seq
		room = max((width-len(fmt.Sprint(last))-2*len(columnGap))/2, fittedLast)
	}
	cell := func(e *segment.Event) string {
		if e == nil {
			return "-"
		}
		return timeText(e.Time) + "  " + oneLine(quote(e.Type))
	}
	w.row("SEQ", "PARENT", "CHILD")
	for _, r := range d.Rows {
		w.row(fmt.Sprint(r.Seq), fit(cell(r.Parent), room), cell(r.Child))
	}
	w.flush()
	shown := d.Common + int64(len(d.Rows))
	if most := max(d.Parent.Next, d.Child.Next); most > shown {
		fmt.Fprintf(out, "… up to seq %d (`s3logctl cat LOG --from %d`)\n", most-1, shown)
	}
}
