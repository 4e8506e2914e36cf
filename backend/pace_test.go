package backend

import (
	"testing"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
)

// commits are the times at which commits begin that take as long as the round
// trip, one after the other, in ms.
func commits(p *pacer, n int, trip time.Duration, res manifest.Result) (at []int64) {
	begin := time.Unix(1000, 0)
	now := begin
	for range n {
		now = now.Add(max(0, p.delay(now)))
		p.begin(now)
		at = append(at, now.Sub(begin).Milliseconds())
		now = now.Add(trip)
		p.end(now, res)
	}
	return at
}

func TestPacer(t *testing.T) {
	one := manifest.Result{Attempts: 1}
	for _, tt := range []struct {
		name string
		p    pacer
		trip time.Duration
		res  manifest.Result
		want []int64
	}{
		{"nothing bounds it", pacer{}, 30 * time.Millisecond, one, []int64{0, 30, 60, 90}},
		{"linger", pacer{linger: 100 * time.Millisecond}, 30 * time.Millisecond, one, []int64{0, 100, 200, 300}},
		{"one a second", pacer{rate: objstore.Rate{PerSecond: 1}}, 30 * time.Millisecond, one, []int64{0, 1000, 2000, 3000}},
		{"a burst of three, then ten a second", pacer{rate: objstore.Rate{PerSecond: 10, Burst: 3}}, 10 * time.Millisecond, one, []int64{0, 10, 20, 100, 200, 300}},
		{"slower than the rate", pacer{rate: objstore.Rate{PerSecond: 10, Burst: 3}}, 200 * time.Millisecond, one, []int64{0, 200, 400, 600, 800, 1000}},
		{"throttled", pacer{}, 30 * time.Millisecond, manifest.Result{Attempts: 2, Throttled: 1}, []int64{0, 100, 300, 700, 1500}},
	} {
		got := commits(&tt.p, len(tt.want), tt.trip, tt.res)
		for i := range got {
			if d := got[i] - tt.want[i]; d < -1 || d > 1 {
				t.Errorf("%s: commits at %v ms, not %v", tt.name, got, tt.want)
				break
			}
		}
	}

	p := pacer{}
	commits(&p, 4, 30*time.Millisecond, manifest.Result{Attempts: 2, Throttled: 2})
	commits(&p, 12, 30*time.Millisecond, one)
	if p.slower != 0 {
		t.Errorf("still slowed down by %s after a dozen commits", p.slower)
	}
	if d := p.gather(); d < 500*time.Microsecond || d > 700*time.Microsecond {
		t.Errorf("waits %s for callers, with a round trip of 30 ms", d)
	}
	commits(&p, 1, 20*time.Microsecond, one)
	if d := p.gather(); d != 0 {
		t.Errorf("waits %s for callers, with a round trip of 20 µs", d)
	}
}

type rated struct{ objstore.Store }

func (rated) Rate() objstore.Rate { return objstore.Rate{PerSecond: 15, Burst: 15} }

// The rate is the store's, also behind decorators, unless an option says another.
func TestCommitRate(t *testing.T) {
	for _, tt := range []struct {
		option float64
		store  objstore.Store
		want   float64
	}{
		{0, rated{}, 15}, {0, tracestore.New(rated{}, tracestore.Options{}), 15}, {0, tracestore.New(nil, tracestore.Options{}), 0},
		{3, rated{}, 3}, {-1, rated{}, 0},
	} {
		if got := New(tt.store, Options{CommitRate: tt.option}).rate().PerSecond; got != tt.want {
			t.Errorf("option %v: %v commits a second, not %v", tt.option, got, tt.want)
		}
	}
}
