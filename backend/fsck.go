package backend

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
)

// FsckOptions say what is checked.
type FsckOptions struct {
	// Logs are the ids of those that are checked; none means the whole store.
	Logs []string
	// ReadData verifies every log, too: it reads all that is stored.
	ReadData bool
	// Grace is that of the collection whose next run is foretold; 0 means
	// DefaultGrace.
	Grace time.Duration
}

// FsckLog is what a check found of one log, or below a prefix that is no log's.
type FsckLog struct {
	// Log is the id; empty where nothing tells it, and of what belongs to no log.
	Log string
	// Key is that of the manifest; of what belongs to no log what all keys begin
	// with.
	Key string
	// State is that of the manifest; empty where there is none that can be read.
	State    manifest.LogState
	Revision int64
	Epoch    uint32
	Next     int64 // events
	Segments int   // that the manifest names
	Bytes    int64 // of these, as the manifest says
	// Unnamed are the objects that the manifest does not name, by what becomes of
	// them, in no particular order.
	Unnamed []FsckObjects
	// Findings are what is not as it should be. Kinds beside those of a
	// verification: epoch, lost (segments without a manifest that was there once)
	// and rolled-back (an older manifest was put back). Three are no damage, as far
	// as that shows: foreign, a key that s3log has not made; ahead, segments behind
	// the end of a log of one generation; and headless, segments of the first epoch
	// without a manifest.
	Findings []Finding
	// Verified is the verification, with ReadData, of a log that can be read.
	Verified *Report
	// Err is why not everything could be looked at; it says nothing about the log.
	Err error
}

// FsckObjects are objects of one fate.
type FsckObjects struct {
	Fate    manifest.Fate
	Objects int
	Bytes   int64
	Oldest  time.Time // when the oldest one was written
	// Goes: the next collection would remove them, behind a barrier where it needs
	// one.
	Goes bool
}

// OK reports whether nothing is damaged or missing, as far as was looked.
func (l *FsckLog) OK() bool {
	return l.Err == nil && (l.Verified == nil || l.Verified.OK()) &&
		!slices.ContainsFunc(l.Findings, func(f Finding) bool { return !slices.Contains(remarks, f.Kind) })
}

// Fsck compares what is listed of a store with what its manifests say, and never
// writes: manifests that cannot be read, segments that are missing or have
// another size, objects that nobody names and what the next collection makes of
// them, manifests of which an older copy was put back, keys that are not s3log's,
// and leftovers of store proofs. It goes on after whatever it finds.
//
// It costs one LIST per thousand objects, one GET per log, and one HEAD for each
// segment that seems to be missing; segments are not read, unless with ReadData.
// Memory is that of the lists of a few logs. It yields one FsckLog per log, in the order
// of the keys; an error is yielded last, with a zero FsckLog: a failure to list,
// or the end of ctx. A log of Logs of which nothing is there has Err ErrNotFound.
func (r *Reader) Fsck(ctx context.Context, opt FsckOptions) iter.Seq2[FsckLog, error] {
	return func(yield func(FsckLog, error) bool) {
		c := &collector{
			b:   &Backend{Reader: r, store: readOnly{r.store}},
			opt: GCOptions{Grace: opt.Grace, DryRun: true},
			w:   manifest.NewWriter("", r.opt.Software),
		}
		setDefault(&c.opt.Grace, DefaultGrace)
		f := &fsck{c: c, opt: opt}
		err := f.run(ctx, func(l FsckLog) bool { return yield(l, nil) })
		if err != nil && !errors.Is(err, errEnough) {
			yield(FsckLog{}, opError("fsck", "", err))
		}
	}
}

// kindAhead: segments behind the end of the log, perhaps an older manifest was put
// back.
const kindAhead = "ahead"

// remarks are the kinds of findings that are no damage by themselves.
var remarks = []string{kindForeign, kindAhead, kindHeadless}

// readOnly is a store of which a check makes use: nothing is ever written.
type readOnly struct{ objstore.Reader }

func (readOnly) Put(_ context.Context, key string, _ []byte, _ objstore.Condition, _ objstore.PutOptions) (objstore.Info, error) {
	return objstore.Info{}, &objstore.Error{Op: "Put", Key: key, Class: objstore.ErrReadOnly}
}

func (readOnly) Delete(_ context.Context, key string) error {
	return &objstore.Error{Op: "Delete", Key: key, Class: objstore.ErrReadOnly}
}

// fsck is one check.
type fsck struct {
	c   *collector
	opt FsckOptions
}

