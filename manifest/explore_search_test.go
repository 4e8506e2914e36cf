package manifest

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/segment"
)

// The explorer is an explicit-state model checker around the real transitions
// (Draft), the real decision procedure (attempt, Judge, LookupKey, settle), the
// real rule of removal (Removal) and the real encoding. What it models itself is
// the store with its faults, the order in which processes take their steps, and,
// in a few lines each, the loops around that code which cannot be stopped in the
// middle: Commit's, and those of a writer's handle, a collection and a reader,
// which are package backend's.
//
// It visits, breadth first, every state that can be reached within the bounds of
// a config, and stops at the first that breaks a promise (explore_store_test.go
// says which), with the shortest way there. A process that stops for ever at
// some step needs no rule of its own: it is the one that takes no further step.
//
// docs/consistency.md ("What is explored") says what is assumed and what is not
// modelled.

// explorer is one exploration.
type explorer struct {
	cfg      config
	versions map[string]*version // by their bytes
	records  map[*Record]*version
	props    map[propKey]*prop
	objects  map[Name]*object
	byID     []*object
	steps    map[stepKey]stepOut
	judged   map[fateKey]fates
	barriers map[barrierKey]*prop
	contents map[string]segment.State // what events amount to, by their letters
	commitID string                   // of the next draft
	now      int64                    // the store's clock, for whoever proposes

	level, later []*world // to be expanded: now, next
	free         []*world // that nobody needs any more
	seen         map[[2]uint64]struct{}
	nodes        []node
	at           int // node that is being expanded
	ordinal      int // number of its next successor
	moves        int // transitions so far
	reached      map[string]int
	key          []byte
	seeds        [2]maphash.Seed

	broken string // what the newest transition broke
	end    int    // the node that it led to
	replay func(n *world, p int, what string, about fmt.Stringer)
}

// maxStates bounds the memory of one exploration; what is larger fails.
const maxStates = 6_000_000

// beginning reports whether only the first states of every exploration are
// visited, of which there are fewStates.
func beginning() bool { return underRace || testing.Short() }

const fewStates = 25_000

// node is a visited state, as far as a trace needs it.
type node struct {
	parent  int32
	ordinal uint16 // which of the parent's successors it is
}

// result is what an exploration found.
type result struct {
	states, moves int
	broken        string // empty: nothing
	trace         []string
	reached       map[string]int
}

// explore visits everything that cfg allows.
func explore(t *testing.T, cfg config) result {
	t.Helper()
	savedRules, savedID := rules, newCommitID
	defer func() { rules, newCommitID = savedRules, savedID }()
	defer debug.SetGCPercent(debug.SetGCPercent(300))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1200 << 20))
	if cfg.broken.judge != nil {
		rules.judge = cfg.broken.judge
	}
	if cfg.broken.names != nil {
		rules.names = cfg.broken.names
	}
	x := &explorer{
		cfg: cfg, versions: map[string]*version{}, records: map[*Record]*version{}, props: map[propKey]*prop{},
		objects: map[Name]*object{}, steps: map[stepKey]stepOut{}, judged: map[fateKey]fates{}, barriers: map[barrierKey]*prop{}, contents: map[string]segment.State{},
		seen: map[[2]uint64]struct{}{}, reached: map[string]int{}, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
	}
	newCommitID = func() string { return x.commitID }
	first := x.first()
	again := *first // for the trace
	began := time.Now()
	x.nodes, x.level = []node{{parent: -1}}, []*world{first}
	x.see(first)
	x.search()
	res := result{states: len(x.nodes), moves: x.moves, broken: x.broken, reached: x.reached}
	if x.broken != "" {
		res.trace = x.trace(&again)
	}
	t.Logf("%-24s %8d states %9d transitions %5.1f s  %s", cfg.name, res.states, res.moves, time.Since(began).Seconds(), summary(res))
	return res
}

func (x *explorer) search() {
	base := 0 // number of the level's first node
	for len(x.level) > 0 && x.broken == "" {
		x.later = nil
		next := len(x.nodes)
		for i, w := range x.level {
			if len(x.nodes) > fewStates && beginning() {
				return
			}
			if len(x.nodes) > maxStates {
				x.fail("TOOBIG", "more than %d states", maxStates)
				x.end = x.at
				return
			}
			x.at, x.ordinal = base+i, 0
			x.successors(w)
			if x.ordinal == 0 {
				x.checkEnd(w)
			}
			if x.broken != "" {
				return
			}
			x.level[i] = nil
			x.free = append(x.free, w)
		}
		base, x.level = next, x.later
	}
}

