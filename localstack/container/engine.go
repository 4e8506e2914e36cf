package container

import (
	"context"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// What testcontainers-go reads from the environment, once.
const (
	envReaperOff = "TESTCONTAINERS_RYUK_DISABLED"
	envHost      = "TESTCONTAINERS_HOST_OVERRIDE"

	reaperPull = time.Minute // to fetch the reaper's image
)

var prepared sync.Once

// prepare settles, before testcontainers-go first looks, what it cannot find
// out itself, unless the user has.
func prepare(tb testing.TB) {
	prepared.Do(func() {
		ctx, cancel := context.WithTimeout(tb.Context(), 2*reaperPull)
		defer cancel()
		engine, err := client.New(client.FromEnv)
		if err != nil {
			return // testcontainers looks in more places, and has its own words for this
		}
		defer engine.Close()
		if _, err := engine.Ping(ctx, client.PingOptions{}); err != nil {
			return
		}
		_, errMarker := os.Stat("/.dockerenv")
		if _, set := os.LookupEnv(envHost); !set && errMarker == nil && isHere(ctx, engine) {
			// It would take this machine for a container of a host's engine, and look
			// for published ports on that host.
			os.Setenv(envHost, "127.0.0.1")
			tb.Log("localstack: " + envHost + "=127.0.0.1: the container engine runs on this machine, although it looks like a container itself")
		}
		if _, set := os.LookupEnv(envReaperOff); !set {
			if err := fetch(ctx, engine, testcontainers.ReaperDefaultImage); err != nil { //nolint:staticcheck // the only place that has the name
				os.Setenv(envReaperOff, "true")
				tb.Logf("localstack: %s=true: its image cannot be had (%v); containers of test processes that are killed stay", envReaperOff, err)
			}
		}
	})
}

// isHere reports whether the engine runs on this very machine: whether its
// bridge is one of our network interfaces. (A container that was handed the
// engine's socket sees only its own end of that bridge.)
func isHere(ctx context.Context, engine *client.Client) bool {
	bridge, err := engine.NetworkInspect(ctx, "bridge", client.NetworkInspectOptions{})
	if err != nil {
		return false
	}
	_, err = net.InterfaceByName(bridge.Network.Options["com.docker.network.bridge.name"])
	return err == nil
}

// fetch makes an image there.
func fetch(ctx context.Context, engine *client.Client, image string) error {
	if _, err := engine.ImageInspect(ctx, image); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reaperPull)
	defer cancel()
	pull, err := engine.ImagePull(ctx, image, client.ImagePullOptions{})
	if err != nil {
		return err
	}
	return pull.Wait(ctx)
}
