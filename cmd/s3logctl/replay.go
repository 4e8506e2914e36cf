package main

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/sessionfile"
)

func newReplayCommand(g *globals) *cobra.Command {
	var header string
	cmd := &cobra.Command{
		Use:   "replay LOG [FILE…]",
		Short: "Begin a log with given events",
		Long: `Begin a log with the events of session files, or of stdin ("-"), and a boundary
(session/end-seed): to readers they are history then. They need not be balanced,
and nothing is added to make them so. Files are read as import reads them, one
after the other; without events the log begins with its boundary.

The header is that of the first file, with the id of the log and the session
that its events come from, unless --header gives another.`,
		Example: `  s3logctl replay demo-again session.jsonl
  s3logctl cat demo --to 99 | s3logctl replay first-hundred`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := minArgs(1, "a log id, then files")(cmd, args); err != nil {
				return err
			}
			return checkLog(args[0])
		},
		ValidArgsFunction: g.completeLog(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runReplay(cmd.Context(), g, args[0], args[1:], header)
		},
	}
	cmd.Flags().StringVar(&header, "header", "", "`FILE` with the session header, one JSON object")
	return cmd
}

func runReplay(ctx context.Context, g *globals, id string, files []string, headerFile string) error {
	header, err := g.readHeader(ctx, headerFile)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		files = []string{stdinArg}
	}
	in := history{}
	defer in.close()
	for _, name := range files {
		if err := in.add(ctx, g, name); err != nil {
			return err
		}
	}
	if header == nil {
		if header, err = in.headerFor(id); err != nil {
			return err
		}
	}
	b, err := g.backend(ctx, useCreate, foreground)
	if err != nil {
		return err
	}
	p := g.newProgress("replaying "+quote(id), events, 0)
	_, r, err := b.Replay(ctx, id, in.events(p), backend.ReplayOptions{Header: header, Release: true})
	p.done()
	if err != nil {
		return err
	}
	out := newReceipt(r)
	g.print(out, func(w io.Writer) { out.text(w, "replayed:") })
	return nil
}

// history is session files whose events follow each other.
type history struct {
	files   []*spool
	shown   []string // what messages call them
	header  []byte   // of the first file, nil if it has none
	id      string   // in that header; may be empty
	count   int64
	withSeq bool // the events carry seqs
}

func (h *history) close() {
	for _, f := range h.files {
		f.Close()
	}
}

// add opens one more file and checks all of it, so that a flaw is found before
// anything is written.
func (h *history) add(ctx context.Context, g *globals, name string) error {
	in, shown, err := g.openSession(ctx, name)
	if err != nil {
		return err
	}
	h.files, h.shown = append(h.files, in), append(h.shown, shown)
	if err := h.survey(ctx, in); err != nil {
		return fmt.Errorf("%s: %w", quote(shown), err)
	}
	return nil
}

func (h *history) survey(ctx context.Context, in *spool) error {
	r, err := openEvents(in)
	if err != nil {
		return usageUnlessIO(err)
	}
	if len(h.files) == 1 {
		h.header, h.id = r.Header(), r.HeaderID()
	}
	for line, err := range r.Events() {
		if err == nil && h.count&1023 == 0 {
			err = ctx.Err()
		}
		if err == nil {
			err = checkEvent(line, h.count, &h.withSeq)
		}
		if err != nil {
			return err
		}
		h.count++
	}
	return nil
}

func openEvents(in *spool) (*sessionfile.Reader, error) {
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return sessionfile.NewReader(in, sessionfile.Options{})
}

// headerFor is the header of a log with this history. The session itself, and one
// whose header names no id, keep theirs as it is.
func (h *history) headerFor(id string) ([]byte, error) {
	if h.header == nil || h.id == "" || h.id == id {
		return h.header, nil
	}
	header, err := backend.ChildHeader(h.header, id, h.id, h.count)
	if err != nil {
		return nil, fmt.Errorf("%s: header: %w", quote(h.shown[0]), err)
	}
	return header, nil
}

// events yields what the survey has seen.
func (h *history) events(p *progress) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for i, in := range h.files {
			r, err := openEvents(in)
			if err != nil {
				yield(nil, fmt.Errorf("%s: %w", quote(h.shown[i]), err))
				return
			}
			for line, err := range r.Events() {
				if err != nil {
					err = fmt.Errorf("%s: %w", quote(h.shown[i]), err)
				}
				p.add(1)
				if !yield(line.Bytes, err) || err != nil {
					return
				}
			}
		}
	}
}
