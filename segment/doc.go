// Package segment holds the two lowest layers of s3log's format: events and the
// segments that events are stored in.
//
// An event is one JSON object, stored as one line. [Prepare] and [PrepareBatch]
// validate what a caller hands over, strictly and in one pass, and [Pending]
// gives an event its place in the log without touching any byte that the caller
// wrote; [ParseEvent] checks a stored line by the same rules. A batch is prepared
// once and assigned as often as its place in the log is lost to somebody else.
// What the types of events mean to a log, as far as s3log knows them, is spelled
// in one place and read by [Project].
//
// A segment is a run of consecutive event lines in zstd frames, followed by an
// index in a skippable frame and a trailer, so that ordinary tools decompress it
// and a reader fetches only the frames that it needs. The index carries the
// [State] of the log after the segment's last event: everything that is known
// about the log by looking at the events alone.
//
// Errors match one of the package's sentinels: [ErrInvalidEvent], [ErrTooLarge]
// and [ErrSeqMismatch] speak of what a caller handed over, [ErrCorrupt] and
// [ErrUnsupportedVersion] of what was stored.
//
// The package does no I/O except through the readers it is given, reads no
// clock, starts no goroutine and logs nothing. It does not know which segments
// make up a log, who owns it or whether a bracket is stale.
package segment
