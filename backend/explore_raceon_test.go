//go:build race

package backend

// maxFaults thins out what is slow under the race detector: one goroutine runs
// at a time, so that more schedules would show it nothing new.
const maxFaults = 0
