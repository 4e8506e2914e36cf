// Package manifest is the record of a log: the one object of a log that ever
// changes, its bytes on the store, its legal transitions, the procedure that
// decides what became of a commit, and the loop that commits.
//
// Record is the manifest in memory, Decode and Record.AppendTo are its codec,
// Validate holds every rule between its fields and every bound. Names and keys
// of a log's objects are computed here and nowhere else.
//
// The tail is opaque bytes to this package: it decodes no events, knows no
// driver and no vendor's tokens, and starts nothing in the background.
package manifest
