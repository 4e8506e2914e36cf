package backend

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestExploreSeedPath plays every schedule of every config, and finds no promise
// broken. With S3LOG_LONG set it does so within larger bounds, in some minutes.
func TestExploreSeedPath(t *testing.T) {
	all := seedConfigs
	if os.Getenv("S3LOG_LONG") != "" {
		all = slices.Concat(seedConfigs, longSeedConfigs)
	}
	ran, reached := 0, map[string]bool{}
	for _, cfg := range all {
		t.Run(cfg.name, func(t *testing.T) {
			cfg.faults = min(cfg.faults, maxFaults)
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
	if t.Failed() || ran < len(all) || maxFaults < 2 {
		return
	}
	// What was never reached was not checked either.
	want := []string{
		"acknowledged", "boundary", "compaction balanced", "compaction live", "compaction stale", "duplicate", "exists", "fenced",
		"fork was there", "fork, 0 closers, 0 boundaries", "fork, 0 closers, 1 boundaries", "forked", "not committed", "pending",
		"resume, 0 closers, 0 boundaries", "resume, 0 closers, 1 boundaries", "resume, 1 closers, 1 boundaries",
		"settled: committed", "settled: not committed", "taken over", "unknown",
	}
	if got := slices.Sorted(maps.Keys(reached)); !slices.Equal(got, want) {
		t.Errorf("reached %q, not %q", got, want)
	}
}

var (
	atOnce  = ResumeOptions{}
	delayed = ResumeOptions{Delay: true}
	claimed = ResumeOptions{Claim: true}
	seq0    = int64(0)
)

func several(all ...func(*process)) []func(*process) { return all }

var seedConfigs = []seedConfig{
	{name: "owner and resume", begin: interruptedTurn, faults: 2, processes: several(owning(""), resuming(atOnce, ""))},
	{name: "two resumes", begin: interruptedTurn, faults: 2, processes: several(resuming(atOnce, ""), resuming(atOnce, ""))},
	{name: "owner and delayed resume", begin: interruptedTurn, faults: 2, processes: several(owning(""), resuming(delayed, ""))},
	{name: "two delayed resumes", begin: interruptedTurn, faults: 2, processes: several(resuming(delayed, ""), resuming(delayed, ""))},
	{name: "both kinds of resume", begin: interruptedTurn, faults: 1, processes: several(resuming(atOnce, ""), resuming(delayed, ""))},
	{name: "resumes at a boundary", begin: inBoundary, faults: 2, processes: several(resuming(atOnce, ""), resuming(atOnce, ""))},
	{name: "owner at a boundary", begin: inBoundary, faults: 2, processes: several(owning(""), resuming(atOnce, ""))},
	{name: "a bracket opened late", begin: inBoundary, faults: 1, processes: several(compacting, resuming(delayed, ""))},
	{name: "claims", begin: interruptedTurn, faults: 1, processes: several(claiming(delayed), claiming(delayed))},
	{name: "claims at a boundary", begin: inBoundary, faults: 1, processes: several(claiming(atOnce), resuming(claimed, ""))},
	{name: "one key, delayed", begin: interruptedTurn, faults: 3, processes: several(resuming(delayed, "k"), resuming(delayed, "k"))},
	{name: "one key, at a boundary", begin: inBoundary, faults: 2, processes: several(resuming(atOnce, "k"), resuming(atOnce, "k", ""))},
	{name: "one key, adopted", begin: interruptedTurn, faults: 2, processes: several(resuming(delayed, "k"), adopting("k"))},
	{name: "one key, of the owner", begin: interruptedTurn, faults: 2, processes: several(owning("k"), resuming(delayed, "k"))},
	{name: "adopt and resume", begin: interruptedTurn, faults: 1, processes: several(adopting(""), resuming(atOnce, ""))},
	{name: "three resumes", begin: balancedTurn, faults: 0, processes: several(resuming(atOnce, ""), resuming(atOnce, ""), resuming(delayed, ""))},
	{name: "two forks", begin: inBoundary, faults: 2, processes: several(forking(ForkOptions{}), forking(ForkOptions{}))},
	{name: "different forks", begin: inBoundary, faults: 1, processes: several(forking(ForkOptions{}), forking(ForkOptions{At: &seq0}))},
	{name: "fork of a running parent", begin: balancedTurn, faults: 1, processes: several(owning("", ""), forking(ForkOptions{}))},
	{name: "fork of a resumed parent", begin: secondTurn, faults: 1, processes: several(resuming(atOnce, ""), forking(ForkOptions{Clip: true}))},
	{name: "fork and void", begin: inBoundary, faults: 2, processes: several(forking(ForkOptions{At: &seq0}), voiding)},
	{name: "forks on a void", begin: onVoid, faults: 1, processes: several(forking(ForkOptions{}), forking(ForkOptions{}))},
	{name: "fork and its heir", begin: inBoundary, faults: 1, processes: several(forkingOn(ForkOptions{At: &seq0}), heir)},
}

var longSeedConfigs = []seedConfig{
	{name: "two resumes, long", begin: interruptedTurn, faults: 3, processes: several(resuming(atOnce, "", ""), resuming(atOnce, "", ""))},
	{name: "both kinds of resume, long", begin: interruptedTurn, faults: 3, processes: several(resuming(atOnce, ""), resuming(delayed, ""))},
	{name: "adopt and resume, long", begin: interruptedTurn, faults: 3, processes: several(adopting(""), resuming(atOnce, ""))},
	{name: "fork of a running parent, long", begin: balancedTurn, faults: 3, processes: several(owning("", ""), forking(ForkOptions{}))},
	{name: "forks on a void, long", begin: onVoid, faults: 2, processes: several(forking(ForkOptions{}), forking(ForkOptions{}))},
	{name: "different forks, long", begin: inBoundary, faults: 3, processes: several(forking(ForkOptions{}), forking(ForkOptions{At: &seq0}))},
	{name: "claims, long", begin: interruptedTurn, faults: 3, processes: several(claiming(delayed), claiming(delayed))},
	{name: "claims at a boundary, long", begin: inBoundary, faults: 3, processes: several(claiming(atOnce), resuming(claimed, "", ""))},
	{name: "three resumes, long", begin: interruptedTurn, faults: 1, processes: several(resuming(atOnce, ""), resuming(atOnce, ""), resuming(delayed, ""))},
	{name: "two resumes, remembered", begin: interruptedTurn, faults: 2, remembers: true, processes: several(resuming(atOnce, ""), resuming(atOnce, ""))},
	{name: "forks on a void, remembered", begin: onVoid, faults: 2, remembers: true, processes: several(forking(ForkOptions{}), forking(ForkOptions{}))},
	{name: "one key, remembered", begin: interruptedTurn, faults: 3, remembers: true, processes: several(resuming(delayed, "k"), resuming(delayed, "k"))},
	{name: "three at a boundary", begin: inBoundary, faults: 1, processes: several(owning(""), resuming(atOnce, ""), claiming(delayed))},
	{name: "one key, three times", begin: interruptedTurn, faults: 2, processes: several(resuming(delayed, "k"), resuming(atOnce, "k"), adopting("k"))},
	{name: "owner, adopt and resume", begin: interruptedTurn, faults: 1, processes: several(owning(""), adopting(""), resuming(atOnce, ""))},
	{name: "three forks", begin: inBoundary, faults: 1, processes: several(forking(ForkOptions{}), forking(ForkOptions{}), forking(ForkOptions{At: &seq0}))},
	{name: "forks and void", begin: inBoundary, faults: 1, processes: several(forkingOn(ForkOptions{At: &seq0}), forking(ForkOptions{At: &seq0}), voiding)},
	{name: "forks and heir on a void", begin: onVoid, faults: 1, processes: several(forkingOn(ForkOptions{}), forking(ForkOptions{}), heir)},
}
