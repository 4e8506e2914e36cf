package backend_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
)

// doubtful makes an append whose outcome is unknown: its requests are held by
// the injection.
func doubtful(t *testing.T, mem *memstore.Store, kind string, opt backend.AppendOptions) (token string, late *faultstore.Injection) {
	t.Helper()
	store := faultstore.New(mem)
	b := backend.New(store, backend.Options{CommitTimeout: time.Second})
	var l *backend.Log
	if kind == "create" {
		l = create(t, b, "log")
	} else {
		seed := create(t, backend.New(mem, backend.Options{}), "log")
		appendOne(t, seed, event(0))
		closeLog(t, seed)
		l = adopt(t, b, "log")
		if kind == "append" {
			appendOne(t, l, event(1))
		}
	}
	late = store.Inject(faultstore.Rule{Match: manifestPuts, Fault: faultstore.Late()})
	_, err := l.Append(t.Context(), [][]byte{tagged("doubt", 1)}, opt)
	if token = backend.Token(err); token == "" {
		t.Fatal(err)
	}
	_ = l.Close(t.Context(), backend.CloseOptions{})
	return token, late
}

// Position keeps the answer through 64 takeovers, and nobody guesses after that.
func TestDecideAfterManyTakeovers(t *testing.T) {
	for _, kind := range []string{"append", "adopt", "create"} {
		for _, landed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/landed=%v", kind, landed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					mem := memstore.New(t)
					token, late := doubtful(t, mem, kind, backend.AppendOptions{})
					if landed {
						late.Release(t.Context())
					} else if kind == "create" {
						l := create(t, backend.New(mem, backend.Options{}), "log")
						appendOne(t, l, event(0))
						closeLog(t, l)
					}
					trace := tracestore.New(mem, tracestore.Options{})
					b := backend.New(trace, backend.Options{})
					c := newClaims()
					for i := range 70 {
						takeOver(t, mem, "log", fmt.Sprint("t", i), c)
						before := trace.Counts()
						d, err := b.Decide(t.Context(), token)
						if n := trace.Counts().Sub(before).Put; n != 0 {
							t.Errorf("after %d takeovers: %d PUTs", i+1, n)
						}
						own := kind == "adopt" && landed // its own takeover takes a place of the 64
						switch known := kind == "create" || i < 63 || i == 63 && !own; {
						case known && (err != nil || d.Committed != landed):
							t.Errorf("after %d takeovers: %+v, %v", i+1, d, err)
						case !known && (!errors.Is(err, backend.ErrOutcomeUnknown) || d.Committed):
							t.Errorf("after %d takeovers: %+v, %v", i+1, d, err)
						}
					}
					late.Release(t.Context())
				})
			})
		}
	}
}

// A log whose manifest was removed is not begun again by a question.
func TestDecideOnNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		token, _ := doubtful(t, mem, "append", backend.AppendOptions{})
		mem.Drop(manifest.Key("log"))
		if d, err := backend.New(mem, backend.Options{}).Decide(t.Context(), token); !errors.Is(err, backend.ErrNotFound) || d.Committed {
			t.Errorf("%+v, %v", d, err)
		}
		if n := len(mem.Snapshot("")); n != 0 {
			t.Errorf("%d objects", n)
		}
	})
}

