package backend_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// sealedLog is a log of ten events in one segment: the store, the segment's key,
// and the lines.
func sealedLog(t testing.TB) (mem *memstore.Store, key string, lines []string) {
	mem = memstore.New(nil)
	b := backend.New(mem, backend.Options{})
	l := create(t, b, "log")
	for i := range 10 {
		appendOne(t, l, event(i))
	}
	if err := l.Close(t.Context(), backend.CloseOptions{Seal: true}); err != nil {
		t.Fatal(err)
	}
	return mem, segmentOf(mem.Snapshot("")), read(t, b.Reader, "log", 0)
}

// forge puts an object in a segment's place and makes the manifest vouch for it:
// a bad producer, not damage.
func forge(t testing.TB, mem *memstore.Store, key string, object []byte) {
	t.Helper()
	old, body := mem.Snapshot(key)[key], mem.Snapshot(manifest.Key("log"))[manifest.Key("log")]
	sum := func(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }
	body = reseal(t, body, fmt.Sprintf(",10,%d,", len(old)), fmt.Sprintf(",10,%d,", len(object)))
	mem.Replace(manifest.Key("log"), reseal(t, body, sum(old), sum(object)))
	mem.Replace(key, object)
}

// frames cuts a segment into its frames and what follows them.
func framesOf(t testing.TB, object []byte) (frames [][]byte, rest []byte) {
	t.Helper()
	r, err := segment.OpenBytes(segment.NewCodec(), object)
	if err != nil {
		t.Fatal(err)
	}
	end := int64(0)
	for _, f := range r.Index().Frames {
		frames = append(frames, object[f.Offset:f.Offset+f.Length])
		end = f.Offset + f.Length
	}
	return frames, object[end:]
}

// In each of these cases the segment is named, with its seq, no event of it is
// handed out, and no reader writes anything, whether the manifest's hash tells
// (damage) or agrees with the object (a bad producer).
func TestBFramesOfASegment(t *testing.T) {
	mem, key, _ := sealedLog(t)
	good := mem.Snapshot(key)[key]
	frames, rest := framesOf(t, good)
	first := frames[0]
	unhex := func(s string) []byte { b, _ := hex.DecodeString(s); return b }
	bomb := unhex("28b52ffd0098010000") // nine bytes that ask for a window of 512 MiB
	unchecked := unhex("28b52ffd0000a900007b22736571223a302c2274797065223a2261227d0a")
	cases := map[string][]byte{
		"B01 cut at a frame's end":      first,
		"B01 without its index":         good[:len(good)-len(rest)],
		"B02 torn by a byte":            good[:len(good)-1],
		"B02 torn in the index":         good[:len(good)-len(rest)/2],
		"B02 torn in the checksum":      slices.Concat(first[:len(first)-2], rest),
		"B02 torn in the frame":         slices.Concat(first[:17], rest),
		"B03 one zero":                  append(slices.Clone(good), 0),
		"B03 three zeroes":              append(slices.Clone(good), 0, 0, 0),
		"B03 four zeroes":               append(slices.Clone(good), 0, 0, 0, 0),
		"B03 garbage":                   append(slices.Clone(good), "garbage"...),
		"B03 zeroes before the index":   slices.Concat(first, []byte{0, 0, 0, 0}, rest),
		"B04 its frame twice":           slices.Concat(first, first, rest),
		"B05 a bomb":                    slices.Concat(bomb, rest),
		"B05 a bomb alone":              bomb,
		"B05 an index of four GiB":      slices.Concat(first, []byte("\x5d\x2a\x4d\x18\xff\xff\xff\xff{}\xff\xff\xff\xff\x00\x00\x00\x00S3LOGSEG")),
		"B06 a frame without checksum":  slices.Concat(unchecked, rest),
		"B06 flipped, no checksum":      slices.Concat(unchecked[:10], []byte{unchecked[10] ^ 1}, unchecked[11:], rest),
		"nothing":                       {},
		"text":                          []byte(strings.Repeat("not zstd at all ", 20)),
		"a skippable frame in front":    slices.Concat([]byte("\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"), good),
		"its index twice":               slices.Concat(good, rest),
		"an index without frames":       rest,
		"a manifest":                    mem.Snapshot(manifest.Key("log"))[manifest.Key("log")],
		"the same with another trailer": append(slices.Clone(good[:len(good)-1]), 'X'),
	}
	for name, object := range cases {
		for _, vouched := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/vouched=%v", name, vouched), func(t *testing.T) {
				mem, key := restore(nil, mem.Snapshot("")), key
				if vouched && len(object) > 0 {
					forge(t, mem, key, object)
				} else {
					mem.Replace(key, object)
				}
				before := mem.Snapshot("")
				var ms runtime.MemStats
				runtime.ReadMemStats(&ms)
				allocated := ms.TotalAlloc
				got, err := readAll(t.Context(), backend.NewReader(mem, backend.Options{}), "log", 0)
				runtime.ReadMemStats(&ms)
				if !errors.Is(err, backend.ErrCorrupt) || len(got) != 0 {
					t.Fatalf("%d events, %v", len(got), err)
				}
				if n := ms.TotalAlloc - allocated; n > 16<<20 {
					t.Errorf("%d MiB allocated", n>>20)
				}
				if oe, _ := errors.AsType[*backend.OpError](err); oe == nil || oe.Key != key || oe.Seq != 0 {
					t.Errorf("%+v", err)
				}
				for k, body := range mem.Snapshot("") {
					if !bytes.Equal(body, before[k]) {
						t.Errorf("%s was changed", k)
					}
				}
			})
		}
	}
}

