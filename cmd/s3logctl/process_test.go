package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process prepares the command as a process of its own.
func (c *cli) process(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.ctx, "s3logctl", args...)
	cmd.Env = append(os.Environ(), storeVariable+"="+c.store)
	return cmd
}

// TestParallelAppends: 16 processes append to one log in one directory, several
// times each. Nothing is lost or doubled, and each one's events stay in order.
func TestParallelAppends(t *testing.T) {
	const writers, rounds, batch = 16, 3, 2
	c := newCLI(t)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for r := range rounds {
				var lines strings.Builder
				for i := range batch {
					fmt.Fprintf(&lines, `{"type":"note","data":{"writer":%d,"n":%d}}`+"\n", w, r*batch+i)
				}
				cmd := c.process("append", "log", "--create", "--output", "json", "--label", fmt.Sprint("writer-", w))
				cmd.Stdin = strings.NewReader(lines.String())
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("writer %d, round %d: %v\n%s", w, r, err, out)
					return
				}
				if got := fromJSON[receipt](t, string(out)); got.Count != batch || got.Duplicate {
					t.Errorf("writer %d, round %d: %+v", w, r, got)
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	next := make([]int, writers)
	lines := strings.Split(strings.TrimSuffix(c.must("", "cat", "log"), "\n"), "\n")
	for seq, line := range lines {
		ev := fromJSON[struct {
			Seq  int
			Data struct{ Writer, N int }
		}](t, line)
		if ev.Seq != seq {
			t.Fatalf("line %d: %s", seq, line)
		}
		if ev.Data.N != next[ev.Data.Writer] {
			t.Fatalf("seq %d: event %d of writer %d, %d is due", seq, ev.Data.N, ev.Data.Writer, next[ev.Data.Writer])
		}
		next[ev.Data.Writer]++
	}
	if len(lines) != writers*rounds*batch {
		t.Errorf("%d events, want %d", len(lines), writers*rounds*batch)
	}
}

// stream is an append --stream that a test writes to.
type stream struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	stdout bytes.Buffer
	stderr bytes.Buffer
}

