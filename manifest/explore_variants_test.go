package manifest

import (
	"slices"
	"strings"
	"testing"
)

// TestBrokenRules leaves out one rule at a time, and demands that the explorer
// notices: what it cannot notice it does not check. The names in brackets are
// those of the traces that found the rule.
func TestBrokenRules(t *testing.T) {
	for _, tc := range []change{
		// What a 412 means.
		{"412 taken as lost [M2 V2]", "adopters", judged(func(in Intent, _ *Record, v Verdict) Verdict {
			if v.Landed() {
				return Fenced
			}
			return v
		}), "LIE"},
		{"412 taken as won [V3]", "adopters", judged(func(Intent, *Record, Verdict) Verdict { return Committed }), "LOSTACK"},
		{"a retry with new bytes [V4]", "creators", func(c *config) { c.broken.newBytes = true }, "LIE"},
		{"503 taken as not landed [M3 V15]", "adopters", func(c *config) { c.broken.landed503 = true }, "LIE"},
		{"a refusal decides about earlier attempts", "adopters", func(c *config) { c.broken.refusalDecides = true }, "LIE"},
		{"a success without a version is believed", "successes without versions", func(c *config) { c.broken.believes = true }, "LOSTACK"},
		{"409 is said of a copy, too", "adopters", func(c *config) { c.overlap = true }, "LIE"}, // no rule of ours: what we take stores at their word for

		// Position.
		{"maintenance in between taken as fenced", "maintenance", judged(func(_ Intent, _ *Record, v Verdict) Verdict {
			if v == Rebase {
				return Fenced
			}
			return v
		}), "FALSEFENCE"},
		{"maintenance in between taken as committed", "maintenance", judged(func(_ Intent, _ *Record, v Verdict) Verdict {
			if v == Rebase {
				return Committed
			}
			return v
		}), "LOSTACK"},
		{"a takeover is judged by the record after it [R5 L4]", "three adopters", judged(func(in Intent, head *Record, v Verdict) Verdict {
			if in.Kind == IntentTakeover && head.Generation() > in.Generation {
				if own, ok := head.TakeoverOf(in.Generation); ok {
					in.Writer = own.Writer
				}
				return judgeAppend(in, head)
			}
			return v
		}), "LOSTACK"},
		{"a takeover is judged by next", "three adopters", judged(func(in Intent, head *Record, v Verdict) Verdict {
			if in.Kind == IntentTakeover && head.Next >= in.End {
				return Committed
			}
			return v
		}), "LOSTACK"},
		{"ownership by generation alone [V8]", "three adopters", judged(func(in Intent, head *Record, v Verdict) Verdict {
			if in.Kind == IntentTakeover && head.Generation() >= in.Generation {
				return Committed
			}
			return v
		}), "LOSTACK"},
		{"first after the takeover's own events [R6 L5]", "adopters", tweaked(func(base, r *Record, _ *Intent) {
			if r.Generation() > base.Generation() && r.Generation() > 1 {
				r.Generations = slices.Clone(r.Generations)
				r.Generations[len(r.Generations)-1].First = r.Next
			}
		}), "LOSTACK"},
		{"a takeover keeps the generation [V2 V7]", "adopters", tweaked(func(base, r *Record, in *Intent) {
			if g := base.Generation(); g > 0 && r.Generation() > g {
				r.Generations = slices.Clone(base.Generations)
				r.Generations[len(r.Generations)-1].Writer = r.Owner.Writer
				r.Owner = &Owner{Writer: r.Owner.Writer, Generation: g}
				in.Generation = g
			}
		}), "INTERLEAVE TWICE HOLE LOSTACK LIE"},
		{"maintenance changes the owner [V9 V11]", "maintenance", tweaked(func(base, r *Record, in *Intent) {
			if in.Kind == IntentMaintain {
				r.Generations = slices.Clone(r.Generations)
				r.Generations[len(r.Generations)-1].Writer = in.Writer
				r.Owner = &Owner{Writer: in.Writer, Generation: r.Owner.Generation}
			}
		}), "LIE TWICE FALSEFENCE FENCE IMPOSSIBLE"},
		{"a writer id in two processes [V1 V6b]", "adopters", func(c *config) {
			c.actors = slices.Clone(c.actors)
			c.actors[0].id, c.actors[1].id = "W", "W"
		}, "INTERLEAVE LOSTACK HOLE TWICE"},
		{"no sticky failure [V5 V6]", "adopters", func(c *config) { c.broken.notSticky = true }, "HOLE"},

		// Keys.
		{"the key is looked up once [M5 V4 V9]", "keyed", func(c *config) { c.broken.keyOnce = true }, "KEYTWICE"},
		{"not committed before the key is looked up [R4 L1b]", "keyed", func(c *config) { c.broken.keyNotAfterwards = true }, "KEYMISS"},

		// Unknown outcomes.
		{"reading settles an unmoved unknown [M7 V14]", "settled", judged(func(in Intent, _ *Record, v Verdict) Verdict {
			if v == Unmoved {
				return StartOver
			}
			return v
		}), "LIE"},
		{"an unsettled create is settled by absence [R7 L3]", "settled create", judged(func(in Intent, head *Record, v Verdict) Verdict {
			if head == nil {
				return Gone
			}
			return v
		}), "LIE"},
		{"tried again after its caller left", "abandoned", func(c *config) { c.broken.retryAbandoned = true }, "LIE"},
		{"the same while the retry is prepared", "abandoned", func(c *config) { c.broken.checkedEarly = true }, "LIE"},

		// Names.
		{"the rule of names without its epoch half [R1 N1]", "background seals", func(c *config) { c.broken.names = contentOnly }, "DANGLING"},
		{"the rule of names without its content half [F1 N18]", "own seals", func(c *config) { c.broken.names = epochOnly }, "MISMATCH"},
		{"an upload with own events is judged by where the log ends", "own seals", func(c *config) { c.broken.names = endOnly }, "MISMATCH"},
	} {
		t.Run(tc.name, tc.run)
	}
}

