package backend_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"slices"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/filestore"
)

// A program is told what the library does where it gives a logger and providers.
func ExampleOptions_telemetry() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "s3log")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := filestore.Open(dir, filestore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	exporter, reader := tracetest.NewInMemoryExporter(), sdkmetric.NewManualReader()

	// exporter and reader send to a collector: otlptracegrpc.New(ctx), and
	// metric.NewPeriodicReader around otlpmetricgrpc.New(ctx), for example.
	traces := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	metrics := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	b := backend.New(store, backend.Options{
		Logger:         slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})),
		TracerProvider: traces,
		MeterProvider:  metrics,
	})

	defer func() { _ = traces.Shutdown(ctx) }() // what is held back was flushed

	l, err := b.Create("session-1", backend.CreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := l.Append(ctx, [][]byte{[]byte(`{"type":"note","data":"hello"}`)}, backend.AppendOptions{Last: true}); err != nil {
		log.Fatal(err)
	}
	if err := l.Close(ctx, backend.CloseOptions{}); err != nil {
		log.Fatal(err)
	}
	if err := traces.ForceFlush(ctx); err != nil {
		log.Fatal(err)
	}
	for _, s := range exporter.GetSpans() {
		fmt.Println("span", s.Name)
	}
	var seen metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &seen); err != nil {
		log.Fatal(err)
	}
	var names []string
	for _, m := range seen.ScopeMetrics[0].Metrics {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	fmt.Println("metrics", names)
	// Output:
	// span s3log.commit
	// span s3log.append
	// metrics [s3log.commit.duration s3log.commit.events s3log.operation.duration s3log.upload.io]
}
