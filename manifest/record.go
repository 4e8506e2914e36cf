package manifest

import "github.com/s3log/s3log/segment"

// Version is the format version that this package reads and writes.
const Version = 1

// LogState says what a manifest stands for.
type LogState string

const (
	// StateOpen: a log that can be read and appended to.
	StateOpen LogState = "open"
	// StateDeleted: a tombstone. It keeps UID, Revision, Epoch, Commit, Owner (the
	// deleter), Generations, Keys, Next and Unknown; every other field is zero.
	StateDeleted LogState = "deleted"
	// StateVoid: an id without a log, whose orphans were collected or whose unsettled
	// create was settled. Only Log, Revision, Epoch, Commit and Unknown are set:
	// nothing was born, so there is no UID, and no owner.
	StateVoid LogState = "void"
)

// Kinds of takeovers (Takeover.Kind), of births (Origin.Kind: fresh, fork,
// replay) and of lifecycles (Lifecycle.Kind: those and resume). A reader meets
// kinds of later versions with indifference: they are names, at most MaxKind
// bytes of [a-z0-9-].
const (
	KindFresh  = "fresh"
	KindFork   = "fork"
	KindReplay = "replay"
	KindResume = "resume"
	KindAdopt  = "adopt"
	KindClaim  = "claim"
	KindDecide = "decide"
	KindDelete = "delete"
	// KindRebuild: its manifest was made anew from its segments.
	KindRebuild = "rebuild"
)

// Record is one revision of a manifest. Its fields are in the order of the
// stored form. Times are ms since the Unix epoch by the store's clock, except
// those in Content, which come from the events.
//
// A Record that was decoded or committed is shared between goroutines and not
// changed any more; transitions build a new one (slices that do not change may
// be shared).
type Record struct {
	Version  int      // 1
	Critical []string // extensions that a reader must know; this version knows none
	Log      string   // the id
	UID      string   // id of the birth commit; never changes
	Header   []byte   // session header, a raw JSON object without LF; nil if there is none
	State    LogState

	Revision int64      // raised by one by every commit, the first is 1
	Epoch    uint32     // raised by takeovers and barriers, never falls, the first is 1
	Commit   CommitInfo // the newest

	Owner       *Owner     // nil in a void only
	Generations []Takeover // the newest MaxGenerations, oldest first
	Keys        []KeyEntry // the newest MaxKeys keyed appends, oldest first

	Next         int64         // seq of the next event
	Content      segment.State // what the events 0 … Next-1 amount to
	ActivityRule string        // how Content.Activity is found, fixed at birth

	Origin    *Origin    // how the log was born; never changes
	Lifecycle *Lifecycle // the newest

	Segments []SegmentRef // sealed events, from seq 0 without a gap
	Retired  []Retired    // replaced segments, oldest first, kept for readers of older manifests
	Tail     []byte       // zstd frames with the events after Segments, concatenated

	Lease   *Lease // the owner's; nil if it holds none
	Unknown []byte // members that this version does not know, raw (`"a":1,"b":2`), in the order read
}

// CommitInfo names one accepted change.
type CommitInfo struct {
	ID       string // fresh UUIDv7 for every commit
	Writer   string // the handle that made it
	At       int64  // ms, store clock
	Software string // who wrote it, for people; may be empty
}

// Owner is the writer whose appends are accepted.
type Owner struct {
	Writer     string
	Generation int64
	Label      string // for people; may be empty
	Released   bool   // the owner said that this was its last commit
}

// Takeover is the first accepted commit of a generation.
type Takeover struct {
	Generation int64
	Writer     string
	Kind       string
	First      int64 // Next of the version taken over, before the takeover's own events
	At         int64 // ms, store clock
}

// KeyEntry is the receipt of a keyed append.
type KeyEntry struct {
	Key    string // first 16 hex digits of the SHA-256 of the caller's key
	First  int64  // seq of its first event
	Count  int64
	Digest string // first 16 hex digits of the SHA-256 of the caller's lines
}

// Origin is how a log was born.
type Origin struct {
	Kind      string
	Inherited int64   // events that it was born with, boundary not counted
	Parent    *Parent // of a fork, and of a replay that names one
}

// Parent is where inherited events come from.
type Parent struct {
	Log  string
	UID  string
	UpTo int64        // count of the parent's events that were inherited
	Root segment.Hash // Merkle root over exactly those
}

// Lifecycle is what began with a fresh log, a resume, a fork or a replay.
type Lifecycle struct {
	Kind      string
	Inherited int64 // events before it
	Closers   int64 // synthetic events that ended an interrupted turn
	First     int64 // seq of its first own event
	At        int64 // ms, store clock
}

// SegmentRef is a sealed segment as the manifest knows it.
type SegmentRef struct {
	Name   Name
	Count  int64        // events
	Bytes  int64        // size of the object
	Raw    int64        // bytes of its lines, each with LF
	SHA256 segment.Hash // of the object
}

// Retired is a segment that was replaced.
type Retired struct {
	Name Name
	At   int64 // ms, store clock: when the commit that replaced it was made
}

// Lease is the owner's wish not to be taken over for a while.
type Lease struct {
	Until int64 // ms, store clock
}
