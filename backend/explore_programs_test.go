package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

const (
	parentLog = "log"
	childLog  = "child"
	noteType  = "note"
)

// seedConfig is what one exploration is bounded by.
type seedConfig struct {
	name      string
	begin     func(*process) // writes what is there at the beginning
	processes []func(*process)
	faults    int // of requests, in all
	// remembers tells states apart by all replies, also by those that a process
	// cannot make use of any more: to see that nothing is missed by forgetting.
	remembers bool
	broken    brokenSeed
}

// brokenSeed says which rule an exploration leaves out.
type brokenSeed struct {
	open       func(seedpath.Opening) seedpath.Opening // of every handle that owns nothing yet
	body       func(head *stored, body []byte) []byte  // what a commit writes
	childFirst bool                                    // a segment is sent after its manifest
	claimFirst bool                                    // a pending handle writes its boundary before it looks for a key
}

// events are lines of types, with what the vocabulary of turns needs.
func events(types ...string) (lines [][]byte) {
	for _, typ := range types {
		lines = append(lines, fmt.Appendf(nil, `{"type":%q,"time":1000,"data":{"turn":1,"step":1}}`, typ))
	}
	return lines
}

// begins writes the events of a log, and more, in one commit each.
func begins(log string, types ...string) func(*process) {
	return func(p *process) {
		p.begin()
		l, err := p.backend().Create(log, CreateOptions{})
		if err == nil {
			_, err = l.Append(context.Background(), events(types...), AppendOptions{Boundary: true})
			_ = l.Close(context.Background(), CloseOptions{})
		}
		if err != nil {
			p.w.fail("INTERNAL", "%v", err)
		}
	}
}

var (
	interruptedTurn = begins(parentLog, segment.TypeTurnStart, segment.TypeCompactionStart)
	inBoundary      = begins(parentLog, segment.TypeCompactionStart, segment.TypeEndSeed)
	balancedTurn    = begins(parentLog, segment.TypeTurnStart, segment.TypeTurnEnd)
	secondTurn      = begins(parentLog, segment.TypeTurnStart, segment.TypeTurnEnd, segment.TypeTurnStart)
)

// onVoid begins a second log with a void, as gc or Decide leave one.
func onVoid(p *process) {
	begins(parentLog, segment.TypeCompactionStart)(p)
	p.begin()
	in := manifest.Intent{Kind: manifest.IntentCreate, Log: childLog, UID: "u", Commit: "c", Writer: "w", Generation: 1}
	if _, err := manifest.Settle(context.Background(), p, in, manifest.NewWriter("", ""), manifest.Options{}); err != nil {
		p.w.fail("INTERNAL", "%v", err)
	}
}

// opened prepares a handle for what an exploration breaks.
func (p *process) opened(l *Log) *Log {
	if l != nil && l.open != nil && p.w.cfg.broken.open != nil {
		l.open = p.w.cfg.broken.open(l.open)
	}
	return l
}

// resume opens a handle in the next lifecycle; nil if that fails.
func (p *process) resume(log string, opt ResumeOptions) *Log {
	p.begin()
	l, r, err := p.backend().Resume(context.Background(), log, opt)
	if err != nil {
		p.failed(log, nil, err)
		p.settle(log, err)
		return nil
	}
	p.marked(log, l, r, opt.Claim && !opt.Delay)
	if opt.Delay && p.sent > 0 {
		p.w.fail("WROTE", "a delayed resume sends %d manifests", p.sent)
	}
	return p.opened(l)
}

// adopt opens a handle in the same lifecycle.
func (p *process) adopt(log string) *Log {
	p.begin()
	l, err := p.backend().Adopt(context.Background(), log, AdoptOptions{TakeOver: true})
	if err != nil {
		p.failed(log, nil, err)
		return nil
	}
	return p.opened(l)
}

// claim makes a pending handle own its log.
func (p *process) claim(l *Log) *Log {
	if l == nil {
		return nil
	}
	p.begin()
	r, err := l.Claim(context.Background())
	if err != nil {
		p.failed(l.ID(), l, err)
		p.settle(l.ID(), err)
		return nil
	}
	p.marked(l.ID(), l, r, true)
	return l
}

// append adds an event, under a key if there is one, and ends the handle where
// that fails.
func (p *process) append(l *Log, key string) *Log {
	if l == nil {
		return nil
	}
	owned := l.owned
	if p.w.cfg.broken.claimFirst {
		p.begin()
		_, _ = l.Claim(context.Background())
	}
	p.begin()
	data := `"` + key + `"`
	if key == "" {
		data = fmt.Sprintf("%q", string('A'+rune(8*p.n+p.op)))
	}
	line := fmt.Appendf(nil, `{"type":%q,"time":2000,"data":%s}`, noteType, data)
	r, err := l.Append(context.Background(), [][]byte{line}, AppendOptions{Key: key})
	if err != nil {
		if h := p.w.head(l.ID()); key != "" && p.sent > 0 && errors.Is(err, ErrFenced) && bytes.Contains(letters(h.lines), []byte(data)) {
			p.w.fail("KEYMISS", "%s was told %v, and its key is in %s", p.id(), err, h)
		}
		p.failed(l.ID(), l, err)
		p.settle(l.ID(), err)
		return nil
	}
	p.acknowledged(l, r, data, owned)
	return l
}

