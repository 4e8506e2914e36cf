package backend

import (
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
)

// pacer says when the next commit of a handle may begin. Only the goroutine of
// run uses it.
type pacer struct {
	linger time.Duration // least time between the beginnings of two commits
	rate   objstore.Rate // what the store takes on one key

	began  time.Time     // of the newest commit
	slower time.Duration // as linger; raised while the store throttles
	trip   time.Duration // how long a commit takes: about the shortest of late
	spent  float64       // commits that the rate has not made good yet
}

// delay is how long to wait before the next commit. What arrives meanwhile joins
// it, so that a slow store gets wider commits.
func (p *pacer) delay(now time.Time) time.Duration {
	if p.began.IsZero() {
		return 0
	}
	since := now.Sub(p.began)
	wait := max(p.linger, p.slower) - since
	if p.rate.PerSecond > 0 {
		over := p.spent - since.Seconds()*p.rate.PerSecond + 1 - float64(max(p.rate.Burst, 1))
		wait = max(wait, time.Duration(over/p.rate.PerSecond*float64(time.Second)))
	}
	return wait
}

// begin notes that a commit begins.
func (p *pacer) begin(now time.Time) {
	if !p.began.IsZero() {
		p.spent = max(0, p.spent-now.Sub(p.began).Seconds()*p.rate.PerSecond)
	}
	p.spent++
	p.began = now
}

// end notes how it went, and reports whether commits are slowed down from now on.
func (p *pacer) end(now time.Time, res manifest.Result) (slowed bool) {
	slowed = p.slower == 0 && res.Throttled > 0
	switch {
	case res.Throttled > 0:
		p.slower = min(max(2*p.slower, 100*time.Millisecond), 5*time.Second)
	case p.slower > 0 && res.Attempts > 0:
		if p.slower /= 2; p.slower < 10*time.Millisecond {
			p.slower = 0
		}
	}
	if d := now.Sub(p.began); res.Attempts == 1 && (p.trip == 0 || d < p.trip) {
		p.trip = d
	} else if res.Attempts == 1 {
		p.trip += (d - p.trip) / 8
	}
	return slowed
}

const (
	// gatherShare of a round trip is waited for callers that a commit has just
	// answered: whoever appends again at once should be in the next commit, not in
	// the one after it.
	gatherShare = 50
	// minGather is the least wait that a timer can keep to.
	minGather = 50 * time.Microsecond
)

// gather is how long to wait for the callers of the last commit; 0 is not at all.
func (p *pacer) gather() time.Duration {
	if d := p.trip / gatherShare; d >= minGather {
		return d
	}
	return 0
}
