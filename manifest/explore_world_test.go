package manifest

import (
	"encoding/binary"
	"fmt"
	"slices"
)

const (
	maxActors  = 4
	maxBatches = 4
	past       = maxActors // the actor who wrote what a config begins with
	theLog     = "log"
	storeTime  = 1_790_000_000_000 // of the store's clock, at the beginning
	hour       = 3_600_000         // ms, a step of it
)

// world is one state: the store, the processes, and ghosts, which no process
// can see and the checks look at. It is copied for every transition; what it
// points to is never changed.
type world struct {
	head    *version // the manifest; nil: absent
	objects string   // ids of the segments that are there, ascending, two bytes each
	flights [5]*prop // requests that may still arrive, by id; nil at the end
	astray  string   // ids of segments whose PUT may still arrive
	deletes string   // ids of segments whose DELETE may still arrive
	faults  uint8    // how many are left
	tick    uint8    // hours that went by
	procs   [maxActors]proc

	log    string // every event that ever was committed, a letter each
	owners string // who took over: the actor of every generation
	buried string // uid of a log whose tombstone was removed
	denied uint32 // batches of which somebody was told that they are not committed
	back   uint32 // those among them that were taken back before they were sent
	ever   string // ids of all segments that ever were there, where listings may be stale
	slow   uint8  // the most hours that a commit took from its proposal until it landed
}

// version is one state of the manifest.
type version struct {
	id      int
	head    Head   // its Record was decoded from the bytes that were written
	content string // events: those of its segments, then its tail
	objects []int  // ids of its segments
	folded  bool   // its projections were checked
	prev    *version
}

// prop is a proposal: a request that may be sent, and what the checks need to
// know of it.
type prop struct {
	id    int
	p     *Proposal
	base  *version // that it is conditioned on; nil: absence
	next  *version // that it leads to
	actor int
	batch int    // of the actor; -1: adds no events
	adds  string // its events
	names []*object
	text  string
	tick  uint8 // when it was proposed
	blind bool  // it is sent without a condition (no rule of ours)
}

// object is a segment on the store.
type object struct {
	id      int
	upload  Upload
	content string
}

type propKey struct{ actor, base, next int }

func (v *version) number() int {
	if v == nil {
		return 0
	}
	return v.id
}

func (p *prop) number() int {
	if p == nil {
		return 0
	}
	return p.id
}

func (o *object) number() int {
	if o == nil {
		return 0
	}
	return o.id
}

func (v *version) record() *Record {
	if v == nil {
		return nil
	}
	return v.head.Record
}

// asHead is what a GET of v finds.
func (v *version) asHead() Head {
	if v == nil {
		return Head{}
	}
	return v.head
}

// tail are the events that no segment holds.
func (v *version) tail() string {
	if v == nil {
		return ""
	}
	return v.content[v.head.Record.TailFirst():]
}

func (v *version) String() string {
	if v == nil {
		return "nothing"
	}
	r := v.head.Record
	s := fmt.Sprintf("r%d", r.Revision)
	switch {
	case r.State != StateOpen:
		s += " " + string(r.State)
	case len(r.Segments) > 0:
		s += fmt.Sprintf(" %s|%s", v.content[:r.TailFirst()], v.tail())
	default:
		s += " |" + v.content
	}
	return fmt.Sprintf("%s g%d e%d", s, r.Generation(), r.Epoch)
}

func (p *prop) String() string { return p.text }

func (o *object) String() string {
	return fmt.Sprintf("segment %d [%d,%d) %q, epoch %d", o.id, o.upload.Ref.Name.First, o.upload.end(), o.content, o.upload.Ref.Name.Epoch)
}

func (w *world) String() string {
	s := w.head.String()
	for _, f := range w.flights {
		if f != nil {
			s += " + late " + f.text
		}
	}
	if w.objects != "" {
		s += " segments"
		for _, id := range ids(w.objects) {
			s += fmt.Sprintf(" %d", id)
		}
	}
	for _, id := range ids(w.astray) {
		s += fmt.Sprintf(" + late PUT of %d", id)
	}
	for _, id := range ids(w.deletes) {
		s += fmt.Sprintf(" + late DELETE of %d", id)
	}
	if w.tick > 0 {
		s += fmt.Sprintf(", hour %d", w.tick)
	}
	return s
}

// has reports whether a segment is on the store.
func (w *world) has(id int) bool { return slices.Contains(ids(w.objects), id) }

// with and without change a set of ids.
func with(set string, id int) string {
	all := ids(set)
	if slices.Contains(all, id) {
		return set
	}
	return idString(append(all, id))
}

func without(set string, id int) string {
	return idString(slices.DeleteFunc(ids(set), func(have int) bool { return have == id }))
}

func ids(s string) []int {
	out := make([]int, 0, len(s)/2+1)
	for i := 0; i < len(s); i += 2 {
		out = append(out, int(binary.BigEndian.Uint16([]byte(s[i:]))))
	}
	return out
}

func idString(ids []int) string {
	slices.Sort(ids)
	var b []byte
	for _, id := range ids {
		b = binary.BigEndian.AppendUint16(b, uint16(id))
	}
	return string(b)
}

// fly keeps a request that may arrive later; land takes it out again. There is
// room for one of every fault.
func (w *world) fly(p *prop) {
	w.flights[slices.Index(w.flights[:], nil)] = p
	w.sortFlights()
}

func (w *world) land(i int) {
	w.flights[i] = nil
	w.sortFlights()
}

// sortFlights orders them by id, the empty places last: states that differ in
// nothing else are one.
func (w *world) sortFlights() {
	slices.SortFunc(w.flights[:], func(a, b *prop) int {
		switch {
		case a == b:
			return 0
		case b == nil:
			return -1
		case a == nil:
			return 1
		}
		return a.id - b.id
	})
}
