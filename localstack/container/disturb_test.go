package container

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// A container that is paused does not answer, one that is killed is not there,
// and both go on with what they had, at the endpoint that they had.
func TestDisturbed(t *testing.T) {
	SkipUnlessWanted(t)
	c := Run(t, Versitygw(t))
	bucket := c.Bucket(t)
	client := c.Client(t, func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })
	get := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		_, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: aws.String("k")})
		return err
	}
	if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: aws.String("k"), Body: strings.NewReader("text")}); err != nil {
		t.Fatal(err)
	}
	endpoint := c.Endpoint
	for range 2 {
		c.Pause(t)
		short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := get(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("paused: %v", err)
		}
		cancel()
		c.Resume(t)
		if err := get(t.Context()); err != nil {
			t.Errorf("resumed: %v", err)
		}
		c.Kill(t)
		if err := get(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("killed: %v", err)
		}
		c.Restart(t)
		if err := get(t.Context()); err != nil || c.Endpoint != endpoint {
			t.Errorf("restarted at %s, before at %s: %v", c.Endpoint, endpoint, err)
		}
	}
}

// What stands before a container hands on bytes in both directions, and hangs up
// on both sides when it is closed.
func TestFront(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	hungUp := make(chan struct{}, 1)
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			io.Copy(conn, conn)
			conn.Close()
			hungUp <- struct{}{}
		}
	}()
	var f front
	for range 2 {
		addr := f.addr
		if addr == "" {
			addr = "127.0.0.1:0"
		}
		if err := f.open(addr, echo.Addr().String()); err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", f.addr)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 4)
		if _, err := io.WriteString(conn, "text"); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(conn, b); err != nil || string(b) != "text" {
			t.Errorf("%q, %v", b, err)
		}
		f.close()
		if _, err := conn.Read(b); err == nil {
			t.Error("the connection is still there")
		}
		conn.Close()
		<-hungUp
		if conn, err := net.Dial("tcp", f.addr); err == nil {
			conn.Close()
			t.Error("somebody still listens")
		}
	}
	if err := f.open(f.addr, "127.0.0.1:1"); err != nil { // where nobody is
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("nobody answers")
	}
	conn.Close()
	f.close()
	f.close()
}
