package report

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"strconv"
)

// rows packs events for the page's script: parts of some hundred KB of JSON,
// compressed, in base64. In that alphabet nothing an event holds can mean
// anything to the page.
//
// A part is an array with a row for each event: [type, ms since the row before,
// bytes], then the line as it is stored, unless it is left out, then 1 if the line
// is cut. Types are indexes in types, -1 for a line that is no event.
type rows struct {
	limits Limits
	types  []string
	index  map[string]int
	parts  []part
	size   int64 // of all parts

	first, next int64 // the events in buf
	last        int64 // time of the newest row
	buf         []byte
	zip         *flate.Writer
	full        int64 // seq of the first event that is left out; -1 if none is
}

// part is some consecutive events.
type part struct {
	First, Next int64
	Data        template.HTML // base64
}

// partSize is how much JSON is compressed in one part: what the script has to
// inflate to show a single event.
const partSize = 256 << 10

func newRows(l Limits) *rows { return &rows{limits: l, index: make(map[string]int), full: -1} }

// add takes the next event; seqs may jump. typ is empty for a line that is none.
func (r *rows) add(seq, time int64, typ string, line []byte) {
	if r.full >= 0 {
		return
	}
	if len(r.buf) > 0 && (seq != r.next || len(r.buf) >= partSize) {
		r.flush()
	}
	if r.size >= r.limits.Rows {
		r.full = seq
		return
	}
	if len(r.buf) == 0 {
		r.first, r.last, r.buf = seq, 0, append(r.buf, '[')
	} else {
		r.buf = append(r.buf, ',')
	}
	r.buf = append(r.buf, '[')
	r.buf = strconv.AppendInt(r.buf, int64(r.typ(typ)), 10)
	r.buf = strconv.AppendInt(append(r.buf, ','), time-r.last, 10)
	r.buf = strconv.AppendInt(append(r.buf, ','), int64(len(line)), 10)
	if r.size < r.limits.Events {
		shown := cut(string(line), r.limits.Text)
		text, err := json.Marshal(shown.Text)
		if err != nil {
			panic("report: " + err.Error()) // a string
		}
		r.buf = append(append(r.buf, ','), text...)
		if shown.More > 0 {
			r.buf = append(r.buf, ",1"...)
		}
	}
	r.buf = append(r.buf, ']')
	r.last, r.next = time, seq+1
}

func (r *rows) typ(name string) int {
	if name == "" {
		return -1
	}
	i, ok := r.index[name]
	if !ok {
		i = len(r.types)
		r.index[name] = i
		r.types = append(r.types, name)
	}
	return i
}

// flush ends a part.
func (r *rows) flush() {
	if len(r.buf) == 0 {
		return
	}
	var packed bytes.Buffer
	if r.zip == nil {
		r.zip, _ = flate.NewWriter(&packed, flate.DefaultCompression) // a level that exists
	} else {
		r.zip.Reset(&packed)
	}
	_, _ = r.zip.Write(append(r.buf, ']')) // a buffer takes everything
	_ = r.zip.Close()
	text := base64.StdEncoding.EncodeToString(packed.Bytes())
	r.parts = append(r.parts, part{r.first, r.next, template.HTML(text)})
	r.size += int64(len(text))
	r.buf = r.buf[:0]
}
