package backend

import (
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// Options tune a Backend or a Reader. The zero value is what most want.
type Options struct {
	// Label is shown to people beside the ids of this backend's writers: a host,
	// a function, a job. It takes part in no decision. At most 128 bytes.
	Label string
	// Software is the name and version of the program, for people.
	Software string
	// Foreground seals and merges inside Append instead of in the background:
	// for a function that may be frozen as soon as Append has returned. No
	// goroutine is left behind then.
	Foreground bool
	// Lease, unless 0, is how long each commit of a handle asks others not to take
	// its log over; at least 15 s. Every append renews it, and Renew does where
	// nothing is appended; nothing else does, and no timer of ours. It is measured
	// in the store's clock, counts for two seconds more, and ends when the handle is
	// closed (by one PUT). It keeps others from taking over by accident: an owner
	// whose lease has ended still owns the log until somebody does.
	Lease time.Duration
	// PauseMerging leaves segments as they are sealed, until there are so many (128)
	// that the manifest needs them merged: for a function that has processor time to
	// save. `s3logctl fold`, or the next writer without it, merges them.
	PauseMerging bool
	// Linger is the least time between the beginnings of two commits of one log;
	// what arrives meanwhile joins the next. 0 lets the store's round trip decide.
	Linger time.Duration
	// CommitRate is how many commits a second are made of one log; what arrives
	// meanwhile joins the next. 0 means what the store says that it takes on one key
	// (objstore.Rated), or as many as its round trip allows; a negative one lifts
	// what the store says.
	CommitRate float64
	// CommitTimeout is how long one commit is tried before it is given up, as
	// not committed or as ErrOutcomeUnknown. 0 means one minute.
	CommitTimeout time.Duration
	// MaxQueue bounds the bytes of events that wait for a commit or are in the one
	// under way, per log; an Append beyond waits for room, in the order of arrival.
	// 0 means 64 MiB.
	MaxQueue int
	// MaxBatch bounds the bytes of events of one commit; a single larger append
	// is still one commit. 0 means 4 MiB.
	MaxBatch int
	// Limits bound single events.
	Limits segment.Limits
	// Prefetch is how many segments a read fetches at a time. 0 means 4.
	Prefetch int
	// PollInterval is how often Follow asks for news. 0 means one second.
	PollInterval time.Duration
	// MinBackoff and MaxBackoff bound the wait between two attempts of a commit.
	// 0 means 50 ms and 5 s.
	MinBackoff, MaxBackoff time.Duration
	// Logger, unless nil, is told what is worth a line: takeovers, being fenced,
	// commits that were repeated, unknown outcomes and what became of them, upkeep
	// that failed, a store that slows down. It is called by the goroutines that do
	// the work, with no lock held, and gets no event, header or key. Whoever waits for
	// that work waits for it, too: a handler must not block for long, and must not
	// append to the log that it is told about.
	// docs/operating.md lists its records, and the spans and metrics below.
	Logger *slog.Logger
	// TracerProvider, unless nil, gets spans: one for each call of a Backend or a
	// Log that may write, and one for each commit. That of a group commit is in the
	// trace of one of its callers and links to the others.
	TracerProvider trace.TracerProvider
	// MeterProvider, unless nil, gets durations, and counts of retries, fences,
	// takeovers, events and bytes. No global provider of OpenTelemetry is ever used.
	// A Reader tells nothing: instrument the store's client.
	MeterProvider metric.MeterProvider
}

func (o Options) withDefaults() Options {
	setDefault(&o.Software, "s3log")
	setDefault(&o.CommitTimeout, time.Minute)
	setDefault(&o.MaxQueue, 64<<20)
	setDefault(&o.MaxBatch, 4<<20)
	setDefault(&o.Prefetch, 4)
	setDefault(&o.PollInterval, time.Second)
	return o
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// CreateOptions are what a log is created with.
type CreateOptions struct {
	// Header is the session header: one JSON object of at most 32 KiB, kept
	// verbatim for ever. A createdAt in it is the log's activity until a person
	// writes.
	Header []byte
	// Types are event types that get a place of their own in the manifest, so
	// that brackets of them are always judged from one GET; only a log with more
	// than 256 types needs to name them.
	Types []string
	// OrAdopt appends to the log if it is there already, under AdoptOptions.
	OrAdopt bool
	AdoptOptions
}

// AdoptOptions say whom a writer that takes a log over may replace.
type AdoptOptions struct {
	// TakeOver replaces an owner that holds a lease or was active within Quiet.
	TakeOver bool
	// Quiet, unless 0, refuses with ErrHeld while an owner that has not released
	// the log committed less than this ago.
	Quiet time.Duration
}

// AppendOptions are the parts of an append beside its events.
type AppendOptions struct {
	// Key makes the append idempotent: among the last 256 keyed appends of a log,
	// one that repeats a key with the same events yields the first receipt and
	// appends nothing; with other events it is ErrKeyConflict.
	Key string
	// ExpectNext, unless nil, is the seq at which the log must continue, else
	// ErrSeqMismatch and nothing is appended: a check of the log and the opening
	// of a bracket are then one atomic step.
	ExpectNext *int64
	// Boundary lets the events include session/end-seed. Such an event ends what a
	// log has inherited, and judges every bracket before it stale; the seed path
	// writes it, and only a harness that keeps that record itself should.
	Boundary bool
	// Last releases the log in the same commit: the handle closes with it, and
	// nobody has to wait for this writer any more.
	Last bool
}

// Receipt is what an append yields: where its events are, durably.
type Receipt struct {
	Log        string
	First      int64 // seq of the first event
	Count      int64
	Next       int64 // seq at which the log continues, as of Revision
	Revision   int64 // of the manifest
	Generation int64
	// Duplicate: the key was used before for these events; this is where they
	// were appended then, and nothing was appended now.
	Duplicate bool
}

func (r *Receipt) place(record *manifest.Record) {
	r.Next, r.Revision, r.Generation = record.Next, record.Revision, record.Generation()
}
