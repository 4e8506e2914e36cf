package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// RebuildCase is what a rebuild met where the manifest should be.
type RebuildCase string

const (
	RebuildMissing RebuildCase = "missing" // nothing
	RebuildDamaged RebuildCase = "damaged" // what cannot be read
	RebuildForeign RebuildCase = "foreign" // the manifest of another log
	RebuildOlder   RebuildCase = "older"   // one that is older than what is listed
	RebuildIntact  RebuildCase = "intact"  // one that nothing listed speaks against
)

// RebuildOptions say what a rebuild does. The zero value rebuilds.
type RebuildOptions struct {
	DryRun bool // only say what would be done
	// Restored says that an older manifest was put back, also where nothing that
	// is listed shows it.
	Restored bool
}

// RebuildReport is what a rebuild found and did, or in a dry run would do.
type RebuildReport struct {
	Log   string
	Found RebuildCase
	Why   string // what is wrong with what was found
	// Done: the manifest was written. It never is where Found is intact.
	Done     bool
	UID      string
	Revision int64
	Epoch    uint32
	Next     int64 // events of the log, afterwards
	Segments []manifest.SegmentRef
	Root     segment.Hash
	Listed   int // segments of the log on the store
	// Salvaged is how many of the events, the last ones, were taken from the tail of
	// the damaged manifest.
	Salvaged int64
	// LeftOut are events that are intact in that tail and do not get into the log,
	// as they do not follow its other events. Also beside an error.
	LeftOut [][]byte
	// Unused are those that the manifest does not name, and why not.
	Unused []RebuildUnused
	// Gap, unless nil, is where events are missing, with more behind them.
	Gap *RebuildGap
	// Unconfirmed is the seq from which on nothing tells that the events were
	// committed: no later segment was made behind them. -1 if Found is older, or the
	// damaged manifest tells.
	Unconfirmed int64
	// Lost says in words what cannot be had back.
	Lost []string
}

// RebuildUnused is a segment that was left out.
type RebuildUnused struct {
	Key  string
	Next int64 // seq behind its last event, 0 where that cannot be read
	Why  string
}

// RebuildGap is a gap in the segments.
type RebuildGap struct {
	From, To int64 // no segment has the events From up to, not including, To
	Next     int64 // segments behind it reach up to here
	Segments int   // how many are behind it
}

// errNothingLeft: there is nothing to rebuild from.
var errNothingLeft = fmt.Errorf("%w: nothing is left to rebuild it from", ErrNotFound)

// Rebuild makes a manifest again from what is listed of a log's segments, where
// it is missing or cannot be read. It reads every listed segment as a whole, and
// names the longest chain of them, from seq 0 on, in which each one follows the
// one before by its own account: its events, folded onto the state before them,
// must give the state and the Merkle root of its index. So orphans of writers
// that were replaced are found out, damaged segments are passed over where others
// hold the same events, and a verification of the result is clean. What comes
// behind a gap is not named; it stays on the store until it is collected.
//
// Of a damaged manifest the events of the tail are taken, too, as far as their
// frames are intact, where it shows that they follow: by the root of the tree, or
// by the uid and the segment before them. A log that fits into its manifest is
// made of that alone, with the header that it has there, which nothing proves.
//
// Whatever else was in the manifest is lost: keys, and the history of owners and
// lifecycles; the report says so. The log begins a new generation of kind rebuild, released, in an
// epoch above all that is listed; its revisions begin anew, so that readers which
// have seen it before refuse it as rolled back until they are started again:
// events that they have seen may be gone.
//
// A manifest that can be read is never replaced. Where listed segments show that
// it is an older one which was put back, its epoch is raised above all of theirs,
// by a commit that changes nothing else: then no upload of the time that is gone
// can be named any more.
//
// No collection, and nothing else that removes objects, may be under way. The PUT
// is conditioned on what was found: ErrExists where somebody else was first.
// Other errors: ErrNotFound where nothing is left to rebuild from, and for a void;
// ErrDeleted, also where what is damaged is a tombstone; ErrDenied; ErrUnsupportedVersion, and what the store could not
// answer. Memory is one segment, and some hundred bytes for each that is listed.
func (b *Backend) Rebuild(ctx context.Context, id string, opt RebuildOptions) (RebuildReport, error) {
	if err := manifest.CheckID(id); err != nil {
		return RebuildReport{}, argError("rebuild", id, "%w", err)
	}
	r := &rebuilder{b: b, id: id, w: b.writer(), opt: opt, rep: RebuildReport{Log: id, Unconfirmed: -1}}
	ctx, op := b.tel.begin(ctx, "rebuild", id)
	err := r.w.Check()
	if err == nil {
		err = r.run(ctx)
	}
	op.end(ctx, Receipt{}, err)
	return r.rep, opError("rebuild", id, err)
}

