package check_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/check"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

// stub is a store whose Put can be replaced; it counts.
type stub struct {
	*memstore.Store
	put  func(s *stub, ctx context.Context, key string, body []byte, cond objstore.Condition) (objstore.Info, error)
	puts atomic.Int64
	gets atomic.Int64
	dels atomic.Int64

	force sync.Mutex // one forced write at a time
}

func newStub(t *testing.T) *stub {
	return &stub{Store: memstore.NewWith(t, memstore.Options{ContentVersions: true})}
}

func (s *stub) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	s.puts.Add(1)
	if s.put != nil {
		return s.put(s, ctx, key, body, cond)
	}
	return s.Store.Put(ctx, key, body, cond, opt)
}

func (s *stub) real(ctx context.Context, key string, body []byte, cond objstore.Condition) (objstore.Info, error) {
	return s.Store.Put(ctx, key, body, cond, objstore.PutOptions{})
}

// forced writes whatever the condition says.
func (s *stub) forced(ctx context.Context, key string, body []byte) (objstore.Info, error) {
	s.force.Lock()
	defer s.force.Unlock()
	cond := objstore.IfAbsent()
	if info, err := s.Store.Head(ctx, key); err == nil {
		cond = objstore.IfVersion(info.Version)
	}
	return s.real(ctx, key, body, cond)
}

func (s *stub) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	s.gets.Add(1)
	return s.Store.Get(ctx, key, opt)
}

func (s *stub) Delete(ctx context.Context, key string) error {
	s.dels.Add(1)
	return s.Store.Delete(ctx, key)
}

func fault(class error) error {
	return &objstore.Error{Op: "Put", Key: "k", Class: class, Err: errors.New("injected")}
}

type putFunc = func(*stub, context.Context, string, []byte, objstore.Condition) (objstore.Info, error)

var (
	ignoring putFunc = func(s *stub, ctx context.Context, key string, body []byte, _ objstore.Condition) (objstore.Info, error) {
		return s.forced(ctx, key, body)
	}
	inverted putFunc = func(s *stub, ctx context.Context, key string, body []byte, cond objstore.Condition) (objstore.Info, error) {
		_, err := s.Store.Head(ctx, key)
		if cond.Absent() == (err != nil) {
			return objstore.Info{}, fault(objstore.ErrPrecondition)
		}
		return s.forced(ctx, key, body)
	}
)

// checkThenAct judges the condition when it has the header of a request, and
// writes when it has the body.
var checkThenAct putFunc = func(s *stub, ctx context.Context, key string, body []byte, cond objstore.Condition) (objstore.Info, error) {
	info, err := s.Store.Head(ctx, key)
	if cond.Absent() != (err != nil) || !cond.Absent() && info.Version != cond.Match() {
		return objstore.Info{}, fault(objstore.ErrPrecondition)
	}
	if hold := check.Hold(ctx); hold != nil {
		hold()
	}
	return s.forced(ctx, key, body)
}

func TestProve(t *testing.T) {
	tests := []struct {
		name string
		put  putFunc
		want string // part of the error, "" for success
		puts int64
	}{
		{"honest", nil, "", 4},
		{"ignores both (A-04)", ignoring, "If-None-Match: * must fail where an object is", 2},
		{"inverts the create (A-05)", inverted, "If-None-Match: * must succeed where no object is", 2},
		{"ignores If-Match", func(s *stub, ctx context.Context, key string, body []byte, cond objstore.Condition) (objstore.Info, error) {
			if cond.Absent() {
				return s.real(ctx, key, body, cond)
			}
			return s.forced(ctx, key, body)
		}, "If-Match must fail on a version that has been replaced", 5},
		{"checks, then writes", checkThenAct, "the store checks first and writes later", 5},
		{"never matches If-Match (A-06)", func(s *stub, ctx context.Context, key string, body []byte, cond objstore.Condition) (objstore.Info, error) {
			if cond.Absent() {
				return s.real(ctx, key, body, cond)
			}
			return objstore.Info{}, fault(objstore.ErrPrecondition)
		}, "If-Match must succeed on the current version", 8},
		{"lacks conditions", func(*stub, context.Context, string, []byte, objstore.Condition) (objstore.Info, error) {
			return objstore.Info{}, fault(objstore.ErrUnsupported)
		}, "not supported", 1},
		{"denied", func(*stub, context.Context, string, []byte, objstore.Condition) (objstore.Info, error) {
			return objstore.Info{}, fault(objstore.ErrDenied)
		}, "access denied", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStub(t)
			s.put = tt.put
			p, err := check.Prove(t.Context(), s)
			if got := s.puts.Load(); got != tt.puts {
				t.Errorf("%d PUTs, want %d", got, tt.puts)
			}
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(check.Profile{Conditional: true}, p); diff != "" {
					t.Error(diff)
				}
				if left := s.Snapshot("probe/"); len(left) != 0 {
					t.Errorf("probes left: %q", left)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			if !errors.Is(err, objstore.ErrRefused) {
				t.Errorf("error %v is not ErrRefused", err)
			}
		})
	}
}

