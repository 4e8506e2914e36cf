//go:build race

package backend_test

// raceDetector thins out what is slow under it and would show it nothing new.
const raceDetector = true
