package simulation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

// service is the store itself: what is there, what was there before, and its
// clock. Each request takes effect at one instant, and is seen by the witness in
// that same instant.
type service struct {
	r   *run
	mem *memstore.Store

	skew   atomic.Int64 // of its clock
	mu     sync.Mutex
	before map[string]objstore.Object // manifests before their newest write
	lists  []map[string]objstore.Info // listings, the newest last
}

func newService(r *run) *service {
	s := &service{r: r, before: map[string]objstore.Object{}}
	s.mem = memstore.NewWith(breaches{r}, memstore.Options{
		ContentVersions: r.plan.contentVersions, WholeSeconds: r.plan.wholeSeconds, LateRetries: true,
		Now: func() time.Time { return s.now() },
	})
	return s
}

// breaches makes a breach of the store's contract a broken promise of a run.
type breaches struct{ r *run }

func (breaches) Helper()                          {}
func (b breaches) Errorf(format string, a ...any) { b.r.fail("CONTRACT", format, a...) }

// now is the store's clock.
func (s *service) now() time.Time { return time.Now().Add(time.Duration(s.skew.Load())) }

// jump sets the store's clock.
func (s *service) jump(d time.Duration) { s.skew.Add(int64(d)) }

func isManifest(key string) bool { return strings.HasPrefix(key, "manifests/") }

func (s *service) put(p *port, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, gerr := s.mem.Get(context.Background(), key, objstore.GetOptions{})
	info, err := s.mem.Put(context.Background(), key, body, cond, opt)
	if s.r.plan.sabotaged && isManifest(key) && errors.Is(err, objstore.ErrPrecondition) {
		s.mem.Replace(key, body)
		info, err = s.mem.Head(context.Background(), key)
	}
	if err != nil {
		return info, err
	}
	if isManifest(key) {
		if gerr == nil {
			s.before[key] = was
		}
		s.r.witness.commit(p, key, body, info.Version)
	} else {
		s.r.count("segments uploaded", 1)
		s.r.witness.upload(p, key)
	}
	s.listed()
	return info, nil
}

func (s *service) copy(p *port, src, dst string) (objstore.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := s.mem.Copy(context.Background(), src, dst)
	if err == nil {
		s.r.witness.upload(p, dst)
		s.listed()
	}
	return info, err
}

func (s *service) delete(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.mem.Head(context.Background(), key); err == nil {
		s.r.witness.delete(key)
	}
	err := s.mem.Delete(context.Background(), key)
	s.listed()
	return err
}

// maxLists is how many changes a stale listing may be behind.
const maxLists = 8

// listed notes what a listing would say now, if any may be stale. s.mu is held.
func (s *service) listed() {
	if s.r.plan.rates[staleList] == 0 {
		return
	}
	now := map[string]objstore.Info{}
	for info := range s.mem.List(context.Background(), "", "") {
		now[info.Key] = info
	}
	if s.lists = append(s.lists, now); len(s.lists) > maxLists {
		s.lists = s.lists[1:]
	}
}

// list is a listing; age is how many changes it is behind.
func (s *service) list(prefix, after string, age int) (found []objstore.Info) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var old map[string]objstore.Info
	if age > 0 && len(s.lists) > 0 {
		old = s.lists[max(0, len(s.lists)-1-age)]
	}
	if old == nil {
		for info := range s.mem.List(context.Background(), prefix, after) {
			found = append(found, info)
		}
	}
	for key, info := range old {
		if strings.HasPrefix(key, prefix) && key > after {
			found = append(found, info)
		}
	}
	slices.SortFunc(found, func(a, b objstore.Info) int { return strings.Compare(a.Key, b.Key) })
	return found
}

// torn is what a read of a manifest may be answered with while it is being
// overwritten: parts of the write before.
func (s *service) torn(o objstore.Object, f fault) objstore.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.before[o.Key]
	switch {
	case !ok:
	case f == tornVersion:
		o.Version = was.Version
	case f == tornHead:
		o.Version, o.Metadata = was.Version, was.Metadata
	case f == tornBody:
		o.Body = was.Body
	}
	return o
}

var (
	errReset   = errors.New("connection reset by peer")
	errTimeout = errors.New("timed out waiting for the reply")
	errDead    = errors.New("the process has ended")
)
