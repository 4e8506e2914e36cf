package manifest

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/segment"
)

// A moment, and what is a little older than a grace of a day and a little younger.
const (
	removalNow   = int64(100 * 24 * 3600 * 1000)
	removalOld   = removalNow - 24*3600*1000 - 1
	removalYoung = removalNow - 24*3600*1000
)

var aDay = Removal{Now: removalNow, Grace: 24 * time.Hour}

// segName makes a name that a test can tell from others.
func segName(first int64, epoch uint32, n byte) Name {
	return Name{First: first, Epoch: epoch, Nonce: Nonce{7: n}}
}

// removalLog is an open log in epoch 5: two segments, and two that a merge has
// replaced, one of them longer than the grace ago.
func removalLog() *Record {
	return &Record{State: StateOpen, Epoch: 5,
		Segments: []SegmentRef{{Name: segName(0, 4, 1)}, {Name: segName(10, 5, 2)}},
		Retired:  []Retired{{Name: segName(0, 2, 3), At: removalOld}, {Name: segName(5, 5, 4), At: removalOld}, {Name: segName(0, 3, 5), At: removalYoung}, {Name: segName(2, 5, 6), At: removalYoung}},
	}
}

func TestFates(t *testing.T) {
	void := &Record{State: StateVoid, Epoch: 5}
	buried := &Record{State: StateDeleted, Epoch: 5, Commit: CommitInfo{At: removalYoung}}
	deleted := &Record{State: StateDeleted, Epoch: 5, Commit: CommitInfo{At: removalOld}}
	for _, tc := range []struct {
		what string
		head *Record
		name Name
		at   int64
		want Fate
	}{
		{"named, of an older epoch", removalLog(), segName(0, 4, 1), removalOld, FateNamed},
		{"named, of this epoch", removalLog(), segName(10, 5, 2), removalOld, FateNamed},
		{"the same place and epoch, but another upload", removalLog(), segName(0, 4, 9), removalOld, FateStale},
		{"replaced long ago, of an older epoch", removalLog(), segName(0, 2, 3), removalOld, FateExpired},
		{"replaced long ago, of this epoch: no barrier [N10 N20]", removalLog(), segName(5, 5, 4), removalOld, FateExpired},
		{"replaced long ago, uploaded not so long ago", removalLog(), segName(5, 5, 4), removalNow, FateExpired},
		{"replaced a day ago, of an older epoch [M11]", removalLog(), segName(0, 3, 5), removalOld, FateRetired},
		{"replaced a day ago, of this epoch", removalLog(), segName(2, 5, 6), removalOld, FateRetired},
		{"never named, of an older epoch", removalLog(), segName(3, 4, 9), removalOld, FateStale},
		{"the same, just uploaded", removalLog(), segName(3, 4, 9), removalNow, FateStale},
		{"of this epoch [N4]", removalLog(), segName(3, 5, 9), removalOld, FateUnsettled},
		{"of this epoch, a day old", removalLog(), segName(3, 5, 9), removalYoung, FateYoung},
		{"of the next epoch, by whoever takes over", removalLog(), segName(3, 6, 9), removalOld, FateUnsettled},
		{"of the next epoch, a day old", removalLog(), segName(3, 6, 9), removalYoung, FateYoung},
		{"from a future by the store's clock", removalLog(), segName(3, 5, 9), removalNow + 1e9, FateYoung},
		{"as far above as may be", removalLog(), segName(3, 5+MaxEpochGap, 9), removalOld, FateUnsettled},
		{"further above", removalLog(), segName(3, 6+MaxEpochGap, 9), removalOld, FateForeign},
		{"as far as can be", removalLog(), segName(3, math.MaxUint32, 9), removalOld, FateForeign},
		{"of epoch 0, which no upload has", removalLog(), segName(3, 0, 9), removalOld, FateStale},

		{"no manifest", nil, segName(0, 1, 9), removalOld, FateUnsettled},
		{"no manifest, a day old", nil, segName(0, 1, 9), removalYoung, FateYoung},
		{"no manifest, far above", nil, segName(0, 1+MaxEpochGap, 9), removalOld, FateForeign},
		{"a void, below", void, segName(0, 4, 9), removalNow, FateStale},
		{"a void, its own epoch", void, segName(0, 5, 9), removalOld, FateUnsettled},
		{"a void, above: a fork that began on it [R8]", void, segName(0, 6, 9), removalOld, FateUnsettled},
		{"a void, above, a day old", void, segName(0, 6, 9), removalYoung, FateYoung},

		{"deleted a day ago, below its epoch", buried, segName(0, 4, 9), removalOld, FateBuried},
		{"deleted a day ago, above its epoch", buried, segName(0, 6, 9), removalOld, FateBuried},
		{"deleted long ago", deleted, segName(0, 4, 9), removalOld, FateDeleted},
		{"deleted long ago, and just uploaded by somebody who does not know", deleted, segName(0, 6, 9), removalNow, FateDeleted},
		{"deleted long ago, far above", deleted, segName(0, 6+MaxEpochGap, 9), removalOld, FateForeign},
	} {
		t.Run(tc.what, func(t *testing.T) {
			if got := aDay.Fates(tc.head, []Listed{{Name: tc.name, Modified: tc.at}}); got[0] != tc.want {
				t.Errorf("%s, want %s", got[0], tc.want)
			}
			if got := Foreign(tc.head, tc.name); got != (tc.want == FateForeign) {
				t.Errorf("foreign: %v", got)
			}
		})
	}
}

