//go:build race

package simulation

// raceDetector thins out what is slow under it and would show it nothing new.
const raceDetector = true
