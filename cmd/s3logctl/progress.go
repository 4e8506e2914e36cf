package main

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/s3log/s3log/internal/words"
)

// progress shows on a terminal, in one line that goes again, how far something is
// that takes long. In pipes, with JSON, and of what does not take long it shows
// nothing, nor does the zero value. Its methods may be called by several
// goroutines.
type progress struct {
	what  string
	unit  func(n int64) string // how what is counted is said; nil: nothing is counted
	n     atomic.Int64
	total atomic.Int64 // 0: not known

	begin time.Time
	end   func()
}

const (
	progressAfter = time.Second            // what takes no longer is not worth it
	progressEvery = 200 * time.Millisecond // between two lines
	progressBar   = 24                     // columns
)

// newProgress begins to show something of which total is to be done, 0 if that is
// not known. done ends it.
func (g *globals) newProgress(what string, unit func(n int64) string, total int64) *progress {
	p := &progress{what: oneLine(what), unit: unit, begin: time.Now()}
	p.total.Store(total)
	if !g.stderrTTY || g.asJSON() || g.getenv != nil && g.getenv("TERM") == "dumb" {
		return p
	}
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { g.show(p, over) })
	p.end = sync.OnceFunc(func() {
		close(over)
		wg.Wait()
	})
	return p
}

// add counts n more.
func (p *progress) add(n int64) { p.n.Add(n) }

// set says how much is done, of what.
func (p *progress) set(n, total int64) {
	p.n.Store(n)
	p.total.Store(total)
}

// done removes the line. It may be called more than once.
func (p *progress) done() {
	if p.end != nil {
		p.end()
	}
}

// watch shows how much is asked of the stores while something takes long of which
// nobody counts the steps, until done is called.
func (g *globals) watch(what string) (done func()) { return g.newProgress(what, nil, 0).done }

// show draws p now and then, until it is over.
func (g *globals) show(p *progress, over <-chan struct{}) {
	tick := time.NewTimer(progressAfter)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.screen.draw(p.line(g.asked(), g.columns()))
			tick.Reset(progressEvery)
		case <-over:
			g.screen.clear()
			return
		}
	}
}

// asked says in words what was asked of the stores so far.
func (g *globals) asked() string {
	c := g.counts()
	text := words.Count(c.Requests(), "request")
	if c.BytesIn > 0 || c.BytesOut == 0 {
		text += ", " + bytesText(c.BytesIn) + " read"
	}
	if c.BytesOut > 0 {
		text += ", " + bytesText(c.BytesOut) + " written"
	}
	return text
}

// textWidth is how wide text on stdout may be; 0 where that is no terminal, or its
// width is not known: then nothing is broken or cut.
func (g *globals) textWidth() int {
	if !g.stdoutTTY {
		return 0
	}
	return g.columns()
}

// columns is the width of the terminal; 0 where it is not known.
func (g *globals) columns() int {
	if g.width == nil {
		return 0
	}
	return g.width()
}

// line is what is shown, in less than the width of the terminal: a line that ends
// in the last column would begin another one.
func (p *progress) line(asked string, width int) string {
	n, total := p.n.Load(), p.total.Load()
	tail, bar := asked, ""
	switch {
	case p.unit != nil && total > 0:
		n = min(n, total)
		tail = fmt.Sprintf("%d%% of %s", 100*n/total, p.unit(total))
		if left := p.left(n, total); left != "" {
			tail += ", " + left + " left"
		}
		done := int(progressBar * n / total)
		bar = " [" + strings.Repeat("=", done) + strings.Repeat(" ", progressBar-done) + "]"
	case p.unit != nil && n > 0:
		tail = p.unit(n)
	}
	what := p.what
	if width > 0 {
		room := width - 1 - columns(tail) - len(": ")
		if columns(what)+len(bar) > room {
			bar = ""
		}
		if room < 8 {
			return fit(tail, width-1)
		}
		what = fit(what, room-len(bar))
	}
	if bar != "" {
		return what + bar + " " + tail
	}
	return what + ": " + tail
}

// left is how long the rest takes if it goes on like this; empty where that cannot
// be told yet.
func (p *progress) left(n, total int64) string {
	so := time.Since(p.begin)
	if n == 0 || n == total || so < 2*progressAfter {
		return ""
	}
	return ageText(time.Duration(float64(so) * float64(total-n) / float64(n)).Round(time.Second))
}
