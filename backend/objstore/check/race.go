package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/s3log/s3log/backend/objstore"
)

// RaceOptions say how hard to try. The zero value means 16 racers, 8 rounds.
type RaceOptions struct {
	Racers int // concurrent writers
	Rounds int // races of each kind, a create and a replacement each
	// Creates bounds the rounds that begin with a create, each of which needs a
	// key of its own; the others go on with the newest key, and consist of a
	// replacement. 0 means all.
	Creates int
	// Budget ends the races early, once a quarter of the rounds were held; 0 means
	// never.
	Budget time.Duration
}

// RaceResult says what happened in a race that found no fault.
type RaceResult struct {
	Races     int // decided races: exactly one winner, whose bytes were there
	Undecided int // races in which a reply was lost, so that less can be said
	Throttled int // writes that the store answered with a request to slow down
	Refetched int // reads that gave another writer's bytes or an older version first
}

// Race lets many writers meet on one key below probe/, first to create it, then
// to replace the version they all know, round after round. In every second
// round they meet on the server, if the driver can arrange that (see Hold).
// Every race must have one winner, told so, whose bytes are then there. Two
// winners, a loser's bytes, or a race that nobody wins although all were
// answered, give objstore.ErrUnsupported, and a store with a Guard is not
// written to any more by this process. A store may pass Prove and fail here,
// where it checks and acts in two steps. The probes are deleted if that is
// permitted.
func Race(ctx context.Context, store objstore.Store, opt RaceOptions) (RaceResult, error) {
	result, err := runRaces(ctx, store, opt)
	if errors.Is(err, objstore.ErrUnsupported) {
		if d, ok := find[disprover](store); ok {
			d.Disprove(err)
		}
	}
	return result, err
}

func runRaces(ctx context.Context, store objstore.Store, opt RaceOptions) (RaceResult, error) {
	var result RaceResult
	if opt.Racers == 0 {
		opt.Racers = 16
	}
	if opt.Rounds == 0 {
		opt.Rounds = 8
	}
	if opt.Creates == 0 {
		opt.Creates = opt.Rounds
	}
	begin := time.Now()
	var r *race
	defer func() {
		if r != nil {
			r.remove(ctx)
		}
	}()
	for round := range opt.Rounds {
		if opt.Budget > 0 && time.Since(begin) > opt.Budget && round >= (opt.Rounds+3)/4 {
			break
		}
		if round < opt.Creates {
			if r != nil {
				r.remove(ctx)
			}
			r = &race{probe: probe{store: store, key: probeKey(), profile: new(Profile)}, result: &result}
			if err := r.hold(ctx, opt.Racers, round, objstore.IfAbsent()); err != nil {
				return result, err
			}
		}
		if err := r.hold(ctx, opt.Racers, round, objstore.IfVersion(r.version)); err != nil {
			return result, err
		}
	}
	return result, nil
}

type race struct {
	probe
	version objstore.Version // after the newest race
	result  *RaceResult
}

// errNobody marks a race that nobody won, and nobody was told to have lost.
var errNobody = errors.New("no writer was told that it won, and none did")

// hold runs one race, and again if the store was too busy to let anybody win.
func (r *race) hold(ctx context.Context, racers, round int, cond objstore.Condition) error {
	for try := 0; ; try++ {
		throttled := r.result.Throttled
		err := r.meet(ctx, racers, round, cond)
		if !errors.Is(err, errNobody) || r.result.Throttled == throttled || try == maxTries || sleep(ctx, rateDelay) != nil {
			return err
		}
	}
}

// meet lets the racers go.
func (r *race) meet(ctx context.Context, racers, round int, cond objstore.Condition) error {
	bodies := make([][]byte, racers)
	infos, errs := make([]objstore.Info, racers), make([]error, racers)
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	m := newMeeting(racers)
	for i := range racers {
		bodies[i] = fmt.Appendf(nil, "s3log store race %s %d %s racer %d\n", r.key, round, cond, i)
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			ctx := ctx
			if round%2 == 0 {
				var leave func()
				ctx, leave = m.join(ctx)
				defer leave()
			}
			infos[i], errs[i] = r.enter(ctx, bodies[i], cond)
		})
	}
	ready.Wait()
	m.begin = time.Now()
	close(start)
	done.Wait()

	winner, wins, lost := -1, 0, 0
	for i, err := range errs {
		if errors.Is(err, objstore.ErrThrottled) {
			r.result.Throttled++
		}
		switch objstore.Classify(err) {
		case objstore.Applied:
			winner, wins = i, wins+1
		case objstore.Precondition:
		case objstore.Undecided, objstore.TryAgain:
			lost++
		default:
			return fmt.Errorf("store race: %w", err)
		}
	}
	switch {
	case wins > 1:
		return r.unsupported(needOne, fmt.Errorf("%d of %d did (%s)", wins, racers, cond))
	case wins == 0 && lost == 0:
		return r.unsupported("of concurrent writes on the same condition one must succeed", fmt.Errorf("none of %d did (%s)", racers, cond))
	}
	if err := r.confirm(ctx, bodies, winner, errs); err != nil {
		return err
	}
	if winner >= 0 && !infos[winner].Version.IsZero() {
		r.version = infos[winner].Version // surer than what a read says
	}
	return nil
}

// enter makes one write of a racer. A reply that asks for the same again is
// obeyed a few times; a lost reply is left as it is.
func (r *race) enter(ctx context.Context, body []byte, cond objstore.Condition) (info objstore.Info, err error) {
	for try := range maxTries {
		info, err = r.store.Put(ctx, r.key, body, cond, objstore.PutOptions{ContentType: "text/plain"})
		if objstore.Classify(err) != objstore.TryAgain || sleep(ctx, baseDelay<<try) != nil {
			break
		}
	}
	return info, err
}

// confirm reads what is there after a race. Some servers hand out an older
// version with newer bytes for a moment; what counts is what they settle on.
func (r *race) confirm(ctx context.Context, bodies [][]byte, winner int, errs []error) error {
	var obj objstore.Object
	for try := range maxTries {
		var err error
		obj, err = r.store.Get(ctx, r.key, objstore.GetOptions{Limit: 1 << 16})
		if err != nil && (winner >= 0 || !errors.Is(err, objstore.ErrNotExist)) {
			return fmt.Errorf("store race: %w", err)
		}
		holder := holderOf(obj.Body, bodies)
		switch {
		case winner >= 0 && holder == winner:
			r.result.Races++
			r.version = obj.Version
			return nil
		case winner < 0 && holder >= 0 && objstore.Classify(errs[holder]) != objstore.Precondition:
			r.result.Undecided++
			r.version = obj.Version
			return nil
		case winner < 0 && holder < 0:
			return &objstore.Error{Op: "Put", Key: r.key, Class: objstore.ErrUndecided, Err: fmt.Errorf("store race: %w", errNobody)}
		}
		r.result.Refetched++
		if sleep(ctx, baseDelay<<try) != nil {
			return fmt.Errorf("store race: %w", ctx.Err())
		}
	}
	return r.unsupported("a write that succeeded must be what the next read finds", fmt.Errorf("found %q", obj.Body))
}

// holderOf is the racer whose body is there, or -1.
func holderOf(body []byte, bodies [][]byte) int {
	for i, b := range bodies {
		if bytes.Equal(b, body) {
			return i
		}
	}
	return -1
}
