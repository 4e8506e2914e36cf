package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/segment"
)

// copyFlags say where logs are copied from and to, and how.
type copyFlags struct {
	from, to string // stores; empty: the one that --store names
	dryRun   bool
	verify   bool
	takeOver bool
}

func (f *copyFlags) addTo(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.from, "from", "", "the `STORE` to copy from; it is only read (default: that of --store)")
	fs.StringVar(&f.to, "to", "", "the `STORE` to copy to; a directory is made if need be (default: that of --store)")
	fs.BoolVar(&f.dryRun, "dry-run", false, "say what would be sent, and send nothing")
	fs.BoolVar(&f.verify, "verify", false, "read everything at the destination, and put back what is missing or damaged there")
}

func newCpCommand(g *globals) *cobra.Command {
	var f copyFlags
	cmd := &cobra.Command{
		Use:   "cp LOG [NEWID]",
		Short: "Copy a log to another store, or under another id",
		Long: `Copy a log to another store: a bucket, or a directory. The copy is the same log:
its segments and, as long as nobody else writes there, its manifest are the same
byte for byte. It may be written to meanwhile: one consistent revision is
copied. Repeated, it sends only what is new. What is at the destination is only
ever replaced by a later revision of the same log; a copy that was appended to,
taken over or deleted is refused and not changed.

With --verify everything at the destination is read. A segment that is missing
or damaged there is put back from the source, if the source has the very bytes
that the manifest at the destination says, also where the logs have diverged: so
a log is repaired from a copy of it.

With NEWID the events become a log of their own, on the same store or another:
the same events with the same root, a fresh log without a boundary and without
the owners of the old one. (A fork begins with a boundary, and may end earlier.)`,
		Example: `  s3logctl cp demo --to ./backup
  s3logctl cp demo --from ./backup --verify    # repair what is damaged
  s3logctl cp demo demo-2`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return usagef("%s takes a log id, and perhaps a new one, not %s", verbName(cmd), words.Count(len(args), "argument"))
			}
			return cmp.Or(checkLog(args[0]), checkLog(args[len(args)-1]))
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
			g.store = cmp.Or(f.from, g.store)
			return g.completeLog(false)(cmd, args, begin)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCp(cmd.Context(), g, args[0], args[len(args)-1], f)
		},
	}
	f.addTo(cmd)
	cmd.Flags().BoolVar(&f.takeOver, "take-over", false, "with NEWID: "+takeOverHelp)
	return cmd
}

func runCp(ctx context.Context, g *globals, id, as string, f copyFlags) error {
	switch {
	case as != id && f.dryRun:
		return usagef("--dry-run is for a copy under the same id")
	case as == id && f.takeOver:
		return usagef("--take-over is for a copy under another id: nothing else replaces an owner")
	}
	src, dst, err := g.openBoth(ctx, &f, as == id)
	if err != nil {
		return err
	}
	if as != id {
		return copyAs(ctx, g, src, dst, id, as, f)
	}
	p := g.newProgress("copying "+quote(id), bytesText, 0)
	rep, err := dst.Copy(ctx, src, id, f.options(func(c backend.CopyProgress) { p.set(c.Bytes, c.Total) }))
	p.done()
	if rep.Verified != nil && err != nil {
		rep.Err = err
		g.complain(reportCopy(g, &rep, f.dryRun))
	}
	if err != nil {
		return err
	}
	return reportCopy(g, &rep, f.dryRun)
}

func (f *copyFlags) options(progress func(backend.CopyProgress)) backend.CopyOptions {
	return backend.CopyOptions{DryRun: f.dryRun, Verify: f.verify, Progress: progress}
}

