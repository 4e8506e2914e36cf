package report

import (
	"fmt"
	"slices"

	"github.com/s3log/s3log/segment"
)

// chart is a drawing of what turns have, in the order of the log, with the sum of
// all before as a line.
type chart struct {
	Name   string
	What   string // for who cannot see it
	Most   string // what the highest bar stands for
	Sum    string // what the line ends with
	Bars   []bar
	Line   string // points of the sum
	Marks  []mark // boundaries
	Width  int
	Height int
}

// bar is one or more turns.
type bar struct {
	X, Y, W, H float64
	First      int64 // seq, to go to
	Title      string
	Bad        bool // one of them was not completed
}

type mark struct {
	X     float64
	Title string
}

// maxBars is how many bars are drawn at most, chartWidth and chartHeight the
// units that a chart is drawn in.
const (
	maxBars     = 150
	chartWidth  = 900
	chartHeight = 120
)

// unit is what is drawn together: a turn, with what little comes before the next.
type unit struct {
	first, last *block
	bytes       int64
	tokens      int64
	bad         bool
}

// smallGap is how many events outside of turns belong to the turn before them.
const smallGap = 200

func units(blocks []*block) (list []*unit) {
	for _, b := range blocks {
		if b.Events == 0 {
			continue
		}
		if len(list) == 0 || b.Kind == blockTurn || b.Events >= smallGap {
			list = append(list, &unit{first: b})
		}
		u := list[len(list)-1]
		u.last = b
		u.bytes += b.Bytes
		u.tokens += b.Usage.Total()
		u.bad = u.bad || b.Class == "warn" || b.Class == "bad"
	}
	return list
}

// charts draws bytes, and tokens if events tell them.
func charts(t *timeline) (list []chart) {
	all := units(t.blocks)
	if len(all) == 0 {
		return nil
	}
	size := draw(all, t.bounds, func(u *unit) int64 { return u.bytes }, bytesText[int64])
	size.Name, size.What = "Size", "bytes of the events of each turn, and all so far"
	list = append(list, size)
	if t.paid {
		paid := draw(all, t.bounds, func(u *unit) int64 { return u.tokens }, func(n int64) string { return number(n) + " tokens" })
		paid.Name, paid.What = "Tokens", "tokens that models were sent, read from caches, and answered with in each turn, and all so far"
		list = append(list, paid)
	}
	return list
}

func draw(all []*unit, bounds []segment.Boundary, value func(*unit) int64, text func(int64) string) chart {
	per := (len(all) + maxBars - 1) / maxBars
	var values []int64
	var most, total int64
	for group := range slices.Chunk(all, per) {
		var v int64
		for _, u := range group {
			v += value(u)
		}
		values = append(values, v)
		most, total = max(most, v), total+v
	}
	c := chart{Width: chartWidth, Height: chartHeight, Most: text(most), Sum: text(total), Line: fmt.Sprintf("0,%d", chartHeight)}
	step := float64(chartWidth) / float64(len(values))
	scale := func(v, of int64) float64 {
		if of == 0 {
			return 0
		}
		return round(float64(v) / float64(of) * (chartHeight - 4))
	}
	var sum int64
	for i, v := range values {
		group := all[i*per : min((i+1)*per, len(all))]
		first, last := group[0].first, group[len(group)-1].last
		sum += v
		h, x := scale(v, most), round(float64(i)*step)
		b := bar{X: x, W: round(max(step*0.8, 0.5)), Y: round(chartHeight - h), H: h, First: first.First}
		b.Title = fmt.Sprintf("%s: %s, %s so far", span(first, group[len(group)-1]), text(v), text(sum))
		b.Bad = slices.ContainsFunc(group, func(u *unit) bool { return u.bad })
		c.Bars = append(c.Bars, b)
		c.Line += fmt.Sprintf(" %g,%g", round(float64(i+1)*step), round(chartHeight-scale(sum, total)))
		n := len(bounds)
		for len(bounds) > 0 && bounds[0].Seq <= last.Last {
			bounds = bounds[1:]
		}
		if seen := n - len(bounds); seen > 0 {
			c.Marks = append(c.Marks, mark{round(float64(i+1) * step), counted(seen, "boundary mark") + " in " + span(first, group[len(group)-1])})
		}
	}
	return c
}

// span names what is drawn from a block on.
func span(first *block, last *unit) string {
	name := fmt.Sprintf("seq %d to %d", first.First, last.last.Last)
	switch {
	case first.Kind != blockTurn || last.first.Kind != blockTurn:
		return name
	case first == last.first:
		return fmt.Sprintf("turn %d, %s", first.Turn, name)
	}
	return fmt.Sprintf("turns %d to %d, %s", first.Turn, last.first.Turn, name)
}

// round keeps a drawing short.
func round(f float64) float64 { return float64(int(f*10+0.5)) / 10 }
