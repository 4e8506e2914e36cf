package objstoretest_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/objstoretest"
)

// broken is a store with one mistake.
type broken struct {
	*memstore.Store
	mistake string
	mu      sync.Mutex
	listed  []objstore.Info // for "stale list"
}

func (b *broken) is(mistake string) bool { return b.mistake == mistake }

func (b *broken) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	switch b.mistake {
	case "ignores IfNot":
		opt.IfNot = objstore.Version{}
	case "ignores Limit":
		opt.Limit = 0
	case "ignores ctx":
		ctx = context.WithoutCancel(ctx)
	case "range off by one":
		if opt.Length > 0 {
			opt.Length++
		}
	}
	o, err := b.Store.Get(ctx, key, opt)
	switch b.mistake {
	case "bare errors":
		if err != nil {
			err = objstore.ErrNotExist
		}
	case "size of the range":
		o.Size = int64(len(o.Body))
	case "torn bodies":
		if len(o.Body) > 16 && strings.HasPrefix(string(o.Body), "0000") {
			copy(o.Body[len(o.Body)-8:], "99999999")
		}
	case "missing is empty":
		if errors.Is(err, objstore.ErrNotExist) {
			return objstore.Object{}, nil
		}
	}
	return o, err
}

func (b *broken) Head(ctx context.Context, key string) (objstore.Info, error) {
	info, err := b.Store.Head(ctx, key)
	if b.is("head says nothing") {
		info.Size, info.Version = 0, objstore.Version{}
	}
	return info, err
}

func (b *broken) Put(ctx context.Context, key string, body []byte, c objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	switch b.mistake {
	case "ignores IfAbsent", "ignores IfVersion", "invalid condition is none":
		if c.Absent() && b.is("ignores IfAbsent") || !c.Absent() && c.Valid() && b.is("ignores IfVersion") || !c.Valid() && b.is("invalid condition is none") {
			b.Replace(key, body)
			return b.Store.Head(ctx, key)
		}
	case "checks, then writes":
		info, err := b.Store.Head(ctx, key)
		if c.Valid() && !c.Absent() && err == nil && info.Version == c.Match() {
			time.Sleep(100 * time.Microsecond)
			b.Replace(key, body)
			return b.Store.Head(ctx, key)
		}
	case "gone is absent":
		info, err := b.Store.Put(ctx, key, body, c, opt)
		if errors.Is(err, objstore.ErrGone) {
			return b.Store.Put(ctx, key, body, objstore.IfAbsent(), opt)
		}
		return info, err
	case "loses metadata":
		opt.Metadata = nil
	}
	return b.Store.Put(ctx, key, body, c, opt)
}

func (b *broken) Delete(ctx context.Context, key string) error {
	if b.is("delete of nothing fails") {
		if _, err := b.Store.Head(ctx, key); err != nil {
			return err
		}
	}
	if b.is("deletes nothing") {
		return nil
	}
	return b.Store.Delete(ctx, key)
}

func (b *broken) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	switch b.mistake {
	case "ignores after":
		return b.Store.List(ctx, prefix, "")
	case "one page":
		return func(yield func(objstore.Info, error) bool) {
			n := 0
			for info, err := range b.Store.List(ctx, prefix, after) {
				if n++; !yield(info, err) || n == 1000 {
					return
				}
			}
		}
	case "folder order":
		var all []objstore.Info
		for info := range b.Store.List(ctx, prefix, after) {
			all = append(all, info)
		}
		slices.SortFunc(all, func(x, y objstore.Info) int {
			return slices.Compare(strings.Split(x.Key, "/"), strings.Split(y.Key, "/"))
		})
		return func(yield func(objstore.Info, error) bool) {
			for _, info := range all {
				if !yield(info, nil) {
					return
				}
			}
		}
	case "stale list":
		b.mu.Lock()
		defer b.mu.Unlock()
		old := b.listed
		b.listed = nil
		for info := range b.Store.List(ctx, prefix, after) {
			b.listed = append(b.listed, info)
		}
		return func(yield func(objstore.Info, error) bool) {
			for _, info := range old {
				if strings.HasPrefix(info.Key, prefix) && !yield(info, nil) {
					return
				}
			}
		}
	}
	return b.Store.List(ctx, prefix, after)
}

const mistakeEnv = "OBJSTORETEST_MISTAKE"

// TestBroken runs the suite on a broken store, in a child of TestSuiteFinds.
func TestBroken(t *testing.T) {
	mistake := os.Getenv(mistakeEnv)
	if mistake == "" {
		t.Skip("runs in a child process of TestSuiteFinds")
	}
	objstoretest.Run(t, func(t *testing.T) objstore.Store {
		return &broken{Store: memstore.New(nil), mistake: mistake}
	}, objstoretest.Options{Metadata: true, LargeSize: 1 << 17})
}

// The suite fails on each mistake, in the subtest that is about it, and the
// checks find those that a store in production may make.
func TestSuiteFinds(t *testing.T) {
	checks := []string{"ignores IfAbsent", "ignores IfVersion", "checks, then writes", "torn bodies", "loses metadata", "stale list", "missing is empty"}
	for mistake, subtest := range map[string]string{
		"ignores IfAbsent":          "IfAbsent",
		"ignores IfVersion":         "IfVersion",
		"gone is absent":            "IfVersionGone",
		"invalid condition is none": "InvalidCondition",
		"checks, then writes":       "RaceCounter",
		"ignores IfNot":             "IfNot",
		"ignores Limit":             "Limit",
		"ignores ctx":               "Cancelled",
		"range off by one":          "Ranges",
		"size of the range":         "Ranges",
		"bare errors":               "NotExist",
		"missing is empty":          "NotExist",
		"torn bodies":               "ReadersUnderWrites",
		"head says nothing":         "Head",
		"loses metadata":            "Metadata",
		"delete of nothing fails":   "Delete",
		"deletes nothing":           "Delete",
		"ignores after":             "ListOrder",
		"folder order":              "ListOrder",
		"one page":                  "ListLarge",
		"stale list":                "ListAfterWrite",
	} {
		subtests := []string{subtest}
		if slices.Contains(checks, mistake) {
			subtests = append(subtests, "Examine")
		}
		for _, subtest := range subtests {
			t.Run(mistake+" by "+subtest, func(t *testing.T) {
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBroken$/^"+subtest+"$", "-test.timeout=60s")
				cmd.Env = append(os.Environ(), mistakeEnv+"="+mistake)
				out, err := cmd.CombinedOutput()
				if err == nil || !strings.Contains(string(out), "--- FAIL: TestBroken/"+subtest+" ") {
					t.Errorf("%s: not found by %s: %v\n%s", mistake, subtest, err, out)
				}
			})
		}
	}
}
