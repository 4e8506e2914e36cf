package mounts

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestMounts(t *testing.T) {
	if !Own(t) {
		return
	}
	dir := Tmpfs(t, "size=64k")
	if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, 65<<10), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("65 KiB into 64: %v", err)
	}
	at := ReadOnly(t, dir)
	if _, err := os.Stat(filepath.Join(at, "large")); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(at, "other"), nil, 0o600); !errors.Is(err, syscall.EROFS) {
		t.Errorf("a file where nothing can be written: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "large"), nil, 0o600); err != nil {
		t.Errorf("the other way in: %v", err)
	}
}

const envVictim = "S3LOG_TEST_MOUNTS_VICTIM"

// A test that fails there fails here, with what it said; and one that is skipped
// there has not passed.
func TestOutcome(t *testing.T) {
	for _, how := range []string{"fails", "is skipped"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVictim$", "-test.v")
		cmd.Env = append(os.Environ(), envVictim+"="+how)
		out, err := cmd.CombinedOutput()
		if err == nil || !bytes.HasSuffix(bytes.TrimSpace(out), []byte("FAIL")) || !strings.Contains(string(out), "the one that "+how) {
			t.Errorf("%s: %v\n%s", how, err, out)
		}
	}
}

func TestVictim(t *testing.T) {
	how := os.Getenv(envVictim)
	if how == "" || !Own(t) {
		return
	}
	switch how {
	case "fails":
		t.Error("the one that fails")
	case "is skipped":
		t.Skip("the one that is skipped")
	}
}
