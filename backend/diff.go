package backend

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// DiffBy is what told where two logs part.
type DiffBy string

const (
	// ByRoots: the Merkle trees in the two manifests alone.
	ByRoots DiffBy = "roots"
	// ByOrigin: one was forked from the other, or both from a third, and says so.
	ByOrigin DiffBy = "origin"
	// ByEvents: the events were compared.
	ByEvents DiffBy = "events"
)

// DiffOptions say how two logs are compared.
type DiffOptions struct {
	// Parent reads the parent, where that is in another store; nil: this Reader.
	Parent *Reader
	// Verify compares the events one by one, whatever origins and trees say, and
	// counts the own events of both by reading them.
	Verify bool
	// Events is how many events of each, from where they part on, are wanted in Rows.
	Events int64
}

// Diff says where two logs part.
type Diff struct {
	Parent, Child DiffSide
	Common        int64 // both begin with the same so many events
	By            DiffBy
	// Origin is how many events the two share by what their origins say; -1 where
	// neither comes from the other, nor both from the same log.
	Origin int64
	// Doubt says why an origin was not believed. It is empty where it was, and
	// where there was none.
	Doubt string
	// Proved is how many events the trees in the two manifests prove to be the
	// same, without reading any.
	Proved int64
	Root   *segment.Hash // over the common events; nil where nothing told it
	Rows   []DiffRow     // the events side by side, from seq Common on
}

// DiffSide is what one of the two has.
type DiffSide struct {
	Log, UID string
	Revision int64
	Next     int64
	Root     segment.Hash
	LastTime *int64 // of its last event, ms; nil if it has none
	// Own is the number of its events behind the common ones, Types what they are,
	// in the order of the manifest.
	Own   int64
	Types []DiffType
}

// DiffType is how often a type is among the own events of a log.
type DiffType struct {
	Type  string // "" for all beyond the 256th type of the log together
	Count int64  // -1: at least one; only reading the events would tell
	Last  int64  // seq
}

// DiffRow is one place in the two logs.
type DiffRow struct {
	Seq           int64
	Parent, Child *segment.Event // nil behind the end of a log
}

// Diff compares two logs: how many events both begin with, and what each has
// behind them. Where one was forked from the other, or both from the same log,
// their manifests answer: one GET each, for logs of any length. Otherwise the
// trees in the manifests and segments that both have show where to begin to
// read, and events are compared until they differ. Memory and errors are those
// of Events; any difference is a result, and no error.
func (r *Reader) Diff(ctx context.Context, parent, child string, opt DiffOptions) (Diff, error) {
	d := comparison{p: diffLog{r: r, id: parent}, c: diffLog{r: r, id: child}, opt: opt}
	if opt.Parent != nil {
		d.p.r = opt.Parent
	}
	for _, s := range []*diffLog{&d.p, &d.c} {
		var err error
		if s.head, err = s.r.open(ctx, s.id); err != nil {
			return Diff{}, opError("diff", s.id, err)
		}
	}
	if err := d.run(ctx); err != nil {
		return Diff{}, err
	}
	return d.out, nil
}

// diffLog is one of two logs that are compared.
type diffLog struct {
	r    *Reader
	id   string
	head manifest.Head
}

func (s *diffLog) rec() *manifest.Record { return s.head.Record }

// lines yields the events from seq from up to but not including to.
func (s *diffLog) lines(ctx context.Context, from, to int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) { _, _ = s.r.span(ctx, s.head, from, to, yield) }
}

// events hands the parsed events of lines to add.
func (s *diffLog) events(ctx context.Context, from, to int64, add func(segment.Event)) error {
	for e, err := range s.lines(ctx, from, to) {
		var ev segment.Event
		if err == nil {
			ev, err = e.Parse()
		}
		if err != nil {
			return err
		}
		add(ev)
	}
	return nil
}

// comparison is one of two logs, on its way to a Diff.
type comparison struct {
	p, c diffLog
	opt  DiffOptions
	out  Diff
}

func (d *comparison) run(ctx context.Context) error {
	p, c := d.p.rec(), d.c.rec()
	least := min(p.Next, c.Next)
	proved, below := sharedTree(p.Content.Tree, c.Content.Tree)
	d.out.Proved, d.out.Origin = proved, -1
	d.out.Root = d.fork(below)
	switch {
	case d.opt.Verify:
		if err := d.verify(ctx, least); err != nil {
			return err
		}
	case proved == least:
		d.out.By, d.out.Common = ByRoots, proved
	case d.out.Origin >= proved && d.out.Doubt == "":
		d.out.By, d.out.Common = ByOrigin, d.out.Origin
	default:
		if err := d.compare(ctx, max(proved, sharedSegments(p, c)), least, func(Event) error { return nil }); err != nil {
			return err
		}
	}
	d.root()
	if err := d.sides(ctx); err != nil {
		return err
	}
	return d.rows(ctx)
}