// A proxy that weakens or drops ETags leaves no version to write on.
func TestProveNoVersion(t *testing.T) {
	s := newStub(t)
	noVersion := &headless{stub: s}
	_, err := check.Prove(t.Context(), noVersion)
	if !errors.Is(err, objstore.ErrUnsupported) || !strings.Contains(err.Error(), "strong ETag") {
		t.Errorf("got %v", err)
	}
}

type headless struct{ *stub }

func (h *headless) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	info, err := h.stub.Put(ctx, key, body, cond, opt)
	info.Version = objstore.Version{}
	return info, err
}

func (h *headless) Head(ctx context.Context, key string) (objstore.Info, error) {
	info, err := h.stub.Head(ctx, key)
	info.Version = objstore.Version{}
	return info, err
}

// Replies that decide nothing are tried again; a 412 to an own write whose
// reply was lost is no fault of the store.
func TestProveLostReplies(t *testing.T) {
	tests := []struct {
		name  string
		put   func(n int) (apply bool, err error) // n counts from 1
		class error
		rate  int
	}{
		{"unavailable once", func(n int) (bool, error) { return n != 1, fault(objstore.ErrUndecided) }, nil, 0},
		{"conflict on the third", func(n int) (bool, error) { return n != 3, fault(objstore.ErrConflict) }, nil, 0},
		{"throttled every second time", func(n int) (bool, error) { return n%2 == 1, fault(objstore.ErrThrottled) }, nil, 1},
		{"always down", func(int) (bool, error) { return false, fault(objstore.ErrUndecided) }, objstore.ErrUndecided, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStub(t)
				var n atomic.Int64
				s.put = func(s *stub, ctx context.Context, key string, body []byte, cond objstore.Condition) (objstore.Info, error) {
					if apply, err := tt.put(int(n.Add(1))); !apply {
						return objstore.Info{}, err
					}
					return s.real(ctx, key, body, cond)
				}
				start := time.Now()
				p, err := check.Prove(t.Context(), s)
				if !errors.Is(err, tt.class) {
					t.Fatalf("error %v, want %v", err, tt.class)
				}
				if p.Rate != tt.rate {
					t.Errorf("rate %d, want %d", p.Rate, tt.rate)
				}
				if d := time.Since(start); d > time.Minute {
					t.Errorf("took %v", d)
				}
			})
		})
	}
	t.Run("applied, reply lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStub(t)
			var creates, wins atomic.Int64
			s.put = func(s *stub, ctx context.Context, key string, body []byte, cond objstore.Condition) (objstore.Info, error) {
				info, err := s.real(ctx, key, body, cond)
				if err == nil && (cond.Absent() && creates.Add(1) == 1 || !cond.Absent() && wins.Add(1) == 1) {
					return objstore.Info{}, fault(objstore.ErrUndecided)
				}
				return info, err
			}
			if _, err := check.Prove(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if creates.Load() != 3 || wins.Load() != 2 {
				t.Errorf("%d keys, %d of them replaced: one create and one replacement were to be lost", creates.Load(), wins.Load())
			}
		})
	})
	t.Run("always applied, reply always lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStub(t)
			s.put = func(s *stub, ctx context.Context, key string, body []byte, cond objstore.Condition) (objstore.Info, error) {
				info, err := s.real(ctx, key, body, cond)
				if err == nil {
					err = fault(objstore.ErrUndecided)
				}
				return info, err
			}
			if _, err := check.Prove(t.Context(), s); !errors.Is(err, objstore.ErrUndecided) {
				t.Fatalf("got %v", err)
			}
		})
	})
}

