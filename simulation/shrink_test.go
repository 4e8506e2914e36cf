package simulation

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// maxShrinks bounds how often a failing schedule is played again.
const maxShrinks = 400

// shrink leaves out of a failing schedule what it fails without: processes, then
// faults. It returns the last one that failed.
func shrink(t *testing.T, p *plan) result {
	best := play(t, p, true)
	if best.broken == "" {
		return best // porcupine, out of time
	}
	class, _, _ := strings.Cut(best.broken, ":")
	played := 0
	without := func(names ...string) bool {
		if played++; played > maxShrinks {
			return false
		}
		again := newPlan(p.seed, append(best.plan.leftOut(), names...)...)
		again.sabotaged = p.sabotaged
		res := play(t, again, true)
		if !strings.HasPrefix(res.broken, class+":") {
			return false
		}
		best = res
		return true
	}
	for again := true; again; {
		again = false
		for _, name := range best.plan.names() {
			again = without(name) || again
		}
		// Many faults at a time, then fewer.
		for n := len(best.faults); n > 0; n /= 2 {
			for at := 0; at < len(best.faults); {
				if !without(best.faults[at:min(at+n, len(best.faults))]...) {
					at += n
				} else {
					again = true
				}
			}
		}
		if played > maxShrinks {
			break
		}
	}
	return best
}

// leftOut are the names that a plan does without.
func (p *plan) leftOut() []string { return slices.Sorted(maps.Keys(p.without)) }

// A schedule that breaks a promise is reported without what is not needed for it,
// and breaks it again when it is played as the report says.
func TestShrink(t *testing.T) {
	seed := uint64(1)
	var res result
	for ; res.broken == ""; seed++ {
		p := newPlan(seed)
		p.sabotaged = len(p.cast) > 3 && len(p.rates) > 3
		res = play(t, p, false)
	}
	small := shrink(t, res.plan)
	if len(small.plan.names()) >= len(res.plan.names()) || len(small.faults) > 3 {
		t.Errorf("%d processes and %d faults are left of %s", len(small.plan.names()), len(small.faults), res.plan)
	}
	again := newPlan(res.plan.seed, small.plan.leftOut()...)
	again.sabotaged = true
	if played := play(t, again, true); played.broken != small.broken || played.broken == "" {
		t.Errorf("%q becomes %q", small.broken, played.broken)
	}
	t.Logf("%s\n%s", small.plan, small.broken)
}
