package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/faultproxy"
)

// wish is a batch that somebody wanted in the log.
type wish struct {
	notes []int
	large bool // together more than a tail holds
	key   string
	says  outcome
	first int64  // where it is, if it is said to be committed
	token string // if it is unknown
}

// story is a log whose writers meet faults at random.
type story struct {
	*cell
	rng    *rand.Rand
	wishes []*wish
	notes  int
}

// trouble lets some requests go wrong, each in a way of its own.
func (s *story) trouble(share float64) {
	var mu sync.Mutex // requests may come at a time
	s.proxy.Add(faultproxy.Rule{Times: -1, Fault: func(x *faultproxy.Exchange) {
		mu.Lock()
		struck := s.rng.Float64() < share
		var fault faultproxy.Fault
		for struck && fault == nil {
			if f := writeFaults[s.rng.IntN(len(writeFaults))]; strings.Contains(" "+f.on+" ", " "+x.Op+" ") {
				fault = f.make(s.cell)
			}
		}
		if s.rng.IntN(4) == 0 && s.held.Waiting() > 0 {
			s.held.Release() // so late that others were there before
		}
		mu.Unlock()
		if fault == nil {
			fault = faultproxy.Pass()
		}
		fault(x)
	}})
}

// open makes a handle in one of the ways that there are.
func (s *story) open() (*backend.Log, error) {
	b := backend.New(s.store, s.opt)
	switch s.rng.IntN(4) {
	case 0:
		l, _, err := b.Resume(s.ctx, "log", backend.ResumeOptions{})
		return l, err
	case 1:
		l, _, err := b.Resume(s.ctx, "log", backend.ResumeOptions{Delay: true})
		return l, err
	case 2:
		return b.Adopt(s.ctx, "log", backend.AdoptOptions{})
	}
	return b.Create("log", backend.CreateOptions{OrAdopt: true})
}

// events are those of a wish.
func (d *wish) events() (batch [][]byte) {
	for _, n := range d.notes {
		e := note(n)
		if d.large {
			e = fmt.Appendf(nil, `{"type":"note","data":{"noise":%q,"n":%d}}`, noise(uint64(n), 6000), n)
		}
		batch = append(batch, e)
	}
	return batch
}

// play appends, with one handle after the other.
func (s *story) play(steps int) {
	var l *backend.Log
	for range steps {
		d := &wish{says: notCommitted, large: s.rng.IntN(6) == 0}
		for range 1 + s.rng.IntN(3) {
			s.notes++
			d.notes = append(d.notes, s.notes)
		}
		if s.rng.IntN(2) == 0 {
			d.key = fmt.Sprintf("key %d", s.notes)
		}
		s.wishes = append(s.wishes, d)
		for try := range 3 {
			if l == nil || l.Err() != nil || s.rng.IntN(8) == 0 {
				if l != nil {
					_ = l.Close(context.Background(), backend.CloseOptions{}) // its errors were told
				}
				var err error
				if l, err = s.open(); err != nil {
					helpful(s, err, "log")
					l = nil
					continue
				}
			}
			r, err := l.Append(s.ctx, d.events(), backend.AppendOptions{Key: d.key})
			if err == nil {
				if try == 0 && r.Duplicate || r.Count != int64(len(d.notes)) {
					s.Errorf("wish %v: %+v", d.notes, r)
				}
				d.says, d.first = committed, r.First
				break
			}
			helpful(s, err, "log")
			if says := said(err); says == unknown || d.says != unknown {
				d.says = says
			}
			if token := backend.Token(err); token != "" {
				d.token = token // of the newest attempt: a key finds the others
			}
			if d.key == "" {
				break // who has no key must not try again
			}
		}
	}
	if l != nil {
		_ = l.Close(context.Background(), backend.CloseOptions{})
	}
}