func TestRace(t *testing.T) {
	s := newStub(t)
	got, err := check.Race(t.Context(), s, check.RaceOptions{Racers: 8, Rounds: 3})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(check.RaceResult{Races: 6}, got); diff != "" {
		t.Error(diff)
	}
	if left := s.Snapshot("probe/"); len(left) != 0 {
		t.Errorf("probes left: %q", left)
	}

	t.Run("check-then-act", func(t *testing.T) {
		s := newStub(t)
		var mu sync.Mutex
		seen := map[string]int{}
		// The check and the act are apart: the first two creates both pass.
		s.put = func(s *stub, ctx context.Context, key string, body []byte, cond objstore.Condition) (objstore.Info, error) {
			mu.Lock()
			defer mu.Unlock()
			id := key + cond.String()
			if seen[id]++; seen[id] <= 2 {
				return s.forced(ctx, key, body)
			}
			return objstore.Info{}, fault(objstore.ErrPrecondition)
		}
		_, err := check.Race(t.Context(), s, check.RaceOptions{})
		if !errors.Is(err, objstore.ErrUnsupported) || !strings.Contains(err.Error(), "2 of 16 did") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("nobody wins", func(t *testing.T) {
		s := newStub(t)
		s.put = inverted
		_, err := check.Race(t.Context(), s, check.RaceOptions{})
		if !errors.Is(err, objstore.ErrUnsupported) || !strings.Contains(err.Error(), "none of 16 did") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("lost replies", func(t *testing.T) {
		s := newStub(t)
		s.put = func(s *stub, ctx context.Context, key string, body []byte, cond objstore.Condition) (objstore.Info, error) {
			info, err := s.real(ctx, key, body, cond)
			if err == nil {
				return objstore.Info{}, fault(objstore.ErrThrottled)
			}
			return info, err
		}
		got, err := check.Race(t.Context(), s, check.RaceOptions{Racers: 4, Rounds: 1})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(check.RaceResult{Undecided: 2, Throttled: 2}, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("winner's bytes are not there", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStub(t)
			s.put = func(s *stub, ctx context.Context, key string, body []byte, cond objstore.Condition) (objstore.Info, error) {
				return s.real(ctx, key, append(body, '!'), cond)
			}
			_, err := check.Race(t.Context(), s, check.RaceOptions{Racers: 2, Rounds: 1})
			if !errors.Is(err, objstore.ErrUnsupported) {
				t.Errorf("got %v", err)
			}
		})
	})
}

func TestGuard(t *testing.T) {
	// A process proves a place once, also in a test that is repeated.
	again := rand.Text()
	place := func(t *testing.T) string { return "test:" + t.Name() + again }
	write := func(ctx context.Context, s objstore.Store, key string) error {
		_, err := s.Put(ctx, key, []byte(key), objstore.IfAbsent(), objstore.PutOptions{})
		return err
	}
	t.Run("once per place, never for reads", func(t *testing.T) {
		s := newStub(t)
		a, b := check.Guard(s, place(t)), check.Guard(s, place(t))
		a.Get(t.Context(), "x", objstore.GetOptions{})
		a.Head(t.Context(), "x")
		for range a.List(t.Context(), "", "") {
		}
		if n := s.puts.Load(); n != 0 {
			t.Fatalf("%d PUTs caused by reads", n)
		}
		var wg sync.WaitGroup
		for i, g := range []objstore.Store{a, b, a, b} {
			wg.Go(func() {
				if err := write(t.Context(), g, fmt.Sprint("k", i)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := s.puts.Load(); n != 4+4 {
			t.Errorf("%d PUTs, want 4 of the proof and 4 others", n)
		}
		if err := a.Delete(t.Context(), "k0"); err != nil {
			t.Error(err)
		}
		if _, err := a.(objstore.Copier).Copy(t.Context(), "k1", "k9"); err != nil {
			t.Error(err)
		}
		if n := s.puts.Load(); n != 4+4 {
			t.Errorf("%d PUTs after all", n)
		}
	})
	t.Run("unsafe", func(t *testing.T) {
		s := newStub(t)
		s.put = ignoring
		g := check.Guard(s, place(t))
		for range 2 {
			err := write(t.Context(), g, "k")
			if objstore.Classify(err) != objstore.Refused || !errors.Is(err, objstore.ErrUnsupported) {
				t.Fatalf("got %v", err)
			}
			var e *objstore.Error
			if !errors.As(err, &e) || e.Key != "k" || e.Hint == "" || !strings.Contains(err.Error(), "must fail where an object is") ||
				strings.Count(err.Error(), "Put") != 1 || strings.Count(err.Error(), objstore.ErrUnsupported.Error()) != 1 {
				t.Errorf("got %v", err)
			}
			if err := g.Delete(t.Context(), "k"); !errors.Is(err, objstore.ErrUnsupported) {
				t.Errorf("Delete: %v", err)
			}
			if _, err := g.(objstore.Copier).Copy(t.Context(), "k", "l"); !errors.Is(err, objstore.ErrUnsupported) {
				t.Errorf("Copy: %v", err)
			}
		}
		if n := s.puts.Load(); n != 2 {
			t.Errorf("%d PUTs, want the 2 of one failed proof", n)
		}
		if _, err := g.Get(t.Context(), "k", objstore.GetOptions{}); !errors.Is(err, objstore.ErrNotExist) {
			t.Errorf("an unsafe store must stay readable, got %v", err)
		}
	})
	t.Run("denied", func(t *testing.T) {
		for words, advice := range map[string]bool{"Access Denied": true, "not authorized to perform: kms:GenerateDataKey on resource: key/7": false} {
			s := newStub(t)
			s.put = func(*stub, context.Context, string, []byte, objstore.Condition) (objstore.Info, error) {
				return objstore.Info{}, &objstore.Error{Op: "Put", Class: objstore.ErrDenied, Code: "AccessDenied", Status: 403, Hint: "needs a right", Err: errors.New(words)}
			}
			err := write(t.Context(), check.Guard(s, place(t)+words), "k")
			var e *objstore.Error
			if !errors.As(err, &e) || !errors.Is(err, objstore.ErrDenied) || !strings.HasPrefix(e.Hint, "needs a right") || strings.Contains(e.Hint, "probe/") != advice || !strings.Contains(err.Error(), words) {
				t.Errorf("%v, hint %q", err, e.Hint)
			}
		}
	})
	t.Run("lost races are remembered", func(t *testing.T) {
		s := newStub(t)
		a, b := check.Guard(s, place(t)), check.Guard(s, place(t))
		if err := write(t.Context(), a, "k"); err != nil {
			t.Fatal(err)
		}
		s.put = inverted
		_, race := check.Race(t.Context(), decorated{a}, check.RaceOptions{Racers: 2, Rounds: 1})
		if !errors.Is(race, objstore.ErrUnsupported) {
			t.Fatal(race)
		}
		s.put = nil
		if err := write(t.Context(), b, "l"); !errors.Is(err, objstore.ErrUnsupported) || !strings.Contains(err.Error(), "none of 2 did") {
			t.Errorf("got %v", err)
		}
		if _, err := b.Get(t.Context(), "k", objstore.GetOptions{}); err != nil {
			t.Errorf("an unsafe store must stay readable, got %v", err)
		}
	})
	t.Run("a proof that could not be finished is made again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStub(t)
			down := true
			s.put = func(s *stub, ctx context.Context, key string, body []byte, cond objstore.Condition) (objstore.Info, error) {
				if down {
					return objstore.Info{}, fault(objstore.ErrUndecided)
				}
				return s.real(ctx, key, body, cond)
			}
			g := check.Guard(s, place(t))
			err := write(t.Context(), g, "k")
			if c := objstore.Classify(err); c != objstore.TryAgain {
				t.Errorf("%v is %v: it was not sent", err, c)
			}
			down = false
			if err := write(t.Context(), g, "k"); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("denied", func(t *testing.T) {
		s := newStub(t)
		s.put = func(*stub, context.Context, string, []byte, objstore.Condition) (objstore.Info, error) {
			return objstore.Info{}, fault(objstore.ErrDenied)
		}
		err := write(t.Context(), check.Guard(s, place(t)), "k")
		var e *objstore.Error
		if !errors.Is(err, objstore.ErrDenied) || !errors.As(err, &e) || !strings.Contains(e.Hint, "probe/") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("denied for what no right would change", func(t *testing.T) {
		s := newStub(t)
		s.put = func(*stub, context.Context, string, []byte, objstore.Condition) (objstore.Info, error) {
			return objstore.Info{}, &objstore.Error{Op: "Put", Key: "k", Class: objstore.ErrDenied, Code: "SignatureDoesNotMatch", Hint: "the secret key is wrong"}
		}
		err := write(t.Context(), check.Guard(s, place(t)), "k")
		var e *objstore.Error
		if !errors.Is(err, objstore.ErrDenied) || !errors.As(err, &e) || e.Hint != "the secret key is wrong" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a proved store is told about every write, also a cancelled one", func(t *testing.T) {
		s := newStub(t)
		g := check.Guard(s, place(t))
		if err := write(t.Context(), g, "k"); err != nil {
			t.Fatal(err)
		}
		proof := s.puts.Load()
		s.put = func(*stub, context.Context, string, []byte, objstore.Condition) (objstore.Info, error) {
			return objstore.Info{}, fault(objstore.ErrUndecided)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 50 { // of two things that are ready a select takes either
			if err := write(ctx, g, "l"); objstore.Classify(err) != objstore.Undecided {
				t.Errorf("got %v", err)
			}
		}
		if n := s.puts.Load() - proof; n != 50 {
			t.Errorf("%d of 50 writes were the store's to judge", n)
		}
	})
	t.Run("waiting can be cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStub(t)
			s.put = func(s *stub, ctx context.Context, _ string, _ []byte, _ objstore.Condition) (objstore.Info, error) {
				<-ctx.Done()
				return objstore.Info{}, fault(objstore.ErrUndecided)
			}
			g := check.Guard(s, place(t))
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					err := write(ctx, g, "k")
					if objstore.Classify(err) != objstore.TryAgain {
						t.Errorf("got %v", err)
					}
				})
			}
			synctest.Wait()
			cancel()
			wg.Wait()
		})
	})
}

// decorated is a store around another one.
type decorated struct{ objstore.Store }

func (d decorated) Unwrap() objstore.Store { return d.Store }

// Who waits for others gives up when they are late, and whom nobody awaits any
// more is not held at all.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub(t)
		lock := make(chan struct{}, 1)
		s.put = func(s *stub, ctx context.Context, key string, body []byte, cond objstore.Condition) (objstore.Info, error) {
			lock <- struct{}{} // a server that locks the key while it waits for the body
			defer func() { <-lock }()
			if hold := check.Hold(ctx); hold != nil {
				hold()
			}
			return s.real(ctx, key, body, cond)
		}
		begin := time.Now()
		if _, err := check.Prove(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d > 50*time.Millisecond {
			t.Errorf("a proof took %v", d)
		}
		if _, err := check.Race(t.Context(), s, check.RaceOptions{Racers: 16, Rounds: 4}); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d > 5*50*time.Millisecond { // of four rounds two meet, two times each
			t.Errorf("proof and races took %v", d)
		}
	})
}

func TestProfileText(t *testing.T) {
	for text, want := range map[string]check.Profile{
		"none":                     {},
		"conditional":              {Conditional: true},
		"conditional,raced":        {Conditional: true, Raced: true},
		"conditional,raced,rate=1": {Conditional: true, Raced: true, Rate: 1},
	} {
		got, err := check.ParseProfile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
		if got.String() != text {
			t.Errorf("%q came back as %q", text, got)
		}
	}
	for _, text := range []string{"raced", "conditional,rate=0", "conditional,rate=x", "conditional,,raced", "safe", "rate"} {
		if p, err := check.ParseProfile(text); err == nil {
			t.Errorf("%q read as %+v", text, p)
		}
	}
}
