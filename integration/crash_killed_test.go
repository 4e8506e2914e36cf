package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/localstack"
)

// envLife is what a process that will be killed is told: a life as JSON.
const envLife = "S3LOG_INTEGRATION_LIFE"

// life is one process of an agent.
type life struct {
	Agent string
	Seed  int64
	Next  int64
	Logs  []string
	Left  []deed // to be repeated and decided first

	// The process kills itself at call At of its store: before it, in the middle
	// of it, or after it was answered. 0: somebody else does it.
	At  int64
	How string
}

const (
	killBefore = "before"
	killAmid   = "amid"
	killAfter  = "after"
)

// liveAgent is what a child process does until it is killed.
func liveAgent(store objstore.Store) error {
	var l life
	if err := json.Unmarshal([]byte(os.Getenv(envLife)), &l); err != nil {
		return err
	}
	if l.At > 0 {
		store = &doomed{Store: store, at: l.At, how: l.How}
	}
	var mu sync.Mutex
	tell := func(d deed) {
		mu.Lock()
		defer mu.Unlock()
		line, _ := json.Marshal(d)
		os.Stdout.Write(append(line, '\n'))
	}
	newAgent(l.Agent, l.Seed, l.Next, l.Logs, store, tell).run(context.Background(), l.Left)
	return nil
}

// doomed is a store whose process dies at one of its calls.
type doomed struct {
	objstore.Store
	calls atomic.Int64
	at    int64
	how   string
}

// call is done before a call; what it returns after it.
func (s *doomed) call() (after func()) {
	if s.calls.Add(1) != s.at {
		return func() {}
	}
	switch s.how {
	case killBefore:
		die()
	case killAmid:
		time.AfterFunc(time.Duration(rand.Int64N(int64(3*time.Millisecond))), die)
		return func() {}
	}
	return die
}

// die is SIGKILL: nothing runs after it, no deferred call and no finalizer.
func die() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

func (s *doomed) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	defer s.call()()
	return s.Store.Get(ctx, key, opt)
}

func (s *doomed) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	defer s.call()()
	return s.Store.Put(ctx, key, body, cond, opt)
}

func (s *doomed) Delete(ctx context.Context, key string) error {
	defer s.call()()
	return s.Store.Delete(ctx, key)
}

func (s *doomed) Copy(ctx context.Context, src, dst string) (objstore.Info, error) {
	defer s.call()()
	return s.Store.(objstore.Copier).Copy(ctx, src, dst)
}

// slaughter is a store in which agents are killed.
type slaughter struct {
	*ledger
	logs  []string
	rng   *rand.Rand // guarded by mu
	mu    sync.Mutex
	env   []string // where child processes find the store
	store objstore.Store
	left  int // kills to go, guarded by mu
}

const (
	agents      = 4  // at a time
	killsAtOnce = 40 // before logs are checked
)

// crashes is how often writers are to be killed on one kind of store.
func crashes() int { return times(5000, 150, 20, 5) }

// times is how often something is to happen: in the long run, in CI, by default,
// and where there is little time. S3LOG_CRASHES says another number.
func times(most, ci, normal, least int) int {
	if n, err := strconv.Atoi(os.Getenv("S3LOG_CRASHES")); err == nil && n > 0 {
		return n
	}
	switch {
	case long():
		return most
	case raceDetector || testing.Short():
		return least
	case os.Getenv("CI") == "true":
		return ci
	}
	return normal
}

// killWriters kills processes that write to the same logs, in stores that fresh
// makes, and starts them again, and checks after some dozens of kills that
// nothing is wrong.
func killWriters(t *testing.T, fresh func(t *testing.T) (store objstore.Store, env []string, examine func(t *testing.T, sum *tally))) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(uint64(seed), 0))
	n := crashes()
	var sum tally
	begin := time.Now()
	for killed, round := 0, 0; killed < n && !t.Failed(); round++ {
		kills := min(killsAtOnce, n-killed)
		killed += kills
		t.Run(fmt.Sprint("round-", round), func(t *testing.T) {
			store, env, examine := fresh(t)
			s := &slaughter{ledger: newLedger(), logs: []string{"a", "b", "c/d"}, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), env: env, store: store, left: kills}
			s.run(t)
			s.aftermath(t)
			s.check(t, store)
			examine(t, &s.tally)
			sum.add(s.tally)
		})
	}
	t.Logf("%d processes killed, %v each with its share of the checks: %v", n, (time.Since(begin) / time.Duration(n)).Round(time.Millisecond), sum)
	if sum.acked < n || sum.events < n {
		t.Error("next to nothing was done: the test shows nothing")
	}
	rare := min(sum.repeated, sum.decidedYes, sum.decidedNo) == 0
	if n >= 1000 && rare || n >= 100 && (sum.repeated+sum.decidedYes+sum.decidedNo == 0 || sum.segments == 0 || sum.orphans == 0) {
		t.Error("something never happened: the test shows less than it says")
	}
}

// run has agents live until as many of them have been killed as should be.
func (s *slaughter) run(t *testing.T) {
	var wg sync.WaitGroup
	for i := range agents {
		name := fmt.Sprint("p", i)
		wg.Go(func() {
			for s.oneLess() && !t.Failed() {
				s.life(t, name)
			}
		})
	}
	wg.Wait()
}

func (s *slaughter) oneLess() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left--
	return s.left >= 0
}

// int63 is a random number below n.
func (s *slaughter) int63(n int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.Int64N(n)
}

