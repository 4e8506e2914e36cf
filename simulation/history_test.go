package simulation

import (
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// operation is a call as its caller saw it, for porcupine, which is told nothing
// of requests, manifests or writers: what was appended, what was read, and when.
type operation struct {
	log       string
	who       string
	from, to  time.Time // to is zero where the answer never came
	in        asked
	out       said
	unsettled bool // may or may not have happened, then or at any later time
}

type action uint8

const (
	appends action = iota
	reads
	deletes
)

type asked struct {
	do   action
	tags string // of an append
	n    int64
	key  string
}

type said struct {
	first     int64  // of an append: where it is
	duplicate bool   // it was there before
	events    string // of a read: all tags, in order
}

// model is the log as everybody may think of it: a list of events. Where a
// boundary or closers come between nobody who appends can say, so that places
// only have to grow.
type model struct {
	deleted bool
	last    int64 // seq of the newest event
	events  uint64
	keys    string
}

func digest(was uint64, tags string) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, was, tags)
	return h.Sum64()
}

// digestAll is the digest of all tags, one append after the other being one tag.
func digestAll(was uint64, tags string) uint64 {
	for tag := range strings.FieldsSeq(tags) {
		was = digest(was, tag)
	}
	return was
}

var sequential = porcupine.Model{
	Init: func() any { return model{last: -1} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(model), input.(asked), output.(said)
		switch in.do {
		case deletes:
			s.deleted = true
			return true, s
		case reads:
			return !s.deleted && digestAll(0, out.events) == s.events, s
		}
		if at, there := s.lookup(in.key); there {
			return out.duplicate && out.first == at, s
		}
		if s.deleted || out.first <= s.last {
			return false, s
		}
		s.events, s.last = digestAll(s.events, in.tags), out.first+in.n-1
		if in.key != "" {
			s.keys += fmt.Sprintf("%s=%d;", in.key, out.first)
		}
		return true, s
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// lookup finds a key, and where its events are.
func (s model) lookup(key string) (at int64, there bool) {
	if key == "" {
		return 0, false
	}
	_, rest, there := strings.Cut(";"+s.keys, ";"+key+"=")
	if there {
		fmt.Sscanf(rest, "%d;", &at)
	}
	return at, there
}

// observed notes a read of a whole log, without what it was born with. r.mu is
// held.
func (r *run) observed(who, id string, from time.Time, lines [][]byte) {
	var tags []string
	for _, line := range lines[min(len(lines), r.witness.log(id).inherited):] {
		if tag := tagOf(line); tag != "" {
			tags = append(tags, tag)
		}
	}
	r.calls = append(r.calls, operation{log: id, who: who, from: from, to: time.Now(), in: asked{do: reads}, out: said{events: strings.Join(tags, " ")}})
}

// removed notes a deletion, perhaps one of which nobody knows.
func (r *run) removed(who, id string, from time.Time, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, operation{log: id, who: who, from: from, to: time.Now(), in: asked{do: deletes}, unsettled: !known})
}

// history adds the appends to what else is known, when everybody has finished.
func (r *run) history() {
	for _, e := range r.book.entries {
		op := operation{log: e.log, who: e.caller, from: e.call, to: e.answered, in: asked{do: appends, tags: strings.Join(e.tags, " "), n: int64(len(e.tags)), key: e.key}}
		switch e.state {
		case refused:
			continue // whoever reads it finds out
		case acknowledged:
			// Of two appends with one key in one commit, Decide does not know which was
			// the first.
			op.out = said{first: e.receipt.First, duplicate: e.receipt.Duplicate || e.decided}
		default:
			// The last reader of all has seen where it is. What it has not seen may have
			// come to pass behind everything else, which is to say that it did not.
			seq, there := r.witness.log(e.log).tags[e.tags[0]]
			if !there {
				continue
			}
			op.out, op.unsettled = said{first: seq, duplicate: true}, true
		}
		r.calls = append(r.calls, op)
	}
}

// linearize asks porcupine whether there is an order of the calls, each between
// its beginning and its end, in which a plain list would have given these
// answers. It says what is wrong, if anything.
func linearize(calls []operation) string {
	byLog := map[string][]porcupine.Operation{}
	clients := map[string]int{}
	for _, c := range calls {
		if _, ok := clients[c.who]; !ok {
			clients[c.who] = len(clients)
		}
		op := porcupine.Operation{ClientId: clients[c.who], Input: c.in, Output: c.out, Call: c.from.UnixNano(), Return: c.to.UnixNano()}
		if c.unsettled {
			op.Return = math.MaxInt64
		}
		byLog[c.log] = append(byLog[c.log], op)
	}
	for id, ops := range byLog {
		switch porcupine.CheckOperationsTimeout(sequential, ops, 10*time.Second) {
		case porcupine.Illegal:
			return fmt.Sprintf("ORDER: no order of the %d calls on %s explains their answers", len(ops), id)
		case porcupine.Unknown:
			return fmt.Sprintf("INTERNAL: porcupine does not come to an end with %d calls on %s", len(ops), id)
		}
	}
	return ""
}
