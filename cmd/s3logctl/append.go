package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/sessionfile"
)

type appendFlags struct {
	create     bool
	header     string // file
	key        string
	expectNext *int64
	takeOver   bool
	stream     bool
	lease      time.Duration
	progress   bool
}

func newAppendCommand(g *globals) *cobra.Command {
	var f appendFlags
	var expectNext int64
	cmd := &cobra.Command{
		Use:   "append LOG [FILE…]",
		Short: "Append events",
		Long: `Append events, one JSON object per line, from files or stdin ("-"). All of them
are appended in one commit, or none. Seqs and times that are absent are
assigned. The log is released in the same commit, so that the next writer need
not wait.

Where the owner of the log has not released it and was active in the last
minute, nothing is appended unless --take-over is given.

With --stream, lines are appended as they arrive, under one ownership, as many
in one commit as have arrived by then; the log is released at the end of the
input, or at SIGINT or SIGTERM. With --output json every commit is told as soon
as it is durable, and with --progress in words on stderr. With --lease others
are also refused while the input is quiet, until so much time has passed since
the newest commit. Of a line that is refused, the lines before it are in the log
and the lines after it are not.`,
		Example: `  echo '{"type":"note","data":{"text":"hello"}}' | s3logctl append notes --create
  s3logctl append notes events.jsonl --key job-17 --expect-next 1
  tail -f events.jsonl | s3logctl append notes --stream
  agent | s3logctl append notes --stream --output json | jq '.commit.next // empty'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := minArgs(1, "a log id, then files")(cmd, args); err != nil {
				return err
			}
			return checkLog(args[0])
		},
		ValidArgsFunction: g.completeLog(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("expect-next") {
				f.expectNext = &expectNext
			}
			if err := f.check(args[1:]); err != nil {
				return err
			}
			if f.stream {
				return runStream(cmd.Context(), g, args[0], args[1:], f)
			}
			return runAppend(cmd.Context(), g, args[0], args[1:], f)
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&f.create, "create", false, "begin the log if it is not there")
	fs.StringVar(&f.header, "header", "", "with --create: `FILE` with the session header, one JSON object")
	fs.StringVar(&f.key, "key", "", "make the append idempotent: repeated with this `KEY` it appends nothing")
	fs.Int64Var(&expectNext, "expect-next", 0, "append only if the log continues at this `SEQ`")
	fs.BoolVar(&f.takeOver, "take-over", false, takeOverHelp)
	fs.BoolVar(&f.stream, "stream", false, "append lines as they arrive")
	fs.BoolVar(&f.progress, "progress", false, "with --stream: say on stderr what each commit has appended")
	fs.DurationVar(&f.lease, "lease", 0, "with --stream: hold the log for this `TIME` after each commit (at least 15s)")
	return cmd
}

func (f *appendFlags) check(files []string) error {
	switch {
	case f.header != "" && !f.create:
		return usagef("--header goes with --create: the header of a log never changes")
	case f.expectNext != nil && *f.expectNext < 0:
		return usagef("--expect-next %d: seqs begin at 0", *f.expectNext)
	case f.stream && (f.key != "" || f.expectNext != nil):
		return usagef("--key and --expect-next are about one append, and --stream makes many")
	case f.progress && !f.stream:
		return usagef("--progress goes with --stream: any other append is one commit, and prints its receipt")
	case f.lease != 0 && !f.stream:
		return usagef("--lease goes with --stream: any other append lets the log go at once")
	case f.lease != 0 && f.lease < manifest.MinLease:
		return usagef("--lease %s: at least %s are needed", f.lease, manifest.MinLease)
	case f.stream && len(files) > 1:
		return usagef("--stream reads stdin or one file")
	}
	return nil
}

// openLog opens the handle that the flags ask for.
func (f *appendFlags) openLog(ctx context.Context, g *globals, id string, tune func(*backend.Options)) (*backend.Log, error) {
	if !f.create {
		b, err := g.backend(ctx, useWrite, tune)
		if err != nil {
			return nil, err
		}
		log, err := b.Adopt(ctx, id, adoptOptions(f.takeOver))
		if errors.Is(err, backend.ErrNotFound) {
			err = withHint(err, "--create begins it; `s3logctl ls` shows the logs of the store")
		}
		return log, err
	}
	header, err := g.readHeader(ctx, f.header)
	if err != nil {
		return nil, err
	}
	b, err := g.backend(ctx, useCreate, tune)
	if err != nil {
		return nil, err
	}
	return b.Create(id, backend.CreateOptions{Header: header, OrAdopt: true, AdoptOptions: adoptOptions(f.takeOver)})
}

// readHeader reads the file with a session header; nil where none is named.
func (g *globals) readHeader(ctx context.Context, file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	r, shown, err := g.openInput(ctx, file, true)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	raw, err := io.ReadAll(io.LimitReader(r, maxInputLine))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", quote(shown), err)
	}
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	if err := sessionfile.CheckHeader(raw); err != nil {
		return nil, usagef("header in %s: %w", quote(shown), err)
	}
	return raw, nil
}

func runAppend(ctx context.Context, g *globals, id string, files []string, f appendFlags) error {
	lines, err := g.readBatch(ctx, files)
	if err != nil {
		return err
	}
	done := g.watch("appending to " + quote(id))
	defer done()
	log, err := f.openLog(ctx, g, id, func(o *backend.Options) { o.Foreground = true })
	if err != nil {
		return err
	}
	r, err := log.Append(ctx, texts(lines), backend.AppendOptions{Key: f.key, ExpectNext: f.expectNext, Last: true})
	if cerr := log.Close(ctx, backend.CloseOptions{}); err == nil {
		err = cerr
	}
	done()
	if err != nil {
		return atLine(lines, err)
	}
	printAppended(g, newReceipt(r))
	return nil
}

func printAppended(g *globals, r receipt) {
	g.print(r, func(w io.Writer) {
		switch {
		case r.Duplicate:
			r.text(w, "appended before:")
		case r.Count == 0: // of a stream: there was no commit to tell of
			fmt.Fprintf(w, "nothing was appended to %s: no event came\n", quote(r.Log))
		default:
			r.text(w, "appended")
		}
	})
}
