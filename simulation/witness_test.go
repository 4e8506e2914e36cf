package simulation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// witness sees every write take effect, and keeps what each log has been at
// every moment. It calls what must not be by the words of the explorers:
//
//	LIE        told "not committed", yet in the log, then or later
//	LOSTACK    acknowledged, yet not in the log at that place; or events are gone
//	TWICE      events are in the log twice
//	ORDER      events of a caller, or of a handle, are not in the order of its calls
//	KEYMISS    sent, and told that it is not in the log, although its key was there
//	HOLE       a later append of a handle is in the log, an earlier one is not
//	PHANTOM    events in the log that nobody appended
//	FENCE      a writer that was replaced commits
//	FALSEFENCE told "fenced", and nobody has replaced it
//	OWNER      two writers commit in one generation, or maintenance changes the owner
//	LEASE      a writer was replaced that held a lease, by one that may not do so
//	CHAIN      revision, epoch, generation or next do not follow the version before
//	SEED       closers or boundary are not those of what was there
//	BRACKET    a bracket was opened in one step with a look, and one was open
//	NAMES      a segment is named that may not be
//	DANGLING   a segment is named that is not there, or deleted while it is named
//	MISMATCH   a segment or tail holds other events than the log
//	BARRIER    behind a barrier the objects may still not go for which it was made
//	RETIRED    a segment was replaced and is not listed as such
//	STATE      the manifest's projections are not those of its events
//	CHILD      a fork is not its parent's beginning and a boundary
//	STALE      a reader saw what was not there while it read, or was no log's beginning
//	DAMAGE     a reader or verifier found damage
//	UNCLEAR    told that something is unknown, or failed, although nothing struck
//	INTERNAL   an error that must not be
//	CONTRACT   the store's contract was broken
type witness struct {
	r     *run
	codec *segment.Codec

	logs     map[string]*record // by id
	uploads  map[string]*port   // who has uploaded a segment
	names    map[string]string  // names of segments without what is random
	versions map[string]string  // names of versions in traces
	landed   map[string]bool    // commits that took effect
	refuted  map[string]string  // commits of which somebody was told that they did not
	gentle   map[string]bool    // writers that may not replace the holder of a lease
}

// record is the history of one id.
type record struct {
	lines     [][]byte // of the log that is there; they only become more
	inherited int      // of them
	tags      map[string]int64
	fold      *manifest.Fold
	versions  []version
	owners    map[string]bool // writers that have ever owned it
	named     map[string]bool // segments that were ever named
}

// version is one state of a manifest.
type version struct {
	at  time.Time
	rec *manifest.Record
}

func newWitness(r *run) *witness {
	return &witness{
		r: r, codec: segment.NewCodec(), logs: map[string]*record{}, uploads: map[string]*port{}, names: map[string]string{},
		versions: map[string]string{}, landed: map[string]bool{}, refuted: map[string]string{}, gentle: map[string]bool{},
	}
}

func (w *witness) log(id string) *record {
	l := w.logs[id]
	if l == nil {
		l = &record{tags: map[string]int64{}, owners: map[string]bool{}, named: map[string]bool{}}
		w.logs[id] = l
	}
	return l
}

// newest is the manifest that is there, nil if there is none.
func (l *record) newest() *manifest.Record {
	if len(l.versions) == 0 {
		return nil
	}
	return l.versions[len(l.versions)-1].rec
}

// lastOpen is the newest manifest that was not that of a tombstone or a void, nil
// if there never was one.
func (l *record) lastOpen() *manifest.Record {
	for _, v := range slices.Backward(l.versions) {
		if v.rec.State == manifest.StateOpen {
			return v.rec
		}
	}
	return nil
}

// upload sees a segment appear.
func (w *witness) upload(p *port, key string) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.uploads[key] = p
	if _, again := w.names[key]; !again {
		w.names[key] = fmt.Sprintf("%s~%d", key[:strings.LastIndexByte(key, '-')], len(w.names))
	}
}

