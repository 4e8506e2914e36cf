package backend

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// play is one schedule being played: a store that answers one request at a
// time, when the schedule says so and as it says, and the processes that send
// them. One goroutine runs at a time: the schedule's, or that of the process
// whose request was just answered, until it sends the next.
type play struct {
	cfg     *seedConfig
	reached map[string]int
	codec   *segment.Codec

	objects  map[string]*stored
	versions int
	late     []*request // that may still arrive
	faults   int        // how many are left
	procs    []*process
	over     bool // no request is answered any more

	// What only the checks see.
	broken  string
	writers map[string]string // id of a writer: which operation it belongs to
	births  map[string]string // uid of a log: which operation created it
	landed  map[opID]int      // commits of an operation that took effect
}

// opID is an operation of a process: the n-th thing that it does.
type opID struct{ proc, n int }

func (o opID) String() string {
	if o.proc == past {
		return "past"
	}
	return fmt.Sprintf("P%d.%d", o.proc, o.n)
}

// past is the process that wrote what a config begins with.
const past = -1

// stored is one state of an object.
type stored struct {
	key     string
	body    []byte
	meta    map[string]string
	version objstore.Version
	rec     *manifest.Record // of a manifest
	lines   [][]byte         // events of a segment, or of the log that a manifest leads to
	canon   uint64           // equal where nothing but random ids and times differ
	text    string
}

func (s *stored) number() uint64 {
	if s == nil {
		return 1
	}
	return s.canon
}

func (s *stored) String() string {
	if s == nil {
		return "nothing"
	}
	return s.text
}

// request is a call that waits for its answer.
type request struct {
	p    *process
	op   opID
	put  bool
	new  bool // not a repetition
	key  string
	cond objstore.Condition
	next *stored // what a Put writes
	base uint64  // what it is conditioned on
}

type reply struct {
	obj *stored
	err error
}

// process is one program, and the store as it sees it.
type process struct {
	w    *play
	n    int
	run  func(*process)
	free bool // requests are answered at once, and right

	parked chan struct{} // it has sent a request, or has ended
	wake   chan reply
	req    *request // nil: it has ended
	seen   uint64   // stands for all that it can know
	body   *byte    // of what it sent last
	open   bool     // one of the replies to that left it open what became of it

	op      int // the operation in hand
	sent    int // manifests that it has sent
	faulted bool
	found   *stored // the first manifest that it read
	settles bool    // it asks what became of the one before

	denied uint16 // operations that it was told are not committed
}

// isDenied reports whether somebody was told that an operation is not committed,
// and so never may be.
func (w *play) isDenied(o opID) bool {
	return o.proc != past && w.procs[o.proc].denied>>o.n&1 == 1
}

func (p *process) deny(o opID) { p.denied |= 1 << o.n }

func (p *process) id() opID { return opID{p.n, p.op} }

// begin notes that another operation begins.
func (p *process) begin() {
	p.op++
	p.sent, p.faulted, p.found, p.settles = 0, false, nil, false
}

func (p *process) backend() *Backend {
	return New(p, Options{Foreground: true, MinBackoff: 1, MaxBackoff: 1, Label: fmt.Sprint("P", p.n)})
}

// ask waits for the answer to a request.
func (p *process) ask(r *request) reply {
	if p.w.over {
		return reply{err: objstore.ErrDenied}
	}
	p.req = r
	p.parked <- struct{}{}
	return <-p.wake
}

func (p *process) Get(_ context.Context, key string, _ objstore.GetOptions) (objstore.Object, error) {
	if p.w.over {
		return objstore.Object{}, &objstore.Error{Op: "Get", Key: key, Class: objstore.ErrDenied}
	}
	rep := reply{obj: p.w.objects[key]}
	// A segment never changes: when it is read makes no difference.
	if !p.free && strings.HasPrefix(key, "manifests/") {
		rep = p.ask(&request{p: p, op: p.id(), key: key})
		if p.found == nil {
			p.found = rep.obj
		}
	}
	if rep.err == nil && rep.obj == nil {
		rep.err = objstore.ErrNotExist
	}
	if rep.err != nil {
		return objstore.Object{}, &objstore.Error{Op: "Get", Key: key, Class: rep.err}
	}
	return objstore.Object{Body: rep.obj.body, Info: objstore.Info{
		Key: key, Size: int64(len(rep.obj.body)), Version: rep.obj.version, Metadata: rep.obj.meta,
	}}, nil
}

func (p *process) Put(_ context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	if p.w.over {
		return objstore.Info{}, &objstore.Error{Op: "Put", Key: key, Class: objstore.ErrDenied}
	}
	r := &request{p: p, op: p.id(), put: true, key: key, cond: cond, base: p.w.objects[key].number()}
	r.new = p.body != &body[0]
	p.body = &body[0]
	if b := p.w.cfg.broken.body; b != nil && !p.free && strings.HasPrefix(key, "manifests/") {
		body, opt.Metadata = b(p.w.objects[key], body), nil
	}
	r.next = p.w.store(r, key, slices.Clone(body), opt.Metadata)
	var rep reply
	switch early := p.w.cfg.broken.childFirst; {
	case p.free:
		p.w.apply(r)
		rep.obj = r.next
	case early && !strings.HasPrefix(key, "manifests/"):
		p.w.late = append(p.w.late, r) // goes out later, if at all
		rep.obj = r.next
	default:
		rep = p.ask(r)
	}
	if rep.err != nil {
		return objstore.Info{}, &objstore.Error{Op: "Put", Key: key, Class: rep.err}
	}
	return objstore.Info{Key: key, Size: int64(len(body)), Version: rep.obj.version}, nil
}

