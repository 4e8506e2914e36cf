package backend_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

// mode is how a caller goes on after an error.
type mode string

const (
	retries  mode = "retry"   // a new handle, the same events under the same key
	decides  mode = "decide"  // no keys; whatever is unknown is decided first
	givesUp  mode = "give up" // believes what it is told and goes away
	released mode = "late"    // decides, and late requests arrive just before that
)

var modes = []mode{retries, decides, givesUp, released}

// player is a caller that appends one batch after the other.
type player struct {
	t      *testing.T
	what   string
	mode   mode
	b      *backend.Backend
	open   func() (*backend.Log, error)
	log    *backend.Log
	owner  bool // log has committed something
	claims *claims
	heal   func() // ends faults that last
	late   func() // lets late requests arrive
	gone   bool   // gave up
	keys   int
}

const playerTries = 8

// freshKey as a key asks for one that no other append has.
const freshKey = "*"

func (p *player) errorf(format string, args ...any) {
	p.t.Helper()
	p.t.Errorf("%s: %s", p.what, fmt.Sprintf(format, args...))
}

// append appends tagged events as the player's mode says.
func (p *player) append(pad int, tags ...string) { p.appendWith(backend.AppendOptions{}, pad, tags...) }

func (p *player) appendWith(opt backend.AppendOptions, pad int, tags ...string) {
	var events [][]byte
	for _, tag := range tags {
		events = append(events, tagged(tag, pad))
	}
	if p.mode == retries && opt.Key == "" || opt.Key == freshKey {
		p.keys++
		opt.Key = fmt.Sprintf("key %d", p.keys)
	}
	var last error
	for try := 0; !p.gone; try++ {
		if try == playerTries {
			p.errorf("%q could not be appended by %d handles: %v", tags, try, last)
			p.gone = true
			return
		}
		done, err := p.try(opt, events, tags)
		if done {
			return
		}
		last = err
		if p.failed(err, tags) {
			return
		}
	}
}

// try is one attempt with the handle at hand, or a new one.
func (p *player) try(opt backend.AppendOptions, events [][]byte, tags []string) (bool, error) {
	if p.log == nil {
		log, err := p.open()
		if err != nil {
			if backend.Token(err) != "" {
				p.errorf("opening: %v", err)
			}
			return false, err
		}
		p.log = log
	}
	r, err := p.log.Append(p.t.Context(), events, opt)
	if err != nil {
		return false, err
	}
	p.owner = p.owner || !r.Duplicate
	if err := p.claims.acked(r, tags...); err != nil {
		p.errorf("%v", err)
	}
	synctest.Wait() // background work ends before the next append: every run makes the same calls
	return true, nil
}

// failed does what the mode asks for after an error, and reports whether the
// events are in the log after all.
func (p *player) failed(err error, tags []string) bool {
	p.close(backend.CloseOptions{})
	p.heal()
	token := backend.Token(err)
	if errors.Is(err, backend.ErrOutcomeUnknown) != (token != "") {
		p.errorf("token %q of %v", token, err)
	}
	switch {
	case p.mode == givesUp:
		p.gone = true
		for _, tag := range tags {
			if token != "" {
				p.claims.maybe[tag] = true
			} else {
				p.claims.absent[tag] = true
			}
		}
	case token != "" && p.mode != retries:
		if p.mode == released {
			p.late()
		}
		return p.decide(token, tags)
	}
	return false
}

// decide settles an unknown outcome; the calls that this takes may meet the
// fault, too.
func (p *player) decide(token string, tags []string) bool {
	for range playerTries {
		d, err := p.b.Decide(p.t.Context(), token)
		if err != nil {
			if again := backend.Token(err); again != "" && again != token {
				p.errorf("Decide answers with another token")
			}
			continue
		}
		if d.Committed {
			if err := p.claims.acked(d.Receipt, tags...); err != nil {
				p.errorf("Decide: %v", err)
			}
		}
		return d.Committed
	}
	p.errorf("%q: undecided", tags)
	p.gone = true
	return false
}

// close ends the handle; what it was told is compared with what is there.
func (p *player) close(opt backend.CloseOptions) {
	if p.log == nil {
		return
	}
	failed := p.log.Err() != nil
	err := p.log.Close(p.t.Context(), opt)
	if failed && err == nil {
		p.errorf("Close after a failure is nil")
	}
	if err == nil && p.owner && !failed && (opt.Release || opt.Seal) {
		info, ierr := p.b.Info(p.t.Context(), p.log.ID())
		if ierr == nil && (opt.Release && !info.Owner.Released || opt.Seal && info.Tail != 0) {
			p.errorf("closed with %+v: released %v, tail of %d events", opt, info.Owner.Released, info.Tail)
		}
	}
	p.log, p.owner = nil, false
}

// form is one way for a call to go wrong.
type form struct {
	name  string
	fault faultstore.Fault
	times int // calls in a row; -1: until the player heals it
	then  *faultstore.Fault
}

