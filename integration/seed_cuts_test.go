package integration

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/backendtest"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/s3store"
	"github.com/s3log/s3log/internal/faultproxy"
	"github.com/s3log/s3log/internal/plainlog"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/sessiongen"
)

// The contract of session storage holds on a server.
func TestContractOverHTTP(t *testing.T) {
	r := newRig(t)
	backendtest.Run(t, func(t *testing.T) objstore.Store {
		return openS3(t, r.Endpoint, r.bucket, r.AccessKey, r.SecretKey)
	})
}

// Sessions, cut at a sample of their events by the death of their writer: what a
// resume and a fork make of each is what plain scans of the events say. All
// events of all sessions are cut in package backend, without a server.
func TestCutsOverHTTP(t *testing.T) {
	sessions := map[string]func(t *testing.T) [][]byte{
		"real": func(t *testing.T) [][]byte {
			dir, files := realFiles(t)
			name := filepath.Join(dir, "sessions", "examples__headless-agent__semantic-checkpoint-snapshots__tool-outcome-unknown__session.expected.jsonl")
			if !slices.Contains(files, name) {
				name = files[0]
			}
			_, lines := eventLines(t, name)
			return lines
		},
	}
	for name, opt := range map[string]sessiongen.Options{
		"stream": {Seed: 1, Events: 240, OpenAtEnd: sessiongen.OpenCall},
		"agent":  {Seed: 2, Events: 150, Profile: sessiongen.Agent, OpenAtEnd: sessiongen.OpenTurn | sessiongen.OpenCompaction},
	} {
		sessions[name] = func(*testing.T) (lines [][]byte) {
			g := sessiongen.New(opt)
			for line, ok := g.Next(); ok; line, ok = g.Next() {
				lines = append(lines, bytes.Clone(line))
			}
			return lines
		}
	}
	samples := 12
	if long() {
		samples = 200
	}
	for name, session := range sessions {
		t.Run(name, func(t *testing.T) {
			lines := session(t)
			r := newRig(t)
			l := mustCreate(t, r.direct, "log", foreground)
			every, cuts := max(1, len(lines)/samples), 0
			events, err := plainlog.ParseAll(lines)
			if err != nil {
				t.Fatal(err)
			}
			for n := 1; n <= len(lines); n++ {
				if _, err := l.Append(t.Context(), lines[n-1:n], backend.AppendOptions{Boundary: true}); err != nil {
					t.Fatal(err)
				}
				if n%every == 0 || n == len(lines) {
					r.cutHere(t, fmt.Sprint("cut-", n), lines[:n], events[:n])
					cuts++
				}
				if t.Failed() {
					t.Fatalf("at %d events", n)
				}
			}
			t.Logf("%d events, %d cuts", len(lines), cuts)
		})
	}
}

// copied is a store below another prefix of the bucket with the same objects, as
// if it had been restored there.
func (r *rig) copied(t *testing.T, prefix string) objstore.Store {
	t.Helper()
	client := r.Client(t)
	for info, err := range r.direct.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.CopyObject(t.Context(), &s3.CopyObjectInput{
			Bucket: &r.bucket, Key: aws.String(prefix + "/" + info.Key), CopySource: aws.String(r.bucket + "/logs/" + info.Key),
		}); err != nil {
			t.Fatal(err)
		}
	}
	return r.open(t, func(c *s3store.Config) { c.Prefix = prefix })
}

// cutHere resumes and forks a copy of a log whose writer has gone.
func (r *rig) cutHere(t *testing.T, prefix string, lines [][]byte, events []plainlog.Event) {
	t.Helper()
	store := r.copied(t, prefix)
	b := backend.New(store, quick)
	was := must(b.Info(t.Context(), "log"))
	point := backend.Point{Size: was.Next, Root: was.Content.Tree.Root}
	sameAsScanned(t, b.Reader, "log", events)

	now := time.Now().UnixMilli() - 2000              // the server tells its time in whole seconds
	atOf := func(got []string, inherited int) int64 { // of the boundary that was written
		if inherited < len(got) {
			if e, err := plainlog.Parse([]byte(got[inherited])); err == nil && e.Time >= now && e.Time <= time.Now().UnixMilli() {
				return e.Time
			}
		}
		return now
	}
	var inherited []string
	for _, line := range lines {
		inherited = append(inherited, string(line))
	}

	// A fork first: the parent does not change.
	_, _, err := b.Fork(t.Context(), "log", "child", backend.ForkOptions{Release: true})
	switch {
	case plainlog.Open(events):
		if !errors.Is(err, backend.ErrOpenTurn) {
			t.Errorf("forked inside an open turn: %v", err)
		}
	case err != nil:
		t.Error(err)
	default:
		got := checkedRead(t, b.Reader, "child")
		want := append(slices.Clip(inherited), plainlog.Boundary(events, 0, atOf(got, len(inherited)))...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the child: -want +got:\n%s", diff)
		}
		if o := must(b.Info(t.Context(), "child")).Origin; o.Parent == nil || o.Parent.Root != point.Root || o.Parent.UpTo != point.Size {
			t.Errorf("origin %+v, the parent has %s", o, point)
		}
		sameAsScanned(t, b.Reader, "child", parsed(t, got))
		extends(t, b.Reader, "child", point)
	}

	if _, _, err := b.Resume(t.Context(), "log", backend.ResumeOptions{Release: true}); err != nil {
		t.Fatal(err)
	}
	closers := plainlog.Closers(events)
	got := checkedRead(t, b.Reader, "log")
	want := append(slices.Clip(inherited), closers...)
	want = append(want, plainlog.Boundary(events, len(closers), atOf(got, len(want)))...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resumed: -want +got:\n%s", diff)
	}
	counted(t, r, "the second resume", map[string]int{faultproxy.Get: 1}, func() {
		if _, again, err := b.Resume(t.Context(), "log", backend.ResumeOptions{Release: true}); err != nil || again.Count != 0 {
			t.Errorf("%+v, %v", again, err)
		}
	})
	sameAsScanned(t, b.Reader, "log", parsed(t, got))
	extends(t, b.Reader, "log", point)
}

func parsed(t *testing.T, lines []string) []plainlog.Event {
	t.Helper()
	events, err := plainlog.ParseAll(splitLines(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// sameAsScanned compares verdicts from the manifest alone with backward scans.
func sameAsScanned(t *testing.T, r *backend.Reader, id string, events []plainlog.Event) {
	t.Helper()
	for _, name := range []string{"compaction", "turn", "step"} {
		pair := seedpath.Pairs[name]
		c, err := r.Check(t.Context(), id, pair, backend.CheckOptions{})
		if err != nil {
			t.Fatal(err)
		}
		answer, marker, bound := plainlog.Verdict(events, pair.Open, pair.Close)
		got := [2]int64{-1, -1}
		if c.Open != nil {
			got[0] = c.Open.Seq
		}
		if c.Bound != nil {
			got[1] = c.Bound.Seq
		}
		if string(c.Answer) != answer || got != [2]int64{marker, bound} {
			t.Errorf("%s of %s: %s %v, a backward scan says %s [%d %d]", name, id, c.Answer, got, answer, marker, bound)
		}
	}
}

// extends verifies a log that must extend what it, or its parent, was.
func extends(t *testing.T, r *backend.Reader, id string, since backend.Point) {
	t.Helper()
	rep, err := r.Verify(t.Context(), id, backend.VerifyOptions{Since: &since})
	if err != nil || len(rep.Findings) > 0 {
		t.Errorf("verify %s: %+v, %v", id, rep.Findings, err)
	}
}
