package backend

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// ImportOptions are the parts of an import beside its events.
type ImportOptions struct {
	Header []byte // as for Create; where the log is there already it must be the same
	Types  []string
	AdoptOptions
}

// Import makes a log hold exactly the events of a session that was kept
// elsewhere. Where there is no log of this id, it is created; where the log's
// events are the first ones of the session, the rest is appended; where they are
// all of them, nothing is written and the receipt is a Duplicate. Anything else
// is ErrExists: a log is never changed by it. No closers and no boundary are
// added.
//
// The events are taken one by one, so a session of any size can be imported. An
// import that was interrupted leaves a beginning of the session, and lets the log
// go if that takes no more than some seconds; repeating it goes on from there. An
// error of the sequence ends the import with that error, after what came before it
// was committed.
func (b *Backend) Import(ctx context.Context, id string, events iter.Seq2[[]byte, error], opt ImportOptions) (Receipt, error) {
	header, _, err := checkHeader(opt.Header)
	if err != nil {
		return Receipt{}, opError("import", id, fmt.Errorf("header: %w", err))
	}
	head, err := b.load(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound), err == nil && head.Record.State == manifest.StateVoid:
		head = manifest.Head{}
	case err != nil:
		return Receipt{}, opError("import", id, err)
	case head.Record.State == manifest.StateDeleted:
		return Receipt{}, opError("import", id, ErrDeleted)
	case string(head.Record.Header) != string(header):
		return Receipt{}, opError("import", id, fmt.Errorf("%w: with another header", ErrExists))
	}
	im := &importer{b: b, id: id, have: head.Record}
	if im.have != nil {
		im.fold, err = manifest.NewFold(segment.NewState(), im.have.ActivityRule)
		if err != nil {
			return Receipt{}, opError("import", id, err)
		}
	}
	im.open = func() (*Log, error) {
		if im.have == nil {
			return b.Create(id, CreateOptions{Header: opt.Header, Types: opt.Types})
		}
		return b.Adopt(ctx, id, opt.AdoptOptions)
	}
	defer func() {
		if im.stop != nil {
			im.stop()
		}
	}()
	receipt, err := im.run(ctx, events)
	return receipt, opError("import", id, err)
}

// maxAssigned is more than what an append adds to a line: seq, time and LF.
const maxAssigned = 64

// importer compares a session with a log and appends what it has more.
type importer struct {
	b    *Backend
	id   string
	have *manifest.Record // nil: there is no log
	fold *manifest.Fold   // over the events that the log has, too
	seq  int64            // of the next event
	// stored are the log's events, if they have to be looked at; stop ends that.
	stored func() (Event, error, bool)
	stop   func()

	open  func() (*Log, error)
	log   *Log // nil until something has to be written
	batch [][]byte
	size  int
	first int64 // seq of the first event that was appended
	last  Receipt
}

func (im *importer) run(ctx context.Context, events iter.Seq2[[]byte, error]) (Receipt, error) {
	err := im.feed(ctx, events)
	if im.log != nil && len(im.batch) > 0 && im.log.Err() == nil {
		// Also after a bad event: what came before it is good.
		if ferr := im.flush(ctx, err == nil); err == nil {
			err = ferr
		}
	}
	if im.log != nil {
		err = im.close(ctx, err)
	}
	if err != nil {
		return Receipt{}, err
	}
	if im.log == nil {
		if im.have == nil {
			return Receipt{}, fmt.Errorf("%w: there are no events to import", ErrInvalidEvent)
		}
		if im.seq < im.have.Next {
			return Receipt{}, fmt.Errorf("%w: it has %s, the session only %d", ErrExists, words.Count(im.have.Next, "event"), im.seq)
		}
		r := Receipt{Log: im.id, First: im.seq, Duplicate: true}
		r.place(im.have)
		return r, nil
	}
	im.last.First, im.last.Count = im.first, im.last.Next-im.first
	return im.last, nil
}

