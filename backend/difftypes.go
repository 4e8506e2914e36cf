package backend

import (
	"context"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// counts is how many events of each type there are.
type counts map[string]int64

// sides says what each of two logs has behind the common events.
func (d *comparison) sides(ctx context.Context) error {
	p, c := d.p.rec(), d.c.rec()
	own := make([]counts, 2)
	for i, s := range []*diffLog{&d.p, &d.c} {
		var err error
		if own[i], err = d.own(ctx, s); err != nil {
			return err
		}
	}
	d.out.Parent = d.side(p, own[0], c, own[1])
	d.out.Child = d.side(c, own[1], p, own[0])
	return nil
}

// own counts the own events of a log: by reading them, if everything is to be
// read, or if the manifest has them; else nil.
func (d *comparison) own(ctx context.Context, s *diffLog) (counts, error) {
	rec, from := s.rec(), d.out.Common
	n := make(counts)
	if !d.opt.Verify && from < rec.TailFirst() {
		// What a fork writes into its first segment of its own is its boundary: where
		// nothing else was sealed, that is known, too.
		b := rec.Content.Boundary
		if b == nil || b.Seq != from || from+1 != rec.TailFirst() {
			return nil, nil
		}
		n[segment.TypeEndSeed]++
		from++
	}
	if from >= rec.Next {
		return n, nil
	}
	return n, s.events(ctx, from, rec.Next, func(e segment.Event) {
		if _, exact := rec.Content.Types.Get(e.Type); !exact {
			e.Type = "" // the entry of all that the manifest counts together
		}
		n[e.Type]++
	})
}

// side is one of two logs, of which rec is the manifest and own its own events,
// as far as they are known, beside the other one. What both have before the cut
// is the same: what one of them tells of that holds for the other.
func (d *comparison) side(rec *manifest.Record, own counts, other *manifest.Record, theirs counts) DiffSide {
	cut := d.out.Common
	s := DiffSide{
		Log: rec.Log, UID: rec.UID, Revision: rec.Revision, Next: rec.Next, Root: rec.Content.Tree.Root,
		LastTime: rec.Content.LastTime, Own: rec.Next - cut,
	}
	for _, t := range rec.Content.Types.Entries {
		if t.Count == 0 || t.Last < cut {
			continue
		}
		count := int64(-1)
		before, known := beforeCut(other, theirs, cut, t.Type)
		switch {
		case own != nil:
			count = own[t.Type]
		case t.First >= cut:
			count = t.Count
		case known:
			count = t.Count - before
		}
		s.Types = append(s.Types, DiffType{Type: t.Type, Count: count, Last: t.Last})
	}
	if t := rec.Content.Types.Overflow; t != nil && t.Last >= cut {
		count := int64(-1)
		if own != nil {
			count = own[""]
		} else if t.First >= cut {
			count = t.Count
		}
		s.Types = append(s.Types, DiffType{Count: count, Last: t.Last})
	}
	return s
}

// beforeCut is how many events of a type are before the cut, as far as a
// manifest tells.
func beforeCut(rec *manifest.Record, own counts, cut int64, typ string) (n int64, known bool) {
	t, exact := rec.Content.Types.Get(typ)
	switch {
	case !exact:
		return 0, false
	case own != nil:
		return t.Count - own[typ], true
	case t.Count == 0 || t.First >= cut:
		return 0, true
	}
	return t.Count, t.Last < cut
}