func (c *cli) startStream(args ...string) *stream {
	c.t.Helper()
	s := &stream{cmd: c.process(append([]string{"append", "--stream", "--output", "json"}, args...)...)}
	s.cmd.Stdout, s.cmd.Stderr = &s.stdout, &s.stderr
	var err error
	if s.in, err = s.cmd.StdinPipe(); err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

func (s *stream) write(t *testing.T, lines string) {
	t.Helper()
	if _, err := io.WriteString(s.in, lines); err != nil {
		t.Fatal(err)
	}
}

// end waits for the process and returns its exit code.
func (s *stream) end(t *testing.T) int {
	t.Helper()
	err := s.cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0
}

// until waits for the log to have n events.
func (c *cli) until(n int64) {
	c.t.Helper()
	for range 1000 {
		if r := c.run("", "info", "log", "--output", "json"); r.exit == exitDone && fromJSON[infoReport](c.t, r.stdout).Next >= n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatalf("the log has not got %d events", n)
}

func (c *cli) info() infoReport {
	c.t.Helper()
	return fromJSON[infoReport](c.t, c.must("", "info", "log", "--output", "json"))
}

func TestStreamAppendsAsLinesArrive(t *testing.T) {
	c := newCLI(t)
	s := c.startStream("log", "--create", "--label", "streamer")
	s.write(t, notes("a")+`{"type":"note",`)
	c.until(1)
	if info := c.info(); info.Owner.Released || info.Owner.Label != "streamer" {
		t.Errorf("owner is %+v", info.Owner)
	}
	// A one-shot command does not take it away by accident.
	if r := c.want(exitConflict, notes("x"), "append", "log"); !strings.Contains(r.stderr, "streamer") {
		t.Error(r.stderr)
	}
	s.write(t, `"data":"b"}`+"\n"+notes("c")+`{"type":"note","data":"last, without a line end"}`)
	s.in.Close()
	if exit := s.end(t); exit != exitDone {
		t.Fatalf("exit code %d: %s", exit, s.stderr.String())
	}
	if got := fromJSON[receipt](t, s.stdout.String()); got.First != 0 || got.Count != 4 || got.Next != 4 {
		t.Errorf("receipt %+v", got)
	}
	if info := c.info(); !info.Owner.Released || info.Next != 4 || info.Generation != 1 {
		t.Errorf("%+v, owner %+v", info, info.Owner)
	}
}

// Whoever feeds a stream learns of every commit while it goes on.
func TestStreamTellsCommits(t *testing.T) {
	c := newCLI(t)
	for _, test := range []struct {
		flag string
		told func(s *stream) (io.Reader, error)
		want string
	}{
		{"--output=json", func(s *stream) (io.Reader, error) { return s.cmd.StdoutPipe() }, `{"commit":{"log":"log","first":%d,"count":1,"next":%d,`},
		{"--progress", func(s *stream) (io.Reader, error) { return s.cmd.StderrPipe() }, "s3logctl: appended 1 event (seq %d) of log; the log continues at %d "},
	} {
		s := &stream{cmd: c.process("append", "--stream", "log", "--create", test.flag)}
		told, err := test.told(s)
		if err == nil {
			s.in, err = s.cmd.StdinPipe()
		}
		if err == nil {
			err = s.cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(told)
		first := 0
		if info := c.run("", "info", "log", "--output", "json"); info.exit == exitDone {
			first = int(fromJSON[infoReport](t, info.stdout).Next)
		}
		for n := range 3 {
			s.write(t, notes("x"))
			line, err := lines.ReadString('\n')
			if want := fmt.Sprintf(test.want, first+n, first+n+1); err != nil || !strings.HasPrefix(line, want) {
				t.Errorf("%s: %q, %v; want %q", test.flag, line, err, want)
			}
		}
		s.in.Close()
		rest, err := io.ReadAll(lines)
		if err != nil || s.end(t) != exitDone {
			t.Errorf("%s: %v\n%s", test.flag, err, rest)
		}
	}
}

func TestFencedStream(t *testing.T) {
	c := newCLI(t)
	s := c.startStream("log", "--create")
	s.write(t, notes("a"))
	c.until(1)
	c.must(notes("other"), "append", "log", "--take-over", "--label", "rival")
	s.write(t, notes("lost"))
	s.in.Close()
	if exit := s.end(t); exit != exitConflict {
		t.Fatalf("exit code %d", exit)
	}
	got := fromJSON[failure](t, s.stderr.String())
	if got.Code != "fenced" || *got.Log != "log" || !strings.Contains(got.Error, "rival") || !strings.Contains(got.Error, "at seq 1") {
		t.Errorf("%+v", got)
	}
	if got := fromJSON[receipt](t, s.stdout.String()); got.Count != 1 {
		t.Errorf("what had been appended: %+v", got)
	}
	if got := c.must("", "cat", "log"); strings.Contains(got, "lost") || strings.Count(got, "\n") != 2 {
		t.Error(got)
	}
}

func needSignals(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("processes cannot be sent signals")
	}
}

// A signal ends a stream: what had arrived is appended, and the log released.
func TestSignalEndsStream(t *testing.T) {
	needSignals(t)
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		c := newCLI(t)
		s := c.startStream("log", "--create")
		s.write(t, notes("a", "b")+`{"type":"no`)
		c.until(2)
		if err := s.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if exit := s.end(t); exit != exitDone {
			t.Fatalf("%v: exit code %d: %s", sig, exit, s.stderr.String())
		}
		if info := c.info(); !info.Owner.Released || info.Next != 2 {
			t.Errorf("%v: %+v, owner %+v", sig, info, info.Owner)
		}
		if got := fromJSON[receipt](t, s.stdout.String()); got.Count != 2 {
			t.Errorf("%v: %+v", sig, got)
		}
	}
}

// Following begins where it is told to, shows what is appended, and ends with a
// signal, as it is meant to.
func TestFollow(t *testing.T) {
	needSignals(t)
	c := newCLI(t)
	c.must(numbered(0, 5), "append", "log", "--create")
	cmd := c.process("tail", "log", "-f", "-n", "2", "--interval", "10ms")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(pipe)
	next := 3
	show := func(upTo int) {
		t.Helper()
		for ; next < upTo; next++ {
			if line, err := out.ReadString('\n'); err != nil || line != numbered(next, 1) {
				t.Fatalf("%q, %v: want seq %d", line, err, next)
			}
		}
	}
	show(5)
	c.must(numbered(5, 2), "append", "log")
	show(7)
	c.must(numbered(7, 3000), "append", "log")
	show(3007)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		t.Errorf("%v: %s", err, stderr.String())
	}
}

