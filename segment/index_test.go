package segment

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// validIndex returns an index of two frames with every member set.
func validIndex() *Index {
	return &Index{
		Version: 1, First: 2, Count: 3, Nonce: testNonce,
		Frames: []Frame{{0, 40, 2, 2, 60}, {40, 30, 4, 1, 20}},
		State:  full(),
		UID:    "018f4e9a-0000-7000-8000-000000000000", Log: "a/b \"c\"",
		Origin: []byte(`{"kind":"fresh","inherited":0}`),
		Header: []byte("{\"type\":\"session\", \"<x>\":\"\\ud800\",\"n\":1.0,\"n\":2}"),
	}
}

// The bytes of an index, as they are on the store.
func TestIndexJSONGolden(t *testing.T) {
	const state = `"types":{"a":[3,0,4],"b":[2,1,3]},"lastTime":5,"maxTime":5,"activity":-5,"boundary":{"seq":4,"time":9},` +
		`"turn":{"turn":1,"step":1,"calls":[["x",1,3],["y",1,null]],"more":false},` +
		`"tree":{"size":5,"root":"b6748f6ed7a99de7da84fd97e1a3bac6fab8999f4a43695cab9528a2de431147",` +
		`"range":["9f4a3fc20d4162dc37d4e23d907848731a76043ffff6d69288bf1abfbcff478e","11e1f558223f4c71b6be1cecfd1f0de87146d2594877c27b29ec519f9040213c"]}`
	x := validIndex()
	want := `{"format":"s3log.segment","version":1,"first":2,"count":3,"nonce":"0123456789abcdef","frames":[[0,40,2,2,60],[40,30,4,1,20]],` +
		state +
		`,"uid":"018f4e9a-0000-7000-8000-000000000000","log":"a/b \"c\"","origin":{"kind":"fresh","inherited":0},` +
		`"header":{"type":"session", "<x>":"\ud800","n":1.0,"n":2}}`
	got := string(x.appendJSON(nil))
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	x.UID, x.Log, x.Origin, x.Header = "", "", nil, nil
	x.State = NewState()
	want = `{"format":"s3log.segment","version":1,"first":2,"count":3,"nonce":"0123456789abcdef","frames":[[0,40,2,2,60],[40,30,4,1,20]],` +
		`"types":{},"lastTime":null,"maxTime":null,"activity":null,"boundary":null,"turn":null,` +
		`"tree":{"size":0,"root":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","range":[]}}`
	if got := string(x.appendJSON(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestIndexRoundTrip(t *testing.T) {
	for _, change := range []func(*Index){
		func(x *Index) {},
		func(x *Index) { x.Header = nil },
		func(x *Index) { x.UID, x.Log, x.Origin, x.Header = "", "", nil, nil },
		func(x *Index) { x.State.Turn, x.State.Boundary, x.State.Activity = nil, nil, nil },
	} {
		want := validIndex()
		change(want)
		raw := want.appendJSON(nil)
		got, err := parseIndex(raw)
		if err != nil {
			t.Fatal(err)
		}
		clear(raw)
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
}

func TestIndexValidate(t *testing.T) {
	tests := []struct {
		name   string
		change func(x *Index)
		says   string
	}{
		{"version 0", func(x *Index) { x.Version = 0 }, "version 0"},
		{"first below 0", func(x *Index) { x.First = -1 }, "from seq -1"},
		{"no events", func(x *Index) { x.Count = 0 }, "0 events"},
		{"beyond the last seq", func(x *Index) { x.First, x.Count = MaxSeq, 2 }, "2 events"},
		{"nonce too short", func(x *Index) { x.Nonce = x.Nonce[1:] }, "nonce"},
		{"nonce in upper case", func(x *Index) { x.Nonce = strings.ToUpper(x.Nonce) }, "nonce"},
		{"no frames", func(x *Index) { x.Frames = nil }, "0 frames"},
		{"too many frames", func(x *Index) { x.Frames = make([]Frame, MaxFrames+1) }, "8193 frames"},
		{"a gap before the first", func(x *Index) { x.Frames[0].Offset = 1 }, "frame 0 is at byte 1"},
		{"a gap", func(x *Index) { x.Frames[1].Offset++ }, "frame 1 is at byte 41"},
		{"an overlap", func(x *Index) { x.Frames[1].Offset-- }, "frame 1 is at byte 39"},
		{"another first seq", func(x *Index) { x.Frames[0].First-- }, "frame 0 begins with seq 1"},
		{"a missing seq", func(x *Index) { x.Frames[1].First++ }, "frame 1 begins with seq 5"},
		{"a frame without events", func(x *Index) { x.Frames[0].Count = 0 }, "frame 0 has 0 events"},
		{"negative events", func(x *Index) { x.Frames[0].Count = -1 }, "frame 0 has -1 events"},
		{"too many events", func(x *Index) { x.Frames[1].Count = 2 }, "frame 1 has 2 events, 1 are left"},
		{"too few events", func(x *Index) { x.Count = 4 }, "3 of 4 events"},
		{"fewer bytes than events need", func(x *Index) { x.Frames[0].RawLength = 3 }, "3 raw bytes"},
		{"negative raw length", func(x *Index) { x.Frames[0].RawLength = -1 << 53 }, "raw bytes"},
		{"raw length without bound", func(x *Index) { x.Frames[0].RawLength = MaxFrameRaw + 1 }, "raw bytes"},
		{"a frame too short", func(x *Index) { x.Frames[0].Length = 3 }, "has 3 bytes"},
		{"a frame that grew", func(x *Index) { x.Frames[1].Length = 200 }, "has 200 bytes"},
		{"uid alone", func(x *Index) { x.Log, x.Origin, x.Header = "", nil, nil }, "log is missing"},
		{"header alone", func(x *Index) { x.UID, x.Log, x.Origin = "", "", nil }, "uid is missing"},
		{"no uid", func(x *Index) { x.UID = "" }, "uid"},
		{"uid too long", func(x *Index) { x.UID = strings.Repeat("x", maxUID+1) }, "uid"},
		{"log too long", func(x *Index) { x.Log = strings.Repeat("x", maxLogID+1) }, "log"},
		{"log not UTF-8", func(x *Index) { x.Log = "\xff" }, "log"},
		{"no origin", func(x *Index) { x.Origin = nil }, "origin"},
		{"origin not an object", func(x *Index) { x.Origin = []byte(`[]`) }, "origin"},
		{"origin too large", func(x *Index) { x.Origin = object(maxOrigin + 1) }, "origin"},
		{"header not JSON", func(x *Index) { x.Header = []byte(`{a}`) }, "header"},
		{"header two values", func(x *Index) { x.Header = []byte(`{},{}`) }, "header"},
		{"header with white space around", func(x *Index) { x.Header = []byte(`{} `) }, "header"},
		{"header not UTF-8", func(x *Index) { x.Header = []byte("{\"\xff\":1}") }, "header"},
		{"header too large", func(x *Index) { x.Header = object(maxHeader + 1) }, "header"},
		{"header too deep", func(x *Index) {
			x.Header = []byte(`{"a":` + strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1) + `}`)
		}, "header"},
		{"state of another place", func(x *Index) { x.State = NewState() }, "lastTime"},
	}
	for _, tt := range tests {
		x := validIndex()
		tt.change(x)
		err := x.Validate()
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v does not say %q", tt.name, err, tt.says)
		}
	}
	x := validIndex()
	x.Header, x.Origin = object(maxHeader), object(maxOrigin)
	if err := x.Validate(); err != nil {
		t.Errorf("at the bounds: %v", err)
	}
	x.Version = 2
	if err := x.Validate(); !errors.Is(err, ErrUnsupportedVersion) || errors.Is(err, ErrCorrupt) {
		t.Errorf("version 2: %v", err)
	}
}

// object returns a JSON object of n bytes.
func object(n int) []byte {
	return []byte(`{"":"` + strings.Repeat("x", n-len(`{"":""}`)) + `"}`)
}

func TestParseIndexStrict(t *testing.T) {
	valid := string(validIndex().appendJSON(nil))
	replace := func(old, with string) string {
		if !strings.Contains(valid, old) {
			t.Fatalf("%s is not in the index", old)
		}
		return strings.Replace(valid, old, with, 1)
	}
	tests := []struct {
		name, raw string
		says      string
	}{
		{"nothing", ``, "EOF"},
		{"null", `null`, "expected"},
		{"array", `[]`, "expected"},
		{"cut off", valid[:len(valid)-1], "EOF"},
		{"two values", valid + `{}`, "follows"},
		{"not UTF-8", replace(`<x>`, "\xff"), "UTF-8"},
		{"another format", replace(`"s3log.segment"`, `"s3log.manifest"`), "format"},
		{"no format", replace(`"format":"s3log.segment",`, ``), "format is missing"},
		{"no version", replace(`"version":1,`, ``), "version is missing"},
		{"version as text", replace(`"version":1`, `"version":"1"`), "version"},
		{"version 1.0", replace(`"version":1`, `"version":1.0`), "version"},
		{"version 0", replace(`"version":1`, `"version":0`), "version"},
		{"version -1", replace(`"version":1`, `"version":-1`), "version"},
		{"a member twice", replace(`"first":2,`, `"first":2,"f\u0069rst":2,`), "twice"},
		{"a member in another case", replace(`"first"`, `"First"`), "first is missing"},
		{"no first", replace(`"first":2,`, ``), "first is missing"},
		{"no types", replace(`"types":{"a":[3,0,4],"b":[2,1,3]},`, ``), "types is missing"},
		{"no boundary", replace(`"boundary":{"seq":4,"time":9},`, ``), "boundary is missing"},
		{"no activity", replace(`"activity":-5,`, ``), "activity is missing"},
		{"activity not an integer", replace(`"activity":-5`, `"activity":{}`), "activity"},
		{"frames of four", replace(`[40,30,4,1,20]`, `[40,30,4,1]`), "frames"},
		{"frames of six", replace(`[40,30,4,1,20]`, `[40,30,4,1,20,0]`), "frames"},
		{"frames null", replace(`[[0,40,2,2,60],[40,30,4,1,20]]`, `null`), "frames"},
		{"frames without end", replace(`[[0,40,2,2,60],[40,30,4,1,20]]`, `[`+strings.Repeat(`[0,0,0,0,0],`, MaxFrames)+`[0,0,0,0,0]]`), "more than 8192 frames"},
		{"header null", replace(`"header":{`, `"header":null,"x":{`), "header"},
		{"log null", replace(`"log":"a/b \"c\""`, `"log":null`), "log"},
		{"log with a lone surrogate", replace(`"log":"a/b \"c\""`, `"log":"\ud800"`), "log"},
		{"log empty", replace(`"log":"a/b \"c\""`, `"log":""`), "log"},
		{"nested member unknown", replace(`"boundary":{`, `"boundary":{"x":1,`), "unknown member"},
	}
	for _, tt := range tests {
		_, err := parseIndex([]byte(tt.raw))
		if !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrUnsupportedVersion) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v does not say %q", tt.name, err, tt.says)
		}
	}
	// What a later version may add is ignored; what others wrote is kept.
	x, err := parseIndex([]byte(replace(`"first":2,`, `"later":[{"a":1,"a":2}],"also":"\ud800", "first": 2 ,`)))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(validIndex(), x); d != "" {
		t.Error(d)
	}
	// A later version may change everything but format and version.
	for _, raw := range []string{
		replace(`"version":1`, `"version":2`),
		`{"version":9007199254740991,"format":"s3log.segment"}`,
		`{"format":"s3log.segment","frames":"elsewhere","version":2}`,
	} {
		if _, err := parseIndex([]byte(raw)); !errors.Is(err, ErrUnsupportedVersion) || errors.Is(err, ErrCorrupt) {
			t.Errorf("%.60s: %v", raw, err)
		}
	}
}

