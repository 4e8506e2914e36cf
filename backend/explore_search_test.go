package backend

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// The explorer plays real handles against a store of its own, in every order of
// their requests and with every fault that a config has room for. What it
// explores is everything above the store: package backend's handles in the
// foreground, the openings of seedpath, manifest's transitions, loop and
// decision procedure, all encodings. (Package manifest explores transitions and
// decisions alone, with more processes, steps and faults.)
//
// A schedule is a list of choices: whose request is answered next, and how. As
// handles cannot be copied, a state is reached by playing its schedule from the
// beginning. States are compared: the store, what is under way, and what each
// process can know, which is the replies that it has had, or, where it sends a
// manifest for the first time, what it is built on. What a choice leads to is
// known before it is played, so every state is played once. Random ids and times
// are left out of the comparison.
//
// A process that stops for ever needs no rule of its own: it is one whose
// request is not answered any more. The checks look at every commit when it
// takes effect, and at everything that a process is told.
//
// Not modelled: clocks and leases, time-outs, reads that are stale or torn, logs
// that do not fit in their tail, replay, deletion and gc.

// choice is one thing that may happen next.
type choice struct {
	kind choiceKind
	n    int // of the process, or of the late request
}

type choiceKind uint8

const (
	regular    choiceKind = iota // the request is answered as it should be
	noReply                      // it gets no reply; if it could take effect it still may, at any time
	copied                       // it takes effect, and a copy of it is answered 412
	conflicted                   // 409
	refused                      // 403
	arrives                      // a late request takes effect
)

// explored is what an exploration came to.
type explored struct {
	states, plays, steps int
	broken               string // empty: nothing
	trace                []string
	reached              map[string]int
}

// maxPlays bounds the time of one exploration.
const maxPlays = 400_000

type search struct {
	cfg   *seedConfig
	began map[string]*stored
	codec *segment.Codec
	seen  map[uint64]struct{}
	res   explored
}

func explore(t *testing.T, cfg seedConfig) explored {
	t.Helper()
	x := &search{cfg: &cfg, codec: segment.NewCodec(), seen: map[uint64]struct{}{}}
	x.res.reached = map[string]int{}
	x.prepare(t)
	start := time.Now()
	for todo := [][]choice{nil}; len(todo) > 0 && x.res.broken == ""; {
		schedule := todo[len(todo)-1]
		todo = append(todo[:len(todo)-1], x.play(schedule)...)
		if x.res.plays > maxPlays {
			x.res.broken = fmt.Sprintf("TOOBIG: more than %d plays", maxPlays)
		}
	}
	x.res.states = len(x.seen)
	said := x.res.broken
	if said == "" {
		for _, k := range slices.Sorted(maps.Keys(x.res.reached)) {
			said += fmt.Sprintf("%s %d, ", k, x.res.reached[k])
		}
	}
	t.Logf("%-26s %6d states %6d plays %7d steps %5.1f s  %s", cfg.name, x.res.states, x.res.plays, x.res.steps, time.Since(start).Seconds(), strings.TrimSuffix(said, ", "))
	return x.res
}

// prepare writes what the config begins with.
func (x *search) prepare(t *testing.T) {
	w := x.empty()
	p := &process{w: w, n: past, free: true}
	if x.cfg.begin != nil {
		x.cfg.begin(p)
	}
	if w.broken != "" {
		t.Fatalf("%s: it cannot begin: %s", x.cfg.name, w.broken)
	}
	x.began = w.objects
}

func (x *search) empty() *play {
	return &play{
		cfg: x.cfg, reached: x.res.reached, codec: x.codec, faults: x.cfg.faults,
		objects: map[string]*stored{}, writers: map[string]string{}, births: map[string]string{}, landed: map[opID]int{},
	}
}

