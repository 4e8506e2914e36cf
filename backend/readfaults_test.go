package backend_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
)

// longLog is a log of three segments, one of which is read by ranges, and a
// tail: its objects and its lines.
func longLog(t *testing.T) (objects map[string][]byte, lines []string) {
	mem := memstore.New(t)
	b := backend.New(mem, backend.Options{Foreground: true})
	for i, size := range []int{3, 40, 3} {
		l, err := b.Create("log", backend.CreateOptions{OrAdopt: true})
		if err != nil {
			t.Fatal(err)
		}
		var batch [][]byte
		for k := range size {
			batch = append(batch, tagged(fmt.Sprintf("%d.%d", i, k), 12<<10))
		}
		if _, err := l.Append(t.Context(), batch, backend.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(t.Context(), backend.CloseOptions{Seal: true}); err != nil {
			t.Fatal(err)
		}
	}
	l := adopt(t, b, "log")
	for i := range 3 {
		appendOne(t, l, tagged(fmt.Sprint("tail", i), 10))
	}
	closeLog(t, l)
	info, err := b.Info(t.Context(), "log")
	if err != nil || len(info.Segments) != 3 || info.Tail != 3 {
		t.Fatalf("%+v, %v", info, err)
	}
	return mem.Snapshot(""), read(t, b.Reader, "log", 0)
}

// readAll collects lines until an error.
func readAll(ctx context.Context, r *backend.Reader, id string, from int64) (lines []string, err error) {
	for ev, err := range r.Events(ctx, id, backend.ReadOptions{From: from}) {
		if err != nil {
			return lines, err
		}
		lines = append(lines, string(ev.Line))
	}
	return lines, nil
}

func edit(f func(o *objstore.Object)) faultstore.Fault { return faultstore.Edit(f) }

// A read whose requests fail yields an error after a right beginning, never a
// log that is short.
func TestG5ReaderFaultMatrix(t *testing.T) {
	objects, lines := longLog(t)
	cut := func(n int) faultstore.Fault {
		return edit(func(o *objstore.Object) { o.Body = o.Body[:max(0, len(o.Body)-n)] })
	}
	flip := func(where float64) faultstore.Fault {
		return edit(func(o *objstore.Object) { o.Body[int(where*float64(len(o.Body)-1))] ^= 0x10 })
	}
	faults := []struct {
		name  string
		fault faultstore.Fault
		want  error // nil: any
	}{
		{"unavailable", faultstore.Unavailable(), objstore.ErrUndecided},
		{"throttled", faultstore.Throttled(), objstore.ErrThrottled},
		{"denied", faultstore.Denied(), backend.ErrDenied},
		{"refused", faultstore.Refused(), objstore.ErrRefused},
		{"lost reply", faultstore.LostReply(), objstore.ErrUndecided},
		{"late", faultstore.Late(), objstore.ErrUndecided},
		{"duplicate", faultstore.Duplicate(), nil},
		{"missing", faultstore.Fail(objstore.ErrNotExist), nil},
		{"out of range", faultstore.Fail(objstore.ErrRange), nil},
		{"too large", faultstore.Fail(objstore.ErrTooLarge), nil},
		{"cut by a byte", cut(1), backend.ErrCorrupt},
		{"cut by much", cut(300), backend.ErrCorrupt},
		{"empty", cut(1 << 30), backend.ErrCorrupt},
		{"flipped at the beginning", flip(0.001), backend.ErrCorrupt},
		{"flipped in the middle", flip(0.5), backend.ErrCorrupt},
		{"flipped at the end", flip(1), backend.ErrCorrupt},
	}
	for _, from := range []int64{0, 20, 44, 46, 48} {
		for _, f := range faults {
			for n := 1; n <= 8; n++ {
				for _, times := range []int{1, -1} {
					synctest.Test(t, func(t *testing.T) {
						store := faultstore.New(restore(t, objects))
						struck := store.Inject(faultstore.Rule{Nth: n, Times: times, Fault: f.fault})
						got, err := readAll(t.Context(), backend.NewReader(store, backend.Options{}), "log", from)
						what := fmt.Sprintf("%s from %d at call %d, %d times", f.name, from, n, times)
						if !slices.Equal(got, lines[from:int(from)+len(got)]) {
							t.Errorf("%s: other events", what)
						}
						if err == nil && len(got) != len(lines)-int(from) {
							t.Errorf("%s: %d events without an error", what, len(got))
						}
						if err != nil && struck.Hits() == 0 {
							t.Errorf("%s: %v", what, err)
						}
						if err != nil && f.want != nil && !errors.Is(err, f.want) {
							t.Errorf("%s: %v", what, err)
						}
						if oe, ok := errors.AsType[*backend.OpError](err); err != nil && (!ok || oe.Log != "log" || oe.Key == "") {
							t.Errorf("%s: %v names no object", what, err)
						}
					})
				}
			}
		}
	}
}

// An object that is damaged on the store is named, with the seq; what is before
// it is read.
func TestG5DamagedSegmentsAreNamed(t *testing.T) {
	objects, lines := longLog(t)
	info, err := backend.NewReader(restore(t, objects), backend.Options{}).Info(t.Context(), "log")
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, s := range info.Segments {
		keys = append(keys, manifest.SegmentKey("log", s.Name))
	}
	firsts := []int64{0, 3, 43}
	damages := map[string]func([]byte) []byte{
		"removed":           func([]byte) []byte { return nil },
		"truncated by 1":    func(b []byte) []byte { return b[:len(b)-1] },
		"truncated by half": func(b []byte) []byte { return b[:len(b)/2] },
		"a byte more":       func(b []byte) []byte { return append(slices.Clone(b), 0) },
		"four bytes more":   func(b []byte) []byte { return append(slices.Clone(b), 0, 0, 0, 0) },
		"text behind":       func(b []byte) []byte { return append(slices.Clone(b), "garbage"...) },
		"flipped":           func(b []byte) []byte { b = slices.Clone(b); b[len(b)/3] ^= 1; return b },
		"empty":             func([]byte) []byte { return []byte{} },
		"another segment":   func([]byte) []byte { return objects[keys[1]] },
	}
	for name, damage := range damages {
		for i, key := range keys {
			t.Run(fmt.Sprint(name, " ", i), func(t *testing.T) {
				want := backend.ErrCorrupt
				mem := restore(nil, objects)
				body := damage(objects[key])
				if body == nil {
					want = backend.ErrMissing
					mem.Drop(key)
				} else {
					mem.Replace(key, body)
				}
				if i == 1 && name == "another segment" {
					t.Skip("it is itself")
				}
				before := mem.Snapshot("")
				got, err := readAll(t.Context(), backend.NewReader(mem, backend.Options{}), "log", 0)
				if !errors.Is(err, want) || !slices.Equal(got, lines[:firsts[i]]) {
					t.Fatalf("%d events, %v", len(got), err)
				}
				oe, ok := errors.AsType[*backend.OpError](err)
				if !ok || oe.Key != key || oe.Seq != firsts[i] || oe.Hint == "" {
					t.Errorf("%+v", oe)
				}
				// What lies behind the damage can still be read.
				if got, err := readAll(t.Context(), backend.NewReader(mem, backend.Options{}), "log", 46); err != nil || !slices.Equal(got, lines[46:]) {
					t.Errorf("%d events, %v", len(got), err)
				}
				if after := mem.Snapshot(""); len(after) != len(before) {
					t.Error("a reader changed the store")
				}
			})
		}
	}
}

// In a segment that is read by ranges damage is found where it matters.
func TestG5DamageInARangeRead(t *testing.T) {
	objects, lines := longLog(t)
	info, err := backend.NewReader(restore(t, objects), backend.Options{}).Info(t.Context(), "log")
	if err != nil {
		t.Fatal(err)
	}
	large := info.Segments[1]
	key := manifest.SegmentKey("log", large.Name)
	for off := 0; off < len(objects[key]); off += len(objects[key]) / 40 {
		mem := restore(nil, objects)
		body := slices.Clone(objects[key])
		body[off] ^= 0x20
		mem.Replace(key, body)
		got, err := readAll(t.Context(), backend.NewReader(mem, backend.Options{}), "log", 30)
		if !slices.Equal(got, lines[30:30+len(got)]) {
			t.Errorf("flipped at %d: other events", off)
		}
		if err == nil && len(got) != len(lines)-30 {
			t.Errorf("flipped at %d: %d events without an error", off, len(got))
		}
		if err != nil && (!errors.Is(err, backend.ErrCorrupt) || !strings.Contains(err.Error(), key)) {
			t.Errorf("flipped at %d: %v", off, err)
		}
	}
}

// A segment that is denied is neither missing nor damaged.
func TestA15DeniedSegment(t *testing.T) {
	objects, lines := longLog(t)
	store := faultstore.New(restore(t, objects), faultstore.Rule{
		Match: faultstore.And(faultstore.Op("Get"), faultstore.Prefix("segments/log/0000000000000003")), Fault: faultstore.Denied(),
	})
	got, err := readAll(t.Context(), backend.NewReader(store, backend.Options{}), "log", 0)
	if !errors.Is(err, backend.ErrDenied) || errors.Is(err, backend.ErrMissing) || errors.Is(err, backend.ErrCorrupt) || !slices.Equal(got, lines[:3]) {
		t.Errorf("%d events, %v", len(got), err)
	}
	oe, _ := errors.AsType[*backend.OpError](err)
	if oe == nil || !strings.HasPrefix(oe.Key, "segments/log/0000000000000003") || oe.Seq != 3 || oe.Hint == "" {
		t.Errorf("%+v", oe)
	}
}
