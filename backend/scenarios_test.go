package backend_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/s3log/s3log/backend"
)

// sealing is the padding of an event that fills a tail so far that it is sealed.
const sealing = 52 << 10

// someForms are enough for scenarios that take long.
var someForms = []string{"unavailable", "conflict", "denied", "lost reply", "late", "duplicate", "late, then denied", "two lost replies", "outage", "late for ever"}

// fewForms are those of different kinds of outcome.
var fewForms = []string{"conflict", "lost reply", "late, then denied"}

var scenarios = []scenario{
	{
		name: "create",
		open: openCreate,
		play: func(p *player) { p.append(10, "a") },
	},
	{
		name: "append",
		open: openCreate,
		play: func(p *player) {
			p.append(10, "a", "b")
			p.append(10, "c")
			p.append(10, "d", "e", "f")
			p.append(10, "g")
		},
	},
	{
		name:    "adopt",
		prepare: prepareSmall,
		open:    openAdopt,
		play: func(p *player) {
			p.append(10, "a")
			p.append(10, "b", "c")
			p.close(backend.CloseOptions{})
			p.append(10, "d") // by the next handle
		},
	},
	{
		name:    "delayed resume",
		prepare: prepareInterrupted,
		open:    openDelayed,
		play: func(p *player) {
			p.append(10, "a")
			p.append(10, "b", "c")
			p.close(backend.CloseOptions{})
			p.append(10, "d") // by the next handle, behind another boundary
		},
	},
	{
		name:    "keyed",
		prepare: prepareSmall,
		open:    openAdopt,
		play: func(p *player) {
			for _, tag := range []string{"a", "b", "c"} {
				p.appendWith(backend.AppendOptions{Key: freshKey}, 10, tag)
			}
		},
	},
	{
		name: "last",
		open: openCreate,
		play: func(p *player) {
			p.append(10, "a")
			p.appendWith(backend.AppendOptions{Last: true}, 10, "b")
			p.close(backend.CloseOptions{})
			p.append(10, "c")
		},
	},
	{
		name:  "seal in the background",
		open:  openCreate,
		play:  playSeals,
		forms: someForms,
	},
	{
		name:  "seal in the foreground",
		opt:   backend.Options{Foreground: true},
		open:  openCreate,
		play:  playSeals,
		forms: someForms,
	},
	{
		name: "more than fits",
		open: openCreate,
		play: func(p *player) {
			p.append(10, "a")
			p.append(150<<10, "b")
			p.append(150<<10, "c")
			p.append(10, "d")
		},
		forms: someForms,
	},
	{
		name:    "adopt with more than fits",
		prepare: prepareSmall,
		open:    openAdopt,
		play:    func(p *player) { p.append(150<<10, "a") },
		forms:   someForms,
	},
	{
		name:    "merge in the background",
		prepare: prepareSegments,
		open:    openAdopt,
		play: func(p *player) {
			p.append(10, "a")
			p.append(10, "b")
			p.append(10, "c")
		},
		forms: someForms,
	},
	{
		name:    "merge in the foreground",
		opt:     backend.Options{Foreground: true},
		prepare: prepareSegments,
		open:    openAdopt,
		play: func(p *player) {
			p.append(10, "a")
			p.append(10, "b")
		},
		forms: someForms,
	},
	{
		name:    "group",
		open:    openCreate,
		play:    func(p *player) { p.group("a", "b", "c", "d") },
		latency: 5 * time.Millisecond,
	},
	{
		name: "import",
		opt:  backend.Options{MaxBatch: 200},
		play: func(p *player) { p.imports(100, "a", "b", "c", "d", "e") },
	},
	{
		name: "import again",
		opt:  backend.Options{MaxBatch: 200},
		prepare: func(t *testing.T, b *backend.Backend) {
			p := &player{t: t, b: b, claims: newClaims(), heal: func() {}}
			p.imports(100, "a", "b")
		},
		play: func(p *player) { p.imports(100, "a", "b", "c", "d", "e") },
	},
	{
		name: "release",
		open: openCreate,
		play: func(p *player) {
			p.append(10, "a")
			p.close(backend.CloseOptions{Release: true})
			p.append(10, "b")
			p.close(backend.CloseOptions{Release: true})
			p.append(10, "c")
		},
	},
	{
		name: "seal at the end",
		open: openCreate,
		play: func(p *player) {
			p.append(sealing, "a") // a seal in the background is ready
			p.close(backend.CloseOptions{Seal: true})
			p.append(sealing, "b")
			p.append(10, "c")
			p.close(backend.CloseOptions{Seal: true, Release: true})
		},
		forms: someForms,
	},
}