// letGo bounds how long an import that was given up tries to let the log go, and to
// find out what became of its last commit.
const letGo = 5 * time.Second

// close ends the handle of an import that came to err. What is there is good, so the
// log is let go in any case: whoever repeats the import need not wait then.
func (im *importer) close(ctx context.Context, err error) error {
	after := context.WithoutCancel(ctx)
	if err != nil {
		var cancel func()
		after, cancel = context.WithTimeout(after, letGo)
		defer cancel()
	}
	cerr := im.log.Close(after, CloseOptions{Release: true})
	if err == nil {
		return cerr
	}
	if !errors.Is(err, ErrOutcomeUnknown) {
		return err
	}
	switch ended := im.log.Err(); { // what was under way may have been decided since
	case cerr == nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case ended != nil && !errors.Is(ended, ErrOutcomeUnknown):
		return ended
	}
	return err
}

func (im *importer) feed(ctx context.Context, events iter.Seq2[[]byte, error]) error {
	for line, err := range events {
		if err != nil {
			return err
		}
		if im.have != nil && im.seq < im.have.Next {
			if err := im.compare(ctx, line); err != nil {
				return err
			}
			continue
		}
		if im.log == nil {
			if im.log, err = im.open(); err != nil {
				return err
			}
			im.first = im.seq
		}
		// The batch is sent when the next line does not fit, so that there is a last
		// one to release the log with.
		size := len(line) + maxAssigned
		if len(im.batch) > 0 && im.size+size > min(im.b.opt.MaxBatch, MaxAppend) {
			if err := im.flush(ctx, false); err != nil {
				return err
			}
		}
		im.batch = append(im.batch, append([]byte(nil), line...))
		im.size += size
		im.seq++
	}
	return nil
}

// compare takes an event that the log has, too, and after the last one of them
// compares the Merkle roots. No event of the log has to be read for that, unless
// the session's have no times: then those that the log gave them are right.
func (im *importer) compare(ctx context.Context, line []byte) error {
	p, err := segment.Prepare(line, 0, im.b.opt.Limits)
	if err == nil && !p.HasTime() {
		var at int64
		if at, err = im.storedTime(ctx); err != nil {
			return err
		}
		p, err = segment.Prepare(line, at, im.b.opt.Limits)
	}
	if err != nil {
		return fmt.Errorf("event %d: %w", im.seq, err)
	}
	ev, err := p.Assign(im.seq)
	if err != nil {
		return fmt.Errorf("event %d: %w", im.seq, err)
	}
	im.fold.Add(ev)
	if im.seq++; im.seq == im.have.Next {
		if root := im.fold.State().Tree.Root; root != im.have.Content.Tree.Root {
			return fmt.Errorf("%w: with other events among its first %d (root %s, the session's is %s)",
				ErrExists, im.seq, im.have.Content.Tree.Root, root)
		}
	}
	return nil
}

// storedTime is the time of the log's event at im.seq.
func (im *importer) storedTime(ctx context.Context) (int64, error) {
	if im.stored == nil {
		im.stored, im.stop = iter.Pull2(im.b.Events(ctx, im.id, ReadOptions{From: im.seq}))
	}
	for {
		ev, err, ok := im.stored()
		switch {
		case err != nil:
			return 0, err
		case !ok:
			return 0, fmt.Errorf("%w: event %d, which the log had, is not there any more", ErrRolledBack, im.seq)
		case ev.Seq == im.seq:
			parsed, err := ev.Parse()
			return parsed.Time, err
		}
	}
}

// flush appends the batch. The position is stated, so that two imports at a
// time cannot mix.
func (im *importer) flush(ctx context.Context, last bool) error {
	at := im.seq - int64(len(im.batch))
	r, err := im.log.Append(ctx, im.batch, AppendOptions{ExpectNext: &at, Last: last, Boundary: true})
	if err != nil {
		return err
	}
	im.last, im.batch, im.size = r, nil, 0
	return nil
}
