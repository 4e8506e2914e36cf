package faultstore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	. "github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

func put(t *testing.T, s objstore.Store, key, body string, c objstore.Condition) (objstore.Version, error) {
	t.Helper()
	info, err := s.Put(t.Context(), key, []byte(body), c, objstore.PutOptions{})
	return info.Version, err
}

func body(t *testing.T, s objstore.Store, key string) string {
	t.Helper()
	o, err := s.Get(t.Context(), key, objstore.GetOptions{})
	if errors.Is(err, objstore.ErrNotExist) {
		return "nothing"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(o.Body)
}

// Each fault of a Put: what the caller may conclude, and what is there.
func TestPut(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault Fault
		class objstore.Class
		there string // at once
		later string // after Release
	}{
		{"Fail(nil)", Fail(nil), objstore.Undecided, "nothing", "nothing"},
		{"Fail", Fail(errors.New("cable cut")), objstore.Undecided, "nothing", "nothing"},
		{"Fail(sentinel)", Fail(objstore.ErrGone), objstore.Precondition, "nothing", "nothing"},
		{"FailApplied", FailApplied(objstore.ErrThrottled), objstore.Undecided, "new", "new"},
		{"LostReply", LostReply(), objstore.Undecided, "new", "new"},
		{"Late", Late(), objstore.Undecided, "nothing", "new"},
		{"LateCopy", LateCopy(), objstore.Applied, "new", "new"},
		{"Duplicate", Duplicate(), objstore.Precondition, "new", "new"},
		{"Delay", Delay(time.Millisecond), objstore.Applied, "new", "new"},
		{"Unavailable", Unavailable(), objstore.Undecided, "nothing", "nothing"},
		{"Throttled", Throttled(), objstore.Undecided, "nothing", "nothing"},
		{"Conflict", Conflict(), objstore.TryAgain, "nothing", "nothing"},
		{"Denied", Denied(), objstore.Refused, "nothing", "nothing"},
		{"Refused", Refused(), objstore.Refused, "nothing", "nothing"},
		{"Unsupported", Unsupported(), objstore.Refused, "nothing", "nothing"},
		{"Rejected", Rejected(), objstore.NotApplied, "nothing", "nothing"},
		{"FailList", FailList(3, objstore.ErrDenied), objstore.Refused, "nothing", "nothing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem := memstore.New(t)
			s := New(mem)
			i := s.Inject(Rule{Match: Puts("k"), Fault: tc.fault})
			_, err := put(t, s, "k", "new", objstore.IfAbsent())
			if got := objstore.Classify(err); got != tc.class {
				t.Errorf("class %v, want %v (%v)", got, tc.class, err)
			}
			if e, ok := errors.AsType[*objstore.Error](err); err != nil && (!ok || e.Op != "Put" || e.Key != "k") {
				t.Errorf("error %#v does not say what failed", err)
			}
			if got := body(t, mem, "k"); got != tc.there {
				t.Errorf("%q is there, want %q", got, tc.there)
			}
			i.Release(t.Context())
			if got := body(t, mem, "k"); got != tc.later {
				t.Errorf("%q is there after Release, want %q", got, tc.later)
			}
			if i.Matches() != 1 || i.Hits() != 1 || i.Held() != 0 {
				t.Errorf("%d matches, %d hits, %d held; want 1, 1, 0", i.Matches(), i.Hits(), i.Held())
			}
		})
	}
}

// A late write meets the condition that holds when it arrives.
func TestLateJudgedAtRelease(t *testing.T) {
	mem := memstore.New(t)
	v, _ := put(t, mem, "k", "old", objstore.IfAbsent())
	s := New(mem)
	i := s.Inject(Rule{Match: Op("Put"), Nth: 1, Fault: Late()})
	late := []byte("late")
	if _, err := s.Put(t.Context(), "k", late, objstore.IfVersion(v), objstore.PutOptions{}); err == nil {
		t.Fatal("a late Put succeeds at once")
	}
	late[0] = 'X' // the caller may use its buffer again
	if _, err := put(t, s, "k", "newer", objstore.IfVersion(v)); err != nil {
		t.Fatal(err)
	}
	replies := i.Release(t.Context())
	if len(replies) != 1 || !errors.Is(replies[0], objstore.ErrPrecondition) {
		t.Errorf("replies to the late Put: %v, want one ErrPrecondition", replies)
	}
	if got := body(t, mem, "k"); got != "newer" {
		t.Errorf("%q is there, want newer", got)
	}

	late = []byte("late again")
	i = s.Inject(Rule{Match: Op("Put"), Nth: 1, Fault: Late()})
	_, _ = s.Put(t.Context(), "l", late, objstore.IfAbsent(), objstore.PutOptions{})
	late[0] = 'X'
	if replies := i.Release(t.Context()); len(replies) != 1 || replies[0] != nil {
		t.Errorf("replies %v, want one success", replies)
	}
	if got := body(t, mem, "l"); got != "late again" {
		t.Errorf("%q is there", got)
	}
}

