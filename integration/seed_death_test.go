package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/faultproxy"
	"github.com/s3log/s3log/localstack"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// What the programs of the seed path are told beside what child processes are
// told anyway.
const (
	envLog   = "S3LOG_INTEGRATION_LOG"
	envChild = "S3LOG_INTEGRATION_CHILD_LOG"
	envHow   = "S3LOG_INTEGRATION_HOW"
)

// seedProgram is what a child process does, see child.
func seedProgram(program string, b *backend.Backend, out io.Writer) error {
	ctx, id := context.Background(), os.Getenv(envLog)
	switch program {
	case "pending":
		l, _, err := b.Resume(ctx, id, backend.ResumeOptions{Delay: true})
		if err != nil {
			return err
		}
		_, err = l.Append(ctx, [][]byte{note(1)}, backend.AppendOptions{Key: "first", Last: true})
		return err
	case "fork":
		return measuredFork(ctx, b, id, os.Getenv(envChild), os.Getenv(envHow), out)
	}
	return fmt.Errorf("unknown program %q", program)
}

// program is a child process that reaches the bucket through the proxy.
func (r *rig) program(t testing.TB, name string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = slices.Concat(os.Environ(), r.Env(), env,
		[]string{localstack.EnvEndpoint + "=" + r.proxy.URL, envBucket + "=" + r.bucket, childEnv + "=" + name})
	return cmd
}

// dies runs a process that is killed when its n-th request has come as far as
// the proxy, or has been answered by the server. It returns the requests that
// the server has seen.
func dies(t *testing.T, r *rig, cmd *exec.Cmd, n int, answered bool) faultproxy.Entries {
	t.Helper()
	started, gone := make(chan struct{}), make(chan struct{})
	r.proxy.Reset()
	r.proxy.Add(faultproxy.Rule{Skip: n - 1, Times: -1, Fault: func(x *faultproxy.Exchange) {
		if answered {
			x.Forward()
		}
		<-started
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		<-gone
	}})
	r.proxy.Take()
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	close(started)
	err := cmd.Wait()
	close(gone)
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("%v was not killed: %v\n%s", cmd.Args, err, &text)
	}
	r.proxy.Reset()
	return r.proxy.Take()
}

// deaths runs a command once to see what it asks for, and then again and again:
// killed at each request, before it has reached the server, and after the
// server has answered. The last request is the only one that shows. The ids of
// the logs begin with prefix. It returns how many requests there are.
func deaths(t *testing.T, r *rig, prefix string, prepare func(id string), command func(id string) *exec.Cmd, after func(what, id string, done bool)) (n int) {
	t.Helper()
	whole := prefix + "whole"
	prepare(whole)
	r.proxy.Take()
	if text, err := command(whole).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	requests := r.proxy.Take()
	after("not killed", whole, true)
	last := requests[len(requests)-1]
	if last.Op != faultproxy.Put || !strings.HasSuffix(last.Key, manifest.Key(whole)) {
		t.Fatalf("the last request is %s %s", last.Op, last.Key)
	}
	for n := 1; n <= len(requests); n++ {
		for _, answered := range []bool{false, true} {
			id := fmt.Sprintf("%skilled-%d-%v", prefix, n, answered)
			prepare(id)
			seen := dies(t, r, command(id), n, answered)
			// Parallel reads may all have been on their way.
			if len(seen) < n {
				t.Errorf("%d requests, killed at the %dth", len(seen), n)
			}
			what := fmt.Sprintf("killed at request %d (%s %s), answered: %v", n, seen[n-1].Op, seen[n-1].Key, answered)
			after(what, id, answered && n == len(requests))
			if t.Failed() {
				return len(requests)
			}
		}
	}
	t.Logf("%d requests: %v", len(requests), requests.Counts())
	return len(requests)
}

// manyCalls is an interrupted turn with n calls that nobody has answered, in a
// tail that is nearly full: its closers do not fit any more.
func manyCalls(n int) [][]byte {
	var calls []string
	for i := range n {
		calls = append(calls, fmt.Sprintf(`{"type":"tool-call","id":%q,"name":"bash","arguments":"{}"}`, noise(uint64(i), 200)))
	}
	lines := splitLines(interruptedIn)
	return append(lines,
		fmt.Appendf(nil, `{"type":"note","data":"%s%s"}`, noise(uint64(n), 98_000), strings.Repeat("x", segment.FrameRaw)),
		fmt.Appendf(nil, `{"type":"assistant/message","data":{"turn":1,"step":1,"message":{"id":"m","role":"assistant","content":[%s],"source":{"kind":"model","provider":"p","model":"m"}}},"surfaceOp":"append"}`, strings.Join(calls, ",")))
}

