package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// FoldTail says whether a fold moves the tail into a segment.
type FoldTail string

const (
	// FoldTailAuto takes the tail of a log whose owner has released it, where that
	// comes with what is rewritten anyway or where a seal is due.
	FoldTailAuto FoldTail = "auto"
	// FoldTailKeep leaves it in the manifest.
	FoldTailKeep FoldTail = "keep"
	// FoldTailTake takes it, however small, and from whomever owns the log: a seal
	// of that owner which is under way is then in vain.
	FoldTailTake FoldTail = "take"
)

const (
	// FoldBytes is the size that the results of a fold have at most, unless told
	// otherwise: twice that of merges, and what a reader that prefetches still
	// holds in bounded memory (docs/decisions/0014-folding.md).
	FoldBytes = 2 * mergeMax
	// foldBytesMin and foldBytesMax bound what may be asked for.
	foldBytesMin, foldBytesMax = 4 << 10, 8 * mergeMax
	// foldRaw bounds the events of one result, of a log that compresses a thousand
	// to one: frames and index of a segment are bounded, too.
	foldRaw = 2 << 30
	// foldConflicts is how often a fold loses a result, because of what others have
	// committed meanwhile, before it gives up.
	foldConflicts = 5
)

// FoldOptions say what a fold does. The zero value folds.
type FoldOptions struct {
	DryRun bool     // only say what would be done
	Tail   FoldTail // "" is FoldTailAuto
	// MaxBytes bounds the stored size of each result; 0 means FoldBytes.
	MaxBytes int64
}

// FoldStep is one result of a fold: consecutive segments, and perhaps the tail,
// that become one segment.
type FoldStep struct {
	First, Next int64           // its seqs: from First up to, not including, Next
	Inputs      []manifest.Name // in order; none where only the tail is sealed
	Tail        bool            // it ends with the events of the tail
	Read        int64           // bytes of the inputs as stored, the tail included
	Written     int64           // bytes of the result; 0 in a dry run
}

// FoldSize is how much a log takes on the store.
type FoldSize struct {
	Segments int
	Bytes    int64 // of segments and tail, compressed
	Tail     int64 // events in the tail
}

// FoldReport is what a fold did, or in a dry run would do.
type FoldReport struct {
	Log    string
	Before FoldSize
	After  FoldSize // of a dry run: as planned, with Bytes an upper bound
	Steps  []FoldStep
	// Revision is that of the newest manifest known.
	Revision int64
	// Conflicts counts the results that were given up since others had changed what
	// they were made of, Dropped their bytes: objects that no manifest names, for
	// gc to collect.
	Conflicts int
	Dropped   int64
}

// Fold rewrites what a log has sealed into few segments, compressed as well as
// it gets: those that lie together and fit into one of MaxBytes, and those whose
// frames are small. Segments of more than half of MaxBytes that have large frames
// already are left alone, so that a second fold finds nothing to do and writes
// nothing.
//
// It may be called by anybody at any time, also while the log's owner appends
// and merges: a fold changes no event, no owner and no generation. Each result is
// one PUT of a segment and one of the manifest, so that what was achieved stays
// when ctx ends. Where others come first, results that still fit are kept; after
// a few that did not, Fold gives up with an error, and nothing is lost. The tail is
// taken once: what is appended meanwhile is left. What it has replaced is retired, as by merges. Memory is bounded by MaxBytes, not by the log:
// one input and one result at a time.
//
// Errors beside those of reading and writing: ErrNotFound, ErrDeleted, ErrMissing
// and ErrCorrupt where an input cannot be read. The report holds what was done
// before an error.
func (b *Backend) Fold(ctx context.Context, id string, opt FoldOptions) (FoldReport, error) {
	setDefault(&opt.Tail, FoldTailAuto)
	setDefault(&opt.MaxBytes, FoldBytes)
	switch {
	case opt.Tail != FoldTailAuto && opt.Tail != FoldTailKeep && opt.Tail != FoldTailTake:
		return FoldReport{}, argError("fold", id, "tail %q is none of auto, keep, take", opt.Tail)
	case opt.MaxBytes < foldBytesMin || opt.MaxBytes > foldBytesMax:
		return FoldReport{}, argError("fold", id, "segments of at most %d bytes: it must be from %d to %d", opt.MaxBytes, foldBytesMin, foldBytesMax)
	}
	ctx, op := b.tel.begin(ctx, "fold", id)
	rep, err := b.fold(ctx, id, opt)
	op.folded(ctx, opt, &rep, err)
	return rep, err
}