// rebuilder is one rebuild.
type rebuilder struct {
	b   *Backend
	id  string
	w   manifest.Writer
	opt RebuildOptions
	rep RebuildReport

	head    manifest.Head // what was found; without a record where it cannot be read
	objects []objstore.Info
	listed  []manifest.Listed
	remains *remains // unless nil, of the damaged manifest
}

func (r *rebuilder) run(ctx context.Context) error {
	// The list comes first: what is read after it is no older.
	if err := r.list(ctx); err != nil {
		return err
	}
	if err := r.look(ctx); err != nil {
		return err
	}
	if r.rep.Found == RebuildIntact || r.rep.Found == RebuildOlder {
		return r.raise(ctx)
	}
	s := &salvage{b: r.b, id: r.id, objects: r.objects, listed: r.listed}
	if r.remains != nil {
		if s.prefer = r.remains.UID; len(r.remains.runs) > 0 {
			s.keep = r.remains.runs[0].first
		}
	}
	found, err := s.run(ctx)
	if born, ok := r.remains.born(r.id); ok && errors.Is(err, errNothingLeft) {
		found, err = born, nil
	}
	if err != nil {
		return r.nothingLeft(err)
	}
	if m := r.remains; m != nil && m.Log != "" && m.Log != r.id && m.UID != found.birth.uid && (m.UID != "" || !m.says(found.birth.uid)) {
		// Another log's, of which nothing is taken. With the right uid it is the name that
		// is damaged.
		if err := r.sameButCase(m.Log); err != nil {
			return err
		}
		r.rep.Why += fmt.Sprintf("; it is the manifest of log %q", m.Log)
		r.rep.Found, r.remains = RebuildForeign, nil
	}
	found, whyNot, err := r.takeTail(ctx, s, found)
	if err != nil {
		return err
	}
	r.describe(s, found, whyNot)
	p, err := manifest.Rebuild(manifest.Rebuilt{
		Log: r.id, UID: found.birth.uid, Header: found.birth.header, Origin: found.birth.origin,
		Segments: found.segments, Tail: found.tail, Content: found.content, Above: r.above(found), Over: !r.head.Version.IsZero(),
	}, r.w, r.b.now())
	if err != nil && len(found.segments) == 0 {
		r.rep.LeftOut = nil
		err = r.nothingLeft(&OpError{Op: "rebuild", Log: r.id, Key: manifest.Key(r.id), Seq: -1, Err: fmt.Errorf("%w: what can be read of its members is no manifest's: %w", errNothingLeft, err), Hint: hintOlder})
	}
	if err != nil {
		return err
	}
	r.rep.Epoch, r.rep.Revision = p.Record.Epoch, p.Record.Revision
	if r.opt.DryRun {
		return nil
	}
	return r.commit(ctx, p)
}

const hintOlder = "restore the manifest from a backup or an older version of it"

// nothingLeft is the error of a rebuild that has nothing to begin with. A manifest
// that is there and damaged is not one that does not exist.
func (r *rebuilder) nothingLeft(err error) error {
	if r.remains == nil || !errors.Is(err, errNothingLeft) {
		return err
	}
	cause := "the first events of its tail are damaged"
	if spans := r.leave(0); len(spans) > 0 {
		cause += "; intact behind them: " + strings.Join(spans, ", ")
	}
	if m := r.remains; m.Log != "" && m.Log != r.id {
		cause = fmt.Sprintf("it is that of log %q", m.Log)
	}
	if oe, ok := errors.AsType[*OpError](err); ok && oe.Key == manifest.Key(r.id) {
		cause += ": " + strings.TrimPrefix(oe.Err.Error(), errNothingLeft.Error()+": ")
	}
	return &OpError{Op: "rebuild", Log: r.id, Key: manifest.Key(r.id), Seq: -1, Err: fmt.Errorf("%w: no log can be made of the manifest, nor of segments: %s", ErrCorrupt, cause), Hint: hintOlder}
}

