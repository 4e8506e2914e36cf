package backend_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// threeSegments is a log of three segments of three events each, and two in the
// tail.
func threeSegments(t testing.TB) (*memstore.Store, []string) {
	t.Helper()
	mem := memstore.New(t)
	events := brief(`turn/start {"turn":1}`, `step/start {"turn":1,"step":1}`, `user/message {"source":{"kind":"user"}}`,
		"note", `turn/end {"turn":1}`, mark,
		`turn/start {"turn":2}`, "note", `assistant/message {"turn":2,"step":1,"message":{"content":[{"type":"tool-call","id":"c"}]}}`,
		`tool/call {"callId":"c"}`, "note")
	for i := 0; i < len(events); i += 3 {
		b := backend.New(mem, backend.Options{Foreground: true})
		l, err := b.Adopt(t.Context(), "log", backend.AdoptOptions{})
		if errors.Is(err, backend.ErrNotFound) {
			l, err = b.Create("log", backend.CreateOptions{Header: []byte(`{"createdAt":5}`)})
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(t.Context(), events[i:min(i+3, len(events))], backend.AppendOptions{Boundary: true}); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(t.Context(), backend.CloseOptions{Seal: i < 9}); err != nil {
			t.Fatal(err)
		}
	}
	var keys []string
	for _, s := range info(t, backend.NewReader(mem, backend.Options{}), "log").Segments {
		keys = append(keys, manifest.SegmentKey("log", s.Name))
	}
	if len(keys) != 3 {
		t.Fatalf("%d segments", len(keys))
	}
	return mem, keys
}

// vouch makes the manifest say that an object is what it should be.
func vouch(t testing.TB, mem *memstore.Store, i int, object []byte) {
	t.Helper()
	forgeManifest(t, mem, "log", func(r *manifest.Record) {
		mem.Replace(manifest.SegmentKey("log", r.Segments[i].Name), object)
		r.Segments[i].Bytes, r.Segments[i].SHA256 = int64(len(object)), sha256.Sum256(object)
	})
}

// remade is segment i with other lines, another index, or both.
func remade(t testing.TB, mem *memstore.Store, key string, line func(seq int64, line []byte) []byte, change func(f *segment.Footer)) []byte {
	t.Helper()
	r, err := segment.OpenBytes(segment.NewCodec(), mem.Snapshot(key)[key])
	if err != nil {
		t.Fatal(err)
	}
	x := r.Index()
	w := segment.NewWriter(segment.NewCodec(), segment.LevelFast, 1, x.First) // a frame for each event
	seq := x.First
	for l, err := range r.Lines(x.First) {
		if err != nil {
			t.Fatal(err)
		}
		if line != nil {
			l = line(seq, bytes.Clone(l))
		}
		if err := w.Add(l); err != nil {
			t.Fatal(err)
		}
		seq++
	}
	foot := segment.Footer{Nonce: x.Nonce, State: x.State.Clone(), UID: x.UID, Log: x.Log, Origin: x.Origin, Header: x.Header}
	if change != nil {
		change(&foot)
	}
	object, _, err := w.Finish(foot)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// newerIndex raises the version that a segment's index says.
func newerIndex(object []byte) []byte {
	object = bytes.Clone(object)
	trailer := object[len(object)-16:]
	index := object[len(object)-16-int(binary.LittleEndian.Uint32(trailer)) : len(object)-16]
	copy(index, bytes.Replace(index, []byte(`"version":1`), []byte(`"version":2`), 1))
	binary.LittleEndian.PutUint32(trailer[4:], crc32.Checksum(index, crc32.MakeTable(crc32.Castagnoli)))
	return object
}

// finding is what is compared of a finding: its kind and seq, and the object by
// a short name.
type finding struct {
	kind, object string
	seq          int64
}

func findings(rep backend.Report, keys []string) (all []finding) {
	names := map[string]string{manifest.Key("log"): "manifest", manifest.Key("child"): "child"}
	for i, k := range keys {
		names[k] = fmt.Sprint("segment ", i)
	}
	for _, f := range rep.Findings {
		all = append(all, finding{f.Kind, names[f.Key], f.Seq})
	}
	return all
}

// Every kind of damage is found, and named: which object, which seq. Behind it
// verification goes on.
func TestG5VerifyFindsEveryKindOfDamage(t *testing.T) {
	cut := func(n int) func(b []byte) []byte { return func(b []byte) []byte { return b[:len(b)+n] } }
	body := func(i int, change func(b []byte) []byte) func(*testing.T, *memstore.Store, []string) {
		return func(_ *testing.T, mem *memstore.Store, keys []string) {
			mem.Replace(keys[i], change(mem.Snapshot(keys[i])[keys[i]]))
		}
	}
	forged := func(change func(r *manifest.Record)) func(*testing.T, *memstore.Store, []string) {
		return func(t *testing.T, mem *memstore.Store, _ []string) { forgeManifest(t, mem, "log", change) }
	}
	lined := func(i int, line func(seq int64, line []byte) []byte) func(*testing.T, *memstore.Store, []string) {
		return func(t *testing.T, mem *memstore.Store, keys []string) {
			object := remade(t, mem, keys[i], line, nil)
			vouch(t, mem, i, object)
			r, err := segment.OpenBytes(segment.NewCodec(), object)
			if err != nil {
				t.Fatal(err)
			}
			forgeManifest(t, mem, "log", func(rec *manifest.Record) { rec.Segments[i].Raw = r.Index().RawLength() })
		}
	}
	indexed := func(i int, change func(f *segment.Footer)) func(*testing.T, *memstore.Store, []string) {
		return func(t *testing.T, mem *memstore.Store, keys []string) {
			vouch(t, mem, i, remade(t, mem, keys[i], nil, change))
		}
	}
	for _, tc := range []struct {
		name   string
		damage func(t *testing.T, mem *memstore.Store, keys []string)
		want   []finding
	}{
		{"none", func(*testing.T, *memstore.Store, []string) {}, nil},
		{"missing", func(_ *testing.T, mem *memstore.Store, keys []string) { mem.Drop(keys[1]) }, []finding{{"missing", "segment 1", 3}}},
		{"all missing", func(_ *testing.T, mem *memstore.Store, keys []string) {
			for _, k := range keys {
				mem.Drop(k)
			}
		}, []finding{{"missing", "segment 0", 0}, {"missing", "segment 1", 3}, {"missing", "segment 2", 6}}},
		{"first byte", body(0, func(b []byte) []byte { b[0] ^= 1; return b }), []finding{{"damaged", "segment 0", 0}}},
		{"in the index", body(1, func(b []byte) []byte { b[len(b)-40] ^= 1; return b }), []finding{{"damaged", "segment 1", 3}}},
		{"shorter", body(2, cut(-1)), []finding{{"damaged", "segment 2", 6}}},
		{"longer", body(0, func(b []byte) []byte { return append(b, 0) }), []finding{{"damaged", "segment 0", 0}}},
		{"empty", body(0, func([]byte) []byte { return nil }), []finding{{"damaged", "segment 0", 0}}},
		{"swapped", func(_ *testing.T, mem *memstore.Store, keys []string) {
			a, b := mem.Snapshot(keys[0])[keys[0]], mem.Snapshot(keys[1])[keys[1]]
			mem.Replace(keys[0], b)
			mem.Replace(keys[1], a)
		}, []finding{{"damaged", "segment 0", 0}, {"damaged", "segment 1", 3}}},
		{"in one frame", func(t *testing.T, mem *memstore.Store, keys []string) {
			object := remade(t, mem, keys[1], nil, nil)
			vouch(t, mem, 1, object)
			frames, _ := framesOf(t, object)
			object[len(frames[0])+len(frames[1])/2] ^= 1
			mem.Replace(keys[1], object)
		}, []finding{{"damaged", "segment 1", 4}}},
		{"in one frame, vouched for", func(t *testing.T, mem *memstore.Store, keys []string) {
			object := remade(t, mem, keys[1], nil, nil)
			frames, _ := framesOf(t, object)
			object[len(frames[0])+len(frames[1])/2] ^= 1
			object[len(frames[0])+len(frames[1])+len(frames[2])/2] ^= 1
			vouch(t, mem, 1, object)
		}, []finding{{"damaged", "segment 1", 4}, {"damaged", "segment 1", 5}}},
		{"a newer index", func(t *testing.T, mem *memstore.Store, keys []string) {
			vouch(t, mem, 1, newerIndex(mem.Snapshot(keys[1])[keys[1]]))
		}, []finding{{"version", "segment 1", 3}}},
		{"another segment, vouched for", func(t *testing.T, mem *memstore.Store, keys []string) {
			vouch(t, mem, 1, mem.Snapshot(keys[0])[keys[0]])
		}, []finding{{"damaged", "segment 1", 3}}},
		{"a bad line", lined(0, func(seq int64, line []byte) []byte {
			if seq == 1 {
				line = line[:len(line)-5]
			}
			return line
		}), []finding{{"damaged", "segment 0", 1}}},
		{"a seq twice", lined(1, func(seq int64, line []byte) []byte {
			return bytes.Replace(line, []byte(`"seq":4`), []byte(`"seq":3`), 1)
		}), []finding{{"damaged", "segment 1", 4}}},
		{"another event", lined(1, func(seq int64, line []byte) []byte {
			return bytes.Replace(line, []byte(`"note"`), []byte(`"nota"`), 1)
		}), []finding{
			{"state", "segment 1", 5}, {"state", "segment 1", 5}, {"state", "segment 2", 8}, {"state", "segment 2", 8},
			{"state", "manifest", 10}, {"root", "manifest", 10},
		}},
		{"the index has another boundary", indexed(1, func(f *segment.Footer) { f.State.Boundary.Seq = 4 }), []finding{{"state", "segment 1", 5}}},
		{"the index has another activity", indexed(2, func(f *segment.Footer) { *f.State.Activity = 13 }), []finding{{"state", "segment 2", 8}}},
		{"the index has another turn", indexed(2, func(f *segment.Footer) { f.State.Turn.Calls = nil }), []finding{{"state", "segment 2", 8}}},
		{"the index is of another log", indexed(0, func(f *segment.Footer) { f.Log = "other" }), []finding{{"state", "segment 0", 0}}},
		{"the index has another header", indexed(0, func(f *segment.Footer) { f.Header = nil }), []finding{{"state", "segment 0", 0}}},
		{"raw", forged(func(r *manifest.Record) { r.Segments[1].Raw++ }), []finding{{"state", "segment 1", 3}}},
		{"types", forged(func(r *manifest.Record) {
			e := r.Content.Types.Entries
			e[1].First, e[1].Last = 2, 2
		}), []finding{{"state", "manifest", 10}}},
		{"last time", forged(func(r *manifest.Record) { *r.Content.LastTime-- }), []finding{{"state", "manifest", 10}}},
		{"greatest time", forged(func(r *manifest.Record) { *r.Content.MaxTime++ }), []finding{{"state", "manifest", 10}}},
		{"activity", forged(func(r *manifest.Record) { r.Content.Activity = nil }), []finding{{"state", "manifest", 10}}},
		{"boundary", forged(func(r *manifest.Record) { r.Content.Boundary.Time++ }), []finding{{"state", "manifest", 10}}},
		{"no boundary", forged(func(r *manifest.Record) { r.Content.Boundary = nil }), []finding{{"state", "manifest", 10}}},
		{"turn", forged(func(r *manifest.Record) { r.Content.Turn.Turn = 3 }), []finding{{"state", "manifest", 10}}},
		{"call", forged(func(r *manifest.Record) { r.Content.Turn.Calls[0].Seq = nil }), []finding{{"state", "manifest", 10}}},
		{"root", forged(func(r *manifest.Record) { r.Content.Tree.Range[0][5] ^= 1 }), []finding{{"root", "manifest", 10}}},
		{"two things at a time", func(t *testing.T, mem *memstore.Store, keys []string) {
			mem.Drop(keys[0])
			forgeManifest(t, mem, "log", func(r *manifest.Record) { r.Content.Boundary.Time++; r.Content.Tree.Range[0][5] ^= 1 })
		}, []finding{{"missing", "segment 0", 0}, {"state", "manifest", 10}, {"root", "manifest", 10}}},
		{"an index behind a gap", func(t *testing.T, mem *memstore.Store, keys []string) {
			mem.Drop(keys[0])
			vouch(t, mem, 2, remade(t, mem, keys[2], nil, func(f *segment.Footer) { f.State.Boundary.Seq = 4 }))
		}, []finding{{"missing", "segment 0", 0}, {"state", "segment 2", 8}}},
		{"nothing but the tail", func(t *testing.T, mem *memstore.Store, keys []string) {
			mem.Drop(keys[2])
			forgeManifest(t, mem, "log", func(r *manifest.Record) { r.Content.Boundary.Time++ }) // which nobody can tell then
		}, []finding{{"missing", "segment 2", 6}}},
		{"the tail is no frame", forged(func(r *manifest.Record) { r.Tail = []byte("nothing") }), []finding{{"damaged", "manifest", 9}}},
		{"the tail has an event more", func(t *testing.T, mem *memstore.Store, _ []string) {
			frame, err := segment.NewCodec().EncodeFrame(nil, []byte("{}\n{}\n{}\n"), segment.LevelFast)
			if err != nil {
				t.Fatal(err)
			}
			forgeManifest(t, mem, "log", func(r *manifest.Record) { r.Tail = frame })
		}, []finding{{"damaged", "manifest", 9}}},
		{"bad lines in the tail", func(t *testing.T, mem *memstore.Store, _ []string) {
			frame, err := segment.NewCodec().EncodeFrame(nil, []byte("{}\n{}\n"), segment.LevelFast)
			if err != nil {
				t.Fatal(err)
			}
			forgeManifest(t, mem, "log", func(r *manifest.Record) { r.Tail = frame })
		}, []finding{{"damaged", "manifest", 9}, {"damaged", "manifest", 10}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem, keys := threeSegments(t)
			whole := root(t, backend.NewReader(mem, backend.Options{}), "log")
			tc.damage(t, mem, keys)
			store := tracestore.New(mem, tracestore.Options{})
			r := backend.NewReader(reading{store}, backend.Options{Prefetch: 1})
			rep, err := r.Verify(t.Context(), "log", backend.VerifyOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, findings(rep, keys), cmp.AllowUnexported(finding{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s\n%+v", diff, rep.Findings)
			}
			if rep.OK() != (len(tc.want) == 0) || rep.Segments != 3 || rep.Size != 11 {
				t.Errorf("%+v", rep)
			}
			bad := make(map[string]bool) // segments with damage; else what is derived is another
			for _, f := range tc.want {
				switch f.kind {
				case "missing", "denied", "damaged", "version":
					bad[f.object] = f.object != "manifest"
				}
			}
			intact := 3
			for _, is := range bad {
				if is {
					intact--
				}
			}
			if want := fmt.Sprintf(" in %d of 3 segments", intact); rep.Intact != intact || intact < 3 && !strings.Contains(rep.Checked[0], want) {
				t.Errorf("%d segments are intact, want %d; %q", rep.Intact, intact, rep.Checked)
			}
			if rep.OK() && (rep.Events != 11 || rep.Root != whole.Root) {
				t.Errorf("%+v", rep)
			}
			if c := store.Counts(); c.Get > 6 || c.Put+c.List+c.Delete+c.Head > 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}

// Of many bad events in one object some are named, the rest are counted.
func TestVerifyOfManyBadEvents(t *testing.T) {
	mem := memstore.New(t)
	written(t, backend.New(mem, backend.Options{}), "log", nil, brief(strings.Fields(strings.Repeat("note ", 40))...))
	frame, err := segment.NewCodec().EncodeFrame(nil, bytes.Repeat([]byte("{}\n"), 40), segment.LevelFast)
	if err != nil {
		t.Fatal(err)
	}
	forgeManifest(t, mem, "log", func(r *manifest.Record) { r.Tail = frame })
	rep, err := backend.NewReader(mem, backend.Options{}).Verify(t.Context(), "log", backend.VerifyOptions{})
	if n := len(rep.Findings); err != nil || n != 11 || rep.Findings[9].Seq != 9 || rep.Findings[10].Detail != "and 30 more of its events" {
		t.Errorf("%+v, %v", rep, err)
	}
}

// What leaves nothing to verify is an error.
func TestVerifyWithoutAManifest(t *testing.T) {
	mem, _ := threeSegments(t)
	damagedBody := mem.Snapshot(manifest.Key("log"))[manifest.Key("log")]
	damagedBody[len(damagedBody)/2] ^= 1
	denied := faultstore.New(mem, faultstore.Rule{Fault: faultstore.Denied()})
	for name, tc := range map[string]struct {
		store objstore.Reader
		id    string
		want  error
	}{
		"missing": {mem, "other", backend.ErrNotFound},
		"denied":  {denied, "log", backend.ErrDenied},
		"damaged": {restore(t, map[string][]byte{manifest.Key("log"): damagedBody}), "log", backend.ErrCorrupt},
	} {
		rep, err := backend.NewReader(tc.store, backend.Options{}).Verify(t.Context(), tc.id, backend.VerifyOptions{})
		var oe *backend.OpError
		if !errors.Is(err, tc.want) || !errors.As(err, &oe) || oe.Hint == "" || rep.Log != "" {
			t.Errorf("%s: %+v, %v", name, rep, err)
		}
		if name == "denied" && !strings.Contains(oe.Hint, "does not exist") { // both readings
			t.Error(oe.Hint)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	all := faultstore.New(mem, faultstore.Rule{Match: faultstore.Prefix("segments/"), Fault: faultstore.Before(cancel)})
	if _, err := backend.NewReader(all, backend.Options{}).Verify(ctx, "log", backend.VerifyOptions{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A segment that is denied is missing or denied: S3 answers alike where the
// bucket may not be listed.
func TestVerifyDenied(t *testing.T) {
	mem, keys := threeSegments(t)
	all := faultstore.New(mem, faultstore.Rule{Match: faultstore.Key(keys[1]), Fault: faultstore.Denied()})
	rep, err := backend.NewReader(all, backend.Options{}).Verify(t.Context(), "log", backend.VerifyOptions{})
	if diff := cmp.Diff([]finding{{"denied", "segment 1", 3}}, findings(rep, keys), cmp.AllowUnexported(finding{})); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if d := rep.Findings[0].Detail; !strings.Contains(d, "may not read") || !strings.Contains(d, "missing") {
		t.Error(d)
	}
	// A store that does not answer is no finding, and hides none.
	mem.Drop(keys[2])
	passing := faultstore.New(mem, faultstore.Rule{Match: faultstore.Key(keys[1]), Nth: 1, Fault: faultstore.Unavailable()})
	rep, err = backend.NewReader(passing, backend.Options{}).Verify(t.Context(), "log", backend.VerifyOptions{})
	if !errors.Is(err, objstore.ErrUndecided) || !strings.Contains(err.Error(), keys[1]) || len(rep.Findings) != 1 || rep.Findings[0].Key != keys[2] {
		t.Errorf("%+v, %v", rep, err)
	}
}

// Segments that are replaced while they are verified are no finding; one that is
// not there, while its log goes on, is found at once.
func TestVerifyOfALiveLog(t *testing.T) {
	for n := 1; n <= 4; n++ {
		mem, _ := threeSegments(t)
		all := faultstore.New(mem, faultstore.Rule{Nth: n, Fault: faultstore.Before(func() { rewrite(t, mem, "log") })})
		rep, err := backend.NewReader(all, backend.Options{Prefetch: 1}).Verify(t.Context(), "log", backend.VerifyOptions{})
		if err != nil || !rep.OK() || rep.Events != 11 {
			t.Errorf("replaced before call %d: %+v, %v", n, rep, err)
		}
	}
	mem, keys := threeSegments(t)
	mem.Drop(keys[1])
	goesOn := faultstore.New(mem, faultstore.Rule{Match: faultstore.Prefix("segments/"), Fault: faultstore.Before(func() { maintain(t, mem, "log") })})
	store := tracestore.New(goesOn, tracestore.Options{})
	rep, err := backend.NewReader(store, backend.Options{Prefetch: 1}).Verify(t.Context(), "log", backend.VerifyOptions{})
	if err != nil || len(rep.Findings) != 1 || rep.Findings[0].Kind != "missing" || store.Counts().Get != 5 {
		t.Errorf("%+v, %v after %d GET", rep, err, store.Counts().Get)
	}
}