// A reader that goes away ends the command without a word.
func TestClosedPipe(t *testing.T) {
	needSignals(t)
	c := newCLI(t)
	c.must(c.must("", "generate", "--events", "20000"), "import", "--log", "log", "-")
	for _, args := range [][]string{{"cat", "log"}, {"export", "log"}, {"generate", "--events", "1000000"}} {
		cmd := c.process(args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		out.Close()
		err = cmd.Wait()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if err != nil && (!ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE) {
			t.Errorf("%q: %v", args, err)
		}
		if stderr.Len() > 0 {
			t.Errorf("%q: %s", args, stderr.String())
		}
	}
}

// An output that cannot be written is an error.
func TestOutputThatFails(t *testing.T) {
	c := newCLI(t)
	c.must(notes("a"), "append", "log", "--create")
	full := c.with(func(s *surroundings) { s.stdout = failingWriter{errors.New("disk is full")} })
	for _, args := range [][]string{{"cat", "log"}, {"ls"}, {"info", "log"}, {"export", "log"}, {"generate"}, {"tail", "log"}} {
		r := full.run("", args...)
		if r.exit != exitFailure || !strings.Contains(r.stderr, "disk is full") {
			t.Errorf("%q: exit code %d, %s", args, r.exit, r.stderr)
		}
	}
	// Nobody should take this for an append that failed, and repeat it.
	if r := full.run(notes("b"), "append", "log"); r.exit != exitFailure || !strings.Contains(r.stderr, "written to the store is there") {
		t.Errorf("exit code %d, %s", r.exit, r.stderr)
	}
	if out := c.must("", "cat", "log"); strings.Count(out, "\n") != 2 {
		t.Errorf("in the log is\n%s", out)
	}
}

// Starting up loads nothing that the verb does not need. The bound is generous:
// what it catches is an initialisation of hundreds of milliseconds.
func TestStartsFast(t *testing.T) {
	c := newCLI(t)
	best := time.Hour
	for range 10 {
		begin := time.Now()
		if err := c.process("version").Run(); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(begin))
	}
	t.Logf("fastest start: %v", best)
	if best > 200*time.Millisecond {
		t.Errorf("the fastest of ten starts took %v", best)
	}
}

// Output that nobody can write ends nothing in the middle: a stream goes into the
// log to its end, which is released, and the exit code says that not all was told.
func TestOutputThatCannotBeWritten(t *testing.T) {
	c := newCLI(t)
	full := c.with(func(s *surroundings) { s.stdout = fullDevice{} })
	gate := newGate(notes("a"), notes("b"))
	r := full.with(func(s *surroundings) { s.stdin = gate }).during(func() { c.until(1); gate.open() }, "append", "log", "--stream", "--create", "--output", "json")
	if r.exit != exitFailure || !strings.Contains(r.stderr, "writing the output") {
		t.Errorf("exit code %d: %s", r.exit, r.stderr)
	}
	if info := c.info(); info.Next != 2 || !info.Owner.Released {
		t.Errorf("%+v", info)
	}
	if r := full.run("", "ls", "--output", "json"); r.exit != exitFailure {
		t.Errorf("exit code %d: %s", r.exit, r.stderr)
	}
	if r := c.with(func(s *surroundings) { s.stderr = fullDevice{} }).run("", "info", "none", "--output", "json"); r.exit != exitNotFound {
		t.Errorf("exit code %d", r.exit)
	}
}

type fullDevice struct{}

func (fullDevice) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// Whether a line of a stream is refused does not depend on how lines meet: with a
// seq or without, each one follows what is in the log.
func TestStreamOfLinesWithAndWithoutSeq(t *testing.T) {
	c := newCLI(t)
	lines := notes("a") + `{"type":"note","seq":1,"data":"b"}` + "\n" + `{"type":"note","seq":2,"data":"c"}` + "\n" + notes("d") + `{"type":"note","seq":9,"data":"e"}` + "\n" + notes("f")
	r := c.run(lines, "append", "log", "--stream", "--create")
	if r.exit != exitConflict || !strings.Contains(r.stderr, "line 5") || !strings.Contains(r.stderr, "after 4 events") {
		t.Errorf("exit code %d: %s", r.exit, r.stderr)
	}
	if got := c.must("", "cat", "log"); strings.Count(got, "\n") != 4 {
		t.Error(got)
	}
}