func (p *process) Head(context.Context, string) (objstore.Info, error) {
	return objstore.Info{}, errors.ErrUnsupported
}

func (p *process) List(context.Context, string, string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) { yield(objstore.Info{}, errors.ErrUnsupported) }
}

func (p *process) Delete(context.Context, string) error { return errors.ErrUnsupported }

// store makes the state that an object will have.
func (w *play) store(r *request, key string, body []byte, meta map[string]string) *stored {
	w.versions++
	s := &stored{key: key, body: body, meta: meta, version: objstore.NewVersion(fmt.Sprint("v", w.versions))}
	var canon []byte
	if strings.HasPrefix(key, "manifests/") {
		canon = w.readManifest(r, s)
	} else {
		canon = w.readSegment(r, s)
	}
	s.text = string(canon)
	s.canon = maphash.Bytes(theSeed, canon)
	return s
}

var theSeed = maphash.MakeSeed()

func (w *play) readSegment(r *request, s *stored) []byte {
	seg, err := segment.OpenBytes(w.codec, s.body)
	if err != nil {
		w.fail("INTERNAL", "a segment that was written cannot be read: %v", err)
		return nil
	}
	first := seg.Index().First
	for line, err := range seg.Lines(first) {
		if err != nil {
			w.fail("INTERNAL", "a segment that was written cannot be read: %v", err)
			return nil
		}
		s.lines = append(s.lines, line)
	}
	// Its name without what is random.
	name := s.key[strings.LastIndexByte(s.key, '/')+1 : strings.LastIndexByte(s.key, '-')]
	return fmt.Appendf(nil, "segment %s of %s: %s", name, r.op, letters(s.lines))
}

func (w *play) readManifest(r *request, s *stored) []byte {
	rec, err := manifest.Decode(s.body)
	if err != nil {
		w.fail("INTERNAL", "a manifest that was written cannot be read: %v", err)
		return nil
	}
	s.rec = rec
	if _, known := w.writers[rec.Commit.Writer]; !known {
		w.writers[rec.Commit.Writer] = r.op.String()
	}
	if rec.UID == rec.Commit.ID {
		w.births[rec.UID] = r.op.String()
	}
	b := fmt.Appendf(nil, "%s %s r%d e%d", rec.Log, rec.State, rec.Revision, rec.Epoch)
	if rec.State != manifest.StateOpen {
		return b
	}
	for _, ref := range rec.Segments {
		// One that is not there is found when this takes effect.
		o := w.objects[manifest.SegmentKey(rec.Log, ref.Name)]
		for j := range w.late {
			if o == nil && w.late[j].key == manifest.SegmentKey(rec.Log, ref.Name) {
				o = w.late[j].next
			}
		}
		b = fmt.Appendf(b, " (%d+%d, e%d)", ref.Name.First, ref.Count, ref.Name.Epoch)
		if o != nil {
			s.lines = append(s.lines, o.lines...)
		}
	}
	t, err := readTail(w.codec, rec)
	if err != nil {
		w.fail("INTERNAL", "a tail that was written cannot be read: %v", err)
		return nil
	}
	for _, f := range t.frames {
		for line := range segment.Lines(f.raw) {
			s.lines = append(s.lines, line)
		}
	}
	b = fmt.Appendf(b, " of %s by", w.births[rec.UID])
	for _, g := range rec.Generations {
		b = fmt.Appendf(b, " %s/%s@%d", w.writers[g.Writer], g.Kind, g.First)
	}
	for _, k := range rec.Keys {
		b = fmt.Appendf(b, " key@%d", k.First)
	}
	return append(append(b, ' '), letters(s.lines)...)
}

// short are event types in traces: what else there is are batches, by name.
var short = map[string]string{
	segment.TypeEndSeed: "#", segment.TypeTurnStart: "(", segment.TypeTurnEnd: ")",
	segment.TypeCompactionStart: "[", segment.TypeCompactionEnd: "]",
}

// letters shows events without their times.
func letters(lines [][]byte) (s []byte) {
	for _, line := range lines {
		e, err := segment.ParseEvent(line, segment.Limits{})
		if err != nil {
			return fmt.Appendf(s, "{%v}", err)
		}
		if c, ok := short[e.Type]; ok {
			s = append(s, c...)
			continue
		}
		s = append(append(append(s, '<'), e.Data...), '>')
	}
	return s
}

// holds reports whether a request's condition holds now.
func (w *play) holds(r *request) bool {
	o := w.objects[r.key]
	if r.cond.Absent() {
		return o == nil
	}
	return o != nil && o.version == r.cond.Match()
}

// apply makes a request take effect.
func (w *play) apply(r *request) {
	prev := w.objects[r.key]
	if r.next.rec != nil {
		w.checkCommit(prev, r)
		w.landed[r.op]++
	}
	w.objects[r.key] = r.next
	// What can never take effect any more is not kept.
	w.late = slices.DeleteFunc(w.late, func(f *request) bool { return !w.holds(f) })
}

func (w *play) fail(class, format string, args ...any) {
	if w.broken == "" && !w.over {
		w.broken = class + ": " + fmt.Sprintf(format, args...)
	}
}

func (w *play) head(log string) *stored { return w.objects[manifest.Key(log)] }
