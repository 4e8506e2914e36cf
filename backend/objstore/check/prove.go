// Package check finds out by experiment what a store and a set of credentials
// can do. Prove makes four writes, to see whether conditional writes are
// honoured, on which everything in s3log rests; Race makes many concurrent ones,
// Guard runs the proof before the first write of a process, and Examine looks
// at everything and gives a report. It is not a conformance suite for drivers;
// that is objstoretest, which runs these checks, too.
package check

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"sync"
	"time"

	"github.com/s3log/s3log/backend/objstore"
)

const (
	probePrefix = "probe/"
	maxTries    = 6                       // of one write that got no decisive reply
	maxRounds   = 3                       // of the whole proof, each on a fresh key
	baseDelay   = 100 * time.Millisecond  // doubled with every try
	rateDelay   = 1100 * time.Millisecond // for stores that take one write a second and key

	removeTimeout = 10 * time.Second // then the probe stays
)

// The guarantees, as an error names them when one is missing.
const (
	needCreate  = "If-None-Match: * must succeed where no object is"
	needExists  = "If-None-Match: * must fail where an object is"
	needCurrent = "If-Match must succeed on the current version"
	needStale   = "If-Match must fail on a version that has been replaced"
	needOne     = "of concurrent writes on the same condition one may succeed"
	needVersion = "every write must have a strong ETag"
)

// aboutProof begins the text of an error about a missing guarantee.
const aboutProof = "store proof: "

// hintUnsafe is what to do about a store that failed the proof.
const hintUnsafe = "logs on this store can be read but not safely written; use a store with conditional writes, or a newer release of this one"

// Prove writes four times to a fresh key below probe/: a create, a create of
// what is there now, and two replacements of one version at the same time. The
// first must succeed, the second fail, and of the last two exactly one succeed:
// whichever comes later meets a version that has been replaced. A store that
// ignores conditions, inverts them, lacks them, or checks them some time before
// it writes gives objstore.ErrUnsupported and the guarantee that is missing; of
// the last kind some need more than two writes to be found out (see Race).
// Replies that decide nothing are tried again, for some seconds in all, and are
// then returned as they are. The probe is deleted at the end if that is
// permitted.
func Prove(ctx context.Context, store objstore.Store) (Profile, error) {
	var profile Profile
	strikes := 0
	for range maxRounds {
		p := probe{store: store, key: probeKey(), profile: &profile}
		err := p.run(ctx)
		if p.wrote {
			p.remove(ctx)
		}
		switch {
		case err == nil:
			profile.Conditional = true
			return profile, nil
		case !errors.Is(err, errHeldYetFailed):
			return Profile{}, err
		}
		// A condition that fails although it holds may have met an earlier copy
		// of the same request: one of ours whose reply was lost, or one made by
		// something between here and the store. A fresh key settles it.
		if !p.retried {
			strikes++
		}
		if strikes == 2 {
			return Profile{}, err
		}
	}
	return Profile{}, &objstore.Error{Op: "Put", Key: probePrefix, Class: objstore.ErrUndecided,
		Err: errors.New("store proof: replies were lost again and again")}
}

// errHeldYetFailed marks the missing guarantees that a repeated request would
// look like.
var errHeldYetFailed = errors.New("the condition failed although it holds")

// probe is one proof on one fresh key.
type probe struct {
	store   objstore.Store
	key     string
	profile *Profile
	wrote   bool // there may be an object to remove
	retried bool // the newest write was sent more than once
}

func (p *probe) run(ctx context.Context) error {
	version, err := p.mustSucceed(ctx, 1, objstore.IfAbsent(), needCreate)
	if err != nil {
		return err
	}
	if version.IsZero() { // the reply did not tell
		info, err := p.store.Head(ctx, p.key)
		if err != nil {
			return fmt.Errorf("store proof (%s): %w", needVersion, err)
		}
		if version = info.Version; version.IsZero() {
			return p.unsupported(needVersion, errors.New("got none, or a weak one (a proxy?)"))
		}
	}
	if err := p.mustFail(ctx, 2, objstore.IfAbsent(), needExists); err != nil {
		return err
	}
	return p.duel(ctx, version)
}

