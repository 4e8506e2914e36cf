package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress counts events on a terminal while something takes long. The zero
// value, and what does not take long, shows nothing.
type progress struct {
	w     io.Writer
	what  string
	n     int64
	shown time.Time
	wrote bool
}

const (
	progressAfter = time.Second            // what takes no longer is not worth it
	progressEvery = 200 * time.Millisecond // between two lines
	progressStep  = 1024                   // events between two looks at the clock
)

func (g *globals) newProgress(what string) *progress {
	if !g.stderrTTY || g.asJSON() {
		return &progress{}
	}
	return &progress{w: g.stderr, what: what, shown: time.Now().Add(progressAfter - progressEvery)}
}

// add counts n more events.
func (p *progress) add(n int64) {
	p.n += n
	if p.w == nil || p.n%progressStep != 0 {
		return
	}
	if now := time.Now(); now.Sub(p.shown) >= progressEvery {
		p.shown, p.wrote = now, true
		fmt.Fprintf(p.w, "\r%s: %s\x1b[K", oneLine(p.what), events(p.n))
	}
}

// done removes the line.
func (p *progress) done() {
	if p.wrote {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// watch says on a terminal how much was read of the stores while something takes
// long whose steps nobody counts, until done is called.
func (g *globals) watch(what string) (done func()) {
	if !g.stderrTTY || g.asJSON() {
		return func() {}
	}
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { g.showReading(what, end) })
	return func() {
		close(end)
		wg.Wait()
	}
}

func (g *globals) showReading(what string, end <-chan struct{}) {
	wrote, tick := false, time.NewTimer(progressAfter)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c := g.counts()
			fmt.Fprintf(g.stderr, "\r%s: %s, %s read\x1b[K", oneLine(what), counted(c.Requests(), "request"), bytesText(c.BytesIn))
			wrote = true
			tick.Reset(progressEvery)
		case <-end:
			if wrote {
				fmt.Fprint(g.stderr, "\r\x1b[K")
			}
			return
		}
	}
}