// list gets all segments of the log.
func (r *rebuilder) list(ctx context.Context) error {
	c := &collector{b: r.b}
	for g, err := range c.groups(ctx, manifest.SegmentPrefix(r.id)) {
		if err != nil {
			return err
		}
		r.objects, r.listed = g.objects, g.listed
	}
	r.rep.Listed = len(r.objects)
	return nil
}

// look finds out what is there in the place of the manifest.
func (r *rebuilder) look(ctx context.Context) error {
	head, err := manifest.Load(ctx, r.b.store, r.id, manifest.LoadOptions{Clock: &r.b.clock})
	switch {
	case errors.Is(err, ErrNotFound):
		r.rep.Found, r.rep.Why = RebuildMissing, "there is no manifest"
		return nil
	case errors.Is(err, ErrCorrupt):
		return r.lookAtDamage(ctx, err)
	case err != nil:
		return err
	}
	if err := readable(head.Record); err != nil {
		return err
	}
	r.head = head
	rec := head.Record
	r.rep.Found, r.rep.UID, r.rep.Revision, r.rep.Epoch = RebuildIntact, rec.UID, rec.Revision, rec.Epoch
	r.rep.Next, r.rep.Segments, r.rep.Root = rec.Next, rec.Segments, rec.Content.Tree.Root
	what, sure := newer(rec, r.listed)
	switch {
	case sure:
		r.rep.Found, r.rep.Why = RebuildOlder, what
	case r.opt.Restored:
		r.rep.Found, r.rep.Why = RebuildOlder, "you say so"
	}
	return nil
}

// lookAtDamage gets the version of an object that is no manifest of this log.
func (r *rebuilder) lookAtDamage(ctx context.Context, damage error) error {
	key := manifest.Key(r.id)
	r.rep.Found, r.rep.Why = RebuildDamaged, below(damage).Error()
	obj, err := r.b.store.Get(ctx, key, objstore.GetOptions{Limit: 4 * manifest.MaxManifest})
	if errors.Is(err, objstore.ErrTooLarge) {
		obj.Info, err = r.b.store.Head(ctx, key)
	}
	if err != nil {
		return err
	}
	if rec, err := manifest.Decode(obj.Body); err == nil {
		if rec.Log == r.id {
			return fmt.Errorf("%w: the manifest was damaged and is not any more: somebody else is repairing it", ErrExists)
		}
		if err := r.sameButCase(rec.Log); err != nil {
			return err
		}
		r.rep.Found = RebuildForeign
	} else if buried(obj) {
		return &OpError{Op: "rebuild", Log: r.id, Key: key, Seq: -1, Err: fmt.Errorf("%w: what is damaged is its tombstone: %w", ErrDeleted, damage),
			Hint: "restore the object from a backup or an older version of it; to have the log back although it was deleted, remove the object first"}
	}
	if r.rep.Found == RebuildDamaged {
		r.remains = remainsOf(obj.Body)
	}
	if obj.Version.IsZero() {
		return fmt.Errorf("%w: it gave no version of the damaged manifest that a condition can name", ErrUnsupportedStore)
	}
	r.head.Version = obj.Version
	return nil
}

// sameButCase refuses to replace the manifest of a log whose id differs only in
// case.
func (r *rebuilder) sameButCase(other string) error {
	if !strings.EqualFold(other, r.id) {
		return nil
	}
	return &OpError{Op: "rebuild", Log: r.id, Key: manifest.Key(r.id), Seq: -1, Err: fmt.Errorf("%w: the manifest of log %q, which differs only in case", ErrExists, other),
		Hint: "on a store that ignores case the two ids have one key, and the other log is there"}
}

