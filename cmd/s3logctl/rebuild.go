package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/segment"
)

// rebuilt is a report in JSON.
type rebuilt struct {
	Log         string          `json:"log"`
	Found       string          `json:"found"`
	Why         string          `json:"why"`
	DryRun      bool            `json:"dryRun"`
	Done        bool            `json:"done"`
	UID         string          `json:"uid"`
	Revision    int64           `json:"revision"`
	Epoch       uint32          `json:"epoch"`
	Next        int64           `json:"next"`
	Root        *string         `json:"root"`
	Segments    []string        `json:"segments"`
	Bytes       int64           `json:"bytes"`
	Listed      int             `json:"listed"`
	Salvaged    int64           `json:"salvaged"`
	LeftOut     int             `json:"leftOut"`
	Unused      []rebuiltUnused `json:"unused"`
	Gap         *rebuiltGap     `json:"gap"`
	Unconfirmed *int64          `json:"unconfirmed"`
	Lost        []string        `json:"lost"`
}

type rebuiltUnused struct {
	Key  string `json:"key"`
	Next *int64 `json:"next"` // null where its index cannot be read
	Why  string `json:"why"`
}

type rebuiltGap struct {
	From     int64 `json:"from"`
	To       int64 `json:"to"`
	Next     int64 `json:"next"`
	Segments int   `json:"segments"`
}

func newRebuilt(r backend.RebuildReport, dry bool) rebuilt {
	out := rebuilt{
		Log: r.Log, Found: string(r.Found), Why: r.Why, DryRun: dry, Done: r.Done, UID: r.UID, Revision: r.Revision, Epoch: r.Epoch, Next: r.Next,
		Segments: []string{}, Listed: r.Listed, Salvaged: r.Salvaged, LeftOut: len(r.LeftOut), Unused: []rebuiltUnused{}, Gap: (*rebuiltGap)(r.Gap), Lost: append([]string{}, r.Lost...),
	}
	if r.Root != (segment.Hash{}) {
		root := backend.Point{Size: r.Next, Root: r.Root}.String()
		out.Root = &root
	}
	for _, s := range r.Segments {
		out.Segments = append(out.Segments, s.Name.String())
		out.Bytes += s.Bytes
	}
	for _, u := range r.Unused {
		j := rebuiltUnused{Key: u.Key, Why: u.Why}
		if u.Next > 0 {
			j.Next = &u.Next
		}
		out.Unused = append(out.Unused, j)
	}
	if r.Unconfirmed >= 0 {
		out.Unconfirmed = &r.Unconfirmed
	}
	return out
}

func runRebuild(ctx context.Context, g *globals, id string, f fsckFlags) error {
	b, err := g.backend(ctx, f.use())
	if err != nil {
		return err
	}
	done := g.watch("reading the segments of " + quote(id))
	rep, err := b.Rebuild(ctx, id, backend.RebuildOptions{DryRun: !f.apply.apply, Restored: f.restored})
	done()
	if serr := saveLeftOut(g, rep.LeftOut, f.save); serr != nil {
		return errors.Join(err, serr)
	}
	if err != nil {
		return err
	}
	out := newRebuilt(rep, !f.apply.apply)
	g.print(out, out.text)
	if out.DryRun && rep.Found != backend.RebuildIntact {
		g.notice("nothing was written; --apply does it")
	}
	return nil
}

// saveLeftOut writes events that are in a damaged manifest and nowhere else, or says
// that they can be had.
func saveLeftOut(g *globals, lines [][]byte, file string) error {
	switch {
	case len(lines) == 0 && file != "":
		g.notice("no intact event is left out: %s is not written", quote(file))
		return nil
	case len(lines) == 0:
		return nil
	case file == "":
		g.notice("left out of the log, though intact in the damaged manifest: %s; --save FILE writes that to a file", events(int64(len(lines))))
		return nil
	}
	err := writeFile(file, func(w io.Writer) error {
		for _, line := range lines {
			if _, err := w.Write(append(line[:len(line):len(line)], '\n')); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		g.notice("saved to %s: %s of the damaged manifest", quote(file), events(int64(len(lines))))
	}
	return err
}

func (r rebuilt) text(w io.Writer) {
	does := func(done, plan string) string {
		if r.Done {
			return done
		}
		return plan
	}
	switch backend.RebuildCase(r.Found) {
	case backend.RebuildIntact:
		fmt.Fprintf(w, "%s: nothing to rebuild: its manifest can be read, and nothing shows that it is an older one (--restored says so)\n", quote(r.Log))
		return
	case backend.RebuildOlder:
		if !r.Done && !r.DryRun {
			fmt.Fprintf(w, "%s: nothing to do: somebody else has raised its epoch to %d\n", quote(r.Log), r.Epoch)
			return
		}
		fmt.Fprintf(w, "%s: %s epoch %d, above everything that is there\n", quote(r.Log), does("its manifest was raised to", "its manifest would be raised to"), r.Epoch)
	default:
		fmt.Fprintf(w, "%s: %s made of %s with %s, %s, root %s\n", quote(r.Log), does("its manifest was", "its manifest would be"),
			words.Count(len(r.Segments), "segment"), events(r.Next), bytesText(r.Bytes), *r.Root)
	}
	fmt.Fprintf(w, "  found: %s: %s\n", r.Found, oneLine(r.Why))
	if r.Salvaged > 0 {
		fmt.Fprintf(w, "  salvaged: the last %s, from the tail of the damaged manifest\n", events(r.Salvaged))
	}
	for _, l := range r.Lost {
		fmt.Fprintf(w, "  lost: %s\n", oneLine(l))
	}
	if r.Unconfirmed != nil {
		fmt.Fprintf(w, "  not confirmed: the events from seq %d on, which no later segment follows; the last of them may never have been committed\n", *r.Unconfirmed)
	}
	for _, u := range r.Unused {
		fmt.Fprintf(w, "  not used: %s: %s\n", quote(u.Key), oneLine(u.Why))
	}
}
