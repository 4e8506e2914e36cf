package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
)

// book keeps what callers asked for, and what they were told. What it and the
// witness hold is guarded by run.mu.
type book struct {
	r       *run
	entries []*entry
	by      map[string][]*entry // by log and tag
}

// entry is one append, from the call to the last thing that its caller learned.
type entry struct {
	process, caller string
	port            *port
	log, writer     string // the handle that it went through
	tags            []string
	ends            []string // of the lines, which are stored as they are
	key             string
	expect          *int64
	bracket         bool
	n               int // of the handle's calls
	strikes         int // faults of the process when it began

	call, answered time.Time
	state          answerState
	receipt        backend.Receipt
	err            error
	word           string // for err
	decided        bool   // Decide said it
	replaced       bool   // somebody had replaced its handle when it began
}

type answerState uint8

const (
	waiting      answerState = iota // not answered yet, and so perhaps never
	acknowledged                    // it is in the log
	refused                         // it is not, and never will be
	unknown                         // nobody knows
)

func newBook(r *run) *book { return &book{r: r, by: map[string][]*entry{}} }

// begin notes a call.
func (b *book) begin(e *entry, h *handle) {
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	e.call, e.n = time.Now(), *h.calls
	*h.calls++
	l := b.r.witness.log(e.log)
	rec := l.newest()
	e.replaced = l.owners[e.writer] && rec != nil && rec.Owner != nil && rec.Owner.Writer != e.writer
	b.entries = append(b.entries, e)
	for _, tag := range e.tags {
		b.by[e.log+" "+tag] = append(b.by[e.log+" "+tag], e)
	}
}

// introduced: an event takes effect.
func (b *book) introduced(c *change, tag string) {
	var mine []*entry
	for _, e := range b.by[c.rec.Log+" "+tag] {
		if e.writer == c.rec.Commit.Writer {
			mine = append(mine, e)
		}
	}
	switch {
	case len(mine) == 0:
		c.fail("PHANTOM", "%s was not appended through it", tag)
	case !slices.ContainsFunc(mine, func(e *entry) bool { return e.state != refused }):
		c.fail("LIE", "its caller was told that %s is not in the log", tag)
	}
}

// word names what an append, or anything else, came to. An error that must never
// be has none.
func word(err error) string {
	for _, w := range words {
		if errors.Is(err, w.err) {
			return w.word
		}
	}
	return ""
}

var words = []struct {
	err  error
	word string
}{
	{backend.ErrOutcomeUnknown, "unknown"}, {backend.ErrFenced, "fenced"}, {backend.ErrHeld, "held"}, {backend.ErrExists, "exists"},
	{backend.ErrDeleted, "deleted"}, {backend.ErrNotFound, "not found"}, {backend.ErrSeqMismatch, "seq mismatch"},
	{backend.ErrKeyConflict, "key conflict"}, {backend.ErrInvalidEvent, "invalid"}, {backend.ErrClosed, "closed"},
	{backend.ErrOpenTurn, "open turn"}, {backend.ErrUnsupportedStore, "unsupported store"},
	{objstore.ErrRefused, "refused"}, {objstore.ErrRejected, "rejected"}, {backend.ErrCorrupt, ""}, {backend.ErrMissing, ""}, {backend.ErrRolledBack, ""},
	{context.DeadlineExceeded, "timed out"}, {context.Canceled, "cancelled"}, {objstore.ErrUndecided, "failed in passing"}, {objstore.ErrConflict, "failed in passing"},
}

// texts are what errors say that no sentinel tells apart.
var texts = map[string]string{"it was not tried again": "abandoned", "repeat the replay": "read once", "faster than a barrier can be made": "busy",
	"others changed what was being folded": "busy", "others, or the store, kept the manifest": "busy"}

// faulty are words for what must have a cause in the network, or in a context.
var faulty = []string{"unknown", "unsupported store", "refused", "rejected", "timed out", "cancelled", "failed in passing"}

// explained: an error is one that may be, and something struck where it needs
// that. what says who was told, struck how many faults had struck at the
// beginning, ends whether the context could have ended.
func (r *run) explained(p *port, what string, struck int, ends bool, err error) string {
	if err == nil {
		return "done"
	}
	if p.isDead() {
		return "died"
	}
	w := word(err)
	for text, is := range texts {
		if w == "" && strings.Contains(err.Error(), text) {
			w = is
		}
	}
	switch {
	case w == "":
		r.fail("INTERNAL", "%s was told %v", what, err)
	case slices.Contains(faulty, w) && p.struck() == struck && !ends:
		r.fail("UNCLEAR", "%s was told %v, and nothing has struck", what, err)
	case w == "unsupported store" && p.tornReads() < 4:
		r.fail("INTERNAL", "%s was told %v", what, err)
	}
	r.say(p.name, "%s: %v", what, err)
	return w
}

