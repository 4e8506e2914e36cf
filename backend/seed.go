package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// ErrOpenTurn: a fork would end inside a turn that is still open.
var ErrOpenTurn = seedpath.ErrOpenTurn

// ForkOptions say what a fork inherits.
type ForkOptions struct {
	// At is the seq of the last event that is inherited; nil: the parent's last.
	At *int64
	// Clip inherits the events up to the newest end of a turn.
	Clip bool
	// Header of the child; nil: the parent's, with id, parentSession and seedLength
	// set for the child.
	Header []byte
	// Parent reads the parent where it is on another store, or behind other
	// credentials; nil: this Backend. Reading is all it needs.
	Parent *Reader
	// Release lets the log go in the same commit: no handle is returned.
	Release bool
}

// Fork begins a log with a parent's events up to a seq and a boundary. The child
// is self-contained: nothing that happens to the parent changes it. It costs the
// reading of what is inherited, one PUT for the segment that holds it with the
// boundary, and the PUT of the child's manifest, which comes last and is what
// makes the child exist. Of a parent beyond 8 MiB whole segments are copied,
// inside the store where that is possible, else one at a time.
//
// Repeating a fork (same parent, same cut, same child) returns the receipt of
// the first as a Duplicate, and no handle. Errors: ErrNotFound, ErrOpenTurn,
// ErrSeqMismatch (At beyond the end), ErrExists, ErrDeleted, those of reading
// the parent and those of a commit.
func (b *Backend) Fork(ctx context.Context, parent, child string, opt ForkOptions) (*Log, Receipt, error) {
	src := opt.Parent
	if src == nil {
		src = b.Reader
	}
	fail := func(err error) (*Log, Receipt, error) { return nil, Receipt{}, opError("fork", child, err) }
	if err := manifest.CheckID(child); err != nil {
		return fail(err)
	}
	head, err := src.open(ctx, parent)
	if err != nil {
		return fail(fmt.Errorf("parent: %w", err))
	}
	rec := head.Record
	upTo, err := seedpath.Cut(rec, opt.At, opt.Clip)
	if err != nil {
		return fail(err)
	}
	header := opt.Header
	if header == nil && rec.Header != nil {
		if header, err = childHeader(rec.Header, child, parent, upTo); err != nil {
			return fail(fmt.Errorf("parent's header: %w", err))
		}
	}
	header, created, err := checkHeader(header)
	if err != nil {
		return fail(fmt.Errorf("header: %w", err))
	}
	w := b.writer()
	s := &seeding{
		b: b, id: child, w: w, release: opt.Release,
		birth:  manifest.Birth{Log: child, Header: header, Rule: rec.ActivityRule, Origin: manifest.Origin{Kind: manifest.KindFork}, Activity: created},
		parent: &manifest.Parent{Log: parent, UID: rec.UID, UpTo: upTo},
		start:  segment.NewState(),
		closed: true,
	}
	s.start.Activity = created
	if err := s.shareSegments(ctx, src, rec, upTo, created); err != nil {
		return fail(err)
	}
	from := s.start.Tree.Size
	s.lines = func(yield func([]byte, error) bool) {
		_, _ = src.span(ctx, head, from, upTo, func(e Event, err error) bool { return yield(e.Line, err) })
	}
	l, r, err := s.commit(ctx)
	return l, r, opError("fork", child, err)
}

// ReplayOptions are the parts of a replay beside its events.
type ReplayOptions struct {
	Header  []byte // as for Create
	Types   []string
	Release bool // as for Fork
}

