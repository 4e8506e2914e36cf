package manifest

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestExplore visits every state of every config, and finds no promise broken.
// With S3LOG_LONG set it does so within larger bounds, in some minutes.
func TestExplore(t *testing.T) {
	all := configs
	if os.Getenv("S3LOG_LONG") != "" {
		all = slices.Concat(configs, longConfigs)
	}
	exploreAll(t, all, []string{
		"acknowledged", "again", "barrier", "deleted", "duplicate", "exists", "fenced", "kept an upload over another try", "may go: expired", "may go: stale",
		"named a segment", "not committed", "settled: committed", "settled: committed, then fenced",
		"settled: deleted", "settled: fenced", "settled: rebase", "settled: start over", "unknown",
	})
}

// exploreAll demands that configs break no promise, and that what is wanted was
// reached: what never was has not been checked either.
func exploreAll(t *testing.T, all []config, want []string) {
	ran, reached := 0, map[string]bool{}
	for _, cfg := range all {
		t.Run(cfg.name, func(t *testing.T) {
			r := explore(t, cfg)
			ran++
			if r.broken != "" {
				t.Errorf("%s\n%s", r.broken, strings.Join(r.trace, "\n"))
			}
			for what := range r.reached {
				reached[what] = true
			}
		})
	}
	if t.Failed() || ran < len(all) || beginning() {
		return
	}
	for _, what := range want {
		if !reached[what] {
			t.Errorf("never reached: %s (%q)", what, slices.Sorted(maps.Keys(reached)))
		}
	}
}

// Batches of writers. Events are letters in traces: A, B, ... are the batches
// of P0, E, F, ... those of P1, and so on; small letters were there before.
var (
	one     = []batch{{n: 1}}
	two     = []batch{{n: 1}, {n: 2}}
	three   = []batch{{n: 1}, {n: 2}, {n: 1}}
	key     = []batch{{n: 1, key: "k"}}
	keyThen = []batch{{n: 1, key: "k"}, {n: 1}}
	thenKey = []batch{{n: 1}, {n: 1, key: "k"}}
)

var configs = []config{
	{name: "adopters", start: "a", faults: 3, actors: []actor{
		{batches: two, giveUp: true},
		{batches: []batch{{n: 2}, {n: 1}}, giveUp: true},
	}},
	{name: "three adopters", start: "a", faults: 3, actors: []actor{
		{batches: two, giveUp: true}, {batches: two, giveUp: true, release: true}, {batches: one, giveUp: true},
	}},
	{name: "creators", faults: 3, actors: []actor{
		{open: create, batches: two, giveUp: true}, {open: createOrAdopt, batches: two, giveUp: true},
	}},
	{name: "creators on a void", start: "0", faults: 2, actors: []actor{
		{open: create, batches: two, giveUp: true}, {open: createOrAdopt, batches: two}, {open: create, batches: one},
	}},
	{name: "keyed", start: "a", faults: 3, actors: []actor{
		{batches: keyThen, giveUp: true}, {batches: key, giveUp: true}, {batches: thenKey},
	}},
	{name: "keyed creators", faults: 2, actors: []actor{
		{open: createOrAdopt, batches: keyThen, giveUp: true}, {open: create, batches: key}, {batches: key},
	}},
	{name: "settled", start: "a", faults: 2, actors: []actor{
		{batches: two, giveUp: true}, {batches: two}, {role: decider, settles: 0},
	}},
	{name: "successes without versions", start: "a", faults: 3, untold: true, actors: []actor{
		{batches: two, giveUp: true}, {batches: key, giveUp: true}, {role: decider, settles: 0},
	}},
	{name: "creates without versions", faults: 2, untold: true, actors: []actor{
		{open: create, batches: two, giveUp: true}, {open: createOrAdopt, batches: one}, {role: decider, settles: 0},
	}},
	{name: "settled create", faults: 2, actors: []actor{
		{open: create, batches: two, giveUp: true}, {open: createOrAdopt, batches: one}, {role: decider, settles: 0}, {role: decider, settles: 0},
	}},
	{name: "settled key", start: "a", faults: 2, actors: []actor{
		{batches: keyThen, giveUp: true}, {batches: key}, {role: decider, settles: 0},
	}},
	{name: "maintenance", start: "a|b", faults: 2, actors: []actor{
		{batches: two, giveUp: true}, {role: maintains, keeps: foldAll}, {batches: two}, {role: decider, settles: 0},
	}},
	{name: "abandoned", start: "a", faults: 2, actors: []actor{
		{batches: two, leaves: true}, {role: maintains, keeps: touch}, {role: decider, settles: 0},
	}},
	{name: "abandoned create", faults: 2, actors: []actor{
		{open: createOrAdopt, batches: two, leaves: true}, {role: decider, settles: 0}, {open: create, batches: one},
	}},
	{name: "background seals", start: "a", faults: 2, actors: []actor{
		{batches: three, seals: 2, giveUp: true}, {role: collects},
	}},
	{name: "seals and folds", start: "a", faults: 1, actors: []actor{
		{batches: three, seals: 1}, {role: maintains, keeps: foldAll}, {batches: one},
	}},
	{name: "own seals", start: "a", faults: 1, actors: []actor{
		{batches: two}, {batches: two, sealOwn: true}, {role: collects},
	}},
	{name: "merges", start: "a|b|c", faults: 1, actors: []actor{
		{batches: two, merges: 1}, {role: maintains, keeps: foldSegs}, {role: collects, drafts: 1},
	}},
	{name: "deleted", start: "a", faults: 2, actors: []actor{
		{batches: two, giveUp: true}, {role: deletes}, {batches: key}, {role: decider, settles: 0},
	}},
	{name: "deleted create", faults: 2, actors: []actor{
		{open: createOrAdopt, batches: two, giveUp: true}, {role: deletes}, {role: decider, settles: 0},
	}},
}

