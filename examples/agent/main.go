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
	"os"
	"os/signal"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/examples/internal/place"
)

// exitConflict is what s3logctl exits with, too, where somebody else has the log.
const exitConflict = 4

func main() {
	store := flag.String("store", os.Getenv("S3LOG_STORE"), "a directory, or s3://bucket/prefix?region=…")
	session := flag.String("session", "agent", "id of the session")
	lease := flag.Duration("lease", time.Minute, "how long others leave it alone after the last sign of life")
	takeOver := flag.Bool("take-over", false, "replace whoever holds the session")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	code := run(ctx, *store, *session, *lease, *takeOver, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, name, session string, lease time.Duration, takeOver bool, in io.Reader, out, errs io.Writer) int {
	store, done, err := place.Open(ctx, name, false)
	if err != nil {
		fmt.Fprintln(errs, "agent:", err)
		return 1
	}
	defer done()
	host, _ := os.Hostname()
	a := &Agent{
		Logs:  backend.New(store, backend.Options{Label: host, Lease: lease}),
		Lease: lease,
		Model: func(_ context.Context, prompt string) (string, error) {
			return fmt.Sprintf("You said %q.", prompt), nil
		},
	}
	prompts := make(chan string)
	go func() {
		defer close(prompts)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			select {
			case prompts <- lines.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	err = a.Run(ctx, session, takeOver, prompts, func(answer string) { fmt.Fprintln(out, answer) })
	held, isHeld := errors.AsType[*backend.HeldError](err)
	switch {
	case err == nil, errors.Is(err, context.Canceled):
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
