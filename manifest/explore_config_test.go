package manifest

// config is what one exploration is bounded by.
type config struct {
	name   string
	start  string // the log at the beginning: "a" an event in the tail, "|" seals it, "0" a void, "" nothing
	actors []actor
	faults uint8 // of requests, in all

	grace uint8 // in hours; 0: it is over at once
	hours uint8 // that may go by

	stale   bool // a listing is any part of what was there until now, page by page
	astray  bool // uploads may be late, too, and copies of deletions
	untold  bool // a success may come without a version, also from somebody else than the store
	overlap bool // a 409 may be the answer to a copy while the request itself is under way
	removal bool // somebody removes tombstones and voids, at the price of a fault
	broken  broken
}

type role uint8

const (
	writer    role = iota // appends its batches
	decider               // settles what became of an append of another
	maintains             // folds, or just commits
	deletes               // deletes the log
	collects              // is gc
	reads                 // reads the log
)

// actor is one process and all that it will do.
type actor struct {
	role role
	id   string // writer id; empty: its own

	// A writer:
	open    opening
	batches []batch
	release bool // with the last batch
	giveUp  bool // its time may end at any moment
	leaves  bool // its caller may leave at any moment and take a token along
	seals   int  // uploads of its tail in the background
	merges  int  // uploads of merges in the background
	sealOwn bool // every commit seals the tail and its own events

	runs    uint8   // of gc; 0 is one
	settles int     // a decider: whose outcome
	keeps   keeping // a maintainer: what it does
	drafts  int     // see limit
}

type batch struct {
	n   int // events
	key string
}

type opening uint8

const (
	adopt         opening = iota // reads first
	create                       // fails where the log is there
	createOrAdopt                // adopts it then
	fork                         // create with what is inherited in a segment
)

type keeping uint8

const (
	foldAll  keeping = iota // all segments and the tail into one segment
	foldSegs                // all segments into one
	touch                   // nothing changes but the commit
)

// broken says which rule an exploration leaves out.
type broken struct {
	judge func(Intent, *Record) Verdict
	names func(base, next *Record, uploads []Upload) error
	tweak func(base, next *Record, in *Intent) // what a commit writes, before it is encoded

	newBytes         bool // a retry is a commit of its own
	keyOnce          bool // the key is looked up before the first attempt only
	keyNotAfterwards bool // "not committed" is final before the key was looked up
	believes         bool // a success without a version is taken for one
	notSticky        bool // a writer goes on after a failure
	landed503        bool // a lost reply is taken for one that decided no
	refusalDecides   bool // a refusal decides also about an earlier attempt
	retryAbandoned   bool // a commit is tried again after its caller left with a token
	checkedEarly     bool // the same, if the caller leaves while the retry is prepared

	ignore []string // classes of what is to be overlooked: what it leads to is to be found
	// on is what a writer takes the version for that it builds on; takes says that
	// it does not own the log.
	on func(v *version, takes bool) *version
	// fates changes what gc may do with the segments of its listing; s is gc.
	fates      func(x *explorer, w *world, s *proc, list []Listed, fates []Fate)
	relist     bool // gc lists again after its barrier
	low        bool // gc raises the epoch by one, whatever it listed
	blind      bool // gc's barrier is unconditional
	foreign    bool // a writer names what another has uploaded
	kept       bool // a forker keeps what it has uploaded when it begins anew
	childFirst bool // a segment is sent after the manifest that names it
}

// limit is how often an actor proposes that is neither writer nor decider.
func (a *actor) limit() int {
	if a.drafts == 0 {
		return 2
	}
	return a.drafts
}
