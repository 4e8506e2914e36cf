package segment

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTypesCount(t *testing.T) {
	var types Types
	if err := types.Reserve([]string{"late", "late", "never"}); err != nil {
		t.Fatal(err)
	}
	for seq, typ := range []string{"a", "b", "a", "late", "a"} {
		types.Add(typ, int64(seq))
	}
	want := Types{Entries: []TypeCount{{"late", 1, 3, 3}, {"never", 0, 0, 0}, {"a", 3, 0, 4}, {"b", 1, 1, 1}}}
	if d := cmp.Diff(want, types); d != "" {
		t.Error(d)
	}
	if c, exact := types.Get("a"); !exact || c != (TypeCount{"a", 3, 0, 4}) {
		t.Errorf("a: %v %v", c, exact)
	}
	if c, exact := types.Get("unseen"); !exact || c != (TypeCount{Type: "unseen"}) {
		t.Errorf("unseen: %v %v", c, exact)
	}
}

func TestTypesOverflow(t *testing.T) {
	var types Types
	for seq := range int64(MaxTypes) {
		types.Add(fmt.Sprint("t", seq), seq)
	}
	if _, exact := types.Get("x"); !exact {
		t.Error("a type that never appeared is in doubt without an overflow")
	}
	types.Add("x", MaxTypes)
	types.Add("t0", MaxTypes+1)
	types.Add("y", MaxTypes+2)
	if len(types.Entries) != MaxTypes || *types.Overflow != (TypeCount{"", 2, MaxTypes, MaxTypes + 2}) {
		t.Errorf("%d entries, overflow %v", len(types.Entries), types.Overflow)
	}
	if c, exact := types.Get("x"); exact || c.Count != 0 {
		t.Errorf("x: %v, exact %v", c, exact)
	}
	if c, exact := types.Get("t0"); !exact || c != (TypeCount{"t0", 2, 0, MaxTypes + 1}) {
		t.Errorf("t0: %v, exact %v", c, exact)
	}
	if err := types.Reserve([]string{"t0", "t255"}); err != nil {
		t.Errorf("types that are there: %v", err)
	}
	if err := types.Reserve([]string{"z"}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one type too many: %v", err)
	}
}

func TestReserveRefuses(t *testing.T) {
	for _, bad := range []string{"", "\xff", strings.Repeat("x", MaxTypeName+1), strings.Repeat("\"", MaxTypeName/2+1)} {
		var types Types
		if err := types.Reserve([]string{"fine", bad}); !errors.Is(err, ErrInvalidEvent) {
			t.Errorf("%.20q: %v", bad, err)
		}
		if len(types.Entries) != 0 {
			t.Errorf("%.20q: the types before it were reserved", bad)
		}
	}
}

func TestCallIDFits(t *testing.T) {
	for id, want := range map[string]bool{
		"":                                  true,
		strings.Repeat("x", MaxCallID):      true,
		strings.Repeat("x", MaxCallID+1):    false,
		strings.Repeat("\"", MaxCallID/2):   true,
		strings.Repeat("\"", MaxCallID/2+1): false,
		strings.Repeat("\x01", 42):          true,
		strings.Repeat("\x01", 43):          false,
	} {
		if got := CallIDFits(id); got != want {
			t.Errorf("%d bytes of %.1q: %v", len(id), id, got)
		}
	}
}

func TestTreeRoot(t *testing.T) {
	// RFC 6962 over "a", "b", "c", spelled out.
	leaf := func(s string) Hash { return sha256.Sum256([]byte("\x00" + s)) }
	node := func(l, r Hash) Hash { return sha256.Sum256(append(append([]byte{1}, l[:]...), r[:]...)) }
	ab := node(leaf("a"), leaf("b"))
	tests := []struct {
		compact []Hash
		want    Hash
	}{
		{nil, sha256.Sum256(nil)},
		{[]Hash{leaf("a")}, leaf("a")},
		{[]Hash{ab}, ab},
		{[]Hash{ab, leaf("c")}, node(ab, leaf("c"))},
		{[]Hash{leaf("x"), ab, leaf("c")}, node(leaf("x"), node(ab, leaf("c")))},
	}
	for i, tt := range tests {
		if got := TreeRoot(tt.compact); got != tt.want {
			t.Errorf("case %d: %v, want %v", i, got, tt.want)
		}
	}
}

// full returns a valid state of 5 events with every part set.
func full() State {
	s := stateAfter([][]byte{[]byte("0"), []byte("1"), []byte("2"), []byte("3"), []byte("4")})
	s.Activity = new(int64(-5))
	s.Boundary = &Boundary{Seq: 4, Time: 9}
	s.Turn = &Turn{Turn: 1, Step: new(int64(1)), Calls: []Call{{"x", 1, new(int64(3))}, {"y", 1, nil}}}
	return s
}

