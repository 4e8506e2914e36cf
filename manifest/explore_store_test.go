package manifest

import (
	"errors"
	"reflect"
	"strings"

	"github.com/s3log/s3log/backend/objstore"
)

// The promises, and the words for breaking them:
//
//	LIE         told "not committed", yet in the log, now or later
//	LOSTACK     acknowledged, yet not in the log at that place
//	TWICE       a batch is in the log twice
//	KEYTWICE    the same for two batches under one key
//	KEYMISS     told "not committed" on a version that has the key, or it was lost
//	INTERLEAVE  two actors append in one generation
//	FENCE       a writer that was replaced writes again
//	FALSEFENCE  told "fenced", yet nobody has taken over
//	HOLE        a later batch of a writer is in, an earlier one is not
//	OVERLAP     the manifest's segments and tail hold events that the log has not
//	MISMATCH    they hold other events than the log has
//	FOLD        the manifest's projections are not those of its events
//	DANGLING    the manifest names a segment that is not there
//	RECREATE    a commit follows a tombstone, or a void an open log
//	EPOCHFALL   epoch or revision do not grow as they must
//	READ404     a reader that takes less time than the grace meets a segment that is not there
//	DAMAGE      a reader must think that the log is damaged
//	IMPOSSIBLE  the procedure meets what cannot be
//	UNCLEAR     told "unknown" although every reply was clear
//	INTERNAL    a step fails with an error that it must not have
//	STUCK       nothing can happen any more, and an actor is not done

// holds reports whether a request's condition holds now.
func (w *world) holds(p *prop) bool { return w.head == p.base || p.blind }

// apply makes a request take effect and checks every promise about the log.
func (x *explorer) apply(w *world, p *prop) {
	x.checkCounters(w.head, w.buried, p)
	x.checkOwner(w, p)
	x.checkEvents(w, p)
	w.log += p.adds
	w.head = p.next
	if x.cfg.grace > 0 {
		w.slow = max(w.slow, w.tick-p.tick)
	}
	if len(p.names) > 0 && p.actor != past {
		x.reached["named a segment"]++
	}
	x.checkContent(w)
	// What can never take effect any more is not kept.
	for i := len(w.flights) - 1; i >= 0; i-- {
		if f := w.flights[i]; f != nil && !w.holds(f) && !x.cfg.removal {
			w.land(i)
		}
	}
}

// checkCounters checks what grows, and what stays for ever.
func (x *explorer) checkCounters(prev *version, buried string, p *prop) {
	r, b := p.next.record(), prev.record()
	switch {
	case b == nil:
		if r.Revision != 1 {
			x.fail("EPOCHFALL", "the first revision is %d", r.Revision)
		}
		if r.UID != "" && r.UID == buried {
			x.fail("RECREATE", "%s after the tombstone was removed", p)
		}
	case b.State == StateDeleted:
		x.fail("RECREATE", "%s on a deleted log", p)
	case b.State == StateOpen && (r.State == StateVoid || r.UID != b.UID):
		x.fail("RECREATE", "%s replaces a log that is there", p)
	case r.Revision != b.Revision+1 || r.Epoch < b.Epoch:
		x.fail("EPOCHFALL", "revision %d, epoch %d after %d, %d", r.Revision, r.Epoch, b.Revision, b.Epoch)
	case r.State == StateOpen && r.Generation() > b.Generation() && r.Epoch == b.Epoch:
		x.fail("EPOCHFALL", "a takeover keeps epoch %d", b.Epoch)
	}
}

// checkOwner checks who may make this commit.
func (x *explorer) checkOwner(w *world, p *prop) {
	g := int(p.next.record().Generation())
	switch {
	case g == len(w.owners)+1:
		if strings.IndexByte(w.owners, byte(p.actor)) >= 0 {
			x.fail("FENCE", "%s takes over a second time", x.name(p.actor))
		}
		w.owners += string(rune(p.actor))
	case g != len(w.owners):
		x.fail("IMPOSSIBLE", "generation %d after %d", g, len(w.owners))
	case x.cfg.broken.tweak != nil && p.adds == "": // its consequences are to be found
	case p.adds != "" && int(w.owners[g-1]) != p.actor:
		x.fail("INTERLEAVE", "%s appends in generation %d of %s", x.name(p.actor), g, x.name(int(w.owners[g-1])))
	case w.head != nil && g > 0 && p.next.record().Owner.Writer != w.head.record().Owner.Writer:
		x.fail("INTERLEAVE", "%s changes the owner within a generation", x.name(p.actor))
	}
}

