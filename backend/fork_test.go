package backend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

// forked is a fork that must succeed, let go at once.
func forked(t testing.TB, b *backend.Backend, parent, child string, opt backend.ForkOptions) backend.Receipt {
	t.Helper()
	opt.Release = true
	l, r, err := b.Fork(t.Context(), parent, child, opt)
	if err != nil || l != nil {
		t.Fatalf("fork of %s to %s: %v", parent, child, err)
	}
	return r
}

// Where a fork may be cut, and what it then has.
func TestForkCuts(t *testing.T) {
	events := brief("note", `turn/start {"turn":1}`, "note", `turn/end {"turn":1}`, mark, "note", `turn/start {"turn":2}`, "note")
	b := backend.New(memstore.New(t), backend.Options{})
	written(t, b, "log", nil, events)
	written(t, b, "notes", nil, brief("note", "note"))
	written(t, b, "ended", nil, events[:5])
	turn := func(n int64) backend.ForkOptions { return backend.ForkOptions{At: &n} }
	for i, tc := range []struct {
		parent string
		opt    backend.ForkOptions
		next   int64 // of the child
		err    error
	}{
		{"log", turn(0), 2, nil},
		{"log", turn(1), 0, backend.ErrOpenTurn},
		{"log", turn(2), 0, backend.ErrOpenTurn},
		{"log", turn(3), 5, nil},
		{"log", turn(4), 5, nil}, // ends in a boundary already
		{"log", turn(5), 7, nil},
		{"log", turn(6), 0, backend.ErrOpenTurn},
		{"log", turn(7), 0, backend.ErrOpenTurn},
		{"log", turn(8), 0, backend.ErrSeqMismatch},
		{"log", turn(-1), 0, backend.ErrSeqMismatch},
		{"log", backend.ForkOptions{}, 0, backend.ErrOpenTurn},
		{"log", backend.ForkOptions{Clip: true}, 5, nil},
		{"notes", backend.ForkOptions{}, 3, nil},
		{"notes", backend.ForkOptions{Clip: true}, 0, backend.ErrOpenTurn},
		{"ended", backend.ForkOptions{}, 5, nil},
		{"missing", backend.ForkOptions{}, 0, backend.ErrNotFound},
	} {
		child := fmt.Sprintf("child %d", i)
		l, r, err := b.Fork(t.Context(), tc.parent, child, tc.opt)
		if !errors.Is(err, tc.err) || r.Next != tc.next || r.Count != tc.next {
			t.Errorf("%d: %+v, %v", i, r, err)
		}
		if err != nil {
			if _, err := b.Info(t.Context(), child); !errors.Is(err, backend.ErrNotFound) || l != nil {
				t.Errorf("%d: there is a child: %v", i, err)
			}
			continue
		}
		if v, next, err := l.Check(t.Context(), compaction.Open, compaction.Close); err != nil || next != tc.next || v.Answer != seedpath.Balanced {
			t.Errorf("%d: %+v, %d, %v", i, v, next, err)
		}
		if r := appendOne(t, l, event(0)); r.First != tc.next || r.Generation != 1 {
			t.Errorf("%d: %+v", i, r)
		}
		closeLog(t, l)
		got := read(t, b.Reader, child, 0)
		if n := len(got); types(t, b.Reader, child)[n-2] != mark {
			t.Errorf("%d: %q", i, got)
		}
		verifyClean(t, b.Reader, child)
	}
	if _, _, err := b.Fork(t.Context(), "log", "child", backend.ForkOptions{At: ptr(int64(0)), Clip: true}); err == nil {
		t.Error("both at a seq and clipped")
	}
	if _, _, err := b.Fork(t.Context(), "log", "log", backend.ForkOptions{}); !errors.Is(err, backend.ErrExists) {
		t.Error(err)
	}
	if _, _, err := b.Fork(t.Context(), "log", "", backend.ForkOptions{}); err == nil {
		t.Error("a child without an id")
	}
	if _, _, err := b.Fork(t.Context(), "notes", "child", backend.ForkOptions{Header: []byte("7")}); !errors.Is(err, backend.ErrInvalidEvent) {
		t.Error(err)
	}
}

// A parent without events has a child with a boundary.
func TestForkOfNoEvents(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	l := create(t, b, "log")
	if _, err := l.Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	if r := forked(t, b, "log", "child", backend.ForkOptions{}); r.Next != 1 {
		t.Errorf("%+v", r)
	}
	sameTypes(t, b.Reader, "child", mark)
	if r := forked(t, b, "child", "grandchild", backend.ForkOptions{}); r.Next != 1 {
		t.Errorf("%+v", r)
	}
	sameTypes(t, b.Reader, "grandchild", mark)
}

