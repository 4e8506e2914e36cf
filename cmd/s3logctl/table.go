package main

import (
	"io"
	"strings"
)

// fitted writes a table for people, whose last column takes what the others leave
// of the width of a terminal: what does not fit there is cut. Cells are escaped
// already. It is fitted a thousand rows at a time, so that its memory does not
// grow with the table.
type fitted struct {
	w     io.Writer
	width int    // of the terminal; 0: nothing is cut
	right []bool // columns whose cells stand to the right
	rows  [][]string
}

const (
	fittedRows = 1000
	// fittedLast is what the last column has at least.
	fittedLast = 16
	columnGap  = "  "
)

func (t *fitted) row(cells ...string) {
	if t.rows = append(t.rows, cells); len(t.rows) == fittedRows {
		t.flush()
	}
}

func (t *fitted) flush() {
	widths := []int{}
	for _, cells := range t.rows {
		for i, c := range cells[:len(cells)-1] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns(c))
		}
	}
	left := t.width
	for _, n := range widths {
		left -= n + len(columnGap)
	}
	var line strings.Builder
	for _, cells := range t.rows {
		line.Reset()
		for i, c := range cells[:len(cells)-1] {
			pad := strings.Repeat(" ", widths[i]-columns(c))
			if i < len(t.right) && t.right[i] {
				c = pad + c
			} else {
				c += pad
			}
			line.WriteString(c + columnGap)
		}
		last := cells[len(cells)-1]
		if t.width > 0 {
			last = fit(last, max(left, fittedLast))
		}
		line.WriteString(last + "\n")
		_, _ = io.WriteString(t.w, line.String()) // a failed write shows again at the end
	}
	t.rows = t.rows[:0]
}

// wrapped breaks a text into lines of a width, at spaces; 0 leaves it as it is. A word
// that is longer than a line has one of its own.
func wrapped(text string, width int) (lines []string) {
	if width <= 0 || columns(text) <= width {
		return []string{text}
	}
	line := ""
	for _, word := range strings.Split(text, " ") {
		if line != "" && columns(line)+1+columns(word) > width {
			lines, line = append(lines, line), word
			continue
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