// start appends the opening marker of a bracket.
func (p *process) start(l *Log) *Log {
	if l == nil {
		return nil
	}
	p.begin()
	if _, err := l.Append(context.Background(), events(segment.TypeCompactionStart), AppendOptions{}); err != nil {
		p.failed(l.ID(), l, err)
		return nil
	}
	return l
}

// settle asks what became of an operation of which that is not known.
func (p *process) settle(log string, err error) {
	token := Token(err)
	if token == "" || p.w.over {
		return
	}
	asked := p.id()
	p.begin()
	p.settles = true
	d, err := p.backend().Decide(context.Background(), token)
	switch w := p.w; {
	case w.over:
	case err != nil:
		p.failed(log, nil, err)
	case d.Committed:
		w.reached["settled: committed"]++
		if w.landed[asked] == 0 && !d.Duplicate {
			w.fail("LOSTACK", "%s was settled as committed, and is not in the log", asked)
		}
	default:
		w.reached["settled: not committed"]++
		if w.landed[asked] > 0 {
			w.fail("LIE", "%s was settled as not committed, and is in the log", asked)
		}
		p.deny(asked)
	}
}

// owner is a writer that has owned the log all along.
func (p *process) owner() *Log {
	p.free = true
	l := p.append(p.adopt(parentLog), "")
	p.free = false
	return l
}

// fork makes the child.
func (p *process) fork(opt ForkOptions) *Log {
	p.begin()
	l, r, err := p.backend().Fork(context.Background(), parentLog, childLog, opt)
	w, h := p.w, p.w.head(childLog)
	if w.over {
		return nil
	}
	want := int64(-1)
	switch {
	case p.found == nil: // the parent was not read
	case opt.At != nil:
		want = *opt.At + 1
	case opt.Clip:
		ends, _ := p.found.rec.Content.Types.Get(segment.TypeTurnEnd)
		want = ends.Last + 1
	default:
		want = int64(len(p.found.lines))
	}
	same := h != nil && h.rec.State == manifest.StateOpen && h.rec.Origin.Inherited == want
	if err != nil {
		if errors.Is(err, ErrExists) && same {
			w.fail("CHILD", "%s was told %v, and it is the very fork", p.id(), err)
		}
		p.failed(childLog, nil, err)
		p.settle(childLog, err)
		return nil
	}
	w.reached["forked"]++
	if !same || r.Count > int64(len(h.lines)) {
		w.fail("LOSTACK", "%s was told of a fork of %d events, with %d in all, which is %s", p.id(), want, r.Count, h)
	}
	if r.Duplicate {
		w.reached["fork was there"]++
		if w.landed[p.id()] > 0 {
			w.fail("WROTE", "%s was told that it is a duplicate, and wrote %s", p.id(), h)
		}
	}
	return l
}

// void settles a create of the child that nobody will ever send, as gc does
// with uploads that belong to no manifest.
func (p *process) void() {
	p.begin()
	in := manifest.Intent{Kind: manifest.IntentCreate, Log: childLog, UID: "u", Commit: "c", Writer: "w", Generation: 1}
	_, err := manifest.Settle(context.Background(), p, in, manifest.NewWriter("", ""), manifest.Options{MinBackoff: 1, MaxBackoff: 1})
	if err != nil && !errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, ErrDenied) && !p.w.over {
		p.w.fail("INTERNAL", "%v", err)
	}
}

func (p *process) close(l *Log) {
	if l != nil {
		_ = l.Close(context.Background(), CloseOptions{})
	}
}

// Programs.

func owning(keys ...string) func(*process) {
	return func(p *process) {
		l := p.owner()
		all := l
		for _, key := range keys {
			l = p.append(l, key)
		}
		p.close(all)
	}
}

// compacting is an owner that opens a bracket.
func compacting(p *process) {
	all := p.owner()
	p.append(p.start(all), "")
	p.close(all)
}

func resuming(opt ResumeOptions, keys ...string) func(*process) {
	return func(p *process) {
		l := p.resume(parentLog, opt)
		all := l
		for _, key := range keys {
			l = p.append(l, key)
		}
		p.close(all)
	}
}

func claiming(opt ResumeOptions) func(*process) {
	return func(p *process) {
		all := p.resume(parentLog, opt)
		p.append(p.claim(all), "")
		p.close(all)
	}
}

func adopting(key string) func(*process) {
	return func(p *process) {
		all := p.adopt(parentLog)
		p.append(all, key)
		p.close(all)
	}
}

func forking(opt ForkOptions) func(*process) {
	return func(p *process) { p.close(p.fork(opt)) }
}

func forkingOn(opt ForkOptions) func(*process) {
	return func(p *process) {
		all := p.fork(opt)
		p.append(all, "")
		p.close(all)
	}
}

// heir resumes the child, if it is there.
func heir(p *process) {
	all := p.resume(childLog, ResumeOptions{})
	p.append(all, "")
	p.close(all)
}

func voiding(p *process) { p.void() }

func configNamed(t *testing.T, name string) seedConfig {
	t.Helper()
	for _, c := range seedConfigs {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("no config %q", name)
	return seedConfig{}
}
