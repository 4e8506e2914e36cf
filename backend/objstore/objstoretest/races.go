package objstoretest

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/check"
)

// raceCounter: writers add to one object by compare-and-swap. The object holds
// one number per writer, so each can tell from a read whether its own write was
// applied when a reply did not say.
func (s *suite) raceCounter() {
	zero := make([]int, s.opt.Writers)
	s.mustCreate("counter", fmt.Sprint(zero))
	var attempts atomic.Int64
	var wg sync.WaitGroup
	for w := range s.opt.Writers {
		wg.Go(func() {
			for mine := 0; mine < s.opt.Rounds; {
				o, err := s.get("counter", objstore.GetOptions{})
				if err != nil {
					s.Errorf("writer %d: %v", w, err)
					return
				}
				counts, ok := parseCounts(string(o.Body), s.opt.Writers)
				if !ok || counts[w] != mine && counts[w] != mine+1 {
					s.Errorf("writer %d has %d, reads %q", w, mine, o.Body)
					return
				}
				if counts[w] == mine+1 { // an attempt without a clear reply was applied
					mine++
					continue
				}
				counts[w]++
				attempts.Add(1)
				_, err = s.put("counter", fmt.Sprint(counts), objstore.IfVersion(o.Version))
				switch objstore.Classify(err) {
				case objstore.Applied:
					mine++
				case objstore.Precondition:
				case objstore.TryAgain, objstore.Undecided:
					if s.Context().Err() != nil {
						return
					}
					time.Sleep(time.Duration(w+1) * time.Millisecond)
				default:
					s.Errorf("writer %d: %v", w, err)
					return
				}
			}
		})
	}
	wg.Wait()
	o := s.mustGet("counter")
	counts, _ := parseCounts(string(o.Body), s.opt.Writers)
	for w, n := range counts {
		if n != s.opt.Rounds {
			s.Errorf("writer %d: %d of %d acknowledged updates are left", w, n, s.opt.Rounds)
		}
	}
	s.Logf("%d updates in %d attempts", s.opt.Writers*s.opt.Rounds, attempts.Load())
}

// parseCounts reads what fmt.Sprint wrote for a slice of n numbers.
func parseCounts(text string, n int) ([]int, bool) {
	fields := strings.Fields(strings.Trim(text, "[]"))
	counts := make([]int, n)
	if len(fields) != n {
		return counts, false
	}
	for i, f := range fields {
		if _, err := fmt.Sscan(f, &counts[i]); err != nil {
			return counts, false
		}
	}
	return counts, true
}

// raceCreate: of many writes with the same condition one is applied.
func (s *suite) raceCreate() {
	for round := range 5 {
		key := fmt.Sprintf("k%d", round)
		s.oneWinner(key, "create", objstore.IfAbsent())
		s.oneWinner(key, "update", objstore.IfVersion(s.mustGet(key).Version))
	}
}

func (s *suite) oneWinner(key, what string, cond objstore.Condition) {
	s.Helper()
	winners, unsure := map[string]bool{}, map[string]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := make(chan struct{})
	for w := range s.opt.Writers {
		wg.Go(func() {
			body := fmt.Sprintf("%s by writer %d", what, w)
			<-start
			for doubt := false; ; {
				_, err := s.put(key, body, cond)
				switch objstore.Classify(err) {
				case objstore.Applied:
					mu.Lock()
					defer mu.Unlock()
					winners[body] = true
					return
				case objstore.Precondition:
					if doubt { // maybe its own earlier attempt
						mu.Lock()
						defer mu.Unlock()
						unsure[body] = true
					}
					return
				case objstore.TryAgain:
				case objstore.Undecided:
					doubt = true
				default:
					s.Errorf("%s: %v", what, err)
					return
				}
				if s.Context().Err() != nil {
					return
				}
				time.Sleep(time.Duration(w+1) * time.Millisecond)
			}
		})
	}
	close(start)
	wg.Wait()
	there := string(s.mustGet(key).Body)
	switch {
	case len(winners) > 1:
		s.Errorf("%s of %s: %d winners: %v", what, key, len(winners), winners)
	case len(winners) == 1 && !winners[there]:
		s.Errorf("%s of %s: the winner is %v, but %q is there", what, key, winners, there)
	case len(winners) == 0 && !unsure[there]:
		s.Errorf("%s of %s: %q is there, and nobody wrote it", what, key, there)
	}
}

