// Package memstore is the reference implementation of objstore in memory, and
// a judge: whoever breaks the contract, or s3log's own rules about which
// objects are immutable, fails the test that made the store, whichever test
// that is. It needs no goroutines and reads time through one function, so it
// works in testing/synctest bubbles. It is not a cache and not a product: what
// it holds is gone with the process.
package memstore

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/s3log/s3log/backend/objstore"
)

// The two trees with rules of their own.
const (
	manifests = "manifests/" // each accepted body is a new one; never deleted
	segments  = "segments/"  // immutable; a name is used for one upload only, of which damage is repaired
)

// Failer is where breaches are reported; every testing.TB is one.
type Failer interface {
	Helper()
	Errorf(format string, args ...any)
}

// Options change what kind of store it plays. The zero value is a store with a
// fresh version for every write and an exact clock.
type Options struct {
	// ContentVersions makes a version the MD5 of the content, as S3 does: equal
	// bodies then have equal versions.
	ContentVersions bool
	// WholeSeconds cuts Date and Modified to whole seconds, as S3 does.
	WholeSeconds bool
	// LateRetries permits to write the same bytes again under the name of a
	// deleted segment, as a late copy of its upload does when gc was faster.
	LateRetries bool
	// Now is the store's clock; nil means time.Now.
	Now func() time.Time
}

type object struct {
	body []byte // never changed, never handed out
	info objstore.Info
}

type hash = [sha256.Size]byte

// Store is a strict store in memory. It is safe for concurrent use.
type Store struct {
	tb  Failer
	opt Options

	mu      sync.Mutex
	now     func() time.Time
	writes  uint64
	objects map[string]object
	// history has every body that was accepted under a key in the two trees, in
	// order, so that a reused name or a repeated manifest is noticed after the
	// object itself has gone.
	history map[string][]hash
}

var (
	_ objstore.Store  = (*Store)(nil)
	_ objstore.Copier = (*Store)(nil)
)

// New makes an empty store that reports breaches to tb. With a nil tb a breach
// is just an error (ErrRejected) to whoever committed it.
func New(tb Failer) *Store { return NewWith(tb, Options{}) }