// fsckAhead bounds the listed objects that are held while manifests are read.
const fsckAhead = 10_000

func (f *fsck) run(ctx context.Context, yield func(FsckLog) bool) error {
	if f.opt.Grace < 0 {
		return fmt.Errorf("a grace of %s", f.opt.Grace)
	}
	if len(f.opt.Logs) > 0 {
		return f.named(ctx, yield)
	}
	strange := FsckLog{Key: manifest.ManifestPrefix}
	foreign := func(key string) {
		if len(strange.Findings) < maxStrange {
			strange.find(kindForeign, key, "not the key of a manifest")
		}
	}
	var batch []place
	held := 0
	for p, err := range f.c.places(ctx, foreign) {
		if err != nil {
			if ferr := f.all(ctx, batch, yield); ctx.Err() == nil { // else both say so
				err = errors.Join(ferr, err)
			}
			return err
		}
		batch, held = append(batch, p), held+len(p.group.objects)
		if len(batch) < headsAhead && held < fsckAhead {
			continue
		}
		if err := f.all(ctx, batch, yield); err != nil {
			return err
		}
		batch, held = batch[:0], 0
	}
	if err := f.all(ctx, batch, yield); err != nil {
		return err
	}
	if len(strange.Findings) > 0 && !yield(strange) {
		return errEnough
	}
	return f.c.probes(ctx, func(g GCLog) bool {
		return yield(FsckLog{Key: g.Prefix, Unnamed: fates(g.Objects), Findings: g.Findings})
	})
}

// named checks some logs.
func (f *fsck) named(ctx context.Context, yield func(FsckLog) bool) error {
	for _, id := range f.opt.Logs {
		if err := manifest.CheckID(id); err != nil {
			return err
		}
		g := newGroup(manifest.SegmentPrefix(id))
		for found, err := range f.c.groups(ctx, g.prefix) {
			if err != nil {
				return err
			}
			g = found
		}
		g.id = id // which the key may not tell
		if err := f.all(ctx, []place{{group: g}}, yield); err != nil {
			return err
		}
	}
	return nil
}

// all checks some logs, whose manifests are read a few at a time.
func (f *fsck) all(ctx context.Context, batch []place, yield func(FsckLog) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heads := prefetch(ctx, batch, headsAhead, func(ctx context.Context, p place) (manifest.Head, error) { return f.c.read(ctx, p.group) })
	for i, p := range batch {
		got := take(ctx, heads[i])
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if l, ok := f.check(ctx, p, got.value, got.err); ok && !yield(l) {
			return errEnough
		}
	}
	return context.Cause(ctx)
}

func (l *FsckLog) find(kind, key, format string, args ...any) {
	l.Findings = append(l.Findings, Finding{Kind: kind, Key: key, Seq: -1, Detail: fmt.Sprintf(format, args...)})
}

// check looks at one log. It reports false where there is nothing to say: the log
// was removed between LIST and GET, and has no objects.
func (f *fsck) check(ctx context.Context, p place, head manifest.Head, err error) (FsckLog, bool) {
	g := p.group
	l := FsckLog{Log: g.id, Key: g.manifest}
	if !g.log {
		l.Key = g.prefix
	} else if errors.Is(err, ErrNotFound) && len(g.objects)+len(g.strange) == 0 {
		if f.opt.Logs == nil {
			return l, false
		}
		l.Err = opError("fsck", g.id, err)
		return l, true
	}
	listed := slices.Clone(g.listed) // collect takes foreign ones out
	sizes := make(map[manifest.Name]int64, len(g.objects))
	for i := range g.objects {
		sizes[g.listed[i].Name] = g.objects[i].Size
	}
	found := f.c.collect(ctx, g, head, err)
	l.Log, l.Unnamed, l.Findings = found.Log, fates(found.Objects), found.Findings
	if found.Err != nil && !slices.ContainsFunc(found.Findings, func(f Finding) bool { return f.Key == g.manifest }) {
		l.Err = opError("fsck", l.Log, found.Err)
	}
	if rec := head.Record; rec != nil && err == nil {
		l.State, l.Revision, l.Epoch, l.Next, l.Segments = rec.State, rec.Revision, rec.Epoch, rec.Next, len(rec.Segments)
		for i := range rec.Segments {
			l.Bytes += rec.Segments[i].Bytes
		}
		switch what, sure := newer(rec, listed); {
		case sure:
			l.find(kindRolledBack, g.manifest, "%s: an older manifest was put back, or the log was begun anew after its manifest had been removed: nothing must be written or collected before its epoch has been raised (fsck --rebuild). Or this is a copy of a log, and a newer one was interrupted: copy it again", what)
		case what != "":
			l.find(kindAhead, g.manifest, "%s: left by a fork, replay or copy that failed, unless an older manifest was put back (then: fsck --rebuild --restored)", what)
		}
		if err := f.compare(ctx, &l, rec, sizes); err != nil && l.Err == nil {
			l.Err = opError("fsck", l.Log, err)
		}
	}
	if f.opt.ReadData && l.State == manifest.StateOpen && l.Err == nil {
		rep, err := f.c.b.Verify(ctx, l.Log, VerifyOptions{})
		if err != nil {
			l.Err = err
		} else {
			l.Verified = &rep
		}
	}
	return l, true
}

