package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// Finding is one thing that a verification found wrong.
type Finding struct {
	// Kind is missing, denied, damaged, version, state (the manifest or an index
	// contradicts the events), root, since, parent, or duplicate-result.
	Kind   string
	Key    string // the object
	Seq    int64  // the first seq that is concerned, -1 if none
	Detail string
}

// Report is what a verification found and did.
type Report struct {
	Log      string
	Events   int64 // that were read
	Segments int
	Root     segment.Hash // over the events, where all of them could be read
	Size     int64
	Findings []Finding
	// Checked says what was checked, in words, also what could not be.
	Checked []string
}

// OK reports whether nothing was found.
func (r *Report) OK() bool { return len(r.Findings) == 0 }

// Point is a size of a log and its Merkle root at that size, noted elsewhere.
type Point struct {
	Size int64
	Root segment.Hash
}

// ParsePoint reads SIZE:ROOT.
func ParsePoint(text string) (Point, error) {
	size, root, ok := strings.Cut(text, ":")
	var p Point
	var err error
	if p.Size, err = strconv.ParseInt(size, 10, 64); err != nil || !ok || p.Size < 0 {
		return Point{}, fmt.Errorf("%q is not SIZE:ROOT", text)
	}
	if err := p.Root.UnmarshalText([]byte(root)); err != nil {
		return Point{}, fmt.Errorf("%q is not SIZE:ROOT: %w", text, err)
	}
	return p, nil
}

// String is SIZE:ROOT.
func (p Point) String() string { return fmt.Sprintf("%d:%s", p.Size, p.Root) }

// VerifyOptions say what a verification takes for given.
type VerifyOptions struct {
	// Since, unless nil, is an earlier state of the log: the report proves that
	// the log extends it, or has a finding of kind since.
	Since *Point
	// Parent reads the parent of a fork, to compare what was inherited; nil: this
	// Reader. Where it cannot be read the report says so and that is no finding.
	Parent *Reader
}

// Verify reads everything of a log with GetObject only and derives again
// whatever can be derived: the hash of every segment, every frame, index and
// envelope, the continuity of the seqs, the state of the log (types, times,
// activity, turn, boundary) in every index and in the manifest, the Merkle root,
// and for a fork its parent's root. It keeps going after damage, as far as the
// rest can be read. The error is for what leaves nothing to verify: no manifest,
// or one that cannot be read.
func (r *Reader) Verify(ctx context.Context, id string, opt VerifyOptions) (Report, error) {
	head, err := r.open(ctx, id)
	if err != nil {
		return Report{}, opError("verify", id, err)
	}
	for reread := 0; ; reread++ {
		v := &verifier{r: r, rec: head.Record, opt: opt, codec: segment.NewCodec()}
		v.rep = Report{Log: id, Segments: len(head.Record.Segments)}
		if err := v.run(ctx); err != nil {
			return Report{}, opError("verify", id, err)
		}
		if !v.lacking || reread == maxRereads {
			return v.rep, nil
		}
		// Segments may have been replaced under our hands: only under an unchanged
		// manifest it is a finding that they are not there.
		fresh, err := r.open(ctx, id)
		if err != nil {
			return Report{}, opError("verify", id, err)
		}
		if fresh.Record.Commit.ID == head.Record.Commit.ID {
			return v.rep, nil
		}
		head = fresh
	}
}

type verifier struct {
	r     *Reader
	rec   *manifest.Record
	opt   VerifyOptions
	codec *segment.Codec
	rep   Report

	fold    *manifest.Fold // nil after a gap: what depends on all events is not known
	lacking bool           // a segment was not there
	results map[string]int64
	gaps    bool
}

func (v *verifier) find(kind, key string, seq int64, format string, args ...any) {
	v.rep.Findings = append(v.rep.Findings, Finding{Kind: kind, Key: key, Seq: seq, Detail: fmt.Sprintf(format, args...)})
}

func (v *verifier) checked(format string, args ...any) {
	v.rep.Checked = append(v.rep.Checked, fmt.Sprintf(format, args...))
}

