package container

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"github.com/s3log/s3log/localstack"
)

// Container is a server in a container that a test disturbs. Its endpoint stays
// the same whatever happens to it; while it is killed, nobody listens there.
// Its methods must not be called concurrently.
type Container struct {
	*localstack.Server

	image  Image
	ctr    *testcontainers.DockerContainer
	engine *client.Client
	front  front
}

// Run is Start for a test that wants to do something to the container.
func Run(tb testing.TB, image Image) *Container {
	tb.Helper()
	s, ctr := run(tb, image)
	engine, err := client.New(client.FromEnv)
	if err != nil {
		tb.Fatalf("localstack: no container engine: %v", err)
	}
	tb.Cleanup(func() { engine.Close() })
	c := &Container{Server: s, image: image, ctr: ctr, engine: engine}
	if err := c.front.open("127.0.0.1:0", strings.TrimPrefix(s.Endpoint, "http://")); err != nil {
		tb.Fatalf("localstack: %v", err)
	}
	tb.Cleanup(c.front.close)
	s.Endpoint = "http://" + c.front.addr
	return c
}

// disturbTimeout bounds one thing that the engine is asked for.
const disturbTimeout = time.Minute

func (c *Container) ask(tb testing.TB, what string, ask func(ctx context.Context, id string) error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), disturbTimeout)
	defer cancel()
	if err := ask(ctx, c.ctr.GetContainerID()); err != nil {
		tb.Fatalf("localstack: %s the container: %v%s", what, err, output(c.ctr))
	}
}

// Pause freezes every process of the container: connections are accepted, and
// nobody answers, until Resume.
func (c *Container) Pause(tb testing.TB) {
	tb.Helper()
	c.ask(tb, "pause", func(ctx context.Context, id string) error {
		_, err := c.engine.ContainerPause(ctx, id, client.ContainerPauseOptions{})
		return err
	})
}

// Resume lets a paused container go on as if nothing had been.
func (c *Container) Resume(tb testing.TB) {
	tb.Helper()
	c.ask(tb, "resume", func(ctx context.Context, id string) error {
		_, err := c.engine.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
		return err
	})
}

// Kill ends the container's processes with SIGKILL. Its files stay.
func (c *Container) Kill(tb testing.TB) {
	tb.Helper()
	c.ask(tb, "kill", func(ctx context.Context, id string) error {
		_, err := c.engine.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "KILL"})
		return err
	})
	c.front.close()
}

// Restart starts a killed container again, with the files that it had, and
// returns when it answers.
func (c *Container) Restart(tb testing.TB) {
	tb.Helper()
	c.ask(tb, "start", func(ctx context.Context, id string) error {
		// The engine may still be cleaning up after the kill, and then does nothing.
		for {
			state, err := c.ctr.State(ctx)
			if err != nil {
				return err
			}
			if !state.Running {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if _, err := c.engine.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
			return err
		}
		endpoint, err := c.ctr.PortEndpoint(ctx, c.image.Port, "") // which is another one now
		if err != nil {
			return err
		}
		if err := c.front.open(c.front.addr, endpoint); err != nil {
			return err
		}
		return answers(ctx, tb, c.Server, c.ctr)
	})
}

// front hands connections on to where the container is now.
type front struct {
	addr string // where it listens, from the first open on

	mu    sync.Mutex
	ln    net.Listener // nil while it is closed
	conns map[net.Conn]bool
	work  sync.WaitGroup
}

// open listens at addr, and hands what comes on to target.
func (f *front) open(addr, target string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("the endpoint of a container: %w", err)
	}
	f.mu.Lock()
	f.addr, f.ln, f.conns = ln.Addr().String(), ln, make(map[net.Conn]bool)
	f.mu.Unlock()
	f.work.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			f.work.Go(func() { f.serve(conn, target) })
		}
	})
	return nil
}

// serve copies between one client and the container until either has gone.
func (f *front) serve(conn net.Conn, target string) {
	defer conn.Close()
	server, err := net.DialTimeout("tcp", target, 10*time.Second)
	if err != nil {
		return
	}
	defer server.Close()
	if !f.keep(conn, server) {
		return
	}
	defer f.drop(conn, server)
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(server, conn)
		server.Close()
	}()
	io.Copy(conn, server)
	conn.Close()
	<-done
}

// keep notes connections that close has to end; false if it was called already.
func (f *front) keep(conns ...net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		if f.ln != nil {
			f.conns[c] = true
		}
	}
	return f.ln != nil
}

func (f *front) drop(conns ...net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		delete(f.conns, c)
	}
}

// close hangs up on everybody. It does nothing if that was done before.
func (f *front) close() {
	f.mu.Lock()
	if f.ln != nil {
		f.ln.Close()
		f.ln = nil
	}
	for c := range f.conns {
		c.Close()
	}
	f.mu.Unlock()
	f.work.Wait()
}