// reindexed replaces the index of a segment and makes its checksum right.
func reindexed(t testing.TB, segment []byte, change func(indexJSON string) string) []byte {
	t.Helper()
	r, err := OpenBytes(NewCodec(), segment)
	if err != nil {
		t.Fatal(err)
	}
	return appendSkippable(bytes.Clone(segment[:r.index.end()]), []byte(change(string(r.index.appendJSON(nil)))))
}

func TestHostileIndex(t *testing.T) {
	lines := sessionLines(40, 1)
	segment, x := makeSegment(t, lines, 0, 2<<10, LevelFast)
	if len(x.Frames) < 3 {
		t.Fatalf("only %d frames", len(x.Frames))
	}
	f := func(f Frame) string {
		return fmt.Sprintf("[%d,%d,%d,%d,%d]", f.Offset, f.Length, f.First, f.Count, f.RawLength)
	}
	f0, f1 := x.Frames[0], x.Frames[1]
	last := x.Frames[len(x.Frames)-1]
	with := func(old Frame, change func(*Frame)) func(string) string {
		next := old
		change(&next)
		return func(s string) string { return strings.Replace(s, f(old), f(next), 1) }
	}
	tests := []struct {
		name   string
		change func(string) string
		says   string
	}{
		{"last frame unnamed", func(s string) string {
			return strings.Replace(s, ","+f(last), "", 1)
		}, "of 40 events"},
		{"last frame too short", with(last, func(f *Frame) { f.Length-- }), "the frames end at"},
		{"last frame too long", with(last, func(f *Frame) { f.Length++ }), "the frames end at"},
		{"raw length too small", with(f1, func(f *Frame) { f.RawLength-- }), "frame 1 at byte"},
		{"raw length too large", with(f1, func(f *Frame) { f.RawLength = MaxFrameRaw }), "frame 1 at byte"},
		{"a boundary between frames moved", func(s string) string {
			s = with(f0, func(f *Frame) { f.Length++ })(s)
			return with(f1, func(f *Frame) { f.Offset++; f.Length-- })(s)
		}, "frame 0 at byte 0, seq 0 to"},
		{"an event moved to the next frame", func(s string) string {
			s = with(f0, func(f *Frame) { f.Count-- })(s)
			return with(f1, func(f *Frame) { f.First--; f.Count++ })(s)
		}, "events, the index says"},
	}
	for _, tt := range tests {
		hostile := reindexed(t, segment, tt.change)
		if bytes.Equal(hostile, segment) {
			t.Fatalf("%s: nothing has changed", tt.name)
		}
		var raw []byte
		var err error
		used := allocated(func() { raw, _, err = readAll(hostile) })
		if !errors.Is(err, ErrCorrupt) || raw != nil {
			t.Errorf("%s: %d bytes, error %v", tt.name, len(raw), err)
		} else if !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v does not say %q", tt.name, err, tt.says)
		}
		if used > 2<<20 {
			t.Errorf("%s: %d bytes were allocated", tt.name, used)
		}
	}
	newer := reindexed(t, segment, func(s string) string { return strings.Replace(s, `"version":1`, `"version":2`, 1) })
	if _, _, err := readAll(newer); !errors.Is(err, ErrUnsupportedVersion) || errors.Is(err, ErrCorrupt) {
		t.Errorf("version 2: %v", err)
	}
}

