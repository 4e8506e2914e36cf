package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/s3log/s3log/backend"
)

// Agent is a process that keeps one session for as long as it runs.
type Agent struct {
	Logs  *backend.Backend // with Options.Lease
	Lease time.Duration    // the same
	Model func(ctx context.Context, prompt string) (string, error)
}

// Run answers prompts until there are no more, ctx ends, or another process takes
// the session over. Then the error is ErrFenced, what the model was doing has
// been cancelled, and nothing of it is in the log. A session that somebody else
// holds is ErrHeld, and a *backend.HeldError says who, and until when; takeOver
// replaces that one.
func (a *Agent) Run(ctx context.Context, session string, takeOver bool, prompts <-chan string, say func(string)) error {
	l, err := a.open(ctx, session, takeOver)
	if err != nil {
		return err
	}
	info, err := a.Logs.Info(ctx, session)
	if err != nil {
		return errors.Join(err, l.Close(context.WithoutCancel(ctx), backend.CloseOptions{Release: true}))
	}
	turns, _ := info.Content.Types.Get("turn/start") // of the lifecycles before
	ctx, cancel := context.WithCancelCause(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		a.renew(ctx, l, cancel)
	}()
	err = a.serve(ctx, l, turns.Count, prompts, say)
	cancel(nil)
	<-renewed
	// Closing gives the lease back, so that nobody has to wait for its end; also
	// where ctx has ended. A handle that was fenced has nothing to give back.
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	if cerr := l.Close(closing, backend.CloseOptions{Release: true}); err == nil {
		err = cerr
	}
	return err
}

// open begins the session, or its next lifecycle, and owns it when it returns:
// what the one before has left open is closed.
func (a *Agent) open(ctx context.Context, session string, takeOver bool) (*backend.Log, error) {
	l, _, err := a.Logs.Resume(ctx, session, backend.ResumeOptions{AdoptOptions: backend.AdoptOptions{TakeOver: takeOver}, Claim: true})
	if !errors.Is(err, backend.ErrNotFound) {
		return l, err
	}
	if l, err = a.Logs.Create(session, backend.CreateOptions{}); err != nil {
		return nil, err
	}
	_, err = l.Claim(ctx)
	return l, err
}

// renew keeps the lease while nothing is appended, and ends everything where that
// is not possible any more.
func (a *Agent) renew(ctx context.Context, l *backend.Log, cancel context.CancelCauseFunc) {
	t := time.NewTicker(a.Lease / 3)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if err := l.Renew(ctx); err != nil && ctx.Err() == nil {
				cancel(err)
				return
			}
		}
	}
}

func (a *Agent) serve(ctx context.Context, l *backend.Log, turns int64, prompts <-chan string, say func(string)) error {
	for n := turns + 1; ; n++ {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case prompt, more := <-prompts:
			if !more {
				return nil
			}
			answer, err := a.turn(ctx, l, n, prompt)
			if cause := context.Cause(ctx); cause != nil && err != nil {
				return cause // why the model, or an append, was cancelled
			}
			if err != nil {
				return err
			}
			say(answer)
		}
	}
}

// turn stores the question before it is answered, so that a crash shows what was
// under way: the next lifecycle closes such a turn as interrupted.
func (a *Agent) turn(ctx context.Context, l *backend.Log, n int64, prompt string) (string, error) {
	_, err := l.Append(ctx, [][]byte{
		event("turn/start", map[string]any{"turn": n}),
		event("user/message", map[string]any{"role": "user", "source": map[string]any{"kind": "user"}, "content": text(prompt)}),
		event("step/start", map[string]any{"turn": n, "step": 1}),
	}, backend.AppendOptions{})
	if err != nil {
		return "", err
	}
	answer, err := a.Model(ctx, prompt)
	if err != nil {
		return "", fmt.Errorf("model: %w", err)
	}
	_, err = l.Append(ctx, [][]byte{
		event("assistant/message", map[string]any{"turn": n, "step": 1, "message": map[string]any{"role": "assistant", "content": text(answer)}}),
		event("step/end", map[string]any{"turn": n, "step": 1}),
		event("turn/end", map[string]any{"turn": n, "reason": "completed"}),
	}, backend.AppendOptions{})
	return answer, err
}

func text(s string) any { return []any{map[string]any{"type": "text", "text": s}} }

func event(typ string, data map[string]any) []byte {
	line, err := json.Marshal(map[string]any{"type": typ, "data": data})
	if err != nil {
		panic(err) // strings and numbers can be encoded
	}
	return line
}
