package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/s3log/s3log/backend"
)

// Invocation is what the function is called with.
type Invocation struct {
	Session string `json:"session"`
	Request string `json:"request"` // the same when the platform tries again
	Prompt  string `json:"prompt"`
}

// Answer is what it returns.
type Answer struct {
	Text string `json:"text"`
	Seq  int64  `json:"seq"` // of the message in the log
	// Repeated: an earlier invocation of this request has given the answer.
	Repeated bool `json:"repeated"`
}

// Handler answers prompts. Each invocation is one commit, all of it or nothing:
// what was interrupted before it has closers, and a boundary, in the same commit.
type Handler struct {
	Logs  *backend.Backend // Options.Foreground: nothing goes on after the function has returned
	Model func(ctx context.Context, history []string, prompt string) (string, error)
}

// Handle runs one turn of a session: two GETs and one PUT. It may be called again
// with the same invocation, after any failure, also while the first call is still
// running somewhere: the request's id is the key of the append, so the turn is
// added once, and its first answer is everybody's. An error that is
// ErrSeqMismatch or ErrFenced says that another request of the session came first.
func (h *Handler) Handle(ctx context.Context, in Invocation) (Answer, error) {
	if in.Request == "" {
		return Answer{}, errors.New("an invocation without a request id cannot be repeated safely")
	}
	l, err := h.open(ctx, in.Session)
	if err != nil {
		return Answer{}, err
	}
	// It sends nothing: the append has released the log, or there was none.
	defer func() { _ = l.Close(ctx, backend.CloseOptions{}) }()
	next := l.Next()

	past, err := h.read(ctx, in)
	if err != nil || past.answer != nil {
		return past.given(), err
	}
	text, err := h.Model(ctx, past.history, in.Prompt)
	if err != nil {
		return Answer{}, err // nothing was written, not even that the session was resumed
	}
	r, err := l.Append(ctx, turn(past.turns+1, in, text), backend.AppendOptions{
		Key:        in.Request,
		ExpectNext: &next, // what the model was told is still all there is
		Last:       true,  // nobody has to wait for this writer
	})
	if errors.Is(err, backend.ErrKeyConflict) || err == nil && r.Duplicate {
		// The same request was answered meanwhile. The other answer is in the log.
		past, rerr := h.read(ctx, in)
		if rerr != nil || past.answer != nil {
			return past.given(), rerr
		}
		err = cmp.Or(err, errors.New("the request was answered before, and the log does not have the answer"))
	}
	if err != nil {
		return Answer{}, err
	}
	return Answer{Text: text, Seq: r.First + answerAt}, nil
}

// open opens the session, or begins it. Nothing is written yet: the handle is
// pending, and its first append brings what the resume has to write.
func (h *Handler) open(ctx context.Context, session string) (*backend.Log, error) {
	l, _, err := h.Logs.Resume(ctx, session, backend.ResumeOptions{Delay: true})
	if errors.Is(err, backend.ErrNotFound) {
		return h.Logs.Create(session, backend.CreateOptions{OrAdopt: true})
	}
	return l, err
}

// past is what a session holds already.
type past struct {
	turns   int
	history []string
	answer  *Answer // to the request, if it was answered before
}

func (p *past) given() Answer {
	if p.answer == nil {
		return Answer{}
	}
	return *p.answer
}

// message is the data of user/message, and in a member of it that of
// assistant/message.
type message struct {
	ID      string `json:"id"`
	Role    string `json:"role"`
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	Message *message `json:"message"`
}

// read reads the session: one GET, as long as it fits into its manifest.
func (h *Handler) read(ctx context.Context, in Invocation) (past, error) {
	var p past
	request := ""
	for e, err := range h.Logs.Events(ctx, in.Session, backend.ReadOptions{}) {
		if errors.Is(err, backend.ErrNotFound) {
			break
		}
		if err != nil {
			return past{}, err
		}
		var ev struct {
			Type string          `json:"type"`
			Data json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(e.Line, &ev); err != nil {
			return past{}, err
		}
		var m message
		switch ev.Type {
		case "turn/start":
			p.turns++
			continue
		case "user/message", "assistant/message":
			if err := json.Unmarshal(ev.Data, &m); err != nil {
				return past{}, fmt.Errorf("event %d: %w", e.Seq, err)
			}
		default:
			continue
		}
		if m.Message == nil {
			request = m.ID
		} else {
			m = *m.Message
		}
		for _, part := range m.Content {
			p.history = append(p.history, m.Role+": "+part.Text)
			if m.Role == "assistant" && request == in.Request {
				p.answer = &Answer{Text: part.Text, Seq: e.Seq, Repeated: true}
			}
		}
	}
	return p, nil
}

// answerAt is the place of the answer among the events of a turn.
const answerAt = 3

// turn are the events of a turn. They have no time of their own, so that the same
// turn is the same append, whenever it is tried; the log gives them one.
func turn(n int, in Invocation, text string) [][]byte {
	return [][]byte{
		event("turn/start", map[string]any{"turn": n}),
		event("user/message", map[string]any{
			"id": in.Request, "role": "user", "source": map[string]any{"kind": "user"}, "content": []any{map[string]any{"type": "text", "text": in.Prompt}},
		}),
		event("step/start", map[string]any{"turn": n, "step": 1}),
		event("assistant/message", map[string]any{
			"turn": n, "step": 1, "message": map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "text", "text": text}}},
		}),
		event("step/end", map[string]any{"turn": n, "step": 1}),
		event("turn/end", map[string]any{"turn": n, "reason": "completed"}),
	}
}

func event(typ string, data map[string]any) []byte {
	line, err := json.Marshal(map[string]any{"type": typ, "data": data})
	if err != nil {
		panic(err) // strings and numbers can be encoded
	}
	return line
}
