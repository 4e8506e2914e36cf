package backend

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
)

// DefaultGrace is how long GC spares what readers of an older manifest, or slow
// uploads, may still be about.
const DefaultGrace = 24 * time.Hour

// GCOptions say what is collected.
type GCOptions struct {
	// Grace spares replaced segments, those of a deleted log, and uploads that
	// nobody names yet, for this long by the store's clock; 0 means DefaultGrace.
	// No log depends on it, whatever it is: it protects readers that are half way
	// through, and saves slow uploads from having to be made again.
	Grace time.Duration
	// Log collects one log; empty: the whole store.
	Log string
	// DryRun reports what would be done, and writes and removes nothing.
	DryRun bool
}

// GCLog is what a collection found below the segments of one log, and did.
type GCLog struct {
	// Log is the id; empty where no manifest is there that would know it (a long
	// id), and of what is not below a log at all.
	Log string
	// Prefix is what all keys of the objects begin with.
	Prefix string
	// State is that of the manifest by which the objects were judged; empty where
	// there is none.
	State manifest.LogState
	// Named and NamedBytes count the listed objects that it names.
	Named      int
	NamedBytes int64
	// Objects are the others, in the order of their keys.
	Objects []GCObject
	// Barrier: the epoch was raised, so that none of Objects can be named any
	// more. Void: that was the making of a void, or a new revision of one. In a dry
	// run, that it would be.
	Barrier, Void bool
	// Findings are what is not as it should be; nothing is removed because of one.
	// Their kinds: foreign (a key that s3log has not made), epoch (an object of an
	// epoch far above the manifest's), lost (segments of a log whose manifest was
	// removed), headless (segments of the first epoch without a manifest: what a fork
	// that failed leaves, or a log of one generation whose manifest was removed; they
	// go after the grace), and where the manifest cannot be read denied, damaged, version or
	// rolled-back.
	Findings []Finding
	// Err is why something was left undone that should have been done; what was
	// done all the same is in Objects.
	Err error
}

// GCObject is an object that the manifest of its log does not name.
type GCObject struct {
	Key      string
	Size     int64
	Modified time.Time
	// Fate is why it may go, or stays; FateKept where the manifest could not be
	// read.
	Fate manifest.Fate
	// Removed: it is gone. In a dry run, that it would be.
	Removed bool
	// Err is why it could not be removed.
	Err error
}

// Fates of objects beside those that the rule of removal knows.
const (
	// FateKept: the manifest could not be read, so that nothing is known.
	FateKept manifest.Fate = "kept"
	// FateNameless: there is no manifest, and the key does not tell the id that a
	// void would need: GC of that one log can remove it.
	FateNameless manifest.Fate = "nameless"
	// FateLost: it is part of a log whose manifest was removed, and may be all that
	// is left of it: GC of that one log can remove it.
	FateLost manifest.Fate = "lost"
	// FateProbe: a store proof left it behind longer than the grace ago.
	FateProbe manifest.Fate = "probe"
)

// Kinds of findings beside those of a verification.
const (
	kindForeign    = "foreign"
	kindEpoch      = "epoch"
	kindHeadless   = "headless"
	kindLost       = "lost"
	kindRolledBack = "rolled-back"
)

// Removed counts the objects that are gone, and their bytes.
func (g *GCLog) Removed() (objects int, bytes int64) {
	for i := range g.Objects {
		if g.Objects[i].Removed {
			objects++
			bytes += g.Objects[i].Size
		}
	}
	return objects, bytes
}

// GC removes what no log needs: segments that no manifest names and none can
// name any more, segments that were replaced, or whose log was deleted, longer
// than the grace ago, and what store proofs have left behind. It is safe at any
// time, also beside other collections, with any process frozen for ever at any
// step, and whatever the clocks say (docs/consistency.md, Removal). It never
// removes a manifest, and reads no segment.
//
// It costs one LIST per thousand segments, one GET per log that has any, one PUT
// per log where a barrier is needed, and the removals, a few at a time. Without
// garbage nothing is written. Memory is that of the lists of a few logs.
//
// It yields what it found and did per log, in the order of the keys. What goes
// wrong with one log is in GCLog.Err and does not end the rest; an error is
// yielded last, with a zero GCLog: a failure to list, or the end of ctx. Errors
// of a single log: ErrNotFound where neither a manifest nor an object is there.
func (b *Backend) GC(ctx context.Context, opt GCOptions) iter.Seq2[GCLog, error] {
	return func(yield func(GCLog, error) bool) {
		c := &collector{b: b, opt: opt, w: b.writer()}
		ctx, op := b.tel.begin(ctx, "gc", opt.Log)
		err := c.run(ctx, func(g GCLog) bool { return yield(g, nil) })
		if errors.Is(err, errEnough) {
			op.collected(ctx, c, nil)
		} else {
			op.collected(ctx, c, err)
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(GCLog{}, opError("gc", opt.Log, err))
		}
	}
}

