package manifest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Fate is what the rule of removal says about one object below the segments of
// a log (docs/consistency.md): whether it may go, or why it stays.
type Fate string

// Objects that stay.
const (
	// FateNamed: the manifest names it.
	FateNamed Fate = "named"
	// FateRetired: a merge has replaced it within the grace; readers of an older
	// manifest may be on their way to it.
	FateRetired Fate = "retired"
	// FateBuried: it belonged to a log that was deleted within the grace.
	FateBuried Fate = "buried"
	// FateYoung: nobody names it, and it is not older than the grace: what it was
	// uploaded for may still be under way.
	FateYoung Fate = "young"
	// FateUnsettled: nobody names it, and it is older than the grace, but a commit
	// that names it may still arrive. It may go behind a barrier.
	FateUnsettled Fate = "unsettled"
	// FateForeign: its epoch is further above the manifest's than any upload of
	// this log can be.
	FateForeign Fate = "foreign"
)

// Objects that may go.
const (
	// FateStale: nobody names it, and its epoch is below the manifest's, so that
	// no commit can ever name it.
	FateStale Fate = "stale"
	// FateExpired: it was replaced longer than the grace ago, and what was named
	// once is never named again.
	FateExpired Fate = "expired"
	// FateDeleted: its log was deleted longer than the grace ago.
	FateDeleted Fate = "deleted"
)

// MayGo reports whether the object may be removed.
func (f Fate) MayGo() bool { return f == FateStale || f == FateExpired || f == FateDeleted }

// MaxEpochGap is how far above the manifest's epoch that of an object may be. An
// upload is at most one above; a manifest that was restored from a backup may be
// behind by more.
const MaxEpochGap = 1 << 16

// KeepRetired is how long commits keep the names of replaced segments. A collection
// whose grace is shorter finds them, and so needs no barrier to remove them; with
// a longer one readers have only this long.
const KeepRetired = 7 * 24 * time.Hour

// Listed is an object of a log, as a LIST has shown it.
type Listed struct {
	Name     Name
	Modified int64 // ms, store clock
}

// Removal is the rule of removal at one moment.
type Removal struct {
	Now   int64         // ms, store clock
	Grace time.Duration // how long readers and uploads are spared
}

// Past reports whether something at a time is longer ago than the grace.
func (rm Removal) Past(at int64) bool { return rm.Now-at > rm.Grace.Milliseconds() }

// Fates judges the listed objects of one log by its manifest; head is nil where
// there is none. It does not matter whether the objects were listed before the
// manifest was read or after it, nor how old either of them is: what may go by
// any version of the manifest may go for ever.
func (rm Removal) Fates(head *Record, listed []Listed) []Fate {
	named, retired := map[Name]bool{}, map[Name]int64{}
	var epoch uint32
	var state LogState
	if head != nil {
		epoch, state = head.Epoch, head.State
		for i := range head.Segments {
			named[head.Segments[i].Name] = true
		}
		for _, r := range head.Retired {
			retired[r.Name] = r.At
		}
	}
	fates := make([]Fate, len(listed))
	for i, l := range listed {
		at, replaced := retired[l.Name]
		switch {
		case named[l.Name]:
			fates[i] = FateNamed
		case foreign(epoch, l.Name):
			fates[i] = FateForeign
		case state == StateDeleted && rm.Past(head.Commit.At):
			fates[i] = FateDeleted
		case state == StateDeleted:
			fates[i] = FateBuried
		case replaced && rm.Past(at):
			fates[i] = FateExpired
		case replaced:
			fates[i] = FateRetired
		case l.Name.Epoch < epoch:
			fates[i] = FateStale
		case rm.Past(l.Modified):
			fates[i] = FateUnsettled
		default:
			fates[i] = FateYoung
		}
	}
	if state == StateOpen {
		return fates
	}
	// Where no log is, whoever is just making one would have to begin anew after a
	// barrier, so that waits until nobody is.
	if slices.Contains(fates, FateYoung) {
		for i, f := range fates {
			if f == FateUnsettled {
				fates[i] = FateYoung
			}
		}
	}
	return fates
}

// foreign reports whether an upload of this name cannot have been begun for a
// manifest of this epoch, nor for a little later one.
func foreign(epoch uint32, n Name) bool { return uint64(n.Epoch) > uint64(epoch)+MaxEpochGap }

// Foreign reports whether an object has FateForeign; head is nil where there is
// no manifest.
func Foreign(head *Record, n Name) bool {
	if head == nil {
		return foreign(0, n)
	}
	return foreign(head.Epoch, n)
}

// Barrier proposes the commit behind which no listed object can be named any more
// that the manifest does not name then: its epoch is above base's and above all
// of theirs. On an open log that is maintenance, which changes neither events nor
// owner, and drops what was retired longer than the grace ago; on a void a new
// revision of it; where nothing is (base nil), a void of the log id. A tombstone
// needs none.
func (rm Removal) Barrier(base *Record, id string, w Writer, listed []Listed) (*Proposal, error) {
	var highest uint32
	for _, l := range listed {
		highest = max(highest, l.Name.Epoch)
	}
	if base == nil || base.State == StateVoid {
		if base != nil {
			highest = max(highest, base.Epoch)
		}
		if highest == math.MaxUint32 {
			return nil, fmt.Errorf("manifest: no void above epoch %d", highest)
		}
		return voidAbove(base, id, w, highest, rm.Now)
	}
	d, err := Maintain(base, w, rm.Now)
	if err != nil {
		return nil, err
	}
	d.dropRetired(rm)
	d.Barrier(highest)
	return d.Finish()
}

// dropRetired forgets what was replaced longer than the grace ago.
func (d *Draft) dropRetired(rm Removal) {
	if slices.ContainsFunc(d.next.Retired, func(r Retired) bool { return rm.Past(r.At) }) {
		d.next.Retired = slices.DeleteFunc(slices.Clone(d.next.Retired), func(r Retired) bool { return rm.Past(r.At) })
	}
}

// ParseSegmentPrefix finds the log whose segments have keys that begin with
// prefix, the inverse of SegmentPrefix: the key of its manifest, and its id,
// which is empty where only the manifest itself knows it (UnescapeID). ok is
// false where no log has such segments.
func ParseSegmentPrefix(prefix string) (key, id string, ok bool) {
	escaped, tree := strings.CutPrefix(prefix, SegmentTree)
	escaped, whole := strings.CutSuffix(escaped, "/")
	id, _, ok = UnescapeID(escaped)
	return ManifestPrefix + escaped + manifestSuffix, id, ok && tree && whole
}

// BenchPrefix begins the keys of one benchmark: a store of its own, which is part
// of no log of the store around it.
func BenchPrefix(n Nonce) string { return ProbePrefix + benchMark + n.String() + "/" }

const benchMark = "bench-"

// ProbeKey reports whether a key is one that store proofs or benchmarks write to.
func ProbeKey(key string) bool {
	nonce, ok := strings.CutPrefix(key, ProbePrefix)
	if mark, below, deeper := strings.Cut(nonce, "/"); ok && deeper {
		nonce, ok = strings.CutPrefix(mark, benchMark)
		ok = ok && below != ""
	}
	return ok && nonce != "" && lowerHex(nonce)
}
