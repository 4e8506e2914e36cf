//go:build !unix

package backend

import "time"

// CPUTime is not known here.
func CPUTime() time.Duration { return 0 }
