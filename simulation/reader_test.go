package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
)

// read looks at a log in several ways, always with the same Reader, which
// remembers what it has seen.
func (p *process) read() {
	p.port.lags = oneOf(stream(p.r.plan.seed, "lags", p.name), 2)
	revision := map[string]int64{}
	for range 2 + p.rng.IntN(8) {
		if p.port.isDead() {
			return
		}
		id := p.oneLog()
		switch p.rng.IntN(4) {
		case 0:
			p.readEvents(p.b.Reader, id, p.readOptions())
		case 1:
			p.readEvents(p.b.Reader, id, backend.ReadOptions{})
		case 2:
			p.readInfo(id, revision)
		case 3:
			p.check(id)
		}
		p.pause(pick(p.rng, 5, 60))
	}
}

func (p *process) readOptions() (opt backend.ReadOptions) {
	opt.From = int64(p.rng.IntN(6))
	if oneOf(p.rng, 2) {
		to := int64(p.rng.IntN(12))
		opt.To = &to
	}
	if oneOf(p.rng, 3) {
		opt.Last = int64(1 + p.rng.IntN(4))
	}
	return opt
}

// looked is a question to a reader: when it began, and what struck before.
type looked struct {
	p       *process
	what    string
	id      string
	began   time.Time
	strikes int
}

func (p *process) look(what, id string) looked {
	return looked{p, fmt.Sprintf("%s: %s %s", p.name, what, id), id, time.Now(), p.port.struck()}
}

// failed judges an error of a reader: it must be explained, and a log that is
// said not to be there must not be. It reports whether there was one.
func (k looked) failed(err error) bool {
	r := k.p.r
	w := r.explained(k.p.port, k.what, k.strikes, false, err)
	r.count("read: "+w, 1)
	if err == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	state := manifest.LogState("")
	switch w {
	case "not found":
		state = manifest.StateVoid
	case "deleted":
		state = manifest.StateDeleted
	case "exists", "fenced", "held", "closed", "unknown", "rejected":
		r.fail("INTERNAL", "%s: %v", k.what, err)
		return true
	default:
		return true
	}
	if !r.witness.log(k.id).during(k.began, func(rec *manifest.Record) bool {
		return rec == nil && state == manifest.StateVoid || rec != nil && rec.State == state
	}) {
		r.fail("STALE", "%s: %v, which it was not", k.what, err)
	}
	return true
}

// during reports whether a log was, at some moment from a time on, as is says.
func (l *record) during(from time.Time, is func(*manifest.Record) bool) bool {
	var rec *manifest.Record
	for _, v := range l.versions {
		if v.at.After(from) && is(rec) {
			return true
		}
		rec = v.rec
	}
	return is(rec)
}

// readEvents reads some events and compares them with what there was meanwhile.
func (p *process) readEvents(reader *backend.Reader, id string, opt backend.ReadOptions) {
	k := p.look("read", id)
	var lines [][]byte
	var failed error
	first, slowly := int64(-1), oneOf(p.rng, 2)
	for ev, err := range reader.Events(context.Background(), id, opt) {
		if failed = err; err != nil {
			break
		}
		if first < 0 {
			first = ev.Seq
		}
		if lines = append(lines, bytes.Clone(ev.Line)); slowly {
			p.pause(20)
		}
	}
	ended := k.failed(failed)
	if p.port.isDead() {
		return
	}
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	l := p.r.witness.log(id)
	for i, line := range lines {
		if seq := first + int64(i); seq >= int64(len(l.lines)) || !bytes.Equal(l.lines[seq], line) {
			p.r.fail("STALE", "%s: %.200s at seq %d, which it is not", k.what, line, seq)
			return
		}
	}
	if ended {
		return
	}
	p.r.say(p.name, "read %s from %d: %d events", id, opt.From, len(lines))
	if !l.during(k.began, func(rec *manifest.Record) bool {
		if rec == nil || rec.State != manifest.StateOpen {
			return false
		}
		to := rec.Next
		if opt.To != nil {
			to = min(to, *opt.To+1)
		}
		from := opt.From
		if opt.Last > 0 {
			from = max(from, to-opt.Last)
		}
		return int64(len(lines)) == max(0, to-from) && (len(lines) == 0 || first == from)
	}) {
		p.r.fail("STALE", "%s %+v: %d events from %d on, which it had not at that time", k.what, opt, len(lines), first)
	}
	if opt.From == 0 && opt.To == nil && opt.Last == 0 {
		p.r.observed(p.name, id, k.began, lines)
	}
}

