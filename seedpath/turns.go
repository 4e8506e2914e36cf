package seedpath

import "github.com/s3log/s3log/segment"

// Turns follows the open turn event by event, with all of its calls, however
// many: what a manifest's summary has no room for. The zero value is ready.
type Turns struct {
	open *segment.Turn
	// place is where a call stands in open.Calls; answered calls leave a hole
	// there until the turn is asked for.
	place map[string]int
	gone  map[int]bool
}

// Add takes the next event.
func (t *Turns) Add(e segment.Event) {
	p := segment.Project(e)
	if p.Kind == segment.KindTurnStart {
		*t = Turns{open: &segment.Turn{Turn: p.Turn}, place: make(map[string]int), gone: make(map[int]bool)}
		return
	}
	if t.open == nil {
		return
	}
	switch p.Kind {
	case segment.KindTurnEnd:
		*t = Turns{}
	case segment.KindStepStart:
		step := p.Step
		t.open.Step = &step
	case segment.KindStepEnd:
		t.open.Step, t.open.Calls = nil, nil
		clear(t.place)
		clear(t.gone)
	case segment.KindAssistantMessage:
		for _, id := range p.Calls {
			t.request(id, p.Step)
		}
	case segment.KindToolCall:
		if i, ok := t.place[p.CallID]; ok {
			seq := e.Seq
			t.open.Calls[i].Seq = &seq
		}
	case segment.KindToolResult:
		if i, ok := t.place[p.CallID]; ok {
			delete(t.place, p.CallID)
			t.gone[i] = true
		}
	}
}

func (t *Turns) request(id string, step int64) {
	call := segment.Call{ID: id, Step: step}
	if i, ok := t.place[id]; ok {
		t.open.Calls[i] = call
		return
	}
	t.place[id] = len(t.open.Calls)
	t.open.Calls = append(t.open.Calls, call)
}

// Open is the open turn, nil if there is none.
func (t *Turns) Open() *segment.Turn {
	if t.open == nil {
		return nil
	}
	turn := *t.open
	turn.Calls = nil
	for i, c := range t.open.Calls {
		if !t.gone[i] {
			turn.Calls = append(turn.Calls, c)
		}
	}
	return &turn
}