var forms = []form{
	{"unavailable", faultstore.Unavailable(), 1, nil},
	{"throttled", faultstore.Throttled(), 1, nil},
	{"conflict", faultstore.Conflict(), 1, nil},
	{"denied", faultstore.Denied(), 1, nil},
	{"refused", faultstore.Refused(), 1, nil},
	{"rejected", faultstore.Rejected(), 1, nil},
	{"lost reply", faultstore.LostReply(), 1, nil},
	{"landed and throttled", faultstore.FailApplied(objstore.ErrThrottled), 1, nil},
	{"late", faultstore.Late(), 1, nil},
	{"late copy", faultstore.LateCopy(), 1, nil},
	{"duplicate", faultstore.Duplicate(), 1, nil},
	{"two lost replies", faultstore.LostReply(), 2, nil},
	{"two conflicts", faultstore.Conflict(), 2, nil},
	{"two late", faultstore.Late(), 2, nil},
	{"lost reply, then denied", faultstore.LostReply(), 1, ptr(faultstore.Denied())},
	{"late, then denied", faultstore.Late(), 1, ptr(faultstore.Denied())},
	{"late, then rejected", faultstore.Late(), 1, ptr(faultstore.Rejected())},
	{"late, then lost reply", faultstore.Late(), 1, ptr(faultstore.LostReply())},
	{"outage", faultstore.Unavailable(), -1, nil},
	{"outage after landing", faultstore.LostReply(), -1, nil},
	{"late for ever", faultstore.Late(), -1, nil},
	{"conflict for ever", faultstore.Conflict(), -1, nil},
	{"denied for ever", faultstore.Denied(), -1, nil},
}

// scenario is what a player does; prepare, if any, makes what is on the store
// before.
type scenario struct {
	name    string
	opt     backend.Options
	prepare func(t *testing.T, b *backend.Backend)
	open    func(p *player) (*backend.Log, error)
	play    func(p *player)
	latency time.Duration // of a PUT
	forms   []string      // nil: all
}

const matrixLog = "matrix"

func openCreate(p *player) (*backend.Log, error) {
	return p.b.Create(matrixLog, backend.CreateOptions{OrAdopt: true, Header: []byte(`{"id":"matrix"}`)})
}

func openAdopt(p *player) (*backend.Log, error) {
	return p.b.Adopt(p.t.Context(), matrixLog, backend.AdoptOptions{})
}

var faultRuns, faultHits atomic.Int64

// TestG1FaultMatrix repeats every scenario with every form of fault at every
// call to the store, for every kind of caller.
func TestG1FaultMatrix(t *testing.T) {
	t.Cleanup(func() { t.Logf("%d runs, %d faults", faultRuns.Load(), faultHits.Load()) })
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			before := prepared(t, sc)
			calls := int(playOnce(t, sc, before, givesUp, form{}, 0))
			if calls == 0 {
				t.Fatal("the scenario calls the store not once")
			}
			for _, f := range forms {
				if sc.forms != nil && !slices.Contains(sc.forms, f.name) || raceDetector && !slices.Contains(fewForms, f.name) {
					continue
				}
				for n := 1; n <= calls; n++ {
					for _, m := range modes {
						if m == released && !strings.HasPrefix(f.name, "late") && f.name != "two late" {
							continue
						}
						playOnce(t, sc, before, m, f, n)
						if t.Failed() {
							return
						}
					}
				}
			}
		})
	}
}

func prepared(t *testing.T, sc scenario) map[string][]byte {
	mem := memstore.New(t)
	if sc.prepare != nil {
		sc.prepare(t, backend.New(mem, backend.Options{}))
	}
	return mem.Snapshot("")
}

// playOnce plays a scenario with a fault at the n-th call (0: none) and audits
// the log. It returns how many calls were made.
func playOnce(t *testing.T, sc scenario, before map[string][]byte, m mode, f form, n int) (calls int64) {
	synctest.Test(t, func(t *testing.T) {
		what := fmt.Sprintf("%s at call %d, %s", f.name, n, m)
		mem := restore(&judge{t, what}, before)
		all := faultstore.New(mem)
		count := all.Inject(faultstore.Rule{Match: func(string, string, []byte) bool { return true }, Nth: 1 << 30, Fault: faultstore.Unavailable()})
		var struck *faultstore.Injection
		if n > 0 {
			struck = all.Inject(faultstore.Rule{Nth: n, Times: f.times, Fault: f.fault})
			if f.then != nil {
				all.Inject(faultstore.Rule{Nth: n + 1, Fault: *f.then})
			}
		}
		opt := sc.opt
		opt.CommitTimeout = 20 * time.Second
		p := &player{t: t, what: what, mode: m, b: backend.New(all, opt), claims: newClaims(), heal: func() {}, late: func() {}}
		if struck != nil {
			p.heal = struck.Stop
			p.late = func() { struck.Release(context.Background()) }
			if f.times > 0 {
				p.heal = func() {}
			}
		}
		p.open = func() (*backend.Log, error) { return sc.open(p) }
		if sc.latency > 0 { // strikes what the fault does not
			all.Inject(faultstore.Rule{Match: faultstore.Op("Put"), Fault: faultstore.Delay(sc.latency)})
		}
		sc.play(p)
		p.close(backend.CloseOptions{})
		if struck != nil {
			faultRuns.Add(1)
			faultHits.Add(int64(struck.Hits()))
			if struck.Hits() == 0 {
				p.errorf("no call was struck")
			}
			struck.Stop()
			if err := audit(t.Context(), mem, matrixLog, p.claims); err != nil {
				p.errorf("%v", err)
			}
			struck.Release(t.Context())
		}
		if err := audit(t.Context(), mem, matrixLog, p.claims); err != nil {
			p.errorf("after late requests: %v", err)
		}
		calls = int64(count.Matches())
	})
	return calls
}
