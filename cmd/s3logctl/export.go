package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/sessionfile"
)

type exportFlags struct {
	file string
	pack bool
	zstd bool
}

func newExportCommand(g *globals) *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export LOG",
		Short: "Write a log as a session file",
		Long: `Write a log as harnesses write their session files: the header line, then one
event per line. A log without a header gets one: its id, and the time of its
first event.

With -o the file appears whole or not at all: it is written beside its place and
then renamed.`,
		Example: `  s3logctl export demo -o demo.jsonl.zst --zstd --pack
  s3logctl export demo | head -3`,
		Args:              logArgs,
		ValidArgsFunction: g.completeLog(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runExport(cmd.Context(), g, args[0], f)
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&f.file, "out", "o", stdinArg, "`FILE` to write (-: stdout)")
	fs.BoolVar(&f.pack, "pack", false, "pack runs of streamed output into rows")
	fs.BoolVar(&f.zstd, "zstd", false, "compress into zstd frames")
	return cmd
}

// exported is what was written to a file, in JSON.
type exported struct {
	Log   string  `json:"log"`
	Count int64   `json:"count"`
	Root  *string `json:"root"`
	File  string  `json:"file"`
}

func runExport(ctx context.Context, g *globals, id string, f exportFlags) error {
	toStdout := f.file == stdinArg || f.file == ""
	if toStdout && f.zstd && g.stdoutTTY {
		return withHint(usagef("compressed data is not for a terminal"), "name a file with -o, or pipe it")
	}
	r, err := g.reader(ctx)
	if err != nil {
		return err
	}
	info, err := r.Info(ctx, id)
	if err != nil {
		return err
	}
	if toStdout {
		// A progress would mix with the lines.
		return f.write(ctx, g.out, r, info, &progress{})
	}
	p := g.newProgress("exporting "+quote(id), events, info.Next)
	err = writeFile(f.file, func(w io.Writer) error { return f.write(ctx, w, r, info, p) })
	p.done()
	if err != nil {
		return err
	}
	g.print(exported{Log: id, Count: info.Next, Root: rootText(info), File: f.file}, func(w io.Writer) {
		fmt.Fprintf(w, "exported %s of %s to %s\n", events(info.Next), quote(id), quote(f.file))
	})
	return nil
}

// write writes the events that info counts, behind the header.
func (f *exportFlags) write(ctx context.Context, out io.Writer, r *backend.Reader, info backend.Info, p *progress) error {
	w, err := sessionfile.NewWriter(out, sessionfile.WriterOptions{Pack: f.pack, Zstd: f.zstd})
	if err != nil {
		return err
	}
	last := info.Next - 1
	header := info.Header
	for ev, err := range r.Events(ctx, info.Log, backend.ReadOptions{To: &last}) {
		if err != nil {
			return err
		}
		if ev.Seq == 0 {
			if header, err = defaultHeader(header, ev); err != nil {
				return err
			}
			if err := w.WriteHeader(header); err != nil {
				return unfit(err, "log %s cannot be a session file", quote(info.Log))
			}
		}
		if err := w.WriteEvent(ev.Line); err != nil {
			return unfit(err, "seq %d of log %s cannot be in a session file", ev.Seq, quote(info.Log))
		}
		p.add(1)
	}
	return w.Close()
}

// unfit says what does not fit into a session file, unless it is the file that
// cannot be written.
func unfit(err error, format string, args ...any) error {
	if exit, _ := classify(err); exit == exitFailure {
		return err
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

// defaultHeader is the header of a log that has none: created with its first
// event.
func defaultHeader(header []byte, first backend.Event) ([]byte, error) {
	if header != nil {
		return header, nil
	}
	e, err := first.Parse()
	if err != nil {
		return nil, err
	}
	return sessionfile.DefaultHeader(first.Log, max(0, e.Time))
}