// masked is a key without what is random in it: for a segment that has arrived
// how many had before, for one that is on its way nothing.
func (r *run) masked(key string) string {
	if isManifest(key) || !strings.HasPrefix(key, manifest.SegmentTree) || !strings.HasSuffix(key, ".zst") {
		return key
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if name, ok := r.witness.names[key]; ok {
		return name
	}
	return key[:strings.LastIndexByte(key, '-')]
}

// delete sees an object go.
func (w *witness) delete(key string) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.r.count("objects deleted", 1)
	if w.r.ends.Err() == nil {
		w.r.count("objects deleted beside others", 1)
	}
	grace := w.r.plan.grace
	if grace == 0 {
		grace = backend.DefaultGrace
	}
	for id, l := range w.logs {
		rec := l.newest()
		if rec == nil {
			continue
		}
		for _, s := range rec.Segments {
			if manifest.SegmentKey(id, s.Name) == key {
				w.r.fail("DANGLING", "%s is deleted, and revision %d names it", key, rec.Revision)
			}
		}
		// Readers of older manifests may still look for what one of those named. What
		// none did goes as soon as none can, also when the log is deleted meanwhile.
		last := l.lastOpen()
		if last == nil {
			continue
		}
		for _, s := range last.Segments {
			if rec.State == manifest.StateDeleted && manifest.SegmentKey(id, s.Name) == key && w.tooEarly(rec.Commit.At, grace) {
				w.r.fail("DANGLING", "%s is deleted %v after its log was", key, time.Since(time.UnixMilli(rec.Commit.At)))
			}
		}
		for _, s := range last.Retired {
			if manifest.SegmentKey(id, s.Name) == key && w.tooEarly(s.At, grace) {
				w.r.fail("DANGLING", "%s is deleted %v after it was replaced", key, time.Since(time.UnixMilli(s.At)))
			}
		}
	}
}

// tooEarly reports whether the grace since a time is not over, where clocks can
// tell.
func (w *witness) tooEarly(at int64, grace time.Duration) bool {
	return w.r.plan.jumps == 0 && time.Since(time.UnixMilli(at)) < grace-2*time.Second
}

// commit sees a manifest take effect.
func (w *witness) commit(p *port, key string, body []byte, v objstore.Version) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	rec, err := manifest.Decode(body)
	if err == nil {
		err = rec.Validate()
	}
	if err == nil && manifest.Key(rec.Log) != key {
		err = fmt.Errorf("it is that of log %q", rec.Log)
	}
	if err != nil {
		w.r.fail("INTERNAL", "%s: %v", key, err)
		return
	}
	w.versions[v.Token()] = fmt.Sprintf("%s:%d", rec.Log, rec.Revision)
	l := w.log(rec.Log)
	base := l.newest()
	if base != nil && base.State != manifest.StateOpen && rec.UID != base.UID {
		fresh := &record{tags: map[string]int64{}, owners: map[string]bool{}, named: l.named, versions: l.versions}
		w.logs[rec.Log], l = fresh, fresh
	}
	c := &change{w: w, p: p, l: l, base: base, rec: rec}
	c.check()
	l.versions = append(l.versions, version{time.Now(), rec})
	w.landed[rec.Commit.ID] = true
	if why, lie := w.refuted[rec.Commit.ID]; lie {
		w.r.fail("LIE", "revision %d of %s takes effect, and %s", rec.Revision, rec.Log, why)
	}
	w.r.count("commits", 1)
}

// refute notes that somebody was told that a commit is not in the log, and never
// will be.
func (w *witness) refute(commit, why string) {
	if w.refuted[commit] = why; w.landed[commit] {
		w.r.fail("LIE", "commit %s is in the log, and %s", commit, why)
	}
}

// change is one commit being checked.
type change struct {
	w    *witness
	p    *port
	l    *record
	base *manifest.Record // nil: nothing was there
	rec  *manifest.Record
	old  int // events before it
}

func (c *change) fail(class, format string, args ...any) {
	c.w.r.fail(class, "%s commits revision %d of %s: %s", c.p.name, c.rec.Revision, c.rec.Log, fmt.Sprintf(format, args...))
}

func (c *change) check() {
	c.chain()
	if c.rec.State == manifest.StateVoid {
		return
	}
	c.owner()
	if c.rec.State == manifest.StateDeleted {
		c.w.r.count("deleted", 1)
		return
	}
	c.old = len(c.l.lines)
	if c.names() && c.events() {
		c.origins()
		c.seed()
		c.state()
	}
}

