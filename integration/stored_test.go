package integration

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/internal/fixtures"
)

// storedSizes is how many bytes some logs take, in several forms.
type storedSizes struct {
	raw     int64
	batches int64 // one zstd frame per batch, at the level of appends
	sealed  int64 // in segments, none merged
	merged  int64
	folded  int64
	zstd19  int64 // zstd -19 over the whole log
}

const batchOfEvents = 25

// store appends a log in batches, and adds up what it takes.
func (s *storedSizes) store(t *testing.T, id string, lines [][]byte) {
	t.Helper()
	for _, merge := range []bool{false, true} {
		mem := memstore.New(t)
		b := backend.New(mem, backend.Options{Foreground: true, PauseMerging: !merge})
		l, err := b.Create(id, backend.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for batch := range slices.Chunk(lines, batchOfEvents) {
			if _, err := l.Append(t.Context(), batch, backend.AppendOptions{Boundary: true}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(t.Context(), backend.CloseOptions{Seal: true}); err != nil {
			t.Fatal(err)
		}
		if !merge {
			s.sealed += inSegments(t, b.Reader, id)
			s.compare(t, b.Reader, id)
			continue
		}
		s.merged += inSegments(t, b.Reader, id)
		if _, err := b.Fold(t.Context(), id, backend.FoldOptions{}); err != nil {
			t.Fatal(err)
		}
		s.folded += inSegments(t, b.Reader, id)
	}
}

// compare compresses the events, as they are stored, in other ways.
func (s *storedSizes) compare(t *testing.T, r *backend.Reader, id string) {
	t.Helper()
	var lines [][]byte
	for ev, err := range r.Events(t.Context(), id, backend.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, bytes.Clone(ev.Line))
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	whole := append(bytes.Join(lines, []byte("\n")), '\n')
	s.raw += int64(len(whole))
	for batch := range slices.Chunk(lines, batchOfEvents) {
		s.batches += int64(len(enc.EncodeAll(append(bytes.Join(batch, []byte("\n")), '\n'), nil)))
	}
	cmd := exec.CommandContext(t.Context(), "zstd", "-19", "-c", "-q")
	cmd.Stdin = bytes.NewReader(whole)
	best, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	s.zstd19 += int64(len(best))
}

func inSegments(t *testing.T, r *backend.Reader, id string) (n int64) {
	t.Helper()
	info, err := r.Info(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range info.Segments {
		n += s.Bytes
	}
	return n
}

// check compares with the budgets of docs/performance.md.
func (s *storedSizes) check(t *testing.T, what string, sealed, merged, folded float64) {
	t.Helper()
	of := func(a, b int64) float64 { return float64(a) / float64(b) }
	t.Logf("%s: %.2f MB raw; %.3f MB as a frame per batch; sealed %.3f, merged %.3f of that; folded %.3f of zstd -19 (%.1f×; that has %.1f×)",
		what, float64(s.raw)/1e6, float64(s.batches)/1e6, of(s.sealed, s.batches), of(s.merged, s.batches), of(s.folded, s.zstd19),
		of(s.raw, s.folded), of(s.raw, s.zstd19))
	if r := of(s.sealed, s.batches); r > sealed {
		t.Errorf("%s: sealed segments have %.2f of a frame per batch", what, r)
	}
	if r := of(s.merged, s.batches); r > merged {
		t.Errorf("%s: merged segments have %.2f of a frame per batch", what, r)
	}
	if r := of(s.folded, s.zstd19); r > folded {
		t.Errorf("%s: a folded log has %.2f of zstd -19", what, r)
	}
}

// What events take on the store, beside one frame per batch and beside zstd -19.
func TestStoredSize(t *testing.T) {
	if _, err := exec.LookPath("zstd"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("NOT TESTED: there is no zstd program to compare with")
	}
	t.Run("generated", func(t *testing.T) {
		_, source := generate(20_000)
		var lines [][]byte
		for line, err := range source {
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, bytes.Clone(line))
		}
		var s storedSizes
		s.store(t, "log", lines)
		s.check(t, "20,000 generated events", 0.6, 0.5, 1.25)
	})
	t.Run("fixtures", func(t *testing.T) {
		// As one log, since what a segment says about itself is most of a small one.
		var all [][]byte
		files := fixtures.Files(t, "sessions")
		for _, file := range files {
			_, lines := eventLines(t, file)
			for _, line := range lines {
				all = append(all, seqMember.ReplaceAll(line, []byte("$1")))
			}
		}
		var s storedSizes
		s.store(t, "log", all)
		// They make seven segments, with an index of 2 KB each, of which four are
		// merged: a longer log is on the better side of 0.6 and 0.5.
		s.check(t, fmt.Sprintf("%d events of %d sessions", len(all), len(files)), 0.61, 0.54, 1.25)
	})
}

// seqMember is the seq of an event as harnesses write it.
var seqMember = regexp.MustCompile(`^(\{"type":"[^"]*",)"seq":[0-9]+,`)

// A session of the usual size is one small object.
func TestMedianSessionIsSmall(t *testing.T) {
	var sizes []int64
	for _, file := range fixtures.Files(t, "sessions") {
		header, lines := eventLines(t, file)
		b := backend.New(memstore.New(t), backend.Options{Foreground: true})
		l, err := b.Create("log", backend.CreateOptions{Header: header})
		if err != nil {
			t.Fatal(err)
		}
		for batch := range slices.Chunk(lines, batchOfEvents) {
			if _, err := l.Append(t.Context(), batch, backend.AppendOptions{Boundary: true}); err != nil {
				t.Fatal(err)
			}
		}
		info, err := b.Info(t.Context(), "log")
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, info.Bytes+inSegments(t, b.Reader, "log"))
		_ = l.Close(t.Context(), backend.CloseOptions{})
	}
	slices.Sort(sizes)
	median := sizes[len(sizes)/2]
	t.Logf("of %d sessions the median takes %d bytes in all, the largest %d", len(sizes), median, sizes[len(sizes)-1])
	if median > 8<<10 {
		t.Errorf("the median session takes %d bytes, more than 8 KiB", median)
	}
}