// settleAll ends the story: every wish is in the log or is not.
func (s *story) settleAll() {
	s.proxy.Reset()
	b := backend.New(s.direct, quick)
	for _, d := range s.wishes {
		if d.says != unknown {
			continue
		}
		if d.key != "" && s.rng.IntN(2) == 0 {
			l, err := b.Create("log", backend.CreateOptions{OrAdopt: true})
			if err != nil {
				s.Fatal(err)
			}
			r, err := l.Append(s.Context(), d.events(), backend.AppendOptions{Key: d.key, Last: true})
			if err != nil {
				s.Errorf("wish %v, again: %v", d.notes, err)
			}
			d.says, d.first = committed, r.First
			_ = l.Close(s.Context(), backend.CloseOptions{}) // it has released the log
			continue
		}
		got, err := b.Decide(s.Context(), d.token)
		if err != nil {
			s.Errorf("wish %v: %v", d.notes, err)
		}
		if d.says, d.first = notCommitted, got.First; got.Committed {
			d.says = committed
		}
	}
	s.arrive()
}

// envFaultSeed is a seed to be played again. Time has its part in a story, too, so
// that not every second telling of it is the same.
const envFaultSeed = "S3LOG_FAULT_SEED"

// TestFaultsAtRandom: a log whose writers come and go, and any request of theirs
// may meet any fault.
func TestFaultsAtRandom(t *testing.T) {
	g := newGround(t)
	stories := 40
	switch {
	case long():
		stories = 2000
	case raceDetector:
		stories = 10
	}
	base := uint64(time.Now().UnixNano()) % 1_000_000
	if text := os.Getenv(envFaultSeed); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		base, stories = seed, 1
	}
	var mu sync.Mutex
	outcomes := map[outcome]int{}
	tell := func(t *testing.T, seed uint64) {
		s := &story{cell: g.newCell(t, impatient, impatient/4), rng: rand.New(rand.NewPCG(seed, 1))}
		s.trouble([]float64{0.1, 0.3, 0.6}[seed%3])
		s.play(12)
		mu.Lock()
		for _, w := range s.wishes {
			outcomes[w.says]++
		}
		mu.Unlock()
		s.settleAll()

		got, err := lines(backend.NewReader(s.direct, quick).Events(t.Context(), "log", backend.ReadOptions{}))
		if err != nil && !errors.Is(err, backend.ErrNotFound) {
			t.Fatal(err)
		}
		where := map[string]int{}
		for seq, line := range got {
			_, n, _ := strings.Cut(line, `"data":`)
			if _, last, ok := strings.Cut(n, `,"n":`); ok {
				n = last
			}
			n = strings.TrimRight(n, "}")
			if strings.Contains(line, `"type":"note"`) {
				if before, twice := where[n]; twice {
					t.Errorf("note %s is at seqs %d and %d", n, before, seq)
				}
				where[n] = seq
			}
		}
		for _, d := range s.wishes {
			for i, n := range d.notes {
				seq, there := where[fmt.Sprint(n)]
				switch {
				case there != (d.says == committed):
					t.Errorf("wish %v is said to be %v; note %d is there: %v", d.notes, d.says, n, there)
				case there && int64(seq) != d.first+int64(i):
					t.Errorf("note %d of wish %v is at seq %d, the receipt says %d", n, d.notes, seq, d.first)
				}
			}
		}
		if err == nil {
			if rep, err := backend.NewReader(s.direct, quick).Verify(t.Context(), "log", backend.VerifyOptions{}); err != nil || !rep.OK() {
				t.Errorf("verify: %+v, %v", rep, err)
			}
		}
	}
	all := []outcome{committed, notCommitted, unknown}
	unseen := func(o outcome) bool { return outcomes[o] == 0 && stories > 1 }
	// A few stories may happen to have no outcome of a kind, and some more then have one.
	for round := 0; round == 0 || round < 8 && slices.ContainsFunc(all, unseen); round++ {
		var names []string
		first := base + uint64(round*stories)
		for i := range stories {
			names = append(names, fmt.Sprintf("seed %d", first+uint64(i)))
		}
		inParallel(t, names, func(t *testing.T, i int) { tell(t, first+uint64(i)) })
	}
	for _, o := range all {
		if unseen(o) {
			t.Errorf("no outcome was %v: the test shows too little", o)
		}
	}
	t.Logf("outcomes: %v", outcomes)
}
