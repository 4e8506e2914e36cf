package backend

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// maxBadLines is how many events of one object are named one by one.
const maxBadLines = 10

// verifier is one pass over a log.
type verifier struct {
	r   *Reader
	rec *manifest.Record
	opt VerifyOptions
	rep Report

	// fold is the state after the events so far; nil where it is not known, behind
	// something that could not be read and before the next index.
	fold     *manifest.Fold
	complete bool            // no event was missing so far: fold rests on events alone
	lacking  []manifest.Name // segments that are not there
	losses   int             // how often events were found missing or damaged
	noTail   bool            // the tail could not be read
	failed   error           // the store's, which says nothing about the log
	since    bool            // opt.Since was compared
	bad      int64           // events of the object at hand that are none

	results map[string]int64 // of the turn: call → seq of its result
}

func (v *verifier) find(kind, key string, seq int64, format string, args ...any) {
	v.rep.Findings = append(v.rep.Findings, Finding{Kind: kind, Key: key, Seq: seq, Detail: fmt.Sprintf(format, args...)})
}

func (v *verifier) checked(format string, args ...any) {
	v.rep.Checked = append(v.rep.Checked, fmt.Sprintf(format, args...))
}

// object is a segment as far as it could be had.
type object struct {
	body    []byte
	damaged error // the body is not the one that the manifest means
}

