package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
)

// agent does one thing after the other to a few logs that it shares with others,
// whom it replaces as they replace it.
type agent struct {
	name string
	logs []string
	rng  *rand.Rand
	tell func(deed)
	// rough: its server is killed now and then, so that anything may fail that
	// need not be known.
	rough bool
	stop  <-chan struct{} // closed when it is to end; may be nil

	background, foreground, leased, hasty *backend.Backend

	next  int64  // number of its next event
	owing []deed // of a rough agent: what it has to repeat or to decide
}

func newAgent(name string, seed, next int64, logs []string, store objstore.Store, tell func(deed)) *agent {
	opt := backend.Options{Label: name, MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond, MaxBatch: 128 << 10}
	a := &agent{name: name, next: next, logs: logs, tell: tell, rng: rand.New(rand.NewPCG(uint64(seed), uint64(next)))}
	a.background = backend.New(store, opt)
	opt.Foreground = true
	a.foreground = backend.New(store, opt)
	opt.Lease = manifest.MinLease
	a.leased = backend.New(store, opt)
	opt.CommitTimeout = 100 * time.Millisecond
	a.hasty = backend.New(store, opt)
	return a
}

func (a *agent) backend() *backend.Backend {
	n := 3
	if a.rough {
		n = 4
	}
	return []*backend.Backend{a.background, a.foreground, a.leased, a.hasty}[a.rng.IntN(n)]
}

func (a *agent) log() string { return a.logs[a.rng.IntN(len(a.logs))] }

var sizes = []int{0, 0, 0, 300, 300, 300, 3000, 3000, 3000, 30000}

// plan makes a deed with so many events, or without any.
func (a *agent) plan(do, id string, count int64) deed {
	d := deed{Agent: a.name, ID: a.next, Do: do, Log: id, Count: count, Size: sizes[a.rng.IntN(len(sizes))], Keyed: do == doAppend && a.rng.IntN(3) == 0}
	a.next += max(count, 1)
	return d
}

// run does what an earlier life has left to be done, and then anything, until it
// is stopped.
func (a *agent) run(ctx context.Context, left []deed) {
	a.catchUp(ctx, left)
	for !a.over(ctx) {
		a.step(ctx)
	}
}

func (a *agent) over(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	case <-a.stop:
		return true
	default:
		return false
	}
}

// catchUp repeats and decides, until there is an answer.
func (a *agent) catchUp(ctx context.Context, left []deed) {
	for _, d := range left {
		for try := 0; !a.again(ctx, d) && ctx.Err() == nil; try++ {
			if try == 1000 {
				d.State, d.Error = isBroken, "there is no answer to it"
				a.tell(d)
			}
			if a.rough { // its server may not be there
				time.Sleep(20 * time.Millisecond)
			}
		}
	}
}

// again does a deed again, and reports whether that settled it.
func (a *agent) again(ctx context.Context, d deed) bool {
	switch {
	case d.Do == doAppend && d.Keyed:
		l, err := a.backend().Create(d.Log, backend.CreateOptions{OrAdopt: true, AdoptOptions: takeOver})
		if !a.fine(err) {
			return false
		}
		ok := a.append(ctx, l, d, backend.AppendOptions{Last: true}) == isDone
		a.fine(l.Close(ctx, backend.CloseOptions{}))
		return ok
	case d.Do == doAppend:
		return a.decide(ctx, d)
	case d.Do == doFork:
		state := a.fork(ctx, d)
		return state == isDone || state == isNever
	case d.Do == doReplay:
		return a.replay(ctx, d) == isDone
	case d.Do == doDelete:
		return a.delete(ctx, d) == isDone
	}
	return a.imports(ctx, d) == isDone
}

