package check_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/check"
)

// What a driver knows counts.
func TestExamineDescription(t *testing.T) {
	notProbes := func(op, key string) error {
		if strings.HasPrefix(key, "probe/") {
			return denial(op, key, "")
		}
		return nil
	}
	t.Run("trusted, without probes", func(t *testing.T) {
		w := newWorld()
		w.deny = notProbes
		w.descr = &check.Description{Name: "s3://b", Trusted: true, Nowhere: objstore.NewVersion("none"), Markers: check.No,
			Findings: []check.Finding{{Name: check.NameMetadata, Status: check.Warning, Seen: "of the driver"}}}
		r := examine(t, w)
		can(t, r, yes, yes, yes, yes)
		sees(t, r, check.NameMetadata, check.Warning, "of the driver")
		if n := len(r.Findings) - len(statuses(r)); n != 0 {
			t.Errorf("%d names come twice", n)
		}
		if r.Err() != nil || r.Store != "s3://b" || !r.ProfileUseless {
			t.Errorf("%v, %+v", r.Err(), r)
		}
		clean(t, w, r)
	})
	t.Run("not trusted, without probes", func(t *testing.T) {
		w := newWorld()
		w.deny = notProbes
		r := examine(t, w)
		can(t, r, yes, no, yes, no)
		sees(t, r, check.NameWrite, check.Denied, "where a store that is not known is tried")
	})
	t.Run("a profile stands in for the proof", func(t *testing.T) {
		w := newWorld()
		w.deny = notProbes
		w.descr = &check.Description{Nowhere: objstore.NewVersion("none"), Markers: check.No}
		r := examine(t, w, func(o *check.Options) { o.Profile.Conditional = true })
		can(t, r, yes, yes, yes, yes)
		if r.Profile != (check.Profile{}) {
			t.Errorf("profile %s, of nothing that was tried", r.Profile)
		}
	})
	t.Run("an unsafe setting", func(t *testing.T) {
		w := newWorld()
		w.descr = &check.Description{Findings: []check.Finding{{Name: "lifecycle", Status: check.Failed, Unsafe: true, Seen: "logs are deleted after 30 days"}}}
		r := examine(t, w)
		can(t, r, yes, no, yes, no)
		if err := r.Err(); !errors.Is(err, objstore.ErrUnsupported) || !strings.Contains(err.Error(), "after 30 days") {
			t.Errorf("got %v", err)
		}
		if r.Profile != (check.Profile{}) {
			t.Errorf("profile %s", r.Profile)
		}
	})
	t.Run("delete markers", func(t *testing.T) {
		w := newWorld()
		w.descr = &check.Description{Markers: check.Yes}
		w.deny = func(op, key string) error {
			if op == "Delete" && !strings.HasPrefix(key, "probe/") {
				t.Errorf("%s was deleted, where that leaves a marker", key)
			}
			return nil
		}
		r := examine(t, w)
		can(t, r, yes, yes, yes, unk)
		if !strings.HasSuffix(r.Summary(), "; not known: collect") {
			t.Error(r.Summary())
		}
	})
	t.Run("denied below one tree", func(t *testing.T) {
		w := newWorld()
		w.deny = func(op, key string) error {
			if op == "Put" && strings.HasPrefix(key, "segments/") {
				return denial(op, key, "needs s3:PutObject")
			}
			return nil
		}
		r := examine(t, w)
		can(t, r, yes, no, yes, yes)
		sees(t, r, check.NameWrite, check.Denied, "not permitted below segments/, permitted below manifests/")
	})
}
