package integration

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// ledger is what agents have told of their deeds, to be compared with the logs.
type ledger struct {
	mu      sync.Mutex
	entries map[deedID]*entry
	wrong   []string // what must not be, whatever is in the logs
	tally   tally
}

type deedID struct {
	agent string
	id    int64
}

// entry is a deed with all that is known about it by now.
type entry struct {
	deed
	tries   int
	wavered bool // it was done again, or its outcome was unknown for a while
	lost    bool // nobody can tell any more
}

// tally counts, to show that a test has met what it is about.
type tally struct {
	acked, repeated, decidedYes, decidedNo, lost int // deeds
	logs, events, segments, orphans, leftovers   int
}

func (t *tally) add(u tally) {
	t.acked, t.repeated, t.decidedYes, t.decidedNo, t.lost = t.acked+u.acked, t.repeated+u.repeated, t.decidedYes+u.decidedYes, t.decidedNo+u.decidedNo, t.lost+u.lost
	t.logs, t.events, t.segments, t.orphans, t.leftovers = t.logs+u.logs, t.events+u.events, t.segments+u.segments, t.orphans+u.orphans, t.leftovers+u.leftovers
}

func (t tally) String() string {
	return fmt.Sprintf("%d deeds acknowledged, %d of them when they were repeated; %d decided to be in the log, %d not to be, %d too late to tell; "+
		"%d logs, %d events, %d segments, %d objects that nobody names, %d temporary files",
		t.acked, t.repeated, t.decidedYes, t.decidedNo, t.lost, t.logs, t.events, t.segments, t.orphans, t.leftovers)
}

func newLedger() *ledger { return &ledger{entries: map[deedID]*entry{}} }

// take enters what an agent tells.
func (g *ledger) take(d deed) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := deedID{d.Agent, d.ID}
	e := g.entries[id]
	say := func(format string, args ...any) {
		g.wrong = append(g.wrong, fmt.Sprintf("%s %s/%d on %s: ", d.Do, d.Agent, d.ID, d.Log)+fmt.Sprintf(format, args...))
	}
	switch {
	case d.State == isBroken:
		say("%s", d.Error)
	case e == nil && d.State == isBegun:
		g.entries[id] = &entry{deed: d, tries: 1}
	case e == nil:
		say("%s, but was never begun", d.State)
	case d.Do == doDecide:
		g.decided(e, d, say)
	case d.State == isBegun:
		e.tries++
		e.wavered = true
		if e.State == isDone {
			say("is done again")
		}
	case d.State == isDone:
		if e.State == isFailed {
			say("is done, after %s", e.Error)
		}
		g.tally.acked++
		if d.Duplicate {
			g.tally.repeated++
			if e.tries == 1 {
				say("a duplicate of nothing")
			}
		}
		e.State, e.First, e.Got, e.Duplicate = isDone, d.First, d.Got, d.Duplicate
	case d.State == isUnknown:
		e.State, e.Token, e.Error, e.wavered = isUnknown, d.Token, d.Error, true
		if d.Token == "" && d.Do == doAppend {
			say("no token: %s", d.Error)
		}
	case d.State == isNever, d.State == isFailed && !e.wavered && d.Do != doImport: // which may have begun
		e.State, e.Error = isFailed, d.Error
	}
}

// decided enters a decision about e.
func (g *ledger) decided(e *entry, d deed, say func(string, ...any)) {
	switch {
	case d.State == isUnknown && strings.Contains(d.Error, "moved on too far"):
		e.lost = true
		g.tally.lost++
	case d.State != isDone: // it will be asked again
	case d.Committed:
		g.tally.decidedYes++
		if e.State == isFailed || e.State == isDone && e.First != d.First {
			say("decided to be at seq %d, after it was %s at %d", d.First, e.State, e.First)
		}
		e.State, e.First, e.Got = isDone, d.First, d.Got
	default:
		g.tally.decidedNo++
		if e.State == isDone {
			say("decided not to be in the log, after it was done")
		}
		e.State, e.Error = isFailed, "a decision"
	}
}

