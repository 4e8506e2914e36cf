package backend_test

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine may be left behind by any test, whatever it did to the store.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