func (a *agent) step(ctx context.Context) {
	if len(a.owing) > 0 && a.rng.IntN(3) == 0 {
		owing := a.owing
		a.owing = nil
		a.catchUp(ctx, owing)
	}
	n := a.rng.IntN(100)
	id := a.log()
	switch {
	case n < 25:
		a.oneShot(ctx, id)
	case n < 55:
		if l := a.open(ctx, id); l != nil {
			a.stream(ctx, l, 1+a.rng.IntN(12))
		}
	case n < 65:
		a.lanes(ctx, id)
	case n < 74:
		a.abandon(ctx, id)
	case n < 80:
		a.resume(ctx, id)
	case n < 83:
		a.fold(ctx, id)
	case n < 86:
		a.gc(ctx, []string{"", id}[a.rng.IntN(2)])
	case n < 91:
		info, err := a.background.Info(ctx, id)
		if !a.fine(err) || err != nil {
			return
		}
		d := a.plan(doFork, "", 0)
		d.Log, d.Parent, d.At = fmt.Sprintf("fork-%s-%d", a.name, d.ID), id, a.rng.Int64N(info.Next)
		a.settle(d, a.fork(ctx, d))
	case n < 95:
		d := a.plan(doReplay, "", 1+a.rng.Int64N(40))
		d.Log = fmt.Sprintf("replay-%s-%d", a.name, d.ID)
		a.settle(d, a.replay(ctx, d))
	default:
		d := a.plan(doImport, "", 1+a.rng.Int64N(60))
		d.Log = fmt.Sprintf("import-%s-%d", a.name, d.ID)
		a.settle(d, a.imports(ctx, d))
	}
}

// settle keeps what a rough agent, which lives on, has to do again itself.
func (a *agent) settle(d deed, state string) {
	if a.rough && (state == isUnknown || state == isFailed && d.Do == doImport) {
		a.owing = append(a.owing, d)
	}
}

var takeOver = backend.AdoptOptions{TakeOver: true}

// open opens a handle on a log, in one of the two ways; nil if that fails.
func (a *agent) open(ctx context.Context, id string) *backend.Log {
	b := a.backend()
	if a.rng.IntN(2) == 0 {
		l, err := b.Adopt(ctx, id, takeOver)
		if err == nil {
			return l
		}
		if !a.fine(err) {
			return nil
		}
	}
	l, err := b.Create(id, backend.CreateOptions{OrAdopt: true, AdoptOptions: takeOver})
	a.fine(err)
	return l
}

func (a *agent) oneShot(ctx context.Context, id string) {
	if l := a.open(ctx, id); l != nil {
		d := a.plan(doAppend, id, 1+a.rng.Int64N(4))
		a.settle(a.told(ctx, l, d, backend.AppendOptions{Last: true}))
		a.fine(l.Close(ctx, backend.CloseOptions{}))
	}
}

// stream appends batches to a handle, and closes it. It reports whether all of
// them were acknowledged.
func (a *agent) stream(ctx context.Context, l *backend.Log, batches int) (all bool) {
	all = true
	for range batches {
		d, state := a.told(ctx, l, a.plan(doAppend, l.ID(), 1+a.rng.Int64N(20)), backend.AppendOptions{})
		a.settle(d, state)
		if all = state == isDone; !all {
			break
		}
	}
	closing := []backend.CloseOptions{{}, {Release: true}, {Seal: true}}
	a.fine(l.Close(ctx, closing[a.rng.IntN(3)]))
	return all
}

