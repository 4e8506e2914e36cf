package backend_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// A turn with a tool call, as harnesses write it.
func turnStart(turn int) []byte {
	return fmt.Appendf(nil, `{"type":"turn/start","time":1,"data":{"turn":%d}}`, turn)
}

func stepStart(turn, step int) []byte {
	return fmt.Appendf(nil, `{"type":"step/start","time":2,"data":{"turn":%d,"step":%d}}`, turn, step)
}

func assistant(calls ...string) []byte {
	var blocks []string
	for _, id := range calls {
		blocks = append(blocks, fmt.Sprintf(`{"type":"tool-call","id":%q,"name":"sh","arguments":{}}`, id))
	}
	return fmt.Appendf(nil, `{"type":"assistant/message","time":3,"data":{"turn":1,"step":1,"message":{"content":[%s]}}}`, strings.Join(blocks, ","))
}

func toolCall(id string) []byte {
	return fmt.Appendf(nil, `{"type":"tool/call","time":4,"data":{"turn":1,"step":1,"callId":%q,"name":"sh","arguments":{}}}`, id)
}

func toolResult(id string) []byte {
	return fmt.Appendf(nil, `{"type":"tool/result","time":5,"data":{"turn":1,"step":1,"message":{"source":{"callId":%q},"content":[]}}}`, id)
}

