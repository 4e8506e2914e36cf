package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/s3log/s3log/manifest"
)

const (
	// removalsAtATime bounds the removals in flight.
	removalsAtATime = 8
	// maxBarriers is how often a barrier is tried on a log whose writers are faster,
	// before it is left to the next collection.
	maxBarriers = 8
	// probesAtATime bounds the objects of one report about leftovers of proofs.
	probesAtATime = 1000
)

// errBusy: others committed before every barrier.
var errBusy error = &OpError{Op: "commit", Seq: -1, Err: errors.New("the log is committed to faster than a barrier can be made"),
	Hint: "nothing depends on it: the next collection tries again"}

// read gets the manifest of a group, by its key where that is all that is known.
// ErrNotFound is sure: where the credentials do not let the store say so, the
// list does.
func (c *collector) read(ctx context.Context, g *group) (head manifest.Head, err error) {
	switch {
	case !g.log:
		return head, nil
	case g.id != "":
		head, err = c.b.load(ctx, g.id)
	default:
		head, err = manifest.LoadKey(ctx, c.b.store, g.manifest, manifest.LoadOptions{Clock: &c.b.clock})
	}
	if !errors.Is(err, ErrDenied) {
		return head, err
	}
	for info, lerr := range c.b.store.List(ctx, g.manifest, "") {
		if lerr != nil || info.Key == g.manifest {
			return head, err
		}
		break // the key itself would come first
	}
	return head, fmt.Errorf("%w: denied, and not listed", ErrNotFound)
}

// removal is the rule of removal now.
func (c *collector) removal() manifest.Removal {
	return manifest.Removal{Now: c.b.now(), Grace: c.opt.Grace}
}

// collect judges what was listed by the manifest that was read (err says why it
// was not), and removes what may go, behind a barrier where one is needed.
func (c *collector) collect(ctx context.Context, g *group, head manifest.Head, err error) GCLog {
	out := GCLog{Log: g.id, Prefix: g.prefix}
	for _, key := range g.strange {
		out.found(kindForeign, key, "not the key of a segment")
	}
	if g.more > 0 {
		out.found(kindForeign, g.prefix, fmt.Sprintf("%d more keys that are not those of segments", g.more))
	}
	switch {
	case !g.log:
		return out
	case errors.Is(err, ErrNotFound):
		head = manifest.Head{}
	case err != nil:
		out.unreadable(g.manifest, err)
		for _, o := range g.objects {
			out.Objects = append(out.Objects, GCObject{Key: o.Key, Size: o.Size, Modified: o.Modified, Fate: FateKept})
		}
		return out
	case out.Log == "":
		out.Log = head.Record.Log
	}
	lost := out.setForeignAside(g, head.Record)
	rec, err := head.Record, error(nil)
	if out.Log != "" && (!lost || c.opt.Log != "") {
		rec, err = c.settle(ctx, &out, g, head)
	}
	if err != nil {
		out.Err = &OpError{Op: "gc", Log: out.Log, Key: g.manifest, Seq: -1, Err: fmt.Errorf("barrier: %w", err), Hint: hint(err)}
	}
	if rec != nil {
		out.State = rec.State
	}
	for i, fate := range c.removal().Fates(rec, g.listed) {
		o := g.objects[i]
		switch {
		case fate == manifest.FateNamed:
			out.Named++
			out.NamedBytes += o.Size
			continue
		case fate == manifest.FateUnsettled && out.Log == "":
			fate = FateNameless
		case fate == manifest.FateUnsettled && lost:
			fate = FateLost
		}
		out.Objects = append(out.Objects, GCObject{Key: o.Key, Size: o.Size, Modified: o.Modified, Fate: fate})
	}
	slices.SortFunc(out.Objects, func(a, b GCObject) int { return strings.Compare(a.Key, b.Key) })
	c.remove(ctx, out.Objects)
	return out
}

func (g *GCLog) found(kind, key, detail string) {
	g.Findings = append(g.Findings, Finding{Kind: kind, Key: key, Seq: -1, Detail: detail})
}

// unreadable notes that nothing is known about the manifest.
func (g *GCLog) unreadable(key string, err error) {
	g.Err = opError("gc", g.Log, err)
	for _, k := range []struct {
		is   error
		kind string
	}{{ErrDenied, "denied"}, {ErrUnsupportedVersion, "version"}, {ErrRolledBack, kindRolledBack}, {ErrCorrupt, "damaged"}} {
		if errors.Is(err, k.is) {
			g.found(k.kind, key, "the manifest cannot be read, so everything is kept: "+below(err).Error())
			return
		}
	}
}

