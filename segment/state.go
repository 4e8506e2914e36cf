package segment

// State is everything that is known about a log after one of its events by
// looking at the events alone, from seq 0 on. A manifest holds the state after
// the newest event, a segment's index the state after the segment's last one.
// Package manifest advances it (Fold); this package only carries it.
type State struct {
	Types    Types     // per event type: how many, first seq, last seq
	LastTime *int64    // time of the last event, ms; nil before the first
	MaxTime  *int64    // greatest time of any event, ms; nil before the first
	Activity *int64    // time of the newest event that meets the log's activity rule; nil if unknown
	Boundary *Boundary // the newest session/end-seed; nil if there is none
	Turn     *Turn     // the open turn; nil if none is open
	Tree     Tree      // Merkle tree over all event lines
}

// Boundary is the place of a session/end-seed event.
type Boundary struct {
	Seq  int64
	Time int64 // ms
}

// Types counts events by type, in the order in which the types first appeared
// (types named at create come first, with count 0 until one appears). It holds
// at most MaxTypes entries; events of further types are counted together in
// Overflow, which is stored as the entry with the empty name.
type Types struct {
	Entries  []TypeCount
	Overflow *TypeCount // Type is ""
}

// TypeCount is one entry of Types. First and Last mean nothing while Count is 0
// and are stored as 0.
type TypeCount struct {
	Type  string
	Count int64
	First int64 // seq
	Last  int64 // seq
}

// Turn is the open turn: what the closers of an interrupted turn need.
type Turn struct {
	Turn  int64
	Step  *int64 // the open step; nil if none is open
	Calls []Call // calls without a result, in the order they were requested
	// More is set when a call did not fit (MaxCalls, MaxCallID): then only the
	// events since the turn began tell.
	More bool
}

// Call is a tool call without a result.
type Call struct {
	ID   string
	Step int64
	Seq  *int64 // seq of its tool/call event; nil if it was only requested
}

// Tree is an RFC 6962 Merkle tree over the event lines (without LF): its size
// and root, and the compact range that lets it grow.
type Tree struct {
	Size  int64
	Root  Hash
	Range []Hash // roots of the perfect subtrees, left to right
}

// Hash is a SHA-256 value; its text form is 64 lower-case hex digits.
type Hash [32]byte

// Bounds of a state.
const (
	MaxTypes  = 256 // entries of Types beside the overflow
	MaxCalls  = 256 // calls without result that a Turn holds
	MaxCallID = 256 // bytes of a call id in JSON encoding
)
