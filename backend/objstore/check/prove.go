// Package check finds out by experiment whether a store honours conditional
// writes, on which everything in s3log rests. Prove makes four writes, Race
// many concurrent ones, and Guard runs the proof before the first write of a
// process. It is not a conformance suite for drivers; that is objstoretest.
package check

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mrand "math/rand/v2"
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
	needVersion = "every write must have a strong ETag"
)

// hintUnsafe is what to do about a store that failed the proof.
const hintUnsafe = "logs on this store can be read but not safely written; use a store with conditional writes, or a newer release of this one"

// Prove writes four times to a fresh key below probe/: a create, a create of
// what is there now, a replacement of the right version and one of a stale
// version. The first and third must succeed, the others must fail. A store that
// ignores conditions, inverts them or lacks them gives objstore.ErrUnsupported
// and the guarantee that is missing. Replies that decide nothing are tried
// again, for some seconds in all, and are then returned as they are. The probe
// is deleted at the end if that is permitted.
func Prove(ctx context.Context, store objstore.Store) (Profile, error) {
	var profile Profile
	strikes := 0
	for range maxRounds {
		p := probe{store: store, key: probePrefix + nonce(), profile: &profile}
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
	if _, err := p.mustSucceed(ctx, 3, objstore.IfVersion(version), needCurrent); err != nil {
		return err
	}
	return p.mustFail(ctx, 4, objstore.IfVersion(version), needStale)
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

// put writes, and again while the reply decides nothing.
func (p *probe) put(ctx context.Context, step int, cond objstore.Condition) (info objstore.Info, err error) {
	// Bodies differ, so that versions differ also where they are content hashes.
	body := fmt.Appendf(nil, "s3log store proof %s %d\n", p.key, step)
	p.retried = false
	for try := range maxTries {
		info, err = p.store.Put(ctx, p.key, body, cond, objstore.PutOptions{ContentType: "text/plain"})
		switch objstore.Classify(err) {
		case objstore.Undecided, objstore.TryAgain:
		case objstore.Applied, objstore.Precondition:
			p.wrote = true
			return info, err
		default:
			return info, err
		}
		p.wrote, p.retried = true, true
		delay := baseDelay << try
		if errors.Is(err, objstore.ErrThrottled) {
			p.profile.Rate = 1
			delay = max(delay, rateDelay)
		}
		if try == maxTries-1 || sleep(ctx, delay) != nil {
			break
		}
	}
	return info, err
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
		Err: fmt.Errorf("store proof: %s: %w", guarantee, why)}
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

func nonce() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
