// Package seedpath is how a writer comes to own a log: as its first writer
// (fresh, fork, replay), by taking it over where it stands (adopt), or by
// beginning a new lifecycle of it (resume). It says what the first commit of a
// handle builds on, which closers and which boundary it writes, and what the
// boundary then tells about brackets (verdict). What is appended afterwards is
// package backend's, and what a commit looks like package manifest's. It knows
// no store.
package seedpath

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/s3log/s3log/manifest"
)

// Opening begins the first commit of a handle on what is on the store: base is
// nil where nothing is. It is called again whenever that commit has to start
// over, and must then judge what is there now. at is the store's time in ms.
// Errors are those that the functions of this package name.
type Opening func(ctx context.Context, base *manifest.Record, at int64) (*manifest.Draft, error)

// Fresh begins a new log, on nothing or on a void. The error is ErrExists where
// a log of this id is there, ErrDeleted where one was.
func Fresh(w manifest.Writer, birth manifest.Birth) Opening {
	birth.Origin = manifest.Origin{Kind: manifest.KindFresh}
	return func(_ context.Context, base *manifest.Record, at int64) (*manifest.Draft, error) {
		return manifest.Create(base, w, birth, at)
	}
}

// AdoptOptions say whom an adopting writer may replace.
type AdoptOptions struct {
	// TakeOver replaces an owner that holds a lease, or is active.
	TakeOver bool
	// Quiet, unless 0, is how long the owner must not have committed if it has
	// not released the log: so that a shell one-liner does not fence a running
	// agent by accident.
	Quiet time.Duration
}

// Adopt takes a log over as it stands: next generation, same lifecycle, no
// closers and no boundary. Errors: ErrNotFound, ErrDeleted, ErrHeld.
func Adopt(w manifest.Writer, opt AdoptOptions) Opening {
	return func(_ context.Context, base *manifest.Record, at int64) (*manifest.Draft, error) {
		if err := MayTake(base, w, opt, at); err != nil {
			return nil, err
		}
		return manifest.TakeOver(base, w, manifest.KindAdopt, at)
	}
}

// FreshOrAdopt adopts the log if it is there, and begins it if it is not.
func FreshOrAdopt(w manifest.Writer, birth manifest.Birth, opt AdoptOptions) Opening {
	fresh, adopt := Fresh(w, birth), Adopt(w, opt)
	return func(ctx context.Context, base *manifest.Record, at int64) (*manifest.Draft, error) {
		if base == nil || base.State == manifest.StateVoid {
			return fresh(ctx, base, at)
		}
		return adopt(ctx, base, at)
	}
}

// leaseGrace is how long after its end a lease still counts: clocks of a store
// that answers in whole seconds, and of its front ends, differ by that much.
const leaseGrace = 2 * time.Second

// LeaseState is "none", "held" or "expired" at the store's time at (ms).
func LeaseState(r *manifest.Record, at int64) string {
	switch {
	case r.Lease == nil:
		return "none"
	case at <= r.Lease.Until+leaseGrace.Milliseconds():
		return "held"
	}
	return "expired"
}

// MayTake is nil where w may take the log over at the store's time at (ms), and
// else an ErrHeld. Whether there is anything to take is not for it to say.
func MayTake(base *manifest.Record, w manifest.Writer, opt AdoptOptions, at int64) error {
	if base == nil || base.Owner == nil || base.State != manifest.StateOpen || opt.TakeOver || base.Owner.Writer == w.ID {
		return nil // absence, tombstones and voids are TakeOver's to refuse
	}
	if LeaseState(base, at) == "held" {
		return &HeldError{Owner: *base.Owner, Until: base.Lease.Until + leaseGrace.Milliseconds(), Lease: true}
	}
	if quiet := at - base.Commit.At; opt.Quiet > 0 && !base.Owner.Released && quiet < opt.Quiet.Milliseconds() {
		return &HeldError{Owner: *base.Owner, Until: base.Commit.At + opt.Quiet.Milliseconds(), quiet: opt.Quiet,
			since: time.Duration(max(quiet, 0)) * time.Millisecond}
	}
	return nil
}

// HeldError is an ErrHeld: who holds the log, and until when.
type HeldError struct {
	Owner manifest.Owner
	Until int64 // store's time in ms from which on it may be taken over, unless the owner commits again
	Lease bool  // by a lease; else because of a commit not long ago

	quiet, since time.Duration
}

// Unwrap makes it an ErrHeld.
func (e *HeldError) Unwrap() error { return manifest.ErrHeld }

// Error names holder and expiry.
func (e *HeldError) Error() string {
	if e.Lease {
		return fmt.Sprintf("%v: by %s, with a lease until %s", manifest.ErrHeld, holder(&e.Owner), date(e.Until-leaseGrace.Milliseconds()))
	}
	return fmt.Sprintf("%v: %s has not released it and committed %s ago, and keeps it for %s after a commit", manifest.ErrHeld,
		holder(&e.Owner), e.since.Round(time.Second), e.quiet)
}

func holder(o *manifest.Owner) string {
	if o.Label == "" {
		return "writer " + o.Writer
	}
	return "writer " + o.Writer + " (" + strconv.Quote(o.Label) + ")"
}

func date(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