func (v *verifier) run(ctx context.Context) error {
	v.rep = Report{Log: v.rec.Log, Segments: len(v.rec.Segments)}
	_, created, err := checkHeader(v.rec.Header)
	if err != nil {
		return err
	}
	begin := segment.NewState()
	begin.Activity = created
	// A log whose creator named types has places for them, and with more types
	// than places others have none: only the manifest tells which.
	var types []string
	for _, t := range v.rec.Content.Types.Entries {
		types = append(types, t.Type)
	}
	if err := begin.Types.Reserve(types); err != nil {
		return err
	}
	if v.fold, err = manifest.NewFold(begin, v.rec.ActivityRule); err != nil {
		return err
	}
	v.complete, v.results = true, make(map[string]int64)
	v.points()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fetched := prefetch(ctx, v.rec.Segments, fetchWidth(v.rec.Segments, v.r.opt.Prefetch), func(ctx context.Context, ref manifest.SegmentRef) (object, error) {
		return fetchAny(ctx, v.r.store, v.rec.Log, ref)
	})
	for i, ref := range v.rec.Segments {
		got := take(ctx, fetched[i])
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		losses := v.losses
		if v.segment(ref, got.value, got.err); v.losses == losses {
			v.rep.Intact++
		}
		if v.opt.Progress != nil {
			v.opt.Progress(ref.Name.First+ref.Count, v.rec.Next)
		}
	}
	v.tail()
	v.whole()
	v.parent(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return v.failed
}

// fetchAny gets a segment. A body of the wrong content is kept, to see what of it
// can be read.
func fetchAny(ctx context.Context, st objstore.Reader, id string, ref manifest.SegmentRef) (object, error) {
	obj, err := st.Get(ctx, manifest.SegmentKey(id, ref.Name), objstore.GetOptions{Limit: ref.Bytes})
	switch {
	case errors.Is(err, objstore.ErrTooLarge):
		return object{damaged: fmt.Errorf("it has more than the %d bytes that the manifest says", ref.Bytes)}, nil
	case err != nil:
		return object{}, err
	case int64(len(obj.Body)) != ref.Bytes:
		return object{obj.Body, fmt.Errorf("it has %d bytes, the manifest says %d", len(obj.Body), ref.Bytes)}, nil
	case sha256.Sum256(obj.Body) != ref.SHA256:
		return object{obj.Body, errors.New("its SHA-256 is not the one in the manifest")}, nil
	}
	return object{body: obj.Body}, nil
}

// lost notes that events are missing or damaged.
func (v *verifier) lost() {
	v.losses++
	v.complete, v.fold = false, nil
}

// segment verifies one segment, of which obj is what could be had.
func (v *verifier) segment(ref manifest.SegmentRef, obj object, err error) {
	key, next := manifest.SegmentKey(v.rec.Log, ref.Name), ref.Name.First+ref.Count
	if err != nil {
		v.unread(ref, err)
		return
	}
	r, err := openSegment(segment.NewCodec(), v.rec.Log, ref, bytes.NewReader(obj.body))
	if obj.damaged != nil {
		v.damaged(ref, r, obj.damaged)
		return
	}
	if err != nil {
		v.unread(ref, err)
		return
	}
	x := r.Index()
	for i, f := range x.Frames {
		raw, err := r.Frame(i)
		if err != nil {
			v.lost()
			v.find("damaged", key, f.First, "%v", err)
			continue
		}
		v.lines(key, f.First, raw)
	}
	v.summarize(key)
	copied := next <= v.rec.Origin.Inherited && v.rec.Origin.Kind == manifest.KindFork
	if raw := x.RawLength(); raw != ref.Raw {
		v.find("state", key, ref.Name.First, "its events have %d bytes, the manifest says %d", raw, ref.Raw)
	}
	if !copied {
		v.birth(key, ref, x)
	}
	index := x.State
	if v.fold == nil {
		// Behind a gap this is all that is known. A segment that was copied from a
		// parent speaks of the parent's header, so the next one is waited for.
		if !copied {
			if fold, err := manifest.NewFold(index, v.rec.ActivityRule); err == nil {
				v.fold = fold
			}
		}
		return
	}
	have := v.fold.State()
	if copied {
		index.Activity = have.Activity
	}
	for _, what := range differ(v.rec.ActivityRule, have, index) {
		v.find("state", key, next-1, "its index has another %s than its events", what)
	}
}

// birth compares what a segment says about its log with the manifest.
func (v *verifier) birth(key string, ref manifest.SegmentRef, x *segment.Index) {
	if x.UID == "" {
		return
	}
	if x.UID != v.rec.UID || x.Log != v.rec.Log || !bytes.Equal(x.Header, v.rec.Header) || !bytes.Equal(x.Origin, manifest.AppendOrigin(nil, v.rec.Origin)) {
		v.find("state", key, ref.Name.First, "its index has another uid, id, header or origin than the manifest")
	}
}

// unread notes why a segment could not be read at all.
func (v *verifier) unread(ref manifest.SegmentRef, err error) {
	v.lost()
	key := manifest.SegmentKey(v.rec.Log, ref.Name)
	switch {
	case errors.Is(err, objstore.ErrNotExist):
		v.lacking = append(v.lacking, ref.Name)
		v.find("missing", key, ref.Name.First, "the object with seqs %d to %d is not there", ref.Name.First, ref.Name.First+ref.Count-1)
	case errors.Is(err, objstore.ErrDenied):
		v.lacking = append(v.lacking, ref.Name)
		v.find("denied", key, ref.Name.First, "access denied: these credentials may not read (or decrypt) it, or it is missing and they may not list the bucket")
	case errors.Is(err, ErrUnsupportedVersion):
		v.find("version", key, ref.Name.First, "%v", err)
	case errors.Is(err, ErrCorrupt):
		v.find("damaged", key, ref.Name.First, "%v", err)
	case v.failed == nil:
		v.failed = segmentError("verify", v.rec.Log, ref, err)
	}
}

// damaged notes a segment of the wrong content, and where in it that begins. r
// is nil if not even its index can be read.
func (v *verifier) damaged(ref manifest.SegmentRef, r *segment.Reader, why error) {
	v.lost()
	first, readable := int64(-1), int64(0)
	if r != nil {
		for i, f := range r.Index().Frames {
			if _, err := r.Frame(i); err == nil {
				readable += f.Count
			} else if first < 0 {
				first = f.First
			}
		}
	}
	if first < 0 {
		first = ref.Name.First
	}
	v.find("damaged", manifest.SegmentKey(v.rec.Log, ref.Name), first, "%v; %d of its %d events are in frames that can be read", why, readable, ref.Count)
}

// lines verifies the events of a frame.
func (v *verifier) lines(key string, seq int64, raw []byte) {
	for line := range segment.Lines(raw) { // whole lines: they were counted
		v.rep.Events++
		ev, err := segment.ParseEvent(line, segment.Limits{MaxEvent: segment.MaxFrameRaw})
		if err == nil && ev.Seq != seq {
			err = fmt.Errorf("it carries seq %d", ev.Seq)
		}
		if err != nil {
			v.lost()
			if v.bad++; v.bad <= maxBadLines {
				v.find("damaged", key, seq, "%v", err)
			}
		} else {
			v.event(key, ev)
		}
		seq++
	}
}

// summarize ends the events of one object.
func (v *verifier) summarize(key string) {
	if more := v.bad - maxBadLines; more > 0 {
		v.find("damaged", key, -1, "and %d more of its events", more)
	}
	v.bad = 0
}

// event takes an intact event.
func (v *verifier) event(key string, ev segment.Event) {
	switch p := segment.Project(ev); p.Kind {
	case segment.KindTurnStart:
		clear(v.results)
	case segment.KindAssistantMessage:
		for _, id := range p.Calls {
			delete(v.results, id)
		}
	case segment.KindToolResult:
		first, twice := v.results[p.CallID]
		if !twice {
			v.results[p.CallID] = ev.Seq
		} else if !replaces(ev.Line) {
			v.find(duplicateResult, key, ev.Seq, "call %s was answered at seq %d already", strconv.QuoteToASCII(p.CallID), first)
		}
	}
	if v.fold != nil {
		v.fold.Add(ev)
		v.points()
	}
}

// replaces reports whether an event takes the place of earlier ones on the
// surface: as a result that was shortened does.
func replaces(line []byte) bool {
	dec := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if _, err := dec.ReadToken(); err != nil {
		return false
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return false
		}
		isOp := name.String() == "surfaceOp"
		if isOp {
			return dec.PeekKind() == '{'
		}
		if err := dec.SkipValue(); err != nil {
			return false
		}
	}
	return false
}

