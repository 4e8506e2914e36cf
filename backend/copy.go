package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// ErrDiverged: what is at the destination of a copy has a history of its own.
var ErrDiverged = manifest.ErrDiverged

// CopyOptions say how a log is copied. The zero value copies it.
type CopyOptions struct {
	// DryRun only says what would be sent.
	DryRun bool
	// Verify verifies the copy: everything there is read once more. Segments that are
	// missing or damaged are put back, if the source has the very bytes that the
	// manifest at the destination says, and then it is verified again.
	Verify bool
	// OnlyThere, unless nil, is told by CopyAll of each log at the destination that the
	// source does not have, not even as a tombstone: logs that were copied from there
	// once and have been lost there, or that somebody else has put here. Deleted logs
	// are not among them; a log that cannot be looked at is an Entry with Err. It is
	// told when all is copied, in the order of the keys, and of a failure to list
	// last. That costs one LIST per thousand logs there, and a look at each.
	OnlyThere func(Entry, error)
	// Progress, unless nil, is told how far it got, one call at a time, but on
	// goroutines of the copy's own: it must not take long.
	Progress func(CopyProgress)
}

// CopyProgress is how far the copy of one log has got.
type CopyProgress struct {
	Log          string
	Segments, Of int   // sent, or found to be there, of those that are missing
	Bytes, Total int64 // of these
}

// CopyReport is what a copy did, or in a dry run would do.
type CopyReport struct {
	Log string
	// Copied: the destination was changed.
	Copied bool
	// Duplicate: it had everything already.
	Duplicate bool
	Events    int64        // of the copy
	Root      segment.Hash // over them
	Revision  int64        // of the manifest at the destination; of a dry run 0 where there is none
	// Segments and Bytes were sent, the manifest counted in Bytes alone.
	Segments int
	Bytes    int64
	// Repairs are the segments that Verify has found missing or damaged, in the order
	// of their events. Those that were put back are counted in Segments and Bytes, too.
	Repairs []Repair
	// Verified is the verification of the copy, with Verify.
	Verified *Report
	// Err is why the log was not copied, in CopyAll.
	Err error
}

const (
	// copyRoom bounds the bytes of segments that copies of one call hold.
	copyRoom = fetchAhead
	// logsAtATime is how many logs CopyAll copies at a time.
	logsAtATime = 8
)

// Copy makes this store hold a log of another, under the same id: the same log,
// with the same uid, the same segments byte for byte, and the same owner. Where
// nobody but copies has written here, the manifest is the same byte for byte, too
// (docs/decisions/0020-copying.md). It copies one consistent revision, while
// the log may be written to. Segments come first, the manifest that names them
// last, under the condition that nothing or the older copy is there: nothing is
// ever overwritten otherwise, but for damaged segments (CopyOptions.Verify). Repeated
// after an interruption it sends only what is missing; repeated later, what is new.
//
// Whatever is sent has the SHA-256 that the source's manifest says, or the copy is
// refused with ErrCorrupt, ErrMissing or ErrDenied, naming the object. That it has
// arrived is what the store says, which checks a checksum of what it got; then the
// manifest is read back, and a list shows all segments with their sizes. What an
// interrupted copy has left is read back and compared before it is named.
//
// Where there is nothing to do it costs one GET at each side. Else one GET more
// for each segment that is sent at the source, and at the destination one PUT for
// each, one of the manifest, a GET, and two LIST where there are segments. Memory
// is bounded, not proportional to the log.
//
// Errors about the destination: ErrExists where another log has the id; ErrDiverged
// where the copy was taken over or appended to, has other events, or is ahead of
// the source; ErrDeleted where it was deleted. In these cases it is not changed, but
// that with Verify segments of the diverged log are put back all the same.
func (b *Backend) Copy(ctx context.Context, src *Reader, id string, opt CopyOptions) (CopyReport, error) {
	if err := manifest.CheckID(id); err != nil {
		return CopyReport{}, argError("copy", id, "%w", err)
	}
	return b.copyLog(ctx, src, id, opt, semaphore.NewWeighted(copyRoom))
}

func (b *Backend) copyLog(ctx context.Context, src *Reader, id string, opt CopyOptions, room *semaphore.Weighted) (CopyReport, error) {
	c := &copying{b: b, src: src, id: id, opt: opt, w: b.writer(), room: room, rep: CopyReport{Log: id}}
	ctx, op := b.tel.begin(ctx, "copy", id)
	err := c.w.Check()
	if err == nil {
		err = c.run(ctx)
	}
	op.end(ctx, Receipt{}, err)
	return c.rep, opError("copy", id, err)
}

