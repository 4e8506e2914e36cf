package backend_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// tagged is an event that can be told from all others by its tag, with pad
// bytes that do not compress well.
func tagged(tag string, pad int) []byte {
	seed := fnv.New64()
	io.WriteString(seed, tag)
	rng := rand.New(rand.NewPCG(seed.Sum64(), uint64(pad)))
	text := make([]byte, pad)
	for i := range text {
		text[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[rng.IntN(64)]
	}
	return fmt.Appendf(nil, `{"type":"note","time":7,"data":{"tag":%q,"pad":%q}}`, tag, text)
}

// tagOf is the tag of a stored line.
func tagOf(line []byte) string {
	_, rest, _ := strings.Cut(string(line), `"tag":"`)
	tag, _, _ := strings.Cut(rest, `"`)
	return tag
}

// claims is what callers were told about their events, by tag.
type claims struct {
	mu     sync.Mutex       // of acked
	order  []string         // acknowledged, in the order in which they must stand
	at     map[string]int64 // seq of an acknowledged event
	maybe  map[string]bool  // outcome unknown, and not settled
	absent map[string]bool  // told that they are not committed
}

func newClaims() *claims {
	return &claims{at: map[string]int64{}, maybe: map[string]bool{}, absent: map[string]bool{}}
}

func (c *claims) acked(r backend.Receipt, tags ...string) error {
	if r.Count != int64(len(tags)) {
		return fmt.Errorf("receipt %+v for %q", r, tags)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, tag := range tags {
		c.order = append(c.order, tag)
		c.at[tag] = r.First + int64(i)
	}
	return nil
}

// audit reads a whole log through a store without faults and compares it with
// the claims: every acknowledged event once, at its seq and in order, none that
// was said not to be committed, and a manifest that agrees with the events.
func audit(ctx context.Context, st objstore.Store, id string, c *claims) error {
	head, err := manifest.Load(ctx, st, id, manifest.LoadOptions{})
	if err != nil {
		if len(c.order) == 0 {
			return nil
		}
		return fmt.Errorf("the manifest: %w", err)
	}
	rec := head.Record
	if rec.State != manifest.StateOpen && len(c.order) == 0 {
		return nil
	}
	if err := rec.Validate(); err != nil {
		return fmt.Errorf("the manifest: %w", err)
	}
	fold, err := manifest.NewFold(segment.NewState(), rec.ActivityRule)
	if err != nil {
		return err
	}
	seen := map[string]int64{}
	var order []string
	n := int64(0)
	for ev, err := range backend.NewReader(st, backend.Options{}).Events(ctx, id, backend.ReadOptions{}) {
		if err != nil {
			return fmt.Errorf("reading: %w", err)
		}
		parsed, err := ev.Parse()
		if err != nil {
			return err
		}
		if ev.Seq != n {
			return fmt.Errorf("seq %d where %d is next", ev.Seq, n)
		}
		fold.Add(parsed)
		n++
		tag := tagOf(ev.Line)
		if tag == "" {
			continue // was there before
		}
		if at, twice := seen[tag]; twice {
			return fmt.Errorf("%s is in the log twice, at %d and %d", tag, at, n-1)
		}
		seen[tag] = n - 1
		if at, known := c.at[tag]; known {
			order = append(order, tag)
			if at != n-1 {
				return fmt.Errorf("%s is at %d, its receipt says %d", tag, n-1, at)
			}
		} else if c.absent[tag] {
			return fmt.Errorf("%s is in the log at %d, its caller was told that it is not", tag, n-1)
		} else if !c.maybe[tag] {
			return fmt.Errorf("%s is in the log at %d, and nobody claims it", tag, n-1)
		}
	}
	if n != rec.Next {
		return fmt.Errorf("%d events, next is %d", n, rec.Next)
	}
	if got, want := strings.Join(order, " "), strings.Join(c.order, " "); got != want {
		return fmt.Errorf("acknowledged in the log: %s; want %s", got, want)
	}
	if got := fold.State().Tree.Root; got != rec.Content.Tree.Root {
		return fmt.Errorf("the events' root is %s, the manifest's %s", got, rec.Content.Tree.Root)
	}
	return nil
}

// judge reports the breaches that a memstore finds, with the case at hand.
type judge struct {
	t    testing.TB
	what string
}

func (j *judge) Helper() {}

func (j *judge) Errorf(format string, args ...any) {
	j.t.Errorf("%s: %s", j.what, fmt.Sprintf(format, args...))
}

// restore makes a store that holds what a snapshot does.
func restore(j memstore.Failer, objects map[string][]byte) *memstore.Store {
	mem := memstore.New(j)
	for key, body := range objects {
		mem.Replace(key, body)
	}
	return mem
}