// examine runs the checks that a person would.
func (s *suite) examine() {
	r := check.Examine(s.Context(), s.store, check.Options{Racers: s.opt.Writers, Rounds: 6})
	for _, f := range r.Findings {
		switch f.Name {
		case check.NameConditional, check.NameRace, check.NameConsistency, check.NameListing, check.NameRead, check.NameList:
			if f.Status != check.OK {
				s.Errorf("%s: %s: %s", f.Name, f.Status, f.Seen)
			}
		case check.NameMetadata:
			if s.opt.Metadata && f.Status != check.OK {
				s.Errorf("%s: %s: %s", f.Name, f.Status, f.Seen)
			}
		default:
			if f.Status == check.Failed {
				s.Errorf("%s: %s: %s", f.Name, f.Status, f.Seen)
			}
		}
	}
	if !r.Profile.Conditional || !r.Profile.Raced {
		s.Errorf("profile %s", r.Profile)
	}
	if len(r.Left) > 0 {
		s.Errorf("left behind: %q", r.Left)
	}
}

// numbered is a body that shows whether it is whole: its number, repeated.
func numbered(n int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%08d", n), 1+(n*7919)%8192)
}

// readersUnderWrites: bodies are whole, their versions are theirs, and a read
// that begins after a write was acknowledged sees that write or a newer one.
func (s *suite) readersUnderWrites() {
	version := s.mustCreate("k", string(numbered(0)))
	var acked atomic.Int64
	var seen sync.Map // version → number
	seen.Store(version, 0)
	done := make(chan struct{})
	var readers, writer sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for last := 0; ; {
				select {
				case <-done:
					return
				default:
				}
				least := max(last, int(acked.Load()))
				o, err := s.get("k", objstore.GetOptions{})
				if err != nil {
					s.Errorf("get during writes: %v", err)
					return
				}
				n := 0
				if len(o.Body) >= 8 {
					fmt.Sscanf(string(o.Body[:8]), "%d", &n)
				}
				if !bytes.Equal(o.Body, numbered(n)) || o.Size != int64(len(o.Body)) {
					s.Errorf("a torn body: %d bytes, size %d, begins as number %d", len(o.Body), o.Size, n)
					return
				}
				if n < least {
					s.Errorf("read number %d after number %d was read or acknowledged", n, least)
					return
				}
				last = n
				if was, ok := seen.LoadOrStore(o.Version, n); ok && was != n && !s.opt.TornReads {
					s.Errorf("version %v came with number %v and with number %d", o.Version, was, n)
					return
				}
			}
		})
	}
	writer.Go(func() {
		defer close(done)
		for n := 1; n <= 5*s.opt.Rounds; n++ {
			info, err := s.store.Put(s.Context(), s.dir+"k", numbered(n), objstore.IfVersion(version), objstore.PutOptions{})
			if objstore.Classify(err) == objstore.TryAgain {
				n--
				continue
			}
			if err != nil {
				s.Errorf("write %d: %v", n, err)
				return
			}
			acked.Store(int64(n))
			if version = info.Version; version.IsZero() {
				o, err := s.get("k", objstore.GetOptions{})
				if err != nil {
					s.Errorf("get: %v", err)
					return
				}
				version = o.Version
			}
			if was, ok := seen.LoadOrStore(version, n); ok && was != n && !s.opt.TornReads {
				s.Errorf("version %v is that of number %v and of number %d", version, was, n)
				return
			}
		}
	})
	writer.Wait()
	readers.Wait()
}
