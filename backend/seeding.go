package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// seedSegment is the encoded size at which inherited events go into another
// segment.
const seedSegment = mergeMax - (1 << 20)

// seeding is the first commit of a log that inherits events.
type seeding struct {
	b       *Backend
	id      string
	w       manifest.Writer
	birth   manifest.Birth
	base    manifest.Head
	release bool

	// Of a fork. The root of parent is known when everything was read.
	src    *Reader
	parent *manifest.Parent
	root   *segment.Hash         // what it must be, where the parent's manifest says it
	shared []manifest.SegmentRef // whole segments of the parent, from seq 0 on
	noCopy bool                  // the store does not copy them for us

	start segment.State // after the shared segments
	lines iter.Seq2[[]byte, error]
	once  bool // lines can be read only once
	read  bool
	total int64 // events that the log is born with, once they were read
}

// commit writes segments and manifest, and opens the handle.
func (s *seeding) commit(ctx context.Context) (*Log, Receipt, error) {
	if err := s.w.Check(); err != nil {
		return nil, Receipt{}, err
	}
	res, err := s.b.commitBulk(ctx, s.birth.Origin.Kind, s.id, s.base, s.step)
	if err != nil {
		if ce, ok := isCommitError(err); ok {
			ce.Intent.First, ce.Intent.Count = ce.Intent.Start, ce.Intent.End-ce.Intent.Start
		}
		return nil, Receipt{}, err
	}
	s.b.remember(s.id, res.Head.Record)
	r := Receipt{Log: s.id, Count: s.total, Duplicate: res.Proposal == nil}
	if r.Duplicate {
		r.place(res.Head.Record)
		return nil, r, nil
	}
	r.place(res.Proposal.Record)
	if s.release {
		return nil, r, nil
	}
	l := s.b.newLog(s.id, s.w, nil, res.Head)
	l.owned = true
	if res.Fenced {
		l.err = fencedOrNil(res.Head.Record, s.w.ID)
	}
	return l, r, nil
}

// commitBulk is commit with a step that reads and uploads what takes the
// time that it needs, each object for itself. What is bounded as for every commit
// is how long the manifest is tried.
func (b *Backend) commitBulk(ctx context.Context, op, id string, base manifest.Head, step manifest.Step) (manifest.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var timeout *time.Timer
	stop := func() {
		if timeout != nil {
			timeout.Stop()
		}
	}
	defer func() { stop() }()
	return b.commit(ctx, op, id, base, func(ctx context.Context, base manifest.Head) (*manifest.Proposal, error) {
		stop()
		p, err := step(ctx, base)
		timeout = time.AfterFunc(b.opt.CommitTimeout, func() { cancel(context.DeadlineExceeded) })
		return p, err
	})
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
	ctx, cancel := context.WithTimeout(ctx, e.s.b.opt.CommitTimeout)
	defer cancel()
	first := e.w.First()
	name := manifest.Name{First: first, Epoch: e.d.Epoch(), Nonce: manifest.NewNonce()}
	foot.Nonce, foot.State = name.Nonce.String(), state
	p, err := uploadSegment(ctx, e.s.b, e.s.id, e.w, name, foot, manifest.Upload{TailFirst: first, Commit: e.d.CommitID()})
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
	if s.parent != nil {
		if err := seedpath.InsideTurn(state); err != nil {
			return nil, err
		}
		if s.root != nil && *s.root != state.Tree.Root {
			return nil, &OpError{Op: "read", Log: s.parent.Log, Key: manifest.Key(s.parent.Log), Seq: state.Tree.Size - 1,
				Err: fmt.Errorf("%w: the parent's events have root %s, its manifest says %s", ErrCorrupt, state.Tree.Root, *s.root)}
		}
		s.parent.Root = state.Tree.Root
	}
	d.Inherit(state, s.parent)
	if !seedpath.Marked(state, state.Tree.Size) {
		if err := seedpath.Mark(d, at); err != nil {
			return nil, err
		}
		lines, _ := d.Lines()
		if err := e.writer().Add(bytes.TrimSuffix(lines, newline)); err != nil {
			return nil, err
		}
	}
	s.total = d.Next()
	d.Begin(s.birth.Origin.Kind, state.Tree.Size, 0)
	// The parent's segments come first in the log. Nothing has been copied before
	// it was known that the fork is one that may be.
	if err := s.share(ctx, d); err != nil {
		return nil, err
	}
	if e.w != nil {
		header, origin := d.Birth()
		if err := e.seal(ctx, d.State(), *birthOf(d.UID(), s.id, header, origin)); err != nil {
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
