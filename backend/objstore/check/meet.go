package check

import (
	"context"
	"sync"
	"time"
)

const (
	// How long a write waits for the others it is to meet: as long again as it
	// took to come so far, within these bounds. A server that locks the key while
	// it waits for a body keeps the others out, and must not be held up for long.
	minPatience = 50 * time.Millisecond
	maxPatience = 500 * time.Millisecond
)

// meeting lets concurrent writes meet on the server. A server that judges the
// condition when it has the header of a request, and writes when it has the
// body, is obedient as long as requests are short; held back between the two,
// all of them have been judged before the first one writes.
type meeting struct {
	begin time.Time
	open  chan struct{} // closed when nobody needs to wait any more

	mu      sync.Mutex
	missing int // those who are still to come
}

func newMeeting(n int) *meeting {
	return &meeting{begin: time.Now(), open: make(chan struct{}), missing: n}
}

type holdKey struct{}

// join gives one participant the context for its write. leave must be called
// when the write has ended, so that nobody waits for it.
func (m *meeting) join(ctx context.Context) (_ context.Context, leave func()) {
	arrive := sync.OnceFunc(m.arrive)
	var waited sync.Once
	hold := func() {
		arrive()
		waited.Do(func() { m.wait(ctx) })
	}
	return context.WithValue(ctx, holdKey{}, hold), arrive
}

func (m *meeting) arrive() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.missing--; m.missing == 0 {
		m.adjourn()
	}
}

// adjourn lets everybody go. The lock must be held.
func (m *meeting) adjourn() {
	select {
	case <-m.open:
	default:
		close(m.open)
	}
}

func (m *meeting) wait(ctx context.Context) {
	t := time.NewTimer(min(max(time.Since(m.begin), minPatience), maxPatience))
	defer t.Stop()
	select {
	case <-m.open:
	case <-ctx.Done():
	case <-t.C:
		m.mu.Lock()
		defer m.mu.Unlock()
		m.adjourn()
	}
}

// Hold is for drivers that send the header of a write before its body. Unless
// it is nil, the driver calls it between the two: once the server has the
// header and has asked for the body. It returns when the other writes of a race
// are as far, or after half a second at most. A driver that cannot do so
// ignores it, and the race is a matter of chance.
func Hold(ctx context.Context) func() {
	hold, _ := ctx.Value(holdKey{}).(func())
	return hold
}