// fork finds what the origins of the two say that they share, and the root over
// that; and why that cannot be, if it cannot. The trees of the two differ below
// the seq below, unless that is -1.
func (d *comparison) fork(below int64) *segment.Hash {
	p, c := d.p.rec(), d.c.rec()
	fork := func(o *manifest.Origin) *manifest.Parent {
		if o.Kind != manifest.KindFork {
			return nil
		}
		return o.Parent
	}
	var from *manifest.Parent
	switch of, other := fork(c.Origin), fork(p.Origin); {
	case of != nil && of.UID == p.UID:
		from = of
	case other != nil && other.UID == c.UID:
		from = other
	case of != nil && other != nil && of.UID == other.UID:
		if from = of; other.UpTo < of.UpTo {
			from = other
		}
	case of != nil && of.Log == p.Log:
		d.out.Doubt = fmt.Sprintf("the child was forked from another log of this id, with uid %s", of.UID)
		return nil
	default:
		return nil
	}
	d.out.Origin = from.UpTo
	for _, r := range []*manifest.Record{p, c} {
		switch {
		case r.Next < from.UpTo:
			d.out.Doubt = fmt.Sprintf("log %s has %s, and had %d when it was forked", strconv.QuoteToASCII(r.Log), words.Count(r.Next, "event"), from.UpTo)
		case r.Next == from.UpTo && r.Content.Tree.Root != from.Root:
			d.out.Doubt = fmt.Sprintf("log %s has root %s at %s, the origin says %s", strconv.QuoteToASCII(r.Log), r.Content.Tree.Root, words.Count(from.UpTo, "event"), from.Root)
		}
	}
	if d.out.Doubt == "" && below >= 0 && below <= from.UpTo {
		d.out.Doubt = fmt.Sprintf("the trees differ among the first %d events, %d were inherited", below, from.UpTo)
	}
	if d.out.Doubt != "" {
		return nil
	}
	root := from.Root
	return &root
}

// sharedTree compares the perfect subtrees that two trees have in the same
// places: the first n events are the same, and if differ is not -1, the first
// differ are not.
func sharedTree(a, b segment.Tree) (n, differ int64) {
	for i := 0; i < len(a.Range) && i < len(b.Range); i++ {
		// The next one covers as many events as the greatest power of two that is
		// left of the size.
		size := highBit(a.Size - n)
		switch {
		case size != highBit(b.Size-n):
			return n, -1
		case a.Range[i] != b.Range[i]:
			return n, n + size
		}
		n += size
	}
	return n, -1
}

// highBit is the greatest power of two that is not above n, which is positive.
func highBit(n int64) int64 {
	bit := int64(1)
	for bit <= n/2 {
		bit *= 2
	}
	return bit
}

// sharedSegments is how many events are in the first segments of two logs, as
// long as both have the same.
func sharedSegments(a, b *manifest.Record) (n int64) {
	for i := 0; i < len(a.Segments) && i < len(b.Segments); i++ {
		x, y := a.Segments[i], b.Segments[i]
		if x.SHA256 != y.SHA256 || x.Bytes != y.Bytes || x.Count != y.Count {
			break
		}
		n += x.Count
	}
	return n
}

// verify compares all events, and the root over what was inherited with the one
// in the origin.
func (d *comparison) verify(ctx context.Context, to int64) error {
	said, from := d.out.Root, d.out.Origin
	fold, err := manifest.NewFold(segment.NewState(), d.p.rec().ActivityRule)
	if err != nil {
		return err
	}
	doubt := func(format string, args ...any) {
		if d.out.Doubt == "" {
			d.out.Doubt = fmt.Sprintf(format, args...)
		}
	}
	check := func() {
		if said == nil || fold.Size() != from {
			return
		}
		if root := fold.State().Tree.Root; root != *said {
			doubt("the first %d events have root %s, the origin says %s", from, root, *said)
		}
	}
	check()
	err = d.compare(ctx, 0, to, func(e Event) error {
		ev, err := e.Parse()
		if err == nil {
			fold.Add(ev)
			check()
		}
		return err
	})
	if err != nil {
		return err
	}
	if d.out.Common < from {
		doubt("the events part at seq %d, %d were inherited", d.out.Common, from)
	}
	root := fold.State().Tree.Root
	d.out.Root = &root
	return nil
}

// compare reads both from seq from on, up to but not including to, until their
// events differ, and hands the common ones to same.
func (d *comparison) compare(ctx context.Context, from, to int64, same func(Event) error) error {
	d.out.By, d.out.Common = ByEvents, to
	next, stop := iter.Pull2(d.c.lines(ctx, from, to))
	defer stop()
	for e, err := range d.p.lines(ctx, from, to) {
		if err != nil {
			return err
		}
		other, err, _ := next()
		if err != nil {
			return err
		}
		if !bytes.Equal(e.Line, other.Line) {
			d.out.Common = e.Seq
			return nil
		}
		if err := same(e); err != nil {
			return err
		}
	}
	return nil
}

// root finds the root over the common events, where one of the two ends there or
// the origin tells.
func (d *comparison) root() {
	n := d.out.Common
	if d.opt.Verify {
		return
	}
	if n != d.out.Origin {
		d.out.Root = nil
	}
	for _, s := range []*diffLog{&d.p, &d.c} {
		if r := s.rec(); r.Next == n {
			d.out.Root = &r.Content.Tree.Root
		}
	}
}

// rows reads the events from where the two part on.
func (d *comparison) rows(ctx context.Context) error {
	from := d.out.Common
	collect := func(s *diffLog) (list []segment.Event, err error) {
		to := min(s.rec().Next, from+d.opt.Events)
		if from >= to {
			return nil, nil
		}
		err = s.events(ctx, from, to, func(e segment.Event) {
			e.Line = bytes.Clone(e.Line)
			e.Data = nil // it is a part of the line that was read
			list = append(list, e)
		})
		return list, err
	}
	ps, err := collect(&d.p)
	if err != nil {
		return err
	}
	cs, err := collect(&d.c)
	if err != nil {
		return err
	}
	for i := range max(len(ps), len(cs)) {
		row := DiffRow{Seq: from + int64(i)}
		if i < len(ps) {
			row.Parent = &ps[i]
		}
		if i < len(cs) {
			row.Child = &cs[i]
		}
		d.out.Rows = append(d.out.Rows, row)
	}
	return nil
}
