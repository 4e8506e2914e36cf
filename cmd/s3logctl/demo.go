package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/tracestore"
)

func newDemoCommand(g *globals) *cobra.Command {
	var keep string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Tell the whole story in a few seconds",
		Long: `Write a session, kill its writer in the middle of a compaction, judge the marker
that it leaves behind, resume the session and judge it again, fork it, verify
and list. Every step shows the command that does the same from a shell, what it
printed, and what it asked of the store.

The store is a temporary directory, which is removed at the end, unless --keep
or --store names another. What is written to the store of --store stays there.`,
		Example: `  s3logctl demo
  s3logctl demo --keep ./demo && s3logctl --store ./demo cat demo`,
		Args:              exactArgs(0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDemo(cmd.Context(), g, keep)
		},
	}
	cmd.Flags().StringVar(&keep, "keep", "", "tell it in a store in `DIR`, a new or empty directory, and keep that")
	_ = cmd.MarkFlagDirname("keep")
	return cmd
}

// demo is a story on its way.
type demo struct {
	g          *globals
	store      string // as --store takes it
	temporary  bool   // the store goes with the demo
	log, child string // ids
	begun      time.Time
	steps      int
}

func runDemo(ctx context.Context, g *globals, keep string) (err error) {
	d := &demo{g: g, log: "demo", child: "demo-2", begun: time.Now()}
	switch {
	case g.store != "" && keep != "":
		return usagef("--keep and --store both say where the demo takes place: give one")
	case g.store != "":
		// Others may be there.
		d.store = g.store
		d.log += "-" + strings.ToLower(rand.Text()[:8])
		d.child = d.log + "-2"
	case keep != "":
		if d.store, err = emptyDir(keep); err != nil {
			return err
		}
	default:
		if d.store, err = os.MkdirTemp("", "s3logctl-demo-"); err != nil {
			return err
		}
		d.temporary = true
	}
	err = d.tell(ctx)
	if d.temporary {
		if rerr := os.RemoveAll(d.store); err == nil {
			err = rerr
		}
	}
	if err == nil {
		d.end()
	}
	return err
}

// end says what is left of the demo.
func (d *demo) end() {
	d.g.print(told{d.store, []string{d.log, d.child}, !d.temporary}, func(w io.Writer) {
		left := fmt.Sprintf("%s and %s are in", d.log, d.child)
		if d.temporary {
			left = "nothing is left in"
		}
		fmt.Fprintf(w, "\nDone in %.1f s; %s %s.\n", time.Since(d.begun).Seconds(), left, quote(d.store))
	})
}

// told is the end of a demo in JSON.
type told struct {
	Store string   `json:"store"`
	Logs  []string `json:"logs"`
	Kept  bool     `json:"kept"`
}

// emptyDir makes sure that a directory is there and empty.
func emptyDir(name string) (string, error) {
	if err := os.MkdirAll(name, 0o777); err != nil {
		return "", err
	}
	list, err := os.ReadDir(name)
	if err != nil {
		return "", err
	}
	if len(list) > 0 {
		return "", usagef("--keep %s: the directory is not empty", quote(name))
	}
	return filepath.Abs(name)
}

// scene is one step of a demo in JSON.
type scene struct {
	Step     int            `json:"step"`
	Title    string         `json:"title"`
	Command  []string       `json:"command"`
	Exit     int            `json:"exit"`
	Output   []string       `json:"output"`
	Requests *requestCounts `json:"requests"` // null: of a process that was killed
}

// show prints a scene, and sends it on its way.
func (d *demo) show(s scene) error {
	d.steps++
	s.Step = d.steps
	d.g.print(s, func(w io.Writer) {
		fmt.Fprintf(w, "\n%s\n\n   $ %s\n", wrap(fmt.Sprintf("%d. %s", s.Step, s.Title), 76, "   "), strings.Join(s.Command, " "))
		for _, line := range s.Output {
			fmt.Fprintf(w, "   %s\n", line)
		}
		if s.Requests == nil {
			return
		}
		fmt.Fprintf(w, "   (%s", s.Requests.words())
		if s.Exit != exitDone {
			fmt.Fprintf(w, "; exit code %d", s.Exit)
		}
		fmt.Fprint(w, ")\n")
	})
	return d.g.out.Flush()
}

// wrap breaks text into lines of at most width characters; all but the first are
// indented.
func wrap(text string, width int, indent string) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case column == 0:
		case column+1+n > width:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// verb runs a command of this program and shows it. It must end with an exit
// code.
func (d *demo) verb(ctx context.Context, title string, exit int, args ...string) error {
	var stdout, stderr bytes.Buffer
	around := d.g.surroundings
	around.stdin, around.stdout, around.stderr = strings.NewReader(""), &stdout, &stderr
	around.stdoutTTY, around.stderrTTY = false, false
	g := newGlobals(around)
	got := g.run(ctx, append([]string{"--store", d.store}, args...))
	d.g.trace(g.opened()...)
	asked := newRequestCounts(g.counts())
	out := stdout.String() + stderr.String()
	if got != exit {
		return fmt.Errorf("`s3logctl %s` ended with exit code %d, not %d: %s", strings.Join(args, " "), got, exit, strings.TrimSpace(out))
	}
	return d.show(scene{
		Title: title, Command: append([]string{"s3logctl"}, args...), Exit: got,
		Output: strings.Split(strings.TrimSuffix(out, "\n"), "\n"), Requests: &asked,
	})
}

// words says what was asked of the store.
func (q *requestCounts) words() string {
	var parts []string
	for _, kind := range []struct {
		n    int64
		name string
	}{{q.Get, "GET"}, {q.Put, "PUT"}, {q.Head, "HEAD"}, {q.List, "LIST"}, {q.Copy, "COPY"}, {q.Delete, "DELETE"}} {
		if kind.n > 0 {
			parts = append(parts, fmt.Sprint(kind.n, " ", kind.name))
		}
	}
	if len(parts) == 0 {
		return "no request"
	}
	return strings.Join(parts, " + ")
}

// demoPatience is how long a demo waits for an event to be in its log.
const demoPatience = 30 * time.Second

// until waits for the log to have some events while its writer lives, and returns
// what is known of it then.
func (d *demo) until(ctx context.Context, r *backend.Reader, events int64, writer *agent) (backend.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		info, err := r.Info(ctx, d.log)
		if err == nil && info.Next >= events {
			return info, nil
		}
		if err != nil && !errors.Is(err, backend.ErrNotFound) {
			return info, err
		}
		select {
		case <-time.After(pause):
		case <-writer.gone:
			return info, fmt.Errorf("the writer has ended on its own: %w: %s", writer.err, strings.TrimSpace(writer.said.String()))
		case <-ctx.Done():
			return info, fmt.Errorf("waiting for the writer: %w", ctx.Err())
		}
	}
}

// reader is for waiting: what it asks is not part of the story.
func (d *demo) reader(ctx context.Context) (*backend.Reader, error) {
	at, err := parseLocation(d.store)
	if err != nil {
		return nil, err
	}
	store, err := d.g.open(ctx, at, useCreate)
	if err != nil {
		return nil, err
	}
	trace := tracestore.New(store, tracestore.Options{})
	d.g.trace(trace)
	return backend.NewReader(trace, d.g.options(nil)), nil
}