// points compares roots that were noted, where the log has that size.
func (v *verifier) points() {
	size := v.fold.Size()
	s, o := v.opt.Since, v.rec.Origin
	atSince := s != nil && size == s.Size
	atFork := o.Kind == manifest.KindFork && size == o.Parent.UpTo
	if !v.complete || !atSince && !atFork {
		return
	}
	key, root := manifest.Key(v.rec.Log), v.fold.State().Tree.Root
	if atSince {
		v.since = true
		if root == s.Root {
			v.checked("the log extends %s", s)
		} else {
			v.find("since", key, size-1, "the root at %s is %s, %s was noted: this log does not extend that one", words.Count(size, "event"), root, s.Root)
		}
	}
	if atFork && root != o.Parent.Root {
		v.find("parent", key, size-1, "the inherited events have root %s, the origin says %s", root, o.Parent.Root)
	}
}

// tail verifies the events in the manifest.
func (v *verifier) tail() {
	key := manifest.Key(v.rec.Log)
	t, err := readTail(segment.NewCodec(), v.rec)
	if err != nil {
		v.lost()
		v.noTail = true
		v.find("damaged", key, v.rec.TailFirst(), "%v", err)
		return
	}
	for _, f := range t.frames {
		v.lines(key, f.first, f.raw)
	}
	v.summarize(key)
}

// whole compares what the manifest says of the log with all of its events.
func (v *verifier) whole() {
	v.rep.Size = v.rec.Next
	key := manifest.Key(v.rec.Log)
	v.checked("%s, in %s: hashes, frames, checksums, indexes, envelopes, continuity", v.rep.read(), v.places())
	if s := v.opt.Since; s != nil && !v.since {
		if s.Size > v.rec.Next {
			v.find("since", key, -1, "the log has %s, and %d when it was noted", words.Count(v.rec.Next, "event"), s.Size)
		} else {
			v.checked("not whether the log extends %s, since events are missing or damaged", s)
		}
	}
	if v.fold == nil {
		v.checked("neither the Merkle root nor the state in the manifest, since events are missing or damaged")
		return
	}
	have := v.fold.State()
	for _, what := range differ(v.rec.ActivityRule, have, v.rec.Content) {
		kind := "state"
		if what == "tree" {
			kind = "root"
		}
		v.find(kind, key, v.rec.Next-1, "the manifest has another %s than the events", what)
	}
	if !v.complete {
		v.checked("types, times, activity, boundary, open turn and Merkle root only from the index behind the damage on, since events are missing or damaged")
		return
	}
	v.rep.Root = have.Tree.Root
	v.checked("types, times, activity, boundary, open turn and Merkle root in manifest and indexes")
}

