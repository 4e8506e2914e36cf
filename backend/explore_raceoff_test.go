//go:build !race

package backend

const maxFaults = 255
