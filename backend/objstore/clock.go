package objstore

import (
	"sync"
	"time"
)

// Clock is the store's clock as far as it is known here: the newest date that
// the store said, plus the time that has passed since by the local monotonic
// clock. A local clock that is wrong, or is set while the process runs, changes
// nothing once the store has answered; before that the local clock has to do.
// The zero Clock is ready; it is safe for concurrent use.
type Clock struct {
	mu   sync.Mutex
	date time.Time // newest date said by the store
	at   time.Time // local time (monotonic) when it was said
}

// Observe takes the date of a reply; a zero date is ignored.
func (c *Clock) Observe(date time.Time) {
	if date.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	// Replies overtake each other, and dates have whole seconds on S3: keep
	// what leads to the later time, so that Now never steps back by one.
	if c.date.IsZero() || date.After(c.date.Add(now.Sub(c.at))) || date.Before(c.date.Add(now.Sub(c.at)-2*time.Second)) {
		c.date, c.at = date, now
	}
}

// Known reports whether the store has ever said its time.
func (c *Clock) Known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.date.IsZero()
}

// Now is the store's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.date.IsZero() {
		return time.Now()
	}
	return c.date.Add(time.Since(c.at))
}