// The same fork again is no second writer, whatever became of the child.
func TestForkRepeated(t *testing.T) {
	mem := memstore.New(t)
	store := tracestore.New(mem, tracestore.Options{})
	b := backend.New(store, backend.Options{})
	written(t, b, "log", nil, brief("note", "note"))
	written(t, b, "other", nil, brief("note", "note"))
	first := forked(t, b, "log", "child", backend.ForkOptions{})
	again := func(opt backend.ForkOptions) {
		t.Helper()
		l, r, err := b.Fork(t.Context(), "log", "child", opt)
		want := backend.Receipt{Log: "child", First: 0, Count: first.Count, Duplicate: true}
		i := info(t, b.Reader, "child")
		want.Next, want.Revision, want.Generation = i.Next, i.Revision, i.Generation
		if l != nil || err != nil || r != want {
			t.Errorf("%+v, %v, want %+v", r, err, want)
		}
	}
	spend(t, store, "the same fork", tracestore.Counts{Get: 3, Put: 2}, func() { again(backend.ForkOptions{}) }) // with the Info above
	again(backend.ForkOptions{At: ptr(int64(1))})                                                                // the same in other words
	written(t, b, "x", nil, brief("note"))
	for range 2 { // the child goes on
		l, _ := resume(t, b, "child", backend.ResumeOptions{Claim: true})
		appendOne(t, l, event(0))
		closeLog(t, l)
		again(backend.ForkOptions{})
	}
	l := adopt(t, b, "log")
	appendOne(t, l, event(0)) // and so does the parent
	closeLog(t, l)
	again(backend.ForkOptions{At: ptr(int64(1))})
	for _, tc := range []struct {
		parent string
		opt    backend.ForkOptions
	}{{"log", backend.ForkOptions{}}, {"log", backend.ForkOptions{At: ptr(int64(0))}}, {"other", backend.ForkOptions{}}} {
		if _, _, err := b.Fork(t.Context(), tc.parent, "child", tc.opt); !errors.Is(err, backend.ErrExists) {
			t.Error(err)
		}
	}
	if _, _, err := b.Fork(t.Context(), "log", "x", backend.ForkOptions{}); !errors.Is(err, backend.ErrExists) {
		t.Error(err)
	}
	commitBy(t, mem, "child", func(base *manifest.Record, w manifest.Writer) (*manifest.Draft, error) {
		d, err := manifest.TakeOver(base, w, manifest.KindDelete, base.Commit.At)
		if err == nil {
			d.Delete()
		}
		return d, err
	})
	if _, _, err := b.Fork(t.Context(), "log", "child", backend.ForkOptions{At: ptr(int64(1))}); !errors.Is(err, backend.ErrDeleted) {
		t.Error(err)
	}
	if _, _, err := b.Fork(t.Context(), "child", "grandchild", backend.ForkOptions{}); !errors.Is(err, backend.ErrDeleted) {
		t.Error(err)
	}
}

// An id whose create was settled by a void can be forked to: on the void's
// version, in the next epoch.
func TestForkOnAVoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		b := backend.New(mem, backend.Options{})
		written(t, b, "log", nil, brief("note"))
		dark := faultstore.New(mem, faultstore.Rule{Match: faultstore.Puts("manifests/child"), Fault: faultstore.Unavailable()})
		_, _, err := backend.New(dark, backend.Options{}).Fork(t.Context(), "log", "child", backend.ForkOptions{})
		if !errors.Is(err, backend.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		d, err := b.Decide(t.Context(), backend.Token(err))
		if err != nil || d.Committed {
			t.Fatalf("%+v, %v", d, err)
		}
		l, r, err := b.Fork(t.Context(), "log", "child", backend.ForkOptions{})
		if err != nil || r.Next != 2 || r.Revision != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		closeLog(t, l)
		if i := info(t, b.Reader, "child"); i.Epoch != 2 || i.Segments[0].Name.Epoch != 2 {
			t.Errorf("%+v", i)
		}
		verifyClean(t, b.Reader, "child")
		l, r, err = b.Replay(t.Context(), "other", sequence(brief("note")), backend.ReplayOptions{})
		if err != nil || r.Next != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		closeLog(t, l)
	})
}

// Deleting everything of the parent changes nothing for the child (G6).
func TestG6ForkIsSelfContained(t *testing.T) {
	mem := memstore.New(t)
	b := backend.New(mem, backend.Options{})
	written(t, b, "log", []byte(`{"id":"log"}`), brief("note", "compaction/start", "note"))
	forked(t, b, "log", "child", backend.ForkOptions{})
	before := read(t, b.Reader, "child", 0)
	for key := range mem.Snapshot("") {
		if strings.HasPrefix(key, "segments/log/") || key == manifest.Key("log") {
			mem.Drop(key)
		}
	}
	r := backend.NewReader(mem, backend.Options{})
	if diff := cmp.Diff(before, read(t, r, "child", 0)); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	rep := verifyClean(t, r, "child")
	if s := strings.Join(rep.Checked, "\n"); !strings.Contains(s, `not the events of the parent "log", which cannot be read`) {
		t.Error(s)
	}
	l, _ := resume(t, b, "child", backend.ResumeOptions{Claim: true})
	appendOne(t, l, event(0))
	closeLog(t, l)
	verifyClean(t, r, "child")
}

