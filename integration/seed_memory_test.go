package integration

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/faultproxy"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
	"github.com/s3log/s3log/sessiongen"
)

// measuredFork forks as a child process, and says how much memory that took:
// the most that was on the heap, and the most that the system gave.
func measuredFork(ctx context.Context, b *backend.Backend, parent, child, how string, out io.Writer) error {
	opt := backend.ForkOptions{Release: true}
	if at, cut := strings.CutPrefix(how, "cut "); cut {
		var seq int64
		if _, err := fmt.Sscan(at, &seq); err != nil {
			return err
		}
		opt.At = &seq
	}
	if how == "stream" { // as from another store, or with other keys
		store, err := childStore()
		if err != nil {
			return err
		}
		opt.Parent = backend.NewReader(store, backend.Options{})
	}
	var err error
	heap := peak(func() { _, _, err = b.Fork(ctx, parent, child, opt) })
	fmt.Fprintln(out, heap, residentPeak())
	return err
}

// residentPeak is the most memory that this process had, in MiB; 0 where the
// system does not tell.
func residentPeak() (mib int64) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if n, _ := fmt.Sscanf(s.Text(), "VmHWM: %d kB", &mib); n == 1 {
			return mib >> 10
		}
	}
	return 0
}

// A large log is forked within 64 MiB of memory, by copies inside the store and
// through this process, and cut inside a segment. When the parent is gone, every
// object of it, the children are whole. The parent has 20 MB, 200 MB in the
// long run.
func TestForkOfALargeParent(t *testing.T) {
	events := int64(100_000)
	switch {
	case raceDetector:
		events = events * 4 / 5 // still more than the 8 MiB that are encoded anew, up to the cut
	case long():
		events = 1_050_000
	}
	r := newRig(t)
	g := sessiongen.New(sessiongen.Options{Seed: 11, Events: events})
	all := sha256.New()
	var raw, cut int64
	var half []byte // the hash up to cut
	seq := int64(0)
	lines := func(yield func([]byte, error) bool) {
		for line, ok := g.Next(); ok; line, ok = g.Next() {
			hashLine(all, line)
			raw += int64(len(line)) + 1
			if seq < events*3/5 && bytes.Contains(line[:40], []byte(segment.TypeTurnEnd)) {
				cut, half = seq, all.Sum(nil)
			}
			seq++
			if !yield(line, nil) {
				return
			}
		}
	}
	// In the foreground, so that its segments are as large as they become.
	if _, err := backend.New(r.direct, foreground).Import(t.Context(), "parent", lines, backend.ImportOptions{Header: g.Header()}); err != nil {
		t.Fatal(err)
	}
	info := must(backend.NewReader(r.direct, quick).Info(t.Context(), "parent"))
	t.Logf("%d events, %.1f MB in %d segments, cut at %d", events, float64(raw)/1e6, len(info.Segments), cut)

	children := map[string]int64{"copy": events, "stream": events, fmt.Sprint("cut ", cut): cut + 1}
	for how, inherited := range children {
		r.proxy.Take()
		begin := time.Now()
		cmd := r.program(t, "fork", envLog+"=parent", envChild+"="+how, envHow+"="+how)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		took := time.Since(begin)
		var heap, resident int64
		if n, _ := fmt.Sscan(string(out), &heap, &resident); err != nil || n != 2 {
			t.Fatalf("%s: %v %q", how, err, out)
		}
		e := r.proxy.Take()
		t.Logf("%s: %d events, at most %d MiB on the heap, %d MiB resident, %v, %v", how, inherited, heap, resident, e.Counts(), took.Round(time.Millisecond))
		if heap > 64 {
			t.Errorf("%s: %d MiB on the heap", how, heap)
		}
		if copies := len(e.Of(faultproxy.Copy, "")); (copies == 0) != (how == "stream") && info.Segments[0].Count <= inherited {
			t.Errorf("%s: %d copies inside the store", how, copies)
		}
	}

	deleted := 0
	for key := range versions(t, r.direct) {
		if key == manifest.Key("parent") || strings.HasPrefix(key, manifest.SegmentPrefix("parent")) {
			if err := r.direct.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			deleted++
		}
	}
	if deleted < 1+len(info.Segments) {
		t.Errorf("%d objects of the parent", deleted)
	}
	reader := backend.NewReader(r.direct, quick)
	for child, inherited := range children {
		rep, err := reader.Verify(t.Context(), child, backend.VerifyOptions{})
		if err != nil || len(rep.Findings) > 0 || rep.Events != inherited+1 {
			t.Errorf("%s: %d events, %+v, %v", child, rep.Events, rep.Findings, err)
		}
		want := half
		if inherited == events {
			want = all.Sum(nil)
		}
		sum := sha256.New()
		for ev, err := range reader.Events(t.Context(), child, backend.ReadOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Seq < inherited {
				hashLine(sum, ev.Line)
			}
		}
		if !bytes.Equal(sum.Sum(nil), want) {
			t.Errorf("%s: the inherited events are others", child)
		}
		if c := must(reader.Check(t.Context(), child, backend.Pair{Open: "compaction/start", Close: "compaction/end"}, backend.CheckOptions{})); c.Bound == nil || c.Bound.Seq != inherited {
			t.Errorf("%s: boundary %+v", child, c.Bound)
		}
	}
}

func hashLine(h hash.Hash, line []byte) {
	h.Write(line)
	h.Write([]byte{'\n'})
}
