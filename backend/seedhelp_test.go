package backend_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/internal/fixtures"
	"github.com/s3log/s3log/internal/plainlog"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
	"github.com/s3log/s3log/sessionfile"
	"github.com/s3log/s3log/sessiongen"
)

var compaction = seedpath.Pairs["compaction"]

// session is one session file.
type session struct {
	name   string
	header []byte
	lines  [][]byte
}

// realSessions reads real sessions.
func realSessions(t testing.TB) (all []session) {
	t.Helper()
	for _, file := range fixtures.Files(t, "sessions", "legacy-messages") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := sessionfile.NewReader(bytes.NewReader(data), sessionfile.Options{})
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		s := session{name: filepath.Base(file), header: r.Header()}
		for line, err := range r.Events() {
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			s.lines = append(s.lines, bytes.Clone(line.Bytes))
		}
		all = append(all, s)
	}
	return all
}

// generated makes a session of n events.
func generated(opt sessiongen.Options) session {
	g := sessiongen.New(opt)
	s := session{name: fmt.Sprintf("seed %d, %s", opt.Seed, opt.Profile), header: g.Header()}
	for line, ok := g.Next(); ok; line, ok = g.Next() {
		s.lines = append(s.lines, bytes.Clone(line))
	}
	return s
}

// written makes a log of these events, in one append.
func written(t testing.TB, b *backend.Backend, id string, header []byte, events [][]byte) {
	t.Helper()
	l, err := b.Create(id, backend.CreateOptions{Header: header})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), events, backend.AppendOptions{Boundary: true}); err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
}

// brief numbers events that are given as a type and, behind a space, data.
func brief(events ...string) (lines [][]byte) {
	for i, e := range events {
		typ, data, ok := strings.Cut(e, " ")
		if !ok {
			data = "{}"
		}
		lines = append(lines, fmt.Appendf(nil, `{"type":%q,"seq":%d,"time":%d,"data":%s}`, typ, i, 10+i, data))
	}
	return lines
}

func resume(t testing.TB, b *backend.Backend, id string, opt backend.ResumeOptions) (*backend.Log, backend.Receipt) {
	t.Helper()
	l, r, err := b.Resume(t.Context(), id, opt)
	if err != nil {
		t.Fatal(err)
	}
	return l, r
}

func plainly(t testing.TB, lines []string) []plainlog.Event {
	t.Helper()
	events := make([]plainlog.Event, len(lines))
	for i, line := range lines {
		var err error
		if events[i], err = plainlog.Parse([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	return events
}

// sameVerdicts compares what a reader says about the positional brackets with a
// plain backward scan.
func sameVerdicts(t testing.TB, r *backend.Reader, id string, events []plainlog.Event, opt backend.CheckOptions) {
	t.Helper()
	for _, name := range []string{"compaction", "turn", "step"} {
		p := seedpath.Pairs[name]
		c, err := r.Check(t.Context(), id, p, opt)
		if err != nil {
			t.Fatal(err)
		}
		answer, marker, bound := plainlog.Verdict(events, p.Open, p.Close)
		got := []int64{-1, -1}
		if c.Open != nil {
			got[0] = c.Open.Seq
		}
		if c.Bound != nil {
			got[1] = c.Bound.Seq
		}
		if string(c.Answer) != answer || got[0] != marker || got[1] != bound {
			t.Errorf("%s of %d events: %s, marker %d, boundary %d; a backward scan says %s, %d, %d", name, len(events), c.Answer, got[0], got[1], answer, marker, bound)
		}
	}
}

// verified is verifyClean with a noted point that the log must extend.
func verified(t testing.TB, r *backend.Reader, id string, since backend.Point) {
	t.Helper()
	rep, err := r.Verify(t.Context(), id, backend.VerifyOptions{Since: &since})
	if err != nil || !rep.OK() {
		t.Errorf("verify %s: %+v, %v", id, rep, err)
	}
	if want := "the log extends " + since.String(); !slices.Contains(rep.Checked, want) {
		t.Errorf("verify %s does not say %q: %q", id, want, rep.Checked)
	}
}

func info(t testing.TB, r *backend.Reader, id string) backend.Info {
	t.Helper()
	i, err := r.Info(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func root(t testing.TB, r *backend.Reader, id string) backend.Point {
	t.Helper()
	i := info(t, r, id)
	return backend.Point{Size: i.Next, Root: i.Content.Tree.Root}
}

// copied is a store with the same objects.
func copied(t testing.TB, mem *memstore.Store) *memstore.Store { return restore(t, mem.Snapshot("")) }

// forgeManifest changes a log's manifest behind everybody's back, as nobody but a program
// with a fault in it would: its checksum is right. A tree is made to agree with
// itself.
func forgeManifest(t testing.TB, mem *memstore.Store, id string, change func(r *manifest.Record)) {
	t.Helper()
	head, err := manifest.Load(t.Context(), mem, id, manifest.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rec := *head.Record
	rec.Content = rec.Content.Clone()
	rec.Segments = slices.Clone(rec.Segments)
	change(&rec)
	rec.Content.Tree.Root = segment.TreeRoot(rec.Content.Tree.Range)
	body, err := rec.Encode()
	if err != nil {
		t.Fatal(err)
	}
	mem.Replace(manifest.Key(id), body)
}
