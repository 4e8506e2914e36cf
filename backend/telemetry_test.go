package backend_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	mnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

// watcher keeps all that a Backend tells.
type watcher struct {
	t      *testing.T
	spans  *tracetest.SpanRecorder
	traces *sdktrace.TracerProvider
	reader *sdkmetric.ManualReader
	meters *sdkmetric.MeterProvider

	mu  sync.Mutex
	log bytes.Buffer // JSON lines
}

func newWatcher(t *testing.T, traces ...sdktrace.TracerProviderOption) *watcher {
	w := &watcher{t: t, spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	w.traces = sdktrace.NewTracerProvider(append(traces, sdktrace.WithSpanProcessor(w.spans))...)
	w.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.reader))
	return w
}

func (w *watcher) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(line)
}

// options are opt, watched.
func (w *watcher) options(opt backend.Options) backend.Options {
	opt.Logger = slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
	opt.TracerProvider, opt.MeterProvider = w.traces, w.meters
	return opt
}

// records are what the logger was told.
func (w *watcher) records() (all []map[string]any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range bytes.Lines(w.log.Bytes()) {
		var r map[string]any
		if err := json.Unmarshal(line, &r); err != nil {
			w.t.Fatalf("%s: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}

// one is the only record with this message.
func (w *watcher) one(level, msg string) map[string]any {
	w.t.Helper()
	var found map[string]any
	for _, r := range w.records() {
		if r["msg"] == msg {
			if found != nil {
				w.t.Errorf("told twice: %q", msg)
			}
			found = r
		}
	}
	if found == nil || found["level"] != level {
		w.t.Fatalf("%s %q is not among %v", level, msg, w.records())
	}
	return found
}

// quiet demands that the logger was told nothing but this.
func (w *watcher) quiet(but ...string) {
	w.t.Helper()
	for _, r := range w.records() {
		if !slices.Contains(but, fmt.Sprint(r["msg"])) {
			w.t.Errorf("told: %v", r)
		}
	}
}

// named are the ended spans of a name.
func (w *watcher) named(name string) (all []sdktrace.ReadOnlySpan) {
	for _, s := range w.spans.Ended() {
		if s.Name() == name {
			all = append(all, s)
		}
	}
	return all
}

// span is the only ended span of a name.
func (w *watcher) span(name string) sdktrace.ReadOnlySpan {
	w.t.Helper()
	all := w.named(name)
	if len(all) != 1 {
		w.t.Fatalf("%d spans %s", len(all), name)
	}
	return all[0]
}

// attr is an attribute of a span, as text; empty if there is none.
func attr(s sdktrace.ReadOnlySpan, key string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// failedAs demands how a span ended; empty is well.
func failedAs(t *testing.T, s sdktrace.ReadOnlySpan, code string) {
	t.Helper()
	want := sdktrace.Status{}
	if code != "" {
		want = sdktrace.Status{Code: codes.Error, Description: code}
	}
	if s.Status() != want || attr(s, "error.type") != code {
		t.Errorf("%s ended with %+v and %q, want %q", s.Name(), s.Status(), attr(s, "error.type"), code)
	}
}

func (w *watcher) metrics() []metricdata.Metrics {
	w.t.Helper()
	var data metricdata.ResourceMetrics
	if err := w.reader.Collect(w.t.Context(), &data); err != nil {
		w.t.Fatal(err)
	}
	if len(data.ScopeMetrics) == 0 {
		return nil
	}
	if len(data.ScopeMetrics) != 1 || data.ScopeMetrics[0].Scope.Name != "github.com/s3log/s3log/backend" {
		w.t.Fatalf("%+v", data.ScopeMetrics)
	}
	return data.ScopeMetrics[0].Metrics
}

// points are the values of a metric by attributes, of a histogram the counts.
func points(m metricdata.Metrics) map[attribute.Set]int64 {
	all := map[attribute.Set]int64{}
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			all[p.Attributes] += p.Value
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			all[p.Attributes] += int64(p.Count)
		}
	}
	return all
}

// count is the value of a metric with exactly these attributes, in the form
// key=value,key=value in the order of the keys.
func (w *watcher) count(name, attrs string) int64 {
	w.t.Helper()
	for _, m := range w.metrics() {
		if m.Name == name {
			for set, n := range points(m) {
				if set.Encoded(attribute.DefaultEncoder()) == attrs {
					return n
				}
			}
		}
	}
	return 0
}

// counts demands the values of metrics, named with attributes in braces.
func (w *watcher) counts(want map[string]int64) {
	w.t.Helper()
	for metric, n := range want {
		name, attrs, _ := strings.Cut(strings.TrimSuffix(metric, "}"), "{")
		if got := w.count(name, attrs); got != n {
			w.t.Errorf("%s is %d, want %d", metric, got, n)
		}
	}
}

// told is the vocabulary of what was told: for each name in a kind of things
// (metric, span, record, value) what goes with it.
type told map[string]map[string]map[string]bool

func (d told) add(kind, name string, with ...string) {
	if d[kind] == nil {
		d[kind] = map[string]map[string]bool{}
	}
	if d[kind][name] == nil {
		d[kind][name] = map[string]bool{}
	}
	for _, s := range with {
		d[kind][name][s] = true
	}
}

// enumerated are attributes whose values are a list.
var enumerated = []string{"s3log.operation", "s3log.object", "s3log.generation.kind"}

// collect adds what a watcher was told.
func (d told) collect(w *watcher) {
	value := func(a attribute.KeyValue) {
		if slices.Contains(enumerated, string(a.Key)) {
			d.add("value", string(a.Key), a.Value.AsString())
		}
	}
	for _, m := range w.metrics() {
		d.add("metric", m.Name, m.Unit)
		for set := range points(m) {
			for _, a := range set.ToSlice() {
				d.add("metric", m.Name, string(a.Key))
				value(a)
			}
		}
	}
	for _, s := range w.spans.Ended() {
		if s.InstrumentationScope().Name != "github.com/s3log/s3log/backend" {
			continue // the test's own
		}
		d.add("span", s.Name())
		for _, a := range s.Attributes() {
			value(a)
			if a.Key != "error.type" { // of whatever has failed
				d.add("span", s.Name(), string(a.Key))
			}
		}
	}
	for _, r := range w.records() {
		name := fmt.Sprint(r["msg"])
		d.add("record", name, fmt.Sprint(r["level"]))
		for key := range r {
			if key != "msg" && key != "level" && key != "time" {
				d.add("record", name, key)
			}
		}
	}
}

// everything is all that a watcher was told, as text.
func (w *watcher) everything() string {
	w.t.Helper()
	var all strings.Builder
	w.mu.Lock()
	all.Write(w.log.Bytes())
	w.mu.Unlock()
	for _, s := range w.spans.Ended() {
		fmt.Fprintln(&all, s.Name(), s.Attributes(), s.Events(), s.Status(), s.Links())
	}
	for _, m := range w.metrics() {
		for set := range points(m) {
			fmt.Fprintln(&all, m.Name, set.Encoded(attribute.DefaultEncoder()))
		}
	}
	return all.String()
}

// documented is the vocabulary of docs/operating.md: tables whose first column is
// headed by the kind, with names and what goes with them as code.
func documented(t *testing.T) told {
	t.Helper()
	text, err := os.ReadFile("../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n### What a program tells\n")
	if !found {
		t.Fatal("docs/operating.md has no section about what a program tells")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	code := regexp.MustCompile("`([^`]+)`")
	d, kind := told{}, ""
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(line, "|\n "), "|")
		switch first := strings.TrimSpace(cells[0]); {
		case !strings.HasPrefix(line, "|"):
			kind = ""
		case strings.HasPrefix(first, "---"):
		case kind == "":
			kind = first
		default:
			var with []string
			for _, m := range code.FindAllStringSubmatch(strings.Join(cells[1:], "|"), -1) {
				with = append(with, m[1])
			}
			for _, m := range code.FindAllStringSubmatch(first, -1) {
				d.add(kind, m[1], with...)
			}
		}
	}
	return d
}

// secret is in every event, header and key of these tests, and in nothing that a
// Backend tells.
const secret = "sesame"

func secretEvent(typ string) []byte {
	return fmt.Appendf(nil, `{"type":%q,"time":1,"data":{"turn":1,%q:%q}}`, typ, secret, secret)
}

// What a Backend tells is what happened, is in the documents, and holds nothing
// of what it was given.
func TestTelemetry(t *testing.T) {
	seen := told{}
	for _, tc := range watchedCases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWatcher(t)
				tc.run(t, w)
				synctest.Wait()
				if n := len(w.spans.Started()) - len(w.spans.Ended()); n != 0 {
					t.Errorf("%d spans were not ended", n)
				}
				if text := w.everything(); strings.Contains(text, secret) {
					t.Errorf("what is told holds what was given:\n%s", text)
				}
				seen.collect(w)
			})
		})
	}
	t.Run("is documented", func(t *testing.T) {
		if diff := cmp.Diff(documented(t), seen); diff != "" {
			t.Errorf("docs/operating.md says -, a program tells +:\n%s", diff)
		}
		if kinds := slices.Sorted(maps.Keys(seen)); len(kinds) != 4 {
			t.Errorf("only %v", kinds)
		}
	})
}

// refusing makes no instruments.
type refusing struct{ mnoop.MeterProvider }

type refusingMeter struct{ mnoop.Meter }

var errNoInstrument = errors.New("this name is taken")

func (refusing) Meter(string, ...metric.MeterOption) metric.Meter { return refusingMeter{} }

func (refusingMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return nil, errNoInstrument
}

func (refusingMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, errNoInstrument
}

// A provider that makes no instruments keeps no program from its work.
func TestTelemetryWithoutInstruments(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{MeterProvider: refusing{}})
	l := create(t, b, "log")
	appendOne(t, l, event(0))
	closeLog(t, l)
}