// change is a rule that is left out or done differently.
type change struct {
	name   string
	config string // in which that is done
	leave  func(*config)
	want   string // classes of what may be found; empty: nothing may be
}

func (c change) run(t *testing.T) {
	all := slices.Concat(configs, removalConfigs)
	i := slices.IndexFunc(all, func(have config) bool { return have.name == c.config })
	if i < 0 {
		t.Fatalf("no config %q", c.config)
	}
	cfg := all[i]
	c.leave(&cfg)
	r := explore(t, cfg)
	class, _, _ := strings.Cut(r.broken, ":")
	switch {
	case r.broken == "" && c.want == "":
	case r.broken == "":
		t.Errorf("not noticed in %d states", r.states)
	case c.want == "":
		t.Errorf("it is needed: %s\n%s", r.broken, strings.Join(r.trace, "\n"))
	case !slices.Contains(strings.Fields(c.want), class):
		t.Errorf("noticed as %s, not as %s\n%s", r.broken, c.want, strings.Join(r.trace, "\n"))
	default:
		t.Logf("\n%s", strings.Join(r.trace, "\n"))
	}
}

// judged changes what Judge says.
func judged(change func(Intent, *Record, Verdict) Verdict) func(*config) {
	return func(c *config) {
		c.broken.judge = func(in Intent, head *Record) Verdict { return change(in, head, Judge(in, head)) }
	}
}

// tweaked changes what commits write.
func tweaked(change func(base, next *Record, in *Intent)) func(*config) {
	return func(c *config) { c.broken.tweak = change }
}

// epochOnly is the rule of names without its content half.
func epochOnly(_, next *Record, uploads []Upload) error {
	for i := range uploads {
		if err := checkEpoch(&uploads[i], next); err != nil {
			return err
		}
	}
	return nil
}

// endOnly takes an upload for one of committed events as soon as the log has
// grown beyond it, whosever events stand there.
func endOnly(base, next *Record, uploads []Upload) error {
	mine := slices.Clone(uploads)
	for i := range mine {
		if base != nil && mine[i].end() <= base.Next {
			mine[i].Commit = ""
		}
	}
	return checkNames(base, next, mine)
}

// contentOnly is the rule of names without its epoch half: every upload looks as
// if it had been begun for this very commit.
func contentOnly(base, next *Record, uploads []Upload) error {
	now, mine := *next, slices.Clone(uploads)
	now.Segments = slices.Clone(next.Segments)
	for i := range mine {
		name := mine[i].Ref.Name
		if base != nil && base.names(name) {
			continue // refused as it is
		}
		mine[i].Ref.Name.Epoch = next.Epoch
		for j := range now.Segments {
			if now.Segments[j].Name == name {
				now.Segments[j].Name.Epoch = next.Epoch
			}
		}
	}
	return checkNames(base, &now, mine)
}
