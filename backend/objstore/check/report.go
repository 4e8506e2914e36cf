package check

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/s3log/s3log/backend/objstore"
)

// Status says what a check came to.
type Status string

// The statuses. A denied right is no failure: whoever is only to read should
// see just that.
const (
	OK      Status = "ok"
	Warning Status = "warning" // it works, and somebody should look at it
	Failed  Status = "failed"
	Denied  Status = "denied"  // these credentials may not
	Unknown Status = "unknown" // it could not be found out
	Skipped Status = "skipped" // it was not tried, or there is nothing to try
)

// Finding is what one check found out. The texts are for people, and may hold
// what a store said.
type Finding struct {
	Name   string // what was checked: a word that does not change
	Status Status
	Seen   string // what happened
	Means  string // what follows from it; empty where that goes without saying
	Do     string // what can be done about it; empty where nothing has to be
	// Unsafe says that logs must not be written here because of it.
	Unsafe bool
	// Err is the error that it is about, if any.
	Err error
}

// The names of the findings that Examine makes. Drivers add their own, and may
// replace one of these by using its name.
const (
	NameReach       = "reach"       // whether anybody answers there, and takes these credentials
	NameClock       = "clock"       // the store's clock beside ours
	NameConditional = "conditional" // the proof of Prove
	NameRace        = "race"        // the races of Race
	NameLatency     = "latency"     // of small requests, one after the other
	NameRate        = "rate"        // of commits to one key
	NameConsistency = "consistency" // reads that follow and meet writes
	NameListing     = "listing"     // order and freshness of lists
	NameMetadata    = "metadata"    // whether it is kept
	NameRead        = "read"        // rights
	NameWrite       = "write"
	NameList        = "list"
	NameDelete      = "delete"
	NameCopy        = "copy"
	NameProbes      = "probes" // whether all probes were removed
)

// Answer is yes, no, or not known.
type Answer uint8

// The answers.
const (
	NotKnown Answer = iota
	Yes
	No
)

// and is yes if both are, and no if one is.
func (a Answer) and(b Answer) Answer {
	switch {
	case a == No || b == No:
		return No
	case a == Yes && b == Yes:
		return Yes
	}
	return NotKnown
}

// Abilities are what a store and a set of credentials can do together.
type Abilities struct {
	Read    Answer // logs whose ids are known
	Append  Answer // to logs, and create them, safely
	List    Answer // all logs
	Collect Answer // remove what no log names any more
}

// Latency is what a number of equal requests took, one after the other.
type Latency struct {
	Requests    int
	Median, P99 time.Duration
}

// Report is the outcome of an examination.
type Report struct {
	Store    string // the place, as the driver names it; may be empty
	Findings []Finding
	Can      Abilities
	// Profile is what may be said about the store from now on. It is zero where
	// conditional writes and races were not both tried and honoured.
	Profile Profile
	// ProfileUseless says that the store needs no profile, being known anyway.
	ProfileUseless bool
	Put, Get       Latency  // zero if there were none
	Left           []string // keys of probes that could not be removed
}

// Find returns the finding of a name.
func (r *Report) Find(name string) (Finding, bool) {
	for _, f := range r.Findings {
		if f.Name == name {
			return f, true
		}
	}
	return Finding{}, false
}

// Err is nil if all that these credentials are allowed to do works. Else it says
// why not: objstore.ErrUnsupported where writing is not safe, the error of the
// request where the store cannot be reached, objstore.ErrDenied where these
// credentials may not do anything, and any other error for another check that
// failed, or where they may write and nobody knows whether that is safe.
func (r *Report) Err() error {
	if f, ok := r.Find(NameReach); ok && f.Status != OK {
		return failure(f, "the store cannot be used", f.Err)
	}
	for _, f := range r.Findings {
		if f.Unsafe {
			return failure(f, "writing here is not safe", objstore.ErrUnsupported)
		}
	}
	if read, _ := r.Find(NameRead); read.Status != Unknown && r.Can.Read != Yes && r.Can.Append != Yes && r.Can.List != Yes {
		for _, name := range []string{NameRead, NameWrite, NameList} {
			if f, ok := r.Find(name); ok && f.Status == Denied {
				return failure(f, "these credentials may not do anything here", objstore.ErrDenied)
			}
		}
	}
	for _, f := range r.Findings {
		if f.Status == Failed {
			return failure(f, "a check failed", f.Err)
		}
	}
	for _, name := range []string{NameConditional, NameRace} {
		// Who may not write need not know.
		if f, ok := r.Find(name); ok && f.Status == Unknown && f.Err != nil && !errors.Is(f.Err, objstore.ErrDenied) {
			return failure(f, "whether writing here is safe could not be found out", f.Err)
		}
	}
	return nil
}

