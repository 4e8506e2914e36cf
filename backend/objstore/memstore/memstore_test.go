package memstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/s3log/s3log/backend/objstore"
)

// judge collects what the store reports.
type judge struct{ reports []string }

func (j *judge) Helper()                      {}
func (j *judge) Errorf(f string, args ...any) { j.reports = append(j.reports, fmt.Sprintf(f, args...)) }
func put(s *Store, key, body string, c objstore.Condition) (objstore.Version, error) {
	info, err := s.Put(context.Background(), key, []byte(body), c, objstore.PutOptions{})
	return info.Version, err
}

// version is that of an object that is there.
func version(t *testing.T, s *Store, key string) objstore.Version {
	t.Helper()
	info, err := s.Head(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return info.Version
}

func TestBreaches(t *testing.T) {
	absent := objstore.IfAbsent()
	const seg, man = "segments/a/1", "manifests/a.json"
	for _, tc := range []struct {
		name   string
		opt    Options
		do     func(t *testing.T, s *Store) error // the last call's error
		report string                             // part of the one report; "" if none is due
		is     error                              // nil: the last call succeeds
	}{
		{"no condition", Options{}, func(t *testing.T, s *Store) error {
			_, err := put(s, "k", "x", objstore.Condition{})
			return err
		}, "without a valid condition", objstore.ErrRejected},
		{"zero version", Options{}, func(t *testing.T, s *Store) error {
			_, err := put(s, "k", "x", objstore.IfVersion(objstore.Version{}))
			return err
		}, "without a valid condition", objstore.ErrRejected},
		{"empty body", Options{}, func(t *testing.T, s *Store) error {
			_, err := put(s, "k", "", absent)
			return err
		}, "empty body", objstore.ErrRejected},
		{"bad key", Options{}, func(t *testing.T, s *Store) error {
			_, err := put(s, "k/../l", "x", absent)
			return err
		}, "not allowed", objstore.ErrRejected},
		{"bad metadata", Options{}, func(t *testing.T, s *Store) error {
			_, err := s.Put(t.Context(), "k", []byte("x"), absent, objstore.PutOptions{Metadata: map[string]string{"a": "\n"}})
			return err
		}, "printable", objstore.ErrRejected},
		{"senseless range", Options{}, func(t *testing.T, s *Store) error {
			put(s, "k", "x", absent)
			_, err := s.Get(t.Context(), "k", objstore.GetOptions{Offset: 1})
			return err
		}, "make no sense", objstore.ErrRejected},
		{"segment overwritten", Options{}, func(t *testing.T, s *Store) error {
			v, _ := put(s, seg, "x", absent)
			_, err := put(s, seg, "y", objstore.IfVersion(v))
			return err
		}, "immutable", objstore.ErrRejected},
		{"segment put on itself", Options{}, func(t *testing.T, s *Store) error {
			v, _ := put(s, seg, "x", absent)
			_, err := put(s, seg, "x", objstore.IfVersion(v))
			return err
		}, "immutable", objstore.ErrRejected},
		{"segment repaired with other bytes", Options{}, func(t *testing.T, s *Store) error {
			put(s, seg, "x", absent)
			s.Replace(seg, []byte("damaged"))
			_, err := put(s, seg, "y", objstore.IfVersion(version(t, s, seg)))
			return err
		}, "immutable", objstore.ErrRejected},
		{"segment repaired", Options{}, func(t *testing.T, s *Store) error {
			put(s, seg, "x", absent)
			s.Replace(seg, []byte("damaged"))
			_, err := put(s, seg, "x", objstore.IfVersion(version(t, s, seg)))
			return err
		}, "", nil},
		{"segment retried", Options{}, func(t *testing.T, s *Store) error {
			put(s, seg, "x", absent)
			_, err := put(s, seg, "x", absent)
			return err
		}, "", objstore.ErrPrecondition},
		{"segment name with other bytes", Options{}, func(t *testing.T, s *Store) error {
			put(s, seg, "x", absent)
			_, err := put(s, seg, "y", absent)
			return err
		}, "second upload", objstore.ErrRejected},
		{"segment name after delete", Options{}, func(t *testing.T, s *Store) error {
			put(s, seg, "x", absent)
			s.Delete(t.Context(), seg)
			_, err := put(s, seg, "x", absent)
			return err
		}, "deleted segment", objstore.ErrRejected},
		{"late retry after delete", Options{LateRetries: true}, func(t *testing.T, s *Store) error {
			put(s, seg, "x", absent)
			s.Delete(t.Context(), seg)
			_, err := put(s, seg, "x", absent)
			return err
		}, "", nil},
		{"other bytes after delete", Options{LateRetries: true}, func(t *testing.T, s *Store) error {
			put(s, seg, "x", absent)
			s.Delete(t.Context(), seg)
			_, err := put(s, seg, "y", absent)
			return err
		}, "second upload", objstore.ErrRejected},
		{"copy on a used name", Options{}, func(t *testing.T, s *Store) error {
			put(s, seg, "x", absent)
			put(s, "segments/b/1", "y", absent)
			_, err := s.Copy(t.Context(), seg, "segments/b/1")
			return err
		}, "second upload", objstore.ErrRejected},
		{"dropped segment", Options{}, func(t *testing.T, s *Store) error {
			put(s, seg, "x", absent)
			s.Drop(seg)
			_, err := put(s, seg, "y", absent)
			return err
		}, "", nil},
		{"manifest repeated", Options{}, func(t *testing.T, s *Store) error {
			v, _ := put(s, man, "x", absent)
			v, _ = put(s, man, "y", objstore.IfVersion(v))
			_, err := put(s, man, "x", objstore.IfVersion(v))
			return err
		}, "earlier version", objstore.ErrRejected},
		{"manifest retried", Options{}, func(t *testing.T, s *Store) error {
			v, _ := put(s, man, "x", absent)
			put(s, man, "y", objstore.IfVersion(v))
			_, err := put(s, man, "y", objstore.IfVersion(v))
			return err
		}, "", objstore.ErrPrecondition},
		{"manifest restored by hand", Options{ContentVersions: true}, func(t *testing.T, s *Store) error {
			v, _ := put(s, man, "x", absent)
			put(s, man, "y", objstore.IfVersion(v))
			s.Replace(man, []byte("x"))
			_, err := put(s, man, "z", objstore.IfVersion(v))
			return err
		}, "", nil},
		{"manifest deleted", Options{}, func(t *testing.T, s *Store) error {
			put(s, man, "x", absent)
			return s.Delete(t.Context(), man)
		}, "never deleted", objstore.ErrRejected},
		{"other objects may repeat", Options{}, func(t *testing.T, s *Store) error {
			v, _ := put(s, "probe/1", "x", absent)
			put(s, "probe/1", "x", objstore.IfVersion(v))
			s.Delete(t.Context(), "probe/1")
			_, err := put(s, "probe/1", "x", absent)
			return err
		}, "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var j judge
			err := tc.do(t, NewWith(&j, tc.opt))
			if !errors.Is(err, tc.is) || (tc.is == nil) != (err == nil) {
				t.Errorf("error %v, want %v", err, tc.is)
			}
			switch {
			case tc.report == "" && len(j.reports) > 0:
				t.Errorf("reported without cause: %q", j.reports)
			case tc.report != "" && (len(j.reports) != 1 || !strings.Contains(j.reports[0], tc.report)):
				t.Errorf("reports %q, want one with %q", j.reports, tc.report)
			}
		})
	}
}