func TestLateDropped(t *testing.T) {
	s := New(memstore.New(t))
	i := s.Inject(Rule{Fault: Late()})
	_ = s.Delete(t.Context(), "a")
	_, _ = s.Copy(t.Context(), "a", "b")
	if i.Held() != 2 {
		t.Errorf("%d held, want 2", i.Held())
	}
	i.Drop()
	if replies := i.Release(t.Context()); len(replies) != 0 {
		t.Errorf("released %v after Drop", replies)
	}
}

func TestReadsAndDelete(t *testing.T) {
	ctx := t.Context()
	mem := memstore.New(t)
	_, _ = put(t, mem, "k", "x", objstore.IfAbsent())
	for _, tc := range []struct {
		fault Fault
		want  error
	}{
		{Denied(), objstore.ErrDenied}, {Unavailable(), objstore.ErrUndecided}, {Late(), objstore.ErrUndecided},
		{FailApplied(objstore.ErrNotExist), objstore.ErrNotExist}, {FailList(0, nil), objstore.ErrUndecided},
	} {
		s := New(mem, Rule{Match: Not(Op("Delete")), Fault: tc.fault})
		if _, err := s.Get(ctx, "k", objstore.GetOptions{}); !errors.Is(err, tc.want) {
			t.Errorf("Get: %v, want %v", err, tc.want)
		}
		if _, err := s.Head(ctx, "k"); !errors.Is(err, tc.want) {
			t.Errorf("Head: %v, want %v", err, tc.want)
		}
		var last error
		for info, err := range s.List(ctx, "k", "") {
			if last = err; err != nil && info.Key != "" {
				t.Errorf("List: info %v beside error %v", info, err)
			}
		}
		if !errors.Is(last, tc.want) {
			t.Errorf("List: %v, want %v", last, tc.want)
		}
	}
	s := New(mem, Rule{Match: Op("Delete"), Nth: 1, Fault: Denied()}, Rule{Match: Op("Delete"), Nth: 2, Fault: LostReply()})
	if err := s.Delete(ctx, "k"); !errors.Is(err, objstore.ErrDenied) || body(t, mem, "k") != "x" {
		t.Errorf("first Delete: %v, %q is there", err, body(t, mem, "k"))
	}
	if err := s.Delete(ctx, "k"); !errors.Is(err, objstore.ErrUndecided) || body(t, mem, "k") != "nothing" {
		t.Errorf("second Delete: %v, %q is there", err, body(t, mem, "k"))
	}
}

func TestList(t *testing.T) {
	mem := memstore.New(t)
	for _, k := range []string{"a", "b", "c"} {
		mem.Replace(k, []byte("x"))
	}
	ran := 0
	for _, tc := range []struct {
		name  string
		fault Fault
		want  string
	}{
		{"Fail", Fail(nil), "!"},
		{"FailList 0", FailList(0, nil), "!"},
		{"FailList 2", FailList(2, nil), "ab!"},
		{"FailList 3", FailList(3, nil), "abc!"},
		{"FailList 9", FailList(9, nil), "abc!"},
		{"FailApplied", LostReply(), "abc!"},
		{"Late", Late(), "!"},
		{"Duplicate", Duplicate(), "abc"},
		{"Delay", Delay(time.Millisecond), "abc"},
		{"Before", Before(func() { ran++ }), "abc"},
		{"After", After(func() { ran++ }), "abc"},
	} {
		var got strings.Builder
		s := New(mem, Rule{Match: Op("List"), Fault: tc.fault})
		for info, err := range s.List(t.Context(), "", "") {
			got.WriteString(info.Key)
			if err != nil {
				got.WriteString("!")
			}
		}
		if got.String() != tc.want {
			t.Errorf("%s: listed %q, want %q", tc.name, got.String(), tc.want)
		}
	}
	if ran != 2 {
		t.Errorf("hooks ran %d times, want 2", ran)
	}
	for range New(mem, Rule{Fault: FailList(2, nil)}).List(t.Context(), "", "") {
		break // must not be called again
	}
}