// explains says which findings tell why an ability is wanting.
var explains = map[string][]string{
	"read":    {NameRead},
	"append":  {NameWrite, NameRead, NameConditional, NameRace},
	"list":    {NameList, NameRead, NameListing},
	"collect": {NameDelete, NameList, NameWrite, NameRead, NameConditional, NameRace},
}

// NeedNames are the abilities that Need knows, as Summary names them.
func NeedNames() []string { return []string{"read", "append", "list", "collect"} }

// Need is nil if Err is, and the store and these credentials have all these abilities.
// One that is wanting is objstore.ErrDenied; of one of which that is not known, the
// error is neither.
func (r *Report) Need(names ...string) error {
	if err := r.Err(); err != nil {
		return err
	}
	answers := map[string]Answer{"read": r.Can.Read, "append": r.Can.Append, "list": r.Can.List, "collect": r.Can.Collect}
	for _, name := range names {
		answer, known := answers[name]
		if !known {
			return fmt.Errorf("no ability is called %q", name)
		}
		if answer == Yes {
			continue
		}
		why := Finding{Name: name, Seen: r.Summary()}
		for _, about := range explains[name] {
			if f, ok := r.Find(about); ok && f.Status != OK && f.Status != Warning && (answer == NotKnown || f.Status != Skipped) {
				why = f
				break
			}
		}
		if answer == NotKnown {
			return failure(why, "whether one can "+name+" here is not known", nil)
		}
		return failure(why, "these credentials cannot "+name+" here", objstore.ErrDenied)
	}
	return nil
}

// failedCheck is the error of a finding. It matches what it is about.
type failedCheck struct {
	text string
	as   error
}

func (e *failedCheck) Error() string { return e.text }
func (e *failedCheck) Unwrap() error { return e.as }

// failure makes the error of a finding: of the class of as, with its advice.
func failure(f Finding, what string, as error) error {
	if as == nil {
		as = errors.New(f.Seen)
	}
	e := &objstore.Error{Op: "Check", Hint: f.Do, Class: as}
	var inner *objstore.Error
	if errors.As(as, &inner) {
		e = &objstore.Error{Op: "Check", Key: inner.Key, Code: inner.Code, Status: inner.Status, Request: inner.Request, Hint: f.Do, Class: inner.Class}
	}
	return &failedCheck{text: fmt.Sprintf("%s: %s: %s", what, f.Name, f.Seen), as: e}
}

// Summary says in one line what the store and the credentials can do.
func (r *Report) Summary() string {
	var can, cannot, unsure []string
	for _, a := range []struct {
		name   string
		answer Answer
	}{{"read", r.Can.Read}, {"append", r.Can.Append}, {"list", r.Can.List}, {"collect", r.Can.Collect}} {
		switch a.answer {
		case Yes:
			can = append(can, a.name)
		case No:
			cannot = append(cannot, a.name)
		default:
			unsure = append(unsure, a.name)
		}
	}
	text := "this store and these credentials can: " + strings.Join(can, ", ")
	if can == nil {
		text += "nothing"
		if unsure != nil {
			text += " for certain"
		}
	}
	if cannot != nil {
		text += "; cannot: " + strings.Join(cannot, ", ")
	}
	if unsure != nil {
		text += "; not known: " + strings.Join(unsure, ", ")
	}
	return text
}

// Bounds of a difference between two clocks, beyond what the seconds of a Date
// header hide.
const (
	skewNoticed = 2 * time.Second
	skewWarns   = 5 * time.Minute
	skewFails   = 15 * time.Minute // what S3 allows a signature
)

// Clock judges a clock that said there when ours said here.
func Clock(there, here time.Time) Finding {
	f := Finding{Name: NameClock, Status: OK}
	skew := there.Sub(here)
	size := skew.Abs()
	way := "behind"
	if skew > 0 {
		way = "ahead of"
	}
	f.Seen = fmt.Sprintf("the store's clock is %v %s this machine's", size.Round(time.Second), way)
	switch {
	case size > skewFails:
		f.Status = Failed
		f.Means = "S3 refuses signatures that are more than 15 minutes off; s3log signs again with the store's time, other programs are refused. Times that are assigned to events are those of this machine"
		f.Do = "set the clock of this machine"
	case size > skewWarns:
		f.Status = Warning
		f.Means = "from 15 minutes on S3 refuses signatures. Times that are assigned to events are those of this machine"
		f.Do = "set the clock of this machine"
	case size <= skewNoticed:
		f.Seen = "as this machine's, to the second"
	}
	return f
}
