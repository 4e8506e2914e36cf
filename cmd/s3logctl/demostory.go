package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/s3log/s3log/internal/words"
)

// What the agent of the demo appends, in three commits.
var demoEvents = []string{
	`{"type":"turn/start","data":{"turn":1}}
{"type":"user/message","data":{"id":"m1","role":"user","content":[{"type":"text","text":"Which of the tests are slow?"}],"source":{"kind":"user"}},"surfaceOp":"append"}
{"type":"step/start","data":{"turn":1,"step":1}}
{"type":"assistant/message","data":{"turn":1,"step":1,"message":{"id":"m2","role":"assistant","content":[{"type":"text","text":"Two of them take over a minute."}],"source":{"kind":"model","provider":"demo","model":"demo"}}},"surfaceOp":"append"}
{"type":"step/end","data":{"turn":1,"step":1}}
{"type":"turn/end","data":{"turn":1,"reason":{"kind":"completed"}}}
`,
	`{"type":"turn/start","data":{"turn":2}}
{"type":"user/message","data":{"id":"m3","role":"user","content":[{"type":"text","text":"Make them fast, then."}],"source":{"kind":"user"}},"surfaceOp":"append"}
`,
	`{"type":"compaction/start","data":{"compactionId":"c1","turn":2}}
`,
}

// tell tells the story.
func (d *demo) tell(ctx context.Context) error {
	if err := d.writeAndDie(ctx); err != nil {
		return err
	}
	for _, s := range []struct {
		title string
		exit  int
		args  []string
	}{
		{"What it leaves behind: a compaction that has begun, in a turn that has.",
			exitDone, []string{"tail", d.log, "-n", "3"}},
		{"A reader judges the marker. Nothing in the log says that its writer is gone, so it is live: nobody else may compact.",
			exitLive, []string{"check", d.log}},
		{"A resume would end this. But the writer was active a moment ago, and nobody can tell a dead one from a slow one: it must be meant.",
			exitConflict, []string{"resume", d.log}},
		{"It is meant: the open turn is closed and a boundary ends the lifecycle, in one commit. Should the old writer live after all, it is fenced from now on.",
			exitDone, []string{"resume", d.log, "--take-over"}},
		{"The same question again. The marker is where it was, but a boundary came after it: it is stale, and whoever goes on with the session may compact.",
			exitDone, []string{"check", d.log}},
		{"To resume what ends in its boundary takes no write.",
			exitDone, []string{"resume", d.log}},
		{"A fork has its own copy of the history, and a boundary of its own if need be.",
			exitDone, []string{"fork", d.log, d.child}},
		{"Anybody who may read can check all of it, down to every byte.",
			exitDone, []string{"verify", d.log, d.child}},
		{"And this is what the store holds.",
			exitDone, []string{"ls", "--limit", "2"}},
	} {
		if err := d.verb(ctx, s.title, s.exit, s.args...); err != nil {
			return err
		}
	}
	return nil
}

// writeAndDie lets a process of its own write the session, and kills it.
func (d *demo) writeAndDie(ctx context.Context) error {
	r, err := d.reader(ctx)
	if err != nil {
		return err
	}
	args := []string{"append", d.log, "--create", "--stream", "--label", "agent"}
	a, err := d.startAgent(ctx, args)
	if err != nil {
		return err
	}
	defer a.kill()
	var commits, count int64
	for _, events := range demoEvents {
		if _, err := io.WriteString(a.in, events); err != nil {
			a.kill()
			return fmt.Errorf("the writer does not listen: %w: %s", err, strings.TrimSpace(a.said.String()))
		}
		count += int64(strings.Count(events, "\n"))
		info, err := d.until(ctx, r, count, a)
		if err != nil {
			return err
		}
		commits = info.Revision
	}
	err = d.show(scene{
		Title:   "An agent writes a session: one process, which owns the log. Its last event says that it has begun to compact its context.",
		Command: append([]string{"s3logctl"}, args...),
		Output:  []string{fmt.Sprintf("%s in the log, by %s of 1 PUT each", events(count), words.Count(commits, "commit"))},
	})
	if err != nil {
		return err
	}
	pid := a.cmd.Process.Pid
	a.kill()
	return d.show(scene{
		Title:   "The process dies in the middle of it, and has no chance to say so.",
		Command: []string{"kill", "-9", fmt.Sprint(pid)},
		Output:  []string{a.err.Error()},
	})
}

// agent is a writer in a process of its own.
type agent struct {
	cmd  *exec.Cmd
	in   io.Writer
	gone chan struct{} // closed when the process has ended; then:
	err  error         // how
	said bytes.Buffer  // on stderr
}

func (d *demo) startAgent(ctx context.Context, args []string) (*agent, error) {
	self, err := d.g.executable()
	if err != nil {
		return nil, err
	}
	a := &agent{gone: make(chan struct{})}
	a.cmd = exec.CommandContext(ctx, self, append([]string{"--store", d.store}, args...)...)
	a.cmd.Stderr = &a.said
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := a.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the writer: %w", err)
	}
	go func() {
		a.err = a.cmd.Wait()
		close(a.gone)
	}()
	return a, nil
}

// kill ends the process without a warning, and waits for its end.
func (a *agent) kill() {
	_ = a.cmd.Process.Kill() // it may have ended
	<-a.gone
}
