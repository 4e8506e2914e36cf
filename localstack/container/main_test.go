package container

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine may be left behind by any test.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
