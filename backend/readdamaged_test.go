package backend_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// toldOf is what a reader was told of damage: "first-next" for events that cannot be
// read, "first" for an object that is another, and the error.
type toldOf struct {
	Where string
	Seq   int64
	Is    error
}

// readAround reads all that can be read from seq from to seq to.
func readAround(t *testing.T, r *backend.Reader, from, to int64) (seqs []int64, damage []toldOf, err error) {
	t.Helper()
	opt := backend.ReadOptions{From: from, To: &to, Damaged: func(first, next int64, err error) {
		oe, ok := errors.AsType[*backend.OpError](err)
		if !ok || oe.Key == "" || oe.Log != "log" {
			t.Errorf("%v names no object", err)
			return
		}
		d := toldOf{Where: fmt.Sprintf("%d-%d", first, next), Seq: oe.Seq}
		if first == next {
			d.Where = fmt.Sprint(first)
		}
		for _, is := range []error{backend.ErrCorrupt, backend.ErrMissing, backend.ErrDenied} {
			if errors.Is(err, is) {
				d.Is = is
			}
		}
		damage = append(damage, d)
	}}
	for ev, err := range r.Events(t.Context(), "log", opt) {
		if err != nil {
			return seqs, damage, err
		}
		if !strings.Contains(string(ev.Line), fmt.Sprintf(`"seq":%d,`, ev.Seq)) {
			t.Errorf("seq %d has the line %s", ev.Seq, ev.Line)
		}
		seqs = append(seqs, ev.Seq)
	}
	return seqs, damage, nil
}

func seqs(ranges ...int64) (all []int64) {
	for i := 0; i < len(ranges); i += 2 {
		for s := ranges[i]; s < ranges[i+1]; s++ {
			all = append(all, s)
		}
	}
	return all
}

// Whoever asks for what is left of a damaged log gets every event of an intact
// frame, and is told of every other one.
func TestReadingAroundDamage(t *testing.T) {
	base, keys := threeSegments(t) // seqs 0 to 8 in them, 9 and 10 in the tail
	for i, key := range keys {
		vouch(t, base, i, remade(t, base, key, nil, nil)) // a frame for each event
	}
	frame := func(mem *memstore.Store, i, n int) segment.Frame {
		r, err := segment.OpenBytes(segment.NewCodec(), mem.Snapshot(keys[i])[keys[i]])
		if err != nil {
			t.Fatal(err)
		}
		return r.Index().Frames[n]
	}
	flip := func(mem *memstore.Store, i int, at int64) {
		body := slices.Clone(mem.Snapshot(keys[i])[keys[i]])
		body[at] ^= 0x40
		mem.Replace(keys[i], body)
	}
	for _, tc := range []struct {
		name     string
		damage   func(mem *memstore.Store)
		from, to int64
		want     []int64
		told     []toldOf
	}{
		{"nothing", func(*memstore.Store) {}, 0, 99, seqs(0, 11), nil},
		{"a frame in the middle", func(mem *memstore.Store) { flip(mem, 1, frame(mem, 1, 1).Offset+8) }, 0, 99, seqs(0, 4, 5, 11),
			[]toldOf{{"3", 3, backend.ErrCorrupt}, {"4-5", 4, backend.ErrCorrupt}}},
		{"two frames side by side are one gap", func(mem *memstore.Store) {
			flip(mem, 0, frame(mem, 0, 1).Offset+8)
			flip(mem, 0, frame(mem, 0, 2).Offset+8)
		}, 0, 99, seqs(0, 1, 3, 11), []toldOf{{"0", 0, backend.ErrCorrupt}, {"1-3", 1, backend.ErrCorrupt}}},
		{"only what is asked for", func(mem *memstore.Store) {
			flip(mem, 1, frame(mem, 1, 1).Offset+8)
			mem.Drop(keys[2])
		}, 4, 6, seqs(5, 6), []toldOf{{"4", 4, backend.ErrCorrupt}, {"4-5", 4, backend.ErrCorrupt}, {"6-7", 6, backend.ErrMissing}}},
		{"an object that is another and reads well", func(mem *memstore.Store) {
			mem.Replace(keys[0], remade(t, mem, keys[0], nil, func(f *segment.Footer) { f.Nonce = strings.Repeat("a", 16) }))
		}, 0, 99, seqs(0, 11), []toldOf{{"0", 0, backend.ErrCorrupt}}},
		{"an index", func(mem *memstore.Store) { flip(mem, 1, int64(len(mem.Snapshot(keys[1])[keys[1]])-20)) }, 0, 99, seqs(0, 3, 6, 11),
			[]toldOf{{"3-6", 3, backend.ErrCorrupt}}},
		{"a part of an object", func(mem *memstore.Store) { mem.Replace(keys[1], mem.Snapshot(keys[1])[keys[1]][:40]) }, 0, 99, seqs(0, 3, 6, 11),
			[]toldOf{{"3-6", 3, backend.ErrCorrupt}}},
		{"objects that are not there", func(mem *memstore.Store) { mem.Drop(keys[0]); mem.Drop(keys[2]) }, 0, 99, seqs(3, 6, 9, 11),
			[]toldOf{{"0-3", 0, backend.ErrMissing}, {"6-9", 6, backend.ErrMissing}}},
		{"the tail", func(mem *memstore.Store) {
			forgeManifest(t, mem, "log", func(r *manifest.Record) {
				r.Tail = slices.Clone(r.Tail)
				r.Tail[len(r.Tail)/2] ^= 0x40
			})
		}, 0, 99, seqs(0, 9), []toldOf{{"9-11", 9, backend.ErrCorrupt}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem := memstore.New(t)
			for key, body := range base.Snapshot("") {
				mem.Replace(key, body)
			}
			tc.damage(mem)
			got, damage, err := readAround(t, backend.NewReader(mem, backend.Options{}), tc.from, tc.to)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("seqs (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tc.told, damage, cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) })); d != "" {
				t.Errorf("told (-want +got):\n%s", d)
			}
		})
	}
}

// What says nothing about the log ends such a read as it ends any other.
func TestReadingAroundDamageEndsWhereTheStoreDoesNotAnswer(t *testing.T) {
	mem, keys := threeSegments(t)
	mem.Drop(keys[0])
	for n := 1; n <= 4; n++ { // the manifest, a segment, …
		store := faultstore.New(mem, faultstore.Rule{Nth: n, Times: -1, Fault: faultstore.Unavailable()})
		got, _, err := readAround(t, backend.NewReader(store, backend.Options{}), 0, 99)
		if !errors.Is(err, objstore.ErrUndecided) {
			t.Errorf("from request %d on: %v, %v", n, got, err)
		}
	}
}

// It stops when its consumer has enough, inside a damaged object, too.
func TestReadingAroundDamageStops(t *testing.T) {
	mem, keys := threeSegments(t)
	mem.Replace(keys[0], remade(t, mem, keys[0], nil, nil))
	n := 0
	for _, err := range backend.NewReader(mem, backend.Options{}).Events(t.Context(), "log", backend.ReadOptions{Damaged: func(int64, int64, error) {}}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d events", n)
	}
}
