// Command auditor judges a session that somebody else writes, with credentials
// that may read its objects and nothing else: whether a compaction is under way,
// from one GET, and with -prove whether everything is what was written.
//
// It exits with 3 if a compaction is live, 0 if none is, and 5, 6, 7 or 8 where the
// log is not there, damaged, not to be read, or of a newer format.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/backend/objstore/s3store"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("auditor", flag.ContinueOnError)
	flags.SetOutput(errs)
	name := flags.String("store", os.Getenv("S3LOG_STORE"), "a directory, or s3://bucket/prefix?region=…")
	all := flags.Bool("prove", false, "read and verify everything, too")
	since := flags.String("since", "", "SIZE:ROOT of an earlier audit, from which the log must have grown")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	if flags.NArg() != 1 {
		fmt.Fprintln(errs, "auditor: name one session")
		return exitUsage
	}
	var point *backend.Point
	if *since != "" {
		p, err := backend.ParsePoint(*since)
		if err != nil {
			fmt.Fprintln(errs, "auditor:", err)
			return exitUsage
		}
		point = &p
	}
	store, done, err := open(ctx, *name)
	if err != nil {
		fmt.Fprintln(errs, "auditor:", err)
		return exitOf(err)
	}
	defer done()
	r := backend.NewReader(store, backend.Options{}) // it has no method that writes
	if *all || point != nil {
		if code := prove(ctx, r, flags.Arg(0), point, out); code != exitFree {
			return code
		}
	}
	return judge(ctx, r, flags.Arg(0), out)
}

// open opens a bucket (s3://bucket/prefix?region=…, with credentials from where AWS
// tools find them) or a directory, which is only read. The function closes it.
func open(ctx context.Context, name string) (objstore.Store, func(), error) {
	if strings.HasPrefix(name, "s3://") {
		c, err := s3store.ParseURL(name)
		if err != nil {
			return nil, nil, err
		}
		store, err := s3store.Open(ctx, c)
		return store, func() {}, err
	}
	store, err := filestore.Open(name, filestore.Options{ReadOnly: true})
	if err != nil {
		return nil, nil, err
	}
	return store, func() { _ = store.Close() }, nil
}