// start begins a play: every process runs until it sends its first request.
func (x *search) start() *play {
	x.res.plays++
	w := x.empty()
	w.versions = 1000
	for key, o := range x.began {
		w.objects[key] = o
		if o.rec != nil {
			w.writers[o.rec.Commit.Writer], w.births[o.rec.UID] = "past", "past"
		}
	}
	for n, run := range x.cfg.processes {
		p := &process{w: w, n: n, run: run, parked: make(chan struct{}), wake: make(chan reply)}
		w.procs = append(w.procs, p)
		go func() {
			p.run(p)
			p.req = nil
			p.parked <- struct{}{}
		}()
		<-p.parked
	}
	return w
}

// play plays a schedule, goes on from there as long as it leads to new states,
// and returns the schedules that lead to the other new ones.
func (x *search) play(schedule []choice) (more [][]choice) {
	w := x.start()
	defer func() { w.end() }()
	for _, c := range schedule {
		w.do(c)
		x.res.steps++
	}
	schedule = slices.Clone(schedule)
	for w.broken == "" {
		var next *choice
		all := w.choices()
		for i := range all {
			k := w.after(all[i])
			if _, old := x.seen[k]; old {
				continue
			}
			x.seen[k] = struct{}{}
			if next == nil {
				next = &all[i]
			} else {
				more = append(more, append(slices.Clip(slices.Clone(schedule)), all[i]))
			}
		}
		if next == nil {
			return more
		}
		schedule = append(schedule, *next)
		w.do(*next)
		x.res.steps++
	}
	x.res.broken = w.broken
	x.res.trace = x.trace(schedule)
	return nil
}

// trace plays a schedule once more and describes it.
func (x *search) trace(schedule []choice) (lines []string) {
	w := x.start()
	defer func() { w.end() }()
	for _, o := range x.began {
		if o.rec != nil {
			lines = append(lines, "   begins with "+o.text)
		}
	}
	for i, c := range schedule {
		lines = append(lines, fmt.Sprintf("%2d %s", i+1, w.describe(c)))
		w.do(c)
	}
	return lines
}

// end lets every process run out: no request is answered any more.
func (w *play) end() {
	w.over = true
	for _, p := range w.procs {
		if p.req != nil {
			p.wake <- reply{err: objstore.ErrDenied}
			<-p.parked
		}
	}
}

// choices are all that may happen next.
func (w *play) choices() (all []choice) {
	for i := range w.late {
		if w.holds(w.late[i]) {
			all = append(all, choice{arrives, i})
		}
	}
	for i, p := range w.procs {
		r := p.req
		if r == nil {
			continue
		}
		all = append(all, choice{regular, i})
		switch {
		case w.faults == 0:
		case !r.put:
			all = append(all, choice{refused, i})
		case w.holds(r):
			all = append(all, choice{noReply, i}, choice{copied, i}, choice{conflicted, i}, choice{refused, i})
		default:
			all = append(all, choice{noReply, i}, choice{conflicted, i}, choice{refused, i})
		}
	}
	return all
}

// effect says what a choice does: which request takes effect, which goes
// astray, and what its sender is told.
func (w *play) effect(c choice) (applied, astray *request, rep reply) {
	if c.kind == arrives {
		return w.late[c.n], nil, reply{}
	}
	r := w.procs[c.n].req
	holds := r.put && w.holds(r)
	switch c.kind {
	case regular:
		switch {
		case !r.put:
			return nil, nil, reply{obj: w.objects[r.key]}
		case holds:
			return r, nil, reply{obj: r.next}
		}
		return nil, nil, reply{err: objstore.ErrPrecondition}
	case noReply:
		rep.err = objstore.ErrUndecided
		if holds && !slices.Contains(w.late, r) { // two copies come to the same as one
			astray = r
		}
		return nil, astray, rep
	case copied:
		return r, nil, reply{err: objstore.ErrPrecondition}
	case conflicted:
		return nil, nil, reply{err: objstore.ErrConflict}
	}
	return nil, nil, reply{err: objstore.ErrDenied}
}

