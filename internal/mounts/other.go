//go:build !linux

package mounts

import "testing"

func again(t *testing.T) {
	t.Helper()
	t.Skip("NOT TESTED: mounts for one process need Linux")
}

func private(t *testing.T) { again(t) }

// Tmpfs is for Linux.
func Tmpfs(t *testing.T, _ string) string {
	again(t)
	return ""
}

// ReadOnly is for Linux.
func ReadOnly(t *testing.T, _ string) string {
	again(t)
	return ""
}
