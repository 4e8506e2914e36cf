package backend

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
)

// What a logger is told, each at one place.
const (
	msgTookOver  = "took the log over"
	msgFenced    = "fenced: another writer took the log over"
	msgRetried   = "commit took more than one request"
	msgUnknown   = "outcome of a commit unknown"
	msgDecided   = "unknown outcome decided"
	msgThrottled = "store asks for fewer requests"
	msgSeal      = "sealing failed"
	msgMerge     = "merging failed"
	msgFolded    = "folded"
	msgCollected = "collected"
)

// commit is manifest.Commit on this store, told to whoever watches, for the
// operation op; of none nothing is told. links are those of the commit's span.
func (b *Backend) commit(ctx context.Context, op, id string, base manifest.Head, step manifest.Step, links ...trace.Link) (manifest.Result, error) {
	if b.tel == nil || op == "" {
		return manifest.Commit(ctx, b.store, base, step, b.commitOptions())
	}
	ctx, span := b.tel.tracer.Start(ctx, "s3log.commit", trace.WithLinks(links...), trace.WithAttributes(attrLog.String(id), attrOperation.String(op)))
	began := time.Now()
	var on *manifest.Record // what the newest proposal builds on
	res, err := manifest.Commit(ctx, b.store, base, func(ctx context.Context, base manifest.Head) (*manifest.Proposal, error) {
		on = base.Record
		return step(ctx, base)
	}, b.commitOptions())
	b.tel.committed(ctx, op, id, time.Since(began), on, res, err)
	if p := res.Proposal; p != nil && span.IsRecording() {
		span.SetAttributes(attrCommit.String(p.Intent.Commit), attrWriter.String(p.Intent.Writer), attrRevision.Int64(p.Intent.Revision),
			attrGeneration.Int64(p.Intent.Generation), attrFirst.Int64(p.Intent.Start), attrEvents.Int64(p.Intent.End-p.Intent.Start))
		if kind := begun(on, p); kind != "" {
			span.SetAttributes(attrKind.String(kind))
		}
	}
	span.SetAttributes(attrAttempts.Int(res.Attempts), attrDecisions.Int(res.Reads))
	closeSpan(span, err)
	return res, err
}

// begun is the kind of the generation that a commit on a version has begun, empty
// if it began none: so does what a copy brings.
func begun(on *manifest.Record, p *manifest.Proposal) string {
	g, ok := p.Record.TakeoverOf(p.Intent.Generation)
	if !ok || g.Writer != p.Intent.Writer || on != nil && on.Generation() >= g.Generation {
		return ""
	}
	return g.Kind
}

// committed counts a commit, and tells what is worth to be told about it.
func (t *telemetry) committed(ctx context.Context, op, id string, took time.Duration, on *manifest.Record, res manifest.Result, err error) {
	if err == nil && res.Proposal == nil && res.Attempts == 0 {
		return // there was nothing to write
	}
	t.commits.Record(ctx, took.Seconds(), t.outcome(op, err))
	ok := t.outcome(op, nil)
	if n := res.Attempts - 1; n > 0 {
		t.retries.Add(ctx, int64(n), ok)
	}
	if res.Reads > 0 {
		t.decisions.Add(ctx, int64(res.Reads), ok)
	}
	if p := res.Proposal; p != nil {
		if n := p.Intent.End - p.Intent.Start; n > 0 {
			t.events.Add(ctx, n, ok)
		}
		if on != nil && on.Owner != nil {
			t.tookOver(ctx, id, begun(on, p), on, p.Record)
		}
	}
	if res.Attempts > 1 || res.Reads > 0 {
		t.log.LogAttrs(ctx, slog.LevelInfo, msgRetried, slog.String("log", id), slog.String("operation", op), slog.Int("attempts", res.Attempts),
			slog.Int("decisions", res.Reads), slog.Int("throttled", res.Throttled), slog.Duration("took", took), slog.String("result", resultOf(res, err)))
	}
	fence := err
	if res.Fenced {
		fence = fencedOrNil(res.Head.Record, res.Proposal.Intent.Writer)
	}
	switch {
	case errors.Is(err, ErrOutcomeUnknown):
		t.unknown(ctx, op, id, err)
	case errors.Is(fence, ErrFenced):
		t.fences.Add(ctx, 1)
		t.log.LogAttrs(ctx, slog.LevelWarn, msgFenced, slog.String("log", id), slog.String("operation", op), slog.String("error", fence.Error()))
	}
}

func resultOf(res manifest.Result, err error) string {
	switch {
	case err != nil:
		return Code(err)
	case res.Proposal == nil:
		return "nothing to write"
	}
	return "committed"
}

// tookOver tells of a takeover from the owner before; kind is empty where there
// was none.
func (t *telemetry) tookOver(ctx context.Context, id, kind string, from, now *manifest.Record) {
	if kind == "" {
		return
	}
	t.takeover(ctx, kind)
	t.log.LogAttrs(ctx, slog.LevelInfo, msgTookOver, slog.String("log", id), slog.String("kind", kind), slog.Int64("generation", now.Generation()),
		slog.String("writer", now.Commit.Writer), slog.String("from", from.Owner.Writer), slog.String("fromLabel", from.Owner.Label),
		slog.Bool("released", from.Owner.Released), slog.Int64("seq", from.Next))
}

