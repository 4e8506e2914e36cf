package main

import (
	"fmt"
	"io"
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