// A process that resumes a log dies: until its PUT has taken effect a reader
// sees the log as it was, afterwards closers and boundary, never a part of them.
// The next resume finds either.
func TestDeathOfAResume(t *testing.T) {
	r := newRig(t)
	reader := backend.NewReader(r.direct, quick)
	resume := func(id string) *exec.Cmd { return r.ctl(t).cmd("resume", id) }
	const marks = 1
	for name, tc := range map[string]struct {
		events   [][]byte
		closers  int64
		own      int64 // events beside closers and boundary
		requests int
		command  func(id string) *exec.Cmd
	}{
		"at once":          {splitLines(interruptedIn), 2, 0, 2, resume},
		"with a full tail": {manyCalls(100), 102, 0, 3, resume},
		"with the first append": {splitLines(interruptedIn), 2, 1, 2, func(id string) *exec.Cmd {
			return r.program(t, "pending", envLog+"="+id)
		}},
	} {
		seeded := func(id string) {
			if _, err := backend.New(r.direct, quick).Import(t.Context(), id, each(tc.events), backend.ImportOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		t.Run(name, func(t *testing.T) {
			n := deaths(t, r, strings.ReplaceAll(name, " ", "-")+"/", seeded, tc.command, func(what, id string, done bool) {
				want := resumed{next: int64(len(tc.events)), verdict: seedpath.Live, generation: 1}
				if done {
					want = resumed{want.next + tc.closers + marks + tc.own, seedpath.Stale, 2}
				}
				if got := seen(t, reader, id); got != want {
					t.Errorf("%s: a reader sees %+v, want %+v", what, got, want)
				}
				// Whoever comes next has nothing to repair.
				got := fields[receiptJSON](t, r.ctl(t).want(0, "", "resume", id, "--output", "json").stdout)
				again := tc.closers + marks
				if done {
					again = tc.own // a boundary behind the append, if there was one
				}
				if got.Count != again {
					t.Errorf("%s: the next resume wrote %d events, want %d", what, got.Count, again)
				}
				if tc.own > 0 && !done {
					// The append that nobody was told about is repeated with its key.
					l := mustAdopt(t, r.direct, id, quick)
					if a, err := l.Append(t.Context(), [][]byte{note(1)}, backend.AppendOptions{Key: "first"}); err != nil || a.Duplicate {
						t.Errorf("%s: %+v, %v", what, a, err)
					}
				}
				if tc.own > 0 && done {
					l := mustAdopt(t, r.direct, id, quick)
					if a, err := l.Append(t.Context(), [][]byte{note(1)}, backend.AppendOptions{Key: "first"}); err != nil || !a.Duplicate || a.First != want.next-1 {
						t.Errorf("%s: %+v, %v", what, a, err)
					}
				}
				if v := seen(t, reader, id).verdict; v != seedpath.Stale {
					t.Errorf("%s: in the end %s", what, v)
				}
			})
			if n != tc.requests {
				t.Errorf("%d requests, want %d", n, tc.requests)
			}
		})
	}
}

type resumed struct {
	next       int64
	verdict    seedpath.Answer
	generation int64
}

// seen is what a reader sees of a log, which must be without a flaw, and say of
// its bracket what a scan of the events says.
func seen(t *testing.T, reader *backend.Reader, id string) resumed {
	t.Helper()
	s, _ := look(t, reader, id)
	return s
}

// look is seen with the events.
func look(t *testing.T, reader *backend.Reader, id string) (resumed, []string) {
	t.Helper()
	info, err := reader.Info(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	c, err := reader.Check(t.Context(), id, seedpath.Pairs["compaction"], backend.CheckOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rep, err := reader.Verify(t.Context(), id, backend.VerifyOptions{})
	if err != nil || !rep.OK() {
		t.Errorf("verify %s: %+v, %v", id, rep, err)
	}
	lines := checkedRead(t, reader, id)
	if want := scanned(t, lines); string(c.Answer) != want {
		t.Errorf("%s: %s, a backward scan says %s", id, c.Answer, want)
	}
	return resumed{info.Next, c.Answer, info.Generation}, lines
}

// A process that forks or replays dies: until the PUT of the manifest has taken
// effect there is no child, afterwards a whole one; the parent never notices.
// Repeating it yields the one child.
func TestDeathOfAFork(t *testing.T) {
	r := newRig(t)
	reader := backend.NewReader(r.direct, quick)
	importLog := func(id string, events [][]byte) {
		if _, err := backend.New(r.direct, quick).Import(t.Context(), id, each(events), backend.ImportOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	small := [][]byte{note(0), []byte(`{"type":"compaction/start","data":{}}`)}
	importLog("small", small)
	var big [][]byte
	for i := range 9 { // 9 MB of events that compress very well: one segment, and a tail
		big = append(big, fmt.Appendf(nil, `{"type":"note","data":{"n":%d,"text":%q}}`, i, strings.Repeat("text ", 200_000)))
	}
	importLog("big", append(big, small...))
	file := t.TempDir() + "/session.jsonl"
	session := auditedHeader + "\n" + string(bytes.Join(small, []byte("\n"))) + "\n"
	if err := os.WriteFile(file, []byte(session), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args   []string // %s: the child
		parent string
		copies bool
	}{
		"small":  {args: []string{"fork", "small", "%s"}, parent: "small"},
		"big":    {args: []string{"fork", "big", "%s"}, parent: "big", copies: true},
		"replay": {args: []string{"replay", "%s", file}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.copies && raceDetector {
				t.Skip("9 MB of JSON, read 30 times: not with the race detector")
			}
			command := func(id string) []string {
				args := slices.Clone(tc.args)
				args[slices.Index(args, "%s")] = id
				return append(args, "--output", "json")
			}
			var parent backend.Info
			var inherited []string
			if tc.parent != "" {
				parent = must(reader.Info(t.Context(), tc.parent))
				_, inherited = look(t, reader, tc.parent)
			}
			copied := 0
			deaths(t, r, name+"/", func(string) {}, func(id string) *exec.Cmd { return r.ctl(t).cmd(command(id)...) }, func(what, child string, done bool) {
				_, err := reader.Info(t.Context(), child)
				if done != (err == nil) || err != nil && !errors.Is(err, backend.ErrNotFound) {
					t.Fatalf("%s: %v", what, err)
				}
				before := versions(t, r.direct)
				r.proxy.Take()
				again := r.ctl(t).run("", command(child)...)
				copied += len(r.proxy.Take().Of(faultproxy.Copy, ""))
				if tc.parent == "" && done {
					// A replay cannot be told from another one with the same events.
					if e := fields[errorJSON](t, again.stderr); again.exit != 4 || e.Code != "exists" {
						t.Errorf("%s: repeated: %+v", what, again)
					}
				} else if got := fields[receiptJSON](t, again.stdout); again.exit != 0 || got.Duplicate != done || got.Count != got.Next {
					t.Errorf("%s: repeated: %+v", what, again)
				}
				if key := manifest.Key(child); done && before[key] != versions(t, r.direct)[key] {
					t.Errorf("%s: a repetition has changed the child", what)
				}
				v, got := look(t, reader, child)
				if v.verdict != seedpath.Stale || v.generation != 1 {
					t.Errorf("%s: the child: %+v", what, v)
				}
				if tc.parent == "" {
					return
				}
				if len(got) != len(inherited)+1 || !slices.Equal(got[:len(inherited)], inherited) {
					t.Errorf("%s: the child has %d events", what, len(got))
				}
				if now := must(reader.Info(t.Context(), tc.parent)); now.Revision != parent.Revision || now.Commit != parent.Commit {
					t.Errorf("%s: the parent was written to", what)
				}
			})
			if (copied > 0) != tc.copies {
				t.Errorf("%d copies inside the store", copied)
			}
		})
	}
	// What the dead have left behind is named by nobody, and in nobody's way.
	named := map[string]bool{}
	for e, err := range reader.List(t.Context(), backend.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range must(reader.Info(t.Context(), e.Log)).Segments {
			named[manifest.SegmentKey(e.Log, s.Name)] = true
		}
		named[manifest.Key(e.Log)] = true
	}
	orphans := 0
	for key := range maps.Keys(versions(t, r.direct)) {
		if !named[key] {
			orphans++
		}
	}
	if orphans == 0 {
		t.Error("nothing was left behind: the test shows less than it says")
	}
	t.Logf("%d objects that nobody names", orphans)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
