//go:build race

package integration

// The race detector slows some things down much more than others.
const raceDetector = true
