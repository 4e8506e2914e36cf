package backend_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// history makes segments of a log without a manifest, as writers would have left
// them that were replaced, lost their commits, or merged.
type history struct {
	t   testing.TB
	mem *memstore.Store
	uid string
}

// state is that of a log after the events with these tags.
func (h *history) state(tags ...string) segment.State {
	f, err := manifest.NewFold(segment.NewState(), manifest.RuleUserPrompt)
	if err != nil {
		h.t.Fatal(err)
	}
	for seq, tag := range tags {
		ev, err := segment.ParseEvent(h.line(seq, tag), segment.Limits{})
		if err != nil {
			h.t.Fatal(err)
		}
		f.Add(ev)
	}
	return f.State()
}

func (h *history) line(seq int, tag string) []byte {
	return fmt.Appendf(nil, `{"type":"note","seq":%d,"time":%d,"data":{"tag":%q}}`, seq, seq, tag)
}

// put uploads a segment of an epoch with the events from seq first on, of a log
// that has had these tags, and returns its name.
func (h *history) put(epoch uint32, first int, tags ...string) manifest.Name {
	base := &manifest.Record{Log: "log", UID: h.uid, Epoch: epoch, Origin: &manifest.Origin{Kind: manifest.KindFresh}}
	var raw bytes.Buffer
	for seq := first; seq < len(tags); seq++ {
		raw.Write(h.line(seq, tags[seq]))
		raw.WriteByte('\n')
	}
	return putSegment(h.t, h.mem, base, raw.Bytes(), int64(first), h.state(tags...), segment.LevelFast).Name
}

// letters are the tags of a text.
func letters(text string) []string { return strings.Split(text, "") }

// Orphans of writers that were replaced or lost a commit are not taken for what
// the log was, as long as anything else tells.
func TestRebuildChoosesTheTrueHistory(t *testing.T) {
	for _, tc := range []struct {
		name  string
		make  func(h *history)
		want  string // the tags, one letter each
		named int
		sure  int64
	}{
		{"a replaced writer's uncommitted events, with the truth beside and behind them", func(h *history) {
			h.put(1, 0, letters("abc")...)
			h.put(2, 3, letters("abcXXXX")...)
			h.put(3, 3, letters("abcde")...)
			h.put(3, 5, letters("abcdefgh")...)
		}, "abcdefgh", 3, 5},
		{"the same, and nothing behind the truth", func(h *history) {
			h.put(1, 0, letters("abc")...)
			h.put(2, 3, letters("abcXXXX")...)
			h.put(3, 3, letters("abcde")...)
		}, "abcde", 2, 3},
		{"uncommitted events behind committed ones, in a segment that a later epoch made again", func(h *history) {
			h.put(1, 0, letters("abc")...)
			h.put(2, 3, letters("abcdeXX")...)
			h.put(3, 3, letters("abcde")...)
		}, "abcde", 2, 3},
		{"an upload for a takeover that came too late", func(h *history) {
			h.put(7, 0, letters("abc")...)
			h.put(8, 3, letters("abcdeX")...)
			h.put(7, 3, letters("abcde")...)
			h.put(7, 5, letters("abcdefgh")...)
		}, "abcdefgh", 3, 5},
		{"a merge of which only some inputs are left", func(h *history) {
			h.put(1, 0, letters("abc")...)
			h.put(1, 3, letters("abcde")...)
			h.put(2, 0, letters("abcdefgh")...)
		}, "abcdefgh", 1, 3},
		{"a merge with something behind it", func(h *history) {
			h.put(1, 0, letters("abc")...)
			h.put(1, 3, letters("abcde")...)
			h.put(1, 0, letters("abcde")...)
			h.put(2, 5, letters("abcdefgh")...)
		}, "abcdefgh", 2, 5},
		{"a batch that was sent again without a part that was taken back", func(h *history) {
			h.put(1, 0, letters("abc")...)
			h.put(2, 3, letters("abcXde")...)
			time.Sleep(time.Second)
			h.put(2, 3, letters("abcde")...)
		}, "abcde", 2, 3},
		{"two creates at a time", func(h *history) {
			other := *h
			other.uid = "another"
			other.put(1, 0, letters("XXXXXXX")...)
			h.put(1, 0, letters("abc")...)
			h.put(1, 3, letters("abcde")...)
		}, "abcde", 2, 3},
		{"a segment behind another history", func(h *history) {
			h.put(1, 0, letters("abc")...)
			h.put(5, 3, letters("XXXde")...)
		}, "abc", 1, 0},
		{"a segment in the middle that is an orphan's, with the true one gone", func(h *history) {
			h.put(1, 0, letters("abc")...)
			h.put(2, 3, letters("abcXX")...)
			h.put(3, 5, letters("abcdefgh")...)
		}, "abcXX", 2, 3},
		{"an orphan where the tail began that a fold took along", func(h *history) {
			h.put(1, 0, letters("abc")...)
			h.put(1, 3, letters("abcXX")...)
			time.Sleep(time.Second)
			h.put(2, 0, letters("abcdefgh")...)
		}, "abcdefgh", 1, 3},
		{"the same, and a later fold of more", func(h *history) {
			h.put(1, 0, letters("abc")...)
			h.put(1, 3, letters("abcXX")...)
			time.Sleep(time.Second)
			h.put(2, 0, letters("abcdef")...)
			time.Sleep(time.Second)
			h.put(2, 0, letters("abcdefgh")...)
		}, "abcdefgh", 1, 3},
		{"a fold that lost against a seal with more", func(h *history) {
			h.put(1, 0, letters("abc")...)
			h.put(1, 3, letters("abcdefgh")...)
			time.Sleep(time.Second)
			h.put(1, 0, letters("abcde")...)
		}, "abcdefgh", 2, 3},
		{"a copy under an epoch that no log reaches", func(h *history) {
			h.put(1, 0, letters("abc")...)
			time.Sleep(time.Second)
			h.put(1<<32-1, 0, letters("abc")...)
			h.put(1<<32-2, 0, letters("abcX")...)
		}, "abc", 1, 0},
		{"segments of a far epoch", func(h *history) {
			h.put(1, 0, letters("abc")...)
			h.put(1<<30, 2, letters("XXXX")...)
		}, "abc", 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New(t)
				tc.make(&history{t, mem, "uid"})
				rep := rebuilt(t, mem, "log", backend.RebuildMissing)
				var got strings.Builder
				for _, line := range read(t, backend.NewReader(mem, backend.Options{}), "log", 0) {
					got.WriteString(tagOf([]byte(line)))
				}
				if got.String() != tc.want || len(rep.Segments) != tc.named || rep.Unconfirmed != tc.sure || rep.UID != "uid" || rep.Epoch > 9 {
					t.Errorf("%s: %+v", got.String(), rep)
				}
				if len(rep.Unused)+len(rep.Segments) != rep.Listed || slices.ContainsFunc(rep.Unused, func(u backend.RebuildUnused) bool { return u.Why == "" }) {
					t.Errorf("%+v", rep)
				}
				goesOn(t, mem, "log")
			})
		})
	}
}

// A segment whose index says something else than its events is not taken, nor is
// one that is not what its name says.
func TestRebuildChecksIndexes(t *testing.T) {
	three, keys := threeSegments(t)
	for name, change := range map[string]func(f *segment.Footer){
		"root": func(f *segment.Footer) {
			f.State.Tree.Range[0][0] ^= 1
			f.State.Tree.Root = segment.TreeRoot(f.State.Tree.Range)
		},
		"turn":     func(f *segment.Footer) { f.State.Turn = &segment.Turn{Turn: 7} },
		"activity": func(f *segment.Footer) { f.State.Activity = new(int64) },
	} {
		t.Run(name, func(t *testing.T) {
			mem := copied(t, three)
			mem.Drop(manifest.Key("log"))
			mem.Replace(keys[1], remade(t, mem, keys[1], nil, change))
			if rep := rebuilt(t, mem, "log", backend.RebuildMissing); rep.Next != 3 || len(rep.Unused) != 2 {
				t.Errorf("%+v", rep)
			}
		})
	}
	mem := copied(t, three)
	mem.Drop(manifest.Key("log"))
	mem.Replace(keys[1], mem.Snapshot("")[keys[2]])
	if rep := rebuilt(t, mem, "log", backend.RebuildMissing); rep.Next != 3 || rep.Gap == nil || rep.Gap.To != 6 {
		t.Errorf("%+v", rep)
	}
}