// openBoth opens the two stores. They must not be the same one if the id is to be.
func (g *globals) openBoth(ctx context.Context, f *copyFlags, sameID bool) (*backend.Reader, *backend.Backend, error) {
	from, err := g.place(f.from)
	if err != nil {
		return nil, nil, err
	}
	to, err := g.place(f.to)
	if err != nil {
		return nil, nil, err
	}
	if sameID && from.same(to) {
		hint := "--to names the store to copy to, --from the one to copy from"
		if f.from != "" || f.to != "" {
			hint = "name another store, or in `s3logctl cp LOG NEWID` another id"
		}
		return nil, nil, withHint(usagef("from a store to itself nothing can be copied under the same id"), hint)
	}
	if from.embedded || to.embedded {
		at := from
		if to.embedded {
			at = to
		}
		g.embeddedNotice(at)
	}
	src, err := g.openAt(ctx, from, useRead)
	if err != nil {
		return nil, nil, err
	}
	var dst objstore.Store
	if f.dryRun {
		if dst, err = g.openAt(ctx, to, useRead); errors.Is(err, backend.ErrNotFound) && to.dir != "" {
			dst, err = nowhere{}, nil // where a copy would make a directory
		}
	} else {
		dst, err = g.openAt(ctx, to, useCreate)
	}
	if err != nil {
		return nil, nil, err
	}
	opt := g.options([]func(*backend.Options){foreground})
	opt.Limits.MaxEvent = segment.MaxFrameRaw - 1 // whatever a log may hold
	return backend.NewReader(src, g.options(nil)), backend.New(dst, opt), nil
}

// place is the store of a flag, or else the one that the others are about.
func (g *globals) place(text string) (location, error) {
	if text == "" {
		return g.locate()
	}
	return parseLocation(text)
}

// same reports whether two stores are at one place, as far as their names tell.
func (l location) same(other location) bool {
	if l.dir == "" || other.dir == "" {
		return l.dir == other.dir && l.s3.Bucket == other.s3.Bucket && l.s3.Prefix == other.s3.Prefix && l.s3.Endpoint == other.s3.Endpoint
	}
	a, aerr := os.Stat(l.dir)
	b, berr := os.Stat(other.dir)
	if aerr == nil && berr == nil {
		return os.SameFile(a, b)
	}
	a1, _ := filepath.Abs(l.dir)
	b1, _ := filepath.Abs(other.dir)
	return a1 == b1
}

// nowhere is a store that is not there.
type nowhere struct{}

func (nowhere) fail(op, key string, class error) error {
	return &objstore.Error{Op: op, Key: key, Class: class}
}

func (n nowhere) Get(_ context.Context, key string, _ objstore.GetOptions) (objstore.Object, error) {
	return objstore.Object{}, n.fail("Get", key, objstore.ErrNotExist)
}

func (n nowhere) Head(_ context.Context, key string) (objstore.Info, error) {
	return objstore.Info{}, n.fail("Head", key, objstore.ErrNotExist)
}

func (nowhere) List(context.Context, string, string) iter.Seq2[objstore.Info, error] {
	return func(func(objstore.Info, error) bool) {}
}

func (n nowhere) Put(_ context.Context, key string, _ []byte, _ objstore.Condition, _ objstore.PutOptions) (objstore.Info, error) {
	return objstore.Info{}, n.fail("Put", key, objstore.ErrReadOnly)
}

func (n nowhere) Delete(_ context.Context, key string) error {
	return n.fail("Delete", key, objstore.ErrReadOnly)
}

// copied is a copy in JSON.
type copied struct {
	Log       string    `json:"log"`
	Copied    bool      `json:"copied"`
	Bytes     int64     `json:"bytes"`
	Segments  *int      `json:"segments"` // null under another id
	Revision  int64     `json:"revision"`
	Duplicate bool      `json:"duplicate"`
	DryRun    bool      `json:"dryRun"`
	Events    int64     `json:"events"`
	Root      string    `json:"root"` // SIZE:ROOT
	From      *string   `json:"from"` // the other id
	Repairs   []repair  `json:"repairs"`
	Verified  *verified `json:"verified"`
	refused   bool      // only what was damaged was looked at
}

// repair is a segment that was missing or damaged at the destination.
type repair struct {
	Key      string  `json:"key"`
	Seq      int64   `json:"seq"`
	Was      string  `json:"was"`
	Bytes    int64   `json:"bytes"`
	Repaired bool    `json:"repaired"` // or would be, in a dry run
	Error    *string `json:"error"`
}

// reportCopy shows what came of a copy under the same id.
func reportCopy(g *globals, r *backend.CopyReport, dryRun bool) error {
	out := copied{
		Log: r.Log, Copied: r.Copied, Bytes: r.Bytes, Segments: &r.Segments, Revision: r.Revision, Duplicate: r.Duplicate, DryRun: dryRun,
		Events: r.Events, Root: backend.Point{Size: r.Events, Root: r.Root}.String(), refused: r.Err != nil,
	}
	for _, m := range r.Repairs {
		j := repair{Key: m.Key, Seq: m.Seq, Was: m.Was, Bytes: m.Bytes, Repaired: m.Err == nil}
		if m.Err != nil {
			text := errorText(m.Err, "")
			j.Error = &text
		}
		out.Repairs = append(out.Repairs, j)
	}
	return out.show(g, r.Verified)
}

