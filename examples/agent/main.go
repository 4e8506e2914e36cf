// Command agent is a process that lives long and keeps a session of its own, with
// a lease: others are told who holds the session, and leave it alone, as long as
// this one renews it. Whoever takes it over on purpose fences this one, which
// stops with its work at once. Neither can ever write into the other's turns,
// lease or not.
//
// It answers one prompt a line from standard input.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/backend/objstore/s3store"
)

// exitConflict is what s3logctl exits with, too, where somebody else has the log.
const exitConflict = 4

const longestPrompt = 1 << 20 // bytes of a line

func main() {
	store := flag.String("store", os.Getenv("S3LOG_STORE"), "a directory, or s3://bucket/prefix?region=…")
	session := flag.String("session", "agent", "id of the session")
	lease := flag.Duration("lease", time.Minute, "how long others leave it alone after the last sign of life")
	takeOver := flag.Bool("take-over", false, "replace whoever holds the session")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	host, _ := os.Hostname()
	code := run(ctx, *store, *session, backend.Options{
		Label: host,
		Lease: *lease,
		// What is worth a line, here only what somebody should look at; spans and
		// metrics go where the program sends those of its own, which is nowhere until it
		// sets up an SDK of OpenTelemetry.
		Logger:         slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		TracerProvider: otel.GetTracerProvider(),
		MeterProvider:  otel.GetMeterProvider(),
	}, *takeOver, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, name, session string, opt backend.Options, takeOver bool, in io.Reader, out, errs io.Writer) int {
	store, done, err := open(ctx, name)
	if err != nil {
		fmt.Fprintln(errs, "agent:", err)
		return 1
	}
	defer done()
	a := &Agent{
		Logs:  backend.New(store, opt),
		Lease: opt.Lease,
		Model: func(_ context.Context, prompt string) (string, error) {
			return fmt.Sprintf("You said %q.", prompt), nil
		},
	}
	prompts := make(chan string)
	var unread error // why there are no more prompts; known when they are closed
	go func() {
		defer close(prompts)
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, longestPrompt)
		for lines.Scan() {
			select {
			case prompts <- lines.Text():
			case <-ctx.Done():
				return
			}
		}
		unread = lines.Err()
	}()
	err = a.Run(ctx, session, takeOver, prompts, func(answer string) { fmt.Fprintln(out, answer) })
	held, isHeld := errors.AsType[*backend.HeldError](err)
	switch {
	case err == nil: // there are no more prompts
		if unread != nil {
			fmt.Fprintln(errs, "agent: reading the next prompt:", unread)
			return 1
		}
		return 0
	case errors.Is(err, context.Canceled):
		return 0
	case isHeld:
		fmt.Fprintf(errs, "agent: %q holds the session until %s; wait, or say -take-over\n", held.Owner.Label, time.UnixMilli(held.Until).UTC().Format(time.RFC3339))
		return exitConflict
	case errors.Is(err, backend.ErrFenced):
		fmt.Fprintln(errs, "agent: another process has taken the session over:", err)
		return exitConflict
	}
	fmt.Fprintln(errs, "agent:", err)
	return 1
}

// open opens a bucket (s3://bucket/prefix?region=…, with credentials from where AWS
// tools find them) or a directory. The function closes it.
func open(ctx context.Context, name string) (objstore.Store, func(), error) {
	if strings.HasPrefix(name, "s3://") {
		c, err := s3store.ParseURL(name)
		if err != nil {
			return nil, nil, err
		}
		store, err := s3store.Open(ctx, c)
		return store, func() {}, err
	}
	store, err := filestore.Open(name, filestore.Options{})
	if err != nil {
		return nil, nil, err
	}
	return store, func() { _ = store.Close() }, nil
}
