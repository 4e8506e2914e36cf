package backend_test

import (
	"errors"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
)

// A resume that releases is one GET and one PUT, and nobody has to wait for its
// writer; where nothing has to be written it is one GET.
func TestResumeAndRelease(t *testing.T) {
	for _, opt := range []backend.ResumeOptions{{Release: true}, {Release: true, Claim: true}} {
		store := tracestore.New(memstore.New(t), tracestore.Options{})
		b := backend.New(store, backend.Options{})
		l := create(t, b, "log")
		if _, err := l.Append(t.Context(), lines(interrupted), backend.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
		closeLog(t, l)
		resume := func(want backend.Receipt, puts int64) {
			t.Helper()
			before := store.Counts()
			l, r, err := b.Resume(t.Context(), "log", opt)
			if err != nil || l != nil || r != want {
				t.Fatalf("%v, %+v, %v, want %+v", l, r, err, want)
			}
			if d := store.Counts().Sub(before); d.Get != 1 || d.Put != puts || d.Requests() != 1+puts {
				t.Errorf("it took %+v", d)
			}
			info, err := b.Info(t.Context(), "log")
			if err != nil || !info.Owner.Released || info.Lifecycle.Kind != "resume" {
				t.Errorf("%+v, %v", info.Owner, err)
			}
		}
		resume(backend.Receipt{Log: "log", First: 3, Count: 3, Next: 6, Revision: 2, Generation: 2}, 1)
		if opt.Claim {
			resume(backend.Receipt{Log: "log", First: 6, Next: 6, Revision: 3, Generation: 3}, 1)
		} else {
			resume(backend.Receipt{Log: "log", First: 6, Next: 6, Revision: 2, Generation: 2}, 0)
		}
		verifyClean(t, b.Reader, "log")
	}
}

func TestResumeCannotDelayAndRelease(t *testing.T) {
	store := tracestore.New(memstore.New(t), tracestore.Options{})
	b := backend.New(store, backend.Options{})
	_, _, err := b.Resume(t.Context(), "log", backend.ResumeOptions{Delay: true, Release: true})
	var oe *backend.OpError
	if !errors.As(err, &oe) || oe.Op != "resume" || oe.Log != "log" || store.Counts().Requests() != 0 {
		t.Errorf("%v after %+v", err, store.Counts())
	}
}
