package integration

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/s3log/s3log/localstack"
	"github.com/s3log/s3log/localstack/container"
)

// trouble is something that happens to a server, and is over when it returns.
type trouble struct {
	name   string
	happen func(t *testing.T, length time.Duration)
	most   time.Duration // how long it lasts
}

const troublesAtOnce = 10 // before logs are checked

// troubles is how often a server is to be disturbed.
func troubles() int { return times(200, 5, 3, 1) }

// troubleServer lets agents of this process write to the logs of a server that
// is in trouble again and again. They go on by themselves: what they were told
// is true all the same, and where they were told nothing a decision is.
func troubleServer(t *testing.T, server *localstack.Server, all ...trouble) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	var sum tally
	begin, n := time.Now(), troubles()
	happened := map[string]int{}
	for over, round := 0, 0; over < n && !t.Failed(); round++ {
		now := min(troublesAtOnce, n-over)
		t.Run(fmt.Sprint("round-", round), func(t *testing.T) {
			bucket := server.Bucket(t)
			store := openS3(t, server.Endpoint, bucket, server.AccessKey, server.SecretKey)
			s := &slaughter{ledger: newLedger(), logs: []string{"a", "b", "c/d"}, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), store: store}
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for i := range agents {
				a := newAgent(fmt.Sprint("p", i), s.int63(1<<60), 0, s.logs, openS3(t, server.Endpoint, bucket, server.AccessKey, server.SecretKey), s.take)
				a.rough, a.stop = true, stop
				wg.Go(func() { a.run(t.Context(), nil) })
			}
			for i := range now {
				time.Sleep(s.between(50*time.Millisecond, 500*time.Millisecond))
				what := all[(over+i)%len(all)]
				what.happen(t, s.between(0, what.most))
				happened[what.name]++
			}
			time.Sleep(s.between(0, 300*time.Millisecond))
			close(stop)
			wg.Wait()
			s.aftermath(t)
			s.check(t, store)
			sum.add(s.tally)
		})
		over += now
	}
	t.Logf("%v, %v each with its share of the checks: %v", happened, (time.Since(begin) / time.Duration(n)).Round(time.Millisecond), sum)
	if sum.acked < n {
		t.Error("next to nothing was done: the test shows nothing")
	}
	if n >= 100 && (sum.repeated == 0 || sum.decidedYes == 0 || sum.decidedNo == 0) {
		t.Error("nobody was ever left in the dark: the test shows less than it says")
	}
}

// The process of a server is killed and started again under load. This is no
// power cut: what it has written is in the page cache.
func TestCrashOfTheServer(t *testing.T) {
	server := localstack.Start(t, localstack.Own())
	troubleServer(t, server, trouble{"killed", func(t *testing.T, length time.Duration) {
		server.Kill(t)
		time.Sleep(length)
		server.Restart(t)
	}, 400 * time.Millisecond})
}

// A container is paused, and killed and started again, under load.
func TestCrashOfTheContainer(t *testing.T) {
	container.SkipUnlessWanted(t)
	c := container.Run(t, container.Versitygw(t))
	troubleServer(t, c.Server, trouble{"paused", func(t *testing.T, length time.Duration) {
		c.Pause(t)
		time.Sleep(length)
		c.Resume(t)
	}, time.Second}, trouble{"killed", func(t *testing.T, length time.Duration) {
		c.Kill(t)
		time.Sleep(length)
		c.Restart(t)
	}, 400 * time.Millisecond})
}
