// Command function is a function of the kind that platforms run for each request,
// and run again when they believe that it has failed: it loads a session from
// object storage, answers a prompt, and stores the turn in one commit.
//
// Here it reads invocations from standard input, one JSON object a line. On AWS
// Lambda the same Handler is passed to lambda.Start(h.Handle).
package main

import (
	"context"
	"encoding/json"
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

func main() {
	store := flag.String("store", os.Getenv("S3LOG_STORE"), "a directory, or s3://bucket/prefix?region=…")
	timeout := flag.Duration("timeout", 30*time.Second, "how long one invocation may take")
	flag.Parse()
	if err := run(context.Background(), *store, *timeout, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "function:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name string, timeout time.Duration, in io.Reader, out io.Writer) error {
	store, done, err := open(ctx, name)
	if err != nil {
		return err
	}
	defer done()
	h := &Handler{
		Logs:  backend.New(store, backend.Options{Label: "function", Foreground: true}),
		Model: echo,
	}
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var call Invocation
		if err := dec.Decode(&call); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("an invocation: %w", err)
		}
		answer, err := invoke(ctx, h, call, timeout)
		if err != nil {
			return err
		}
		if err := enc.Encode(answer); err != nil {
			return err
		}
	}
}

// invoke is what a platform does with one request.
func invoke(ctx context.Context, h *Handler, call Invocation, timeout time.Duration) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return h.Handle(ctx, call)
}

// echo stands for a model.
func echo(_ context.Context, history []string, prompt string) (string, error) {
	return fmt.Sprintf("You said %q, after %d messages.", prompt, len(history)), nil
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
