package manifest

import (
	"os"
	"slices"
	"testing"
)

// TestExploreRemoval is TestExplore with collectors, forkers, readers and
// deleters.
func TestExploreRemoval(t *testing.T) {
	all := removalConfigs
	if os.Getenv("S3LOG_LONG") != "" {
		all = slices.Concat(removalConfigs, longRemovalConfigs)
	}
	exploreAll(t, all, []string{
		"acknowledged", "again", "barrier", "deleted", "deleted under a reader", "exists", "fenced", "kept an upload over another try",
		"may go: deleted", "may go: expired", "may go: stale", "named a segment", "not committed", "read a segment", "replaced under a reader",
		"settled: committed", "settled: start over", "unknown", "void",
	})
}

var removalConfigs = []config{
	// Forkers, and a create, on nothing and on voids.
	{name: "forker and gc", faults: 2, astray: true, actors: []actor{
		{open: fork, batches: two, giveUp: true}, {role: collects, runs: 2, giveUp: true},
	}},
	{name: "two forkers and gc", faults: 1, actors: []actor{
		{open: fork, batches: []batch{{n: 2}}, giveUp: true}, {open: fork, batches: []batch{{n: 2}}}, {role: collects, runs: 2, giveUp: true},
	}},
	{name: "forker, gc and decide", faults: 1, actors: []actor{
		{open: fork, batches: []batch{{n: 2}}, giveUp: true}, {role: collects}, {role: decider, settles: 0},
	}},
	{name: "forker and create on a void", start: "0", faults: 1, actors: []actor{
		{open: fork, batches: []batch{{n: 2}}, giveUp: true}, {open: create, batches: one, sealOwn: true}, {role: collects, runs: 2},
	}},
	{name: "forker and two gcs", faults: 1, actors: []actor{
		{open: fork, batches: []batch{{n: 2}}}, {role: collects}, {role: collects},
	}},
	// Owners, takers and folds.
	{name: "owner and gc twice", start: "a", faults: 1, astray: true, actors: []actor{
		{batches: two, seals: 2, giveUp: true}, {role: collects, runs: 2, giveUp: true},
	}},
	{name: "taker and two gcs", start: "a", faults: 1, actors: []actor{
		{batches: two, sealOwn: true, giveUp: true}, {role: collects}, {role: collects},
	}},
	{name: "owner, taker and gc", start: "a", faults: 1, actors: []actor{
		{batches: two, seals: 1}, {batches: one, sealOwn: true}, {role: collects},
	}},
	{name: "fold and gc", start: "a|b|", faults: 1, actors: []actor{
		{batches: one}, {role: maintains, keeps: foldAll}, {role: collects, runs: 2}, {role: reads},
	}},
	{name: "owner, gc and reader", start: "a", faults: 1, actors: []actor{
		{batches: two, seals: 1}, {role: collects}, {role: reads},
	}},
	{name: "stale listings", start: "a", faults: 0, stale: true, actors: []actor{
		{batches: two, seals: 2}, {role: collects}, {role: maintains, keeps: foldAll},
	}},
	// Readers of older manifests, and time.
	{name: "reader and merges", start: "a|b|", faults: 0, actors: []actor{
		{batches: two, merges: 1, seals: 1}, {role: collects}, {role: reads},
	}},
	{name: "reader within the grace", start: "a|b|", faults: 0, grace: 2, hours: 4, actors: []actor{
		{role: maintains, keeps: foldSegs}, {role: collects, runs: 2}, {role: reads},
	}},
	// Tombstones.
	{name: "deleted, gc and reader", start: "a|b|", faults: 1, actors: []actor{
		{batches: one, seals: 1}, {role: deletes}, {role: collects}, {role: reads},
	}},
	{name: "deleted within the grace", start: "a|b|", faults: 0, grace: 2, hours: 4, actors: []actor{
		{role: deletes}, {role: collects, runs: 2}, {role: reads},
	}},
	{name: "fork deleted", faults: 1, actors: []actor{
		{open: fork, batches: []batch{{n: 2}}, giveUp: true}, {role: deletes}, {role: collects},
	}},
}

var longRemovalConfigs = []config{
	{name: "two forkers, gc and decide", faults: 1, actors: []actor{
		{open: fork, batches: []batch{{n: 2}}, giveUp: true}, {open: fork, batches: []batch{{n: 2}}}, {role: collects, runs: 2, giveUp: true}, {role: decider, settles: 0},
	}},
	{name: "two forkers and two gcs", faults: 1, actors: []actor{
		{open: fork, batches: []batch{{n: 2}}, giveUp: true}, {open: fork, batches: []batch{{n: 2}}}, {role: collects, giveUp: true}, {role: collects},
	}},
	{name: "forker, create and two gcs on a void", start: "0", faults: 0, actors: []actor{
		{open: fork, batches: []batch{{n: 2}}}, {open: create, batches: one, sealOwn: true}, {role: collects}, {role: collects},
	}},
	{name: "forks, taker and gc", faults: 1, actors: []actor{
		{open: fork, batches: two}, {open: fork, batches: one}, {batches: one, sealOwn: true}, {role: collects},
	}},
	{name: "forks, deleter and gc", faults: 1, actors: []actor{
		{open: fork, batches: two, giveUp: true}, {open: fork, batches: one}, {role: deletes}, {role: collects},
	}},
	{name: "owner, taker, fold and gc", start: "a", faults: 0, actors: []actor{
		{batches: two, seals: 1}, {batches: one, sealOwn: true}, {role: maintains, keeps: foldAll, drafts: 1}, {role: collects},
	}},
	{name: "owner, two gcs and reader", start: "a", faults: 1, astray: true, actors: []actor{
		{batches: two, seals: 2}, {role: collects, giveUp: true}, {role: collects}, {role: reads},
	}},
	{name: "folds, gc and reader", start: "a|b|", faults: 1, actors: []actor{
		{role: maintains, keeps: foldSegs}, {batches: one, sealOwn: true}, {role: collects, runs: 2}, {role: reads},
	}},
	{name: "stale listings, long", start: "a", faults: 1, stale: true, astray: true, actors: []actor{
		{batches: two, seals: 2, giveUp: true}, {role: collects, runs: 2, giveUp: true},
	}},
	{name: "forkers and stale listings", faults: 1, stale: true, actors: []actor{
		{open: fork, batches: []batch{{n: 2}}}, {open: fork, batches: []batch{{n: 2}}}, {role: collects, runs: 2},
	}},
	{name: "owner and gc twice, long", start: "a", faults: 2, astray: true, actors: []actor{
		{batches: three, seals: 2, giveUp: true}, {role: collects, runs: 2, giveUp: true},
	}},
	{name: "taker and two gcs, long", start: "a", faults: 2, actors: []actor{
		{batches: two, sealOwn: true, giveUp: true}, {role: collects, giveUp: true}, {role: collects, giveUp: true},
	}},
	{name: "forker and gc, long", faults: 3, astray: true, actors: []actor{
		{open: fork, batches: two, giveUp: true}, {role: collects, runs: 2, giveUp: true},
	}},
	{name: "reader within the grace, long", start: "a|b|", faults: 1, grace: 2, hours: 4, actors: []actor{
		{batches: two, merges: 1}, {role: collects}, {role: reads},
	}},
	{name: "deleted within the grace, long", start: "a|b|", faults: 1, grace: 2, hours: 4, actors: []actor{
		{batches: one, seals: 1}, {role: deletes}, {role: collects, runs: 2}, {role: reads},
	}},
}
