package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
)

// surroundings are what the command touches; tests bring their own.
type surroundings struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	// Whether each of them is a terminal.
	stdinTTY, stdoutTTY, stderrTTY bool
	// width, unless nil, is how many columns the terminal has; 0 if it does not say.
	width  func() int
	getenv func(string) string
	// writer, unless nil, is what a writer is called that has no --label.
	writer func() string
	// open opens a store. It is called only by verbs that need one: everything
	// else stays fast.
	open func(ctx context.Context, at location, use use) (objstore.Store, error)
	// executable is the path of this program.
	executable func() (string, error)
	// tune, unless nil, changes the library's options.
	tune func(*backend.Options)
}

// use is what a verb means to do with a store.
type use uint8

const (
	useRead   use = iota // nothing is written, not even a directory made
	useWrite             // a store that is not there is an error
	useCreate            // a store that is not there is begun
)

// globals are the flags that every verb has, and what goes with them.
type globals struct {
	surroundings
	out  *bufio.Writer // stdout; made safe if it is a terminal
	safe *safeWriter   // what makes it so, or nil
	err  io.Writer     // stderr; always made safe

	screen *screen // stderr, for what comes and goes

	verb string // what was asked for; empty before that is known

	store    string
	output   string
	label    string
	labelled bool // it was given
	requests bool

	wait    wait                // for answers of these stores
	tracing sync.Mutex          // of traces, which whatever shows a progress reads
	traces  []*tracestore.Store // of the stores that were opened
	exit    int                 // of the first error that was reported
	live    bool                // a verdict is live: the exit code, if nothing failed
}

const (
	outputText = "text"
	outputJSON = "json"
)

// outputBuffer is how many bytes of output are held back.
const outputBuffer = 64 << 10

func newGlobals(around surroundings) *globals {
	screen := &screen{w: around.stderr}
	g := &globals{surroundings: around, screen: screen, err: screen.over(&safeWriter{w: around.stderr}), output: outputText}
	out := around.stdout
	if around.stdoutTTY {
		g.safe = &safeWriter{w: screen.over(out)}
		out = g.safe
	}
	g.out = bufio.NewWriterSize(out, outputBuffer)
	return g
}

func (g *globals) addFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&g.store, "store", "", "store `URL`: s3://bucket/prefix, file:///dir or ./dir (default $S3LOG_STORE, else the embedded store)")
	f.StringVar(&g.output, "output", outputText, "`format` of output and errors: text or json")
	f.BoolVar(&g.requests, "requests", false, "say on stderr, at exit, what was requested of the store and what that costs")
	f.StringVar(&g.label, "label", "", "`name` of this writer for people, which the log keeps (default user@host; at most 128 bytes, '' for none)")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{outputText, outputJSON}, cobra.ShellCompDirectiveNoFileComp))
}

// check refuses values of the flags that no verb can use.
func (g *globals) check(cmd *cobra.Command) error {
	g.verb = verbName(cmd)
	if g.output != outputText && g.output != outputJSON {
		output := g.output
		g.output = outputText
		return usagef("--output %q is neither text nor json", output)
	}
	g.labelled = cmd.Flags().Changed("label")
	return nil
}

func (g *globals) asJSON() bool { return g.output == outputJSON }

// reader opens the store for reading.
func (g *globals) reader(ctx context.Context, tune ...func(*backend.Options)) (*backend.Reader, error) {
	store, err := g.openStore(ctx, useRead)
	if err != nil {
		return nil, err
	}
	return backend.NewReader(store, g.options(tune)), nil
}

// readerAt opens another store for reading.
func (g *globals) readerAt(ctx context.Context, text string) (*backend.Reader, error) {
	at, err := parseLocation(text)
	if err != nil {
		return nil, err
	}
	store, err := g.openAt(ctx, at, useRead)
	if err != nil {
		return nil, err
	}
	return backend.NewReader(store, g.options(nil)), nil
}

// backend opens the store for writing.
func (g *globals) backend(ctx context.Context, use use, tune ...func(*backend.Options)) (*backend.Backend, error) {
	store, err := g.openStore(ctx, use)
	if err != nil {
		return nil, err
	}
	if g.writer != nil && !g.labelled { // to find out may take a request to a directory of users
		g.label, g.labelled = g.writer(), true
	}
	return backend.New(store, g.options(tune)), nil
}

func (g *globals) options(tune []func(*backend.Options)) backend.Options {
	opt := backend.Options{Label: g.label, Software: "s3logctl " + softwareVersion()}
	for _, f := range tune {
		f(&opt)
	}
	if g.tune != nil {
		g.tune(&opt)
	}
	return opt
}

// openStore opens the store that the flags name. The requests made of it, as of
// every store, are counted.
func (g *globals) openStore(ctx context.Context, use use) (objstore.Store, error) {
	at, err := g.locate()
	if err != nil {
		return nil, err
	}
	if at.embedded {
		g.embeddedNotice(at)
	}
	return g.openAt(ctx, at, use)
}

func (g *globals) openAt(ctx context.Context, at location, use use) (objstore.Store, error) {
	store, err := g.open(ctx, at, use)
	if err != nil {
		return nil, err
	}
	trace := tracestore.New(store, tracestore.Options{})
	g.trace(trace)
	return &waiting{trace, g}, nil
}

// trace counts what is asked of stores, too.
func (g *globals) trace(stores ...*tracestore.Store) {
	g.tracing.Lock()
	defer g.tracing.Unlock()
	g.traces = append(g.traces, stores...)
}

// opened are the stores that were opened.
func (g *globals) opened() []*tracestore.Store {
	g.tracing.Lock()
	defer g.tracing.Unlock()
	return slices.Clip(g.traces)
}

// flush writes what is held back of the output.
func (g *globals) flush() error {
	err := g.out.Flush()
	if err == nil && g.safe != nil {
		err = g.safe.Close()
	}
	return err
}

// close lets go of the stores.
func (g *globals) close() {
	g.wait.end()
	for _, t := range g.opened() {
		if c, ok := t.Unwrap().(io.Closer); ok {
			_ = c.Close() // nothing is held back in a store
		}
	}
}

// embeddedNotice says which store is used where nobody has named one.
func (g *globals) embeddedNotice(at location) {
	g.notice("using the embedded store in %s (--store or S3LOG_STORE names another)", quote(at.dir))
}

// notice says something on stderr that is no error.
func (g *globals) notice(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if g.asJSON() {
		writeJSON(g.err, struct {
			Notice string `json:"notice"`
		}{text})
		return
	}
	fmt.Fprintf(g.err, "s3logctl: %s\n", oneLine(text))
}

// print writes v as one line of JSON, or the text, to stdout.
func (g *globals) print(v any, text func(w io.Writer)) {
	if g.asJSON() {
		writeJSON(g.out, v)
	} else {
		text(g.out)
	}
	if g.stdoutTTY {
		_ = g.out.Flush() // somebody waits for it; its error shows at the end
	}
}

// writeJSON writes one value on one line, so that it reads the same on a
// terminal as in a pipe: what a terminal might act on is escaped as \u. That it
// cannot be written shows at the end, where that is stdout.
func writeJSON(w io.Writer, v any) {
	var line bytes.Buffer
	e := json.NewEncoder(&safeWriter{w: &line})
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("s3logctl: " + err.Error()) // strings, numbers and structs of them
	}
	_, _ = w.Write(line.Bytes())
}
