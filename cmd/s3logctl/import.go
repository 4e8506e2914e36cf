package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/segment"
	"github.com/s3log/s3log/sessionfile"
)

type importFlags struct {
	log      string
	wrap     string
	salvage  bool
	takeOver bool
}

func newImportCommand(g *globals) *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import FILE…",
		Short: "Make logs of session files",
		Long: `Import session files of harnesses, plain or zstd: a header line, then one event
per line, some of them packed. One file is one log. "-" is stdin.

Where the log is there already, only what the file has more is appended; a file
whose events are all in the log writes nothing ("duplicate": true); a log with
other events is an error and is not changed. A file is read twice, the first
time to see whether all of it is good: a file with a flaw imports nothing.
With --salvage its longest valid prefix is imported, and what was left out is
reported.`,
		Example: `  s3logctl import session.jsonl
  s3logctl import --log child-1 - < session.jsonl.zst
  s3logctl import --wrap claude/line --log work transcript.jsonl`,
		Args: minArgs(1, "files to import, or - for stdin"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("log") {
				if err := checkLog(f.log); err != nil {
					return err
				}
			}
			return runImport(cmd.Context(), g, args, f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.log, "log", "", "`ID` of the log (default: the id in the file's header)")
	fs.StringVar(&f.wrap, "wrap", "", "take the lines for those of another format: each becomes the data of an event of this `TYPE`")
	fs.BoolVar(&f.salvage, "salvage", false, "import what is good of a damaged file")
	fs.BoolVar(&f.takeOver, "take-over", false, takeOverHelp)
	_ = cmd.RegisterFlagCompletionFunc("log", func(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
		return g.logIDs(cmd.Context(), begin), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// runImport imports every file, also after one of them failed.
func runImport(ctx context.Context, g *globals, files []string, f importFlags) error {
	if f.log != "" && len(files) > 1 {
		return usagef("--log names one log, and there are %d files", len(files))
	}
	b, err := g.backend(ctx, useCreate)
	if err != nil {
		return err
	}
	for _, name := range files {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%s: not imported: %w", quote(name), err)
		}
		g.complain(f.importFile(ctx, g, b, name))
	}
	return nil
}

// imported is the receipt of one file in JSON.
type imported struct {
	receipt
	File    string    `json:"file"`
	Dropped []dropped `json:"dropped,omitempty"`
}

// dropped is a part of a file that was left out.
type dropped struct {
	Line   int    `json:"line"`
	Lines  int    `json:"lines"`
	Bytes  int64  `json:"bytes"`
	Reason string `json:"reason"`
}

func (f *importFlags) importFile(ctx context.Context, g *globals, b *backend.Backend, name string) error {
	in, shown, err := g.openSession(ctx, name)
	if err != nil {
		return err
	}
	defer in.Close()
	at := func(err error) error { return fmt.Errorf("%s: %w", quote(shown), err) }
	p := g.newProgress("checking "+quote(shown), events, 0)
	defer p.done()
	s, err := f.survey(ctx, in, p)
	p.done()
	if err != nil {
		return at(err)
	}
	id := f.log
	if id == "" {
		id = s.id
	}
	if id == "" {
		return withHint(at(usagef("there is no header that names the log")), "name it with --log")
	}
	if err := checkLog(id); err != nil {
		return at(err)
	}
	var r backend.Receipt
	for range 2 { // another import may have begun the log, or gone on with it, since it was looked at: then this one has to compare
		p = g.newProgress("importing "+quote(id), events, s.events)
		r, err = b.Import(ctx, id, f.replay(in, s, p), backend.ImportOptions{Header: s.header, AdoptOptions: adoptOptions(f.takeOver)})
		p.done()
		if !errors.Is(err, backend.ErrExists) && !errors.Is(err, backend.ErrSeqMismatch) {
			break
		}
	}
	switch {
	case errors.Is(err, backend.ErrExists):
		return withHint(at(err), "--log imports it under another id")
	case errors.Is(err, context.Canceled) && !errors.Is(err, backend.ErrOutcomeUnknown):
		return withHint(at(err), "what was committed is there: repeat it, and it goes on from there")
	case err != nil:
		return at(err)
	}
	f.report(g, shown, newReceipt(r), s)
	return nil
}

func (f *importFlags) report(g *globals, file string, r receipt, s survey) {
	g.print(imported{receipt: r, File: file, Dropped: s.dropped}, func(w io.Writer) {
		if r.Duplicate {
			fmt.Fprintf(w, "nothing to import: %s has %s already (revision %d, generation %d)\n", quote(r.Log), events(r.Next), r.Revision, r.Generation)
		} else {
			r.text(w, "imported")
		}
	})
	if g.asJSON() {
		return
	}
	_ = g.out.Flush() // its error shows at the end
	for _, d := range s.dropped {
		fmt.Fprintf(g.err, "s3logctl: %s, line %d: left out %s, %s: %s\n", quote(file), d.Line, words.Count(d.Lines, "line"), words.Count(d.Bytes, "byte"), oneLine(d.Reason))
	}
}

// survey is what the first reading of a file found.
type survey struct {
	header  []byte
	id      string // of the header; may be empty
	events  int64  // that can be imported
	dropped []dropped
}

func (f *importFlags) newReader(in *spool) (*sessionfile.Reader, error) {
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	opt := sessionfile.Options{Wrap: f.wrap}
	if f.salvage {
		opt.Salvage = sessionfile.SalvagePrefix
	}
	return sessionfile.NewReader(in, opt)
}

// survey reads a file to its end and checks every event as an append would.
func (f *importFlags) survey(ctx context.Context, in *spool, p *progress) (survey, error) {
	r, err := f.newReader(in)
	if err != nil {
		return survey{}, usageUnlessIO(err)
	}
	s := survey{header: r.Header(), id: r.HeaderID()}
	withSeq := false
	for line, err := range r.Events() {
		if err == nil && s.events&1023 == 0 {
			err = ctx.Err()
		}
		if err == nil {
			err = checkEvent(line, s.events, &withSeq)
		}
		if flaw, ok := errors.AsType[*sessionfile.LineError](err); ok && f.salvage {
			s.dropped = droppedBy(r)
			s.dropped = append(s.dropped, dropped{
				Line: flaw.Line, Lines: 1, Bytes: int64(len(line.Bytes)) + 1,
				Reason: flaw.Reason + " (and everything after it)",
			})
			return s, f.worth(s, flaw)
		} else if ok {
			return survey{}, withHint(err, f.flawHint(s.events, err))
		}
		if err != nil {
			return survey{}, err
		}
		s.events++
		p.add(1)
	}
	s.dropped = droppedBy(r)
	if d := r.Dropped(); len(d) > 0 {
		return s, f.worth(s, d[0].Err)
	}
	return s, nil
}

// worth is an error if nothing is good before a flaw.
func (f *importFlags) worth(s survey, flaw *sessionfile.LineError) error {
	if s.events > 0 {
		return nil
	}
	return withHint(fmt.Errorf("nothing can be salvaged: %w", flaw), f.flawHint(0, flaw))
}

// flawHint says what can be done about a flaw behind n good events.
func (f *importFlags) flawHint(n int64, err error) string {
	switch {
	case n > 0:
		return "--salvage imports the events before the flaw"
	case errors.Is(err, segment.ErrCorrupt):
		return "every line of a session file is one JSON object, and the file is plain text or zstd"
	case f.wrap == "" && errors.Is(err, segment.ErrInvalidEvent):
		return "lines of another format, such as other agents write, are imported with --wrap TYPE"
	}
	return ""
}

func droppedBy(r *sessionfile.Reader) (out []dropped) {
	for _, d := range r.Dropped() {
		out = append(out, dropped{Line: d.Line, Lines: d.Lines, Bytes: d.Bytes, Reason: d.Err.Reason})
	}
	return out
}

// checkEvent checks an event line as an append at seq would: the envelope, the
// seq, and that either all events carry one or none.
func checkEvent(line sessionfile.Line, seq int64, withSeq *bool) error {
	refused := func(err error) error {
		flaw := &sessionfile.LineError{Line: line.LineNo, Reason: err.Error(), Err: err}
		if ee, ok := errors.AsType[*segment.EventError](err); ok {
			flaw.Reason, flaw.Err = ee.Reason, ee.Err
		}
		return flaw
	}
	p, err := segment.Prepare(line.Bytes, 0, segment.Limits{})
	if err != nil {
		return refused(err)
	}
	_, has := p.HasSeq()
	if seq == 0 {
		*withSeq = has
	}
	if has != *withSeq {
		return refused(&segment.EventError{Err: segment.ErrInvalidEvent, Reason: "some events carry a seq and some do not"})
	}
	if _, err := p.Assign(seq); err != nil {
		return refused(err)
	}
	return nil
}

// replay yields the events that the survey found good.
func (f *importFlags) replay(in *spool, s survey, p *progress) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		r, err := f.newReader(in)
		if err != nil {
			yield(nil, err)
			return
		}
		var n int64
		for line, err := range r.Events() {
			if n == s.events && err == nil {
				return
			}
			p.add(1)
			if n++; !yield(line.Bytes, err) || err != nil {
				return
			}
		}
	}
}

// usageUnlessIO is for errors of a reader that was not given good options.
func usageUnlessIO(err error) error {
	if _, ok := errors.AsType[*os.PathError](err); ok {
		return err
	}
	if exit, _ := classify(err); exit != exitFailure {
		return err
	}
	return usageError{err}
}

// openSession opens a file that can be read twice: stdin and pipes are copied
// into a temporary file.
func (g *globals) openSession(ctx context.Context, name string) (f *spool, shown string, err error) {
	r, shown, err := g.openInput(ctx, name, true)
	if err != nil {
		return nil, shown, err
	}
	if f, ok := r.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return &spool{File: f}, shown, nil
		}
	}
	defer r.Close()
	f, err = newSpool()
	if err != nil {
		return nil, shown, err
	}
	if _, err := io.Copy(f, r); err != nil {
		f.Close()
		return nil, shown, fmt.Errorf("reading %s: %w", quote(shown), err)
	}
	return f, shown, nil
}
