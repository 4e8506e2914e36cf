package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/internal/words"
)

const (
	timed      = 40 // requests of a kind
	rateWindow = 3 * time.Second
	rateWrites = 100
	ratePause  = 100 * time.Millisecond // after a request to slow down
)

// speed times small requests, one after the other: what an append and a read of
// a short log cost. The writes are commits to one key, whose rate some stores
// limit.
func (x *examination) speed(ctx context.Context) {
	var puts, gets []time.Duration
	var throttled bool
	key := probeKey()
	took := func(all *[]time.Duration, do func() error) error {
		begin := time.Now()
		err := do()
		if err == nil || errors.Is(err, objstore.ErrNotExist) || errors.Is(err, objstore.ErrDenied) {
			*all = append(*all, time.Since(begin))
		}
		return err
	}
	get := func() error {
		_, err := x.get(ctx, key, objstore.GetOptions{})
		return err
	}
	var failed error
	cond := objstore.IfAbsent()
	for n := range timed {
		if x.proof == nil {
			err := took(&puts, func() error {
				info, err := x.put(ctx, key, n, cond, nil)
				if err == nil {
					x.written, x.version = key, info.Version
					cond = objstore.IfVersion(info.Version)
				}
				return err
			})
			if throttled = errors.Is(err, objstore.ErrThrottled); err != nil {
				failed = err
				break
			}
		} else {
			key = absent(trees[0])
		}
		if err := took(&gets, get); err != nil && x.proof == nil {
			x.unread = err
			if failed = err; !errors.Is(err, objstore.ErrDenied) {
				break
			}
		}
	}
	x.report.Put, x.report.Get = latencyOf(puts), latencyOf(gets)
	x.compareClocks()
	x.add(x.latency(failed))
	if !x.skips(NameRate) {
		x.add(x.rate(ctx, key, cond, throttled))
	}
}

// put writes a few bytes that no other write has, and again while the store
// asks for that.
func (x *examination) put(ctx context.Context, key string, n int, cond objstore.Condition, metadata map[string]string) (info objstore.Info, err error) {
	body := fmt.Appendf(nil, "s3log store check %s %d\n", key, n)
	for try := range maxTries {
		info, err = x.store.Put(ctx, key, body, cond, objstore.PutOptions{ContentType: "text/plain", Metadata: metadata})
		if objstore.Classify(err) != objstore.TryAgain || sleep(ctx, baseDelay<<try) != nil {
			break
		}
	}
	if err == nil && info.Version.IsZero() { // the reply did not tell
		head, err := x.store.Head(ctx, key)
		return head, err
	}
	return info, err
}

func (x *examination) latency(failed error) Finding {
	f := Finding{Name: NameLatency, Status: OK}
	switch r := x.report; {
	case r.Put.Requests > 0:
		f.Seen = fmt.Sprintf("conditional PUT %s; GET %s", r.Put, r.Get)
	case r.Get.Requests > 0:
		f.Seen = fmt.Sprintf("GET of an absent object %s", r.Get)
	default:
		f.Status, f.Seen = Unknown, textOf(failed)
	}
	if failed != nil && !errors.Is(failed, objstore.ErrThrottled) && f.Status == OK {
		f.Status, f.Means, f.Do = Warning, "a request failed: "+textOf(failed), hintOf(failed)
	}
	return f
}

// rate measures how many commits a second one key takes, where that is limited.
func (x *examination) rate(ctx context.Context, key string, cond objstore.Condition, throttled bool) Finding {
	f := Finding{Name: NameRate, Status: OK}
	r := x.report
	switch {
	case !throttled && r.Profile.Rate == 0:
		if r.Put.Requests == 0 {
			f.Status, f.Seen = Unknown, "no write was answered"
			return f
		}
		f.Seen = fmt.Sprintf("no limit was met: about %s a second to one key, one after the other", words.Count(max(1, int(time.Second/max(r.Put.Median, 1))), "commit"))
		return f
	}
	done, limited := 0, throttled
	begin := time.Now()
	for n := timed; time.Since(begin) < rateWindow && done < rateWrites; n++ {
		info, err := x.put(ctx, key, n, cond, nil)
		switch {
		case err == nil:
			done++
			cond = objstore.IfVersion(info.Version)
			x.written, x.version = key, info.Version
		case errors.Is(err, objstore.ErrThrottled) && sleep(ctx, ratePause) == nil:
			limited = true
		default:
			f.Status, f.Seen, f.Do = Unknown, textOf(err), hintOf(err)
			return f
		}
	}
	if !limited {
		r.Profile.Rate = 0
		f.Seen = "many commits to one key at a time are slowed down, one after the other are not"
		return f
	}
	r.Profile.Rate = max(1, int(float64(done)/time.Since(begin).Seconds()))
	f.Seen = fmt.Sprintf("the store slows down commits to one key: about %d a second", r.Profile.Rate)
	f.Means = "what is appended meanwhile is one commit, so appends become wider and wait longer; nothing is lost"
	return f
}

// latencyOf sums up what requests took.
func latencyOf(all []time.Duration) Latency {
	if len(all) == 0 {
		return Latency{}
	}
	sorted := slices.Sorted(slices.Values(all))
	return Latency{Requests: len(all), Median: sorted[(len(all)-1)/2], P99: sorted[(len(all)*99+99)/100-1]}
}

// String is the latency in milliseconds.
func (l Latency) String() string {
	return fmt.Sprintf("%s (p99 %s, of %d)", milliseconds(l.Median), milliseconds(l.P99), l.Requests)
}

func milliseconds(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 10 {
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}
