package filestore

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/s3log/s3log/backend/objstore"
)

// Tests of this file start the test binary again as other processes.
const (
	childEnv = "FILESTORE_TEST_CHILD" // what the child does
	dirEnv   = "FILESTORE_TEST_DIR"
)

func TestMain(m *testing.M) {
	var err error
	switch dir := os.Getenv(dirEnv); os.Getenv(childEnv) {
	case "":
		goleak.VerifyTestMain(m) // which exits
	case "endless":
		err = childEndless(dir)
	case "count":
		err = childCount(dir)
	case "nobody":
		err = childNobody(dir)
	case "denied":
		err = childDenied(dir)
	case "files":
		err = childFiles(dir)
	default:
		err = errors.New("unknown child")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// childContext is the context of a child, which has no test.
func childContext() context.Context { return context.Background() }

// say prints one line of a child's report at once: a child may be killed.
func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func child(ctx context.Context, what, dir string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+what, dirEnv+"="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// runChild runs a child to its end and returns the lines that it said.
func runChild(t *testing.T, what, dir string) []string {
	t.Helper()
	out, err := child(t.Context(), what, dir).Output()
	if err != nil {
		t.Errorf("child %s: %v", what, err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
}

// numbered is a body that shows whether it is whole.
func numbered(n int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%08d", n), 1000+n%3000) }

func parseNumbered(body []byte) (int, error) {
	if len(body) < 8 {
		return 0, fmt.Errorf("a body of %d bytes", len(body))
	}
	n, err := strconv.Atoi(string(body[:8]))
	if err == nil && !bytes.Equal(body, numbered(n)) {
		err = fmt.Errorf("a torn body: %d bytes, begins as number %d", len(body), n)
	}
	return n, err
}

// increment adds one to the counter, or fails with the error of the Put.
func increment(ctx context.Context, s *Store) (int, error) {
	o, err := s.Get(ctx, "manifests/counter", objstore.GetOptions{})
	if errors.Is(err, objstore.ErrNotExist) {
		_, err = s.Put(ctx, "manifests/counter", numbered(1), objstore.IfAbsent(), objstore.PutOptions{})
		return 1, err
	}
	if err != nil {
		return 0, err
	}
	n, err := parseNumbered(o.Body)
	if err != nil {
		return 0, err
	}
	_, err = s.Put(ctx, "manifests/counter", numbered(n+1), objstore.IfVersion(o.Version), objstore.PutOptions{})
	return n + 1, err
}

// childEndless counts as far as it gets; each number also becomes an object in
// a directory of its own.
func childEndless(dir string) error {
	s, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	for {
		n, err := increment(childContext(), s)
		if err != nil {
			return err
		}
		say("counter %d", n)
		_, err = s.Put(childContext(), fmt.Sprintf("segments/%d/%d", n%50, n), numbered(n), objstore.IfAbsent(), objstore.PutOptions{})
		if err != nil {
			return err
		}
		say("segment %d", n)
	}
}

// A process that is killed at any moment leaves every object whole, loses
// nothing that was acknowledged, and is in nobody's way.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	random := rand.New(rand.NewPCG(3, 4))
	acked, segments := 0, map[int]bool{}
	for round := range 25 {
		cmd := child(t.Context(), "endless", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		// Not before it has begun, else little would be seen on a slow machine.
		for first := true; lines.Scan(); first = false {
			kind, number, _ := strings.Cut(lines.Text(), " ")
			n, err := strconv.Atoi(number)
			if err != nil {
				t.Fatalf("child says %q", lines.Text())
			}
			if kind == "counter" {
				acked = n
			} else {
				segments[n] = true
			}
			if first {
				time.AfterFunc(time.Duration(random.Int64N(int64(30*time.Millisecond))), func() { cmd.Process.Kill() })
			}
		}
		io.Copy(io.Discard, out)
		if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
			t.Fatalf("round %d: the child ended by itself: %v", round, err)
		}

		o, err := s.Get(t.Context(), "manifests/counter", objstore.GetOptions{})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		n, err := parseNumbered(o.Body)
		if err != nil || n != acked && n != acked+1 {
			t.Fatalf("round %d: counter is %d, %v; %d was acknowledged", round, n, err, acked)
		}
	}
	there := map[int]bool{}
	for info, err := range s.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		o, err := s.Get(t.Context(), info.Key, objstore.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n, err := parseNumbered(o.Body)
		if err != nil {
			t.Errorf("%s: %v", info.Key, err)
		}
		if strings.HasPrefix(info.Key, "segments/") {
			there[n] = true
		}
	}
	for n := range segments {
		if !there[n] {
			t.Errorf("segment %d was acknowledged, and is not there", n)
		}
	}
	t.Logf("%d increments, %d segments, %d files in all", acked, len(there), len(files(t, dir)))
	if _, err := increment(t.Context(), s); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

const (
	processes  = 4
	increments = 40
	races      = 40
)

// childCount makes its increments, and takes part in the races.
func childCount(dir string) error {
	s, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	for done := 0; done < increments; {
		switch _, err := increment(childContext(), s); objstore.Classify(err) {
		case objstore.Applied:
			done++
		case objstore.Precondition:
			say("lost")
		default:
			return err
		}
	}
	for i := range races {
		switch _, err := s.Put(childContext(), fmt.Sprintf("races/%d", i), numbered(os.Getpid()), objstore.IfAbsent(), objstore.PutOptions{}); objstore.Classify(err) {
		case objstore.Applied:
			say("won %d %d", i, os.Getpid())
		case objstore.Precondition:
		default:
			return err
		}
	}
	return nil
}

// Conditions hold among processes: no increment is lost, each race has one
// winner.
func TestManyProcesses(t *testing.T) {
	dir := t.TempDir()
	lines := make(chan string, 1<<16)
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			for _, line := range runChild(t, "count", dir) {
				lines <- line
			}
		})
	}
	wg.Wait()
	close(lines)

	s := open(t, dir, Options{})
	winners := map[int][]int{}
	lost := 0
	for line := range lines {
		var race, pid int
		if _, err := fmt.Sscanf(line, "won %d %d", &race, &pid); err == nil {
			winners[race] = append(winners[race], pid)
		} else {
			lost++
		}
	}
	number := func(key string) int {
		o, err := s.Get(t.Context(), key, objstore.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n, err := parseNumbered(o.Body)
		if err != nil {
			t.Errorf("%s: %v", key, err)
		}
		return n
	}
	if n := number("manifests/counter"); n != processes*increments {
		t.Errorf("counter is %d after %d acknowledged increments", n, processes*increments)
	}
	for i := range races {
		if there := number(fmt.Sprintf("races/%d", i)); len(winners[i]) != 1 || winners[i][0] != there {
			t.Errorf("race %d: winners %v, written by %d", i, winners[i], there)
		}
	}
	t.Logf("%d increments, %d lost to others", processes*increments, lost)
}
