package delaystore

import (
	"maps"
	"time"
)

// meter limits the writes on each key: a bucket of tokens per key, which fills
// at the rate and holds what one second brings, at least one.
type meter struct {
	rate, most float64
	keys       map[string]tokens
}

// tokens is how many a key had at a time.
type tokens struct {
	n  float64
	at time.Time
}

// maxKeys is how many keys are remembered before those are forgotten that are
// full again, which is what a key is that nobody remembers.
const maxKeys = 1024

func newMeter(rate float64) meter {
	return meter{rate: rate, most: max(rate, 1), keys: map[string]tokens{}}
}

// takes reports whether key takes a write now, and then counts it.
func (m *meter) takes(key string, now time.Time) bool {
	if m.rate <= 0 {
		return true
	}
	n := m.now(key, now)
	if n < 1 {
		return false
	}
	if len(m.keys) >= maxKeys {
		maps.DeleteFunc(m.keys, func(key string, _ tokens) bool { return m.now(key, now) >= m.most })
	}
	m.keys[key] = tokens{n - 1, now}
	return true
}

// now is how many tokens a key has.
func (m *meter) now(key string, now time.Time) float64 {
	t, known := m.keys[key]
	if !known {
		return m.most
	}
	return min(m.most, t.n+m.rate*now.Sub(t.at).Seconds())
}
