package manifest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// IntentKind says how a commit's landing is judged.
type IntentKind string

const (
	IntentCreate   IntentKind = "create"   // the first commit of a log, on nothing or on a void
	IntentTakeover IntentKind = "takeover" // raises the generation
	IntentAppend   IntentKind = "append"   // the owner's, adds events
	IntentMaintain IntentKind = "maintain" // adds no events and keeps the generation
)

// Intent is what a commit means to do, in the terms in which its landing is
// judged: by position, never by what it holds. It is fixed before the PUT is
// sent and is all that the decision procedure needs beside the manifest read.
type Intent struct {
	Kind       IntentKind `json:"kind"`
	Log        string     `json:"log"`
	UID        string     `json:"uid"`        // of the log after this commit
	Commit     string     `json:"commit"`     // id of this commit
	Writer     string     `json:"writer"`     // who commits
	Generation int64      `json:"generation"` // after this commit
	Start      int64      `json:"start"`      // next before this commit's events
	End        int64      `json:"end"`        // next after them
	Base       string     `json:"base"`       // commit id of the version it is conditioned on; "" is absence
	Revision   int64      `json:"revision"`   // after this commit
	Keys       []KeyEntry `json:"keys,omitempty"`

	// First and Count are the place of one caller's events, where the commit is a
	// batch of several and this copy of the intent is that caller's own. Judge does
	// not look at them.
	First int64 `json:"first"`
	Count int64 `json:"count"`
}

// Verdict is what a manifest says about an intent.
type Verdict uint8

const (
	// Unknown: this manifest cannot tell, and no later one will.
	Unknown Verdict = iota
	// Unmoved: the version that the PUT is conditioned on is still there. It has
	// not landed, but it may, as long as a copy of it is under way.
	Unmoved
	// Committed: it landed, and its generation is still the newest.
	Committed
	// CommittedFenced: it landed; since then another writer took over.
	CommittedFenced
	// Fenced: it has not landed and never can; another writer took over.
	Fenced
	// Rebase: it has not landed and never can; a maintenance commit came between.
	Rebase
	// StartOver: it has not landed and never can, and it owned nothing yet.
	StartOver
	// Deleted: it has not landed and never can; the log was deleted.
	Deleted
	// Gone: the manifest that it was conditioned on is not there any more. It
	// must never be created again under the feet of whoever removed it.
	Gone
)

// String names the verdict in messages and tests.
func (v Verdict) String() string {
	return [...]string{"unknown", "unmoved", "committed", "committed, then fenced", "fenced", "rebase", "start over", "deleted", "gone"}[v]
}

// Landed reports whether the commit is in the log.
func (v Verdict) Landed() bool { return v == Committed || v == CommittedFenced }

// Judge is step 1 of the decision procedure (docs/consistency.md), with the states of
// step 4 folded in: what the manifest head (nil: there is none) says about a
// commit whose reply did not decide. Position decides: within a generation only
// its owner appends, and one commit at a time. Step 2, keys, is LookupKey, to
// be asked of the same head before a "not landed" is final.
func Judge(in Intent, head *Record) Verdict {
	if head == nil {
		if in.Base == "" {
			return Unmoved // for a create, absence is the version it was conditioned on
		}
		return Gone
	}
	v := judge(in, head)
	if head.State == StateDeleted && (v == Fenced || v == Rebase || v == StartOver) {
		return Deleted
	}
	return v
}

func judge(in Intent, head *Record) Verdict {
	if in.Kind == IntentCreate {
		switch {
		case head.UID == in.UID && head.Next < in.End:
			return Unknown // an older manifest was put back, or one made again of what was left
		case head.UID == in.UID && head.Generation() > in.Generation:
			return CommittedFenced
		case head.UID == in.UID:
			return Committed
		case head.Commit.ID == in.Base:
			return Unmoved // a void
		}
		return StartOver
	}
	if in.Kind == IntentMaintain {
		// Maintenance has no position: it is the head, or it is not known to be in.
		switch head.Commit.ID {
		case in.Commit:
			return Committed
		case in.Base:
			return Unmoved
		}
		return StartOver
	}
	if head.UID != in.UID {
		return Unknown // the log was removed and begun anew by other means than ours
	}
	if in.Kind == IntentTakeover {
		return judgeTakeover(in, head)
	}
	return judgeAppend(in, head)
}

