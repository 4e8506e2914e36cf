//go:build !race

package manifest

const underRace = false
