package backend

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	mnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tnoop "go.opentelemetry.io/otel/trace/noop"
)

// scope names this package among the instrumentations of a program.
const scope = "github.com/s3log/s3log/backend"

// Attributes of spans and metrics. docs/operating.md lists them with everything
// else that is told; a test compares.
const (
	attrOperation  = attribute.Key("s3log.operation")
	attrError      = attribute.Key("error.type")
	attrObject     = attribute.Key("s3log.object")
	attrKind       = attribute.Key("s3log.generation.kind")
	attrGeneration = attribute.Key("s3log.generation.number")
	attrLog        = attribute.Key("s3log.log.id")
	attrWriter     = attribute.Key("s3log.writer.id")
	attrCommit     = attribute.Key("s3log.commit.id")
	attrAttempts   = attribute.Key("s3log.commit.attempts")
	attrDecisions  = attribute.Key("s3log.commit.decisions")
	attrRevision   = attribute.Key("s3log.revision")
	attrFirst      = attribute.Key("s3log.seq.first")
	attrEvents     = attribute.Key("s3log.event.count")
	attrDuplicate  = attribute.Key("s3log.duplicate")
)

// telemetry is what a Backend tells about its work. It is nil where no option
// asks for any: then the methods that are on the way of an append do nothing, and
// allocate nothing. It never tells what is in an event, a header or a key.
type telemetry struct {
	log    *slog.Logger
	tracer trace.Tracer

	operations, commits         metric.Float64Histogram
	retries, decisions, events  metric.Int64Counter
	uploaded, throttled, fences metric.Int64Counter
	takeovers, removed, freed   metric.Int64Counter

	// Attributes of what is counted at every append.
	appended, manifests, segments metric.MeasurementOption
}

// seconds are the bounds of both histograms: a commit is given up after a minute
// unless Options.CommitTimeout says otherwise.
var seconds = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10, 30, 60}

func newTelemetry(opt Options) *telemetry {
	if opt.Logger == nil && opt.TracerProvider == nil && opt.MeterProvider == nil {
		return nil
	}
	log, traces, meters := opt.Logger, opt.TracerProvider, opt.MeterProvider
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if traces == nil {
		traces = tnoop.NewTracerProvider()
	}
	if meters == nil {
		meters = mnoop.NewMeterProvider()
	}
	t := &telemetry{log: log, tracer: traces.Tracer(scope)}
	t.instruments(meters.Meter(scope))
	t.appended, t.manifests, t.segments = measured("append"), ofObject("manifest"), ofObject("segment")
	return t
}

// instruments makes what is measured. A provider that refuses a name gets no
// measurements under it, and a program is not kept from its work.
func (t *telemetry) instruments(m metric.Meter) {
	histogram := func(name, text string) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(text), metric.WithExplicitBucketBoundaries(seconds...))
		if err != nil {
			return mnoop.Float64Histogram{}
		}
		return h
	}
	counter := func(name, unit, text string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text))
		if err != nil {
			return mnoop.Int64Counter{}
		}
		return c
	}
	t.operations = histogram("s3log.operation.duration", "Time that an operation took, for whoever called it.")
	t.commits = histogram("s3log.commit.duration", "Time from the beginning of a commit until it was decided, with what had to be uploaded for it.")
	t.events = counter("s3log.commit.events", "{event}", "Events that commits have added to logs.")
	t.retries = counter("s3log.commit.retries", "{request}", "PUTs of manifests beyond the first one of their commit.")
	t.decisions = counter("s3log.commit.decisions", "{read}", "Readings of a manifest that had to tell what became of a PUT.")
	t.uploaded = counter("s3log.upload.io", "By", "Bytes of bodies sent in PUTs, repeated ones included.")
	t.throttled = counter("s3log.upload.throttled", "{reply}", "Replies to PUTs that asked for fewer requests.")
	t.takeovers = counter("s3log.takeovers", "{takeover}", "Logs taken over from the writer before, by the kind of the generation.")
	t.fences = counter("s3log.fences", "{fence}", "Writers of this process that were replaced by others.")
	t.removed = counter("s3log.gc.removed", "{object}", "Objects that collections have removed.")
	t.freed = counter("s3log.gc.freed", "By", "Bytes of the objects that collections have removed.")
}

// measured are the attributes of an operation that succeeded.
func measured(name string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attrOperation.String(name)))
}

func ofObject(kind string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attrObject.String(kind)))
}

// outcome are the attributes of an operation with how it ended.
func (t *telemetry) outcome(name string, err error) metric.MeasurementOption {
	switch {
	case err != nil:
		return metric.WithAttributeSet(attribute.NewSet(attrOperation.String(name), attrError.String(Code(err))))
	case name == "append":
		return t.appended
	}
	return measured(name)
}

// operation is one call on its way. The zero operation tells nobody anything.
type operation struct {
	t     *telemetry
	name  string
	span  trace.Span
	began time.Time
}

// begin begins the span of an operation on a log. The context that it returns
// has it.
func (t *telemetry) begin(ctx context.Context, name, id string) (context.Context, operation) {
	if t == nil {
		return ctx, operation{}
	}
	o := operation{t: t, name: name, began: time.Now()}
	var attrs []attribute.KeyValue
	if id != "" {
		attrs = []attribute.KeyValue{attrLog.String(id)}
	}
	ctx, o.span = t.tracer.Start(ctx, "s3log."+name, trace.WithAttributes(attrs...))
	return ctx, o
}

// end says how it went. A receipt of no log is none.
func (o operation) end(ctx context.Context, r Receipt, err error) {
	if o.t == nil {
		return
	}
	if err == nil && r.Log != "" && o.span.IsRecording() {
		o.span.SetAttributes(attrFirst.Int64(r.First), attrEvents.Int64(r.Count), attrRevision.Int64(r.Revision),
			attrGeneration.Int64(r.Generation), attrDuplicate.Bool(r.Duplicate))
	}
	o.t.operations.Record(ctx, time.Since(o.began).Seconds(), o.t.outcome(o.name, err))
	closeSpan(o.span, err)
}

// closeSpan ends a span. What an error says may quote what a caller has given, so
// only its kind is told.
func closeSpan(span trace.Span, err error) {
	if err != nil {
		code := Code(err)
		span.SetAttributes(attrError.String(code))
		span.SetStatus(otelcodes.Error, code)
	}
	span.End()
}

// from notes whose operation it is that waits for a commit.
func (op *appendOp) from(ctx context.Context, t *telemetry) {
	if t != nil {
		op.span = trace.SpanFromContext(ctx)
	}
}

// callers makes a commit part of the trace of one of its callers, and returns
// links to the others. The first one that is sampled comes first: else a commit
// is not seen where somebody looks for it.
func (t *telemetry) callers(ctx context.Context, ops []*appendOp) (context.Context, []trace.Link) {
	if t == nil {
		return ctx, nil
	}
	var all []trace.SpanContext
	parent := 0
	for _, op := range ops {
		sc := op.span.SpanContext()
		if !sc.IsValid() {
			continue
		}
		if all = append(all, sc); sc.IsSampled() && !all[parent].IsSampled() {
			parent = len(all) - 1
		}
	}
	var links []trace.Link
	for i, sc := range all {
		if i != parent {
			links = append(links, trace.Link{SpanContext: sc})
		}
	}
	if len(all) > 0 {
		ctx = trace.ContextWithSpanContext(ctx, all[parent])
	}
	return ctx, links
}