// judgeTakeover asks the record of the commit's own generation, and nothing
// else: next says nothing, since a takeover may add no events, and the record
// after it says where somebody else's generation ended.
func judgeTakeover(in Intent, head *Record) Verdict {
	if own, ok := head.TakeoverOf(in.Generation); ok {
		switch {
		case own.Writer != in.Writer:
			return StartOver
		case head.Generation() > in.Generation:
			return CommittedFenced
		}
		return Committed
	}
	switch {
	case head.Generation() > in.Generation:
		return Unknown // its record has left the list
	case head.Commit.ID == in.Base:
		return Unmoved
	}
	return StartOver
}

// judgeAppend asks where the log ends, or where our generation ended. It has no
// answer where the generation of that number is somebody else's, or ended in a
// rebuild: then position tells nothing, as a log that was made again from what was
// left may lack our events, and hold others in their place.
func judgeAppend(in Intent, head *Record) Verdict {
	if own, ok := head.TakeoverOf(in.Generation); ok && own.Writer != in.Writer {
		return Unknown
	}
	if after, ok := head.TakeoverOf(in.Generation + 1); ok && after.Kind == KindRebuild {
		return Unknown
	}
	switch {
	case head.Generation() == in.Generation:
		switch {
		case head.Next >= in.End:
			return Committed
		case head.Next != in.Start:
			return Unknown // an older manifest was put back
		case head.Commit.ID == in.Base:
			return Unmoved
		}
		return Rebase
	case head.Generation() < in.Generation:
		return Unknown
	}
	after, ok := head.TakeoverOf(in.Generation + 1)
	switch {
	case !ok:
		return Unknown // its record has left the list
	case after.First >= in.End:
		return CommittedFenced
	case after.First == in.Start:
		return Fenced
	}
	return Unknown
}

// Generation is the newest generation of the log, 0 for a void.
func (r *Record) Generation() int64 {
	if r == nil || len(r.Generations) == 0 {
		return 0
	}
	return r.Generations[len(r.Generations)-1].Generation
}

// TakeoverOf finds the record of one generation, if it is still kept.
func (r *Record) TakeoverOf(generation int64) (Takeover, bool) {
	if n := len(r.Generations); n > 0 {
		// They are contiguous and ascending (Validate).
		if i := generation - r.Generations[0].Generation; i >= 0 && i < int64(n) {
			return r.Generations[i], true
		}
	}
	return Takeover{}, false
}

// LookupKey is step 2 of the decision procedure: it finds the first receipt of
// a keyed append. The error is ErrKeyConflict where the same key was used for
// other content.
func (r *Record) LookupKey(key, digest string) (entry KeyEntry, found bool, err error) {
	if r == nil || key == "" {
		return KeyEntry{}, false, nil
	}
	for i := len(r.Keys) - 1; i >= 0; i-- {
		e := r.Keys[i]
		if e.Key != key {
			continue
		}
		if e.Digest != digest {
			return e, true, fmt.Errorf("%w, from seq %d on", ErrKeyConflict, e.First)
		}
		return e, true, nil
	}
	return KeyEntry{}, false, nil
}

// Token is the text form of an intent whose outcome is unknown: what `decide`
// needs to settle it, from any process.
func (in Intent) Token() string {
	b, _ := json.Marshal(in) // strings and numbers only: it cannot fail
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseToken is the inverse of Token.
func ParseToken(token string) (Intent, error) {
	var in Intent
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(b, &in)
	}
	if err == nil && (in.Commit == "" || in.Writer == "" || CheckID(in.Log) != nil) {
		err = fmt.Errorf("it names no commit")
	}
	switch in.Kind {
	case IntentCreate, IntentTakeover, IntentAppend, IntentMaintain:
	default:
		if err == nil {
			err = fmt.Errorf("unknown kind %q", in.Kind)
		}
	}
	if err != nil {
		return Intent{}, fmt.Errorf("not a decide token: %w", err)
	}
	return in, nil
}
