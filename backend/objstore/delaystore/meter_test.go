package delaystore

import (
	"fmt"
	"testing"
	"time"
)

// Keys that could take all they ever can are forgotten.
func TestMeterForgets(t *testing.T) {
	m := newMeter(1)
	now := time.Now()
	for i := range 10 * maxKeys {
		if !m.takes(fmt.Sprint(i), now) {
			t.Fatalf("key %d takes no write", i)
		}
		now = now.Add(2 * time.Millisecond)
	}
	// Those of the last second are not full.
	if n := len(m.keys); n > maxKeys+500 {
		t.Errorf("%d keys are remembered", n)
	}
}
