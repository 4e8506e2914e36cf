package backend_test

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

// No goroutine may be left behind by any test, whatever it did to the store.
func TestMain(m *testing.M) {
	// Thousands of short-lived stores and encoders: collecting them one by one
	// takes longer than using them.
	debug.SetGCPercent(400)
	goleak.VerifyTestMain(m)
}