// A fork is rebuilt as what it is, also where its first segments are its
// parent's, and where its own begin behind what it has inherited.
func TestRebuildOfAFork(t *testing.T) {
	for _, tc := range []struct {
		parent string
		at     int64
	}{{"log", bigNext - 1}, {"quiet", bigNext - 1}, {"quiet", 2*perSegment - 1}, {"log", perSegment + 3}} {
		mem := bigStore(t)
		b := backend.New(mem, backend.Options{})
		forked(t, b, tc.parent, "child", backend.ForkOptions{At: &tc.at, Header: []byte(`{"createdAt":9}`)})
		was, lines := record(t, mem, "child"), read(t, b.Reader, "child", 0)
		dropLog(mem, tc.parent)
		mem.Drop(manifest.Key("child"))
		rep := rebuilt(t, mem, "child", backend.RebuildMissing)
		rec := record(t, mem, "child")
		if rep.UID != was.UID || string(manifest.AppendOrigin(nil, rec.Origin)) != string(manifest.AppendOrigin(nil, was.Origin)) || !bytes.Equal(rec.Header, was.Header) ||
			!slices.Equal(rec.Segments, was.Segments) || *rec.Content.Activity != *was.Content.Activity ||
			rec.Lifecycle.Kind != was.Lifecycle.Kind || rec.Lifecycle.First != was.Lifecycle.First || rec.Lifecycle.Inherited != was.Lifecycle.Inherited {
			t.Errorf("%+v\nwas %+v", rec, was)
		}
		if got := read(t, b.Reader, "child", 0); !slices.Equal(got, lines) {
			t.Errorf("%d events, want %d", len(got), len(lines))
		}
	}
}

// A fork that needs no boundary of its own, and ends where a segment of its
// parent does, says what it is in the first segment that it encodes.
func TestRebuildOfAForkWithoutABoundary(t *testing.T) {
	for _, how := range []string{"seal", "seal in the commit", "fold", "merge"} {
		t.Run(how, func(t *testing.T) {
			mem := bigStore(t)
			b := backend.New(mem, backend.Options{Foreground: true})
			l, _ := resume(t, b, "quiet", backend.ResumeOptions{Claim: true}) // ends in a boundary
			if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
				t.Fatal(err)
			}
			foldNow(t, mem, "quiet")
			forked(t, b, "quiet", "child", backend.ForkOptions{})
			was := record(t, mem, "child")
			if was.TailFirst() != was.Origin.Inherited || was.Next != was.Origin.Inherited || indexOf(t, mem, "child", was.Segments[0].Name).Log != "quiet" {
				t.Fatalf("%+v", was)
			}
			l = adopt(t, b, "child")
			appendAll(t, l, event(1), event(2))
			switch how {
			case "seal":
				if err := l.Close(t.Context(), backend.CloseOptions{Seal: true, Release: true}); err != nil {
					t.Fatal(err)
				}
			case "seal in the commit":
				appendAll(t, l, tagged("x", 200<<10))
				closeLog(t, l)
			case "fold":
				closeLog(t, l)
				foldNow(t, mem, "child")
			case "merge":
				for i := range 5 {
					if err := l.Close(t.Context(), backend.CloseOptions{Seal: true, Release: true}); err != nil {
						t.Fatal(err)
					}
					l = adopt(t, b, "child")
					appendAll(t, l, event(3+i))
				}
				closeLog(t, l)
				if rec := record(t, mem, "child"); len(rec.Retired) < 4 || rec.Retired[0].Name.First != 0 {
					t.Fatalf("what was copied was not merged: %+v", rec)
				}
			}
			was = record(t, mem, "child")
			last := was.Segments[len(was.Segments)-1]
			lines := read(t, b.Reader, "child", 0)[:last.Name.First+last.Count]
			verifyClean(t, b.Reader, "child")
			mem.Drop(manifest.Key("child"))
			if rep := rebuilt(t, mem, "child", backend.RebuildMissing); rep.UID != was.UID {
				t.Errorf("%+v", rep)
			}
			if got := read(t, backend.NewReader(mem, backend.Options{}), "child", 0); !slices.Equal(got, lines) {
				t.Errorf("%d events, want %d", len(got), len(lines))
			}
		})
	}
}
