package simulation

import (
	"bytes"
	"slices"

	"github.com/s3log/s3log/internal/plainlog"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// What a commit may add: inherited events, closers and a boundary, if it begins
// a lifecycle, and then what somebody appends and has not been told is lost.

// seed checks what a commit adds that nobody appended.
func (c *change) seed() {
	n := c.old
	kind := ""
	if c.base == nil || c.rec.Generation() != c.base.Generation() {
		kind = c.rec.Generations[len(c.rec.Generations)-1].Kind
	}
	mark := false
	switch kind {
	case manifest.KindResume:
		before := c.parse(c.l.lines[:n])
		closers := plainlog.Closers(before)
		for i, want := range closers {
			if n+i >= len(c.l.lines) || want != string(c.l.lines[n+i]) {
				c.fail("SEED", "a resume adds %.400s, its first closers are %.400s", bytes.Join(c.added(), nil), want)
				return
			}
		}
		mark = len(plainlog.Boundary(before, len(closers), 0)) > 0
		if len(closers) > 0 {
			c.w.r.count("turns closed", 1)
		}
		n += len(closers)
	case manifest.KindFork, manifest.KindReplay:
		n = int(c.rec.Origin.Inherited)
		if n > len(c.l.lines) {
			c.fail("CHILD", "it inherits %d events and has %d", n, len(c.l.lines))
			return
		}
		c.l.inherited = n
		if kind == manifest.KindFork {
			c.child(n)
		}
		mark = len(plainlog.Boundary(c.parse(c.l.lines[:n]), 0, 0)) > 0
	}
	if mark {
		if n >= len(c.l.lines) || !isBoundary(c.l.lines[n]) {
			c.fail("SEED", "%s adds %.400s without a boundary", kind, bytes.Join(c.l.lines[c.old:], nil))
			return
		}
		c.w.r.count("boundaries", 1)
		n++
	}
	for i, line := range c.l.lines[n:] {
		if isBoundary(line) {
			c.fail("SEED", "%q adds a boundary at seq %d", kind, n+i)
		}
	}
	c.appended(n)
}

func (c *change) parse(lines [][]byte) []plainlog.Event {
	events, err := plainlog.ParseAll(lines)
	if err != nil {
		c.fail("INTERNAL", "%v", err)
	}
	return events
}

func isBoundary(line []byte) bool {
	return bytes.HasPrefix(line, []byte(`{"type":"`+segment.TypeEndSeed+`"`))
}

// child: a fork begins with its parent's first events.
func (c *change) child(n int) {
	o := c.rec.Origin
	parent := c.w.logs[o.Parent.Log]
	switch {
	case parent == nil || o.Parent.UpTo != int64(n) || parent.newest().UID != o.Parent.UID:
		c.fail("CHILD", "its origin is %+v", o)
	case n > len(parent.lines) || !slices.EqualFunc(c.l.lines[:n], parent.lines[:n], bytes.Equal):
		c.fail("CHILD", "it is not its parent's first %d events", n)
	case stateOf(c.l.lines[:n]).Tree.Root != o.Parent.Root:
		c.fail("CHILD", "its parent's root is another")
	}
	c.w.r.count("forks", 1)
}

// stateOf is the state after some lines.
func stateOf(lines [][]byte) segment.State {
	f, err := manifest.NewFold(segment.NewState(), manifest.RuleUserPrompt)
	if err != nil {
		panic(err)
	}
	for _, line := range lines {
		ev, err := segment.ParseEvent(line, segment.Limits{MaxEvent: segment.MaxFrameRaw})
		if err != nil {
			panic(err)
		}
		f.Add(ev)
	}
	return f.State()
}

// origins: the events are in the log once, whoever brings them.
func (c *change) origins() {
	for i, line := range c.added() {
		tag := tagOf(line)
		if tag == "" {
			continue
		}
		seq := int64(c.old + i)
		if at, twice := c.l.tags[tag]; twice {
			c.fail("TWICE", "%s is in the log at %d and at %d", tag, at, seq)
		}
		c.l.tags[tag] = seq
	}
}

// appended: what is new from seq n on was appended by somebody through the
// writer that commits, who has not been told that it is not in the log.
func (c *change) appended(n int) {
	kind := c.rec.Origin.Kind
	if c.base == nil && (kind == manifest.KindFork || kind == manifest.KindReplay) {
		return // a fork's are its parent's, and of a replay everything is given
	}
	for i, line := range c.l.lines[n:] {
		tag := tagOf(line)
		if tag == "" {
			c.fail("PHANTOM", "seq %d is %.200s", n+i, line)
			continue
		}
		c.w.r.book.introduced(c, tag)
	}
}

// judged is what a backward scan of the first n events of a log says of a bracket.
func (l *record) judged(n int64, open, close string) string {
	events, err := plainlog.ParseAll(l.lines[:min(n, int64(len(l.lines)))])
	if err != nil {
		return err.Error()
	}
	answer, _, _ := plainlog.Verdict(events, open, close)
	return answer
}