// newer says which listed object speaks for it that there was a newer manifest,
// if any does: one of an epoch that no upload for this one or its next takeover
// can have, or one that begins behind the end of the log. Only what a log inherits
// is uploaded before it is committed that the log gets there, and that is of the
// epoch of its birth: in the first generation such an object is no proof.
func newer(rec *manifest.Record, listed []manifest.Listed) (what string, sure bool) {
	for _, o := range listed {
		behind := rec.State == manifest.StateOpen && o.Name.First > rec.Next && o.Name.Epoch >= rec.Epoch
		switch {
		case manifest.Foreign(rec, o.Name): // a finding of its own
		case uint64(o.Name.Epoch) > uint64(rec.Epoch)+1:
			return fmt.Sprintf("segment %s is of epoch %d, the manifest of %d", o.Name, o.Name.Epoch, rec.Epoch), true
		case behind:
			what = fmt.Sprintf("segment %s begins at seq %d, the log ends at %d", o.Name, o.Name.First, rec.Next)
			if o.Name.Epoch > rec.Epoch || rec.Generation() > 1 {
				return what, true
			}
		}
	}
	return what, false
}

// compare looks for what the manifest names. What is not listed may have been
// uploaded since, or replaced.
func (f *fsck) compare(ctx context.Context, l *FsckLog, rec *manifest.Record, sizes map[manifest.Name]int64) error {
	var lacking []Finding
	for _, ref := range rec.Segments {
		key := manifest.SegmentKey(rec.Log, ref.Name)
		size, listed := sizes[ref.Name]
		if !listed {
			info, err := f.c.b.store.Head(ctx, key)
			switch {
			case errors.Is(err, objstore.ErrNotExist):
				lacking = append(lacking, Finding{Kind: "missing", Key: key, Seq: ref.Name.First,
					Detail: fmt.Sprintf("the object with seqs %d to %d is not there", ref.Name.First, ref.Name.First+ref.Count-1)})
				continue
			case errors.Is(err, objstore.ErrDenied):
				lacking = append(lacking, Finding{Kind: "denied", Key: key, Seq: ref.Name.First, Detail: "it is not listed, and may not be looked at"})
				continue
			case err != nil:
				return segmentError("fsck", rec.Log, ref, err)
			}
			size = info.Size
		}
		if size != ref.Bytes {
			l.Findings = append(l.Findings, Finding{Kind: "damaged", Key: key, Seq: ref.Name.First,
				Detail: fmt.Sprintf("the object has %d bytes, the manifest says %d", size, ref.Bytes)})
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	// Segments may have been replaced, and collected, since the manifest was read.
	fresh, err := f.c.b.load(ctx, rec.Log)
	if err != nil {
		return err
	}
	for _, found := range lacking {
		if slices.ContainsFunc(fresh.Record.Segments, func(s manifest.SegmentRef) bool { return manifest.SegmentKey(rec.Log, s.Name) == found.Key }) {
			l.Findings = append(l.Findings, found)
		}
	}
	return nil
}

// fates sums objects up.
func fates(objects []GCObject) []FsckObjects {
	var all []FsckObjects
	for _, o := range objects {
		i := slices.IndexFunc(all, func(a FsckObjects) bool { return a.Fate == o.Fate && a.Goes == o.Removed })
		if i < 0 {
			i = len(all)
			all = append(all, FsckObjects{Fate: o.Fate, Oldest: o.Modified, Goes: o.Removed})
		}
		all[i].Objects++
		all[i].Bytes += o.Size
		if o.Modified.Before(all[i].Oldest) {
			all[i].Oldest = o.Modified
		}
	}
	slices.SortFunc(all, func(a, b FsckObjects) int { return strings.Compare(string(a.Fate), string(b.Fate)) })
	return all
}