// Where no log is, one upload under way spares the others: a barrier would make
// whoever makes it begin anew. Where a log is, it does not.
func TestFatesOfSeveralObjects(t *testing.T) {
	listed := []Listed{{segName(0, 5, 1), removalOld}, {segName(0, 5, 2), removalYoung}, {segName(0, 1, 3), removalOld}}
	for _, tc := range []struct {
		what string
		head *Record
		want []Fate
	}{
		{"no manifest", nil, []Fate{FateYoung, FateYoung, FateYoung}},
		{"a void", &Record{State: StateVoid, Epoch: 2}, []Fate{FateYoung, FateYoung, FateStale}},
		{"a log", &Record{State: StateOpen, Epoch: 2}, []Fate{FateUnsettled, FateYoung, FateStale}},
	} {
		if got := aDay.Fates(tc.head, listed); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %s, want %s", tc.what, got, tc.want)
		}
	}
}

// Whatever an older version of a manifest lets go, no later one names: the reads
// of a collection may be as old as they like.
func TestOlderManifestsLetNothingGoThatIsNamedLater(t *testing.T) {
	w := Writer{ID: "owner"}
	d, err := Create(nil, w, Birth{Log: "log", Origin: Origin{Kind: KindFresh}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	versions := []*Record{finished(t, d)}
	step := func(begin func(base *Record) (*Draft, error), change func(d *Draft)) {
		d, err := begin(versions[len(versions)-1])
		if err != nil {
			t.Fatal(err)
		}
		change(d)
		versions = append(versions, finished(t, d))
	}
	owner := func(base *Record) (*Draft, error) { return Continue(base, w, removalNow) }
	before := func(base *Record) (*Draft, error) { return Continue(base, w, removalOld) }
	taker := func(base *Record) (*Draft, error) {
		w.ID += "'"
		return TakeOver(base, w, KindAdopt, removalNow)
	}
	gc := func(base *Record) (*Draft, error) { return Maintain(base, Writer{ID: "gc"}, removalNow) }
	n := byte(0)
	seal := func(d *Draft) {
		ev := note(t, d.Next())
		d.Append(ev)
		n++
		d.Seal(Upload{Ref: SegmentRef{Name: segName(d.Base().TailFirst(), d.Epoch(), n), Count: d.Next() - d.Base().TailFirst(), Bytes: 1, Raw: 1},
			TailFirst: d.Base().TailFirst(), Commit: d.CommitID()})
		d.SetTail(nil)
	}
	for range 3 {
		step(owner, seal)
		step(owner, seal)
		step(gc, func(d *Draft) { d.Barrier(0) })
		step(owner, seal)
		step(taker, seal)
		step(before, func(d *Draft) {
			n++
			in := d.Base().Segments[:2]
			d.Merge(Upload{Ref: SegmentRef{Name: segName(0, d.Epoch(), n), Count: in[0].Count + in[1].Count, Bytes: 1, Raw: 1},
				Inputs: []Name{in[0].Name, in[1].Name}, TailFirst: -1})
		})
	}
	pairs := 0
	for i, older := range versions {
		for _, later := range versions[i:] {
			var listed []Listed
			for _, s := range later.Segments {
				listed = append(listed, Listed{s.Name, removalOld})
			}
			for k, f := range aDay.Fates(older, listed) {
				if f.MayGo() {
					t.Errorf("by revision %d, %s may go (%s): revision %d names it", older.Revision, listed[k].Name, f, later.Revision)
				}
				pairs++
			}
		}
	}
	if pairs < 100 {
		t.Errorf("%d pairs", pairs)
	}
}

func note(t *testing.T, seq int64) segment.Event {
	t.Helper()
	e, err := segment.ParseEvent(fmt.Appendf(nil, `{"type":"note","seq":%d,"time":1,"data":null}`, seq), segment.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func finished(t *testing.T, d *Draft) *Record {
	t.Helper()
	p, err := d.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return p.Record
}

// A barrier is above the epoch of the manifest and of all that was listed, and
// changes nothing else of an open log but what was retired longer than the grace
// ago.
func TestBarrierOfACollection(t *testing.T) {
	w := Writer{ID: "gc"}
	listed := []Listed{{segName(0, 9, 1), 0}, {segName(0, 3, 2), 0}}
	t.Run("on a log", func(t *testing.T) {
		base := openRecord()
		base.Retired = []Retired{{segName(0, 1, 3), removalOld}, {segName(0, 1, 4), removalYoung}}
		p, err := aDay.Barrier(base, base.Log, w, listed)
		if err != nil {
			t.Fatal(err)
		}
		want := *base
		want.Epoch, want.Revision, want.Commit, want.Retired = 10, base.Revision+1, p.Record.Commit, base.Retired[1:]
		if diff := cmp.Diff(&want, p.Record); diff != "" {
			t.Error(diff)
		}
		if p.Intent.Kind != IntentMaintain || p.Record.Commit.Writer != "gc" {
			t.Errorf("%+v", p)
		}
		if len(base.Retired) != 2 {
			t.Error("the base was changed")
		}
		base.Epoch = 12
		if p, err = aDay.Barrier(base, base.Log, w, listed); err != nil || p.Record.Epoch != 13 {
			t.Errorf("%+v, %v", p, err)
		}
	})
	t.Run("where nothing is", func(t *testing.T) {
		p, err := aDay.Barrier(nil, "log", w, listed)
		if err != nil || p.Record.State != StateVoid || p.Record.Epoch != 10 || p.Record.Revision != 1 || p.Intent.Base != "" {
			t.Fatalf("%+v, %v", p, err)
		}
		again, err := aDay.Barrier(p.Record, "log", w, nil)
		if err != nil || again.Record.State != StateVoid || again.Record.Epoch != 11 || again.Record.Revision != 2 || again.Intent.Base != p.Record.Commit.ID {
			t.Fatalf("%+v, %v", again, err)
		}
		if d, err := Create(again.Record, w, Birth{Log: "log", Origin: Origin{Kind: KindFresh}}, 0); err != nil || d.Epoch() != 12 {
			t.Errorf("a create on it: %v", err)
		}
	})
	t.Run("at the last epoch", func(t *testing.T) {
		last := []Listed{{segName(0, math.MaxUint32, 1), 0}}
		for _, base := range []*Record{nil, openRecord()} {
			if p, err := aDay.Barrier(base, "log", w, last); err == nil {
				t.Errorf("%+v", p.Record)
			}
		}
	})
	t.Run("on a tombstone", func(t *testing.T) {
		if _, err := aDay.Barrier(&Record{State: StateDeleted}, "log", w, listed); err == nil {
			t.Error("none is needed, and none is possible")
		}
	})
}

// Commits forget what was retired a week ago.
func TestCommitsForgetWhatWasRetiredLongAgo(t *testing.T) {
	base := openRecord()
	base.Retired = nil
	for i := range byte(3) {
		base.Retired = append(base.Retired, Retired{segName(0, 1, 10+i), removalNow - KeepRetired.Milliseconds() - 1 + int64(i)})
	}
	d, err := Continue(base, Writer{ID: base.Owner.Writer}, removalNow)
	if err != nil {
		t.Fatal(err)
	}
	d.Append(note(t, base.Next))
	d.SetTail([]byte("frames"))
	if diff := cmp.Diff(base.Retired[1:], finished(t, d).Retired); diff != "" || len(base.Retired) != 3 {
		t.Errorf("%d in the base\n%s", len(base.Retired), diff)
	}
}

func TestParseSegmentPrefix(t *testing.T) {
	for _, id := range []string{"demo", "a/b", "ü", "..", string(make([]byte, 300))} {
		key, got, ok := ParseSegmentPrefix(SegmentPrefix(id))
		if _, exact, _ := UnescapeID(EscapeID(id)); !exact {
			if got != "" || !ok {
				t.Errorf("%q, %v", got, ok)
			}
			continue
		}
		if got != id || key != Key(id) || !ok {
			t.Errorf("%q: %q, %q, %v", id, key, got, ok)
		}
	}
	for _, prefix := range []string{"", "segments/", "segments/a", "segments/a/b/", "segments/a b/", "manifests/a/", "segments/=41/"} {
		if key, id, ok := ParseSegmentPrefix(prefix); ok {
			t.Errorf("%q: %q, %q", prefix, key, id)
		}
	}
}

func TestProbeKey(t *testing.T) {
	for key, want := range map[string]bool{
		"probe/0123456789abcdef": true, "probe/": false, "probe/x": false, "probe/0/1": false, "probe/AB": false, "segments/0": false,
		BenchPrefix(Nonce{1, 2}) + "append/manifests/log.json": true, BenchPrefix(Nonce{}): false, "probe/bench-0": false, "probe/bench-/x": false, "probe/bench-x/1": false,
	} {
		if got := ProbeKey(key); got != want {
			t.Errorf("%q: %v", key, got)
		}
	}
}