// reading is a store that can only be read.
type reading struct{ objstore.Reader }

// A parent may be on another store; reading it is enough.
func TestForkFromAnotherStore(t *testing.T) {
	there, here := memstore.New(t), memstore.New(t)
	written(t, backend.New(there, backend.Options{}), "log", []byte(`{"id":"log","createdAt":3}`), brief("note", "note"))
	before := there.Snapshot("")
	b := backend.New(here, backend.Options{})
	far := backend.NewReader(reading{there}, backend.Options{})
	for range 2 {
		forked(t, b, "log", "child", backend.ForkOptions{Parent: far})
	}
	forked(t, b, "log", "log", backend.ForkOptions{Parent: far, At: ptr(int64(0))}) // the same id elsewhere
	if diff := cmp.Diff(before, there.Snapshot("")); diff != "" {
		t.Error("the parent's store was changed")
	}
	for _, id := range []string{"child", "log"} {
		rep, err := b.Verify(t.Context(), id, backend.VerifyOptions{Parent: far})
		if s := strings.Join(rep.Checked, "\n"); err != nil || !rep.OK() || !strings.Contains(s, `the parent "log" has at`) {
			t.Errorf("%+v, %v", rep, err)
		}
	}
	rep := verifyClean(t, b.Reader, "child") // here "log" is another log
	if s := strings.Join(rep.Checked, "\n"); !strings.Contains(s, "another log has this id now") {
		t.Error(s)
	}
}

// A child's header is given, or the parent's with the members that name a
// session set for the child. Its activity follows.
func TestForkHeaders(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	prompt := `user/message {"source":{"kind":"user"},"content":[]}`
	written(t, b, "quiet", []byte(`{"type":"session","id":"S","createdAt":5,"cwd":"/x","n":1.50,"s":"\ud800","id":"T"}`), brief("note", "note"))
	written(t, b, "asked", []byte(`{"createdAt":5}`), brief("note", prompt, "note"))
	written(t, b, "bare", nil, brief("note"))
	for i, tc := range []struct {
		parent   string
		opt      backend.ForkOptions
		header   string
		activity int64 // -1: none
	}{
		{"quiet", backend.ForkOptions{}, `{"type":"session","id":"child 0","createdAt":5,"cwd":"/x","n":1.50,"s":"\ud800","parentSession":"quiet","seedLength":2}`, 5},
		{"quiet", backend.ForkOptions{At: ptr(int64(0))}, `{"type":"session","id":"child 1","createdAt":5,"cwd":"/x","n":1.50,"s":"\ud800","parentSession":"quiet","seedLength":1}`, 5},
		{"quiet", backend.ForkOptions{Header: []byte(" {\"createdAt\":77,\n\"id\":\"mine\"} ")}, `{"createdAt":77,"id":"mine"}`, 77},
		{"quiet", backend.ForkOptions{Header: []byte(`{}`)}, `{}`, -1},
		{"asked", backend.ForkOptions{}, `{"createdAt":5,"id":"child 4","parentSession":"asked","seedLength":3}`, 11},
		{"asked", backend.ForkOptions{Header: []byte(`{"createdAt":77}`)}, `{"createdAt":77}`, 11},
		{"asked", backend.ForkOptions{At: ptr(int64(0)), Header: []byte(`{"createdAt":77}`)}, `{"createdAt":77}`, 77},
		{"bare", backend.ForkOptions{}, ``, -1},
		{"bare", backend.ForkOptions{Header: []byte(`{"createdAt":77}`)}, `{"createdAt":77}`, 77},
	} {
		child := fmt.Sprintf("child %d", i)
		forked(t, b, tc.parent, child, tc.opt)
		i := info(t, b.Reader, child)
		activity := int64(-1)
		if i.Content.Activity != nil {
			activity = *i.Content.Activity
		}
		if string(i.Header) != tc.header || activity != tc.activity {
			t.Errorf("%s: %s, activity %d, want %s, %d", child, i.Header, activity, tc.header, tc.activity)
		}
		verifyClean(t, b.Reader, child)
	}
	// With what a fork adds, the parent's header may be too large.
	large := fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", manifest.MaxHeader-10))
	written(t, b, "large", []byte(large), brief("note"))
	if _, _, err := b.Fork(t.Context(), "large", "child", backend.ForkOptions{}); !errors.Is(err, backend.ErrTooLarge) || !strings.Contains(err.Error(), "header") {
		t.Error(err)
	}
	forked(t, b, "large", "child", backend.ForkOptions{Header: []byte(`{}`)})
}

