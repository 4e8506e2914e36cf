package backend_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
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