// do makes a choice. The process that is answered runs until its next request.
func (w *play) do(c choice) {
	applied, astray, rep := w.effect(c)
	if applied != nil {
		w.apply(applied)
	}
	if astray != nil {
		w.late = append(w.late, astray)
	}
	if c.kind == arrives {
		return // apply has taken it off the list
	}
	p := w.procs[c.n]
	p.seen = p.after(rep)
	p.open = p.open || objstore.Classify(rep.err) == objstore.Undecided
	if c.kind != regular {
		w.faults--
		p.faulted = p.faulted || c.kind != conflicted
	}
	if p.req.put && p.req.next.rec != nil {
		p.sent++
	}
	p.wake <- rep
	<-p.parked
	p.forget()
}

// forget takes what p knows for what it can still make use of: a handle that
// proposes a commit derives it from one version of the log alone.
func (p *process) forget() {
	r := p.req
	if r == nil {
		p.seen = uint64(p.denied) // which the checks look at
		return
	}
	if !r.put || !r.new {
		return
	}
	p.open = false
	if r.next.rec == nil || p.settles || p.w.cfg.remembers || p.w.cfg.broken.open != nil {
		return
	}
	b := []byte{byte(p.op), 0, byte(p.denied), byte(p.denied >> 8)}
	for i, flag := range []bool{p.faulted, p.sent > 0, p.found != nil && p.found.rec != nil && seedpath.Marked(p.found.rec.Content, p.found.rec.Next)} {
		if flag {
			b[1] |= 1 << i
		}
	}
	b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, r.base), r.next.canon)
	p.seen = maphash.Bytes(theSeed, b)
}

// after is what p knows after one more reply. That it shall try again, or that
// it is open what became of the request, tells it nothing new a second time.
func (p *process) after(rep reply) uint64 {
	switch objstore.Classify(rep.err) {
	case objstore.TryAgain:
		return p.seen
	case objstore.Undecided:
		if p.open {
			return p.seen
		}
	}
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], p.seen)
	if rep.err != nil {
		b[8] = 1 + byte(objstore.Classify(rep.err))
	} else {
		binary.LittleEndian.PutUint64(b[16:], rep.obj.number())
	}
	return maphash.Bytes(theSeed, b[:])
}

// after is a number for the state that a choice leads to.
func (w *play) after(c choice) uint64 {
	applied, astray, rep := w.effect(c)
	var objects, late []uint64
	for key, o := range w.objects {
		if applied == nil || key != applied.key {
			objects = append(objects, o.canon)
		}
	}
	if applied != nil {
		objects = append(objects, applied.next.canon)
	}
	for _, f := range append(slices.Clip(w.late), astray) {
		// What was conditioned on the state before can never take effect.
		if f != nil && (applied == nil || f.key != applied.key) {
			late = append(late, f.base, f.next.canon)
		}
	}
	slices.Sort(objects)
	slices.Sort(late)
	faults := w.faults
	if c.kind != regular && c.kind != arrives {
		faults--
	}
	b := []byte{byte(faults), byte(len(objects)), byte(len(late))}
	for _, n := range slices.Concat(objects, late) {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	for i, p := range w.procs {
		seen := p.seen
		if c.kind != arrives && c.n == i {
			seen = p.after(rep)
		}
		b = binary.LittleEndian.AppendUint64(b, seen)
	}
	return maphash.Bytes(theSeed, b)
}

func (w *play) describe(c choice) string {
	r := (*request)(nil)
	if c.kind == arrives {
		r = w.late[c.n]
	} else {
		r = w.procs[c.n].req
	}
	applied, astray, rep := w.effect(c)
	s := fmt.Sprintf("%-5s ", r.op)
	if !r.put {
		if rep.err != nil {
			return s + "reads: " + rep.err.Error()
		}
		return s + "reads " + rep.obj.String()
	}
	s += "PUT " + r.next.String()
	switch {
	case c.kind == arrives:
		s += ", late: it arrives"
	case applied != nil && rep.err == nil:
		s += ": done"
	case applied != nil:
		s += ": done, but told " + rep.err.Error()
	case astray != nil:
		s += ": no reply, may arrive late"
	default:
		s += ": " + rep.err.Error()
	}
	return s
}
