// Racyserver is an S3 server in memory that checks the condition of a write and
// then writes, in two steps: with one client at a time it obeys conditions,
// with several it loses updates. It prints its address and runs until its
// standard input ends.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/rclone/gofakes3"
	"github.com/rclone/gofakes3/s3mem"
)

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("http://" + l.Addr().String())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fake := gofakes3.New(s3mem.New(), gofakes3.WithAutoBucket(true))
	fmt.Fprintln(os.Stderr, http.Serve(l, fake.Server()))
	os.Exit(1)
}