// Types that the parent has a place for have one in the child, so that what was
// judged from one GET still is.
func TestForkKeepsPlacesOfTypes(t *testing.T) {
	b := backend.New(memstore.New(t), backend.Options{})
	open := func(types ...string) *backend.Log {
		l, err := b.Create("log", backend.CreateOptions{Types: types})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	var many []string
	for i := range segment.MaxTypes {
		many = append(many, fmt.Sprintf("type/%d", i))
	}
	l := open("late/start", "late/end")
	if _, err := l.Append(t.Context(), brief(append(many, "late/start", "note")...), backend.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	verifyClean(t, b.Reader, "log")
	forked(t, b, "log", "child", backend.ForkOptions{})
	forked(t, b, "log", "early", backend.ForkOptions{At: ptr(int64(9))})
	for id, want := range map[string]seedpath.Answer{"log": seedpath.Live, "child": seedpath.Stale, "early": seedpath.Balanced} {
		c, err := b.Check(t.Context(), id, backend.Pair{Open: "late/start", Close: "late/end"}, backend.CheckOptions{})
		if err != nil || c.Answer != want || c.Scanned != 0 {
			t.Errorf("%s: %+v, %v", id, c, err)
		}
		verifyClean(t, b.Reader, id)
	}
}

// Trying is bounded, as for every commit, however long reading and uploading may
// take.
func TestForkEndsInTime(t *testing.T) {
	for _, tc := range []struct {
		name  string
		rule  faultstore.Rule
		least time.Duration
		most  time.Duration
		err   error // nil: it succeeds
	}{
		{"the manifest is never answered", faultstore.Rule{Match: faultstore.Puts("manifests/child"), Fault: faultstore.Unavailable()}, 50 * time.Second, 70 * time.Second, backend.ErrOutcomeUnknown},
		{"the segment is never answered", faultstore.Rule{Match: faultstore.Puts("segments/"), Fault: faultstore.Unavailable()}, 50 * time.Second, 70 * time.Second, context.DeadlineExceeded},
		{"everything is slow", faultstore.Rule{Fault: faultstore.Delay(40 * time.Second)}, 110 * time.Second, 130 * time.Second, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New(t)
				written(t, backend.New(mem, backend.Options{}), "log", nil, brief("note"))
				b := backend.New(faultstore.New(mem, tc.rule), backend.Options{})
				begin := time.Now()
				l, _, err := b.Fork(t.Context(), "log", "child", backend.ForkOptions{})
				if took := time.Since(begin); !errors.Is(err, tc.err) || took < tc.least || took > tc.most {
					t.Errorf("after %v: %v", took, err)
				}
				if l != nil {
					closeLog(t, l)
				}
				if token := backend.Token(err); token != "" {
					d, err := backend.New(mem, backend.Options{}).Decide(t.Context(), token)
					if err != nil || d.Committed {
						t.Errorf("%+v, %v", d, err)
					}
				}
			})
		})
	}
}

// A fork that is committed, and taken over before its writer hears of it, yields
// a handle that knows it.
func TestForkTakenOverAtOnce(t *testing.T) {
	mem := memstore.New(t)
	written(t, backend.New(mem, backend.Options{}), "log", nil, brief("note"))
	other := func() {
		b := backend.New(mem, backend.Options{})
		l, err := b.Adopt(context.Background(), "child", backend.AdoptOptions{})
		if err == nil {
			_, err = l.Append(context.Background(), [][]byte{event(0)}, backend.AppendOptions{})
			_ = l.Close(context.Background(), backend.CloseOptions{})
		}
		if err != nil {
			t.Error(err)
		}
	}
	all := faultstore.New(mem)
	all.Inject(faultstore.Rule{Match: faultstore.Puts("manifests/"), Nth: 1, Fault: faultstore.LostReply()})
	all.Inject(faultstore.Rule{Match: faultstore.Puts("manifests/"), Nth: 2, Fault: faultstore.Before(other)})
	b := backend.New(all, backend.Options{MinBackoff: time.Millisecond})
	l, r, err := b.Fork(t.Context(), "log", "child", backend.ForkOptions{})
	if err != nil || r.Next != 2 || r.Duplicate {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := l.Append(t.Context(), [][]byte{event(1)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrFenced) {
		t.Error(err)
	}
	if err := l.Close(t.Context(), backend.CloseOptions{}); !errors.Is(err, backend.ErrFenced) {
		t.Error(err)
	}
	sameTypes(t, b.Reader, "child", "note", mark, chunk)
}
