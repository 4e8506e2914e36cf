package manifest

// background uploads what a later commit may name.
func (x *explorer) background(w *world, p int) {
	a, s := &x.cfg.actors[p], &w.procs[p]
	if x.cfg.broken.foreign && a.role == writer && s.pc == pcReady {
		x.finds(w, p)
	}
	if a.role != writer || !s.owned || s.pc != pcReady && s.pc != pcAttempt || int(s.made) >= a.seals+a.merges {
		return
	}
	base := s.base.record()
	if tail := s.base.tail(); a.seals > 0 && tail != "" && s.ups[0] == nil {
		o := x.object(p, int(s.made), Upload{TailFirst: base.TailFirst()}, base.Epoch, base.TailFirst(), tail)
		x.uploads(w, p, 0, o)
	}
	if a.merges > 0 && len(base.Segments) > 1 && s.ups[1] == nil {
		x.uploads(w, p, 1, x.merge(p, int(s.made), s.base, base.Epoch, false))
	}
}

func (x *explorer) uploads(w *world, p, place int, o *object) {
	n := x.copy(w)
	x.put(n, o)
	n.procs[p].made++
	n.procs[p].ups[place] = o
	x.emit(n, p, "uploads", o)
	if w.faults == 0 || !x.cfg.astray {
		return
	}
	for _, fails := range []bool{true, false} {
		n := x.copy(w)
		n.faults--
		n.astray = with(n.astray, o.id)
		n.procs[p].made++
		if fails {
			x.emit(n, p, "uploads, no reply, late:", o)
			continue
		}
		x.put(n, o)
		n.procs[p].ups[place] = o
		x.emit(n, p, "uploads, a copy is late:", o)
	}
}

// finds lets a writer take for its own what another has uploaded (no rule of
// ours).
func (x *explorer) finds(w *world, p int) {
	for _, id := range ids(w.objects) {
		if o := x.byID[id-1]; w.procs[p].ups[0] == nil && o.upload.Ref.Name.Nonce[0] != byte(p) && !w.head.record().names(o.upload.Ref.Name) {
			n := x.copy(w)
			n.procs[p].ups[0] = o
			x.emit(n, p, "finds", o)
		}
	}
}

// put puts a segment on the store.
func (x *explorer) put(w *world, o *object) {
	w.objects = with(w.objects, o.id)
	if x.cfg.stale {
		w.ever = with(w.ever, o.id)
	}
}

// merge joins all segments of v, and the tail, too, if tail is set.
func (x *explorer) merge(p, made int, v *version, epoch uint32, tail bool) *object {
	r := v.record()
	u := Upload{TailFirst: -1}
	for _, ref := range r.Segments {
		u.Inputs = append(u.Inputs, ref.Name)
	}
	content := v.content[:r.TailFirst()]
	if tail && v.tail() != "" {
		u.TailFirst, content = r.TailFirst(), v.content
	}
	return x.object(p, made, u, epoch, 0, content)
}