func appendAll(t testing.TB, l *backend.Log, events ...[]byte) backend.Receipt {
	t.Helper()
	r, err := l.Append(t.Context(), events, backend.AppendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// openCalls are the ids of calls without result, as a reader sees them.
func openCalls(t testing.TB, r *backend.Reader) (ids []string) {
	t.Helper()
	info, err := r.Info(t.Context(), "log")
	if err != nil {
		t.Fatal(err)
	}
	if info.Content.Turn == nil {
		return nil
	}
	for _, c := range info.Content.Turn.Calls {
		ids = append(ids, c.ID)
	}
	return ids
}

// Reading while a slow tool runs shows an open call, stores nothing, and
// disturbs its owner not.
func TestC04ReadWhileTheOwnerIsAlive(t *testing.T) {
	trace := tracestore.New(memstore.New(t), tracestore.Options{})
	b := backend.New(trace, backend.Options{})
	l := create(t, b, "log")
	appendAll(t, l, turnStart(1), stepStart(1, 1), assistant("c1"), toolCall("c1"))
	before := trace.Counts()
	r := backend.NewReader(trace, backend.Options{})
	if got := openCalls(t, r); !slices.Equal(got, []string{"c1"}) {
		t.Errorf("%q", got)
	}
	if n := len(read(t, r, "log", 0)); n != 4 {
		t.Errorf("%d events", n)
	}
	if d := trace.Counts().Sub(before); d.Put != 0 || d.Get != 2 {
		t.Errorf("%+v", d)
	}
	if rec := appendAll(t, l, toolResult("c1")); rec.First != 4 || rec.Generation != 1 {
		t.Errorf("%+v", rec)
	}
	if got := openCalls(t, r); len(got) != 0 {
		t.Errorf("%q", got)
	}
	closeLog(t, l)
}

// All results of parallel calls are stored, in the order in which they came,
// and none is taken for missing.
func TestC05ParallelResults(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	l := create(t, b, "log")
	appendAll(t, l, turnStart(1), stepStart(1, 1), assistant("c1", "c2", "c3"))
	if got := openCalls(t, b.Reader); !slices.Equal(got, []string{"c1", "c2", "c3"}) {
		t.Errorf("%q", got)
	}
	appendAll(t, l, toolResult("c3"), toolResult("c1"), toolResult("c2"))
	if got := openCalls(t, b.Reader); len(got) != 0 {
		t.Errorf("%q", got)
	}
	closeLog(t, l)
	for i, id := range []string{"c3", "c1", "c2"} {
		if line := read(t, b.Reader, "log", 3)[i]; !strings.Contains(line, `"callId":"`+id+`"`) {
			t.Errorf("%d: %s", i, line)
		}
	}
}

// A process with an older view never replaces newer history.
func TestC06OlderViewDoesNotTruncate(t *testing.T) {
	mem := memstore.New(t)
	b := backend.New(mem, backend.Options{})
	a := create(t, b, "log")
	for i := range 6 {
		appendOne(t, a, event(i))
	}
	late := adopt(t, b, "log") // its view ends here
	for i := range 4 {
		appendOne(t, a, event(6+i))
	}
	want := read(t, b.Reader, "log", 0)
	if r := appendOne(t, late, event(10)); r.First != 10 {
		t.Errorf("%+v", r)
	}
	if got := read(t, b.Reader, "log", 0); len(got) != 11 || !slices.Equal(got[:10], want) {
		t.Errorf("%d events", len(got))
	}
	closeLog(t, late)
	_ = a.Close(t.Context(), backend.CloseOptions{})
}

// A line that a bad producer cut, in a segment that is otherwise whole, is an
// error with its seq, and not the end of the session.
func TestC07BadLineInAGoodSegment(t *testing.T) {
	mem, key, lines := sealedLog(t)
	r, err := segment.OpenBytes(segment.NewCodec(), mem.Snapshot(key)[key])
	if err != nil {
		t.Fatal(err)
	}
	x := r.Index()
	w := segment.NewWriter(segment.NewCodec(), segment.LevelBetter, segment.FrameRaw, 0)
	for i, line := range lines {
		if i == 3 {
			line = line[:len(line)/2]
		}
		if err := w.Add([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	object, _, err := w.Finish(segment.Footer{Nonce: x.Nonce, State: x.State, UID: x.UID, Log: x.Log, Origin: x.Origin, Header: x.Header})
	if err != nil {
		t.Fatal(err)
	}
	forge(t, mem, key, object)
	n := 0
	var bad error
	for ev, err := range backend.NewReader(mem, backend.Options{}).Events(t.Context(), "log", backend.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ev.Parse(); err != nil {
			bad = err
			break
		}
		n++
	}
	oe, _ := errors.AsType[*backend.OpError](bad)
	if n != 3 || !errors.Is(bad, backend.ErrCorrupt) || oe == nil || oe.Seq != 3 || oe.Log != "log" {
		t.Errorf("after %d events: %v", n, bad)
	}
}

// One handle shared by all of a process is one writer: a background task does
// not make the foreground's cursor stale.
func TestC14BackgroundAppend(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	l := create(t, b, "log")
	var wg sync.WaitGroup
	for _, typ := range []string{"compaction/start", "compaction/end"} {
		appendOne(t, l, event(0))
		wg.Go(func() { appendOne(t, l, fmt.Appendf(nil, `{"type":%q,"time":1,"data":{}}`, typ)) })
		appendOne(t, l, event(1))
		wg.Wait()
	}
	closeLog(t, l)
	if info, err := b.Info(t.Context(), "log"); err != nil || info.Next != 6 || info.Generation != 1 {
		t.Errorf("%+v, %v", info, err)
	}
}

// A page says where it begins, and is not made to look balanced.
func TestC15PageInTheMiddleOfAPair(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	l := create(t, b, "log")
	appendAll(t, l, turnStart(1), stepStart(1, 1), assistant("c1"), toolCall("c1"), toolResult("c1"))
	closeLog(t, l)
	all := read(t, b.Reader, "log", 0)
	for from := int64(0); from <= 6; from++ {
		for to := from - 1; to <= 6; to++ {
			var seqs []int64
			for ev, err := range b.Events(t.Context(), "log", backend.ReadOptions{From: from, To: &to}) {
				if err != nil {
					t.Fatal(err)
				}
				if string(ev.Line) != all[ev.Seq] || !bytes.Contains(ev.Line, fmt.Appendf(nil, `"seq":%d,`, ev.Seq)) {
					t.Errorf("seq %d: %s", ev.Seq, ev.Line)
				}
				seqs = append(seqs, ev.Seq)
			}
			if n := max(0, min(to, 4)-from+1); int64(len(seqs)) != n || n > 0 && seqs[0] != from {
				t.Errorf("%d to %d: %v", from, to, seqs)
			}
		}
	}
}

// Two results for one call are both kept, and neither opens anything.
func TestC16TwoResultsForOneCall(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	l := create(t, b, "log")
	appendAll(t, l, turnStart(1), stepStart(1, 1), assistant("c1"), toolCall("c1"), toolResult("c1"), toolResult("c1"))
	closeLog(t, l)
	if got := openCalls(t, b.Reader); len(got) != 0 {
		t.Errorf("%q", got)
	}
	if n := len(read(t, b.Reader, "log", 0)); n != 6 {
		t.Errorf("%d events", n)
	}
}

// An event of an unknown kind counts, and its number is not given away again.
func TestC17UnknownTypesCount(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	l := create(t, b, "log")
	appendAll(t, l, turnStart(1), []byte(`{"type":"future/thing","time":9,"data":{"shape":[1,{"of":"things"}]},"surfaceOp":{"later":true}}`))
	closeLog(t, l)
	l = adopt(t, b, "log")
	if l.Next() != 2 {
		t.Errorf("next is %d", l.Next())
	}
	if r := appendOne(t, l, event(0)); r.First != 2 {
		t.Errorf("%+v", r)
	}
	closeLog(t, l)
	if got := read(t, b.Reader, "log", 1)[0]; got != `{"type":"future/thing","seq":1,"time":9,"data":{"shape":[1,{"of":"things"}]},"surfaceOp":{"later":true}}` {
		t.Error(got)
	}
}

// hugeLog puts the manifest of a log of segments×8 MiB on a store, without the
// segments.
func hugeLog(t testing.TB, mem *memstore.Store, segments int) int64 {
	t.Helper()
	l := create(t, backend.New(mem, backend.Options{}), "log")
	appendOne(t, l, []byte(`{"type":"note","time":1,"data":0}`))
	closeLog(t, l)
	head, err := manifest.Load(t.Context(), mem, "log", manifest.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const each = 40_000
	r := *head.Record
	n := int64(segments) * each
	r.Next, r.Tail = n, nil
	r.Content.Types.Entries = []segment.TypeCount{{Type: "note", Count: n, First: 0, Last: n - 1}}
	r.Content.Tree = segment.Tree{Size: n}
	for range bits.OnesCount64(uint64(n)) {
		var h segment.Hash
		binary.BigEndian.PutUint64(h[:], uint64(len(r.Content.Tree.Range)))
		r.Content.Tree.Range = append(r.Content.Tree.Range, h)
	}
	r.Content.Tree.Root = segment.TreeRoot(r.Content.Tree.Range)
	for i := range segments {
		r.Segments = append(r.Segments, manifest.SegmentRef{
			Name:  manifest.Name{First: int64(i) * each, Epoch: 1, Nonce: manifest.NewNonce()},
			Count: each, Bytes: 8 << 20, Raw: 80 << 20,
		})
	}
	body, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	mem.Replace(manifest.Key("log"), body)
	return n
}

// Listing, looking at and appending to a log of gigabytes touch its manifest
// alone, and that stays small.
func TestC18SizeWithoutBound(t *testing.T) {
	mem := memstore.New(nil)
	next := hugeLog(t, mem, 250) // what 2,000 segments of 1 MiB merge to
	if n := len(mem.Snapshot("")[manifest.Key("log")]); n > 64<<10 {
		t.Errorf("a manifest of %d bytes", n)
	}
	trace := tracestore.New(faultstore.New(mem, faultstore.Rule{Match: faultstore.Prefix("segments/"), Fault: faultstore.Denied()}), tracestore.Options{})
	b := backend.New(trace, backend.Options{})
	step := func(name string, want tracestore.Counts, f func()) {
		before := trace.Counts()
		f()
		got := trace.Counts().Sub(before)
		got.BytesIn, got.BytesOut = 0, 0
		if got != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	step("list", tracestore.Counts{List: 1, Head: 1, Get: 1}, func() { // without metadata the manifest is read
		if ids := listed(t, b.Reader, backend.ListOptions{}); len(ids) != 1 {
			t.Errorf("%q", ids)
		}
	})
	step("info", tracestore.Counts{Get: 1}, func() {
		if info, err := b.Info(t.Context(), "log"); err != nil || info.Next != next {
			t.Errorf("%+v, %v", info, err)
		}
	})
	var l *backend.Log
	step("adopt", tracestore.Counts{Get: 1, Put: 1}, func() {
		l = adopt(t, b, "log")
		appendOne(t, l, event(0))
	})
	step("append", tracestore.Counts{Put: 100}, func() {
		for i := range 100 {
			appendOne(t, l, event(i))
		}
	})
	closeLog(t, l)
	step("resume", tracestore.Counts{Get: 1, Put: 1}, func() { l, _ = resume(t, b, "log", backend.ResumeOptions{}) })
	step("read the end", tracestore.Counts{Get: 1}, func() {
		if n := len(read(t, b.Reader, "log", next)); n != 102 { // and the boundary
			t.Errorf("%d events", n)
		}
	})
	closeLog(t, l)
}

// Times may go backwards: seq is the order.
func TestC19ClockGoesBackwards(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	l := create(t, b, "log")
	for _, at := range []int{1000, 400, 400, -5} {
		appendOne(t, l, fmt.Appendf(nil, `{"type":"note","time":%d,"data":0}`, at))
	}
	closeLog(t, l)
	for i, at := range []int{1000, 400, 400, -5} {
		if got := read(t, b.Reader, "log", 0)[i]; got != fmt.Sprintf(`{"type":"note","seq":%d,"time":%d,"data":0}`, i, at) {
			t.Error(got)
		}
	}
	info, err := b.Info(t.Context(), "log")
	if err != nil || *info.Content.LastTime != -5 || *info.Content.MaxTime != 1000 {
		t.Errorf("%+v, %v", info.Content, err)
	}
}

// Every id has one key of its own below the prefix, or is refused (also A-20).
func TestC21HostileIDs(t *testing.T) {
	mem := memstore.New(t)
	b := backend.New(mem, backend.Options{})
	ids := []string{
		"..", "../other", "a/../../b", ".", "a\x00b", "a\nb", "a b", "a+b", "a%2Bb", "a%b", "é", "e\u0301", "x//y", "/x", "x/",
		"a&b=c", "日本", "=41", "A", "a", "con", "nul.txt", "-rf", "~", `a\b`, "a:b", strings.Repeat("x", 1024), strings.Repeat("x", 1023) + "y",
		strings.Repeat("é", 512), "log.json", "segments", "manifests/x.json", " ", "\u202e", "\ufeff",
	}
	for i, id := range ids {
		l := create(t, b, id)
		appendOne(t, l, event(i))
		if err := l.Close(t.Context(), backend.CloseOptions{Seal: i%2 == 0}); err != nil {
			t.Error(err)
		}
	}
	manifests := 0
	for key := range mem.Snapshot("") {
		if err := objstore.CheckKey(key); err != nil || len(key) > 1024 {
			t.Errorf("key %q: %v", key, err)
		}
		if strings.HasPrefix(key, "manifests/") && strings.Count(key, "/") == 1 {
			manifests++
		} else if !strings.HasPrefix(key, "segments/") || strings.Count(key, "/") != 2 {
			t.Errorf("key %q", key)
		}
	}
	if manifests != len(ids) {
		t.Errorf("%d manifests for %d ids", manifests, len(ids))
	}
	for i, id := range ids {
		got := read(t, b.Reader, id, 0)
		if len(got) != 1 || !strings.Contains(got[0], fmt.Sprintf("number %d\"", i)) {
			t.Errorf("%q: %q", id, got)
		}
	}
	got := listed(t, b.Reader, backend.ListOptions{By: backend.ByName})
	slices.Sort(got)
	slices.Sort(ids)
	if !slices.Equal(got, ids) {
		t.Errorf("listed: %q", got)
	}
	for _, id := range []string{"", strings.Repeat("x", 1025), strings.Repeat("x", 2000), "a\xffb", "\xed\xa0\x80"} {
		if _, err := b.Create(id, backend.CreateOptions{}); err == nil {
			t.Errorf("created %.20q", id)
		}
		if _, err := b.Adopt(t.Context(), id, backend.AdoptOptions{}); err == nil || errors.Is(err, backend.ErrNotFound) {
			t.Errorf("%.20q: %v", id, err)
		}
		if _, err := readAll(t.Context(), b.Reader, id, 0); err == nil || errors.Is(err, backend.ErrNotFound) {
			t.Errorf("%.20q: %v", id, err)
		}
	}
}

// What cannot be loaded is an error of its own kind, and nothing is made in its
// place.
func TestC22UnloadableIsNoSuccess(t *testing.T) {
	objects, _ := longLog(t)
	for name, tc := range map[string]struct {
		id    string
		fault *faultstore.Fault
		spoil func(mem *memstore.Store)
		want  error
	}{
		"unknown": {id: "missing", want: backend.ErrNotFound},
		"denied":  {id: "log", fault: ptr(faultstore.Denied()), want: backend.ErrDenied},
		"down":    {id: "log", fault: ptr(faultstore.Unavailable()), want: objstore.ErrUndecided},
		"moved":   {id: "log", fault: ptr(faultstore.Refused()), want: objstore.ErrRefused},
		"damaged": {id: "log", spoil: func(mem *memstore.Store) { mem.Replace(manifest.Key("log"), []byte("{}")) }, want: backend.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			mem := restore(nil, objects)
			if tc.spoil != nil {
				tc.spoil(mem)
			}
			before := mem.Snapshot("")
			store := faultstore.New(mem)
			if tc.fault != nil {
				store.Inject(faultstore.Rule{Match: faultstore.Op("Get", "Head", "List"), Fault: *tc.fault})
			}
			b := backend.New(store, backend.Options{})
			got, err := readAll(t.Context(), b.Reader, tc.id, 0)
			_, infoErr := b.Info(t.Context(), tc.id)
			_, adoptErr := b.Adopt(t.Context(), tc.id, backend.AdoptOptions{})
			var followErr error
			for _, err := range b.Follow(t.Context(), tc.id, 0) {
				followErr = err
			}
			_, importErr := b.Import(t.Context(), tc.id, func(func([]byte, error) bool) {}, backend.ImportOptions{})
			all := map[string]error{"read": err, "info": infoErr, "adopt": adoptErr, "follow": followErr}
			if name != "unknown" {
				all["import"] = importErr
			}
			kinds := []error{backend.ErrNotFound, backend.ErrDenied, backend.ErrCorrupt, backend.ErrMissing, objstore.ErrUndecided}
			for op, err := range all {
				if !errors.Is(err, tc.want) {
					t.Errorf("%s: %v", op, err)
				}
				for _, kind := range kinds {
					if kind != tc.want && errors.Is(err, kind) {
						t.Errorf("%s: %v is %v", op, err, kind)
					}
				}
			}
			if len(got) != 0 || importErr == nil {
				t.Errorf("%d events, %v", len(got), importErr)
			}
			if after := mem.Snapshot(""); len(after) != len(before) {
				t.Error("something was made")
			}
			if tc.fault != nil {
				for _, err := range b.List(t.Context(), backend.ListOptions{}) {
					if !errors.Is(err, tc.want) {
						t.Errorf("list: %v", err)
					}
				}
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }
