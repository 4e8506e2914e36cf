package backend_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// Wherever a manifest is cut off or a bit of it flips, a rebuild makes nothing up,
// loses no sealed event, and takes what is intact of the tail.
func TestRebuildSalvagesTheTail(t *testing.T) {
	three, _ := threeSegments(t)
	small := memstore.New(t)
	l := create(t, backend.New(small, backend.Options{}), "log")
	for i := range 30 {
		appendAll(t, l, event(i), event(i))
	}
	closeLog(t, l)
	forked := memstore.New(t)
	fb := backend.New(forked, backend.Options{})
	segmented(t, forked, "parent", 1, 300)
	child, _, err := fb.Fork(t.Context(), "parent", "log", backend.ForkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	appendAll(t, child, event(7))
	closeLog(t, child)

	for name, mem := range map[string]*memstore.Store{"segments": three, "none": small, "forked": forked} {
		t.Run(name, func(t *testing.T) {
			key := manifest.Key("log")
			body := mem.Snapshot("")[key]
			was := record(t, mem, "log")
			sealed := int(was.TailFirst())
			all := read(t, backend.NewReader(mem, backend.Options{}), "log", 0)
			tailAt := bytes.Index(body, []byte(`"tail":"`))
			tailEnd := tailAt + bytes.IndexByte(body[tailAt+8:], '"') + 9
			stride := 7
			switch {
			case os.Getenv("S3LOG_LONG") != "":
				stride = 1
			case raceDetector:
				stride = 37
			}
			whole, parts, nothing, left := 0, 0, 0, 0
			try := func(what string, damaged []byte, full bool) {
				mem := copied(t, mem)
				mem.Replace(key, damaged)
				b := backend.New(mem, backend.Options{})
				rep, err := b.Rebuild(t.Context(), "log", backend.RebuildOptions{})
				for _, line := range rep.LeftOut {
					if !slices.Contains(all[rep.Next:], string(line)) {
						t.Fatalf("%s: left out %s", what, line)
					}
				}
				if len(rep.LeftOut) > 0 {
					left++
				}
				if errors.Is(err, backend.ErrCorrupt) && !errors.Is(err, backend.ErrNotFound) && sealed == 0 && !full {
					nothing++
					return
				}
				if err != nil || !rep.Done || rep.Salvaged != rep.Next-int64(sealed) {
					t.Fatalf("%s: %+v, %v", what, rep, err)
				}
				got := read(t, backend.NewReader(mem, backend.Options{}), "log", 0)
				if len(got) < sealed || len(got) > len(all) || !slices.Equal(got, all[:len(got)]) || full && len(got) < len(all) {
					t.Fatalf("%s: %d events of %d come back: %+v", what, len(got), len(all), rep)
				}
				if rep.Salvaged > 0 != (rep.Unconfirmed < 0) {
					t.Errorf("%s: %+v", what, rep)
				}
				switch {
				case len(got) == len(all):
					whole++
				case rep.Salvaged > 0:
					parts++
				}
				if rep.Next%5 == 0 {
					verifyClean(t, b.Reader, "log")
				}
			}
			for n := 0; n < len(body)-1; n += stride {
				try(fmt.Sprint("cut at ", n), body[:n], n >= tailEnd)
			}
			for n := 0; n < len(body); n += stride {
				flipped := bytes.Clone(body)
				flipped[n] ^= 1 << (n % 7)
				// What is told twice can be lost once; where there are no segments, the
				// beginning of the manifest is needed.
				try(fmt.Sprint("flipped at ", n), flipped, n > tailEnd || sealed > 0 && n < tailAt)
			}
			t.Logf("%d bytes, of them the tail %d: all events %d times, some of the tail %d times, nothing left %d times; intact and left out %d times", len(body), tailEnd-tailAt, whole, parts, nothing, left)
			if whole == 0 || sealed == 0 && (parts == 0 || nothing == 0 || left == 0) {
				t.Error("not everything was tried")
			}
		})
	}
}

// Somebody has looked at a manifest and saved it again with white space: nothing of
// it is lost.
func TestRebuildOfAManifestSavedAgain(t *testing.T) {
	for _, header := range []string{"", `{"type":"session","version":0,"id":"x","createdAt":1790000000000,"delegationDepth":0}`} {
		mem := memstore.New(t)
		b := backend.New(mem, backend.Options{})
		l, err := b.Create("log", backend.CreateOptions{Header: []byte(header)})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			appendOne(t, l, event(i))
		}
		closeLog(t, l)
		was := read(t, b.Reader, "log", 0)
		var again jsontext.Value = mem.Snapshot("")[manifest.Key("log")]
		if err := again.Indent(); err != nil {
			t.Fatal(err)
		}
		mem.Replace(manifest.Key("log"), again)
		if rep, err := b.Rebuild(t.Context(), "log", backend.RebuildOptions{}); err != nil || !rep.Done || rep.Salvaged != 5 {
			t.Errorf("%+v, %v", rep, err)
		}
		if now := read(t, b.Reader, "log", 0); !slices.Equal(now, was) {
			t.Errorf("%q, not %q", now, was)
		}
	}
}

