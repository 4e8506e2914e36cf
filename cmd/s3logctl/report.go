package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/report"
)

type reportFlags struct {
	file        string
	force       bool
	since       string
	parentStore string
}

func newReportCommand(g *globals) *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report LOG",
		Short: "Make a page of a log that an auditor can look at",
		Long: `Verify a log and write what is in it as one HTML file, which needs nothing but a
browser: the turns with their steps, tool calls and outcomes, the verdicts on
all known brackets with their evidence, boundaries, lineage, owners, size and
cost over time, every event, and the result of the verification with the Merkle
root.

A log that is damaged has a page, too. The exit code then is that of verify. A
file that is there is not replaced without --force; a new one appears whole or
not at all.`,
		Example: `  s3logctl report demo -o demo.html
  s3logctl report demo --since "$(cat noted-root)" > demo.html`,
		Args:              logArgs,
		ValidArgsFunction: g.completeLog(false),
		RunE:              func(cmd *cobra.Command, args []string) error { return runReport(cmd.Context(), g, args[0], f) },
	}
	fs := cmd.Flags()
	fs.StringVarP(&f.file, "out", "o", stdinArg, "`FILE` to write (-: stdout)")
	fs.BoolVar(&f.force, "force", false, "replace a file that is there")
	fs.StringVar(&f.since, "since", "", "an earlier `SIZE:ROOT` of the log, which it must extend")
	fs.StringVar(&f.parentStore, "parent-store", "", "the `STORE` of a fork's parent, if it is another")
	_ = cmd.MarkFlagFilename("out", "html")
	return cmd
}

// reported is what was written, in JSON.
type reported struct {
	Log    string  `json:"log"`
	File   string  `json:"file"`
	Events int64   `json:"events"`
	Bytes  int64   `json:"bytes"` // of the page
	Unread int64   `json:"unread"`
	OK     bool    `json:"ok"`   // the verification
	Root   *string `json:"root"` // SIZE:ROOT; null where the log is not intact
}

func runReport(ctx context.Context, g *globals, id string, f reportFlags) error {
	toStdout := f.file == stdinArg || f.file == ""
	if toStdout && g.stdoutTTY {
		return withHint(usagef("a page is not for a terminal"), "name a file with -o, or pipe it")
	}
	at, err := g.locate()
	if err != nil {
		return err
	}
	opt := report.Options{Now: time.Now(), Software: "s3logctl " + softwareVersion(), Store: storeName(at)}
	if f.since != "" {
		p, err := backend.ParsePoint(f.since)
		if err != nil {
			return withHint(usagef("--since %w", err), "`s3logctl info LOG --output json | jq -r .root` prints it")
		}
		opt.Since = &p
	}
	if !toStdout && !f.force {
		if err := absent(f.file); err != nil {
			return err
		}
	}
	r, err := g.reader(ctx)
	if err != nil {
		return err
	}
	if f.parentStore != "" {
		if opt.Parent, err = g.readerAt(ctx, f.parentStore); err != nil {
			return err
		}
	}
	return writeReport(ctx, g, r, id, f.file, toStdout, opt)
}

func writeReport(ctx context.Context, g *globals, r *backend.Reader, id, file string, toStdout bool, opt report.Options) error {
	p := g.newProgress("reading "+quote(id), events, 0)
	opt.Progress = p.add
	var facts report.Facts
	size := &counter{}
	write := func(w io.Writer) (err error) {
		size.w = w
		facts, err = report.Write(ctx, size, r, id, opt)
		return err
	}
	var err error
	if toStdout {
		err = write(g.out)
	} else {
		err = writeFile(file, write)
	}
	p.done()
	if err != nil {
		return err
	}
	if !toStdout {
		out := reported{Log: id, File: file, Events: facts.Events, Bytes: size.n, Unread: facts.Unread, OK: facts.Root != nil}
		state := "NOT intact"
		if facts.Root != nil {
			root := facts.Root.String()
			out.Root, state = &root, "verified, root "+root
		}
		g.print(out, func(w io.Writer) {
			fmt.Fprintf(w, "wrote %s (%s): %s of %s, %s\n", quote(file), bytesText(size.n), partOf(facts.Events-facts.Unread, facts.Events, "event"), quote(id), state)
		})
	}
	if !facts.Verified.OK() {
		return findingsError(facts.Verified)
	}
	return facts.Damage
}

// storeName is a store as a page may name it that others are going to see: without
// endpoints, profiles, and the paths of this machine.
func storeName(at location) string {
	switch {
	case at.embedded:
		return "the embedded store"
	case at.dir != "":
		return "a directory"
	}
	return strings.TrimSuffix("s3://"+at.s3.Bucket+"/"+at.s3.Prefix, "/")
}

// absent refuses a file that is there. Devices and pipes are written to, and of
// directories writeFile complains.
func absent(file string) error {
	info, err := os.Lstat(file)
	if err == nil && info.Mode().Type() == fs.ModeSymlink {
		if target, err := os.Stat(file); err == nil {
			info = target
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().IsRegular(), info.Mode().Type() == fs.ModeSymlink:
		return withHint(fmt.Errorf("%w: %s", errFileExists, quote(file)), "--force replaces it")
	}
	return nil
}

// errFileExists is a file that nobody asked to replace.
var errFileExists = errors.New("the file is there already")

// counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
