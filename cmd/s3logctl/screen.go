package main

import (
	"io"
	"sync"
	"unicode"
	"unicode/utf8"
)

// screen is the terminal that stderr is: at its end there may be one line that
// comes and goes. Whatever else is written to the terminal is written over that
// line. It is safe for concurrent use, and a writer that goroutines may share also
// where there is no terminal. (One line is all there is to show, since logs are
// worked on one after another or counted together, and it has to go before anything
// else is written: a library of bars would have to be told of all that.)
type screen struct {
	mu    sync.Mutex
	w     io.Writer
	shown bool
}

// draw shows a line in the place of the one that is shown.
func (s *screen) draw(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = true
	_, _ = io.WriteString(s.w, "\r"+line+"\x1b[K") // nobody depends on it
}

// clear takes the line away.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
}

func (s *screen) erase() {
	if s.shown {
		s.shown = false
		_, _ = io.WriteString(s.w, "\r\x1b[K")
	}
}

// over is for what else is written to the terminal, to w.
func (s *screen) over(w io.Writer) io.Writer { return screenWriter{s, w} }

type screenWriter struct {
	s *screen
	w io.Writer
}

func (o screenWriter) Write(p []byte) (int, error) {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	o.s.erase()
	return o.w.Write(p)
}

// columns is how many columns of a terminal a text takes, of which nothing is
// escaped any more.
func columns(text string) (n int) {
	for _, r := range text {
		n += runeColumns(r)
	}
	return n
}

func runeColumns(r rune) int {
	switch {
	case r < utf8.RuneSelf:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana, unicode.Yi), // as nearly all of them are
		0xff01 <= r && r <= 0xff60, 0x1f300 <= r && r <= 0x1faff, 0x3000 <= r && r <= 0x303e:
		return 2
	}
	return 1
}

// fit cuts a text to a width, where that is known (more than 0).
func fit(text string, width int) string {
	if width <= 0 || columns(text) <= width {
		return text
	}
	n := 0
	for i, r := range text {
		if n += runeColumns(r); n >= width { // the last column is for the mark
			return text[:i] + "…"
		}
	}
	return text
}