func (v *verifier) run(ctx context.Context) error {
	_, created, err := checkHeader(v.rec.Header)
	if err != nil {
		return err
	}
	begin := segment.NewState()
	begin.Activity = created
	if v.fold, err = manifest.NewFold(begin, v.rec.ActivityRule); err != nil {
		return err
	}
	v.results = make(map[string]int64)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fetched := prefetch(ctx, v.rec.Segments, v.r.opt.Prefetch, func(ctx context.Context, ref manifest.SegmentRef) (*segment.Reader, error) {
		return fetchSegment(ctx, v.r.store, segment.NewCodec(), v.rec.Log, ref)
	})
	for i, ref := range v.rec.Segments {
		var got result[*segment.Reader]
		select {
		case got = <-fetched[i]:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		v.segment(ref, got.value, got.err)
	}
	v.tail()
	v.whole()
	v.parent(ctx)
	return ctx.Err()
}

// segment verifies one segment, of which got is what could be had.
func (v *verifier) segment(ref manifest.SegmentRef, got *segment.Reader, err error) {
	key := manifest.SegmentKey(v.rec.Log, ref.Name)
	if err == nil {
		seq := ref.Name.First
		for line, lerr := range got.Lines(seq) {
			if err = lerr; err != nil {
				break
			}
			v.line(key, seq, line)
			seq++
		}
	}
	if err != nil {
		v.broken(key, ref.Name.First, err)
		return
	}
	if v.gaps {
		return
	}
	index := got.Index().State
	have := v.fold.State()
	if ref.Name.First+ref.Count <= v.rec.Origin.Inherited {
		// A segment that was copied from a parent speaks of the parent's header.
		index.Activity = have.Activity
	}
	for _, what := range stateDiff(have, index) {
		v.find("state", key, ref.Name.First+ref.Count-1, "its index has another %s than its events", what)
	}
}

// line verifies one event.
func (v *verifier) line(key string, seq int64, line []byte) {
	v.rep.Events++
	ev, err := segment.ParseEvent(line, segment.Limits{MaxEvent: segment.MaxFrameRaw})
	if err == nil && ev.Seq != seq {
		err = fmt.Errorf("it carries seq %d", ev.Seq)
	}
	if err != nil {
		v.find("damaged", key, seq, "%v", err)
		v.gaps = true
		return
	}
	switch p := segment.Project(ev); p.Kind {
	case segment.KindTurnStart:
		clear(v.results)
	case segment.KindToolResult:
		if first, twice := v.results[p.CallID]; twice {
			v.find("duplicate-result", key, seq, "call %s was answered at seq %d already", strconv.QuoteToASCII(p.CallID), first)
		} else {
			v.results[p.CallID] = seq
		}
	}
	if v.gaps {
		return
	}
	v.fold.Add(ev)
	if s := v.opt.Since; s != nil && v.fold.Size() == s.Size {
		if root := v.fold.State().Tree.Root; root != s.Root {
			v.find("since", manifest.Key(v.rec.Log), s.Size-1, "the root at %d events is %s, %s was noted: this log does not extend that one", s.Size, root, s.Root)
		} else {
			v.checked("the log extends %s", s)
		}
	}
	if o := v.rec.Origin; o.Parent != nil && v.fold.Size() == o.Parent.UpTo {
		if root := v.fold.State().Tree.Root; root != o.Parent.Root {
			v.find("parent", manifest.Key(v.rec.Log), o.Parent.UpTo-1, "the inherited events have root %s, the origin says %s", root, o.Parent.Root)
		}
	}
}

// broken notes why an object could not be read to its end.
func (v *verifier) broken(key string, seq int64, err error) {
	v.gaps = true
	switch {
	case errors.Is(err, objstore.ErrNotExist):
		v.lacking = true
		v.find("missing", key, seq, "the object is not there")
	case errors.Is(err, objstore.ErrDenied):
		v.lacking = true
		v.find("denied", key, seq, "access denied: these credentials may not read (or decrypt) it, or it is missing and they may not list the bucket")
	case errors.Is(err, ErrUnsupportedVersion):
		v.find("version", key, seq, "%v", err)
	default:
		v.find("damaged", key, seq, "%v", err)
	}
}

// tail verifies the events in the manifest.
func (v *verifier) tail() {
	key := manifest.Key(v.rec.Log)
	t, err := readTail(v.codec, v.rec)
	if err != nil {
		v.broken(key, v.rec.TailFirst(), err)
		return
	}
	seq := t.first
	for _, f := range t.frames {
		for line := range segment.Lines(f.raw) { // whole lines: they were counted
			v.line(key, seq, line)
			seq++
		}
	}
}

// whole compares what the manifest says of the log with all of its events.
func (v *verifier) whole() {
	v.rep.Size = v.rec.Next
	key := manifest.Key(v.rec.Log)
	v.checked("%d events in %d segments and the tail: hashes, frames, checksums, indexes, envelopes, continuity", v.rep.Events, v.rep.Segments)
	if s := v.opt.Since; s != nil && s.Size > v.rec.Next {
		v.find("since", key, -1, "the log has %d events, %d were noted", v.rec.Next, s.Size)
	} else if s != nil && s.Size == 0 {
		if (segment.Hash)(segment.TreeRoot(nil)) != s.Root {
			v.find("since", key, -1, "%s is not the root of an empty log", s.Root)
		}
	} else if s != nil && v.gaps {
		v.checked("not whether the log extends %s, since events are missing or damaged", s)
	}
	if v.gaps {
		v.checked("not the Merkle root and the state in the manifest, since events are missing or damaged")
		return
	}
	have := v.fold.State()
	v.rep.Root = have.Tree.Root
	for _, what := range stateDiff(have, v.rec.Content) {
		kind := "state"
		if what == "tree" {
			kind = "root"
		}
		v.find(kind, key, v.rec.Next-1, "the manifest has another %s than the events", what)
	}
	v.checked("types, times, activity, boundary, open turn and Merkle root in manifest and indexes")
}

// parent compares with the parent of a fork, if it can be read.
func (v *verifier) parent(ctx context.Context) {
	o := v.rec.Origin
	if o.Parent == nil || o.Kind != manifest.KindFork {
		return
	}
	src := v.opt.Parent
	if src == nil {
		src = v.r
	}
	name := strconv.QuoteToASCII(o.Parent.Log)
	head, err := src.open(ctx, o.Parent.Log)
	if err == nil && head.Record.UID != o.Parent.UID {
		err = errors.New("another log has this id now")
	}
	if err != nil {
		v.checked("not the parent %s, which cannot be read: %v", name, err)
		return
	}
	root := head.Record.Content.Tree.Root
	if head.Record.Next != o.Parent.UpTo {
		fold, ferr := manifest.NewFold(segment.NewState(), head.Record.ActivityRule)
		err = ferr
		if err == nil {
			_, _ = src.span(ctx, head, 0, o.Parent.UpTo, func(e Event, eerr error) bool {
				var ev segment.Event
				if err = eerr; err == nil {
					if ev, err = e.Parse(); err == nil {
						fold.Add(ev)
					}
				}
				return err == nil
			})
			root = fold.State().Tree.Root
		}
	}
	switch {
	case err != nil:
		v.checked("not the events of the parent %s, which cannot be read: %v", name, err)
	case root != o.Parent.Root:
		v.find("parent", manifest.Key(o.Parent.Log), o.Parent.UpTo-1, "the parent's root at %d events is %s, the fork's origin says %s", o.Parent.UpTo, root, o.Parent.Root)
	default:
		v.checked("the %d inherited events are those of the parent %s", o.Parent.UpTo, name)
	}
}

// stateDiff names the parts in which two states differ.
func stateDiff(a, b segment.State) (parts []string) {
	differ := func(name string, x, y []byte) {
		if !bytes.Equal(x, y) {
			parts = append(parts, name)
		}
	}
	differ("count of types", a.Types.AppendJSON(nil), typesLike(b.Types, a.Types).AppendJSON(nil))
	for _, t := range []struct {
		name string
		x, y *int64
	}{{"time of the last event", a.LastTime, b.LastTime}, {"greatest time", a.MaxTime, b.MaxTime}, {"activity", a.Activity, b.Activity}} {
		if (t.x == nil) != (t.y == nil) || t.x != nil && *t.x != *t.y {
			parts = append(parts, t.name)
		}
	}
	differ("boundary", a.Boundary.AppendJSON(nil), b.Boundary.AppendJSON(nil))
	differ("open turn", a.Turn.AppendJSON(nil), b.Turn.AppendJSON(nil))
	differ("tree", a.Tree.AppendJSON(nil), b.Tree.AppendJSON(nil))
	return parts
}

// typesLike drops what only the log's creator could know: types that were named
// at create come first, and have entries although none may have appeared.
func typesLike(t, like segment.Types) segment.Types {
	sorted := segment.Types{Overflow: t.Overflow}
	for _, want := range like.Entries {
		if c, ok := t.Get(want.Type); ok && c.Count > 0 {
			sorted.Entries = append(sorted.Entries, c)
		}
	}
	for _, c := range t.Entries {
		if w, _ := like.Get(c.Type); c.Count > 0 && w.Count == 0 {
			sorted.Entries = append(sorted.Entries, c)
		}
	}
	return sorted
}