// buried reports whether a damaged manifest seems to be that of a deleted log: by
// its metadata, or as it shows no header, which only a log has.
func buried(obj objstore.Object) bool {
	if sum, ok := manifest.ParseMetadata(obj.Metadata); ok {
		return sum.State == manifest.StateDeleted
	}
	return bytes.Contains(obj.Body, []byte(`,"state":"deleted",`)) && !bytes.Contains(obj.Body, []byte(`,"header":`))
}

// silentGenerations is how many owners of a log may have followed each other
// without leaving a segment, where the epoch in a damaged manifest is not to be
// trusted.
const silentGenerations = 1 << 10

// above is the highest epoch that the log may ever have had, or more.
func (r *rebuilder) above(found *salvaged) uint32 {
	var highest uint32
	for _, ref := range found.segments {
		highest = max(highest, ref.Name.Epoch)
	}
	reach := uint64(highest) + manifest.MaxEpochGap
	for _, l := range r.listed {
		if uint64(l.Name.Epoch) <= reach {
			highest = max(highest, l.Name.Epoch)
		}
	}
	if r.rep.Salvaged > 0 {
		// Generations that sealed nothing have left no epoch in the list, and one of
		// them wrote this tail. A writer of an earlier one must not find the number
		// after its own, and take these events for those of its last commit.
		for _, n := range r.remains.Counts {
			if uint64(n) <= reach {
				highest = max(highest, n)
			}
		}
		highest += silentGenerations
	}
	return highest
}

// describe notes what is named, what is not, and what is lost.
func (r *rebuilder) describe(s *salvage, found *salvaged, whyNot string) {
	rep := &r.rep
	rep.UID, rep.Next, rep.Segments, rep.Root = found.birth.uid, found.content.Tree.Size, found.segments, found.content.Tree.Root
	if rep.Unconfirmed = found.confirmed; rep.Salvaged > 0 {
		rep.Unconfirmed = -1 // what the manifest held was committed, and all before it
	}
	lost := func(format string, args ...any) { rep.Lost = append(rep.Lost, fmt.Sprintf(format, args...)) }
	var gap RebuildGap
	for _, c := range s.candidates {
		if slices.ContainsFunc(found.segments, func(ref manifest.SegmentRef) bool { return ref.Name == c.name }) {
			continue
		}
		u := RebuildUnused{Key: manifest.SegmentKey(r.id, c.name), Next: c.next, Why: c.why}
		switch {
		case c.why != "":
		case c.name.First > rep.Next:
			u.Why = "it is behind a gap"
			if gap.Segments++; gap.To == 0 || c.name.First < gap.To {
				gap.To = c.name.First
			}
			gap.Next = max(gap.Next, c.next)
		case c.next <= rep.Next:
			u.Why = "others hold its seqs"
		default:
			u.Why = "its events are not those of the log: an append that was not committed, or what came after it"
		}
		rep.Unused = append(rep.Unused, u)
	}
	if gap.Segments > 0 {
		gap.From = rep.Next
		rep.Gap = &gap
		lost("seqs %d to %d are missing or damaged, and so %s up to seq %d behind them cannot be named", gap.From, gap.To-1, words.Count(gap.Segments, "segment"), gap.Next-1)
	}
	r.describeTail(rep.Next, whyNot, lost)
	if len(found.segments) == 0 {
		lost("the proof of header, uid and origin: they are as the damaged manifest has them")
	}
	lost("the receipts of keyed appends: repeating one appends its events again")
	lost("the history of owners and lifecycles, members of later versions, and which segments were replaced")
}