func (s *slaughter) between(from, to time.Duration) time.Duration {
	return from + time.Duration(s.int63(int64(to-from)))
}

// life runs one process of an agent until it is killed.
func (s *slaughter) life(t *testing.T, name string) {
	l := life{Agent: name, Seed: s.int63(1 << 60), Next: s.next(name), Logs: s.logs, Left: s.open(name)}
	// In which way it dies: at a moment, after something that it says, or at a
	// request of its own.
	line, later := int64(0), s.between(0, 80*time.Millisecond)
	switch s.int63(10) {
	case 0: // also while it starts
		line = -1
	case 1, 2, 3:
		line, later = s.int63(40), s.between(0, 3*time.Millisecond)
	case 4, 5, 6, 7:
		l.At, l.How, later = 1+s.int63(60), []string{killBefore, killAmid, killAfter}[s.int63(3)], 10*time.Second
	}
	text, err := json.Marshal(l)
	if err != nil {
		t.Error(err)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = slices.Concat(os.Environ(), s.env, []string{childEnv + "=agent", envLife + "=" + string(text)})
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return
	}
	kill := func() { time.AfterFunc(later, func() { _ = cmd.Process.Kill() }) } // it may have done so itself
	if line < 0 {
		kill()
	}
	said := bufio.NewReader(out)
	for n := int64(0); ; n++ {
		text, err := said.ReadBytes('\n')
		if err != nil {
			break // also in the middle of a line, of which nothing is known then
		}
		var d deed
		if err := json.Unmarshal(text, &d); err != nil {
			t.Errorf("%s says %q: %v", name, text, err)
		}
		s.take(d)
		if n == line {
			kill()
		}
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != -1 {
		t.Errorf("%s ended by itself: %v\n%s", name, err, &stderr)
	}
	s.settle(t, name)
}

// settle has somebody else decide some of what an agent that was killed has left
// open. The rest is its next life's to do.
func (s *slaughter) settle(t *testing.T, name string) {
	for _, d := range s.open(name) {
		if d.State == isUnknown && d.Token != "" && d.Do == doAppend && s.int63(2) == 0 {
			s.someone(name).decide(t.Context(), d)
		}
	}
}

// someone is an agent of this process, which nobody kills.
func (s *slaughter) someone(name string) *agent {
	return newAgent(name, s.int63(1<<60), s.next(name), s.logs, s.store, s.take)
}

// aftermath settles what can be settled, and goes on with every log: the dead
// are in nobody's way.
func (s *slaughter) aftermath(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience(30*time.Second))
	defer cancel()
	for i := range agents {
		name := fmt.Sprint("p", i)
		s.someone(name).catchUp(ctx, s.open(name))
		if left := s.open(name); len(left) > 0 {
			t.Errorf("%s: still open: %+v", name, left)
		}
	}
	a := s.someone("last")
	for _, id := range s.logs {
		begin := time.Now()
		l, err := a.background.Create(id, backend.CreateOptions{OrAdopt: true, AdoptOptions: takeOver})
		if err != nil {
			t.Fatal(err)
		}
		if state := a.append(ctx, l, a.plan(doAppend, id, 3), backend.AppendOptions{Last: true}); state != isDone {
			t.Errorf("after %v an append to %s has %s", time.Since(begin), id, state)
		}
		a.fine(l.Close(ctx, backend.CloseOptions{}))
	}
}

// Processes that write to the same logs of one directory are killed at any
// moment and started again. Nothing that was acknowledged is lost or doubled,
// nothing that was refused appears, and what they leave behind is in nobody's
// way.
func TestCrashOfWriters(t *testing.T) {
	killWriters(t, func(t *testing.T) (objstore.Store, []string, func(*testing.T, *tally)) {
		dir := t.TempDir()
		store, err := filestore.Open(dir, filestore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return store, []string{envDir + "=" + dir}, func(t *testing.T, sum *tally) { examineDirectory(t, dir, sum) }
	})
}

// The same on a server. The process dies, and what it has sent may still take
// effect.
func TestCrashOfWritersOverHTTP(t *testing.T) {
	server := localstack.Start(t)
	killWriters(t, func(t *testing.T) (objstore.Store, []string, func(*testing.T, *tally)) {
		bucket := server.Bucket(t)
		store := openS3(t, server.Endpoint, bucket, server.AccessKey, server.SecretKey)
		return store, append(server.Env(), envBucket+"="+bucket), func(*testing.T, *tally) {}
	})
}

// examineDirectory looks at what a store keeps for itself: lock files, which are
// few and hold nothing, and files of dead writers, which the first writer
// removes that comes a day after.
func examineDirectory(t *testing.T, dir string, sum *tally) {
	t.Helper()
	var left []string
	err := fs.WalkDir(os.DirFS(dir), ".s3log", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
			return err
		case strings.HasPrefix(name, ".s3log/tmp/"):
			left = append(left, filepath.Join(dir, name))
			return nil
		case strings.HasPrefix(name, ".s3log/locks/"):
			if info, err := d.Info(); err != nil || info.Size() != 0 {
				t.Errorf("%s: %d bytes, %v", name, info.Size(), err)
			}
			return nil
		}
		t.Errorf("%s is there", name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sum.leftovers += len(left)
	for _, name := range left {
		if err := os.Chtimes(name, time.Time{}, time.Now().Add(-25*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	store, err := filestore.Open(dir, filestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	mustAppend(t, mustCreate(t, store, "the-day-after", quick), note(0))
	for _, name := range left {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}