// NewWith is New with options.
func NewWith(tb Failer, opt Options) *Store {
	s := &Store{tb: tb, opt: opt, now: opt.Now, objects: map[string]object{}, history: map[string][]hash{}}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// SetClock replaces the store's clock.
func (s *Store) SetClock(now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

// time is the store's clock; s.mu is held.
func (s *Store) time() time.Time {
	now := s.now().Round(0) // the caller gets no monotonic reading from a store
	if s.opt.WholeSeconds {
		now = now.Truncate(time.Second)
	}
	return now
}

// breach reports a broken rule and makes the error of the call that broke it.
func (s *Store) breach(op, key, format string, args ...any) error {
	why := fmt.Errorf(format, args...)
	if s.tb != nil {
		s.tb.Helper()
		s.tb.Errorf("memstore: %s %s breaks the contract: %v", op, key, why)
	}
	return fail(op, key, objstore.ErrRejected, why)
}

func fail(op, key string, class, cause error) error {
	return &objstore.Error{Op: op, Key: key, Class: class, Err: cause}
}

// answer is a failure that the store replies; s.mu is held.
func (s *Store) answer(op, key string, class error) error {
	return &objstore.Error{Op: op, Key: key, Class: class, Date: s.time()}
}

// Get implements objstore.Reader.
func (s *Store) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	const op = "Get"
	if err := ctx.Err(); err != nil {
		return objstore.Object{}, fail(op, key, objstore.ErrUndecided, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[key]
	if !ok {
		return objstore.Object{}, s.answer(op, key, objstore.ErrNotExist)
	}
	if !opt.IfNot.IsZero() && opt.IfNot == o.info.Version {
		return objstore.Object{}, s.answer(op, key, objstore.ErrNotModified)
	}
	offset, length, err := opt.Span(o.info.Size)
	if err == objstore.ErrRejected {
		return objstore.Object{}, s.breach(op, key, "options %+v make no sense", opt)
	}
	if err != nil {
		return objstore.Object{}, s.answer(op, key, err)
	}
	return objstore.Object{Info: s.reply(o), Body: bytes.Clone(o.body[offset : offset+length])}, nil
}

// Head implements objstore.Reader.
func (s *Store) Head(ctx context.Context, key string) (objstore.Info, error) {
	const op = "Head"
	if err := ctx.Err(); err != nil {
		return objstore.Info{}, fail(op, key, objstore.ErrUndecided, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[key]
	if !ok {
		return objstore.Info{}, s.answer(op, key, objstore.ErrNotExist)
	}
	return s.reply(o), nil
}

// reply is o as it is told to a caller now; s.mu is held.
func (s *Store) reply(o object) objstore.Info {
	info := o.info
	info.Metadata = maps.Clone(info.Metadata)
	info.Date = s.time()
	return info
}

// List implements objstore.Reader. It lists what is there when the iteration
// begins.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		s.mu.Lock()
		var found []objstore.Info
		date := s.time()
		for key, o := range s.objects {
			if strings.HasPrefix(key, prefix) && key > after {
				info := o.info
				info.Metadata, info.Date = nil, date
				found = append(found, info)
			}
		}
		s.mu.Unlock()
		slices.SortFunc(found, func(a, b objstore.Info) int { return strings.Compare(a.Key, b.Key) })
		for i := 0; ; i++ {
			if err := ctx.Err(); err != nil {
				yield(objstore.Info{}, fail("List", prefix, objstore.ErrUndecided, err))
				return
			}
			if i == len(found) || !yield(found[i], nil) {
				return
			}
		}
	}
}

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	if err := ctx.Err(); err != nil {
		return objstore.Info{}, fail("Put", key, objstore.ErrUndecided, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put("Put", key, body, cond, opt)
}

// Copy implements objstore.Copier.
func (s *Store) Copy(ctx context.Context, src, dst string) (objstore.Info, error) {
	const op = "Copy"
	if err := ctx.Err(); err != nil {
		return objstore.Info{}, fail(op, dst, objstore.ErrUndecided, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[src]
	if !ok {
		return objstore.Info{}, s.answer(op, src, objstore.ErrNotExist)
	}
	return s.put(op, dst, o.body, objstore.IfAbsent(), objstore.PutOptions{Metadata: o.info.Metadata})
}

// put judges and applies one write; s.mu is held.
func (s *Store) put(op, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	immutable, manifest := strings.HasPrefix(key, segments), strings.HasPrefix(key, manifests)
	sum := sha256.Sum256(body)
	old, exists := s.objects[key]
	past := s.history[key]

	// What is wrong however the store looks.
	if err := objstore.CheckKey(key); err != nil {
		return objstore.Info{}, s.breach(op, key, "%w", err)
	}
	if err := objstore.CheckMetadata(opt.Metadata); err != nil {
		return objstore.Info{}, s.breach(op, key, "%w", err)
	}
	switch {
	case !cond.Valid():
		return objstore.Info{}, s.breach(op, key, "a write without a valid condition")
	case len(body) == 0:
		return objstore.Info{}, s.breach(op, key, "an empty body")
	case immutable && !cond.Absent() && (len(past) > 0 && past[0] != sum || cond.Match() == old.info.Version && sha256.Sum256(old.body) == sum):
		return objstore.Info{}, s.breach(op, key, "segments are immutable: one that is there is only replaced by what was written, where it is damaged")
	case immutable && len(past) > 0 && past[0] != sum:
		return objstore.Info{}, s.breach(op, key, "the name of a segment used for a second upload, with other bytes")
	case immutable && len(past) > 0 && !exists && !s.opt.LateRetries:
		return objstore.Info{}, s.breach(op, key, "the name of a deleted segment used again")
	}

	// What the store decides.
	switch {
	case cond.Absent() && exists:
		return objstore.Info{}, s.answer(op, key, objstore.ErrPrecondition)
	case !cond.Absent() && !exists:
		return objstore.Info{}, s.answer(op, key, objstore.ErrGone)
	case !cond.Absent() && cond.Match() != old.info.Version:
		return objstore.Info{}, s.answer(op, key, objstore.ErrPrecondition)
	}

	// What is wrong only because it would now take effect.
	if manifest && slices.Contains(past, sum) {
		return objstore.Info{}, s.breach(op, key, "a manifest with the bytes of an earlier version: its version would come back, too")
	}
	if (immutable || manifest) && !slices.Contains(past, sum) {
		s.history[key] = append(past, sum)
	}
	return s.set(key, body, opt.Metadata), nil
}

// set writes an object, whatever the rules say; s.mu is held.
func (s *Store) set(key string, body []byte, metadata map[string]string) objstore.Info {
	s.writes++
	token := "v" + strconv.FormatUint(s.writes, 10)
	if s.opt.ContentVersions {
		sum := md5.Sum(body)
		token = `"` + hex.EncodeToString(sum[:]) + `"`
	}
	o := object{body: bytes.Clone(body), info: objstore.Info{
		Key: key, Size: int64(len(body)), Version: objstore.NewVersion(token),
		Modified: s.time(), Metadata: maps.Clone(metadata),
	}}
	s.objects[key] = o
	return s.reply(o)
}

// Delete implements objstore.Store. Deleting a manifest is a breach: tombstones
// are written, never made by removal (Drop plays the foreign hand that does).
func (s *Store) Delete(ctx context.Context, key string) error {
	const op = "Delete"
	if err := ctx.Err(); err != nil {
		return fail(op, key, objstore.ErrUndecided, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(key, manifests) {
		return s.breach(op, key, "manifests are never deleted")
	}
	delete(s.objects, key)
	return nil
}