// errEnough: the consumer of a collection left.
var errEnough = errors.New("left by the consumer")

// collector is one collection.
type collector struct {
	b   *Backend
	opt GCOptions
	w   manifest.Writer

	removed int // so far: objects, and their bytes
	freed   int64
}

func (c *collector) run(ctx context.Context, yield func(GCLog) bool) error {
	switch {
	case c.opt.Grace < 0:
		return fmt.Errorf("a grace of %s", c.opt.Grace)
	case c.opt.Grace == 0:
		c.opt.Grace = DefaultGrace
	}
	if err := c.w.Check(); err != nil {
		return err
	}
	if c.opt.Log != "" {
		return c.one(ctx, yield)
	}
	var batch []*group
	for g, err := range c.groups(ctx, manifest.SegmentTree) {
		if err != nil {
			return errors.Join(c.all(ctx, batch, yield), err)
		}
		if batch = append(batch, g); len(batch) < headsAhead {
			continue
		}
		if err := c.all(ctx, batch, yield); err != nil {
			return err
		}
		batch = batch[:0]
	}
	if err := c.all(ctx, batch, yield); err != nil {
		return err
	}
	return c.probes(ctx, yield)
}

// all collects some logs, one after the other. Their manifests are read a few at
// a time.
func (c *collector) all(ctx context.Context, batch []*group, yield func(GCLog) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heads := prefetch(ctx, batch, headsAhead, c.read)
	for i, g := range batch {
		got := take(ctx, heads[i])
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !yield(c.collect(ctx, g, got.value, got.err)) {
			return errEnough
		}
	}
	return context.Cause(ctx)
}

// one collects a single log.
func (c *collector) one(ctx context.Context, yield func(GCLog) bool) error {
	if err := manifest.CheckID(c.opt.Log); err != nil {
		return err
	}
	g := newGroup(manifest.SegmentPrefix(c.opt.Log))
	for found, err := range c.groups(ctx, g.prefix) {
		if err != nil {
			return err
		}
		g = found
	}
	g.id = c.opt.Log // which the key may not tell
	head, err := c.read(ctx, g)
	if errors.Is(err, ErrNotFound) && len(g.objects)+len(g.strange) == 0 {
		return err
	}
	if !yield(c.collect(ctx, g, head, err)) {
		return errEnough
	}
	return context.Cause(ctx)
}

// group is what was listed below one prefix of the tree of segments.
type group struct {
	prefix   string
	id       string // empty where the key does not tell
	log      bool   // it is below a log, whether its id is known or not
	manifest string // key of the log's manifest
	objects  []objstore.Info
	listed   []manifest.Listed // of objects
	strange  []string          // keys that are no segment's
	more     int               // strange ones that are only counted
}

// maxStrange bounds the strange keys of a group that are named one by one.
const maxStrange = 100

// groups lists the segments, log by log. A log of which not everything could be
// listed is not yielded.
func (c *collector) groups(ctx context.Context, prefix string) iter.Seq2[*group, error] {
	return func(yield func(*group, error) bool) {
		var g *group
		for info, err := range c.b.store.List(ctx, prefix, "") {
			if err != nil {
				yield(nil, err)
				return
			}
			if g == nil || !strings.HasPrefix(info.Key, g.prefix) || g.prefix == manifest.SegmentTree {
				if g != nil && !yield(g, nil) {
					return
				}
				c.b.clock.Observe(info.Date)
				g = newGroup(info.Key)
			}
			g.add(info)
		}
		if g != nil {
			yield(g, nil)
		}
	}
}

// newGroup begins the group of a key.
func newGroup(key string) *group {
	below := strings.IndexByte(key[len(manifest.SegmentTree):], '/')
	if below < 0 {
		return &group{prefix: manifest.SegmentTree} // of this one key
	}
	g := &group{prefix: key[:len(manifest.SegmentTree)+below+1]}
	g.manifest, g.id, g.log = manifest.ParseSegmentPrefix(g.prefix)
	return g
}

func (g *group) add(info objstore.Info) {
	name, err := manifest.ParseName(strings.TrimPrefix(info.Key, g.prefix))
	switch {
	case err == nil && g.log:
		g.objects = append(g.objects, info)
		g.listed = append(g.listed, manifest.Listed{Name: name, Modified: info.Modified.UnixMilli()})
	case len(g.strange) < maxStrange:
		g.strange = append(g.strange, info.Key)
	default:
		g.more++
	}
}