// answer notes what the caller of an append was told, and checks it.
func (b *book) answer(e *entry, ends bool, receipt backend.Receipt, err error) {
	what := fmt.Sprintf("%s append %q", e.caller, e.tags)
	e.word = b.r.explained(e.port, what, e.strikes, ends, err)
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	e.answered, e.err = time.Now(), err
	if e.replaced && !b.r.toldSo(e, ends, receipt) {
		b.r.fail("FENCE", "%s was told %v, %+v, and its handle had been replaced before", what, err, receipt)
	}
	switch {
	case e.port.isDead():
		return // nobody hears it
	case err == nil:
		b.ack(e, receipt)
	case errors.Is(err, backend.ErrOutcomeUnknown):
		e.state = unknown
		if backend.Token(err) == "" {
			b.r.fail("INTERNAL", "%s was told %v, without a token", what, err)
		}
	default:
		b.refuse(e)
		if errors.Is(err, backend.ErrFenced) {
			b.r.witness.fenced(e, err)
		}
		if _, judged := errors.AsType[*manifest.CommitError](err); judged && (e.word == "fenced" || e.word == "deleted") {
			b.r.witness.missed(e)
		}
	}
	b.r.count("append: "+e.word, 1)
}

// decided checks what Decide answered about a commit.
func (b *book) decided(who string, in manifest.Intent, d backend.Decision) {
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	switch {
	case !d.Committed:
		b.r.count("decided: not committed", 1)
		if in.Kind == manifest.IntentMaintain {
			return
		}
		b.r.witness.refute(in.Commit, who+" was told by Decide that it is not")
	case d.Duplicate:
		b.r.count("decided: duplicate", 1)
	default:
		b.r.count("decided: committed", 1)
		if !b.r.witness.landed[in.Commit] && !b.r.witness.holds(in, d.Receipt) {
			b.r.fail("LOSTACK", "%s was told by Decide that commit %s is in %s, which it is not", who, in.Commit, in.Log)
		}
	}
}

// settled notes what Decide answered about an append.
func (b *book) settled(e *entry, d backend.Decision) {
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	e.answered, e.decided = time.Now(), true
	if d.Committed {
		b.ack(e, d.Receipt)
		return
	}
	b.refuse(e)
	b.r.witness.missed(e)
}

// resumed checks the receipt of a resume.
func (b *book) resumed(p *process, r backend.Receipt) {
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	l := b.r.witness.log(p.part.log)
	if end := r.First + r.Count; r.Count > 0 && (end > int64(len(l.lines)) || !isBoundary(l.lines[end-1])) {
		b.r.fail("LOSTACK", "%s was told that its boundary is at %d of %s", p.name, end-1, p.part.log)
	}
}

// toldSo reports whether a handle that was replaced learned that it was, as far as
// nothing came between, and anything was to be written.
func (r *run) toldSo(e *entry, ends bool, receipt backend.Receipt) bool {
	switch e.word {
	case "done":
		return receipt.Duplicate
	case "fenced", "deleted", "invalid", "seq mismatch", "key conflict", "closed", "abandoned", "died":
		return true
	}
	return ends || e.port.struck() != e.strikes
}

// intentOf is what the token of an unknown outcome is about.
func intentOf(err error) manifest.Intent {
	in, perr := manifest.ParseToken(backend.Token(err))
	if perr != nil {
		panic(perr) // looked at by whoever got it
	}
	return in
}

func (b *book) ack(e *entry, receipt backend.Receipt) {
	e.state, e.receipt = acknowledged, receipt
	b.r.say(e.process, "%s append %q: at %d, revision %d%s", e.caller, e.tags, receipt.First, receipt.Revision, map[bool]string{true: ", duplicate"}[receipt.Duplicate])
	b.r.witness.acknowledged(e)
	if receipt.Duplicate {
		b.r.count("append: duplicate", 1)
	}
}

func (b *book) refuse(e *entry) {
	e.state = refused
	b.r.witness.unappended(e)
}

// acknowledged checks a receipt against the log.
func (w *witness) acknowledged(e *entry) {
	l, r := w.log(e.log), e.receipt
	fail := func(class, format string, args ...any) {
		w.r.fail(class, "%s was told that %q is at %d of %s: %s", e.caller, e.tags, r.First, e.log, fmt.Sprintf(format, args...))
	}
	if r.Count != int64(len(e.tags)) || r.First < 0 || r.First+r.Count > int64(len(l.lines)) {
		fail("LOSTACK", "%d events, and the log has %d", r.Count, len(l.lines))
		return
	}
	for i, tag := range e.tags {
		line := l.lines[r.First+int64(i)]
		if got := tagOf(line); got != tag || !strings.HasSuffix(string(line), e.ends[i]) {
			fail("LOSTACK", "%.200s is there", line)
			return
		}
	}
	i := slices.IndexFunc(l.versions, func(v version) bool { return v.rec.Revision == r.Revision })
	switch {
	case i < 0 || l.versions[i].rec.Next != r.Next || l.versions[i].rec.Generation() != r.Generation:
		fail("LOSTACK", "revision %d, generation %d, next %d: no such version", r.Revision, r.Generation, r.Next)
	case l.versions[i].rec.State == manifest.StateOpen && r.Next < r.First+r.Count:
		fail("LOSTACK", "revision %d ends at %d", r.Revision, r.Next)
	}
	if r.Duplicate && e.key == "" {
		fail("INTERNAL", "it has no key, and is a duplicate")
	}
	if r.Duplicate {
		return
	}
	if e.expect != nil && *e.expect != r.First {
		fail("ORDER", "%d was expected", *e.expect)
	}
	if e.bracket && l.judged(r.First, bracketOpen, bracketClose) == "live" {
		fail("BRACKET", "it opens a bracket, and one was open")
	}
}