func (b *Backend) fold(ctx context.Context, id string, opt FoldOptions) (FoldReport, error) {
	head, err := b.open(ctx, id)
	if err != nil {
		return FoldReport{}, opError("fold", id, err)
	}
	f := &folding{b: b, w: b.writer(), opt: opt, head: head, uid: head.Record.UID, coarse: make(map[manifest.Name]bool), codec: segment.NewCodec()}
	f.rep = FoldReport{Log: id, Before: foldSize(head.Record)}
	if err = f.w.Check(); err == nil {
		err = f.run(ctx)
	}
	f.rep.Revision = f.head.Record.Revision
	if !opt.DryRun {
		f.rep.After = foldSize(f.head.Record)
	}
	return f.rep, opError("fold", id, err)
}

func foldSize(rec *manifest.Record) FoldSize {
	s := FoldSize{Segments: len(rec.Segments), Bytes: int64(len(rec.Tail)), Tail: rec.Next - rec.TailFirst()}
	for i := range rec.Segments {
		s.Bytes += rec.Segments[i].Bytes
	}
	return s
}

// folding is one fold of one log.
type folding struct {
	b      *Backend
	w      manifest.Writer
	opt    FoldOptions
	uid    string
	head   manifest.Head          // newest known
	coarse map[manifest.Name]bool // what was found out about frames
	codec  *segment.Codec         // one for all results: an encoder takes much memory
	rep    FoldReport
}

func (f *folding) id() string { return f.head.Record.Log }

func (f *folding) run(ctx context.Context) error {
	if f.opt.DryRun {
		steps, err := f.plan(ctx, 0)
		f.rep.After = f.rep.Before
		for _, p := range steps {
			f.rep.Steps = append(f.rep.Steps, p.step)
			f.rep.After.Segments -= len(p.inputs) - 1
			if p.step.Tail {
				f.rep.After.Tail = 0
			}
		}
		return err
	}
	for from := int64(0); ; {
		// Planned anew each time: others may have committed.
		steps, err := f.plan(ctx, from)
		if err == nil && len(steps) == 0 {
			return nil
		}
		var done FoldStep
		if err == nil {
			done, err = f.make(ctx, steps[0])
		}
		if errors.Is(err, manifest.ErrStaleUpload) {
			if f.rep.Conflicts++; f.rep.Conflicts < foldConflicts {
				continue
			}
			return f.busy(fmt.Errorf("others changed what was being folded %d times", f.rep.Conflicts))
		}
		if err != nil {
			return err
		}
		if from = done.Next; done.Written > 0 {
			f.rep.Steps = append(f.rep.Steps, done)
		}
		if done.Tail {
			return nil // what has come since is the next fold's: a busy owner would keep this one for ever
		}
	}
}

// busy says that others were in the way.
func (f *folding) busy(err error) error {
	return &OpError{Op: "fold", Log: f.id(), Key: manifest.Key(f.id()), Seq: -1, Err: err,
		Hint: "nothing is lost, and what was folded so far stays; fold again while the log's writer is less busy"}
}

// foldPlan is a step and what it is made of.
type foldPlan struct {
	step   FoldStep
	inputs []manifest.SegmentRef
}