// Replay begins a log with given events, which need not be balanced, and a
// boundary, unless they end in one and leave no turn open. The sequence is read
// once; memory is bounded by one segment. Errors: ErrExists, ErrDeleted,
// ErrInvalidEvent, ErrTooLarge, ErrSeqMismatch, that of the sequence, and those
// of a commit.
func (b *Backend) Replay(ctx context.Context, id string, events iter.Seq2[[]byte, error], opt ReplayOptions) (*Log, Receipt, error) {
	fail := func(err error) (*Log, Receipt, error) { return nil, Receipt{}, opError("replay", id, err) }
	header, created, err := checkHeader(opt.Header)
	if err != nil {
		return fail(fmt.Errorf("header: %w", err))
	}
	// The sequence can be read only once, so what is there is looked at first.
	head, err := b.load(ctx, id)
	if errors.Is(err, ErrNotFound) {
		head, err = manifest.Head{}, nil
	}
	if err != nil {
		return fail(err)
	}
	s := &seeding{
		b: b, id: id, w: b.writer(), base: head, release: opt.Release, once: true,
		birth: manifest.Birth{Log: id, Header: header, Types: opt.Types, Origin: manifest.Origin{Kind: manifest.KindReplay}, Activity: created},
		start: segment.NewState(),
	}
	s.start.Activity = created
	if err := s.start.Types.Reserve(opt.Types); err != nil {
		return fail(err)
	}
	s.lines = placed(events, b.opt.Limits)
	l, r, err := s.commit(ctx)
	return l, r, opError("replay", id, err)
}

// placed gives callers' events their places, from seq 0 on.
func placed(events iter.Seq2[[]byte, error], lim segment.Limits) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		seq, now := int64(0), time.Now().UnixMilli()
		for raw, err := range events {
			var line []byte
			if err == nil {
				var p segment.Pending
				if p, err = segment.Prepare(raw, now, lim); err == nil {
					var ev segment.Event
					ev, err = p.Assign(seq)
					line = ev.Line
				}
				if err != nil {
					err = fmt.Errorf("event %d: %w", seq, err)
				}
			}
			if !yield(line, err) || err != nil {
				return
			}
			seq++
		}
	}
}

const (
	// shareAbove is the raw size of a prefix from which on whole segments are
	// copied instead of encoded anew.
	shareAbove = 8 << 20
	// seedSegment is the encoded size at which a replay begins another segment.
	seedSegment = mergeMax - (1 << 20)
)

// seeding is the first commit of a log that inherits events.
type seeding struct {
	b       *Backend
	id      string
	w       manifest.Writer
	birth   manifest.Birth
	base    manifest.Head
	parent  *manifest.Parent // of a fork; Root is filled in
	release bool

	src    *Reader               // where shared segments come from
	from   string                // the log that they belong to
	shared []manifest.SegmentRef // whole segments of the parent
	start  segment.State         // after them
	lines  iter.Seq2[[]byte, error]
	closed bool // no turn may be open at the end
	once   bool // lines can be read only once
	read   bool
}

// commit writes segments and manifest, and opens the handle.
func (s *seeding) commit(ctx context.Context) (*Log, Receipt, error) {
	if err := s.w.Check(); err != nil {
		return nil, Receipt{}, err
	}
	res, err := manifest.Commit(ctx, s.b.store, s.base, s.step, s.b.commitOptions())
	if err != nil {
		return nil, Receipt{}, err
	}
	r := Receipt{Log: s.id, Duplicate: res.Proposal == nil}
	if r.Duplicate {
		r.place(res.Head.Record)
		r.Count = r.Next
		return nil, r, nil
	}
	r.place(res.Proposal.Record)
	r.Count = r.Next
	if s.release || res.Fenced {
		return nil, r, nil
	}
	l := s.b.newLog(s.id, s.w, nil, res.Head)
	l.owned = true
	return l, r, nil
}

