package check_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/check"
)

func TestExamineHonest(t *testing.T) {
	w := newWorld()
	var each []check.Finding
	r := examine(t, w, func(o *check.Options) { o.Each = func(f check.Finding) { each = append(each, f) } })
	want := map[string]check.Status{}
	for _, name := range []string{
		check.NameReach, check.NameClock, check.NameConditional, check.NameRace, check.NameLatency, check.NameRate, check.NameConsistency,
		check.NameListing, check.NameMetadata, check.NameRead, check.NameWrite, check.NameList, check.NameDelete, check.NameCopy, check.NameProbes,
	} {
		want[name] = check.OK
	}
	if diff := cmp.Diff(want, statuses(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(each) != len(r.Findings) {
		t.Errorf("%d findings were told, %d are reported", len(each), len(r.Findings))
	}
	can(t, r, yes, yes, yes, yes)
	if want := "this store and these credentials can: read, append, list, collect"; r.Summary() != want {
		t.Error(r.Summary())
	}
	if r.Err() != nil || r.Profile.String() != "conditional,raced" || r.Put.Requests != 40 || r.Get.Requests != 40 {
		t.Errorf("%v, profile %s, %+v, %+v", r.Err(), r.Profile, r.Put, r.Get)
	}
	clean(t, w, r)
	if !w.scope.Write || !strings.HasPrefix(w.scope.Probe, "probe/") {
		t.Errorf("%+v", w.scope)
	}
}

// With credentials that may only read the report is right, too, and nothing is
// written.
func TestExamineReadOnly(t *testing.T) {
	readOnly := func(op, key string) error {
		if op == "Get" {
			return nil
		}
		return denial(op, key, "needs more rights")
	}
	t.Run("absent is told", func(t *testing.T) {
		w := newWorld()
		w.deny = readOnly
		r := examine(t, w)
		if err := r.Err(); err != nil {
			t.Error(err)
		}
		can(t, r, yes, no, no, no)
		if want := "this store and these credentials can: read; cannot: append, list, collect"; r.Summary() != want {
			t.Error(r.Summary())
		}
		sees(t, r, check.NameConditional, check.Skipped, "may not write below probe/")
		sees(t, r, check.NameRace, check.Skipped, "may not write below probe/")
		sees(t, r, check.NameRead, check.OK, "")
		sees(t, r, check.NameWrite, check.Denied, "needs more rights")
		sees(t, r, check.NameList, check.Denied, "needs more rights")
		sees(t, r, check.NameLatency, check.OK, "GET of an absent object")
		if r.Profile != (check.Profile{}) || w.scope.Write {
			t.Errorf("profile %s, scope %+v", r.Profile, w.scope)
		}
		if w.denied["Put"] > 2 {
			t.Errorf("%d writes were tried", w.denied["Put"])
		}
		clean(t, w, r)
	})
	// As S3 answers who may not list: 403 where nothing is.
	hidden := func(w *world) {
		w.deny = readOnly
		w.get = func(o objstore.Object, err error) (objstore.Object, error) {
			if errors.Is(err, objstore.ErrNotExist) {
				return objstore.Object{}, denial("Get", "k", "denied or absent")
			}
			return o, err
		}
	}
	t.Run("absent is denied", func(t *testing.T) {
		w := newWorld()
		hidden(w)
		r := examine(t, w)
		can(t, r, unk, no, no, no)
		sees(t, r, check.NameRead, check.Denied, "name a log that is there")
		if err := r.Err(); !errors.Is(err, objstore.ErrDenied) || !strings.Contains(err.Error(), "may not do anything") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("absent is denied, and a log is known", func(t *testing.T) {
		w := newWorld()
		for _, key := range []string{"manifests/a.json", "segments/a/0"} {
			if _, err := w.Put(t.Context(), key, []byte("x"), objstore.IfAbsent(), objstore.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		hidden(w)
		r := examine(t, w, func(o *check.Options) { o.Present = []string{"manifests/a.json", "segments/a/0"} })
		can(t, r, yes, no, no, no)
		if err := r.Err(); err != nil {
			t.Error(err)
		}
	})
	t.Run("nothing is permitted", func(t *testing.T) {
		w := newWorld()
		w.deny = func(op, key string) error { return denial(op, key, "ask somebody") }
		r := examine(t, w)
		can(t, r, unk, no, no, no)
		if err := r.Err(); !errors.Is(err, objstore.ErrDenied) {
			t.Errorf("got %v", err)
		}
	})
}

// Stores that must not be written to: the report says so, has no profile, and
// calls reading safe.
func TestExamineUnsafe(t *testing.T) {
	for name, tt := range map[string]struct {
		put     putFunc
		finding string
		seen    string
	}{
		"ignores conditions (A-04)": {ignoring, check.NameConditional, "the condition was ignored"},
		"inverts them (A-05)":       {inverted, check.NameConditional, "must succeed where no object is"},
		"never matches (A-06)": {func(s *stub, ctx context.Context, key string, body []byte, cond objstore.Condition) (objstore.Info, error) {
			if cond.Absent() {
				return s.real(ctx, key, body, cond)
			}
			return objstore.Info{}, fault(objstore.ErrPrecondition)
		}, check.NameConditional, "must succeed on the current version"},
		"has none": {func(*stub, context.Context, string, []byte, objstore.Condition) (objstore.Info, error) {
			return objstore.Info{}, fault(objstore.ErrUnsupported)
		}, check.NameConditional, "not supported"},
		"checks, then writes": {checkThenAct, check.NameConditional, "checks first and writes later"},
		"lets three race":     {threeAtATime(), check.NameRace, "of 4 did"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.stub.put = tt.put
			r := examine(t, w)
			sees(t, r, tt.finding, check.Failed, tt.seen)
			if err := r.Err(); !errors.Is(err, objstore.ErrUnsupported) || !strings.Contains(err.Error(), "writing here is not safe") {
				t.Errorf("got %v", err)
			}
			can(t, r, yes, no, yes, no)
			if r.Profile != (check.Profile{}) {
				t.Errorf("profile %s", r.Profile)
			}
			if left := w.Snapshot(""); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
	t.Run("weak ETags, or none (A-07)", func(t *testing.T) {
		r := examine(t, &headless{stub: newStub(nil)})
		sees(t, r, check.NameConditional, check.Failed, "strong ETag")
		if !errors.Is(r.Err(), objstore.ErrUnsupported) {
			t.Error(r.Err())
		}
	})
}

// threeAtATime is an honest store until three writers meet on a key.
func threeAtATime() putFunc {
	var mu sync.Mutex
	inside := map[string]int{}
	return func(s *stub, ctx context.Context, key string, body []byte, cond objstore.Condition) (objstore.Info, error) {
		id := key + cond.String()
		mu.Lock()
		inside[id]++
		mu.Unlock()
		if hold := check.Hold(ctx); hold != nil {
			hold()
		}
		mu.Lock()
		crowd := inside[id] >= 3
		mu.Unlock()
		if crowd {
			return s.forced(ctx, key, body)
		}
		return s.real(ctx, key, body, cond)
	}
}

// Where probes cannot be removed they are few, and named.
func TestExamineWithoutDelete(t *testing.T) {
	w := newWorld()
	w.deny = func(op, key string) error {
		if op == "Delete" {
			return denial(op, key, "needs s3:DeleteObject")
		}
		return nil
	}
	r := examine(t, w, func(o *check.Options) { o.Rounds = 20 })
	can(t, r, yes, yes, yes, no)
	sees(t, r, check.NameDelete, check.Denied, "needs s3:DeleteObject")
	sees(t, r, check.NameProbes, check.Warning, "could not be removed")
	sees(t, r, check.NameRace, check.OK, "24 races")
	left := w.Snapshot("")
	if len(left) != len(r.Left) || len(left) > 25 {
		t.Errorf("%d objects are left, %d are named", len(left), len(r.Left))
	}
	for _, key := range r.Left {
		if _, ok := left[key]; !ok {
			t.Errorf("%s is said to be left", key)
		}
	}
	if r.Err() != nil {
		t.Error(r.Err())
	}
}

// Where the right to write is the right to delete, one that denies nothing about what
// is not there is not believed.
func TestExamineWhereDeletesAreWrites(t *testing.T) {
	for _, writable := range []bool{true, false} {
		w := newWorld()
		w.descr = &check.Description{Trusted: true, Nowhere: objstore.NewVersion("none"), Markers: check.No, DeletesAsWrites: true}
		want := check.OK
		if !writable {
			want = check.Denied
			w.deny = func(op, key string) error {
				if op == "Put" || op == "Copy" {
					return denial(op, key, "look at its permissions")
				}
				return nil
			}
		}
		r := examine(t, w)
		sees(t, r, check.NameDelete, want, "permitted below segments/")
		if want == check.Denied {
			sees(t, r, check.NameDelete, want, "look at its permissions")
			can(t, r, yes, no, yes, no)
		}
	}
}

// keys that may write with a KMS key and not read with it.
func TestA15ExamineKMS(t *testing.T) {
	const hint = "the KMS key may not be used"
	w := newWorld()
	w.get = func(o objstore.Object, err error) (objstore.Object, error) {
		if err == nil {
			return objstore.Object{}, denial("Get", o.Key, hint)
		}
		return o, err
	}
	r := examine(t, w)
	sees(t, r, check.NameRead, check.Denied, hint)
	sees(t, r, check.NameRead, check.Denied, "if a KMS key is the reason")
	can(t, r, unk, unk, unk, unk)

	// With a log to look at there is no doubt.
	if _, err := w.Put(t.Context(), "manifests/a.json", []byte("x"), objstore.IfAbsent(), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	r = examine(t, w)
	sees(t, r, check.NameRead, check.Denied, hint)
	can(t, r, no, no, no, no)
}

// A-15, for writers: a key may not be used to encrypt.
func TestA15ExamineKMSWrite(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		w := newWorld()
		w.descr = &check.Description{Trusted: trusted, Nowhere: objstore.NewVersion("none"), Markers: check.No}
		w.deny = func(op, key string) error {
			if op == "Put" && strings.HasPrefix(key, "probe/") {
				return &objstore.Error{Op: op, Key: key, Class: objstore.ErrRefused, Code: "KMS.DisabledException", Status: 400, Hint: "the KMS key may not be used"}
			}
			return nil
		}
		r := examine(t, w)
		can(t, r, yes, no, yes, no)
		sees(t, r, check.NameConditional, check.Unknown, "KMS.DisabledException")
		sees(t, r, check.NameConditional, check.Unknown, "the KMS key may not be used")
	}
}

// Absence may be hidden from those who may not list: then what is there already
// is written over itself, on a condition that cannot hold.
func TestExamineHiddenAbsence(t *testing.T) {
	for _, mayWrite := range []bool{true, false} {
		w := newWorld()
		for _, key := range []string{"manifests/a.json", "segments/a/0"} {
			if _, err := w.Put(t.Context(), key, []byte("x"), objstore.IfAbsent(), objstore.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		before := w.Snapshot("")
		w.deny = func(op, key string) error {
			_, there := before[key]
			if tree := !strings.HasPrefix(key, "probe/"); op == "List" || tree && (!there || op == "Put" && !mayWrite) {
				return denial(op, key, "denied or absent")
			}
			return nil
		}
		w.descr = &check.Description{Nowhere: objstore.NewVersion("none"), Markers: check.Yes}
		r := examine(t, w)
		can(t, r, unk, unk, no, no)
		sees(t, r, check.NameWrite, check.Unknown, "doctor --log ID")

		r = examine(t, w, func(o *check.Options) { o.Present = []string{"manifests/a.json", "segments/a/0"} })
		if mayWrite {
			can(t, r, yes, yes, no, no)
		} else {
			can(t, r, yes, no, no, no)
			sees(t, r, check.NameWrite, check.Denied, "")
		}
		// A log without segments can be read: that is not to be denied everything, and
		// not to be sure of others.
		r = examine(t, w, func(o *check.Options) { o.Present = []string{"manifests/a.json"} })
		sees(t, r, check.NameRead, check.Unknown, "permitted below manifests/; what is not there is denied below segments/, and no segment is known")
		sees(t, r, check.NameRead, check.Unknown, "name a log that has segments")
		if err := r.Need(); err != nil {
			t.Error(err)
		}
		if err := r.Need("read"); err == nil || errors.Is(err, objstore.ErrDenied) {
			t.Error(err)
		}
		if diff := cmp.Diff(before, w.Snapshot("")); diff != "" {
			t.Error(diff)
		}
	}
}

func TestExamineOtherFaults(t *testing.T) {
	t.Run("metadata", func(t *testing.T) {
		w := newWorld()
		w.meta = true
		r := examine(t, w)
		sees(t, r, check.NameMetadata, check.Warning, "not kept")
		can(t, r, yes, yes, yes, yes)
	})
	t.Run("lists that are late", func(t *testing.T) {
		w := newWorld()
		w.list = func(prefix string, all []objstore.Info) []objstore.Info {
			return all[:max(0, len(all)-1)]
		}
		r := examine(t, w)
		sees(t, r, check.NameListing, check.Warning, "of 9 objects just written a list shows 8")
		can(t, r, yes, yes, no, no)
	})
	t.Run("lists that show what is removed", func(t *testing.T) {
		w := newWorld()
		var before []objstore.Info
		w.list = func(prefix string, all []objstore.Info) []objstore.Info {
			if prefix != "manifests/" && prefix != "segments/" {
				if before == nil {
					before = all
				}
				return before
			}
			return all
		}
		sees(t, examine(t, w), check.NameListing, check.Warning, "just removed")
	})
	t.Run("reads that are late", func(t *testing.T) {
		w := newWorld()
		first := map[string][]byte{}
		var mu sync.Mutex
		w.get = func(o objstore.Object, err error) (objstore.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			if bytes.HasPrefix(o.Body, []byte("0000")) {
				if first[o.Key] == nil {
					first[o.Key] = o.Body
				}
				o.Body = first[o.Key]
			}
			return o, err
		}
		slowly(w)
		r := examine(t, w)
		sees(t, r, check.NameConsistency, check.Failed, "had been replaced before")
		if !errors.Is(r.Err(), objstore.ErrUnsupported) {
			t.Error(r.Err())
		}
	})
	t.Run("reads of two versions", func(t *testing.T) {
		w := newWorld()
		w.get = func(o objstore.Object, err error) (objstore.Object, error) {
			if len(o.Body) > 8 && bytes.HasPrefix(o.Body, []byte("0000")) {
				o.Body = append(bytes.Clone(o.Body[:len(o.Body)-8]), "99999999"...)
			}
			return o, err
		}
		slowly(w)
		sees(t, examine(t, w), check.NameConsistency, check.Warning, "parts of two versions")
	})
	t.Run("an older ETag with a newer body", func(t *testing.T) {
		w := newWorld()
		var last objstore.Version
		var mu sync.Mutex
		w.get = func(o objstore.Object, err error) (objstore.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			if bytes.HasPrefix(o.Body, []byte("0000")) {
				if o.Version, last = last, o.Version; o.Version.IsZero() {
					o.Version = last
				}
			}
			return o, err
		}
		slowly(w)
		r := examine(t, w)
		sees(t, r, check.NameConsistency, check.OK, "the ETag of another")
		can(t, r, yes, yes, yes, yes)
	})
	t.Run("a store that is down", func(t *testing.T) {
		w := newWorld()
		w.get = func(objstore.Object, error) (objstore.Object, error) {
			return objstore.Object{}, &objstore.Error{Op: "Get", Class: objstore.ErrUndecided, Hint: "is it running?"}
		}
		r := examine(t, w)
		sees(t, r, check.NameReach, check.Failed, "is it running?")
		if err := r.Err(); !errors.Is(err, objstore.ErrUndecided) || len(r.Findings) != 1 {
			t.Errorf("got %v, %+v", err, r.Findings)
		}
	})
	t.Run("a server that has everything", func(t *testing.T) {
		w := newWorld()
		w.get = func(objstore.Object, error) (objstore.Object, error) { return objstore.Object{}, nil }
		r := examine(t, w)
		sees(t, r, check.NameReach, check.Failed, "no store of objects")
		if err := r.Err(); err == nil || errors.Is(err, objstore.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("keys that nobody knows", func(t *testing.T) {
		w := newWorld()
		w.deny = func(op, key string) error {
			return &objstore.Error{Op: op, Key: key, Class: objstore.ErrDenied, Code: "InvalidAccessKeyId", Status: 403}
		}
		r := examine(t, w)
		sees(t, r, check.NameReach, check.Failed, "not accepted")
		if !errors.Is(r.Err(), objstore.ErrDenied) {
			t.Error(r.Err())
		}
	})
}

// A store that answers writes with anything but a denial is not fine: nobody
// knows whether it is safe, and whoever asks before a deployment must notice.
func TestExamineUnknownSafety(t *testing.T) {
	w := newWorld()
	w.deny = func(op, key string) error {
		if op != "Put" {
			return nil
		}
		return &objstore.Error{Op: op, Key: key, Class: objstore.ErrRefused, Status: 404, Hint: "is there such a bucket?"}
	}
	r := examine(t, w)
	sees(t, r, check.NameConditional, check.Unknown, "refused")
	can(t, r, yes, no, yes, no)
	var e *objstore.Error
	if err := r.Err(); !errors.Is(err, objstore.ErrRefused) || errors.Is(err, objstore.ErrUnsupported) || !errors.As(err, &e) || e.Hint != "is there such a bucket?" {
		t.Errorf("%v", err)
	}
}

// A store that fails when it is written to in earnest was not found to be safe: the
// few small writes of the proof are not enough to say so.
func TestExamineFailsInTheRaces(t *testing.T) {
	w := newWorld()
	full := &objstore.Error{Op: "Put", Class: objstore.ErrUndecided, Hint: "free some space", Err: errors.New("no space left on device")}
	var puts atomic.Int64
	w.deny = func(op, key string) error {
		if op == "Put" && puts.Add(1) > 6 {
			return full
		}
		return nil
	}
	r := examine(t, w)
	sees(t, r, check.NameConditional, check.OK, "")
	sees(t, r, check.NameRace, check.Unknown, "no writer was told that it won")
	can(t, r, yes, unk, yes, unk)
	if err := r.Err(); !errors.Is(err, objstore.ErrUndecided) {
		t.Error(err)
	}
}

// slowly lets readers come in between writes.
func slowly(w *world) {
	w.stub.put = func(s *stub, ctx context.Context, key string, body []byte, cond objstore.Condition) (objstore.Info, error) {
		time.Sleep(200 * time.Microsecond)
		return s.real(ctx, key, body, cond)
	}
}

func TestExamineClock(t *testing.T) {
	for skew, want := range map[time.Duration]check.Status{
		0: check.OK, -4 * time.Minute: check.OK, 10 * time.Minute: check.Warning, -10 * time.Minute: check.Warning, time.Hour: check.Failed, -time.Hour: check.Failed,
	} {
		w := newWorld()
		w.skew = skew
		r := examine(t, w, func(o *check.Options) { o.Rounds = 1 })
		sees(t, r, check.NameClock, want, map[bool]string{true: "to the second", false: "this machine's"}[skew == 0])
		if err := r.Err(); (err != nil) != (want == check.Failed) || errors.Is(err, objstore.ErrUnsupported) {
			t.Errorf("%v: %v", skew, err)
		}
		can(t, r, yes, yes, yes, yes)
	}
}

// A store that takes few writes a second to one key is measured, and raced all
// the same.
func TestExamineRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var mu sync.Mutex
		last := map[string]time.Time{}
		w.stub.put = func(s *stub, ctx context.Context, key string, body []byte, cond objstore.Condition) (objstore.Info, error) {
			mu.Lock()
			defer mu.Unlock()
			if time.Since(last[key]) < time.Second {
				return objstore.Info{}, fault(objstore.ErrThrottled)
			}
			info, err := s.real(ctx, key, body, cond)
			if err == nil {
				last[key] = time.Now()
			}
			return info, err
		}
		w.get = func(o objstore.Object, err error) (objstore.Object, error) {
			time.Sleep(time.Millisecond) // readers that never wait would stop the clock
			return o, err
		}
		r := examine(t, w)
		sees(t, r, check.NameRate, check.OK, "about 1 a second")
		if r.Profile.String() != "conditional,raced,rate=1" {
			t.Errorf("profile %s: %+v", r.Profile, r.Findings)
		}
		can(t, r, yes, yes, yes, yes)
	})
}

// Whoever interrupts an examination still has its probes removed.
func TestExamineInterrupted(t *testing.T) {
	w := newWorld()
	ctx, cancel := context.WithCancel(t.Context())
	r := check.Examine(ctx, w, check.Options{Rounds: 4, Racers: 4, Each: func(f check.Finding) {
		if f.Name == check.NameLatency {
			cancel()
		}
	}})
	clean(t, w, r)
}
