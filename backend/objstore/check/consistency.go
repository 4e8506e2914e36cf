package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/internal/words"
)

const (
	overwrites  = 60 // while it is read
	overwriting = 5 * time.Second
	readers     = 3
)

// numbered is a body that shows whether it is whole: its number, repeated.
func numbered(n int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%08d", n), 1+(n*7919)%2048)
}

// numberOf is the number of a body, or -1.
func numberOf(body []byte) int {
	n := -1
	if len(body) >= 8 {
		if _, err := fmt.Sscanf(string(body[:8]), "%d", &n); err != nil {
			return -1
		}
	}
	if n < 0 || !bytes.Equal(body, numbered(n)) {
		return -1
	}
	return n
}

// readings is what readers saw of an object that was being overwritten.
type readings struct {
	mu     sync.Mutex
	reads  int
	stale  int // found an object older than one whose write was acknowledged before
	mixed  int // bytes of more than one version
	pairs  []pair
	failed []error
}

// pair is a version and the number of the body that came with it.
type pair struct {
	version objstore.Version
	number  int
}

func (r *readings) see(o objstore.Object, err error, least int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	if err != nil {
		r.failed = append(r.failed, err)
		return
	}
	n := numberOf(o.Body)
	switch {
	case n < 0:
		r.mixed++
	case n < least:
		r.stale++
	default:
		r.pairs = append(r.pairs, pair{o.Version, n})
	}
}

// consistency overwrites an object while it is read.
func (x *examination) consistency(ctx context.Context) {
	if x.skips(NameConsistency) {
		return
	}
	key := probeKey()
	versions := map[objstore.Version]int{}
	var acked atomic.Int64
	write := func(n int, cond objstore.Condition) (objstore.Info, error) {
		info, err := x.store.Put(ctx, key, numbered(n), cond, objstore.PutOptions{ContentType: "text/plain"})
		if err == nil {
			acked.Store(int64(n))
			if !info.Version.IsZero() {
				versions[info.Version] = n
			}
		}
		return info, err
	}
	info, err := write(0, objstore.IfAbsent())
	if err == nil && info.Version.IsZero() {
		info, err = x.store.Head(ctx, key)
	}
	if err != nil {
		x.add(Finding{Name: NameConsistency, Status: Unknown, Seen: textOf(err), Do: hintOf(err)})
		return
	}
	var r readings
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for {
				least := int(acked.Load())
				o, err := x.store.Get(ctx, key, objstore.GetOptions{Limit: 1 << 20})
				r.see(o, err, least)
				select {
				case <-done:
					return
				default:
				}
				if err != nil && sleep(ctx, baseDelay) != nil {
					return
				}
			}
		})
	}
	begin := time.Now()
	writes := 0
	for n := 1; n <= overwrites && time.Since(begin) < overwriting; {
		next, err := write(n, objstore.IfVersion(info.Version))
		if err == nil && next.Version.IsZero() {
			next, err = x.store.Head(ctx, key)
		}
		if err == nil {
			info, writes, n = next, writes+1, n+1
			continue
		}
		if c := objstore.Classify(err); c != objstore.TryAgain && !errors.Is(err, objstore.ErrThrottled) || sleep(ctx, baseDelay) != nil {
			break // what was read by then is enough
		}
	}
	close(done)
	wg.Wait()
	x.add(r.finding(writes, versions))
}

