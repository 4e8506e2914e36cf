package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// pairing follows one of the known brackets.
type pairing struct {
	Name string
	seedpath.Pair
	scan *seedpath.Scan
	open map[int64]*item // seq of an opening event → its item, nil for a turn
}

func newPairings() (list []*pairing) {
	for _, name := range slices.Sorted(maps.Keys(seedpath.Pairs)) {
		p := seedpath.Pairs[name]
		list = append(list, &pairing{Name: name, Pair: p, scan: seedpath.NewScan(p), open: make(map[int64]*item)})
	}
	return list
}

// open notes the item of an opening event.
func (t *timeline) open(name string, ev segment.Event, i *item) {
	for _, p := range t.pairs {
		if p.Name == name {
			if p.ID == "" {
				clear(p.open) // one that is not closed cannot be any more
			}
			p.open[ev.Seq] = i
		}
	}
}

// close shows every bracket an event, and ends the item of the one that it
// closes.
func (t *timeline) close(b *block, ev segment.Event, synthetic bool) (closes bool) {
	for _, p := range t.pairs {
		opened, ok := p.scan.Add(ev)
		if !ok {
			continue
		}
		closes = true
		i := p.open[opened]
		delete(p.open, opened)
		if i == nil {
			continue
		}
		i.Ends, i.EndSeq, i.Took, i.Synthetic = true, ev.Seq, ev.Time-i.time, synthetic
		switch p.Name {
		case "tool":
			t.result(b, i, ev, synthetic)
		case "step":
		default:
			i.Tag, i.Class, i.Result = "closed", "good", cut(string(ev.Data), t.limits.Preview/2)
		}
	}
	return closes
}

// unmatched marks the items whose bracket nothing closed.
func (t *timeline) unmatched() {
	for _, p := range t.pairs {
		for seq, i := range p.open {
			if i == nil {
				continue
			}
			if t.broken {
				i.Tag, i.Class = "end not seen", "warn"
				continue
			}
			what := string(seedpath.Live)
			if b := t.info.Content.Boundary; b != nil && b.Seq > seq {
				what = string(seedpath.Stale)
			}
			i.Tag = strings.TrimPrefix(i.Tag+", "+what, ", ")
			if what == string(seedpath.Live) {
				i.Class = "open"
			}
		}
	}
}

// verdict is what the page says about one bracket.
type verdict struct {
	Pair *pairing
	seedpath.Verdict
	Known     bool
	Opened    int64 // events of the opening type
	Closed    int64
	Unmatched []int64 // the newest of them
	More      int     // that are not in Unmatched
	WithoutID int64
	Words     string
	Evidence  string
	Replaced  bool
}

// maxUnmatched is how many seqs a verdict names.
const maxUnmatched = 20

// verdicts judges all brackets of which the log has an event. unused are the
// names of the others.
func (t *timeline) verdicts() (list []verdict, unused []string) {
	for _, p := range t.pairs {
		v := verdict{Pair: p, Opened: t.count(p.Open), Closed: t.count(p.Close), WithoutID: p.scan.WithoutID()}
		if v.Opened == 0 && v.Closed == 0 {
			unused = append(unused, p.Name)
			continue
		}
		t.judge(&v)
		list = append(list, v)
	}
	return list, unused
}

// count is how many events of a type there are: the manifest knows, unless the
// log has so many types that it counts some together.
func (t *timeline) count(typ string) int64 {
	if c, exact := t.info.Content.Types.Get(typ); exact {
		return c.Count
	}
	if s := t.types[typ]; s != nil {
		return s.Count
	}
	return 0
}

// judge derives a verdict from the manifest, if that tells, and from the events,
// if all of them were read; and says on what it rests.
func (t *timeline) judge(v *verdict) {
	said, byManifest := t.info.Judge(v.Pair.Open, v.Pair.Close)
	byManifest = byManifest && v.Pair.ID == ""
	found := t.info.JudgeScan(v.Pair.scan)
	switch {
	case byManifest:
		v.Verdict, v.Known = said, true
	case !t.broken:
		v.Verdict, v.Known = found, true
	}
	if !v.Known {
		v.Words = "not judged: that takes all events, and some of them cannot be read"
		v.Evidence = "none"
		return
	}
	v.Evidence = fmt.Sprintf("revision %d", t.info.Revision)
	switch {
	case byManifest && t.broken:
		v.Evidence += ", the manifest alone: events are missing or damaged"
	case byManifest && !same(said, found):
		v.Evidence += fmt.Sprintf(", the manifest; the events say %s: one of them is damaged", found.Answer)
	case byManifest:
		v.Evidence += ", the manifest, and the events agree"
	default:
		v.Evidence += fmt.Sprintf(", the events (%s opening, %s closing)", number(v.Opened), number(v.Closed))
	}
	if !t.broken {
		all := v.Pair.scan.Unmatched()
		v.More = max(0, len(all)-maxUnmatched)
		v.Unmatched = all[v.More:]
	}
	v.Replaced = v.Answer == seedpath.Live && v.Open.Generation < v.Generation
	v.Words = verdictWords(v)
}

func same(a, b backend.Verdict) bool {
	return a.Answer == b.Answer && (a.Open == nil) == (b.Open == nil) && (a.Open == nil || a.Open.Seq == b.Open.Seq)
}

// verdictWords says why a verdict is what it is.
func verdictWords(v *verdict) string {
	p := v.Pair
	switch {
	case v.Answer == seedpath.Stale:
		return fmt.Sprintf("%s at seq %d has no %s, but the boundary at seq %d came after it: the lifecycle that wrote it has ended", p.Open, v.Open.Seq, p.Close, v.Bound.Seq)
	case v.Replaced:
		return fmt.Sprintf("%s at seq %d has no %s, and no boundary came after it. Its writer has been replaced by one that adopted the log", p.Open, v.Open.Seq, p.Close)
	case v.Answer == seedpath.Live:
		return fmt.Sprintf("%s at seq %d has no %s, and no boundary came after it", p.Open, v.Open.Seq, p.Close)
	case p.ID != "":
		return fmt.Sprintf("every %s has its %s", p.Open, p.Close)
	}
	return fmt.Sprintf("no %s waits for its %s", p.Open, p.Close)
}
