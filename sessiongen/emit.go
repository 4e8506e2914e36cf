package sessiongen

import "strconv"

// begin starts an event of a type whose name needs no escape; its data follows.
func (g *Generator) begin(typ string) {
	b := append(g.unit, `{"type":"`...)
	b = append(b, typ...)
	b = append(b, `","seq":`...)
	b = strconv.AppendInt(b, g.seq, 10)
	b = append(b, `,"time":`...)
	b = strconv.AppendInt(b, g.now, 10)
	g.unit = append(b, `,"data":`...)
}

// end ends an event.
func (g *Generator) end() {
	g.unit = append(g.unit, '}')
	g.ends = append(g.ends, len(g.unit))
	g.seq++
}

func (g *Generator) put(s string)   { g.unit = append(g.unit, s...) }
func (g *Generator) putInt(n int64) { g.unit = strconv.AppendInt(g.unit, n, 10) }

// putSeqs writes the numbers from first to last, without brackets.
func (g *Generator) putSeqs(first, last int64) {
	for n := first; n <= last; n++ {
		if n > first {
			g.put(",")
		}
		g.putInt(n)
	}
}

// putList writes numbers, without brackets.
func (g *Generator) putList(list []int64) {
	for i, n := range list {
		if i > 0 {
			g.put(",")
		}
		g.putInt(n)
	}
}

// putPlace writes the turn and the step as the first members of data.
func (g *Generator) putPlace() {
	g.put(`{"turn":`)
	g.putInt(g.turn)
	g.put(`,"step":`)
	g.putInt(g.step)
}

// small writes a whole event.
func (g *Generator) small(typ, data string) {
	g.begin(typ)
	g.put(data)
	g.end()
}

// wait lets a time around mean ms pass. Once in a while the clock goes back a
// little, as clocks do.
func (g *Generator) wait(mean float64) {
	g.now += int64(g.rng.ExpFloat64() * mean)
	if g.chance(0.5) {
		g.now -= int64(g.between(1, 4))
	}
}

// pace lets the time between two streamed deltas pass: they come in bursts.
func (g *Generator) pace() {
	r := g.rng.Uint32()
	switch r & 7 {
	case 0:
		// The one of eight that waits does so for all of them.
		mean := max(0, 8*g.opt.MeanDelta.Seconds()*1000-1)
		g.now += int64(mean*(0.5+float64(r>>8)/(1<<24)) + 0.5)
	case 1:
		g.now++
	}
}

const hexDigits = "0123456789abcdef"

// appendUUID appends a random UUID of version 4.
func (g *Generator) appendUUID(dst []byte) []byte {
	high, low := g.rng.Uint64(), g.rng.Uint64()
	high = high&^0xf000 | 0x4000
	low = low&^(3<<62) | 2<<62
	for i := range 16 {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		b := byte(high >> (56 - 8*(i&7)))
		if i >= 8 {
			b = byte(low >> (56 - 8*(i&7)))
		}
		dst = append(dst, hexDigits[b>>4], hexDigits[b&15])
	}
	return dst
}

func (g *Generator) putUUID() { g.unit = g.appendUUID(g.unit) }

// appendCallID appends an id as providers give to the i-th call of a message.
func (g *Generator) appendCallID(dst []byte, i int) []byte {
	const digits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789xy"
	dst = append(dst, "call_0"...)
	dst = append(dst, byte('0'+i), '_')
	for range 2 {
		r := g.rng.Uint64()
		for range 10 {
			dst = append(dst, digits[r&63])
			r >>= 6
		}
	}
	return dst
}
