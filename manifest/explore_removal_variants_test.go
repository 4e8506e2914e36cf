package manifest

import (
	"math"
	"slices"
	"testing"
)

// TestBrokenRemoval is TestBrokenRules for what is removed, and what protects
// it.
func TestBrokenRemoval(t *testing.T) {
	for _, tc := range []change{
		// What gc may remove.
		{"gc removes at the current epoch [N4]", "owner, gc and reader", fated(FateUnsettled, FateStale), "DANGLING"},
		{"the same of what a takeover has uploaded [X5]", "taker and two gcs", fated(FateUnsettled, FateStale), "DANGLING"},
		{"the same as a reader sees it", "owner, gc and reader", all(fated(FateUnsettled, FateStale), ignoring("DANGLING")), "DAMAGE"},
		{"a grace counted from the upload [M11 B3r]", "reader within the grace", fated(FateRetired, FateExpired), "READ404"},
		{"a deleted log's segments without a grace", "deleted within the grace", fated(FateBuried, FateDeleted), "READ404"},

		// Barriers.
		{"a barrier that keeps the epoch [N3]", "owner and gc twice", all(tweaked(sameEpoch), freeBehindBarrier), "DANGLING"},
		{"gc goes by the manifest that it read before its barrier [N15]", "owner and gc twice", firstRead, "DANGLING"},
		{"an unconditional barrier [N15]", "owner and gc twice", func(c *config) { c.broken.blind = true }, "EPOCHFALL"},
		{"gc lists again behind its barrier [X6]", "owner and gc twice", all(freeBehindBarrier, func(c *config) { c.broken.relist = true }), "DANGLING"},

		// Voids and tombstones.
		{"a create on a void begins at epoch 1 [N13]", "forker and create on a void", epochFromNothing, "EPOCHFALL"},
		{"the same, where nobody minds the epoch", "two forkers and gc", all(epochFromNothing, ignoring("EPOCHFALL")), "DANGLING"},
		{"a void of epoch 0 [N5a]", "forker and gc", all(voidOfEpoch0, func(c *config) { c.broken.kept = true }, ignoring("EPOCHFALL")), "DANGLING"},
		{"a void that is there is taken for settled [R8 X9]", "forker and create on a void", settledVoid, "DANGLING"},
		{"a void is removed [N11 X12]", "forker and gc", removed, "DANGLING"},
		{"a void is removed [V12]", "settled create", removed, "LIE"},
		{"a tombstone is removed [V12 V17 V17b]", "deleted create", removed, "RECREATE"},
		{"a tombstone drops the takeovers [V16]", "deleted", tweaked(func(_, r *Record, _ *Intent) {
			if r.State == StateDeleted {
				r.Generations = r.Generations[len(r.Generations)-1:]
			}
		}), "IMPOSSIBLE"},
		{"a tombstone drops the keys [V16]", "deleted", tweaked(func(_, r *Record, _ *Intent) {
			if r.State == StateDeleted {
				r.Keys = nil
			}
		}), "KEYMISS"},
		{"a deletion is no takeover, and rebased on [R3 L2]", "deleted", all(tweaked(deletedByOwner), rebasedOnTombstone), "RECREATE"},

		// Names.
		{"the rule of names without its epoch half [R1 N1]", "owner and gc twice", func(c *config) { c.broken.names = contentOnly }, "DANGLING"},
		{"the same of what a fold has uploaded [X2c]", "fold and gc", func(c *config) { c.broken.names = contentOnly }, "DANGLING"},
		{"a writer names what another has uploaded [N6]", "taker and two gcs", func(c *config) {
			c.actors = []actor{{batches: two, sealOwn: true}, {batches: two, sealOwn: true}}
			c.broken.foreign = true
		}, "MISMATCH"},
		{"the child's manifest before its segment [B10]", "forker and gc", func(c *config) { c.broken.childFirst = true }, "DANGLING"},
	} {
		t.Run(tc.name, tc.run)
	}
}

// TestUnneededRules does what might be thought to be wrong and is not: here
// nothing may be found. The first is what the rule of removal does; elsewhere the
// code is stricter all the same, as docs/consistency.md says.
func TestUnneededRules(t *testing.T) {
	for _, tc := range []change{
		{"what was replaced longer than the grace ago goes without a barrier, whatever its epoch [N10 N20]", "fold and gc", func(c *config) {
			c.faults = 0
			c.actors = []actor{{batches: one}, {role: maintains, keeps: foldAll, drafts: 1}, {role: maintains, keeps: foldAll, drafts: 1}, {role: collects, runs: 2}}
		}, ""},
		{"a barrier raises by one, and gc removes all that it listed [N8]", "owner and gc twice", all(freeBehindBarrier, func(c *config) { c.broken.low = true }), ""},
		{"the same beside takers [N8]", "taker and two gcs", all(freeBehindBarrier, func(c *config) { c.broken.low = true }), ""},
		{"gc lists again behind its barrier, and minds the epochs", "owner and gc twice", func(c *config) { c.broken.relist = true }, ""},
		{"a void of the lowest epoch [N5b]", "forker and two gcs", func(c *config) { c.broken.low = true }, ""},
		{"a create on a void keeps its epoch [N12]", "two forkers and gc", all(onVoid(1), ignoring("EPOCHFALL")), ""},
		{"a takeover keeps the epoch [N7]", "owner, taker and gc", all(takenAtSameEpoch, ignoring("EPOCHFALL")), ""},
		{"a deletion is no takeover [N16 N19 L2b]", "deleted", tweaked(deletedByOwner), ""},
		{"an owner would rebase on a tombstone [E7 E19]", "deleted", rebasedOnTombstone, ""},
	} {
		t.Run(tc.name, tc.run)
	}
}