// open are the deeds of an agent of which it is not known, but can be known,
// what became of them. What has neither key nor token nor a log of its own
// remains unknown.
func (g *ledger) open(agent string) (left []deed) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.entries {
		name, _, _ := strings.Cut(e.Agent, ".")
		if name != agent || e.State != isBegun && e.State != isUnknown || e.lost {
			continue
		}
		if e.Do == doAppend && (e.Keyed || e.Token != "") || slices.Contains([]string{doFork, doReplay, doImport, doDelete}, e.Do) {
			left = append(left, e.deed)
		}
	}
	slices.SortFunc(left, func(a, b deed) int { return cmp.Compare(a.ID, b.ID) })
	return left
}

// next is a number that no event of an agent has.
func (g *ledger) next(agent string) (n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.entries {
		if name, _, _ := strings.Cut(e.Agent, "."); name == agent {
			n = max(n, e.ID+max(e.Count, 1))
		}
	}
	return n
}

// tag is in the data of every event of an agent.
var tag = regexp.MustCompile(`"data":\{"who":"([a-z0-9.]+)","n":([0-9]+),`)

// inquest is a comparison of the ledger with a store.
type inquest struct {
	*ledger
	t      *testing.T
	reader *backend.Reader
	lines  map[string][]string // of the logs that are there
	named  map[string]bool     // keys of objects
	void   map[string]bool     // keys of manifests where at most a void may be
}

// check compares what agents were told with what is in the store, while none of
// them runs.
func (g *ledger) check(t *testing.T, store objstore.Store) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range g.wrong {
		t.Error(w)
	}
	a := &inquest{ledger: g, t: t, reader: backend.NewReader(store, quick), lines: map[string][]string{}, named: map[string]bool{}, void: map[string]bool{}}
	byLog := map[string][]*entry{}
	for _, e := range g.entries {
		if e.Log != "" { // of a gc: all
			byLog[e.Log] = append(byLog[e.Log], e)
		}
	}
	ids := slices.Sorted(maps.Keys(byLog))
	infos := map[string]backend.Info{}
	for _, id := range ids {
		if info, ok := a.load(id); ok {
			infos[id] = info
		}
	}
	for _, id := range ids {
		entries := byLog[id]
		tried, deleted := deletion(entries)
		if now := infos[id].State == manifest.StateDeleted; now && !tried || deleted && !now {
			t.Errorf("%s is %q; a deletion was tried: %v, acknowledged: %v", id, infos[id].State, tried, deleted)
		} else if now {
			continue
		}
		slices.SortFunc(entries, func(a, b *entry) int { return cmp.Compare(a.ID, b.ID) })
		a.log(id, infos[id], entries)
	}
	// Nothing else is in the store but what the dead have left, which can be
	// collected.
	g.tally.orphans += len(a.unnamed(store))
	for now := time.Now(); ; time.Sleep(200 * time.Millisecond) { // a store may tell whole seconds
		for c, err := range backend.New(store, quick).GC(t.Context(), backend.GCOptions{Grace: time.Nanosecond}) {
			if err = errors.Join(err, c.Err); err != nil || len(faults(c.Findings)) > 0 {
				t.Errorf("gc of %s: %+v, %v", c.Prefix, c.Findings, err)
			}
		}
		left := a.unnamed(store)
		if len(left) == 0 {
			break
		}
		if time.Since(now) > 10*time.Second {
			t.Errorf("gc leaves %q", left)
			break
		}
	}
	for _, id := range ids {
		if rep, err := a.reader.Verify(t.Context(), id, backend.VerifyOptions{}); a.lines[id] != nil && (err != nil || !rep.OK()) {
			t.Errorf("after gc: verify %s: %+v, %v", id, rep.Findings, err)
		}
	}
}

