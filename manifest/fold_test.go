package manifest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/segment"
)

// TestFoldTurn follows an open turn event by event.
func TestFoldTurn(t *testing.T) {
	const (
		start = `turn/start {"turn":1}`
		end   = `turn/end {"turn":1}`
		step  = `step/start {"turn":1,"step":1}`
		done  = `step/end {"turn":1,"step":1}`
		asks  = `assistant/message {"turn":1,"step":1,"message":{"content":[{"type":"text"},{"type":"tool-call","id":"a"},{"type":"tool-call","id":"b"}]}}`
		asksA = `assistant/message {"turn":1,"step":2,"message":{"content":[{"type":"tool-call","id":"a"}]}}`
		callA = `tool/call {"callId":"a"}`
		callX = `tool/call {"callId":"x"}`
		gotA  = `tool/result {"message":{"source":{"callId":"a"}}}`
		gotX  = `tool/result {"message":{"source":{"callId":"x"}}}`
	)
	large := fmt.Sprintf(`assistant/message {"turn":1,"step":1,"message":{"content":[{"type":"tool-call","id":%q}]}}`, strings.Repeat("x", segment.MaxCallID+1))
	var blocks []string
	for i := range segment.MaxCalls + 1 {
		blocks = append(blocks, fmt.Sprintf(`{"type":"tool-call","id":"%d"}`, i))
	}
	many := `assistant/message {"turn":1,"step":1,"message":{"content":[` + strings.Join(blocks, ",") + `]}}`
	a, b := segment.Call{ID: "a", Step: 1}, segment.Call{ID: "b", Step: 1}
	for _, tc := range []struct {
		name   string
		events []string
		want   *segment.Turn
	}{
		{"nothing", []string{`note null`}, nil},
		{"outside a turn nothing counts", []string{step, asks, callA, gotA, end}, nil},
		{"a turn", []string{start}, &segment.Turn{Turn: 1}},
		{"a turn that ended", []string{start, step, asks, end}, nil},
		{"a step", []string{start, step}, &segment.Turn{Turn: 1, Step: ptr(int64(1))}},
		{"a step that ended, with its calls", []string{start, step, asks, done}, &segment.Turn{Turn: 1}},
		{"calls", []string{start, step, asks}, &segment.Turn{Turn: 1, Step: ptr(int64(1)), Calls: []segment.Call{a, b}}},
		{"a call that began", []string{start, step, asks, callA}, &segment.Turn{Turn: 1, Step: ptr(int64(1)), Calls: []segment.Call{{ID: "a", Step: 1, Seq: ptr(int64(3))}, b}}},
		{"a call that ended", []string{start, step, asks, callA, gotA}, &segment.Turn{Turn: 1, Step: ptr(int64(1)), Calls: []segment.Call{b}}},
		{"calls that nobody asked for", []string{start, step, callX, gotX}, &segment.Turn{Turn: 1, Step: ptr(int64(1))}},
		{"asked for again, it has not begun", []string{start, step, asks, callA, asksA}, &segment.Turn{Turn: 1, Step: ptr(int64(1)), Calls: []segment.Call{{ID: "a", Step: 2}, b}}},
		{"another turn forgets the one before", []string{start, step, asks, start}, &segment.Turn{Turn: 1}},
		{"an id too large", []string{start, large}, &segment.Turn{Turn: 1, More: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, folded(t, tc.events...).State().Turn); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	t.Run("too many calls", func(t *testing.T) {
		turn := folded(t, start, many).State().Turn
		if len(turn.Calls) != segment.MaxCalls || !turn.More || turn.Calls[segment.MaxCalls-1].ID != fmt.Sprint(segment.MaxCalls-1) {
			t.Errorf("%d calls, more: %v", len(turn.Calls), turn.More)
		}
	})
}

// folded folds events, each "type data", whose times fall.
func folded(t *testing.T, events ...string) *Fold {
	t.Helper()
	f, err := NewFold(segment.NewState(), RuleUserPrompt)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range events {
		typ, data, _ := strings.Cut(e, " ")
		line := fmt.Sprintf(`{"type":%q,"seq":%d,"time":%d,"data":%s}`, typ, i, 1000-i, data)
		ev, err := segment.ParseEvent([]byte(line), segment.Limits{MaxEvent: segment.MaxFrameRaw})
		if err != nil {
			t.Fatal(err)
		}
		f.Add(ev)
	}
	if f.Size() != int64(len(events)) {
		t.Errorf("%d events, not %d", f.Size(), len(events))
	}
	return f
}

// TestFoldTimes: times of the newest event, of the latest, of the newest prompt
// of a person and of the boundary.
func TestFoldTimes(t *testing.T) {
	s := folded(t, `note 1`, `user/message {"source":{"kind":"user"}}`, `user/message {"source":{"kind":"hook"}}`, `session/end-seed {}`, `note 2`).State()
	want := []*int64{ptr(int64(1000)), ptr(int64(996)), ptr(int64(999))}
	if diff := cmp.Diff(want, []*int64{s.MaxTime, s.LastTime, s.Activity}); diff != "" {
		t.Errorf("latest, newest, activity (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(&segment.Boundary{Seq: 3, Time: 997}, s.Boundary); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestNewFoldOfDamage: a tree whose range does not fit its size is damage, in
// whatever transition it is met.
func TestNewFoldOfDamage(t *testing.T) {
	damaged := treeOf(7)
	damaged.Range = damaged.Range[1:]
	base := openRecord()
	base.Content.Tree = damaged
	for name, begin := range map[string]func() error{
		"fold": func() error {
			_, err := NewFold(base.Content, RuleUserPrompt)
			return err
		},
		"takeover": func() error {
			_, err := TakeOver(base, Writer{ID: "w"}, KindAdopt, 1)
			return err
		},
		"append": func() error {
			_, err := Continue(base, Writer{ID: base.Owner.Writer}, 1)
			return err
		},
		"maintain": func() error {
			_, err := Maintain(base, Writer{ID: "w"}, 1)
			return err
		},
		"inherit": func() error {
			d, err := Create(nil, Writer{ID: "w"}, Birth{Log: "l", Origin: Origin{Kind: KindFork}}, 1)
			if err != nil {
				return err
			}
			d.Inherit(base.Content, nil)
			_, err = d.Finish()
			return err
		},
		"decide": func() error {
			in := Intent{Kind: IntentTakeover, UID: base.UID, Generation: 3, Base: base.Commit.ID}
			_, err := settle(in, base, Writer{ID: "w"}, 1)
			return err
		},
	} {
		if err := begin(); !errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