// group appends one event each by several callers of one handle at a time. What
// fails is taken up when all are done, by one after the other.
func (p *player) group(tags ...string) {
	p.append(10, "first")
	if p.gone || p.log == nil {
		return
	}
	errs := make([]error, len(tags))
	receipts := make([]backend.Receipt, len(tags))
	var wg sync.WaitGroup
	for i, tag := range tags {
		wg.Go(func() {
			time.Sleep(time.Duration(i) * time.Millisecond)
			opt := backend.AppendOptions{}
			if p.mode == retries {
				opt.Key = tag
			}
			receipts[i], errs[i] = p.log.Append(p.t.Context(), [][]byte{tagged(tag, 10)}, opt)
		})
	}
	wg.Wait()
	for i, tag := range tags {
		if errs[i] == nil {
			if err := p.claims.acked(receipts[i], tag); err != nil {
				p.errorf("%v", err)
			}
		}
	}
	for i, tag := range tags {
		if errs[i] == nil || p.failed(errs[i], []string{tag}) {
			continue
		}
		p.gone = false // each caller for itself
		if p.mode != givesUp {
			p.appendWith(backend.AppendOptions{Key: tag}, 10, tag)
		}
	}
	slices.SortFunc(p.claims.order, func(a, b string) int { return int(p.claims.at[a] - p.claims.at[b]) })
}

// imports makes the log hold exactly these events, by as many imports as it
// takes.
func (p *player) imports(pad int, tags ...string) {
	session := func(yield func([]byte, error) bool) {
		for _, tag := range tags {
			if !yield(tagged(tag, pad), nil) {
				return
			}
		}
	}
	for try := range playerTries {
		r, err := p.b.Import(p.t.Context(), matrixLog, session, backend.ImportOptions{})
		if err == nil {
			if r.Next != int64(len(tags)) || r.First+r.Count != r.Next {
				p.errorf("import: %+v", r)
			}
			for i, tag := range tags {
				p.claims.order = append(p.claims.order, tag)
				p.claims.at[tag] = int64(i)
			}
			return
		}
		p.heal()
		token := backend.Token(err)
		switch {
		case p.mode == givesUp:
			for _, tag := range tags {
				p.claims.maybe[tag] = true
			}
			return
		case token != "" && p.mode != retries:
			if p.mode == released {
				p.late()
			}
			if _, err := p.b.Decide(p.t.Context(), token); err != nil && try == playerTries-1 {
				p.errorf("Decide: %v", err)
			}
		}
	}
	p.errorf("could not be imported by %d tries", playerTries)
}

func playSeals(p *player) {
	p.append(10, "a")
	p.append(sealing, "b")
	p.append(10, "c")
	p.append(sealing, "d")
	p.append(10, "e")
}

// prepareSmall makes a log of two events in its tail.
func prepareSmall(t *testing.T, b *backend.Backend) {
	l := create(t, b, matrixLog)
	appendOne(t, l, event(0))
	appendOne(t, l, event(1))
	closeLog(t, l)
}

// prepareInterrupted makes a log whose writer died inside a turn.
func prepareInterrupted(t *testing.T, b *backend.Backend) {
	written(t, b, matrixLog, nil, lines(interrupted))
}

func openDelayed(p *player) (*backend.Log, error) {
	l, _, err := p.b.Resume(p.t.Context(), matrixLog, backend.ResumeOptions{Delay: true})
	return l, err
}

// prepareSegments makes a log of four segments that are to be merged.
func prepareSegments(t *testing.T, b *backend.Backend) {
	for i := range 4 {
		l, err := b.Create(matrixLog, backend.CreateOptions{OrAdopt: true})
		if err != nil {
			t.Fatal(err)
		}
		appendOne(t, l, event(i))
		if err := l.Close(t.Context(), backend.CloseOptions{Seal: true}); err != nil {
			t.Fatal(err)
		}
	}
}