func TestBreachWithoutJudge(t *testing.T) {
	s := New(nil)
	if _, err := put(s, "k", "x", objstore.Condition{}); objstore.Classify(err) != objstore.NotApplied {
		t.Errorf("error %v, want one of class NotApplied", err)
	}
	if got := s.Snapshot(""); len(got) != 0 {
		t.Errorf("holds %q after a breach", got)
	}
}

func TestVersions(t *testing.T) {
	s := New(t)
	a, _ := put(s, "a", "same", objstore.IfAbsent())
	b, _ := put(s, "a", "same", objstore.IfVersion(a))
	if a == b {
		t.Errorf("two writes share version %v", a)
	}
	s = NewWith(t, Options{ContentVersions: true})
	a, _ = put(s, "a", "same", objstore.IfAbsent())
	b, _ = put(s, "b", "same", objstore.IfAbsent())
	if want := `"51037a4a37730f52c8732586d3aaa316"`; a != b || a.Token() != want {
		t.Errorf("versions %v and %v, want both %s", a, b, want)
	}
}

func TestClock(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	s := NewWith(t, Options{WholeSeconds: true, Now: func() time.Time { return at }})
	put(s, "a", "x", objstore.IfAbsent())
	later := at.Add(time.Hour)
	s.SetClock(func() time.Time { return later })
	info, err := s.Head(t.Context(), "a")
	if err != nil || !info.Modified.Equal(at.Truncate(time.Second)) || !info.Date.Equal(later.Truncate(time.Second)) {
		t.Errorf("modified %v, date %v, %v", info.Modified, info.Date, err)
	}
}

func TestInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t)
		put(s, "a", "x", objstore.IfAbsent())
		time.Sleep(time.Minute)
		info, err := s.Head(t.Context(), "a")
		if err != nil || info.Date.Sub(info.Modified) != time.Minute {
			t.Errorf("date %v, modified %v, %v", info.Date, info.Modified, err)
		}
	})
}

// Bodies and metadata belong to whoever passes or gets them.
func TestNothingShared(t *testing.T) {
	s := New(t)
	body, meta := []byte("body"), map[string]string{"k": "v"}
	if _, err := s.Put(t.Context(), "a", body, objstore.IfAbsent(), objstore.PutOptions{Metadata: meta}); err != nil {
		t.Fatal(err)
	}
	body[0], meta["k"] = 'X', "X"
	for range 2 {
		o, err := s.Get(t.Context(), "a", objstore.GetOptions{})
		if err != nil || string(o.Body) != "body" || o.Metadata["k"] != "v" {
			t.Fatalf("%q %q, %v", o.Body, o.Metadata, err)
		}
		o.Body[0], o.Metadata["k"] = 'Y', "Y"
	}
}
