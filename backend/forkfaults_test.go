package backend_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// The child's manifest comes last. So whichever call of a fork or replay fails,
// and however, there is no child or a complete one; repeating it until it
// succeeds yields one child, and late requests change nothing after that.
func TestForkFaultMatrix(t *testing.T) {
	big, err := bigObjects()
	if err != nil {
		t.Fatal(err)
	}
	small := memstore.New(t)
	written(t, backend.New(small, backend.Options{}), "log", []byte(`{"id":"log"}`), brief("note", "compaction/start"))
	inherited := brief("note", `turn/start {"turn":1}`)
	end := ptr(int64(2*perSegment - 1))
	for _, tc := range []struct {
		name   string
		before map[string][]byte
		copies bool
		forms  []string
		born   int64 // events of the child
		act    func(b *backend.Backend) (backend.Receipt, error)
	}{
		{"fork", small.Snapshot(""), true, nil, 3, func(b *backend.Backend) (backend.Receipt, error) {
			_, r, err := b.Fork(t.Context(), "log", "child", backend.ForkOptions{Release: true})
			return r, err
		}},
		{"big fork, copied inside", big, true, someForms, *end + 2, func(b *backend.Backend) (backend.Receipt, error) {
			_, r, err := b.Fork(t.Context(), "log", "child", backend.ForkOptions{At: end, Release: true})
			return r, err
		}},
		{"big fork, copied through here", big, false, someForms, *end + 2, func(b *backend.Backend) (backend.Receipt, error) {
			_, r, err := b.Fork(t.Context(), "log", "child", backend.ForkOptions{At: end, Release: true})
			return r, err
		}},
		{"replay", nil, true, nil, 3, func(b *backend.Backend) (backend.Receipt, error) {
			_, r, err := b.Replay(t.Context(), "child", sequence(inherited), backend.ReplayOptions{Release: true})
			return r, err
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			runs := 0
			for _, f := range forms {
				if tc.forms != nil && !slices.Contains(tc.forms, f.name) {
					continue
				}
				for n, more := 1, true; more; n++ {
					synctest.Test(t, func(t *testing.T) {
						p := &births{t: t, what: fmt.Sprintf("%s at call %d", f.name, n), born: tc.born, replay: tc.name == "replay"}
						more = p.play(tc.before, tc.copies, f, n, tc.act)
					})
					runs++
				}
			}
			t.Logf("%d runs", runs)
		})
	}
}

// births repeats what makes a log until it is made.
type births struct {
	t      *testing.T
	what   string
	born   int64
	replay bool
	mem    *memstore.Store
}

func (p *births) errorf(format string, args ...any) {
	p.t.Helper()
	p.t.Errorf("%s: %s", p.what, fmt.Sprintf(format, args...))
}

// play reports false when the fault struck no call any more.
func (p *births) play(before map[string][]byte, copies bool, f form, n int, act func(*backend.Backend) (backend.Receipt, error)) bool {
	p.mem = restore(&judge{p.t, p.what}, before)
	all := faultstore.New(p.mem)
	struck := all.Inject(faultstore.Rule{Nth: n, Times: f.times, Fault: f.fault})
	var st objstore.Store = all
	if !copies {
		st = noCopies{all}
	}
	for try := 0; ; try++ {
		b := backend.New(st, backend.Options{CommitTimeout: 20 * time.Second, Prefetch: 1})
		r, err := act(b)
		there := p.complete()
		if err == nil {
			if !there || r.Count != p.born || r.Next != p.born || r.First != 0 {
				p.errorf("%+v, there is a child: %v", r, there)
			}
			break
		}
		if p.replay && errors.Is(err, backend.ErrExists) && try > 0 && there {
			break // an earlier try, whose reply was lost, and which a replay cannot tell from another
		}
		if try == 3 {
			p.errorf("%v", err)
			return true
		}
		if f.times < 0 {
			struck.Stop()
		}
		if token := backend.Token(err); token != "" {
			struck.Release(context.Background())
			d, err := b.Decide(p.t.Context(), token)
			if err != nil || d.Committed != p.complete() || d.Committed && (d.First != 0 || d.Count != p.born) {
				p.errorf("%+v, %v", d, err)
			}
		} else if there && !errors.Is(err, objstore.ErrUndecided) {
			p.errorf("there is a child after %v", err)
		}
	}
	hit := struck.Hits() > 0
	struck.Stop()
	struck.Release(context.Background())
	if !p.complete() {
		p.errorf("no child after late requests")
	}
	return hit
}