// emit takes a successor of the state that is being expanded: process p did
// what, about something.
func (x *explorer) emit(n *world, p int, what string, about fmt.Stringer) {
	x.ordinal++
	if x.replay != nil {
		x.replay(n, p, what, about)
		return
	}
	if x.end > 0 {
		return // broken before, and nothing after that matters
	}
	x.moves++
	if x.broken == "" && !x.see(n) {
		x.free = append(x.free, n)
		return
	}
	x.nodes = append(x.nodes, node{parent: int32(x.at), ordinal: uint16(x.ordinal - 1)})
	if x.broken != "" {
		x.end = len(x.nodes) - 1
	}
	x.later = append(x.later, n)
}

// copy is w, to be changed into one of its successors.
func (x *explorer) copy(w *world) *world {
	n := new(world)
	if last := len(x.free) - 1; last >= 0 {
		n, x.free = x.free[last], x.free[:last]
	}
	*n = *w
	return n
}

// see reports whether n is new, and notes it.
func (x *explorer) see(n *world) bool {
	x.key = x.encode(n, x.key[:0])
	k := [2]uint64{maphash.Bytes(x.seeds[0], x.key), maphash.Bytes(x.seeds[1], x.key)}
	if _, old := x.seen[k]; old {
		return false
	}
	x.seen[k] = struct{}{}
	return true
}

// fail notes that a promise is broken: class is one word, as in the notes on
// earlier drafts of the protocol.
func (x *explorer) fail(class, format string, args ...any) {
	if x.broken == "" && x.replay == nil && !slices.Contains(x.cfg.broken.ignore, class) {
		x.broken = class + ": " + fmt.Sprintf(format, args...)
	}
}

// trace goes from the first state to the broken one again and describes each
// step.
func (x *explorer) trace(first *world) []string {
	var path []node
	for i := x.end; i > 0; i = int(x.nodes[i].parent) {
		path = append(path, x.nodes[i])
	}
	slices.Reverse(path)
	lines := []string{"   begins with " + first.String()}
	w := first
	for i, step := range path {
		var after *world
		x.ordinal = 0
		x.replay = func(n *world, p int, what string, about fmt.Stringer) {
			if after != nil || x.ordinal-1 != int(step.ordinal) {
				return
			}
			after = n
			text := what
			if about != nil {
				text += " " + about.String()
			}
			lines = append(lines, fmt.Sprintf("%2d %-3s %-70s %s", i+1, x.name(p), text, n))
		}
		x.successors(w)
		w = after
	}
	x.replay = nil
	return lines
}

// summary lists how often the ends of appends were reached.
func summary(r result) string {
	if r.broken != "" {
		return r.broken
	}
	var names []string
	for name := range r.reached {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, r.reached[name])
	}
	return strings.Join(names, ", ")
}

// encode writes everything that decides about a state's future, and the ghost
// variables that the checks look at.
func (x *explorer) encode(w *world, b []byte) []byte {
	b = append(binary.AppendUvarint(b, uint64(w.head.number())), w.faults, w.tick, w.slow)
	b = append(append(b, w.log...), 0)
	b = append(append(append(b, w.owners...), 0xff), w.buried...)
	b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, w.denied), w.back)
	for _, set := range []string{w.objects, w.astray, w.deletes, w.ever} {
		b = append(binary.AppendUvarint(b, uint64(len(set))), set...)
	}
	for _, f := range w.flights {
		b = binary.AppendUvarint(b, uint64(f.number()))
	}
	for i := range x.cfg.actors {
		s := &w.procs[i]
		b = append(b, byte(s.pc), s.op, flag8(s.owned, s.sent, s.left, s.listed, s.looked, s.wrote), s.made, s.drafts, byte(s.act), s.run, s.at, s.since)
		for _, v := range []int{s.base.number(), s.try.number(), s.token.number(), s.lastSent.number(), s.ups[0].number(), s.ups[1].number(), s.first.number(), s.missing, len(s.list)} {
			b = binary.AppendUvarint(b, uint64(v))
		}
		b = append(b, s.list...)
		if a := s.att; a != nil {
			b = append(b, flag8(a.sent, a.undecided != nil), byte(a.refusals), lastReply(a.last))
		}
	}
	return b
}

// lastReply tells apart what an attempt remembers of the newest reply.
func lastReply(err error) byte {
	if err == nil {
		return 0
	}
	return 1 + byte(objstore.Classify(err))
}

func flag8(flags ...bool) (b byte) {
	for i, f := range flags {
		if f {
			b |= 1 << i
		}
	}
	return b
}