// The same in the tail of a manifest, whose own sum is right.
func TestBFramesOfATail(t *testing.T) {
	mem := memstore.New(nil)
	l := create(t, backend.New(mem, backend.Options{}), "log")
	appendOne(t, l, event(0))
	appendOne(t, l, event(1))
	closeLog(t, l)
	key := manifest.Key("log")
	body := mem.Snapshot(key)[key]
	head, err := manifest.Load(t.Context(), mem, "log", manifest.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	good := head.Record.Tail
	bomb, _ := hex.DecodeString("28b52ffd0098010000")
	one, err := segment.NewCodec().EncodeFrame(nil, []byte("{}\n"), segment.LevelFast)
	if err != nil {
		t.Fatal(err)
	}
	noLF := bytes.Replace(good, []byte("\n"), []byte(" "), -1)
	for name, tail := range map[string][]byte{
		"cut":            good[:len(good)-1],
		"half":           good[:len(good)/2],
		"a zero more":    append(slices.Clone(good), 0),
		"garbage":        append(slices.Clone(good), "garbage"...),
		"one event more": append(slices.Clone(good), one...),
		"too few":        one,
		"a bomb":         append(slices.Clone(good), bomb...),
		"changed":        noLF,
	} {
		if bytes.Equal(tail, good) {
			continue
		}
		mem.Replace(key, reseal(t, body, base64.StdEncoding.EncodeToString(good), base64.StdEncoding.EncodeToString(tail)))
		got, err := readAll(t.Context(), backend.NewReader(mem, backend.Options{}), "log", 0)
		oe, _ := errors.AsType[*backend.OpError](err)
		if !errors.Is(err, backend.ErrCorrupt) || len(got) != 0 || oe == nil || oe.Key != key || oe.Seq != 0 {
			t.Errorf("%s: %d events, %v", name, len(got), err)
		}
		// Nor does a writer build on it.
		l, err := backend.New(mem, backend.Options{}).Adopt(t.Context(), "log", backend.AdoptOptions{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := l.Append(t.Context(), [][]byte{event(2)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrCorrupt) {
			t.Errorf("%s: appended, %v", name, err)
		}
		_ = l.Close(t.Context(), backend.CloseOptions{})
	}
}

// After damage on the way the next healthy reply is taken, and nothing is
// repaired (B-06).
func TestB06HealthyAgain(t *testing.T) {
	mem, key, lines := sealedLog(t)
	good := mem.Snapshot(key)[key]
	bad := slices.Clone(good)
	bad[10] ^= 1
	r := backend.NewReader(mem, backend.Options{})
	mem.Replace(key, bad)
	if _, err := readAll(t.Context(), r, "log", 0); !errors.Is(err, backend.ErrCorrupt) {
		t.Error(err)
	}
	mem.Replace(key, good)
	if got, err := readAll(t.Context(), r, "log", 0); err != nil || !slices.Equal(got, lines) {
		t.Errorf("%d events, %v", len(got), err)
	}
}

// Lines of any length come back, through tails, segments and merges; one that is
// too long is refused when it is appended.
func TestB07LongLines(t *testing.T) {
	line := func(n int) []byte {
		const frame = `{"type":"note","seq":0000,"time":5,"data":""}`
		return fmt.Appendf(nil, `{"type":"note","time":5,"data":"%s"}`, strings.Repeat("x", n-len(frame)+len(`,"seq":0000`)-len(`,"seq":0`)))
	}
	sizes := []int{100, 65535, 65536, 65537, 1 << 20, 1<<20 + 1, 16 << 20}
	for _, foreground := range []bool{false, true} {
		mem := memstore.New(t)
		b := backend.New(mem, backend.Options{Foreground: foreground})
		l := create(t, b, "log")
		var want []string
		for i, n := range sizes {
			ev := line(n)
			if i == len(sizes)-1 {
				ev = fmt.Appendf(nil, `{"type":"note","seq":6,"time":5,"data":"%s"}`, strings.Repeat("x", n-len(`{"type":"note","seq":6,"time":5,"data":""}`)))
				if len(ev) != 16<<20 {
					t.Fatal(len(ev))
				}
				want = append(want, string(ev))
			} else {
				want = append(want, stored(i, ev))
			}
			appendOne(t, l, ev)
		}
		over := append(bytes.Repeat([]byte(" "), 10), fmt.Appendf(nil, `{"type":"note","seq":7,"time":5,"data":"%s"}`, strings.Repeat("x", 16<<20))...)
		if _, err := l.Append(t.Context(), [][]byte{over}, backend.AppendOptions{}); !errors.Is(err, backend.ErrTooLarge) {
			t.Error(err)
		}
		half := line(15 << 20)
		if _, err := l.Append(t.Context(), [][]byte{half, half, half}, backend.AppendOptions{}); !errors.Is(err, backend.ErrTooLarge) {
			t.Error(err)
		}
		if err := l.Close(t.Context(), backend.CloseOptions{Seal: true}); err != nil {
			t.Fatal(err)
		}
		for from := range want {
			if got := read(t, b.Reader, "log", int64(from)); !slices.Equal(got, want[from:]) {
				t.Errorf("foreground %v: events from %d are others", foreground, from)
			}
		}
	}
}

// What was appended is what is stored, byte for byte (B-10 to B-16), or it is
// refused.
func TestBBytesAreKept(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	event := func(data string) string { return `{"type":"note","time":5,"data":` + data + `}` }
	cases := []struct{ name, line string }{
		{"B10 U+FFFD itself", event(`"�"`)},
		{"B11 lone surrogate", event(`"\ud800"`)},
		{"B11 half a pair", event(`"x\ud83d y"`)},
		{"B11 the wrong way round", event(`"\ude00\ud83d"`)},
		{"B11 as a name", event(`{"\ud800":1}`)},
		{"B12 names of other case", event(`{"seq":1,"Seq":2,"SEQ":3}`)},
		{"B12 duplicate names", event(`{"a":1,"a":2}`)},
		{"B13 large integers", event(`{"id":9007199254740993,"n":100000000000000000000000,"f":1.0,"e":1E+2,"z":-0}`)},
		{"B14 deep", event(deep(9999))},
		{"B15 html", event(`"<&>\u003c&amp;\/"`)},
		{"B16 order of names", event(`{"b":1,"a":2}`)},
		{"white space inside", "{ \"type\" : \"note\" ,\t\"time\":5, \"data\" : [ 1 , 2 ]\r }"},
		{"escaped type", `{"\u0074ype":"\u006eote","time":5,"data":1}`},
		{"line separators", event("\"\u2028\u2029\u0085\"")},
		{"controls", event(`"\u0000\u001b[2J\u007f` + "\x7f" + `"`)},
		{"optional members", `{"type":"note","time":5,"data":1,"sourceEventSeqs":[0],"surfaceOp":{"x":1},"ignorable":true}`},
	}
	for _, sealed := range []bool{false, true} {
		b := backend.New(memstore.New(t), backend.Options{})
		l := create(t, b, "log")
		var want []string
		for i, tc := range cases {
			withSeq := strings.Replace(tc.line, `,"data"`, fmt.Sprintf(`,"seq":%d,"data"`, i), 1)
			if withSeq == tc.line {
				withSeq = strings.Replace(tc.line, `"data"`, fmt.Sprintf(`"seq":%d,"data"`, i), 1)
			}
			want = append(want, withSeq)
			if _, err := l.Append(t.Context(), [][]byte{[]byte(withSeq)}, backend.AppendOptions{}); err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
		}
		for name, bad := range map[string]string{
			"B08 byte order mark":   "\xef\xbb\xbf" + event("1"),
			"B09 NULs":              strings.Repeat("\x00", 300),
			"B10 invalid UTF-8":     event("\"a\xff\""),
			"B12 duplicate seq":     `{"type":"note","seq":16,"seq":16,"time":5,"data":1}`,
			"B12 seq in other case": `{"type":"note","Seq":16,"time":5,"data":1}`,
			"B14 too deep":          event(deep(10001)),
			"two events":            event("1") + event("1"),
			"a raw newline inside":  event("\"a\nb\""),
			"nothing":               "",
		} {
			if _, err := l.Append(t.Context(), [][]byte{[]byte(event("0")), []byte(bad)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrInvalidEvent) {
				t.Errorf("%s: %v", name, err)
			} else if ee, ok := errors.AsType[*segment.EventError](err); !ok || ee.Index != 1 || ee.Reason == "" {
				t.Errorf("%s: %+v", name, err)
			}
		}
		if err := l.Close(t.Context(), backend.CloseOptions{Seal: sealed}); err != nil {
			t.Fatal(err)
		}
		if got := read(t, b.Reader, "log", 0); !slices.Equal(got, want) {
			for i := range want {
				if i >= len(got) || got[i] != want[i] {
					t.Errorf("sealed %v, %s: not as it was appended", sealed, cases[i].name)
				}
			}
		}
	}
}

// A whole and valid segment of the right size, of other events: only the
// manifest's hash tells (B-06).
func TestB06OtherEventsOfTheSameSize(t *testing.T) {
	mem, key, lines := sealedLog(t)
	good := mem.Snapshot(key)[key]
	r, err := segment.OpenBytes(segment.NewCodec(), good)
	if err != nil {
		t.Fatal(err)
	}
	x := r.Index()
	for n := range 100 {
		changed, digit := n/10, n%10
		w := segment.NewWriter(segment.NewCodec(), segment.LevelBetter, segment.FrameRaw, 0)
		for i, line := range lines {
			if i == changed {
				line = strings.Replace(line, fmt.Sprint("number ", i), fmt.Sprint("number ", digit), 1)
			}
			if err := w.Add([]byte(line)); err != nil {
				t.Fatal(err)
			}
		}
		object, _, err := w.Finish(segment.Footer{Nonce: x.Nonce, State: x.State, UID: x.UID, Log: x.Log, Origin: x.Origin, Header: x.Header})
		if err != nil {
			t.Fatal(err)
		}
		if len(object) != len(good) || bytes.Equal(object, good) {
			continue
		}
		mem.Replace(key, object)
		if got, err := readAll(t.Context(), backend.NewReader(mem, backend.Options{}), "log", 0); !errors.Is(err, backend.ErrCorrupt) || len(got) != 0 {
			t.Errorf("%d events, %v", len(got), err)
		}
		return
	}
	t.Fatal("no such segment found")
}
