package integration

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// Programs that this test binary runs as when it is started as a child process.
const childEnv = "S3LOG_INTEGRATION_CHILD"

func TestMain(m *testing.M) {
	if program := os.Getenv(childEnv); program != "" {
		os.Exit(child(program))
	}
	os.Exit(m.Run())
}

func child(program string) int {
	store, err := filestore.Open(os.Getenv("S3LOG_INTEGRATION_DIR"), filestore.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	b := backend.New(store, backend.Options{Label: os.Getenv("S3LOG_INTEGRATION_NAME"), MinBackoff: time.Millisecond})
	switch program {
	case "rival":
		err = rival(b)
	default:
		err = fmt.Errorf("unknown program %q", program)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// rival takes the log over again and again and appends to it until it is
// replaced. It prints every acknowledged event, and how each tenure ended.
func rival(b *backend.Backend) error {
	name := os.Getenv("S3LOG_INTEGRATION_NAME")
	rounds, _ := strconv.Atoi(os.Getenv("S3LOG_INTEGRATION_ROUNDS"))
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
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

var fencedBy = regexp.MustCompile(`writer ([0-9a-f-]{36}) \("p[0-9]"\) took over at seq ([0-9]+)`)

// Several processes append to one log in one directory. Every commit is won by
// one of them; the replaced ones learn by whom and at which seq; nothing is
// lost, doubled or out of order.
func TestProcessesTakeALogFromEachOther(t *testing.T) {
	dir := t.TempDir()
	const processes = 4
	outputs := make([]string, processes)
	t.Run("run", func(t *testing.T) {
		for p := range processes {
			t.Run(fmt.Sprint("p", p), func(t *testing.T) {
				t.Parallel()
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), childEnv+"=rival", "S3LOG_INTEGRATION_DIR="+dir,
					fmt.Sprint("S3LOG_INTEGRATION_NAME=p", p), "S3LOG_INTEGRATION_ROUNDS=12")
				cmd.Stderr = os.Stderr
				out, err := cmd.Output()
				if err != nil {
					t.Error(err)
				}
				outputs[p] = string(out)
			})
		}
	})
	store, err := filestore.Open(dir, filestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := backend.NewReader(store, backend.Options{})
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
