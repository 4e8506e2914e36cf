// Package objstoretest checks that an implementation of objstore.Store keeps
// the contract: conditions, ranges, listings, durability of what a reply said,
// and behaviour under races; the checks that find out about a store in
// production (check.Examine) are among them. Drivers and decorators run it in
// their tests; it talks to nothing but the store it is given, and leaves no
// object behind. It
// does not check speed, permissions, or what happens when a process dies.
package objstoretest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend/objstore"
)

// Options say what a store is able to, and how much may be asked of it. The
// zero value is for a store that has no metadata and answers fast.
type Options struct {
	// Metadata: the store keeps metadata.
	Metadata bool
	// TornReads: the store is known to answer a read that meets a write with the
	// body of one version and the token of the other. Bodies must be whole all
	// the same.
	TornReads bool
	// Keys is how many objects the large listing has; 0 means 2,500. It should
	// be more than two pages.
	Keys int
	// Writers and Rounds size the races; 0 means 16 writers of 20 rounds.
	Writers, Rounds int
	// LargeSize is the size of the large object; 0 means 9 MiB.
	LargeSize int
}

func (o *Options) setDefaults() {
	for _, d := range []struct {
		n         *int
		otherwise int
	}{{&o.Keys, 2500}, {&o.Writers, 16}, {&o.Rounds, 20}, {&o.LargeSize, 9 << 20}} {
		if *d.n == 0 {
			*d.n = d.otherwise
		}
	}
}

// Run runs the suite. open is called once per subtest and may return the same
// store every time, also one with objects in it: every subtest works below a
// prefix of its own, "conformance-…/", except for the checks, whose probes are
// below "probe/".
func Run(t *testing.T, open func(t *testing.T) objstore.Store, opt Options) {
	opt.setDefaults()
	for _, c := range []struct {
		name string
		run  func(s *suite)
	}{
		{"RoundTrip", (*suite).roundTrip},
		{"IfAbsent", (*suite).ifAbsent},
		{"IfVersion", (*suite).ifVersion},
		{"IfVersionGone", (*suite).ifVersionGone},
		{"InvalidCondition", (*suite).invalidCondition},
		{"NotExist", (*suite).notExist},
		{"Ranges", (*suite).ranges},
		{"IfNot", (*suite).ifNot},
		{"Limit", (*suite).limit},
		{"Head", (*suite).head},
		{"Delete", (*suite).delete},
		{"SpecialKeys", (*suite).specialKeys},
		{"Metadata", (*suite).metadata},
		{"BodyNotShared", (*suite).bodyNotShared},
		{"LargeObject", (*suite).largeObject},
		{"Copy", (*suite).copy},
		{"ListOrder", (*suite).listOrder},
		{"ListLarge", (*suite).listLarge},
		{"ListAfterWrite", (*suite).listAfterWrite},
		{"ListUnderWrites", (*suite).listUnderWrites},
		{"RaceCounter", (*suite).raceCounter},
		{"RaceCreate", (*suite).raceCreate},
		{"ReadersUnderWrites", (*suite).readersUnderWrites},
		{"Cancelled", (*suite).cancelled},
		{"Examine", (*suite).examine},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &suite{T: t, store: open(t), opt: opt, dir: "conformance-" + nonce() + "/"}
			t.Cleanup(s.clean)
			c.run(s)
		})
	}
}

// suite is one subtest at work.
type suite struct {
	*testing.T
	store objstore.Store
	opt   Options
	dir   string // all keys of this subtest are below it
}

func nonce() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// clean removes what the subtest wrote. t.Context has ended by then.
func (s *suite) clean() {
	ctx := context.Background()
	for info, err := range s.store.List(ctx, s.dir, "") {
		if err != nil {
			s.Errorf("clean up: %v", err)
			return
		}
		if err := s.store.Delete(ctx, info.Key); err != nil {
			s.Errorf("clean up: %v", err)
			return
		}
	}
}

func (s *suite) put(key, body string, c objstore.Condition) (objstore.Info, error) {
	return s.store.Put(s.Context(), s.dir+key, []byte(body), c, objstore.PutOptions{})
}

func (s *suite) get(key string, opt objstore.GetOptions) (objstore.Object, error) {
	return s.store.Get(s.Context(), s.dir+key, opt)
}

// mustCreate puts a new object and returns its version, which it gets where the
// reply did not tell.
func (s *suite) mustCreate(key, body string) objstore.Version {
	s.Helper()
	info, err := s.put(key, body, objstore.IfAbsent())
	if err != nil {
		s.Fatalf("create %s: %v", key, err)
	}
	if info.Version.IsZero() {
		o := s.mustGet(key)
		return o.Version
	}
	return info.Version
}

func (s *suite) mustGet(key string) objstore.Object {
	s.Helper()
	o, err := s.get(key, objstore.GetOptions{})
	if err != nil {
		s.Fatalf("get %s: %v", key, err)
	}
	if o.Version.IsZero() {
		s.Fatalf("get %s: no version", key)
	}
	return o
}

// want checks an error's class and form.
func (s *suite) want(what string, err error, classes ...error) {
	s.Helper()
	for _, class := range classes {
		if !errors.Is(err, class) {
			s.Errorf("%s: error %v, want %v", what, err, class)
		}
	}
	s.wellFormed(what, err)
}

var classes = []error{
	objstore.ErrNotExist, objstore.ErrNotModified, objstore.ErrRange, objstore.ErrPrecondition, objstore.ErrConflict,
	objstore.ErrRejected, objstore.ErrUndecided, objstore.ErrRefused, objstore.ErrTooLarge,
}

// wellFormed checks that an error is an *objstore.Error with a key, and of
// exactly one class.
func (s *suite) wellFormed(what string, err error) {
	s.Helper()
	if err == nil {
		return
	}
	e, ok := errors.AsType[*objstore.Error](err)
	if !ok {
		s.Errorf("%s: error %v is no *objstore.Error", what, err)
		return
	}
	if e.Op == "" || !strings.HasPrefix(e.Key, s.dir) {
		s.Errorf("%s: error of op %q, key %q: does not say what failed", what, e.Op, e.Key)
	}
	n := 0
	for _, class := range classes {
		if errors.Is(err, class) {
			n++
		}
	}
	if n != 1 {
		s.Errorf("%s: error %v is of %d classes, want exactly one", what, err, n)
	}
}

// list collects keys without the subtest's prefix.
func (s *suite) list(prefix, after string) []string {
	s.Helper()
	if after != "" {
		after = s.dir + after
	}
	var keys []string
	for info, err := range s.store.List(s.Context(), s.dir+prefix, after) {
		if err != nil {
			s.Fatalf("list %q after %q: %v", prefix, after, err)
		}
		key, ok := strings.CutPrefix(info.Key, s.dir)
		if !ok {
			s.Fatalf("list %q: key %q is not below the prefix", prefix, info.Key)
		}
		keys = append(keys, key)
	}
	return keys
}
