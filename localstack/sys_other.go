//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package localstack

import (
	"context"
	"errors"
	"os/exec"
)

// The server runs on Unix systems only; elsewhere the environment must name
// one.
const supported = false

func lockFile(context.Context, string, func()) (func(), error) { return nil, errors.ErrUnsupported }

func detach(*exec.Cmd) {}

func exited(*exec.Cmd) bool { return true }

func tryXattr(string) error { return errors.ErrUnsupported }

type watcher struct{}

func startWatcher(string) (*watcher, error) { return nil, errors.ErrUnsupported }

func (*watcher) guard(int) {}

func (*watcher) close() {}
