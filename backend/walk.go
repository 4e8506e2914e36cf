package backend

import (
	"context"
	"iter"
	"strings"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
)

// place is what a walk over a store found of one log: the object of its manifest,
// what is below its prefix in the tree of segments, or both.
type place struct {
	manifest *objstore.Info // nil if it was not listed
	group    *group         // without objects if none were listed
}

// places walks the store log by log, in the order of the keys of segments: one
// LIST over each of the two trees, side by side. Memory is that of the list of
// one log. What is below manifests/ and is no manifest's key is given to foreign.
// A failure to list is yielded last.
func (c *collector) places(ctx context.Context, foreign func(key string)) iter.Seq2[place, error] {
	return func(yield func(place, error) bool) {
		nextInfo, stopInfos := iter.Pull2(c.manifestsByPrefix(ctx, foreign))
		defer stopInfos()
		nextGroup, stopGroups := iter.Pull2(c.groups(ctx, manifest.SegmentTree))
		defer stopGroups()
		info, err, more := nextInfo()
		g, gerr, moreGroups := nextGroup()
		for more || moreGroups {
			if more && err != nil || moreGroups && gerr != nil {
				if err == nil || !more {
					err = gerr
				}
				yield(place{}, err)
				return
			}
			order := -1 // of the manifest, compared with the group
			var prefix string
			if more {
				prefix = segmentPrefixOf(info.Key)
			}
			switch {
			case !more || moreGroups && !g.log:
				order = 1
			case moreGroups:
				order = strings.Compare(prefix, g.prefix)
			}
			var p place
			if order <= 0 {
				found := info
				p.manifest = &found
				p.group = newGroup(prefix)
				info, err, more = nextInfo()
			}
			if order >= 0 {
				p.group = g
				g, gerr, moreGroups = nextGroup()
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}

// manifestsByPrefix lists manifests in the order of the prefixes of their
// segments. That is nearly the order of their own keys: only where one escaped id
// begins with another and a dot does `.json` stand elsewhere than `/`, so the
// shorter one waits until all that begin with it have passed.
func (c *collector) manifestsByPrefix(ctx context.Context, foreign func(key string)) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		var waiting []objstore.Info // each begins with the one before it and a dot
		release := func(key string) bool {
			for n := len(waiting); n > 0; n = len(waiting) {
				last := waiting[n-1]
				if strings.HasPrefix(key, strings.TrimSuffix(last.Key, manifestSuffix)+".") {
					break
				}
				waiting = waiting[:n-1]
				if !yield(last, nil) {
					return false
				}
			}
			return true
		}
		for info, err := range c.b.store.List(ctx, manifest.ManifestPrefix, "") {
			if err != nil {
				if release("") {
					yield(info, err)
				}
				return
			}
			c.b.clock.Observe(info.Date)
			if _, _, ok := manifest.ParseKey(info.Key); !ok {
				foreign(info.Key)
				continue
			}
			if !release(info.Key) {
				return
			}
			waiting = append(waiting, info)
		}
		release("")
	}
}

// manifestSuffix is what the keys of manifests end with.
const manifestSuffix = ".json"

// segmentPrefixOf is the prefix of the segments of the log whose manifest has
// this key.
func segmentPrefixOf(key string) string {
	escaped := strings.TrimSuffix(strings.TrimPrefix(key, manifest.ManifestPrefix), manifestSuffix)
	return manifest.SegmentTree + escaped + "/"
}