func all(changes ...func(*config)) func(*config) {
	return func(c *config) {
		for _, change := range changes {
			change(c)
		}
	}
}

func ignoring(classes ...string) func(*config) {
	return func(c *config) { c.broken.ignore = classes }
}

func removed(c *config) { c.removal = true }

// fated lets gc take one fate of a segment for another.
func fated(real, taken Fate) func(*config) {
	return func(c *config) {
		c.broken.fates = func(_ *explorer, _ *world, _ *proc, _ []Listed, fates []Fate) {
			for i, f := range fates {
				if f == real {
					fates[i] = taken
				}
			}
		}
	}
}

// freeBehindBarrier lets gc remove, behind its barrier, all that it listed and
// nobody names.
func freeBehindBarrier(c *config) {
	c.broken.fates = func(_ *explorer, _ *world, s *proc, _ []Listed, fates []Fate) {
		for i, f := range fates {
			if s.wrote && f == FateUnsettled {
				fates[i] = FateStale
			}
		}
	}
}

// firstRead lets gc ask, behind its barrier, the manifest that it read first.
func firstRead(c *config) {
	c.broken.fates = func(x *explorer, w *world, s *proc, list []Listed, fates []Fate) {
		if s.wrote {
			r := *s.first.record()
			r.Epoch = s.base.record().Epoch
			copy(fates, x.removal(w).Fates(&r, list))
		}
	}
}

// sameEpoch lets barriers keep the epoch.
func sameEpoch(base, r *Record, in *Intent) {
	if in.Kind == IntentMaintain && r.State == StateOpen {
		r.Epoch = base.Epoch
	}
}

// settledVoid lets gc remove all that it listed where it finds a void.
func settledVoid(c *config) {
	c.broken.fates = func(_ *explorer, _ *world, s *proc, _ []Listed, fates []Fate) {
		for i := range fates {
			if r := s.base.record(); r != nil && r.State == StateVoid {
				fates[i] = FateStale
			}
		}
	}
}

// onVoid lets whoever builds on a void take its epoch for a lower one.
func onVoid(by uint32) func(*config) {
	return seen(func(v *version, r *Record, _ bool) {
		if r.State == StateVoid {
			r.Epoch -= min(r.Epoch, by)
		}
	})
}

var epochFromNothing = onVoid(math.MaxUint32)

// takenAtSameEpoch lets takeovers keep the epoch.
var takenAtSameEpoch = seen(func(_ *version, r *Record, takes bool) {
	if r.State == StateOpen && takes {
		r.Epoch--
	}
})

// voidOfEpoch0 is what would be if voids began at epoch 0.
func voidOfEpoch0(c *config) {
	c.broken.low = true
	freeBehindBarrier(c)
	onVoid(1)(c)
}

// seen changes what those see who build on a version; takes says that they do
// not own the log.
func seen(change func(v *version, r *Record, takes bool)) func(*config) {
	return func(c *config) {
		c.broken.on = func(v *version, takes bool) *version {
			seen, r := *v, *v.record()
			change(&seen, &r, takes)
			seen.head.Record = &r
			return &seen
		}
	}
}

// deletedByOwner lets a tombstone keep generation, owner and epoch.
func deletedByOwner(base, r *Record, in *Intent) {
	if r.State == StateDeleted {
		r.Generations, r.Owner, r.Epoch = base.Generations, base.Owner, base.Epoch
		in.Kind, in.Generation = IntentMaintain, base.Generation()
	}
}

// rebasedOnTombstone lets appends go on where they were, with the log as it was
// before it was deleted.
func rebasedOnTombstone(c *config) {
	judged(func(in Intent, head *Record, v Verdict) Verdict {
		if v == Deleted && in.Kind == IntentAppend {
			return judge(in, head)
		}
		return v
	})(c)
	seen(func(v *version, r *Record, _ bool) {
		if r.State != StateDeleted {
			return
		}
		v.content = v.prev.content
		revision, epoch, commit, generations, owner := r.Revision, r.Epoch, r.Commit, r.Generations, r.Owner
		*r = *v.prev.record()
		r.Revision, r.Epoch, r.Commit, r.Generations, r.Owner = revision, epoch, commit, slices.Clone(generations), owner
	})(c)
}