func TestHostileTrailer(t *testing.T) {
	segment, x := makeSegment(t, sessionLines(10, 1), 0, 2<<10, LevelFast)
	at := len(segment) - trailerSize
	u32 := func(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
	length := binary.LittleEndian.Uint32(segment[at:])
	tests := []struct {
		name   string
		object []byte
		says   string
	}{
		{"an index of 4 GiB", splice(segment, at, 4, u32(1<<32-1)), "at most"},
		{"an index longer than the object", splice(segment, at, 4, u32(uint32(len(segment)))), "at most"},
		{"an index as long as the object", splice(segment, at, 4, u32(uint32(len(segment)-skippableSize-trailerSize))), "checksum"},
		{"no index", splice(segment, at, 4, u32(0)), "checksum"},
		{"no index, right checksum", splice(segment, at, 8, make([]byte, 8)), "EOF"},
		{"another checksum", splice(segment, at+4, 4, u32(1)), "checksum"},
		{"another end", splice(segment, len(segment)-1, 1, []byte("g")), "cut off"},
		{"another skippable magic", splice(segment, int(x.end()), 1, []byte{0x5e}), "around the index"},
		{"another skippable size", splice(segment, int(x.end())+4, 4, u32(length)), "around the index"},
		{"too small", segment[len(segment)-trailerSize:], "the smallest"},
		{"nothing", nil, "the smallest"},
	}
	for _, tt := range tests {
		var err error
		used := allocated(func() { _, err = OpenBytes(NewCodec(), tt.object) })
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v does not say %q", tt.name, err, tt.says)
		}
		if used > 256<<10 {
			t.Errorf("%s: %d bytes were allocated", tt.name, used)
		}
	}
}

