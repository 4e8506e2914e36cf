package simulation

import "testing"

// complete: what never happened was not tested either.
func (t *total) complete(tb testing.TB, reached []string) {
	tb.Helper()
	for f := none; f < faults; f++ {
		if t.counts["fault: "+f.String()] == 0 {
			tb.Errorf("no request was struck by %q in %d schedules", f, t.played)
		}
	}
	for _, what := range reached {
		if t.counts[what] == 0 {
			tb.Errorf("never reached in %d schedules: %s", t.played, what)
		}
	}
}

// reached is what must come about in the first thousand schedules: every way to
// open a log, every answer to an append, every kind of takeover, every actor.
var reached = []string{
	"opened: create: done", "opened: create or adopt: done", "opened: adopt: done", "opened: adopt: held", "opened: adopt: deleted", "opened: adopt: not found",
	"opened: resume: done", "opened: resume later: done", "opened: resume and claim: done", "opened: resume and claim: unknown",
	"opened: resume and release: done", "opened: resume and release: unknown",
	"takeover: fresh", "takeover: adopt", "takeover: resume", "takeover: fork", "takeover: replay", "takeover: decide", "takeover: delete", "maintenance",

	"append: done", "append: duplicate", "append: unknown", "append: fenced", "append: exists", "append: held", "append: deleted", "append: closed",
	"append: abandoned", "append: invalid", "append: seq mismatch", "append: timed out", "append: refused", "append: rejected", "append: failed in passing",
	"claim: done", "renew: done", "closed: done", "closed: fenced", "closed: unknown", "closed: died",
	"decided: committed", "decided: not committed", "decided: duplicate", "decide: unknown",

	"fork: done", "fork: duplicate", "fork: exists", "fork: open turn", "fork: not found", "fork: seq mismatch", "replay: done", "replay: exists",
	"fold: done", "folded", "maintained: done", "delete: done", "gc: done", "barriers", "objects deleted", "objects deleted beside others",
	"object: retired", "object: expired", "object: stale", "object: young", "object: buried", "object: deleted", "object: kept",

	"read: done", "read: not found", "read: deleted", "verdict: balanced", "verdict: live", "verdict: stale", "verified", "followed events",
	"boundaries", "turns closed", "segments uploaded", "segments named", "segments replaced",
	"clock set", "outage", "ended: open", "ended: deleted", "ended: nothing there",
}

// reachedSeldom is what must come about in the first ten thousand.
var reachedSeldom = []string{
	"append: key conflict", "object: unsettled", "voids of gc", "segment: not exist", "ended: void", "fork: unknown", "replay: unknown", "renew: fenced",
}
