package check_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/check"
)

// An auditor, who may read and list, has no line that says that something could not
// be found out: what he may not try is skipped.
func TestExamineAuditor(t *testing.T) {
	for _, markers := range []check.Answer{check.No, check.Yes, check.NotKnown} {
		w := newWorld()
		w.descr = &check.Description{Markers: markers}
		w.deny = func(op, key string) error {
			if op == "Get" || op == "List" {
				return nil
			}
			return denial(op, key, "needs more rights")
		}
		r := examine(t, w)
		for _, f := range r.Findings {
			if f.Status == check.Unknown {
				t.Errorf("markers %v: %+v", markers, f)
			}
		}
		can(t, r, yes, no, yes, no)
		if err := r.Need("read", "list"); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"append", "collect"} {
			if err := r.Need("read", name); !errors.Is(err, objstore.ErrDenied) || !strings.Contains(err.Error(), "these credentials cannot "+name+" here: ") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// What the store says about a denial is shown: it names action and resource, here
// the key of KMS. Who needs to write is told so by Need alone.
func TestExamineShowsTheStoresWords(t *testing.T) {
	const words = "User: u is not authorized to perform: kms:GenerateDataKey on resource: arn:aws:kms:x:1:key/7"
	for _, trusted := range []bool{false, true} {
		w := newWorld()
		w.descr = &check.Description{Trusted: trusted, Nowhere: objstore.NewVersion("none"), Markers: check.No}
		w.deny = func(op, key string) error {
			if op != "Put" {
				return nil
			}
			return &objstore.Error{Op: op, Key: key, Class: objstore.ErrDenied, Code: "AccessDenied", Status: 403, Hint: "the KMS key may not be used", Err: errors.New(words)}
		}
		r := examine(t, w)
		sees(t, r, check.NameConditional, check.Skipped, words)
		sees(t, r, check.NameWrite, check.Denied, words)
		can(t, r, yes, no, yes, no)
		if r.Err() != nil || r.Need() != nil || r.Need("read") != nil {
			t.Errorf("%v", r.Err())
		}
		err := r.Need("append")
		e, ok := errors.AsType[*objstore.Error](err)
		if !errors.Is(err, objstore.ErrDenied) || !ok || !strings.Contains(err.Error(), words) || !strings.Contains(e.Hint, "KMS key") {
			t.Errorf("%v", err)
		}
	}
}

// What is not known is no denial, and not enough either.
func TestNeedOfWhatIsNotKnown(t *testing.T) {
	r := &check.Report{Findings: []check.Finding{{Name: check.NameWrite, Status: check.Unknown, Seen: "no reply"}}}
	r.Can.Read = check.Yes
	if err := r.Need("read"); err != nil {
		t.Error(err)
	}
	if err := r.Need("append"); err == nil || errors.Is(err, objstore.ErrRefused) || !strings.Contains(err.Error(), "is not known: write: no reply") {
		t.Errorf("%v", err)
	}
	if err := r.Need("fly"); err == nil {
		t.Error("an ability that there is not")
	}
	r.Findings = append(r.Findings, check.Finding{Name: check.NameRace, Status: check.Failed, Unsafe: true, Seen: "two won"})
	if err := r.Need("read"); !errors.Is(err, objstore.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}