// copying is the copy of one log.
type copying struct {
	b    *Backend
	src  *Reader
	id   string
	opt  CopyOptions
	w    manifest.Writer
	room *semaphore.Weighted

	head  manifest.Head           // of the source
	plan  *manifest.CopyPlan      // the newest
	there map[manifest.Name]int64 // sizes by a list of the destination; nil: not known

	mu   sync.Mutex // of what follows, while segments are sent
	rep  CopyReport
	done CopyProgress
}

func (c *copying) run(ctx context.Context) error {
	base, err := c.b.load(ctx, c.id)
	if errors.Is(err, ErrCorrupt) {
		return &OpError{Op: "copy", Log: c.id, Key: manifest.Key(c.id), Seq: -1, Err: atDestination(err),
			Hint: "move the damaged manifest out of the destination (it may hold events that nothing else has), run no gc there, and copy again"}
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return atDestination(err)
	}
	if err != nil {
		base = manifest.Head{}
	}
	res, err := c.b.commitBulk(ctx, "copy", c.id, base, c.step)
	if errors.Is(err, ErrOutcomeUnknown) {
		// Whether it has landed shows when it is repeated. To settle it would be to
		// take the copy over.
		return &OpError{Op: "copy", Log: c.id, Key: manifest.Key(c.id), Seq: -1,
			Err:  fmt.Errorf("%w: whether the manifest was written is not known: %s", objstore.ErrUndecided, err.Error()),
			Hint: "copy it again: nothing is sent twice"}
	}
	if errors.Is(err, ErrDeleted) && c.ofCommit(err) {
		return c.refused(err, nil)
	}
	if errors.Is(err, ErrDiverged) && c.opt.Verify && base.Record != nil {
		if verr := c.verify(ctx, base.Record); verr != nil {
			return verr
		}
		return c.mended(err)
	}
	if err != nil {
		return err
	}
	rec := c.head.Record
	c.rep.Events, c.rep.Root, c.rep.Duplicate = rec.Next, rec.Content.Tree.Root, c.plan.Same
	if there := res.Head.Record; there != nil {
		c.rep.Revision = there.Revision
	}
	if c.opt.DryRun && (!c.opt.Verify || base.Record == nil || base.Record.State != manifest.StateOpen) {
		return nil
	}
	if res.Proposal != nil {
		c.b.remember(c.id, res.Head.Record)
		c.rep.Bytes += int64(len(res.Proposal.Body))
		if err := c.arrived(ctx, res.Proposal.Record.Commit.ID); err != nil {
			return err
		}
	}
	c.rep.Copied = res.Proposal != nil
	if !c.opt.Verify {
		return nil
	}
	return c.verify(ctx, res.Head.Record)
}

func atDestination(err error) error { return fmt.Errorf("destination: %w", err) }
func atSource(err error) error      { return fmt.Errorf("source: %w", err) }

// step reads the source and brings what base lacks. It reads after base was read,
// so that the source is never older than what others have copied of it meanwhile.
func (c *copying) step(ctx context.Context, base manifest.Head) (*manifest.Proposal, error) {
	for reread := 0; ; reread++ {
		head, err := c.src.open(ctx, c.id)
		if errors.Is(err, ErrDeleted) || errors.Is(err, ErrNotFound) {
			err = noSource{err}
		}
		if err != nil {
			return nil, atSource(err)
		}
		c.head = head
		c.plan, err = manifest.PlanCopy(head.Record, base.Record, c.w, c.b.now())
		if err != nil {
			return nil, c.refused(err, base.Record)
		}
		if c.plan.Same {
			return nil, nil
		}
		err = c.bring(ctx)
		switch {
		case err == nil && c.opt.DryRun:
			return nil, nil
		case err == nil:
			return c.plan.Propose()
		case !notThere(err) || !c.ofSource(err):
			return nil, err
		}
		// A segment of the source is not there. If it was replaced meanwhile, the
		// events are elsewhere now.
		fresh, lerr := c.src.open(ctx, c.id)
		switch {
		case lerr != nil:
			return nil, atSource(fmt.Errorf("%w; reading the manifest again: %w", err, lerr))
		case stillNamed(fresh.Record, err):
			return nil, atSource(finding(err))
		case reread == maxRereads:
			return nil, atSource(sameObject(err, func(cause error) error { return fmt.Errorf("%w: %w", errReplaced, cause) }))
		}
	}
}

const compareHint = "`s3logctl diff LOG LOG --parent-store OTHER` shows what each has"

// rebuilt reports whether a log, or nil, was once made again from its segments.
func rebuilt(rec *manifest.Record) bool {
	return rec != nil && slices.ContainsFunc(rec.Generations, func(t manifest.Takeover) bool { return t.Kind == manifest.KindRebuild })
}