// A tail that does not follow the segments, by seq or by what it holds, is left
// out, and said to be lost.
func TestRebuildTakesNoOtherTail(t *testing.T) {
	for name, tc := range map[string]struct {
		tail string // the events of the damaged manifest's log
		seal int    // of which so many are sealed
		says string
	}{
		"other events":   {"abXYZ", 0, "other events"},
		"behind a gap":   {"abcdefg", 6, "missing or damaged before them"},
		"another branch": {"abXYZ", 4, "nothing tells that they follow"},
	} {
		t.Run(name, func(t *testing.T) {
			// The segments of one history, and a manifest of another one.
			mem, other := memstore.New(t), memstore.New(t)
			h := &history{t, mem, "01a22c90-3d4e-7d43-b001-70ae16901a15"}
			h.put(1, 0, letters("ab")...)
			h.put(1, 2, letters("abcd")...)
			if tc.seal == 6 {
				h.mem.Drop(keys(mem, "segments/")[1])
			}
			b := backend.New(other, backend.Options{})
			l := create(t, b, "log")
			for i, tag := range letters(tc.tail) {
				if i > 0 && i == tc.seal {
					closeLog(t, l)
					fold(t, other, "log")
					var err error
					if l, err = b.Adopt(t.Context(), "log", backend.AdoptOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				appendAll(t, l, (&history{}).line(i, tag))
			}
			closeLog(t, l)
			body := bytes.Replace(other.Snapshot("")[manifest.Key("log")], []byte(`"format"`), []byte(`"farmot"`), 1)
			mem.Replace(manifest.Key("log"), body)
			rep := rebuilt(t, mem, "log", backend.RebuildDamaged)
			if rep.Salvaged != 0 || rep.Unconfirmed < 0 || !strings.Contains(rep.Lost[0], tc.says) || len(rep.LeftOut) == 0 {
				t.Errorf("%+v", rep)
			}
		})
	}
}

// A writer that was replaced must not take the events which its successor had in the
// tail for its own, after they were salvaged.
func TestSalvagedEventsAreNobodysAnswer(t *testing.T) {
	mem := memstore.New(t)
	b := backend.New(mem, backend.Options{})
	l := create(t, b, "log")
	appendAll(t, l, event(0), event(1))
	fold(t, mem, "log")
	was := record(t, mem, "log")
	next, err := backend.New(mem, backend.Options{}).Adopt(t.Context(), "log", backend.AdoptOptions{TakeOver: true})
	if err != nil {
		t.Fatal(err)
	}
	appendAll(t, next, event(2), event(3))
	closeLog(t, next)
	body := bytes.Clone(mem.Snapshot("")[manifest.Key("log")])
	body[len(body)-4] ^= 1
	mem.Replace(manifest.Key("log"), body)
	if rep := rebuilt(t, mem, "log", backend.RebuildDamaged); rep.Salvaged != 2 || rep.Next != 4 {
		t.Fatalf("%+v", rep)
	}
	rec := record(t, mem, "log")
	for generation := range int64(4) {
		in := manifest.Intent{Kind: manifest.IntentAppend, Log: "log", UID: was.UID, Base: was.Commit.ID, Generation: generation, Start: 2, End: 4}
		if v := manifest.Judge(in, rec); v != manifest.Unknown {
			t.Errorf("a writer of generation %d is told %v of its events at seqs 2 and 3", generation, v)
		}
	}
	if _, err := l.Append(t.Context(), [][]byte{event(8), event(9)}, backend.AppendOptions{}); err == nil {
		t.Error("the writer that was replaced goes on")
	}
	_ = l.Close(t.Context(), backend.CloseOptions{})
	goesOn(t, mem, "log")
}

// damage flips a bit of a log's manifest, at a place from its beginning or its end.
func damage(t testing.TB, mem *memstore.Store, id string, at int) {
	t.Helper()
	body := bytes.Clone(mem.Snapshot("")[manifest.Key(id)])
	body[(at+len(body))%len(body)] ^= 1
	mem.Replace(manifest.Key(id), body)
}

// A damaged manifest of another log, under the key of this one, gives it nothing:
// neither a beginning, nor events behind segments that hold the same ones.
func TestRebuildTakesNothingOfAnotherLog(t *testing.T) {
	mem := memstore.New(t)
	b := backend.New(mem, backend.Options{})
	l := create(t, b, "other")
	appendAll(t, l, event(0), event(1))
	closeLog(t, l)
	mem.Replace(manifest.Key("log"), mem.Snapshot("")[manifest.Key("other")])
	damage(t, mem, "log", -4)
	if rep, err := b.Rebuild(t.Context(), "log", backend.RebuildOptions{}); !errors.Is(err, backend.ErrCorrupt) || !strings.Contains(err.Error(), `log "other"`) {
		t.Errorf("%+v, %v", rep, err)
	}
	mem.Replace(manifest.Key("Other"), mem.Snapshot("")[manifest.Key("log")])
	h := &history{t, mem, "01a22c90-3d4e-7d43-b001-70ae16901a15"}
	h.put(1, 0, "a")
	if rep := rebuilt(t, mem, "log", backend.RebuildForeign); rep.Salvaged != 0 || rep.Next != 1 || !strings.Contains(rep.Why, `"other"`) {
		t.Errorf("%+v", rep)
	}
	for key, body := range mem.Snapshot(manifest.SegmentPrefix("log")) {
		mem.Replace(strings.Replace(key, "/log/", "/Other/", 1), body)
	}
	if rep, err := b.Rebuild(t.Context(), "Other", backend.RebuildOptions{}); err == nil || rep.Done {
		t.Errorf("%+v, %v", rep, err)
	}
}

// What a header calls a tail is none, also where the tail itself has been cut off.
func TestRebuildTakesNoTailFromAHeader(t *testing.T) {
	frames, err := segment.NewCodec().EncodeFrames(nil, append((&history{}).line(0, "made up"), '\n'), segment.LevelBetter, segment.FrameRaw)
	if err != nil {
		t.Fatal(err)
	}
	mem := memstore.New(t)
	b := backend.New(mem, backend.Options{})
	l, err := b.Create("log", backend.CreateOptions{Header: fmt.Appendf(nil, `{"x":{"tail":"%s"}}`, base64.StdEncoding.EncodeToString(frames))})
	if err != nil {
		t.Fatal(err)
	}
	appendAll(t, l, event(0), event(1))
	closeLog(t, l)
	body := mem.Snapshot("")[manifest.Key("log")]
	mem.Replace(manifest.Key("log"), body[:bytes.LastIndex(body, []byte(`"tail":"`))])
	if rep, err := b.Rebuild(t.Context(), "log", backend.RebuildOptions{}); !errors.Is(err, backend.ErrCorrupt) || rep.Done || len(rep.LeftOut) > 0 {
		t.Errorf("%+v, %v", rep, err)
	}
}

// A segment that a replaced writer has left is not taken for the log's where the
// damaged manifest still shows what the log holds in its place.
func TestRebuildPrefersTheTailToAnOrphan(t *testing.T) {
	for name, tc := range map[string]struct {
		orphan string // all events up to the end of the orphan, which begins at the tail
		first  int
		raced  bool // it is of a create that lost
		want   string
		took   int64
	}{
		"other events, and more of them":          {"abXYZ", 2, false, "abcd", 2},
		"other events, and fewer":                 {"abX", 2, false, "abcd", 2},
		"other events behind the same":            {"abcX", 2, false, "abcd", 2},
		"the same, and one that is uncommitted":   {"abcdX", 2, false, "abcd", 2},
		"the same":                                {"abcd", 2, false, "abcd", 0},
		"the same, and fewer":                     {"abc", 2, false, "abcd", 1},
		"an event of the one that went on, later": {"abcdX", 4, false, "abcd", 2},
		"of the only writer, uncommitted":         {"XYZ", 0, false, "cd", 2},
		"of a create that lost":                   {"XYZ", 0, true, "cd", 2},
	} {
		t.Run(name, func(t *testing.T) {
			mem := memstore.New(t)
			h := &history{t, mem, ""}
			b := backend.New(mem, backend.Options{})
			l := create(t, b, "log")
			if tc.first > 0 {
				appendAll(t, l, h.line(0, "a"), h.line(1, "b"))
				fold(t, mem, "log")
				closeLog(t, l)
				l = adopt(t, backend.New(mem, backend.Options{}), "log")
				appendAll(t, l, h.line(2, "c"), h.line(3, "d"))
			} else {
				appendAll(t, l, h.line(0, "c"), h.line(1, "d"))
				if h.uid = "another"; !tc.raced {
					h.uid = record(t, mem, "log").UID
				}
			}
			closeLog(t, l)
			was := record(t, mem, "log")
			h.put(1, tc.first, letters(tc.orphan)...)
			damage(t, mem, "log", -4)
			rep := rebuilt(t, mem, "log", backend.RebuildDamaged)
			var want []string
			for seq, tag := range letters(tc.want) {
				want = append(want, string(h.line(seq, tag)))
			}
			if got := read(t, b.Reader, "log", 0); !slices.Equal(got, want) || rep.Salvaged != tc.took || rep.UID != was.UID || rep.Root != was.Content.Tree.Root {
				t.Errorf("%q\n%+v", got, rep)
			}
			goesOn(t, mem, "log")
		})
	}
}

// A tail that is cut off follows segments also where another one, which was not
// committed yet, might stand in the place of the last that the manifest names.
func TestRebuildTakesATailBehindAMergeUnderWay(t *testing.T) {
	mem := memstore.New(t)
	h := &history{t, mem, ""}
	l := create(t, backend.New(mem, backend.Options{}), "log")
	for i, tag := range letters("abc") {
		appendAll(t, l, h.line(i, tag))
		fold(t, mem, "log")
	}
	appendAll(t, l, h.line(3, "d"))
	closeLog(t, l)
	h.uid = record(t, mem, "log").UID
	h.put(1, 0, letters("abc")...)
	body := mem.Snapshot("")[manifest.Key("log")]
	mem.Replace(manifest.Key("log"), body[:bytes.Index(body, []byte(`,"tree"`))])
	if rep := rebuilt(t, mem, "log", backend.RebuildDamaged); rep.Salvaged != 1 || rep.Next != 4 {
		t.Errorf("%+v", rep)
	}
}

// Generations that have sealed nothing have left no number in the list. After a
// rebuild, and another one, none of their writers takes events of others for its own.
func TestWritersOfLostGenerationsAreToldNothing(t *testing.T) {
	for _, twice := range []bool{false, true} {
		for _, at := range []int{0, -4, 1 << 30} { // where the manifest is damaged; or it is removed
			mem := memstore.New(t)
			owner := func() *backend.Log {
				l := adopt(t, backend.New(mem, backend.Options{}), "log")
				if _, err := l.Claim(t.Context()); err != nil {
					t.Fatal(err)
				}
				return l
			}
			lose := func() {
				want := backend.RebuildMissing
				if at == 1<<30 {
					mem.Drop(manifest.Key("log"))
				} else {
					damage(t, mem, "log", at)
					want = backend.RebuildDamaged
				}
				rebuilt(t, mem, "log", want)
			}
			l := create(t, backend.New(mem, backend.Options{}), "log")
			appendAll(t, l, event(0), event(1))
			fold(t, mem, "log")
			closeLog(t, l)
			if twice {
				lose()
			}
			closeLog(t, owner())
			l = owner()
			was := record(t, mem, "log")
			appendAll(t, l, event(2), event(3))
			lose()
			for n := range 4 {
				end := len(read(t, backend.NewReader(mem, backend.Options{}), "log", 0))
				next := owner()
				appendAll(t, next, event(end), event(end+1))
				closeLog(t, next)
				for _, start := range []int64{2, 4} {
					in := manifest.Intent{Kind: manifest.IntentAppend, Log: "log", UID: was.UID, Base: was.Commit.ID, Writer: was.Owner.Writer, Generation: was.Generation(), Start: start, End: start + 2}
					if v := manifest.Judge(in, record(t, mem, "log")); v.Landed() {
						t.Errorf("damaged at %d, twice: %t; after %d appends a writer of generation %d is told %v of seqs %d and %d", at, twice, n+1, in.Generation, v, start, start+1)
					}
				}
			}
			_ = l.Close(t.Context(), backend.CloseOptions{})
		}
	}
}
