package backend_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/manifest"
)

// A deletion is one GET and one PUT, a second one a GET. Afterwards nobody reads
// the log or writes to it, and its id stays taken.
func TestDelete(t *testing.T) {
	mem := memstore.New(t)
	segmented(t, mem, "log", 2, 20000)
	store := tracestore.New(mem, tracestore.Options{})
	b := backend.New(store, backend.Options{Label: "cleaner"})
	plan, err := b.PlanDelete(t.Context(), "log", backend.AdoptOptions{})
	if err != nil || plan.Done || plan.Events != 3 || plan.Segments != 2 || plan.Bytes < 20000 {
		t.Fatalf("%+v, %v", plan, err)
	}
	was := store.Counts()
	r, err := b.Delete(t.Context(), "log", backend.AdoptOptions{})
	if c := store.Counts().Sub(was); err != nil || c.Requests() != 2 || c.Get != 1 || c.Put != 1 {
		t.Errorf("%+v, %v", c, err)
	}
	rec := record(t, mem, "log")
	if r.Log != "log" || r.Duplicate || r.Next != 3 || r.First != 3 || r.Count != 0 || r.Revision != plan.Revision+1 || r.Generation != plan.Generation+1 || rec.Epoch < 2 {
		t.Errorf("%+v, %+v", r, plan)
	}
	was = store.Counts()
	again, err := b.Delete(t.Context(), "log", backend.AdoptOptions{Quiet: time.Hour})
	if c := store.Counts().Sub(was); err != nil || !again.Duplicate || again.Revision != r.Revision || again.Next != r.Next || c.Requests() != 1 {
		t.Errorf("%+v, %v, %+v", again, err, c)
	}
	if plan, err = b.PlanDelete(t.Context(), "log", backend.AdoptOptions{Quiet: time.Hour}); err != nil || !plan.Done || plan.Segments != 0 || plan.Events != 3 {
		t.Errorf("%+v, %v", plan, err)
	}
	i := info(t, b.Reader, "log")
	if i.State != manifest.StateDeleted || i.Owner.Label != "cleaner" || i.History[len(i.History)-1].Kind != manifest.KindDelete {
		t.Errorf("%+v", i)
	}
	for what, err := range map[string]error{
		"read":   second(readAll(t.Context(), b.Reader, "log", 0)),
		"adopt":  second(b.Adopt(t.Context(), "log", backend.AdoptOptions{})),
		"verify": second(b.Verify(t.Context(), "log", backend.VerifyOptions{})),
		"fold":   second(b.Fold(t.Context(), "log", backend.FoldOptions{})),
		"fork":   third(b.Fork(t.Context(), "log", "child", backend.ForkOptions{})),
		"onto":   third(b.Fork(t.Context(), "log", "log", backend.ForkOptions{Parent: backend.NewReader(parentOf(t), backend.Options{})})),
		"create": second(create(t, b, "log").Append(t.Context(), [][]byte{event(0)}, backend.AppendOptions{})),
	} {
		if !errors.Is(err, backend.ErrDeleted) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }

func TestDeleteRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		b := backend.New(mem, backend.Options{})
		leased := backend.New(mem, backend.Options{Lease: time.Hour, Label: "agent 7"})
		l, held := create(t, b, "active"), create(t, leased, "held")
		appendOne(t, l, event(0))
		appendOne(t, held, event(0))
		mem.Replace(manifest.Key("void"), voidBody(t, "void"))
		mem.Replace(manifest.Key("damaged"), []byte("x"))
		time.Sleep(59 * time.Second)
		for id, tc := range map[string]struct {
			opt  backend.AdoptOptions
			want error
			says string
		}{
			"missing": {want: backend.ErrNotFound},
			"void":    {want: backend.ErrNotFound},
			"damaged": {want: backend.ErrCorrupt},
			"\xff":    {},
			"active":  {opt: backend.AdoptOptions{Quiet: time.Minute}, want: backend.ErrHeld, says: "59s ago"},
			"held":    {want: backend.ErrHeld, says: "agent 7"},
		} {
			before := mem.Snapshot("")
			for what, err := range map[string]error{
				"plan":   second(b.PlanDelete(t.Context(), id, tc.opt)),
				"delete": second(b.Delete(t.Context(), id, tc.opt)),
			} {
				oe, _ := errors.AsType[*backend.OpError](err)
				if err == nil || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) || oe == nil || oe.Log != id {
					t.Errorf("%s of %q: %v", what, id, err)
				}
			}
			if after := mem.Snapshot(""); len(after) != len(before) {
				t.Errorf("%q: something was written", id)
			}
		}
		for id, opt := range map[string]backend.AdoptOptions{"active": {Quiet: 30 * time.Second}, "held": {TakeOver: true}} {
			if _, err := b.Delete(t.Context(), id, opt); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		if _, err := held.Append(t.Context(), [][]byte{event(1)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrDeleted) {
			t.Errorf("the owner of a deleted log: %v", err)
		}
		closeLog(t, l)
	})
}