// complete reports whether there is a child, which must be a complete one.
func (p *births) complete() bool {
	head, err := manifest.Load(context.Background(), p.mem, "child", manifest.LoadOptions{})
	if errors.Is(err, manifest.ErrNotFound) || err == nil && head.Record.State == manifest.StateVoid {
		return false
	}
	if err != nil {
		p.errorf("%v", err)
		return false
	}
	rec := head.Record
	if rec.Next != p.born || rec.State != manifest.StateOpen || len(rec.Tail) > 0 {
		p.errorf("a child of %d events, %s", rec.Next, rec.State)
	}
	for _, s := range rec.Segments {
		key := manifest.SegmentKey("child", s.Name)
		if sum := sha256.Sum256(p.mem.Snapshot(key)[key]); sum != s.SHA256 {
			p.errorf("%s has the hash %v", key, segment.Hash(sum))
		}
	}
	if p.born < 100 { // the big ones are verified elsewhere
		rep, err := backend.NewReader(p.mem, backend.Options{}).Verify(context.Background(), "child", backend.VerifyOptions{})
		if err != nil || !rep.OK() {
			p.errorf("%+v, %v", rep, err)
		}
	}
	return true
}

// Two forks to one id at a time: one of them is made, whole.
func TestForksRace(t *testing.T) {
	for n := 1; n <= 3; n++ {
		mem := memstore.New(t)
		b := backend.New(mem, backend.Options{})
		written(t, b, "one", nil, brief("note", "note"))
		written(t, b, "two", nil, brief("note", "other", "note"))
		all := faultstore.New(mem, faultstore.Rule{Nth: n, Fault: faultstore.Before(func() { forked(t, b, "two", "child", backend.ForkOptions{}) })})
		l, _, err := backend.New(all, backend.Options{}).Fork(t.Context(), "one", "child", backend.ForkOptions{})
		if !errors.Is(err, backend.ErrExists) || l != nil {
			t.Errorf("%v", err)
		}
		sameTypes(t, b.Reader, "child", "note", "other", "note", mark)
		_, _, err = backend.New(all, backend.Options{}).Replay(t.Context(), "child", sequence(brief("note")), backend.ReplayOptions{})
		if !errors.Is(err, backend.ErrExists) || !strings.Contains(err.Error(), "4 events") {
			t.Errorf("%v", err)
		}
	}
}

// A live parent may go on while it is forked: the child has what was there when
// the fork began.
func TestForkOfALiveParent(t *testing.T) {
	for n := 1; n <= 3; n++ {
		mem := memstore.New(t)
		b := backend.New(mem, backend.Options{})
		l := create(t, b, "log")
		appendAll(t, l, brief("note", "compaction/start")...)
		all := faultstore.New(mem, faultstore.Rule{Nth: n, Fault: faultstore.Before(func() { appendOne(t, l, event(0)) })})
		r := forked(t, backend.New(all, backend.Options{}), "log", "child", backend.ForkOptions{})
		want := []string{"note", "compaction/start", mark}
		if n == 1 {
			want = slices.Insert(want, 2, chunk)
		}
		if r.Next != int64(len(want)) {
			t.Errorf("%+v", r)
		}
		sameTypes(t, b.Reader, "child", want...)
		appendOne(t, l, event(1)) // the parent is none the wiser
		closeLog(t, l)
		sameTypes(t, b.Reader, "log", "note", "compaction/start", chunk, chunk)
	}
}
