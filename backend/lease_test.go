package backend_test

import (
	"context"
	"errors"
	"strings"
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

const term = 20 * time.Second

// leased is a store whose clock is ahead of (or behind) the local one by skew.
func leased(t *testing.T, skew time.Duration) *memstore.Store {
	return memstore.NewWith(t, memstore.Options{WholeSeconds: true, Now: func() time.Time { return time.Now().Add(skew) }})
}

func leaseState(t *testing.T, st objstore.Reader) string {
	t.Helper()
	info, err := backend.NewReader(st, backend.Options{}).Info(t.Context(), "log")
	if err != nil {
		t.Fatal(err)
	}
	return info.LeaseState
}

// held expects that neither adopt nor resume may take the log over.
func held(t *testing.T, st objstore.Store, holder string) *backend.HeldError {
	t.Helper()
	other := backend.New(st, backend.Options{})
	_, err := other.Adopt(t.Context(), "log", backend.AdoptOptions{})
	_, _, err2 := other.Resume(t.Context(), "log", backend.ResumeOptions{})
	for _, err := range []error{err, err2} {
		he, ok := errors.AsType[*backend.HeldError](err)
		if !errors.Is(err, backend.ErrHeld) || !ok {
			t.Fatalf("%v, not ErrHeld", err)
		}
		if he.Owner.Writer != holder || !he.Lease || !strings.Contains(err.Error(), holder) || !strings.Contains(err.Error(), "with a lease until") {
			t.Fatalf("%v does not say who holds it", err)
		}
	}
	he, _ := errors.AsType[*backend.HeldError](err)
	return he
}

func adoptable(t *testing.T, st objstore.Store) {
	t.Helper()
	l, err := backend.New(st, backend.Options{}).Adopt(t.Context(), "log", backend.AdoptOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close(t.Context(), backend.CloseOptions{})
}

func lappend(t *testing.T, l *backend.Log, events ...[]byte) {
	t.Helper()
	if _, err := l.Append(t.Context(), events, backend.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A lease lasts its term and two seconds in the store's clock, whatever the local
// clock says; appends and Renew renew it, and nothing else does.
func TestLease(t *testing.T) {
	for _, skew := range []time.Duration{0, 26 * time.Hour, -26 * time.Hour} {
		for _, orAdopt := range []bool{false, true} {
			t.Run(skew.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st := leased(t, skew)
					l, err := backend.New(st, backend.Options{Lease: term, Label: "agent"}).Create("log", backend.CreateOptions{OrAdopt: orAdopt})
					if err != nil {
						t.Fatal(err)
					}
					lappend(t, l, tagged("1", 0))
					he := held(t, st, l.Writer())
					if left := time.UnixMilli(he.Until).Sub(time.Now().Add(skew)); left < term || left > term+2*time.Second {
						t.Errorf("held for %s, not for about %s", left, term)
					}
					time.Sleep(term - time.Second)
					held(t, st, l.Writer())
					lappend(t, l, tagged("2", 0))
					time.Sleep(term - time.Second)
					held(t, st, l.Writer())
					if err := l.Renew(t.Context()); err != nil {
						t.Fatal(err)
					}
					time.Sleep(term - time.Second)
					held(t, st, l.Writer())
					if got := leaseState(t, st); got != "held" {
						t.Errorf("the lease is %s", got)
					}
					time.Sleep(4 * time.Second) // its last second, two more, and one that whole seconds may hide
					adoptable(t, st)
					if got := leaseState(t, st); got != "expired" {
						t.Errorf("the lease is %s", got)
					}
					// It still owns the log, and holds it again.
					lappend(t, l, tagged("3", 0))
					held(t, st, l.Writer())
					if err := l.Close(t.Context(), backend.CloseOptions{}); err != nil {
						t.Fatal(err)
					}
					adoptable(t, st)
					if got := leaseState(t, st); got != "none" {
						t.Errorf("after Close the lease is %s", got)
					}
				})
			})
		}
	}
}

// A local clock that jumps while a handle is open changes nothing: the lease is
// counted from the store's newest date by the monotonic clock. Here the store's
// clock jumps against the local one, and the next commit follows it.
func TestLeaseFollowsTheStoresClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		skew := time.Duration(0)
		st := memstore.NewWith(t, memstore.Options{Now: func() time.Time { return time.Now().Add(skew) }})
		l, err := backend.New(st, backend.Options{Lease: term}).Create("log", backend.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		lappend(t, l, tagged("1", 0))
		skew = time.Hour
		adoptable(t, st)              // expired by the store's clock
		lappend(t, l, tagged("2", 0)) // learns the time
		lappend(t, l, tagged("3", 0))
		held(t, st, l.Writer())
		_ = l.Close(t.Context(), backend.CloseOptions{})
	})
}

