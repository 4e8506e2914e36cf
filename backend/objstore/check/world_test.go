package check_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/check"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

// world is a store where anything may be wrong. A hook that is nil changes
// nothing.
type world struct {
	*stub
	deny   func(op, key string) error
	get    func(objstore.Object, error) (objstore.Object, error)
	list   func(prefix string, keys []objstore.Info) []objstore.Info
	meta   bool          // lose metadata
	skew   time.Duration // of the store's clock
	descr  *check.Description
	scope  check.Scope
	denied map[string]int // operations that were denied
	mu     sync.Mutex
}

// newWorld is a store without a judge: to replace what is not there is no
// mistake here.
func newWorld() *world {
	return &world{
		stub:   &stub{Store: memstore.NewWith(nil, memstore.Options{ContentVersions: true})},
		denied: map[string]int{},
	}
}

func (w *world) may(op, key string) error {
	if w.deny == nil {
		return nil
	}
	err := w.deny(op, key)
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.denied[op]++
	}
	return err
}

func denial(op, key, hint string) error {
	return &objstore.Error{Op: op, Key: key, Class: objstore.ErrDenied, Code: "AccessDenied", Status: 403, Hint: hint}
}

func (w *world) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	err := w.may("Get", key)
	var o objstore.Object
	if err == nil {
		o, err = w.stub.Get(ctx, key, opt)
	}
	o.Date = time.Now().Add(w.skew).Truncate(time.Second)
	if e, ok := errors.AsType[*objstore.Error](err); ok {
		e.Date = o.Date
	}
	if w.get != nil {
		return w.get(o, err)
	}
	return o, err
}

func (w *world) Head(ctx context.Context, key string) (objstore.Info, error) {
	if err := w.may("Get", key); err != nil {
		return objstore.Info{}, err
	}
	return w.stub.Head(ctx, key)
}

func (w *world) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		if err := w.may("List", prefix); err != nil {
			yield(objstore.Info{}, err)
			return
		}
		var all []objstore.Info
		for info := range w.stub.List(ctx, prefix, after) {
			all = append(all, info)
		}
		if w.list != nil {
			all = w.list(prefix, all)
		}
		for _, info := range all {
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (w *world) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	if err := w.may("Put", key); err != nil {
		return objstore.Info{}, err
	}
	if w.meta {
		opt.Metadata = nil
	}
	if strings.HasPrefix(key, "segments/") && !cond.Absent() { // which the store below takes for a mistake
		return objstore.Info{}, fault(objstore.ErrGone)
	}
	if w.stub.put != nil {
		return w.stub.Put(ctx, key, body, cond, opt)
	}
	return w.stub.Store.Put(ctx, key, body, cond, opt)
}

func (w *world) Delete(ctx context.Context, key string) error {
	if err := w.may("Delete", key); err != nil {
		return err
	}
	return w.stub.Delete(ctx, key)
}

func (w *world) Describe(_ context.Context, scope check.Scope) check.Description {
	w.scope = scope
	if w.descr == nil {
		return check.Description{Markers: check.No}
	}
	return *w.descr
}

// examine examines quickly.
func examine(t *testing.T, store objstore.Store, change ...func(*check.Options)) *check.Report {
	t.Helper()
	opt := check.Options{Rounds: 4, Racers: 4}
	for _, f := range change {
		f(&opt)
	}
	return check.Examine(t.Context(), store, opt)
}

// statuses are those of findings.
func statuses(r *check.Report) map[string]check.Status {
	m := map[string]check.Status{}
	for _, f := range r.Findings {
		m[f.Name] = f.Status
	}
	return m
}

// sees checks one finding.
func sees(t *testing.T, r *check.Report, name string, status check.Status, seen string) {
	t.Helper()
	f, ok := r.Find(name)
	if !ok || f.Status != status || !strings.Contains(f.Seen+"\n"+f.Means+"\n"+f.Do, seen) {
		t.Errorf("%s is %+v, want %s with %q", name, f, status, seen)
	}
}

const (
	yes = check.Yes
	no  = check.No
	unk = check.NotKnown
)

func can(t *testing.T, r *check.Report, read, write, list, collect check.Answer) {
	t.Helper()
	if diff := cmp.Diff(check.Abilities{Read: read, Append: write, List: list, Collect: collect}, r.Can); diff != "" {
		t.Errorf("%s (-want +got):\n%s", r.Summary(), diff)
	}
}

// clean checks that nothing was left behind.
func clean(t *testing.T, w *world, r *check.Report) {
	t.Helper()
	if left := w.Snapshot(""); len(left) > 0 || len(r.Left) > 0 {
		t.Errorf("left behind: %d objects, said: %q", len(left), r.Left)
	}
}
