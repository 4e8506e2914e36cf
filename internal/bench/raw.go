package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/s3log/s3log/backend/objstore"
)

// rawTree is where raw objects are, beside the trees of logs.
const rawTree = "raw/"

// chain is one raw object that is written again and again, each time on the
// version before, as a manifest is.
type chain struct {
	store   objstore.Store
	key     string
	version objstore.Version
	writes  int
	body    []byte
}

// set takes a copy of the body of the writes that follow.
func (c *chain) set(body []byte) { c.body = append(c.body[:0], body...) }

const (
	rawTries    = 12
	rawMinDelay = 50 * time.Millisecond
	rawMaxDelay = 5 * time.Second
)

// put is one conditional PUT, and the same again where the store does not take
// it, as a commit does. A stamp makes the body unlike those of earlier writes, as
// no two manifests are equal.
func (c *chain) put(ctx context.Context) error {
	c.writes++
	copy(c.body, fmt.Sprintf("%08d", c.writes))
	cond := objstore.IfAbsent()
	if !c.version.IsZero() {
		cond = objstore.IfVersion(c.version)
	}
	delay, open := rawMinDelay, false // open: an earlier try may have been applied
	for try := 1; ; try++ {
		info, err := c.store.Put(ctx, c.key, c.body, cond, objstore.PutOptions{ContentType: "application/json"})
		class := objstore.Classify(err)
		switch {
		case class == objstore.Applied && !info.Version.IsZero():
			c.version = info.Version
			return nil
		case class == objstore.Applied, class == objstore.Precondition && open:
			info, err := c.store.Head(ctx, c.key)
			c.version = info.Version
			return err
		case class != objstore.Undecided && class != objstore.TryAgain, try == rawTries, ctx.Err() != nil:
			return err
		}
		open = open || class == objstore.Undecided
		if err := pause(ctx, delay); err != nil {
			return err
		}
		delay = min(2*delay, rawMaxDelay)
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const (
	getsAtATime  = 4 // what a reader of s3log fetches ahead
	headsAtATime = 8 // what a listing asks about at a time
)

// again makes the same requests without s3log: those that read as many at a time
// as s3log does, then those that write, under names of their own.
func (r *run) again(ctx context.Context, calls []call) error {
	by := map[string][]call{}
	for _, c := range calls {
		by[c.op] = append(by[c.op], c)
	}
	get := func(c call) error {
		_, err := r.slow.Get(ctx, c.key, c.get)
		return err
	}
	for _, c := range by["List"] {
		for _, err := range r.slow.List(ctx, c.key, c.src) {
			if err != nil {
				return err
			}
		}
	}
	if gets := by["Get"]; len(gets) > 0 { // the manifest, which the others depend on
		if err := get(gets[0]); err != nil {
			return err
		}
		by["Get"] = gets[1:]
	}
	name := func() string {
		r.rawKeys++
		return fmt.Sprintf("%s%08d", rawTree, r.rawKeys)
	}
	for _, step := range []struct {
		op    string
		width int
		do    func(call) error
	}{
		{"Get", getsAtATime, get},
		{"Head", headsAtATime, func(c call) error {
			_, err := r.slow.Head(ctx, c.key)
			return err
		}},
		{"Copy", 1, func(c call) error {
			_, err := r.slow.(objstore.Copier).Copy(ctx, c.src, name())
			return err
		}},
		{"Put", 1, func(c call) error {
			one := chain{store: r.slow, key: name(), body: c.body}
			return one.put(ctx)
		}},
	} {
		todo := by[step.op]
		errs := make([]error, len(todo))
		atATime(step.width, len(todo), func(i int) { errs[i] = step.do(todo[i]) })
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}
