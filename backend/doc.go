// Package backend keeps append-only event logs in an object store. It is what a
// harness imports: Reader reads, follows, lists, judges and verifies logs with
// read-only credentials, Backend adds writing. A log is a manifest, which changes
// only by conditional PUT, and immutable segments; an append is one PUT.
//
// # Handles
//
// A Log is a handle for appending. Create begins a log, with its first append.
// Adopt goes on with one that is there, as it stands. Resume begins its next
// lifecycle: an interrupted turn is closed, and a boundary tells everybody that
// what was open before is stale. Fork and Replay begin a log with the events of
// another one, or with given ones. A handle owns its log from its first commit on,
// and each owner replaces the one before, which is told so (ErrFenced) and writes
// nothing more. So open one handle for each log and process, and share it: its
// methods may be called concurrently, and appends that arrive together share a
// commit.
//
// # Retries
//
// Append returns when its events are durable. If its error is ErrOutcomeUnknown,
// they may be in the log, or not: repeat an append that had a Key, also from
// another process, and it is in the log once (the newest 256 keys of a log count);
// or settle it with Token and Decide.
// After any other error they are not in the log, and never will be. A process that
// is run again, as functions are, opens its handle with ResumeOptions.Delay and
// gives its append the request's id as Key: then a repetition writes nothing at all.
//
// # Questions
//
// Reader.Check says whether a bracket of events (a compaction, say) is balanced,
// stale or live, from one GET. Log.Check and AppendOptions.ExpectNext make such a
// verdict and what follows from it one atomic step. Verify proves that everything
// is as it was written, and with a Point noted elsewhere that it has only grown.
//
// # Telling
//
// Errors about a log are *OpError: which object, which seq, and a hint for the
// person who has to act. Code names them. Options.Logger, TracerProvider and
// MeterProvider are told of commits, retries and takeovers; they are off unless
// given.
//
// Whole programs are in the folder examples of this module. The package is not an
// S3 client: any objstore.Store will do. What a resume, a fork or a replay writes
// is package seedpath's, and command lines are cmd/s3logctl's.
package backend
