package segment

import "errors"

// What can be wrong with an event or a segment. Errors of this package match
// exactly one of them; damage, a newer format, and a caller's mistake are
// different things and stay apart.
var (
	// ErrCorrupt: stored bytes are not what was written.
	ErrCorrupt = errors.New("damaged")
	// ErrUnsupportedVersion: written by a newer version of s3log; nothing is
	// damaged, a newer reader is needed.
	ErrUnsupportedVersion = errors.New("format version not supported")
	// ErrInvalidEvent: an event breaks the rules of the envelope.
	ErrInvalidEvent = errors.New("invalid event")
	// ErrTooLarge: an event, or another part of a log, is beyond its limit.
	ErrTooLarge = errors.New("too large")
	// ErrSeqMismatch: an event carries a seq that is not its place in the log.
	ErrSeqMismatch = errors.New("seq does not fit")
)
