package faultstore

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// Match says whether a call is one that a Rule is about. op is "Get", "Head",
// "List", "Put", "Delete" or "Copy"; key is a List's prefix and a Copy's
// destination; body is that of a Put, else nil, and must not be kept.
type Match func(op, key string, body []byte) bool

// Op matches calls of these kinds.
func Op(ops ...string) Match {
	return func(op, _ string, _ []byte) bool { return slices.Contains(ops, op) }
}

// Key matches calls about exactly this key.
func Key(key string) Match {
	return func(_, k string, _ []byte) bool { return k == key }
}

// Prefix matches calls about keys that begin with prefix.
func Prefix(prefix string) Match {
	return func(_, key string, _ []byte) bool { return strings.HasPrefix(key, prefix) }
}

// Puts matches Puts under prefix, the most frequent victims.
func Puts(prefix string) Match { return And(Op("Put"), Prefix(prefix)) }

// And matches what all of them match.
func And(all ...Match) Match {
	return func(op, key string, body []byte) bool {
		for _, m := range all {
			if !m(op, key, body) {
				return false
			}
		}
		return true
	}
}

// Not matches what m does not.
func Not(m Match) Match {
	return func(op, key string, body []byte) bool { return !m(op, key, body) }
}

// Rule is one fault and when it strikes.
type Rule struct {
	// Match selects calls; nil means all. It is called under a lock and must not
	// use the store.
	Match Match
	// Nth is the first matching call that the fault strikes, from 1 on; 0 means
	// every matching call.
	Nth int
	// Times is how many matching calls from the Nth on it strikes: 0 means that
	// one only, -1 that one and all that follow. Without Nth it counts from the
	// first, and 0 means all.
	Times int
	Fault Fault
}

// strikes reports whether the n-th match (from 1 on) is hit.
func (r *Rule) strikes(n int) bool {
	first, times := r.Nth, r.Times
	if first == 0 {
		first = 1
		if times == 0 {
			times = -1
		}
	} else if times == 0 {
		times = 1
	}
	return n >= first && (times < 0 || n < first+times)
}

// Injection is a Rule at work. Its methods may be called at any time.
type Injection struct {
	rule Rule

	mu      sync.Mutex
	stopped bool
	matches int
	hits    int
	held    []held
}

// held is a request that has not arrived yet.
type held func(ctx context.Context) error

// Matches counts the calls that the rule's Match selected so far.
func (i *Injection) Matches() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.matches
}

// Hits counts the calls that the fault struck so far.
func (i *Injection) Hits() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.hits
}

// Stop ends the rule; what it holds can still be released.
func (i *Injection) Stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped = true
}

// Held is the number of requests that wait for Release.
func (i *Injection) Held() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.held)
}

// Release lets all requests held by Late or LateCopy arrive at the inner store,
// in the order in which they were made, and returns its replies, which no
// caller hears any more.
func (i *Injection) Release(ctx context.Context) []error {
	i.mu.Lock()
	all := i.held
	i.held = nil
	i.mu.Unlock()
	var replies []error
	for _, send := range all {
		replies = append(replies, send(ctx))
	}
	return replies
}

// Drop forgets the requests that are held: they never arrive.
func (i *Injection) Drop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.held = nil
}

func (i *Injection) hold(h held) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.held = append(i.held, h)
}

// see counts a call and reports whether the fault may strike it.
func (i *Injection) see(op, key string, body []byte) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped || i.rule.Match != nil && !i.rule.Match(op, key, body) {
		return false
	}
	i.matches++
	return i.rule.strikes(i.matches)
}

func (i *Injection) hit() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.hits++
}

// Inject adds a rule. Every rule counts every call that it matches; if several
// would strike the same call, the one added first does.
func (s *Store) Inject(r Rule) *Injection {
	i := &Injection{rule: r}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, i)
	return i
}

// strike finds the injection that strikes a call, or nil.
func (s *Store) strike(op, key string, body []byte) *Injection {
	s.mu.Lock()
	rules := s.rules
	s.mu.Unlock()
	var first *Injection
	for _, i := range rules {
		if i.see(op, key, body) && first == nil {
			first = i
		}
	}
	if first != nil {
		first.hit()
	}
	return first
}
