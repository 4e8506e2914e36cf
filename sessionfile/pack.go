package sessionfile

import "strconv"

const (
	minRun = 3        // events that are worth a packed row
	maxRow = 16 << 20 // bytes of a packed row, about; a longer run goes on in another one
)

// pendingRun collects deltas that fit one packed row. Its buffers are its own
// and are used again.
type pendingRun struct {
	n         int
	first     delta // text is not kept
	seq, time int64 // of the newest
	id, name  []byte
	lines     [minRun - 1][]byte // the first ones as they came, in case there are no more
	gaps      []byte             // elements of dt, comma-separated
	texts     []byte             // elements of texts or args, comma-separated
}

// extends reports whether d fits the run, which may be empty.
func (r *pendingRun) extends(d *delta) bool {
	if r.n == 0 {
		return true
	}
	gap := d.time - r.time // cannot overflow: both are below 2^53
	size := len(r.gaps) + len(r.texts) + len(d.text) + len(d.id) + len(d.name)
	return d.run.equal(&r.first.run) && d.seq == r.seq+1 && gap >= -maxSafe && gap <= maxSafe && size <= maxRow
}

func (r *pendingRun) add(d *delta, line []byte) {
	if r.n == 0 {
		r.id, r.name = append(r.id[:0], d.id...), append(r.name[:0], d.name...)
		r.first = *d
		r.first.text = nil
		if d.id != nil {
			r.first.id = r.id
		}
		if d.name != nil {
			r.first.name = r.name
		}
		r.gaps, r.texts = r.gaps[:0], r.texts[:0]
	} else {
		if r.n > 1 {
			r.gaps = append(r.gaps, ',')
		}
		r.gaps = strconv.AppendInt(r.gaps, d.time-r.time, 10)
		r.texts = append(r.texts, ',')
	}
	r.texts = append(r.texts, d.text...)
	if r.n < len(r.lines) {
		r.lines[r.n] = append(r.lines[r.n][:0], line...)
	}
	r.n++
	r.seq, r.time = d.seq, d.time
}

// row is the packed row of the run, in the form in which harnesses write it.
func (r *pendingRun) row() []byte {
	d := &r.first
	dst := make([]byte, 0, len(r.gaps)+len(r.texts)+len(r.id)+len(r.name)+256)
	dst = append(dst, `{"type":"`...)
	dst = append(dst, d.kind.tag()...)
	dst = append(dst, `","seq0":`...)
	dst = strconv.AppendInt(dst, d.seq, 10)
	dst = append(dst, `,"time0":`...)
	dst = strconv.AppendInt(dst, d.time, 10)
	dst = append(dst, `,"data":{"turn":`...)
	dst = strconv.AppendInt(dst, d.turn, 10)
	dst = append(dst, `,"step":`...)
	dst = strconv.AppendInt(dst, d.step, 10)
	dst = append(dst, `,"index":`...)
	dst = strconv.AppendInt(dst, d.index, 10)
	dst = append(dst, `,"dt":[`...)
	dst = append(dst, r.gaps...)
	dst = append(dst, ']')
	if d.kind == kindToolCall {
		dst = append(dst, `,"id":`...)
		dst = append(dst, d.id...)
		if d.name != nil {
			dst = append(dst, `,"name":`...)
			dst = append(dst, d.name...)
		}
		dst = append(dst, `,"args":[`...)
	} else {
		dst = append(dst, `,"texts":[`...)
	}
	dst = append(dst, r.texts...)
	return append(dst, `]}}`...)
}