// chain: the counters follow those of the version before.
func (c *change) chain() {
	b, n := c.base, c.rec
	if b == nil {
		if n.Revision != 1 || n.Generation() > 1 {
			c.fail("CHAIN", "the first of all is of generation %d", n.Generation())
		}
		return
	}
	switch taken := n.Generation() > b.Generation(); {
	case n.Revision != b.Revision+1:
		c.fail("CHAIN", "it follows revision %d", b.Revision)
	case n.Epoch < b.Epoch || taken && n.Epoch == b.Epoch:
		c.fail("CHAIN", "epoch %d of generation %d follows epoch %d of generation %d", n.Epoch, n.Generation(), b.Epoch, b.Generation())
	case b.State == manifest.StateVoid:
	case n.UID != b.UID:
		c.fail("CHAIN", "another log takes the place of one")
	case n.Next < b.Next, n.Generation() < b.Generation(), n.Generation() > b.Generation()+1:
		c.fail("CHAIN", "next %d, generation %d after next %d, generation %d", n.Next, n.Generation(), b.Next, b.Generation())
	case b.State == manifest.StateDeleted && n.State != manifest.StateDeleted:
		c.fail("CHAIN", "a deleted log rises")
	}
	if c.w.landed[n.Commit.ID] {
		c.fail("CHAIN", "its commit id was there before")
	}
}

// owner: within a generation its owner alone appends; maintenance changes
// nothing of who owns it; whoever was replaced never comes back.
func (c *change) owner() {
	b, n := c.base, c.rec
	by := n.Commit.Writer
	if b == nil || n.Generation() != b.Generation() {
		last := n.Generations[len(n.Generations)-1]
		first := int64(0)
		if b != nil {
			first = b.Next
		}
		switch {
		case n.Owner.Writer != by:
			c.fail("OWNER", "%s makes %s the owner", by, n.Owner.Writer)
		case c.l.owners[by]:
			c.fail("FENCE", "%s owned it before, and takes it over again", by)
		case last.First != first:
			c.fail("OWNER", "its generation is said to begin at %d, the log ended at %d", last.First, first)
		}
		if b != nil && b.Lease != nil && c.w.gentle[by] && c.w.r.plan.jumps == 0 && time.Now().Before(time.UnixMilli(b.Lease.Until)) {
			c.fail("LEASE", "%s takes it over from %s, whose lease ends in %v", by, b.Owner.Writer, time.Until(time.UnixMilli(b.Lease.Until)))
		}
		c.l.owners[by] = true
		c.w.r.count("takeover: "+last.Kind, 1)
		return
	}
	was, is := *b.Owner, *n.Owner
	if is.Writer != was.Writer || is.Generation != was.Generation {
		c.fail("OWNER", "owner %+v becomes %+v without a takeover", was, is)
	}
	if by == was.Writer {
		return
	}
	c.w.r.count("maintenance", 1)
	switch {
	case c.l.owners[by]:
		c.fail("FENCE", "%s was replaced, and commits in a generation of %s", by, was.Writer)
	case n.Next != b.Next, n.Content.Tree.Root != b.Content.Tree.Root, is != was, !reflect.DeepEqual(n.Lease, b.Lease):
		c.fail("OWNER", "%s is not the owner, and changes events, owner or lease", by)
	}
}

// names: what is newly named was uploaded by whoever names it, for this epoch,
// is there, and was never named before; what is not named any more is retired.
func (c *change) names() bool {
	named := func(r *manifest.Record, n manifest.Name) bool {
		return r != nil && slices.ContainsFunc(r.Segments, func(s manifest.SegmentRef) bool { return s.Name == n })
	}
	for _, s := range c.rec.Segments {
		if named(c.base, s.Name) {
			continue
		}
		key := manifest.SegmentKey(c.rec.Log, s.Name)
		switch {
		case c.w.uploads[key] == nil:
			c.fail("DANGLING", "it names %s, which was never uploaded", key)
			return false
		case c.w.uploads[key] != c.p:
			c.fail("NAMES", "it names %s, which was uploaded by %s", key, c.w.uploads[key].name)
		case s.Name.Epoch != c.rec.Epoch:
			c.fail("NAMES", "it names %s, and its own epoch is %d", key, c.rec.Epoch)
		case c.l.named[key]:
			c.fail("NAMES", "it names %s, which was named before and replaced", key)
		}
		c.l.named[key] = true
		c.w.r.count("segments named", 1)
	}
	if c.base == nil || c.base.State != manifest.StateOpen {
		return true
	}
	for _, s := range c.base.Segments {
		if named(c.rec, s.Name) {
			continue
		}
		c.w.r.count("segments replaced", 1)
		if !slices.ContainsFunc(c.rec.Retired, func(t manifest.Retired) bool { return t.Name == s.Name }) {
			c.fail("RETIRED", "%s is neither named any more nor retired", s.Name)
		}
	}
	return true
}