func TestStateValidate(t *testing.T) {
	s := full()
	if err := s.Validate(5); err != nil {
		t.Fatal(err)
	}
	empty := NewState()
	if err := empty.Validate(0); err != nil {
		t.Fatal(err)
	}
	empty.Activity = new(int64(1)) // a header may have a time before there is an event
	if err := empty.Validate(0); err != nil {
		t.Fatal(err)
	}
	if err := new(State).Validate(0); err == nil {
		t.Error("the root of the zero State was taken for that of the empty tree")
	}
	tests := []struct {
		name   string
		change func(s *State)
		says   string
	}{
		{"last time missing", func(s *State) { s.LastTime = nil }, "lastTime"},
		{"max time missing", func(s *State) { s.MaxTime = nil }, "maxTime"},
		{"last above max", func(s *State) { s.MaxTime = new(int64(4)) }, "maxTime"},
		{"time out of range", func(s *State) { s.Activity = new(int64(1 << 53)) }, "time 9007199254740992"},
		{"too many types", func(s *State) { s.Types.Entries = make([]TypeCount, MaxTypes+1) }, "257 entries"},
		{"type without a name", func(s *State) { s.Types.Entries[0].Type = "" }, "empty"},
		{"type not UTF-8", func(s *State) { s.Types.Entries[0].Type = "\xff" }, "UTF-8"},
		{"type too long", func(s *State) { s.Types.Entries[0].Type = strings.Repeat("x", 129) }, "128"},
		{"type twice", func(s *State) { s.Types.Entries[1].Type = "a" }, "twice"},
		{"count too high", func(s *State) { s.Types.Entries[0].Count++ }, "sum"},
		{"more than fit", func(s *State) { s.Types.Entries[0].Count = 6 }, "6 events"},
		{"negative count", func(s *State) { s.Types.Entries[0].Count = -1 }, "-1 events"},
		{"count 0 with a place", func(s *State) { s.Types.Entries[0].Count = 0 }, "0 events"},
		{"last beyond the end", func(s *State) { s.Types.Entries[0].Last = 5 }, "to 5"},
		{"first below 0", func(s *State) { s.Types.Entries[0].First = -1 }, "from seq -1"},
		{"one event, two places", func(s *State) { s.Types.Entries = append(s.Types.Entries, TypeCount{"c", 1, 2, 3}) }, "1 events"},
		{"named overflow", func(s *State) { s.Types.Overflow = &TypeCount{"x", 1, 1, 1} }, "overflow"},
		{"empty overflow", func(s *State) { s.Types.Overflow = new(TypeCount) }, "overflow"},
		{"overflow counts", func(s *State) { s.Types.Overflow = &TypeCount{"", 1, 1, 1} }, "sum"},
		{"overflow beyond the end", func(s *State) { s.Types.Overflow = &TypeCount{"", 1, 9, 9} }, "to 9"},
		{"nobody last", func(s *State) { s.Types.Entries[0] = TypeCount{"a", 3, 0, 3} }, "the last"},
		{"nobody first", func(s *State) { s.Types.Entries[0] = TypeCount{"a", 3, 1, 4} }, "the first"},
		{"boundary beyond the end", func(s *State) { s.Boundary.Seq = 5 }, "boundary"},
		{"boundary below 0", func(s *State) { s.Boundary.Seq = -1 }, "boundary"},
		{"boundary time", func(s *State) { s.Boundary.Time = -1 << 53 }, "boundary"},
		{"turn", func(s *State) { s.Turn.Turn = 1 << 53 }, "turn"},
		{"step", func(s *State) { s.Turn.Step = new(int64(1 << 53)) }, "turn"},
		{"too many calls", func(s *State) { s.Turn.Calls = make([]Call, MaxCalls+1) }, "257 calls"},
		{"call id too long", func(s *State) { s.Turn.Calls[0].ID = strings.Repeat("x", 257) }, "call 0"},
		{"call id not UTF-8", func(s *State) { s.Turn.Calls[0].ID = "\xff" }, "call 0"},
		{"call step", func(s *State) { s.Turn.Calls[1].Step = 1 << 53 }, "call 1"},
		{"call beyond the end", func(s *State) { s.Turn.Calls[0].Seq = new(int64(5)) }, "call 0"},
		{"tree of another size", func(s *State) { s.Tree.Size = 4 }, "size 4"},
		{"range of another size", func(s *State) { s.Tree.Range = s.Tree.Range[:1] }, "1 hashes"},
		{"root of another tree", func(s *State) { s.Tree.Root[0] ^= 1 }, "its range makes"},
		{"range of another tree", func(s *State) { s.Tree.Range[1][31] ^= 1 }, "its range makes"},
	}
	for _, tt := range tests {
		s := full()
		tt.change(&s)
		if err := s.Validate(5); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v does not say %q", tt.name, err, tt.says)
		}
	}
	for _, next := range []int64{-1, 0, 4, 6, 1<<53 + 1} {
		s := full()
		if err := s.Validate(next); !errors.Is(err, ErrCorrupt) {
			t.Errorf("next %d: %v", next, err)
		}
	}
	turn := NewState()
	turn.Turn = &Turn{}
	if err := turn.Validate(0); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a turn without events: %v", err)
	}
}

func TestCloneSharesNothing(t *testing.T) {
	s := full()
	s.Types.Overflow = &TypeCount{"", 1, 1, 1}
	before := s.Clone()
	if d := cmp.Diff(s, before); d != "" {
		t.Fatal(d)
	}
	s.Types.Add("a", 7)
	s.Types.Overflow.Count++
	*s.LastTime, *s.MaxTime, *s.Activity = 0, 0, 0
	s.Boundary.Seq = 0
	s.Turn.More = true
	*s.Turn.Step = 0
	*s.Turn.Calls[0].Seq = 0
	s.Turn.Calls[1].ID = ""
	s.Tree.Range[0] = Hash{}
	want := full()
	want.Types.Overflow = &TypeCount{"", 1, 1, 1}
	if d := cmp.Diff(want, before); d != "" {
		t.Error(d)
	}
}