// plan finds what there is to gain behind seq from.
func (f *folding) plan(ctx context.Context, from int64) (steps []foldPlan, err error) {
	rec := f.head.Record
	var group []manifest.SegmentRef
	var size, raw int64
	take := func(tail bool) {
		p := foldPlan{inputs: group, step: FoldStep{First: rec.TailFirst(), Inputs: namesOf(group), Tail: tail, Read: size}}
		if len(group) > 0 {
			last := group[len(group)-1]
			p.step.First, p.step.Next = group[0].Name.First, last.Name.First+last.Count
		}
		if tail {
			p.step.Next = rec.Next
			p.step.Read += int64(len(rec.Tail))
		}
		steps = append(steps, p)
		group, size, raw = nil, 0, 0
	}
	// gains reports whether rewriting the group alone is worth it.
	gains := func() (bool, error) {
		if len(group) != 1 {
			return len(group) > 1, nil
		}
		coarse, err := f.isCoarse(ctx, group[0])
		return !coarse, err
	}
	end := func() error {
		gain, err := gains()
		if gain {
			take(false)
		}
		group, size, raw = nil, 0, 0
		return err
	}
	for _, ref := range rec.Segments {
		if ref.Name.First < from {
			continue
		}
		settled := false
		if ref.Bytes > f.opt.MaxBytes/2 {
			if settled, err = f.isCoarse(ctx, ref); err != nil {
				return nil, err
			}
		}
		if settled || size+ref.Bytes > f.opt.MaxBytes || raw+ref.Raw > foldRaw {
			if err := end(); err != nil {
				return nil, err
			}
		}
		if !settled {
			group, size, raw = append(group, ref), size+ref.Bytes, raw+ref.Raw
		}
	}
	tail := len(rec.Tail) > 0 && (f.opt.Tail == FoldTailTake || f.opt.Tail == FoldTailAuto && rec.Owner.Released)
	due := f.opt.Tail == FoldTailTake || tail && (tailBase64(rec) >= sealSoft)
	if !tail {
		return steps, end()
	}
	if size+int64(len(rec.Tail)) > f.opt.MaxBytes || raw+maxTailRaw > foldRaw {
		if err := end(); err != nil {
			return nil, err
		}
	}
	gain, err := gains()
	if gain || due {
		take(true)
	}
	return steps, err
}

// isCoarse reports whether a segment has frames as large as a fold would make
// them: about as few as its events fill. It takes one GET, of the index.
func (f *folding) isCoarse(ctx context.Context, ref manifest.SegmentRef) (bool, error) {
	if ref.Raw <= segment.FrameRaw {
		return true, nil
	}
	coarse, known := f.coarse[ref.Name]
	if !known {
		r, err := openSegment(f.codec, f.id(), ref,
			&rangedObject{ctx: ctx, store: f.b.store, key: manifest.SegmentKey(f.id(), ref.Name), size: ref.Bytes})
		if err != nil {
			return false, f.lost(ctx, err)
		}
		// Any two frames in a row have more than MergedFrameRaw bytes, if they were
		// made with that bound.
		coarse = int64(len(r.Index().Frames)) <= 2*ref.Raw/segment.MergedFrameRaw+1
		f.coarse[ref.Name] = coarse
	}
	return coarse, nil
}

// lost looks into an error of reading a segment. If the segment is not there
// since it was replaced meanwhile, the error is ErrStaleUpload and the head is
// the newer one.
func (f *folding) lost(ctx context.Context, err error) error {
	if !notThere(err) {
		return err
	}
	fresh, lerr := f.b.open(ctx, f.id())
	if lerr != nil {
		return lerr
	}
	f.head = fresh
	if stillNamed(fresh.Record, err) {
		return finding(err)
	}
	return fmt.Errorf("%w: %w", manifest.ErrStaleUpload, err)
}

