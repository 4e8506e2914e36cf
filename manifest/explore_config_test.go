package manifest

// config is what one exploration is bounded by.
type config struct {
	name   string
	start  string // the log at the beginning: "a" an event in the tail, "|" seals it, "0" a void, "" nothing
	actors []actor
	faults uint8 // of requests, in all

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
	notSticky        bool // a writer goes on after a failure
	landed503        bool // a lost reply is taken for one that decided no
	refusalDecides   bool // a refusal decides also about an earlier attempt
	retryAbandoned   bool // a commit is tried again after its caller left with a token
	checkedEarly     bool // the same, if the caller leaves while the retry is prepared
	barrierless      bool // gc deletes unreferenced segments of any epoch
}

// limit is how often an actor proposes that is neither writer nor decider.
func (a *actor) limit() int {
	if a.drafts == 0 {
		return 2
	}
	return a.drafts
}
