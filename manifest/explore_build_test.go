package manifest

import (
	"crypto/sha256"
	"fmt"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/segment"
)

// name of an actor in traces.
func (x *explorer) name(p int) string {
	if p < 0 {
		return "-"
	}
	return fmt.Sprintf("P%d", p)
}

// letter stands for the events of one batch.
func letter(actor, batch int) byte { return byte('A' + maxBatches*actor + batch) }

func batchOf(letter byte) (actor, batch int) {
	return int(letter-'A') / maxBatches, int(letter-'A') % maxBatches
}

func bit(letter byte) uint32 { return 1 << (letter - 'A') }

// event is what a letter stands for, at its place in the log.
func event(c byte, seq int64) segment.Event {
	line := fmt.Appendf(nil, `{"type":"note","seq":%d,"time":%d,"data":"%c"}`, seq, storeTime+int64(c), c)
	e, err := segment.ParseEvent(line, segment.Limits{})
	if err != nil {
		panic(err)
	}
	return e
}

// stateOf folds events from the beginning.
func (x *explorer) stateOf(letters string) segment.State {
	s, ok := x.contents[letters]
	if !ok {
		f, err := NewFold(segment.NewState(), RuleUserPrompt)
		if err != nil {
			panic(err)
		}
		for i := range len(letters) {
			f.Add(event(letters[i], int64(i)))
		}
		s = f.State()
		x.contents[letters] = s
	}
	return s
}

// version finds the version that a manifest's bytes are.
func (x *explorer) version(p *Proposal) *version {
	if v, ok := x.versions[string(p.Body)]; ok {
		x.records[p.Record] = v
		return v
	}
	r, err := Decode(p.Body)
	if err != nil {
		x.fail("INTERNAL", "a manifest that was proposed cannot be read: %v", err)
		r = p.Record
	}
	v := &version{id: len(x.versions) + 1}
	v.head = Head{Record: r, Version: objstore.NewVersion(fmt.Sprintf("v%d", v.id))}
	for _, ref := range r.Segments {
		o := x.objects[ref.Name]
		v.content += o.content
		v.objects = append(v.objects, o.id)
	}
	v.content += string(r.Tail)
	x.versions[string(p.Body)] = v
	x.records[r], x.records[p.Record] = v, v
	return v
}

// versionOf finds the version that a Head shows.
func (x *explorer) versionOf(h Head) *version {
	if h.Record == nil {
		return nil
	}
	return x.records[h.Record]
}

// prop keeps one prop for every request.
func (x *explorer) prop(actor int, base *version, p *Proposal, batch int, adds string, names []*object) *prop {
	next := x.version(p)
	k := propKey{actor, base.number(), next.id}
	q, ok := x.props[k]
	if !ok {
		q = &prop{id: len(x.props) + 1, p: p, base: base, next: next, actor: actor, batch: batch, adds: adds, names: names}
		q.tick = uint8((p.Record.Commit.At - storeTime) / hour)
		q.blind = x.cfg.broken.blind && actor < maxActors && x.cfg.actors[actor].role == collects
		if next.prev == nil {
			next.prev = base
		}
		q.text = fmt.Sprintf("%s %s on %s", p.Intent.Kind, p.Intent.Commit, base)
		if adds != "" {
			q.text += " adding " + adds
		}
		for _, o := range names {
			q.text += fmt.Sprintf(" naming %d", o.id)
		}
		x.props[k] = q
	}
	return q
}

// object is the segment that an actor's n-th upload makes. Its nonce is fresh,
// and the same wherever the actor does the same.
func (x *explorer) object(actor, n int, u Upload, epoch uint32, first int64, content string) *object {
	sum := sha256.Sum256(fmt.Append(nil, u.Inputs, u.TailFirst, u.Commit, content))
	name := Name{First: first, Epoch: epoch, Nonce: Nonce{byte(actor), byte(n), sum[0], sum[1], sum[2], sum[3], sum[4], sum[5]}}
	o, ok := x.objects[name]
	if !ok {
		size := int64(len(content))
		u.Ref = SegmentRef{Name: name, Count: size, Bytes: size, Raw: size, SHA256: sha256.Sum256([]byte(content))}
		o = &object{id: len(x.byID) + 1, upload: u, content: content}
		x.objects[name] = o
		x.byID = append(x.byID, o)
	}
	return o
}

// first is the state that a config begins with: what the actor past wrote, by
// the same transitions.
func (x *explorer) first() *world {
	w := &world{faults: x.cfg.faults}
	x.now = storeTime
	for i, c := range []byte(x.cfg.start) {
		x.commitID = fmt.Sprintf("past.%d", i)
		p, names, err := x.wrote(w, i, c)
		if err != nil {
			panic(err)
		}
		w.head = x.prop(past, w.head, p, -1, "", names).next
	}
	for p := range x.cfg.actors {
		x.begin(w, p)
	}
	return w
}

// wrote is the i-th commit of the actor past: an event into the tail, a seal of
// the tail, or a void.
func (x *explorer) wrote(w *world, i int, c byte) (*Proposal, []*object, error) {
	base, who := w.head.record(), Writer{ID: "past"}
	var d *Draft
	var err error
	switch {
	case c == '0':
		p, err := voidProposal(base, theLog, who, x.now)
		return p, nil, err
	case base.Generation() == 0:
		d, err = Create(base, who, Birth{Log: theLog, Origin: Origin{Kind: KindFresh}}, x.now)
		w.owners = string(rune(past))
	default:
		d, err = Continue(base, who, x.now)
	}
	if err != nil {
		return nil, nil, err
	}
	var names []*object
	tail := w.head.tail()
	if c == '|' {
		o := x.object(past, i, Upload{TailFirst: base.TailFirst()}, d.Epoch(), base.TailFirst(), tail)
		d.Seal(o.upload)
		x.put(w, o)
		names, tail = append(names, o), ""
	} else {
		d.Append(event(c, d.Next()))
		tail += string(c)
		w.log += string(c)
	}
	d.SetTail([]byte(tail))
	p, err := d.Finish()
	return p, names, err
}

// isPast reports whether a letter is of the events that a config begins with.
func isPast(c byte) bool { return c >= 'a' }