// takeover counts one.
func (t *telemetry) takeover(ctx context.Context, kind string) {
	if t != nil {
		t.takeovers.Add(ctx, 1, metric.WithAttributes(attrKind.String(kind)))
	}
}

// unknown tells of a commit that may have landed. Its token settles what became
// of all of it; a commit that only maintains has none, as it makes no difference.
func (t *telemetry) unknown(ctx context.Context, op, id string, err error) {
	attrs := []slog.Attr{slog.String("log", id), slog.String("operation", op), slog.String("error", err.Error())}
	if ce, ok := isCommitError(err); ok && ce.Intent.Kind != manifest.IntentMaintain {
		in := ce.Intent
		in.First, in.Count = in.Start, in.End-in.Start
		attrs = append(attrs, slog.String("token", in.Token()))
	}
	t.log.LogAttrs(ctx, slog.LevelError, msgUnknown, attrs...)
}

// decided tells what became of an append, or of a commit that Decide was asked
// about, after somebody was told that nobody knows.
func (t *telemetry) decided(ctx context.Context, id string, committed bool, seq int64) {
	if t == nil {
		return
	}
	t.log.LogAttrs(ctx, slog.LevelInfo, msgDecided, slog.String("log", id), slog.Bool("committed", committed), slog.Int64("seq", seq))
}

// slowed tells that commits of a log wait for the store's sake.
func (t *telemetry) slowed(ctx context.Context, id string, wait time.Duration) {
	if t == nil {
		return
	}
	t.log.LogAttrs(ctx, slog.LevelWarn, msgThrottled, slog.String("log", id), slog.Duration("wait", wait))
}

// upkeep ends the operation of a seal or a merge. A handle that is closed ends
// them; that is no failure.
func (o operation) upkeep(ctx context.Context, l *Log, err error) {
	if o.t == nil {
		return
	}
	if err != nil && l.bgCtx.Err() == nil {
		msg := msgSeal
		if o.name == "merge" {
			msg = msgMerge
		}
		o.t.log.LogAttrs(ctx, slog.LevelWarn, msg, slog.String("log", l.id), slog.String("error", err.Error()))
	}
	o.end(ctx, Receipt{}, err)
}

// folded ends the operation of a fold.
func (o operation) folded(ctx context.Context, opt FoldOptions, r *FoldReport, err error) {
	if o.t == nil {
		return
	}
	if len(r.Steps) > 0 && !opt.DryRun {
		o.t.log.LogAttrs(ctx, slog.LevelInfo, msgFolded, slog.String("log", r.Log), slog.Int("segmentsBefore", r.Before.Segments), slog.Int("segments", r.After.Segments),
			slog.Int64("bytesBefore", r.Before.Bytes), slog.Int64("bytes", r.After.Bytes), slog.Int("conflicts", r.Conflicts))
	}
	o.end(ctx, Receipt{}, err)
}

// collected ends the operation of a collection.
func (o operation) collected(ctx context.Context, c *collector, err error) {
	if o.t == nil {
		return
	}
	if c.removed > 0 {
		o.t.removed.Add(ctx, int64(c.removed))
		o.t.freed.Add(ctx, c.freed)
		o.t.log.LogAttrs(ctx, slog.LevelInfo, msgCollected, slog.Int("removed", c.removed), slog.Int64("bytes", c.freed))
	}
	o.end(ctx, Receipt{}, err)
}

// watched is a store whose PUTs are counted.
type watched struct {
	objstore.Store
	t *telemetry
}

var _ objstore.Copier = (*watched)(nil)

// watch counts what is uploaded to a store from now on.
func (t *telemetry) watch(store objstore.Store) objstore.Store {
	if t == nil {
		return store
	}
	return &watched{Store: store, t: t}
}

// Unwrap lets abilities of the store below be found.
func (s *watched) Unwrap() objstore.Store { return s.Store }

// Put implements objstore.Store.
func (s *watched) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	info, err := s.Store.Put(ctx, key, body, cond, opt)
	if errors.Is(err, objstore.ErrUnsent) || errors.Is(err, objstore.ErrReadOnly) {
		return info, err
	}
	kind := s.t.manifests
	if strings.HasPrefix(key, manifest.SegmentTree) {
		kind = s.t.segments
	}
	s.t.uploaded.Add(ctx, int64(len(body)), kind)
	if errors.Is(err, objstore.ErrThrottled) {
		s.t.throttled.Add(ctx, 1, kind)
	}
	return info, err
}

// Copy implements objstore.Copier, as far as the store below does.
func (s *watched) Copy(ctx context.Context, src, dst string) (objstore.Info, error) {
	if c, ok := s.Store.(objstore.Copier); ok {
		return c.Copy(ctx, src, dst)
	}
	return objstore.Info{}, &objstore.Error{Op: "Copy", Key: dst, Class: objstore.ErrUnsupported}
}