// A create that was settled leaves a void: no log to readers, and an id that can
// be used.
func TestVoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		token, late := doubtful(t, mem, "create", backend.AppendOptions{})
		b := backend.New(mem, backend.Options{})
		for range 2 {
			if d, err := b.Decide(t.Context(), token); err != nil || d.Committed {
				t.Errorf("%+v, %v", d, err)
			}
		}
		for _, err := range late.Release(t.Context()) {
			if !errors.Is(err, objstore.ErrPrecondition) {
				t.Errorf("the late create: %v", err)
			}
		}
		_, infoErr := b.Info(t.Context(), "log")
		_, readErr := readAll(t.Context(), b.Reader, "log", 0)
		_, adoptErr := b.Adopt(t.Context(), "log", backend.AdoptOptions{})
		for name, err := range map[string]error{"info": infoErr, "read": readErr, "adopt": adoptErr} {
			if !errors.Is(err, backend.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, by := range []backend.Order{backend.ByActivity, backend.ByModified, backend.ByName} {
			if ids := listed(t, b.Reader, backend.ListOptions{By: by, Deleted: true}); len(ids) != 0 {
				t.Errorf("%q", ids)
			}
		}
		l := create(t, b, "log")
		if r := appendOne(t, l, event(0)); r.First != 0 {
			t.Errorf("%+v", r)
		}
		closeLog(t, l)
		if info, err := b.Info(t.Context(), "log"); err != nil || info.Epoch != 2 || info.Generation != 1 || info.Next != 1 {
			t.Errorf("%+v, %v", info, err)
		}
		if d, err := b.Decide(t.Context(), token); err != nil || d.Committed {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// An import onto a void, and one onto a tombstone.
func TestImportOntoVoidAndTombstone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		token, _ := doubtful(t, mem, "create", backend.AppendOptions{})
		b := backend.New(mem, backend.Options{})
		if _, err := b.Decide(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		session := slices.Values([][]byte{event(0), event(1)})
		imported := func() (backend.Receipt, error) {
			return b.Import(t.Context(), "log", func(yield func([]byte, error) bool) {
				for line := range session {
					if !yield(line, nil) {
						return
					}
				}
			}, backend.ImportOptions{})
		}
		if r, err := imported(); err != nil || r.Count != 2 {
			t.Errorf("%+v, %v", r, err)
		}
		commitBy(t, mem, "log", func(base *manifest.Record, w manifest.Writer) (*manifest.Draft, error) {
			d, err := manifest.TakeOver(base, w, manifest.KindDelete, base.Commit.At)
			if err == nil {
				d.Delete()
			}
			return d, err
		})
		if _, err := imported(); !errors.Is(err, backend.ErrDeleted) {
			t.Error(err)
		}
		if info, err := b.Info(t.Context(), "log"); err != nil || info.State != manifest.StateDeleted || info.Tail != 0 || info.Next != 2 {
			t.Errorf("%+v, %v", info, err)
		}
		if _, err := readAll(t.Context(), b.Reader, "log", 0); !errors.Is(err, backend.ErrDeleted) {
			t.Error(err)
		}
	})
}

// A keyed append that a repetition made is committed, with that receipt.
func TestDecideFindsTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		key := backend.AppendOptions{Key: "k"}
		token, late := doubtful(t, mem, "append", key)
		b := backend.New(mem, backend.Options{})
		l := adopt(t, b, "log")
		appendOne(t, l, event(5))
		again, err := l.Append(t.Context(), [][]byte{tagged("doubt", 1)}, key)
		if err != nil {
			t.Fatal(err)
		}
		late.Release(t.Context())
		d, err := b.Decide(t.Context(), token)
		if err != nil || !d.Committed || !d.Duplicate || d.First != again.First || d.Count != 1 {
			t.Errorf("%+v, %v", d, err)
		}
		closeLog(t, l)
		if n := len(read(t, b.Reader, "log", 0)); n != 4 {
			t.Errorf("%d events", n)
		}
	})
}

func TestDecideRefusesWhatIsNoToken(t *testing.T) {
	trace := tracestore.New(memstore.New(t), tracestore.Options{})
	for _, token := range []string{"", "x", "AAAA", "e30", "bnVsbA", "W10", "\x00", "../../x"} {
		if d, err := backend.New(trace, backend.Options{}).Decide(t.Context(), token); err == nil || d.Committed {
			t.Errorf("%q: %+v, %v", token, d, err)
		}
	}
	if n := trace.Counts().Requests(); n != 0 {
		t.Errorf("%d requests", n)
	}
}
