package backend

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// ErrOpenTurn: a fork would end inside a turn that is still open.
var ErrOpenTurn = seedpath.ErrOpenTurn

// OpenTurnError is an ErrOpenTurn that says which turn, and where to cut instead.
type OpenTurnError = seedpath.OpenTurnError

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
// the first as a Duplicate, with Next and Revision as they are now, and no
// handle. What it had uploaded by then is left to gc. Errors: ErrNotFound,
// ErrOpenTurn, ErrSeqMismatch (At beyond the end), ErrExists, ErrDeleted, those
// of reading the parent and those of a commit.
func (b *Backend) Fork(ctx context.Context, parent, child string, opt ForkOptions) (*Log, Receipt, error) {
	ctx, op := b.tel.begin(ctx, "fork", child)
	l, r, err := b.fork(ctx, parent, child, opt)
	op.end(ctx, r, err)
	return l, r, err
}

func (b *Backend) fork(ctx context.Context, parent, child string, opt ForkOptions) (*Log, Receipt, error) {
	src := opt.Parent
	if src == nil {
		src = b.Reader
	}
	fail := func(err error) (*Log, Receipt, error) { return nil, Receipt{}, opError("fork", child, err) }
	if err := manifest.CheckID(child); err != nil {
		return fail(err)
	}
	if src == b.Reader && child == parent {
		return fail(fmt.Errorf("%w: it is the parent itself", ErrExists))
	}
	head, err := src.open(ctx, parent)
	if err != nil {
		return fail(fmt.Errorf("parent: %w", err))
	}
	upTo, err := seedpath.Cut(head.Record, opt.At, opt.Clip)
	if err == nil && upTo == head.Record.Next {
		err = seedpath.InsideTurn(head.Record.Content)
	}
	if err != nil {
		return fail(err)
	}
	header := opt.Header
	if header == nil && head.Record.Header != nil {
		if header, err = childHeader(head.Record.Header, child, parent, upTo); err != nil {
			return fail(fmt.Errorf("parent's header: %w", err))
		}
	}
	header, created, err := checkHeader(header)
	if err != nil {
		return fail(fmt.Errorf("header: %w", err))
	}
	for reread := 0; ; reread++ {
		s := &seeding{
			b: b, id: child, w: b.writer(), release: opt.Release, src: src,
			birth: manifest.Birth{Log: child, Header: header, Origin: manifest.Origin{Kind: manifest.KindFork}, Activity: created},
		}
		l, r, err := s.fork(ctx, head, upTo)
		if err == nil || !notThere(err) || !stillNamed(head.Record, err) || reread == maxRereads {
			return l, r, opError("fork", child, err)
		}
		// A segment of the parent is not there. If it was replaced meanwhile, the
		// events are elsewhere now.
		fresh, lerr := src.open(ctx, parent)
		switch {
		case lerr != nil:
			return fail(fmt.Errorf("%w; reading the parent's manifest again: %w", err, lerr))
		case fresh.Record.UID != head.Record.UID, stillNamed(fresh.Record, err):
			return fail(err)
		}
		head = fresh
	}
}

// fork begins the child with the parent's first events.
func (s *seeding) fork(ctx context.Context, head manifest.Head, upTo int64) (*Log, Receipt, error) {
	rec := head.Record
	s.birth.Rule = rec.ActivityRule
	s.parent = &manifest.Parent{Log: rec.Log, UID: rec.UID, UpTo: upTo}
	if upTo == rec.Next {
		s.root = &rec.Content.Tree.Root
	}
	s.start = segment.NewState()
	s.start.Activity = s.birth.Activity
	if err := s.start.Types.Reserve(ownPlaces(rec.Content.Types)); err != nil {
		return nil, Receipt{}, err
	}
	if err := s.shareSegments(ctx, rec, upTo); err != nil {
		return nil, Receipt{}, err
	}
	from := s.start.Tree.Size
	s.lines = func(yield func([]byte, error) bool) {
		_, _ = s.src.span(ctx, head, from, upTo, func(e Event, err error) bool { return yield(e.Line, err) })
	}
	return s.commit(ctx)
}

// ownPlaces are the types that must have an entry in the child's manifest, too:
// those that were named when the parent was created, as far as that shows, and
// where it has more types than entries all that have one.
func ownPlaces(t segment.Types) (names []string) {
	for _, c := range t.Entries {
		if c.Count == 0 || t.Overflow != nil {
			names = append(names, c.Type)
		}
	}
	return names
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
	ctx, op := b.tel.begin(ctx, "replay", id)
	l, r, err := b.replay(ctx, id, events, opt)
	op.end(ctx, r, err)
	return l, r, err
}

func (b *Backend) replay(ctx context.Context, id string, events iter.Seq2[[]byte, error], opt ReplayOptions) (*Log, Receipt, error) {
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
