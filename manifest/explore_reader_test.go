package manifest

import "fmt"

// A reader reads the manifest and then its segments, one by one. Where one is
// not there it reads the manifest again, as package backend does, and goes on
// where it was.

// reads reads the manifest, for the first time or again.
func (x *explorer) reads(w *world, p int) {
	n := x.copy(w)
	s := &n.procs[p]
	if s.base != nil {
		x.checkRereads(w, p, s.base, x.byID[s.missing-1])
	}
	s.base, s.since = w.head, w.tick
	x.goesOn(n, p)
	x.emit(n, p, "reads", w.head)
}

// checkRereads checks what a reader finds that read before, and did not find one
// of its segments.
func (x *explorer) checkRereads(w *world, p int, before *version, missing *object) {
	r := w.head.record()
	switch {
	case r == nil && !x.cfg.removal:
		x.fail("IMPOSSIBLE", "%s read %s, and now there is nothing", x.name(p), before)
	case r == nil || r.State == StateDeleted:
		x.reached["deleted under a reader"]++
	case w.head == before || r.names(missing.upload.Ref.Name):
		x.fail("DAMAGE", "%s does not find %s, which %s names", x.name(p), missing, w.head)
	default:
		x.reached["replaced under a reader"]++
	}
}

// goesOn lets a reader read its next segment, or end.
func (x *explorer) goesOn(n *world, p int) {
	s := &n.procs[p]
	s.pc, s.missing = pcRead, 0
	if r := s.base.record(); r == nil || r.State != StateOpen || int64(s.at) >= r.TailFirst() {
		x.done(s)
	}
}

// fetches reads the segment that holds the next event.
func (x *explorer) fetches(w *world, p int) {
	n := x.copy(w)
	s := &n.procs[p]
	var o *object
	for _, id := range s.base.objects {
		if x.byID[id-1].upload.end() > int64(s.at) {
			o = x.byID[id-1]
			break
		}
	}
	if w.has(o.id) {
		x.reached["read a segment"]++
		s.at = uint8(o.upload.end())
		x.goesOn(n, p)
		x.emit(n, p, "reads", o)
		return
	}
	s.missing, s.pc = o.id, pcOpen
	if took := w.tick - s.since; x.cfg.grace > 0 && took+w.slow < x.cfg.grace {
		x.fail("READ404", "%s does not find %s, %d hours after it read %s", x.name(p), o, took, s.base)
	}
	x.emit(n, p, fmt.Sprintf("does not find segment %d", o.id), nil)
}