// Each of what may end a lease does: a take-over that is told to, a release, a
// deletion. A lease of the next owner is its own.
func TestLeaseEnds(t *testing.T) {
	st := leased(t, 0)
	b := backend.New(st, backend.Options{Lease: term})
	first, err := b.Create("log", backend.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lappend(t, first, tagged("1", 0))
	second, _, err := b.Resume(t.Context(), "log", backend.ResumeOptions{AdoptOptions: backend.AdoptOptions{TakeOver: true}})
	if err != nil {
		t.Fatal(err)
	}
	held(t, st, second.Writer())
	if err := first.Renew(t.Context()); !errors.Is(err, backend.ErrFenced) {
		t.Errorf("the replaced owner renews: %v", err)
	}
	if err := first.Close(t.Context(), backend.CloseOptions{}); !errors.Is(err, backend.ErrFenced) {
		t.Errorf("the replaced owner closes: %v", err)
	}
	held(t, st, second.Writer())
	if _, err := second.Append(t.Context(), [][]byte{tagged("2", 0)}, backend.AppendOptions{Last: true}); err != nil {
		t.Fatal(err)
	}
	adoptable(t, st)
	if got := leaseState(t, st); got != "none" {
		t.Errorf("after the last append the lease is %s", got)
	}
}

// A fork and a replay hold the lease of their backend, and a parent's is no
// concern of its fork.
func TestLeaseOfSeeds(t *testing.T) {
	st := leased(t, 0)
	b := backend.New(st, backend.Options{Lease: term})
	l, err := b.Create("parent", backend.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lappend(t, l, tagged("1", 0))
	child, _, err := b.Fork(t.Context(), "parent", "log", backend.ForkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	held(t, st, child.Writer())
	if err := child.Close(t.Context(), backend.CloseOptions{}); err != nil {
		t.Fatal(err)
	}
	adoptable(t, st)
	_ = l.Close(t.Context(), backend.CloseOptions{})
}

// What a lease costs: one read more for a log that is begun, since the store has
// not said its time by then; Renew and Close 1 PUT each; a handle that is pending
// or fails has nothing to release.
func TestLeaseRequests(t *testing.T) {
	trace := tracestore.New(leased(t, 0), tracestore.Options{})
	l, err := backend.New(trace, backend.Options{Lease: term}).Create("log", backend.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	count := func(what string, puts, gets int64, do func() error) {
		t.Helper()
		before := trace.Counts()
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		after := trace.Counts()
		if p, g := after.Put-before.Put, after.Get-before.Get; p != puts || g != gets {
			t.Errorf("%s: %d PUT and %d GET, not %d and %d", what, p, g, puts, gets)
		}
	}
	ctx := t.Context()
	count("begin", 1, 1, func() error { _, err := l.Append(ctx, [][]byte{tagged("1", 0)}, backend.AppendOptions{}); return err })
	count("append", 1, 0, func() error { _, err := l.Append(ctx, [][]byte{tagged("2", 0)}, backend.AppendOptions{}); return err })
	count("renew", 1, 0, func() error { return l.Renew(ctx) })
	count("close", 1, 0, func() error { return l.Close(ctx, backend.CloseOptions{}) })
	var pending *backend.Log
	other := backend.New(trace, backend.Options{Lease: term})
	count("adopt", 0, 1, func() (err error) { pending, err = other.Adopt(ctx, "log", backend.AdoptOptions{}); return err })
	count("close a pending handle", 0, 0, func() error { return pending.Close(ctx, backend.CloseOptions{}) })
	count("adopt", 0, 1, func() (err error) { pending, err = other.Adopt(ctx, "log", backend.AdoptOptions{}); return err })
	count("renew a pending handle", 1, 0, func() error { return pending.Renew(ctx) })
	count("close it", 1, 0, func() error { return pending.Close(ctx, backend.CloseOptions{}) })
}

// A renewal whose reply is lost is found to have landed, or is made again.
func TestRenewWithLostReplies(t *testing.T) {
	for _, f := range []faultstore.Fault{faultstore.LostReply(), faultstore.Unavailable(), faultstore.Conflict(), faultstore.Duplicate()} {
		synctest.Test(t, func(t *testing.T) {
			st := faultstore.New(leased(t, 0))
			l, err := backend.New(st, backend.Options{Lease: term}).Create("log", backend.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			lappend(t, l, tagged("1", 0))
			time.Sleep(term)
			st.Inject(faultstore.Rule{Match: faultstore.Op("Put"), Nth: 1, Fault: f})
			if err := l.Renew(t.Context()); err != nil {
				t.Fatalf("%v: %v", f, err)
			}
			held(t, st, l.Writer())
			lappend(t, l, tagged("2", 0))
			_ = l.Close(t.Context(), backend.CloseOptions{})
		})
	}
}

func TestLeaseTermsThatMakeNoSense(t *testing.T) {
	st := leased(t, 0)
	for _, lease := range []time.Duration{time.Second, manifest.MinLease - 1, -time.Minute, 1000 * 24 * time.Hour} {
		b := backend.New(st, backend.Options{Lease: lease})
		if _, err := b.Create("log", backend.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "at least 15s") {
			t.Errorf("a lease of %s: %v", lease, err)
		}
	}
	l, err := backend.New(st, backend.Options{}).Create("log", backend.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Renew(context.Background()); err == nil || !strings.Contains(err.Error(), "no lease") {
		t.Errorf("renewing what was not asked for: %v", err)
	}
	lappend(t, l, tagged("it goes on", 0))
	_ = l.Close(t.Context(), backend.CloseOptions{})
}