// Each call of a deletion fails in turn, in every form. A caller that is told that
// the log is deleted has it deleted; one that is told that nobody knows has a
// token that settles it, or deletes it again.
func TestDeleteFaultMatrix(t *testing.T) {
	for name, fault := range map[string]faultstore.Fault{
		"unavailable": faultstore.Unavailable(), "applied": faultstore.LostReply(), "late": faultstore.Late(), "a late copy": faultstore.LateCopy(),
		"twice": faultstore.Duplicate(), "denied": faultstore.Denied(), "conflict": faultstore.Conflict(), "rejected": faultstore.Rejected(),
	} {
		for _, times := range []int{1, -1} {
			for _, decide := range []bool{true, false} {
				for n := 1; n <= 3; n++ {
					synctest.Test(t, func(t *testing.T) {
						mem := parentOf(t)
						st := faultstore.New(mem)
						in := st.Inject(faultstore.Rule{Nth: n, Times: times, Fault: fault})
						_, err := backend.New(st, backend.Options{}).Delete(t.Context(), "log", backend.AdoptOptions{})
						in.Stop()
						b := backend.New(mem, backend.Options{})
						deleted := func() bool { return info(t, b.Reader, "log").State == manifest.StateDeleted }
						what := func(format string, args ...any) {
							t.Errorf("%s from call %d, %d times, decide %v: "+format, append([]any{name, n, times, decide}, args...)...)
						}
						committed := err == nil
						switch token := backend.Token(err); {
						case errors.Is(err, backend.ErrOutcomeUnknown) && token == "":
							what("no token: %v", err)
						case token != "" && decide:
							d, derr := b.Decide(t.Context(), token)
							if derr != nil {
								what("%v", derr)
							}
							committed = d.Committed
						case token != "":
							if _, derr := b.Delete(t.Context(), "log", backend.AdoptOptions{}); derr != nil {
								what("again: %v", derr)
							}
							committed = true
						}
						if deleted() != committed {
							what("deleted %v, told %v, %v", deleted(), committed, err)
						}
						in.Release(t.Context())
						if deleted() != committed {
							what("what arrived late has changed the answer")
						}
						if !committed {
							verifyClean(t, b.Reader, "log")
						}
					})
				}
			}
		}
	}
}

