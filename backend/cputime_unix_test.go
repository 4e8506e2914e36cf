//go:build unix

package backend

import (
	"syscall"
	"time"
)

// CPUTime is what this process has used of processors, which says more than a
// clock on a machine that others use, too.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
