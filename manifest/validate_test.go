package manifest

import (
	"errors"
	"strings"
	"testing"

	"github.com/s3log/s3log/segment"
)

// Every rule of Validate, broken alone. want is a part of the message.
var brokenRules = []struct {
	name  string
	from  string // key of records
	wreck func(r *Record)
	large bool // a caller's part is too large: ErrTooLarge
	want  string
}{
	{"version", "open", func(r *Record) { r.Version = 2 }, false, "version 2"},
	{"no version", "open", func(r *Record) { r.Version = 0 }, false, "version 0"},
	{"state", "open", func(r *Record) { r.State = "frozen" }, false, "frozen"},
	{"no state", "void", func(r *Record) { r.State = "" }, false, "state"},

	{"empty id", "void", func(r *Record) { r.Log = "" }, false, "id is empty"},
	{"id not UTF-8", "void", func(r *Record) { r.Log = "a\xff" }, false, "UTF-8"},
	{"id too long", "open", func(r *Record) { r.Log = strings.Repeat("x", MaxID+1) }, true, "id of 1025 bytes"},
	{"no uid", "open", func(r *Record) { r.UID = "" }, false, "no uid"},
	{"no uid in a tombstone", "deleted", func(r *Record) { r.UID = "" }, false, "no uid"},
	{"uid too long", "open", func(r *Record) { r.UID = strings.Repeat("x", MaxToken+1) }, true, "uid"},
	{"revision", "open", func(r *Record) { r.Revision = 0 }, false, "revision 0"},
	{"revision beyond doubles", "open", func(r *Record) { r.Revision = segment.MaxSeq + 1 }, false, "revision"},
	{"epoch", "void", func(r *Record) { r.Epoch = 0 }, false, "epoch 0"},
	{"no commit id", "void", func(r *Record) { r.Commit.ID = "" }, false, "no id of the commit"},
	{"no commit writer", "void", func(r *Record) { r.Commit.Writer = "" }, false, "no writer of the commit"},
	{"commit writer too long", "open", func(r *Record) { r.Commit.Writer = strings.Repeat("\x01", 11) }, true, "writer of the commit of 66 bytes"},
	{"commit before 1970", "open", func(r *Record) { r.Commit.At = -1 }, false, "time -1"},
	{"software too long", "open", func(r *Record) { r.Commit.Software = strings.Repeat("x", MaxSoftware+1) }, true, "software"},
	{"software not UTF-8", "open", func(r *Record) { r.Commit.Software = "\xff" }, false, "UTF-8"},

	{"no owner", "open", func(r *Record) { r.Owner = nil }, false, "no owner"},
	{"no owner in a tombstone", "deleted", func(r *Record) { r.Owner = nil }, false, "no owner"},
	{"owner without a name", "open", func(r *Record) { r.Owner.Writer = "" }, false, "no owner"},
	{"label too long", "open", func(r *Record) { r.Owner.Label = strings.Repeat("x", MaxLabel+1) }, true, "label of 129 bytes"},
	{"label too long in JSON", "open", func(r *Record) { r.Owner.Label = strings.Repeat("\x01", 22) }, true, "label of 132 bytes"},
	{"label not UTF-8", "open", func(r *Record) { r.Owner.Label = "\xed\xa0\x80" }, false, "UTF-8"},
	{"owner of an older generation", "open", func(r *Record) { r.Owner.Generation = 1 }, false, "owner is"},
	{"owner is not who took over", "open", func(r *Record) { r.Owner.Writer = "w9" }, false, "owner is"},
	{"no generations", "open", func(r *Record) { r.Generations = nil }, false, "0 generations"},
	{"too many generations", "open", func(r *Record) {
		r.Generations = nil
		for g := range int64(MaxGenerations + 1) {
			r.Generations = append(r.Generations, Takeover{Generation: g + 1, Writer: "w", Kind: "adopt"})
		}
		r.Owner = &Owner{Writer: "w", Generation: MaxGenerations + 1}
	}, false, "65 generations"},
	{"generation 0", "fresh", func(r *Record) { r.Owner.Generation, r.Generations[0].Generation = 0, 0 }, false, "generation 0"},
	{"generations with a gap", "open", func(r *Record) { r.Owner.Generation, r.Generations[1].Generation = 3, 3 }, false, "generation 3 follows 1"},
	{"generation twice", "open", func(r *Record) { r.Owner.Generation, r.Generations[1].Generation = 1, 1 }, false, "generation 1 follows 1"},
	{"generation without a writer", "open", func(r *Record) { r.Generations[0].Writer = "" }, false, "no writer of a generation"},
	{"generation of no kind", "open", func(r *Record) { r.Generations[0].Kind = "" }, false, "kind"},
	{"kind is no name", "open", func(r *Record) { r.Generations[0].Kind = "Re sume" }, false, "kind"},
	{"kind too long", "open", func(r *Record) { r.Generations[0].Kind = strings.Repeat("x", MaxKind+1) }, false, "kind"},
	{"generation before 1970", "open", func(r *Record) { r.Generations[0].At = -1 }, false, "time -1"},
	{"generation begins before the one before", "open", func(r *Record) { r.Generations[0].First = 2011 }, false, "began at seq 2010"},
	{"generation begins before the log", "open", func(r *Record) { r.Generations[0].First = -1 }, false, "began at seq -1"},
	{"generation begins behind the end", "open", func(r *Record) { r.Generations[1].First = 2014 }, false, "began at seq 2014"},

	{"too many keys", "open", func(r *Record) { r.Keys = make([]KeyEntry, MaxKeys+1) }, false, "257 keys"},
	{"key too short", "open", func(r *Record) { r.Keys[0].Key = "00" }, false, "16 lower-case hex"},
	{"key in upper case", "open", func(r *Record) { r.Keys[0].Key = "00112233445566FF" }, false, "16 lower-case hex"},
	{"digest is no hex", "open", func(r *Record) { r.Keys[0].Digest = "zz112233445566ff" }, false, "16 lower-case hex"},
	{"key of no events", "open", func(r *Record) { r.Keys[0].Count = 0 }, false, "has 0 events"},
	{"key at a negative seq", "open", func(r *Record) { r.Keys[0].First = -1 }, false, "from seq -1"},
	{"key behind the end", "open", func(r *Record) { r.Keys[1].Count = 2 }, false, "has 2 events"},
	{"key overflows", "open", func(r *Record) { r.Keys[1].Count = 1<<63 - 1 }, false, "events from seq 2012"},
	{"keys overlap", "open", func(r *Record) { r.Keys[0].Count = 13 }, false, "with 2013 taken"},
	{"next", "void", func(r *Record) { r.State, r.UID, r.Next = StateDeleted, "u", -1 }, false, "next -1"},
	{"next beyond doubles", "deleted", func(r *Record) { r.Next = segment.MaxSeq + 1 }, false, "next"},

	{"header too large", "open", func(r *Record) { r.Header = []byte(`{"x":"` + strings.Repeat("h", MaxHeader-7) + `"}`) }, true, "header of 32769 bytes"},
	{"empty header", "open", func(r *Record) { r.Header = []byte{} }, false, "header"},
	{"header is null", "open", func(r *Record) { r.Header = []byte("null") }, false, "header is not"},
	{"header is a list", "open", func(r *Record) { r.Header = []byte("[{}]") }, false, "header is not"},
	{"header with white space around", "open", func(r *Record) { r.Header = []byte("{} ") }, false, "header is not"},
	{"header with a newline", "open", func(r *Record) { r.Header = []byte("{\n}") }, false, "newline"},
	{"two headers", "open", func(r *Record) { r.Header = []byte("{},{}") }, false, "not valid JSON"},
	{"header smuggles a member", "open", func(r *Record) { r.Header = []byte(`{},"header":{}`) }, false, "not valid JSON"},
	{"header not UTF-8", "open", func(r *Record) { r.Header = []byte("{\"a\":\"\xff\"}") }, false, "UTF-8"},
	{"header too deep where it is stored", "open", func(r *Record) {
		r.Header = []byte(`{"a":` + strings.Repeat("[", 9_999) + strings.Repeat("]", 9_999) + `}`)
	}, false, "too deep"},

	{"tree of another size", "open", func(r *Record) { r.Content.Tree = treeOf(2012) }, false, "tree"},
	{"state of another log", "open", func(r *Record) { r.Content.Boundary.Seq = 2013 }, false, "boundary"},
	{"counts do not sum up", "open", func(r *Record) { r.Content.Types.Entries[2].Count-- }, false, "types"},
	{"times before the first event", "fresh", func(r *Record) { r.Content.LastTime = ptr(int64(1)) }, false, "lastTime"},
	{"no rule", "open", func(r *Record) { r.ActivityRule = "" }, false, "no activity rule"},
	{"rule too long", "open", func(r *Record) { r.ActivityRule = strings.Repeat("r", MaxRule+1) }, true, "rule"},
	{"lease before 1970", "open", func(r *Record) { r.Lease.Until = -1 }, false, "lease"},
	{"lease beyond doubles", "open", func(r *Record) { r.Lease.Until = 1 << 53 }, false, "lease"},

	{"no origin", "open", func(r *Record) { r.Origin = nil }, false, "no origin"},
	{"no lifecycle", "open", func(r *Record) { r.Lifecycle = nil }, false, "no lifecycle"},
	{"origin of no kind", "open", func(r *Record) { r.Origin.Kind = "" }, false, "kind"},
	{"inherits more than there is", "open", func(r *Record) { r.Origin.Inherited = 2014 }, false, "2014 events inherited"},
	{"fresh, but inherits", "open", func(r *Record) { r.Origin.Kind, r.Origin.Parent = KindFresh, nil }, false, "inherits nothing"},
	{"fresh, but with a parent", "open", func(r *Record) { r.Origin.Kind, r.Origin.Inherited = KindFresh, 0 }, false, "no parent"},
	{"fork without a parent", "open", func(r *Record) { r.Origin.Parent = nil }, false, "without a parent"},
	{"fork inherits another count", "open", func(r *Record) { r.Origin.Inherited = 999 }, false, "inherited 999"},
	{"parent without an id", "open", func(r *Record) { r.Origin.Parent.Log = "" }, false, "id is empty"},
	{"parent without a uid", "open", func(r *Record) { r.Origin.Parent.UID = "" }, false, "no uid of the parent"},
	{"parent up to", "open", func(r *Record) { r.Origin.Kind, r.Origin.Parent.UpTo = "replay", -1 }, false, "up to -1"},
	{"lifecycle begins behind the end", "open", func(r *Record) { r.Lifecycle.First = 2014 }, false, "lifecycle"},
	{"lifecycle with negative closers", "open", func(r *Record) { r.Lifecycle.Closers = -1 }, false, "lifecycle"},

	{"too many segments", "open", func(r *Record) { r.Segments = make([]SegmentRef, MaxSegments+1) }, true, "513 segments"},
	{"first segment missing", "open", func(r *Record) { r.Segments = r.Segments[1:] }, false, "follows 0 sealed"},
	{"segments overlap", "open", func(r *Record) { r.Segments[1].Name.First = 1000 }, false, "follows 1001 sealed"},
	{"segments out of order", "open", func(r *Record) { r.Segments[0], r.Segments[1] = r.Segments[1], r.Segments[0] }, false, "follows 0"},
	{"segment of a later epoch", "open", func(r *Record) { r.Segments[1].Name.Epoch = 4 }, false, "another epoch than 1 … 3"},
	{"segment of epoch 0", "open", func(r *Record) { r.Segments[0].Name.Epoch = 0 }, false, "another epoch"},
	{"segment without events", "open", func(r *Record) { r.Segments[1].Count = 0 }, false, "has 0 events"},
	{"segment behind the end", "open", func(r *Record) { r.Segments[1].Count = 1013 }, false, "has 1013 events"},
	{"segment overflows", "open", func(r *Record) { r.Segments[1].Count = 1<<63 - 1 }, false, "events"},
	{"segment without bytes", "open", func(r *Record) { r.Segments[1].Bytes = 0 }, false, "has 0 bytes"},
	{"segment without lines", "open", func(r *Record) { r.Segments[1].Raw = 0 }, false, "bytes for 0"},
	{"segment larger than doubles count", "open", func(r *Record) { r.Segments[1].Raw = 1 << 53 }, false, "bytes for"},
	{"tail missing", "open", func(r *Record) { r.Tail = nil }, false, "a tail of 0 bytes, with 2000 of 2013"},
	{"tail of nothing", "open", func(r *Record) { r.Segments[1].Count = 1012 }, false, "with 2013 of 2013"},
	{"tail in a log without events", "fresh", func(r *Record) { r.Tail = []byte("x") }, false, "a tail of 1 bytes"},
	{"tail too large", "open", func(r *Record) { r.Tail = make([]byte, MaxTail/4*3+1) }, true, "tail of 131076 bytes"},
	{"too many retired", "open", func(r *Record) { r.Retired = make([]Retired, MaxRetired+1) }, false, "257 retired"},
	{"retired behind the end", "open", func(r *Record) { r.Retired[0].Name.First = 2013 }, false, "retired segment"},
	{"retired of a later epoch", "open", func(r *Record) { r.Retired[0].Name.Epoch = 4 }, false, "retired segment"},
	{"retired at no time", "open", func(r *Record) { r.Retired[0].At = -1 }, false, "time -1"},
	{"in use and retired", "open", func(r *Record) { r.Retired[0].Name = r.Segments[1].Name }, false, "in use and retired"},

	{"critical", "open", func(r *Record) { r.Critical = []string{"x-later"} }, false, "x-later"},
	{"too much unknown", "open", func(r *Record) { r.Unknown = []byte(`"x":"` + strings.Repeat("u", MaxUnknown-5) + `"`) }, true, "unknown members of 16385 bytes"},
	{"unknown is known", "void", func(r *Record) { r.Unknown = []byte(`"tail":""`) }, false, `"tail": does not belong here`},
	{"unknown is known, escaped", "open", func(r *Record) { r.Unknown = []byte(`"t\u0061il":""`) }, false, `"tail": does not belong here`},
	{"unknown is the sum", "open", func(r *Record) { r.Unknown = []byte(`"sum":"00000000"`) }, false, "unknown members"},
	{"unknown twice", "open", func(r *Record) { r.Unknown = []byte(`"x":1,"x":2`) }, false, "twice"},
	{"unknown twice, escaped", "open", func(r *Record) { r.Unknown = []byte(`"x":1,"\u0078":2`) }, false, "twice"},
	{"unknown name is no text", "open", func(r *Record) { r.Unknown = []byte(`"\ud800":1`) }, false, "surrogate"},
	{"unknown not UTF-8", "open", func(r *Record) { r.Unknown = []byte("\"x\":\"\xff\"") }, false, "UTF-8"},
	{"unknown with white space", "open", func(r *Record) { r.Unknown = []byte(`"x": 1`) }, false, "white space"},
	{"unknown ends the object", "open", func(r *Record) { r.Unknown = []byte(`"x":1},{"y":1`) }, false, "not valid JSON"},
	{"unknown is no member", "open", func(r *Record) { r.Unknown = []byte(`1`) }, false, "not valid JSON"},
	{"unknown with a comma too many", "open", func(r *Record) { r.Unknown = []byte(`"x":1,`) }, false, "not valid JSON"},
	{"unknown too deep", "open", func(r *Record) {
		r.Unknown = []byte(`"x":` + strings.Repeat("[", 8_000) + strings.Repeat("]", 8_000) + `,"y":[` + strings.Repeat("{", 20) + "]")
	}, false, "not valid JSON"},

	{"tombstone with a header", "deleted", func(r *Record) { r.Header = []byte("{}") }, false, "does not have"},
	{"tombstone with a rule", "deleted", func(r *Record) { r.ActivityRule = "x" }, false, "does not have"},
	{"tombstone with an origin", "deleted", func(r *Record) { r.Origin = &Origin{} }, false, "does not have"},
	{"tombstone with a lifecycle", "deleted", func(r *Record) { r.Lifecycle = &Lifecycle{} }, false, "does not have"},
	{"tombstone with segments", "deleted", func(r *Record) { r.Segments = make([]SegmentRef, 1) }, false, "does not have"},
	{"tombstone with retired", "deleted", func(r *Record) { r.Retired = make([]Retired, 1) }, false, "does not have"},
	{"tombstone with a tail", "deleted", func(r *Record) { r.Tail = []byte("x") }, false, "does not have"},
	{"tombstone with a lease", "deleted", func(r *Record) { r.Lease = &Lease{} }, false, "does not have"},
	{"tombstone with types", "deleted", func(r *Record) { r.Content.Types = openRecord().Content.Types }, false, "does not have"},
	{"tombstone with an overflow", "deleted", func(r *Record) { r.Content.Types.Overflow = &segment.TypeCount{} }, false, "does not have"},
	{"tombstone with times", "deleted", func(r *Record) { r.Content.LastTime = ptr(int64(1)) }, false, "does not have"},
	{"tombstone with a turn", "deleted", func(r *Record) { r.Content.Turn = &segment.Turn{} }, false, "does not have"},
	{"tombstone with a boundary", "deleted", func(r *Record) { r.Content.Boundary = &segment.Boundary{} }, false, "does not have"},
	{"tombstone with a tree", "deleted", func(r *Record) { r.Content.Tree = treeOf(2013) }, false, "does not have"},
	{"void with a uid", "void", func(r *Record) { r.UID = "u" }, false, "does not have"},
	{"void with an owner", "void", func(r *Record) { r.Owner = &Owner{} }, false, "does not have"},
	{"void with generations", "void", func(r *Record) { r.Generations = make([]Takeover, 1) }, false, "does not have"},
	{"void with keys", "void", func(r *Record) { r.Keys = make([]KeyEntry, 1) }, false, "does not have"},
	{"void with events", "void", func(r *Record) { r.Next = 1 }, false, "does not have"},
}