// Two deletions, and a deletion beside a writer, are decided by the store: both
// deleters are told that the log is deleted, and no writer is told that events are
// in it that it took.
func TestDeletionsRace(t *testing.T) {
	for n := 1; n <= 3; n++ {
		for _, after := range []bool{false, true} {
			mem := parentOf(t)
			owner := adopt(t, backend.New(mem, backend.Options{}), "log")
			appendOne(t, owner, event(0))
			other := func() {
				if _, err := backend.New(mem, backend.Options{}).Delete(t.Context(), "log", backend.AdoptOptions{}); err != nil {
					t.Error(err)
				}
			}
			fault := faultstore.Before(other)
			if after {
				fault = faultstore.After(other)
			}
			st := faultstore.New(mem, faultstore.Rule{Nth: n, Fault: fault})
			r, err := backend.New(st, backend.Options{}).Delete(t.Context(), "log", backend.AdoptOptions{})
			if err != nil || r.Next != 4 {
				t.Errorf("call %d: %+v, %v", n, r, err)
			}
			rec := record(t, mem, "log")
			kinds := 0
			for _, g := range rec.Generations {
				if g.Kind == manifest.KindDelete {
					kinds++
				}
			}
			if rec.State != manifest.StateDeleted || kinds != 1 || r.Revision != rec.Revision {
				t.Errorf("call %d: %+v, %+v", n, r, rec)
			}

			mem = parentOf(t)
			owner = adopt(t, backend.New(mem, backend.Options{}), "log")
			st = faultstore.New(mem, faultstore.Rule{Nth: n, Fault: faultstore.Before(func() { appendOne(t, owner, event(0)) })})
			r, err = backend.New(st, backend.Options{}).Delete(t.Context(), "log", backend.AdoptOptions{})
			if want := int64(4); err != nil || n <= 2 && r.Next != want {
				t.Errorf("call %d: %+v, %v", n, r, err)
			}
		}
	}
}

// A log that was made from what was deleted is a new one, under another id; and
// the segments of a deleted log that somebody still uploads go, too.
func TestUploadsAfterADeletionAreCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(t)
		st := faultstore.New(mem)
		tr := newTraced(t, mem, func(*faultstore.Store) *faultstore.Store { return st })
		deleted := make(chan struct{})
		st.Inject(faultstore.Rule{Match: faultstore.Puts("segments/"), Fault: faultstore.Before(func() { <-deleted })})
		tr.append(2)
		if _, err := backend.New(mem, backend.Options{}).Delete(t.Context(), "log", backend.AdoptOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * day)
		close(deleted)
		synctest.Wait()
		if n := len(keys(mem, "segments/")); n != 1 {
			t.Errorf("%d segments", n)
		}
		_, err := tr.l.Append(t.Context(), [][]byte{event(0)}, backend.AppendOptions{})
		if !errors.Is(err, backend.ErrDeleted) {
			t.Error(err)
		}
		all := collect(t, mem, backend.GCOptions{})
		if n, _ := all[0].Removed(); n != 1 || all[0].Objects[0].Fate != manifest.FateDeleted || all[0].Barrier {
			t.Errorf("%+v", all)
		}
	})
}

// A reader that is half way through a log when it is deleted ends within the grace;
// later it is told that the log is deleted.
func TestReaderOfALogThatIsDeleted(t *testing.T) {
	for _, wait := range []time.Duration{day - time.Minute, 2 * day} {
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.New(t)
			segmented(t, mem, "log", 6, 300_000)
			r := backend.NewReader(mem, backend.Options{Prefetch: 1})
			want := read(t, r, "log", 0)
			var got []string
			var err error
			for ev, eerr := range r.Events(t.Context(), "log", backend.ReadOptions{}) {
				if err = eerr; err != nil {
					break
				}
				if got = append(got, string(ev.Line)); len(got) == 1 {
					if _, err := backend.New(mem, backend.Options{}).Delete(t.Context(), "log", backend.AdoptOptions{}); err != nil {
						t.Fatal(err)
					}
					time.Sleep(wait)
					collect(t, mem, backend.GCOptions{})
				}
			}
			if late := wait > day; late != errors.Is(err, backend.ErrDeleted) || !late && !slices.Equal(got, want) || !slices.Equal(got, want[:len(got)]) {
				t.Errorf("after %s: %d of %d events, %v", wait, len(got), len(want), err)
			}
		})
	}
}
