//go:build race

package manifest

// underRace: the explorer is one goroutine, in which the detector has nothing to
// find, and is several times as slow.
const underRace = true
