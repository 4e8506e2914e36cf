package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/s3log/s3log/backend/objstore"
)

// fault is what may happen to one request.
type fault uint8

const (
	none fault = iota
	lostReply
	failedApplied    // HTTP 500, and it took effect
	throttledApplied // HTTP 503, and it took effect
	throttled        // HTTP 503
	unavailable      // HTTP 500
	late             // the caller gives up first; it takes effect, or not, later
	lateCopy         // a second copy arrives later
	doubled          // a second copy arrives at once, and its reply is heard
	conflict         // HTTP 409
	unsent           // no connection
	denied           // HTTP 403, in passing
	rejected         // damaged on its way
	noVersion        // a success without an ETag
	hangs            // no reply for minutes
	tornVersion      // a read with the ETag of the write before
	tornBody         // a read with the body of the write before
	tornHead         // a read with ETag and metadata of the write before
	cutBody          // a read that ends early, as if that were all
	staleList        // a listing of some time ago
	brokenList       // a listing that ends in an error
	frozenBefore     // the process stands still before it sends
	frozenAfter      // the process stands still before it hears the reply
	dies             // the process ends before it sends
	diesAfter        // the process ends before it hears the reply
	expired          // the process's credentials expire, and are renewed later
	slow
	faults // their number
)

var faultNames = [faults]string{
	"none", "lost reply", "500 though applied", "503 though applied", "503", "500", "late", "late copy", "doubled", "409", "not sent", "403", "damaged",
	"no version", "hangs", "older ETag", "older body", "older ETag and metadata", "cut", "stale list", "broken list", "frozen before", "frozen after", "dies before", "dies after",
	"credentials expire", "slow",
}

func (f fault) String() string { return faultNames[f] }

// rate is how often a fault usually strikes, per mille of the requests that it
// can strike.
func (f fault) rate() int {
	switch f {
	case dies, diesAfter, expired:
		return 4
	case frozenBefore, frozenAfter, hangs, denied, rejected:
		return 10
	case tornVersion, tornBody, tornHead, cutBody:
		return 40
	case staleList, brokenList:
		return 100
	}
	return 30
}

// strikes reports whether a fault can strike an operation on a key.
func (f fault) strikes(op string, manifest bool) bool {
	switch f {
	case lostReply, failedApplied, throttledApplied, late, lateCopy, doubled, conflict, unsent, rejected, noVersion:
		return op == "Put" || op == "Copy" || op == "Delete" && f != conflict && f != rejected && f != noVersion
	case tornVersion, tornBody, tornHead, cutBody:
		return op == "Get" && manifest
	case staleList, brokenList:
		return op == "List"
	}
	return true
}

// spared is the fate without its fault.
func (f fate) spared() fate {
	f.fault, f.more, f.wait = none, 0, 0
	return f
}

// fate is what will happen to one request.
type fate struct {
	fault fault
	id    string        // names the fault
	out   time.Duration // its way
	back  time.Duration // that of the reply
	more  time.Duration // how long: late, frozen, expired, slow
	wait  time.Duration // for the reply, beside its way
	dice  *rand.Rand    // for the rest
}

// drawFate draws what happens to the n-th request of its kind, of a process that
// is so many times as far from the store as others.
func (p *plan) drawFate(process, op, key string, manifest bool, n int, far time.Duration) fate {
	rng := stream(p.seed, "request", process, op, key, n)
	leg := func() time.Duration {
		d := far * (p.leg/4 + time.Duration(rng.Int64N(int64(p.leg))))
		if oneOf(rng, 20) {
			d *= 10
		}
		return d
	}
	f := fate{out: leg(), back: leg(), dice: rng}
	for kind := fault(1); kind < faults; kind++ {
		if rng.IntN(1000) < p.rates[kind] && f.fault == none && kind.strikes(op, manifest) {
			f.fault = kind
		}
	}
	switch f.fault {
	case late:
		f.more, f.wait = drawn(rng, p.late), drawn(rng, 30*time.Second)
	case lateCopy:
		f.more = drawn(rng, p.late)
	case frozenBefore, frozenAfter:
		f.more = drawn(rng, p.freeze)
	case expired:
		f.more = drawn(rng, 2*time.Minute)
	case hangs:
		f.wait = drawn(rng, 4*time.Minute)
	case slow:
		f.more, f.wait = drawn(rng, 200*p.leg), drawn(rng, 200*p.leg)
	}
	return f
}

// drawn is a duration of any order of magnitude up to most.
func drawn(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(most)>>rng.IntN(12) + 1))
}

// reply is what the caller hears of a fault, if it is not what the store said.
func (f fault) reply() error {
	switch f {
	case lostReply:
		return &objstore.Error{Class: objstore.ErrUndecided, Err: errReset}
	case late, hangs:
		return &objstore.Error{Class: objstore.ErrUndecided, Err: errTimeout}
	case failedApplied, unavailable, brokenList:
		return &objstore.Error{Class: objstore.ErrUndecided, Status: 500, Code: "InternalError"}
	case throttledApplied, throttled:
		return &objstore.Error{Class: objstore.ErrThrottled, Status: 503, Code: "SlowDown"}
	case conflict:
		return &objstore.Error{Class: objstore.ErrConflict, Status: 409, Code: "ConditionalRequestConflict"}
	case unsent:
		return &objstore.Error{Class: objstore.ErrUnsent}
	case denied:
		return &objstore.Error{Class: objstore.ErrDenied, Status: 403, Code: "AccessDenied"}
	case expired:
		return &objstore.Error{Class: objstore.ErrRefused, Status: 400, Code: "ExpiredToken"}
	case rejected:
		return &objstore.Error{Class: objstore.ErrRejected, Status: 400, Code: "BadDigest"}
	case dies, diesAfter:
		return &objstore.Error{Class: objstore.ErrRefused, Err: errDead} // so that nothing of it goes on
	}
	return nil
}