// checkEvents checks that the events of a commit may be added now.
func (x *explorer) checkEvents(w *world, p *prop) {
	if p.adds == "" {
		return
	}
	c := p.adds[0]
	if strings.IndexByte(w.log, c) >= 0 {
		x.fail("TWICE", "%c is in the log twice", c)
	}
	if w.denied&bit(c) != 0 {
		x.fail("LIE", "%c was told to be not committed, and gets into the log", c)
	}
	if other := x.keyed(w.log, p.actor, p.batch); other >= 0 {
		x.fail("KEYTWICE", "%c is in the log already as %c", c, w.log[other])
	}
	for i := range p.batch {
		if strings.IndexByte(w.log, letter(p.actor, i)) < 0 && w.back&bit(letter(p.actor, i)) == 0 && x.keyed(w.log, p.actor, i) < 0 {
			x.fail("HOLE", "%c is in the log, %c before it is not", c, letter(p.actor, i))
		}
	}
}

// keyed finds where events under the key of a batch are among events.
func (x *explorer) keyed(events string, actor, batch int) int {
	key := x.cfg.actors[actor].batches[batch].key
	if key == "" {
		return -1
	}
	for i := range len(events) {
		if isPast(events[i]) {
			continue
		}
		if a, b := batchOf(events[i]); x.cfg.actors[a].batches[b].key == key {
			return i
		}
	}
	return -1
}

// checkContent checks that the manifest leads to exactly the log's events.
func (x *explorer) checkContent(w *world) {
	v := w.head
	r := v.record()
	if r.Next != int64(len(w.log)) {
		x.fail("OVERLAP", "next is %d, the log has %q", r.Next, w.log)
	}
	x.checkKeys(w)
	if r.State != StateOpen {
		return
	}
	x.checkObjects(w)
	switch {
	case v.content == w.log:
	case len(v.content) > len(w.log):
		x.fail("OVERLAP", "the manifest leads to %q, the log has %q", v.content, w.log)
	default:
		x.fail("MISMATCH", "the manifest leads to %q, the log has %q", v.content, w.log)
	}
	if !v.folded { // once is enough: it is a function of what was compared above
		v.folded = true
		if !reflect.DeepEqual(r.Content, x.stateOf(w.log)) {
			x.fail("FOLD", "%+v, from the events %+v", r.Content, x.stateOf(w.log))
		}
	}
}

// checkKeys checks that the first receipt of every key is kept.
func (x *explorer) checkKeys(w *world) {
	for p := range x.cfg.actors {
		for i, b := range x.cfg.actors[p].batches {
			at := x.keyed(w.log, p, i)
			if at < 0 {
				continue
			}
			if e, found, err := w.head.record().LookupKey(hash16(b.key), hash16("lines")); !found || err != nil || e.First != int64(at) {
				x.fail("KEYMISS", "the key of %c is not in %s", w.log[at], w.head)
			}
		}
	}
}

func (x *explorer) checkObjects(w *world) {
	if w.head == nil {
		return
	}
	for _, id := range w.head.objects {
		if !w.has(id) {
			x.fail("DANGLING", "the manifest names %s, which is not there", x.byID[id-1])
		}
	}
}

// checkEnd checks a state after which nothing can happen.
func (x *explorer) checkEnd(w *world) {
	for p := range x.cfg.actors {
		if s := &w.procs[p]; s.pc != pcDone && s.pc != pcWait {
			x.fail("STUCK", "%s does nothing any more", x.name(p))
		}
	}
}

// toldCommitted: count events from seq first on are the batch's.
func (x *explorer) toldCommitted(w *world, actor, batch int, first, count int64, duplicate bool) {
	what := "acknowledged"
	if duplicate {
		what = "duplicate"
	}
	x.reached[what]++
	b := x.cfg.actors[actor].batches[batch]
	if first < 0 || first+count > int64(len(w.log)) || count != int64(b.n) {
		x.fail("LOSTACK", "%s was told of %d events from seq %d on, the log has %q", x.name(actor), count, first, w.log)
		return
	}
	want := letter(actor, batch)
	if at := x.keyed(w.log, actor, batch); duplicate && at >= 0 {
		want = w.log[at]
	}
	if got := w.log[first : first+count]; got != strings.Repeat(string(want), b.n) {
		x.fail("LOSTACK", "%s was told that %c is at %d, where the log has %q", x.name(actor), letter(actor, batch), first, got)
	}
}

