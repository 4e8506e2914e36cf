package check

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/s3log/s3log/backend/objstore"
)

// Guard wraps a store of which nothing is known, so that the first write (Put,
// Delete or Copy) of this process to it is preceded by the proof. place names
// endpoint and bucket: all guards of one place share one proof, whatever their
// prefix. Reads pass through at once, and never cause a proof.
//
// A store that failed the proof, or a Race through a guard of the same place,
// refuses all further writes of the process with the same
// objstore.ErrUnsupported. A proof that could not be finished leaves
// the question open: the write fails, certainly unsent, and the next one tries
// again. The guard is an objstore.Copier if store is one.
func Guard(store objstore.Store, place string) objstore.Store {
	g := &guard{Reader: store, store: store, proof: proofOf(place)}
	if c, ok := store.(objstore.Copier); ok {
		return &copierGuard{g, c}
	}
	return g
}

// proofs holds what this process has proved, by place.
var proofs = struct {
	sync.Mutex
	m map[string]*proof
}{m: map[string]*proof{}}

func proofOf(place string) *proof {
	proofs.Lock()
	defer proofs.Unlock()
	p := proofs.m[place]
	if p == nil {
		p = &proof{turn: make(chan struct{}, 1)}
		proofs.m[place] = p
	}
	return p
}

// proof is made at most once. Whoever holds the turn may make it; a channel
// rather than a mutex, so that the others can give up waiting.
type proof struct {
	turn   chan struct{}
	result atomic.Pointer[result] // nil until it is made
}

type result struct{ err error } // why the place must not be written to

// settled makes the proof, waits for another to make it, or recalls it. What is
// recalled does not depend on ctx: the write itself finds that it has ended.
func (p *proof) settled(ctx context.Context, store objstore.Store) error {
	if r := p.result.Load(); r != nil {
		return r.err
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if r := p.result.Load(); r != nil {
		return r.err
	}
	_, err := Prove(ctx, store)
	if err == nil || errors.Is(err, objstore.ErrUnsupported) {
		// Unless somebody has found out more meanwhile.
		p.result.CompareAndSwap(nil, &result{err})
		return p.result.Load().err
	}
	return err
}

type guard struct {
	objstore.Reader
	store objstore.Store
	proof *proof
}

// disprover is a guard, or a store with one inside.
type disprover interface{ Disprove(why error) }

// Disprove refuses all writes to the place from now on. Those that have been
// admitted are not called back.
func (g *guard) Disprove(why error) { g.proof.result.Store(&result{why}) }

// find looks for an ability of a store or of one that it decorates.
func find[T any](store objstore.Store) (ability T, ok bool) {
	for {
		if ability, ok = store.(T); ok {
			return ability, true
		}
		d, decorates := store.(interface{ Unwrap() objstore.Store })
		if !decorates {
			return ability, false
		}
		store = d.Unwrap()
	}
}

// Put implements objstore.Store.
func (g *guard) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	if err := g.admit(ctx, "Put", key); err != nil {
		return objstore.Info{}, err
	}
	return g.store.Put(ctx, key, body, cond, opt)
}

// Delete implements objstore.Store.
func (g *guard) Delete(ctx context.Context, key string) error {
	if err := g.admit(ctx, "Delete", key); err != nil {
		return err
	}
	return g.store.Delete(ctx, key)
}

type copierGuard struct {
	*guard
	copier objstore.Copier
}

// Copy implements objstore.Copier.
func (g *copierGuard) Copy(ctx context.Context, src, dst string) (objstore.Info, error) {
	if err := g.admit(ctx, "Copy", dst); err != nil {
		return objstore.Info{}, err
	}
	return g.copier.Copy(ctx, src, dst)
}

// admit reports why the write must not be sent.
func (g *guard) admit(ctx context.Context, op, key string) error {
	err := g.proof.settled(ctx, g.store)
	if err == nil {
		return nil
	}
	e := &objstore.Error{Op: op, Key: key, Err: err}
	var cause *objstore.Error
	if errors.As(err, &cause) {
		e.Hint = cause.Hint
	}
	switch {
	case errors.Is(err, objstore.ErrUnsupported):
		e.Class = objstore.ErrUnsupported
		if cause != nil && cause.Err != nil && cause.Class == objstore.ErrUnsupported { //nolint:errorlint // the class itself
			e.Err = cause.Err // the key of a probe tells nobody anything
		}
	case errors.Is(err, objstore.ErrDenied):
		e.Class = objstore.ErrDenied
		if cause == nil || cause.Code == "" || cause.Code == "AccessDenied" { // not a wrong secret key
			what := "these credentials may not write here"
			if cause != nil && cause.Op == "Put" && cause.Hint != "" { // the KMS key, perhaps
				what = cause.Hint
			}
			if e.Hint = what; aboutKey(cause) {
				break // it would be denied wherever it is written
			}
			e.Hint = what + ". A writer also needs to read, write and delete below " + probePrefix + ", where a store that is not known is tried first; with profile=conditional in the store URL it is taken to honour conditions"
		}
	case errors.Is(err, objstore.ErrRefused):
		e.Class = objstore.ErrRefused
	case errors.Is(err, objstore.ErrRejected):
		e.Class = objstore.ErrRejected
	default:
		e.Class = objstore.ErrUnsent
		e.Err = fmt.Errorf("the store could not be proved: %w", hidden{err})
	}
	return e
}

// aboutKey reports whether a denial is that of a KMS key, and not of a place.
func aboutKey(denial *objstore.Error) bool {
	return denial != nil && denial.Err != nil && strings.Contains(strings.ToLower(denial.Err.Error()), "kms:")
}

// hidden keeps the class of a probe's failure out of the chain of the write
// that waited for it, which was not sent, but lets a context's error through.
type hidden struct{ err error }

func (h hidden) Error() string { return h.err.Error() }
func (h hidden) Is(target error) bool {
	return (target == context.Canceled || target == context.DeadlineExceeded) && errors.Is(h.err, target)
}