// step encodes and uploads what is inherited, for the very commit that it
// proposes: nobody else may name these segments.
func (s *seeding) step(ctx context.Context, base manifest.Head) (*manifest.Proposal, error) {
	if r := base.Record; r != nil && r.State == manifest.StateOpen && s.parent != nil && s.read && seedpath.SameFork(r, *s.parent) {
		return nil, nil
	}
	at := s.b.now()
	d, err := manifest.Create(base.Record, s.w, s.birth, at)
	if err != nil {
		return nil, err
	}
	if s.once && s.read {
		return nil, errors.New("the id was settled by somebody else meanwhile and the events cannot be read again; repeat the replay")
	}
	s.read = true
	fold, err := manifest.NewFold(s.start, d.Rule())
	if err != nil {
		return nil, err
	}
	enc := &seedEncoder{s: s, d: d, codec: segment.NewCodec(), fold: fold}
	for line, err := range s.lines {
		if err == nil {
			err = enc.add(ctx, line)
		}
		if err != nil {
			return nil, err
		}
	}
	return enc.finish(ctx, at)
}

// seedEncoder turns inherited lines into segments of one commit.
type seedEncoder struct {
	s       *seeding
	d       *manifest.Draft
	codec   *segment.Codec
	fold    *manifest.Fold
	w       *segment.Writer // nil between segments
	next    int64
	uploads []manifest.Upload
}

func (e *seedEncoder) writer() *segment.Writer {
	if e.w == nil {
		e.w = segment.NewWriter(e.codec, segment.LevelBetter, segment.FrameRaw, e.fold.Size())
	}
	return e.w
}

func (e *seedEncoder) add(ctx context.Context, line []byte) error {
	ev, err := segment.ParseEvent(line, segment.Limits{MaxEvent: segment.MaxFrameRaw})
	if err == nil && ev.Seq != e.fold.Size() {
		err = fmt.Errorf("it carries seq %d", ev.Seq)
	}
	if err != nil {
		return fmt.Errorf("%w: inherited event %d: %w", ErrCorrupt, e.fold.Size(), err)
	}
	if e.w != nil && e.w.Len() > seedSegment {
		if err := e.seal(ctx, e.fold.State(), segment.Footer{}); err != nil {
			return err
		}
	}
	if err := e.writer().Add(line); err != nil {
		return err
	}
	e.fold.Add(ev)
	return nil
}

// seal ends the current segment and uploads it.
func (e *seedEncoder) seal(ctx context.Context, state segment.State, foot segment.Footer) error {
	s := e.s
	first := e.fold.Size()
	if e.w != nil {
		first = e.w.First()
	}
	name := manifest.Name{First: first, Epoch: e.d.Epoch(), Nonce: manifest.NewNonce()}
	foot.Nonce, foot.State = name.Nonce.String(), state
	p, err := uploadSegment(ctx, s.b, s.id, e.w, name, foot, manifest.Upload{TailFirst: first, Commit: e.d.CommitID()})
	if err != nil {
		return err
	}
	e.uploads = append(e.uploads, p.upload)
	e.w = nil
	return nil
}

// finish adds the boundary, uploads what is left, and proposes the manifest.
func (e *seedEncoder) finish(ctx context.Context, at int64) (*manifest.Proposal, error) {
	s, d := e.s, e.d
	state := e.fold.State()
	if s.closed && state.Turn != nil {
		return nil, fmt.Errorf("%w: turn %d, at seq %d", ErrOpenTurn, state.Turn.Turn, state.Tree.Size-1)
	}
	if s.parent != nil {
		s.parent.Root = state.Tree.Root
	}
	d.Inherit(state, s.parent)
	if !seedpath.Marked(state, state.Tree.Size) {
		if err := seedpath.Mark(d, at); err != nil {
			return nil, err
		}
		lines, _ := d.Lines()
		if err := e.writer().Add(bytes.TrimSuffix(lines, []byte{'\n'})); err != nil {
			return nil, err
		}
	}
	d.Begin(s.birth.Origin.Kind, state.Tree.Size, 0, at)
	// The parent's segments come first in the log. Nothing has been copied before
	// it was known that the fork is one that may be.
	if err := s.share(ctx, d); err != nil {
		return nil, err
	}
	if e.w != nil {
		header, origin := d.Birth()
		foot := birthOf(d.UID(), s.id, header, origin)
		if err := e.seal(ctx, d.State(), *foot); err != nil {
			return nil, err
		}
	}
	for _, u := range e.uploads {
		d.Seal(u)
	}
	d.SetTail(nil)
	if s.release {
		d.Release()
	}
	return d.Finish()
}