// commit writes the manifest in the place of what was found.
func (r *rebuilder) commit(ctx context.Context, p *manifest.Proposal) error {
	cctx, cancel := context.WithTimeout(ctx, r.b.opt.CommitTimeout)
	defer cancel()
	first := true
	res, err := r.b.commit(cctx, "rebuild", r.id, manifest.Head{Version: r.head.Version}, func(context.Context, manifest.Head) (*manifest.Proposal, error) {
		if !first {
			return nil, errSettledMeanwhile
		}
		first = false
		return p, nil
	})
	rec := res.Head.Record
	if err != nil {
		// It may have landed all the same, or somebody else was first.
		head, lerr := manifest.Load(ctx, r.b.store, r.id, manifest.LoadOptions{Clock: &r.b.clock})
		t, ok := manifest.Takeover{}, false
		if lerr == nil {
			t, ok = head.Record.TakeoverOf(p.Intent.Generation)
		}
		switch {
		case ok && t.Writer == r.w.ID:
			rec = head.Record
		case lerr == nil:
			return &OpError{Op: "rebuild", Log: r.id, Key: manifest.Key(r.id), Seq: -1, Err: errSettledMeanwhile,
				Hint: "nothing was written; look at what is there now (`s3logctl fsck`)"}
		case errors.Is(err, ErrOutcomeUnknown):
			return &OpError{Op: "rebuild", Log: r.id, Key: manifest.Key(r.id), Seq: -1,
				Err:  fmt.Errorf("%w: whether the manifest was written is not known: %s", objstore.ErrUndecided, err.Error()),
				Hint: "look again (`s3logctl fsck`) before anything else is done"}
		default:
			return err
		}
	}
	r.rep.Done, r.rep.Revision = true, rec.Revision
	r.b.replaced(r.id, rec)
	return nil
}

var errSettledMeanwhile = fmt.Errorf("%w: another manifest has come in the place of what was found", ErrExists)

// replaced forgets what was seen of a log before its manifest was made anew.
func (r *Reader) replaced(id string, rec *manifest.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) < maxSeen {
		r.seen[id] = seen{rec.UID, rec.Revision}
	}
}

// raise makes a barrier above everything listed, if an older manifest was put
// back.
func (r *rebuilder) raise(ctx context.Context) error {
	if r.rep.Found != RebuildOlder {
		return nil
	}
	reach, highest := int64(0), r.head.Record.Epoch
	var own []manifest.Listed
	for _, l := range r.listed {
		if manifest.Foreign(r.head.Record, l.Name) {
			continue
		}
		own = append(own, l)
		reach, highest = max(reach, l.Name.First), max(highest, l.Name.Epoch)
	}
	lost := func(format string, args ...any) { r.rep.Lost = append(r.rep.Lost, fmt.Sprintf(format, args...)) }
	lost("everything that was committed after revision %d, events from seq %d on among it", r.rep.Revision, r.rep.Next)
	if reach >= r.rep.Next {
		lost("segments with events beyond seq %d are there and stay unnamed. To have those, remove the manifest and rebuild the log from its segments, before anything is appended or collected", reach)
	}
	propose := func(base *manifest.Record) (*manifest.Proposal, error) {
		if err := readable(base); err != nil {
			return nil, err
		}
		return manifest.Removal{Now: r.b.now(), Grace: DefaultGrace}.Barrier(base, r.id, r.w, own)
	}
	if r.opt.DryRun {
		p, err := propose(r.head.Record)
		if err == nil {
			r.rep.Epoch, r.rep.Revision = p.Record.Epoch, p.Record.Revision
		}
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.b.opt.CommitTimeout)
	defer cancel()
	res, err := r.b.commit(ctx, "rebuild", r.id, r.head, func(_ context.Context, base manifest.Head) (*manifest.Proposal, error) {
		if base.Record.State == manifest.StateOpen && base.Record.Epoch > highest {
			return nil, nil // somebody else has raised it
		}
		return propose(base.Record)
	})
	if errors.Is(err, ErrOutcomeUnknown) {
		return &OpError{Op: "rebuild", Log: r.id, Key: manifest.Key(r.id), Seq: -1,
			Err: fmt.Errorf("%w: whether the epoch was raised is not known: %s", objstore.ErrUndecided, err.Error()), Hint: "do it again"}
	}
	if err != nil {
		return err
	}
	rec := res.Head.Record
	r.rep.Done, r.rep.Epoch, r.rep.Revision = res.Proposal != nil, rec.Epoch, rec.Revision
	r.b.replaced(r.id, rec)
	return nil
}