func TestWhenRulesStrike(t *testing.T) {
	for _, tc := range []struct {
		nth, times int
		want       string // per call: x struck, . passed on
	}{
		{0, 0, "xxxxx"}, {1, 0, "x...."}, {3, 0, "..x.."}, {3, 2, "..xx."}, {3, -1, "..xxx"}, {0, 2, "xx..."}, {9, 0, "....."},
	} {
		s := New(memstore.New(t))
		i := s.Inject(Rule{Match: And(Op("Head"), Key("k")), Nth: tc.nth, Times: tc.times, Fault: Denied()})
		var got strings.Builder
		for range tc.want {
			_, _ = s.Head(t.Context(), "other")
			if _, err := s.Head(t.Context(), "k"); errors.Is(err, objstore.ErrDenied) {
				got.WriteByte('x')
			} else {
				got.WriteByte('.')
			}
		}
		if got.String() != tc.want || i.Matches() != 5 || i.Hits() != strings.Count(tc.want, "x") {
			t.Errorf("Nth %d, Times %d: %s, %d matches, %d hits; want %s", tc.nth, tc.times, got.String(), i.Matches(), i.Hits(), tc.want)
		}
	}
}

func TestSeveralRules(t *testing.T) {
	s := New(memstore.New(t))
	first := s.Inject(Rule{Nth: 2, Fault: Denied()})
	second := s.Inject(Rule{Fault: Unavailable()})
	var got []bool
	for range 3 {
		_, err := s.Head(t.Context(), "k")
		got = append(got, errors.Is(err, objstore.ErrDenied))
	}
	if got[0] || !got[1] || got[2] || first.Hits() != 1 || second.Matches() != 3 || second.Hits() != 2 {
		t.Errorf("denied %v, hits %d and %d", got, first.Hits(), second.Hits())
	}
	first.Stop()
	second.Stop()
	if _, err := s.Head(t.Context(), "k"); !errors.Is(err, objstore.ErrNotExist) || second.Matches() != 3 {
		t.Errorf("after Stop: %v, %d matches", err, second.Matches())
	}
}

// Hooks and edits see the store in between.
func TestHooksAndEdit(t *testing.T) {
	mem := memstore.New(t)
	v, _ := put(t, mem, "k", "old", objstore.IfAbsent())
	s := New(mem)
	s.Inject(Rule{Match: Puts("k"), Nth: 1, Fault: Before(func() {
		if _, err := put(t, s, "k", "other", objstore.IfVersion(v)); err != nil {
			t.Error(err)
		}
	})})
	if _, err := put(t, s, "k", "mine", objstore.IfVersion(v)); !errors.Is(err, objstore.ErrPrecondition) {
		t.Errorf("Put after somebody else's: %v", err)
	}
	s.Inject(Rule{Match: Op("Get"), Nth: 1, Fault: After(func() { mem.Drop("k") })})
	if got := body(t, s, "k"); got != "other" {
		t.Errorf("read %q, want other", got)
	}
	s.Inject(Rule{Match: Op("Put"), Nth: 1, Fault: Edit(func(o *objstore.Object) { o.Version = objstore.Version{} })})
	if v, err := put(t, s, "k", "again", objstore.IfAbsent()); err != nil || !v.IsZero() {
		t.Errorf("edited reply: version %v, %v", v, err)
	}
	s.Inject(Rule{Match: Op("Get"), Nth: 1, Fault: Edit(func(o *objstore.Object) { o.Body[0] ^= 1 })})
	if got := body(t, s, "k"); got != "`gain" {
		t.Errorf("edited reply: %q", got)
	}
}

func TestDelayInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(memstore.New(t), Rule{Match: Op("Put"), Fault: Delay(time.Minute)})
		start := time.Now()
		if _, err := put(t, s, "k", "x", objstore.IfAbsent()); err != nil || time.Since(start) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Put(ctx, "l", []byte("x"), objstore.IfAbsent(), objstore.PutOptions{})
		if objstore.Classify(err) != objstore.Undecided || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancelled while delayed: %v", err)
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	s := New(memstore.New(t))
	i := s.Inject(Rule{Match: Op("Head"), Nth: 50, Times: 100, Fault: Denied()})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				_, _ = s.Head(t.Context(), "k")
			}
		})
	}
	wg.Wait()
	if i.Matches() != 400 || i.Hits() != 100 {
		t.Errorf("%d matches, %d hits; want 400, 100", i.Matches(), i.Hits())
	}
}

// plain hides the inner store's Copy.
type plain struct{ objstore.Store }

func TestCopy(t *testing.T) {
	mem := memstore.New(t)
	_, _ = put(t, mem, "a", "x", objstore.IfAbsent())
	if _, err := New(plain{mem}).Copy(t.Context(), "a", "b"); !errors.Is(err, objstore.ErrUnsupported) {
		t.Errorf("Copy: %v, want ErrUnsupported", err)
	}
	s := New(mem, Rule{Match: And(Op("Copy"), Key("b")), Nth: 1, Fault: LostReply()})
	if _, err := s.Copy(t.Context(), "a", "b"); objstore.Classify(err) != objstore.Undecided || body(t, mem, "b") != "x" {
		t.Errorf("Copy with a lost reply: %v", err)
	}
	if s.Unwrap() != objstore.Store(mem) {
		t.Error("Unwrap is not the inner store")
	}
}