// make reads the inputs of a step, writes the result and commits it. Nothing is
// written, and Written stays 0, where that would gain nothing. An error that is
// ErrStaleUpload says that the plan does not fit any more what is there.
func (f *folding) make(ctx context.Context, p foldPlan) (FoldStep, error) {
	select {
	case f.b.merging <- struct{}{}:
		defer func() { <-f.b.merging }()
	case <-ctx.Done():
		return p.step, context.Cause(ctx)
	}
	r := &foldResult{f: f, inputs: namesOf(p.inputs), tail: p.step.Tail}
	if err := r.encode(ctx, p); err != nil {
		return p.step, err
	}
	if len(p.inputs) == 1 && !r.tail && int64(len(r.object)) >= p.step.Read {
		return p.step, nil // larger frames of such events are no smaller
	}
	if err := r.upload(ctx, f.head.Record.Epoch); err != nil {
		return p.step, err
	}
	p.step.Written = int64(len(r.object))
	err := r.commit(ctx)
	if errors.Is(err, manifest.ErrStaleUpload) {
		f.rep.Dropped += int64(len(r.object))
	}
	return p.step, err
}

// foldResult is a segment that replaces others.
type foldResult struct {
	f      *folding
	inputs []manifest.Name
	tail   bool
	events []byte // those of the tail, which it ends with

	object []byte
	ref    manifest.SegmentRef // under its newest name
	names  []manifest.Name     // all names under which it was uploaded
}

// encode joins the inputs and the tail.
func (r *foldResult) encode(ctx context.Context, p foldPlan) error {
	f, rec := r.f, r.f.head.Record
	w := segment.NewWriter(r.f.codec, segment.LevelBest, segment.MergedFrameRaw, p.step.First)
	w.Grow(int(p.step.Read) + segment.FrameRaw)
	foot, err := join(ctx, f.b.store, r.f.codec, rec.Log, w, p.inputs)
	if err != nil {
		return f.lost(ctx, err)
	}
	if r.tail {
		t, err := readTail(r.f.codec, rec)
		if err != nil {
			return &OpError{Op: "fold", Log: rec.Log, Key: manifest.Key(rec.Log), Seq: rec.TailFirst(), Err: err}
		}
		foot.State = rec.Content
		for _, fr := range t.frames {
			r.events = append(r.events, fr.raw...)
		}
		for line := range segment.Lines(r.events) { // whole lines: they were counted
			if err := w.Add(line); err != nil {
				return err
			}
		}
	}
	bear(&foot, rec, p.step.First, w.Next())
	name := manifest.Name{First: p.step.First, Epoch: rec.Epoch, Nonce: manifest.NewNonce()}
	foot.Nonce = name.Nonce.String()
	object, index, err := w.Finish(foot)
	if err != nil {
		return err
	}
	r.object, r.ref = object, refOf(name, object, index)
	return nil
}

// upload puts the result on the store, under a name of the epoch. It is done
// anew, as a copy, where a takeover has raised the epoch meanwhile.
func (r *foldResult) upload(ctx context.Context, epoch uint32) error {
	b := r.f.b
	ctx, cancel := context.WithTimeout(ctx, b.opt.CommitTimeout)
	defer cancel()
	if len(r.names) > 0 {
		r.ref.Name.Nonce = manifest.NewNonce()
		r.f.rep.Dropped += int64(len(r.object))
	}
	r.ref.Name.Epoch = epoch
	if err := manifest.PutSegment(ctx, b.store, r.f.id(), r.ref.Name, r.object, b.commitOptions()); err != nil {
		return err
	}
	r.names = append(r.names, r.ref.Name)
	return nil
}

// commit lets the manifest name the result in the place of what it is made of.
func (r *foldResult) commit(ctx context.Context) error {
	f := r.f
	cctx, cancel := context.WithTimeout(ctx, f.b.opt.CommitTimeout)
	defer cancel()
	res, err := f.b.commit(cctx, "fold", f.id(), f.head, r.propose)
	if err == nil {
		f.head = res.Head
		f.b.remember(f.id(), res.Head.Record)
		return nil
	}
	ce, ok := isCommitError(err)
	switch {
	case !ok || ctx.Err() != nil:
		return err
	case errors.Is(err, ErrOutcomeUnknown):
		// There is nothing to settle: the log holds the same either way. A token
		// would only tempt somebody to take the log over.
		return f.busy(fmt.Errorf("%w: whether the manifest names the last result is not known, and makes no difference to the events: %s", objstore.ErrUndecided, ce.Err.Error()))
	case cctx.Err() != nil:
		return f.busy(fmt.Errorf("others, or the store, kept the manifest from being written for %s: %w", f.b.opt.CommitTimeout, err))
	}
	return err
}