// refused says what can be done about a destination that cannot be copied to, where
// base is, or nil.
func (c *copying) refused(err error, base *manifest.Record) error {
	hint := ""
	switch {
	case errors.Is(err, ErrDiverged):
		hint = "nothing was changed there. Keep both: copy the log under another id (`s3logctl cp LOG NEWID`), or the other way round if that is the one to go on with; " + compareHint
		if rebuilt(c.head.Record) || rebuilt(base) {
			hint = "nothing was changed there: one of the two was rebuilt, and may lack the newest events of the other; " + compareHint +
				". Keep both: copy one under another id (`s3logctl cp LOG NEWID`). Or give one up: move its manifest, the object named here, out of its store, run no gc there, and copy the other one to it"
		}
	case errors.Is(err, ErrExists):
		hint = "copy the log under another id (`s3logctl cp LOG NEWID`), or to another store"
	case errors.Is(err, ErrDeleted):
		hint = "a deleted log stays deleted; copy it under another id (`s3logctl cp LOG NEWID`)"
	}
	return &OpError{Op: "copy", Log: c.id, Key: manifest.Key(c.id), Seq: -1, Err: atDestination(err), Hint: hint}
}

// sourceError marks an error of reading a segment of the source.
type sourceError struct{ *OpError }

func (e sourceError) Error() string { return atSource(e.OpError).Error() }
func (e sourceError) Unwrap() error { return e.OpError }

func (c *copying) ofCommit(err error) bool {
	_, ok := isCommitError(err)
	return ok
}

func (c *copying) ofSource(err error) bool {
	_, ok := errors.AsType[sourceError](err)
	return ok
}

// bring puts on the store what the manifest will name and is not there.
func (c *copying) bring(ctx context.Context) error {
	rec := c.head.Record
	tail, err := readTail(segment.NewCodec(), rec)
	if err != nil {
		return atSource(&OpError{Op: "read", Log: c.id, Key: manifest.Key(c.id), Seq: rec.TailFirst(), Err: err, Hint: hint(err)})
	}
	from := rec.Next // events from here on are to be proved
	var grown *manifest.Growth
	if c.plan.Grows() && !c.opt.DryRun {
		t := c.plan.Base().Content.Tree
		if grown, err = manifest.NewGrowth(t); err != nil {
			return atDestination(err)
		}
		from = t.Size
	}
	if err := c.list(ctx); err != nil {
		return err
	}
	missing := c.missing()
	if c.opt.DryRun {
		c.rep.Segments, c.rep.Bytes = c.done.Of, c.done.Total
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	brought, workers := fetching(ctx, missing, c.b.opt.Prefetch, func(ctx context.Context, s manifest.CopySegment) ([]segment.Hash, error) {
		return c.segment(ctx, s, from)
	})
	defer func() {
		cancel()
		workers.Wait() // they count, and tell the caller
	}()
	for i := range missing {
		got := take(ctx, brought[i])
		if got.err != nil {
			return got.err
		}
		for _, leaf := range got.value {
			grown.Add(leaf)
		}
	}
	if grown == nil {
		return nil
	}
	seq := tail.first
	for _, f := range tail.frames {
		for line := range segment.Lines(f.raw) { // whole lines: they were counted
			if seq >= from {
				grown.Add(manifest.LeafHash(line))
			}
			seq++
		}
	}
	if !grown.Leads(rec.Content.Tree) {
		return c.refused(fmt.Errorf("%w: its %s cannot be those that the source begins with, or the source is damaged (`s3logctl verify`)", ErrDiverged, words.Count(from, "event")), c.plan.Base())
	}
	return nil
}

// list finds out which segments are at the destination, if that matters. Where it
// may not be asked, whatever is not named there is sent.
func (c *copying) list(ctx context.Context) error {
	c.there = nil
	if !slices.ContainsFunc(c.plan.Segments, func(s manifest.CopySegment) bool { return !s.Named }) {
		return nil
	}
	there, err := c.listed(ctx)
	if err == nil {
		c.there = there
	} else if !errors.Is(err, objstore.ErrRefused) {
		return atDestination(err)
	}
	return nil
}

func (c *copying) listed(ctx context.Context) (map[manifest.Name]int64, error) {
	there := map[manifest.Name]int64{}
	prefix := manifest.SegmentPrefix(c.id)
	for info, err := range c.b.store.List(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		c.b.clock.Observe(info.Date)
		if name, err := manifest.ParseName(info.Key[len(prefix):]); err == nil {
			there[name] = info.Size
		}
	}
	return there, nil
}

// missing are the segments that have to be sent, or read back: those that are not
// named at the destination. It begins to count them.
func (c *copying) missing() (segs []manifest.CopySegment) {
	c.done = CopyProgress{Log: c.id}
	for _, s := range c.plan.Segments {
		if s.Named {
			continue
		}
		segs = append(segs, s)
		if _, listed := c.there[s.To]; !listed || !c.opt.DryRun {
			c.done.Of++
			c.done.Total += s.Ref.Bytes
		}
	}
	return segs
}
