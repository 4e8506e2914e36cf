package backend

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
)

// TestBrokenSeedPath leaves out one rule at a time, and demands that the
// explorer notices: what it cannot notice it does not check. The names in
// brackets are those of the traces that found the rule.
func TestBrokenSeedPath(t *testing.T) {
	for _, tc := range []struct {
		name   string
		config string // in which it is broken
		broken brokenSeed
		want   string // classes of what may be found
	}{
		{"closers and boundary are not made again after a conflict [M6 V13 V3]", "two delayed resumes", brokenSeed{open: afterConflict(noMark)}, "MIXED"},
		{"the same at a boundary, pending [M6 V13 V3]", "resumes at a boundary", brokenSeed{open: afterConflict(noMark)}, "MIXED"},
		{"closers of the version first read", "two delayed resumes", brokenSeed{open: afterConflict(oldClosers)}, "MIXED CLOSERS"},
		{"the first commit of a resume keeps the generation [M6 V7]", "owner at a boundary", brokenSeed{body: sameGeneration}, "INTERLEAVE"},
		{"the same of one that was delayed [M6 V7]", "owner and delayed resume", brokenSeed{body: sameGeneration}, "INTERLEAVE"},
		{"the boundary is written twice", "two delayed resumes", brokenSeed{open: twice}, "DOUBLED"},
		{"a log that ends in its boundary is marked again", "resumes at a boundary", brokenSeed{open: always}, "DOUBLED"},
		{"the lifecycle is not renewed", "two delayed resumes", brokenSeed{open: sameLifecycle}, "LIFECYCLE"},
		{"the key is looked up once [M5 V4 V9]", "one key, delayed", brokenSeed{open: keyOnce}, "KEYTWICE"},
		{"a keyed retry writes its boundary first", "one key, delayed", brokenSeed{claimFirst: true}, "WROTE"},
		{"the child's manifest before its segment [B10]", "two forks", brokenSeed{childFirst: true}, "DANGLING"},
		{"the same on a void [B10]", "forks on a void", brokenSeed{childFirst: true}, "DANGLING"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := configNamed(t, tc.config)
			cfg.broken = tc.broken
			r := explore(t, cfg)
			class, _, _ := strings.Cut(r.broken, ":")
			switch {
			case r.broken == "":
				t.Errorf("not noticed in %d states", r.states)
			case !slices.Contains(strings.Fields(tc.want), class):
				t.Errorf("noticed as %s, not as %s\n%s", r.broken, tc.want, strings.Join(r.trace, "\n"))
			default:
				t.Logf("%s\n%s", r.broken, strings.Join(r.trace, "\n"))
			}
		})
	}
}

// afterConflict replaces an opening from its second call on.
func afterConflict(with func(first *manifest.Record, real seedpath.Opening) seedpath.Opening) func(seedpath.Opening) seedpath.Opening {
	return func(real seedpath.Opening) seedpath.Opening {
		var first *manifest.Record
		return func(ctx context.Context, base *manifest.Record, at int64) (*manifest.Draft, error) {
			if first == nil || first.Revision == base.Revision {
				first = base
				return real(ctx, base, at)
			}
			return with(first, real)(ctx, base, at)
		}
	}
}

// again begins what a real opening begins, without what it adds.
func again(ctx context.Context, real seedpath.Opening, base *manifest.Record, at int64) (*manifest.Draft, error) {
	d, err := real(ctx, base, at)
	if err != nil {
		return nil, err
	}
	g := d.Preview().Owner
	return manifest.TakeOver(base, manifest.Writer{ID: g.Writer, Label: g.Label}, manifest.KindResume, at)
}

func noMark(_ *manifest.Record, real seedpath.Opening) seedpath.Opening {
	return func(ctx context.Context, base *manifest.Record, at int64) (*manifest.Draft, error) {
		d, err := again(ctx, real, base, at)
		if err == nil {
			d.Begin(manifest.KindResume, base.Next, 0)
		}
		return d, err
	}
}

func oldClosers(first *manifest.Record, real seedpath.Opening) seedpath.Opening {
	return func(ctx context.Context, base *manifest.Record, at int64) (*manifest.Draft, error) {
		d, err := again(ctx, real, base, at)
		if err != nil {
			return nil, err
		}
		n, err := seedpath.End(d, base, first.Content.Turn)
		if err == nil {
			err = seedpath.Mark(d, at)
		}
		d.Begin(manifest.KindResume, base.Next, n)
		return d, err
	}
}

func twice(real seedpath.Opening) seedpath.Opening {
	return func(ctx context.Context, base *manifest.Record, at int64) (*manifest.Draft, error) {
		d, err := real(ctx, base, at)
		if err == nil {
			err = seedpath.Mark(d, at)
		}
		return d, err
	}
}

func always(real seedpath.Opening) seedpath.Opening {
	return func(ctx context.Context, base *manifest.Record, at int64) (*manifest.Draft, error) {
		d, err := real(ctx, base, at)
		if err != nil {
			return nil, err
		}
		if _, n := d.Lines(); n == 0 {
			err = seedpath.Mark(d, at)
		}
		return d, err
	}
}

func sameLifecycle(real seedpath.Opening) seedpath.Opening {
	return func(ctx context.Context, base *manifest.Record, at int64) (*manifest.Draft, error) {
		d, err := again(ctx, real, base, at)
		if err != nil {
			return nil, err
		}
		_, err = seedpath.End(d, base, base.Content.Turn)
		if err == nil {
			err = seedpath.Mark(d, at)
		}
		return d, err
	}
}

// keyOnce hides the keys of every version but the first.
func keyOnce(real seedpath.Opening) seedpath.Opening {
	return afterConflict(func(_ *manifest.Record, real seedpath.Opening) seedpath.Opening {
		return func(ctx context.Context, base *manifest.Record, at int64) (*manifest.Draft, error) {
			hidden := *base
			hidden.Keys = nil
			return real(ctx, &hidden, at)
		}
	})(real)
}

// sameGeneration lets a takeover keep the generation of the version that it
// takes over.
func sameGeneration(head *stored, body []byte) []byte {
	r, err := manifest.Decode(body)
	if err != nil || head == nil || r.Generation() == head.rec.Generation() {
		return body
	}
	r.Generations = slices.Clone(head.rec.Generations)
	r.Generations[len(r.Generations)-1].Writer = r.Owner.Writer
	owner := *r.Owner
	owner.Generation = head.rec.Generation()
	r.Owner = &owner
	if body, err = r.Encode(); err != nil {
		panic(err)
	}
	return body
}
