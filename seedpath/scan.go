package seedpath

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// Scan finds unmatched opening markers by looking at the events: of brackets
// that are paired by an id inside them, and of positional ones as a second
// opinion. Events are added in order, those of other types may be left out.
type Scan struct {
	pair    Pair
	open    map[string]int64 // id → seq of the opening event; "" for a positional pair
	without int64            // opening events that have no id
	bound   *segment.Boundary
}

// NewScan begins a scan for one pair.
func NewScan(p Pair) *Scan { return &Scan{pair: p, open: make(map[string]int64)} }

// Add takes the next event. Of one that closes a marker, opened is the seq of that
// marker.
func (s *Scan) Add(e segment.Event) (opened int64, closes bool) {
	switch e.Type {
	case s.pair.Open:
		if id, ok := s.id(e); ok {
			s.open[id] = e.Seq
		} else {
			s.without++
		}
	case s.pair.Close:
		if id, ok := s.id(e); ok {
			opened, closes = s.open[id]
			delete(s.open, id)
		}
	}
	if e.Type == segment.TypeEndSeed {
		s.bound = &segment.Boundary{Seq: e.Seq, Time: e.Time}
	}
	return opened, closes
}

// id is what pairs an event. An event without it pairs with nothing and is
// passed over, as malformed data is everywhere.
func (s *Scan) id(e segment.Event) (string, bool) {
	paths := s.pair.ID
	if e.Type == s.pair.Close && s.pair.CloseID != "" {
		paths = s.pair.CloseID
	}
	if paths == "" {
		return "", true
	}
	var id []byte
	for path := range strings.SplitSeq(paths, "+") {
		value := jsontext.Value(e.Data)
		for name := range strings.SplitSeq(path, ".") {
			var ok bool
			if value, ok = member(value, name); !ok {
				return "", false
			}
		}
		id = append(appendID(id, value), '\n') // which no value holds
	}
	return string(id), true
}

// appendID spells a value so that equal strings are equal bytes, however they
// were escaped. Other values, and strings with lone surrogates, are compared as
// they are: numbers may be greater than any type holds exactly.
func appendID(dst []byte, value jsontext.Value) []byte {
	if value.Kind() == '"' {
		if text, err := jsontext.AppendUnquote(nil, value); err == nil {
			return segment.AppendString(dst, string(text))
		}
	}
	return append(dst, value...)
}

// member finds a member of an object, the last one of its name.
func member(object jsontext.Value, name string) (found jsontext.Value, ok bool) {
	dec := jsontext.NewDecoder(strings.NewReader(string(object)), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if dec.PeekKind() != '{' {
		return nil, false
	}
	_, _ = dec.ReadToken() // the brace just seen
	for dec.PeekKind() != '}' {
		key, err := dec.ReadToken()
		if err != nil {
			return nil, false
		}
		same := key.String() == name
		value, err := dec.ReadValue()
		if err != nil {
			return nil, false
		}
		if same {
			found, ok = value.Clone(), true
		}
	}
	return found, ok
}

// Unmatched are the seqs of the opening markers that nothing closed, in order.
func (s *Scan) Unmatched() []int64 {
	seqs := make([]int64, 0, len(s.open))
	for _, seq := range s.open {
		seqs = append(seqs, seq)
	}
	slices.Sort(seqs)
	return seqs
}

// WithoutID is how many opening events have no id. Nothing can close them, so
// the verdict does not speak of them.
func (s *Scan) WithoutID() int64 { return s.without }

// Bound is the newest boundary that the scan met.
func (s *Scan) Bound() *segment.Boundary { return s.bound }

// Verdict is the answer of the scan for the log as r has it. Where several
// markers are unmatched, one that is live decides, else the newest.
func (s *Scan) Verdict(r *manifest.Record) Verdict {
	seq := int64(-1)
	if open := s.Unmatched(); len(open) > 0 {
		seq = open[len(open)-1]
	}
	return JudgeAt(r, s.pair.Open, seq)
}