// lanes is stream from several goroutines, which share the commits.
func (a *agent) lanes(ctx context.Context, id string) {
	l := a.open(ctx, id)
	if l == nil {
		return
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for lane := range 3 {
		var work []deed
		for range 1 + a.rng.IntN(6) {
			d := a.plan(doAppend, id, 1+a.rng.Int64N(5))
			d.Agent = fmt.Sprint(a.name, ".", lane)
			work = append(work, d)
		}
		wg.Go(func() {
			for _, d := range work {
				d, state := a.told(ctx, l, d, backend.AppendOptions{})
				mu.Lock()
				a.settle(d, state)
				mu.Unlock()
				if state != isDone {
					return
				}
			}
		})
	}
	wg.Wait()
	a.fine(l.Close(ctx, backend.CloseOptions{}))
}

// abandon appends without waiting for the answer, so that there is a token, and
// goes on with the same handle.
func (a *agent) abandon(ctx context.Context, id string) {
	l := a.open(ctx, id)
	if l == nil {
		return
	}
	for range 1 + a.rng.IntN(3) {
		short, cancel := context.WithTimeout(ctx, time.Duration(a.rng.Int64N(int64(3*time.Millisecond))))
		d, state := a.told(short, l, a.plan(doAppend, id, 1+a.rng.Int64N(4)), backend.AppendOptions{})
		cancel()
		a.settle(d, state)
	}
	a.stream(ctx, l, 1)
}

func (a *agent) resume(ctx context.Context, id string) {
	d := a.plan(doResume, id, 0)
	opt := backend.ResumeOptions{AdoptOptions: takeOver, Delay: a.rng.IntN(3) == 0, Claim: a.rng.IntN(3) == 0}
	a.begin(d)
	l, r, err := a.backend().Resume(ctx, id, opt)
	d.First, d.Got = r.First, r.Count
	a.outcome(d, err)
	if err == nil {
		a.stream(ctx, l, a.rng.IntN(4))
	}
}

func (a *agent) fork(ctx context.Context, d deed) string {
	a.begin(d)
	l, r, err := a.backend().Fork(ctx, d.Parent, d.Log, backend.ForkOptions{At: &d.At})
	d.Duplicate = r.Duplicate
	return a.grow(ctx, l, d, a.outcome(d, err))
}

// grow appends to a log that was just made, and sometimes deletes it.
func (a *agent) grow(ctx context.Context, l *backend.Log, d deed, state string) string {
	settled := l == nil || a.stream(ctx, l, a.rng.IntN(3))
	if state == isDone && settled && a.rng.IntN(4) == 0 {
		d := a.plan(doDelete, d.Log, 0)
		a.settle(d, a.delete(ctx, d))
	}
	return state
}

func (a *agent) replay(ctx context.Context, d deed) string {
	a.begin(d)
	l, _, err := a.backend().Replay(ctx, d.Log, d.timed(), backend.ReplayOptions{})
	if errors.Is(err, backend.ErrExists) { // the earlier life had finished it
		d.Duplicate, err = true, nil
	}
	return a.grow(ctx, l, d, a.outcome(d, err))
}

func (a *agent) imports(ctx context.Context, d deed) string {
	a.begin(d)
	r, err := a.backend().Import(ctx, d.Log, d.timed(), backend.ImportOptions{Header: []byte(`{"id":"` + d.Log + `"}`), AdoptOptions: takeOver})
	d.Duplicate = r.Duplicate
	return a.grow(ctx, nil, d, a.outcome(d, err))
}

func (a *agent) delete(ctx context.Context, d deed) string {
	a.begin(d)
	r, err := a.backend().Delete(ctx, d.Log, takeOver)
	d.Duplicate = r.Duplicate
	return a.outcome(d, err)
}

func (a *agent) fold(ctx context.Context, id string) {
	d := a.plan(doFold, id, 0)
	a.begin(d)
	_, err := a.backend().Fold(ctx, id, backend.FoldOptions{Tail: []backend.FoldTail{backend.FoldTailAuto, backend.FoldTailKeep, backend.FoldTailTake}[a.rng.IntN(3)]})
	a.outcome(d, err)
}

// faults are findings but for segments without a manifest, as a fork leaves them that
// is killed before its own. A log that somebody was told of would be missed in
// the end.
func faults(all []backend.Finding) []backend.Finding {
	return slices.DeleteFunc(slices.Clone(all), func(f backend.Finding) bool { return f.Kind == "headless" })
}

// gc collects at once what nobody needs any more, without a grace.
func (a *agent) gc(ctx context.Context, id string) {
	d := a.plan(doGC, id, 0)
	a.begin(d)
	var failed error
	for g, err := range a.backend().GC(ctx, backend.GCOptions{Grace: time.Nanosecond, Log: id}) {
		failed = errors.Join(failed, err, g.Err)
		if found := faults(g.Findings); len(found) > 0 {
			failed = errors.Join(failed, fmt.Errorf("findings: %+v", found))
		}
	}
	a.outcome(d, failed)
}

// decide settles what became of an append.
func (a *agent) decide(ctx context.Context, of deed) bool {
	d := deed{Agent: of.Agent, ID: of.ID, Do: doDecide, Log: of.Log}
	got, err := a.background.Decide(ctx, of.Token)
	d.Committed, d.First, d.Got = got.Committed, got.First, got.Count
	return a.outcome(d, err) == isDone || tooFar(err)
}

// tooFar reports whether a decision came after so many takeovers that nobody can
// tell any more, and nobody ever will.
func tooFar(err error) bool {
	return errors.Is(err, backend.ErrOutcomeUnknown) && strings.Contains(err.Error(), "moved on too far")
}

// told is append that also returns the deed with its token.
func (a *agent) told(ctx context.Context, l *backend.Log, d deed, opt backend.AppendOptions) (deed, string) {
	a.begin(d)
	opt.Key = d.key()
	r, err := l.Append(ctx, d.events(), opt)
	d.First, d.Got, d.Duplicate, d.Token = r.First, r.Count, r.Duplicate, backend.Token(err)
	return d, a.outcome(d, err)
}

func (a *agent) append(ctx context.Context, l *backend.Log, d deed, opt backend.AppendOptions) string {
	_, state := a.told(ctx, l, d, opt)
	return state
}

func (a *agent) begin(d deed) {
	d.State = isBegun
	a.tell(d)
}

// outcome tells what came of a deed.
func (a *agent) outcome(d deed, err error) string {
	switch {
	case err == nil:
		d.State = isDone
	case errors.Is(err, backend.ErrOutcomeUnknown):
		d.State = isUnknown
	case errors.Is(err, backend.ErrOpenTurn): // at this seq
		d.State = isNever
	case a.expected(err):
		d.State = isFailed
	default:
		d.State = isBroken
	}
	if err != nil {
		d.Error = err.Error()
	}
	a.tell(d)
	return d.State
}

// fine reports whether an error of something beside the deeds may be, and tells
// if not.
func (a *agent) fine(err error) bool {
	if err != nil && !errors.Is(err, backend.ErrOutcomeUnknown) && !a.expected(err) {
		a.tell(deed{Agent: a.name, ID: -1, State: isBroken, Error: err.Error()})
		return false
	}
	return true
}

// expected reports whether an error is one that agents get who share logs and
// are killed: a deed that fails with it was not done.
func (a *agent) expected(err error) bool {
	is := func(target error) bool { return errors.Is(err, target) }
	if a.rough {
		return !slices.ContainsFunc([]error{
			backend.ErrCorrupt, backend.ErrMissing, backend.ErrRolledBack, backend.ErrUnsupportedStore, backend.ErrUnsupportedVersion,
			backend.ErrKeyConflict, backend.ErrSeqMismatch, backend.ErrInvalidEvent, backend.ErrDenied, backend.ErrDeleted, backend.ErrHeld,
		}, is)
	}
	return slices.ContainsFunc([]error{
		backend.ErrFenced, backend.ErrNotFound, context.DeadlineExceeded,
	}, is) || strings.Contains(err.Error(), "its caller did not wait") || // of what was begun for somebody who has gone
		strings.Contains(err.Error(), "others changed what was being folded") ||
		strings.Contains(err.Error(), "repeat the replay") // a collection without grace, as here, has made the id a void
}