// places are the parts of the log that were read.
func (v *verifier) places() string {
	text := words.Count(v.rep.Intact, "segment")
	if n := v.rep.Segments; v.rep.Intact < n {
		text = fmt.Sprintf("%d of %s", v.rep.Intact, words.Count(n, "segment"))
	}
	if v.noTail {
		return text + " and not the tail"
	}
	return text + " and the tail"
}

// parent compares with the parent of a fork, if it can be read.
func (v *verifier) parent(ctx context.Context) {
	o := v.rec.Origin
	if o.Kind != manifest.KindFork {
		return
	}
	src := v.opt.Parent
	if src == nil {
		src = v.r
	}
	name, key, upTo := strconv.QuoteToASCII(o.Parent.Log), manifest.Key(o.Parent.Log), o.Parent.UpTo
	head, err := src.open(ctx, o.Parent.Log)
	if err == nil && head.Record.UID != o.Parent.UID {
		err = errors.New("another log has this id now")
	}
	if err == nil && head.Record.Next < upTo {
		v.rep.Parent = ParentDiffers
		v.find("parent", key, -1, "the parent has %s, and had %d when it was forked", words.Count(head.Record.Next, "event"), upTo)
		return
	}
	var root segment.Hash
	if err == nil {
		root, err = src.rootAt(ctx, head, upTo)
	}
	switch {
	case err != nil:
		v.rep.Parent = ParentUnread
		v.checked("not the events of the parent %s, which cannot be read: %v", name, err)
	case root != o.Parent.Root:
		v.rep.Parent = ParentDiffers
		v.find("parent", key, upTo-1, "the parent's root at %s is %s, the fork's origin says %s", words.Count(upTo, "event"), root, o.Parent.Root)
	default:
		v.rep.Parent = ParentAgrees
		v.checked("the parent %s has at %s the root that the fork's origin says", name, words.Count(upTo, "event"))
	}
}

// rootAt derives the Merkle root over a log's first events, unless that is what
// its manifest says.
func (r *Reader) rootAt(ctx context.Context, head manifest.Head, size int64) (segment.Hash, error) {
	if head.Record.Next == size {
		return head.Record.Content.Tree.Root, nil
	}
	fold, err := manifest.NewFold(segment.NewState(), head.Record.ActivityRule)
	if err != nil {
		return segment.Hash{}, err
	}
	_, _ = r.span(ctx, head, 0, size, func(e Event, eerr error) bool {
		var ev segment.Event
		if err = eerr; err == nil {
			ev, err = e.Parse()
		}
		if err == nil {
			fold.Add(ev)
		}
		return err == nil
	})
	return fold.State().Tree.Root, err
}

// differ names the parts in which two states of a log with an activity rule differ.
func differ(rule string, a, b segment.State) (parts []string) {
	differ := func(name string, same bool) {
		if !same {
			parts = append(parts, name)
		}
	}
	differ("count of types", bytes.Equal(appeared(a.Types).AppendJSON(nil), appeared(b.Types).AppendJSON(nil)))
	differ("time of the last event", equalTime(a.LastTime, b.LastTime))
	differ("greatest time", equalTime(a.MaxTime, b.MaxTime))
	differ("activity", rule != manifest.RuleUserPrompt || equalTime(a.Activity, b.Activity)) // other rules are not known
	differ("boundary", bytes.Equal(a.Boundary.AppendJSON(nil), b.Boundary.AppendJSON(nil)))
	differ("open turn", bytes.Equal(a.Turn.AppendJSON(nil), b.Turn.AppendJSON(nil)))
	differ("tree", bytes.Equal(a.Tree.AppendJSON(nil), b.Tree.AppendJSON(nil)))
	return parts
}

// appeared drops the types that only have a place so far.
func appeared(t segment.Types) segment.Types {
	t.Entries = slices.DeleteFunc(slices.Clone(t.Entries), func(c segment.TypeCount) bool { return c.Count == 0 })
	return t
}
