// Package mounts lets a test mount small and read-only file systems that nobody
// else sees, and that are gone with the test's process, however it ends. It
// needs Linux, and to be root or to be allowed namespaces of one's own.
package mounts

import (
	"os"
	"strings"
	"testing"
)

// env names the test that runs in a mount namespace of its own.
const env = "S3LOG_TEST_MOUNTS"

// Own runs the whole test again in a process with mounts of its own, and
// reports whether this is that process:
//
//	func TestFull(t *testing.T) {
//		if !mounts.Own(t) {
//			return
//		}
//		dir := mounts.Tmpfs(t, "size=64k")
//
// The other one has the same outcome. Where such a process cannot be had the
// test is skipped, and in CI and for root it fails. It must not be called in a
// subtest.
func Own(t *testing.T) bool {
	t.Helper()
	if os.Getenv(env) == t.Name() {
		private(t)
		return true
	}
	again(t)
	return false
}

// report gives the outcome of the other process.
func report(t *testing.T, out []byte, err error) {
	t.Helper()
	text := strings.TrimSpace(string(out))
	switch {
	case err != nil:
		t.Fatalf("with mounts of its own: %v\n%s", err, text)
	case !strings.Contains(text, "--- PASS: "+t.Name()+" "):
		t.Fatalf("with mounts of its own it did not run:\n%s", text)
	}
	t.Logf("with mounts of its own:\n%s", text)
}

// cannot ends a test that has no way to mount anything.
func cannot(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" || os.Geteuid() == 0 {
		t.Fatalf("no mounts for this test: %s", why)
	}
	t.Skipf("NOT TESTED: no mounts for this test: %s", why)
}