// An index at every bound at once still fits.
func TestMaxIndexHoldsEveryBound(t *testing.T) {
	x := validIndex()
	x.UID, x.Log = strings.Repeat("u", maxUID), strings.Repeat("\x01", maxLogID)
	x.Header, x.Origin = object(maxHeader), object(maxOrigin)
	x.Frames = make([]Frame, MaxFrames)
	for i := range x.Frames {
		x.Frames[i] = Frame{MaxSeq, MaxFrameRaw, MaxSeq, MaxFrameRaw, MaxFrameRaw}
	}
	x.State.Types = Types{Overflow: &TypeCount{"", MaxSeq, MaxSeq, MaxSeq}}
	for range MaxTypes {
		x.State.Types.Entries = append(x.State.Types.Entries, TypeCount{strings.Repeat("t", MaxTypeName), MaxSeq, MaxSeq, MaxSeq})
	}
	x.State.Turn = &Turn{Turn: -MaxSeq, Step: new(int64(-MaxSeq))}
	for range MaxCalls {
		x.State.Turn.Calls = append(x.State.Turn.Calls, Call{strings.Repeat("c", MaxCallID), -MaxSeq, new(int64(MaxSeq))})
	}
	x.State.Tree.Range = make([]Hash, maxRange)
	raw := x.appendJSON(nil)
	if !json.Valid(raw) || len(raw) > MaxIndex {
		t.Errorf("%d bytes, at most %d are allowed", len(raw), MaxIndex)
	}
	t.Logf("%d bytes", len(raw))
}
