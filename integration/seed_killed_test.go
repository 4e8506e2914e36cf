package integration

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"testing"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/plainlog"
	"github.com/s3log/s3log/seedpath"
)

// writerProcess is an agent in a process of its own: what is written to it is
// appended as it arrives.
type writerProcess struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr bytes.Buffer
}

func startWriter(t *testing.T, c command, id string) *writerProcess {
	t.Helper()
	w := &writerProcess{cmd: c.cmd("append", "--stream", "--create", "--label", "agent", id)}
	w.cmd.Stderr = &w.stderr
	var err error
	if w.in, err = w.cmd.StdinPipe(); err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// kill ends the process as no program can notice.
func (w *writerProcess) kill(t *testing.T) {
	t.Helper()
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	w.in.Close()
	if err := w.cmd.Wait(); w.cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("the writer ended by itself: %v\n%s", err, &w.stderr)
	}
}

// until waits for a reader to see so many events.
func until(t *testing.T, r *backend.Reader, id string, n int64) backend.Info {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		info, err := r.Info(t.Context(), id)
		if err == nil && info.Next >= n {
			return info
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("%d of %d events, %v", info.Next, n, err)
		}
	}
}

const (
	compactionStart = `{"type":"compaction/start","data":{"compactionId":"c","turn":1}}` + "\n"
	compactionEnd   = `{"type":"compaction/end","data":{"compactionId":"c","turn":1}}` + "\n"
)

// A writer is killed between the start and the end of a compaction. An auditor
// who may get the objects of that log and nothing else is told that the marker
// is live before the log is resumed, and stale after it.
func TestWriterKilledInACompaction(t *testing.T) {
	r := newRig(t)
	who := r.user(t)
	r.SetPolicy(t, r.bucket, readPolicy(t, "auditor-of-one-log", r.bucket, who.AccessKey, "log").String())
	auditor := r.ctl(t).as(who)
	reader := backend.NewReader(r.as(t, who), quick)

	w := startWriter(t, r.ctl(t), "log")
	if _, err := io.WriteString(w.in, "{\"type\":\"turn/start\",\"data\":{\"turn\":1}}\n"+compactionStart+compactionEnd); err != nil {
		t.Fatal(err)
	}
	until(t, reader, "log", 3)
	auditor.want(0, "", "check", "log")
	if _, err := io.WriteString(w.in, compactionStart+string(note(0))+"\n"); err != nil {
		t.Fatal(err)
	}
	until(t, reader, "log", 5)
	judge := func(exit int, verdict string, generation int64) checkJSON {
		t.Helper()
		var c checkJSON
		for _, flags := range [][]string{nil, {"--verify"}, {"--id", "compactionId"}} {
			got := auditor.want(exit, "", append([]string{"check", "log", "--output", "json"}, flags...)...)
			if c = fields[checkJSON](t, got.stdout); c.Verdict != verdict || c.Open == nil || c.Open.Seq != 3 || c.Open.Generation != 1 || c.Generation != generation {
				t.Errorf("check %q: %s", flags, got.stdout)
			}
		}
		return c
	}
	judge(3, "live", 1)
	w.kill(t)
	judge(3, "live", 1)
	auditor.want(7, "", "resume", "log", "--take-over")
	judge(3, "live", 1)

	// It was active a moment ago: it is not replaced by accident.
	r.ctl(t).want(4, "", "resume", "log")
	got := fields[receiptJSON](t, r.ctl(t).want(0, "", "resume", "log", "--take-over", "--output", "json").stdout)
	if got.First != 5 || got.Count != 2 || got.Generation != 2 { // the end of the turn, and the boundary
		t.Errorf("%+v", got)
	}
	if c := judge(0, "stale", 2); c.Boundary == nil || c.Boundary.Seq != 6 {
		t.Errorf("%+v", c)
	}
	auditor.want(0, "", "verify", "log")
	got = fields[receiptJSON](t, r.ctl(t).want(0, "", "resume", "log", "--output", "json").stdout)
	if got.Count != 0 || got.Generation != 2 {
		t.Errorf("again: %+v", got)
	}
}

// A writer is killed at any moment, with a request under way or not. Whatever
// has arrived by then, an auditor's verdict is that of a scan of the events; a
// resume ends every compaction, and nothing of the dead writer comes after it.
func TestWriterKilledAtAnyMoment(t *testing.T) {
	r := newRig(t)
	rounds := 6
	if long() {
		rounds = 100
	}
	rng := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	live := 0
	for i := range rounds {
		id := fmt.Sprint("log-", i)
		if killedSomewhere(t, r, id, int64(rng.IntN(40)), time.Duration(rng.IntN(5000))*time.Microsecond) {
			live++
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("killed %d times, %d of them inside a compaction", rounds, live)
}

// killedSomewhere kills a writer some time after so many events, and reports
// whether it has left a live marker.
func killedSomewhere(t *testing.T, r *rig, id string, after int64, later time.Duration) bool {
	t.Helper()
	reader := backend.NewReader(r.direct, quick)
	w := startWriter(t, r.ctl(t), id)
	end := make(chan struct{})
	go func() { // until the pipe is broken
		defer close(end)
		for {
			for _, line := range []string{compactionStart, string(note(0)) + "\n", compactionEnd} {
				if _, err := io.WriteString(w.in, line); err != nil {
					return
				}
				time.Sleep(200 * time.Microsecond) // several commits
			}
		}
	}()
	until(t, reader, id, after+1)
	time.Sleep(later)
	w.kill(t)
	<-end
	// A last request may be under way still, and land at any time up to the resume.
	before := -1
	for ; before < 0; time.Sleep(time.Millisecond) {
		first := must(reader.Info(t.Context(), id))
		c := must(reader.Check(t.Context(), id, seedpath.Pairs["compaction"], backend.CheckOptions{}))
		lines := must(read(t, r.direct, id, 0))
		if must(reader.Info(t.Context(), id)).Revision == first.Revision {
			before = len(lines)
			if want := scanned(t, lines); string(c.Answer) != want {
				t.Errorf("%s: %s, a backward scan says %s", id, c.Answer, want)
			}
		}
	}
	got := fields[receiptJSON](t, r.ctl(t).want(0, "", "resume", id, "--take-over", "--output", "json").stdout)
	now, lines := look(t, reader, id)
	want := seedpath.Answer("balanced")
	inside := scanned(t, lines[:got.First]) == "live"
	if inside {
		want = seedpath.Stale
	}
	if got.First < int64(before) || got.Count != 1 || now != (resumed{got.First + 1, want, 2}) {
		t.Errorf("%s had %d events; the resume %+v, now %+v, want %s", id, before, got, now, want)
	}
	return inside
}

// scanned is the verdict on compactions that a backward scan of the lines gives.
func scanned(t *testing.T, lines []string) string {
	t.Helper()
	answer, _, _ := plainlog.Verdict(parsed(t, lines), "compaction/start", "compaction/end")
	return answer
}
