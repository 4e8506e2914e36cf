// Command compaction summarises a session, unless another process is doing that:
// of several that are started at the same time one works, and the others exit
// with 3, as s3logctl check does where a compaction is live.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/backend/objstore/s3store"
)

const (
	exitFailure = 1
	exitUsage   = 2
	exitLive    = 3
	exitHeld    = 4
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("compaction", flag.ContinueOnError)
	flags.SetOutput(errs)
	name := flags.String("store", os.Getenv("S3LOG_STORE"), "a directory, or s3://bucket/prefix?region=…")
	quiet := flags.Duration("quiet", time.Minute, "leave a session alone whose owner has committed so recently, and not let go")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	if flags.NArg() != 1 {
		fmt.Fprintln(errs, "compaction: name one session")
		return exitUsage
	}
	store, done, err := open(ctx, *name)
	if err != nil {
		fmt.Fprintln(errs, "compaction:", err)
		return exitFailure
	}
	defer done()
	b := backend.New(store, backend.Options{Label: "compaction"})
	compacted, err := Compact(ctx, b, flags.Arg(0), backend.AdoptOptions{Quiet: *quiet}, count)
	switch {
	case errors.Is(err, backend.ErrHeld), errors.Is(err, backend.ErrFenced):
		fmt.Fprintln(errs, "compaction:", err)
		return exitHeld
	case err != nil:
		fmt.Fprintln(errs, "compaction:", err)
		return exitFailure
	case !compacted:
		fmt.Fprintln(out, "somebody else is at it")
		return exitLive
	}
	fmt.Fprintln(out, "compacted")
	return 0
}

// count stands for a model.
func count(_ context.Context, events [][]byte) (string, error) {
	return fmt.Sprintf("%d events", len(events)), nil
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