// holds reports whether a log holds the keyed append of a commit where it is said
// to be, though by another commit of the same handle: one that was tried again for
// others who wait for the same key.
func (w *witness) holds(in manifest.Intent, r backend.Receipt) bool {
	rec := w.log(in.Log).newest()
	return rec != nil && slices.ContainsFunc(in.Keys, func(k manifest.KeyEntry) bool {
		e, found, err := rec.LookupKey(k.Key, k.Digest)
		return found && err == nil && e.First == r.First && e.Count == r.Count
	})
}

// unappended checks that what was told not to be in the log is not, unless
// somebody else has put it there under the same key.
func (w *witness) unappended(e *entry) {
	for _, tag := range e.tags {
		if at, there := w.log(e.log).tags[tag]; there && e.key == "" {
			w.r.fail("LIE", "%s was told that %q is not in %s (%v), and it is at %d", e.caller, tag, e.log, e.err, at)
		}
	}
}

// missed checks that the key of what is said not to be in the log was not there
// before anybody asked.
func (w *witness) missed(e *entry) {
	l := w.log(e.log)
	at, there := l.tags[e.tags[0]]
	if e.key == "" || !there || !strings.HasSuffix(string(l.lines[at]), e.ends[0]) { // the key is that of other events
		return
	}
	for _, v := range l.versions {
		if v.rec.Next > at && v.at.Before(e.call) {
			w.r.fail("KEYMISS", "%s was told that %q is not in %s (%v), and its key was there since %v before", e.caller, e.tags, e.log, e.err, e.call.Sub(v.at))
			return
		}
	}
}

// fenced checks that somebody has replaced the writer that was told so.
func (w *witness) fenced(e *entry, err error) {
	if rec := w.log(e.log).newest(); rec == nil || rec.Owner != nil && rec.Owner.Writer == e.writer {
		w.r.fail("FALSEFENCE", "%s still owns %s, and was told %v", e.caller, e.log, err)
	}
}

// close checks all that was said, when everything has arrived.
func (b *book) close() {
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	type place struct {
		e   *entry
		seq int64 // -1: not in the log
	}
	callers, handles := map[string][]place{}, map[string][]place{}
	for _, e := range b.entries {
		seq := int64(-1)
		if at, ok := b.r.witness.log(e.log).tags[e.tags[0]]; ok {
			seq = at
		}
		if e.state == acknowledged && seq != e.receipt.First {
			b.r.fail("LOSTACK", "%s was told that %q is at %d of %s, it is at %d", e.caller, e.tags, e.receipt.First, e.log, seq)
		}
		if e.key == "" && e.state == refused && seq >= 0 {
			b.r.fail("LIE", "%s was told that %q is not in %s (%v), it is at %d", e.caller, e.tags, e.log, e.err, seq)
		}
		if e.key != "" {
			continue // may be there through somebody else
		}
		callers[e.caller+" "+e.log] = append(callers[e.caller+" "+e.log], place{e, seq})
		handles[e.writer] = append(handles[e.writer], place{e, seq})
	}
	for who, all := range callers {
		newest := int64(-1)
		for _, p := range all {
			if p.seq < 0 {
				continue
			}
			if p.seq < newest {
				b.r.fail("ORDER", "%s: %q is at %d, behind what was appended after it", who, p.e.tags, p.seq)
			}
			newest = p.seq
		}
	}
	for _, all := range handles {
		slices.SortStableFunc(all, func(x, y place) int { return x.e.n - y.e.n })
		newest, hole := int64(-1), (*entry)(nil)
		for _, p := range all {
			switch {
			case p.seq < 0 && (p.e.state == unknown || p.e.word == "fenced"):
				hole = p.e
			case p.seq < 0:
			case hole != nil:
				b.r.fail("HOLE", "%q is in %s, and %q of the same handle, which came before, is not", p.e.tags, p.e.log, hole.tags)
			case p.seq < newest:
				b.r.fail("ORDER", "%q is at %d of %s, before what was appended first", p.e.tags, p.seq, p.e.log)
			}
			newest = max(newest, p.seq)
		}
	}
}