var longConfigs = []config{
	{name: "adopters, long", start: "a", faults: 5, actors: []actor{
		{batches: three, giveUp: true}, {batches: three, giveUp: true}, {role: decider, settles: 0}, {role: decider, settles: 1},
	}},
	{name: "three adopters, long", start: "a", faults: 4, actors: []actor{
		{batches: two, giveUp: true}, {batches: two, giveUp: true}, {batches: two, giveUp: true},
	}},
	{name: "three adopters, settled", start: "a", faults: 2, actors: []actor{
		{batches: two, giveUp: true}, {batches: two, giveUp: true}, {batches: two, giveUp: true}, {role: decider, settles: 0},
	}},
	{name: "three creators, long", faults: 4, actors: []actor{
		{open: create, batches: two, giveUp: true}, {open: createOrAdopt, batches: two, giveUp: true},
		{open: createOrAdopt, batches: two, giveUp: true}, {role: decider, settles: 0},
	}},
	{name: "keyed, long", start: "a", faults: 4, actors: []actor{
		{batches: keyThen, giveUp: true}, {batches: thenKey, giveUp: true}, {batches: key, giveUp: true}, {role: decider, settles: 0},
	}},
	{name: "maintenance, long", start: "a|b", faults: 3, actors: []actor{
		{batches: two, giveUp: true, seals: 1}, {role: maintains, keeps: foldAll}, {batches: two}, {role: decider, settles: 0},
	}},
	{name: "abandoned, long", start: "a", faults: 2, actors: []actor{
		{batches: two, leaves: true, giveUp: true}, {role: maintains, keeps: touch}, {role: decider, settles: 0}, {batches: two},
	}},
	{name: "seals, fold and gc", start: "a", faults: 1, actors: []actor{
		{batches: two, seals: 1}, {role: maintains, keeps: foldAll, drafts: 1}, {role: collects}, {batches: one},
	}},
	{name: "own seals, long", start: "a", faults: 2, actors: []actor{
		{batches: two, sealOwn: true}, {batches: two, sealOwn: true}, {role: collects},
	}},
	{name: "merges, long", start: "a|b|c", faults: 1, actors: []actor{
		{batches: three, merges: 1, seals: 1}, {role: maintains, keeps: foldSegs}, {role: collects, drafts: 1},
	}},
	{name: "two gcs", start: "a", faults: 1, actors: []actor{
		{batches: two, seals: 1}, {role: collects, drafts: 1}, {role: collects, drafts: 1}, {batches: one},
	}},
	{name: "everything", start: "a|b", faults: 3, actors: []actor{
		{batches: keyThen, seals: 1, giveUp: true}, {role: maintains, keeps: foldAll}, {batches: key, sealOwn: true, giveUp: true}, {role: decider, settles: 0},
	}},
	{name: "deleted, long", start: "a", faults: 3, actors: []actor{
		{batches: two, giveUp: true, seals: 1}, {role: deletes}, {role: collects}, {role: decider, settles: 0},
	}},
}