func (r *readings) finding(writes int, versions map[objstore.Version]int) Finding {
	torn := 0
	for _, p := range r.pairs {
		if n, ok := versions[p.version]; ok && n != p.number {
			torn++
		}
	}
	f := Finding{Name: NameConsistency, Status: OK}
	f.Seen = words.Count(r.reads, "read") + " beside " + words.Count(writes, "overwrite")
	switch {
	case r.stale > 0:
		f.Status, f.Unsafe = Failed, true
		f.Seen += fmt.Sprintf(": %d found an object that had been replaced before", r.stale)
		f.Means = "what was acknowledged is not seen by everybody at once, on which every commit relies"
		f.Do = "use a bucket of one region, without a cache in front of it"
	case len(r.failed) == r.reads && r.reads > 0 && errors.Is(r.failed[0], objstore.ErrDenied):
		f.Status, f.Seen, f.Do = Skipped, "not tried: these credentials may not read below "+probePrefix, ""
	case r.mixed > 0 || len(r.failed) > 0:
		f.Status = Warning
		if r.mixed > 0 {
			f.Seen += fmt.Sprintf(": %d got parts of two versions", r.mixed)
		} else {
			f.Seen += fmt.Sprintf(": %d failed (%s)", len(r.failed), textOf(r.failed[0]))
		}
		f.Means = "a read that meets a write is made again, so that reading a log that is being written takes longer"
	case torn > 0:
		f.Seen += fmt.Sprintf(": %d got the body of one version with the ETag of another", torn)
		f.Means = "known of servers that keep objects as files: it is recognised, and read again"
	default:
		f.Seen += ": each saw what was acknowledged before, whole"
	}
	return f
}

// listing lists some keys.
func (x *examination) listing(ctx context.Context) {
	if x.skips(NameListing) {
		return
	}
	base := probeKey()
	var want []string
	for _, end := range []string{"0", "00", "09", "1", "9", "9a", "a", "a0", "f"} {
		if _, err := x.put(ctx, base+end, 0, objstore.IfAbsent(), nil); err != nil {
			x.add(Finding{Name: NameListing, Status: Unknown, Seen: textOf(err), Do: hintOf(err)})
			return
		}
		want = append(want, base+end)
	}
	got, err := x.keys(ctx, base)
	f := Finding{Name: NameListing, Status: OK, Seen: "lists are in order, and show what was just written and not what was just removed"}
	switch {
	case errors.Is(err, objstore.ErrDenied):
		f.Status, f.Seen = Skipped, "not tried: these credentials may not list"
	case err != nil:
		f.Status, f.Seen, f.Do = Warning, textOf(err), hintOf(err)
	case !slices.Equal(got, want):
		f.Status, f.Seen = Warning, fmt.Sprintf("of %d objects just written a list shows %d: %s", len(want), len(got), strings.Join(got, " "))
	case x.store.keeps() || x.store.Delete(ctx, want[0]) != nil:
		f.Seen = "lists are in order, and show what was just written"
	default:
		if got, err = x.keys(ctx, base); err != nil {
			f.Status, f.Seen, f.Do = Warning, textOf(err), hintOf(err)
		} else if !slices.Equal(got, want[1:]) {
			f.Status, f.Seen = Warning, "a list shows what was just removed"
		}
	}
	if f.Status == Warning {
		x.lists = No
		f.Means = "logs may be missing from lists; reading and writing logs whose ids are known does not depend on lists"
	}
	x.add(f)
}

func (x *examination) keys(ctx context.Context, prefix string) (keys []string, err error) {
	for info, err := range x.store.List(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		keys = append(keys, info.Key)
	}
	return keys, nil
}

// metadata writes some and looks whether it is kept.
func (x *examination) metadata(ctx context.Context) {
	if x.skips(NameMetadata) {
		return
	}
	key, want := probeKey(), "probe-"+nonce()
	f := Finding{Name: NameMetadata, Status: OK, Seen: "it is kept"}
	info, err := x.put(ctx, key, 0, objstore.IfAbsent(), map[string]string{"s3log-commit": want})
	if err == nil {
		info, err = x.store.Head(ctx, key)
	}
	switch {
	case errors.Is(err, objstore.ErrDenied):
		f.Status, f.Seen = Skipped, "not tried: these credentials may not read below "+probePrefix
	case err != nil:
		f.Status, f.Seen, f.Do = Unknown, textOf(err), hintOf(err)
	case info.Metadata["s3log-commit"] != want:
		f.Status, f.Seen = Warning, "it is not kept"
		f.Means = "nothing depends on it: lists ask the manifests themselves, which takes longer"
	}
	x.add(f)
}