// events: segments and tail hold the events that were there, and new ones behind
// them. The log grows by those.
func (c *change) events() bool {
	at := int64(0)
	take := func(what string, line []byte) bool {
		switch {
		case at < int64(len(c.l.lines)) && !bytes.Equal(c.l.lines[at], line):
			c.fail("MISMATCH", "%s holds at seq %d %.200s, which was %.200s", what, at, line, c.l.lines[at])
			return false
		case at == int64(len(c.l.lines)):
			c.l.lines = append(c.l.lines, bytes.Clone(line))
		}
		at++
		return true
	}
	for _, s := range c.rec.Segments {
		if c.base != nil && slices.Contains(c.base.Segments, s) {
			at = s.Name.First + s.Count
			continue
		}
		key := manifest.SegmentKey(c.rec.Log, s.Name)
		obj, err := c.w.r.service.mem.Get(context.Background(), key, objstore.GetOptions{})
		if err != nil {
			c.fail("DANGLING", "it names %s: %v", key, err)
			return false
		}
		if sha256.Sum256(obj.Body) != s.SHA256 {
			c.fail("MISMATCH", "%s has another hash than the manifest says", key)
			return false
		}
		seg, err := segment.OpenBytes(c.w.codec, obj.Body)
		if err != nil {
			c.fail("MISMATCH", "%s: %v", key, err)
			return false
		}
		for line, err := range seg.Lines(s.Name.First) {
			if err != nil {
				c.fail("MISMATCH", "%s: %v", key, err)
				return false
			}
			if !take(key, line) {
				return false
			}
		}
		if at != s.Name.First+s.Count {
			c.fail("MISMATCH", "%s ends before seq %d, the manifest says %d", key, at, s.Name.First+s.Count)
			return false
		}
	}
	if c.base == nil || c.base.TailFirst() != at || !bytes.Equal(c.base.Tail, c.rec.Tail) {
		raw, err := c.w.codec.DecodeFrames(c.rec.Tail, 64<<20)
		if err != nil {
			c.fail("MISMATCH", "its tail: %v", err)
			return false
		}
		for line, err := range segment.Lines(raw) {
			if err != nil || !take("its tail", line) {
				return false
			}
		}
	} else {
		at = c.base.Next
	}
	if at != c.rec.Next || at != int64(len(c.l.lines)) {
		c.fail("LOSTACK", "it holds %d events, says %d, and there were %d", at, c.rec.Next, c.old)
		return false
	}
	return true
}

// added are the lines that this commit brings.
func (c *change) added() [][]byte { return c.l.lines[c.old:] }

// state: the manifest says of its events what they say.
func (c *change) state() {
	if c.l.fold == nil {
		from := segment.NewState()
		// The activity before the first prompt is the header's, and places may be
		// reserved for types: the first version says so itself.
		from.Activity = headerActivity(c.rec)
		fold, err := manifest.NewFold(from, c.rec.ActivityRule)
		if err != nil {
			c.fail("INTERNAL", "%v", err)
			return
		}
		c.l.fold = fold
	}
	for _, line := range c.l.lines[c.l.fold.Size():] {
		ev, err := segment.ParseEvent(line, segment.Limits{MaxEvent: segment.MaxFrameRaw})
		if err != nil || ev.Seq != c.l.fold.Size() {
			c.fail("MISMATCH", "%.200s: %v", line, err)
			return
		}
		c.l.fold.Add(ev)
	}
	if got, want := c.rec.Content, c.l.fold.State(); !reflect.DeepEqual(got, want) {
		c.fail("STATE", "%+v, its events say %+v", got, want)
	}
}

// headerActivity is the activity of a log in which nobody has written: every
// header of a schedule says the same.
func headerActivity(rec *manifest.Record) *int64 {
	if rec.Header == nil {
		return nil
	}
	at := int64(createdAt)
	return &at
}

// tagOf is the tag of a line, empty if it has none.
func tagOf(line []byte) string {
	_, rest, _ := strings.Cut(string(line[:min(len(line), 200)]), `"tag":"`)
	tag, _, _ := strings.Cut(rest, `"`)
	return tag
}