// shareSegments finds the segments of the parent that the child can have as they
// are, and the state after them.
func (s *seeding) shareSegments(ctx context.Context, src *Reader, rec *manifest.Record, upTo int64, created *int64) error {
	var raw int64
	var whole []manifest.SegmentRef
	for _, ref := range rec.Segments {
		if ref.Name.First < upTo {
			raw += ref.Raw
		}
		if ref.Name.First+ref.Count <= upTo {
			whole = append(whole, ref)
		}
	}
	if raw <= shareAbove || len(whole) == 0 {
		return nil
	}
	last := whole[len(whole)-1]
	r, err := openSegment(segment.NewCodec(), rec.Log, last, &rangedObject{ctx: ctx, store: src.store, key: manifest.SegmentKey(rec.Log, last.Name), size: last.Bytes})
	if err != nil {
		return finding(err)
	}
	s.src, s.from, s.shared, s.start = src, rec.Log, whole, r.Index().State.Clone()
	return s.ownActivity(ctx, src, rec, created)
}

// ownActivity replaces the activity of the shared events where it is not theirs:
// before anybody wrote, a log's activity is its own header's.
func (s *seeding) ownActivity(ctx context.Context, src *Reader, rec *manifest.Record, created *int64) error {
	_, was, err := checkHeader(rec.Header)
	if err != nil {
		return err
	}
	have := s.start.Activity
	if have != nil && (was == nil || *have != *was) {
		return nil // a person wrote
	}
	if created == was || created != nil && was != nil && *created == *was {
		return nil
	}
	s.start.Activity = created
	messages, exact := s.start.Types.Get(segment.TypeUserMessage)
	if exact && messages.Count == 0 {
		return nil
	}
	var failed error
	_, _ = src.span(ctx, manifest.Head{Record: rec}, 0, s.start.Tree.Size, func(e Event, err error) bool {
		var ev segment.Event
		if err == nil {
			ev, err = e.Parse()
		}
		if failed = err; err != nil {
			return false
		}
		if segment.Project(ev).UserPrompt {
			t := ev.Time
			s.start.Activity = &t
		}
		return true
	})
	return failed
}

// share copies the parent's segments, each under a new name of the child's, and
// lets the draft name them.
func (s *seeding) share(ctx context.Context, d *manifest.Draft) error {
	for _, ref := range s.shared {
		name := manifest.Name{First: ref.Name.First, Epoch: d.Epoch(), Nonce: manifest.NewNonce()}
		if err := s.copySegment(ctx, ref, name); err != nil {
			return err
		}
		copied := ref
		copied.Name = name
		d.Seal(manifest.Upload{Ref: copied, TailFirst: name.First, Commit: d.CommitID()})
	}
	return nil
}

// copySegment copies inside the store if it can, else through this process. The
// copy has the right bytes when it returns, whatever a store's reply is worth:
// a copy inside the store is looked at.
func (s *seeding) copySegment(ctx context.Context, ref manifest.SegmentRef, name manifest.Name) error {
	from, to := manifest.SegmentKey(s.from, ref.Name), manifest.SegmentKey(s.id, name)
	if c, ok := s.b.store.(objstore.Copier); ok && s.src.store == objstore.Reader(s.b.store) {
		if _, err := c.Copy(ctx, from, to); err == nil {
			info, err := s.b.store.Head(ctx, to)
			if err == nil && info.Size == ref.Bytes {
				return nil
			}
		}
		// Not offered, not allowed, or not known to be done: the bytes through here
		// always work. A copy that arrives after all holds the same.
	}
	obj, err := fetchObject(ctx, s.src.store, s.from, ref)
	if err != nil {
		return finding(err)
	}
	return manifest.PutSegment(ctx, s.b.store, s.id, name, obj, s.b.commitOptions())
}