// unnamed are the segments in the store that no manifest names. Everything else
// is a manifest, and all that is named is there.
func (a *inquest) unnamed(store objstore.Store) (keys []string) {
	a.t.Helper()
	missing := maps.Clone(a.named)
	for info, err := range store.List(a.t.Context(), "", "") {
		if err != nil {
			a.t.Fatal(err)
		}
		if missing[info.Key] {
			delete(missing, info.Key)
			continue
		}
		if a.void[info.Key] {
			continue
		}
		if strings.Contains(info.Key, ".sgwtmp.") {
			continue // what versitygw was writing when it was killed, and shows ever after
		}
		keys = append(keys, info.Key)
		if !strings.HasPrefix(info.Key, manifest.SegmentTree) {
			a.t.Errorf("%s is in the store", info.Key)
		}
	}
	for key := range missing {
		a.t.Errorf("%s is not listed", key)
	}
	return keys
}

// deletion says what is known of the deletion of a log.
func deletion(entries []*entry) (tried, done bool) {
	for _, e := range entries {
		if e.Do == doDelete {
			tried, done = true, done || e.State == isDone
		}
	}
	return tried, done
}

// load reads and verifies a log, if it is there.
func (a *inquest) load(id string) (backend.Info, bool) {
	a.t.Helper()
	info, err := a.reader.Info(a.t.Context(), id)
	if errors.Is(err, backend.ErrNotFound) {
		a.void[manifest.Key(id)] = true
		return info, false
	}
	if err != nil {
		a.t.Fatal(err)
	}
	a.named[manifest.Key(id)] = true
	if info.State == manifest.StateDeleted {
		return info, true
	}
	rep, err := a.reader.Verify(a.t.Context(), id, backend.VerifyOptions{})
	if err != nil || !rep.OK() {
		a.t.Errorf("verify %s: %+v, %v", id, rep.Findings, err)
	}
	got, err := lines(a.reader.Events(a.t.Context(), id, backend.ReadOptions{}))
	if err != nil || int64(len(got)) != info.Next {
		a.t.Fatalf("%s has %d events, the manifest says %d: %v", id, len(got), info.Next, err)
	}
	c, err := a.reader.Check(a.t.Context(), id, seedpath.Pairs["compaction"], backend.CheckOptions{})
	if want := scanned(a.t, got); err != nil || string(c.Answer) != want {
		a.t.Errorf("%s: %s, %v; a backward scan says %s", id, c.Answer, err, want)
	}
	a.lines[id] = got
	for _, s := range info.Segments {
		a.named[manifest.SegmentKey(id, s.Name)] = true
	}
	a.tally.logs++
	a.tally.events += len(got)
	a.tally.segments += len(info.Segments)
	return info, true
}

// log compares one log with the deeds that were done to it.
func (a *inquest) log(id string, info backend.Info, entries []*entry) {
	a.t.Helper()
	got, there := a.lines[id]
	own := int64(0) // where its own events begin
	if there && info.Origin.Parent != nil {
		own = info.Origin.Parent.UpTo
		if parent := a.lines[info.Origin.Parent.Log]; int64(len(parent)) < own || !slices.Equal(got[:own], parent[:own]) {
			a.t.Errorf("%s does not begin as %s", id, info.Origin.Parent.Log)
		}
	}
	places, boundaries := a.places(id, got, own)
	allowed := 0
	for _, e := range entries {
		what := fmt.Sprintf("%s %s/%d on %s, %s", e.Do, e.Agent, e.ID, id, e.State)
		switch e.Do {
		case doResume:
			allowed += e.tries
			if e.State == isDone && e.Got > 0 && !isBoundary(got, e.First+e.Got-1) {
				a.t.Errorf("%s at seq %d, %d events: no boundary is there", what, e.First, e.Got)
			}
			continue
		case doFork, doReplay:
			allowed++
			if e.State == isDone && !there || e.State == isFailed && there {
				a.t.Errorf("%s (%s): there: %v", what, e.Error, there)
			}
			if e.Do == doFork && there && own != e.At+1 {
				a.t.Errorf("%s: it has inherited %d events, want %d", what, own, e.At+1)
			}
		}
		a.deed(what, e, there, places[e])
	}
	if boundaries > allowed {
		a.t.Errorf("%s has %d boundaries, %d were written at most", id, boundaries, allowed)
	}
	a.order(id, places)
}