// readInfo asks for the record. revision is what was seen before, by uid.
func (p *process) readInfo(id string, revision map[string]int64) {
	k := p.look("info", id)
	info, err := p.b.Info(context.Background(), id)
	if k.failed(err) || p.port.isDead() {
		return
	}
	if was := revision[info.UID]; info.Revision < was {
		p.r.fail("STALE", "%s: revision %d after %d", k.what, info.Revision, was)
	}
	revision[info.UID] = info.Revision
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if !p.r.witness.log(id).during(k.began, func(rec *manifest.Record) bool {
		return rec != nil && rec.Revision == info.Revision && rec.Next == info.Next && rec.State == info.State &&
			rec.Epoch == info.Epoch && rec.Generation() == info.Generation && rec.Content.Tree.Root == info.Content.Tree.Root
	}) {
		p.r.fail("STALE", "%s: %+v, which it was not", k.what, info)
	}
}

// check judges a bracket, as the events do.
func (p *process) check(id string) {
	pair := seedpath.Pairs[pick(p.rng, "compaction", "turn")]
	k := p.look("check", id)
	c, err := p.b.Check(context.Background(), id, pair, backend.CheckOptions{Verify: oneOf(p.rng, 3)})
	if k.failed(err) || p.port.isDead() {
		return
	}
	p.r.count("verdict: "+string(c.Answer), 1)
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	l := p.r.witness.log(id)
	if !l.during(k.began, func(rec *manifest.Record) bool {
		return rec != nil && rec.State == manifest.StateOpen && rec.Revision == c.Revision && l.judged(rec.Next, pair.Open, pair.Close) == string(c.Answer)
	}) {
		p.r.fail("STALE", "%s: %s at revision %d, which it was not", k.what, c.Answer, c.Revision)
	}
}

// follow follows the log as long as others write, or until it has asked often
// enough.
func (p *process) follow() {
	for range 4 {
		if p.r.ends.Err() != nil || p.port.isDead() {
			return
		}
		from := int64(p.rng.IntN(3))
		ctx, cancel := context.WithTimeout(p.r.ends, lasting(40*p.opt.PollInterval, 6))
		k := p.look("follow", mainLog)
		var lines [][]byte
		var failed error
		for ev, err := range p.b.Follow(ctx, mainLog, from) {
			if failed = err; err != nil {
				break
			}
			lines = append(lines, bytes.Clone(ev.Line))
		}
		cancel()
		p.pause(1) // not at the same time as others whose context ended
		p.r.say(p.name, "follow from %d: %d events, %v", from, len(lines), failed)
		p.r.count("followed events", len(lines))
		if failed == nil {
			p.r.fail("INTERNAL", "%s ends without an error", k.what)
		}
		if !errors.Is(failed, context.Canceled) && !errors.Is(failed, context.DeadlineExceeded) {
			k.failed(failed)
		}
		p.r.mu.Lock()
		l := p.r.witness.log(mainLog)
		for i, line := range lines {
			if seq := from + int64(i); seq >= int64(len(l.lines)) || !bytes.Equal(l.lines[seq], line) {
				p.r.fail("STALE", "%s: %.200s at seq %d, which it is not", k.what, line, seq)
				break
			}
		}
		p.r.mu.Unlock()
		p.pause(60)
	}
}

// verify verifies the log again and again, each time since the time before.
func (p *process) verify() {
	var since *backend.Point
	for range 3 {
		if p.port.isDead() {
			return
		}
		k := p.look("verify", mainLog)
		report, err := p.b.Verify(context.Background(), mainLog, backend.VerifyOptions{Since: since})
		if !k.failed(err) && !p.port.isDead() {
			p.r.count("verified", 1)
			if !report.OK() && p.port.struck() == k.strikes {
				p.r.fail("DAMAGE", "%s: %+v", k.what, report.Findings)
			}
			for _, f := range report.Findings {
				if f.Kind != "denied" {
					p.r.fail("DAMAGE", "%s: %+v", k.what, f)
				}
			}
			if report.OK() {
				since = &backend.Point{Size: report.Size, Root: report.Root}
			}
		}
		p.pause(100)
	}
}