// setForeignAside takes the foreign objects out of the group. They are those by
// the manifest that was read first: a barrier must not bring them into reach. It
// reports whether what is left shows that there was a manifest where none is:
// where nothing was ever, uploads are of epoch 1.
func (g *GCLog) setForeignAside(in *group, rec *manifest.Record) (lost bool) {
	manifestEpoch := " and there is no manifest"
	if rec != nil {
		manifestEpoch = fmt.Sprintf(", that of the manifest %d", rec.Epoch)
	}
	kept := 0
	for i, o := range in.objects {
		epoch := in.listed[i].Name.Epoch
		lost = lost || rec == nil && epoch > 1
		if manifest.Foreign(rec, in.listed[i].Name) {
			g.found(kindEpoch, o.Key, fmt.Sprintf("its epoch is %d%s: it is another log's, or an older manifest was put back", epoch, manifestEpoch))
			g.Objects = append(g.Objects, GCObject{Key: o.Key, Size: o.Size, Modified: o.Modified, Fate: manifest.FateForeign})
			continue
		}
		in.objects[kept], in.listed[kept] = o, in.listed[i]
		kept++
	}
	in.objects, in.listed = in.objects[:kept], in.listed[:kept]
	lost = lost && kept > 0 // what is foreign shows nothing about this log
	switch {
	case lost:
		g.found(kindLost, in.manifest, "there was a manifest once, and nothing of s3log removes one; or a copy was interrupted, and is to be made again")
	case rec == nil && kept > 0:
		g.found(kindHeadless, in.manifest, "there is no manifest: segments are of a fork, replay or copy that failed or is under way, unless it was removed (then: fsck --rebuild, before they are collected)")
	}
	return lost
}

// settle makes a barrier, if objects may go only behind one, and returns the
// manifest to judge by. With an error that is one without the barrier: what may
// go by any version of the manifest may go for ever.
func (c *collector) settle(ctx context.Context, out *GCLog, g *group, head manifest.Head) (*manifest.Record, error) {
	unsettled := func(r *manifest.Record) bool {
		return slices.Contains(c.removal().Fates(r, g.listed), manifest.FateUnsettled)
	}
	if !unsettled(head.Record) {
		return head.Record, nil
	}
	note := func(p *manifest.Proposal) {
		out.Barrier, out.Void = true, p.Record.State == manifest.StateVoid
	}
	if c.opt.DryRun {
		p, err := c.removal().Barrier(head.Record, out.Log, c.w, g.listed)
		if err != nil {
			return head.Record, err
		}
		note(p)
		return p.Record, nil
	}
	bctx, cancel := context.WithTimeout(ctx, c.b.opt.CommitTimeout)
	defer cancel()
	tries := 0
	res, err := c.b.commit(bctx, "gc", out.Log, head, func(_ context.Context, base manifest.Head) (*manifest.Proposal, error) {
		if !unsettled(base.Record) {
			return nil, nil
		}
		if tries++; tries > maxBarriers {
			return nil, errBusy
		}
		return c.removal().Barrier(base.Record, out.Log, c.w, g.listed)
	})
	if err != nil {
		// It may have landed all the same, and others may have been there.
		if again, rerr := c.read(ctx, g); rerr == nil {
			if errors.Is(err, ErrDeleted) && !unsettled(again.Record) {
				err = nil // deleted meanwhile: nothing is to be kept out any more
			}
			return again.Record, err
		}
		return head.Record, err
	}
	if res.Proposal != nil {
		note(res.Proposal)
	}
	if res.Head.Record != nil {
		c.b.remember(out.Log, res.Head.Record)
	}
	return res.Head.Record, nil
}

// remove removes what may go, a few at a time.
func (c *collector) remove(ctx context.Context, objects []GCObject) {
	work := make(chan *GCObject)
	var wg sync.WaitGroup
	for range min(removalsAtATime, len(objects)) {
		wg.Go(func() {
			for o := range work {
				o.Err = c.b.store.Delete(ctx, o.Key)
				o.Removed = o.Err == nil
			}
		})
	}
	for i := range objects {
		switch o := &objects[i]; {
		case !o.Fate.MayGo() && o.Fate != FateProbe:
		case c.opt.DryRun:
			o.Removed = true
		case ctx.Err() == nil:
			work <- o
		}
	}
	close(work)
	wg.Wait()
	for i := range objects {
		if objects[i].Removed && !c.opt.DryRun {
			c.removed++
			c.freed += objects[i].Size
		}
	}
}

// probes removes what store proofs have left behind.
func (c *collector) probes(ctx context.Context, yield func(GCLog) bool) error {
	var out GCLog
	flush := func() bool {
		if len(out.Objects)+len(out.Findings) == 0 {
			return true
		}
		c.remove(ctx, out.Objects)
		return yield(out)
	}
	rm := c.removal()
	for info, err := range c.b.store.List(ctx, manifest.ProbePrefix, "") {
		if err != nil {
			return err
		}
		if len(out.Objects)+len(out.Findings) == probesAtATime {
			if !flush() {
				return errEnough
			}
			out = GCLog{}
		}
		out.Prefix = manifest.ProbePrefix
		switch {
		case !manifest.ProbeKey(info.Key):
			out.found(kindForeign, info.Key, "not the key of a store proof")
			continue
		case rm.Past(info.Modified.UnixMilli()):
			out.Objects = append(out.Objects, GCObject{Key: info.Key, Size: info.Size, Modified: info.Modified, Fate: FateProbe})
		default:
			out.Objects = append(out.Objects, GCObject{Key: info.Key, Size: info.Size, Modified: info.Modified, Fate: manifest.FateYoung})
		}
	}
	if !flush() {
		return errEnough
	}
	return context.Cause(ctx)
}