func TestValidate(t *testing.T) {
	for name, make := range records {
		if err := make().Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := limitRecord().Validate(); err != nil {
		t.Errorf("at every limit: %v", err)
	}
	for _, tt := range brokenRules {
		t.Run(tt.name, func(t *testing.T) {
			r := records[tt.from]()
			tt.wreck(r)
			err := r.Validate()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("Validate: %v; want an error with %q", err, tt.want)
			}
			if strings.ContainsRune(err.Error(), '\n') {
				t.Errorf("Validate: message of several lines: %q", err)
			}
			if errors.Is(err, segment.ErrTooLarge) != tt.large {
				t.Errorf("Validate: %v; too large: want %v", err, tt.large)
			}
			if _, err := r.Encode(); errors.Is(err, segment.ErrTooLarge) != tt.large || err == nil || errors.Is(err, segment.ErrCorrupt) {
				t.Errorf("Encode: %v; too large: want %v", err, tt.large)
			}
		})
	}
}

// TestValidateAfterDecode: what a writer refuses to write, a reader refuses to
// read, as damage (what needs a newer program excepted).
func TestValidateAfterDecode(t *testing.T) {
	// Broken in memory only: what appendSealed makes of them is a good record.
	memoryOnly := map[string]bool{
		"id not UTF-8": true, "software not UTF-8": true, "label not UTF-8": true, "header is null": true,
	}
	for _, tt := range brokenRules {
		t.Run(tt.name, func(t *testing.T) {
			r := records[tt.from]()
			tt.wreck(r)
			open := r.State == StateOpen
			if r.State != StateVoid && r.Owner == nil || open && (r.Origin == nil || r.Lifecycle == nil) {
				return // has no stored form; TestHostile tries null in their places
			}
			if memoryOnly[tt.name] || strings.HasPrefix(tt.want, "does not have") {
				return
			}
			_, err := Decode(r.appendSealed(nil))
			if errors.Is(err, segment.ErrTooLarge) {
				t.Errorf("Decode: %v; a reader cannot do anything about a size", err)
			}
			newer := tt.name == "critical" || tt.name == "version"
			if errors.Is(err, segment.ErrCorrupt) == newer || errors.Is(err, segment.ErrUnsupportedVersion) != newer {
				t.Errorf("Decode: %v; newer version: want %v, else ErrCorrupt", err, newer)
			}
		})
	}
}