// propose is the step of the commit.
func (r *foldResult) propose(ctx context.Context, base manifest.Head) (*manifest.Proposal, error) {
	f, rec := r.f, base.Record
	at := f.b.now()
	d, err := manifest.Maintain(rec, f.w, at)
	if err != nil {
		return nil, err
	}
	f.head = base
	if rec.UID != f.uid {
		return nil, fmt.Errorf("%w: another log has taken its place", ErrNotFound)
	}
	if r.landed(rec) {
		return nil, nil // its reply was lost, and others have committed since
	}
	rest, err := r.fits(rec)
	if err != nil {
		return nil, err
	}
	if rec.Epoch != r.ref.Name.Epoch {
		if err := r.upload(ctx, rec.Epoch); err != nil {
			return nil, err
		}
	}
	u := manifest.Upload{Ref: r.ref, Inputs: r.inputs, TailFirst: -1}
	if r.tail {
		u.TailFirst = rec.TailFirst()
		d.SetTail(rest)
	}
	if len(r.inputs) == 0 {
		d.Seal(u)
	} else {
		d.Merge(u)
	}
	return d.Finish()
}

// landed reports whether the manifest names the result, or has named it.
func (r *foldResult) landed(rec *manifest.Record) bool {
	return slices.ContainsFunc(rec.Segments, func(s manifest.SegmentRef) bool { return slices.Contains(r.names, s.Name) }) ||
		slices.ContainsFunc(rec.Retired, func(s manifest.Retired) bool { return slices.Contains(r.names, s.Name) })
}

// fits checks that all that the result is made of is still as it was, and
// returns the tail that remains behind it.
func (r *foldResult) fits(rec *manifest.Record) (rest []byte, err error) {
	stale := func(what string) ([]byte, error) {
		return nil, fmt.Errorf("%w: %s", manifest.ErrStaleUpload, what)
	}
	if n := len(r.inputs); n > 0 {
		i := slices.IndexFunc(rec.Segments, func(s manifest.SegmentRef) bool { return s.Name == r.inputs[0] })
		if i < 0 || i+n > len(rec.Segments) || !slices.Equal(namesOf(rec.Segments[i:i+n]), r.inputs) {
			return stale("the inputs are not named any more")
		}
	}
	if !r.tail {
		return nil, nil
	}
	t, err := readTail(r.f.codec, rec)
	if err != nil {
		return nil, &OpError{Op: "fold", Log: rec.Log, Key: manifest.Key(rec.Log), Seq: rec.TailFirst(), Err: err}
	}
	var raw []byte
	for _, fr := range t.frames {
		raw = append(raw, fr.raw...)
	}
	if t.first != r.ref.Name.First+r.ref.Count-countOf(r.events) || !bytes.HasPrefix(raw, r.events) {
		return stale("the tail was sealed")
	}
	rest, err = r.f.codec.EncodeFrames(nil, raw[len(r.events):], segment.LevelFast, segment.FrameRaw)
	if left := (tail{frames: []frame{{enc: rest}}}); err == nil && left.encoded() > sealHard {
		// In other frames the same events may take more room.
		return stale("what is left of the tail is too large for the manifest")
	}
	return rest, err
}

// countOf counts lines that are known to be whole.
func countOf(raw []byte) int64 { return int64(bytes.Count(raw, newline)) }

// tailBase64 is the size of a tail as the manifest shows it.
func tailBase64(rec *manifest.Record) int {
	return tail{frames: []frame{{enc: rec.Tail}}}.encoded()
}