// places finds whose the events of a log are, from the seq own on. What belongs
// to no deed must be a boundary, which are counted, or close a turn.
func (a *inquest) places(id string, got []string, own int64) (places map[*entry][]int64, boundaries int) {
	a.t.Helper()
	places = map[*entry][]int64{}
	owner := map[deedID]*entry{} // by number of the event
	for _, e := range a.entries {
		for i := range e.Count {
			owner[deedID{e.Agent, e.ID + i}] = e
		}
	}
	for seq, line := range got {
		if int64(seq) < own {
			continue
		}
		m := tag.FindStringSubmatch(line)
		if m == nil {
			if isBoundary(got, int64(seq)) {
				boundaries++
			} else if !strings.HasPrefix(line, `{"type":"turn/end",`) {
				a.t.Errorf("seq %d of %s is nobody's: %.200s", seq, id, line)
			}
			continue
		}
		var n int64
		fmt.Sscan(m[2], &n)
		e := owner[deedID{m[1], n}]
		if e == nil || e.Log != id {
			a.t.Errorf("seq %d of %s was not appended to it: %.200s", seq, id, line)
			continue
		}
		if !strings.HasSuffix(line, `"data":`+e.data(n-e.ID)+"}") {
			a.t.Errorf("seq %d of %s is not what was appended: %.200s", seq, id, line)
		}
		if want := int64(len(places[e])); n-e.ID != want || want > 0 && places[e][want-1] != int64(seq)-1 {
			a.t.Errorf("seq %d of %s is event %d of %s %s/%d, where %d is due at most once", seq, id, n-e.ID, e.Do, e.Agent, e.ID, want)
		}
		places[e] = append(places[e], int64(seq))
	}
	return places, boundaries
}

// deed checks that what its agent was told about a deed is true.
func (a *inquest) deed(what string, e *entry, there bool, at []int64) {
	a.t.Helper()
	n := int64(len(at))
	whole := n == e.Count
	switch {
	case e.Do == doImport && e.State != isDone: // any part of it
	case n > 0 && !whole:
		a.t.Errorf("%s: %d of its %d events are there", what, n, e.Count)
	case e.State == isDone && !whole:
		a.t.Errorf("%s at seq %d: it is not there", what, e.First)
	case e.State == isFailed && n > 0:
		a.t.Errorf("%s (%s): it is there at seq %d", what, e.Error, at[0])
	case e.State == isDone && e.Do == doAppend && (at[0] != e.First || e.Got != e.Count):
		a.t.Errorf("%s at seq %d, %d events: %d are there at %d", what, e.First, e.Got, n, at[0])
	case (e.Do == doReplay || e.Do == doImport) && n > 0 && at[0] != 0:
		a.t.Errorf("%s: it begins at seq %d", what, at[0])
	case e.Do == doReplay && there && !whole:
		a.t.Errorf("%s: a log without its events", what)
	}
}

// order checks that what an agent has appended one after the other is in the log
// so. What was done again later, or in a lane of its own, may be anywhere.
func (a *inquest) order(id string, places map[*entry][]int64) {
	a.t.Helper()
	sorted := slices.SortedFunc(maps.Keys(places), func(a, b *entry) int { return cmp.Compare(a.ID, b.ID) })
	last := map[string]*entry{}
	for _, e := range sorted {
		if e.wavered {
			continue
		}
		if before := last[e.Agent]; before != nil && places[before][0] > places[e][0] {
			a.t.Errorf("%s: %s/%d is at seq %d, %s/%d before it at %d", id, e.Agent, e.ID, places[e][0], before.Agent, before.ID, places[before][0])
		}
		last[e.Agent] = e
	}
}

func isBoundary(lines []string, seq int64) bool {
	return seq < int64(len(lines)) && strings.HasPrefix(lines[seq], `{"type":"`+segment.TypeEndSeed+`",`)
}