func TestLimitsAreReached(t *testing.T) {
	// One more of anything is refused, so limitRecord is what it says.
	for _, tt := range []struct {
		name string
		grow func(r *Record)
	}{
		{"log", func(r *Record) { r.Log += "x" }},
		{"header", func(r *Record) { r.Header = append(r.Header[:len(r.Header)-2], `x"}`...) }},
		{"label", func(r *Record) { r.Owner.Label += "x" }},
		{"software", func(r *Record) { r.Commit.Software += "x" }},
		{"rule", func(r *Record) { r.ActivityRule += "x" }},
		{"unknown", func(r *Record) { r.Unknown = append(r.Unknown[:len(r.Unknown)-1], `x"`...) }},
		{"tail", func(r *Record) { r.Tail = append(r.Tail, 0) }},
		{"segments", func(r *Record) {
			last := &r.Segments[MaxSegments-1]
			last.Count--
			r.Segments = append(r.Segments, SegmentRef{Name: Name{First: last.Name.First + last.Count, Epoch: 1}, Count: 1, Bytes: 1, Raw: 1})
		}},
		{"types", func(r *Record) { r.Content.Types.Entries[0].Type += "x" }},
		{"retired", func(r *Record) { r.Retired = append(r.Retired, r.Retired[0]) }},
		{"keys", func(r *Record) { r.Keys = append(r.Keys, r.Keys[MaxKeys-1]) }},
		{"calls", func(r *Record) { r.Content.Turn.Calls = append(r.Content.Turn.Calls, segment.Call{ID: "x"}) }},
		{"call id", func(r *Record) { r.Content.Turn.Calls[0].ID += "x" }},
	} {
		r := limitRecord()
		tt.grow(r)
		if err := r.Validate(); err == nil {
			t.Errorf("%s: one more is accepted", tt.name)
		}
	}
}