// duel makes two replacements of one version at once.
func (p *probe) duel(ctx context.Context, version objstore.Version) error {
	cond := objstore.IfVersion(version)
	m := newMeeting(2)
	var puts [2]attempt
	var wg sync.WaitGroup
	for i := range puts {
		wg.Go(func() {
			ctx, leave := m.join(ctx)
			defer leave()
			puts[i] = p.send(ctx, 3+i, cond)
		})
	}
	wg.Wait()
	p.note(puts[0])
	p.note(puts[1])
	p.retried = puts[0].retried || puts[1].retried
	wins := 0
	for _, a := range puts {
		switch {
		case a.err == nil:
			wins++
		case !errors.Is(a.err, objstore.ErrPrecondition):
			return fmt.Errorf("store proof (%s): %w", needCurrent, a.err)
		}
	}
	switch wins {
	case 0:
		return p.unsupported(needCurrent, errHeldYetFailed)
	case 1:
		return nil
	}
	// Nothing depends on another write here. It tells a store that ignores the
	// condition from one that obeys a request at a time.
	if last := p.send(ctx, 5, cond); errors.Is(last.err, objstore.ErrPrecondition) {
		return p.unsupported(needOne, errors.New("both of two did: the store checks first and writes later"))
	}
	return p.unsupported(needStale, errors.New("the condition was ignored"))
}

// mustSucceed makes a write whose condition holds.
func (p *probe) mustSucceed(ctx context.Context, step int, cond objstore.Condition, guarantee string) (objstore.Version, error) {
	info, err := p.put(ctx, step, cond)
	switch {
	case errors.Is(err, objstore.ErrPrecondition):
		return objstore.Version{}, p.unsupported(guarantee, errHeldYetFailed)
	case err != nil:
		return objstore.Version{}, fmt.Errorf("store proof (%s): %w", guarantee, err)
	}
	return info.Version, nil
}

// mustFail makes a write whose condition does not hold.
func (p *probe) mustFail(ctx context.Context, step int, cond objstore.Condition, guarantee string) error {
	_, err := p.put(ctx, step, cond)
	switch {
	case err == nil:
		return p.unsupported(guarantee, errors.New("the condition was ignored"))
	case errors.Is(err, objstore.ErrPrecondition):
		return nil
	}
	return fmt.Errorf("store proof (%s): %w", guarantee, err)
}

// put writes, and notes what that tells of the store.
func (p *probe) put(ctx context.Context, step int, cond objstore.Condition) (objstore.Info, error) {
	a := p.send(ctx, step, cond)
	p.note(a)
	return a.info, a.err
}

// attempt is what became of one write.
type attempt struct {
	info      objstore.Info
	err       error
	wrote     bool // there may be an object
	retried   bool // it was sent more than once
	throttled bool
}

func (p *probe) note(a attempt) {
	p.wrote = p.wrote || a.wrote
	p.retried = a.retried
	if a.throttled {
		p.profile.Rate = 1
	}
}

// send writes, and again while the reply decides nothing. It changes nothing of
// p, so that two may run at a time.
func (p *probe) send(ctx context.Context, step int, cond objstore.Condition) (a attempt) {
	// Bodies differ, so that versions differ also where they are content hashes.
	body := fmt.Appendf(nil, "s3log store proof %s %d\n", p.key, step)
	for try := range maxTries {
		a.info, a.err = p.store.Put(ctx, p.key, body, cond, objstore.PutOptions{ContentType: "text/plain"})
		switch objstore.Classify(a.err) {
		case objstore.Undecided, objstore.TryAgain:
		case objstore.Applied, objstore.Precondition:
			a.wrote = true
			return a
		default:
			return a
		}
		a.wrote, a.retried = true, true
		delay := baseDelay << try
		if errors.Is(a.err, objstore.ErrThrottled) {
			a.throttled = true
			delay = max(delay, rateDelay)
		}
		if try == maxTries-1 || sleep(ctx, delay) != nil {
			break
		}
	}
	return a
}

// remove deletes the probe. It is a courtesy: the object is a few bytes, and
// the right to delete may well be missing.
func (p *probe) remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	_ = p.store.Delete(ctx, p.key)
}

func (p *probe) unsupported(guarantee string, why error) error {
	return &objstore.Error{Op: "Put", Key: p.key, Class: objstore.ErrUnsupported, Hint: hintUnsafe,
		Err: fmt.Errorf(aboutProof+"%s: %w", guarantee, why)}
}

// sleep waits for d, give or take a quarter, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d + time.Duration((mrand.Float64()-0.5)/2*float64(d)))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// probeKey is the key of a new probe; gc knows such keys by their form.
func probeKey() string { return probePrefix + nonce() }

func nonce() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