// toldNotCommitted: err is why, on the word of version v (nil: no read).
func (x *explorer) toldNotCommitted(w *world, actor, batch int, err error, v *version) {
	c := letter(actor, batch)
	if strings.IndexByte(w.log, c) >= 0 {
		x.fail("LIE", "%s was told that %c is not committed, and it is in the log", x.name(actor), c)
	}
	switch {
	case errors.Is(err, ErrFenced):
		x.reached["fenced"]++
		if len(w.owners) > 0 && int(w.owners[len(w.owners)-1]) == actor {
			x.fail("FALSEFENCE", "%s was told to be fenced and owns the log", x.name(actor))
		}
	case errors.Is(err, ErrDeleted):
		x.reached["deleted"]++
	case errors.Is(err, ErrExists):
		x.reached["exists"]++
	default:
		x.reached["not committed"]++
	}
	known := ""
	if v != nil {
		known = v.content
	}
	if v == w.head {
		known = w.log // also of a tombstone
	}
	if x.keyed(known, actor, batch) >= 0 {
		x.fail("KEYMISS", "%s was told that %c is not committed, and its key is in %s", x.name(actor), c, v)
	}
	w.denied |= bit(c)
}

// putManifest sends an actor's request, with every fault there is: the caller learns
// one reply in each successor. What is lost may arrive at any time, also at
// once, or never; a reply that is lost after the request took effect is the
// same as a request that is late and arrives at once.
func (x *explorer) putManifest(w *world, p int, reply func(n *world, v objstore.Version, err error)) {
	try := w.procs[p].try
	ok := w.holds(try)
	if n := x.copy(w); ok {
		x.apply(n, try)
		reply(n, try.next.head.Version, nil)
		x.emit(n, p, "sends, applied:", try)
	} else {
		reply(n, objstore.Version{}, objstore.ErrPrecondition)
		x.emit(n, p, "sends, 412:", try)
	}
	if w.faults == 0 {
		return
	}
	fault := func(err error, what string, late bool) {
		n := x.copy(w)
		n.faults--
		if late && (ok || x.cfg.removal) { // else it can never take effect
			n.fly(try)
		}
		reply(n, objstore.Version{}, err)
		x.emit(n, p, what, try)
	}
	lost := objstore.ErrUndecided
	if x.cfg.broken.landed503 {
		lost = objstore.ErrConflict
	}
	fault(lost, "sends, no reply, late:", true)
	if ok {
		n := x.copy(w)
		n.faults--
		x.apply(n, try)
		reply(n, objstore.Version{}, objstore.ErrPrecondition)
		x.emit(n, p, "sends, applied, its copy is answered 412:", try)
	}
	if x.cfg.untold {
		fault(nil, "sends, somebody else says 200:", false)
		if ok {
			n := x.copy(w)
			n.faults--
			x.apply(n, try)
			reply(n, objstore.Version{}, nil)
			x.emit(n, p, "sends, applied, 200 without a version:", try)
		}
	}
	fault(objstore.ErrConflict, "sends, 409:", false)
	fault(objstore.ErrDenied, "sends, 403:", false)
	if ok && x.cfg.overlap {
		fault(objstore.ErrConflict, "sends, its copy is answered 409, late:", true)
	}
}

// arrivals lets every late request arrive that would take effect.
func (x *explorer) arrivals(w *world) {
	for i, f := range w.flights {
		if f == nil || !w.holds(f) || i > 0 && w.flights[i-1] == f {
			continue
		}
		n := x.copy(w)
		n.land(i)
		x.apply(n, f)
		x.emit(n, f.actor, "late request arrives:", f)
	}
}

// strays lets late requests for segments arrive.
func (x *explorer) strays(w *world) {
	for _, id := range ids(w.astray) {
		n := x.copy(w)
		n.astray = without(n.astray, id)
		x.put(n, x.byID[id-1])
		x.emit(n, -1, "late PUT arrives:", x.byID[id-1])
	}
	for _, id := range ids(w.deletes) {
		n := x.copy(w)
		n.deletes = without(n.deletes, id)
		x.delete(n, id)
		x.emit(n, -1, "late DELETE arrives:", x.byID[id-1])
	}
}

// clock is the store's clock.
func (x *explorer) clock(w *world) int64 { return storeTime + hour*int64(w.tick) }

// hours go by.
func (x *explorer) hours(w *world) {
	if w.tick < x.cfg.hours {
		n := x.copy(w)
		n.tick++
		x.emit(n, -1, "an hour goes by", nil)
	}
}

// removals are what no program may ever do.
func (x *explorer) removals(w *world) {
	if !x.cfg.removal || w.head == nil || w.head.record().State == StateOpen || w.faults == 0 {
		return
	}
	n := x.copy(w)
	n.faults--
	n.buried = w.head.record().UID
	n.head, n.log, n.owners = nil, "", ""
	x.reached["removed a "+string(w.head.record().State)]++
	x.emit(n, -1, "somebody removes the "+string(w.head.record().State), nil)
}