func (c copied) show(g *globals, rep *backend.Report) error {
	if c.Repairs == nil {
		c.Repairs = []repair{}
	}
	if rep != nil {
		v := newVerified(*rep)
		c.Verified = &v
	}
	g.print(c, c.text)
	if rep != nil && !rep.OK() {
		return findingsError(*rep)
	}
	return nil
}

func (c copied) text(w io.Writer) {
	sent := ""
	if c.Segments != nil && *c.Segments > 0 {
		sent = words.Count(*c.Segments, "segment") + " and "
	}
	switch {
	case c.From != nil && c.Duplicate:
		fmt.Fprintf(w, "%s: nothing to copy: it has the %s of %s already (revision %d)\n", quote(c.Log), events(c.Events), quote(*c.From), c.Revision)
	case c.From != nil:
		fmt.Fprintf(w, "%s: copied from %s, %s (revision %d)\n", quote(c.Log), quote(*c.From), events(c.Events), c.Revision)
	case c.DryRun && !c.Duplicate:
		if sent != "" {
			sent = fmt.Sprintf("%s (%s) and ", words.Count(*c.Segments, "segment"), bytesText(c.Bytes))
		}
		fmt.Fprintf(w, "%s: would be copied: %sthe manifest, %s\n", quote(c.Log), sent, events(c.Events))
	case c.refused:
		fmt.Fprintf(w, "%s: not copied; what is there has %s (revision %d)\n", quote(c.Log), events(c.Events), c.Revision)
	case c.Duplicate && c.Verified != nil:
		fmt.Fprintf(w, "%s: nothing new to copy: it is there with %s (revision %d)\n", quote(c.Log), events(c.Events), c.Revision)
	case c.Duplicate:
		fmt.Fprintf(w, "%s: nothing new to copy: it is there with %s (revision %d), which were not read: --verify does\n", quote(c.Log), events(c.Events), c.Revision)
	default:
		fmt.Fprintf(w, "%s: copied, %sthe manifest sent, %s; %s (revision %d)\n", quote(c.Log), sent, bytesText(c.Bytes), events(c.Events), c.Revision)
	}
	for _, r := range c.Repairs {
		switch {
		case !r.Repaired:
			fmt.Fprintf(w, "  not repaired: %s, which is %s: %s\n", quote(r.Key), r.Was, oneLine(*r.Error))
		case c.DryRun:
			fmt.Fprintf(w, "  would be repaired: %s, which is %s, %s\n", quote(r.Key), r.Was, bytesText(r.Bytes))
		default:
			fmt.Fprintf(w, "  repaired: %s, which was %s, %s\n", quote(r.Key), r.Was, bytesText(r.Bytes))
		}
	}
	if c.Verified != nil {
		c.Verified.text(w)
	}
}

// copyAs makes a log of its own.
func copyAs(ctx context.Context, g *globals, src *backend.Reader, dst *backend.Backend, id, as string, f copyFlags) error {
	stores := g.opened()
	written := stores[len(stores)-1] // of the store that was opened last
	done := g.watch("copying " + quote(id) + " to " + quote(as))
	defer done()
	r, err := dst.CopyAs(ctx, src, id, as, adoptOptions(f.takeOver))
	if errors.Is(err, backend.ErrExists) {
		return withHint(err, "choose another id")
	}
	if err != nil {
		return err
	}
	out := copied{Log: as, Copied: !r.Duplicate, Bytes: written.Counts().BytesOut, Revision: r.Revision, Duplicate: r.Duplicate, Events: r.Next, From: &id}
	info, err := dst.Info(ctx, as)
	if err != nil {
		return err
	}
	out.Root = backend.Point{Size: info.Next, Root: info.Content.Tree.Root}.String()
	var rep *backend.Report
	if f.verify {
		verified, err := dst.Verify(ctx, as, backend.VerifyOptions{})
		if err != nil {
			return err
		}
		rep = &verified
	}
	done()
	return out.show(g, rep)
}
