package integration

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/backend/objstore/s3store"
	"github.com/s3log/s3log/localstack"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// Programs that this test binary runs as when it is started as a child process.
const childEnv = "S3LOG_INTEGRATION_CHILD"

func TestMain(m *testing.M) {
	if program := os.Getenv(childEnv); program != "" {
		os.Exit(child(program))
	}
	goleak.VerifyTestMain(andThen{m}, leaks()...)
}

// andThen are all tests, and what is to be done after them.
type andThen struct{ *testing.M }

func (m andThen) Run() int {
	defer localstack.Stop() // and so end idle connections to it
	defer func() {
		for _, f := range atExit {
			f()
		}
	}()
	return m.M.Run()
}

// leaks are goroutines that tests may leave behind: none but those of idle
// connections to a server that is not ours.
func leaks() []goleak.Option {
	if os.Getenv(localstack.EnvEndpoint) == "" {
		return nil
	}
	return []goleak.Option{goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop")}
}

// What a child process is told by its environment, beside childEnv.
const (
	envDir    = "S3LOG_INTEGRATION_DIR"    // of the store, or else:
	envBucket = "S3LOG_INTEGRATION_BUCKET" // on the server that package localstack finds
	envName   = "S3LOG_INTEGRATION_NAME"   // of the child, and of its writers
	envRounds = "S3LOG_INTEGRATION_ROUNDS" // how often, or how many
)

func child(program string) int {
	store, err := childStore()
	if err == nil && program == "agent" {
		err = liveAgent(store)
	} else if err == nil {
		b := backend.New(store, backend.Options{Label: os.Getenv(envName), MinBackoff: time.Millisecond, MaxBackoff: 50 * time.Millisecond})
		rounds, _ := strconv.Atoi(os.Getenv(envRounds))
		out := bufio.NewWriter(os.Stdout)
		defer out.Flush()
		switch program {
		case "rival":
			err = rival(b, rounds, out)
		case "one-shot":
			err = oneShot(b, rounds, out)
		case "size":
			err = measuredSize(context.Background(), b, rounds, out)
		default:
			err = seedProgram(program, b, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func childStore() (objstore.Store, error) {
	if dir := os.Getenv(envDir); dir != "" {
		return filestore.Open(dir, filestore.Options{})
	}
	return s3store.Open(context.Background(), s3Config(os.Getenv(localstack.EnvEndpoint), os.Getenv(envBucket),
		os.Getenv(localstack.EnvAccessKey), os.Getenv(localstack.EnvSecretKey)))
}

// children runs a program in n processes named p0, p1, … at a time, and returns
// what they print.
func children(t *testing.T, n int, program string, env ...string) (outputs []string) {
	t.Helper()
	outputs = make([]string, n)
	var wg sync.WaitGroup
	for p := range n {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(append(os.Environ(), env...), childEnv+"="+program, fmt.Sprint(envName, "=p", p))
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("p%d: %v", p, err)
			}
			outputs[p] = string(out)
		})
	}
	wg.Wait()
	return outputs
}

// rival takes the log over again and again and appends to it until it is
// replaced. It prints every acknowledged event, and how each tenure ended.
func rival(b *backend.Backend, rounds int, out io.Writer) error {
	name := os.Getenv(envName)
	n := 0
	for range rounds {
		l, err := b.Create("log", backend.CreateOptions{OrAdopt: true})
		if err != nil {
			return err
		}
		for i := 0; ; i++ {
			ev := fmt.Appendf(nil, `{"type":"note","data":{"who":%q,"n":%d,"pad":%q}}`, name, n, strings.Repeat(strconv.Itoa(n*7919), 40))
			r, err := l.Append(context.Background(), [][]byte{ev}, backend.AppendOptions{})
			if errors.Is(err, backend.ErrFenced) {
				fmt.Fprintf(out, "fenced %s %s\n", l.Writer(), err)
				break
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "acked %s %d %d\n", l.Writer(), r.First, n)
			n++
			if i == 40 { // nobody else is here any more, or we are too fast: let go
				break
			}
		}
		if err := l.Close(context.Background(), backend.CloseOptions{}); err != nil && !errors.Is(err, backend.ErrFenced) {
			return err
		}
	}
	return nil
}

// oneShot appends two events with a new writer each time, as a command does that
// is called again and again.
func oneShot(b *backend.Backend, rounds int, out io.Writer) error {
	for n := range rounds {
		l, err := b.Create("log", backend.CreateOptions{OrAdopt: true})
		if err != nil {
			return err
		}
		ev := fmt.Appendf(nil, `{"type":"note","data":{"who":%q,"n":%d}}`, os.Getenv(envName), n)
		r, err := l.Append(context.Background(), [][]byte{ev, ev}, backend.AppendOptions{Last: true})
		if err == nil {
			err = l.Close(context.Background(), backend.CloseOptions{})
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "acked %s %d %d\n", l.Writer(), r.First, n)
	}
	return nil
}

// The label is known of the newest owner only: another may have come after.
var fencedBy = regexp.MustCompile(`writer ([0-9a-f-]{36})(?: \("p[0-9]"\))? took over at seq ([0-9]+)`)

// Several processes append to one log in one directory. Every commit is won by
// one of them; the replaced ones learn by whom and at which seq; nothing is
// lost, doubled or out of order.
func TestProcessesTakeALogFromEachOther(t *testing.T) {
	dir := t.TempDir()
	outputs := children(t, 4, "rival", envDir+"="+dir, envRounds+"=12")
	store, err := filestore.Open(dir, filestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	checkRivals(t, backend.NewReader(store, backend.Options{}), outputs)
}

// The same on a server, from two processes and from many.
func TestProcessesOverHTTP(t *testing.T) {
	const rounds = 12 // of five: fewer takeovers than a manifest remembers
	races := []int{2, 5}
	if long() {
		races = slices.Repeat(races, 10)
	}
	for _, n := range races {
		r := newRig(t)
		outputs := children(t, n, "rival", append(r.Env(), envBucket+"="+r.bucket, fmt.Sprint(envRounds, "=", rounds))...)
		checkRivals(t, backend.NewReader(r.direct, backend.Options{}), outputs)
	}
}

// Sixteen processes append to one log, each time with a new writer. Nothing is
// lost, doubled or out of order, and nobody has to be told more than that.
func TestOneShotProcessesOverHTTP(t *testing.T) { oneShotProcesses(t, newRig(t)) }

func oneShotProcesses(t *testing.T, r *rig) {
	t.Helper()
	// As many takeovers as a manifest remembers: nobody who is slow to ask can
	// miss what became of its own.
	const processes, rounds = 16, manifest.MaxGenerations / 16
	outputs := children(t, processes, "one-shot", append(r.Env(), envBucket+"="+r.bucket, fmt.Sprint(envRounds, "=", rounds))...)
	lines := checkedRead(t, backend.NewReader(r.direct, backend.Options{}), "log")
	if len(lines) != 2*processes*rounds {
		t.Errorf("the log has %d events", len(lines))
	}
	for p, out := range outputs {
		last, count := int64(-1), 0
		for line := range strings.Lines(out) {
			var w string
			var seq int64
			var n int
			if k, _ := fmt.Sscanf(line, "acked %s %d %d", &w, &seq, &n); k != 3 || n != count || seq <= last || seq+1 >= int64(len(lines)) {
				t.Fatalf("p%d after seq %d: %s", p, last, line)
			}
			count, last = count+1, seq
			for _, ev := range lines[seq : seq+2] {
				if !strings.Contains(ev, fmt.Sprintf(`{"who":"p%d","n":%d}`, p, n)) {
					t.Errorf("p%d, append %d: there is %s", p, n, ev)
				}
			}
		}
		if count != rounds {
			t.Errorf("p%d: %d appends were acknowledged", p, count)
		}
	}
	info, err := backend.NewReader(r.direct, quick).Info(t.Context(), "log")
	if err != nil || info.Generation != processes*rounds || !info.Owner.Released {
		t.Errorf("%d generations, %v", info.Generation, err)
	}
}

// checkRivals compares what rivals were told with the log.
func checkRivals(t *testing.T, r *backend.Reader, outputs []string) {
	t.Helper()
	info, err := r.Info(t.Context(), "log")
	if err != nil {
		t.Fatal(err)
	}
	lines := checkedRead(t, r, "log")

	acked, fenced := 0, 0
	starts := map[string]int64{} // writer → first seq of its own
	for _, out := range outputs {
		for line := range strings.Lines(out) {
			var w string
			var seq int64
			var n int
			if k, _ := fmt.Sscanf(line, "acked %s %d %d", &w, &seq, &n); k == 3 {
				if _, known := starts[w]; !known {
					starts[w] = seq
				}
			}
		}
	}
	for p, out := range outputs {
		last := int64(-1)
		for line := range strings.Lines(out) {
			var w string
			var seq int64
			var n int
			if k, _ := fmt.Sscanf(line, "acked %s %d %d", &w, &seq, &n); k == 3 {
				acked++
				if seq <= last {
					t.Errorf("p%d: seq %d after %d", p, seq, last)
				}
				last = seq
				if want := fmt.Sprintf(`{"who":"p%d","n":%d,`, p, n); seq >= int64(len(lines)) || !strings.Contains(lines[seq], want) {
					t.Errorf("seq %d is not %s", seq, want)
				}
				continue
			}
			fenced++
			m := fencedBy.FindStringSubmatch(line)
			if m == nil {
				t.Fatalf("a fenced writer was not told by whom: %s", line)
			}
			// Who won is one of us, and really began there, unless its whole
			// tenure was one commit whose process printed nothing yet.
			if first, known := starts[m[1]]; known && fmt.Sprint(first) != m[2] {
				t.Errorf("told that %s began at %s, it was %d", m[1], m[2], first)
			}
		}
	}
	if acked != len(lines) {
		t.Errorf("%d events were acknowledged, the log has %d", acked, len(lines))
	}
	if fenced == 0 {
		t.Error("nobody was ever replaced: the test shows nothing")
	}
	t.Logf("%d events, %d generations, %d times replaced, %d segments", acked, info.Generation, fenced, len(info.Segments))
}

// checkedRead reads a whole log and checks continuity and the Merkle root.
func checkedRead(t testing.TB, r *backend.Reader, id string) (lines []string) {
	t.Helper()
	info, err := r.Info(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	fold, err := manifest.NewFold(segment.NewState(), manifest.RuleUserPrompt)
	if err != nil {
		t.Fatal(err)
	}
	for ev, err := range r.Events(t.Context(), id, backend.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := ev.Parse()
		if err != nil || parsed.Seq != int64(len(lines)) {
			t.Fatalf("seq %d where %d is next: %v", parsed.Seq, len(lines), err)
		}
		fold.Add(parsed)
		lines = append(lines, string(ev.Line))
	}
	if got := fold.State().Tree; got.Root != info.Content.Tree.Root || got.Size != info.Next {
		t.Fatalf("root %d:%s, the manifest says %d:%s", got.Size, got.Root, info.Next, info.Content.Tree.Root)
	}
	return lines
}
